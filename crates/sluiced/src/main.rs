//! `sluiced`, the daemon: reads a configuration, opens the ports, runs the poll loop on its own
//! core, and serves the control API from another thread until it is stopped.
#![forbid(unsafe_code)]

mod capabilities;
mod capture;
mod config_file;
mod control_loop;
mod control_socket;
mod event_log;
mod flight_recorder;
mod host_settings;
mod lldp;
mod log;
mod loop_threads;
mod pfc_probe;
mod ports;
mod service;
mod stall_check;
mod stall_guard;
mod startup;
mod telemetry_events;
mod totals;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use config::Config;
use config_file::ConfigFileError;
use log::{Format, Log};
use startup::DaemonEnd;

/// Exit code if the file is wrong or cannot be read.
const EXIT_BAD_FILE: u8 = 2;
/// Exit code that a shell reports for a process ended by SIGINT.
const EXIT_FORCED: u8 = 130;

/// A lossless Ethernet switch on the network interfaces of this machine.
#[derive(Parser)]
#[command(name = "sluiced", version, max_term_width = 100, after_long_help = AFTER_HELP)]
struct Arguments {
    /// The configuration: which ports, how fast, which priorities are no-drop.
    #[arg(long, value_name = "FILE", required_unless_present = "manual")]
    config: Option<PathBuf>,
    /// Only read FILE, and report errors and what is not lossless.
    #[arg(long)]
    check: bool,
    /// Start only if all interfaces are there and up. Without it, the port of one that is not comes
    /// up later, with its interface.
    #[arg(long)]
    strict: bool,
    /// What to log: error, warn, info, debug or trace, or a list as in sluiced=debug,xdp=trace
    /// [default: $RUST_LOG, or info].
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// How to log: text for people (with priorities, if standard error is the journal), or json, an
    /// object a line, for programs.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    log_format: Format,
    /// Print the manual page and end.
    #[arg(long, hide = true, exclusive = true)]
    manual: bool,
}

const AFTER_HELP: &str = "\
It logs to standard error; `sluiced is ready` means that frames are forwarded. SIGINT or SIGTERM stops it: it forwards \
no more of what comes in, lets its queues drain and prints totals on standard output. A second signal ends \
it at once. SIGHUP, or `sluice reload`, makes it read FILE again and apply it, whole or not at all. Look into it with \
`sluice show`.

Exit codes: 0 stopped by a signal (or the file is right), 1 it could not start or go on, 2 the file is wrong.";

fn main() -> ExitCode {
    if let Some(code) = host_settings::restorer::run(std::env::args_os()) {
        return code;
    }
    config::draw_errors_unwrapped();
    let arguments = Arguments::parse();
    if arguments.manual {
        return print_manual();
    }
    let Some(file) = &arguments.config else { return ExitCode::from(EXIT_BAD_FILE) }; // clap requires it
    let log = match Log::to_stderr(arguments.log_level.as_deref(), arguments.log_format) {
        Ok(log) => log,
        Err(problem) => {
            eprintln!("sluiced: {problem}");
            return ExitCode::from(EXIT_BAD_FILE);
        }
    };
    let Some((config, text)) = read(file) else { return ExitCode::from(EXIT_BAD_FILE) };
    if arguments.check {
        let ports = config.interfaces.len();
        let printed = writeln!(std::io::stdout(), "{}: right, {ports} ports", file.display());
        if let Err(error) = printed {
            eprintln!("sluiced: cannot write to standard output: {error}");
            return ExitCode::FAILURE;
        }
        if !config.warnings.list().is_empty() {
            eprintln!("{:?}", miette::Report::new(config.warnings));
        }
        return ExitCode::SUCCESS;
    }
    config_file::log_warnings(&config);
    let code = match startup::run((config, &text), file, arguments.strict, &log) {
        Ok(DaemonEnd::Stopped) => ExitCode::SUCCESS,
        Ok(DaemonEnd::Forced) => ExitCode::from(EXIT_FORCED),
        Err(error) => {
            log.log(&format!("sluiced: {error:#}"));
            ExitCode::FAILURE
        }
    };
    log.flush();
    code
}

/// Prints the manual page, for packages.
fn print_manual() -> ExitCode {
    let page = clap_mangen::Man::new(<Arguments as clap::CommandFactory>::command()).section("8");
    match page.render(&mut std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Reads the file. If it is wrong, prints the errors with line and column and returns `None`.
fn read(file: &Path) -> Option<(Config, String)> {
    match config_file::read_at_start(file) {
        Ok(read) => return Some(read),
        Err(ConfigFileError::Unreadable(why)) => eprintln!("sluiced: {why}"),
        Err(ConfigFileError::Mistakes(mistakes)) => eprintln!("{:?}", miette::Report::new(mistakes)),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
