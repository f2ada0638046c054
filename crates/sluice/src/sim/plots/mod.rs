//! Plots of a run as SVG, each a function of the results alone.

mod chart;
mod completion;
mod occupancy;
mod pauses;
mod queues;
#[cfg(test)]
mod svg;
mod throughput;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sim::Results;

/// The plots that were written, and those that were not: name and reason.
#[derive(Default)]
pub struct Written {
    pub files: Vec<PathBuf>,
    pub missing: Vec<(&'static str, &'static str)>,
}

/// Writes the plots that are not empty into an existing folder.
///
/// # Errors
/// A file cannot be written.
pub fn write(outcome: &Results, folder: &Path) -> Result<Written> {
    let plots = [
        (
            "occupancy.svg",
            occupancy::occupancy(outcome)?,
            "no no-drop priority group held cells outside its reservation",
        ),
        ("pauses.svg", pauses::pauses(outcome)?, "nothing was paused"),
        ("throughput.svg", throughput::throughput(outcome)?, "nothing was sent"),
        (
            "completion.svg",
            completion::completion(outcome)?,
            "no message arrived: traffic with `bytes` has messages",
        ),
        ("queues.svg", queues::queues(outcome)?, "no lengths: write queue_lengths = true into the scenario"),
    ];
    let Written { mut files, mut missing } = Written::default();
    for (name, svg, without) in plots {
        if svg.is_none() {
            missing.push((name, without));
        }
        let file = folder.join(name);
        match svg {
            Some(svg) => {
                fs::write(&file, svg).with_context(|| format!("cannot write {}", file.display()))?;
                files.push(file);
            }
            // A plot of an earlier run must not be taken for one of this run.
            None if file.exists() => {
                fs::remove_file(&file)
                    .with_context(|| format!("cannot remove the old {}", file.display()))?;
            }
            None => {}
        }
    }
    Ok(Written { files, missing })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::sample;

    #[test]
    fn files_are_written_where_there_is_something_to_draw() {
        let folder = tempfile::tempdir().unwrap();
        let names = |written: Written| -> Vec<String> {
            written
                .files
                .iter()
                .map(|file| file.file_name().unwrap().to_string_lossy().into_owned())
                .collect()
        };
        let files = write(&sample::incast(), folder.path()).unwrap();
        let all = ["occupancy.svg", "pauses.svg", "throughput.svg", "completion.svg", "queues.svg"];
        assert!(files.missing.is_empty());
        assert_eq!(names(files), all);
        let nothing = write(&sample::nothing(), folder.path()).unwrap();
        assert_eq!(nothing.missing.iter().map(|(name, _)| *name).collect::<Vec<_>>(), all);
        assert_eq!(names(nothing), [""; 0]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the old ones are gone");
    }
}
