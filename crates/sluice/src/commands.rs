//! Commands to a running daemon: `reload`, `pfc`, `port`, `clear`.

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use control::{Command, v1};
use schemars::JsonSchema;
use serde::Serialize;

use crate::baseline::Baseline;
use crate::exit::misuse;
use crate::output;
use crate::socket::Daemon;

/// Read the configuration file again and apply it to the running switch.
#[derive(Args)]
#[command(after_long_help = reload_help())]
pub struct Reload {
    /// Only say what would change, what would be refused and why.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: Daemon,
}

fn reload_help() -> String {
    format!(
        "\
The daemon reads the file that it was started with. It applies it whole or not at all: if there is \
a mistake in it, a port that cannot be opened, or a change that needs a restart of sluiced ({}; or \
more memory than was set aside at the start), nothing changes, and the cause is reported. Ports may be added, \
removed and renamed. No frame is lost by it. PFC is on or off afterwards as the file has it. SIGHUP \
does the same.

--dry-run reads and checks the file in the same way and changes nothing; it exits with 1 if the file \
would be refused. What only the attempt shows is not covered: an interface that cannot be opened, a \
storm that waits for manual recovery.

JSON: changes[], a line for each thing that changed. With --dry-run: changes[], needs_restart[], \
invalid (null: nothing is wrong), accepted.",
        config::reference::needs_restart().join(", ")
    )
}

/// What a reload changed.
#[derive(Serialize, JsonSchema)]
pub struct Reloaded {
    /// A line for each thing that changed.
    pub changes: Vec<String>,
}

/// What a reload would change.
#[derive(Serialize, JsonSchema)]
pub struct ReloadPreview {
    /// A line for each thing that would change.
    pub changes: Vec<String>,
    /// A line for each change that needs a restart of sluiced.
    pub needs_restart: Vec<String>,
    /// What is wrong with the file; null if nothing is.
    pub invalid: Option<String>,
    /// True if the reload would be accepted.
    pub accepted: bool,
}

/// Turn PFC off on all ports or on again, end storms manually, lift the limit of storms.
#[derive(Args)]
#[command(after_long_help = "\
Off: paused peers are sent XON, received PFC is not honored, and what is no-drop by \
configuration is treated as any lossy priority. On: as the configuration has it. It lasts until \
the next reload; the file is not changed. `sluice show pfc` shows where a storm waits for `recover`, \
and where too many storms have turned PFC off.")]
pub struct Pfc {
    #[command(subcommand)]
    what: PfcCommand,
}

/// What is done with PFC.
#[derive(Subcommand)]
enum PfcCommand {
    /// On all ports, as configured.
    On(DaemonArgs),
    /// Off on all ports.
    Off(DaemonArgs),
    /// End the storms of a port that wait for manual recovery (watchdog.recovery = "manual").
    Recover {
        /// The port.
        port: String,
        #[command(flatten)]
        daemon: Daemon,
    },
    /// Turn PFC on again for the priorities of a port that had too many storms; they are counted
    /// again.
    LiftLimit {
        /// The port.
        port: String,
        /// Only this priority.
        #[arg(value_parser = clap::value_parser!(u8).range(0..=7))]
        priority: Option<u8>,
        #[command(flatten)]
        daemon: Daemon,
    },
}

/// The daemon that executes the command.
#[derive(Args)]
struct DaemonArgs {
    #[command(flatten)]
    daemon: Daemon,
}

/// Take a port down or up; for tests, hold its transmission or release it.
#[derive(Args)]
#[command(after_long_help = "\
Down: frames that wait for the port are dropped and counted (port_down), its peer is sent XON, and it \
carries no frames until `up`. Hosts on other ports lose what they send to hosts behind it: no-drop \
frames are dropped (destination_down, or port_down to a static address), with an event; lossy ones are \
flooded, as when its link is down. Nothing else is lost. Its interface stays up, with its carrier. It lasts until the daemon ends, or a reload changes \
`admin` of the port; `sluice set port.NAME.admin=down` also writes it into the file.

