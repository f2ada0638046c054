//! The benchmark of forwarders: Sluice with its features on beside a bare AF_XDP loop, and beside
//! Open vSwitch, DPDK and the Linux bridge where they are installed.
//!
//! Rule: every forwarder has the same veths, the same core and the same generator, and a round
//! measures each of them once, in an order that rotates. Only ratios within one run mean something:
//! a machine's speed changes by the minute. See docs/performance.md.

mod forwarders;
mod guest_report;
mod guests;
mod network;
mod report;
mod watchers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail, ensure};
use clap::Parser;

use forwarders::Forwarder;
use network::Network;
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
    #[arg(long, value_delimiter = ',', num_args = 0.., default_values_t = [39_000, 156_000, 300_000])]
    rates: Vec<u32>,
    /// Instead: what `sluice show --watch`, `sluice top` and `sluice capture` cost Sluice's rate,
    /// by pairs of runs without one and with it.
    #[arg(long, conflicts_with_all = ["without_peers", "rates", "bytes"])]
    watchers: bool,
    /// Instead: forwarding between two vhost-user ports, beside DPDK's testpmd.
    #[arg(long, conflicts_with_all = ["without_peers", "rates", "watchers"])]
    vhost: bool,
    /// With `--vhost`: descriptors of a ring.
    #[arg(long, value_delimiter = ',', default_values_t = [256, 1024], requires = "vhost")]
    rings: Vec<u32>,
    /// Folder for peers.md and peers.svg, or peers-vhost.md.
    #[arg(long)]
    out: Option<PathBuf>,
}

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
    if arguments.watchers {
        return watchers::run(arguments.rounds, arguments.seconds, &interrupted);
    }
    if arguments.vhost {
        return run_guests(arguments, &interrupted);
    }
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

fn run_guests(arguments: &Arguments, interrupted: &AtomicBool) -> Result<()> {
    let &Arguments { rounds, seconds, .. } = arguments;
    let (bytes, rings) = (arguments.bytes.clone(), arguments.rings.clone());
    let report = guests::run(&guests::Plan { rounds, seconds, bytes, rings }, interrupted)?;
    println!("\n{}", report.markdown());
    match &arguments.out {
        Some(folder) => report.write(folder),
        None => Ok(()),
    }
}
