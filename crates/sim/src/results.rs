//! Results of a run: totals, the outcome of the expectations, and time series for plots.

use schemars::JsonSchema;
use serde::Serialize;
use switch::monitor::counters::{
    GroupSnapshot, PortSnapshot, PrioritySnapshot, QueueSnapshot, StormSnapshot,
};
use switch::settings::PRIORITIES;
use switch::{DropReason, Event, Instant, Nanos};

use crate::scenario::Metric;

/// All results. `flows` and `series` are for tables and plots, and not part of the JSON.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Results {
    /// Title of the scenario.
    pub title: String,
    /// Start value of the random numbers.
    pub seed: u64,
    /// Virtual time that has passed.
    pub duration_ns: Nanos,
    /// Throughput, fairness, completion times, latency, queue lengths, link utilization, and the
    /// number and time of XOFF episodes and pauses are measured from this time on. Of the whole run
    /// are the counts of frames and messages, and expectations of these, of pauses and of XOFF
    /// episodes; other expectations are of what was measured.
    pub warmup_ns: Nanos,
    /// Frames that arrived at a switch, PFC included: a measure of the work done.
    pub frame_hops: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Per traffic, in the scenario's order.
    pub traffic: Vec<TrafficOutcome>,
    /// Per switch.
    pub switches: Vec<SwitchOutcome>,
    /// Per host.
    pub hosts: Vec<HostOutcome>,
    /// Per link.
    pub links: Vec<LinkOutcome>,
    /// Per traffic and port of a switch by which it leaves, if latencies are measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopOutcome>,
    /// Per queue of a switch that held cells, if lengths are measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue_lengths: Vec<QueueLengthOutcome>,
    /// Per end of a link that negotiates by DCBX.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dcbx: Vec<DcbxOutcome>,
    /// In the scenario's order.
    pub expectations: Vec<ExpectationOutcome>,
    /// What does not add up on a node or link; empty unless there is a bug in the simulator or the
    /// switch.
    pub imbalances: Vec<String>,
    /// Per flow, in the order of the traffic.
    #[serde(skip)]
    pub flows: Vec<FlowOutcome>,
    /// Time series.
    #[serde(skip)]
    pub series: Series,
}

impl Results {
    /// True if every expectation holds and everything adds up.
    pub fn holds(&self) -> bool {
        self.imbalances.is_empty() && self.expectations.iter().all(|expectation| expectation.holds)
    }
}

/// Results of one traffic.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrafficOutcome {
    /// As in the scenario.
    pub name: String,
    /// 802.1p priority.
    pub priority: u8,
    /// Number of sender–receiver pairs.
    pub flows: u64,
    /// Frames that the senders transmitted.
    pub sent_frames: u64,
    /// Frames received by their destination host.
    pub received_frames: u64,
    /// Bytes of the received frames, without FCS.
    pub received_bytes: u64,
    /// Frames still in the network at the end.
    pub in_network_frames: u64,
    /// Frames neither received nor in the network.
    pub lost_frames: u64,
    /// Frames that arrived after one that was sent later.
    pub reordered_frames: u64,
    /// Frames that arrived with a mark.
    pub marked_frames: u64,
    /// CNPs that arrived at the senders.
    pub cnps: u64,
    /// Frames that were sent again, beyond `sent_frames`; `None` if frames are not acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmitted_frames: Option<u64>,
    /// Received bit/s on the wire while the traffic was on, after the warm-up.
    pub throughput_bps: f64,
    /// Jain's index of the flows' throughput: 1 if all are equal, 1/n if one of n has all. `None`
    /// with fewer than two flows, or without a frame.
    pub fairness: Option<f64>,
    /// Messages that were to be sent; 0 for traffic without end.
    pub messages: u64,
    /// Messages that arrived completely.
    pub completed: u64,
    /// Completion times of those that began after the warm-up.
    pub completion: Option<Completion>,
    /// Time from the start of traffic that ends, a collective for example, until all of it had
    /// arrived; `None` if it has not, or has no end.
    pub job_ns: Option<Nanos>,
    /// Latency of the frames that were sent after the warm-up, if the scenario measures it: from
    /// the start of their transmission to the last bit's arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyOutcome>,
    /// When the last frame arrived.
    pub last_arrival_ns: Option<Nanos>,
}

