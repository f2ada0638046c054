//! `sluice init`: a configuration for interfaces of this machine, which checks without a warning.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use config::{FixedFile, parse_speed, spell_speed, spell_time};
use serde_json::{Value, json};
use switch::buffer::cell::CellSize;
use switch::buffer::headroom::{reserved_cells, xon_offset_cells};
use switch::settings::BufferSettings;
use wire::mac::MacAddr;

use crate::exit::misuse;
use crate::new_file::{must_be_new, write_file};
use crate::output;
use crate::socket::Daemon;
use crate::stall::{Source, Stall, seconds};

/// The MTU of an interface whose frames are as long as headroom assumes.
const COMMON_MTU: u32 = 1500;
/// Bytes of an Ethernet header and a tag, which an MTU does not count.
const HEADER_BYTES: u32 = 18;

/// Write a configuration for interfaces of this machine, with enough headroom.
#[derive(Args)]
#[command(after_long_help = "\
Each interface becomes a port of the same name, with the speed and MTU that it has now. Headroom is \
what the priorities need at that speed if a loop, here or at the peer, stalls for as long as the \
running daemon reports, or else as measured now, or as --stall-us says. The result is checked as \
`sluice check` does; it has no warnings.

JSON: file (null: standard output), config (the text), stall_ns, ports[] with name, speed_bps, \
mtu_bytes.")]
pub struct Arguments {
    /// Interfaces.
    #[arg(required = true, value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// Priorities that never lose a frame.
    #[arg(long, value_name = "1-5", value_delimiter = ',', default_value = "3", value_parser = clap::value_parser!(u8).range(1..=5))]
    no_drop: Vec<u8>,
    /// What gives a frame its priority: the tag, or the IP header.
    #[arg(long, value_name = "FIELD", default_value = "dot1p", value_parser = ["dot1p", "dscp", "none"])]
    trust: String,
    /// Name of the switch.
    #[arg(long, value_name = "NAME", default_value = "sluice")]
    name: String,
    /// Speed of all ports [default: that of each interface].
    #[arg(long, value_name = "SPEED", value_parser = speed)]
    speed: Option<u64>,
    /// MTU of all interfaces [default: that of each interface].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=9216))]
    mtu: Option<u32>,
    /// Length of the cables, in meters.
    #[arg(long, value_name = "METERS", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    cable: Option<u32>,
    /// A host that is on a port from the start, before it sends; may be repeated.
    #[arg(long, value_name = "INTERFACE=MAC", value_parser = static_entry)]
    r#static: Vec<(String, String)>,
    /// How long a loop stalls at most, in microseconds, instead of a measurement.
    #[arg(long, value_name = "MICROSECONDS", value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    stall_us: Option<u64>,
    /// How long to measure, if no daemon runs.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    measure: Duration,
    /// Where the configuration goes [default: standard output].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace FILE if it exists.
    #[arg(long, requires = "output")]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// A port of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Port {
    interface: String,
    speed_bps: u64,
    mtu: u32,
    addresses: Vec<String>,
}

fn speed(text: &str) -> Result<u64, String> {
    parse_speed(text).ok_or_else(|| "write a speed up to 800G with K, M or G, as 500M or 2.5G".to_owned())
}

fn static_entry(text: &str) -> Result<(String, String), String> {
    let wrong = || "write an interface and an address, as eth0=02:00:00:00:00:01".to_owned();
    let (interface, mac) = text.split_once('=').ok_or_else(wrong)?;
    mac.parse::<MacAddr>().map_err(|_| wrong())?;
    Ok((interface.to_owned(), mac.to_owned()))
}

