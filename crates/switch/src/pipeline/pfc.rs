//! XOFF, from a group's use to the frame that tells of it.
//!
//! Rule: a no-drop group is examined when its own use has changed, when what waits in its port's RX
//! rings has become long or short, and, as long as others can move its threshold, each turn. A
//! change between XOFF and XON is an event, and is work for its port: it is told before any data
//! leave. The frame that tells it lies in memory of the switch's own, and is charged no cells.
//! Source: docs/behavior.md, "XOFF and XON" and "PFC sent"; when a group is in XOFF is the rule of
//! [`crate::ingress::priority_group`], when the peer is told that of [`crate::pfc::tx`].

use crate::forwarding::parsed_frame::RxFrame;
use crate::frame::header_edit::TxDesc;
use crate::frame::memory::FrameMemory;
use crate::frame::meta::FrameMeta;
use crate::ingress::priority_group::XoffTransition;
use crate::monitor::counters::PfcCount;
use crate::monitor::event::Event;
use crate::pipeline::Switch;
use crate::settings::PRIORITIES;
use crate::time::{Instant, Nanos};
use wire::bitset::Set64;
use wire::pause;

impl Switch {
    /// Examines a group after its use, or its threshold, may have changed.
    #[inline]
    pub(crate) fn update_xoff(&mut self, port: usize, priority: usize, now: Instant) {
        let ingress = &mut self.ingress[port];
        let change = ingress.examine(priority, &self.pools);
        self.pfc_recheck.set(port, !ingress.watched().is_empty());
        if let Some(change) = change {
            self.record_transition(port, priority, change, now);
        }
    }

    /// A frame was refused at ingress for want of room: its sender must stop, whatever its group
    /// holds.
    #[cold]
    pub(crate) fn starve(&mut self, charge: &FrameMeta, now: Instant) {
        let port = charge.port();
        if let Some(change) = self.ingress[port].starve(charge, &self.pools) {
            self.pfc_recheck.set(port, true);
            self.record_transition(port, charge.priority(), change, now);
        }
    }

    #[inline]
    fn record_transition(&mut self, port: usize, priority: usize, change: XoffTransition, now: Instant) {
        self.mark_pfc_pending(self.up.and(Set64::of(port)));
        let event = match change {
            XoffTransition::Xoff => Event::XoffBegan { port, priority },
            XoffTransition::Xon => Event::XoffEnded { port, priority },
        };
        self.events.push(now, event);
    }

    /// After a batch was taken, `waiting` frames still wait in the RX rings of `port`: that is
    /// ingress use, too.
    #[inline]
    pub fn observe_rx_backlog(&mut self, port: usize, waiting: u32, now: Instant) {
        if self.ingress[port].observe_rx_rings(waiting) {
            (0..PRIORITIES).for_each(|priority| self.update_xoff(port, priority, now));
        }
    }

    /// Whether `port` has, or will have, PFC to send if nothing else happens.
    #[inline]
    pub(crate) fn has_pfc_pending(&mut self, port: usize) -> bool {
        if self.pfc_pending.contains(port) && self.ingress[port].pfc_deadline() == Instant::NEVER {
            self.pfc_pending.set(port, false);
        }
        self.pfc_pending.contains(port)
    }

    /// The PFC frame that `port` must send now, if there is one, appended to `out`.
    #[cold]
    pub fn transmit_pfc<M: FrameMemory>(
        &mut self,
        port: usize,
        now: Instant,
        memory: &mut M,
        out: &mut Vec<TxDesc>,
    ) {
        if !self.up.contains(port) || !self.ingress[port].pfc_is_due(now) {
            return;
        }
        // Without memory, which the reserve of `frames_needed` rules out, it stays due.
        let Some(frame) = memory.alloc() else { return };
        let bytes = memory.bytes_mut(&frame, pause::FRAME_BYTES).first_chunk_mut();
        self.ingress[port].send_pfc(bytes.expect("60 bytes were asked for"), now);
        self.store.push_control(&frame);
        out.push(TxDesc::new(frame, pause::FRAME_BYTES as u16));
    }

    /// A frame came in spite of XOFF. It may have come as soon as the turn before began.
    #[cold]
    pub(crate) fn resend_xoff(&mut self, port: usize, priority: usize, now: Instant) {
        if self.ingress[port].insist(priority, self.iteration_starts[1].unwrap_or(now)) {
            self.mark_pfc_pending(Set64::of(port));
        }
    }

    /// How soon some peer must be told again of an XOFF that lasts.
    pub fn shortest_refresh_ns(&self) -> Nanos {
        let told = self.up.into_iter().filter_map(|port| self.ingress[port].refresh_ns());
        told.min().unwrap_or(Nanos::MAX)
    }

    /// A guard sent these PFC frames for `port` while this switch stood still, the last one at
    /// `at`: what they said is now what its peer was told, whether or not they would be sent by
    /// today's settings.
    pub fn record_guard_pfc(&mut self, port: usize, frames: &PfcCount, at: Instant) {
        self.ingress[port].record_guard_pfc(frames, at);
        self.mark_pfc_pending(self.up.and(Set64::of(port)));
    }

    /// A MAC control frame (PFC, PAUSE) ends here: it is never bridged and never counted as data.
    #[cold]
    pub(crate) fn honor<M: FrameMemory>(&mut self, arrival: &mut RxFrame, now: Instant, memory: &mut M) {
        let port = arrival.charge.port();
        let bytes = memory.bytes(&arrival.frame, usize::from(arrival.charge.len));
        let iterated = self.iteration_starts[1].unwrap_or(now);
        if self.egress[port].honor(bytes, now, iterated) {
            self.mark_pfc_pending(Set64::of(port));
        }
        memory.free(arrival.take_frame());
        // The tick looks, once for all frames of the turn.
        let is_watched = self.egress[port].watchdog().is_on();
        self.watchdog_pending.set(port, is_watched);
    }
}
