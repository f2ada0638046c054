//! Opens the ports of a configuration: first the memory, then one port after the other. On any
//! error, all that was opened is closed.
//!
//! Rule: a port whose interface is missing or down stays closed, and is opened once its interface
//! has a carrier ([`crate::ports::fsm`]), unless the start is strict. So does a port that the file
//! takes down. Any other error is one.

use anyhow::{Context, Result};
use config::Config;
use control::PortDetails;
use control::v1::Caution;
use switch::PortSettings;
use switch::settings::MAX_PORTS;
use tracing::{info, warn};
use wire::bitset::Set8;
use wire::mac::MacAddr;
use xdp::{PortConfig, Umem, XdpPort};

use crate::host_settings::ChangedSettings;
use crate::ports::core_assignment::CoreAssignment;
use crate::ports::fsm::LinkState;
use crate::ports::interface::Interface;
use crate::ports::supervisor::StartedPort;
use crate::ports::worker::{Assignment, look, mode_name};

/// A stall of the loop for which frames are posted. It covers a few time slices of other work on
/// the loop's core (EEVDF: up to 2.8 ms each), or the delay until a guard's PFC takes effect if its
/// core, or that of a peer, is busy in the kernel.
const STALL_NS: u64 = 10_000_000;
/// Bits that the shortest frame takes on a line: 64 bytes with FCS, preamble and inter-frame gap.
const SHORTEST_FRAME_BITS: u64 = 8 * (64 + 20);

/// Open ports on their memory.
#[derive(Debug)]
pub struct OpenPorts {
    /// The ports in the order of the configuration, and a closed port for each one that may be
    /// added. Declared before `memory`, so that they are closed first.
    pub ports: Vec<XdpPort>,
    /// The memory of their frames.
    pub memory: Umem,
}

impl OpenPorts {
    /// Opens a port on each interface of the configuration that is there and up, or on all of them
    /// if the start is `strict`.
    ///
    /// # Errors
    /// A single error with its remedy; the interfaces are then as they were before.
    pub fn open(
        config: &Config,
        interfaces: &[Option<Interface>],
        strict: bool,
        changed: &mut ChangedSettings,
    ) -> Result<Self> {
        let mut memory = memory_for(config, interfaces)?;
        let mut ports = Vec::with_capacity(MAX_PORTS);
        let spare = port_setup(config);
        for (slot, ((settings, name), interface)) in
            config.negotiable_ports().iter().zip(&config.interfaces).zip(interfaces).enumerate()
        {
            if config.vhost_user[slot].is_some() {
                ports.push(XdpPort::unassigned(&mut memory, &spare));
                continue;
            }
            // Also of one that is down: the host's stack would send when it comes up.
            changed.change(name);
            let is_there = interface.as_ref().is_some_and(|interface| interface.state != LinkState::Down);
            let admin_up = config.is_admin_up(&settings.name);
            if !admin_up || (!is_there && !strict) {
                ports.push(XdpPort::unassigned(&mut memory, &spare));
                continue;
            }
            let setup = PortConfig { min_posted: min_posted(settings), ..port_setup(config) };
            let port = match XdpPort::open(&mut memory, name, &setup) {
                // It was there a moment ago.
                Err(xdp::Error::NoInterface { .. } | xdp::Error::Down { .. }) if !strict => {
                    XdpPort::unassigned(&mut memory, &spare)
                }
                opened => opened.with_context(|| format!("port {}", settings.name))?,
            };
            ports.push(port);
        }
        while ports.len() < MAX_PORTS {
            ports.push(XdpPort::unassigned(&mut memory, &spare));
        }
        Ok(Self { ports, memory })
    }

