//! Actions on storms: what a stormed priority means for queues, groups and pauses, and what is
//! counted. Which priorities are stormed is the rule of [`crate::pfc::watchdog`].
//!
//! Rule, as long as a priority of a port is stormed:
//! - *forward*: its pauses are ignored;
//! - *drop*: the queues that its pause stops drop their frames and admit no more, and its group
//!   admits no received frame (both counted as `watchdog`); no PFC for it is sent to the peer,
//!   except XON if it was in XOFF.
//!
//! While PFC is off for it, since there were too many storms, its pauses are ignored and its group
//! is lossy. Source: docs/watchdog.md; docs/references.md, "H3C reference" (Configuring PFC
//! deadlock detection) and "Inspur white paper" (3.2.5).

use std::collections::VecDeque;

use crate::monitor::counters::{PrioritySnapshot, StormSnapshot, StormTraffic};
use crate::pfc::watchdog::PriorityWatchdog;
use crate::settings::{PRIORITIES, PfcWdAction, PortSettings};
use crate::time::Instant;
use serde::{Deserialize, Serialize};
use wire::bitset::Set8;

/// Number of storms kept per port.
pub const HISTORY: usize = 16;

/// Watchdogs of a port's priorities, and the storms that they found.
#[derive(Debug, Serialize, Deserialize)]
pub struct PortWatchdog {
    pub(crate) priorities: Box<[Priority; PRIORITIES]>,
    /// True if some priority is watched, or an action is in force.
    is_on: bool,
    history: VecDeque<StormSnapshot>,
}

/// Watchdog of a priority, and the counters of its storms.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Priority {
    watch: PriorityWatchdog,
    storms: u64,
    restored: u64,
    /// Traffic counters at the start of the present storm.
    pub(crate) traffic_at_start: StormTraffic,
    /// Traffic of all storms that are over, and of the last of them.
    pub(crate) total: StormTraffic,
    pub(crate) last_storm_traffic: StormTraffic,
}

impl PortWatchdog {
    /// Makes the watchdogs of a port with these settings.
    pub fn new(settings: &PortSettings) -> Self {
        let of = |p| Priority {
            watch: PriorityWatchdog::new(settings.watchdog_of(p)),
            storms: 0,
            restored: 0,
            traffic_at_start: StormTraffic::default(),
            total: StormTraffic::default(),
            last_storm_traffic: StormTraffic::default(),
        };
        let mut watchdog = Self {
            priorities: Box::new(std::array::from_fn(of)),
            is_on: false,
            history: VecDeque::with_capacity(HISTORY),
        };
        watchdog.update_is_on();
        watchdog
    }

    /// Applies other settings. What they end is noticed by the next poll, which must follow.
    pub fn reconfigure(&mut self, settings: &PortSettings) {
        for (p, priority) in self.priorities.iter_mut().enumerate() {
            priority.watch.reconfigure(settings.watchdog_of(p));
        }
        self.is_on |= self.priorities.iter().any(|priority| priority.watch.is_on());
    }

    /// True if a priority is watched, or an action is in force.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// True if a storm of any priority waits for manual recovery.
    pub fn needs_manual_recovery(&self) -> bool {
        self.priorities.iter().any(|priority| priority.watch.needs_manual_recovery())
    }

    /// Returns the watchdog of a priority.
    pub fn of(&mut self, priority: usize) -> &mut PriorityWatchdog {
        &mut self.priorities[priority].watch
    }

    /// Returns the priorities whose pauses are ignored, that are dropped, and for which PFC is off.
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

    pub(crate) fn update_is_on(&mut self) {
        self.is_on = self.priorities.iter().any(|priority| priority.watch.is_on());
    }

    /// Counts a storm; `passed` is the traffic of the priority until now.
    pub(crate) fn begin(&mut self, priority: usize, storm: StormSnapshot, passed: StormTraffic) {
        let of = &mut self.priorities[priority];
        of.storms += 1;
        of.traffic_at_start = passed;
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(storm);
    }

    /// Counts the end of a storm; `passed` is the traffic of the priority until now.
    pub(crate) fn end(&mut self, priority: usize, passed: StormTraffic, now: Instant) {
        let of = &mut self.priorities[priority];
        of.restored += 1;
        of.last_storm_traffic = passed.since(of.traffic_at_start);
        of.total += of.last_storm_traffic;
        let runs =
            |storm: &&mut StormSnapshot| usize::from(storm.priority) == priority && storm.ended_ns.is_none();
        if let Some(storm) = self.history.iter_mut().rev().find(runs) {
            (storm.ended_ns, storm.traffic) = (Some(now.0), of.last_storm_traffic);
        }
    }

    /// Fills in the storm counters of a priority.
    pub(crate) fn snapshot(&self, priority: usize, out: &mut PrioritySnapshot) {
        let Priority { watch, storms, restored, .. } = &self.priorities[priority];
        out.watched = watch.is_watched();
        out.stormed = watch.is_stormed();
        out.recovery_pending = watch.needs_manual_recovery();
        out.limit_reached = watch.is_off();
        (out.storms, out.storms_restored) = (*storms, *restored);
    }

    /// Appends the last storms.
    pub(crate) fn history(&self, out: &mut Vec<StormSnapshot>) {
        out.clear();
        out.extend(&self.history);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Restoration, WatchdogSettings};

    fn storm(priority: u8, began_ns: u64) -> StormSnapshot {
        StormSnapshot { priority, began_ns, ..StormSnapshot::default() }
    }

    fn history(watchdog: &PortWatchdog) -> Vec<(u8, u64, Option<u64>)> {
        let mut storms = Vec::new();
        watchdog.history(&mut storms);
        storms.iter().map(|storm| (storm.priority, storm.began_ns, storm.ended_ns)).collect()
    }

    #[test]
    fn the_last_16_storms_are_kept() {
        let mut watchdog = PortWatchdog::new(&PortSettings::new("p", None));
        (1..=18).for_each(|began_ns| watchdog.begin(3, storm(3, began_ns), StormTraffic::default()));
        let began: Vec<u64> = history(&watchdog).iter().map(|(_, began_ns, _)| *began_ns).collect();
        assert_eq!(began, Vec::from_iter(3..=18));
    }

    /// Two storms of priority 3, with one of priority 5 that goes on.
    #[test]
    fn a_storm_ends_alone() {
        let mut watchdog = PortWatchdog::new(&PortSettings::new("p", None));
        let passed = StormTraffic::default();
        watchdog.begin(3, storm(3, 1), passed);
        watchdog.begin(5, storm(5, 2), passed);
        watchdog.end(3, passed, Instant(3));
        watchdog.begin(3, storm(3, 4), passed);
        watchdog.end(3, passed, Instant(5));
        assert_eq!(history(&watchdog), [(3, 1, Some(3)), (5, 2, None), (3, 4, Some(5))]);
    }

    #[test]
    fn it_is_on_while_a_priority_is_watched() {
        let mut settings = PortSettings::new("p", None);
        let mut watchdog = PortWatchdog::new(&settings);
        assert!(!watchdog.is_on());
        settings.watchdog[3] = Some(WatchdogSettings {
            detection_ns: 1,
            action: PfcWdAction::Drop,
            restore: Restoration::Manual,
            limit: None,
        });
        (settings.pfc.rx, settings.pfc.no_drop) = (true, 1 << 3);
        watchdog.reconfigure(&settings);
        assert!(watchdog.is_on());
    }
}
