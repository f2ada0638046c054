//! The report of a host on its traffic: one JSON object a line, as printed by `--json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One line of a host's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ReportLine {
    /// The host is on its interface and has announced its address. It starts to send by itself, or
    /// on a command (see `--wait`).
    Ready {
        /// The host's MAC address.
        mac: String,
    },
    /// The state at every `--interval`.
    Progress(HostReport),
    /// The last line: everything is sent or discarded.
    Final(HostReport),
}

/// Totals since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)] // beside the tag of its line
pub struct HostReport {
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
    /// Frames sent that belong to no flow (address announcements).
    pub announcements_sent: u64,
    /// Announcements received from other hosts.
    pub announcements_received: u64,
    /// CNPs sent because a frame of a flow arrived marked. Only with `--react-to-ecn`.
    pub cnps_sent: u64,
    /// CNPs received, whether or not the host reacts.
    pub cnps_received: u64,
    /// Frames received with another format or destination, PFC excluded.
    pub other_received: u64,
    /// PFC frames received.
    pub pfc_received: u64,
    /// PFC frames sent. Only with `--storm`.
    pub pfc_sent: u64,
    /// 802.3x PAUSE frames received and honored (`--flow-control`).
    #[serde(default)]
    pub pause_received: u64,
    /// Other MAC control frames received (802.3x PAUSE without `--flow-control`, unknown or
    /// truncated ones), which are not honored.
    pub control_ignored: u64,
    /// Frames of our format with a wrong check that claim to belong to no known flow.
    pub corrupted_unattributed: u64,
    /// Frames of flows beyond the number that the host distinguishes.
    pub flows_refused: u64,
    /// Frames that the kernel lost on our side, received or sent (ring full, fill ring empty,
    /// EBUSY): 0 in a good run.
    pub kernel_lost: u64,
    /// What was negotiated. Only with `--dcbx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dcbx: Option<DcbxReport>,
}

/// Outcome of a host's negotiation of PFC (docs/dcbx.md).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DcbxReport {
    /// Version in use: `IEEE`, `CEE` or `CIN`.
    pub version: String,
    /// True if the host takes over the peer's priorities.
    pub willing: bool,
    /// `off`, `local`, `waiting`, `agreed` or `error`.
    pub state: String,
    /// Why it is in this state.
    pub reason: String,
    /// No-drop priorities that the host asks for.
    pub local_no_drop: Vec<u8>,
    /// No-drop priorities of the peer, if it sent any.
    pub peer_no_drop: Option<Vec<u8>>,
    /// No-drop priorities that are agreed on, whose pauses the host honors.
    pub no_drop: Vec<u8>,
    /// LLDP frames sent.
    pub lldp_sent: u64,
    /// LLDP frames received.
    pub lldp_received: u64,
}

/// Counters of one flow at its sender.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowSent {
    /// Number of the flow at its sender.
    pub flow: u32,
    /// Destination MAC address.
    pub to: String,
    /// 802.1p priority.
    pub priority: u8,
    /// Frames offered by the rate so far.
    pub offered_frames: u64,
    /// Frames that the kernel accepted and completed, including those that it lost (see
    /// `kernel_lost`).
    pub sent_frames: u64,
    /// Bytes of the sent frames (without FCS).
    pub sent_bytes: u64,
    /// CNPs received for the flow, if it reacts to them.
    pub cnps_received: u64,
    /// Current rate reduced by congestion, in bit/s of frame bytes; 0 if the flow does not react.
    pub reaction_bps: u64,
    /// The lowest reduced rate.
    pub reaction_lowest_bps: u64,
}

/// Counters of one flow at its receiver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowReceived {
    /// MAC address of the sender.
    pub from: String,
    /// Number of the flow at its sender.
    pub flow: u32,
    /// Distinguishes two runs of the same sender.
    pub run: u32,
    /// 802.1p priority of the received frames; 0 without a tag.
    pub priority: u8,
    /// Distinct frames that arrived intact.
    pub received_frames: u64,
    /// Bytes of these frames (without FCS).
    pub received_bytes: u64,
    /// Sequence numbers below the highest seen that have not arrived, without those of
    /// `missed_before_ready_frames`.
    pub lost_frames: u64,
    /// Of a flow that began before this host was ready: the frames before the first that arrived.
    #[serde(default)]
    pub missed_before_ready_frames: u64,
    /// Frames that arrived twice.
    pub duplicated_frames: u64,
    /// Frames that arrived after one with a higher sequence number.
    pub reordered_frames: u64,
    /// Frames whose payload check failed.
    pub corrupted_frames: u64,
    /// Frames so far below the highest sequence number that a duplicate cannot be distinguished.
    pub too_old_frames: u64,
    /// Frames that arrived with a congestion mark (CE).
    pub received_ce_frames: u64,
    /// CNPs created for the flow.
    pub cnps_sent: u64,
    /// Bits a second of frame bytes between the first and the last arrival.
    pub goodput_bps: u64,
    /// Nanoseconds from the send timestamp to arrival: percentiles 50, 90, 99, 99.9 and the
    /// largest.
    pub latency_ns: Latency,
}

/// Latency percentiles in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// Pauses of one priority, as the host honored them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// 802.1p priority.
    pub priority: u8,
    /// XOFFs received (time not 0), refreshes included.
    pub xoff: u64,
    /// XONs received (time 0).
    pub xon: u64,
    /// Nanoseconds spent paused.
    pub paused_ns: u64,
    /// Frames passed to the kernel after an XOFF had been read and the reaction delay had passed: 0
    /// if the pause is honored.
    pub sent_while_paused: u64,
    /// The most frames that the kernel still held, not yet completed, when a pause began: these may
    /// leave late.
    pub late_frames_peak: u64,
}
