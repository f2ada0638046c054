//! `sluice show`: fetches snapshots and prints a view of them, as a table for people or as JSON for programs. Each
//! view has a file of its own with both forms.

mod buffers;
mod pfc;
mod ports;
mod queues;
#[cfg(test)]
mod sample;
mod text;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use control::Client;
use control::v1::Snapshot;
use serde::Serialize;

use crate::socket;

/// What to show, and of which switch.
#[derive(Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Arguments {
    /// The view.
    #[arg(value_enum)]
    view: View,
    /// Only this port.
    #[arg(long, value_name = "NAME")]
    port: Option<String>,
    /// Print JSON with every counter; with --watch, one object a line.
    #[arg(long)]
    json: bool,
    /// The daemon's control socket [default: $SLUICE_SOCKET, or the only one in /run/sluice].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Again and again, every so many seconds (0.05 at least); tables then show rates.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1")]
    watch: Option<f64>,
}

/// A view of the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum View {
    /// Frames and bytes of each port, drops by reason, what the kernel lost.
    Ports,
    /// Occupancy, limits, pauses and drops of each egress queue.
    Queues,
    /// Buffer pools and priority groups: reserved, shared, headroom, thresholds.
    Buffers,
    /// PFC of each port and priority, sent and received.
    Pfc,
}

/// Lines of at most 99 characters: clap would break longer ones at 100.
const AFTER_HELP: &str = "\
Counters count since the daemon started; lengths are without FCS. A table leaves out what is all
zero, JSON never does. Names in JSON are snake_case with the unit last and stay what they are:

ports    at_ns, bridge_entries, bridge_full_frames, flood_copies_frames, memory_frames,
         memory_free_frames, memory_in_rings_frames, loop_turns, loop_worst_stall_ns, events_lost,
         ports[]: port, interface, up, speed_bps (0: none), xdp_mode, vlan_tags_restored,
           received_frames, received_bytes, transmitted_frames, transmitted_bytes,
           consumed_frames, consumed_bytes, drops.REASON.frames, drops.REASON.bytes,
           in_flight_peak_bytes, kernel: rx_fill_ring_empty_frames, rx_ring_full_frames,
           rx_dropped_frames, rx_invalid_frames, tx_invalid_frames, tx_kicks, tx_again, tx_busy,
           tx_no_buffers, tx_down
         REASON: malformed, bad_source, reserved_address, filtered, ingress_lossy,
           ingress_no_drop, tail_drop, no_copy, port_down, kernel_lost
queues   at_ns, cell_bytes, queues[]: port, queue, paused, pauses, paused_ns, held_cells,
           held_peak_cells, waiting_frames, threshold_cells (null: none), transmitted_frames,
           transmitted_bytes, dropped_frames, dropped_bytes
buffers  at_ns, cell_bytes, pools[]: pool (shared_ingress, shared_egress, headroom), used_cells,
           used_peak_cells, size_cells
         groups[]: port, priority, no_drop, xoff, xoff_episodes, reserved_cells, shared_cells,
           shared_peak_cells, headroom_cells, headroom_peak_cells, threshold_cells,
           received_frames, received_bytes, dropped_frames, dropped_bytes
pfc      at_ns, ports[]: port, received_frames, sent_frames, malformed_frames,
           pause_received_frames, priorities[]: priority, no_drop, xoff, xoff_episodes,
           sent_xoff_frames, sent_xon_frames, received_xoff_frames, received_xon_frames

Once a switch is idle, over all its ports: received + flood copies = transmitted + consumed +
drops.";

/// Shows it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let socket = socket::choose(arguments.socket.as_deref())?;
    let interval = arguments.watch.map(interval).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = Client::connect(&socket).await?;
        match interval {
            None => print(arguments, &client.snapshot().await?, None),
            Some(interval) => watch(arguments, &mut client, interval).await,
        }
    })
}

