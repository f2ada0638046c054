//! A forwarder between two veths, and what is measured of it: frames a second, latency.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use testbed::{Namespace, Process, Testbed, binary, veth};

use crate::forwarders::{Forwarder, HOST_CORE, example, output, start};

/// Bits of a frame of 64 bytes, which is how `sluice host` counts a rate.
const SMALL_FRAME_BITS: u64 = 8 * 64;

/// A forwarder between two veths, and the namespace of the hosts at their other ends. Each
/// measurement has its own, so that nothing of one is left for the next.
pub struct Network {
    hosts: Namespace,
    /// Ends before the testbed, which removes the namespaces.
    _running: Vec<Process>,
    bed: Testbed,
}

impl Network {
    pub fn with(forwarder: Forwarder) -> Result<Self> {
        let bed = Testbed::new()?;
        let (switch, hosts) = (bed.switch("sw")?, bed.switch("hosts")?);
        for end in ["in", "out"] {
            let queues = "numrxqueues 1 numtxqueues 1";
            veth((&hosts, &format!("h-{end}"), queues), (&switch, &format!("s-{end}"), queues))?;
        }
        let running = start(forwarder, &switch, bed.dir())
            .with_context(|| format!("{} does not start", forwarder.name()))?;
        Ok(Self { hosts, _running: running, bed })
    }

    /// Returns the folder of the forwarder's files.
    pub fn dir(&self) -> &Path {
        self.bed.dir()
    }

    /// Returns the forwarded frames, in millions a second, of a generator that sends as fast as it
    /// can.
    pub fn measure_rate(&self, bytes: u32, seconds: u32) -> Result<f64> {
        let mut blast = self.hosts.command(example("blast")?);
        blast.args(["--interface", "h-in", "--sink", "h-out", "--core", HOST_CORE]);
        // To a station that a bridge has learned: most frames go to one.
        blast.args(["--to", "1", "--bytes", &bytes.to_string(), "--seconds", &seconds.to_string()]);
        let output = output(&mut blast)?;
        let arrived = output.split_once("arrived ").and_then(|(_, rest)| rest.split_once('('));
        let mpps = arrived.and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        mpps.with_context(|| format!("no rate in: {output}"))
    }

    /// Returns p50 and p99 of the one-way latency of 64-byte frames, in microseconds.
    pub fn measure_latency(&self, rate: u32, seconds: u32) -> Result<[f64; 2]> {
        let to = self.hosts.run("cat /sys/class/net/h-out/address")?;
        let host = |interface: &str, seconds: u32| -> Result<Command> {
            let mut command = self.hosts.command("taskset");
            command.args(["--cpu-list", HOST_CORE]).arg(binary("sluice")?);
            command.args(["host", "--interface", interface, "--interval", "0", "--json"]);
            command.args(["--duration", &format!("{seconds}s")]);
            Ok(command)
        };
        let mut receiver = Process::start("receiver", &mut host("h-out", seconds + 2)?)?;
        receiver.wait_for("ready", |line| line.contains("ready").then_some(()))?;
        let mut sender = host("h-in", seconds)?;
        let bits = u64::from(rate) * SMALL_FRAME_BITS;
        sender.args(["--flow", &format!("to={},priority=3,size=64,rate={bits}", to.trim())]);
        output(&mut sender)?;
        receiver.wait(Duration::from_secs(seconds.into()))?;
        let lines = receiver.stdout();
        let text = lines.last().context("the receiver reports nothing")?;
        let seen: serde_json::Value = serde_json::from_str(text)?;
        let latency = &seen["received"][0]["latency_ns"];
        let us = |name: &str| latency[name].as_f64().map(|ns| ns / 1e3);
        us("p50")
            .zip(us("p99"))
            .map(|(p50, p99)| [p50, p99])
            .with_context(|| format!("no latency in: {text}"))
    }
}
