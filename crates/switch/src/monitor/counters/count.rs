//! Counter types: frames and bytes, PFC frames, and the reasons of drops.

use serde::{Deserialize, Serialize};

use crate::settings::PRIORITIES;

/// Why a received frame (or a flooded copy of one) was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum DropReason {
    /// The frame is shorter than an Ethernet header, or its tag is truncated.
    Malformed,
    /// The source address is a group address, or all zero.
    BadSource,
    /// The destination is 01-80-C2-00-00-0x, which no bridge forwards, and the frame is not for
    /// this switch either.
    Reserved,
    /// The destination is on the port the frame came from, or no other port is up.
    Filtered,
    /// Broadcast frames exceeded the port's limit.
    BroadcastLimit,
    /// Frames to other group addresses exceeded the port's limit.
    MulticastLimit,
    /// Unicast frames to unknown destinations exceeded the port's limit.
    UnknownUnicastLimit,
    /// The input port does not accept the frame's VLAN, or its tag.
    VlanFiltered,
    /// A lossy group's ingress threshold, or the shared pool, had no room.
    IngressLossy,
    /// A no-drop group's headroom, or the headroom pool, was exhausted: a no-drop loss.
    IngressNoDrop,
    /// The egress queue's threshold was reached (tail drop).
    TailDrop,
    /// WRED dropped the frame from a queue that grows.
    Wred,
    /// The queue, or the group, was stormed, and the watchdog's action is to drop.
    Watchdog,
    /// There was no memory for the copy of a flooded frame.
    NoCopy,
    /// The port that the frame was queued on went down, or the switch stopped before it could
    /// leave.
    PortDown,
    /// With its egress tag the frame is longer than the interface can send, or than fits the
    /// memory.
    MtuExceeded,
    /// A no-drop frame whose destination was learned on a port that is down.
    DestinationDown,
}

impl DropReason {
    /// Every reason, in the order of the arrays.
    pub const ALL: [DropReason; 17] = [
        DropReason::Malformed,
        DropReason::BadSource,
        DropReason::Reserved,
        DropReason::Filtered,
        DropReason::BroadcastLimit,
        DropReason::MulticastLimit,
        DropReason::UnknownUnicastLimit,
        DropReason::VlanFiltered,
        DropReason::IngressLossy,
        DropReason::IngressNoDrop,
        DropReason::TailDrop,
        DropReason::Wred,
        DropReason::Watchdog,
        DropReason::NoCopy,
        DropReason::PortDown,
        DropReason::MtuExceeded,
        DropReason::DestinationDown,
    ];

    /// Returns the name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Malformed => "malformed",
            DropReason::BadSource => "bad_source",
            DropReason::Reserved => "reserved_address",
            DropReason::Filtered => "filtered",
            DropReason::BroadcastLimit => "broadcast_limit",
            DropReason::MulticastLimit => "multicast_limit",
            DropReason::UnknownUnicastLimit => "unknown_unicast_limit",
            DropReason::VlanFiltered => "vlan_filtered",
            DropReason::IngressLossy => "ingress_lossy",
            DropReason::IngressNoDrop => "ingress_no_drop",
            DropReason::TailDrop => "tail_drop",
            DropReason::Wred => "wred",
            DropReason::Watchdog => "watchdog",
            DropReason::NoCopy => "no_copy",
            DropReason::PortDown => "port_down",
            DropReason::MtuExceeded => "mtu_exceeded",
            DropReason::DestinationDown => "destination_down",
        }
    }

    /// True if the drop counts on the output side of a port. `PortDown` counts on either.
    pub fn is_of_output(self) -> bool {
        use DropReason::{DestinationDown, MtuExceeded, PortDown, TailDrop, Wred};
        matches!(self, TailDrop | Wred | MtuExceeded | PortDown | DestinationDown)
    }
}

/// Frames and their bytes (without FCS).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameCount {
    /// Number of frames.
    pub frames: u64,
    /// Total length of the frames, without FCS.
    pub bytes: u64,
}

impl FrameCount {
    /// Counts one more frame.
    #[inline]
    pub fn add(&mut self, len: u16) {
        self.frames += 1;
        self.bytes += u64::from(len);
    }

    /// Returns the sum of `counts`.
    pub fn sum(counts: &[FrameCount]) -> FrameCount {
        counts.iter().fold(FrameCount::default(), |sum, &count| sum + count)
    }
}

impl std::ops::Add for FrameCount {
    type Output = FrameCount;

    fn add(self, other: FrameCount) -> FrameCount {
        FrameCount { frames: self.frames + other.frames, bytes: self.bytes + other.bytes }
    }
}

/// PFC frames of a port, in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PfcCount {
    /// All PFC frames.
    pub frames: u64,
    /// Frames that paused (time not 0) this priority.
    pub xoff_frames: [u64; PRIORITIES],
    /// Frames that released (time 0) this priority.
    pub xon_frames: [u64; PRIORITIES],
}

/// Sent PFC frames by the reason for which they were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PfcReasons {
    /// A priority entered or left XOFF.
    pub change_frames: u64,
    /// XOFF lasted, and half of the pause time would have passed soon.
    pub refresh_frames: u64,
    /// XON once more, XOFF for a peer that went on, or what the kernel had lost.
    pub repeat_frames: u64,
    /// The guard sent XOFF while the loop was stalled.
    pub guard_frames: u64,
}

impl PfcCount {
    /// Adds the counts of `more`.
    pub fn add(&mut self, more: &Self) {
        self.frames += more.frames;
        for p in 0..PRIORITIES {
            self.xoff_frames[p] += more.xoff_frames[p];
            self.xon_frames[p] += more.xon_frames[p];
        }
    }
}
