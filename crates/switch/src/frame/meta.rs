//! What the switch knows of a frame besides its bytes: where it is addressed to, how it is treated,
//! and what it is charged.
//!
//! Plain values. Each is determined once, when the frame is received, and read by every later
//! stage.

use serde::{Deserialize, Serialize};
use wire::ip::{DsField, Ecn};
use wire::mac::MacAddr;

use crate::settings::DropLevel;

/// What a frame is treated as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C, align(4))]
pub struct QosClass {
    /// 802.1p priority: the group.
    pub priority: u8,
    /// Local precedence: the queue.
    pub queue: u8,
    /// Drop level.
    pub drop_level: DropLevel,
    /// It is flooded, and a map of its own said which queue.
    pub flooded: bool,
}

/// A MAC address, and its VLAN where there are any, as one number, which is what the table compares
/// and hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FdbKey(pub(crate) u64);

impl FdbKey {
    /// Set in every address, so that none is like an empty slot.
    pub(crate) const VALID: u64 = 1 << 63;
    /// The bit that group addresses have (IEEE 802-2014 8.2).
    const GROUP: u64 = 1 << 40;
    /// Where the number of its VLAN is, of 12 bits.
    pub(crate) const VLAN_SHIFT: u32 = 48;

    /// The number of an address.
    #[inline]
    pub fn of(mac: MacAddr) -> Self {
        Self::of_number(mac.number())
    }

    /// The same from [`MacAddr::number`].
    #[inline]
    pub fn of_number(number: u64) -> Self {
        Self(number | Self::VALID)
    }

    /// A multicast address or the broadcast address.
    #[inline]
    pub fn is_group(self) -> bool {
        self.0 & Self::GROUP != 0
    }

    /// The broadcast address, in whatever VLAN.
    pub fn is_broadcast(self) -> bool {
        let mac = (1 << Self::VLAN_SHIFT) - 1;
        self.0 & mac == mac
    }

    /// The same in a VLAN, which is another entry: each VLAN learns for itself. 0: in none.
    pub fn in_vlan(self, vid: u16) -> Self {
        let mac = self.0 & ((1 << Self::VLAN_SHIFT) - 1);
        Self(Self::VALID | u64::from(vid & 0xfff) << Self::VLAN_SHIFT | mac)
    }

    /// Its VLAN; 0: none.
    pub fn vid(self) -> u16 {
        (self.0 >> Self::VLAN_SHIFT) as u16 & 0xfff
    }

    /// The slot of no address.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What a frame is to a bridge by its destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum FloodType {
    /// For a station whose port is known.
    #[default]
    Known,
    /// For all stations.
    Broadcast,
    /// For a group of them.
    Multicast,
    /// For one whose port is not known.
    UnknownUnicast,
}

impl FloodType {
    /// Those that are flooded, in the order of arrays by [`FloodType::place`].
    pub const FLOODED: [FloodType; 3] =
        [FloodType::Broadcast, FloodType::Multicast, FloodType::UnknownUnicast];

    /// Of a frame to this address, which is flooded.
    pub fn of_flooded(dst: FdbKey) -> Self {
        match dst {
            dst if dst.is_broadcast() => FloodType::Broadcast,
            dst if dst.is_group() => FloodType::Multicast,
            _ => FloodType::UnknownUnicast,
        }
    }

    /// Its place in arrays of what is flooded; of [`FloodType::Known`] there is none.
    pub fn place(self) -> Option<usize> {
        (self as usize).checked_sub(1)
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            FloodType::Known => "known unicast",
            FloodType::Broadcast => "broadcast",
            FloodType::Multicast => "multicast",
            FloodType::UnknownUnicast => "unknown unicast",
        }
    }

    /// The setting that limits it, in a port's table.
    pub fn setting(self) -> &'static str {
        match self {
            FloodType::Known => "",
            FloodType::Broadcast => "broadcast_limit_pps",
            FloodType::Multicast => "multicast_limit_pps",
            FloodType::UnknownUnicast => "unknown_unicast_limit_pps",
        }
    }
}

/// Whether a frame is marked as having met congestion (CE).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum EcnMarking {
    /// It cannot be: its sender does not understand that, or it came with the mark, or its header
    /// is cut off.
    #[default]
    No,
    /// It can be.
    Possible,
    /// It is, once it leaves.
    Due,
}

impl EcnMarking {
    /// Of a frame that came with this codepoint, in a header that is whole or not.
    #[inline]
    pub fn of(ecn: Ecn, is_whole: bool) -> Self {
        if ecn.is_markable() && is_whole { EcnMarking::Possible } else { EcnMarking::No }
    }
}

/// What is remembered of a frame until its cells are released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C, align(4))]
pub struct FrameMeta {
    /// What it is treated as: its priority group, its queue, its drop level.
    pub class: QosClass,
    /// Bytes without FCS.
    pub len: u16,
    /// Cells charged, at ingress and at egress.
    pub cells: u16,
    /// Where its differentiated services field is, if it has one: marks and rewriting look no
    /// further.
    pub ds_field: Option<DsField>,
    /// Whether it is marked as having met congestion when it leaves.
    pub marking: EcnMarking,
    /// Port it came in on.
    pub in_port: u8,
    /// What it is by its destination; of a frame that came in, once its way has been found.
    pub cast: FloodType,
}

impl Default for FrameMeta {
    /// Of no frame.
    fn default() -> Self {
        FrameMeta::NONE
    }
}

impl FrameMeta {
    /// In place of the port that a frame came in on: the switch does not have this frame.
    pub(crate) const ABSENT: u8 = 255;
    /// … or made it itself (PFC); it has no cells.
    pub(crate) const OWN: u8 = 254;

    /// Of no frame.
    pub(crate) const NONE: Self = Self {
        class: QosClass { priority: 0, queue: 0, drop_level: DropLevel::Green, flooded: false },
        len: 0,
        cells: 0,
        ds_field: None,
        marking: EcnMarking::No,
        in_port: Self::ABSENT,
        cast: FloodType::Known,
    };

    /// Its queue's number.
    #[inline]
    pub fn queue(&self) -> usize {
        usize::from(self.class.queue & 7)
    }

    /// Its priority group's number.
    #[inline]
    pub fn priority(&self) -> usize {
        usize::from(self.class.priority & 7)
    }

    /// The number of the port that it came in on.
    #[inline]
    pub fn port(&self) -> usize {
        usize::from(self.in_port)
    }

    /// Its cells.
    #[inline]
    pub fn cells(&self) -> u32 {
        u32::from(self.cells)
    }
}
