//! What there is to know of the interface of a port, as far as kernel and driver tell.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::interface::ethtool::{self, Pause};
use crate::interface::netlink::{Link, RouteSocket, features, tells_vlan_tags};
use crate::interface::no_link;

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterfaceInfo {
    /// "veth", "tun", "macvlan", …; empty for hardware.
    pub kind: String,
    /// The driver's name; empty where it does not say.
    pub driver: String,
    /// Its MTU in bytes.
    pub mtu_bytes: u32,
    /// It takes in what is for others, too.
    pub promiscuous: bool,
    /// Queues that receive.
    pub rx_queues: u32,
    /// Queues that send.
    pub tx_queues: u32,
    /// The names of its features that are on, as `ethtool --json -k` has them.
    pub features: BTreeSet<String>,
    /// The driver tells XDP of tags that it takes off.
    pub tells_vlan_tags: bool,
    /// What it does about PAUSE frames by itself.
    pub pause: Pause,
    /// Whoever has the other end of this tap hands over headers for segmentation with its frames.
    pub takes_segments: bool,
    /// What a macvlan lies on, if that is in this network namespace.
    pub lower: Option<LowerDevice>,
}

/// The interface below another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LowerDevice {
    /// Its name.
    pub name: String,
    /// The names of its features that are on.
    pub features: BTreeSet<String>,
}

/// Looks at an interface of the current network namespace. What its driver does not say is left
/// empty.
///
/// # Errors
/// There is no such interface, or the kernel does not answer.
pub fn facts(interface: &str) -> Result<InterfaceInfo, Error> {
    let route = RouteSocket::open().map_err(|error| Error::kernel("opening a netlink socket", error))?;
    let link = route.link(interface).map_err(|error| no_link(interface, error))?;
    let queues = ethtool::queues(interface).unwrap_or_default();
    Ok(InterfaceInfo {
        driver: ethtool::driver(interface).unwrap_or_default(),
        mtu_bytes: link.mtu,
        promiscuous: link.promiscuous,
        rx_queues: queues.rx,
        tx_queues: queues.tx,
        features: features(link.index).unwrap_or_default(),
        tells_vlan_tags: tells_vlan_tags(link.index).unwrap_or(false),
        pause: ethtool::pause(interface).unwrap_or_default(),
        takes_segments: link.takes_segments,
        lower: lower(&route, &link),
        kind: link.kind,
    })
}

/// What a macvlan lies on.
fn lower(route: &RouteSocket, link: &Link) -> Option<LowerDevice> {
    let index = link.lower.filter(|_| link.kind == "macvlan")?;
    let below = route.link_of_index(index).ok()?;
    Some(LowerDevice { features: features(index).unwrap_or_default(), name: below.name })
}
