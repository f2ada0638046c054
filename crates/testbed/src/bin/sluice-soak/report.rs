//! The report of a soak as Markdown and as a picture, and whether the daemon stayed as it was.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use testbed::Spread;

use crate::disturbances::Disturbance;
use crate::rounds::Round;

/// Fewer rounds say nothing about growth.
const FEWEST_ROUNDS: usize = 9;
/// What the daemon may have more at the end than at the beginning: memory in KiB, descriptors, and
/// the factor of its latency. A collector that is being reached takes a descriptor or two.
const MEMORY_KIB: f64 = 2048.0;
const DESCRIPTORS: f64 = 2.0;
const LATENCY: f64 = 2.0;

/// All rounds, in order.
pub struct SoakReport {
    seed: u64,
    has_load: bool,
    pub rounds: Vec<Round>,
    pub disturbances: BTreeMap<Disturbance, u64>,
}

/// A number of each round, with its name and its unit.
type Series = (&'static str, &'static str, fn(&Round) -> f64);

const MEMORY: Series = ("memory beside the buffer", "MiB", |round| round.memory_kib as f64 / 1024.0);
const OPEN: Series = ("open file descriptors", "", |round| round.descriptors as f64);
const THREADS: Series = ("threads", "", |round| round.threads as f64);
const MEDIAN: Series = ("median latency of lossy frames", "µs", |round| round.p50_us);
const P99: Series = ("99th percentile of their latency", "µs", |round| round.p99_us);
const LOST: Series = ("no-drop frames lost in a round", "", |round| round.no_drop_lost as f64);
const LOAD: Series = ("load average of the machine", "", |round| round.load_average);
const PICTURES: [Series; 7] = [MEMORY, OPEN, THREADS, MEDIAN, P99, LOST, LOAD];

impl SoakReport {
    pub fn new(seed: u64, has_load: bool) -> Self {
        Self { seed, has_load, rounds: Vec::new(), disturbances: BTreeMap::new() }
    }

    /// Returns the medians of the first and of the last third of the rounds.
    fn thirds(&self, (_, _, number): Series) -> Option<(f64, f64)> {
        let third = self.rounds.len() / 3;
        let median = |rounds: &[Round]| Spread::of(rounds.iter().map(number)).map(|spread| spread.median);
        Some((median(&self.rounds[..third])?, median(&self.rounds[self.rounds.len() - third..])?))
    }

    fn has_too_few_rounds(&self) -> bool {
        self.rounds.len() < FEWEST_ROUNDS
    }

    /// Fails if the daemon takes more at the end than at the beginning.
    pub fn must_be_flat(&self) -> Result<()> {
        if self.has_too_few_rounds() {
            println!("{} rounds are too few to say what grows", self.rounds.len());
            return Ok(());
        }
        let grown = |series: Series, allowed: &dyn Fn(f64) -> f64| -> Result<()> {
            let (first, last) = self.thirds(series).context("there are rounds")?;
            ensure!(last <= allowed(first), "{} grew from {first:.1} to {last:.1} {}", series.0, series.1);
            Ok(())
        };
        grown(MEMORY, &|first| first + MEMORY_KIB / 1024.0)?;
        grown(OPEN, &|first| first + DESCRIPTORS)?;
        grown(THREADS, &|first| first)?;
        grown(MEDIAN, &|first| first * LATENCY)
    }

    fn sum(&self, number: fn(&Round) -> u64) -> u64 {
        self.rounds.iter().map(number).sum()
    }

    /// Returns the tables.
    pub fn markdown(&self) -> String {
        let mut text = "| | |\n|---|---:|\n".to_owned();
        let last = self.rounds.last().cloned().unwrap_or_default();
        for (what, number) in [
            ("rounds, after each of which every frame was accounted for", self.rounds.len() as u64),
            ("no-drop frames sent to the slow port", self.sum(|round| round.no_drop_sent)),
            (
                "of these lost, each counted under a drop reason or by a kernel",
                self.sum(|round| round.no_drop_lost),
            ),
            (
                "no-drop frames lost on the way to the host that storms, counted",
                self.sum(|round| round.lost_to_storm),
            ),
            ("lossy frames sent", self.sum(|round| round.lossy_sent)),
            ("of these arrived", self.sum(|round| round.lossy_received)),
            (
                "frames that were recorded, and replayed with the same result",
                self.sum(|round| round.replayed),
            ),
            ("the longest stall of the loop, ms", last.worst_stall_ms as u64),
        ] {
            let _ = writeln!(text, "| {what} | {number} |");
        }
        text += "\n| | first third | last third | least | greatest |\n|---|---:|---:|---:|---:|\n";
        for series in PICTURES {
            let (name, unit, number) = series;
            let Some((first, last)) = self.thirds(series) else { continue };
            let Some(all) = Spread::of(self.rounds.iter().map(number)) else { continue };
            let name = if unit.is_empty() { name.to_owned() } else { format!("{name}, {unit}") };
            let _ = writeln!(
                text,
                "| {name} | {first:.1} | {last:.1} | {:.1} | {:.1} |",
                all.least, all.greatest
            );
        }
        text += "\n| disturbance | times |\n|---|---:|\n";
        for which in Disturbance::ALL {
            let times = self.disturbances.get(&which).copied().unwrap_or(0);
            let _ = writeln!(text, "| {} | {times} |", which.name());
        }
        text
    }