/// Writes the configuration.
pub fn run(arguments: &Arguments) -> Result<()> {
    let twice =
        |(at, name): (usize, &String)| arguments.interfaces[..at].contains(name).then(|| name.clone());
    if let Some(name) = arguments.interfaces.iter().enumerate().find_map(twice) {
        return misuse(format!("{name} is named twice"));
    }
    if let Some((name, _)) = arguments.r#static.iter().find(|(name, _)| !arguments.interfaces.contains(name))
    {
        return misuse(format!("--static names {name}, which is not among the interfaces"));
    }
    if let Some(file) = &arguments.output {
        must_be_new(file, arguments.force)?;
    }
    let ports = arguments.interfaces.iter().map(|name| port(arguments, name)).collect::<Result<Vec<_>>>()?;
    let stall = match arguments.stall_us {
        Some(micros) => Stall { ns: micros * 1000, source: Source::Option },
        None => Stall::measure(&arguments.daemon, arguments.measure)?,
    };
    let target = arguments.output.as_ref().map(|file| file.display().to_string());
    let text = configuration(arguments, &ports, &stall, target.as_deref().unwrap_or("the configuration"))?;
    if let Some(file) = &arguments.output {
        write_file(file, &text, arguments.force)?;
    }
    if arguments.json {
        let row = |port: &Port| json!({ "name": port.interface, "speed_bps": port.speed_bps, "mtu_bytes": port.mtu });
        let rows: Vec<Value> = ports.iter().map(row).collect();
        let object = json!({ "file": target, "config": text, "stall_ns": stall.ns, "ports": rows });
        return output::print(&output::json(&object, true)?);
    }
    match target {
        Some(target) => output::print(&format!("Wrote {target}: `sluiced --config {target}` starts it.")),
        None => output::print(text.trim_end()),
    }
}

/// Returns the port for an interface: with its speed and MTU, unless the command line has them.
fn port(arguments: &Arguments, interface: &str) -> Result<Port> {
    let addresses = arguments.r#static.iter().filter(|(of, _)| of == interface);
    let addresses = addresses.map(|(_, mac)| mac.clone()).collect();
    let mtu = match arguments.mtu {
        Some(mtu) => mtu,
        None => {
            let info = xdp::query(interface);
            info.with_context(|| format!("{interface} (--speed and --mtu say what is not here yet)"))?
                .mtu_bytes
        }
    };
    let speed_bps = match arguments.speed {
        Some(speed_bps) => speed_bps,
        None => match link_speed(interface) {
            Some(speed_bps) => speed_bps,
            None => bail!("{interface} reports no speed: give one with --speed, as --speed 10G"),
        },
    };
    Ok(Port { interface: interface.to_owned(), speed_bps, mtu, addresses })
}

/// Returns the speed that the kernel reports, in bit/s.
fn link_speed(interface: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok()?;
    let mbps = text.trim().parse::<i64>().ok().filter(|mbps| *mbps > 0)?;
    Some(mbps.unsigned_abs() * 1_000_000)
}

/// Returns the text of the configuration, which has sufficient headroom and no warnings.
fn configuration(arguments: &Arguments, ports: &[Port], stall: &Stall, name: &str) -> Result<String> {
    let plain = plain(arguments, ports, stall);
    let wrong = |errors| {
        eprintln!("{:?}", miette::Report::new(errors));
        anyhow!("no such configuration can be written; nothing was")
    };
    let FixedFile { text, .. } = config::fix(name, &plain, stall.ns).map_err(wrong)?;
    let checked = config::parse_for_daemon(name, &text).map_err(wrong)?;
    if checked.warnings.list().is_empty() {
        return Ok(text);
    }
    // What no-drop groups hold in headroom waits in queues, too.
    let total_cells = checked.switch.buffer.total_cells;
    let text = format!("{text}\n[buffer.egress.pool.0]\nsize_cells = {total_cells}\n");
    let checked = config::parse_for_daemon(name, &text).map_err(wrong)?;
    if checked.warnings.list().is_empty() { Ok(text) } else { Err(wrong(checked.warnings)) }
}

/// Returns what groups reserve, and their offset of XON, where frames are longer than by default:
/// the lines of each no-drop priority, and the cells of the fixed area.
fn for_long_frames(ports: &[Port], priorities: &[u8]) -> String {
    let mtu = ports.iter().map(|port| port.mtu).max().unwrap_or(COMMON_MTU);
    if mtu <= COMMON_MTU {
        return String::new();
    }
    let buffer = BufferSettings::default();
    let (frame_bytes, cell) = (u64::from(mtu + HEADER_BYTES), CellSize::new(buffer.cell_bytes));
    let ((_, reserved), offset) = (reserved_cells(frame_bytes, cell), xon_offset_cells(frame_bytes, cell));
    let fixed = (8 * reserved * ports.len() as u64).max(buffer.fixed_cells.into());
    let priority = |priority: &u8| {
        format!(
            "\n[port-defaults.pfc.priority.{priority}]\nreserved_cells = {reserved}\nxon_offset_cells = {offset}\n"
        )
    };
    let total = u64::from(buffer.total_cells) + fixed - u64::from(buffer.fixed_cells);
    let area = format!("\n[buffer]\ntotal_cells = {total}\nfixed_cells = {fixed}\n");
    priorities.iter().map(priority).collect::<String>() + &area
}

