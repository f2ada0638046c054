//! The commands that tell a running daemon to do something: `reload`, `pfc`, `port`, `clear`.

use anyhow::Result;
use clap::{Args, ValueEnum};
use control::Order;
use serde_json::json;

use crate::output;
use crate::socket::Daemon;

/// Read the configuration file again and apply it to the running switch.
#[derive(Args)]
#[command(after_long_help = "\
The daemon reads the file that it was started with. It applies it whole or not at all: if there is \
a mistake in it, or a change that needs a restart of sluiced (ports added, removed, renamed or in \
another order, interfaces, cell_bytes, bridge.max_entries, dataplane, the control socket, the \
switch's name, or more memory than was set aside at the start), nothing changes, and it says what. \
No frame is lost by it. PFC is on or off afterwards as the file has it. SIGHUP does the same.

JSON: changes[], a line for each thing that changed.")]
pub struct Reload {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// Turn PFC off on all ports, or on again.
#[derive(Args)]
#[command(after_long_help = "\
Off: whoever is paused is told to go on, received PFC is not obeyed, and what is no-drop by \
configuration is treated as any lossy priority. On: as the configuration has it. It lasts until \
the next reload; the file is not changed.")]
pub struct Pfc {
    /// On as configured, or off on all ports.
    #[arg(value_enum)]
    state: State,
    #[command(flatten)]
    daemon: Daemon,
}

/// For tests: hold a port's transmission, or let it go on.
#[derive(Args)]
#[command(after_long_help = "\
Nothing but PFC leaves a held port, as if its neighbour had paused all priorities for ever: its \
queues fill, buffers with them, and whoever sends to it is paused in turn. That is how tests fill \
a buffer to the cell. `sluice show queues` says which ports are held. A daemon that stops releases \
them.")]
pub struct Port {
    /// What to do with it.
    #[arg(value_enum)]
    action: Action,
    /// The port.
    name: String,
    #[command(flatten)]
    daemon: Daemon,
}

/// Begin a count anew.
#[derive(Args)]
pub struct Clear {
    /// What to clear.
    #[arg(value_enum)]
    what: Clearable,
    #[command(flatten)]
    daemon: Daemon,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum State {
    On,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Keep its frames back.
    Hold,
    /// Let them go.
    Release,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Clearable {
    /// The peaks since the last clear, of every group, queue and pool (peak_clear_cells in JSON).
    Watermarks,
}

/// Has the file applied, and prints what changed.
pub fn reload(arguments: &Reload) -> Result<()> {
    let changes = arguments.daemon.order(Order::Reload)?;
    if arguments.json {
        output::print(&output::json(&json!({ "changes": changes }), true)?)
    } else if changes.is_empty() {
        output::print("Nothing changed: the file says what is running already.")
    } else {
        output::print(&changes.join("\n"))
    }
}

/// Turns PFC on or off.
pub fn pfc(arguments: &Pfc) -> Result<()> {
    let enabled = arguments.state == State::On;
    arguments.daemon.order(Order::SetPfc { enabled })?;
    output::print(if enabled { "PFC is on, as the ports have it." } else { "PFC is off on all ports." })
}

/// Holds or releases a port.
pub fn port(arguments: &Port) -> Result<()> {
    let (port, held) = (arguments.name.clone(), arguments.action == Action::Hold);
    arguments.daemon.order(Order::HoldPort { port, held })?;
    output::print(&format!("Port {} is {}.", arguments.name, if held { "held" } else { "released" }))
}

/// Begins a count anew.
pub fn clear(arguments: &Clear) -> Result<()> {
    let Clearable::Watermarks = arguments.what;
    arguments.daemon.order(Order::ClearWatermarks)?;
    output::print("Watermarks are cleared.")
}
