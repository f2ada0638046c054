//! The metrics of a run that a sweep keeps: of each traffic, and of the network.

use serde::{Deserialize, Serialize};
use sim::Results;
use sim::results::TrafficOutcome;

/// Metrics of a traffic, in the order of [`Row::values`].
pub const TRAFFIC: [&str; 19] = [
    "sent_frames",
    "received_frames",
    "lost_frames",
    "reordered_frames",
    "marked_frames",
    "cnps",
    "throughput_bps",
    "fairness",
    "messages",
    "completed",
    "completion_mean_ns",
    "completion_p50_ns",
    "completion_p99_ns",
    "completion_max_ns",
    "job_ns",
    "latency_mean_ns",
    "latency_p50_ns",
    "latency_p99_ns",
    "latency_max_ns",
];
/// Metrics of the network, in the order of [`Row::values`].
pub const NETWORK: [&str; 7] = [
    "frame_hops",
    "dropped_frames",
    "cut_frames",
    "xoff_episodes",
    "host_pauses",
    "headroom_peak_cells",
    "failed_expectations",
];

/// The metrics of a traffic, or of the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the traffic; empty for the network.
    pub of: String,
    /// `None` if the run has no such value.
    pub values: Vec<Option<f64>>,
}

impl Row {
    /// The names of the values.
    pub fn names(&self) -> &'static [&'static str] {
        if self.of.is_empty() { &NETWORK } else { &TRAFFIC }
    }
}

/// Returns the metrics of a run: of each traffic, then of the network.
pub fn rows(outcome: &Results) -> Vec<Row> {
    let mut rows: Vec<Row> = outcome.traffic.iter().map(of_traffic).collect();
    rows.push(of_network(outcome));
    rows
}

fn of_traffic(traffic: &TrafficOutcome) -> Row {
    let completion = |value: fn(&sim::results::Completion) -> u64| {
        traffic.completion.as_ref().map(|completion| value(completion) as f64)
    };
    let latency = |value: fn(&sim::results::LatencyOutcome) -> u64| {
        traffic.latency.as_ref().map(|latency| value(latency) as f64)
    };
    let values: [Option<f64>; TRAFFIC.len()] = [
        Some(traffic.sent_frames as f64),
        Some(traffic.received_frames as f64),
        Some(traffic.lost_frames as f64),
        Some(traffic.reordered_frames as f64),
        Some(traffic.marked_frames as f64),
        Some(traffic.cnps as f64),
        Some(traffic.throughput_bps),
        traffic.fairness,
        Some(traffic.messages as f64),
        Some(traffic.completed as f64),
        completion(|completion| completion.mean_ns),
        completion(|completion| completion.p50_ns),
        completion(|completion| completion.p99_ns),
        completion(|completion| completion.max_ns),
        traffic.job_ns.map(|ns| ns as f64),
        latency(|latency| latency.mean_ns),
        latency(|latency| latency.p50_ns),
        latency(|latency| latency.p99_ns),
        latency(|latency| latency.max_ns),
    ];
    Row { of: traffic.name.clone(), values: values.to_vec() }
}

fn of_network(outcome: &Results) -> Row {
    let ports = || outcome.switches.iter().flat_map(|switch| &switch.ports);
    let groups = || ports().flat_map(|port| &port.groups);
    let values: [f64; NETWORK.len()] = [
        outcome.frame_hops as f64,
        ports().flat_map(|port| port.drops()).map(|(_, frames)| frames).sum::<u64>() as f64,
        outcome.links.iter().map(|link| link.cut_frames).sum::<u64>() as f64,
        groups().map(|group| group.counts.xoff_episodes).sum::<u64>() as f64,
        outcome.hosts.iter().flat_map(|host| host.pauses).sum::<u64>() as f64,
        groups().map(|group| group.counts.headroom.peak_cells).max().unwrap_or(0).into(),
        outcome.expectations.iter().filter(|expectation| !expectation.holds).count() as f64,
    ];
    Row { of: String::new(), values: values.map(Some).to_vec() }
}
