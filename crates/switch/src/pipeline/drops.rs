//! Frames that a switch does not forward: where each is counted, and which events report it.
//!
//! Rule: a loss is counted where it happens and where an operator looks for it. A frame that the
//! output port has no room for, or cannot send, is counted at that port and its queue. A frame that
//! ingress has no room for is counted at the input port and its group. The first no-drop frame of
//! an episode that finds no room at ingress is an event, and so are frames that are too long. Other
//! losses of no-drop frames are reported by [`crate::monitor::no_drop_loss`]. All of them, and
//! those of the kernel, count by priority at the port of the loss (`no_drop_lost_frames`). Source:
//! docs/behavior.md, "Drops".

use crate::forwarding::parsed_frame::RxFrame;
use crate::frame::FrameId;
use crate::frame::memory::{DroppedFrame, FrameDrop, FrameMemory};
use crate::frame::meta::FrameMeta;
use crate::monitor::counters::{DropReason, RefusedFrames};
use crate::monitor::event::Event;
use crate::pipeline::Switch;
use crate::time::Instant;
use wire::bitset::Set64;

/// Drops a received frame, which `port` has counted.
#[cold]
pub(crate) fn drop_received<M: FrameMemory>(
    arrival: &mut RxFrame,
    port: usize,
    reason: DropReason,
    memory: &mut M,
) {
    let frame = arrival.take_frame();
    memory.on_drop(&frame, &received(port, reason, &arrival.meta));
    memory.free(frame);
}

fn received(port: usize, reason: DropReason, charge: &FrameMeta) -> FrameDrop {
    let what = DroppedFrame::Received;
    FrameDrop { what, port, reason, priority: charge.priority(), len: charge.len }
}

/// Returns the drop of a copy, or of a queued frame, at the port that it was to leave by.
pub(crate) fn departing(port: usize, reason: DropReason, charge: &FrameMeta) -> FrameDrop {
    FrameDrop { what: DroppedFrame::Departing, ..received(port, reason, charge) }
}

impl Switch {
    /// Drops a frame whose destination is on its input port, or on a port that is down: in the
    /// latter case all frames if the address is static, and no-drop frames if it was learned. Other
    /// frames are flooded.
    #[cold]
    pub(crate) fn filter<M: FrameMemory>(
        &mut self,
        arrival: &mut RxFrame,
        out: usize,
        now: Instant,
        memory: &mut M,
    ) {
        let (port, priority, len) = (arrival.meta.port(), arrival.meta.priority(), arrival.meta.len);
        if out == port {
            self.ingress[port].count_drop(DropReason::Filtered, len);
            return drop_received(arrival, port, DropReason::Filtered, memory);
        }
        let reason = if self.fdb.is_static(arrival.dst) {
            DropReason::PortDown
        } else if self.ingress[port].is_no_drop(priority) {
            DropReason::DestinationDown
        } else {
            return self.flood(arrival, now, memory);
        };
        self.egress[out].count_drop(reason, len);
        self.record_loss(out, reason, &arrival.meta);
        drop_received(arrival, out, reason, memory);
    }

    /// Drops a frame that is not forwarded whatever the FDB contains.
    #[cold]
    pub(crate) fn drop_invalid<M: FrameMemory>(
        &mut self,
        arrival: &mut RxFrame,
        reason: DropReason,
        memory: &mut M,
    ) {
        let port = arrival.meta.port();
        self.ingress[port].count_invalid(reason, arrival.meta.len);
        if matches!(reason, DropReason::VlanFiltered | DropReason::PortDown) {
            self.record_loss(port, reason, &arrival.meta);
        }
        drop_received(arrival, port, reason, memory);
    }

    /// Drops a frame that was not admitted.
    #[cold]
    pub(crate) fn drop_rejected<M: FrameMemory>(
        &mut self,
        (frame, charge): (FrameId, &FrameMeta),
        out: usize,
        reason: DropReason,
        now: Instant,
        memory: &mut M,
    ) {
        let port = self.count_rejected(charge, out, reason, now);
        memory.on_drop(&frame, &received(port, reason, charge));
        memory.free(frame);
    }