    /// Writes soak.md and soak.svg, unless there are too few rounds to replace an earlier result.
    pub fn write(&self, folder: &Path) -> Result<()> {
        if self.has_too_few_rounds() {
            return Ok(());
        }
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let minutes = self.rounds.last().map_or(0.0, |round| round.minutes);
        let text = format!(
            "# Soak\n\nWritten by `cargo xtask soak`: {minutes:.0} minutes of one daemon (a build with debug assertions){}, Linux {}, \
             seed {}. What it does and\nchecks is in [reliability.md](reliability.md#soak). Numbers of thirds are medians of \
             rounds; times depend on the machine.\n\n![Memory, descriptors, latency and losses by time](soak.svg)\n\n{}",
            if self.has_load { " beside a busy loop on each core" } else { "" },
            kernel.trim(),
            self.seed,
            self.markdown()
        );
        for (name, content) in [("soak.md", text), ("soak.svg", self.picture())] {
            let path = folder.join(name);
            std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Returns a line over time for each series, from zero up.
    fn picture(&self) -> String {
        let (left, width, height) = (60.0, 640.0, 90.0);
        let end = self.rounds.last().map_or(1.0, |round| round.minutes).max(f64::MIN_POSITIVE);
        let (mut lines, mut top) = (String::new(), 10.0);
        for (name, unit, number) in PICTURES {
            let most = self.rounds.iter().map(number).fold(1.0, f64::max);
            let (title, base) = (top + 14.0, top + 24.0 + height);
            let points: Vec<String> = self
                .rounds
                .iter()
                .map(|round| {
                    let (x, y) = (left + width * round.minutes / end, base - height * number(round) / most);
                    format!("{x:.1},{y:.1}")
                })
                .collect();
            let _ = writeln!(
                lines,
                r##"<text x="{left}" y="{title}" font-weight="bold">{name}</text><text x="{}" y="{}" text-anchor="end">{most:.0} {unit}</text><text x="{}" y="{base}" text-anchor="end">0</text><path d="M{left} {base}H{}" stroke="#adb5bd"/><polyline points="{}" fill="none" stroke="#0b7285" stroke-width="1.5"/>"##,
                left - 6.0,
                top + 34.0,
                left - 6.0,
                left + width,
                points.join(" ")
            );
            top = base + 14.0;
        }
        let _ = writeln!(lines, r#"<text x="{left}" y="{}">0 to {end:.0} minutes</text>"#, top + 10.0);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"{}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{lines}</svg>\n",
            top + 20.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(memory_kib: impl Fn(u64) -> u64) -> SoakReport {
        let round = |number: u64| Round {
            minutes: number as f64,
            memory_kib: memory_kib(number),
            descriptors: 40,
            p50_us: 100.0,
            no_drop_sent: 1000,
            ..Round::default()
        };
        let rounds = (1..=12).map(round).collect();
        SoakReport { rounds, ..SoakReport::new(7, true) }
    }

    #[test]
    fn a_daemon_that_grows_is_found_and_one_that_warms_up_is_not() {
        report(|number| if number < 3 { 9000 } else { 10_000 }).must_be_flat().unwrap();
        let grown = report(|number| 10_000 + number * 1024).must_be_flat().unwrap_err().to_string();
        assert!(grown.starts_with("memory beside the buffer grew from 12.3 to 20.3 MiB"), "{grown}");
    }

    #[test]
    fn the_report_has_sums_thirds_and_a_line_for_each_series() {
        let report = report(|_| 2048);
        let text = report.markdown();
        assert!(text.contains("| no-drop frames sent to the slow port | 12000 |"), "{text}");
        assert!(text.contains("| memory beside the buffer, MiB | 2.0 | 2.0 | 2.0 | 2.0 |"), "{text}");
        assert_eq!(report.picture().matches("<polyline").count(), PICTURES.len());
    }
}
