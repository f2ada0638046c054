//! `sluice host` under test: the endpoint that obeys PFC.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use host::report::{Line, Report};
use nix::sys::signal::Signal;

use crate::bed::Station;
use crate::daemon::binary;
use crate::process::Process;

/// A running host; it is killed when this goes away.
#[derive(Debug)]
pub struct Host {
    process: Process,
    /// The port it is plugged into.
    pub port: String,
}

impl Host {
    pub(crate) fn start(station: &Station, flows: &[String], arguments: &[&str]) -> Result<Self> {
        let mut command = station.namespace.command(binary("sluice")?);
        command.args(["host", "--interface", Station::INTERFACE, "--json", "--interval", "250ms"]);
        for flow in flows {
            command.args(["--flow", flow]);
        }
        if !flows.is_empty() {
            command.arg("--wait");
        }
        command.args(arguments);
        let mut process = Process::start(&station.name, &mut command)?;
        process.wait_for("a line `ready`", |line| {
            matches!(serde_json::from_str(line), Ok(Line::Ready { .. })).then_some(())
        })?;
        Ok(Self { process, port: station.name.clone() })
    }

    /// Lets it send.
    pub fn go(&mut self) -> Result<()> {
        self.process.tell("go")
    }

    /// The latest report, if there was one.
    pub fn report(&self) -> Option<Report> {
        self.process.stdout().iter().rev().find_map(|line| match serde_json::from_str(line) {
            Ok(Line::Progress(report) | Line::Final(report)) => Some(report),
            _ => None,
        })
    }

    /// The process, for its output and signals.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// For a sender: waits for its end, which is about `duration` away, and for its last report.
    pub fn finish(mut self, duration: Duration) -> Result<Report> {
        self.last_report(duration)
    }

    /// Stops it (a receiver runs until then); its last report.
    pub fn stop(mut self) -> Result<Report> {
        self.process.signal(Signal::SIGTERM)?;
        self.last_report(Duration::ZERO)
    }

    fn last_report(&mut self, duration: Duration) -> Result<Report> {
        let status = self.process.wait(duration)?;
        if !status.success() {
            bail!("host {} ended with {status}\n{}", self.port, self.process.log());
        }
        let last = self.process.stdout().pop().context("it printed nothing")?;
        match serde_json::from_str(&last) {
            Ok(Line::Final(report)) => Ok(report),
            _ => bail!("the last line of host {} is no final report: {last}", self.port),
        }
    }
}
