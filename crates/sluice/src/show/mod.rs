//! `sluice show`: fetches snapshots and prints a view of them, as a table or as JSON. Each view has
//! a file of its own; the JSON of all is in [`json`].

mod counters;
mod daemon;
mod drops;
pub mod format;
pub mod help;
mod interfaces;
mod json;
mod loops;
mod ports;
mod qos;
mod view;

use std::io::IsTerminal;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use control::client::Watch;
use control::v1::Snapshot;
use jiff::tz::TimeZone;

use crate::exit::misuse;
use crate::output;
use crate::socket::Daemon;
use format::Unit;
use json::Document;
use qos::{buffers, congestion, pfc, queues};
use view::Detail;
pub use view::View;

/// What to show, and of which switch.
#[derive(Args)]
#[command(after_long_help = help::text())]
pub struct Arguments {
    /// The view.
    #[arg(value_enum)]
    shown: Shown,
    /// With `pfc`: how often and for how long each priority was paused, rates of PFC frames, and
    /// the last storms. With `lldp`: the neighbors.
    #[arg(value_enum)]
    detail: Option<Detail>,
    /// Only this port.
    #[arg(long, value_name = "NAME")]
    port: Option<String>,
    /// Print JSON with every counter; with --watch, one object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: Daemon,
    /// Repeat at this interval in seconds (0.05 at least); tables then show rates.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    watch: Option<f64>,
    /// Take two snapshots, this number of seconds apart, and show rates and utilization of that
    /// time.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1", conflicts_with = "watch")]
    rates: Option<f64>,
    /// With `buffers` and `queues`: sizes in bytes of cells instead of cells.
    #[arg(long, conflicts_with = "json")]
    bytes: bool,
    /// With `ports`: details of each interface, and properties that harm frames.
    #[arg(long)]
    verbose: bool,
    /// With `buffers`: do not reset the peaks since the last read.
    #[arg(long)]
    keep_watermarks: bool,
}

/// A view of the switch, or of the daemon around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    Of(View),
    Telemetry,
    Lldp,
    Dcbx,
}

