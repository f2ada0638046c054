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
//! [pfc]
//! enabled = true                   # false: PFC is off on all ports, whatever they say
//!
//! [alarm]
//! usage_percent = 100              # a queue or group that uses more of what it is allowed counts a violation
//!
//! [buffer]                         # each _cells can be _bytes instead; what fills no whole cell is left over
//! cell_bytes     = 256             # 64 to 9216
//! total_cells    = 131072
//! fixed_cells    = 16384           # default: an eighth of all, or what is reserved or guaranteed if that is more
//! headroom_cells = 12288
//!
//! [buffer.ingress.pool.1]          # service pools 0 to 3 of the shared area; pool 0 has what the others leave
//! shared_percent = 20
//!
//! [buffer.egress.pool.1]
//! shared_percent = 20
//!
//! [buffer.ingress.profile.lossless]  # what a profile leaves out is 0, but for shared
//! reserved_bytes   = 2048          # or reserved_cells, and so on: bytes are rounded up to whole cells
//! shared           = { static_bytes = 19456 }  # as xoff below
//! xoff_bytes       = 196608        # headroom: room for what still arrives after XOFF
//! xon_bytes        = 15872         # as resume_cells below
//! xon_offset_bytes = 3584
//!
//! [buffer.egress.profile.lossy]
//! reserved_bytes = 0               # guaranteed to each queue
//! shared         = { dynamic_th = 1 }
//!
//! [wred.table5.queue.5]            # what a growing queue does; a table has any of the queues 0 to 7
//! weighting_exponent = 9           # of the average length, 0 to 15; 0: the length of the instant
//! ecn          = true              # default: false, then frames drop instead of being marked
//! mark         = "enqueue"         # "enqueue" | "dequeue"
//! drop_not_ect = false             # on a no-drop queue, frames that cannot be marked drop
//! green  = { low_cells = 100, high_cells = 1000, probability_percent = 10 }  # the defaults of every level
//! yellow = { low_bytes = 20000, high_bytes = 200000 }  # rounded up to whole cells
//!
//! [queue-profile.gentle]           # the same mechanism, queue by queue
//! action = "ecn"                   # required: "ecn" | "wred" | "none": tail drop only
//! green  = { min_threshold_bytes = 0, max_threshold_bytes = 32058368, probability_percent = 100 }  # or _cells; defaults
//! weighting_exponent = 0           # the default
//!
//! [bridge]
//! max_entries = 16384
//! aging_s     = 300
//! unknown_unicast_to_queue = [0, 1, 1, 1, 2, 2, 6, 6]  # by priority; left out: to the queues of all other frames
//!
//! [port-defaults]                  # the same settings as a port has, but for its interface
//! trust         = "dot1p"          # "dot1p" | "dscp" | "none": then port_priority counts
//! port_priority = 0
//!
//! [port.server1]                   # at least one; the order of the file gives the numbers, from 0
//! interface       = "veth0"        # required
//! speed           = "2.5G"         # or bit/s as a number; left out: as fast as the interface takes frames
//! burst_bytes     = 1250000        # to catch up with after idle time; default: 4 ms of line time
//! wire_overhead   = true           # a frame takes 24 bytes more: preamble, FCS, gap; default: true where speed is set
//! cable_m         = 10             # for advice only, as is mtu
//! mtu             = 1536           # bytes of the longest frame, without FCS
//! in_flight_bytes = 65536
//! dot1p_to_queue      = [2, 0, 1, 3, 4, 5, 6, 7]
//! dot1p_to_drop_level = [0, 0, 0, 0, 0, 0, 0, 0]  # 0 green, 1 yellow, 2 red
//! dei_drop_level  = 0              # of tagged frames with DEI, if it is higher than the map's
//! policy          = [{ dot1p = 5, local_precedence = 3 }]  # by the tag; wins over the maps
//! rewrite.dot1p   = [0, 1, 2, 3, 4, 5, 6, 7]      # by local precedence; left out: frames leave as they came
//! rewrite.dscp    = [0, 8, 16, 24, 32, 40, 48, 56]
//! wred            = "table5"
//! queue_profile   = { gentle = [0, 1, 2] }
//!
//! [port.server1.pfc]
//! mode       = "on"                # "on" | "off": off, no_drop and what PFC needs have no effect
//! rx         = true                # default: as mode
//! tx         = true
//! no_drop    = [3, 4]
//! pause_time = 65535               # quanta
//!
//! [port.server1.pfc.priority.3]    # each _cells can be _bytes instead, rounded up
//! headroom_cells   = 100
//! xoff             = { dynamic_percent = 5 }  # or static_cells, static_bytes, dynamic_th: alpha = 2^n, n -7 to 3
//! xon_offset_cells = 12
//! resume_cells     = 0
//! reserved_cells   = 17
//!
//! [port.server1.schedule]
//! mode = "sp-wrr"                  # "sp-wrr" | "ets"
//! wrr  = "byte-count"              # "byte-count" | "packet-count"
//! queue.3 = { group = "sp" }       # "sp" goes before "wrr1", or "wrr", and that before "wrr2"
//! queue.4 = { group = "wrr", weight = 5, rate = "1G", burst_bytes = 500000 }  # weights 1,2,3,4,5,9,13,15 by default
//!
//! [port.server1.buffer]
//! ingress.priority.3 = { pool = 1 }
//! ingress.priority.4 = { profile = "lossless" }  # instead of pfc.priority.4
//! egress.queue.3 = { pool = 1, guaranteed_percent = 13, shared_percent = 20 }  # or shared_cells
//! egress.queue.1 = { profile = "lossy" }
//!
//! [port.server2]
//! interface = "veth1"
//! trust     = "dscp"               # DSCPs that a map does not list keep their defaults:
//! dscp_to_dot1p      = { "46" = 5, "8-15" = 1 }  # DSCP / 8
//! dscp_to_queue      = { "48-63" = 7 }           # through the priority
//! dscp_to_drop_level = { "12" = 1, "14" = 2 }    # 0
//!
//! [port.server2.schedule]          # without groups: those that are here, at 50 % each, and WRR inside group 1
//! mode = "ets"
//! group.0  = { queues = [0, 1, 2, 4, 5], bandwidth_percent = 60 }  # all groups but 15 make 100 % together
//! group.1  = { queues = [3], bandwidth_percent = 40, scheduling = "sp", rate = "2G", burst_bytes = 1000000 }
//! group.15 = { queues = [6, 7] }   # before all others; inside it scheduling is "sp" by default, in others "wrr"
//! queue.4  = { weight = 2, rate = "500M" }  # weights are 1 by default
//! ```
//!
//! A port's own settings win over the defaults one by one. A list is one setting, the policy too, and the groups of a
//! schedule together; in a map by DSCP each DSCP is one, and in `queue_profile` each queue. A buffer profile says all
//! thresholds of a priority or queue, so where a port binds one, nothing is left of the defaults' thresholds.
//!
//! A queue has WRED from a table or from a queue profile, not from both. A port that binds a table leaves nothing of the
//! defaults' table and, for the queues in it, of the defaults' profiles; its own profiles win over both. On a no-drop queue
//! WRED needs ECN to do anything, and only there may `drop_not_ect` be true.
//!
//! A group that is not no-drop reserves nothing and may take all the shared cells its pool has, unless `reserved_cells` and
//! `xoff` or a profile say otherwise; its XOFF threshold is where its frames drop. Settings that later versions will know
//! are refused as not working yet. What is right but cannot keep a no-drop priority lossless is accepted with a warning
//! ([`Config::warnings`]).
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod advice;
mod amount;
mod buffer;
mod changes;
mod checks;
mod classify;
mod congestion;
mod mistakes;
mod ports;
pub mod reader;
mod schedule;
mod section;
mod thresholds;
mod values;

