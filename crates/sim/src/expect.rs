//! Evaluation of the expectations of a scenario.

use crate::results::{ExpectationOutcome, GroupOutcome, PortOutcome, Results, TrafficOutcome};
use crate::scenario::{Expectation, Metric, Scenario, Scope};
use switch::monitor::counters::PrioritySnapshot;

/// Evaluates every expectation, in the scenario's order.
pub(crate) fn evaluate(scenario: &Scenario, outcome: &Results) -> Vec<ExpectationOutcome> {
    let evaluate_one = |expectation: &Expectation| {
        let measured = measure(scenario, outcome, expectation.scope, expectation.metric);
        let holds = expectation.at_least.is_none_or(|least| measured >= least)
            && expectation.at_most.is_none_or(|most| measured <= most);
        ExpectationOutcome {
            line: expectation.line,
            expected: spell(scenario, expectation),
            metric: expectation.metric,
            measured,
            holds,
        }
    };
    scenario.expectations.iter().map(evaluate_one).collect()
}

/// Returns the measured value.
fn measure(scenario: &Scenario, outcome: &Results, scope: Scope, metric: Metric) -> f64 {
    let traffic =
        || outcome.traffic.iter().enumerate().filter(move |(t, of)| is_in(scope, *t, of)).map(|(_, of)| of);
    let frames = |count: fn(&TrafficOutcome) -> u64| traffic().map(count).sum::<u64>() as f64;
    let ports = || ports_of(scenario, outcome, scope).into_iter();
    let groups = || ports().flat_map(|port| &port.groups).filter(move |group| is_group_in(scope, group));
    let of_priorities = |count: fn(&PrioritySnapshot) -> u64| {
        let of_port = |port: &PortOutcome| -> u64 {
            let is_meant = |priority: usize| !matches!(scope, Scope::Priority(wanted) if usize::from(wanted) != priority);
            let priorities = port.counts.priorities.iter().enumerate();
            priorities.filter(|(number, _)| is_meant(*number)).map(|(_, priority)| count(priority)).sum()
        };
        ports().map(of_port).sum::<u64>() as f64
    };
    match metric {
        Metric::Lost if matches!(scope, Scope::Switch(_) | Scope::Port(_)) => {
            ports().flat_map(PortOutcome::drops).map(|(_, frames)| frames).sum::<u64>() as f64
        }
        Metric::Lost => frames(|traffic| traffic.lost_frames),
        Metric::NoDropLost => of_priorities(|priority| priority.no_drop_lost_frames),
        Metric::Sent if matches!(scope, Scope::Switch(_) | Scope::Port(_)) => {
            ports().map(|port| port.counts.transmitted.frames).sum::<u64>() as f64
        }
        Metric::Sent => frames(|traffic| traffic.sent_frames),
        Metric::Received if matches!(scope, Scope::Switch(_) | Scope::Port(_)) => {
            ports().map(|port| port.counts.received.frames).sum::<u64>() as f64
        }
        Metric::Received => frames(|traffic| traffic.received_frames),
        Metric::Reordered => frames(|traffic| traffic.reordered_frames),
        Metric::Marked if matches!(scope, Scope::Switch(_) | Scope::Port(_)) => {
            ports().flat_map(|port| &port.queues).map(|queue| queue.counts.marked.frames).sum::<u64>() as f64
        }
        Metric::Marked => frames(|traffic| traffic.marked_frames),
        Metric::Throughput => traffic().map(|traffic| traffic.throughput_bps).sum(),
        Metric::Completed => frames(|traffic| traffic.completed),
        Metric::SlowestCompletionNs => {
            // A message that has not arrived completely has no time, so it counts as slower than
            // all others.
            let unfinished = |traffic: &TrafficOutcome| traffic.messages > traffic.completed;
            if traffic().any(unfinished) {
                return f64::INFINITY;
            }
            traffic()
                .filter_map(|traffic| traffic.completion)
                .map(|completion| completion.max_ns)
                .max()
                .unwrap_or(0) as f64
        }
        Metric::XoffEpisodes => groups().map(|group| group.counts.xoff_episodes).sum::<u64>() as f64,
        Metric::Pauses => pauses(scenario, outcome, scope) as f64,
        Metric::Storms => of_priorities(|priority| priority.storms),
        Metric::StormsRestored => of_priorities(|priority| priority.storms_restored),
        Metric::StormDropped => of_priorities(|priority| {
            priority.storm_traffic.tx_dropped_frames + priority.storm_traffic.rx_dropped_frames
        }),
        Metric::HeadroomPeakCells => {
            groups().map(|group| group.counts.headroom.peak_cells).max().unwrap_or(0).into()
        }
        Metric::StuckNs => {
            let last = traffic().filter_map(|traffic| traffic.last_arrival_ns).max().unwrap_or(0);
            outcome.duration_ns.saturating_sub(last) as f64
        }
        Metric::InNetwork => frames(|traffic| traffic.in_network_frames),
    }
}

