//! Runs all tests, with a summary line at the end.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::run::{cargo, log, sweep};

/// Results that test programs reported.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sum {
    passed: u64,
    failed: u64,
    /// Commands that failed without a failed test: a build error or a crash.
    broken: u64,
}

/// Runs all tests, and ends with `N passed, N failed`. One command builds everything once: the
/// programs under test come from the same build, with its debug assertions. Tests run one at a
/// time, because tests that use the kernel share the machine.
pub fn all(filter: Option<&str>) -> Result<()> {
    log("all tests, one after the other");
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--no-fail-fast", "--", "--test-threads=1"]).args(filter);
    let sum = run(&mut tests)?;
    if sum.broken == 0 {
        sweep()?;
    }

    println!("{} passed, {} failed", sum.passed, sum.failed + sum.broken);
    if sum.failed + sum.broken > 0 {
        bail!("there are failures");
    }
    Ok(())
}

/// Runs one `cargo test`, shows its output as it arrives, and adds up the results.
fn run(command: &mut Command) -> Result<Sum> {
    // A failed test reports what went wrong; forty lines of backtrace add nothing.
    command.env("RUST_LIB_BACKTRACE", "0");
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot run cargo")?;
    let mut sum = Sum::default();
    for line in BufReader::new(child.stdout.take().expect("is piped")).lines() {
        let line = line?;
        println!("{line}");
        if let Some(result) = parse_result(&line) {
            sum.add(result);
        }
    }
    if !child.wait()?.success() && sum.failed == 0 {
        sum.broken = 1;
    }
    Ok(sum)
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.broken += other.broken;
    }
}

/// Parses `test result: ok. 5 passed; 0 failed; …`.
fn parse_result(line: &str) -> Option<Sum> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let count = |name: &str| {
        let field = counts.split("; ").find_map(|field| field.strip_suffix(name))?;
        field.trim().parse::<u64>().ok()
    };
    Some(Sum { passed: count("passed")?, failed: count("failed")?, broken: 0 })
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn results_are_read() {
        let line = "test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.02s";
        assert_eq!(parse_result(line), Some(Sum { passed: 5, failed: 2, broken: 0 }));
        assert_eq!(parse_result("test a::b ... ok"), None);
    }
}