/// Latency of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LatencyOutcome {
    /// Frames that were measured.
    pub frames: u64,
    /// Shortest latency.
    pub min_ns: Nanos,
    /// Average latency.
    pub mean_ns: Nanos,
    /// Median.
    pub p50_ns: Nanos,
    /// 90th percentile.
    pub p90_ns: Nanos,
    /// 99th percentile.
    pub p99_ns: Nanos,
    /// 99.9th percentile.
    pub p999_ns: Nanos,
    /// Longest latency.
    pub max_ns: Nanos,
}

/// Time of a traffic's frames in a switch: from the last bit's arrival to the start of the
/// transmission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HopOutcome {
    /// Name of the traffic.
    pub traffic: String,
    /// The port by which the frames leave.
    pub port: String,
    /// The time in the switch.
    pub latency: LatencyOutcome,
}

/// How long a queue had which length, after the warm-up. Its length is the cells that are charged
/// to it, those of a frame that is being sent included.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueueLengthOutcome {
    /// The port: `leaf1.p3`.
    pub port: String,
    /// Queue number.
    pub queue: u8,
    /// Time average in cells.
    pub mean_cells: f64,
    /// The bins up to the longest length; the first is an empty queue.
    pub bins: Vec<LengthBin>,
}

/// The time for which a queue had one of some lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LengthBin {
    /// The shortest of these lengths: 0, or a power of two.
    pub least_cells: u32,
    /// The time.
    pub ns: Nanos,
}

/// Results of one flow.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowOutcome {
    /// Index of the traffic.
    pub traffic: usize,
    /// Name of the sender.
    pub from: String,
    /// Name of the receiver.
    pub to: String,
    /// Frames that the sender transmitted.
    pub sent_frames: u64,
    /// Frames received, without repetitions.
    pub received_frames: u64,
    /// Frames neither received nor in the network.
    pub lost_frames: u64,
    /// Frames that arrived after one that was sent later.
    pub reordered_frames: u64,
    /// Frames that arrived with a mark.
    pub marked_frames: u64,
    /// CNPs that arrived at the sender.
    pub cnps: u64,
    /// Frames that were sent again, beyond `sent_frames`.
    pub retransmitted_frames: u64,
    /// Bytes of the received frames, without FCS and repetitions.
    pub received_bytes: u64,
    /// Received bit/s on the wire while the flow was on, after the warm-up.
    pub throughput_bps: f64,
    /// When the flow began; `None` if it has sent nothing.
    pub begun_ns: Option<Nanos>,
    /// When its last frame arrived.
    pub last_arrival_ns: Option<Nanos>,
    /// Bytes of a message, the mean of them if they vary; 0 for traffic without end.
    pub message_bytes: u64,
    /// Completion time of such a message that is alone in the network, in which switches take no
    /// time. `None` without messages, or if the routes lead nowhere.
    pub ideal_ns: Option<f64>,
    /// Mean over its messages in [`Series::completions`] of the completion time as a multiple of
    /// the ideal one.
    pub slowdown: Option<f64>,
}

/// Completion times of messages, from when a message is ready to be sent to the arrival of its last
/// byte.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Completion {
    /// Messages that began after the warm-up and arrived completely.
    pub messages: u64,
    /// Shortest completion time.
    pub min_ns: Nanos,
    /// Average completion time.
    pub mean_ns: Nanos,
    /// Median completion time.
    pub p50_ns: Nanos,
    /// 99th percentile of the completion times.
    pub p99_ns: Nanos,
    /// Longest completion time.
    pub max_ns: Nanos,
}

