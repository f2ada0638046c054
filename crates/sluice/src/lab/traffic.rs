//! Runs the traffic of a scenario in a lab that is up, with its progress, and adds up.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use control::v1::Snapshot;
use host::report::{FlowReceived, FlowSent, HostReport};
use sim::Scenario;
use testbed::{Host, eventually, idle, pauses_sent, port};

use super::network::Lab;
use crate::output::grouped;
use host::units::megabits;
use testbed::scenario::{self as plan, Flow};

/// Interval between two pictures on a terminal, and between two lines elsewhere.
const REDRAW: Duration = Duration::from_millis(250);
const LINE: Duration = Duration::from_secs(1);
/// How often it is looked whether the traffic has ended.
const LOOK: Duration = Duration::from_millis(20);
/// The most flows that have a line each; with more, a traffic has one.
const MAX_LINES: usize = 16;

/// What the end of a run has shown.
pub struct Measured {
    /// The last snapshot of each switch, when nothing moved any more.
    pub snapshots: Vec<Snapshot>,
    /// The last report of each host, in the order of the scenario.
    pub reports: Vec<HostReport>,
    /// True if frames were still held when nobody had sent for long.
    pub is_stuck: bool,
}

/// The running hosts of a lab.
pub struct Traffic<'l> {
    lab: &'l Lab,
    scenario: &'l Scenario,
    flows: Vec<Flow>,
    hosts: Vec<Host>,
    /// Node of each host.
    nodes: Vec<usize>,
}

impl<'l> Traffic<'l> {
    /// Starts the hosts, and waits until every switch knows them.
    pub fn start(lab: &'l Lab, scenario: &'l Scenario) -> Result<Self> {
        let flows = plan::flows(scenario);
        let (mut hosts, mut nodes) = (Vec::new(), Vec::new());
        for (number, node, host) in plan::hosts(scenario) {
            let of_host = flows.iter().filter(|flow| flow.from == number);
            let mac = |flow: &Flow| lab.endpoint(&scenario.nodes[flow.to].name).map(|to| to.mac());
            let arguments: Vec<String> = of_host
                .map(|flow| Ok(plan::flow_argument(scenario, flow, &mac(flow)?)))
                .collect::<Result<_>>()?;
            let mut more = plan::host_arguments(scenario, number, host);
            if arguments.is_empty() {
                more.drain(..2); // it receives until it is stopped
            }
            let more: Vec<&str> = more.iter().map(String::as_str).collect();
            hosts.push(Host::start(&lab.endpoint(&node.name)?, &arguments, &more)?);
            nodes.push(number);
        }
        let traffic = Self { lab, scenario, flows, hosts, nodes };
        eventually("every host has announced itself", || {
            let snapshots = lab.snapshots()?;
            let has_announced = |&host: &usize| {
                let found = traffic.port(host, &snapshots);
                found.is_none_or(|port| port.received.is_some_and(|received| received.frames > 0))
            };
            Ok(traffic.nodes.iter().all(has_announced).then_some(()))
        })?;
        Ok(traffic)
    }

