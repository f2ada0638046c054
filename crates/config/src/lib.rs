//! Sluice's configuration language: TOML text in, plain values out, or every mistake with its place and cure.
//!
//! ```toml
//! [switch]
//! name = "lab"                     # "sluice" when left out
//!
//! [dataplane]
//! cores = [0]                      # several cores do not work yet
//!
//! [control]
//! socket = "/run/sluice/lab.sock"  # this is the default
//!
//! [buffer]
//! cell_bytes     = 256             # 64 to 9216
//! total_cells    = 131072
//! fixed_cells    = 16384           # default: an eighth of all, or what is reserved if that is more
//! headroom_cells = 12288
//!
//! [bridge]
//! max_entries = 16384
//! aging_s     = 300
//!
//! [port-defaults]                  # the same settings as a port has, but for its interface
//! trust         = "dot1p"          # "dot1p" | "none": then port_priority counts
//! port_priority = 0
//!
//! [port.server1]                   # at least one; the order of the file gives the numbers, from 0
//! interface       = "veth0"        # required
//! speed           = "2.5G"         # or bit/s as a number; left out: as fast as the interface takes frames
//! dot1p_to_queue  = [2, 0, 1, 3, 4, 5, 6, 7]
//! in_flight_bytes = 65536
//!
//! [port.server1.pfc]
//! mode       = "on"                # "on" | "off": off, no_drop and what PFC needs have no effect
//! rx         = true                # default: as mode
//! tx         = true
//! no_drop    = [3]
//! pause_time = 65535               # quanta
//!
//! [port.server1.pfc.priority.3]
//! headroom_cells   = 100
//! xoff             = { dynamic_percent = 5 }  # or { static_cells = 512 }
//! xon_offset_cells = 12
//! resume_cells     = 0
//! reserved_cells   = 17
//!
//! [port.server1.schedule]
//! queue.3 = { group = "sp" }       # or { group = "wrr", weight = 4 }
//!
//! [port.server1.buffer.egress.queue.3]
//! guaranteed_percent = 13
//! shared_percent     = 20          # or shared_cells
//! ```
//!
//! A group that is not no-drop reserves nothing and may take all the shared cells there are, unless `reserved_cells` and
//! `xoff` say otherwise; its XOFF threshold is where its frames drop. Settings that later versions will know are refused
//! as not working yet.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod changes;
mod checks;
mod mistakes;
mod ports;
mod section;
mod values;

use std::path::PathBuf;

use switch::SwitchSettings;
use switch::settings::{BridgeSettings, BufferSettings, MAX_PORTS};
use toml::de::DeTable;

pub use crate::changes::{Changes, changes};
use crate::checks::{Buffer, Port};
use crate::mistakes::{Found, Place};
pub use crate::mistakes::{Mistake, Mistakes};
use crate::ports::Written;
use crate::section::{Section, quoted};
use crate::values::{NAME_CURE, is_name};

/// Most cells of a buffer, or of a part of it. Each cell may need a frame of memory, and that would be 64 GiB.
const MAX_CELLS: u32 = 1 << 24;
/// Longest file that is read; a real one has a hundredth of that.
const MAX_FILE_BYTES: usize = 1 << 20;
/// Longest path of a Unix socket: `sun_path` less the final zero.
const SOCKET_BYTES: usize = 107;

/// A whole configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The switch's name.
    pub name: String,
    /// The poll loops.
    pub dataplane: Dataplane,
    /// The switch; its ports are in the order of the file.
    pub switch: SwitchSettings,
    /// Network interface of each port, by port number.
    pub interfaces: Vec<String>,
    /// Path of the Unix socket that the control API listens on.
    pub control_socket: PathBuf,
    /// PFC works as the ports have it; false: it is off on all of them.
    pub pfc_enabled: bool,
}

/// The poll loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataplane {
    /// CPU of each loop.
    pub cores: Vec<usize>,
}

