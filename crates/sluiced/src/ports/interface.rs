//! An interface as the kernel describes it over rtnetlink: address, MTU, kind, speed, state.
//!
//! The kernel answers under RTNL, its lock of the network configuration, and so may take seconds
//! while other programs change theirs. The control thread waits for that at the start only.

use std::os::fd::RawFd;

use anyhow::{Context, Result};
use nix::errno::Errno;
use wire::mac::MacAddr;
use xdp::netlink::{Link, RouteSocket};

use crate::ports::fsm::LinkState;
use crate::stall_guard::PortTap;

/// An interface as the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Name of the network device.
    pub name: String,
    /// Interface index, which a new interface of the same name does not share.
    pub index: u32,
    pub mac: MacAddr,
    /// MTU in bytes.
    pub mtu: u32,
    pub kind: DeviceKind,
    /// Speed of the link in bit/s, if the driver reports it.
    pub speed_bps: Option<u64>,
    /// State of the interface and its carrier.
    pub state: LinkState,
}

impl Interface {
    /// Returns what the guard needs of it, with the sockets of its port.
    pub fn tap(&self, fds: Vec<RawFd>) -> PortTap {
        let is_cable = !matches!(&self.kind, DeviceKind::Software(kind) if kind == "veth");
        PortTap { mac: self.mac, interface_index: self.index, fds, is_cable }
    }
}

/// Kind of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceKind {
    /// A software device: `veth`, `tun`, …
    Software(String),
    /// A NIC that a hypervisor emulates.
    Virtio,
    /// A physical NIC.
    Hardware,
    /// No interface: a vhost-user socket.
    VhostUser,
}

impl DeviceKind {
    /// True if the peer is a Linux stack on the same machine, which may leave checksums unfilled.
    pub fn is_virtual(&self) -> bool {
        !matches!(self, DeviceKind::Hardware | DeviceKind::VhostUser)
    }

    /// The name of the kind for the log.
    pub fn name(&self) -> &str {
        match self {
            DeviceKind::Software(kind) => kind,
            DeviceKind::Virtio => "virtio",
            DeviceKind::Hardware => "NIC",
            DeviceKind::VhostUser => "vhost-user",
        }
    }
}

/// Returns the speed in bit/s that the driver of an interface reports. A link that is down, and
/// some drivers, report none.
fn speed_bps(interface: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok()?;
    let mbps = text.trim().parse::<u64>().ok()?; // −1: unknown
    (mbps > 0 && mbps < u64::from(u32::MAX)).then_some(mbps * 1_000_000)
}

/// The context of the error that no netlink socket could be opened.
pub const OPENING: &str = "opening a netlink socket";

/// Looks up these interfaces by name. `None` where there is no such interface.
pub fn look_up(names: &[String]) -> Result<Vec<Option<Interface>>> {
    let route = RouteSocket::open().context(OPENING)?;
    names.iter().map(|name| by_name(&route, name)).collect()
}

/// Looks up an interface by name. `None` if there is no such interface.
pub fn by_name(route: &RouteSocket, name: &str) -> Result<Option<Interface>> {
    match route.link(name) {
        Ok(link) => Ok(Some(describe(&link))),
        Err(error) if is_no_such_link(&error) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("interface {name}: looking it up")),
    }
}

/// ENODEV means that there is none; ERANGE and EINVAL that no interface can have such a name.
fn is_no_such_link(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::ENODEV | Errno::ERANGE | Errno::EINVAL))
}

/// Describes what a message of the kernel contains.
pub fn describe(link: &Link) -> Interface {
    Interface {
        name: link.name.clone(),
        index: link.index as u32,
        mac: link.mac.unwrap_or_default(),
        mtu: link.mtu,
        kind: match (link.kind.as_str(), link.bus.as_str()) {
            ("", "virtio") => DeviceKind::Virtio,
            ("", _) => DeviceKind::Hardware,
            (kind, _) => DeviceKind::Software(kind.to_owned()),
        },
        speed_bps: speed_bps(&link.name),
        state: match (link.up, link.has_carrier) {
            (false, _) => LinkState::Down,
            (true, true) => LinkState::Carrier,
            (true, false) => LinkState::NoCarrier,
        },
    }
}
