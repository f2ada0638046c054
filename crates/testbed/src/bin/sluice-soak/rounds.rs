//! One round: hosts send while things happen, then everything comes to rest and is counted.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use control::frames;
use host::report::HostReport;
use testbed::{ANNOUNCEMENT_QUEUE, Host, PATIENCE, Port, Snapshot, conservation, idle, pauses_sent, port};

use crate::disturbances::Disturber;
use crate::network::Network;

/// Result of a round, and the state of the daemon after it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Round {
    /// Minutes from the start of the soak to the end of the round.
    pub minutes: f64,
    /// No-drop frames that the hosts sent to c.
    pub no_drop_sent: u64,
    /// Those that did not arrive, each counted under a drop reason or by a kernel.
    pub no_drop_lost: u64,
    /// No-drop frames for the host that storms that did not arrive: its watchdog drops them.
    pub lost_to_storm: u64,
    /// Lossy frames that the hosts sent.
    pub lossy_sent: u64,
    /// Lossy frames that arrived.
    pub lossy_received: u64,
    /// Received frames of the round that were recorded and replayed.
    pub replayed: u64,
    /// Latency of the lossy frames, in microseconds: median and 99th percentile.
    pub p50_us: f64,
    /// See `p50_us`.
    pub p99_us: f64,
    /// Memory of the daemon beside its buffer, in KiB.
    pub memory_kib: u64,
    /// Open file descriptors of the daemon.
    pub descriptors: u64,
    /// Threads of the daemon.
    pub threads: u64,
    /// Load average of the machine over the last minute: what else wants a core.
    pub load_average: f64,
    /// The longest stall of the loop so far, in milliseconds.
    pub worst_stall_ms: f64,
}

impl Round {
    /// Returns it as a line of progress.
    pub fn line(&self) -> String {
        format!(
            "{:6.1} min: {} no-drop frames, {} lost and counted, {} of {} lossy, {} replayed; p50 {:.0} µs, p99 {:.0} µs; {} KiB, {} \
             descriptors, {} threads, load {:.1}; worst stall {:.0} ms",
            self.minutes,
            self.no_drop_sent,
            self.no_drop_lost,
            self.lossy_received,
            self.lossy_sent,
            self.replayed,
            self.p50_us,
            self.p99_us,
            self.memory_kib,
            self.descriptors,
            self.threads,
            self.load_average,
            self.worst_stall_ms
        )
    }
}

/// Runs a round in which the hosts send for `sending`.
pub fn run(network: &mut Network, disturber: &mut Disturber, sending: Duration) -> Result<Round> {
    let before = network.daemon.snapshot()?;
    let mut hosts = network.start_hosts(sending.as_secs())?;
    let ready = network.daemon.snapshot()?;
    let recorder = network.record(sending / 2)?;
    {
        let [_, _, e, a, b] = &mut hosts[..] else { anyhow::bail!("five hosts") };
        a.start_sending()?;
        b.start_sending()?;
        let mut storming = Some(e);
        let deadline = Instant::now() + sending + PATIENCE;
        while !(a.has_sent_all()? && b.has_sent_all()?) {
            ensure!(Instant::now() < deadline, "the hosts are not done in time");
            disturber.one(network, &mut storming)?;
        }
    }
    disturber.settle(network)?;
    let reports = at_rest(network, &ready, hosts)?;
    let now = network.daemon.snapshot()?;
    let mut round = accounts(&before, &now, &reports)?;
    round.replayed = network.replay(recorder)?;
    state_of_process(&mut round, network.daemon.process().pid())?;
    Ok(round)
}

/// Waits until the switch is idle and the hosts have all pauses, and stops the hosts: receivers
/// first, as they announce themselves as long as they run.
///
/// A guard pauses ports at a stall of the loop, also while a host starts or ends. So the pauses
/// that a host must have are those that were sent since all were `ready`.
fn at_rest(network: &Network, ready: &Snapshot, mut hosts: Vec<Host>) -> Result<Vec<(String, HostReport)>> {
    let idle = || network.daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()));
    let rested = idle()?;
    // What storms is too busy to receive all.
    for host in hosts.iter().filter(|host| host.port != "e") {
        let [before, after] = [ready, &rested].map(|snapshot| port(snapshot, &host.port).map(pauses_sent));
        host.until_reported(after?.saturating_sub(before?))?;
    }
    let senders = hosts.split_off(3);
    let mut reports = Host::stop_all(hosts)?;
    idle()?;
    reports.extend(Host::stop_all(senders)?);
    idle()?;
    Ok(reports)
}

