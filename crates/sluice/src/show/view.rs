//! The views of `sluice show`.

use clap::ValueEnum;

/// A view of the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum View {
    /// Frames and bytes of each port, drops by reason, what the kernel lost.
    Ports,
    /// What was dropped, in all and at each port: on which side, why; totals forwarded and dropped
    /// outbound, ECN marks.
    Drops,
    /// What each queue forwarded, marked (ECN) and dropped: tail drops, and WRED's by drop level.
    Congestion,
    /// State, limits, pauses and drops of each egress queue.
    Queues,
    /// Buffer pools, priority groups and queues: size, use, what is free, peaks since the last
    /// time, thresholds and their violations.
    Buffers,
    /// PFC of each port and priority, sent and received, and what the watchdogs found; with
    /// `history`: pauses, rates, and the last storms.
    Pfc,
    /// How long the turns of the poll loop took, and the longest stall.
    Loop,
    /// Every number that is not zero, by its name in JSON.
    Counters,
}

/// More of a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Detail {
    /// With `pfc`: pauses, rates and the last storms.
    History,
    /// With `lldp`: the neighbors.
    Neighbors,
}