    /// The ports of the configuration as they are now, on these interfaces.
    pub fn started(&self, config: &Config, interfaces: Vec<Option<Interface>>) -> Vec<StartedPort> {
        let negotiable = config.negotiable_ports();
        let ports = self.ports.iter().zip(&negotiable).zip(&config.interfaces).zip(interfaces);
        let started = |(((port, settings), name), interface): (((&XdpPort, &PortSettings), &String), _)| {
            let (facts, peer) = (port.queues() > 0).then(|| details(port)).unzip();
            StartedPort {
                interface,
                details: facts,
                peer: peer.flatten(),
                queues: port.queues().max(1) as u32,
                admin_up: config.is_admin_up(&settings.name),
                assignment: Assignment { interface: name.clone(), min_posted: min_posted(settings) },
            }
        };
        ports.map(started).collect()
    }
}

/// The facts about the interface of an open port, as reported to clients, and the address of its
/// peer's interface.
fn details(port: &XdpPort) -> (PortDetails, Option<MacAddr>) {
    let (link, peer) = look(port.interface(), port.xdp_mode(), port.port_mode());
    let facts = PortDetails {
        interface: port.interface().to_owned(),
        xdp_mode: mode_name(port.xdp_mode()).to_owned(),
        vlan_tags_restored: port.vlan_tags_restored(),
        mtu_bytes: 0,
        link,
    };
    (facts, peer)
}

/// Returns the ring configuration of all ports of a switch.
fn port_setup(config: &Config) -> PortConfig {
    let zero_copy = match config.dataplane.zero_copy {
        config::ZeroCopy::Auto => xdp::ZeroCopy::Auto,
        config::ZeroCopy::Off => xdp::ZeroCopy::Off,
        config::ZeroCopy::Emulate => xdp::ZeroCopy::Emulate,
    };
    PortConfig { promiscuous: true, zero_copy, ..PortConfig::default() }
}

/// Returns the fewest frames that a port keeps posted to its fill ring. A frame for which the
/// kernel has no chunk is lost whatever its priority. So if one priority is no-drop, or may become
/// so by DCBX ([`Config::negotiable_ports`]), enough frames are posted for a stall at the rate of
/// the port or of its link.
pub fn min_posted(settings: &PortSettings) -> u32 {
    let PortConfig { min_posted, max_posted, .. } = PortConfig::default();
    if settings.pfc.no_drop != 0 {
        let frames = u128::from(settings.pause_speed_bps()) * u128::from(STALL_NS)
            / (u128::from(SHORTEST_FRAME_BITS) * 1_000_000_000);
        return frames.clamp(min_posted.into(), max_posted.into()) as u32;
    }
    min_posted
}

/// Cells that a port added later may reserve beyond what its peers then reserve less, and the
/// frames that cells do not account for.
const SPARE_PORT_FRAMES: usize = 256 + switch::FRAMES_PER_PORT;

/// Returns the frames of memory for what the switch may hold, including ports that may be added. If
/// a cell is longer than a frame of memory, the smaller frames are assumed.
pub fn switch_frames(config: &Config) -> usize {
    switch::frames_needed(&config.switch, xdp::MIN_CHUNK_BYTES)
        + config.dataplane.spare_ports * SPARE_PORT_FRAMES
}

/// Returns the RX queues to reserve memory for: those of these interfaces, one for each that is not
/// there, and spare ones.
pub fn queues_set_aside(config: &Config, interfaces: &[Option<Interface>]) -> u32 {
    let queues = |interface: &Option<Interface>| xdp::queues_of(&interface.as_ref()?.name).ok();
    let of_ports: u32 = interfaces.iter().map(|interface| queues(interface).unwrap_or(1)).sum();
    of_ports + config.dataplane.spare_ports as u32
}

/// Creates memory in which every cell can be a frame of minimum size while all rings are full, so
/// that cells run out before memory does.
fn memory_for(config: &Config, interfaces: &[Option<Interface>]) -> Result<Umem> {
    let on_channel = if config.dataplane.cores.len() > 1 { dataplane::CHANNEL_FRAMES } else { 0 };
    let queues = queues_set_aside(config, interfaces) as usize;
    let frames = switch_frames(config) + queues * (xdp::FRAMES_PER_QUEUE + on_channel);
    let names = interfaces.iter().flatten().map(|interface| interface.name.as_str());
    let frame_bytes = xdp::frame_bytes_for(names)?;
    let memory = Umem::new(frames, frame_bytes).context("buffer")?;
    info!(frames, frame_bytes, MiB = (frames * frame_bytes) >> 20, "memory for frames");
    Ok(memory)
}

