//! `cargo xtask miri`: unit tests under Miri, an interpreter that reports undefined behavior:
//! accesses outside what a pointer was made for, data races, values that a type does not have.
//!
//! It is a component of nightly toolchains. Source: docs/reliability.md, "Pointers".

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::Args;

use crate::run::{check, log, output, outside_package};

/// Crates without `unsafe`, whose unit tests all run but those that say why not.
const PURE: [&str; 7] = ["wire", "switch", "dataplane", "dcbx", "config", "endpoint", "sim"];
/// Tests of what threads share without a lock. Each runs in many schedules.
const SCHEDULES: [Part; 4] = [
    Part { package: "dataplane", tests: &["--test", "interleavings"], filter: None },
    Part { package: "virtio", tests: &["--test", "interleavings"], filter: None },
    Part { package: "virtio", tests: &["--lib"], filter: Some("ring::tests::threads::") },
    Part { package: "xdp", tests: &["--lib"], filter: Some("port::tx_ring::") },
];
/// Options of the build. Miri interprets what it builds, so code that is optimized for longer runs
/// no faster; and features are those of the whole workspace, so crates of one run share a build.
const BUILD: [&str; 3] = ["-Zfeature-unification", "--config", "profile.dev.package.\"*\".opt-level=0"];
/// What is installed where it is missing.
const INSTALL: &str =
    "rustup toolchain install nightly --profile minimal --component miri --component rust-src";

/// Tests of a crate that run together.
#[derive(Clone, Copy)]
struct Part {
    package: &'static str,
    /// The targets, as options of cargo.
    tests: &'static [&'static str],
    /// Part of the tests' names.
    filter: Option<&'static str>,
}

/// Which crates, and how much of the tests that choose their inputs.
#[derive(Args)]
pub struct Miri {
    /// `wire`, `switch`, `dataplane`, `dcbx`, `config`, `endpoint`, `sim`, `xdp` or `virtio`; all
    /// without one.
    crates: Vec<String>,
    /// Cases of a property, which take seconds each.
    #[arg(long, default_value_t = 2)]
    cases: u32,
    /// Seeds of the schedules of each test of what threads share (in `dataplane`, `virtio`, `xdp`).
    #[arg(long, default_value_t = 64)]
    schedules: u32,
    /// Only tests whose name contains this.
    #[arg(long)]
    only: Option<String>,
}

/// Runs the tests of all crates, also after one has failed.
pub fn run(miri: &Miri) -> Result<()> {
    require_components()?;
    let known: Vec<&str> = PURE.into_iter().chain(["xdp", "virtio"]).collect();
    if let Some(unknown) = miri.crates.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("{unknown} is not run under Miri. These are: {}", known.join(", "));
    }
    let is_wanted = |name: &str| miri.crates.is_empty() || miri.crates.iter().any(|wanted| wanted == name);
    let mut failed = Vec::new();
    let units = known.into_iter().map(|package| (Part { package, tests: &["--lib"], filter: None }, None));
    let schedules = SCHEDULES.into_iter().map(|part| (part, Some(miri.schedules)));
    for (part, schedules) in units.chain(schedules).filter(|(part, _)| is_wanted(part.package)) {
        let Some(filter) = filter(part.filter, miri.only.as_deref()) else { continue };
        let name = format!("{} {}", part.package, part.tests.join(" "));
        let started = Instant::now();
        let result = check(&mut test(&part, filter, schedules, miri));
        log(&format!("{name}: {} s", started.elapsed().as_secs()));
        if let Err(error) = result {
            eprintln!("{error:#}");
            failed.push(name);
        }
    }
    ensure!(failed.is_empty(), "failed under Miri: {}", failed.join(", "));
    Ok(())
}

/// Returns the part of the names of tests that a part is to run with `--only`; empty for all, and
/// `None` if it has none of them. (The test harness runs what matches any of several.)
fn filter<'a>(of_part: Option<&'a str>, only: Option<&'a str>) -> Option<&'a str> {
    match (of_part, only) {
        (Some(all), Some(only)) if only.contains(all) => Some(only),
        (Some(all), Some(only)) => all.contains(only).then_some(all),
        (all, only) => Some(all.or(only).unwrap_or_default()),
    }
}

/// Returns the command that runs a part. Miri builds in a folder of its own, `target/miri`, and
/// isolates the tests: one that opens a file ends its program, and the clock is virtual.
fn test(part: &Part, filter: &str, schedules: Option<u32>, miri: &Miri) -> Command {
    let mut flags = format!(
        "-Zmiri-env-set=PROPTEST_CASES={} -Zmiri-env-set=PROPTEST_DISABLE_FAILURE_PERSISTENCE=true",
        miri.cases
    );
    match schedules {
        None => log(&format!("{} {}", part.package, part.tests.join(" "))),
        Some(count) => {
            log(&format!("{} {}, {count} schedules", part.package, part.tests.join(" ")));
            flags += &format!(" -Zmiri-many-seeds=0..{count}");
        }
    }
    let mut command = nightly_cargo();
    command.args(["miri", "test", "--no-fail-fast", "--package", part.package]).args(part.tests).args(BUILD);
    command.env("CARGO_RESOLVER_FEATURE_UNIFICATION", "workspace").env("CARGO_PROFILE_DEV_DEBUG", "0");
    command.env("MIRIFLAGS", flags);
    command.arg("--").arg(filter);
    command
}

/// Returns the cargo of the nightly toolchain.
fn nightly_cargo() -> Command {
    let mut command = outside_package("rustup");
    command.args(["run", "nightly", "cargo"]);
    command
}

/// Fails with the command to run unless the toolchain and both its components are there.
fn require_components() -> Result<()> {
    let mut rustc = outside_package("rustup");
    let sysroot = output(rustc.args(["run", "nightly", "rustc", "--print", "sysroot"]));
    let missing = match sysroot {
        Err(_) => "the nightly toolchain",
        Ok(sysroot) if !Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library").is_dir() => {
            "the component rust-src of the nightly toolchain"
        }
        Ok(_) => {
            let version = output(nightly_cargo().args(["miri", "--version"]));
            if version.is_ok() {
                return Ok(());
            }
            "the component miri of the nightly toolchain"
        }
    };
    bail!("{missing} is not installed. This installs what is missing:\n    {INSTALL}")
}
