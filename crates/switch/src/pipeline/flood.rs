//! Flooding: a frame to an unknown destination or a group address goes to every other port that is
//! up.
//!
//! Rule: a flooded frame is counted by type, and dropped if it exceeds a flood limit. It goes to
//! the ports of its VLAN, where ports have VLANs. Its queue comes from a separate map, where one is
//! configured. It is stored once, and charged once at ingress, when the first queue admits it; each
//! queue is charged for its own copy. The cells at ingress are released with its last copy. If
//! ingress has no room for it, that is one drop. A drop at one port does not affect the others. A
//! copy gets memory of its own when it is handed out to be sent. Source: IEEE 802.1Q-2022 8.6.1,
//! 8.8; docs/behavior.md, "Bridging", "Flooded frames" and "Flood limits".

use crate::buffer::sizing::{COPIES_PER_PORT, chunks_of};
use crate::forwarding::parsed_frame::RxFrame;
use crate::frame::FrameId;
use crate::frame::header_edit::{TxDesc, VlanAction};
use crate::frame::memory::{FrameMemory, MaxFrame};
use crate::frame::meta::{FloodType, FrameMeta};
use crate::monitor::counters::DropReason;
use crate::pipeline::Switch;
use crate::pipeline::drops::{departing, drop_received};
use crate::time::Instant;
use wire::bitset::Set64;

impl Switch {
    /// Floods a frame to every other port that is up, unless it exceeds a flood limit.
    #[cold]
    pub(crate) fn flood<M: FrameMemory>(&mut self, arrival: &mut RxFrame, now: Instant, memory: &mut M) {
        let port = arrival.meta.port();
        arrival.meta.flood_type = FloodType::of_flooded(arrival.dst);
        if let Some(reason) = self.ingress[port].check_storm_control(&arrival.meta, now) {
            self.sets.unreported_drops.set(port, true);
            let priority = arrival.meta.priority();
            if self.ingress[port].is_no_drop(priority) {
                self.ingress[port].count_no_drop_loss(priority);
            }
            return drop_received(arrival, port, reason, memory);
        }
        let map = match arrival.meta.flood_type {
            FloodType::UnknownUnicast => &self.unknown_unicast_to_queue,
            _ => &self.multicast_to_queue,
        };
        if let Some(map) = map {
            let class = &mut arrival.meta.class;
            (class.queue, class.flooded) = (map[usize::from(class.priority & 7)] & 7, true);
        }
        let mut targets = self.sets.up.without(Set64::of(port));
        if let Some(vlans) = &self.vlans {
            targets = targets.and(vlans.members(arrival.dst.vid()));
        }
        match targets.last() {
            None => {
                self.record_loss(port, DropReason::Filtered, &arrival.meta); // no other port is up
                self.filter(arrival, port, now, memory);
            }
            Some(only) if targets == Set64::of(only) => self.forward_one(arrival, only, now, memory),
            Some(_) => self.flood_to(arrival, targets, now, memory),
        }
    }

    /// Floods a frame to several ports.
    fn flood_to<M: FrameMemory>(
        &mut self,
        arrival: &mut RxFrame,
        targets: Set64,
        now: Instant,
        memory: &mut M,
    ) {
        let charge = arrival.meta;
        let (port, priority) = (charge.port(), charge.priority());
        let area = match self.ingress[port].admit(&charge, &self.pools) {
            Ok(area) => area,
            Err(reason) => {
                return self.drop_rejected((arrival.take_frame(), &charge), port, reason, now, memory);
            }
        };
        self.frame_queues.store_original(&arrival.frame, &charge);
        let mut copies = 0;
        for out in targets {
            copies += u64::from(self.queue_copy(arrival, out, now, memory));
        }
        self.flood_copies += targets.into_iter().count() as u64 - 1;
        let frame = arrival.take_frame();
        if copies == 0 {
            self.frame_queues.remove_original(&frame);
            return memory.free(frame);
        }
        if self.ingress[port].charge(&charge, area, &mut self.pools) {
            self.update_xoff(port, priority, now);
        }
    }

