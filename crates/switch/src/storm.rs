//! What a switch does about storms: which priorities of a port its watchdogs hold for stormed is the rule of [`crate::watchdog`]; here is
//! what follows from it for queues, groups and pauses, and what is counted.
//!
//! Rule, as long as a priority of a port is stormed:
//! - *forward*: its pauses are ignored;
//! - *drop*: the queues that its pause stops lose what waits and take nothing more, and its group takes nothing that comes in (both
//!   counted as `watchdog`); the neighbour is told nothing of it, but for XON if it was in XOFF.
//!
//! While PFC is off for it, since there were too many storms, its pauses are ignored and its group is a lossy one.
//! Source: docs/watchdog.md; docs/references.md, "H3C reference" (Configuring PFC deadlock detection) and "Inspur white paper" (3.2.5).

use std::collections::VecDeque;

use crate::counters::{DropReason, PortSnapshot, PrioritySnapshot, StormSnapshot, StormTraffic};
use crate::event::Event;
use crate::memory::Memory;
use crate::settings::{PRIORITIES, PortSettings, StormAction, SwitchSettings};
use crate::switch::Switch;
use crate::time::Instant;
use crate::watchdog::{Change, Watch};
use serde::{Deserialize, Serialize};
use wire::set::{Set8, Set64};

/// Storms of a port that are remembered.
pub const HISTORY: usize = 16;

/// The watchdogs of a port's priorities, and what they have seen.
#[derive(Debug, Serialize, Deserialize)]
pub struct Watchdog {
    priorities: Box<[Priority; PRIORITIES]>,
    /// Some priority is watched, or something is in force.
    is_on: bool,
    history: VecDeque<StormSnapshot>,
}

/// A priority's watchdog, and what was counted of its storms.
#[derive(Debug, Serialize, Deserialize)]
struct Priority {
    watch: Watch,
    storms: u64,
    restored: u64,
    /// What had passed when the running storm began.
    before: StormTraffic,
    /// What passed in all storms that are over, and in the last of them.
    total: StormTraffic,
    last: StormTraffic,
}

impl Watchdog {
    /// The watchdogs of a port with these settings.
    pub fn new(settings: &PortSettings) -> Self {
        let of = |p| Priority {
            watch: Watch::new(settings.watchdog_of(p)),
            storms: 0,
            restored: 0,
            before: StormTraffic::default(),
            total: StormTraffic::default(),
            last: StormTraffic::default(),
        };
        let mut watchdog = Self {
            priorities: Box::new(std::array::from_fn(of)),
            is_on: false,
            history: VecDeque::with_capacity(HISTORY),
        };
        watchdog.note_whether_on();
        watchdog
    }

    /// Other settings; what they end is noticed at the next look, which must come.
    pub fn reconfigure(&mut self, settings: &PortSettings) {
        for (p, priority) in self.priorities.iter_mut().enumerate() {
            priority.watch.reconfigure(settings.watchdog_of(p));
        }
        self.is_on |= self.priorities.iter().any(|priority| priority.watch.is_on());
    }

    /// Something is to be looked for, or is in force.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// The watchdog of a priority.
    pub fn of(&mut self, priority: usize) -> &mut Watch {
        &mut self.priorities[priority].watch
    }

    /// Priorities whose pauses are ignored, that are dropped, and for which PFC is off.
    pub fn in_force(&self) -> (Set8, Set8, Set8) {
        let those = |of: &dyn Fn(&Watch) -> bool| -> Set8 {
            (0..PRIORITIES).filter(|&p| of(&self.priorities[p].watch)).collect()
        };
        (
            those(&|watch| watch.action() == Some(StormAction::Forward)),
            those(&|watch| watch.action() == Some(StormAction::Drop)),
            those(&Watch::is_off),
        )
    }

    fn note_whether_on(&mut self) {
        self.is_on = self.priorities.iter().any(|priority| priority.watch.is_on());
    }

    /// Counts a storm; `passed` is what had passed of the priority until now.
    fn begin(&mut self, priority: usize, storm: StormSnapshot, passed: StormTraffic) {
        let of = &mut self.priorities[priority];
        of.storms += 1;
        of.before = passed;
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(storm);
    }

