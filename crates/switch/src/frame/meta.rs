//! Frame metadata: where a frame is addressed to, how it is treated, and what it is charged.
//!
//! All types are plain values. Each is determined once, when the frame is received, and read by
//! every later stage.

use serde::{Deserialize, Serialize};
use wire::ip::{DsField, Ecn};
use wire::mac::MacAddr;

use crate::settings::DropLevel;

/// Class of service of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C, align(4))]
pub struct QosClass {
    /// 802.1p priority, which selects the priority group.
    pub priority: u8,
    /// Local precedence, which selects the queue.
    pub queue: u8,
    /// Color, which selects the WRED curve.
    pub drop_level: DropLevel,
    /// True if the frame is flooded, and a separate map selected its queue.
    pub flooded: bool,
}

/// Key of an FDB entry: a MAC address, and its VLAN where there are any, as one number, which the
/// FDB compares and hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FdbKey(pub(crate) u64);

impl FdbKey {
    /// Bit that is set in every key, so that none equals an empty slot.
    pub(crate) const VALID: u64 = 1 << 63;
    /// Group bit of addresses (IEEE 802-2014 8.2).
    const GROUP: u64 = 1 << 40;
    /// Position of the 12-bit VID.
    pub(crate) const VLAN_SHIFT: u32 = 48;

    /// Returns the key of an address.
    #[inline]
    pub fn of(mac: MacAddr) -> Self {
        Self::of_number(mac.number())
    }

    /// Returns the key of an address given by [`MacAddr::number`].
    #[inline]
    pub fn of_number(number: u64) -> Self {
        Self(number | Self::VALID)
    }

    /// True for a multicast address or the broadcast address.
    #[inline]
    pub fn is_group(self) -> bool {
        self.0 & Self::GROUP != 0
    }

    /// True for the broadcast address, in any VLAN.
    pub fn is_broadcast(self) -> bool {
        let mac = (1 << Self::VLAN_SHIFT) - 1;
        self.0 & mac == mac
    }

    /// Returns the key of the same address in a VLAN; 0 for none. Each VLAN learns independently.
    pub fn in_vlan(self, vid: u16) -> Self {
        let mac = self.0 & ((1 << Self::VLAN_SHIFT) - 1);
        Self(Self::VALID | u64::from(vid & 0xfff) << Self::VLAN_SHIFT | mac)
    }

    /// Returns the address, without its VLAN.
    pub fn mac(self) -> MacAddr {
        MacAddr::from_number(self.0)
    }

    /// Returns the VID; 0 for none.
    pub fn vid(self) -> u16 {
        (self.0 >> Self::VLAN_SHIFT) as u16 & 0xfff
    }

    /// True for an empty slot.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Type of a frame by its destination: known unicast, or one of the flooded types.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum FloodType {
    /// Unicast to a known destination.
    #[default]
    Known,
    /// Frame to the broadcast address.
    Broadcast,
    /// Frame to another group address.
    Multicast,
    /// Unicast to an unknown destination.
    UnknownUnicast,
}

impl FloodType {
    /// Flooded types, in the order of arrays by [`FloodType::index`].
    pub const FLOODED: [FloodType; 3] =
        [FloodType::Broadcast, FloodType::Multicast, FloodType::UnknownUnicast];

    /// Returns the type of a flooded frame to this address.
    pub fn of_flooded(dst: FdbKey) -> Self {
        match dst {
            dst if dst.is_broadcast() => FloodType::Broadcast,
            dst if dst.is_group() => FloodType::Multicast,
            _ => FloodType::UnknownUnicast,
        }
    }

    /// Returns the index in arrays of flooded types; `None` for [`FloodType::Known`].
    pub fn index(self) -> Option<usize> {
        (self as usize).checked_sub(1)
    }

