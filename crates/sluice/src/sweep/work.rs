//! Runs the points that are missing, several at a time.

use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use super::metrics;
use super::points::{self, PointFile, SweepPlan};
use crate::sim::input::RunError;
use crate::sim::run::{self, RunOptions};

/// Runs the points without a file, of one part or of all, `jobs` at a time.
///
/// # Errors
/// The first error: a combination of values is invalid, a file cannot be written, or memory runs
/// out. Points that were complete before keep their files.
pub fn run_missing(
    plan: &SweepPlan,
    folder: &Path,
    part: Option<(usize, usize)>,
    jobs: usize,
    quiet: bool,
) -> Result<(), RunError> {
    let (part, parts) = part.unwrap_or((0, 1));
    let mine = (0..plan.point_count()).filter(|point| point % parts == part);
    let missing: Vec<usize> = mine.filter(|point| !points::is_done(folder, *point)).collect();
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let error = Mutex::new(None);
    let progress = Progress::new(missing.len(), quiet);
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(missing.len()) {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed)
                    && let Some(&point) = missing.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    match run_point(plan, folder, point) {
                        Ok(()) => progress.add(),
                        Err(refusal) => {
                            failed.store(true, Ordering::Relaxed);
                            error.lock().expect("no panic").get_or_insert((point, refusal));
                        }
                    }
                }
            });
        }
    });
    progress.end();
    match error.into_inner().expect("no panic") {
        Some((point, refusal)) => {
            eprintln!("sluice: {}:", plan.name_of(point));
            Err(refusal)
        }
        None => Ok(()),
    }
}

fn run_point(plan: &SweepPlan, folder: &Path, point: usize) -> Result<(), RunError> {
    let scenario = plan.scenario(point)?;
    let done = run::run(&scenario, RunOptions { quiet: true, ..RunOptions::default() })?;
    let file = PointFile { point, holds: done.outcome.holds(), rows: metrics::rows(&done.outcome) };
    Ok(points::write_point(folder, &file)?)
}

/// One line on standard error that is redrawn.
struct Progress {
    all: usize,
    done: AtomicUsize,
    start: Instant,
    is_shown: bool,
}

impl Progress {
    fn new(all: usize, quiet: bool) -> Self {
        let is_shown = !quiet && all > 0 && std::io::stderr().is_terminal();
        Self { all, done: AtomicUsize::new(0), start: Instant::now(), is_shown }
    }

    fn add(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let elapsed = self.start.elapsed().as_secs_f64();
        self.draw(&line(done, self.all, elapsed));
    }

    fn end(&self) {
        self.draw("");
    }

    /// Failure to write progress does not end the sweep.
    fn draw(&self, text: &str) {
        if self.is_shown {
            let mut out = std::io::stderr().lock();
            let _ = write!(out, "\r{text}\x1b[K").and_then(|()| out.flush());
        }
    }
}

fn line(done: usize, all: usize, elapsed: f64) -> String {
    let left = elapsed * (all - done) as f64 / done.max(1) as f64;
    format!("{done} of {all} points  {left:.0} s left")
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_of_the_line() {
        assert_eq!(super::line(50, 200, 10.0), "50 of 200 points  30 s left");
    }
}
