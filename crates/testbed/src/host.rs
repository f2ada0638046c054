//! `sluice host` under test: the endpoint that honors PFC.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use host::report::{HostReport, ReportLine};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::daemon::binary;
use crate::endpoint::Endpoint;
use crate::process::Process;
use crate::wait::eventually;

/// Longer than any test: how long a sender lingers after it has sent everything.
const LINGER: &str = "600s";

/// Hosts are measured as well, so they have priority over other work on the machine, but not over
/// the switch.
const NICENESS: &str = "-10";

/// Interval between two reports.
const INTERVAL: Duration = Duration::from_millis(250);

/// A running host, killed on drop.
#[derive(Debug)]
pub struct Host {
    process: Process,
    /// The port that the host is plugged into.
    pub port: String,
}

impl Host {
    /// Starts `sluice host` at an endpoint with these flows (`to=…,priority=…`) and other
    /// arguments, and waits until it is ready. With flows it sends after [`Host::start_sending`].
    pub fn start(station: &Endpoint, flows: &[String], arguments: &[&str]) -> Result<Self> {
        let mut command = station.namespace.command("nice");
        command.args(["-n", NICENESS]).arg(binary("sluice")?);
        command.args(["host", "--interface", Endpoint::INTERFACE, "--json"]);
        command.arg("--interval").arg(format!("{}ms", INTERVAL.as_millis()));
        if let Some(core) = core(station.number)? {
            command.arg("--core").arg(core.to_string());
        }
        for flow in flows {
            command.args(["--flow", flow]);
        }
        if !flows.is_empty() {
            // The host lingers until it is stopped, so that the switch's last frames to it are
            // received.
            command.args(["--wait", "--linger", LINGER]);
        }
        command.args(arguments);
        let mut process = Process::start(&station.name, &mut command)?;
        process.wait_for("a line `ready`", |line| {
            matches!(serde_json::from_str(line), Ok(ReportLine::Ready { .. })).then_some(())
        })?;
        Ok(Self { process, port: station.name.clone() })
    }

    /// Lets a host that was started on hold send.
    pub fn start_sending(&mut self) -> Result<()> {
        self.process.send_line("go")
    }

    /// Returns the latest report, if there is one.
    pub fn report(&self) -> Option<HostReport> {
        self.latest(1).pop()
    }

    /// Returns the latest reports, at most `count`, the newest first.
    fn latest(&self, count: usize) -> Vec<HostReport> {
        let of_line = |line: &String| match serde_json::from_str(line) {
            Ok(ReportLine::Progress(report) | ReportLine::Final(report)) => Some(report),
            _ => None,
        };
        self.process.stdout().iter().rev().filter_map(of_line).take(count).collect()
    }

    /// True if a sender that sends for `duration` is certainly still sending.
    pub fn is_sending(&self, duration: Duration) -> bool {
        // A report is at most as old as the interval between two.
        self.report().is_some_and(|report| {
            report.elapsed_ns > 0 && Duration::from_nanos(report.elapsed_ns) + 2 * INTERVAL < duration
        })
    }

    /// True once a sender has sent everything: from then on its clock stops.
    ///
    /// # Errors The host has ended without being stopped.
    pub fn has_sent_all(&mut self) -> Result<bool> {
        if !self.process.is_running()? {
            bail!("host {} ended by itself\n{}", self.port, self.process.log());
        }
        Ok(match self.latest(2).as_slice() {
            [last, before] => last.elapsed_ns > 0 && before.elapsed_ns == last.elapsed_ns,
            _ => false,
        })
    }

    /// Waits until the host has received `frames` PFC and PAUSE frames: frames sent to it may still
    /// wait in its kernel, or for its core. Frames that its kernel lost may have been some of them.
    pub fn until_reported(&self, frames: u64) -> Result<()> {
        let received = |report: HostReport| report.pfc_received + report.pause_received + report.kernel_lost;
        eventually(&format!("{} has received {frames} PFC and PAUSE frames", self.port), || {
            Ok(self.report().is_some_and(|report| received(report) >= frames).then_some(()))
        })
    }

    /// Returns the process, for its output and signals.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Stops the host and returns its last report.
    pub fn stop(self) -> Result<HostReport> {
        Ok(Self::stop_all(vec![self])?.remove(0).1)
    }

    /// Stops several hosts at once, so that none announces itself to a host that has ended. Returns
    /// their ports and last reports.
    pub fn stop_all(mut hosts: Vec<Host>) -> Result<Vec<(String, HostReport)>> {
        for host in &hosts {
            host.process.signal(Signal::SIGTERM)?;
        }
        hosts.iter_mut().map(|host| Ok((host.port.clone(), host.last_report()?))).collect()
    }

    fn last_report(&mut self) -> Result<HostReport> {
        let status = self.process.wait(Duration::ZERO)?;
        if !status.success() {
            bail!("host {} ended with {status}\n{}", self.port, self.process.log());
        }
        let last = self.process.stdout().pop().context("it printed nothing")?;
        match serde_json::from_str(&last) {
            Ok(ReportLine::Final(report)) => Ok(report),
            _ => bail!("the last line of host {} is no final report: {last}", self.port),
        }
    }
}

/// Returns the core of a host: any but the first, which is the switch's by default. A poll loop
/// never yields its core, and a switch does not share its own with its hosts. `None` if there is no
/// other core.
fn core(number: u8) -> Result<Option<usize>> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let others: Vec<usize> =
        (1..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    Ok((!others.is_empty()).then(|| others[usize::from(number) % others.len()]))
}
