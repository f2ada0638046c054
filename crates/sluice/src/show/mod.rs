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
mod rates;
pub mod schema;
mod select;
mod utilization;
mod view;
mod vlans;

use std::io::IsTerminal;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Result;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use control::Client;
use control::v1::Snapshot;

use crate::baseline::Baseline;
use crate::exit::misuse;
use crate::output;
use crate::socket::Daemon;
use daemon::DaemonView;
use format::Unit;
use json::Document;
use qos::{buffers, congestion, pfc, pfc_matrix, queues};
pub use select::{Select, only};
pub use view::View;
use view::{Detail, Style};

/// How far apart the two snapshots of a view of rates are, unless --rates says.
const RATES_APART: Duration = Duration::from_secs(1);

/// What to show, and of which switch.
#[derive(Args)]
#[command(after_help = help::SHORT, after_long_help = help::text())]
pub struct Arguments {
    /// The view.
    #[arg(value_enum, value_name = "VIEW")]
    shown: Shown,
    /// More of a view: `pfc history`, `lldp neighbors`, `config effective`.
    #[arg(value_enum, hide_possible_values = true, value_name = "MORE")]
    detail: Option<Detail>,
    #[command(flatten)]
    select: Select,
    /// With `fdb`: only this VLAN.
    #[arg(long, value_name = "VID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    vlan: Option<u16>,
    /// Print JSON with every counter; with --watch, one object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: Daemon,
    /// Repeat at this interval (0.05 at least); tables then show rates.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    watch: Option<f64>,
    /// Show rates and utilization of this time from now.
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
    /// Counters since the daemon started, whatever was cleared by `sluice clear counters`.
    #[arg(long)]
    absolute: bool,
    /// With `pfc`: `sonic` shows the frames by port and PFC0 to PFC7.
    #[arg(long, value_enum, value_name = "STYLE", hide_possible_values = true)]
    style: Option<Style>,
}

/// A view of the switch, or of the daemon around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    Of(View),
    Daemon(DaemonView),
}

impl ValueEnum for Shown {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Shown>> = LazyLock::new(|| {
            let views = View::value_variants().iter().copied().map(Shown::Of);
            views.chain(DaemonView::value_variants().iter().copied().map(Shown::Daemon)).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Shown::Of(view) => view.to_possible_value(),
            Shown::Daemon(view) => view.to_possible_value(),
        }
    }
}

