//! `sluice headroom`: how much may still arrive after XOFF on a link, term by term, the thresholds that follow, and what
//! loops in software add. The rule is [`switch::headroom`]'s.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use switch::PortSettings;
use switch::cells::CellSize;
use switch::headroom::{Link, Software, reserved_cells, worst_case_cells, xon_offset_cells};
use switch::settings::BufferSettings;

use crate::output;
use crate::socket::Daemon;

/// The link, and how its ends are held up.
#[derive(Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Arguments {
    /// Speed of the link, as 25G or 2.5G.
    #[arg(long, value_parser = speed_bps)]
    speed: u64,
    /// Length of the cable, as 10m, 2km or metres.
    #[arg(long, value_name = "LENGTH", value_parser = metres)]
    cable: u32,
    /// Bytes of the longest frame of the priority, without FCS.
    #[arg(long, value_name = "BYTES", default_value_t = 1518, value_parser = mtu_bytes)]
    mtu: u32,
    /// Bytes of a cell.
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = cell_bytes)]
    cell: u32,
    /// Add what the running daemon's loop needs, or else what a loop needs that spins here for so long.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = seconds)]
    measured: Option<Duration>,
    /// Add what loops need that are held up for at most so many microseconds.
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
A switch that has told its neighbour to stop (XOFF) still gets what is on the way: that is what
headroom is for. In the worst case it comes in frames of 64 bytes, each of which takes a cell (if
cells are smaller than 127 bytes, in frames of a byte more than fills them).

    sluice headroom --speed 25G --cable 10m --mtu 1536
    sluice headroom --speed 10G --cable 1m --measured

The first is for switch chips. In software a loop may be held up by others on its core, and for so
long sees no frames and sends no XOFF; --measured and --stall-us add that, for both ends.

JSON: speed_bps, cable_m, mtu_bytes, cell_bytes, in_transit: mtu_receiver_bytes, mtu_bytes,
response_bytes, cable_bytes, total_bytes; headroom_cells, reserved_exact_cells, reserved_cells,
xon_offset_cells, sonic_bytes, sonic_cells, software (null: not asked for): source (daemon,
measured, given), socket (null: not a daemon's), measured_s (null: not measured here), stall_ns,
own_stall_bytes, peer_stall_bytes, in_flight_bytes, total_bytes, headroom_cells (all that is
needed then).";

fn speed_bps(text: &str) -> Result<u64, String> {
    config::parse_speed(text)
        .ok_or_else(|| "write a speed up to 800G with K, M or G, as 500M or 2.5G".to_owned())
}

fn metres(text: &str) -> Result<u32, String> {
    let (number, unit_m) = match (text.strip_suffix("km"), text.strip_suffix('m')) {
        (Some(number), _) => (number, 1000),
        (None, Some(number)) => (number, 1),
        (None, None) => (text, 1),
    };
    let metres = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit_m));
    metres.filter(|metres| config::CABLE_M.contains(metres)).ok_or_else(|| {
        let most_km = config::CABLE_M.end() / 1000;
        format!("write a whole number of metres or kilometres up to {most_km}km, as 10m or 2km")
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

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=60.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write 0.1 to 60 seconds".to_owned())
}

/// Prints it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let link = Link {
        speed_bps: arguments.speed,
        cable_m: u64::from(arguments.cable),
        mtu_bytes: u64::from(arguments.mtu),
    };
    let report = Report::new(link, CellSize::new(arguments.cell), stall(arguments)?.as_ref());
    output::print(&if arguments.json { output::json(&report, true)? } else { report.text() })
}

/// How long a loop was held up at most, and who says so.
struct Stall {
    ns: u64,
    source: Source,
}

enum Source {
    /// The daemon on this socket.
    Daemon(PathBuf),
    /// A loop that spun here for so long.
    Measured(Duration),
    /// The command line.
    Given,
}

fn stall(arguments: &Arguments) -> Result<Option<Stall>> {
    if let Some(us) = arguments.stall_us {
        return Ok(Some(Stall { ns: us * 1000, source: Source::Given }));
    }
    let Some(measured) = arguments.measured else {
        ensure!(
            !arguments.daemon.is_named(),
            "--socket is of no effect without --measured: add it, or leave it out"
        );
        return Ok(None);
    };
    let stall = match ask(&arguments.daemon) {
        Ok(stall) => stall,
        // Who names a socket means that daemon, not just any loop.
        Err(error) if arguments.daemon.is_named() => return Err(error),
        Err(error) => {
            eprintln!("sluice: measuring here for {} s: {error:#}", measured.as_secs_f64());
            Stall { ns: longest_gap_ns(measured), source: Source::Measured(measured) }
        }
    };
    Ok(Some(stall))
}

