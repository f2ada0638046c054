//! The verdict of a lab: what was lost, whether every frame is accounted for, and the expectations
//! of the scenario.

use host::report::HostReport;
use schemars::JsonSchema;
use serde::Serialize;
use sim::Scenario;
use sim::scenario::{Expectation, LinkEnd, Metric, Scope, Start};
use testbed::conservation_beside_announcements;

use super::state::State;
use super::traffic::{Measured, received, sent};
use crate::output::grouped;
use control::frames;
use control::v1::{Group, Port, RemovedPorts, Snapshot};
use testbed::scenario::{self as plan, Flow};

/// The result of a run, as `--json` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LabVerdict {
    /// Name of the lab.
    pub lab: String,
    /// True if all checks and expectations hold.
    pub holds: bool,
    /// In the order of the scenario.
    pub traffic: Vec<TrafficResult>,
    /// What holds of every run.
    pub checks: Vec<CheckResult>,
    /// What the scenario expects.
    pub expectations: Vec<ExpectationResult>,
}

/// One traffic, all its flows together.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct TrafficResult {
    /// Its name in the scenario.
    pub name: String,
    /// 802.1p priority.
    pub priority: u8,
    /// Frames that its senders sent.
    pub sent_frames: u64,
    /// Frames that arrived.
    pub received_frames: u64,
    /// Frames that were sent and did not arrive.
    pub lost_frames: u64,
    /// Of these, frames of flows that began before their receiver was ready, before the first that
    /// arrived.
    pub missed_before_ready_frames: u64,
    /// Frames that arrived with a congestion mark.
    pub marked_frames: u64,
    /// Frames that arrived late or twice.
    pub reordered_frames: u64,
    /// Frames that arrived damaged.
    pub corrupted_frames: u64,
    /// Received bit/s on the wire while it was sent.
    pub throughput_bps: u64,
}

/// Something that holds of every run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CheckResult {
    /// True if it does.
    pub holds: bool,
    /// A sentence.
    pub text: String,
}

/// An expectation of the scenario.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExpectationResult {
    /// Line of the file.
    pub line: usize,
    /// As in "storage: lost = 0".
    pub expected: String,
    /// The measured value, in the unit of the file's number.
    pub measured: f64,
    /// True if it is in the range.
    pub holds: bool,
    #[serde(skip)]
    metric: Metric,
}

/// Evaluates a run.
pub fn evaluate(scenario: &Scenario, state: &State, measured: &Measured) -> LabVerdict {
    let flows = plan::flows(scenario);
    let nodes: Vec<usize> = plan::hosts(scenario).map(|(number, ..)| number).collect();
    let of_traffic = |traffic| traffic_result(scenario, traffic, &flows, &nodes, &measured.reports);
    let traffic: Vec<TrafficResult> = (0..scenario.traffic.len()).map(of_traffic).collect();
    let checks = checks(scenario, state, measured, &traffic);
    let run = RunResult { scenario, state, measured, traffic: &traffic };
    let expectations: Vec<_> = scenario.expectations.iter().map(|it| run.expectation(it)).collect();
    let holds = checks.iter().all(|check| check.holds) && expectations.iter().all(|it| it.holds);
    LabVerdict { lab: state.name.clone(), holds, traffic, checks, expectations }
}

fn traffic_result(
    scenario: &Scenario,
    number: usize,
    flows: &[Flow],
    nodes: &[usize],
    reports: &[HostReport],
) -> TrafficResult {
    let traffic = &scenario.traffic[number];
    let mut result =
        TrafficResult { name: traffic.name.clone(), priority: traffic.priority, ..TrafficResult::default() };
    let mut wire_bytes = 0;
    for flow in flows.iter().filter(|flow| flow.traffic == number) {
        let (sent, received) = (sent(flows, nodes, flow, reports), received(flows, nodes, flow, reports));
        result.sent_frames += sent.sent_frames;
        result.received_frames += received.received_frames;
        let lost = sent.sent_frames.saturating_sub(received.received_frames);
        result.lost_frames += lost;
        result.missed_before_ready_frames += received.missed_before_ready_frames.min(lost);
        result.marked_frames += received.received_ce_frames;
        result.reordered_frames += received.reordered_frames + received.duplicated_frames;
        result.corrupted_frames += received.corrupted_frames;
        let overhead = plan::link_of(scenario, flow.to).map_or(0, |(link, _)| u64::from(link.overhead_bytes));
        wire_bytes += received.received_bytes + received.received_frames * overhead;
    }
    let start_ns = match traffic.start {
        Start::At(ns) => ns,
        Start::After(_) => 0,
    };
    let sending_ns = traffic.stop_ns.min(scenario.duration_ns).saturating_sub(start_ns).max(1);
    result.throughput_bps = (u128::from(wire_bytes) * 8_000_000_000 / u128::from(sending_ns)) as u64;
    result
}

