//! `sluice headroom`: the bytes that may still arrive after XOFF on a link, term by term, the
//! resulting thresholds, and the addition for software loops. [`switch::buffer::headroom`] has the
//! rule.

use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use switch::PortSettings;
use switch::buffer::cell::CellSize;
use switch::buffer::headroom::{HostDelay, LinkParams, reserved_cells, worst_case_cells, xon_offset_cells};
use switch::settings::BufferSettings;

use crate::exit::misuse;
use crate::headroom_fix;
use crate::output;
use crate::socket::Daemon;
use crate::stall::{self, Source, Stall, seconds};

/// The link, and how long its ends are delayed.
#[derive(Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Arguments {
    /// Speed of the link, as 25G or 2.5G.
    #[arg(long, value_parser = speed_bps, required_unless_present = "fix")]
    speed: Option<u64>,
    /// Length of the cable, as 10m, 2km or a number of meters.
    #[arg(long, value_name = "LENGTH", value_parser = meters, required_unless_present = "fix")]
    cable: Option<u32>,
    /// Bytes of the longest frame of the priority, without FCS.
    #[arg(long, value_name = "BYTES", default_value_t = 1518, value_parser = mtu_bytes)]
    mtu: u32,
    /// Bytes of a cell.
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = cell_bytes)]
    cell: u32,
    /// Write headroom that holds into a configuration of sluiced, for the links that it has.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["speed", "cable", "mtu", "cell"])]
    fix: Option<PathBuf>,
    /// Only show what --fix would change.
    #[arg(long, requires = "fix", conflicts_with_all = ["speed", "cable", "mtu", "cell"])]
    dry_run: bool,
    /// Add what the running daemon's loop needs, or else what a loop needs that spins here for so
    /// long.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = seconds)]
    measured: Option<Duration>,
    /// Add what loops need that are delayed for at most this number of microseconds.
    #[arg(long, value_name = "MICROSECONDS", conflicts_with = "measured")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    stall_us: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// Lines of at most 99 characters: clap would break longer ones at 100.
const AFTER_HELP: &str = "\
A switch that has sent XOFF still receives what is on the way: that is what headroom is
for. In the worst case it comes in frames of 64 bytes, each of which takes a cell (if
cells are smaller than 127 bytes, in frames of a byte more than fills them).

    sluice headroom --speed 25G --cable 10m --mtu 1536
    sluice headroom --speed 10G --cable 1m --measured
    sluice headroom --fix lab.toml --dry-run

The first is for switch chips. In software a loop may be preempted on its core, and until it
runs again sees no frames and sends no XOFF; --measured and --stall-us add that, for both ends.

--fix raises what is too little in a file: the headroom of each no-drop priority of ports that send
PFC, by their speed, cable_m and mtu and by what software adds (as the running daemon reports, or
else measured, unless --stall-us sets it); the headroom pool, so that all can use theirs at once;
and the total, so that the shared area stays as large as it is. Comments and layout stay. It shows
the lines that are different, and writes all of them or none: a file that is wrong, or has a port
without speed, stays as it is. What the new file is warned of goes to standard error.

JSON with --fix: file, stall_ns, changes[] (a line each), written.
JSON without: speed_bps, cable_m, mtu_bytes, cell_bytes, in_transit: mtu_receiver_bytes, mtu_bytes,
response_bytes, cable_bytes, total_bytes; headroom_cells, reserved_exact_cells, reserved_cells,
xon_offset_cells, h3c_cells (null: no figure for this length), sonic_bytes, sonic_cells, software
(null: not requested): source (daemon, measured, given), socket (null: not a daemon's), measured_s
(null: not measured here), stall_ns, own_stall_bytes, peer_stall_bytes, in_flight_bytes,
total_bytes, headroom_cells (all that is needed then).";

fn speed_bps(text: &str) -> Result<u64, String> {
    config::parse_speed(text)
        .ok_or_else(|| "write a speed up to 800G with K, M or G, as 500M or 2.5G".to_owned())
}

fn meters(text: &str) -> Result<u32, String> {
    let (number, unit_m) = match (text.strip_suffix("km"), text.strip_suffix('m')) {
        (Some(number), _) => (number, 1000),
        (None, Some(number)) => (number, 1),
        (None, None) => (text, 1),
    };
    let meters = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit_m));
    meters.filter(|meters| config::CABLE_M.contains(meters)).ok_or_else(|| {
        let most_km = config::CABLE_M.end() / 1000;
        format!("write a whole number of meters or kilometers up to {most_km}km, as 10m or 2km")
    })
}

