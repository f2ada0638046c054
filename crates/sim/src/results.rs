//! What came of a run: totals, whether the expectations hold, and series over time for plots.

use serde::Serialize;
use switch::monitor::counters::{
    GroupSnapshot, PortSnapshot, PrioritySnapshot, QueueSnapshot, StormSnapshot,
};
use switch::{DropReason, Event, Instant, Nanos};

use crate::scenario::Metric;

/// All of it. `series` is for plots and not part of the JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    /// The scenario's title.
    pub title: String,
    /// Its seed.
    pub seed: u64,
    /// Virtual time that has passed.
    pub duration_ns: Nanos,
    /// Frames that came into a switch, PFC included: the work done.
    pub frame_hops: u64,
    /// Events of the simulation.
    pub events: u64,
    /// By traffic, in the scenario's order.
    pub traffic: Vec<TrafficOutcome>,
    /// By switch.
    pub switches: Vec<SwitchOutcome>,
    /// By host.
    pub hosts: Vec<HostOutcome>,
    /// By link.
    pub links: Vec<LinkOutcome>,
    /// In the scenario's order.
    pub expectations: Vec<ExpectationOutcome>,
    /// What does not add up on some node or link: empty unless the simulator or the switch is
    /// wrong.
    pub imbalances: Vec<String>,
    /// Over time.
    #[serde(skip)]
    pub series: Series,
}

impl Results {
    /// Every expectation holds and everything adds up.
    pub fn holds(&self) -> bool {
        self.imbalances.is_empty() && self.expectations.iter().all(|expectation| expectation.holds)
    }
}

/// One traffic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrafficOutcome {
    /// Its name.
    pub name: String,
    /// 802.1p priority.
    pub priority: u8,
    /// Flows.
    pub flows: u64,
    /// Frames sent.
    pub sent_frames: u64,
    /// Frames received by the host that they were for.
    pub received_frames: u64,
    /// Their bytes, without FCS.
    pub received_bytes: u64,
    /// Frames still in the network at the end.
    pub in_network_frames: u64,
    /// Frames lost.
    pub lost_frames: u64,
    /// Frames that came after one that was sent later.
    pub reordered_frames: u64,
    /// Frames that came with a mark.
    pub marked_frames: u64,
    /// CNPs that came to the senders.
    pub cnps: u64,
    /// Bit/s of the line that arrived while the traffic was on.
    pub throughput_bps: f64,
    /// Messages that were to be sent; 0 for traffic without end.
    pub messages: u64,
    /// Completion times of those that arrived whole.
    pub completion: Option<Completion>,
    /// When its last frame arrived.
    pub last_arrival_ns: Option<Nanos>,
}

/// Completion times of messages: from when each was there to be sent to the arrival of its last
/// byte.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Completion {
    /// Messages that arrived whole.
    pub messages: u64,
    /// The fastest.
    pub min_ns: Nanos,
    /// The mean.
    pub mean_ns: Nanos,
    /// Half were faster.
    pub p50_ns: Nanos,
    /// 99 % were faster.
    pub p99_ns: Nanos,
    /// The slowest.
    pub max_ns: Nanos,
}

/// One switch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SwitchOutcome {
    /// Its name.
    pub name: String,
    /// Its linked ports.
    pub ports: Vec<PortOutcome>,
    /// Most cells of the headroom pool in use.
    pub headroom_peak_cells: u32,
    /// Most cells of the shared area in use, over all pools of ingress.
    pub shared_peak_cells: u32,
    /// Frames that it holds at the end.
    pub held_frames: u64,
    /// What its watchdogs and early warnings told, if it has any.
    #[serde(skip)]
    pub events: Vec<(Instant, Event)>,
}

/// One port of a switch.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PortOutcome {
    /// What is at the other end: `h1`, or `leaf1.p3`.
    pub peer: String,
    /// Its name and what it counted.
    #[serde(flatten)]
    pub counts: PortSnapshot,
    /// Priority groups that received anything.
    pub groups: Vec<GroupOutcome>,
    /// Queues that held anything.
    pub queues: Vec<QueueOutcome>,
    /// Priorities that were paused, or have a watchdog.
    pub priorities: Vec<PriorityOutcome>,
    /// The last storms, oldest first.
    pub storms: Vec<StormSnapshot>,
}