/// Writes a key, in quotes where TOML requires them.
pub fn toml_key(key: &str) -> String {
    let is_bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if is_bare { key.to_owned() } else { Value::from(key).to_string() }
}

/// Returns the configuration without headroom.
fn plain(arguments: &Arguments, ports: &[Port], stall: &Stall) -> String {
    let quoted = |text: &str| Value::from(text).to_string(); // a string of JSON is one of TOML
    let mut no_drop = arguments.no_drop.clone();
    no_drop.sort_unstable();
    no_drop.dedup();
    let mut text = format!(
        "# Written by `sluice init`. Headroom is for loops that stall for {} ({}).\n\
         # `sluice explain SETTING` explains a setting, `sluice check FILE` checks the file.\n\n\
         [switch]\nname = {}\n\n\
         [port-defaults]\ntrust = {}\n",
        spell_time(stall.ns),
        stall.source,
        quoted(&arguments.name),
        quoted(&arguments.trust),
    );
    if let Some(cable_m) = arguments.cable {
        text += &format!("cable_m = {cable_m}\n");
    }
    text += &format!("\n[port-defaults.pfc]\nmode = \"on\"\nno_drop = {no_drop:?}\n");
    text += &for_long_frames(ports, &no_drop);
    for Port { interface, speed_bps, mtu, addresses } in ports {
        let (key, name) = (toml_key(interface), quoted(interface));
        text += &format!("\n[port.{key}]\ninterface = {name}\nspeed = \"{}\"\n", spell_speed(*speed_bps));
        if *mtu != COMMON_MTU {
            text += &format!("mtu = {}\n", mtu + HEADER_BYTES);
        }
        if !addresses.is_empty() {
            text += &format!("static_addresses = {addresses:?}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn written(line: &str) -> Result<String> {
        let CommandLine { arguments } =
            CommandLine::try_parse_from(format!("init {line}").split_whitespace())?;
        let ports =
            arguments.interfaces.iter().map(|name| port(&arguments, name)).collect::<Result<Vec<_>>>()?;
        let stall = Stall { ns: arguments.stall_us.unwrap_or(0) * 1000, source: Source::Option };
        configuration(&arguments, &ports, &stall, "new.toml")
    }

    #[test]
    fn a_file_for_two_ports() {
        let text = written(
            "eth0 eth1 --speed 10G --mtu 9000 --cable 3 --no-drop 4,3 --stall-us 300 --static eth1=02:00:00:00:00:01",
        );
        insta::assert_snapshot!(text.unwrap());
    }

    /// Headroom is sufficient, so that there is no warning, whatever the links are.
    #[test]
    fn it_checks_without_a_warning() {
        for line in [
            "a b --speed 1G --mtu 1500",
            "a b c d e f g h --speed 10G --mtu 1500 --stall-us 1000 --no-drop 3,4",
            "a b --speed 25G --mtu 9216 --stall-us 2000 --trust dscp",
            "a b c d --speed 100G --mtu 4200 --cable 100 --stall-us 100 --no-drop 1,2,3,4,5",
            "eth0.100 br-1 --speed 500M --mtu 1400 --stall-us 20000",
        ] {
            let text = written(line).unwrap();
            let config = config::parse_for_daemon("new.toml", &text).unwrap();
            assert!(config.warnings.list().is_empty(), "{line}: {text}");
            let stall_ns = line
                .split("--stall-us ")
                .nth(1)
                .map_or(0, |rest| rest.split(' ').next().unwrap().parse::<u64>().unwrap() * 1000);
            for headroom in config::headrooms(&config.switch) {
                assert!(headroom.duration_ns >= stall_ns, "{line}: {headroom:?}");
            }
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let refusal = |line: &str| format!("{:#}", written(line).unwrap_err());
        let missing = refusal("nowhere7 --stall-us 1");
        assert!(missing.contains("nowhere7") && missing.contains("--speed and --mtu"), "{missing}");
        assert!(refusal("nowhere7 --mtu 1500").contains("reports no speed: give one with --speed"));
        assert!(refusal("a --static a=2").contains("as eth0=02:00:00:00:00:01"));
        assert!(refusal("a --no-drop 8").contains("8 is not in 1..=5"));
    }
}