fn mtu_bytes(text: &str) -> Result<u32, String> {
    let (least, most) = config::MTU_BYTES.into_inner();
    let bytes = text.parse().ok().filter(|bytes| (least..=most).contains(bytes));
    bytes.ok_or_else(|| format!("write the bytes of the longest frame without FCS, from {least} to {most}"))
}

fn cell_bytes(text: &str) -> Result<u32, String> {
    let (least, most) = config::CELL_BYTES.into_inner();
    let bytes = text.parse().ok().filter(|bytes| (least..=most).contains(bytes));
    bytes.ok_or_else(|| format!("write the bytes of a cell, from {least} to {most}"))
}

/// Prints the headroom.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(file) = &arguments.fix {
        // Before stalls are measured for seconds.
        File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    let stall = stall(arguments)?;
    if let (Some(file), Some(stall)) = (&arguments.fix, &stall) {
        return headroom_fix::run(file, stall, arguments.dry_run, arguments.json);
    }
    let (Some(speed_bps), Some(cable_m)) = (arguments.speed, arguments.cable) else {
        return misuse("--speed and --cable are needed");
    };
    let link = LinkParams { speed_bps, cable_m: u64::from(cable_m), mtu_bytes: u64::from(arguments.mtu) };
    let report = HeadroomReport::new(link, CellSize::new(arguments.cell), stall.as_ref());
    output::print(&if arguments.json { output::json(&report, true)? } else { report.text() })
}

/// Returns how long loops are delayed, if requested; `--fix` always needs it.
fn stall(arguments: &Arguments) -> Result<Option<Stall>> {
    if let Some(us) = arguments.stall_us {
        return Ok(Some(Stall { ns: us * 1000, source: Source::Option }));
    }
    let by_default = arguments.fix.is_some().then_some(stall::SPIN);
    let Some(duration) = arguments.measured.or(by_default) else {
        if arguments.daemon.is_named() {
            return misuse("--socket has no effect without --measured: add it, or leave it out");
        }
        return Ok(None);
    };
    Ok(Some(Stall::measure(&arguments.daemon, duration)?))
}

/// The printed results; the fields are the names in JSON.
#[derive(Serialize)]
struct HeadroomReport {
    speed_bps: u64,
    cable_m: u64,
    mtu_bytes: u64,
    cell_bytes: u32,
    in_transit: InTransitReport,
    /// For a switch chip.
    headroom_cells: u64,
    reserved_exact_cells: f64,
    reserved_cells: u64,
    xon_offset_cells: u64,
    /// Recommendation of the H3C reference for a cable of this length.
    h3c_cells: Option<u32>,
    sonic_bytes: u64,
    sonic_cells: u64,
    software: Option<SoftwareReport>,
}

#[derive(Serialize)]
struct InTransitReport {
    mtu_receiver_bytes: u64,
    mtu_bytes: u64,
    response_bytes: u64,
    cable_bytes: u64,
    total_bytes: u64,
}

#[derive(Serialize)]
struct SoftwareReport {
    source: &'static str,
    #[serde(skip)]
    source_words: String,
    socket: Option<PathBuf>,
    measured_s: Option<f64>,
    stall_ns: u64,
    own_stall_bytes: u64,
    peer_stall_bytes: u64,
    in_flight_bytes: u64,
    total_bytes: u64,
    /// Headroom for the bytes in transit and for the delay.
    headroom_cells: u64,
}

