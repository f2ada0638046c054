//! The watchdog (PFC deadlock detection): when a priority of a port counts as stormed, and for how
//! long.
//!
//! Rule: a priority is *stuck* while its peer has it paused without a break and frames wait for it;
//! since nothing that is paused is sent, it sends none. Stuck for longer than the detection time it
//! is *stormed*: its action is in force, and nothing is detected, until it is restored. A queue
//! that is slow, empty, or paused on and off is none of that.
//! - Restored after a time, at the end of an interval without XOFF, once no XOFF came for a time,
//!   or by hand ([`Restoration`]). Whatever is still paused then is stuck from that instant on.
//! - As many storms as the limit says, or more, within its period turn PFC off for the priority,
//!   until the limit is lifted.
//!
//! ```text
//!          paused, and frames wait            longer than the detection time
//!   Calm ───────────────────────────▶ Stuck ─────────────────────────────────▶ Storm
//!   ▲ ▲ ▲                              │ │                                       │
//!   │ │ └──────────────────────────────┘ │ … and as many in the period           │ restored, or watched no more
//!   │ │   the pause ended, or              │   as the limit says                   │
//!   │ │   nothing waits                    ▼                                       │
//!   │ └──────────────────────────────── Off: no PFC                               │
//!   │     the limit is lifted                                                     │
//!   └─────────────────────────────────────────────────────────────────────────────┘
//! ```
//! Times are exact: the owner looks in each turn in which a PFC frame came, each turn while a
//! paused priority has nothing that waits, and at [`PriorityWatchdog::deadline`], which is a nanosecond after
//! the time in question, since *longer* is the word.
//!
//! Source: docs/watchdog.md; docs/references.md, "H3C reference" (Configuring PFC deadlock
//! detection) and "Inspur white paper" (3.2.5).

use std::collections::VecDeque;

use crate::settings::{PfcWdAction, Restoration, WatchdogSettings};
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

/// What the owner sees of a priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PauseObservation {
    /// Since when the peer has had it paused without a break; `None`: it has not.
    pub paused_since: Option<Instant>,
    /// Frames wait for it.
    pub waits: bool,
    /// When the last XOFF for it came.
    pub heard_at: Instant,
}

/// What has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A storm: it had been stuck for so long.
    Began {
        /// More than the detection time.
        stuck_ns: Nanos,
    },
    /// It is restored.
    Ended,
    /// A storm that was one too many: PFC is off for the priority.
    LimitReached {
        /// More than the detection time.
        stuck_ns: Nanos,
        /// Storms in the period, this one too.
        times: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    Calm,
    /// Since `since`, by a pause that began at `pause`.
    Stuck {
        pause: Instant,
        since: Instant,
    },
    /// `interval` is when the running interval without XOFF began.
    Storm {
        began: Instant,
        interval: Instant,
    },
    Off,
}

/// The watchdog of one priority of a port.
#[derive(Debug, Serialize, Deserialize)]
pub struct PriorityWatchdog {
    /// `None`: it is not watched.
    settings: Option<WatchdogSettings>,
    state: State,
    /// When the last storms began, as many as the limit counts.
    begins: VecDeque<Instant>,
}

impl PriorityWatchdog {
    /// Calm.
    pub fn new(settings: Option<WatchdogSettings>) -> Self {
        let mut watch = Self { settings: None, state: State::Calm, begins: VecDeque::new() };
        watch.reconfigure(settings);
        watch
    }

    /// Other settings. A storm goes on by them, or ends at the next look if it is watched no more;
    /// without a limit PFC is not off.
    pub fn reconfigure(&mut self, settings: Option<WatchdogSettings>) {
        let limit = settings.and_then(|settings| settings.limit);
        if limit != self.settings.and_then(|settings| settings.limit) {
            self.begins = VecDeque::with_capacity(limit.map_or(0, |limit| limit.count.into()));
        }
        if limit.is_none() && self.state == State::Off {
            self.state = State::Calm;
        }
        self.settings = settings;
    }

    /// It is watched, or something is in force.
    pub fn is_on(&self) -> bool {
        self.settings.is_some() || self.state != State::Calm
    }

    /// It is watched.
    pub fn is_watched(&self) -> bool {
        self.settings.is_some()
    }

    /// What is in force because it is stormed.
    pub fn action(&self) -> Option<PfcWdAction> {
        matches!(self.state, State::Storm { .. }).then_some(self.settings?.action)
    }

    /// It is stormed.
    pub fn is_stormed(&self) -> bool {
        matches!(self.state, State::Storm { .. })
    }

