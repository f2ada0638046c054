//! XOFF and XON, from a group's buffer use to the PFC frame that advertises its state.
//!
//! Rule: a no-drop group is examined when its own use changes, when the RX backlog of its port
//! becomes long or short, and each iteration while other groups can move its threshold. A change
//! between XOFF and XON is an event and makes PFC pending on the port; the PFC frame leaves before
//! any data. That frame uses memory of the switch and is charged no cells. Source:
//! docs/behavior.md, "XOFF and XON" and "PFC sent"; when a group is in XOFF is the rule of
//! [`crate::ingress::priority_group`], when a PFC frame is sent that of [`crate::pfc::tx`].

use crate::forwarding::parsed_frame::RxFrame;
use crate::frame::header_edit::TxDesc;
use crate::frame::memory::FrameMemory;
use crate::frame::meta::FrameMeta;
use crate::ingress::priority_group::XoffTransition;
use crate::monitor::counters::PfcCount;
use crate::monitor::event::Event;
use crate::pipeline::Switch;
use crate::settings::PRIORITIES;
use crate::time::Instant;
use wire::bitset::Set64;
use wire::pause;

impl Switch {
    /// Examines a group after its use, or its threshold, may have changed.
    #[inline]
    pub(crate) fn update_xoff(&mut self, port: usize, priority: usize, now: Instant) {
        let ingress = &mut self.ingress[port];
        let change = ingress.update_xoff(priority, &self.pools);
        self.sets.pfc_recheck.set(port, !ingress.needs_recheck().is_empty());
        if let Some(change) = change {
            self.record_transition(port, priority, change, now);
        }
    }

    /// Handles a frame that ingress had no room for: its sender must stop, however much its group
    /// holds.
    #[cold]
    pub(crate) fn enter_starvation(&mut self, charge: &FrameMeta, now: Instant) {
        let port = charge.port();
        if let Some(change) = self.ingress[port].enter_starvation(charge, &self.pools) {
            self.sets.pfc_recheck.set(port, true);
            self.record_transition(port, charge.priority(), change, now);
        }
    }

    #[inline]
    fn record_transition(&mut self, port: usize, priority: usize, change: XoffTransition, now: Instant) {
        self.ingress[port].record_transition(priority, change, now);
        self.mark_pfc_pending(self.sets.up.and(Set64::of(port)));
        let event = match change {
            XoffTransition::Xoff => Event::XoffBegan { port, priority },
            XoffTransition::Xon => Event::XoffEnded { port, priority },
        };
        self.events.push(now, event);
    }

    /// Updates the RX backlog of `port` after a batch was taken: `waiting` frames remain in the RX
    /// rings, which is ingress use, too.
    #[inline]
    pub fn observe_rx_backlog(&mut self, port: usize, waiting: u32, now: Instant) {
        let iterated = self.timers.arrival_times(now).last_served;
        if self.ingress[port].observe_rx_backlog(waiting, iterated) {
            (0..PRIORITIES).for_each(|priority| self.update_xoff(port, priority, now));
        }
    }

    /// True if `port` has PFC to send now, or will have if nothing else happens.
    #[inline]
    pub(crate) fn has_pfc_pending(&mut self, port: usize) -> bool {
        if self.sets.pfc_pending.contains(port) && self.ingress[port].pfc_deadline() == Instant::NEVER {
            self.sets.pfc_pending.set(port, false);
        }
        self.sets.pfc_pending.contains(port)
    }

    /// Appends the PFC frame that `port` must send now, if any, to `out`.
    #[cold]
    pub fn transmit_pfc<M: FrameMemory>(
        &mut self,
        port: usize,
        now: Instant,
        memory: &mut M,
        out: &mut Vec<TxDesc>,
    ) {
        if !self.sets.up.contains(port) || !self.ingress[port].pfc_is_due(now) {
            return;
        }
        // Without a free chunk, which the reserve of `frames_needed` rules out, the frame stays
        // due.
        let Some(frame) = memory.alloc() else { return };
        let bytes = memory.bytes_mut(&frame, pause::FRAME_BYTES).first_chunk_mut();
        #[expect(clippy::expect_used, reason = "no memory has chunks shorter than the shortest frame")]
        let bytes = bytes.expect("60 bytes were asked for");
        self.ingress[port].send_pfc(bytes, now);
        self.frame_queues.push_control(&frame);
        out.push(TxDesc::new(frame, pause::FRAME_BYTES as u16));
    }

    /// Handles a frame received in spite of XOFF.
    #[cold]
    pub(crate) fn resend_xoff(&mut self, port: usize, priority: usize, now: Instant) {
        let arrived = self.timers.arrival_times(now);
        if self.ingress[port].frame_during_xoff(priority, arrived) {
            self.mark_pfc_pending(Set64::of(port));
        }
    }

    /// Records PFC frames that a guard sent for `port` while the loop was stalled, the last one at
    /// `at`. Their contents count as what was advertised to the peer, whether or not the present
    /// settings would send them.
    pub fn record_guard_pfc(&mut self, port: usize, frames: &PfcCount, at: Instant) {
        self.ingress[port].record_guard_pfc(frames, at);
        self.mark_pfc_pending(self.sets.up.and(Set64::of(port)));
    }

    /// Processes a MAC control frame (PFC, PAUSE). Such a frame is never bridged or counted as
    /// data.
    #[cold]
    pub(crate) fn receive_mac_control<M: FrameMemory>(
        &mut self,
        arrival: &mut RxFrame,
        now: Instant,
        memory: &mut M,
    ) {
        let port = arrival.meta.port();
        let bytes = memory.bytes(&arrival.frame, usize::from(arrival.meta.len));
        let arrived = self.timers.arrival_times(now);
        if self.egress[port].receive_mac_control(bytes, arrived) {
            self.mark_pfc_pending(Set64::of(port));
        }
        memory.free(arrival.take_frame());
        // The tick polls the watchdog, once for all frames of the iteration.
        let is_watched = self.egress[port].watchdog().is_on();
        self.sets.watchdog_pending.set(port, is_watched);
    }
}
