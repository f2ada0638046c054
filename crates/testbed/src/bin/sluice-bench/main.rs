//! The benchmark of forwarders: Sluice with its features on beside a bare AF_XDP loop, and beside
//! Open vSwitch, DPDK and the Linux bridge where they are installed.
//!
//! Rule: every forwarder has the same veths, the same core and the same generator, and a round
//! measures each of them once, in an order that rotates. Only ratios within one run mean something:
//! a machine's speed changes by the minute. See docs/performance.md.

mod forwarders;
mod report;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use testbed::{Namespace, Process, Testbed, binary, veth};

use forwarders::{Forwarder, HOST_CORE, example, output, start};
use report::{BenchReport, LatencyRun, RateRun};

/// Measures forwarders against each other on veths.
#[derive(Parser)]
struct Arguments {
    /// Rounds; each measures every forwarder once.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Duration of a measurement.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Only the bare loop and Sluice.
    #[arg(long)]
    without_peers: bool,
    /// Frame sizes without FCS, in bytes.
    #[arg(long, value_delimiter = ',', default_values_t = [60, 1514])]
    bytes: Vec<u32>,
    /// Rates of the latency table, in frames a second; none for no such table.
    #[arg(long, value_delimiter = ',', default_values_t = [39_000, 156_000, 300_000])]
    rates: Vec<u32>,
    /// Folder for peers.md and peers.svg.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Bits of a frame of 64 bytes, which is how `sluice host` counts a rate.
const SMALL_FRAME_BITS: u64 = 8 * 64;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    testbed::require_root()?;
    let cores = std::thread::available_parallelism()?.get();
    ensure!(cores >= 2, "this needs two cores, one for the forwarder and one for the hosts; {cores} is here");
    let interrupted = testbed::watch_signals()?;
    let chosen = |forwarder: &Forwarder| !arguments.without_peers || !forwarder.is_peer();
    let (forwarders, absent): (Vec<_>, Vec<_>) =
        Forwarder::ALL.into_iter().filter(chosen).partition(|forwarder| forwarder.is_installed());
    for forwarder in &absent {
        println!("without {}: install {}", forwarder.name(), forwarder.packages());
    }

    let mut report = BenchReport::new(arguments.rounds, arguments.seconds);
    for round in 0..arguments.rounds as usize {
        for index in 0..forwarders.len() {
            let forwarder = forwarders[(index + round) % forwarders.len()];
            for &bytes in &arguments.bytes {
                if interrupted.load(Ordering::Relaxed) {
                    bail!("interrupted; everything is removed again");
                }
                let mpps = Network::with(forwarder)?.measure_rate(bytes, arguments.seconds)?;
                println!("round {}: {}, {bytes} bytes: {mpps:.3} Mpps", round + 1, forwarder.name());
                report.rates.push(RateRun { forwarder, bytes, mpps });
            }
            for &rate in &arguments.rates {
                if interrupted.load(Ordering::Relaxed) {
                    bail!("interrupted; everything is removed again");
                }
                let [p50_us, p99_us] = Network::with(forwarder)?.measure_latency(rate, arguments.seconds)?;
                println!(
                    "round {}: {}, {rate} frames/s: p50 {p50_us:.0} µs, p99 {p99_us:.0} µs",
                    round + 1,
                    forwarder.name()
                );
                report.latencies.push(LatencyRun { forwarder, rate, p50_us, p99_us });
            }
        }
    }
    println!("\n{}", report.markdown());
    if let Some(folder) = &arguments.out {
        report.write(folder)?;
    }
    Ok(())
}

/// A forwarder between two veths, and the namespace of the hosts at their other ends. Each
/// measurement has its own, so that nothing of one is left for the next.
struct Network {
    hosts: Namespace,
    /// Ends before the testbed, which removes the namespaces.
    _running: Vec<Process>,
    _bed: Testbed,
}

impl Network {
    fn with(forwarder: Forwarder) -> Result<Self> {
        let bed = Testbed::new()?;
        let (switch, hosts) = (bed.switch("sw")?, bed.switch("hosts")?);
        for end in ["in", "out"] {
            let queues = "numrxqueues 1 numtxqueues 1";
            veth((&hosts, &format!("h-{end}"), queues), (&switch, &format!("s-{end}"), queues))?;
        }
        let running = start(forwarder, &switch, bed.dir())
            .with_context(|| format!("{} does not start", forwarder.name()))?;
        Ok(Self { hosts, _running: running, _bed: bed })
    }

    /// Returns the forwarded frames, in millions a second, of a generator that sends as fast as it
    /// can.
    fn measure_rate(&self, bytes: u32, seconds: u32) -> Result<f64> {
        let mut blast = self.hosts.command(example("blast")?);
        blast.args(["--interface", "h-in", "--sink", "h-out", "--core", HOST_CORE]);
        blast.args(["--bytes", &bytes.to_string(), "--seconds", &seconds.to_string()]);
        let output = output(&mut blast)?;
        let arrived = output.split_once("arrived ").and_then(|(_, rest)| rest.split_once('('));
        let mpps = arrived.and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        mpps.with_context(|| format!("no rate in: {output}"))
    }

    /// Returns p50 and p99 of the one-way latency of 64-byte frames, in microseconds.
    fn measure_latency(&self, rate: u32, seconds: u32) -> Result<[f64; 2]> {
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
