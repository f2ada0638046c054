//! `sluice top`: the ports of a switch live on the terminal, or those of a recording.
//!
//! One task waits for what comes next: a key, a snapshot, events. [`app::App`] applies it and draws
//! what is shown; it knows neither the terminal nor the daemon.

mod app;
mod bar;
mod overview;
mod port_screen;
mod rates;
mod snapshot_source;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use host::units::duration_ns;
use ratatui::crossterm::event::{self, Event};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::exit::misuse;
use crate::socket::Daemon;
use app::App;
use snapshot_source::{DaemonSource, Recording, Source};

/// Watch ports, queues and pauses live; look into one port; freeze a moment.
#[derive(Args)]
#[command(after_help = "\
Keys: ↑ ↓ choose a port, Enter opens it, Esc goes back, s sorts by the next column, r reverses,
space freezes, ? explains the columns, q ends.")]
pub struct Arguments {
    /// Show this recording at the pace at which it was made, instead of a running switch.
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    recording: Option<PathBuf>,
    /// Time between two pictures, 50ms at least; rates and percentages are of this time.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration_ns)]
    interval: u64,
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs until the user ends it.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.interval < 50_000_000 {
        return misuse("--interval takes 50ms at least");
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return misuse(
            "`sluice top` needs a terminal; `sluice show ports --watch` prints lines, and with --json objects",
        );
    }
    let interval = Duration::from_nanos(arguments.interval);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (source, title) = match &arguments.recording {
            Some(file) => (
                Source::Recording(Box::new(Recording::open(file, interval)?)),
                format!("recording {}", file.display()),
            ),
            None => {
                let (live, title) = DaemonSource::connect(&arguments.daemon.socket()?, interval).await?;
                (Source::Live(Box::new(live)), title)
            }
        };
        let mut terminal = ratatui::try_init().context("the terminal")?;
        let ended = main_loop(&mut terminal, source, App::new(title)).await;
        ratatui::restore();
        ended
    })
}

/// Draws, and applies what comes, until the user ends it.
async fn main_loop(terminal: &mut ratatui::DefaultTerminal, mut source: Source, mut app: App) -> Result<()> {
    let mut keys = keys();
    let mut terminate = signal(SignalKind::terminate())?;
    while !app.is_done() {
        terminal.draw(|frame| app.draw(frame))?;
        tokio::select! {
            key = keys.recv() => match key {
                Some(Event::Key(key)) => app.on_key(key),
                Some(_) => {} // another size: drawn again
                None => break,
            },
            update = source.next() => app.apply(update?),
            _ = terminate.recv() => break,
        }
    }
    Ok(())
}

/// Reads the terminal's events on a thread, which ends with the process.
fn keys() -> mpsc::UnboundedReceiver<Event> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                break;
            }
        }
    });
    receiver
}