fn ask(daemon: &Daemon) -> Result<Stall> {
    let snapshot = daemon.talk(async |client| Ok(client.snapshot().await?))?;
    Ok(Stall { ns: snapshot.loop_worst_stall_ns, source: Source::Daemon(daemon.socket()?) })
}

/// The longest time that passes between two looks at the clock, looking all the time for `duration`.
fn longest_gap_ns(duration: Duration) -> u64 {
    let start = Instant::now();
    let (mut last, mut longest) = (start, Duration::ZERO);
    while last - start < duration {
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    longest.as_nanos() as u64
}

/// What is printed; as JSON these are its names.
#[derive(Serialize)]
struct Report {
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
    socket: Option<PathBuf>,
    measured_s: Option<f64>,
    stall_ns: u64,
    own_stall_bytes: u64,
    peer_stall_bytes: u64,
    in_flight_bytes: u64,
    total_bytes: u64,
    /// For what is in transit and for this.
    headroom_cells: u64,
}

impl Report {
    fn new(link: Link, cell: CellSize, stall: Option<&Stall>) -> Self {
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
            sonic_bytes: link.sonic_bytes(),
            sonic_cells: worst_case_cells(link.sonic_bytes(), cell),
            software: stall.map(|stall| SoftwareReport::new(link.speed_bps, cell, total_bytes, stall)),
        }
    }
}