    /// Returns the port of the switch that a host is at; `None` if it is at another host.
    fn port<'s>(&self, host: usize, snapshots: &'s [Snapshot]) -> Option<&'s control::v1::Port> {
        let (_, end) = plan::link_of(self.scenario, host)?;
        let (switch, name) = plan::port_of(self.scenario, end)?;
        let at = self.lab.state.switches.iter().position(|it| it.name == switch)?;
        port(&snapshots[at], name).ok()
    }

    /// Sends everything, and shows the progress. False if it was interrupted.
    pub fn run(&mut self, interrupted: &AtomicBool) -> Result<bool> {
        self.hosts.iter_mut().zip(&self.nodes).try_for_each(|(host, node)| {
            if self.flows.iter().any(|flow| flow.from == *node) { host.start_sending() } else { Ok(()) }
        })?;
        let mut screen = Screen::new();
        let mut next = Instant::now() + screen.step();
        let mut before = self.reports();
        while self.is_sending()? {
            if interrupted.load(Ordering::Relaxed) {
                return Ok(false);
            }
            sleep(LOOK);
            if Instant::now() >= next {
                let now = self.reports();
                screen.show(&self.picture(&before, &now));
                before = now;
                next += screen.step();
            }
        }
        Ok(true)
    }

    fn is_sending(&mut self) -> Result<bool> {
        for (host, node) in self.hosts.iter_mut().zip(&self.nodes) {
            let sends = self.flows.iter().any(|flow| flow.from == *node);
            if sends && !host.has_sent_all()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn reports(&self) -> Vec<HostReport> {
        self.hosts.iter().map(|host| host.report().unwrap_or_default()).collect()
    }

    /// Waits until nothing moves any more, stops the hosts, and takes what they have counted.
    pub fn end(self) -> Result<Measured> {
        let mut at_rest = || {
            let snapshots = self.lab.snapshots()?;
            Ok(snapshots.iter().all(idle).then_some(snapshots))
        };
        let rested = eventually("the switches have sent all that they held", &mut at_rest);
        let is_stuck = rested.is_err();
        let rested = rested.or_else(|_| self.lab.snapshots())?;
        for (host, node) in self.hosts.iter().zip(&self.nodes) {
            if let Some(port) = self.port(*node, &rested) {
                let _ = host.until_reported(pauses_sent(port)); // what is missing is in the balance
            }
        }
        let (lab, flows, nodes) = (self.lab, self.flows, self.nodes);
        // Receivers announce themselves: the senders must be there to receive that.
        let sends = |node: usize| flows.iter().any(|flow| flow.from == node);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            self.hosts.into_iter().zip(nodes.iter().copied()).partition(|(_, node)| sends(*node));
        let mut reports = stop(receivers)?;
        let snapshots = match is_stuck {
            true => lab.snapshots()?,
            false => eventually("the switches have sent all that they held", || {
                let snapshots = lab.snapshots()?;
                Ok(snapshots.iter().all(idle).then_some(snapshots))
            })?,
        };
        reports.extend(stop(senders)?);
        reports.sort_by_key(|(node, _)| *node);
        Ok(Measured { snapshots, reports: reports.into_iter().map(|(_, report)| report).collect(), is_stuck })
    }

    /// Returns the lines of a picture: first how far it is, then each flow.
    fn picture(&self, before: &[HostReport], now: &[HostReport]) -> Vec<String> {
        let elapsed_ns = now.iter().map(|report| report.elapsed_ns).max().unwrap_or(0);
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut lines =
            vec![format!("{:.1} of {:.1} s", seconds(elapsed_ns), seconds(self.scenario.duration_ns))];
        lines.push("traffic          from      priority      sent   arrives       lost   paused".to_owned());
        for (number, traffic) in self.scenario.traffic.iter().enumerate() {
            let flows: Vec<&Flow> = self.flows.iter().filter(|flow| flow.traffic == number).collect();
            let groups: Vec<Vec<&Flow>> = match self.flows.len() {
                0..=MAX_LINES => flows.iter().map(|&flow| vec![flow]).collect(),
                _ => vec![flows],
            };
            for group in groups {
                let from = match group.as_slice() {
                    [one] => self.scenario.nodes[one.from].name.clone(),
                    more => format!("{} flows", more.len()),
                };
                let sum = |of: &dyn Fn(&Flow) -> u64| group.iter().map(|flow| of(flow)).sum::<u64>();
                let sent = sum(&|flow| self.rate(flow, before, now, true));
                let arrives = sum(&|flow| self.rate(flow, before, now, false));
                let lost = sum(&|flow| received(&self.flows, &self.nodes, flow, now).lost_frames);
                let paused = group.iter().any(|flow| {
                    let of =
                        |reports: &[HostReport]| paused_ns(&reports[self.at(flow.from)], traffic.priority);
                    of(now) > of(before)
                });
                lines.push(format!(
                    "{:<16.16} {from:<12.12} {:>5} {:>9} {:>9} {:>10}   {}",
                    traffic.name,
                    traffic.priority,
                    megabits(sent),
                    megabits(arrives),
                    grouped(lost),
                    if paused { "●" } else { "" },
                ));
            }
        }
        lines
    }

    fn at(&self, node: usize) -> usize {
        self.nodes.iter().position(|it| *it == node).unwrap_or(0)
    }

    /// Returns the rate of frame bytes between two reports, in bit/s.
    fn rate(&self, flow: &Flow, before: &[HostReport], now: &[HostReport], is_sent: bool) -> u64 {
        let host = self.at(if is_sent { flow.from } else { flow.to });
        let bytes = |reports: &[HostReport]| match is_sent {
            true => sent(&self.flows, &self.nodes, flow, reports).sent_bytes,
            false => received(&self.flows, &self.nodes, flow, reports).received_bytes,
        };
        let elapsed_ns = now[host].elapsed_ns.saturating_sub(before[host].elapsed_ns);
        // A receiver's clock is that of the senders, as far as a picture goes.
        let elapsed_ns = if elapsed_ns == 0 { REDRAW.as_nanos() as u64 } else { elapsed_ns };
        (u128::from(bytes(now).saturating_sub(bytes(before))) * 8_000_000_000 / u128::from(elapsed_ns)) as u64
    }
}

/// Stops hosts at once, and returns their nodes and last reports.
fn stop(hosts: Vec<(Host, usize)>) -> Result<Vec<(usize, HostReport)>> {
    let (hosts, nodes): (Vec<Host>, Vec<usize>) = hosts.into_iter().unzip();
    let reports = Host::stop_all(hosts)?;
    Ok(nodes.into_iter().zip(reports).map(|(node, (_, report))| (node, report)).collect())
}

/// Returns the number of a flow at its sender.
fn number_of(flows: &[Flow], flow: &Flow) -> usize {
    flows.iter().filter(|other| other.from == flow.from).position(|other| other == flow).unwrap_or(0)
}

/// Returns what a sender has counted of a flow; `nodes` are those of the reports.
pub fn sent(flows: &[Flow], nodes: &[usize], flow: &Flow, reports: &[HostReport]) -> FlowSent {
    let report = nodes.iter().position(|node| *node == flow.from).and_then(|at| reports.get(at));
    report.and_then(|report| report.sent.get(number_of(flows, flow))).cloned().unwrap_or_default()
}

/// Returns what a receiver has counted of a flow; `nodes` are those of the reports.
pub fn received(flows: &[Flow], nodes: &[usize], flow: &Flow, reports: &[HostReport]) -> FlowReceived {
    let report = |of: usize| nodes.iter().position(|node| *node == of).and_then(|at| reports.get(at));
    let (Some(from), Some(to)) = (report(flow.from), report(flow.to)) else { return FlowReceived::default() };
    let number = number_of(flows, flow) as u32;
    let is_meant = |it: &&FlowReceived| it.from == from.mac && it.flow == number;
    to.received.iter().find(is_meant).cloned().unwrap_or_default()
}

/// Returns for how long a host was paused in a priority.
fn paused_ns(report: &HostReport, priority: u8) -> u64 {
    report.pauses.iter().filter(|pause| pause.priority == priority).map(|pause| pause.paused_ns).sum()
}

/// The progress on standard error: redrawn on a terminal, a line a second elsewhere.
struct Screen {
    is_terminal: bool,
    drawn: usize,
}

impl Screen {
    fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), drawn: 0 }
    }

    fn step(&self) -> Duration {
        if self.is_terminal { REDRAW } else { LINE }
    }

    fn show(&mut self, lines: &[String]) {
        let mut out = std::io::stderr().lock();
        // A closed terminal must not prevent the end of the run.
        let _ = match self.is_terminal {
            true => {
                let up = if self.drawn > 0 { format!("\x1b[{}A", self.drawn) } else { String::new() };
                self.drawn = lines.len();
                let text: String = lines.iter().map(|line| format!("  {line}\x1b[K\n")).collect();
                write!(out, "{up}{text}")
            }
            false => writeln!(out, "  {}", lines.first().map_or("", String::as_str)),
        };
        let _ = out.flush();
    }
}

/// Returns an error if a signal has come.
pub fn go_on(interrupted: &AtomicBool) -> Result<()> {
    if interrupted.load(Ordering::Relaxed) {
        bail!("interrupted")
    }
    Ok(())
}
