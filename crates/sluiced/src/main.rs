//! `sluiced`, the daemon: reads a configuration, opens the ports, lets the poll loop run on its own core and answers the
//! control API from another thread until it is told to stop.
#![forbid(unsafe_code)]

mod carrier;
mod conductor;
mod file;
mod guard;
mod links;
mod live;
mod machine;
mod orders;
mod ports;
mod recording;
mod report;
mod run;
mod socket;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use config::Config;
use file::Wrong;
use tracing::warn;
use tracing_subscriber::EnvFilter;

/// The file is wrong, or cannot be read.
const EXIT_BAD_FILE: u8 = 2;

/// A lossless Ethernet switch on the network interfaces of this machine.
#[derive(Parser)]
#[command(name = "sluiced", version, max_term_width = 100, after_long_help = AFTER_HELP)]
struct Arguments {
    /// The configuration: which ports, how fast, which priorities are no-drop.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only read FILE and say what is wrong with it, or right but not lossless.
    #[arg(long)]
    check: bool,
    /// What to log: error, warn, info, debug or trace, or a list as in sluiced=debug,xdp=trace
    /// [default: $RUST_LOG, or info].
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

const AFTER_HELP: &str = "\
It logs to standard error; `sluiced is ready` says that frames are forwarded. SIGINT or SIGTERM stops it: it forwards \
no more of what comes in, lets its queues drain and prints totals on standard output. A second signal ends \
it at once. SIGHUP, or `sluice reload`, makes it read FILE again and apply it, whole or not at all. Look into it with \
`sluice show`.

Exit codes: 0 stopped when told to (or the file is right), 1 it could not start or go on, 2 the file is wrong.";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(problem) = log_to_stderr(arguments.log_level.as_deref()) {
        eprintln!("sluiced: {problem}");
        return ExitCode::from(EXIT_BAD_FILE);
    }
    let Some(config) = read(&arguments.config) else { return ExitCode::from(EXIT_BAD_FILE) };
    if arguments.check {
        println!("{}: right, {} ports", arguments.config.display(), config.interfaces.len());
        if !config.warnings.list().is_empty() {
            eprintln!("{:?}", miette::Report::new(config.warnings));
        }
        return ExitCode::SUCCESS;
    }
    config.warnings.to_string().lines().for_each(|warning| warn!("{warning}"));
    match run::run(config, &arguments.config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluiced: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the file; if it is wrong says so, with line and column, and returns nothing.
fn read(file: &Path) -> Option<Config> {
    match file::read(file) {
        Ok(config) => return Some(config),
        Err(Wrong::Unreadable(why)) => eprintln!("sluiced: {why}"),
        Err(Wrong::Mistakes(mistakes)) => eprintln!("{:?}", miette::Report::new(mistakes)),
    }
    None
}

fn log_to_stderr(level: Option<&str>) -> Result<(), String> {
    let from_environment = std::env::var(EnvFilter::DEFAULT_ENV).ok();
    let wanted = level.or(from_environment.as_deref()).filter(|wanted| !wanted.is_empty()).unwrap_or("info");
    let filter = EnvFilter::try_new(wanted).map_err(|error| {
        format!("cannot log at `{wanted}`: {error}; try error, warn, info, debug or trace, or MODULE=LEVEL")
    })?;
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
    Ok(())
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
