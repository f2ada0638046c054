//! Joins the points of a folder into tables (CSV, and Parquet on request), and lists those that are
//! missing.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use super::metrics::{NETWORK, Row, TRAFFIC};
use super::plan::{Plan, ranges};
use super::points::{self, Description, PointFile};
use super::statistics::{Estimate, estimate};
use crate::output::{DataTable, TableFormat};

/// Missing points that are listed.
const MOST_LISTED: usize = 20;

/// What was joined.
#[derive(Debug, Default, Serialize)]
pub struct Joined {
    /// All points of the sweep, or of the part.
    points: usize,
    done: usize,
    pub missing: Vec<usize>,
    /// Parts of `sluice sweep plan` with missing points.
    missing_parts: Vec<usize>,
    /// Commands that run these parts again, each of them all.
    rerun: Vec<String>,
    /// Points of which an expectation does not hold.
    pub missed: usize,
    files: Vec<PathBuf>,
}

impl Joined {
    /// Counts the points of a part.
    ///
    /// # Errors
    /// A point cannot be read.
    pub fn of_part(folder: &Path, mine: &[usize]) -> Result<Self> {
        let mut joined = Self { points: mine.len(), ..Self::default() };
        for &point in mine {
            joined.count(point, points::read_point(folder, point)?.as_ref());
        }
        Ok(joined)
    }

    fn count(&mut self, point: usize, file: Option<&PointFile>) {
        match file {
            Some(file) => {
                self.done += 1;
                self.missed += usize::from(!file.holds);
            }
            None => self.missing.push(point),
        }
    }

    /// The text of the report.
    pub fn text(&self) -> String {
        let mut text = format!("{} of {} points\n", self.done, self.points);
        if self.missed > 0 {
            let _ = writeln!(text, "{} of them have an expectation that does not hold", self.missed);
        }
        if !self.missing.is_empty() {
            let listed: Vec<String> = self.missing.iter().take(MOST_LISTED).map(usize::to_string).collect();
            let more = if self.missing.len() > MOST_LISTED { ", …" } else { "" };
            let _ = write!(text, "missing: {}{more}; ", listed.join(", "));
            text += &if self.missing_parts.is_empty() {
                "run `sluice sweep FILE` with this folder, or their parts, again (point mod N is the part)\n"
                    .to_owned()
            } else {
                let one_of = if self.rerun.len() > 1 { ", one of" } else { "" };
                format!("of parts {}. To run these again{one_of}:\n", ranges(&self.missing_parts))
            };
            self.rerun.iter().for_each(|command| text += &format!("    {command}\n"));
        }
        for file in &self.files {
            let _ = writeln!(text, "wrote {}", file.display());
        }
        text
    }
}

/// Joins all points that are there, and writes the tables: as CSV, and as Parquet if required.
///
/// # Errors
/// The folder has no sweep, or a file cannot be read or written.
pub fn join(folder: &Path, with_parquet: bool) -> Result<Joined> {
    const FORMATS: [(TableFormat, &str); 2] = [(TableFormat::Csv, "csv"), (TableFormat::Parquet, "parquet")];
    let formats = if with_parquet { &FORMATS[..] } else { &FORMATS[..1] };
    let description = Description::read(folder)?;
    let count = description.point_count();
    let mut joined = Joined { points: count, ..Joined::default() };
    let mut found: Vec<Option<PointFile>> = Vec::new();
    for point in 0..count {
        let file = points::read_point(folder, point)?;
        joined.count(point, file.as_ref());
        found.push(file);
    }
    if let Some(plan) = Plan::read(folder)?.filter(|_| !joined.missing.is_empty()) {
        joined.missing_parts = plan.parts_of(&joined.missing);
        joined.rerun = plan.commands(folder, &joined.missing_parts);
    }
    let found: Vec<PointFile> = found.into_iter().flatten().collect();
    let (of_traffic, of_network) = (rows(&description, &found, true), rows(&description, &found, false));
    let estimates = estimates(&description, &found);
    let mut write = |name: &str, bytes: Vec<u8>| {
        let file = folder.join(name);
        joined.files.push(file.clone());
        points::write_whole(&file, bytes)
    };
    for (format, extension) in formats {
        write(&format!("traffic.{extension}"), table(&description, &of_traffic, true).bytes(*format)?)?;
        write(&format!("network.{extension}"), table(&description, &of_network, false).bytes(*format)?)?;
        write(&format!("summary.{extension}"), summary(&description, &estimates).bytes(*format)?)?;
    }
    Ok(joined)
}