impl Shown {
    /// Returns its name on the command line.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

fn view_of(detail: Detail) -> Shown {
    match detail {
        Detail::History => Shown::Of(View::Pfc),
        Detail::Neighbors => Shown::Daemon(DaemonView::Lldp),
        Detail::Effective => Shown::Daemon(DaemonView::Config),
    }
}

/// Prints the selected view.
pub fn run(arguments: &Arguments) -> Result<()> {
    let interval = arguments.watch.map(|seconds| duration("--watch", seconds)).transpose()?;
    let apart = arguments.rates.map(|seconds| duration("--rates", seconds)).transpose()?;
    check_options(arguments)?;
    match arguments.shown {
        Shown::Of(view) => {
            let apart = apart.or((view.is_rate() && interval.is_none()).then_some(RATES_APART));
            arguments.daemon.talk(async |client| show(arguments, view, client, interval, apart).await)
        }
        Shown::Daemon(view) => {
            arguments.daemon.talk(async |client| show_of_daemon(arguments, view, client, interval).await)
        }
    }
}

/// Refuses options that the view does not have.
fn check_options(arguments: &Arguments) -> Result<()> {
    let Arguments { shown, detail, rates, bytes, verbose, keep_watermarks, style, vlan, .. } = arguments;
    let is = |view| *shown == Shown::Of(view);
    if *bytes && !is(View::Buffers) && !is(View::Queues) {
        return misuse("--bytes is for `show buffers` and `show queues`: no other view has sizes in cells");
    }
    if *verbose && !is(View::Ports) {
        return misuse("--verbose is for `show ports`: no other view has details of interfaces");
    }
    if *keep_watermarks && !is(View::Buffers) {
        return misuse("--keep-watermarks is for `show buffers`: no other view begins watermarks again");
    }
    if style.is_some() && !is(View::Pfc) {
        return misuse("--style is for `show pfc`: no other view has several");
    }
    if vlan.is_some() && *shown != Shown::Daemon(DaemonView::Fdb) {
        return misuse("--vlan is for `show fdb`: no other view has addresses");
    }
    if let Some(detail) = detail {
        check_detail(*detail, *shown)?;
    }
    if let Shown::Daemon(view) = shown {
        if rates.is_some() {
            return misuse(format!("--rates is for counters: `show {}` has none", shown.name()));
        }
        view.check(&arguments.select)?;
    }
    Ok(())
}

/// Refuses a detail that the view does not have.
fn check_detail(detail: Detail, shown: Shown) -> Result<()> {
    let (name, of) = (detail.name(), view_of(detail));
    if of != shown {
        return misuse(format!("`{name}` is for `show {}`: `show {}` has none", of.name(), shown.name()));
    }
    Ok(())
}

/// Prints a view of the switch: of now, of two moments, or again and again.
async fn show(
    arguments: &Arguments,
    view: View,
    client: &mut Client,
    interval: Option<Duration>,
    apart: Option<Duration>,
) -> Result<()> {
    let reads = reads_watermarks(view, arguments.keep_watermarks);
    let cleared = if arguments.absolute { None } else { cleared(arguments, client).await? };
    let cleared = cleared.as_ref();
    let Some(interval) = interval else {
        let before = match apart {
            Some(apart) => {
                let before = client.snapshot().await?;
                tokio::time::sleep(apart).await;
                Some(before)
            }
            None => None,
        };
        let now = if reads { client.read_watermarks().await? } else { client.snapshot().await? };
        return output::print(&formatted(arguments, view, (&now, before.as_ref()), cleared)?);
    };
    let mut watch = client.watch(interval, reads).await?;
    let mut before: Option<Snapshot> = None;
    while let Some(snapshot) = watch.next().await? {
        let text = formatted(arguments, view, (&snapshot, before.as_ref()), cleared)?;
        print_again(arguments, before.is_none(), &text)?;
        before = Some(snapshot);
    }
    Ok(())
}

/// Returns the counters that this user has cleared.
async fn cleared(arguments: &Arguments, client: &mut Client) -> Result<Option<Baseline>> {
    let socket = arguments.daemon.socket()?;
    if !Baseline::is_there(&socket) {
        return Ok(None);
    }
    Ok(Baseline::load(&socket, &client.info().await?))
}

/// Prints a view of the daemon, once or again and again.
async fn show_of_daemon(
    arguments: &Arguments,
    view: DaemonView,
    client: &mut Client,
    interval: Option<Duration>,
) -> Result<()> {
    let Arguments { select, detail, json, watch, vlan, .. } = arguments;
    let request =
        daemon::Request { select, vlan: *vlan, detail: *detail, json: *json, on_one_line: watch.is_some() };
    let mut is_first = true;
    loop {
        let text = daemon::text(view, &request, client).await?;
        let Some(interval) = interval else { return output::print(&text) };
        print_again(arguments, is_first, &text)?;
        is_first = false;
        tokio::time::sleep(interval).await;
    }
}

/// Prints what is shown again and again: in place on a terminal.
fn print_again(arguments: &Arguments, is_first: bool, text: &str) -> Result<()> {
    if std::io::stdout().is_terminal() && !arguments.json {
        print!("\x1b[H\x1b[2J"); // cursor home, clear the screen
    } else if !is_first && !arguments.json {
        output::print("")?;
    }
    output::print(text)
}

/// Returns what `sluice show counters --json` prints of a snapshot.
pub fn counters(snapshot: &Snapshot) -> serde_json::Result<serde_json::Value> {
    serde_json::to_value(Document::of(View::Counters, snapshot, None))
}

/// True if a view restarts the watermarks: peaks are those between two executions
/// (docs/behavior.md, "Watermarks").
fn reads_watermarks(view: View, keep: bool) -> bool {
    view == View::Buffers && !keep
}

fn duration(option: &str, seconds: f64) -> Result<Duration> {
    if !(0.05..=3600.0).contains(&seconds) {
        return misuse(format!("{option} takes 0.05 to 3600 seconds, not {seconds}"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Formats one snapshot; rates need the one before. Counters are since they were `cleared`.
fn formatted(
    arguments: &Arguments,
    view: View,
    (snapshot, before): (&Snapshot, Option<&Snapshot>),
    cleared: Option<&Baseline>,
) -> Result<String> {
    let Arguments { select, json, detail, verbose, style, watch, bytes, .. } = arguments;
    let relative = |snapshot: &Snapshot| match cleared {
        Some(cleared) => cleared.relative(snapshot.clone()),
        None => snapshot.clone(),
    };
    let (mut now, mut before) = (select.apply(&relative(snapshot))?, before.map(relative));
    let cleared_at_ns = cleared.map(Baseline::at_ns);
    if *json {
        let (now, before) = (&now, before.as_ref());
        let mut document = Document::of(view, now, before);
        document.cleared_at_ns = cleared_at_ns;
        if *select == (Select { port: select.port.clone(), ..Select::default() }) {
            return output::json(&document, watch.is_none());
        }
        let mut document = serde_json::to_value(document)?;
        select.filter(now, &mut document);
        return output::json(&document, watch.is_none());
    }
    // Shares of the time are of that since the counters were cleared.
    for snapshot in std::iter::once(&mut now).chain(&mut before) {
        snapshot.at_ns = snapshot.at_ns.saturating_sub(cleared_at_ns.unwrap_or(0));
    }
    let head = cleared_at_ns.map_or(String::new(), |_| {
        let seconds = now.at_ns as f64 / 1e9;
        format!("Counters of {seconds:.1} s, since you cleared them (--absolute: since the start).\n\n")
    });
    let (now, before) = (&now, before.as_ref());
    Ok(head
        + &match (detail, style) {
            (Some(_), _) => pfc::history(now),
            (None, Some(Style::Sonic)) => pfc_matrix::table(now, before),
            _ if *verbose => interfaces::text(now),
            _ => table(view, now, before, unit(now, *bytes)),
        })
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
        View::Rates => rates::table(snapshot, before),
        View::Utilization => utilization::table(snapshot, before),
        View::Vlan => vlans::table(snapshot),
        View::Cores => loops::cores(snapshot, before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

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
        for (view, keep, reads) in
            [(View::Buffers, false, true), (View::Buffers, true, false), (View::Queues, false, false)]
        {
            assert_eq!(reads_watermarks(view, keep), reads, "{view:?}, {keep}");
        }
    }
}
