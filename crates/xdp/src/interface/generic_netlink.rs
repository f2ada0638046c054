//! Generic netlink: whether the driver of an interface passes VLAN tags to XDP and supports
//! zero-copy (NETDEV_CMD_DEV_GET), and the features that are on (ETHTOOL_MSG_FEATURES_GET).
//!
//! Source: `linux/genetlink.h`, `linux/netdev.h`, `linux/ethtool_netlink.h`.

use std::collections::BTreeSet;
use std::io;

use nix::sys::socket::SockProtocol;

use crate::interface::netlink::{NetlinkSocket, attributes, push_attribute, text, u16_at, u32_at};

// linux/genetlink.h and linux/netdev.h
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XDP_ZC_MAX_SEGS: u16 = 4;
const NETDEV_A_DEV_XDP_RX_METADATA_FEATURES: u16 = 5;
const NETDEV_XDP_ACT_XSK_ZEROCOPY: u32 = 8;
const NETDEV_XDP_RX_METADATA_VLAN_TAG: u32 = 4;

// linux/ethtool_netlink.h
const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;

/// True if the driver of interface `index` passes VLAN tags that it strips to XDP programs.
pub(crate) fn has_vlan_metadata(index: i32) -> io::Result<bool> {
    let device = netdev(index)?;
    let features = generic_attribute(&device, NETDEV_A_DEV_XDP_RX_METADATA_FEATURES);
    let features = features.and_then(|value| u32_at(&value, 0)).unwrap_or(0);
    Ok(features & NETDEV_XDP_RX_METADATA_VLAN_TAG != 0)
}

/// Returns the largest number of chunks of a frame that the driver of interface `index` exchanges
/// with a zero-copy socket; 0 if it does not support zero-copy.
pub(crate) fn zero_copy_segments(index: i32) -> io::Result<u32> {
    let device = netdev(index)?;
    let number = |kind| generic_attribute(&device, kind).and_then(|value| u32_at(&value, 0));
    let has_zero_copy = number(NETDEV_A_DEV_XDP_FEATURES).unwrap_or(0) & NETDEV_XDP_ACT_XSK_ZEROCOPY != 0;
    // From Linux 6.6 on, the kernel reports the attribute where there may be several chunks.
    Ok(if has_zero_copy { number(NETDEV_A_DEV_XDP_ZC_MAX_SEGS).unwrap_or(1) } else { 0 })
}

/// Queries interface `index` as a device by generic netlink.
fn netdev(index: i32) -> io::Result<Vec<u8>> {
    let socket = NetlinkSocket::open(SockProtocol::NetlinkGeneric)?;
    let family = generic_family(&socket, b"netdev\0")?;
    let mut body = vec![NETDEV_CMD_DEV_GET, 1, 0, 0];
    push_attribute(&mut body, NETDEV_A_DEV_IFINDEX, &(index as u32).to_ne_bytes());
    socket.request(family, 0, &body)
}

/// Returns the names of the features of interface `index` that are on, as `ethtool --json -k`
/// prints them.
pub(crate) fn features(index: i32) -> io::Result<BTreeSet<String>> {
    let socket = NetlinkSocket::open(SockProtocol::NetlinkGeneric)?;
    let family = generic_family(&socket, b"ethtool\0")?;
    let mut header = Vec::new();
    push_attribute(&mut header, ETHTOOL_A_HEADER_DEV_INDEX, &(index as u32).to_ne_bytes());
    let mut body = vec![ETHTOOL_MSG_FEATURES_GET, 1, 0, 0];
    push_attribute(&mut body, libc::NLA_F_NESTED as u16 | ETHTOOL_A_FEATURES_HEADER, &header);
    let answer = socket.request(family, 0, &body)?;
    let active = generic_attribute(&answer, ETHTOOL_A_FEATURES_ACTIVE).unwrap_or_default();
    // A bitset without a mask: it lists the bits that are on, each with its name.
    let bits = attributes(&active).find(|(kind, _)| *kind == ETHTOOL_A_BITSET_BITS);
    let bits = attributes(bits.map_or(&[][..], |(_, bits)| bits));
    let name = |bit| {
        attributes(bit).find(|(kind, _)| *kind == ETHTOOL_A_BITSET_BIT_NAME).map(|(_, name)| text(name))
    };
    Ok(bits.filter_map(|(_, bit)| name(bit)).collect())
}

/// Returns the number of a generic netlink family.
fn generic_family(socket: &NetlinkSocket, name: &[u8]) -> io::Result<u16> {
    let mut body = vec![CTRL_CMD_GETFAMILY, 1, 0, 0];
    push_attribute(&mut body, CTRL_ATTR_FAMILY_NAME, name);
    generic_attribute(&socket.request(GENL_ID_CTRL, 0, &body)?, CTRL_ATTR_FAMILY_ID)
        .and_then(|value| u16_at(&value, 0))
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns the value of an attribute in the body of a generic netlink message.
fn generic_attribute(body: &[u8], kind: u16) -> Option<Vec<u8>> {
    attributes(body.get(4..)?).find(|(found, _)| *found == kind).map(|(_, value)| value.to_vec())
}
