//! The watchdog (PFC deadlock detection): when a priority of a port counts as stormed, and for how
//! long.
//!
//! Rule: a priority is *stuck* while its peer has it paused without a break and frames wait for it.
//! Since no paused frame is sent, it sends none. If it is stuck for longer than the detection time,
//! it is *stormed*: its action is in force, and nothing is detected, until it is restored. A queue
//! that is slow, empty, or paused on and off is not stuck.
//! - Restored after a time, at the end of an interval without XOFF, once no XOFF arrived for a
//!   time, or by hand ([`Restoration`]). A priority that is still paused then is stuck from that
//!   instant on.
//! - As many storms as the limit, or more, within its period turn PFC off for the priority, until
//!   the limit is lifted.
//!
//! ```text
//!          paused, and frames wait            longer than the detection time
//!   Calm ───────────────────────────▶ Stuck ─────────────────────────────────▶ Storm
//!   ▲ ▲ ▲                              │ │                                       │
//!   │ │ └──────────────────────────────┘ │ … and as many in the period           │ restored, or
//!   │ │   the pause ended, or              │   as the limit says                   │ not watched
//!   │ │   nothing waits                    ▼                                       │ any more
//!   │ └──────────────────────────────── Off: no PFC                               │
//!   │     the limit is lifted                                                     │
//!   └─────────────────────────────────────────────────────────────────────────────┘
//! ```
//! Times are exact. The owner polls in each iteration in which a PFC frame arrived, in each
//! iteration while a paused priority has no queued frames, and at [`PriorityWatchdog::deadline`].
//! That is a nanosecond after the time in question, since the condition is *longer*.
//!
//! Source: docs/watchdog.md; docs/references.md, "H3C reference" (Configuring PFC deadlock
//! detection) and "Inspur white paper" (3.2.5).

use std::collections::VecDeque;

use crate::settings::{PfcWdAction, Restoration, WatchdogSettings};
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

/// State of a priority as the watchdog observes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PauseObservation {
    /// Time since which the peer has had it paused without a break; `None` if it is not paused.
    pub paused_since: Option<Instant>,
    /// True if frames wait for it.
    pub has_queued_frames: bool,
    /// Time at which its last XOFF arrived.
    pub received_at: Instant,
}

/// Change that a poll found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StormChange {
    /// A storm began.
    Began {
        /// Time stuck, more than the detection time.
        stuck_ns: Nanos,
    },
    /// The priority was restored.
    Ended,
    /// A storm reached the limit: PFC is off for the priority.
    LimitReached {
        /// Time stuck, more than the detection time.
        stuck_ns: Nanos,
        /// Storms in the period, including this one.
        times: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    Calm,
    /// Stuck since `since`, by a pause that began at `pause`.
    Stuck {
        pause: Instant,
        since: Instant,
    },
    /// Stormed; `interval` is the start of the present interval without XOFF.
    Storm {
        began: Instant,
        interval: Instant,
    },
    Off,
}

/// Watchdog of one priority of a port.
#[derive(Debug, Serialize, Deserialize)]
pub struct PriorityWatchdog {
    /// Settings; `None` if the priority is not watched.
    settings: Option<WatchdogSettings>,
    state: State,
    /// Start times of the last storms, as many as the limit counts.
    begins: VecDeque<Instant>,
}

impl PriorityWatchdog {
    /// Makes a calm watchdog.
    pub fn new(settings: Option<WatchdogSettings>) -> Self {
        let mut watch = Self { settings: None, state: State::Calm, begins: VecDeque::new() };
        watch.reconfigure(settings);
        watch
    }

    /// Applies other settings. A storm continues by them, or ends at the next poll if the priority
    /// is no longer watched. Without a limit PFC is not off.
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

    /// True if the priority is watched, or an action is in force.
    pub fn is_on(&self) -> bool {
        self.settings.is_some() || self.state != State::Calm
    }

    /// True if the priority is watched.
    pub fn is_watched(&self) -> bool {
        self.settings.is_some()
    }

    /// Returns the action in force because of a storm.
    pub fn action(&self) -> Option<PfcWdAction> {
        matches!(self.state, State::Storm { .. }).then_some(self.settings?.action)
    }

    /// True if the priority is stormed.
    pub fn is_stormed(&self) -> bool {
        matches!(self.state, State::Storm { .. })
    }

    /// True if the priority is stormed until it is restored by hand.
    pub fn needs_manual_recovery(&self) -> bool {
        self.is_stormed() && self.settings.is_some_and(|settings| settings.restore == Restoration::Manual)
    }