    /// It is stormed until somebody restores it.
    pub fn needs_manual_recovery(&self) -> bool {
        self.is_stormed() && self.settings.is_some_and(|settings| settings.restore == Restoration::ByHand)
    }

    /// PFC is off, since there were too many storms.
    pub fn is_off(&self) -> bool {
        self.state == State::Off
    }

    /// The owner must look each turn: what is paused is stuck as soon as something waits.
    pub fn awaits(&self, seen: PauseObservation) -> bool {
        self.settings.is_some() && self.state == State::Calm && seen.paused_since.is_some()
    }

    /// When the owner must look if no pause begins before; [`Instant::NEVER`]: it need not.
    pub fn deadline(&self, heard_at: Instant) -> Instant {
        let Some(settings) = self.settings else {
            return if self.is_stormed() { Instant::default() } else { Instant::NEVER };
        };
        match self.state {
            State::Calm | State::Off => Instant::NEVER,
            State::Stuck { since, .. } => past(since, settings.detection_ns),
            State::Storm { began, interval } => match settings.restore {
                Restoration::After(nanos) => past(began, nanos),
                Restoration::QuietInterval => past(interval, settings.detection_ns),
                Restoration::Quiet(nanos) => past(began.max(heard_at), nanos),
                Restoration::ByHand => Instant::NEVER,
            },
        }
    }

    /// Looks at what is there at `now`.
    pub fn look(&mut self, seen: PauseObservation, now: Instant) -> Option<Change> {
        let Some(settings) = self.settings else {
            let was_stormed = self.is_stormed();
            self.state = State::Calm;
            return was_stormed.then_some(Change::Ended);
        };
        match self.state {
            State::Calm => self.state = Self::unstormed(seen, now),
            State::Stuck { pause, since } => {
                if seen.paused_since != Some(pause) || !seen.waits {
                    self.state = Self::unstormed(seen, now);
                } else if now >= self.deadline(seen.heard_at) {
                    return Some(self.storm(now.since(since), settings, now));
                }
            }
            State::Storm { began, .. } => {
                let interval = self.running_interval(settings.detection_ns, seen.heard_at, now);
                self.state = State::Storm { began, interval };
                if now >= self.deadline(seen.heard_at) {
                    self.state = Self::unstormed(seen, now);
                    return Some(Change::Ended);
                }
            }
            State::Off => {}
        }
        None
    }

    /// Restores it by hand, if that is what it waits for.
    pub fn recover(&mut self, seen: PauseObservation, now: Instant) -> Option<Change> {
        let waited = self.needs_manual_recovery();
        if waited {
            self.state = Self::unstormed(seen, now);
        }
        waited.then_some(Change::Ended)
    }

    /// PFC is no longer off, and storms are counted again. False: it was not off.
    pub fn lift(&mut self, seen: PauseObservation, now: Instant) -> bool {
        let was_off = self.is_off();
        if was_off {
            self.state = Self::unstormed(seen, now);
            self.begins.clear();
        }
        was_off
    }

    /// Calm, or stuck from now on.
    fn unstormed(seen: PauseObservation, now: Instant) -> State {
        match seen {
            PauseObservation { paused_since: Some(pause), waits: true, .. } => {
                State::Stuck { pause, since: now }
            }
            _ => State::Calm,
        }
    }

    fn storm(&mut self, stuck_ns: Nanos, settings: WatchdogSettings, now: Instant) -> Change {
        self.state = State::Storm { began: now, interval: now };
        let Some(limit) = settings.limit else { return Change::Began { stuck_ns } };
        while self.begins.front().is_some_and(|&begin| now.since(begin) > limit.period_ns) {
            self.begins.pop_front();
        }
        self.begins.push_back(now);
        if self.begins.len() < usize::from(limit.count) {
            return Change::Began { stuck_ns };
        }
        let times = self.begins.len() as u32;
        self.begins.clear();
        self.state = State::Off;
        Change::LimitReached { stuck_ns, times }
    }

    /// When the interval began that is running, or that has just ended without XOFF: those before
    /// it had some.
    fn running_interval(&self, every: Nanos, heard_at: Instant, now: Instant) -> Instant {
        let State::Storm { mut interval, .. } = self.state else { return now };
        while now >= past(interval, every) && heard_at > interval {
            interval = interval + every;
        }
        interval
    }
}

/// The first instant that is more than `nanos` after `from`.
fn past(from: Instant, nanos: Nanos) -> Instant {
    from + nanos + 1
}

#[cfg(test)]
mod tests;