fn is_in(scope: Scope, number: usize, traffic: &TrafficOutcome) -> bool {
    match scope {
        Scope::Traffic(wanted) => number == wanted,
        Scope::Priority(priority) => traffic.priority == priority,
        Scope::All | Scope::Switch(_) | Scope::Port(_) => true,
    }
}

fn is_group_in(scope: Scope, group: &GroupOutcome) -> bool {
    if let Scope::Priority(priority) = scope { group.priority == priority } else { true }
}

fn ports_of<'o>(scenario: &Scenario, outcome: &'o Results, scope: Scope) -> Vec<&'o PortOutcome> {
    let name = match scope {
        Scope::Switch(node) => Some((scenario.nodes[node].name.clone(), None)),
        Scope::Port(end) => {
            let full = scenario.end_name(end);
            let (switch, port) = full.split_once('.').unwrap_or((&full, ""));
            Some((switch.to_owned(), Some(port.to_owned())))
        }
        _ => None,
    };
    let switches =
        outcome.switches.iter().filter(|of| name.as_ref().is_none_or(|(switch, _)| of.name == *switch));
    let wanted = name.as_ref().and_then(|(_, port)| port.as_ref());
    switches
        .flat_map(|of| &of.ports)
        .filter(|port| wanted.is_none_or(|wanted| port.counts.name == *wanted))
        .collect()
}

/// Counts the pauses that queues of switches have honored; for the whole network, those of hosts
/// too.
fn pauses(scenario: &Scenario, outcome: &Results, scope: Scope) -> u64 {
    if let Scope::Switch(_) | Scope::Port(_) = scope {
        return ports_of(scenario, outcome, scope)
            .iter()
            .flat_map(|port| &port.queues)
            .map(|queue| queue.counts.pauses)
            .sum();
    }
    match scope {
        Scope::Priority(priority) => outcome.series.pause_count[usize::from(priority & 7)],
        _ => outcome.series.pause_count.iter().sum(),
    }
}

/// Describes an expectation, as in "rdma: lost = 0".
pub fn spell(scenario: &Scenario, expectation: &Expectation) -> String {
    let scope = match expectation.scope {
        Scope::All => String::new(),
        Scope::Traffic(traffic) => format!("{}: ", scenario.traffic[traffic].name),
        Scope::Priority(priority) => format!("priority {priority}: "),
        Scope::Switch(node) => format!("{}: ", scenario.nodes[node].name),
        Scope::Port(end) => format!("{}: ", scenario.end_name(end)),
    };
    let metric = expectation.metric.name();
    let range = match (expectation.at_least, expectation.at_most) {
        (Some(least), Some(most)) if least == most => format!("= {}", expectation.metric.spell(least)),
        (Some(least), Some(most)) => {
            format!("from {} to {}", expectation.metric.spell(least), expectation.metric.spell(most))
        }
        (Some(least), None) => format!("≥ {}", expectation.metric.spell(least)),
        (None, Some(most)) => format!("≤ {}", expectation.metric.spell(most)),
        (None, None) => "anything".to_owned(),
    };
    format!("{scope}{metric} {range}")
}

impl Metric {
    /// The name in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Lost => "lost",
            Metric::NoDropLost => "no_drop_lost",
            Metric::Sent => "sent",
            Metric::Received => "received",
            Metric::Reordered => "reordered",
            Metric::Marked => "marked",
            Metric::Throughput => "throughput",
            Metric::Completed => "completed",
            Metric::SlowestCompletionNs => "slowest_completion",
            Metric::XoffEpisodes => "xoff_episodes",
            Metric::Pauses => "pauses",
            Metric::Storms => "storms",
            Metric::StormsRestored => "storms_restored",
            Metric::StormDropped => "storm_dropped",
            Metric::HeadroomPeakCells => "headroom_peak_cells",
            Metric::StuckNs => "stuck",
            Metric::InNetwork => "in_network",
        }
    }

    /// Formats a value of the metric with its unit.
    pub fn spell(self, value: f64) -> String {
        match self {
            Metric::Throughput => {
                scaled(value, &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")])
            }
            Metric::SlowestCompletionNs | Metric::StuckNs if value.is_infinite() => "never".to_owned(),
            Metric::SlowestCompletionNs | Metric::StuckNs => {
                scaled(value, &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")])
            }
            _ => format!("{value}"),
        }
    }
}

/// Formats a value in its largest unit that is at least 1; the last unit is the measured one.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let (size, unit) = units.iter().find(|(size, _)| value >= *size).unwrap_or(&units[units.len() - 1]);
    format!("{} {unit}", (value / size * 1000.0).round() / 1000.0)
}
