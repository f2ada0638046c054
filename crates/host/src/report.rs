//! What a host says of its traffic: one JSON object a line, also what `--json` prints.

use serde::{Deserialize, Serialize};

/// One line of a host's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line {
    /// The host is on its interface and has announced its address; sending starts when told (see
    /// `--wait`).
    Ready {
        /// The host's MAC address.
        mac: String,
    },
    /// How things stand, every `--interval`.
    Progress(Report),
    /// The last line: everything is sent or given up.
    Final(Report),
}

/// Totals since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The host's interface.
    pub interface: String,
    /// The host's MAC address.
    pub mac: String,
    /// Nanoseconds from the moment the host began to send until everything was sent, or it was
    /// stopped.
    pub elapsed_ns: u64,
    /// The flows that this host sends, in the order given.
    pub sent: Vec<FlowSent>,
    /// The flows that arrived here.
    pub received: Vec<FlowReceived>,
    /// Pauses of each priority.
    pub pauses: Vec<Pause>,
    /// Frames of ours that were no flow (address announcements), sent.
    pub announcements_sent: u64,
    /// Announcements of others that arrived.
    pub announcements_received: u64,
    /// CNPs sent: a frame of a flow came marked. Only with `--react-to-ecn`.
    pub cnps_sent: u64,
    /// CNPs that arrived, heeded or not.
    pub cnps_received: u64,
    /// Frames that arrived and were not ours to judge (another kind or destination), PFC excluded.
    pub other_received: u64,
    /// PFC frames that arrived.
    pub pfc_received: u64,
    /// PFC frames sent. Only with `--storm`.
    pub pfc_sent: u64,
    /// 802.3x PAUSE frames that arrived and were obeyed (`--flow-control`).
    #[serde(default)]
    pub pause_received: u64,
    /// Other MAC control frames that arrived (802.3x PAUSE without `--flow-control`, unknown or
    /// cut-off ones): not obeyed.
    pub control_ignored: u64,
    /// Frames of ours whose payload check failed and which claim to be of no flow known here.
    pub corrupted_unattributed: u64,
    /// Frames of further flows than the host tells apart.
    pub flows_refused: u64,
    /// Frames that the kernel lost on our side, received or sent (ring full, fill ring empty,
    /// EBUSY): 0 in a good run.
    pub kernel_lost: u64,
}

/// One flow as its sender counts it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSent {
    /// Number of the flow at its sender.
    pub flow: u32,
    /// Destination MAC address.
    pub to: String,
    /// 802.1p priority.
    pub priority: u8,
    /// Frames that the rate asked for so far.
    pub offered_frames: u64,
    /// Frames that the kernel took and completed. (Those that it lost are among them: see
    /// `kernel_lost`.)
    pub sent_frames: u64,
    /// Their bytes (without FCS).
    pub sent_bytes: u64,
    /// CNPs that came for it, if it reacts to them.
    pub cnps_received: u64,
    /// The rate that congestion leaves it now, in bit/s of frame bytes; 0: it does not react.
    pub reaction_bps: u64,
    /// The lowest that it had.
    pub reaction_lowest_bps: u64,
}

/// One flow as its receiver counts it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowReceived {
    /// MAC address of the sender.
    pub from: String,
    /// Number of the flow at its sender.
    pub flow: u32,
    /// Tells apart two runs of the same sender.
    pub run: u32,
    /// 802.1p priority that the frames carried here; 0 without a tag.
    pub priority: u8,
    /// Distinct frames that arrived whole.
    pub received_frames: u64,
    /// Their bytes (without FCS).
    pub received_bytes: u64,
    /// Sequence numbers below the highest seen that have not arrived.
    pub lost_frames: u64,
    /// Frames that came twice.
    pub duplicated_frames: u64,
    /// Frames that came after one with a higher sequence number.
    pub reordered_frames: u64,
    /// Frames whose payload check failed.
    pub corrupted_frames: u64,
    /// Frames so far below the highest sequence number that it is not known whether they came
    /// before.
    pub too_old_frames: u64,
    /// Frames that came marked as having met congestion (CE).
    pub received_ce_frames: u64,
    /// CNPs made for it.
    pub cnps_sent: u64,
    /// Bits a second of frame bytes between the first and the last arrival.
    pub goodput_bps: u64,
    /// Nanoseconds from the send timestamp to arrival: percentiles 50, 90, 99, 99.9 and the
    /// largest.
    pub latency_ns: Latency,
}

/// Latency percentiles in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest.
    pub max: u64,
}

/// Pauses of one priority, as the host obeyed them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// 802.1p priority.
    pub priority: u8,
    /// XOFF seen (time not 0), refreshes included.
    pub xoff: u64,
    /// XON seen (time 0).
    pub xon: u64,
    /// Nanoseconds spent paused.
    pub paused_ns: u64,
    /// Frames handed to the kernel after an XOFF had been read and the reaction delay had passed:
    /// 0, or the pause is not obeyed.
    pub sent_while_paused: u64,
    /// The most frames that the kernel still held, not yet completed, when a pause began: these may
    /// leave late.
    pub late_frames_peak: u64,
}
