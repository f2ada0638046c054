//! The points of a sweep: which there are, and their files.
//!
//! Rule: every combination of the varied values, the first setting changing slowest, with each
//! seed, which changes fastest. A point's number identifies its values and seed. The folder has a
//! description of the sweep with a fingerprint of the scenario, its configurations and the program,
//! so that points of another sweep are not mixed in.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde::{Deserialize, Serialize};
use sim::Scenario;

use super::metrics::{NETWORK, Row, TRAFFIC};
use crate::sim::input::{self, RunError};
use crate::sim::overrides::Override;

/// The description's file.
const DESCRIPTION: &str = "sweep.json";
/// The folder of the points' files.
const POINTS: &str = "points";

/// What every task needs to know of the sweep.
#[derive(Args, Clone)]
pub struct Common {
    /// Folder of the results; default: the scenario's path with .sweep instead of .toml.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Another value for a setting, as of `sluice sim`. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Override>,
}

/// A sweep as read from its scenario.
pub struct SweepPlan {
    file: PathBuf,
    set: Vec<Override>,
    pub description: Description,
}

/// What a folder of results belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Version of the program, and a hash of all settings.
    version: String,
    fingerprint: String,
    pub title: String,
    /// The varied settings, and the values of each, as TOML.
    pub keys: Vec<String>,
    pub values: Vec<Vec<String>>,
    pub seeds: Vec<u64>,
}

/// Results of a point, and whether its expectations hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointFile {
    pub point: usize,
    /// True if every expectation holds.
    pub holds: bool,
    pub rows: Vec<Row>,
}

impl Description {
    /// The number of points, each seed counted.
    pub fn point_count(&self) -> usize {
        self.seeds.len() * self.values.iter().map(Vec::len).product::<usize>()
    }

    /// Returns the values and the seed of a point.
    pub fn point(&self, number: usize) -> (Vec<&str>, u64) {
        let seed = self.seeds[number % self.seeds.len()];
        let mut rest = number / self.seeds.len();
        let mut values: Vec<&str> = Vec::new();
        for list in self.values.iter().rev() {
            values.push(&list[rest % list.len()]);
            rest /= list.len();
        }
        values.reverse();
        (values, seed)
    }

    /// Reads the description of a folder.
    ///
    /// # Errors
    /// There is none.
    pub fn read(folder: &Path) -> Result<Self> {
        let file = folder.join(DESCRIPTION);
        let text = fs::read_to_string(&file).with_context(|| {
            format!("cannot read {}: no sweep has written to this folder", file.display())
        })?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is no description of a sweep", file.display()))
    }
}

impl SweepPlan {
    /// Reads a scenario, and checks it with each value of each varied setting.
    ///
    /// # Errors
    /// The scenario is invalid, varies nothing, or is invalid with one of the values.
    pub fn read(file: &Path, set: &[Override]) -> Result<Self, RunError> {
        let scenario = input::read(file, set)?;
        let (keys, values): (Vec<String>, Vec<Vec<String>>) =
            scenario.sweep.vary.iter().map(|vary| (vary.key.clone(), vary.values.clone())).unzip();
        let seeds = scenario.sweep.seeds.clone();
        if keys.is_empty() && seeds.len() < 2 {
            return Err(RunError::Other(anyhow!(
                "{} varies nothing: add a [[vary]] with `set` and `values`, or seeds to [sweep]",
                file.display()
            )));
        }
        let metrics = TRAFFIC.iter().chain(&NETWORK).copied().collect::<String>();
        let hash = add_to_hash(add_text(0xcbf2_9ce4_8422_2325, &metrics), &scenario);
        let description = Description {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            fingerprint: String::new(),
            title: scenario.title,
            keys,
            values,
            seeds,
        };
        let mut plan = Self { file: file.to_path_buf(), set: set.to_vec(), description };
        plan.description.fingerprint = format!("{:016x}", plan.check_values(hash)?);
        Ok(plan)
    }

    /// Reads the scenario with each value of each setting, the others at their first. Returns the
    /// hash of all, since a value may name a file.
    fn check_values(&self, mut hash: u64) -> Result<u64, RunError> {
        for (number, values) in self.description.values.iter().enumerate() {
            for value in values {
                let mut point: Vec<&str> = self.description.values.iter().map(|list| &*list[0]).collect();
                point[number] = value;
                let scenario = self.scenario_of(&point, None).inspect_err(|_| {
                    eprintln!("sluice: with {} = {value}:", self.description.keys[number]);
                })?;
                hash = add_to_hash(hash, &scenario);
            }
        }
        Ok(hash)
    }

    /// The number of points, each seed counted.
    pub fn point_count(&self) -> usize {
        self.description.point_count()
    }

