//! The `sluice` command: what a switch is doing, and the hosts that a lossless network on one machine needs.
#![forbid(unsafe_code)]

mod show;
mod socket;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks into a running Sluice switch, and plays the hosts on its ports.
#[derive(Parser)]
#[command(name = "sluice", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Show what a running switch counts: ports, queues, buffers, PFC.
    Show(show::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Show(arguments) => show::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS, // `sluice show … | head` has seen enough
        Err(error) => {
            eprintln!("sluice: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
