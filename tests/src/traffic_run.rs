//! The run of a few hosts through a switch, and its results.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use control::frames;
use host::report::{FlowReceived, HostReport, Pause};
use testbed::{Daemon, Host, PATIENCE, Port, Snapshot, idle, line_bytes, pauses_sent, port};

use crate::configurations::QUEUE_OF_PRIORITY;

/// The longest stall of a loop that the headroom and the rings of these configurations cover, with
/// a reserve for a host that stalls during the same pause.
const MAX_COVERED_STALL_NS: u64 = 30_000_000;

/// Results of a run: the idle switch, snapshots while all senders sent, and every host's last
/// report.
#[derive(Debug)]
pub struct TrafficRun {
    /// Snapshot after the last frame has left, and all hosts have ended.
    pub snapshot: Snapshot,
    /// Snapshots while all senders sent, about ten a second, from their start until shortly before
    /// the first one was done.
    pub sending: Vec<Snapshot>,
    /// Last reports by port.
    pub reports: Vec<(String, HostReport)>,
}

/// Lets the senders send for `duration` (which is their configured time), waits until the switch is
/// idle, and stops the hosts. Of daemons in series `daemons[0]` is the observed one; all must
/// become idle.
pub fn run(
    daemons: &[&Daemon],
    mut senders: Vec<Host>,
    receivers: Vec<Host>,
    duration: Duration,
) -> Result<TrafficRun> {
    let watched = daemons.first().context("a run needs a daemon")?;
    let before = watched.snapshot()?;
    senders.iter_mut().try_for_each(Host::start_sending)?;
    let deadline = Instant::now() + duration + PATIENCE;
    let mut sending = Vec::new();
    while !all_sent(&mut senders)? {
        ensure!(Instant::now() < deadline, "senders are not done in time");
        let now = watched.snapshot()?;
        if received(&now) > received(&before) && senders.iter().all(|sender| sender.is_sending(duration)) {
            sending.push(now);
        }
        sleep(Duration::from_millis(100));
    }
    let run = stop_hosts(daemons, &before, senders, receivers)?;
    ensure!(!sending.is_empty(), "there was no moment in which all senders sent");
    Ok(TrafficRun { sending, ..run })
}

/// Ends a run whose senders are done: waits until the switch is idle and the hosts have received
/// the pauses sent since `before`, when all of them were there, and stops them.
pub fn stop_hosts(
    daemons: &[&Daemon],
    before: &Snapshot,
    senders: Vec<Host>,
    receivers: Vec<Host>,
) -> Result<TrafficRun> {
    let watched = daemons.first().context("a run needs a daemon")?;
    // In the order from the hosts on: once the first switch is idle, nothing more arrives at the
    // next.
    let at_rest = || {
        daemons
            .iter()
            .try_for_each(|daemon| daemon.until("the switch is at rest", |now| idle(now).then_some(())))
    };
    at_rest()?;
    let reported = watched.snapshot()?;
    for host in receivers.iter().chain(&senders) {
        let sent = |at: &Snapshot| port(at, &host.port).map(pauses_sent);
        // A host at another switch is in neither snapshot.
        if let (Ok(before), Ok(by_now)) = (sent(before), sent(&reported)) {
            host.until_reported(by_now - before)?;
        }
    }
    // Receivers announce themselves as long as they run: the senders must be there to receive that.
    let mut reports = Host::stop_all(receivers)?;
    at_rest()?;
    reports.extend(Host::stop_all(senders)?);
    daemons.iter().try_for_each(|daemon| daemon.kernel_agrees())?;
    Ok(TrafficRun { snapshot: watched.snapshot()?, sending: Vec::new(), reports })
}

/// Runs `once`, and again at most twice if the machine disturbed the run.
pub fn undisturbed<T>(once: impl Fn() -> Result<(TrafficRun, T)>) -> Result<(TrafficRun, T)> {
    for _ in 0..2 {
        let (run, more) = once()?;
        if !run.is_disturbed() {
            return Ok((run, more));
        }
        let stall_ms = run.snapshot.loop_worst_stall_ns / 1_000_000;
        println!("once more: the loop stalled for {stall_ms} ms, kernels lost {}", run.lost_by_kernels());
    }
    once()
}