/// The metrics of a traffic or of the network at a point.
struct PointRow<'r> {
    point: usize,
    values: Vec<&'r str>,
    seed: u64,
    metrics: &'r Row,
}

/// Returns a row for each point, seed and traffic, or for each point and seed.
fn rows<'r>(description: &'r Description, found: &'r [PointFile], of_traffic: bool) -> Vec<PointRow<'r>> {
    let mut rows = Vec::new();
    for file in found {
        let (values, seed) = description.point(file.point);
        let metrics = file.rows.iter().filter(|row| row.of.is_empty() != of_traffic);
        rows.extend(metrics.map(|metrics| PointRow {
            point: file.point,
            values: values.clone(),
            seed,
            metrics,
        }));
    }
    rows
}

fn table<'r>(
    description: &'r Description,
    rows: &'r [PointRow<'r>],
    of_traffic: bool,
) -> DataTable<'r, PointRow<'r>> {
    let mut table =
        DataTable::new(rows).integers("point", |row| row.point as u64).integers("seed", |row| row.seed);
    for (key, name) in description.keys.iter().enumerate() {
        table = table.settings(&**name, &plain_values(description, key), |row| plain(row.values[key]));
    }
    if of_traffic {
        table = table.text("traffic", |row| &*row.metrics.of);
    }
    let names: &[&str] = if of_traffic { &TRAFFIC } else { &NETWORK };
    for (metric, name) in names.iter().enumerate() {
        table = table.floats(*name, None, |row| row.metrics.values.get(metric).copied().flatten());
    }
    table
}

/// A metric of a combination of values, over its seeds.
struct MetricEstimate<'r> {
    values: Vec<&'r str>,
    of: &'r str,
    metric: &'static str,
    estimate: Estimate,
}

/// Returns a row for each combination of values, traffic and metric.
fn estimates<'r>(description: &'r Description, found: &'r [PointFile]) -> Vec<MetricEstimate<'r>> {
    let mut rows = Vec::new();
    let seeds = description.seeds.len();
    for files in found.chunk_by(|a, b| a.point / seeds == b.point / seeds) {
        let Some(first) = files.first() else { continue };
        let (values, _) = description.point(first.point);
        for (index, row) in first.rows.iter().enumerate() {
            for (metric, name) in row.names().iter().enumerate() {
                let all =
                    files.iter().filter_map(|file| file.rows.get(index)?.values.get(metric).copied()?);
                let Some(estimate) = estimate(&all.collect::<Vec<f64>>()) else { continue };
                rows.push(MetricEstimate { values: values.clone(), of: &row.of, metric: name, estimate });
            }
        }
    }
    rows
}

fn summary<'r>(
    description: &'r Description,
    rows: &'r [MetricEstimate<'r>],
) -> DataTable<'r, MetricEstimate<'r>> {
    let mut table = DataTable::new(rows);
    for (key, name) in description.keys.iter().enumerate() {
        table = table.settings(&**name, &plain_values(description, key), |row| plain(row.values[key]));
    }
    let end = |row: &MetricEstimate, end: usize| row.estimate.interval.map(|interval| interval[end]);
    table
        .text("traffic", |row| row.of)
        .text("metric", |row| row.metric)
        .integers("seeds", |row| row.estimate.count as u64)
        .floats("mean", None, |row| row.estimate.mean)
        .floats("ci95_low", None, move |row| end(row, 0))
        .floats("ci95_high", None, move |row| end(row, 1))
}

/// Returns all values that the sweep has of a setting: found points may have some of them.
fn plain_values(description: &Description, key: usize) -> Vec<Cow<'_, str>> {
    description.values[key].iter().map(|value| plain(value)).collect()
}

/// Returns a value as written in TOML, a string without quotation marks.
fn plain(value: &str) -> Cow<'_, str> {
    let parsed = value.parse::<toml_edit::Value>().ok();
    parsed.as_ref().and_then(toml_edit::Value::as_str).map_or(value.into(), |text| text.to_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_have_no_quotation_marks() {
        assert_eq!(plain("\"10G\""), "10G");
        assert_eq!(plain("[1, 2]"), "[1, 2]");
    }
}