impl HeadroomReport {
    fn new(link: LinkParams, cell: CellSize, stall: Option<&Stall>) -> Self {
        let in_transit = link.in_transit();
        let total_bytes = in_transit.total_bytes();
        let (reserved_exact_cells, reserved_cells) = reserved_cells(link.mtu_bytes, cell);
        Self {
            speed_bps: link.speed_bps,
            cable_m: link.cable_m,
            mtu_bytes: link.mtu_bytes,
            cell_bytes: cell.bytes(),
            in_transit: InTransitReport {
                mtu_receiver_bytes: in_transit.mtu_receiver_bytes,
                mtu_bytes: in_transit.mtu_bytes,
                response_bytes: in_transit.response_bytes,
                cable_bytes: in_transit.cable_bytes,
                total_bytes,
            },
            headroom_cells: worst_case_cells(total_bytes, cell),
            reserved_exact_cells,
            reserved_cells,
            xon_offset_cells: xon_offset_cells(link.mtu_bytes, cell),
            h3c_cells: link.h3c_cells(),
            sonic_bytes: link.sonic_bytes(),
            sonic_cells: worst_case_cells(link.sonic_bytes(), cell),
            software: stall.map(|stall| SoftwareReport::new(link.speed_bps, cell, total_bytes, stall)),
        }
    }
}

impl SoftwareReport {
    fn new(speed_bps: u64, cell: CellSize, in_transit_bytes: u64, stall: &Stall) -> Self {
        // The peer is assumed to be a Sluice switch with our default.
        let in_flight_bytes = u64::from(PortSettings::new("", None).in_flight_bytes);
        let software = HostDelay::new(speed_bps, stall.ns, stall.ns, in_flight_bytes);
        let (source, socket, measured_s) = match &stall.source {
            Source::Daemon(socket) => ("daemon", Some(socket.clone()), None),
            Source::Spin(duration) => ("measured", None, Some(duration.as_secs_f64())),
            Source::Option => ("given", None, None),
        };
        Self {
            source,
            source_words: stall.source.to_string(),
            socket,
            measured_s,
            stall_ns: stall.ns,
            own_stall_bytes: software.own_stall_bytes,
            peer_stall_bytes: software.peer_stall_bytes,
            in_flight_bytes,
            total_bytes: software.total_bytes(),
            headroom_cells: worst_case_cells(in_transit_bytes.saturating_add(software.total_bytes()), cell),
        }
    }
}

/// Formats the report as text.
impl HeadroomReport {
    fn text(&self) -> String {
        let mut out = String::new();
        self.write_in_transit(&mut out);
        if let Some(software) = &self.software {
            self.write_software(software, &mut out);
        }
        self.write_configuration(&mut out);
        out
    }

    fn write_in_transit(&self, out: &mut String) {
        let Self { cable_m, mtu_bytes, cell_bytes, in_transit, .. } = self;
        let speed = config::spell_speed(self.speed_bps);
        let _ = writeln!(
            out,
            "What may arrive after XOFF at {speed}, {cable_m} m of cable, frames of up to {mtu_bytes} bytes:"
        );
        line(
            out,
            in_transit.mtu_receiver_bytes,
            "the longest frame of any priority: our PFC frame waits for its end",
        );
        line(out, in_transit.mtu_bytes, "the peer has just begun a frame of this priority");
        line(out, in_transit.response_bytes, "the peer sends on until it reacts");
        line(out, in_transit.cable_bytes, "on the cable, there and back: 13 bytes a meter at 10G");
        line(out, in_transit.total_bytes, "in transit");
        let _ = writeln!(
            out,
            "{:>12} cells  of {cell_bytes} bytes hold that, in frames of the worst length\n",
            self.headroom_cells
        );
        let _ = writeln!(
            out,
            "Reserved cells, for the longest frame: ({mtu_bytes} + 64 + {cell_bytes}) / {cell_bytes} = {:.2}, so {}.",
            self.reserved_exact_cells, self.reserved_cells
        );
        let _ = writeln!(out, "XON offset, slightly more than that frame: {} cells.", self.xon_offset_cells);
        self.write_h3c(out);
        let _ = writeln!(
            out,
            "SONiC's figure for this link: {} bytes, {} cells as frames of the worst length. Gearbox and\n\
             MAC/PHY delays are each ASIC's own and not in it; between two of its speeds, and above 400G, the\n\
             peer's response is that of the next row of its table, or of the last.\n",
            self.sonic_bytes, self.sonic_cells
        );
    }

