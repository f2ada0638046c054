//! `sluice sweep`: runs a scenario with every combination of varied settings and seeds, on all
//! cores or in parts on several machines, and joins the results.
//!
//! ```text
//! FILE ──▶ sweep.json ──▶ points/000000.json … ──▶ traffic.csv, network.csv, summary.csv
//!          what is run     one for each point        joined
//! ```
//! A point's file is written as a whole, after its run. So a sweep that was killed goes on with the
//! points that are missing, and parts may run anywhere that sees the folder.

mod collect;
mod metrics;
mod plan;
mod points;
mod statistics;
mod work;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};

use crate::output;
use crate::sim::input::RunError;
use collect::Joined;
use points::{Common, SweepPlan, folder_of};

/// Exit code if an expectation does not hold, or points are missing.
const EXIT_MISSED: u8 = 1;
/// Exit code if the scenario is invalid, or a file cannot be read or written.
const EXIT_WRONG: u8 = 2;

/// Run a scenario with every combination of varied settings and seeds.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_long_help = AFTER_HELP)]
pub struct Arguments {
    #[command(subcommand)]
    task: Option<Task>,
    /// The scenario, with [[vary]] and [sweep].
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
    /// Points that are run at the same time; default: one for each core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Run only the points of part I of N, from 0, and join nothing.
    #[arg(long, value_name = "I/N", value_parser = part_of)]
    part: Option<(usize, usize)>,
    /// Write the tables as Parquet, too.
    #[arg(long)]
    parquet: bool,
    /// Do not show progress. It is written to standard error, if that is a terminal.
    #[arg(long)]
    quiet: bool,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Task {
    /// Write scripts that run the sweep in parts: a Slurm job array, a Kubernetes indexed Job.
    Plan(plan::Arguments),
    /// Join the results of parts, and list the points that are missing.
    Collect {
        /// Folder of the results.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Write the tables as Parquet, too.
        #[arg(long)]
        parquet: bool,
        /// Print what was joined as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Lines of at most 99 characters: clap would break longer ones at 100.
const AFTER_HELP: &str = "\
A scenario has a [[vary]] for each setting that a sweep varies, and [sweep] seeds. Every
combination of values is a point, which is run with each seed:

    [[vary]]                               [[vary]]                      [sweep]
    set = \"traffic.rdma.rate\"              set = \"link.0.cable_m\"        seeds = 5
    values = [\"5G\", \"10G\"]                 from = 10
                                           to = 100
                                           step = 30

Results, in the folder: points/ has a file for each point, by which a sweep that was killed goes
on; traffic.csv a row for each point, seed and traffic; network.csv one for each point and seed;
summary.csv the mean of each metric over all seeds, with its 95 % confidence interval
(Student's t). With --parquet there are traffic.parquet, network.parquet and summary.parquet, too.

On several machines: `sluice sweep plan` writes scripts whose jobs run --part I/N of the sweep into
a folder that all of them see, and plan.json, in which it keeps number and engines of the parts.
`sluice sweep collect` joins the folder, or prints lines that run the missing parts again, by
plan.json; one of them suffices. The joined bytes are the same.

JSON: points, done, missing[] (of all, or of the part), missing_parts[] and rerun[] (of a planned
sweep: the parts of these points, and commands that run them again, one of which suffices), missed
(points with an expectation that does not hold), files[]

Exit codes: 0 every point is there and every expectation holds, 1 not so, 2 the scenario is wrong,
or a file cannot be read or written.";

/// Parses `I/N`.
fn part_of(text: &str) -> Result<(usize, usize), String> {
    let part = text.split_once('/').and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    part.filter(|(part, parts)| part < parts).ok_or_else(|| "write I/N with I below N, as in 0/4".to_owned())
}

/// Runs the task.
pub fn run(arguments: &Arguments) -> ExitCode {
    let done = match (&arguments.task, &arguments.file) {
        (Some(Task::Plan(plan)), _) => plan::run(plan).map(|()| true),
        (Some(Task::Collect { folder, parquet, json }), _) => collect_only(folder, *parquet, *json),
        (None, Some(file)) => sweep(file, arguments),
        (None, None) => Err(RunError::Other(anyhow!("no scenario"))),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_MISSED),
        Err(refusal) => {
            refusal.print();
            ExitCode::from(EXIT_WRONG)
        }
    }
}

/// Runs the missing points, and joins all unless this is a part. True if nothing is missing and
/// every expectation holds.
fn sweep(file: &Path, arguments: &Arguments) -> Result<bool, RunError> {
    crate::sim::huge_pages::reexec_with_huge_pages();
    let plan = SweepPlan::read(file, &arguments.common.set)?;
    let folder = folder_of(file, arguments.common.out.as_deref());
    plan.begin(&folder)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = arguments.jobs.map_or(cores, usize::from);
    work::run_missing(&plan, &folder, arguments.part, jobs, arguments.quiet)?;
    match arguments.part {
        Some((part, parts)) => {
            let mine: Vec<usize> = (0..plan.point_count()).filter(|point| point % parts == part).collect();
            report(&Joined::of_part(&folder, &mine)?, arguments.json)
        }
        None => report(&collect::join(&folder, arguments.parquet)?, arguments.json),
    }
}

fn collect_only(folder: &Path, with_parquet: bool, json: bool) -> Result<bool, RunError> {
    report(&collect::join(folder, with_parquet)?, json)
}

/// Prints what was done. True if nothing is missing and every expectation holds.
fn report(joined: &Joined, json: bool) -> Result<bool, RunError> {
    let printed =
        if json { output::print(&output::json(joined, true)?) } else { output::print(&joined.text()) };
    match printed {
        Err(error) if !output::is_broken_pipe(&error) => Err(error.into()),
        _ => Ok(joined.missing.is_empty() && joined.missed == 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_from_zero() {
        assert_eq!(part_of("0/4"), Ok((0, 4)));
        assert_eq!(part_of("3/4"), Ok((3, 4)));
        for wrong in ["4/4", "1", "a/b", "-1/2", "0/0", ""] {
            assert!(part_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn long_lines_of_the_help_are_hard_to_read() {
        assert!(AFTER_HELP.lines().all(|line| line.chars().count() <= 101));
    }
}
