//! The `sluice` command: shows the state of a switch, controls it, checks its configuration,
//! simulates networks, and runs the hosts that a lossless network on one machine needs.
#![forbid(unsafe_code)]

mod check;
mod collector;
mod commands;
mod events;
mod exit;
mod headroom;
mod headroom_fix;
mod new_file;
mod nic;
mod output;
mod read_file;
mod record;
mod show;
#[cfg(test)]
mod show_fixture;
mod sim;
mod socket;
mod stall;
mod telemetry;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Shows and controls a running Sluice switch, simulates networks of it, and runs test hosts on its
/// ports.
#[derive(Parser)]
#[command(name = "sluice", version, max_term_width = 100, after_help = exit::HELP)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Show what a running switch counts: ports, queues, buffers, PFC.
    Show(show::Arguments),
    Reload(commands::Reload),
    Pfc(commands::Pfc),
    Port(commands::Port),
    Clear(commands::Clear),
    Events(events::Arguments),
    Record(record::Record),
    Replay(record::Arguments),
    /// Check configuration files: what is wrong, and what cannot be lossless.
    Check(check::Arguments),
    /// How much headroom a lossless priority needs, and the lines of configuration that give it.
    Headroom(headroom::Arguments),
    /// Run a network of switches in virtual time: the daemon's own switch, from its own
    /// configuration files.
    Sim(sim::Arguments),
    Telemetry(telemetry::Arguments),
    Collector(collector::Arguments),
    Nic(nic::Arguments),
    /// Run a host on an interface: send flows, honor PFC, check what arrives.
    Host(Box<host::Args>),
}

fn main() -> ExitCode {
    log_to_stderr();
    let arguments = std::env::args_os().map(|argument| match argument.to_str() {
        Some("-nz") => "--nonzero".into(), // as SONiC has it
        _ => argument,
    });
    let done = match Arguments::parse_from(arguments).task {
        Task::Show(arguments) => show::run(&arguments),
        Task::Reload(arguments) => commands::reload(&arguments),
        Task::Pfc(arguments) => commands::pfc(&arguments),
        Task::Port(arguments) => commands::port(&arguments),
        Task::Clear(arguments) => commands::clear(&arguments),
        Task::Events(arguments) => events::run(&arguments),
        Task::Record(arguments) => record::record(&arguments),
        Task::Replay(arguments) => record::replay(&arguments),
        Task::Check(arguments) => return check::run(&arguments),
        Task::Headroom(arguments) => headroom::run(&arguments),
        Task::Sim(arguments) => return sim::run(&arguments),
        Task::Telemetry(arguments) => telemetry::run(&arguments),
        Task::Collector(arguments) => collector::run(&arguments),
        Task::Nic(arguments) => nic::run(&arguments),
        Task::Host(arguments) => host::run(*arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of `sluice show … | head` is done.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluice: {error:#}");
            ExitCode::from(exit::code(&error))
        }
    }
}

/// Logs warnings, or the levels of RUST_LOG.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let colors = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colors).init();
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