/// Results of one switch.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SwitchOutcome {
    /// As in the scenario.
    pub name: String,
    /// The ports with links.
    pub ports: Vec<PortOutcome>,
    /// Peak use of the headroom pool in cells.
    pub headroom_peak_cells: u32,
    /// Peak use of the shared area in cells, over all ingress pools.
    pub shared_peak_cells: u32,
    /// Frames that the switch holds at the end.
    pub held_frames: u64,
    /// Events of the watchdogs and early warnings, if any.
    #[serde(skip)]
    pub events: Vec<(Instant, Event)>,
}

/// Results of one port of a switch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct PortOutcome {
    /// The other end of the link: `h1`, or `leaf1.p3`.
    pub peer: String,
    /// Name and counters of the port.
    #[serde(flatten)]
    pub counts: PortSnapshot,
    /// Priority groups that received frames.
    pub groups: Vec<GroupOutcome>,
    /// Queues that held frames.
    pub queues: Vec<QueueOutcome>,
    /// Priorities that were paused, or have a watchdog.
    pub priorities: Vec<PriorityOutcome>,
    /// The last storms, oldest first.
    pub storms: Vec<StormSnapshot>,
}

impl PortOutcome {
    /// Dropped frames by reason, where there are any.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let drops = DropReason::ALL.into_iter().map(|of| (of.name(), self.counts.drops[of as usize].frames));
        drops.filter(|(_, frames)| *frames > 0)
    }
}

/// Effects of PFC on a priority.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct PriorityOutcome {
    /// 802.1p priority.
    pub priority: u8,
    /// Counters of pauses and storms.
    #[serde(flatten)]
    pub counts: PrioritySnapshot,
}

/// Results of a priority group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct GroupOutcome {
    /// 802.1p priority.
    pub priority: u8,
    /// Cells held at the end, and counters.
    #[serde(flatten)]
    pub counts: GroupSnapshot,
}

/// Results of an egress queue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct QueueOutcome {
    /// Queue number.
    pub queue: u8,
    /// Cells held at the end, and counters.
    #[serde(flatten)]
    pub counts: QueueSnapshot,
}

/// Results of one host.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HostOutcome {
    /// As in the scenario.
    pub name: String,
    /// The other end of the link.
    pub peer: String,
    /// Data frames sent, CNPs included.
    pub sent_frames: u64,
    /// Data frames received for this host, CNPs included.
    pub received_frames: u64,
    /// Flooded frames received for other hosts.
    pub foreign_frames: u64,
    /// Number of pauses by the peer that began after the warm-up, by priority.
    pub pauses: [u64; 8],
    /// Paused time after the warm-up, by priority.
    pub paused_ns: [Nanos; 8],
}

/// What an end of a link negotiated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DcbxOutcome {
    /// The end: `h1`, or `leaf1.p3`.
    pub port: String,
    /// Version in use: `IEEE`, `CEE` or `CIN`.
    pub version: String,
    /// State of PFC: `off`, `local`, `waiting`, `agreed` or `error`.
    pub state: String,
    /// Why it is in this state.
    pub reason: String,
    /// Priorities that are no-drop now.
    pub no_drop: Vec<u8>,
    /// When state or outcome of any feature last changed.
    pub settled_ns: Nanos,
}

/// Results of one link.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LinkOutcome {
    /// Composed of the names of its ends.
    pub name: String,
    /// Frames lost because the link was cut.
    pub cut_frames: u64,
    /// Percentage of the time after the warm-up that each direction was busy: from the first end,
    /// from the second.
    pub busy_percent: [f64; 2],
}

/// Result of one expectation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExpectationOutcome {
    /// Line in the scenario file.
    pub line: usize,
    /// Description of the expectation: `rdma: lost = 0`.
    pub expected: String,
    /// The metric; [`Metric::spell`] formats its value with the unit.
    #[serde(skip)]
    pub metric: Metric,
    /// The measured value. Null if there is none, as the fairness of a single flow.
    #[schemars(with = "Option<f64>")]
    pub measured: f64,
    /// True if the expectation holds.
    pub holds: bool,
}