    /// … and its end.
    fn end(&mut self, priority: usize, passed: StormTraffic, now: Instant) {
        let of = &mut self.priorities[priority];
        of.restored += 1;
        of.last = passed.since(of.before);
        of.total = of.total + of.last;
        let runs =
            |storm: &&mut StormSnapshot| usize::from(storm.priority) == priority && storm.ended_ns.is_none();
        if let Some(storm) = self.history.iter_mut().rev().find(runs) {
            (storm.ended_ns, storm.traffic) = (Some(now.0), of.last);
        }
    }

    /// Fills in what is known of a priority.
    pub(crate) fn snapshot(&self, priority: usize, out: &mut PrioritySnapshot) {
        let Priority { watch, storms, restored, .. } = &self.priorities[priority];
        out.watched = watch.is_watched();
        out.stormed = watch.is_stormed();
        out.recovery_pending = watch.waits_for_hand();
        out.limit_reached = watch.is_off();
        (out.storms, out.storms_restored) = (*storms, *restored);
    }

    /// The last storms.
    pub(crate) fn history(&self, out: &mut Vec<StormSnapshot>) {
        out.clear();
        out.extend(&self.history);
    }
}

impl Switch {
    /// Lets all watchdogs look that have something to look at, and counts PFC frames up, if it is time.
    #[cold]
    pub(crate) fn look_around<M: Memory>(&mut self, now: Instant, memory: &mut M) {
        for port in self.awaiting {
            self.watch(port, now, memory);
        }
        if now < self.due_at {
            return;
        }
        self.count_pfc(now);
        self.due_at = self.pfc_rates.due_at();
        for port in 0..self.egress.len() {
            self.watch(port, now, memory);
        }
    }

    /// Lets the watchdog of a port look, and does what it says.
    pub(crate) fn watch<M: Memory>(&mut self, port: usize, now: Instant, memory: &mut M) {
        if !self.egress[port].watchdog().is_on() {
            return;
        }
        for priority in 0..PRIORITIES {
            if let Some(change) = self.egress[port].look(priority, now) {
                self.tell_storm(port, priority, change, now);
            }
        }
        self.obey_watchdog(port, now, memory);
    }

    /// What the watchdog of a port wants is so from now on.
    fn obey_watchdog<M: Memory>(&mut self, port: usize, now: Instant, memory: &mut M) {
        let (in_force, changed) = self.egress[port].obey_watchdog();
        let (settings, percent) = (&self.settings.ports[port], self.settings.usage_percent);
        let different = self.ingress[port].obey_watchdog(in_force, settings, percent, &mut self.pools);
        let dropping = self.egress[port].dropping();
        if !dropping.is_empty() {
            self.flush_queues(port, (dropping, DropReason::Watchdog), now, memory);
        }
        if different {
            (0..PRIORITIES).for_each(|priority| self.examine(port, priority, now));
            self.ingress[port].tell_again();
        }
        if different || changed {
            self.add_work(self.up.and(Set64::of(port)));
        }
        self.egress[port].watchdog().note_whether_on();
        self.awaiting.set(port, self.egress[port].awaits(now));
        self.due_at = self.due_at.min(self.egress[port].watchdog_deadline());
    }

