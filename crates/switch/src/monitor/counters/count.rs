//! Counter types: frames and bytes, PFC frames, and the reasons of drops.

use schemars::JsonSchema;
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
    /// A guest handed the frame over in a way that its port does not accept.
    Refused,
}

/// Side of a port on which a drop is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropSide {
    /// The port that received the frame.
    Input,
    /// The port that the frame was to leave by.
    Output,
    /// Output for a queued frame, or one that its queue refused; input for one that never reached a
    /// queue.
    Both,
}

/// Sum of `sluice show drops` that a drop belongs to (docs/behavior.md, "Drops").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropSum {
    /// The buffer had no room, at input or output.
    NoBuffer,
    /// WRED dropped the frame.
    Wred,
    /// All drops of the side, and no further sum.
    SideOnly,
}

/// A row of the table of drop reasons.
struct DropRow {
    reason: DropReason,
    name: &'static str,
    side: DropSide,
    sum: DropSum,
}

const fn row(reason: DropReason, name: &'static str, side: DropSide, sum: DropSum) -> DropRow {
    DropRow { reason, name, side, sum }
}

/// The drop reasons, in the order of the enum, which is that of the arrays.
const TABLE: &[DropRow] = {
    use DropReason::*;
    use DropSide::{Both, Input, Output};
    use DropSum::{NoBuffer, SideOnly};
    &[
        row(Malformed, "malformed", Input, SideOnly),
        row(BadSource, "bad_source", Input, SideOnly),
        row(Reserved, "reserved_address", Input, SideOnly),
        row(Filtered, "filtered", Input, SideOnly),
        row(BroadcastLimit, "broadcast_limit", Input, SideOnly),
        row(MulticastLimit, "multicast_limit", Input, SideOnly),
        row(UnknownUnicastLimit, "unknown_unicast_limit", Input, SideOnly),
        row(VlanFiltered, "vlan_filtered", Input, SideOnly),
        row(IngressLossy, "ingress_lossy", Input, NoBuffer),
        row(IngressNoDrop, "ingress_no_drop", Input, NoBuffer),
        row(TailDrop, "tail_drop", Output, NoBuffer),
        row(Wred, "wred", Output, DropSum::Wred),
        row(Watchdog, "watchdog", Both, SideOnly),
        row(NoCopy, "no_copy", Input, SideOnly),
        row(PortDown, "port_down", Both, SideOnly),
        row(MtuExceeded, "mtu_exceeded", Output, SideOnly),
        row(DestinationDown, "destination_down", Output, SideOnly),
        row(Refused, "refused", Input, SideOnly),
    ]
};

impl DropReason {
    /// Every reason, in the order of the arrays.
    pub const ALL: [DropReason; TABLE.len()] = {
        let mut all = [DropReason::Malformed; TABLE.len()];
        let mut index = 0;
        while index < TABLE.len() {
            assert!(TABLE[index].reason as usize == index, "the table has the order of the enum");
            all[index] = TABLE[index].reason;
            index += 1;
        }
        all
    };

    /// Returns the name in outputs.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].name
    }

    /// Returns the side of a port on which the drop counts.
    pub fn side(self) -> DropSide {
        TABLE[self as usize].side
    }

    /// Returns the sum that the drop belongs to.
    pub fn sum(self) -> DropSum {
        TABLE[self as usize].sum
    }
}

/// Frames that a port did not accept from a guest, which nobody has read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RefusedFrames {
    /// Frames of a queue that has a priority.
    pub by_priority: [u32; PRIORITIES],
    /// Frames of a queue that has none.
    pub others: u32,
}

/// Frames and their bytes (without FCS).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// XON once more, XOFF for a peer that went on or that may have had XON since the guard paused
    /// it, or what the kernel had lost.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pfc_counts_add_up_by_priority() {
        let count = |unit: u64| PfcCount {
            frames: 100 * unit,
            xoff_frames: std::array::from_fn(|priority| unit * (priority as u64 + 1)),
            xon_frames: std::array::from_fn(|priority| unit * (priority as u64 + 10)),
        };
        let mut sum = count(2);
        sum.add(&count(5));
        assert_eq!(sum, count(7));
    }
}
