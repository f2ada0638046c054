//! VLANs: which one a frame belongs to, which ports it may leave by, and with which tag.
//!
//! Rule: a switch of which no port has VLANs is one transparent bridge: tags are looked at for
//! their priority and stay as they are. Where ports have VLANs,
//! - an *access* port has one VLAN, its PVID. It takes in frames without a VLAN's tag (untagged, or
//!   with a priority tag, VID 0), and sends without tag;
//! - a *trunk* port has the VLANs that it allows. A frame that comes in belongs to the VLAN of its
//!   tag, or to the PVID's if it has none, where there is a PVID. It leaves with its VLAN's tag,
//!   but for the PVID's VLAN, which leaves without;
//! - a frame that its port does not take in, since that has not the frame's VLAN, or no PVID, is
//!   dropped and counted; it is not learned. A frame leaves by ports of its VLAN alone, and each
//!   VLAN learns for itself;
//! - a tag that is put on has the frame's priority as PCP, and DEI 0; one that stays keeps PCP and
//!   DEI. Cells are those of the frame as it came in; rates and shares go by its length as it
//!   leaves.
//!
//! Only the C-tag (0x8100) counts. An S-tag (0x88a8) is payload here, whose PCP is trusted as that
//! of any outermost tag: a frame with one is untagged, and its tags leave as they came, behind the
//! C-tag of its VLAN where the port adds one. Source: IEEE 802.1Q-2022 6.9 (PVID, acceptable frame
//! types, tags), 8.6.1 to 8.6.4 (ingress filtering, member set, egress), 8.8 (independent
//! learning), 9.6 (tag; VIDs 0 and 4095 are no VLAN's); docs/behavior.md, "VLANs".

use crate::forwarding::parsed_frame::{Disposition, RxFrame};
use crate::frame::header_edit::VlanAction;
use crate::frame::memory::FrameMemory;
use crate::monitor::counters::DropReason;
use crate::settings::{PortSettings, VlanSettings};
use serde::{Deserialize, Serialize};
use wire::bitset::Set64;

/// VIDs that a tag has room for.
const VIDS: usize = 4096;

/// Which VLANs the ports of a switch have.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VlanTable {
    /// By VID: the ports that have it. Nothing of VIDs that are no VLAN's.
    members: Vec<Set64>,
    /// By port: the VLAN of frames without tag, in and out; 0: there is none.
    pvids: Vec<u16>,
    /// Ports that take in nothing with a VLAN's tag.
    access: Set64,
}

impl VlanTable {
    /// Those of these ports; `None` if none of them has any.
    pub fn of(ports: &[PortSettings]) -> Option<Box<Self>> {
        if ports.iter().all(|port| port.vlan == VlanSettings::Transparent) {
            return None;
        }
        let mut vlans = Self { members: vec![Set64::EMPTY; VIDS], pvids: Vec::new(), access: Set64::EMPTY };
        for (number, port) in ports.iter().enumerate() {
            for vid in port.vlan.vlans().iter() {
                vlans.members[usize::from(vid) % VIDS].set(number, true);
            }
            vlans.pvids.push(port.vlan.pvid().unwrap_or(0));
            vlans.access.set(number, matches!(port.vlan, VlanSettings::Access { .. }));
        }
        Some(Box::new(vlans))
    }

    /// The ports that have a VLAN.
    #[inline]
    pub fn members(&self, vid: u16) -> Set64 {
        self.members[usize::from(vid) % VIDS]
    }

    /// The VLAN of a frame that comes in on `port` with a C-tag of this VID; `None`: it is not
    /// taken in.
    #[inline]
    pub fn of_frame(&self, port: usize, customer_vid: Option<u16>) -> Option<u16> {
        let vid = match customer_vid {
            None | Some(0) => self.pvids[port],
            Some(_) if self.access.contains(port) => return None,
            Some(vid) => vid,
        };
        self.members(vid).contains(port).then_some(vid)
    }

    /// Finds the VLANs of frames that came in: their addresses are of those from then on, or they
    /// are refused.
    #[inline(never)] // nothing of it in the way of a switch without VLANs
    pub fn classify_ingress(&self, arrivals: &mut [RxFrame]) {
        for arrival in arrivals.iter_mut().filter(|arrival| arrival.kind == Disposition::Data) {
            match self.of_frame(arrival.charge.port(), arrival.first_tag.customer_vid()) {
                Some(vid) => {
                    (arrival.dst, arrival.src) = (arrival.dst.in_vlan(vid), arrival.src.in_vlan(vid));
                }
                None => arrival.kind = Disposition::Refused(DropReason::VlanFiltered),
            }
        }
    }

    /// Where frames go whose ways have been found: to a port that has their VLAN. Learned in a VLAN
    /// is no other; a static entry may be anything.
    #[inline(never)]
    pub fn filter_egress(&self, arrivals: &mut [RxFrame]) {
        for arrival in arrivals {
            if let Disposition::To(out) = arrival.kind {
                let has_vlan = self.members(arrival.dst.vid()).contains(out.into());
                arrival.kind = if has_vlan {
                    Disposition::InVlan(out)
                } else {
                    Disposition::Filtered(arrival.charge.in_port)
                };
            }
        }
    }

    /// What becomes of the tag of a frame that leaves by `out`; notes what is different of it then,
    /// and sees to it that it has room. `None`: memory, which has room for frames of `longest`
    /// bytes, has none for it.
    #[inline(never)]
    pub fn egress_action<M: FrameMemory>(
        &self,
        out: usize,
        arrival: &mut RxFrame,
        longest: u16,
        memory: &mut M,
    ) -> Option<VlanAction> {
        let RxFrame { frame, charge, first_tag, dst, .. } = arrival;
        let change = self.change(out, dst.vid(), first_tag.customer_vid());
        let len = change.len_after(charge.len);
        if len > longest {
            return None;
        }
        if change != VlanAction::Keep {
            if !memory.make_room(frame, len.into()) {
                return None;
            }
            let moved = len.wrapping_sub(charge.len) as i8;
            charge.ds_field = charge.ds_field.map(|field| field.moved(moved));
            charge.len = len;
        }
        Some(change)
    }

    /// What becomes of the tag of a frame of this VLAN that came with a C-tag of the other VID, and
    /// leaves by `port`.
    #[inline]
    pub fn change(&self, port: usize, vid: u16, customer_vid: Option<u16>) -> VlanAction {
        let leaves_tagged = self.pvids[port] != vid;
        match (customer_vid, leaves_tagged) {
            (None, false) => VlanAction::Keep,
            (None, true) => VlanAction::Push(vid),
            (Some(_), false) => VlanAction::Pop,
            (Some(0), true) => VlanAction::SetVid(vid),
            (Some(_), true) => VlanAction::Keep,
        }
    }
}