    /// True if PFC is off, since there were too many storms.
    pub fn is_off(&self) -> bool {
        self.state == State::Off
    }

    /// True if the owner must poll each iteration: a paused priority is stuck as soon as a frame
    /// waits.
    pub fn needs_poll(&self, seen: PauseObservation) -> bool {
        self.settings.is_some() && self.state == State::Calm && seen.paused_since.is_some()
    }

    /// Returns when the owner must poll if no pause begins before; [`Instant::NEVER`] if never.
    pub fn deadline(&self, received_at: Instant) -> Instant {
        let Some(settings) = self.settings else {
            return if self.is_stormed() { Instant::default() } else { Instant::NEVER };
        };
        match self.state {
            State::Calm | State::Off => Instant::NEVER,
            State::Stuck { since, .. } => first_instant_after(since, settings.detection_ns),
            State::Storm { began, interval } => match settings.restore {
                Restoration::After(nanos) => first_instant_after(began, nanos),
                Restoration::QuietInterval => first_instant_after(interval, settings.detection_ns),
                Restoration::Quiet(nanos) => first_instant_after(began.max(received_at), nanos),
                Restoration::Manual => Instant::NEVER,
            },
        }
    }

    /// Polls the watchdog with the observation at `now`.
    pub fn poll(&mut self, seen: PauseObservation, now: Instant) -> Option<StormChange> {
        let Some(settings) = self.settings else {
            let was_stormed = self.is_stormed();
            self.state = State::Calm;
            return was_stormed.then_some(StormChange::Ended);
        };
        match self.state {
            State::Calm => self.state = Self::calm_or_stuck(seen, now),
            State::Stuck { pause, since } => {
                if seen.paused_since != Some(pause) || !seen.has_queued_frames {
                    self.state = Self::calm_or_stuck(seen, now);
                } else if now >= self.deadline(seen.received_at) {
                    return Some(self.storm(now.since(since), settings, now));
                }
            }
            State::Storm { began, .. } => {
                let interval = self.running_interval(settings.detection_ns, seen.received_at, now);
                self.state = State::Storm { began, interval };
                if now >= self.deadline(seen.received_at) {
                    self.state = Self::calm_or_stuck(seen, now);
                    return Some(StormChange::Ended);
                }
            }
            State::Off => {}
        }
        None
    }

    /// Restores the priority by hand, if it waits for that.
    pub fn recover(&mut self, seen: PauseObservation, now: Instant) -> Option<StormChange> {
        let waited = self.needs_manual_recovery();
        if waited {
            self.state = Self::calm_or_stuck(seen, now);
        }
        waited.then_some(StormChange::Ended)
    }

    /// Turns PFC on again and restarts the count of storms. Returns false if PFC was not off.
    pub fn lift(&mut self, seen: PauseObservation, now: Instant) -> bool {
        let was_off = self.is_off();
        if was_off {
            self.state = Self::calm_or_stuck(seen, now);
            self.begins.clear();
        }
        was_off
    }

    /// Returns the state without a storm: calm, or stuck from now on.
    fn calm_or_stuck(seen: PauseObservation, now: Instant) -> State {
        match seen {
            PauseObservation { paused_since: Some(pause), has_queued_frames: true, .. } => {
                State::Stuck { pause, since: now }
            }
            _ => State::Calm,
        }
    }

    fn storm(&mut self, stuck_ns: Nanos, settings: WatchdogSettings, now: Instant) -> StormChange {
        self.state = State::Storm { began: now, interval: now };
        let Some(limit) = settings.limit else { return StormChange::Began { stuck_ns } };
        while self.begins.front().is_some_and(|&begin| now.since(begin) > limit.period_ns) {
            self.begins.pop_front();
        }
        self.begins.push_back(now);
        if self.begins.len() < usize::from(limit.count) {
            return StormChange::Began { stuck_ns };
        }
        let times = self.begins.len() as u32;
        self.begins.clear();
        self.state = State::Off;
        StormChange::LimitReached { stuck_ns, times }
    }

    /// Returns the start of the present interval, or of the one that has just ended without XOFF.
    /// Earlier intervals had some.
    fn running_interval(&self, every: Nanos, received_at: Instant, now: Instant) -> Instant {
        let State::Storm { mut interval, .. } = self.state else { return now };
        while now >= first_instant_after(interval, every) && received_at > interval {
            interval = interval + every;
        }
        interval
    }
}

/// Returns the first instant that is more than `nanos` after `from`.
fn first_instant_after(from: Instant, nanos: Nanos) -> Instant {
    from + nanos + 1
}

#[cfg(test)]
mod tests;