/// Returns the frames of a priority that arrived at a host.
fn arrived(reports: &[(String, HostReport)], name: &str, priority: u8) -> u64 {
    let of_host = reports.iter().filter(|(port, _)| port == name).flat_map(|(_, report)| &report.received);
    of_host.filter(|flow| flow.priority == priority).map(|flow| flow.received_frames).sum()
}

/// Checks that a port and its host agree on all frames of data.
fn agrees(port: &Port, host: &HostReport) -> Result<()> {
    let sent: u64 = host.sent.iter().map(|flow| flow.sent_frames).sum();
    let taken = frames(port.received) + port.kernel_counters().rx_lost_frames();
    ensure!(
        sent + host.announcements_sent == taken,
        "{}: sent {sent}, received {taken}: {host:?}",
        port.name
    );
    let given = frames(port.transmitted) - frames(port.queues[ANNOUNCEMENT_QUEUE].transmitted);
    let arrived: u64 = host.received.iter().map(|flow| flow.received_frames).sum();
    let missing =
        given.checked_sub(arrived).with_context(|| format!("{}: more than {given} arrived", port.name))?;
    ensure!(missing <= host.kernel_lost, "{}: sent {given}, {arrived} arrived: {host:?}", port.name);
    Ok(())
}

/// Returns the frames that the senders sent in the flow of this number.
fn sent(reports: &[(String, HostReport)], flow: usize) -> u64 {
    let of_hosts = reports.iter().filter_map(|(_, report)| report.sent.get(flow));
    of_hosts.map(|flow| flow.sent_frames).sum()
}

/// Returns the no-drop frames of a flow that did not arrive at a host. There must be as many that
/// counters of no-drop losses have: of its port, of the senders' ports, and of the kernels there
/// and at the host.
fn lost(since: &Snapshot, reports: &[(String, HostReport)], (flow, to): (usize, &str)) -> Result<u64> {
    let (sent, arrived) = (sent(reports, flow), arrived(reports, to, 3));
    let lost =
        sent.checked_sub(arrived).with_context(|| format!("{to}: of {sent} sent {arrived} arrived"))?;
    let of_host = reports.iter().find(|(port, _)| port == to).context("the host has a report")?;
    let mut counted = port(since, to)?.priorities[3].no_drop_lost_frames + of_host.1.kernel_lost;
    for sender in ["a", "b"] {
        let port = port(since, sender)?;
        counted += port.drops["ingress_no_drop"].frames + port.kernel_counters().rx_lost_frames();
    }
    ensure!(lost <= counted, "{to}: {lost} no-drop frames are lost, and {counted} are counted");
    Ok(lost)
}

/// Checks what the switch and the hosts counted since `before`, and returns it.
fn accounts(before: &Snapshot, now: &Snapshot, reports: &[(String, HostReport)]) -> Result<Round> {
    conservation(now, &[])?;
    let mut since = now.clone();
    since.subtract(before);
    // A storm is more PFC frames than the rings of its port hold, and no host counts which.
    let hosts = reports.iter().filter(|(port, _)| port != "e");
    let hosts: Vec<_> = hosts.map(|(port, report)| (port.as_str(), report)).collect();
    for (name, report) in &hosts {
        agrees(port(&since, name)?, report)?;
    }

    // Flows of the senders by number: no-drop to c, lossy to d, and no-drop to e, which storms.
    let no_drop_lost = lost(&since, reports, (0, "c"))?;
    let lost_to_storm = lost(&since, reports, (2, "e"))?;
    let latency =
        reports.iter().find(|(port, _)| port == "d").and_then(|(_, report)| report.received.first());
    let latency = latency.context("lossy frames arrive")?.latency_ns;
    Ok(Round {
        no_drop_sent: sent(reports, 0),
        no_drop_lost,
        lost_to_storm,
        lossy_sent: sent(reports, 1),
        lossy_received: arrived(reports, "d", 0),
        p50_us: latency.p50 as f64 / 1e3,
        p99_us: latency.p99 as f64 / 1e3,
        worst_stall_ms: now.loop_worst_stall_ns as f64 / 1e6,
        ..Round::default()
    })
}

/// Adds what the kernel reports about the daemon and the machine.
fn state_of_process(round: &mut Round, pid: u32) -> Result<()> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let number = |name: &str| -> Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(line.and_then(|line| line.split_whitespace().next()).context("a number")?.parse()?)
    };
    let load = fs::read_to_string("/proc/loadavg")?;
    round.load_average = load.split_whitespace().next().context("a load average")?.parse()?;
    round.memory_kib = number("RssAnon")?;
    round.threads = number("Threads")?;
    round.descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64;
    Ok(())
}
