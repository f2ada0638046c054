//! `sluice check`: what is wrong with configuration files, and what is right but cannot keep a no-drop priority lossless.
//! The rules are the `config` crate's; nothing is started.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use config::{Config, Mistake, Mistakes};
use serde::Serialize;

/// More than the longest file that `config` takes: it refuses what is cut off here.
const MAX_FILE_BYTES: u64 = 2 << 20;
/// With --strict: there are warnings.
const EXIT_WARNINGS: u8 = 1;
/// A file is wrong, or cannot be read.
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

Exit codes: 0 all files are right, 1 with --strict: there are warnings, 2 a file is wrong.";

/// Prints what there is to say.
pub fn run(arguments: &Arguments) -> ExitCode {
    let checked: Vec<Checked> = arguments.files.iter().map(|file| Checked::new(file)).collect();
    // Whoever closes standard output has seen enough; the exit code still tells.
    let _ = if arguments.json { print_json(&checked) } else { checked.iter().try_for_each(Checked::print) };
    exit_code(&checked, arguments.strict)
}

/// A file, and what became of it.
struct Checked {
    name: String,
    outcome: Outcome,
}

enum Outcome {
    Right(Box<Config>),
    Wrong(Mistakes),
    Unreadable(io::Error),
}

impl Checked {
    fn new(file: &Path) -> Self {
        let name = file.display().to_string();
        let outcome = match text(file) {
            Err(error) => Outcome::Unreadable(error),
            Ok(text) => match config::parse(&name, &text) {
                Ok(config) => Outcome::Right(Box::new(config)),
                Err(mistakes) => Outcome::Wrong(mistakes),
            },
        };
        Self { name, outcome }
    }

    /// For people.
    fn print(&self) -> io::Result<()> {
        match &self.outcome {
            Outcome::Right(config) => {
                writeln!(io::stdout(), "{}: right, {} ports", self.name, config.interfaces.len())?;
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
    fn json(&self) -> Vec<Said<'_>> {
        match &self.outcome {
            Outcome::Right(config) => self.all("warning", &config.warnings),
            Outcome::Wrong(mistakes) => self.all("error", mistakes),
            Outcome::Unreadable(error) => vec![Said {
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

    fn all<'m>(&'m self, severity: &'static str, mistakes: &'m Mistakes) -> Vec<Said<'m>> {
        let said = |mistake: &'m Mistake| Said {
            file: &self.name,
            severity,
            line: Some(mistake.line),
            column: Some(mistake.column),
            setting: &mistake.setting,
            message: mistake.what.clone(),
            cure: mistake.cure.as_deref(),
        };
        mistakes.list().iter().map(said).collect()
    }
}

/// The text of a file, or as much of it as `config` refuses to take.
pub fn text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// A mistake or a warning.
#[derive(Serialize)]
struct Said<'m> {
    file: &'m str,
    severity: &'static str,
    line: Option<usize>,
    column: Option<usize>,
    setting: &'m str,
    message: String,
    cure: Option<&'m str>,
}

fn print_json(checked: &[Checked]) -> io::Result<()> {
    let said: Vec<Said> = checked.iter().flat_map(Checked::json).collect();
    let text = serde_json::to_string_pretty(&said)?;
    writeln!(io::stdout(), "{text}")
}

fn exit_code(checked: &[Checked], strict: bool) -> ExitCode {
    let warned = |checked: &Checked| match &checked.outcome {
        Outcome::Right(config) => !config.warnings.list().is_empty(),
        Outcome::Wrong(_) | Outcome::Unreadable(_) => false,
    };
    if checked.iter().any(|checked| !matches!(checked.outcome, Outcome::Right(_))) {
        ExitCode::from(EXIT_WRONG)
    } else if strict && checked.iter().any(warned) {
        ExitCode::from(EXIT_WARNINGS)
    } else {
        ExitCode::SUCCESS
    }
}