    /// Rejects the copy of a flooded frame for one port.
    #[cold]
    pub(crate) fn reject_copy<M: FrameMemory>(
        &mut self,
        (original, charge): (&FrameId, &FrameMeta),
        out: usize,
        reason: DropReason,
        now: Instant,
        memory: &mut M,
    ) {
        self.count_rejected(charge, out, reason, now);
        memory.on_drop(original, &departing(out, reason, charge));
    }

    /// Counts a frame that was not admitted: at the queue that was full, or else at the group.
    /// Returns the port of either.
    fn count_rejected(&mut self, charge: &FrameMeta, out: usize, reason: DropReason, now: Instant) -> usize {
        let (port, priority) = (charge.port(), charge.priority());
        let at_egress = match reason {
            DropReason::TailDrop | DropReason::Wred | DropReason::MtuExceeded => true,
            DropReason::Watchdog => !self.ingress[port].is_dropping(priority),
            _ => false,
        };
        if at_egress {
            self.egress[out].count_drop_at_queue(reason, charge, now);
            self.record_loss(out, reason, charge);
            if reason == DropReason::MtuExceeded
                && let Some(frames) = self.egress[out].take_mtu_drops(now)
            {
                self.events.push(now, Event::MtuExceeded { port: out, frames });
            }
            return out;
        }
        if reason == DropReason::IngressNoDrop {
            self.ingress[port].count_no_drop_loss(priority);
        }
        if self.ingress[port].count_buffer_drop(reason, charge, now, &self.pools) {
            self.events.push(now, Event::NoDropLost { port, priority });
        }
        match reason {
            DropReason::Watchdog => self.record_loss(port, reason, charge),
            _ => self.enter_starvation(charge, now),
        }
        port
    }

    /// Counts frames that `port` did not accept from a guest, as received and dropped. Their
    /// lengths are unknown. Those of a no-drop priority are losses.
    #[cold]
    pub fn refused_frames(&mut self, port: usize, refused: &RefusedFrames) {
        let of_priorities = refused.by_priority.iter().map(|&frames| u64::from(frames)).sum::<u64>();
        let ingress = &mut self.ingress[port];
        ingress.count_refused(of_priorities + u64::from(refused.others));
        for (priority, &frames) in refused.by_priority.iter().enumerate() {
            if frames > 0 && ingress.is_no_drop(priority) {
                ingress.count_no_drop_losses(priority, frames.into());
                self.losses.record((port as u8, priority as u8, DropReason::Refused), frames.into());
            }
        }
    }

    /// Handles a frame that `transmit` returned for `port` and that the kernel completed but lost.
    #[cold]
    pub fn kernel_lost<M: FrameMemory>(&mut self, port: usize, frame: FrameId, now: Instant, memory: &mut M) {
        if let Some(charge) = self.complete_data(port, frame, now, memory) {
            let is_no_drop = self.ingress[charge.port()].is_no_drop(charge.priority());
            self.egress[port].kernel_lost(&charge, is_no_drop, &mut self.pools);
            if is_no_drop {
                self.ingress[port].count_no_drop_loss(charge.priority());
            }
        } else {
            self.ingress[port].pfc_lost();
            self.egress[port].kernel_lost_pfc();
            self.mark_pfc_pending(self.sets.up.and(Set64::of(port))); // the lost PFC frame is sent again
        }
        self.sets.unreported_drops.set(port, true);
    }

    /// Counts a copy of a flooded frame that had no room among the queued copies, or in memory.
    #[cold]
    pub(crate) fn count_no_copy(&mut self, charge: &FrameMeta) {
        self.ingress[charge.port()].count_drop(DropReason::NoCopy, charge.len);
        self.record_loss(charge.port(), DropReason::NoCopy, charge);
    }

    /// Records a drop that counts at `port`, if the priority is no-drop: it is counted among the
    /// losses, and reported.
    #[cold]
    pub(crate) fn record_loss(&mut self, port: usize, reason: DropReason, charge: &FrameMeta) {
        let priority = charge.priority();
        if self.ingress[charge.port()].is_no_drop(priority) {
            self.ingress[port].count_no_drop_loss(priority);
            self.losses.record((port as u8, priority as u8, reason), 1);
        }
    }
}
