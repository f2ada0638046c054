//! `sluice check`: reports errors in configuration files, and settings that are valid but cannot
//! keep a no-drop priority lossless. The rules are in the `config` crate; nothing is started.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use config::read::toml_document::too_long;
use config::{Config, ConfigError, ConfigErrors, DEFAULT_MTU_BYTES, Headroom, spell_time};
use schemars::JsonSchema;
use serde::Serialize;
use switch::{PortSettings, SwitchSettings};
use xdp::{OffloadWarning, PortConfig};

use crate::output;
use crate::read_file::{self, Text};
use crate::socket::Daemon;
use crate::stall::{Stall, seconds};

/// Exit code with --strict if there are warnings.
const EXIT_WARNINGS: u8 = 1;
/// Exit code if a file is invalid or unreadable, or standard output cannot be written.
const EXIT_WRONG: u8 = 2;

/// The remedy for headroom that lasts too short.
const CURE: &str = "`sluice headroom --fix FILE` writes a sufficient value";

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
    /// Without a daemon that reports for how long its loop has stalled, measure that with a loop
    /// that spins here for this time.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = seconds)]
    measured: Option<Duration>,
    #[command(flatten)]
    daemon: Daemon,
}

/// Lines of at most 99 characters: clap would break longer ones at 100.
const AFTER_HELP: &str = "\
Files are read and checked; nothing is started.

    sluice check config/first.toml
    sluice check --strict --json config/*.toml

sluiced rejects a file with an error. It accepts one with warnings: its thresholds contradict each
other, or its settings of cables and frames, so that no-drop priorities may lose frames.
Errors and warnings go to standard error, with the lines of the file.

For a valid file it reports the sizes of its buffer, and for how long the headroom of each no-drop
priority lasts at its port's speed if the peer does not stop: frames may be lost if our loop
stalls for longer, whatever the cable is. The longest stall comes from the daemon that --socket
names, or from the running one if it has this file; with --measured, and without either, it is
measured here. Headroom that lasts shorter causes a warning.

    sluice check --measured lab.toml

JSON: file, severity (error, warning, note), line and column (from 1; null: no location in the
file), setting (empty: the whole file), message, cure (null: none is known, or needed).

Exit codes: 0 all files are right, 1 with --strict: there are warnings, 2 a file is wrong (or
standard output cannot be written).";

/// Checks the files and prints the results.
pub fn run(arguments: &Arguments) -> ExitCode {
    let stall = match stall(arguments) {
        Ok(stall) => stall,
        Err(error) => {
            eprintln!("sluice: {error:#}");
            return ExitCode::from(EXIT_WRONG);
        }
    };
    let verdicts: Vec<FileCheck> =
        arguments.files.iter().map(|file| FileCheck::of(file, stall.as_ref())).collect();
    let printed =
        if arguments.json { print_json(&verdicts) } else { verdicts.iter().try_for_each(FileCheck::print) };
    match printed {
        // A reader that closes standard output early is no error; the exit code still reports the
        // result.
        Err(error) if !output::is_broken_pipe(&error) => {
            eprintln!("sluice: {error:#}");
            ExitCode::from(EXIT_WRONG)
        }
        _ => exit_code(&verdicts, arguments.strict),
    }
}

/// Returns how long a loop stalls, as far as that is known.
fn stall(arguments: &Arguments) -> Result<Option<Stall>> {
    match arguments.measured {
        Some(spin) => Stall::measure(&arguments.daemon, spin).map(Some),
        None => Stall::known(&arguments.daemon, &arguments.files),
    }
}

/// Result of the check of a file.
struct FileCheck {
    name: String,
    outcome: CheckResult,
    /// Properties of the buffer of a valid file.
    notes: Vec<Finding>,
    /// Headroom that lasts shorter than a loop stalls.
    short: Vec<Finding>,
    /// Notes on existing interfaces (MTUs that differ, settings that harm frames), and on short
    /// pauses.
    links: Vec<Finding>,
}

/// A note on a setting, without its position in the file.
struct Finding {
    setting: String,
    text: String,
}

enum CheckResult {
    Valid(Box<Config>),
    Invalid(ConfigErrors),
    Unreadable(io::Error),
}

impl FileCheck {
    fn of(file: &Path, stall: Option<&Stall>) -> Self {
        let name = file.display().to_string();
        let outcome = match read_file::read(file) {
            Err(error) => CheckResult::Unreadable(error),
            Ok(Text::TooLong(bytes)) => CheckResult::Invalid(too_long(&name, bytes)),
            Ok(Text::Whole(text)) => match config::parse_for_daemon(&name, &text) {
                Ok(config) => CheckResult::Valid(Box::new(config)),
                Err(mistakes) => CheckResult::Invalid(mistakes),
            },
        };
        let (mut notes, mut short, mut links) = (Vec::new(), Vec::new(), Vec::new());
        if let CheckResult::Valid(config) = &outcome {
            notes = self::notes(config, stall);
            short = stall.map_or(Vec::new(), |stall| self::insufficient(config, stall));
            links = mtus(config);
            links
                .extend(written_mtus(config).into_iter().chain(warnings(config)).chain(short_pauses(config)));
        }
        Self { name, outcome, notes, short, links }
    }

    /// Prints the result as text.
    fn print(&self) -> Result<()> {
        match &self.outcome {
            CheckResult::Valid(config) => {
                let warnings = config.warnings.list().len() + self.links.len() + self.short.len();
                let right = match warnings {
                    0 => "right".to_owned(),
                    1 => "accepted with 1 warning".to_owned(),
                    several => format!("accepted with {several} warnings"),
                };
                let ports = config.interfaces.len();
                let plural = if ports == 1 { "" } else { "s" };
                output::print(&format!("{}: {right}, {ports} port{plural}", self.name))?;
                self.notes.iter().try_for_each(|note| output::print(&format!("  {}", note.text)))?;
                if !config.warnings.list().is_empty() {
                    eprintln!("{:?}", miette::Report::new(config.warnings.clone()));
                }
                self.links.iter().for_each(|note| eprintln!("{}: warning: {}", self.name, note.text));
                self.short.iter().for_each(|note| eprintln!("{}: warning: {}; {CURE}", self.name, note.text));
            }
            CheckResult::Invalid(mistakes) => eprintln!("{:?}", miette::Report::new(mistakes.clone())),
            CheckResult::Unreadable(error) => eprintln!("sluice: cannot read {}: {error}", self.name),
        }
        Ok(())
    }

    /// Returns the result for JSON.
    fn json(&self) -> Vec<Message<'_>> {
        match &self.outcome {
            CheckResult::Valid(config) => {
                let mut messages = self.all("warning", &config.warnings);
                messages.extend(self.links.iter().map(|note| self.note("warning", note, None)));
                messages.extend(self.short.iter().map(|note| self.note("warning", note, Some(CURE))));
                messages.extend(self.notes.iter().map(|note| self.note("note", note, None)));
                messages
            }
            CheckResult::Invalid(mistakes) => self.all("error", mistakes),
            CheckResult::Unreadable(error) => vec![Message {
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

    fn note<'m>(&'m self, severity: &'static str, note: &'m Finding, cure: Option<&'m str>) -> Message<'m> {
        let Finding { setting, text } = note;
        Message { file: &self.name, severity, line: None, column: None, setting, message: text.clone(), cure }
    }

    fn all<'m>(&'m self, severity: &'static str, mistakes: &'m ConfigErrors) -> Vec<Message<'m>> {
        let message = |mistake: &'m ConfigError| Message {
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

/// Returns the properties of a file's buffer if it has a preset, or priorities that need headroom.
fn notes(config: &Config, stall: Option<&Stall>) -> Vec<Finding> {
    let headrooms = config::headrooms(&active(config));
    if config.preset.is_none() && headrooms.is_empty() {
        return Vec::new();
    }
    let buffer = &config.switch.buffer;
    let preset = config.preset.map_or(String::new(), |name| format!(" (preset {name})"));
    let text = format!(
        "buffer{preset}: {} cells of {} bytes: {} fixed, {} shared, {} headroom",
        buffer.total_cells,
        buffer.cell_bytes,
        buffer.fixed_cells,
        buffer.shared_cells(),
        buffer.headroom_cells
    );
    let of_buffer = Finding { setting: "buffer".to_owned(), text };
    let of_ports = headrooms.iter().map(|headroom| finding_of(headroom, judged(config, headroom)));
    let of_loop = stall.filter(|_| !headrooms.is_empty()).map(|stall| Finding {
        setting: "dataplane".to_owned(),
        text: format!("a loop stalls for {} ({})", spell_time(stall.ns), stall.source),
    });
    let of_process = stopped(config, &headrooms);
    std::iter::once(of_buffer).chain(of_ports).chain(of_loop).chain(of_process).collect()
}

/// Compares headroom with what waits in an RX ring when a stopped process goes on, guard included:
/// nobody has paused the peer meanwhile. `None` if all headroom holds a full ring.
fn stopped(config: &Config, headrooms: &[Headroom]) -> Option<Finding> {
    let frames = PortConfig::default().max_posted;
    let ring_cells = |name: &str| {
        let port = config.switch.ports.iter().position(|port| port.name == name)?;
        let frame_bytes = config.links[port].mtu_bytes.unwrap_or(DEFAULT_MTU_BYTES);
        Some(u64::from(frames) * u64::from(frame_bytes.div_ceil(config.switch.buffer.cell_bytes)))
    };
    let is_short =
        |headroom: &&Headroom| ring_cells(&headroom.port).is_some_and(|cells| cells > headroom.cells.into());
    let short = headrooms.iter().find(is_short)?;
    let text = format!(
        "while the whole process is stopped (SIGSTOP, a suspended machine) no peer is paused: the RX ring of port {} then \
         fills with up to {frames} frames, {} cells of the longest; what exceeds its headroom ({} cells) and the shared area \
         is lost and reported (no_drop_lost)",
        short.port,
        ring_cells(&short.port)?,
        short.cells
    );
    Some(Finding { setting: "dataplane".to_owned(), text })
}

/// Returns the MTUs that differ, and those that headroom does not cover, of the interfaces that
/// exist in this network namespace.
fn mtus(config: &Config) -> Vec<Finding> {
    let (mut mtus, mut notes) = (Vec::new(), Vec::new());
    let switch = active(config);
    for ((port, interface), link) in switch.ports.iter().zip(&config.interfaces).zip(&config.links) {
        let Ok(facts) = xdp::query(interface) else { continue };
        mtus.push((port.name.as_str(), facts.mtu_bytes));
        let text = config::headroom_mtu_warning(port, link, facts.mtu_bytes);
        notes.extend(text.map(|text| Finding { setting: format!("port.{}.mtu", port.name), text }));
    }
    notes.extend(config::mtu_warning(mtus).map(|text| Finding { setting: "port".to_owned(), text }));
    notes
}

/// Returns a warning if the file writes different MTUs for its ports.
fn written_mtus(config: &Config) -> Option<Finding> {
    let mtus = config.switch.ports.iter().zip(&config.links);
    let mtus: Vec<(&str, u32)> =
        mtus.map(|(port, link)| (port.name.as_str(), link.mtu_bytes.unwrap_or(DEFAULT_MTU_BYTES))).collect();
    let (_, longest) = mtus.iter().max_by_key(|(_, mtu)| mtu)?;
    let shorter: Vec<String> =
        mtus.iter().filter(|(_, mtu)| mtu < longest).map(|(port, mtu)| format!("{port} {mtu}")).collect();
    (!shorter.is_empty()).then(|| Finding {
        setting: "port.mtu".to_owned(),
        text: format!(
            "`mtu` differs ({} instead of {longest}; without the setting it is {DEFAULT_MTU_BYTES}): headroom of these ports \
             is for shorter frames, and a longer one is dropped where it leaves by a port with a smaller MTU (mtu_exceeded), \
             no-drop or not. Write one `mtu` in [port-defaults]",
            shorter.join(", ")
        ),
    })
}

/// Describes headroom, and from where the speed is that it is judged at.
fn judged(config: &Config, headroom: &Headroom) -> String {
    let port = config.switch.ports.iter().find(|port| port.name == headroom.port);
    match port {
        Some(PortSettings { speed_bps: None, link_speed_bps: None, .. }) => {
            format!("{headroom}, which is assumed: the port has no `speed`")
        }
        _ => headroom.to_string(),
    }
}

/// Returns the ports whose pauses are too short for a loop that stalls.
fn short_pauses(config: &Config) -> Vec<Finding> {
    let warning = |port: &PortSettings| {
        let text = config::short_pause_warning(port)?;
        Some(Finding { setting: format!("port.{}.pfc.pause_time", port.name), text })
    };
    active(config).ports.iter().filter_map(warning).collect()
}

/// Returns the settings of the interfaces in this network namespace that harm frames.
fn warnings(config: &Config) -> Vec<Finding> {
    let mut notes = Vec::new();
    for (port, interface) in config.switch.ports.iter().zip(&config.interfaces) {
        let Ok(facts) = xdp::query(interface) else { continue };
        let text =
            |OffloadWarning { setting, harm, cure }| format!("port {}: {setting}: {harm}: {cure}", port.name);
        let setting = format!("port.{}.interface", port.name);
        let found = xdp::warnings(interface, &facts, None).into_iter().map(text);
        notes.extend(found.map(|text| Finding { setting: setting.clone(), text }));
    }
    notes
}

/// Returns the headroom that overflows if a loop stalls once for the time of `stall`.
fn insufficient(config: &Config, stall: &Stall) -> Vec<Finding> {
    let headrooms = config::headrooms(&active(config));
    let short = headrooms.iter().filter(|headroom| headroom.duration_ns < stall.ns);
    let text = |headroom: &Headroom| {
        format!(
            "{}, shorter than a loop stalls, {} ({})",
            judged(config, headroom),
            spell_time(stall.ns),
            stall.source
        )
    };
    short.map(|headroom| finding_of(headroom, text(headroom))).collect()
}

fn finding_of(headroom: &Headroom, text: String) -> Finding {
    Finding { setting: format!("port.{}.pfc.priority", headroom.port), text }
}

/// Returns the settings of the switch as it will run.
fn active(config: &Config) -> SwitchSettings {
    if config.pfc_enabled { config.switch.clone() } else { config.switch.without_pfc() }
}

/// A mistake, a warning or a note.
#[derive(Serialize, JsonSchema)]
pub struct Message<'m> {
    /// The file, as the command line names it.
    file: &'m str,
    /// One of error, warning, note.
    severity: &'static str,
    /// Line in the file, from 1; null if it has no place there.
    line: Option<usize>,
    /// Column in the line, from 1.
    column: Option<usize>,
    /// Full name of the setting; empty if it is about the whole file.
    setting: &'m str,
    /// What is wrong, or known.
    message: String,
    /// The cure; null if none is known, or needed.
    cure: Option<&'m str>,
}

/// Returns what is printed of a file with this text.
#[cfg(test)]
pub fn sample(text: &str) -> serde_json::Value {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    serde_json::to_value(FileCheck::of(file.path(), None).json()).unwrap()
}

fn print_json(verdicts: &[FileCheck]) -> Result<()> {
    let messages: Vec<Message> = verdicts.iter().flat_map(FileCheck::json).collect();
    output::print(&output::json(&messages, true)?)
}

fn exit_code(verdicts: &[FileCheck], strict: bool) -> ExitCode {
    let has_warnings = |verdict: &FileCheck| match &verdict.outcome {
        CheckResult::Valid(config) => {
            !config.warnings.list().is_empty() || !verdict.short.is_empty() || !verdict.links.is_empty()
        }
        CheckResult::Invalid(_) | CheckResult::Unreadable(_) => false,
    };
    if verdicts.iter().any(|verdict| !matches!(verdict.outcome, CheckResult::Valid(_))) {
        ExitCode::from(EXIT_WRONG)
    } else if strict && verdicts.iter().any(has_warnings) {
        ExitCode::from(EXIT_WARNINGS)
    } else {
        ExitCode::SUCCESS
    }
}
