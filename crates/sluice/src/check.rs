//! `sluice check`: what is wrong with configuration files, and what is right but cannot keep a no-drop priority lossless.
//! The rules are the `config` crate's; nothing is started.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use config::reader::too_long;
use config::{Config, Mistake, Mistakes};
use serde::Serialize;

use crate::output;
use crate::text::{self, Text};

/// With --strict: there are warnings.
const EXIT_WARNINGS: u8 = 1;
/// A file is wrong, or cannot be read, or standard output cannot be written.
const EXIT_WRONG: u8 = 2;

/// Which files, and how to say it.
#[derive(Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Arguments {
    /// Configurations of sluiced.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON: a list of all mistakes and warnings.
    #[arg(long)]
    json: bool,
    /// Exit with 1 if there are warnings.
    #[arg(long)]
    strict: bool,
}

/// Lines of at most 99 characters: clap would break longer ones at 100.
const AFTER_HELP: &str = "\
Files are read and judged; nothing is started.

    sluice check config/first.toml
    sluice check --strict --json config/*.toml

sluiced refuses a file with a mistake. It takes one with warnings: its thresholds contradict each
other, or what the file says of cables and frames, so that priorities may lose frames which must
not. Mistakes and warnings go to standard error, with the lines of the file.

JSON: file, severity (error, warning), line and column (from 1; null: the file cannot be read),
setting (empty: the whole file), message, cure (null: none is known).

Exit codes: 0 all files are right, 1 with --strict: there are warnings, 2 a file is wrong (or
standard output cannot be written).";

/// Prints what there is to say.
pub fn run(arguments: &Arguments) -> ExitCode {
    let verdicts: Vec<Verdict> = arguments.files.iter().map(|file| Verdict::of(file)).collect();
    let printed =
        if arguments.json { print_json(&verdicts) } else { verdicts.iter().try_for_each(Verdict::print) };
    match printed {
        // Whoever closes standard output has seen enough; the exit code still tells.
        Err(error) if !output::is_broken_pipe(&error) => {
            eprintln!("sluice: {error:#}");
            ExitCode::from(EXIT_WRONG)
        }
        _ => exit_code(&verdicts, arguments.strict),
    }
}

/// A file, and what became of it.
struct Verdict {
    name: String,
    outcome: Outcome,
}

enum Outcome {
    Right(Box<Config>),
    Wrong(Mistakes),
    Unreadable(io::Error),
}

impl Verdict {
    fn of(file: &Path) -> Self {
        let name = file.display().to_string();
        let outcome = match text::read(file) {
            Err(error) => Outcome::Unreadable(error),
            Ok(Text::TooLong(bytes)) => Outcome::Wrong(too_long(&name, bytes)),
            Ok(Text::Whole(text)) => match config::parse(&name, &text) {
                Ok(config) => Outcome::Right(Box::new(config)),
                Err(mistakes) => Outcome::Wrong(mistakes),
            },
        };
        Self { name, outcome }
    }

    /// For people.
    fn print(&self) -> Result<()> {
        match &self.outcome {
            Outcome::Right(config) => {
                output::print(&format!("{}: right, {} ports", self.name, config.interfaces.len()))?;
                if !config.warnings.list().is_empty() {
                    eprintln!("{:?}", miette::Report::new(config.warnings.clone()));
                }
            }
            Outcome::Wrong(mistakes) => eprintln!("{:?}", miette::Report::new(mistakes.clone())),
            Outcome::Unreadable(error) => eprintln!("sluice: cannot read {}: {error}", self.name),
        }
        Ok(())
    }

    /// For programs.
    fn json(&self) -> Vec<Message<'_>> {
        match &self.outcome {
            Outcome::Right(config) => self.all("warning", &config.warnings),
            Outcome::Wrong(mistakes) => self.all("error", mistakes),
            Outcome::Unreadable(error) => vec![Message {
                file: &self.name,
                severity: "error",
                line: None,
                column: None,
                setting: "",
                message: format!("cannot read it: {error}"),
                cure: None,
            }],
        }
    }

    fn all<'m>(&'m self, severity: &'static str, mistakes: &'m Mistakes) -> Vec<Message<'m>> {
        let message = |mistake: &'m Mistake| Message {
            file: &self.name,
            severity,
            line: Some(mistake.line),
            column: Some(mistake.column),
            setting: &mistake.setting,
            message: mistake.what.clone(),
            cure: mistake.cure.as_deref(),
        };
        mistakes.list().iter().map(message).collect()
    }
}

/// A mistake or a warning.
#[derive(Serialize)]
struct Message<'m> {
    file: &'m str,
    severity: &'static str,
    line: Option<usize>,
    column: Option<usize>,
    setting: &'m str,
    message: String,
    cure: Option<&'m str>,
}

fn print_json(verdicts: &[Verdict]) -> Result<()> {
    let messages: Vec<Message> = verdicts.iter().flat_map(Verdict::json).collect();
    output::print(&output::json(&messages, true)?)
}

fn exit_code(verdicts: &[Verdict], strict: bool) -> ExitCode {
    let has_warnings = |verdict: &Verdict| match &verdict.outcome {
        Outcome::Right(config) => !config.warnings.list().is_empty(),
        Outcome::Wrong(_) | Outcome::Unreadable(_) => false,
    };
    if verdicts.iter().any(|verdict| !matches!(verdict.outcome, Outcome::Right(_))) {
        ExitCode::from(EXIT_WRONG)
    } else if strict && verdicts.iter().any(has_warnings) {
        ExitCode::from(EXIT_WARNINGS)
    } else {
        ExitCode::SUCCESS
    }
}