impl PortOutcome {
    /// Dropped frames: reason and number, where there are any.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let drops = DropReason::ALL.into_iter().map(|of| (of.name(), self.counts.drops[of as usize].frames));
        drops.filter(|(_, frames)| *frames > 0)
    }
}

/// What PFC did to a priority.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PriorityOutcome {
    /// 802.1p priority.
    pub priority: u8,
    /// Pauses and storms.
    #[serde(flatten)]
    pub counts: PrioritySnapshot,
}

/// A priority group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GroupOutcome {
    /// 802.1p priority.
    pub priority: u8,
    /// What it holds at the end, and what it counted.
    #[serde(flatten)]
    pub counts: GroupSnapshot,
}

/// An egress queue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct QueueOutcome {
    /// Its number.
    pub queue: u8,
    /// What it holds at the end, and what it counted.
    #[serde(flatten)]
    pub counts: QueueSnapshot,
}

/// One host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostOutcome {
    /// Its name.
    pub name: String,
    /// What is at the other end of its cable.
    pub peer: String,
    /// Data frames sent, CNPs included.
    pub sent_frames: u64,
    /// Data frames received that were for it, CNPs included.
    pub received_frames: u64,
    /// Frames received that were for others: flooded.
    pub foreign_frames: u64,
    /// Times that its peer paused it, by priority.
    pub pauses: [u64; 8],
    /// Time paused, by priority.
    pub paused_ns: [Nanos; 8],
}

/// One link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkOutcome {
    /// Its name.
    pub name: String,
    /// Frames lost because it was cut.
    pub cut_frames: u64,
    /// Share of the time that each direction was busy, in percent: from its first end, from its
    /// second.
    pub busy_percent: [f64; 2],
}

/// One expectation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExpectationOutcome {
    /// Line in the scenario file.
    pub line: usize,
    /// What was expected, in words: `rdma: lost = 0`.
    pub expected: String,
    /// What is measured; [`Metric::spell`] says it with its unit.
    #[serde(skip)]
    pub metric: Metric,
    /// What came.
    pub measured: f64,
    /// It holds.
    pub holds: bool,
}

/// Values over time. Point i of each series is about the time from the point before to `at_ns[i]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Times of the points.
    pub at_ns: Vec<Nanos>,
    /// No-drop groups that held anything outside their reservation.
    pub groups: Vec<GroupSeries>,
    /// By traffic: bit/s of the line that arrived.
    pub traffic_bps: Vec<Vec<f64>>,
    /// Pauses in the order of their beginning, as the paused side saw them.
    pub pauses: Vec<PauseSpan>,
    /// Messages that arrived whole, in the order of their arrival.
    pub completions: Vec<MessageSpan>,
}

/// A priority group over time.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSeries {
    /// Switch.
    pub switch: String,
    /// Its port.
    pub port: String,
    /// 802.1p priority.
    pub priority: u8,
    /// Most shared cells in each step.
    pub shared_cells: Vec<u32>,
    /// Most headroom cells in each step.
    pub headroom_cells: Vec<u32>,
    /// The XOFF threshold at the end of each step, in shared cells.
    pub xoff_cells: Vec<u32>,
    /// Where XON comes, in shared cells.
    pub xon_cells: Vec<u32>,
    /// Its headroom.
    pub headroom_size_cells: u32,
}

/// A time that a sender was paused.
#[derive(Debug, Clone, PartialEq)]
pub struct PauseSpan {
    /// The paused port: `h1`, or `leaf1.p3`.
    pub port: String,
    /// 802.1p priority.
    pub priority: u8,
    /// From …
    pub from_ns: Nanos,
    /// … to; the end of the run if it was still paused.
    pub to_ns: Nanos,
}

/// A message's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageSpan {
    /// Its traffic.
    pub traffic: usize,
    /// When it was there to be sent.
    pub from_ns: Nanos,
    /// When its last byte arrived.
    pub to_ns: Nanos,
}