/// Returns what holds of every run.
fn checks(
    scenario: &Scenario,
    state: &State,
    measured: &Measured,
    traffic: &[TrafficResult],
) -> Vec<CheckResult> {
    let mut checks = Vec::new();
    checks.extend(no_drop_by_switches(&measured.snapshots));
    checks.extend(no_drop_by_hosts(&measured.snapshots, traffic));
    let sum = |of: fn(&TrafficResult) -> u64| traffic.iter().map(of).sum::<u64>();
    let (late, damaged) = (sum(|it| it.reordered_frames), sum(|it| it.corrupted_frames));
    checks.push(CheckResult {
        holds: late + damaged == 0,
        text: format!(
            "of {} frames that arrived, {} came out of order or twice, {} were damaged",
            grouped(sum(|it| it.received_frames)),
            grouped(late),
            grouped(damaged)
        ),
    });
    let pauses = || measured.reports.iter().flat_map(|report| &report.pauses);
    if pauses().any(|pause| pause.xoff > 0) {
        let paused_s = pauses().map(|pause| pause.paused_ns).sum::<u64>() as f64 / 1e9;
        let late: u64 = pauses().map(|pause| pause.sent_while_paused).sum();
        checks.push(CheckResult {
            holds: late == 0,
            text: match late {
                0 => format!("hosts were paused for {paused_s:.1} s in all, and they always honored it"),
                late => format!("{} frames left a host while their priority was paused", grouped(late)),
            },
        });
    }
    if measured.is_stuck {
        let text = "switches still hold frames, or pause peers, though nobody has sent for long".to_owned();
        checks.push(CheckResult { holds: false, text });
        return checks;
    }
    let errors: Vec<String> = state
        .switches
        .iter()
        .zip(&measured.snapshots)
        .filter_map(|(switch, snapshot)| {
            let hosts = plan::hosts(scenario).zip(&measured.reports).filter_map(|((number, ..), report)| {
                let (_, end) = plan::link_of(scenario, number)?;
                let (name, port) = plan::port_of(scenario, end)?;
                (name == switch.name).then_some((port, report))
            });
            let error = conservation_beside_announcements(snapshot, &hosts.collect::<Vec<_>>()).err()?;
            Some(format!("switch {}: {error}", switch.name))
        })
        .collect();
    checks.push(CheckResult {
        holds: errors.is_empty(),
        text: match errors.is_empty() {
            true => "every frame is accounted for, by hosts, switches and kernel, and every buffer cell was given back".to_owned(),
            false => errors.join("\n    "),
        },
    });
    checks
}

/// Returns the check of what switches and their kernels lost of no-drop priorities; `None` without
/// such a priority.
fn no_drop_by_switches(snapshots: &[Snapshot]) -> Option<CheckResult> {
    let ports = || snapshots.iter().flat_map(|switch| &switch.ports);
    let removed = || snapshots.iter().filter_map(|switch| switch.removed_ports.as_ref());
    let at_removed: u64 = removed().map(RemovedPorts::lost_frames).sum();
    let lost = ports().map(|port| port.no_drop_lost_frames(None)).sum::<u64>() + at_removed;
    let has_no_drop = ports().flat_map(|port| &port.groups).any(|group| group.no_drop);
    if lost == 0 && !has_no_drop {
        return None;
    }
    let on_receipt = |port: &Port| {
        let protects = port.groups.iter().any(|group| group.no_drop);
        if protects { port.kernel_counters().rx_lost_frames() } else { 0 }
    };
    let by_kernel = ports().map(|port| port.kernel_lost_no_drop_frames + on_receipt(port)).sum::<u64>()
        + removed().map(|ports| ports.kernel_dropped_frames).sum::<u64>();
    let dropped = lost.saturating_sub(by_kernel);
    let more = match by_kernel {
        0 => String::new(),
        lost => format!(", {} were lost by the kernel", grouped(lost)),
    };
    Some(CheckResult {
        holds: lost == 0,
        text: format!("no-drop priorities: {} frames were dropped{more}", grouped(dropped)),
    })
}

