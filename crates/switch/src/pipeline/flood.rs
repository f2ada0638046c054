//! Flooding: a frame to an unknown destination or a group address goes to every other port that is
//! up.
//!
//! Rule: a flooded frame is counted by type, and dropped if it exceeds a flood limit. It goes to
//! the ports of its VLAN, where ports have VLANs. Its queue comes from a separate map, where one is
//! configured. Each port except the last gets a copy, which is charged its own cells. No copy is
//! made for a port that has no room, and a drop at one port does not affect the others. Source:
//! IEEE 802.1Q-2022 8.6.1, 8.8; docs/behavior.md, "Bridging" and "Flood limits".

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
    /// Floods a frame to every other port that is up, unless it exceeds a flood limit. Each port
    /// except the last gets a copy.
    #[cold]
    pub(crate) fn flood<M: FrameMemory>(&mut self, arrival: &mut RxFrame, now: Instant, memory: &mut M) {
        let port = arrival.charge.port();
        arrival.charge.cast = FloodType::of_flooded(arrival.dst);
        if !self.ingress[port].check_storm_control(&arrival.charge, now) {
            self.sets.unreported_drops.set(port, true);
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
        let mut targets = self.sets.up.without(Set64::of(port));
        if let Some(vlans) = &self.vlans {
            targets = targets.and(vlans.members(arrival.dst.vid()));
        }
        let Some(last) = targets.last() else { return self.filter(arrival, port, memory) };
        for out in targets.without(Set64::of(last)) {
            self.flood_copies += 1;
            // No copy is made for a port that has no room. The copy's length with its VLAN tag is
            // known, and checked, only once the tag is set.
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

    /// Forwards a frame to one port, tagged as its VLAN requires there; unchanged without VLANs.
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
