//! `cargo xtask`: sets the machine up, shows the demo, and runs the tests and benches. Needs only
//! Rust itself, so that it can install the rest.

mod advisories;
mod dist;
mod fuzz;
mod instruction_count;
mod lint;
mod lock_file;
mod miri;
#[cfg(test)]
mod module_cycles;
mod packages;
mod run;
mod test_runner;
mod vm;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};

/// Set-up, demo and tests of Sluice.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install the Debian packages that are needed and missing.
    Setup,
    /// Show a lossless incast beside a lossy one, live: set up, build, run, clean up.
    Demo {
        /// How long the senders send.
        #[arg(long, default_value_t = 15)]
        seconds: u32,
        /// Without priority flow control: what an ordinary switch does.
        #[arg(long)]
        no_pfc: bool,
    },
    /// Run all tests: set up, build, unit tests, then end-to-end tests on real veths one after the
    /// other.
    Test {
        /// Only tests whose name contains this.
        filter: Option<String>,
    },
    /// Measure: set up, then `cargo bench`, or the daemon beside other forwarders.
    Bench {
        /// Only benches whose name contains this.
        filter: Option<String>,
        /// Measure the daemon beside a bare AF_XDP loop, the Linux bridge, and Open vSwitch and
        /// DPDK where they are installed. Writes docs/peers.md and docs/peers.svg.
        #[arg(long, conflicts_with = "filter")]
        with_peers: bool,
        /// Measure the daemon between two vhost-user sockets, beside DPDK's testpmd. Writes
        /// docs/peers-vhost.md.
        #[arg(long, conflicts_with_all = ["filter", "with_peers"])]
        vhost: bool,
        /// Options of `sluice-bench`, such as `--rounds 9`.
        #[arg(last = true)]
        options: Vec<String>,
    },
    /// Run one daemon for hours under traffic and disturbances, and check that it counts what it
    /// loses and does not grow. Writes docs/soak.md and docs/soak.svg.
    Soak {
        /// `--hours 8` or `--minutes 10`, `--round SECONDS`, `--traffic PERCENT`, `--seed N`,
        /// `--load`, `--beside-others`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        options: Vec<String>,
    },
    /// Boot another kernel in QEMU and run tests inside: those of `sluice nic`, or any of
    /// tests/tests. Takes minutes.
    Vm(vm::Vm),
    /// Boot guests in QEMU on vhost-user ports of a switch, and on veths beside: sockets and
    /// soft-RoCE into a slow port, and a verdict. Takes minutes.
    Guests(vm::Guests),
    /// Build the Debian package: programs, unit, manual pages, completions, licenses.
    Dist(dist::Dist),
    /// Count the instructions that the switch takes a frame (under callgrind), and fail if they are
    /// more than they were.
    Instructions,
    /// Run a target of crates/fuzz under libFuzzer, guided by coverage.
    Fuzz(fuzz::Fuzz),
    /// Change a pure crate in every way that its tests should notice, and list what none noticed.
    Mutants {
        /// The crate, as `wire`, and `--only src/pfc/`, `--resume`, `--shard 0/4`, `--jobs 2`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        options: Vec<String>,
    },
    /// Run unit tests under Miri, which reports undefined behavior and data races. Takes long.
    Miri(miri::Miri),
    /// List the advisories of the RustSec database that concern the crates of Cargo.lock.
    Advisories(advisories::Advisories),
    /// Check comments, prose, names, the size of folders, and dependencies.
    Lint,
    /// Remove network namespaces that test beds left which were killed.
    Sweep,
}

fn main() -> ExitCode {
    match run_task(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_task(task: Task) -> Result<()> {
    match task {
        Task::Setup => packages::set_up_tests(),
        Task::Demo { seconds, no_pfc } => {
            packages::set_up()?;
            run::require_root("the demo")?;
            run::demo(seconds, no_pfc)
        }
        Task::Test { filter } => {
            packages::set_up_tests()?;
            run::require_root("the end-to-end tests")?;
            test_runner::all(filter.as_deref())
        }
        Task::Bench { with_peers: true, options, .. } => {
            packages::set_up()?;
            run::require_root("the benchmark of forwarders")?;
            run::bench_with_peers(&options)
        }
        Task::Bench { vhost: true, mut options, .. } => {
            packages::set_up()?;
            packages::set_up_dpdk()?;
            run::require_root("the benchmark of forwarders")?;
            options.push("--vhost".to_owned());
            run::bench_with_peers(&options)
        }
        Task::Bench { options, .. } if !options.is_empty() => {
            bail!("options after `--` are those of --with-peers and --vhost: name one of them")
        }
        Task::Bench { filter, .. } => {
            packages::set_up()?;
            run::bench(filter.as_deref())
        }
        Task::Soak { options } => {
            packages::set_up()?;
            run::require_root("the soak")?;
            run::soak(&options)
        }
        Task::Vm(vm) => vm::run(&vm),
        Task::Guests(guests) => vm::run_guests(&guests),
        Task::Dist(dist) => dist::run(&dist),
        Task::Instructions => {
            packages::set_up_tests()?;
            instruction_count::check()
        }
        Task::Fuzz(fuzz) => fuzz::run(&fuzz),
        Task::Mutants { options } => {
            run::check(run::cargo().args(["run", "--quiet", "--package", "mutants", "--"]).args(options))
        }
        Task::Miri(miri) => miri::run(&miri),
        Task::Advisories(advisories) => advisories::run(&advisories),
        Task::Lint => lint::run(),
        Task::Sweep => {
            run::require_root("sweeping")?;
            run::sweep()
        }
    }
}
