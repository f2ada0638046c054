//! Timers: what is due without a frame moving, and when.
//!
//! Rule: the owner calls [`Switch::tick`] once per iteration. Before it sleeps, it asks for the
//! next deadline. Deadlines are those of PFC frames, the end of a pause, a link or a rate limiter
//! that is free again, watchdogs, thresholds that other groups moved, aging, alarms, and events
//! that were deferred. Source: docs/architecture.md, "Frame path".

use crate::frame::memory::FrameMemory;
use crate::monitor::event::Event;
use crate::pfc::rx::ArrivalTimes;
use crate::pipeline::{Switch, Timers};
use crate::time::Instant;
use wire::bitset::Set64;

impl Timers {
    /// Returns between which times the frames of the present batch arrived.
    pub(crate) fn arrival_times(&self, now: Instant) -> ArrivalTimes {
        ArrivalTimes {
            last_served: self.iteration_starts[1].unwrap_or(now),
            now,
            taken_at: self.taken_at.map_or(now, |at| at.max(now)),
        }
    }
}

impl Switch {
    /// Marks a port that has queued frames.
    #[inline]
    pub(crate) fn mark_data_pending(&mut self, port: usize) {
        self.sets.tx_pending = self.sets.tx_pending.with(Set64::of(port));
        self.sets.newly_pending = self.sets.newly_pending.with(Set64::of(port));
    }

    /// Marks ports that have PFC to send, or whose queued frames may leave again.
    #[inline]
    pub(crate) fn mark_pfc_pending(&mut self, ports: Set64) {
        self.sets.tx_pending = self.sets.tx_pending.with(ports);
        self.sets.newly_pending = self.sets.newly_pending.with(ports);
        self.sets.pfc_pending = self.sets.pfc_pending.with(ports);
    }

    /// Begins an iteration, in which all received frames are taken.
    #[inline]
    pub fn begin_iteration(&mut self, now: Instant) {
        self.timers.iteration_starts = [Some(now), self.timers.iteration_starts[0]];
        self.timers.taken_at = None;
    }

    /// Reports when the batch that is received next had been taken from the rings: the latest time
    /// at which its frames can have arrived.
    #[inline]
    pub fn begin_batch(&mut self, taken_at: Instant) {
        self.timers.taken_at = Some(taken_at);
    }

    /// Does what is due at `now` without a frame moving: dynamic thresholds that other groups
    /// moved, watchdogs, aging. Called once per iteration.
    pub fn tick<M: FrameMemory>(&mut self, now: Instant, memory: &mut M) {
        if now >= self.timers.next_tx_check {
            self.check_tx(now);
        }
        if now >= self.timers.next_timer || !self.sets.watchdog_pending.is_empty() {
            self.poll_watchdogs(now, memory);
        }
        for port in self.sets.pfc_recheck {
            for priority in self.ingress[port].needs_recheck() {
                self.update_xoff(port, priority, now);
            }
        }
        self.fdb.age(now);
        for port in self.fdb.take_at_limit() {
            self.events.push(now, Event::AddressLimit { port });
        }
        for port in self.sets.unreported_drops {
            let of_limits = self.ingress[port].report_storm_control(port, now, &mut self.events);
            let of_kernel = self.egress[port].report_kernel_losses(port, now, &mut self.events);
            self.sets.unreported_drops.set(port, of_limits || of_kernel);
        }
        if self.losses.is_due(now) {
            self.losses.report(now, &mut self.events);
        }
        if now >= self.timers.next_alarms {
            self.poll_alarms(now);
        }
        if let Some(frames) = self.fdb.unreported_full(now) {
            self.events.push(now, Event::BridgeFull { frames });
        }
    }

    /// True if [`Switch::tick`] has something to check when frames move: thresholds that depend on
    /// what other groups hold, or paused queues that a watchdog observes.
    pub fn is_watching(&self) -> bool {
        !self.sets.pfc_recheck.is_empty() || !self.sets.watchdog_pending.is_empty()
    }

    /// Returns when `transmit` or `tick` next has work if no frame moves before; [`Instant::NEVER`]
    /// if never.
    pub fn next_deadline(&mut self, now: Instant) -> Instant {
        let of_ports = self.sets.tx_pending.into_iter().map(|port| self.deadline_of(port, now)).min();
        of_ports.unwrap_or(Instant::NEVER).min(self.next_tick())
    }

    /// Returns when PFC must next leave some port if nothing happens before: an XOFF that lasts is
    /// repeated, or an XON. [`Instant::NEVER`] if none is in force.
    pub fn next_pfc_deadline(&self) -> Instant {
        let deadlines = self.sets.tx_pending.into_iter().map(|port| self.ingress[port].pfc_wake_at());
        deadlines.min().unwrap_or(Instant::NEVER)
    }

    /// Returns when `transmit` next has work for `port` if no frame moves before;
    /// [`Instant::NEVER`] if never.
    pub fn deadline_of(&mut self, port: usize, now: Instant) -> Instant {
        if !self.sets.tx_pending.contains(port) {
            return Instant::NEVER;
        }
        let looks_at = match self.timers.iteration_starts[0] {
            Some(_) => self.ingress[port].rx_ring_check_at(now),
            None => Instant::NEVER, // each frame is received as it arrives
        };
        self.ingress[port].pfc_wake_at().min(looks_at).min(self.egress[port].next_deadline(now))
    }

    /// Returns when [`Switch::tick`] has work without a frame moving; [`Instant::NEVER`] if never.
    pub fn next_tick(&self) -> Instant {
        if self.settings.needs_timer() { self.timers.next_timer } else { Instant::NEVER }
    }
}
