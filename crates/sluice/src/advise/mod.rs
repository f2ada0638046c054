//! `sluice advise`: searches thresholds with which a scenario loses no no-drop frame and pauses
//! rarely, by running it.
//!
//! Rule: three steps, each of which keeps the best of its runs. While no-drop frames are lost, the
//! headroom doubles, up to eight times. Then XOFF takes parts of the shared area, and then, if
//! queues mark, ECN parts of XOFF. Of two runs, the one that loses fewer no-drop frames is better;
//! else the one with less time in XOFF, unless its throughput is more than 2 % below that of the
//! first run that lost so few; else what was there before stays.

mod search;
mod settings;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::output;
use crate::sim::format::{rate, time};
use crate::sim::input::{self, RunError};
use crate::sim::overrides::Override;
use crate::sim::time_ns;
use search::{Measured, Trial};
use settings::FileLines;

/// Exit code if no-drop frames are lost with the best settings, too.
const EXIT_LOST: u8 = 1;
/// Exit code if the scenario is invalid, or a file cannot be read.
const EXIT_WRONG: u8 = 2;

/// Search XOFF, headroom and ECN limits that make a scenario lossless and PFC rare.
#[derive(Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Arguments {
    /// The scenario.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Another value for a setting, as of `sluice sim`. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// End each run earlier than the scenario says, as 5ms or 1.5us.
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    duration: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Lines of at most 99 characters: clap would break longer ones at 100.
const AFTER_HELP: &str = "\
The scenario runs as it is, and then with other thresholds of its no-drop priorities: at most 15
runs. All configurations that it names are changed alike, each in proportion to its own buffer.
What is found holds for this traffic. For cables and frames, `sluice headroom` computes the worst
case, which headroom should not be below. In a scenario with `warmup`, time in XOFF, episodes and
throughput count from its end on, and lost frames in the whole run.

JSON: title, lossless, files[] (file, lines[]: what to write into it), before and after
(no_drop_lost, xoff_ns, xoff_episodes, headroom_peak_cells, throughput_bps), trials[] in their
order: step, choice, settings[], kept, refused (why it could not run, or null), measured (as
before; null if refused).

Exit codes: 0 nothing no-drop is lost with these settings, 1 some frames are, 2 the scenario is
wrong, a file cannot be read, or nothing could be tried.";

/// What was found, as `--json` prints it.
#[derive(Serialize, JsonSchema)]
pub struct Advice {
    /// Title of the scenario.
    title: String,
    /// True if no no-drop frame is lost with what was found.
    lossless: bool,
    /// What to write into each configuration.
    files: Vec<FileLines>,
    /// The run of the scenario as it is.
    before: Measured,
    /// The run with what was found.
    after: Measured,
    /// All runs, in their order.
    trials: Vec<Trial>,
}

/// Runs the search and prints what was found.
pub fn run(arguments: &Arguments) -> ExitCode {
    match advise(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_LOST),
        Err(refusal) => {
            refusal.print();
            ExitCode::from(EXIT_WRONG)
        }
    }
}

/// True if nothing no-drop is lost with what was found.
fn advise(arguments: &Arguments) -> Result<bool, RunError> {
    let found = search::search(&arguments.file, &arguments.set, arguments.duration)?;
    let advice = Advice {
        title: found.title,
        lossless: found.after.no_drop_lost == 0,
        files: found.files,
        before: found.before,
        after: found.after,
        trials: found.trials,
    };
    let text = if arguments.json { output::json(&advice, true)? } else { text(&advice) };
    match output::print(&text) {
        Err(error) if !output::is_broken_pipe(&error) => Err(error.into()),
        _ => Ok(advice.lossless),
    }
}

/// Formats the advice: what to write, and the evidence.
fn text(advice: &Advice) -> String {
    let mut text = format!("{}\n", advice.title);
    if advice.files.iter().all(|file| file.lines.is_empty()) {
        text += "\nThe thresholds are best as they are, among those that were tried.\n";
    }
    for FileLines { file, lines } in advice.files.iter().filter(|file| !file.lines.is_empty()) {
        let of = if input::is_sonic(file) {
            format!(", as `sluice import sonic {file}` prints it")
        } else {
            String::new()
        };
        let _ = write!(text, "\n{file}{of}:\n\n    {}\n", lines.join("\n    "));
    }
    text += "\nStep        Lost no-drop  Time in XOFF  Episodes   Arrived  Choice\n";
    for trial in &advice.trials {
        let mark = if trial.kept { '✔' } else { ' ' };
        let _ = match &trial.measured {
            Some(measured) => writeln!(
                text,
                "{mark} {:<10}{:>12}  {:>12}  {:>8}  {:>8}  {}",
                trial.step,
                measured.no_drop_lost,
                time(measured.xoff_ns),
                measured.xoff_episodes,
                rate(measured.throughput_bps),
                trial.choice
            ),
            None => writeln!(
                text,
                "{mark} {:<10}{:>12}  {}",
                trial.step,
                "refused",
                trial.refused.as_deref().unwrap_or_default()
            ),
        };
    }
    let runs = advice.trials.iter().filter(|trial| trial.measured.is_some()).count();
    let _ = match advice.lossless {
        true => write!(text, "\n{runs} runs; no no-drop frame is lost."),
        false => write!(
            text,
            "\n{runs} runs; {} no-drop frames are still lost. `sluice sim` shows where.",
            advice.after.no_drop_lost
        ),
    };
    text
}

/// Returns advice with one of everything.
#[cfg(test)]
pub fn sample() -> Advice {
    let measured = Measured::default();
    let trial = |measured: Option<Measured>| Trial {
        step: "XOFF",
        choice: "XOFF = shared / 2".to_owned(),
        settings: vec!["a.toml:x=1".to_owned()],
        kept: measured.is_some(),
        refused: measured.is_none().then(|| "no".to_owned()),
        measured,
    };
    Advice {
        title: "t".to_owned(),
        lossless: true,
        files: vec![FileLines { file: "a.toml".to_owned(), lines: vec!["[a]".to_owned()] }],
        before: measured,
        after: measured,
        trials: vec![trial(Some(measured)), trial(None)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_of_the_help_are_hard_to_read() {
        assert!(AFTER_HELP.lines().all(|line| line.chars().count() <= 99));
    }

    /// Every field of the JSON is named in the help.
    #[test]
    fn the_help_names_what_is_printed() {
        let advice = sample();
        let json = serde_json::to_value(&advice).unwrap();
        let named = |value: &serde_json::Value| {
            value.as_object().unwrap().keys().all(|name| AFTER_HELP.contains(name.as_str()))
        };
        assert!(
            named(&json) && named(&json["before"]) && named(&json["trials"][0]) && named(&json["files"][0])
        );
        let mut advice = advice;
        advice.files[0].file = "a.json".to_owned();
        assert!(text(&advice).contains("a.json, as `sluice import sonic a.json` prints it:\n\n    [a]\n"));
        advice.files[0].file = "a.toml".to_owned();
        let text = text(&advice);
        assert!(text.contains("a.toml:\n\n    [a]\n") && text.ends_with("1 runs; no no-drop frame is lost."));
    }
}