fn all_sent(senders: &mut [Host]) -> Result<bool> {
    for sender in senders {
        if !sender.has_sent_all()? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn received(snapshot: &Snapshot) -> u64 {
    snapshot.ports.iter().map(|port| frames(port.received)).sum()
}

impl TrafficRun {
    /// Returns ports and reports as arguments for [`testbed::conservation`].
    pub fn hosts(&self) -> Vec<(&str, &HostReport)> {
        self.reports.iter().map(|(port, report)| (port.as_str(), report)).collect()
    }

    /// Returns the report of the host on a port.
    pub fn report(&self, port: &str) -> Result<&HostReport> {
        let found = self.reports.iter().find(|(name, _)| name == port);
        Ok(&found.with_context(|| format!("no report of {port}"))?.1)
    }

    /// Returns the totals of one priority over all hosts and the switch.
    pub fn total(&self, priority: u8) -> Total {
        let sent = self.reports.iter().flat_map(|(_, report)| &report.sent);
        let arrived = || {
            let all = self.reports.iter().flat_map(|(_, report)| &report.received);
            all.filter(|flow| flow.priority == priority)
        };
        let sum = |of: fn(&FlowReceived) -> u64| arrived().map(of).sum::<u64>();
        Total {
            sent: sent.filter(|flow| flow.priority == priority).map(|flow| flow.sent_frames).sum(),
            received: sum(|flow| flow.received_frames),
            duplicated: sum(|flow| flow.duplicated_frames),
            reordered: sum(|flow| flow.reordered_frames),
            corrupted: sum(|flow| flow.corrupted_frames),
            dropped: self.snapshot.ports.iter().map(|port| dropped(port, priority)).sum(),
        }
    }

    /// True if the machine stalled for longer than headroom and rings last. Losses of a lossless
    /// switch are then caused by the machine, and the run proves nothing.
    pub fn is_disturbed(&self) -> bool {
        self.lost_by_kernels() > 0 || self.snapshot.loop_worst_stall_ns > MAX_COVERED_STALL_NS
    }

    /// Checks that the switch, and the kernel under it, lost no frame of a priority. A frame that
    /// did not arrive anyway must be among those that a host's own kernel had no room for, because
    /// the host was preempted: that loss is behind the switch.
    pub fn switch_lost_nothing(&self, priority: u8) -> Result<()> {
        let total = self.total(priority);
        let at_switch = testbed::lost_by_kernels(&self.snapshot, []);
        ensure!(
            total.sent > 0 && total.dropped == 0 && at_switch == 0,
            "{total:?}, {at_switch} by the kernel"
        );
        // A host's interface may have dropped PFC frames as well, so this is an upper bound.
        let by_hosts = self.lost_by_hosts();
        ensure!(total.sent - total.received <= by_hosts, "{total:?}, {by_hosts} lost by hosts");
        Ok(())
    }

    /// Returns the frames that the hosts' own kernels had no room for.
    pub fn lost_by_hosts(&self) -> u64 {
        self.reports.iter().map(|(_, report)| report.kernel_lost).sum()
    }

    /// Returns the frames that kernels had no room for: on receipt at the switch, and at the hosts.
    pub fn lost_by_kernels(&self) -> u64 {
        testbed::lost_by_kernels(&self.snapshot, self.reports.iter().map(|(_, report)| report))
    }

    /// Returns the rate on a port's line while all senders sent, in bit/s.
    pub fn carried_bps(&self, name: &str) -> Result<f64> {
        match self.sending.as_slice() {
            [first, .., last] => carried_bps(first, last, name),
            _ => bail!("there was but one moment in which all senders sent"),
        }
    }

    /// Returns the median rate on a port's line from each snapshot to the next, in bit/s: its rate
    /// unless the whole machine stalls.
    pub fn typical_bps(&self, name: &str) -> Result<f64> {
        let pairs = self.sending.windows(2);
        let mut rates =
            pairs.map(|pair| carried_bps(&pair[0], &pair[1], name)).collect::<Result<Vec<_>>>()?;
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().context("there was but one moment in which all senders sent")
    }

    /// Returns the fraction of the snapshots in which frames waited in a queue, so that the line
    /// was not idle for lack of frames.
    pub fn busy_part(&self, name: &str, queue: usize) -> Result<f64> {
        let waiting = |moment| Ok(port(moment, name)?.queues[queue].waiting_frames > 0);
        let busy = self.sending.iter().map(waiting).collect::<Result<Vec<bool>>>()?;
        Ok(busy.iter().filter(|busy| **busy).count() as f64 / busy.len() as f64)
    }
}

/// Returns the rate on a port's line between two snapshots, in bit/s.
fn carried_bps(first: &Snapshot, last: &Snapshot, name: &str) -> Result<f64> {
    let bytes = line_bytes(port(last, name)?) - line_bytes(port(first, name)?);
    Ok(bytes as f64 * 8e9 / (last.at_ns - first.at_ns) as f64)
}

/// Totals of one priority over a whole run, in frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// Frames that left the hosts.
    pub sent: u64,
    /// Frames that arrived once and intact.
    pub received: u64,
    /// Frames that arrived twice.
    pub duplicated: u64,
    /// Frames that arrived late.
    pub reordered: u64,
    /// Frames that arrived damaged.
    pub corrupted: u64,
    /// Frames that the switch counted as dropped.
    pub dropped: u64,
}

/// Returns the frames of a priority that a port dropped: at ingress, or at their egress queue.
pub fn dropped(port: &Port, priority: u8) -> u64 {
    let priority = usize::from(priority);
    frames(port.groups[priority].dropped) + frames(port.queues[QUEUE_OF_PRIORITY[priority]].dropped)
}

/// Returns the pauses of one priority in a host's report.
pub fn pause(report: &HostReport, priority: u8) -> Pause {
    report.pauses.iter().find(|pause| pause.priority == priority).copied().unwrap_or_default()
}
