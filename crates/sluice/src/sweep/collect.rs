//! Joins the points of a folder into tables (CSV, RFC 4180), and lists those that are missing.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use super::metrics::{NETWORK, TRAFFIC};
use super::points::{self, Description, PointFile};
use super::statistics::estimate;

/// Missing points that are listed.
const MOST_LISTED: usize = 20;

/// What was joined.
#[derive(Debug, Serialize)]
pub struct Joined {
    /// All points of the sweep, or of the part.
    points: usize,
    done: usize,
    pub missing: Vec<usize>,
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
        let mut joined =
            Self { points: mine.len(), done: 0, missing: Vec::new(), missed: 0, files: Vec::new() };
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
            let _ = writeln!(
                text,
                "missing: {}{more}; run `sluice sweep FILE` with this folder, or their parts, again (point mod N is the part)",
                listed.join(", ")
            );
        }
        for file in &self.files {
            let _ = writeln!(text, "wrote {}", file.display());
        }
        text
    }
}

/// Joins all points that are there, and writes the tables.
///
/// # Errors
/// The folder has no sweep, or a file cannot be read or written.
pub fn join(folder: &Path) -> Result<Joined> {
    let description = Description::read(folder)?;
    let count = description.point_count();
    let mut joined = Joined { points: count, done: 0, missing: Vec::new(), missed: 0, files: Vec::new() };
    let mut found: Vec<Option<PointFile>> = Vec::new();
    for point in 0..count {
        let file = points::read_point(folder, point)?;
        joined.count(point, file.as_ref());
        found.push(file);
    }
    for (name, text) in [
        ("traffic.csv", table(&description, &found, true)),
        ("network.csv", table(&description, &found, false)),
        ("summary.csv", summary(&description, &found)),
    ] {
        let file = folder.join(name);
        points::write_whole(&file, &text)?;
        joined.files.push(file);
    }
    Ok(joined)
}

/// A row for each point, seed and traffic, or for each point and seed.
fn table(description: &Description, found: &[Option<PointFile>], of_traffic: bool) -> String {
    let names: &[&str] = if of_traffic { &TRAFFIC } else { &NETWORK };
    let mut text = String::from("point,seed,");
    description.keys.iter().for_each(|key| text += &(field(key) + ","));
    text += if of_traffic { "traffic," } else { "" };
    text += &(names.join(",") + "\n");
    for file in found.iter().flatten() {
        let (values, seed) = description.point(file.point);
        for row in file.rows.iter().filter(|row| row.of.is_empty() != of_traffic) {
            let _ = write!(text, "{},{seed},", file.point);
            values.iter().for_each(|value| text += &(value_field(value) + ","));
            text += &if of_traffic { field(&row.of) + "," } else { String::new() };
            let numbers: Vec<String> = row.values.iter().map(|value| number(*value)).collect();
            text += &(numbers.join(",") + "\n");
        }
    }
    text
}

/// A row for each combination of values, traffic and metric: over its seeds.
fn summary(description: &Description, found: &[Option<PointFile>]) -> String {
    let mut text = String::new();
    description.keys.iter().for_each(|key| text += &(field(key) + ","));
    text += "traffic,metric,seeds,mean,ci95_low,ci95_high\n";
    for seeds in found.chunks(description.seeds.len()) {
        let files: Vec<&PointFile> = seeds.iter().flatten().collect();
        let Some(first) = files.first() else { continue };
        let (values, _) = description.point(first.point);
        let prefix: String = values.iter().map(|value| value_field(value) + ",").collect();
        for (index, row) in first.rows.iter().enumerate() {
            for (metric, name) in row.names().iter().enumerate() {
                let all =
                    files.iter().filter_map(|file| file.rows.get(index)?.values.get(metric).copied()?);
                let Some(estimate) = estimate(&all.collect::<Vec<f64>>()) else { continue };
                let [low, high] = estimate.interval.map_or([None; 2], |interval| interval.map(Some));
                let (low, high, mean) = (number(low), number(high), number(Some(estimate.mean)));
                let _ = writeln!(
                    text,
                    "{prefix}{},{name},{},{mean},{low},{high}",
                    field(&row.of),
                    estimate.count
                );
            }
        }
    }
    text
}

/// Formats a number without loss; empty if there is none.
fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// Formats a value as written in TOML, strings without quotation marks.
fn value_field(value: &str) -> String {
    let plain = value.parse::<toml_edit::Value>().ok();
    field(plain.as_ref().and_then(toml_edit::Value::as_str).unwrap_or(value))
}

/// Quotes a field where it has to be.
fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_have_to_be() {
        assert_eq!(value_field("\"10G\""), "10G");
        assert_eq!(value_field("[1, 2]"), "\"[1, 2]\"");
        assert_eq!(field("host.\"h[1-2]\".ports"), "\"host.\"\"h[1-2]\"\".ports\"");
    }
}
