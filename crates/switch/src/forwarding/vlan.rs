//! VLANs: which one a frame belongs to, which ports it may leave by, and with which tag.
//!
//! Rule: a switch on which no port has VLANs is one transparent bridge: tags are read for their
//! priority and stay unchanged. Where ports have VLANs,
//! - an *access* port has one VLAN, its PVID. It accepts frames without a VLAN tag (untagged, or
//!   with a priority tag, VID 0), and sends untagged frames;
//! - a *trunk* port has the VLANs that it allows. A received frame belongs to the VLAN of its tag,
//!   or, if it has none, to the VLAN of the PVID, where there is one. It leaves with its VLAN's
//!   tag, except in the PVID's VLAN, which leaves untagged;
//! - a frame is dropped and counted, and not learned, if its port does not accept it because the
//!   port does not have the frame's VLAN, or has no PVID. A frame leaves only by ports of its VLAN,
//!   and each VLAN learns independently;
//! - a tag that is pushed has the frame's priority as PCP, and DEI 0; one that stays keeps PCP and
//!   DEI. Cells are charged for the frame as received; rates and shares use its length as sent.
//!
//! Only the C-tag (0x8100) counts. An S-tag (0x88a8) is payload here, whose PCP is trusted as that
//! of any outermost tag. A frame with an S-tag is untagged, and its tags leave as they arrived,
//! behind the C-tag of its VLAN where the port adds one. Source: IEEE 802.1Q-2022 6.9 (PVID,
//! acceptable frame types, tags), 8.6.1 to 8.6.4 (ingress filtering, member set, egress), 8.8
//! (independent learning), 9.6 (tag; VIDs 0 and 4095 are no VLAN's); docs/behavior.md, "VLANs".

use crate::forwarding::parsed_frame::{Disposition, RxFrame};
use crate::frame::header_edit::VlanAction;
use crate::frame::meta::FrameMeta;
use crate::monitor::counters::DropReason;
use crate::settings::{PortSettings, VlanSettings};
use serde::{Deserialize, Serialize};
use wire::bitset::Set64;

/// Number of VIDs.
const VIDS: usize = 4096;

/// VLANs of the ports of a switch.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VlanTable {
    /// Member ports by VID. Empty for VIDs without VLAN.
    members: Vec<Set64>,
    /// PVID by port: the VLAN of untagged frames, in and out; 0 if there is none.
    pvids: Vec<u16>,
    /// Ports that accept no frames with a VLAN tag.
    access: Set64,
}

impl VlanTable {
    /// Returns the VLANs of these ports; `None` if no port has any.
    #[expect(clippy::indexing_slicing, reason = "a VID, modulo the length of the table")]
    pub fn from_settings(ports: &[PortSettings]) -> Option<Box<Self>> {
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

    /// Returns the member ports of a VLAN.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a VID, modulo the length of the table")]
    pub fn members(&self, vid: u16) -> Set64 {
        self.members[usize::from(vid) % VIDS]
    }

    /// Returns the VLAN of a frame received on `port` with a C-tag of this VID; `None` if the frame
    /// is not accepted.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "by port, which the switch numbers")]
    pub fn vid_of_frame(&self, port: usize, customer_vid: Option<u16>) -> Option<u16> {
        let vid = match customer_vid {
            None | Some(0) => self.pvids[port],
            Some(_) if self.access.contains(port) => return None,
            Some(vid) => vid,
        };
        self.members(vid).contains(port).then_some(vid)
    }

    /// Classifies received frames to their VLANs: sets the VLAN of their addresses, or rejects
    /// them.
    #[inline(never)] // nothing of it in the way of a switch without VLANs
    pub fn classify_ingress(&self, arrivals: &mut [RxFrame]) {
        for arrival in arrivals.iter_mut().filter(|arrival| arrival.disposition == Disposition::Data) {
            match self.vid_of_frame(arrival.meta.port(), arrival.first_tag.customer_vid()) {
                Some(vid) => {
                    (arrival.dst, arrival.src) = (arrival.dst.in_vlan(vid), arrival.src.in_vlan(vid));
                }
                None => arrival.disposition = Disposition::Invalid(DropReason::VlanFiltered),
            }
        }
    }

    /// Restricts resolved frames to ports of their VLAN. A learned destination always is one; a
    /// static entry may not be.
    #[inline(never)]
    pub fn filter_egress(&self, arrivals: &mut [RxFrame]) {
        for arrival in arrivals {
            if let Disposition::To(out) = arrival.disposition {
                let has_vlan = self.members(arrival.dst.vid()).contains(out.into());
                arrival.disposition = if has_vlan {
                    Disposition::InVlan(out)
                } else {
                    Disposition::Filtered(arrival.meta.in_port)
                };
            }
        }
    }

    /// Returns the tag action of a frame that leaves by `out`, and its metadata with that tag.
    /// `None` if the frame would then be longer than `longest` bytes, which is what fits the
    /// memory.
    #[inline(never)]
    pub fn egress_action(
        &self,
        out: usize,
        arrival: &RxFrame,
        longest: u16,
    ) -> Option<(VlanAction, FrameMeta)> {
        let mut charge = arrival.meta;
        let change = self.action_at(out, arrival.dst.vid(), arrival.first_tag.customer_vid());
        let len = change.len_after(charge.len);
        if len > longest {
            return None;
        }
        if change != VlanAction::Keep {
            let moved = len.wrapping_sub(charge.len) as i8;
            charge.ds_field = charge.ds_field.map(|field| field.shifted(moved));
            charge.len = len;
        }
        Some((change, charge))
    }

    /// Returns the tag action of a frame of this VLAN that arrived with a C-tag of VID
    /// `customer_vid` and leaves by `port`.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "by port, which the switch numbers")]
    pub fn action_at(&self, port: usize, vid: u16, customer_vid: Option<u16>) -> VlanAction {
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
