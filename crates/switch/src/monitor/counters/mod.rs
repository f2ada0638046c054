//! Counters of the switch, and the snapshot that contains them. Every drop is counted where it
//! happens, with its reason; nothing is sampled.
//!
//! CONTRIBUTING.md shows how to add a counter.

use serde::{Deserialize, Serialize};

use crate::monitor::watermark::Occupancy;
use crate::settings::POOLS;
use crate::time::Nanos;

mod count;
mod kernel;
mod port;
mod storm;

pub use count::{DropReason, DropSide, DropSum, FrameCount, PfcCount, PfcReasons};
pub use kernel::{KernelCounters, RX_LOSSES, RxLoss};
pub use port::{GroupSnapshot, PortSnapshot, PrioritySnapshot, QueueSnapshot};
pub use storm::{StormSnapshot, StormTraffic};

/// One pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolSnapshot {
    /// Cells in use.
    pub level: Occupancy,
    /// Size of the pool.
    pub size_cells: u32,
    /// Frames of no-drop queues that took cells beyond its size.
    pub excess_frames: u64,
    /// Cells that those frames took beyond its size.
    pub excess_cells: u64,
    /// Use at which its no-drop groups are paused; `None` if there is no pause threshold.
    pub pause_threshold_cells: Option<u32>,
}

/// All counters and levels of the switch at one instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Time of the snapshot: the switch's [`crate::Instant`], in nanoseconds.
    pub at_ns: Nanos,
    /// Port slots, in their order; a vacant one has no name.
    pub ports: Vec<PortSnapshot>,
    /// Counters of ports that were removed.
    pub removed_ports: RemovedPorts,
    /// Service pools of the shared area at ingress.
    pub ingress_pools: [PoolSnapshot; POOLS],
    /// Service pools of the shared area at egress.
    pub egress_pools: [PoolSnapshot; POOLS],
    /// The headroom pool.
    pub headroom: PoolSnapshot,
    /// Size of a cell.
    pub cell_bytes: u32,
    /// Addresses in the FDB.
    pub bridge_entries: u64,
    /// Addresses that moved from one port to another.
    pub bridge_moves: u64,
    /// Frames whose source was not learned because the FDB was full.
    pub bridge_full_frames: u64,
    /// Copies made of flooded frames, beyond the frame itself.
    pub flood_copies: u64,
    /// Frames of the memory, free or not.
    pub memory_frames: u64,
    /// Frames of the memory without an owner.
    pub memory_free_frames: u64,
    /// Frames of the memory in the ports' rings: in fill rings, received and not taken, or with the
    /// kernel to be sent.
    pub memory_in_rings_frames: u64,
    /// Events that were not delivered: more than [`crate::monitor::event_list::MAX_PENDING`] in one
    /// iteration, or more than the daemon took.
    pub events_lost: u64,
    /// Iterations of the loop since the start.
    pub loop_turns: u64,
    /// Longest time between two iterations of the loop in which the loop was not asleep, since the
    /// start.
    pub loop_worst_stall_ns: u64,
    /// Total time between iterations, without sleep.
    pub loop_awake_ns: u64,
    /// Iterations by the time since the one before, without sleep: [`turn_time`] gives the index.
    pub loop_turns_by_time: [u64; TURN_TIMES],
}

impl Snapshot {
    /// Returns the snapshot without the loop's own counters, its iterations and where memory is.
    /// Two loops of one switch agree on the result.
    pub fn without_loop(self) -> Self {
        Self {
            memory_free_frames: 0,
            memory_in_rings_frames: 0,
            loop_turns: 0,
            loop_worst_stall_ns: 0,
            loop_awake_ns: 0,
            loop_turns_by_time: [0; TURN_TIMES],
            ..self
        }
    }
}

/// Number of classes of iteration time.
pub const TURN_TIMES: usize = 24;

/// Returns the index of an iteration that began `nanos` after the one before: 0 for less than 1 µs,
/// 1 for less than 2 µs, 2 for less than 4 µs, and so on; the last for 4.2 s and more.
#[inline]
pub fn turn_time(nanos: Nanos) -> usize {
    let micros = nanos / 1000;
    ((u64::BITS - micros.leading_zeros()) as usize).min(TURN_TIMES - 1)
}

/// Counters of ports that were removed, so that their traffic stays in the conservation check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedPorts {
    /// Ports that were removed.
    pub ports: u64,
    /// Data frames taken from their interfaces.
    pub received: FrameCount,
    /// Data frames that left by them.
    pub transmitted: FrameCount,
    /// Dropped frames by [`DropReason`].
    pub drops: [FrameCount; DropReason::ALL.len()],
    /// Data frames that the kernel took and lost.
    pub kernel_lost_frames: u64,
    /// Frames that the kernel had no buffer for, or that waited in an RX ring when it was closed.
    pub kernel_dropped_frames: u64,
}
