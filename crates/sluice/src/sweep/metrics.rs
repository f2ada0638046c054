//! The metrics of a run that a sweep keeps: of each traffic, and of the network.

use serde::{Deserialize, Serialize};
use sim::Results;
use sim::results::{MessageSpan, TrafficOutcome};

/// Metrics of a traffic, in the order of [`Row::values`].
pub const TRAFFIC: [&str; 24] = [
    "sent_frames",
    "received_frames",
    "lost_frames",
    "reordered_frames",
    "marked_frames",
    "cnps",
    "retransmitted_frames",
    "throughput_bps",
    "fairness",
    "messages",
    "completed",
    "completion_mean_ns",
    "completion_p50_ns",
    "completion_p99_ns",
    "completion_max_ns",
    "slowdown_mean",
    "slowdown_p99",
    "job_ns",
    "latency_mean_ns",
    "latency_p50_ns",
    "latency_p90_ns",
    "latency_p99_ns",
    "latency_p999_ns",
    "latency_max_ns",
];
/// Metrics of the network, in the order of [`Row::values`].
pub const NETWORK: [&str; 12] = [
    "frame_hops",
    "dropped_frames",
    "cut_frames",
    "xoff_episodes",
    "xoff_ns",
    "host_pauses",
    "host_paused_ns",
    "link_busy_max_percent",
    "queue_peak_cells",
    "queue_mean_max_cells",
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

    /// True if there is a value for each name, as in rows that this version has written.
    pub fn is_whole(&self) -> bool {
        self.values.len() == self.names().len()
    }
}

/// Returns the metrics of a run: of each traffic, then of the network.
pub fn rows(outcome: &Results) -> Vec<Row> {
    let mut slowdowns = vec![Vec::new(); outcome.traffic.len()];
    for message in &outcome.series.completions {
        slowdowns[message.traffic].extend(MessageSpan::slowdown(message));
    }
    let mut rows: Vec<Row> = outcome
        .traffic
        .iter()
        .zip(slowdowns)
        .map(|(traffic, slowdowns)| of_traffic(traffic, slowdowns))
        .collect();
    rows.push(of_network(outcome));
    rows
}

/// Returns the mean and the 99th percentile of values, if there are any.
fn mean_and_p99(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (values.len() * 99).div_ceil(100);
    let p99 = values.get(rank.checked_sub(1)?)?;
    Some((values.iter().sum::<f64>() / values.len() as f64, *p99))
}

fn of_traffic(traffic: &TrafficOutcome, slowdowns: Vec<f64>) -> Row {
    let slowdown = mean_and_p99(slowdowns);
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
        traffic.retransmitted_frames.map(|frames| frames as f64),
        Some(traffic.throughput_bps),
        traffic.fairness,
        Some(traffic.messages as f64),
        Some(traffic.completed as f64),
        completion(|completion| completion.mean_ns),
        completion(|completion| completion.p50_ns),
        completion(|completion| completion.p99_ns),
        completion(|completion| completion.max_ns),
        slowdown.map(|(mean, _)| mean),
        slowdown.map(|(_, p99)| p99),
        traffic.job_ns.map(|ns| ns as f64),
        latency(|latency| latency.mean_ns),
        latency(|latency| latency.p50_ns),
        latency(|latency| latency.p90_ns),
        latency(|latency| latency.p99_ns),
        latency(|latency| latency.p999_ns),
        latency(|latency| latency.max_ns),
    ];
    Row { of: traffic.name.clone(), values: values.to_vec() }
}

fn of_network(outcome: &Results) -> Row {
    let ports = || outcome.switches.iter().flat_map(|switch| &switch.ports);
    let groups = || ports().flat_map(|port| &port.groups);
    let queues = || ports().flat_map(|port| &port.queues);
    let busy = outcome.links.iter().flat_map(|link| link.busy_percent);
    let mean_cells = outcome.queue_lengths.iter().map(|queue| queue.mean_cells);
    let values: [Option<f64>; NETWORK.len()] = [
        Some(outcome.frame_hops as f64),
        Some(ports().flat_map(|port| port.drops()).map(|(_, frames)| frames).sum::<u64>() as f64),
        Some(outcome.links.iter().map(|link| link.cut_frames).sum::<u64>() as f64),
        Some(groups().map(|group| group.counts.xoff_episodes).sum::<u64>() as f64),
        Some(groups().map(|group| group.counts.xoff_ns).sum::<u64>() as f64),
        Some(outcome.hosts.iter().flat_map(|host| host.pauses).sum::<u64>() as f64),
        Some(outcome.hosts.iter().flat_map(|host| host.paused_ns).sum::<u64>() as f64),
        busy.reduce(f64::max),
        Some(queues().map(|queue| queue.counts.level.peak_cells).max().unwrap_or(0).into()),
        mean_cells.reduce(f64::max),
        Some(groups().map(|group| group.counts.headroom.peak_cells).max().unwrap_or(0).into()),
        Some(outcome.expectations.iter().filter(|expectation| !expectation.holds).count() as f64),
    ];
    Row { of: String::new(), values: values.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::sample;

    /// The incast has messages of 81 µs to 1.9 ms, 80 µs of which are ideal.
    #[test]
    fn metrics_have_their_names() {
        let mut outcome = sample::incast();
        outcome.traffic[0].retransmitted_frames = Some(7);
        outcome.hosts[0].paused_ns[3] = 5000;
        let rows = rows(&outcome);
        let value = |row: usize, name: &str| {
            let index = rows[row].names().iter().position(|known| *known == name);
            rows[row].values[index.unwrap_or_else(|| panic!("{name}"))]
        };
        assert_eq!(value(0, "retransmitted_frames"), Some(7.0));
        assert_eq!(value(1, "retransmitted_frames"), None, "not acknowledged");
        assert_eq!(value(1, "slowdown_mean"), None, "no messages");
        let mut slowdowns: Vec<f64> =
            outcome.series.completions.iter().map(|message| message.took_ns() as f64 / 80_000.0).collect();
        slowdowns.sort_by(f64::total_cmp);
        assert_eq!(value(0, "slowdown_p99"), Some(slowdowns[297 - 1]), "of 299");
        assert_eq!(value(0, "slowdown_mean"), Some(slowdowns.iter().sum::<f64>() / 299.0));
        let network = rows.len() - 1;
        assert_eq!(value(network, "link_busy_max_percent"), Some(99.2));
        assert_eq!(value(network, "queue_mean_max_cells"), Some(4.5));
        let paused: u64 = outcome.hosts.iter().flat_map(|host| host.paused_ns).sum();
        assert_eq!(value(network, "host_paused_ns"), Some(paused as f64));
        assert!(rows.iter().all(Row::is_whole));
    }
}