impl SoftwareReport {
    fn new(speed_bps: u64, cell: CellSize, in_transit_bytes: u64, stall: &Stall) -> Self {
        // The neighbour is taken for a Sluice with our default.
        let in_flight_bytes = u64::from(PortSettings::new("", None).in_flight_bytes);
        let software = Software::new(speed_bps, stall.ns, stall.ns, in_flight_bytes);
        let (source, socket, measured_s) = match &stall.source {
            Source::Daemon(socket) => ("daemon", Some(socket.clone()), None),
            Source::Measured(duration) => ("measured", None, Some(duration.as_secs_f64())),
            Source::Given => ("given", None, None),
        };
        Self {
            source,
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

/// For people.
impl Report {
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
        line(out, in_transit.mtu_bytes, "the neighbour has just begun a frame of this priority");
        line(out, in_transit.response_bytes, "the neighbour sends on until it reacts");
        line(out, in_transit.cable_bytes, "on the cable, there and back: 13 bytes a metre at 10G");
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
        let _ = writeln!(
            out,
            "SONiC's figure for this link: {} bytes, {} cells as frames of the worst length. Gearbox and\n\
             MAC/PHY delays are each ASIC's own and not in it; between two of its speeds, and above 400G, the\n\
             peer's response is that of the next row of its table, or of the last.\n",
            self.sonic_bytes, self.sonic_cells
        );
    }

    fn write_software(&self, software: &SoftwareReport, out: &mut String) {
        let stall_us = software.stall_ns as f64 / 1e3;
        let whose = match (&software.socket, software.measured_s) {
            (Some(socket), _) => format!("the longest of the daemon on {}", socket.display()),
            (None, Some(seconds)) => {
                format!("the longest of a loop that spun here for {seconds} s; no daemon was asked")
            }
            (None, None) => "as --stall-us says".to_owned(),
        };
        let _ = writeln!(out, "What software adds if loops are held up for {stall_us:.1} µs\n({whose}):");
        line(out, software.own_stall_bytes, "our loop does not look: no XOFF yet");
        line(
            out,
            software.peer_stall_bytes,
            "the neighbour's does not either (assumed to be held up for as long)",
        );
        line(
            out,
            software.in_flight_bytes,
            "the neighbour's kernel has already (our default in_flight_bytes)",
        );
        let all_bytes = self.in_transit.total_bytes.saturating_add(software.total_bytes);
        line(out, all_bytes, "with what is in transit");
        let cells = software.headroom_cells;
        let _ = writeln!(
            out,
            "{cells:>12} cells  of {} bytes hold that, in frames of the worst length\n",
            self.cell_bytes
        );
    }

    /// Cells that the lines to paste give: with software, if that was asked for.
    fn needed_cells(&self) -> u64 {
        self.software.as_ref().map_or(self.headroom_cells, |software| software.headroom_cells)
    }

    fn write_configuration(&self, out: &mut String) {
        let most = u64::from(config::MAX_CELLS - BufferSettings::default().total_cells);
        if self.needed_cells() > most {
            let _ = writeln!(
                out,
                "No buffer has so many cells ({most} are the most): lower the stall or the speed."
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

    /// The lines of configuration.
    fn configuration(&self) -> String {
        let defaults = BufferSettings::default();
        let mut buffer = String::new();
        if self.cell_bytes != defaults.cell_bytes {
            let _ = writeln!(buffer, "cell_bytes = {}", self.cell_bytes);
        }
        // The default pool would not hold one such group.
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

/// A term of a sum.
fn line(out: &mut String, bytes: u64, what: &str) {
    let _ = writeln!(out, "{bytes:>12} bytes  {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: Link = Link { speed_bps: 25_000_000_000, cable_m: 10, mtu_bytes: 1536 };

    fn report(link: Link, cell_bytes: u32, stall: Option<Stall>) -> Report {
        Report::new(link, CellSize::new(cell_bytes), stall.as_ref())
    }

    fn by_daemon() -> Option<Stall> {
        Some(Stall { ns: 213_400, source: Source::Daemon(PathBuf::from("/run/sluice/lab.sock")) })
    }

    #[test]
    fn for_a_switch_chip() {
        insta::assert_snapshot!(report(SERVER, 256, None).text());
    }

    #[test]
    fn for_software() {
        let measured = Stall { ns: 1_500_000, source: Source::Measured(Duration::from_secs(2)) };
        let given = Stall { ns: 1000, source: Source::Given };
        let too_much = Stall { ns: 2_000_000_000, source: Source::Given };
        let slow = Link { speed_bps: 500_000_000, cable_m: 0, mtu_bytes: 1518 };
        let texts = [
            report(SERVER, 256, by_daemon()),
            report(slow, 208, Some(measured)),
            report(slow, 64, Some(given)),
            report(SERVER, 256, Some(too_much)),
        ];
        insta::assert_snapshot!(texts.map(|report| report.text()).join("----\n"));
    }

    #[test]
    fn as_json() {
        let reports = [report(SERVER, 256, None), report(SERVER, 256, by_daemon())];
        insta::assert_snapshot!(serde_json::to_string_pretty(&reports).unwrap());
    }

    /// What is to be pasted is right, says what was asked for, and the check has nothing to say against it.
    #[test]
    fn the_lines_to_paste_are_configuration() {
        for (stall, cell_bytes) in [(None, 256), (None, 208), (by_daemon(), 256), (by_daemon(), 254)] {
            let report = report(SERVER, cell_bytes, stall);
            let lines = report.configuration().replace("NAME", "a").replace(".N]", ".3]");
            let text = lines.replacen("[port.a]\n", "[port.a]\ninterface = \"veth0\"\n", 1)
                + "[port.a.pfc]\nmode = \"on\"\nno_drop = [3]\n";
            let config = config::parse("pasted.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
            assert_eq!(config.warnings.to_string(), "", "{text}");
            let group = config.switch.ports[0].groups[3];
            assert_eq!(u64::from(group.headroom_cells), report.needed_cells());
            assert_eq!(u64::from(group.reserved_cells), report.reserved_cells);
            assert_eq!(u64::from(group.xon_offset_cells), report.xon_offset_cells);
            assert_eq!(config.switch.ports[0].speed_bps, Some(SERVER.speed_bps));
        }
    }

    #[test]
    fn lengths() {
        for (text, expected) in [
            ("10m", Some(10)),
            ("2km", Some(2000)),
            ("10", Some(10)),
            ("0", Some(0)),
            ("100km", Some(100_000)),
            ("100001", None),
            ("101km", None),
            ("4294968km", None),
            ("1.5m", None),
            ("-1m", None),
            ("10 m", None),
            ("10cm", None),
            ("km", None),
            ("", None),
        ] {
            assert_eq!(metres(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn the_longest_gap_is_not_longer_than_the_time_looked() {
        let start = Instant::now();
        let gap_ns = longest_gap_ns(Duration::from_millis(20));
        assert!(gap_ns > 0 && u128::from(gap_ns) <= start.elapsed().as_nanos());
    }

    #[test]
    fn no_line_of_the_help_is_wrapped() {
        assert!(AFTER_HELP.lines().all(|line| line.chars().count() <= 99), "wrapped lines are hard to read");
    }
}