/// Logs the properties of each open port.
pub fn log(config: &Config, servers: &CoreAssignment, ports: &[StartedPort]) {
    for (slot, (settings, port)) in config.switch.ports.iter().zip(ports).enumerate() {
        let StartedPort { interface: Some(interface), details: Some(facts), .. } = port else { continue };
        let no_drop: Vec<String> =
            Set8::from_bits(settings.pfc.no_drop).into_iter().map(|priority| priority.to_string()).collect();
        info!(
            interface = facts.interface,
            kind = interface.kind.name(),
            driver = facts.link.driver,
            queues = facts.link.rx_queues,
            core = servers.core(slot),
            mac = %interface.mac,
            mtu = interface.mtu,
            xdp = facts.xdp_mode,
            zero_copy = facts.link.zero_copy,
            own_memory = facts.link.own_memory,
            vlan_tags = if facts.vlan_tags_restored { "restored" } else { "as they come" },
            speed = settings.speed_bps.map_or("unbounded".to_owned(), speed),
            no_drop = if no_drop.is_empty() { "none".to_owned() } else { no_drop.join(",") },
            "port {}", settings.name
        );
        warnings(&settings.name, interface, facts);
    }
}

/// Warns of the properties of a port that is not a plain veth with a carrier.
fn warnings(port: &str, interface: &Interface, facts: &PortDetails) {
    let name = &interface.name;
    if interface.state == LinkState::NoCarrier {
        warn!(port, interface = name, "no carrier yet: frames for this port are lost until its peer is up");
    }
    if facts.xdp_mode == "generic" {
        warn!(
            port,
            interface = name,
            "generic XDP: the driver does not support native XDP, so this port is slower"
        );
    }
    if interface.kind.is_virtual() && !facts.vlan_tags_restored && facts.link.kind != "macvlan" {
        warn!(
            port,
            interface = name,
            "VLAN tags that a host holds out of band are lost here (the kernel or driver cannot show them): on that \
             host, `ethtool -K INTERFACE txvlan off`"
        );
    }
    for Caution { setting, harm, cure } in &facts.link.cautions {
        warn!(port, interface = name, setting, "{harm}: {cure}");
    }
}

/// Formats a rate in bit/s with a prefix.
fn speed(bps: u64) -> String {
    match bps {
        bps if bps >= 1_000_000_000 => format!("{} Gbit/s", bps as f64 / 1e9),
        bps if bps >= 1_000_000 => format!("{} Mbit/s", bps as f64 / 1e6),
        bps => format!("{} kbit/s", bps as f64 / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 Mbit/s are 148,809 frames a second, so 1488 in 10 ms. At 1 Gbit/s the size of the rings
    /// limits the number.
    #[test]
    fn frames_are_posted_for_a_stall_where_a_priority_is_no_drop() {
        let posted = |speed_bps, no_drop| {
            let mut settings = PortSettings::new("a", speed_bps);
            settings.pfc.no_drop = no_drop;
            super::min_posted(&settings)
        };
        let PortConfig { min_posted, max_posted, .. } = PortConfig::default();
        assert_eq!(posted(Some(100_000_000), 0b1000), 1488);
        assert_eq!(posted(Some(1_000_000_000), 0b1000), max_posted);
        assert_eq!(posted(Some(1_000_000), 0b1000), min_posted);
        assert_eq!(posted(Some(u64::MAX), 0b1000), max_posted);
        assert_eq!((posted(Some(1_000_000_000), 0), posted(None, 0b1000)), (min_posted, max_posted));
    }

    #[test]
    fn speeds_are_written_with_units() {
        for (bps, text) in [
            (25_000_000_000, "25 Gbit/s"),
            (2_500_000_000, "2.5 Gbit/s"),
            (500_000_000, "500 Mbit/s"),
            (64_000, "64 kbit/s"),
        ] {
            assert_eq!(speed(bps), text);
        }
    }
}
