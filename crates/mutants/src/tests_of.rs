//! The tests of a crate: which mutants each reaches, and whether it notices one.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The least processor time that a test may take, in seconds.
const LEAST_CPU_S: u64 = 3;
/// A test that takes this much longer than it did without a mutant has a loop without end.
const SLOWER: f64 = 10.0;
/// A test that does not even take processor time waits for what never comes.
const LEAST_WALL: Duration = Duration::from_secs(60);
/// Tests that take longer run apart from the quick ones.
const SLOW_S: f64 = 0.5;

/// One test.
#[derive(Debug, Clone)]
pub struct Test {
    /// The program that holds it.
    pub program: PathBuf,
    /// Its name there.
    pub name: String,
    /// How long it takes without a mutant, in seconds.
    pub seconds: f64,
    /// The mutants that it reaches.
    pub reached: BTreeSet<usize>,
}

/// What the tests that reach a mutant came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MutantOutcome {
    /// A test failed.
    Caught,
    /// A test did not end.
    TimedOut,
    /// All tests that reach it passed.
    Missed,
    /// No test reaches it.
    NotReached,
}

/// The names of a program's tests.
pub fn names(program: &Path) -> Result<Vec<String>> {
    let output = Command::new(program).args(["--list", "--format", "terse"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Runs one test without a mutant; `None` if it takes more than `longest_s` of processor time.
pub fn record(
    folder: &Path,
    program: &Path,
    name: &str,
    longest_s: u64,
    file: &Path,
) -> Result<Option<Test>> {
    let _ = fs::remove_file(file);
    let started = Instant::now();
    let mut command = command(folder, program, longest_s, &[name]);
    command.env("SLUICE_MUTANTS_REACHED", file).env_remove("SLUICE_MUTANT");
    let status = command.status()?;
    if status.signal().is_some_and(is_cpu_limit) {
        eprintln!("left out: {name} takes more than {longest_s} s");
        return Ok(None);
    }
    if !status.success() {
        bail!("{name} in {} fails without a mutant", program.display());
    }
    let reached = fs::read_to_string(file).unwrap_or_default();
    let reached = reached.lines().filter_map(|line| line.parse().ok()).collect();
    let seconds = started.elapsed().as_secs_f64();
    Ok(Some(Test { program: program.to_owned(), name: name.to_owned(), seconds, reached }))
}

/// True for SIGKILL and SIGXCPU: the limit of processor time.
fn is_cpu_limit(signal: i32) -> bool {
    matches!(signal, 9 | 24)
}

/// Runs the tests that reach a mutant, the quick ones first, until one fails.
pub fn run_mutant(folder: &Path, tests: &[Test], mutant: usize) -> Result<MutantOutcome> {
    let groups = groups(tests, mutant);
    if groups.is_empty() {
        return Ok(MutantOutcome::NotReached);
    }
    for group in groups {
        let seconds: f64 = group.iter().map(|test| test.seconds).sum();
        let cpu_s = LEAST_CPU_S.max((seconds * SLOWER) as u64);
        let names: Vec<&str> = group.iter().map(|test| test.name.as_str()).collect();
        let mut command = command(folder, &group[0].program, cpu_s, &names);
        command.env("SLUICE_MUTANT", mutant.to_string());
        match wait(command.spawn()?, LEAST_WALL.max(Duration::from_secs(10 * cpu_s)))? {
            MutantOutcome::Missed => (),
            outcome => {
                // A failing run of the switch's reference model keeps its seed for the next run.
                let _ = fs::remove_file(folder.join("tests/model-seeds.txt"));
                return Ok(outcome);
            }
        }
    }
    Ok(MutantOutcome::Missed)
}

/// Tests to run together: quick ones of one program, and each slow one alone.
fn groups(tests: &[Test], mutant: usize) -> Vec<Vec<&Test>> {
    let mut groups: Vec<Vec<&Test>> = Vec::new();
    for test in tests.iter().filter(|test| test.reached.contains(&mutant)) {
        let fits = |group: &&mut Vec<&Test>| {
            group[0].program == test.program && test.seconds < SLOW_S && group[0].seconds < SLOW_S
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(test),
            None => groups.push(vec![test]),
        }
    }
    let seconds = |group: &Vec<&Test>| group.iter().map(|test| test.seconds).sum::<f64>();
    groups.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    groups
}

fn command(folder: &Path, program: &Path, cpu_s: u64, names: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -t {cpu_s}; ulimit -v 8000000; exec \"$@\""), "sh"]);
    command.arg(program).args(["--test-threads=1", "--exact"]).args(names);
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder).env("INSTA_UPDATE", "no");
    // Otherwise each snapshot test runs Cargo to find it.
    command.env("INSTA_WORKSPACE_ROOT", folder.join("../.."));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn wait(mut child: Child, limit: Duration) -> Result<MutantOutcome> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(match status.signal() {
                Some(signal) if is_cpu_limit(signal) => MutantOutcome::TimedOut,
                _ if status.success() => MutantOutcome::Missed,
                _ => MutantOutcome::Caught,
            });
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(MutantOutcome::TimedOut);
        }
        thread::sleep(Duration::from_millis(5));
    }
}
