//! Flooding: a frame whose destination is not known, or is a group address, goes to every other
//! port that is up.
//!
//! Rule: it is counted by kind, and dropped if a limit is in the way. It goes to the ports of its
//! VLAN, where ports have any, and has a queue by a map of its own, where there is one. Each port
//! but the last gets a copy, which is charged cells of its own; nothing is copied for a port that
//! has no room, and what one port refuses the others get all the same. Source: IEEE 802.1Q-2022
//! 8.6.1, 8.8; docs/behavior.md, "Bridging" and "Flood limits".

use crate::forwarding::parsed_frame::RxFrame;
use crate::frame::header_edit::VlanAction;
use crate::frame::memory::FrameMemory;
use crate::frame::meta::FloodType;
use crate::monitor::counters::DropReason;
use crate::pipeline::Switch;
use crate::pipeline::admission::{admit, admit_cells};
use crate::time::Instant;
use wire::bitset::Set64;

impl Switch {
    /// To every other port that is up, if no limit is in the way; each but the last gets a copy.
    #[cold]
    pub(crate) fn flood<M: FrameMemory>(&mut self, arrival: &mut RxFrame, now: Instant, memory: &mut M) {
        let port = arrival.charge.port();
        arrival.charge.cast = FloodType::of_flooded(arrival.dst);
        if !self.ingress[port].check_storm_control(&arrival.charge, now) {
            self.unreported_drops.set(port, true);
            return memory.free(arrival.take_frame());
        }
        let map = match arrival.charge.cast {
            FloodType::UnknownUnicast => &self.unknown_unicast_to_queue,
            _ => &self.multicast_to_queue,
        };
        if let Some(map) = map {
            let class = &mut arrival.charge.class;
            (class.queue, class.flooded) = (map[usize::from(class.priority & 7)] & 7, true);
        }
        let mut targets = self.up.without(Set64::of(port));
        if let Some(vlans) = &self.vlans {
            targets = targets.and(vlans.members(arrival.dst.vid()));
        }
        let Some(last) = targets.last() else { return self.filter(arrival, port, memory) };
        for out in targets.without(Set64::of(last)) {
            self.flood_copies += 1;
            // Nothing is copied for a port that has no room. How long it will be there with its VLAN's tag is
            // seen once it has it.
            let (ingress, egress) = (&self.ingress[port], &self.egress[out]);
            let fits = if self.vlans.is_some() { admit_cells } else { admit };
            let room = fits(ingress, egress, &arrival.charge, &self.pools);
            match (room, memory.alloc_for(usize::from(arrival.charge.len))) {
                (Ok(_), Some(frame)) => {
                    memory.copy(&arrival.frame, &frame, usize::from(arrival.charge.len));
                    self.forward_one(&mut RxFrame { frame, ..*arrival }, out, now, memory);
                }
                (Ok(_), None) => {
                    self.ingress[port].count_drop(DropReason::NoCopy, arrival.charge.len);
                    self.note_loss(port, DropReason::NoCopy, &arrival.charge);
                }
                (Err(reason), copy) => {
                    self.count_refusal(&arrival.charge, out, reason, now);
                    copy.into_iter().for_each(|copy| memory.free(copy));
                }
            }
        }
        self.forward_one(arrival, last, now, memory);
    }

    /// To one port with the tag that its VLAN has there, or as it is where there are no VLANs.
    #[cold]
    pub(crate) fn forward_one<M: FrameMemory>(
        &mut self,
        arrival: &mut RxFrame,
        out: usize,
        now: Instant,
        memory: &mut M,
    ) {
        let tag = match &self.vlans {
            Some(vlans) => vlans.egress_action(out, arrival, self.max_frame.longest_bytes, memory),
            None => Some(VlanAction::Keep),
        };
        let Some(tag) = tag else {
            let frame = arrival.take_frame();
            return self.refuse((frame, &arrival.charge), out, DropReason::MtuExceeded, now, memory);
        };
        let number = arrival.frame.index();
        let waits = self.forward_by_pools(arrival, out, now, memory);
        if waits && tag != VlanAction::Keep {
            self.egress[out].change_tag(number, tag, &mut self.store);
        }
    }
}