fn interval(seconds: f64) -> Result<Duration> {
    if !(0.05..=3600.0).contains(&seconds) {
        bail!("--watch takes 0.05 to 3600 seconds, not {seconds}");
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Prints each snapshot until the daemon or the user ends it.
async fn watch(arguments: &Arguments, client: &mut Client, interval: Duration) -> Result<()> {
    let mut watch = client.watch(interval).await?;
    let mut before: Option<Snapshot> = None;
    let clears = std::io::stdout().is_terminal() && !arguments.json;
    while let Some(snapshot) = watch.next().await? {
        if clears {
            print!("\x1b[H\x1b[2J"); // cursor home, clear the screen
        } else if before.is_some() && !arguments.json {
            writeln!(std::io::stdout())?;
        }
        print(arguments, &snapshot, before.as_ref())?;
        before = Some(snapshot);
    }
    Ok(())
}

/// Prints one snapshot; rates need the one before.
fn print(arguments: &Arguments, snapshot: &Snapshot, before: Option<&Snapshot>) -> Result<()> {
    let snapshot = &only(snapshot, arguments.port.as_deref())?;
    let text = if arguments.json {
        json(arguments.view, snapshot, arguments.watch.is_none())?
    } else {
        table(arguments.view, snapshot, before)
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", text.trim_end())?;
    out.flush()?;
    Ok(())
}

/// The snapshot with no port but `name`.
fn only(snapshot: &Snapshot, name: Option<&str>) -> Result<Snapshot> {
    let mut snapshot = snapshot.clone();
    let Some(name) = name else { return Ok(snapshot) };
    let names: Vec<String> = snapshot.ports.iter().map(|port| port.name.clone()).collect();
    snapshot.ports.retain(|port| port.name == name);
    if snapshot.ports.is_empty() {
        bail!("there is no port `{name}`; the ports are {}", names.join(", "));
    }
    Ok(snapshot)
}

fn table(view: View, snapshot: &Snapshot, before: Option<&Snapshot>) -> String {
    match view {
        View::Ports => ports::table(snapshot, before),
        View::Queues => queues::table(snapshot, before),
        View::Buffers => buffers::table(snapshot),
        View::Pfc => pfc::table(snapshot),
    }
}

fn json(view: View, snapshot: &Snapshot, pretty: bool) -> Result<String> {
    fn write(value: &impl Serialize, pretty: bool) -> serde_json::Result<String> {
        if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }
    }
    Ok(match view {
        View::Ports => write(&ports::json(snapshot), pretty),
        View::Queues => write(&queues::json(snapshot), pretty),
        View::Buffers => write(&buffers::json(snapshot), pretty),
        View::Pfc => write(&pfc::json(snapshot), pretty),
    }?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_chosen_by_name_and_an_unknown_one_is_answered_with_the_names() {
        let snapshot = sample::snapshot();
        let chosen = only(&snapshot, Some("uplink")).unwrap();
        assert_eq!(chosen.ports.len(), 1);
        assert_eq!(chosen.ports[0].name, "uplink");
        assert_eq!(only(&snapshot, None).unwrap(), snapshot);
        let unknown = only(&snapshot, Some("downlink")).unwrap_err().to_string();
        assert_eq!(unknown, "there is no port `downlink`; the ports are server1, uplink, spare");
    }

    #[test]
    fn intervals_are_bounded() {
        for (seconds, answer) in
            [(0.0, false), (0.05, true), (3600.0, true), (3601.0, false), (f64::NAN, false)]
        {
            assert_eq!(interval(seconds).is_ok(), answer, "{seconds}");
        }
    }

    /// A terminal of 100 columns shows every table whole.
    #[test]
    fn tables_fit_in_100_columns() {
        let (before, now) = (sample::snapshot(), sample::later());
        for view in View::value_variants() {
            for text in [table(*view, &now, None), table(*view, &now, Some(&before))] {
                for line in text.lines() {
                    assert!(line.chars().count() <= 100, "{view:?}: {line}");
                }
            }
        }
    }

    /// The names in JSON are an interface: nothing disappears or changes its name unnoticed.
    #[test]
    fn the_help_names_every_field_of_the_json() {
        fn names(value: &serde_json::Value, found: &mut Vec<String>) {
            match value {
                serde_json::Value::Object(map) => {
                    for (name, value) in map {
                        found.push(name.clone());
                        names(value, found);
                    }
                }
                serde_json::Value::Array(values) => values.iter().for_each(|value| names(value, found)),
                _ => {}
            }
        }
        assert!(AFTER_HELP.lines().all(|line| line.chars().count() <= 99), "wrapped lines are hard to read");
        let words: Vec<&str> = AFTER_HELP.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        for view in View::value_variants() {
            let mut found = Vec::new();
            let text = json(*view, &sample::snapshot(), false).unwrap();
            names(&serde_json::from_str(&text).unwrap(), &mut found);
            for name in found {
                assert!(words.contains(&name.as_str()), "{view:?}: {name} is not in the help");
            }
        }
    }
}