    /// The H3C reference also recommends headroom by cable length, with figures that differ from
    /// those of its formula.
    fn write_h3c(&self, out: &mut String) {
        let Self { cable_m, headroom_cells, .. } = self;
        let _ = match self.h3c_cells {
            None => writeln!(out, "The H3C reference recommends no figure for {cable_m} m at this speed."),
            Some(cells) if u64::from(cells) >= *headroom_cells => {
                writeln!(
                    out,
                    "The H3C reference recommends {cells} cells for {cable_m} m: they hold the sum above."
                )
            }
            Some(cells) => writeln!(
                out,
                "The H3C reference recommends {cells} cells for {cable_m} m, and its formula, the sum above, needs\n\
                 {headroom_cells}: it contradicts itself. Only the formula holds whatever the frames are."
            ),
        };
    }

    fn write_software(&self, software: &SoftwareReport, out: &mut String) {
        let stall_us = software.stall_ns as f64 / 1e3;
        let whose = &software.source_words;
        let _ = writeln!(out, "What software adds if loops stall for {stall_us:.1} µs\n({whose}):");
        line(out, software.own_stall_bytes, "our loop does not look: no XOFF yet");
        line(out, software.peer_stall_bytes, "the peer's does not either (assumed to stall for as long)");
        line(out, software.in_flight_bytes, "the peer's kernel has already (our default in_flight_bytes)");
        let all_bytes = self.in_transit.total_bytes.saturating_add(software.total_bytes);
        line(out, all_bytes, "with what is in transit");
        let cells = software.headroom_cells;
        let _ = writeln!(
            out,
            "{cells:>12} cells  of {} bytes hold that, in frames of the worst length\n",
            self.cell_bytes
        );
    }

    /// The cells in the configuration lines: including software, if requested.
    fn needed_cells(&self) -> u64 {
        self.software.as_ref().map_or(self.headroom_cells, |software| software.headroom_cells)
    }

    fn write_configuration(&self, out: &mut String) {
        let most = u64::from(config::MAX_CELLS - BufferSettings::default().total_cells);
        if self.needed_cells() > most {
            let _ = writeln!(
                out,
                "No buffer has this many cells (the maximum is {most}): lower the stall or the speed."
            );
            return;
        }
        let default_cells = BufferSettings::default().headroom_cells;
        let _ = writeln!(
            out,
            "To paste, with your NAME and priority N. The headroom pool must hold as much for each no-drop\n\
             priority of each port: buffer.headroom_cells, {default_cells} by default.\n\n{}",
            self.configuration()
        );
    }

    /// Formats the configuration lines.
    fn configuration(&self) -> String {
        let defaults = BufferSettings::default();
        let mut buffer = String::new();
        if self.cell_bytes != defaults.cell_bytes {
            let _ = writeln!(buffer, "cell_bytes = {}", self.cell_bytes);
        }
        // The default pool is too small for one such group.
        if self.needed_cells() > u64::from(defaults.headroom_cells) {
            let cells = self.needed_cells();
            let _ = writeln!(buffer, "total_cells    = {}", cells + u64::from(defaults.total_cells));
            let _ = writeln!(buffer, "headroom_cells = {cells}  # times no-drop priorities, times ports");
        }
        if !buffer.is_empty() {
            buffer = format!("[buffer]\n{buffer}\n");
        }
        format!(
            "{buffer}[port.NAME]\n\
             speed   = \"{}\"\n\
             cable_m = {}\n\
             mtu     = {}\n\n\
             [port.NAME.pfc.priority.N]\n\
             headroom_cells   = {}\n\
             reserved_cells   = {}\n\
             xon_offset_cells = {}\n",
            config::spell_speed(self.speed_bps),
            self.cable_m,
            self.mtu_bytes,
            self.needed_cells(),
            self.reserved_cells,
            self.xon_offset_cells
        )
    }
}

/// Formats a term of a sum.
fn line(out: &mut String, bytes: u64, what: &str) {
    let _ = writeln!(out, "{bytes:>12} bytes  {what}");
}

#[cfg(test)]
mod tests;
