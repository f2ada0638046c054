//! Plots of a run as SVG, each a function of the results alone.

mod chart;
mod completion;
mod occupancy;
mod pauses;
#[cfg(test)]
mod svg;
mod throughput;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sim::Results;

/// Writes the plots that are not empty into an existing folder. Returns the files.
pub fn write(outcome: &Results, folder: &Path) -> Result<Vec<PathBuf>> {
    let plots = [
        ("occupancy.svg", occupancy::occupancy(outcome)?),
        ("pauses.svg", pauses::pauses(outcome)?),
        ("throughput.svg", throughput::throughput(outcome)?),
        ("completion.svg", completion::completion(outcome)?),
    ];
    let mut files = Vec::new();
    for (name, svg) in plots {
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
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::sample;

    #[test]
    fn files_are_written_where_there_is_something_to_draw() {
        let folder = tempfile::tempdir().unwrap();
        let names = |files: Vec<PathBuf>| -> Vec<String> {
            files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        let files = write(&sample::incast(), folder.path()).unwrap();
        assert_eq!(names(files), ["occupancy.svg", "pauses.svg", "throughput.svg", "completion.svg"]);
        assert_eq!(names(write(&sample::nothing(), folder.path()).unwrap()), [""; 0]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the old ones are gone");
    }
}
