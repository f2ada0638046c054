//! Checks the number of instructions that the switch executes per frame, which, unlike times, does
//! not depend on the load of the machine.
//!
//! The pipeline bench (`crates/dataplane/benches/pipeline.rs`) runs under callgrind with few rounds
//! and with many; the difference is the cost of the rounds without startup and exit.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run::{cargo, log, repo_root};

/// Instructions per frame of the pipeline: what the bench runs (`wred`: WRED on every queue, so
/// that none takes the shortest way; `shared`: that, and all cells from the shared pools; `ets`:
/// ETS and a speed on every port), by number of ports.
const EXPECTED: [(&str, u32, f64); 8] = [
    ("whole", 8, 585.9),
    ("whole", 64, 698.6),
    ("wred", 8, 772.0),
    ("wred", 64, 932.3),
    ("shared", 8, 1032.8),
    ("shared", 64, 1212.4),
    ("ets", 8, 742.4),
    ("ets", 64, 883.6),
];
/// Excess that is an error, and reduction that is reported.
const TOLERANCE_PERCENT: f64 = 3.0;
/// Frames in the ring of the bench.
const FRAMES: u32 = 4096;
/// Frames of one round of the bench.
const BATCH: f64 = 64.0;
const FEW_ROUNDS: u32 = 100;
const MANY_ROUNDS: u32 = 600;

/// Counts instructions and compares them with the expected numbers.
pub fn check() -> Result<()> {
    let bench = build_bench()?;
    let mut too_many = Vec::new();
    for (what, ports, expected) in EXPECTED {
        let counted = per_frame(&bench, what, ports)?;
        let percent = (counted / expected - 1.0) * 100.0;
        println!(
            "{what}, {ports} ports: {counted:.1} instructions a frame, {expected:.1} expected ({percent:+.1} %)"
        );
        if percent > TOLERANCE_PERCENT {
            too_many.push((what, ports));
        } else if percent < -TOLERANCE_PERCENT {
            println!(
                "    fewer than expected: write {counted:.1} into xtask/src/instruction_count.rs, so that it stays so"
            );
        }
    }
    if !too_many.is_empty() {
        bail!(
            "the way of a frame takes more instructions than expected: {too_many:?} (ports).\n\
             If that is not meant, look where they are: valgrind --tool=callgrind {bench} WHAT PORTS {FRAMES} {MANY_ROUNDS}\n\
             If it is worth it (a new feature, another compiler), write the new numbers into EXPECTED of\n\
             xtask/src/instruction_count.rs and say in the commit what they are for"
        );
    }
    Ok(())
}

/// Builds the bench and returns its path.
fn build_bench() -> Result<String> {
    log("counting the instructions of the pipeline bench");
    let mut command = cargo();
    command.args(["bench", "--package", "dataplane", "--bench", "pipeline", "--no-run"]);
    let output = command.output().context("cannot run cargo")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("the pipeline bench does not build:\n{stderr}");
    }
    executable(&stderr).with_context(|| format!("cargo does not print where the bench is:\n{stderr}"))
}

/// Parses `Executable benches/pipeline.rs (target/release/deps/pipeline-…)`.
fn executable(output: &str) -> Option<String> {
    let line = output.lines().find(|line| line.trim_start().starts_with("Executable"))?;
    Some(line.split_once('(')?.1.strip_suffix(')')?.to_owned())
}

/// Returns the instructions per frame with `ports` ports.
fn per_frame(bench: &str, what: &str, ports: u32) -> Result<f64> {
    let (few, many) = (count(bench, what, ports, FEW_ROUNDS)?, count(bench, what, ports, MANY_ROUNDS)?);
    Ok((many - few) as f64 / f64::from(MANY_ROUNDS - FEW_ROUNDS) / BATCH)
}

/// Returns the instructions of a whole run.
fn count(bench: &str, what: &str, ports: u32, rounds: u32) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", bench, what]);
    command.args([ports, FRAMES, rounds].map(|number| number.to_string()));
    let output = command.current_dir(repo_root()).output().context("cannot run valgrind")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("the pipeline bench fails under valgrind:\n{stderr}");
    }
    collected(&stderr)
        .with_context(|| format!("callgrind does not print how many instructions it counted:\n{stderr}"))
}

/// Parses `==123== Collected : 4567`.
fn collected(output: &str) -> Option<u64> {
    let number = output.lines().find_map(|line| line.split_once("Collected : "))?.1;
    number.trim().parse().ok()
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn output_of_cargo_and_callgrind_is_parsed() {
        let output = "    Finished `bench` profile\n  Executable benches/pipeline.rs (target/release/deps/pipeline-1f)\n";
        assert_eq!(executable(output).as_deref(), Some("target/release/deps/pipeline-1f"));
        assert_eq!(collected("==7== Events    : Ir\n==7== Collected : 46512345\n==7== \n"), Some(46_512_345));
        assert_eq!(collected("valgrind: no such file"), None);
    }
}