Up: done once the port carries frames. If it does not, as its interface is missing, has no carrier or \
cannot be opened, the reason is printed and the exit code is 1. It is opened when it can be.

Hold: nothing but PFC leaves a held port, as if its peer had paused all priorities indefinitely: its \
queues fill, buffers with them, and peers that send to it are paused in turn. That is how tests fill \
a buffer to the cell. `sluice show queues` shows which ports are held. A daemon that stops releases \
them.")]
pub struct Port {
    /// What to do with it.
    #[arg(value_enum)]
    action: PortAction,
    /// The port.
    name: String,
    #[command(flatten)]
    daemon: Daemon,
}

/// Reset counters and peaks.
#[derive(Args)]
#[command(after_help = CLEAR_HELP)]
pub struct Clear {
    /// What to clear.
    #[arg(value_enum)]
    what: Clearable,
    /// With `counters`: count from the start of the daemon again.
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// Addresses that the switch has learned (`sluice show fdb` lists them).
#[derive(Args)]
pub struct Fdb {
    #[command(subcommand)]
    what: FdbCommand,
}

/// What is done with addresses.
#[derive(Subcommand)]
enum FdbCommand {
    /// Forget learned addresses: all, or of a port, or in a VLAN. Frames to them are flooded until
    /// they are learned again. Addresses of the file (static_addresses) stay.
    Flush {
        /// Only this port.
        #[arg(long, value_name = "NAME")]
        port: Option<String>,
        /// Only this VLAN.
        #[arg(long, value_name = "VID", value_parser = clap::value_parser!(u16).range(1..=4094))]
        vlan: Option<u16>,
        #[command(flatten)]
        daemon: Daemon,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PortAction {
    /// Let it carry frames again.
    Up,
    /// Close it: no frame comes in or leaves.
    Down,
    /// Hold its transmission.
    Hold,
    /// Release it.
    Release,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Clearable {
    /// What `sluice show` counts for this user; the switch, telemetry and metrics go on counting.
    Counters,
    /// The peaks since the last clear, of every group, queue and pool (peak_clear_cells in JSON),
    /// for all.
    Watermarks,
}

const CLEAR_HELP: &str = "\
  sluice clear counters          `sluice show` counts from now on, for you
  sluice clear counters --undo   … from the start of the daemon again
  sluice show pfc --absolute     once: from the start of the daemon";

/// Applies the configuration file, and prints what changed.
pub fn reload(arguments: &Reload) -> Result<()> {
    if arguments.dry_run {
        return preview(arguments);
    }
    let changes = arguments.daemon.order(Command::Reload)?;
    if arguments.json {
        output::print(&output::json(&Reloaded { changes }, true)?)
    } else if changes.is_empty() {
        let running = arguments.daemon.talk(async |client| Ok(client.configuration().await?))?;
        output::print(&unchanged("Nothing changed", &running.overrides))
    } else {
        output::print(&changes.join("\n"))
    }
}

/// Returns the answer of a reload that finds nothing new, with what is in force beyond the file.
fn unchanged(what: &str, overrides: &[String]) -> String {
    match overrides {
        [] => format!("{what}: the file matches the running configuration."),
        lines => format!("{what}: the file is as it was. In force beside it:\n{}", lines.join("\n")),
    }
}

/// Prints what a reload would do.
///
/// # Errors
/// The file would be refused.
fn preview(arguments: &Reload) -> Result<()> {
    let configuration = arguments.daemon.talk(async |client| Ok(client.configuration().await?))?;
    let v1::Configuration { file, differences: changes, needs_restart, invalid, overrides, .. } =
        configuration;
    let accepted = invalid.is_none() && needs_restart.is_empty();
    if arguments.json {
        let preview = ReloadPreview {
            changes,
            needs_restart: needs_restart.clone(),
            invalid: invalid.clone(),
            accepted,
        };
        output::print(&output::json(&preview, true)?)?;
    } else if accepted && changes.is_empty() {
        output::print(&unchanged("Nothing would change", &overrides))?;
    } else if invalid.is_none() && !changes.is_empty() {
        let would = if accepted { "Would change" } else { "Would change, without what needs a restart" };
        output::print(&format!("{would}:\n{}", changes.join("\n")))?;
    }
    match invalid {
        Some(why) => bail!("the file would be refused: {why}"),
        None if accepted => Ok(()),
        None => bail!(
            "{file} would be refused: these settings need a restart of sluiced. Revert them to apply the rest:\n{}",
            needs_restart.join("\n")
        ),
    }
}

/// Turns PFC on or off, ends storms, lifts their limit.
pub fn pfc(arguments: &Pfc) -> Result<()> {
    let (daemon, order, done) = match &arguments.what {
        PfcCommand::On(to) => {
            (&to.daemon, Command::SetPfc { enabled: true }, "PFC is on, as the ports have it.".to_owned())
        }
        PfcCommand::Off(to) => {
            (&to.daemon, Command::SetPfc { enabled: false }, "PFC is off on all ports.".to_owned())
        }
        PfcCommand::Recover { port, daemon } => {
            let done = format!("No storm of port {port} waits for manual recovery any more.");
            (daemon, Command::RecoverStorms { port: port.clone() }, done)
        }
        PfcCommand::LiftLimit { port, priority, daemon } => {
            let done = match priority {
                Some(priority) => {
                    format!("No limit of storms is reached for priority {priority} of port {port} any more.")
                }
                None => format!("No limit of storms is reached on port {port} any more."),
            };
            (daemon, Command::LiftStormLimit { port: port.clone(), priority: *priority }, done)
        }
    };
    daemon.order(order)?;
    output::print(&done)
}

/// Takes a port down or up, holds or releases it.
pub fn port(arguments: &Port) -> Result<()> {
    let port = arguments.name.clone();
    let (order, state) = match arguments.action {
        PortAction::Up => (Command::SetPortAdmin { port, up: true }, "admin up"),
        PortAction::Down => (Command::SetPortAdmin { port, up: false }, "admin down"),
        PortAction::Hold => (Command::HoldPort { port, held: true }, "held"),
        PortAction::Release => (Command::HoldPort { port, held: false }, "released"),
    };
    arguments.daemon.order(order)?;
    output::print(&format!("Port {} is {state}.", arguments.name))
}

/// Forgets addresses.
pub fn fdb(arguments: &Fdb) -> Result<()> {
    let FdbCommand::Flush { port, vlan, daemon } = &arguments.what;
    daemon.order(Command::FlushFdb { port: port.clone(), vlan: *vlan })?;
    let of_port = port.as_ref().map_or(String::new(), |port| format!(" of port {port}"));
    let in_vlan = vlan.map_or(String::new(), |vlan| format!(" in VLAN {vlan}"));
    output::print(&format!("Learned addresses{of_port}{in_vlan} are forgotten."))
}

/// Resets a counter.
pub fn clear(arguments: &Clear) -> Result<()> {
    let Clear { what, undo, daemon } = arguments;
    match (what, undo) {
        (Clearable::Watermarks, true) => {
            misuse("cleared watermarks cannot be restored: --undo is for counters")
        }
        (Clearable::Watermarks, false) => {
            daemon.order(Command::ClearWatermarks)?;
            output::print("Watermarks are cleared.")
        }
        (Clearable::Counters, true) => {
            Baseline::forget(&daemon.socket()?)?;
            output::print("Counters count from the start of the daemon again.")
        }
        (Clearable::Counters, false) => {
            daemon.talk(async |client| Baseline::take(client).await)?.save(&daemon.socket()?)?;
            output::print("Counters are cleared for this user; --absolute shows them from the start.")
        }
    }
}
