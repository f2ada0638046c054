//! The demo: two hosts send more than one port can carry, half of it on a priority that must not
//! lose a frame.
//!
//! It builds the network in namespaces, runs the real daemon and hosts in it, shows their reports,
//! evaluates them, and removes everything.

mod collector;
mod measurements;
mod network;
mod result_text;
mod text;
mod view;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;

use network::Demo;
use text::Style;
use view::Screen;

/// Shows a lossless incast: two senders, one receiver behind a slower port.
#[derive(Parser)]
struct Arguments {
    /// How long the senders send.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Without priority flow control: what an ordinary switch does.
    #[arg(long)]
    no_pfc: bool,
    /// Only remove what demos and tests left that were killed.
    #[arg(long)]
    sweep: bool,
}

/// Interval between two pictures on a terminal.
const REDRAW: Duration = Duration::from_millis(250);
/// Interval between two lines elsewhere.
const LINE: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    run(&Arguments::parse()).unwrap_or_else(|error| {
        eprintln!("\nThe demo could not go on: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    testbed::require_root()?;
    if arguments.sweep {
        for name in testbed::sweep()? {
            println!("removed {name}, left by a run that was killed");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let terminal = std::io::stdout().is_terminal();
    let style = Style::new(terminal && std::env::var_os("NO_COLOR").is_none());
    let interrupted = testbed::watch_signals()?;

    println!("{}", view::introduction(style, !arguments.no_pfc));
    let mut stage = Demo::build(arguments.seconds, !arguments.no_pfc)?;
    stage.start()?;
    let mut screen = Screen::new(style, terminal);
    let step = if terminal { REDRAW } else { LINE };
    let mut next = Instant::now() + step;
    while stage.is_sending()? && !interrupted.load(Ordering::Relaxed) {
        sleep(next.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)));
        if Instant::now() >= next {
            screen.show(&stage.sample()?);
            next += step;
        }
    }
    if interrupted.load(Ordering::Relaxed) {
        drop(stage);
        println!("interrupted; everything is removed again");
        return Ok(ExitCode::from(130));
    }
    let outcome = stage.end()?;
    let verdict = result_text::assess(&outcome);
    println!("{}", view::verdict(style, &verdict));
    println!("{}", collector::text(style, &outcome.received));
    Ok(if verdict.iter().all(|finding| finding.good) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
