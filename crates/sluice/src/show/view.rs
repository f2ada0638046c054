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
    /// Frames and bits a second of each port, use of its line, drops and PFC a second; of one
    /// second, or as --rates and --watch say.
    Rates,
    /// How much of lines, buffer pools, headroom, queues and memory is in use.
    Utilization,
    /// The members of each VLAN, tagged and untagged.
    Vlan,
    /// The loops by their core: what they serve, how busy they are, their longest stall.
    Cores,
}

impl View {
    /// True if a view is about what happens between two snapshots.
    pub fn is_rate(self) -> bool {
        matches!(self, View::Rates | View::Utilization)
    }
}

/// How `show pfc` looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Style {
    /// By port and priority, who paused whom.
    #[default]
    Sluice,
    /// Frames by port and PFC0 to PFC7, received and sent, as SONiC's `show pfc counters`.
    Sonic,
}

/// More of a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Detail {
    /// With `pfc`: pauses, rates and the last storms.
    History,
    /// With `lldp`: the neighbors.
    Neighbors,
    /// With `config`: every setting in force, defaults and what was negotiated included.
    Effective,
}

impl Detail {
    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Detail::History => "history",
            Detail::Neighbors => "neighbors",
            Detail::Effective => "effective",
        }
    }
}
