//! Interface state from rtnetlink: address, MTU and kind before ports are opened, and then every
//! change that matters to a port.

use std::collections::VecDeque;

use anyhow::{Context, Result};
use nix::errno::Errno;
use tokio::io::unix::AsyncFd;
use wire::mac::MacAddr;
use xdp::netlink::{Link, LinkChange, RouteSocket};

use crate::ports::fsm::LinkState;

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

/// A change of a port's interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkEvent {
    /// Port number.
    pub port: usize,
    /// The interface as it is now, if it exists. It may be another one than before.
    pub interface: Option<Interface>,
}

impl LinkEvent {
    /// State of the interface and its carrier.
    pub fn link(&self) -> LinkState {
        self.interface.as_ref().map_or(LinkState::Gone, |interface| interface.state)
    }
}

/// Monitors the interfaces of all ports.
pub struct LinkMonitor {
    route: RouteSocket,
    changes: AsyncFd<RouteSocket>,
    /// The ports by slot; some slots are vacant.
    ports: Vec<Option<MonitoredPort>>,
    notices: VecDeque<LinkEvent>,
    /// The first slot whose interface must be queried again; those of the later slots follow.
    query_from: Option<usize>,
}

struct MonitoredPort {
    interface: String,
    index: u32,
    /// MTU in bytes, and speed in bit/s.
    link: (u32, Option<u64>),
    seen: LinkState,
}

/// Looks up these interfaces by name. `None` where there is no such interface.
pub fn look_up(names: &[String]) -> Result<Vec<Option<Interface>>> {
    let route = RouteSocket::open().context(OPENING)?;
    names.iter().map(|name| by_name(&route, name)).collect()
}

impl LinkMonitor {
    /// Creates a monitor of no interface yet, in a Tokio runtime.
    pub fn new() -> Result<Self> {
        let route = RouteSocket::open().context(OPENING)?;
        let changes = RouteSocket::watch_links().context(OPENING)?;
        #[allow(deprecated, reason = "its successor is unsafe; a route socket keeps its descriptor")]
        let changes = AsyncFd::new(changes).context(OPENING)?;
        Ok(Self { route, changes, ports: Vec::new(), notices: VecDeque::new(), query_from: None })
    }

    /// Starts to monitor the interface of one more port, which was as `interface` says at its
    /// look-up. A change since then is reported.
    pub fn add(&mut self, slot: usize, name: &str, interface: Option<&Interface>) {
        if self.ports.len() <= slot {
            self.ports.resize_with(slot + 1, || None);
        }
        self.ports[slot] = Some(MonitoredPort {
            interface: name.to_owned(),
            index: interface.map_or(0, |interface| interface.index),
            link: interface.map_or((0, None), |interface| (interface.mtu, interface.speed_bps)),
            seen: interface.map_or(LinkState::Gone, |interface| interface.state),
        });
        self.query_from = Some(self.query_from.map_or(slot, |from| from.min(slot)));
    }

    /// Stops monitoring the interface of this port.
    pub fn forget(&mut self, slot: usize) {
        if let Some(port) = self.ports.get_mut(slot) {
            *port = None;
        }
        self.notices.retain(|notice| notice.port != slot);
    }

    /// Waits for the next change. Cancel-safe: a canceled call can be repeated without loss.
    ///
    /// # Errors
    /// The kernel has stopped reporting changes.
    pub async fn next(&mut self) -> Result<LinkEvent> {
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return Ok(notice);
            }
            if let Some(slot) = self.query_from {
                self.query(slot)?;
                self.query_from = Some(slot + 1).filter(|&next| next < self.ports.len());
                continue;
            }
            let mut ready = self.changes.readable().await.context("netlink reports nothing any more")?;
            let changes = ready.get_inner().link_changes().context("netlink reports nothing any more")?;
            ready.clear_ready();
            for change in changes {
                match change {
                    LinkChange::Set(link) => self.on_change(&link, false),
                    LinkChange::Deleted(link) => self.on_change(&link, true),
                    LinkChange::Lost => self.query_from = Some(0),
                }
            }
        }
    }

    /// Queries an interface again.
    fn query(&mut self, slot: usize) -> Result<()> {
        let Some(Some(MonitoredPort { interface, index: before, .. })) = self.ports.get(slot) else {
            return Ok(());
        };
        let (before, interface) = (*before, by_name(&self.route, interface)?);
        // A different index: our interface was deleted, and this is a new one of the same name.
        if interface.as_ref().is_none_or(|interface| interface.index != before) {
            self.observe(slot, None);
        }
        if let Some(interface) = interface {
            self.record_index(slot, interface.index);
            self.observe(slot, Some(interface));
        }
        Ok(())
    }

    fn record_index(&mut self, slot: usize, index: u32) {
        if let Some(port) = &mut self.ports[slot] {
            port.index = index;
        }
    }

    fn on_change(&mut self, link: &Link, deleted: bool) {
        let index = link.index as u32;
        let slot = |is_it: &dyn Fn(&MonitoredPort) -> bool| {
            self.ports.iter().position(|port| port.as_ref().is_some_and(is_it))
        };
        if let Some(port) = slot(&|port| port.index == index) {
            self.observe(port, (!deleted).then(|| describe(link)));
        } else if !deleted && let Some(port) = slot(&|port| port.interface == link.name) {
            // A new interface that replaces a deleted one.
            self.record_index(port, index);
            self.observe(port, Some(describe(link)));
        }
    }

    /// Compares the current state of a port's interface with the previous one.
    fn observe(&mut self, port: usize, interface: Option<Interface>) {
        let seen = interface.as_ref().map_or(LinkState::Gone, |interface| interface.state);
        let Some(watched) = &mut self.ports[port] else { return };
        let link = interface.as_ref().map_or(watched.link, |interface| (interface.mtu, interface.speed_bps));
        if (watched.link, watched.seen) != (link, seen) {
            (watched.link, watched.seen) = (link, seen);
            self.notices.push_back(LinkEvent { port, interface });
        }
    }
}

const OPENING: &str = "opening a netlink socket";

fn by_name(route: &RouteSocket, name: &str) -> Result<Option<Interface>> {
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

fn describe(link: &Link) -> Interface {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn any_slot_can_be_monitored() {
        let mut monitor = LinkMonitor::new().unwrap();
        monitor.forget(9);
        monitor.add(5, "lo", None); // it was not there at its look-up
        let event = monitor.next().await.unwrap();
        assert_eq!((event.port, event.interface.map(|lo| lo.name)), (5, Some("lo".to_owned())));
        monitor.add(0, "lo", None);
        assert_eq!(monitor.next().await.unwrap().port, 0);
    }
}