/// Returns the check of what hosts sent and did not receive of no-drop priorities, for whatever
/// reason; `None` without such traffic. A priority counts if every port that received it protects
/// it.
fn no_drop_by_hosts(snapshots: &[Snapshot], traffic: &[TrafficResult]) -> Option<CheckResult> {
    let is_no_drop = |priority: u8| {
        let ports = snapshots.iter().flat_map(|switch| &switch.ports);
        let groups = ports.filter_map(|port| port.groups.get(usize::from(priority)));
        let mut used = groups.filter(|group| group.received.is_some_and(|it| it.frames > 0)).peekable();
        used.peek().is_some() && used.all(|group| group.no_drop)
    };
    let meant: Vec<&TrafficResult> = traffic.iter().filter(|it| is_no_drop(it.priority)).collect();
    if meant.is_empty() {
        return None;
    }
    let sent: u64 = meant.iter().map(|it| it.sent_frames).sum();
    let lost: u64 = meant.iter().map(|it| it.lost_frames - it.missed_before_ready_frames).sum();
    Some(CheckResult {
        holds: lost == 0,
        text: format!("no-drop traffic: {} of {} frames did not arrive", grouped(lost), grouped(sent)),
    })
}

/// A run, for its expectations.
struct RunResult<'r> {
    scenario: &'r Scenario,
    state: &'r State,
    measured: &'r Measured,
    traffic: &'r [TrafficResult],
}

