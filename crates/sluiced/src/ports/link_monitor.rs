//! Interface state from rtnetlink: address, MTU and kind before ports are opened, and then every
//! change that matters to a port.

use std::collections::VecDeque;

use anyhow::{Context, Result};
use futures::StreamExt;
use futures::TryStreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::SocketAddr;
use rtnetlink::{MulticastGroup, new_multicast_connection};
use wire::mac::MacAddr;

use crate::ports::fsm::LinkState;

/// An interface as the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Name of the network device.
    pub name: String,
    /// Interface index, which a new interface of the same name does not share.
    pub index: u32,
    /// MAC address.
    pub mac: MacAddr,
    /// MTU in bytes.
    pub mtu: u32,
    /// Kind of the device.
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

type Messages = UnboundedReceiver<(NetlinkMessage<RouteNetlinkMessage>, SocketAddr)>;

/// Monitors the interfaces of all ports.
pub struct LinkMonitor {
    handle: rtnetlink::Handle,
    messages: Messages,
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
///
/// # Errors
/// The kernel does not answer.
pub async fn look_up(names: &[String]) -> Result<Vec<Option<Interface>>> {
    let (handle, _messages) = connect()?;
    let mut interfaces = Vec::with_capacity(names.len());
    for name in names {
        interfaces.push(by_name(&handle, name).await?);
    }
    Ok(interfaces)
}

impl LinkMonitor {
    /// Creates a monitor of no interface yet.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn new() -> Result<Self> {
        let (handle, messages) = connect()?;
        Ok(Self { handle, messages, ports: Vec::new(), notices: VecDeque::new(), query_from: None })
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
                self.query(slot).await?;
                self.query_from = Some(slot + 1).filter(|&next| next < self.ports.len());
                continue;
            }
            let message = self.messages.next().await.context("netlink reports nothing any more")?;
            match message.0.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                    self.on_link_message(&link, false)
                }
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
                    self.on_link_message(&link, true)
                }
                // The socket's buffer overflowed, so reports are lost.
                NetlinkPayload::Overrun(_) => self.query_from = Some(0),
                _ => {}
            }
        }
    }

    /// Queries an interface again.
    async fn query(&mut self, slot: usize) -> Result<()> {
        let Some(Some(MonitoredPort { interface, index: before, .. })) = self.ports.get(slot) else {
            return Ok(());
        };
        let (before, interface) = (*before, by_name(&self.handle, interface).await?);
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

    fn on_link_message(&mut self, link: &LinkMessage, deleted: bool) {
        // A bridge also reports its ports, as links of its own address family.
        if link.header.interface_family != AddressFamily::Unspec {
            return;
        }
        let index = link.header.index;
        let slot = |is_it: &dyn Fn(&MonitoredPort) -> bool| {
            self.ports.iter().position(|port| port.as_ref().is_some_and(is_it))
        };
        if let Some(port) = slot(&|port| port.index == index) {
            self.observe(port, (!deleted).then(|| describe(link)));
        } else if !deleted && let Some(port) = slot(&|port| Some(port.interface.as_str()) == name(link)) {
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

/// Opens a netlink socket that receives reports about links. A task of the current runtime serves
/// it until both are dropped.
fn connect() -> Result<(rtnetlink::Handle, Messages)> {
    let (connection, handle, messages) =
        new_multicast_connection(&[MulticastGroup::Link]).context("opening a netlink socket")?;
    tokio::spawn(connection);
    Ok((handle, messages))
}

async fn by_name(handle: &rtnetlink::Handle, name: &str) -> Result<Option<Interface>> {
    let answer = handle.link().get().match_name(name).execute().try_next().await;
    match answer {
        Ok(link) => Ok(link.as_ref().map(describe)),
        Err(rtnetlink::Error::NetlinkError(error)) if is_no_such_link(error.raw_code()) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("interface {name}: looking it up")),
    }
}

/// ENODEV means that there is none; ERANGE and EINVAL that no interface can have such a name.
fn is_no_such_link(code: i32) -> bool {
    use nix::errno::Errno;
    matches!(Errno::from_raw(-code), Errno::ENODEV | Errno::ERANGE | Errno::EINVAL)
}

fn describe(link: &LinkMessage) -> Interface {
    let mut interface = Interface {
        name: String::new(),
        index: link.header.index,
        mac: MacAddr::default(),
        mtu: 0,
        kind: DeviceKind::Hardware,
        speed_bps: None,
        state: seen(link),
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => interface.mtu = *mtu,
            LinkAttribute::Address(bytes) => {
                interface.mac = bytes.as_slice().try_into().map_or(MacAddr::default(), MacAddr);
            }
            LinkAttribute::ParentDevBusName(bus) if bus == "virtio" => interface.kind = DeviceKind::Virtio,
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    if let LinkInfo::Kind(kind) = info {
                        interface.kind = DeviceKind::Software(kind.to_string());
                    }
                }
            }
            _ => {}
        }
    }
    interface.speed_bps = speed_bps(&interface.name);
    interface
}

fn seen(link: &LinkMessage) -> LinkState {
    if !link.header.flags.contains(LinkFlags::Up) {
        LinkState::Down
    } else if link.header.flags.contains(LinkFlags::LowerUp) {
        LinkState::Carrier
    } else {
        LinkState::NoCarrier
    }
}

fn name(link: &LinkMessage) -> Option<&str> {
    link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.as_str()),
        _ => None,
    })
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
