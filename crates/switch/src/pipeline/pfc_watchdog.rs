//! PFC watchdogs of a whole switch: when each port's watchdog is polled, how its state is applied
//! to both halves of the port, and the PFC rates that are measured with it.
//!
//! The state machine of one priority is in [`crate::pfc::watchdog`], the storms it found in
//! [`crate::pfc::port_watchdog`].

use crate::egress::tx_stall::{CHECK_NS, TxStallChange};
use crate::frame::memory::FrameMemory;
use crate::monitor::counters::{DropReason, PortSnapshot, StormSnapshot, StormTraffic};
use crate::monitor::event::Event;
use crate::pfc::port_watchdog::Priority;
use crate::pfc::rate_monitor::{SECOND, WarningTransition, frames, threshold};
use crate::pfc::watchdog::StormChange;
use crate::pipeline::Switch;
use crate::settings::{PRIORITIES, PfcWdAction, SwitchSettings};
use crate::time::Instant;
use wire::bitset::{Set8, Set64};

impl Switch {
    /// Polls all watchdogs that are pending, and measures the PFC rates when their interval is
    /// over.
    #[cold]
    pub(crate) fn poll_watchdogs<M: FrameMemory>(&mut self, now: Instant, memory: &mut M) {
        for port in self.sets.watchdog_pending {
            self.poll_watchdog(port, now, memory);
        }
        if now < self.timers.next_timer {
            return;
        }
        self.update_pfc_rates(now);
        self.timers.next_timer = self.pfc_rates.due_at();
        for port in 0..self.egress.len() {
            self.poll_watchdog(port, now, memory);
        }
    }

    /// Checks whether what was passed to the kernel completes, and whether peers have room, on
    /// every port. A port that is stalled is of interest to its watchdog.
    #[cold]
    pub(crate) fn check_tx(&mut self, now: Instant) {
        self.timers.next_tx_check = now + CHECK_NS;
        for port in self.sets.up {
            let (change, is_stalled) = self.egress[port].check_tx(now);
            if let Some(change) = change {
                let event = match change {
                    TxStallChange::Stalled => Event::TxStalled { port },
                    TxStallChange::Resumed => Event::TxResumed { port },
                };
                self.events.push(now, event);
            }
            if is_stalled && self.egress[port].watchdog().is_on() {
                self.sets.watchdog_pending.set(port, true);
            }
            for queue in 0..PRIORITIES {
                if let Some(change) = self.egress[port].check_room(queue, now) {
                    let event = match change {
                        TxStallChange::Stalled => Event::QueueStalled { port, queue },
                        TxStallChange::Resumed => Event::QueueResumed { port, queue },
                    };
                    self.events.push(now, event);
                }
            }
        }
    }

    /// Polls the watchdog of a port and acts on the result.
    pub(crate) fn poll_watchdog<M: FrameMemory>(&mut self, port: usize, now: Instant, memory: &mut M) {
        if !self.egress[port].watchdog().is_on() {
            return;
        }
        for priority in 0..PRIORITIES {
            if let Some(change) = self.egress[port].poll(priority, now) {
                self.record_storm(port, priority, change, now);
            }
        }
        self.apply_watchdog(port, now, memory);
    }

    /// Applies the state that the watchdog of a port requires.
    fn apply_watchdog<M: FrameMemory>(&mut self, port: usize, now: Instant, memory: &mut M) {
        let (in_force, changed) = self.egress[port].apply_watchdog();
        let (settings, percent) = (&self.settings.ports[port], self.settings.usage_percent);
        let different = self.ingress[port].apply_watchdog(in_force, settings, percent, &mut self.pools);
        let dropping = self.egress[port].dropping();
        if !dropping.is_empty() {
            self.flush_queues(port, (dropping, DropReason::Watchdog), now, memory);
        }
        if different {
            (0..PRIORITIES).for_each(|priority| self.update_xoff(port, priority, now));
            self.ingress[port].readvertise();
        }
        if different || changed {
            self.mark_pfc_pending(self.sets.up.and(Set64::of(port)));
        }
        self.egress[port].watchdog().update_is_on();
        self.sets.watchdog_pending.set(port, self.egress[port].needs_poll(now));
        self.timers.next_timer = self.timers.next_timer.min(self.egress[port].watchdog_deadline());
    }