impl RunResult<'_> {
    fn expectation(&self, expectation: &Expectation) -> ExpectationResult {
        let measured = self.measure(expectation.scope, expectation.metric);
        ExpectationResult {
            line: expectation.line,
            expected: sim::expect::spell(self.scenario, expectation),
            measured,
            holds: expectation.at_least.is_none_or(|least| measured >= least)
                && expectation.at_most.is_none_or(|most| measured <= most),
            metric: expectation.metric,
        }
    }

    fn measure(&self, scope: Scope, metric: Metric) -> f64 {
        let of_traffic = |of: fn(&TrafficResult) -> u64| {
            let meant = self.traffic.iter().enumerate().filter(|(t, it)| plan::is_in(scope, *t, it.priority));
            meant.map(|(_, it)| of(it)).sum::<u64>() as f64
        };
        let is_meant =
            |priority: usize| !matches!(scope, Scope::Priority(wanted) if usize::from(wanted) != priority);
        let groups = |of: fn(&Group) -> u64| -> Vec<u64> {
            let groups = self.ports(scope).flat_map(|port| port.groups.iter().enumerate());
            groups.filter(|(priority, _)| is_meant(*priority)).map(|(_, group)| of(group)).collect()
        };
        let priorities = |of: fn(&control::v1::Priority) -> u64| -> f64 {
            let all = self.ports(scope).flat_map(|port| port.priorities.iter().enumerate());
            all.filter(|(number, _)| is_meant(*number)).map(|(_, it)| of(it)).sum::<u64>() as f64
        };
        let count = |of: fn(&Port) -> u64| self.ports(scope).map(of).sum::<u64>() as f64;
        let is_of_ports = matches!(scope, Scope::Switch(_) | Scope::Port(_));
        match metric {
            Metric::Lost if is_of_ports => {
                count(|port| frames(port.input_dropped) + frames(port.output_dropped))
            }
            Metric::Lost => of_traffic(|it| it.lost_frames),
            Metric::NoDropLost => {
                let priority = match scope {
                    Scope::Priority(priority) => Some(usize::from(priority)),
                    _ => None,
                };
                let lost: u64 = self.ports(scope).map(|port| port.no_drop_lost_frames(priority)).sum();
                (lost + self.lost_at_removed_ports(scope)) as f64
            }
            Metric::Sent if is_of_ports => count(|port| frames(port.transmitted)),
            Metric::Sent => of_traffic(|it| it.sent_frames),
            Metric::Received if is_of_ports => count(|port| frames(port.received)),
            Metric::Received => of_traffic(|it| it.received_frames),
            Metric::Reordered => of_traffic(|it| it.reordered_frames),
            Metric::Marked if is_of_ports => {
                count(|port| port.queues.iter().filter_map(|queue| queue.marked).map(|it| it.frames).sum())
            }
            Metric::Marked => of_traffic(|it| it.marked_frames),
            Metric::Throughput => of_traffic(|it| it.throughput_bps),
            Metric::XoffEpisodes => groups(|group| group.xoff_episodes).iter().sum::<u64>() as f64,
            Metric::Pauses => priorities(|it| it.pauses) + self.host_pauses(scope),
            Metric::Storms => priorities(|it| it.storms),
            Metric::StormsRestored => priorities(|it| it.storms_restored),
            Metric::StormDropped => {
                priorities(|it| it.storm_traffic.map_or(0, |it| it.tx_dropped_frames + it.rx_dropped_frames))
            }
            Metric::HeadroomPeakCells => {
                let peaks = groups(|group| group.headroom.map_or(0, |it| u64::from(it.peak_cells)));
                peaks.into_iter().max().unwrap_or(0) as f64
            }
            // Refused before anything was built.
            Metric::Completed | Metric::SlowestCompletionNs | Metric::StuckNs | Metric::InNetwork => f64::NAN,
        }
    }

    /// Counts the pauses that hosts have received, for the whole network or a priority.
    fn host_pauses(&self, scope: Scope) -> f64 {
        let pauses = self.measured.reports.iter().flat_map(|report| &report.pauses);
        let counted = pauses.filter(|pause| match scope {
            Scope::All => true,
            Scope::Priority(wanted) => pause.priority == wanted,
            Scope::Traffic(_) | Scope::Switch(_) | Scope::Port(_) => false,
        });
        counted.map(|pause| pause.xon).sum::<u64>() as f64
    }

    /// Counts what ports lost that a reload removed, for the whole network, a switch, or a
    /// priority, which they do not tell apart.
    fn lost_at_removed_ports(&self, scope: Scope) -> u64 {
        let wanted = match scope {
            Scope::Switch(node) => Some(self.scenario.nodes[node].name.as_str()),
            Scope::All | Scope::Priority(_) => None,
            Scope::Port(_) | Scope::Traffic(_) => return 0,
        };
        let switches = self.state.switches.iter().zip(&self.measured.snapshots);
        let meant = switches.filter(|(it, _)| wanted.is_none_or(|name| it.name == name));
        meant.filter_map(|(_, now)| now.removed_ports.as_ref()).map(RemovedPorts::lost_frames).sum()
    }

    fn ports(&self, scope: Scope) -> impl Iterator<Item = &Port> {
        let wanted = |end: LinkEnd| plan::port_of(self.scenario, end);
        let switch = match scope {
            Scope::Switch(node) => Some(self.scenario.nodes[node].name.as_str()),
            Scope::Port(end) => wanted(end).map(|(switch, _)| switch),
            _ => None,
        };
        let port = match scope {
            Scope::Port(end) => wanted(end).map(|(_, port)| port),
            _ => None,
        };
        let switches = self.state.switches.iter().zip(&self.measured.snapshots);
        let meant = switches.filter(move |(it, _)| switch.is_none_or(|switch| it.name == switch));
        let ports = meant.flat_map(|(_, snapshot): (_, &Snapshot)| &snapshot.ports);
        ports.filter(move |it| port.is_none_or(|port| it.name == port))
    }
}