    fn scenario_of(&self, values: &[&str], seed: Option<u64>) -> Result<Scenario, RunError> {
        let mut set = self.set.clone();
        for (key, value) in self.description.keys.iter().zip(values) {
            let given = format!("{key}={value}").parse::<Override>();
            set.push(given.map_err(|error| anyhow!("[[vary]] set = {key:?}: {error}"))?);
        }
        set.extend(seed.map(Override::of_seed));
        input::read(&self.file, &set)
    }

    /// Returns the scenario of a point.
    ///
    /// # Errors
    /// The combination of its values is invalid.
    pub fn scenario(&self, point: usize) -> Result<Scenario, RunError> {
        let (values, seed) = self.description.point(point);
        self.scenario_of(&values, Some(seed))
    }

    /// Names a point with its values, for messages.
    pub fn name_of(&self, point: usize) -> String {
        let (values, seed) = self.description.point(point);
        let set = self.description.keys.iter().zip(values).map(|(key, value)| format!("{key} = {value}, "));
        format!("point {point}: {}seed = {seed}", set.collect::<String>())
    }

    /// Creates the folder and its description, or finds that they are of this sweep.
    ///
    /// # Errors
    /// The folder has the results of another sweep, or cannot be written.
    pub fn begin(&self, folder: &Path) -> Result<()> {
        let points = folder.join(POINTS);
        fs::create_dir_all(&points).with_context(|| format!("cannot create {}", points.display()))?;
        if folder.join(DESCRIPTION).exists() {
            if Description::read(folder)? != self.description {
                return Err(anyhow!(
                    "{} has the results of another sweep: the scenario, a configuration, a setting or the program has \
                     changed since; remove the folder, or write to another with --out",
                    folder.display()
                ));
            }
            return Ok(());
        }
        write_whole(&folder.join(DESCRIPTION), &serde_json::to_string_pretty(&self.description)?)
    }
}

/// The folder of the results.
pub fn folder_of(file: &Path, out: Option<&Path>) -> PathBuf {
    out.map_or_else(|| file.with_extension("sweep"), Path::to_path_buf)
}

/// Adds all settings of a scenario, and what its files hold, to a hash. FNV-1a, 64 bits, as the
/// hash of the standard library may change.
fn add_to_hash(hash: u64, scenario: &Scenario) -> u64 {
    let mut scenario = scenario.clone();
    scenario.warnings = config::ConfigErrors::default(); // they have paths
    add_text(hash, &format!("{scenario:?}"))
}

fn add_text(hash: u64, text: &str) -> u64 {
    text.bytes().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn point_file(folder: &Path, point: usize) -> PathBuf {
    folder.join(POINTS).join(format!("{point:06}.json"))
}

/// True if a point has been run.
pub fn is_done(folder: &Path, point: usize) -> bool {
    point_file(folder, point).exists()
}

/// Writes the file of a point.
///
/// # Errors
/// It cannot be written.
pub fn write_point(folder: &Path, file: &PointFile) -> Result<()> {
    write_whole(&point_file(folder, file.point), &serde_json::to_string(file)?)
}

/// Reads the file of a point; `None` if it is missing.
///
/// # Errors
/// It cannot be read.
pub fn read_point(folder: &Path, point: usize) -> Result<Option<PointFile>> {
    let file = point_file(folder, point);
    if !file.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let read = serde_json::from_str(&text);
    let point: PointFile =
        read.with_context(|| format!("{} is no point of a sweep: remove it", file.display()))?;
    if !point.rows.iter().all(Row::is_whole) {
        return Err(anyhow!(
            "{} has the metrics of another version of sluice: run the sweep again, into another folder with --out",
            file.display()
        ));
    }
    Ok(Some(point))
}

/// Writes a file so that it is there as a whole, or not at all.
///
/// # Errors
/// It cannot be written.
pub fn write_whole(file: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(bytes.as_ref())?;
        new.as_file().sync_all()?;
        // Readable to other users of the folder, as other files are.
        use std::os::unix::fs::PermissionsExt as _;
        new.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
        new.persist(file)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_combination() {
        let list = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        let description = Description {
            version: String::new(),
            fingerprint: String::new(),
            title: String::new(),
            keys: list(&["a", "b"]),
            values: vec![list(&["1", "2"]), list(&["x", "y", "z"])],
            seeds: vec![7, 8],
        };
        assert_eq!(description.point_count(), 12);
        let all: Vec<String> = (0..12)
            .map(|point| {
                let (values, seed) = description.point(point);
                format!("{}{seed}", values.concat())
            })
            .collect();
        let expected = ["1x7", "1x8", "1y7", "1y8", "1z7", "1z8", "2x7", "2x8", "2y7", "2y8", "2z7", "2z8"];
        assert_eq!(all, expected);
    }
}