use std::ops::RangeInclusive;
use std::path::PathBuf;

use switch::SwitchSettings;
use switch::settings::{BridgeSettings, MAX_PORTS};

use crate::buffer::Buffer;
pub use crate::changes::{Changes, changes};
use crate::checks::Port;
use crate::congestion::Congestion;
use crate::mistakes::{Found, Place};
pub use crate::mistakes::{Mistake, Mistakes};
use crate::ports::Written;
pub use crate::ports::{CABLE_M, MTU_BYTES};
use crate::section::{Section, quoted};
use crate::values::{NAME_CURE, is_name};
pub use crate::values::{parse_speed, spell_speed};

/// Bytes of a cell.
pub const CELL_BYTES: RangeInclusive<u32> = 64..=9216;
/// Most cells of a buffer, or of a part of it. Each cell may need a frame of memory, and that would be 64 GiB.
pub const MAX_CELLS: u32 = 1 << 24;
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
    /// PFC may work at all. If not, [`SwitchSettings::without_pfc`] of `switch` is what is meant.
    pub pfc_enabled: bool,
    /// Network interface of each port, by port number.
    pub interfaces: Vec<String>,
    /// What the file says of each port's cable, by port number: for advice about headroom, and nothing else.
    pub links: Vec<Link>,
    /// Path of the Unix socket that the control API listens on.
    pub control_socket: PathBuf,
    /// What the file may say but should not: thresholds that cannot be lossless, and the like. Often there is nothing.
    pub warnings: Mistakes,
}

/// The poll loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataplane {
    /// CPU of each loop.
    pub cores: Vec<usize>,
}

/// What a port's cable is said to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Link {
    /// Its length in metres.
    pub cable_m: Option<u32>,
    /// The longest frame on it in bytes, without FCS.
    pub mtu_bytes: Option<u32>,
}