/// Reads a configuration. `file_name` only serves to name the file in mistakes.
///
/// # Errors
/// All mistakes that the text contains. Where it is not TOML at all, nothing but that is examined; the sums over the
/// buffer are only examined once every single setting is right.
pub fn parse(file_name: &str, text: &str) -> Result<Config, Mistakes> {
    let mut found = Found::default();
    let file = Place { setting: String::new(), span: 0..0 };
    if text.len() > MAX_FILE_BYTES {
        found.add(
            &file,
            format!("{} bytes are too many", text.len()),
            format!("{MAX_FILE_BYTES} are the most"),
        );
        return Err(Mistakes::new(file_name, "", found));
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        found.add_syntax(error);
    }
    if !found.is_empty() {
        return Err(Mistakes::new(file_name, text, found));
    }
    let config = read(Section::new(document.get_ref(), file), &mut found);
    if found.is_empty() { Ok(config) } else { Err(Mistakes::new(file_name, text, found)) }
}

/// Reads the whole file. What is wrong is noted, and a default taken in its place.
fn read(mut file: Section, found: &mut Found) -> Config {
    let name = read_name(&mut file, found);
    let dataplane = read_dataplane(&mut file, found);
    let control_socket = read_control(&mut file, &name, found);
    let mut buffer = read_buffer(&mut file, found);
    let bridge = read_bridge(&mut file, found);
    let defaults = read_port_defaults(&mut file, found);
    let ports = read_ports(&mut file, &defaults, found);
    let place = file.place.clone();
    file.finish(&["alarm", "pfc", "telemetry", "wred"], found);

    checks::interfaces(&ports, found);
    checks::dependences(&defaults, &ports, found);
    if buffer.fixed_cells.is_none() {
        let reserved = u32::try_from(checks::reserved_cells(&ports)).unwrap_or(u32::MAX);
        buffer.settings.fixed_cells = (buffer.settings.total_cells / 8).max(reserved);
    }
    // Sums over numbers that could not be read would put the blame in the wrong place.
    if found.is_empty() {
        checks::buffer(&buffer, &ports, &place, found);
    }

    let interfaces =
        ports.iter().filter_map(|port| Some(port.own.interface.as_ref()?.value.clone())).collect();
    let ports = ports.into_iter().map(|port| port.settings).collect();
    let switch = SwitchSettings { buffer: buffer.settings, bridge, usage_percent: 100, ports };
    Config { name, dataplane, switch, interfaces, control_socket, pfc_enabled: true }
}

fn read_name(file: &mut Section, found: &mut Found) -> String {
    let default = || "sluice".to_owned();
    let Some(mut section) = file.section("switch", found) else { return default() };
    let name = section.string("name", "lab", found);
    section.finish(&[], found);
    match name {
        Some(name) if is_name(name.value) => name.value.to_owned(),
        Some(name) => {
            found.add(&name.place, format!("{} is no name", quoted(name.value)), NAME_CURE);
            default()
        }
        None => default(),
    }
}

fn read_dataplane(file: &mut Section, found: &mut Found) -> Dataplane {
    let mut dataplane = Dataplane { cores: vec![0] };
    let Some(mut section) = file.section("dataplane", found) else { return dataplane };
    if let Some(cores) = section.numbers("cores", 0..=1023, found) {
        match cores.value.len() {
            1 => dataplane.cores = cores.value,
            0 => found.add(&cores.place, "no core", "name one, as in cores = [0]"),
            _ => found.add(&cores.place, "several cores do not work yet", "name one, as in cores = [0]"),
        }
    }
    section.finish(&[], found);
    dataplane
}

fn read_control(file: &mut Section, name: &str, found: &mut Found) -> PathBuf {
    let default = PathBuf::from(format!("/run/sluice/{name}.sock"));
    let Some(mut section) = file.section("control", found) else { return default };
    let socket = section.string("socket", "/run/sluice/lab.sock", found);
    section.finish(&[], found);
    let Some(socket) = socket else { return default };
    if !socket.value.starts_with('/') || socket.value.contains('\0') {
        found.add(&socket.place, "not an absolute path", "begin it with /, as in \"/run/sluice/lab.sock\"");
    } else if socket.value.len() > SOCKET_BYTES {
        let what = format!("{} bytes are too many for the path of a socket", socket.value.len());
        found.add(&socket.place, what, format!("the kernel takes {SOCKET_BYTES}"));
    }
    PathBuf::from(socket.value)
}