    /// Queues a copy of a stored frame at one port. Returns false if it was dropped there.
    fn queue_copy<M: FrameMemory>(
        &mut self,
        arrival: &RxFrame,
        out: usize,
        now: Instant,
        memory: &mut M,
    ) -> bool {
        let tagged = match &self.vlans {
            Some(vlans) => vlans.egress_action(out, arrival, self.max_frame.longest_bytes),
            None => Some((VlanAction::Keep, arrival.meta)),
        };
        let Some((tag, mut charge)) = tagged else {
            self.reject_copy((&arrival.frame, &arrival.meta), out, DropReason::MtuExceeded, now, memory);
            return false;
        };
        let egress = &mut self.egress[out];
        let admitted = if charge.len > egress.longest_bytes() {
            Err(DropReason::MtuExceeded)
        } else if !egress.admit(&charge, &self.pools) {
            Err(egress.drop_reason(&charge))
        } else if !self.frame_queues.has_room_for_copy() {
            // Before WRED, which would mark and count a frame that does not leave.
            self.count_no_copy(&charge);
            memory.on_drop(&arrival.frame, &departing(out, DropReason::NoCopy, &charge));
            return false;
        } else {
            egress.apply_wred(&mut charge, arrival.ecn, now)
        };
        if let Err(reason) = admitted {
            self.reject_copy((&arrival.frame, &charge), out, reason, now, memory);
            return false;
        }
        let copy = self.frame_queues.copy_of(&arrival.frame);
        let number = copy.index();
        charge.in_port = FrameMeta::COPY;
        self.egress[out].enqueue(copy, &charge, &mut self.frame_queues, &mut self.pools);
        if tag != VlanAction::Keep {
            self.egress[out].change_tag(number, tag, &mut self.frame_queues);
        }
        self.mark_data_pending(out);
        true
    }

    /// Forwards a frame to one port, tagged as its VLAN requires there; unchanged without VLANs.
    #[cold]
    pub(crate) fn forward_one<M: FrameMemory>(
        &mut self,
        arrival: &mut RxFrame,
        out: usize,
        now: Instant,
        memory: &mut M,
    ) {
        let tagged = match &self.vlans {
            Some(vlans) => vlans.egress_action(out, arrival, self.max_frame.longest_bytes),
            None => Some((VlanAction::Keep, arrival.meta)),
        };
        let tag = match tagged {
            Some((tag, charge))
                if tag == VlanAction::Keep || memory.make_room(&arrival.frame, charge.len.into()) =>
            {
                arrival.meta = charge;
                tag
            }
            _ => {
                let frame = arrival.take_frame();
                return self.drop_rejected((frame, &arrival.meta), out, DropReason::MtuExceeded, now, memory);
            }
        };
        let number = arrival.frame.index();
        let waits = self.forward_by_pools(arrival, out, now, memory);
        if waits && tag != VlanAction::Keep {
            self.egress[out].change_tag(number, tag, &mut self.frame_queues);
        }
    }

    /// Returns how many frames `port` may send now, at most `room`: copies need memory.
    #[cold]
    pub(crate) fn room_for_copies(&self, port: usize, room: usize) -> usize {
        let MaxFrame { longest_bytes, chunk_bytes } = self.max_frame;
        let most = COPIES_PER_PORT / chunks_of(longest_bytes.into(), chunk_bytes.into());
        room.min(self.egress[port].room_for_copies(most.max(1) as u32))
    }

    /// Gives memory to the copies among frames that were taken from the queues of `port`.
    #[cold]
    pub(crate) fn copy_dequeued<M: FrameMemory>(
        &mut self,
        port: usize,
        before: usize,
        now: Instant,
        memory: &mut M,
        out: &mut Vec<TxDesc>,
    ) {
        let mut at = before;
        while at < out.len() {
            let TxDesc { frame: copy, len, .. } = &mut out[at];
            let Some((original, original_len)) = self.frame_queues.original_of(copy) else {
                at += 1;
                continue;
            };
            match memory.alloc_for(original_len.max(*len).into()) {
                Some(frame) => {
                    memory.copy(&original, &frame, original_len.into());
                    self.frame_queues.attach_memory(copy, &frame);
                    self.egress[port].copy_sent();
                    *copy = frame;
                    at += 1;
                }
                None => {
                    let TxDesc { frame: copy, .. } = out.remove(at);
                    self.drop_dequeued(port, copy, now, memory);
                }
            }
        }
    }

    /// Drops a copy that was taken from a queue of `port` and that memory has no room for. The
    /// memory reserved by [`crate::buffer::sizing`] rules this out.
    fn drop_dequeued<M: FrameMemory>(&mut self, port: usize, copy: FrameId, now: Instant, memory: &mut M) {
        if let Some(charge) = self.complete_copy_or_control_slow(port, copy, now, memory) {
            self.egress[port].copy_dropped(&charge, &mut self.pools);
            self.count_no_copy(&charge);
        }
    }

    /// Completes a copy of a flooded frame, queued for `port` or handed out, and its original if
    /// this was its last copy. Returns the metadata of the copy, which is still charged at egress.
    /// For a frame that the switch made it returns `None`.
    #[cold]
    pub(crate) fn complete_copy_or_control_slow<M: FrameMemory>(
        &mut self,
        port: usize,
        frame: FrameId,
        now: Instant,
        memory: &mut M,
    ) -> Option<FrameMeta> {
        let Some(copy) = self.frame_queues.complete_copy_or_control(&frame) else {
            memory.free(frame);
            return None;
        };
        if copy.had_memory {
            memory.free(frame);
            self.egress[port].copy_completed();
        }
        if let Some((original, charge)) = copy.original {
            memory.free(original);
            self.release(&charge, now);
        }
        Some(copy.meta)
    }
}
