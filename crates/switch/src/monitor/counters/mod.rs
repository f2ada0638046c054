//! What the switch counts, and the snapshot in which it hands the counts out. Every drop is counted
//! where it happens, with its reason; nothing is sampled.
//!
//! A new counter is a field here (or in `counters/`), a field of the same name in
//! `proto/sluice/v1/control.proto` with a comment that says what it counts, and wherever people
//! should see it a column of `sluice show`. The conversion between the two, the JSON (of
//! the simulator too), the help and `sluice show counters` follow by themselves; the compiler says
//! if either is missing.

use serde::{Deserialize, Serialize};

use crate::monitor::watermark::Occupancy;
use crate::settings::POOLS;
use crate::time::Nanos;

mod count;
mod kernel;
mod port;
mod storm;

pub use count::{DropReason, FrameCount, PfcCount};
pub use kernel::KernelCounters;
pub use port::{GroupSnapshot, PortSnapshot, PrioritySnapshot, QueueSnapshot};
pub use storm::{StormSnapshot, StormTraffic};

/// One pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolSnapshot {
    /// Cells in use.
    pub level: Occupancy,
    /// All its cells.
    pub size_cells: u32,
    /// Frames of no-drop queues that took cells beyond its size.
    pub excess_frames: u64,
    /// Those cells.
    pub excess_cells: u64,
    /// Use from which on its no-drop groups are paused; `None`: there is no such use.
    pub pause_threshold_cells: Option<u32>,
}

/// All of the switch at one instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// When it was taken: the switch's [`crate::Instant`], in nanoseconds.
    pub at_ns: Nanos,
    /// The places of ports, in their order; a vacant one has no name.
    pub ports: Vec<PortSnapshot>,
    /// What ports counted that are there no more.
    pub removed_ports: RemovedPorts,
    /// The service pools of the shared area as ingress sees them.
    pub ingress_pools: [PoolSnapshot; POOLS],
    /// … and as egress sees them.
    pub egress_pools: [PoolSnapshot; POOLS],
    /// The headroom pool.
    pub headroom: PoolSnapshot,
    /// Bytes of a cell.
    pub cell_bytes: u32,
    /// Addresses in the bridge table.
    pub bridge_entries: u64,
    /// Addresses that moved from one port to another.
    pub bridge_moves: u64,
    /// Frames whose source was not learned because the table was full.
    pub bridge_full_frames: u64,
    /// Copies made of flooded frames, beyond the frame itself.
    pub flood_copies: u64,
    /// Frames of the memory, in all.
    pub memory_frames: u64,
    /// Frames of the memory that nobody holds.
    pub memory_free_frames: u64,
    /// Frames of the memory in the ports' rings: fill, received and not taken, with the kernel to
    /// be sent.
    pub memory_in_rings_frames: u64,
    /// Events that nobody was told: more than [`crate::monitor::event::MAX_PENDING`] in one turn,
    /// or more than the daemon took.
    pub events_lost: u64,
    /// Turns of the loop since the start.
    pub loop_turns: u64,
    /// The longest time between two turns of the loop in which the loop was not asleep, since the
    /// start.
    pub loop_worst_stall_ns: u64,
    /// The time between turns, sleep apart, in all.
    pub loop_awake_ns: u64,
    /// Turns by the time from the turn before, sleep apart: [`turn_time`] says which.
    pub loop_turns_by_time: [u64; TURN_TIMES],
}

impl Snapshot {
    /// Without what the loop adds of itself, its turns and where memory is: what two loops of one
    /// switch agree on.
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

/// Times that turns of a loop are told apart by.
pub const TURN_TIMES: usize = 24;

/// The place of a turn that began so long after the one before: 0 for less than 1 µs, 1 for less
/// than 2 µs, 2 for less than 4 µs, and so on; the last for 4.2 s and more.
#[inline]
pub fn turn_time(nanos: Nanos) -> usize {
    let micros = nanos / 1000;
    ((u64::BITS - micros.leading_zeros()) as usize).min(TURN_TIMES - 1)
}

/// What ports counted that are there no more, so that what passed through them stays in the
/// account.
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
    /// Frames that the kernel had nowhere to put, or that waited in an RX ring when it was closed.
    pub kernel_dropped_frames: u64,
}