    /// Returns the type in words.
    pub fn name(self) -> &'static str {
        match self {
            FloodType::Known => "known unicast",
            FloodType::Broadcast => "broadcast",
            FloodType::Multicast => "multicast",
            FloodType::UnknownUnicast => "unknown unicast",
        }
    }

    /// Returns the setting that limits this type, in a port's table.
    pub fn limit_setting_name(self) -> &'static str {
        match self {
            FloodType::Known => "",
            FloodType::Broadcast => "broadcast_limit_pps",
            FloodType::Multicast => "multicast_limit_pps",
            FloodType::UnknownUnicast => "unknown_unicast_limit_pps",
        }
    }
}

/// ECN marking (CE) of a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum EcnMarking {
    /// The frame cannot be marked: its sender does not support ECN, it arrived with the mark, or
    /// its header is truncated.
    #[default]
    NotMarkable,
    /// The frame may be marked.
    Ect,
    /// The frame is marked when it leaves.
    Marked,
}

impl EcnMarking {
    /// Returns the marking of a frame received with this codepoint; `is_complete` is false for a
    /// truncated header.
    #[inline]
    pub fn of(ecn: Ecn, is_complete: bool) -> Self {
        if ecn.is_markable() && is_complete { EcnMarking::Ect } else { EcnMarking::NotMarkable }
    }
}

/// Metadata of a frame, kept until its cells are released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C, align(4))]
pub struct FrameMeta {
    /// Class of service: priority group, queue and drop level.
    pub class: QosClass,
    /// Length in bytes without FCS.
    pub len: u16,
    /// Cells charged, at ingress and at egress.
    pub cells: u16,
    /// Position of the differentiated services field, if there is one, for ECN marks and remarking.
    pub ds_field: Option<DsField>,
    /// ECN marking when the frame leaves.
    pub marking: EcnMarking,
    /// Input port.
    pub in_port: u8,
    /// Type by its destination; of a received frame, valid once it is resolved.
    pub flood_type: FloodType,
}

impl Default for FrameMeta {
    /// Returns the metadata of no frame.
    fn default() -> Self {
        FrameMeta::NONE
    }
}

impl FrameMeta {
    /// Value of `in_port` for a frame that the switch does not have.
    pub(crate) const NO_FRAME: u8 = 255;
    /// Value of `in_port` for a frame that the switch made itself (PFC), which has no cells.
    pub(crate) const CONTROL: u8 = 254;
    /// Value of `in_port` for a copy of a flooded frame, which is charged at egress only.
    pub(crate) const COPY: u8 = 253;

    /// Metadata of no frame.
    pub(crate) const NONE: Self = Self {
        class: QosClass { priority: 0, queue: 0, drop_level: DropLevel::Green, flooded: false },
        len: 0,
        cells: 0,
        ds_field: None,
        marking: EcnMarking::NotMarkable,
        in_port: Self::NO_FRAME,
        flood_type: FloodType::Known,
    };

    /// Returns the number of its queue.
    #[inline]
    pub fn queue(&self) -> usize {
        usize::from(self.class.queue & 7)
    }

    /// Returns the number of its priority group.
    #[inline]
    pub fn priority(&self) -> usize {
        usize::from(self.class.priority & 7)
    }

    /// Returns the number of its input port.
    #[inline]
    pub fn port(&self) -> usize {
        usize::from(self.in_port)
    }

    /// Returns the cells charged, at ingress and at egress.
    #[inline]
    pub fn cells(&self) -> u32 {
        u32::from(self.cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_flooded_frames() {
        let group = MacAddr([1, 0, 0x5e, 0, 0, 1]);
        let addresses = [MacAddr::BROADCAST, group, MacAddr([2; 6])];
        for vid in [0, 7] {
            let types = addresses.map(|mac| FloodType::of_flooded(FdbKey::of(mac).in_vlan(vid)));
            assert_eq!(types, FloodType::FLOODED);
        }
        let of = |flooded: FloodType| (flooded.index(), flooded.name(), flooded.limit_setting_name());
        assert_eq!(of(FloodType::Known), (None, "known unicast", ""));
        let expected = [
            (Some(0), "broadcast", "broadcast_limit_pps"),
            (Some(1), "multicast", "multicast_limit_pps"),
            (Some(2), "unknown unicast", "unknown_unicast_limit_pps"),
        ];
        assert_eq!(FloodType::FLOODED.map(of), expected);
    }
}
