//! Properties of a port's interface, as far as kernel and driver report them.

use std::collections::BTreeSet;
use std::io;

use wire::MacAddr;

use crate::error::Error;
use crate::interface::addresses::{Address, addresses, has_ipv6};
use crate::interface::ethtool::{self, Pause};
use crate::interface::generic_netlink::{features, has_vlan_metadata};
use crate::interface::link_error;
use crate::interface::netlink::{Link, RouteSocket};

/// The properties of an interface that matter to a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterfaceInfo {
    /// "veth", "tun", "macvlan", …; empty for hardware.
    pub kind: String,
    /// The driver's name; empty where it reports none.
    pub driver: String,
    /// The MTU in bytes.
    pub mtu_bytes: u32,
    /// The interface accepts frames for other addresses, too.
    pub promiscuous: bool,
    /// The number of queues that receive.
    pub rx_queues: u32,
    /// The number of queues that transmit.
    pub tx_queues: u32,
    /// The names of the features that are on, as `ethtool --json -k` prints them.
    pub features: BTreeSet<String>,
    /// The driver passes stripped VLAN tags to XDP programs.
    pub has_vlan_metadata: bool,
    /// Which PAUSE frames the interface handles by itself.
    pub pause: Pause,
    /// The process at the other end of this tap attaches segmentation headers to its frames.
    pub accepts_gso: bool,
    /// The address of the other end of a veth.
    pub peer_mac: Option<MacAddr>,
    /// The IP addresses that somebody gave the interface: all but IPv6 link-local ones.
    pub addresses: Vec<Address>,
    /// The interface has IPv6.
    pub has_ipv6: bool,
    /// The device below a macvlan, if that is in this network namespace.
    pub lower: Option<LowerDevice>,
}

/// The device below a macvlan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LowerDevice {
    /// Name of the interface.
    pub name: String,
    /// The names of the features that are on.
    pub features: BTreeSet<String>,
}

/// Queries an interface of the current network namespace. Properties that its driver does not
/// report are left empty.
///
/// # Errors
/// There is no such interface, or the kernel does not answer.
pub fn query(interface: &str) -> Result<InterfaceInfo, Error> {
    let route = RouteSocket::open().map_err(|error| Error::kernel("opening a netlink socket", error))?;
    let link = route.link(interface).map_err(|error| link_error(interface, error))?;
    let queues = ethtool::queues(interface).unwrap_or_default();
    Ok(InterfaceInfo {
        driver: ethtool::driver(interface).unwrap_or_default(),
        mtu_bytes: link.mtu,
        promiscuous: link.promiscuous,
        rx_queues: queues.rx,
        tx_queues: queues.tx,
        features: features(link.index).unwrap_or_default(),
        has_vlan_metadata: has_vlan_metadata(link.index).unwrap_or(false),
        pause: ethtool::pause(interface).unwrap_or_default(),
        accepts_gso: link.accepts_gso,
        peer_mac: route.peer_mac(&link),
        addresses: own_addresses(&route, link.index).unwrap_or_default(),
        has_ipv6: has_ipv6(interface),
        lower: lower(&route, &link),
        kind: link.kind,
    })
}

fn own_addresses(route: &RouteSocket, index: i32) -> io::Result<Vec<Address>> {
    Ok(addresses(route, index)?.into_iter().filter(|address| !address.is_link_local()).collect())
}

/// Queries the device below a macvlan.
fn lower(route: &RouteSocket, link: &Link) -> Option<LowerDevice> {
    let index = link.lower.filter(|_| link.kind == "macvlan")?;
    let below = route.link_of_index(index).ok()?;
    Some(LowerDevice { features: features(index).unwrap_or_default(), name: below.name })
}