impl ValueEnum for Shown {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Shown>> = LazyLock::new(|| {
            let views = View::value_variants().iter().copied().map(Shown::Of);
            views.chain([Shown::Telemetry, Shown::Lldp, Shown::Dcbx]).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Shown::Of(view) => return view.to_possible_value(),
            Shown::Telemetry => (
                "telemetry",
                "What is reported to collectors: each subscription and collector, what was sent and dropped, the \
                 last error",
            ),
            Shown::Lldp => (
                "lldp",
                "LLDP of each port: frames sent and received, neighbors; with `neighbors`: what each of them \
                 advertises, as lldpctl prints it",
            ),
            Shown::Dcbx => (
                "dcbx",
                "What each port negotiates: PFC, ETS and applications, here, at the peer and in force, and why",
            ),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

/// Prints the selected view.
pub fn run(arguments: &Arguments) -> Result<()> {
    let view = match arguments.shown {
        Shown::Of(view) => view,
        Shown::Telemetry => return show_telemetry(arguments),
        Shown::Lldp => return show_lldp(arguments),
        Shown::Dcbx => return show_dcbx(arguments),
    };
    let interval = arguments.watch.map(|seconds| duration("--watch", seconds)).transpose()?;
    let apart = arguments.rates.map(|seconds| duration("--rates", seconds)).transpose()?;
    let reads = reads_watermarks(view, arguments.keep_watermarks)?;
    if arguments.bytes && !matches!(view, View::Buffers | View::Queues) {
        return misuse("--bytes is for `show buffers` and `show queues`: no other view has sizes in cells");
    }
    if arguments.verbose && view != View::Ports {
        return misuse("--verbose is for `show ports`: no other view has details of interfaces");
    }
    match arguments.detail {
        Some(Detail::History) if view != View::Pfc => {
            return misuse("`history` is for `show pfc`: no other view has one");
        }
        Some(Detail::Neighbors) => return misuse("`neighbors` is for `show lldp`: no other view has them"),
        _ => {}
    }
    arguments.daemon.talk(async |client| {
        if let Some(interval) = interval {
            return watch(arguments, view, client.watch(interval, reads).await?).await;
        }
        let before = match apart {
            Some(apart) => {
                let before = client.snapshot().await?;
                tokio::time::sleep(apart).await;
                Some(before)
            }
            None => None,
        };
        let now = if reads { client.read_watermarks().await? } else { client.snapshot().await? };
        print(arguments, view, &now, before.as_ref())
    })
}

/// Prints the state of the telemetry reports.
fn show_telemetry(arguments: &Arguments) -> Result<()> {
    if arguments.port.is_some() || arguments.detail.is_some() {
        return misuse("of the options only --json and --socket are for `show telemetry`");
    }
    of_one_moment(arguments, "telemetry")?;
    let telemetry = arguments.daemon.talk(async |client| Ok(client.telemetry().await?))?;
    output::print(&if arguments.json {
        output::json(&telemetry, true)?
    } else {
        daemon::telemetry::table(&telemetry, &TimeZone::system())
    })
}

/// Prints LLDP of the ports, or their neighbors.
fn show_lldp(arguments: &Arguments) -> Result<()> {
    of_one_moment(arguments, "lldp")?;
    let wants_neighbors = match arguments.detail {
        None => false,
        Some(Detail::Neighbors) => true,
        Some(_) => return misuse("`show lldp` has `neighbors` and no other detail"),
    };
    let ports = arguments.daemon.talk(async |client| Ok(client.lldp().await?))?;
    let ports = daemon::only(ports, arguments.port.as_deref())?;
    output::print(&match (wants_neighbors, arguments.json) {
        (false, false) => daemon::lldp::table(&ports),
        (false, true) => output::json(&ports, true)?,
        (true, false) => daemon::neighbors::text(&ports),
        (true, true) => output::json(&daemon::neighbors::json(&ports), true)?,
    })
}

/// Prints what the ports negotiate.
fn show_dcbx(arguments: &Arguments) -> Result<()> {
    of_one_moment(arguments, "dcbx")?;
    if arguments.detail.is_some() {
        return misuse("`show dcbx` has no other detail");
    }
    let snapshot = arguments.daemon.talk(async |client| Ok(client.snapshot().await?))?;
    let snapshot = only(&snapshot, arguments.port.as_deref())?;
    output::print(&if arguments.json {
        output::json(&daemon::dcbx::rows(&snapshot), true)?
    } else {
        daemon::dcbx::table(&snapshot)
    })
}

/// Refuses the options of views of the switch.
fn of_one_moment(arguments: &Arguments, view: &str) -> Result<()> {
    let Arguments { watch, rates, bytes, verbose, keep_watermarks, .. } = arguments;
    if watch.is_some() || rates.is_some() || *bytes || *verbose || *keep_watermarks {
        return misuse(format!("of the options only --json, --port and --socket are for `show {view}`"));
    }
    Ok(())
}

/// True if a view restarts the watermarks: peaks are those between two executions
/// (docs/behavior.md, "Watermarks").
fn reads_watermarks(view: View, keep: bool) -> Result<bool> {
    if keep && view != View::Buffers {
        return misuse("--keep-watermarks is for `show buffers`: no other view begins watermarks again");
    }
    Ok(view == View::Buffers && !keep)
}

fn duration(option: &str, seconds: f64) -> Result<Duration> {
    if !(0.05..=3600.0).contains(&seconds) {
        return misuse(format!("{option} takes 0.05 to 3600 seconds, not {seconds}"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Prints each snapshot until the daemon or the user ends it.
async fn watch(arguments: &Arguments, view: View, mut watch: Watch) -> Result<()> {
    let mut before: Option<Snapshot> = None;
    let clears = std::io::stdout().is_terminal() && !arguments.json;
    while let Some(snapshot) = watch.next().await? {
        if clears {
            print!("\x1b[H\x1b[2J"); // cursor home, clear the screen
        } else if before.is_some() && !arguments.json {
            output::print("")?;
        }
        print(arguments, view, &snapshot, before.as_ref())?;
        before = Some(snapshot);
    }
    Ok(())
}

/// Prints one snapshot; rates need the one before.
fn print(arguments: &Arguments, view: View, snapshot: &Snapshot, before: Option<&Snapshot>) -> Result<()> {
    let snapshot = &only(snapshot, arguments.port.as_deref())?;
    output::print(&if arguments.json {
        output::json(&Document::of(view, snapshot, before), arguments.watch.is_none())?
    } else if arguments.detail.is_some() {
        pfc::history(snapshot)
    } else if arguments.verbose {
        interfaces::text(snapshot)
    } else {
        table(view, snapshot, before, unit(snapshot, arguments.bytes))
    })
}

/// Returns the snapshot with the port `name` only.
pub fn only(snapshot: &Snapshot, name: Option<&str>) -> Result<Snapshot> {
    let mut snapshot = snapshot.clone();
    let Some(name) = name else { return Ok(snapshot) };
    let names: Vec<String> = snapshot.ports.iter().map(|port| port.name.clone()).collect();
    snapshot.ports.retain(|port| port.name == name);
    if snapshot.ports.is_empty() {
        bail!("there is no port `{name}`; the ports are {}", names.join(", "));
    }
    Ok(snapshot)
}

/// Returns the JSON of a view.
pub fn document(view: View, snapshot: &Snapshot) -> Document<'_> {
    Document::of(view, snapshot, None)
}

/// Formats a view as a table, in cells or in bytes.
pub fn text(view: View, snapshot: &Snapshot, bytes: bool) -> String {
    table(view, snapshot, None, unit(snapshot, bytes))
}

fn unit(snapshot: &Snapshot, bytes: bool) -> Unit {
    if bytes { Unit::bytes(snapshot.cell_bytes) } else { Unit::CELLS }
}

fn table(view: View, snapshot: &Snapshot, before: Option<&Snapshot>, unit: Unit) -> String {
    match view {
        View::Ports => ports::table(snapshot, before),
        View::Drops => drops::table(snapshot),
        View::Congestion => congestion::table(snapshot, before),
        View::Queues => queues::table(snapshot, before, unit),
        View::Buffers => buffers::table(snapshot, unit),
        View::Pfc => pfc::table(snapshot, before),
        View::Loop => loops::table(snapshot, before),
        View::Counters => counters::table(snapshot, before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

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

    /// The view follows an option whose number may be left out.
    #[test]
    fn options_with_an_optional_number_leave_the_view_alone() {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            arguments: Arguments,
        }
        for (line, watch, rates) in [
            ("show --watch pfc", Some(1.0), None),
            ("show --watch=0.5 pfc", Some(0.5), None),
            ("show pfc --rates", None, Some(1.0)),
            ("show --rates=3 pfc", None, Some(3.0)),
        ] {
            let Cli { arguments } = clap::Parser::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(arguments.shown, Shown::Of(View::Pfc), "{line}");
            assert_eq!((arguments.watch, arguments.rates), (watch, rates), "{line}");
        }
    }

    #[test]
    fn intervals_are_bounded() {
        for (seconds, answer) in
            [(0.0, false), (0.05, true), (3600.0, true), (3601.0, false), (f64::NAN, false)]
        {
            assert_eq!(duration("--watch", seconds).is_ok(), answer, "{seconds}");
        }
    }

    /// A terminal of 100 columns shows every table completely.
    #[test]
    fn tables_fit_in_100_columns() {
        let (before, now) = (sample::snapshot(), sample::later());
        for view in View::value_variants() {
            for (before, unit) in
                [(None, Unit::CELLS), (Some(&before), Unit::CELLS), (None, Unit::bytes(256))]
            {
                for line in table(*view, &now, before, unit).lines() {
                    assert!(line.chars().count() <= 100, "{view:?}: {line}");
                }
            }
        }
    }

    #[test]
    fn watermarks_are_read_by_the_view_of_buffers_unless_set_otherwise() {
        for (view, keep, reads) in [
            (View::Buffers, false, Some(true)),
            (View::Buffers, true, Some(false)),
            (View::Queues, false, Some(false)),
            (View::Queues, true, None),
        ] {
            assert_eq!(reads_watermarks(view, keep).ok(), reads, "{view:?}, {keep}");
        }
    }
}
