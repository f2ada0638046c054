//! `cargo xtask mutants`: changes a crate in every way that a test should notice, and lists what
//! none noticed.
//!
//! All mutants of a crate are built at once, each as an alternative beside the original that an
//! environment variable selects. A run without a mutant records which of them each test reaches;
//! then each mutant is run under the tests that reach it, and no others.

mod default_values;
mod finder;
mod source;
mod tests_of;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, anyhow};
use clap::Parser;

use tests_of::{MutantOutcome, Test};
use tree::Tree;

/// The outcome of a mutant that the compiler refuses.
const NOT_BUILT: &str = "NotBuilt";

/// Mutation testing of one crate. Results go to target/mutants/CRATE.txt.
#[derive(Parser)]
#[command(name = "cargo xtask mutants", bin_name = "cargo xtask mutants")]
struct Arguments {
    /// The crate, as `wire`.
    package: String,
    /// Only mutants whose name contains one of these, as `src/pfc/`, in this order.
    #[arg(long)]
    only: Vec<String>,
    /// Only every n-th mutant, from the k-th on.
    #[arg(long, value_name = "K/N", value_parser = shard_of)]
    shard: Option<(usize, usize)>,
    /// Go on from earlier runs: only mutants that none has noticed, missed or not run yet.
    #[arg(long)]
    resume: bool,
    /// Only these test targets, as `watchdog`, beside the unit tests: a narrower run builds faster.
    #[arg(long, value_name = "TARGET")]
    test: Vec<String>,
    /// Leave out tests that take more processor time without a mutant, in seconds.
    #[arg(long, default_value_t = 600)]
    longest: u64,
    /// How many at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let results = repository.join("target/mutants").join(format!("{}.txt", arguments.package));
    let found = finder::find(&repository.join("crates").join(&arguments.package))?;
    let tree = Tree::copy(&repository, &arguments.package, &found)?;
    eprintln!("{} mutants", found.mutants.len());
    let mut known = read_results(&results);
    let wanted = |mutant: &usize| {
        let name = &found.mutants[*mutant].name;
        let shard = arguments.shard.is_none_or(|(part, parts)| mutant % parts == part);
        let only = arguments.only.is_empty() || arguments.only.iter().any(|part| name.contains(part));
        // A change of the crate may make another mutant build, so only a run that goes on with an
        // earlier one trusts it.
        let missed = known.get(name).is_none_or(|outcome| outcome == "Missed" || outcome == "NotReached");
        shard && only && (missed || !arguments.resume)
    };
    let (mut mutants, left_out): (Vec<usize>, Vec<usize>) = (0..found.mutants.len()).partition(wanted);
    let left_out = BTreeSet::from_iter(left_out);
    // What does not run is not built either: fewer alternatives are built and run faster.
    let dropped = tree.build_library(&found, left_out.clone())?;
    for &mutant in dropped.difference(&left_out) {
        append(&results, NOT_BUILT, &found.mutants[mutant].name)?;
        known.insert(found.mutants[mutant].name.clone(), NOT_BUILT.to_owned());
    }
    mutants.retain(|mutant| !dropped.contains(mutant));
    let part_of =
        |mutant: &usize| arguments.only.iter().position(|part| found.mutants[*mutant].name.contains(part));
    mutants.sort_by_key(part_of);
    let programs = tree.build_tests(&arguments.test)?;
    let folder = tree.folder();
    let tests = record_all(&folder, &programs, arguments.longest, arguments.jobs)?;
    eprintln!("{} tests, {} mutants to run", tests.len(), mutants.len());
    let outcomes = run_mutants(&folder, &tests, &mutants, &found, arguments.jobs, &results)?;
    let mut of_this_run = BTreeMap::new();
    for (mutant, outcome) in outcomes {
        of_this_run.insert(found.mutants[mutant].name.clone(), format!("{outcome:?}"));
    }
    known.extend(of_this_run.clone());
    let names: BTreeSet<&str> = found.mutants.iter().map(|mutant| mutant.name.as_str()).collect();
    known.retain(|name, _| names.contains(name.as_str()));
    let lines: String = known.iter().map(|(name, outcome)| format!("{outcome}\t{name}\n")).collect();
    fs::write(&results, lines)?;
    report(&of_this_run);
    Ok(())
}

/// Parses `K/N`.
fn shard_of(text: &str) -> Result<(usize, usize), String> {
    let shard =
        text.split_once('/').and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    shard.filter(|(part, parts)| part < parts).ok_or_else(|| "write K/N with K below N, as in 0/4".to_owned())
}

/// Outcomes by mutant of earlier runs; of two lines about one mutant the later holds.
fn read_results(path: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once('\t'));
    pairs.map(|(outcome, name)| (name.to_owned(), outcome.to_owned())).collect()
}

/// Adds a result at once, so that a run that is ended keeps what it found.
fn append(results: &Path, outcome: &str, name: &str) -> Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(results)?;
    Ok(file.write_all(format!("{outcome}\t{name}\n").as_bytes())?)
}

/// Prints what no test noticed in this run, and how many mutants had which outcome.
fn report(outcomes: &BTreeMap<String, String>) {
    let mut sums: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, outcome) in outcomes {
        *sums.entry(outcome).or_default() += 1;
        if outcome == "Missed" || outcome == "NotReached" {
            println!("{outcome}: {name}");
        }
    }
    println!("{sums:?}");
}

/// Calls `work` with every index below `count`, on several threads.
fn in_parallel(jobs: usize, count: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    let one = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= count {
            return Ok(());
        }
        work(index)?;
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(one)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a worker panicked"))?)
    })
}

fn record_all(folder: &Path, programs: &[PathBuf], longest_s: u64, jobs: usize) -> Result<Vec<Test>> {
    let mut all = Vec::new();
    for program in programs {
        all.extend(tests_of::names(program)?.into_iter().map(|name| (program, name)));
    }
    let tests = Mutex::new(Vec::new());
    in_parallel(jobs, all.len(), |index| {
        let (program, name) = &all[index];
        let file = folder.join(format!("reached-{index}"));
        let test = tests_of::record(folder, program, name, longest_s, &file)?;
        fs::remove_file(file).ok();
        tests.lock().map_err(|_| anyhow!("a worker panicked"))?.extend(test);
        Ok(())
    })?;
    tests.into_inner().map_err(|_| anyhow!("a worker panicked"))
}

/// Runs mutants; each outcome is appended to the results at once.
fn run_mutants(
    folder: &Path,
    tests: &[Test],
    mutants: &[usize],
    found: &finder::Found,
    jobs: usize,
    results: &Path,
) -> Result<Vec<(usize, MutantOutcome)>> {
    let outcomes = Mutex::new(Vec::new());
    in_parallel(jobs, mutants.len(), |index| {
        let mutant = mutants[index];
        let outcome = tests_of::run_mutant(folder, tests, mutant)?;
        append(results, &format!("{outcome:?}"), &found.mutants[mutant].name)?;
        let mut outcomes = outcomes.lock().map_err(|_| anyhow!("a worker panicked"))?;
        outcomes.push((mutant, outcome));
        if outcomes.len() % 100 == 0 {
            eprintln!("{} of {}", outcomes.len(), mutants.len());
        }
        Ok(())
    })?;
    outcomes.into_inner().map_err(|_| anyhow!("a worker panicked"))
}