impl LabVerdict {
    /// Formats the verdict: a line for each traffic, check and expectation.
    pub fn text(&self) -> String {
        let mut text = String::from("Verdict\n");
        let mark = |holds: bool| if holds { '✔' } else { '✘' };
        for it in &self.traffic {
            let (lost, sent) = (grouped(it.lost_frames), grouped(it.sent_frames));
            let rate = grouped(it.throughput_bps / 1_000_000);
            text += &format!(
                "    {} (priority {}): {lost} of {sent} frames lost, {rate} Mbit/s arrived\n",
                it.name, it.priority
            );
        }
        for check in &self.checks {
            text += &format!("  {} {}\n", mark(check.holds), check.text);
        }
        for it in &self.expectations {
            let measured = it.metric.spell(it.measured);
            text += &format!("  {} line {}: {}, measured {measured}\n", mark(it.holds), it.line, it.expected);
        }
        text
    }
}

/// Returns a verdict with one of everything.
#[cfg(test)]
pub fn sample() -> LabVerdict {
    let expectation = ExpectationResult {
        line: 7,
        expected: "storage: lost = 0".to_owned(),
        measured: 0.5,
        holds: false,
        metric: Metric::Lost,
    };
    LabVerdict {
        lab: "first".to_owned(),
        holds: false,
        traffic: vec![TrafficResult::default()],
        checks: vec![CheckResult { holds: true, text: "nothing was lost".to_owned() }],
        expectations: vec![expectation],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::v1::{Count, Kernel, Priority};

    /// A switch with one port, and one group of each priority; priority 3 is no-drop.
    fn switch() -> Snapshot {
        let received = Some(Count { frames: 9, ..Count::default() });
        let group = |priority| Group { no_drop: priority == 3, received, ..Group::default() };
        let priorities = vec![Priority::default(); 8];
        let port = Port { groups: (0..8).map(group).collect(), priorities, ..Port::default() };
        Snapshot { ports: vec![port], ..Snapshot::default() }
    }

    fn check(snapshot: Snapshot) -> CheckResult {
        no_drop_by_switches(&[snapshot]).unwrap()
    }

    #[test]
    fn every_loss_of_a_no_drop_priority_counts() {
        assert!(check(switch()).holds);
        // For any reason: by a storm, or at the tail of a queue.
        let mut dropped = switch();
        dropped.ports[0].priorities[3].no_drop_lost_frames = 2;
        assert_eq!(check(dropped).text, "no-drop priorities: 2 frames were dropped");
        let mut by_kernel = switch();
        by_kernel.ports[0].priorities[3].no_drop_lost_frames = 1;
        by_kernel.ports[0].kernel_lost_no_drop_frames = 1;
        by_kernel.ports[0].kernel = Some(Kernel { rx_dropped_frames: 4, ..Kernel::default() });
        let lost = by_kernel.ports[0].clone();
        let by_kernel = check(by_kernel);
        assert!(
            !by_kernel.holds && by_kernel.text.ends_with("0 frames were dropped, 5 were lost by the kernel")
        );
        assert_eq!([None, Some(3), Some(0)].map(|priority| lost.no_drop_lost_frames(priority)), [5, 5, 0]);
        // At a port that is no more.
        let lost = RemovedPorts { no_drop_lost_frames: 6, kernel_dropped_frames: 1, ..Default::default() };
        let removed = check(Snapshot { removed_ports: Some(lost), ..switch() });
        assert!(!removed.holds && removed.text.ends_with("6 frames were dropped, 1 were lost by the kernel"));
    }

    #[test]
    fn no_drop_traffic_must_arrive() {
        let of = |priority, lost_frames, missed_before_ready_frames| {
            let sent_frames = 9;
            TrafficResult {
                priority,
                sent_frames,
                lost_frames,
                missed_before_ready_frames,
                ..TrafficResult::default()
            }
        };
        let check = |traffic: &[TrafficResult]| no_drop_by_hosts(&[switch()], traffic);
        assert!(check(&[of(0, 5, 0)]).is_none(), "best effort");
        assert!(check(&[of(0, 5, 0), of(3, 2, 2)]).unwrap().holds, "sent too early");
        let lost = check(&[of(0, 5, 0), of(3, 2, 1)]).unwrap();
        assert_eq!((lost.holds, &*lost.text), (false, "no-drop traffic: 1 of 9 frames did not arrive"));
    }
}