fn read_buffer(file: &mut Section, found: &mut Found) -> Buffer {
    let mut settings = BufferSettings::default();
    let Some(mut section) = file.section("buffer", found) else {
        return Buffer { total_cells: None, fixed_cells: None, headroom_cells: None, settings };
    };
    if let Some(cell_bytes) = section.number("cell_bytes", 64..=9216, found) {
        settings.cell_bytes = cell_bytes.value;
    }
    let total_cells = section.number("total_cells", 1..=MAX_CELLS, found);
    let fixed_cells = section.number("fixed_cells", 0..=MAX_CELLS, found);
    let headroom_cells = section.number("headroom_cells", 0..=MAX_CELLS, found);
    section.finish(&["egress", "ingress"], found);
    settings.total_cells = total_cells.as_ref().map_or(settings.total_cells, |cells| cells.value);
    settings.fixed_cells = fixed_cells.as_ref().map_or(settings.fixed_cells, |cells| cells.value);
    settings.headroom_cells = headroom_cells.as_ref().map_or(settings.headroom_cells, |cells| cells.value);
    Buffer { total_cells, fixed_cells, headroom_cells, settings }
}

fn read_bridge(file: &mut Section, found: &mut Found) -> BridgeSettings {
    let mut bridge = BridgeSettings::default();
    let Some(mut section) = file.section("bridge", found) else { return bridge };
    if let Some(entries) = section.number("max_entries", 1..=1 << 20, found) {
        bridge.max_entries = entries.value;
    }
    // The standard's range begins at 10 s (IEEE 802.1Q-2022 table 8-6); a lab may be in more of a hurry.
    if let Some(aging_s) = section.number("aging_s", 1..=1_000_000u64, found) {
        bridge.aging_ns = aging_s.value * 1_000_000_000;
    }
    section.finish(&[], found);
    bridge
}

fn read_port_defaults(file: &mut Section, found: &mut Found) -> Written {
    let Some(section) = file.section("port-defaults", found) else { return Written::default() };
    if let Some(place) = section.place_of("interface") {
        found.add(&place, "an interface belongs to one port only", "move it to [port.NAME]");
    }
    Written::read(section, found)
}

fn read_ports(file: &mut Section, defaults: &Written, found: &mut Found) -> Vec<Port> {
    let example = "write [port.NAME] with an interface for each port";
    let Some(mut sections) = file.section("port", found) else {
        let place = Place { setting: "port".to_owned(), span: 0..0 };
        if !file.has("port") {
            found.add(&place, "no port", example);
        }
        return Vec::new();
    };
    let place = sections.place.clone();
    let mut ports = Vec::new();
    for (name, section) in sections.sections(found) {
        ports.push(read_port(name, section, defaults, found));
    }
    if ports.is_empty() {
        found.add(&place, "no port", example);
    } else if let Some(port) = ports.get(MAX_PORTS) {
        let what = format!("this is the first of {} ports too many", ports.len() - MAX_PORTS);
        found.add(&port.place, what, format!("a switch has at most {MAX_PORTS} ports"));
    }
    ports
}

fn read_port(name: &str, section: Section, defaults: &Written, found: &mut Found) -> Port {
    let place = section.place.clone();
    if !is_name(name) {
        found.add(&place, format!("{} is no name", quoted(name)), NAME_CURE);
    }
    if !section.has("interface") {
        found.add(
            &place,
            "no interface",
            "write interface = \"…\", the network interface that the port uses",
        );
    }
    let own = Written::read(section, found);
    let effective = own.over(defaults);
    let settings = effective.settings(name);
    Port { place, own, effective, settings }
}
