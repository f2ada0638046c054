//! The soak: one daemon for hours, under no-drop and lossy traffic, while everything around it is
//! disturbed: reloads, ports that come and go, flaps, storms, clients, a collector that dies, other
//! work on both cores, a loop that is stopped (docs/reliability.md, "Soak").
//!
//! Rule: after each round every frame is accounted for, by the switch alone and against its hosts,
//! and each no-drop frame that is lost is counted as such; the report has how many. At the end the
//! daemon has the memory and the file descriptors that it had after the first rounds, and its
//! median latency is at most twice what it was.

mod disturbances;
mod network;
mod report;
mod rounds;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;

use disturbances::Disturber;
use network::Network;
use report::SoakReport;

/// Runs the daemon under load and disturbances, and checks that it stays as it is.
#[derive(Parser)]
struct Arguments {
    /// How long, in hours; together with --minutes.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1000))]
    hours: u64,
    /// How long, in minutes; together with --hours.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    minutes: u64,
    /// How long the hosts send in each round, in seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(5..=600))]
    round: u64,
    /// How much of the usual traffic, in percent: 160 Mbit/s into a port of 100, and 80 beside it.
    /// Less where other work needs the cores.
    #[arg(long, default_value_t = 100, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(5..=500))]
    traffic: u64,
    /// Occupy each core with a busy loop for the whole time.
    #[arg(long)]
    load: bool,
    /// Run beside test beds of tests, which disturb it, and which it disturbs.
    #[arg(long)]
    beside_others: bool,
    /// Seed of the disturbances [default: a random one, which is printed].
    #[arg(long)]
    seed: Option<u64>,
    /// Folder for soak.md and soak.svg.
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
    let lasts = Duration::from_secs(3600 * arguments.hours + 60 * arguments.minutes);
    ensure!(!lasts.is_zero(), "for how long? --hours N or --minutes N");
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    let interrupted = testbed::watch_signals()?;
    let start = Instant::now();
    let mut network = Network::new(arguments.traffic, arguments.beside_others)?;
    let mut disturber = Disturber::new(seed)?;
    let mut report = SoakReport::new(seed, arguments.load);
    let _load = arguments.load.then(|| disturber.occupy_cores(Duration::MAX));
    let sending = Duration::from_secs(arguments.round);
    let ran = (|| {
        while start.elapsed() < lasts {
            let mut round = rounds::run(&mut network, &mut disturber, sending)?;
            round.minutes = start.elapsed().as_secs_f64() / 60.0;
            println!("{}", round.line());
            report.rounds.push(round);
            ensure!(!interrupted.load(Ordering::Relaxed), "interrupted; everything is removed again");
        }
        network.end()
    })();
    // What was measured until then is reported, also after a failure.
    report.disturbances = disturber.counts().clone();
    println!("\n{}", report.markdown());
    ran?;
    if let Some(folder) = &arguments.out {
        report.write(folder)?;
    }
    report.must_be_flat()
}
