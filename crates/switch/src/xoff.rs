//! XOFF, from a group's use to the frame that tells of it.
//!
//! Rule: a no-drop group is examined when its own use has changed, or a frame of it was refused, when no-drop frames that wait in its port's RX rings have become many or few, and,
//! as long as others can move its threshold, each turn. A change between XOFF and XON is an event, and is work for its port:
//! it is told before any data leave. The frame that tells it lies in memory of the switch's own, and is charged no cells.
//! Source: docs/law.md, "XOFF and XON" and "PFC sent"; when a group is in XOFF is the rule of [`crate::group`], when the neighbour is told
//! that of [`crate::pfc_sent`].

use crate::counters::PfcCount;
use crate::event::Event;
use crate::frame::Outgoing;
use crate::group::Change;
use crate::memory::Memory;
use crate::settings::PRIORITIES;
use crate::store::Charge;
use crate::switch::Switch;
use crate::time::{Instant, Nanos};
use wire::pause;
use wire::set::Set64;

impl Switch {
    /// Examines a group after its use, or its threshold, may have changed.
    #[inline]
    pub(crate) fn examine(&mut self, port: usize, priority: usize, now: Instant) {
        let ingress = &mut self.ingress[port];
        let change = ingress.examine(priority, &self.pools);
        self.watched.set(port, !ingress.watched().is_empty());
        if let Some(change) = change {
            self.note_change(port, priority, change, now);
        }
    }

    /// A frame was refused at ingress for want of room: its sender must stop, whatever its group holds.
    #[cold]
    pub(crate) fn starve(&mut self, charge: &Charge, now: Instant) {
        let port = charge.port();
        if let Some(change) = self.ingress[port].starve(charge, &self.pools) {
            self.watched.set(port, true);
            self.note_change(port, charge.priority(), change, now);
        }
    }

    #[inline]
    fn note_change(&mut self, port: usize, priority: usize, change: Change, now: Instant) {
        self.add_work(self.up.and(Set64::of(port)));
        let event = match change {
            Change::Xoff => Event::XoffBegan { port, priority },
            Change::Xon => Event::XoffEnded { port, priority },
        };
        self.events.push(now, event);
    }

    /// After a batch was taken, `waiting` frames still wait in the RX rings of `port`: that is ingress use, too.
    #[inline]
    pub fn observe_rx_rings(&mut self, port: usize, waiting: u32, now: Instant) {
        if self.ingress[port].observe_rx_rings(waiting) {
            (0..PRIORITIES).for_each(|priority| self.examine(port, priority, now));
        }
    }

    /// Whether `port` has, or will have, PFC to send if nothing else happens.
    #[inline]
    pub(crate) fn may_tell(&mut self, port: usize) -> bool {
        if self.telling.contains(port) && self.ingress[port].pfc_deadline() == Instant::NEVER {
            self.telling.set(port, false);
        }
        self.telling.contains(port)
    }

    /// The PFC frame that `port` must send now, if there is one, appended to `out`.
    #[cold]
    pub fn transmit_pfc<M: Memory>(
        &mut self,
        port: usize,
        now: Instant,
        memory: &mut M,
        out: &mut Vec<Outgoing>,
    ) {
        if !self.up.contains(port) || !self.ingress[port].pfc_is_due(now) {
            return;
        }
        // Without memory (which the reserve of `frames_needed` rules out) it stays due for the next turn.
        let Some(frame) = memory.alloc() else { return };
        let bytes = memory.bytes_mut(&frame, pause::FRAME_BYTES).first_chunk_mut();
        self.ingress[port].send_pfc(bytes.expect("60 bytes were asked for"), now);
        self.store.lend_own(&frame);
        out.push(Outgoing::new(frame, pause::FRAME_BYTES as u16));
    }

    /// A frame came in spite of XOFF. It may have come as soon as the turn before began.
    #[cold]
    pub(crate) fn insist(&mut self, port: usize, priority: usize, now: Instant) {
        if self.ingress[port].insist(priority, self.turns[1].unwrap_or(now)) {
            self.add_work(Set64::of(port));
        }
    }

    /// How soon some neighbour must be told again of an XOFF that lasts.
    pub fn shortest_refresh_ns(&self) -> Nanos {
        let told = self.up.into_iter().filter_map(|port| self.ingress[port].refresh_ns());
        told.min().unwrap_or(Nanos::MAX)
    }

    /// A guard sent these PFC frames for `port` while this switch stood still, the last one at `at`: what they said is now
    /// what its neighbour was told, whether or not they would be sent by today's settings.
    pub fn told_by_guard(&mut self, port: usize, frames: &PfcCount, at: Instant) {
        self.ingress[port].told_by_guard(frames, at);
        self.add_work(self.up.and(Set64::of(port)));
    }
}
