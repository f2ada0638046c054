//! `sluice telemetry`: the sensor paths that a switch can report to collectors.

use anyhow::Result;
use clap::{Args, Subcommand};
use config::SensorPath;
use serde_json::json;

use crate::output;

/// Say what a switch can report to collectors.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// List the sensor paths, each with an example of what it reports.
    #[command(after_long_help = "\
A periodic path is sampled and needs an interval; an event path reports when something happens and \
takes none. docs/monitoring/telemetry.md explains the fields.

JSON: an object a path, in a list: path, kind (periodic or event), summary, example.")]
    Paths {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Prints the sensor paths.
pub fn run(arguments: &Arguments) -> Result<()> {
    let Task::Paths { json } = arguments.task;
    output::print(&if json { list()? } else { text() })
}

fn kind(path: SensorPath) -> &'static str {
    if path.is_event() { "event" } else { "periodic" }
}

fn text() -> String {
    let entry = |path: SensorPath| {
        let example = ::telemetry::example(path);
        format!("{} ({})\n  {}\n  {example}", path.name(), kind(path), path.summary())
    };
    SensorPath::ALL.map(entry).join("\n\n")
}

fn list() -> Result<String> {
    let entry = |path: SensorPath| {
        let example: serde_json::Value = serde_json::from_str(&::telemetry::example(path))?;
        let summary = path.summary();
        Ok(json!({ "path": path.name(), "kind": kind(path), "summary": summary, "example": example }))
    };
    output::json(&SensorPath::ALL.into_iter().map(entry).collect::<Result<Vec<_>>>()?, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_paths_are_listed_with_an_example() {
        let (text, list) = (text(), list().unwrap());
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        for (index, path) in SensorPath::ALL.into_iter().enumerate() {
            assert!(text.contains(&format!("{} ({})\n", path.name(), kind(path))), "{text}");
            assert_eq!(list[index]["path"], path.name());
            assert!(list[index]["example"]["Notification"].is_object());
        }
        let page = std::fs::read_to_string("../../docs/monitoring/telemetry.md").unwrap();
        for path in SensorPath::ALL {
            let row = format!("| `{}` |", path.name());
            assert!(page.contains(&row), "docs/monitoring/telemetry.md has {}", path.name());
        }
    }
}
