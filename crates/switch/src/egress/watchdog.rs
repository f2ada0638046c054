//! Interface between the watchdogs of a port and its egress half: what they observe, which FIFOs
//! they drop, and whose pauses they ignore. When a priority is stormed is the rule of
//! [`crate::pfc::watchdog`]; what follows from it is the rule of [`crate::pfc::port_watchdog`].

use super::Egress;
use crate::egress::queue::Queue;
use crate::egress::tx_stall::TxStallChange;
use crate::fifo_set::FifoSet;
use crate::pfc::port_watchdog::PortWatchdog;
use crate::pfc::watchdog::{self, PauseObservation};
use crate::settings::PRIORITIES;
use crate::time::Instant;
use wire::bitset::Set8;

impl Egress {
    pub(crate) fn watchdog(&mut self) -> &mut PortWatchdog {
        &mut self.watchdog
    }

    /// True if a storm of this port waits for manual recovery.
    pub(crate) fn needs_manual_recovery(&self) -> bool {
        self.watchdog.needs_manual_recovery()
    }

    /// Returns when a priority was last paused. A port whose transmissions do not complete, or
    /// whose peer has no room for the priority, is as if it were paused again with each check.
    fn received_at(&self, priority: usize) -> Instant {
        let received_at = self.pauses.last_xoff_at(priority);
        let is_stuck = self.tx_stall.stalled_since().is_some() || !self.without_room(priority).is_empty();
        if is_stuck { received_at.max(self.tx_stall.checked_at()) } else { received_at }
    }

    /// Returns the queues of a priority that the peer has no room for.
    fn without_room(&self, priority: usize) -> Set8 {
        self.pause_map.of(priority).queues().and(self.no_room)
    }

    /// Checks whether transmissions complete. Returns a change, and whether the port is stalled.
    pub(crate) fn check_tx(&mut self, now: Instant) -> (Option<TxStallChange>, bool) {
        let completed_frames = self.queues.iter().map(Queue::completed_frames).sum();
        let change = self.tx_stall.poll(completed_frames, self.in_flight_bytes > 0, now);
        (change, self.tx_stall.stalled_since().is_some())
    }

    /// Checks whether a queue with frames has had no room at the peer. Returns a change.
    pub(crate) fn check_room(&mut self, queue: usize, now: Instant) -> Option<TxStallChange> {
        let waits = self.no_room.and(self.backlogged.queues()).contains(queue);
        self.room_stalls.check(queue, (self.queues[queue].completed_frames(), waits), now)
    }

    /// Returns what the watchdog of a priority sees. A queue without room at the peer is paused,
    /// and the other queues of its priority are not.
    pub(crate) fn observation(&mut self, priority: usize, now: Instant) -> PauseObservation {
        let waiting = self.backlogged.and(self.pause_map.of(priority));
        let without_room = self.without_room(priority);
        let paused_since = self.pauses.paused_since(priority, now).or(self.tx_stall.stalled_since());
        let (paused_since, waiting) = match paused_since {
            Some(since) => (Some(since), waiting),
            None => (self.room_stalls.since(without_room), waiting.and(FifoSet::both(without_room))),
        };
        let has_queued_frames = !waiting.is_empty();
        PauseObservation { paused_since, has_queued_frames, received_at: self.received_at(priority) }
    }

    /// Ends the pause of a priority that waits for manual recovery: it is part of the storm, and
    /// may last for longer than the detection time.
    pub(crate) fn end_storm_pause(&mut self, priority: usize, now: Instant) {
        if self.watchdog.of(priority).needs_manual_recovery() {
            self.pauses.release(priority, now);
        }
    }

    pub(crate) fn poll(&mut self, priority: usize, now: Instant) -> Option<watchdog::StormChange> {
        let seen = self.observation(priority, now);
        self.watchdog.of(priority).poll(seen, now)
    }

    /// True if the watchdog of some priority must be polled each iteration, as the priority is
    /// paused and has no queued frames.
    pub(crate) fn needs_poll(&mut self, now: Instant) -> bool {
        self.watchdog.is_on()
            && (0..PRIORITIES).any(|p| {
                let seen = self.observation(p, now);
                self.watchdog.of(p).needs_poll(seen)
            })
    }

    /// Returns when the watchdog must be polled if no pause begins before; [`Instant::NEVER`] if
    /// never.
    pub(crate) fn watchdog_deadline(&mut self) -> Instant {
        if !self.watchdog.is_on() {
            return Instant::NEVER;
        }
        let received_at: [Instant; PRIORITIES] = std::array::from_fn(|p| self.received_at(p));
        let deadlines = (0..PRIORITIES).map(|p| self.watchdog.of(p).deadline(received_at[p]));
        deadlines.min().unwrap_or(Instant::NEVER)
    }

    /// Applies the state of the watchdog to this half. Returns the priorities that it drops, the
    /// priorities that PFC is off for, and whether anything changed.
    pub(crate) fn apply_watchdog(&mut self) -> ((Set8, Set8), bool) {
        let (forwarding, dropping, off) = self.watchdog.in_force();
        let (ignored, fifos) = (forwarding.with(off), self.pause_map.mapped(dropping));
        let different = (ignored, fifos) != (self.pauses_ignored, self.dropping);
        self.pauses_ignored = ignored;
        if fifos != self.dropping {
            for (q, queue) in self.queues.iter_mut().enumerate() {
                queue.set_dropping([fifos.known().contains(q), fifos.flooded().contains(q)]);
            }
            self.dropping = fifos;
        }
        ((dropping, off), different)
    }

    /// Returns the FIFOs of which the watchdog drops every frame.
    pub(crate) fn dropping(&self) -> FifoSet {
        self.dropping
    }

    /// Returns frames of a priority's queues that left, and frames that the watchdog dropped.
    pub(crate) fn storm_traffic(&self, priority: usize) -> (u64, u64) {
        let queues = self.pause_map.of(priority).queues();
        let queues = queues.into_iter().map(|q| self.queues[q].storm_traffic());
        queues.fold((0, 0), |(sent, dropped), (s, d)| (sent + s, dropped + d))
    }
}