/// Reads a configuration. `file_name` only serves to name the file in mistakes.
///
/// # Errors
/// All mistakes that the text contains. Where it is not TOML at all, nothing but that is examined; the sums over the
/// buffer, and what WRED does on no-drop queues, are only examined once every single setting is right.
pub fn parse(file_name: &str, text: &str) -> Result<Config, Mistakes> {
    reader::read_file(file_name, text, |file, found| read(file_name, text, file, found))
}

/// Reads the whole file. What is wrong is noted, and a default taken in its place.
fn read(file_name: &str, text: &str, mut file: Section, found: &mut Found) -> Config {
    let name = read_name(&mut file, found);
    let dataplane = read_dataplane(&mut file, found);
    let control_socket = read_control(&mut file, &name, found);
    let mut buffer = Buffer::read(&mut file, found);
    let congestion = Congestion::read(&mut file, buffer.settings.cell_bytes, found);
    let bridge = read_bridge(&mut file, found);
    let pfc_enabled = read_pfc(&mut file, found);
    let usage_percent = read_alarm(&mut file, found);
    let defaults = read_port_defaults(&mut file, &buffer, &congestion, found);
    let ports = read_ports(&mut file, &buffer, &congestion, &defaults, found);
    let place = file.place.clone();
    file.finish(&["telemetry"], found);

    checks::interfaces(&ports, found);
    checks::dependences(&defaults, &ports, found);
    if buffer.fixed_cells.is_none() {
        let needed = u32::try_from(checks::fixed_cells_needed(&ports)).unwrap_or(u32::MAX);
        buffer.settings.fixed_cells = (buffer.settings.total_cells / 8).max(needed);
    }
    // What comes of several settings, of which one could not be read, would put the blame in the wrong place.
    if found.is_empty() {
        congestion::no_drop_queues(&ports, &bridge, found);
        checks::buffer(&buffer, &ports, &place, found);
    }

    let interfaces =
        ports.iter().filter_map(|port| Some(port.own.interface.as_ref()?.value.clone())).collect();
    let links = ports.iter().map(|port| port.effective.link()).collect();
    let settings = ports.iter().map(|port| port.settings.clone()).collect();
    let switch = SwitchSettings { buffer: buffer.settings, bridge, usage_percent, seed: 0, ports: settings };
    let mut warnings = Found::default();
    if found.is_empty() {
        advice::advise(&buffer, &ports, &switch, &mut warnings);
    }
    let warnings = Mistakes::warnings(file_name, text, warnings);
    Config { name, dataplane, switch, pfc_enabled, interfaces, links, control_socket, warnings }
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
    let queues = section.eight("unknown_unicast_to_queue", 0..=7, "priority", found);
    bridge.unknown_unicast_to_queue = queues.map(|queues| queues.value);
    section.finish(&[], found);
    bridge
}

/// Whether PFC may work.
fn read_pfc(file: &mut Section, found: &mut Found) -> bool {
    let Some(mut section) = file.section("pfc", found) else { return true };
    let enabled = section.boolean("enabled", found);
    section.finish(&["watchdog"], found);
    enabled.is_none_or(|enabled| enabled.value)
}

/// The usage threshold in percent.
fn read_alarm(file: &mut Section, found: &mut Found) -> u8 {
    let Some(mut section) = file.section("alarm", found) else { return 100 };
    let usage_percent = section.number("usage_percent", 1..=100, found);
    section.finish(&["drop", "egress", "headroom", "ingress"], found);
    usage_percent.map_or(100, |percent| percent.value)
}

fn read_port_defaults(
    file: &mut Section,
    buffer: &Buffer,
    congestion: &Congestion,
    found: &mut Found,
) -> Written {
    let Some(section) = file.section("port-defaults", found) else { return Written::default() };
    if let Some(place) = section.place_of("interface") {
        found.add(&place, "an interface belongs to one port only", "move it to [port.NAME]");
    }
    Written::read(section, buffer, congestion, found)
}

fn read_ports(
    file: &mut Section,
    buffer: &Buffer,
    congestion: &Congestion,
    defaults: &Written,
    found: &mut Found,
) -> Vec<Port> {
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
        ports.push(read_port(name, section, buffer, congestion, defaults, found));
    }
    if ports.is_empty() {
        found.add(&place, "no port", example);
    } else if let Some(port) = ports.get(MAX_PORTS) {
        let what = format!("this is the first of {} ports too many", ports.len() - MAX_PORTS);
        found.add(&port.place, what, format!("a switch has at most {MAX_PORTS} ports"));
    }
    ports
}

fn read_port(
    name: &str,
    section: Section,
    buffer: &Buffer,
    congestion: &Congestion,
    defaults: &Written,
    found: &mut Found,
) -> Port {
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
    let own = Written::read(section, buffer, congestion, found);
    let effective = own.over(defaults);
    let settings = effective.settings(name);
    Port { place, own, effective, settings }
}