    /// Counts what the watchdog has found, and tells of it.
    fn tell_storm(&mut self, port: usize, priority: usize, change: Change, now: Instant) {
        let passed = self.storm_traffic(port, priority);
        let action = self.settings.ports[port].watchdog_of(priority).map(|settings| settings.action);
        let storm = |stuck_ns, limit_reached: bool| StormSnapshot {
            priority: priority as u8,
            began_ns: now.0,
            stuck_ns,
            drops: action == Some(StormAction::Drop) && !limit_reached,
            limit_reached,
            ..StormSnapshot::default()
        };
        let local_precedence = self.settings.ports[port].classify.dot1p_to_queue[priority];
        let watchdog = self.egress[port].watchdog();
        match change {
            Change::Began { stuck_ns } => {
                watchdog.begin(priority, storm(stuck_ns, false), passed);
                let pending = watchdog.of(priority).waits_for_hand();
                self.events.push(now, Event::StormBegan { port, priority });
                if pending {
                    self.events.push(now, Event::RecoveryPending { port, priority });
                }
            }
            Change::Ended => {
                watchdog.end(priority, passed, now);
                self.events.push(now, Event::StormEnded { port, priority });
            }
            Change::LimitReached { stuck_ns, times } => {
                watchdog.begin(priority, storm(stuck_ns, true), passed);
                watchdog.end(priority, passed, now);
                self.events.push(now, Event::StormBegan { port, priority });
                self.events.push(now, Event::StormEnded { port, priority });
                self.events.push(now, Event::StormLimitReached { port, priority, local_precedence, times });
            }
        }
    }

    /// What has passed of a priority of a port since the start.
    fn storm_traffic(&self, port: usize, priority: usize) -> StormTraffic {
        let (tx_frames, tx_dropped_frames) = self.egress[port].storm_traffic(priority);
        let (rx_frames, rx_dropped_frames) = self.ingress[port].storm_traffic(priority);
        StormTraffic { tx_frames, tx_dropped_frames, rx_frames, rx_dropped_frames }
    }

    /// Restores by hand what waits for it on a port. Gives how many priorities that were.
    pub fn recover_storms<M: Memory>(&mut self, port: usize, now: Instant, memory: &mut M) -> usize {
        let mut recovered = 0;
        for priority in 0..PRIORITIES {
            let seen = self.egress[port].seen(priority, now);
            if let Some(change) = self.egress[port].watchdog().of(priority).recover(seen, now) {
                self.tell_storm(port, priority, change, now);
                recovered += 1;
            }
        }
        self.obey_watchdog(port, now, memory);
        recovered
    }

    /// Turns PFC on again for priorities of a port that had too many storms. Gives how many those were.
    pub fn lift_storm_limit<M: Memory>(
        &mut self,
        port: usize,
        priorities: Set8,
        now: Instant,
        memory: &mut M,
    ) -> usize {
        let mut lifted = 0;
        for priority in priorities {
            let seen = self.egress[port].seen(priority, now);
            lifted += usize::from(self.egress[port].watchdog().of(priority).lift(seen, now));
        }
        self.obey_watchdog(port, now, memory);
        lifted
    }

    /// The first port of which a storm waits to be restored by hand, and whose watchdog would be another by these settings: that may not
    /// be before it is restored.
    pub fn recovery_in_the_way(&mut self, settings: &SwitchSettings) -> Option<usize> {
        (0..settings.ports.len()).find(|&port| {
            if self.is_vacant(port) || settings.ports[port].is_vacant() {
                return false; // nobody waits for a port that is not there
            }
            let changes = self.settings.ports[port].watchdog != settings.ports[port].watchdog;
            let watchdog = self.egress[port].watchdog();
            changes && (0..PRIORITIES).any(|priority| watchdog.of(priority).waits_for_hand())
        })
    }

    /// Fills in what both halves of a port know of its storms, and the rates of its PFC frames.
    pub(crate) fn snapshot_storms(&mut self, port: usize, out: &mut PortSnapshot) {
        for (priority, out) in out.priorities.iter_mut().enumerate() {
            let now = self.storm_traffic(port, priority);
            let Priority { before, total, last, .. } = &self.egress[port].watchdog().priorities[priority];
            let running = if out.stormed { now.since(*before) } else { StormTraffic::default() };
            out.storm_traffic = *total + running;
            out.last_storm_traffic = if out.stormed { running } else { *last };
            self.pfc_rates.snapshot(port, priority, out);
            out.local_precedence = self.settings.ports[port].classify.dot1p_to_queue[priority];
        }
        let runs = |storm: &&mut StormSnapshot| storm.ended_ns.is_none();
        for storm in out.storms.iter_mut().filter(runs) {
            storm.traffic = out.priorities[usize::from(storm.priority & 7)].last_storm_traffic;
        }
    }
}