    /// Counts a change that the watchdog found, and reports it as an event.
    fn record_storm(&mut self, port: usize, priority: usize, change: StormChange, now: Instant) {
        let passed = self.storm_traffic(port, priority);
        let action = self.settings.ports[port].watchdog_of(priority).map(|settings| settings.action);
        let storm = |stuck_ns, limit_reached: bool| StormSnapshot {
            priority: priority as u8,
            began_ns: now.0,
            stuck_ns,
            drops: action == Some(PfcWdAction::Drop) && !limit_reached,
            limit_reached,
            ..StormSnapshot::default()
        };
        let local_precedence = self.settings.ports[port].classify.dot1p_to_queue[priority];
        let watchdog = self.egress[port].watchdog();
        match change {
            StormChange::Began { stuck_ns } => {
                watchdog.begin(priority, storm(stuck_ns, false), passed);
                let pending = watchdog.of(priority).needs_manual_recovery();
                self.events.push(now, Event::StormBegan { port, priority });
                if pending {
                    self.events.push(now, Event::RecoveryPending { port, priority });
                }
            }
            StormChange::Ended => {
                watchdog.end(priority, passed, now);
                self.events.push(now, Event::StormEnded { port, priority });
            }
            StormChange::LimitReached { stuck_ns, times } => {
                watchdog.begin(priority, storm(stuck_ns, true), passed);
                watchdog.end(priority, passed, now);
                self.events.push(now, Event::StormBegan { port, priority });
                self.events.push(now, Event::StormEnded { port, priority });
                self.events.push(now, Event::StormLimitReached { port, priority, local_precedence, times });
            }
        }
    }

    /// Returns the traffic of a priority of a port since the start.
    fn storm_traffic(&self, port: usize, priority: usize) -> StormTraffic {
        let (tx_frames, tx_dropped_frames) = self.egress[port].storm_traffic(priority);
        let (rx_frames, rx_dropped_frames) = self.ingress[port].storm_traffic(priority);
        StormTraffic { tx_frames, tx_dropped_frames, rx_frames, rx_dropped_frames }
    }

    /// Restores priorities of a port that wait for manual recovery, and ends their pauses. Returns
    /// how many there were.
    pub fn recover_storms<M: FrameMemory>(&mut self, port: usize, now: Instant, memory: &mut M) -> usize {
        let mut recovered = 0;
        for priority in 0..PRIORITIES {
            self.egress[port].end_storm_pause(priority, now);
            let seen = self.egress[port].observation(priority, now);
            if let Some(change) = self.egress[port].watchdog().of(priority).recover(seen, now) {
                self.record_storm(port, priority, change, now);
                recovered += 1;
            }
        }
        self.apply_watchdog(port, now, memory);
        recovered
    }

    /// Enables PFC again for priorities of a port that had too many storms. Returns how many there
    /// were.
    pub fn lift_storm_limit<M: FrameMemory>(
        &mut self,
        port: usize,
        priorities: Set8,
        now: Instant,
        memory: &mut M,
    ) -> usize {
        let mut lifted = 0;
        for priority in priorities {
            let seen = self.egress[port].observation(priority, now);
            lifted += usize::from(self.egress[port].watchdog().of(priority).lift(seen, now));
        }
        self.apply_watchdog(port, now, memory);
        lifted
    }

    /// Returns the first port with a storm that waits for manual recovery and whose watchdog these
    /// settings would change. Such a change is not allowed before recovery.
    pub fn pending_recovery(&self, settings: &SwitchSettings) -> Option<usize> {
        (0..settings.ports.len()).find(|&port| {
            if self.is_vacant(port) || settings.ports[port].is_vacant() {
                return false; // a removed port needs no recovery
            }
            let changes = self.settings.ports[port].watchdog != settings.ports[port].watchdog;
            changes && self.egress[port].needs_manual_recovery()
        })
    }

    /// Fills in what both halves of a port have recorded of its storms, and its PFC rates.
    pub(crate) fn snapshot_storms(&mut self, port: usize, out: &mut PortSnapshot) {
        for (priority, out) in out.priorities.iter_mut().enumerate() {
            let now = self.storm_traffic(port, priority);
            let Priority { traffic_at_start: before, total, last_storm_traffic: last, .. } =
                &self.egress[port].watchdog().priorities[priority];
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

    /// Measures the PFC rates once a second is over.
    pub(crate) fn update_pfc_rates(&mut self, now: Instant) {
        let nanos = now.since(self.pfc_rates.counted_at);
        if nanos < SECOND {
            return;
        }
        self.pfc_rates.counted_at = now;
        for port in 0..self.egress.len() {
            let counts = [self.egress[port].pfc_count(), self.ingress[port].pfc_count()];
            let warning = self.settings.ports[port].early_warning;
            for (sent, count) in [false, true].into_iter().zip(counts) {
                let rates = &mut self.pfc_rates.ports[port][usize::from(sent)];
                for (priority, (rate, warning)) in rates.iter_mut().zip(warning).enumerate() {
                    let turn = rate.count(frames(&count, priority), threshold(warning, sent), nanos);
                    let pps = rate.pps;
                    let event = match turn {
                        Some(WarningTransition::Rising) => Event::EarlyWarning { port, priority, sent, pps },
                        Some(WarningTransition::Clearing) => {
                            Event::EarlyWarningCleared { port, priority, sent, pps }
                        }
                        None => continue,
                    };
                    self.events.push(now, event);
                }
            }
        }
    }
}
