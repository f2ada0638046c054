//! What a switch does about storms: which priorities of a port its watchdogs hold for stormed is
//! the rule of [`crate::pfc::watchdog`]; here is what follows from it for queues, groups and
//! pauses, and what is counted.
//!
//! Rule, as long as a priority of a port is stormed:
//! - *forward*: its pauses are ignored;
//! - *drop*: the queues that its pause stops lose what waits and take nothing more, and its group
//!   takes nothing that comes in (both counted as `watchdog`); the peer is told nothing of it, but
//!   for XON if it was in XOFF.
//!
//! While PFC is off for it, since there were too many storms, its pauses are ignored and its group
//! is a lossy one. Source: docs/watchdog.md; docs/references.md, "H3C reference" (Configuring PFC
//! deadlock detection) and "Inspur white paper" (3.2.5).

use std::collections::VecDeque;

use crate::monitor::counters::{PrioritySnapshot, StormSnapshot, StormTraffic};
use crate::pfc::watchdog::PriorityWatchdog;
use crate::settings::{PRIORITIES, PfcWdAction, PortSettings};
use crate::time::Instant;
use serde::{Deserialize, Serialize};
use wire::bitset::Set8;

/// Storms of a port that are remembered.
pub const HISTORY: usize = 16;

/// The watchdogs of a port's priorities, and what they have seen.
#[derive(Debug, Serialize, Deserialize)]
pub struct PortWatchdog {
    pub(crate) priorities: Box<[Priority; PRIORITIES]>,
    /// Some priority is watched, or something is in force.
    is_on: bool,
    history: VecDeque<StormSnapshot>,
}

/// A priority's watchdog, and what was counted of its storms.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Priority {
    watch: PriorityWatchdog,
    storms: u64,
    restored: u64,
    /// What had passed when the running storm began.
    pub(crate) before: StormTraffic,
    /// What passed in all storms that are over, and in the last of them.
    pub(crate) total: StormTraffic,
    pub(crate) last: StormTraffic,
}

impl PortWatchdog {
    /// The watchdogs of a port with these settings.
    pub fn new(settings: &PortSettings) -> Self {
        let of = |p| Priority {
            watch: PriorityWatchdog::new(settings.watchdog_of(p)),
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
    pub fn of(&mut self, priority: usize) -> &mut PriorityWatchdog {
        &mut self.priorities[priority].watch
    }

    /// Priorities whose pauses are ignored, that are dropped, and for which PFC is off.
    pub fn in_force(&self) -> (Set8, Set8, Set8) {
        let those = |of: &dyn Fn(&PriorityWatchdog) -> bool| -> Set8 {
            (0..PRIORITIES).filter(|&p| of(&self.priorities[p].watch)).collect()
        };
        (
            those(&|watch| watch.action() == Some(PfcWdAction::Forward)),
            those(&|watch| watch.action() == Some(PfcWdAction::Drop)),
            those(&PriorityWatchdog::is_off),
        )
    }

    pub(crate) fn note_whether_on(&mut self) {
        self.is_on = self.priorities.iter().any(|priority| priority.watch.is_on());
    }

    /// Counts a storm; `passed` is what had passed of the priority until now.
    pub(crate) fn begin(&mut self, priority: usize, storm: StormSnapshot, passed: StormTraffic) {
        let of = &mut self.priorities[priority];
        of.storms += 1;
        of.before = passed;
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(storm);
    }

    /// … and its end.
    pub(crate) fn end(&mut self, priority: usize, passed: StormTraffic, now: Instant) {
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
        out.recovery_pending = watch.needs_manual_recovery();
        out.limit_reached = watch.is_off();
        (out.storms, out.storms_restored) = (*storms, *restored);
    }

    /// The last storms.
    pub(crate) fn history(&self, out: &mut Vec<StormSnapshot>) {
        out.clear();
        out.extend(&self.history);
    }
}