/// Values over time. Point i of each series covers the time from the previous point to `at_ns[i]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Times of the points.
    pub at_ns: Vec<Nanos>,
    /// No-drop groups that held cells outside their reservation.
    pub groups: Vec<GroupSeries>,
    /// Per traffic: received bit/s on the wire.
    pub traffic_bps: Vec<Vec<f64>>,
    /// Pauses in the order of their start, as seen by the paused side.
    pub pauses: Vec<PauseSpan>,
    /// Number of pauses by priority. Only the first million or so are in `pauses`.
    pub pause_count: [u64; PRIORITIES],
    /// Messages that began after the warm-up and arrived completely, in the order of their arrival:
    /// the first million or so.
    pub completions: Vec<MessageSpan>,
    /// Messages that began after the warm-up and had not arrived completely at the end, by flow:
    /// the first million or so.
    pub unfinished: Vec<MessageSpan>,
    /// Number of such messages, beyond those in `unfinished` as well.
    pub unfinished_count: u64,
    /// Egress queues and lossy groups that held cells, if they were recorded.
    pub occupancy: Vec<OccupancySeries>,
}

/// What the cells of a series are charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OccupancyOf {
    /// The priority group of a priority that may drop.
    Group(u8),
    /// An egress queue.
    Queue(u8),
}

/// Cells of a port over time.
#[derive(Debug, Clone, PartialEq)]
pub struct OccupancySeries {
    /// The port: `leaf1.p3`.
    pub port: String,
    /// The group or queue.
    pub of: OccupancyOf,
    /// Most cells in each step.
    pub peak_cells: Vec<u32>,
}

/// A priority group over time.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSeries {
    /// Name of the switch.
    pub switch: String,
    /// Name of the port.
    pub port: String,
    /// 802.1p priority.
    pub priority: u8,
    /// Most shared cells in each step.
    pub shared_cells: Vec<u32>,
    /// Most headroom cells in each step.
    pub headroom_cells: Vec<u32>,
    /// The XOFF threshold at the end of each step, in shared cells.
    pub xoff_cells: Vec<u32>,
    /// The XON limit, in shared cells.
    pub xon_cells: Vec<u32>,
    /// Headroom of the group, in cells.
    pub headroom_size_cells: u32,
}

/// A pause of a sender.
#[derive(Debug, Clone, PartialEq)]
pub struct PauseSpan {
    /// The paused port: `h1`, or `leaf1.p3`.
    pub port: String,
    /// 802.1p priority.
    pub priority: u8,
    /// Start of the pause.
    pub from_ns: Nanos,
    /// End of the pause, or of the run if the sender was still paused.
    pub to_ns: Nanos,
}

/// Start and arrival of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MessageSpan {
    /// Index of the traffic.
    pub traffic: usize,
    /// Index of the flow, among all of the run.
    pub flow: usize,
    /// Number of the message in its flow, from 0.
    pub number: u64,
    /// Length of the message.
    pub bytes: u64,
    /// When the message was ready to be sent.
    pub from_ns: Nanos,
    /// When its last byte arrived; the end of the run if it has not.
    pub to_ns: Nanos,
    /// Its completion time if it were alone in the network, in which switches take no time; 0 if
    /// the routes lead nowhere.
    pub ideal_ns: f64,
    /// Times that its frames were sent again.
    pub retransmitted_frames: u64,
}

impl MessageSpan {
    /// The completion time.
    pub fn took_ns(&self) -> Nanos {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// The completion time as a multiple of the ideal one.
    pub fn slowdown(&self) -> Option<f64> {
        (self.ideal_ns > 0.0).then(|| self.took_ns() as f64 / self.ideal_ns)
    }
}
