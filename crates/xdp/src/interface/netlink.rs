//! The netlink requests of a port about its interface: its properties (RTM_GETLINK), whether its
//! driver passes VLAN tags to XDP (NETDEV_CMD_DEV_GET), the features that are on
//! (ETHTOOL_MSG_FEATURES_GET), and a real queueing discipline on a veth (RTM_NEWQDISC).
//!
//! Source: `rtnetlink(7)`, `linux/if_link.h`, `linux/rtnetlink.h`, `linux/pkt_sched.h`,
//! `linux/netdev.h`, `linux/genetlink.h`, `linux/ethtool_netlink.h`.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};
use wire::MacAddr;

const HEADER_BYTES: usize = 16;
const IFINFO_BYTES: usize = 16;
/// The size of the kernel's longest reply about one interface.
const ANSWER_BYTES: usize = 32 * 1024;

// linux/rtnetlink.h, TCA_*: attributes of a qdisc.
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
// linux/if_link.h: attributes of an interface, and inside IFLA_LINKINFO and IFLA_XDP.
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_TUN_VNET_HDR: u16 = 5;
const IFLA_TARGET_NETNSID: u16 = 46;
const IFLA_XDP_PROG_ID: u16 = 4;
const IFLA_XDP_HW_PROG_ID: u16 = 7;
// linux/if_link.h, struct rtnl_link_stats64: offsets of these counters.
const RX_FIFO_ERRORS: usize = 8 * 14;
const RX_MISSED_ERRORS: usize = 8 * 15;
/// The root of an interface's tree of qdiscs (linux/pkt_sched.h).
const TC_H_ROOT: u32 = 0xffff_ffff;

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

/// The kernel's description of an interface.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: i32,
    pub(crate) name: String,
    pub(crate) up: bool,
    pub(crate) mtu: u32,
    /// "veth", "tun", …; empty for hardware.
    pub(crate) kind: String,
    /// The root qdisc: "noqueue", "pfifo", "mq", ….
    pub(crate) qdisc: String,
    /// The XDP program that the interface runs.
    pub(crate) xdp_program: Option<u32>,
    /// The interface accepts frames for other addresses, too, because a process requested that.
    pub(crate) promiscuous: bool,
    /// The hardware address, if it has the length of Ethernet's.
    pub(crate) mac: Option<MacAddr>,
    /// The index of the other end of a veth, and the id of its network namespace if that is another
    /// one.
    pub(crate) peer: Option<(i32, Option<i32>)>,
    /// The interface of this network namespace below this one, for example below a macvlan.
    pub(crate) lower: Option<i32>,
    /// The process at the other end of this tap attaches segmentation headers to its frames.
    pub(crate) accepts_gso: bool,
    /// Frames that the device dropped for lack of a buffer ([`crate::port::rx_missed`]) since it
    /// was created.
    pub(crate) missed_frames: u64,
}

/// A netlink route socket, in the network namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct RouteSocket {
    fd: OwnedFd,
}

impl RouteSocket {
    pub(crate) fn open() -> io::Result<RouteSocket> {
        Ok(RouteSocket { fd: netlink(SockProtocol::NetlinkRoute)? })
    }

    /// Looks up an interface by name; ENODEV if there is none.
    pub(crate) fn link(&self, name: &str) -> io::Result<Link> {
        let mut body = vec![0; IFINFO_BYTES];
        push_attribute(&mut body, libc::IFLA_IFNAME, name_bytes(name).as_slice());
        self.request_link(&body)
    }

    /// Looks up an interface by its index.
    pub(crate) fn link_of_index(&self, index: i32) -> io::Result<Link> {
        let mut body = vec![0; IFINFO_BYTES];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        self.request_link(&body)
    }

    /// Returns the address of the other end of a veth. `None` if the interface has no other end, or
    /// that is in a namespace which this one does not know.
    pub(crate) fn peer_mac(&self, link: &Link) -> Option<MacAddr> {
        let (index, namespace) = link.peer.filter(|_| link.kind == "veth")?;
        let mut body = vec![0; IFINFO_BYTES];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        if let Some(id) = namespace {
            push_attribute(&mut body, IFLA_TARGET_NETNSID, &id.to_ne_bytes());
        }
        self.request_link(&body).ok()?.mac
    }

    fn request_link(&self, body: &[u8]) -> io::Result<Link> {
        let answer = self.request(libc::RTM_GETLINK, 0, body)?;
        parse_link(&answer).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }

    /// Installs a first-in first-out queue of `limit` frames as the root qdisc of interface
    /// `index`.
    pub(crate) fn set_pfifo(&self, index: i32, limit: u32) -> io::Result<()> {
        let mut body = root_qdisc(index);
        push_attribute(&mut body, TCA_KIND, b"pfifo\0");
        push_attribute(&mut body, TCA_OPTIONS, &limit.to_ne_bytes());
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.request(libc::RTM_NEWQDISC, flags, &body).map(drop)
    }

    /// Removes the root qdisc of interface `index`; the kernel restores its default.
    pub(crate) fn remove_qdisc(&self, index: i32) -> io::Result<()> {
        self.request(libc::RTM_DELQDISC, libc::NLM_F_ACK, &root_qdisc(index)).map(drop)
    }

    pub(super) fn request(&self, kind: u16, flags: i32, body: &[u8]) -> io::Result<Vec<u8>> {
        request(&self.fd, kind, flags, body)
    }

    /// Requests all objects of a kind. Returns the bodies of the messages that answer it.
    pub(super) fn dump(&self, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        send_request(&self.fd, kind, libc::NLM_F_DUMP, body)?;
        let mut bodies = Vec::new();
        let mut answer = vec![0; ANSWER_BYTES];
        loop {
            let len = recv(self.fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
            let mut rest = &answer[..len];
            while let (Some(len), Some(kind)) = (u32_at(rest, 0), u16_at(rest, 4)) {
                let body = rest.get(HEADER_BYTES..len as usize).unwrap_or_default();
                match i32::from(kind) {
                    libc::NLMSG_DONE => return Ok(bodies),
                    libc::NLMSG_ERROR => {
                        let errno = u32_at(body, 0).unwrap_or(0) as i32;
                        return Err(io::Error::from_raw_os_error(-errno));
                    }
                    _ => bodies.push(body.to_vec()),
                }
                rest = rest.get((len as usize).next_multiple_of(4).max(HEADER_BYTES)..).unwrap_or_default();
            }
        }
    }
}

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
    let fd = netlink(SockProtocol::NetlinkGeneric)?;
    let family = generic_family(&fd, b"netdev\0")?;
    let mut body = vec![NETDEV_CMD_DEV_GET, 1, 0, 0];
    push_attribute(&mut body, NETDEV_A_DEV_IFINDEX, &(index as u32).to_ne_bytes());
    request(&fd, family, 0, &body)
}

/// Returns the names of the features of interface `index` that are on, as `ethtool --json -k`
/// prints them.
pub(crate) fn features(index: i32) -> io::Result<BTreeSet<String>> {
    let fd = netlink(SockProtocol::NetlinkGeneric)?;
    let family = generic_family(&fd, b"ethtool\0")?;
    let mut header = Vec::new();
    push_attribute(&mut header, ETHTOOL_A_HEADER_DEV_INDEX, &(index as u32).to_ne_bytes());
    let mut body = vec![ETHTOOL_MSG_FEATURES_GET, 1, 0, 0];
    push_attribute(&mut body, libc::NLA_F_NESTED as u16 | ETHTOOL_A_FEATURES_HEADER, &header);
    let answer = request(&fd, family, 0, &body)?;
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
fn generic_family(fd: &OwnedFd, name: &[u8]) -> io::Result<u16> {
    let mut body = vec![CTRL_CMD_GETFAMILY, 1, 0, 0];
    push_attribute(&mut body, CTRL_ATTR_FAMILY_NAME, name);
    generic_attribute(&request(fd, GENL_ID_CTRL, 0, &body)?, CTRL_ATTR_FAMILY_ID)
        .and_then(|value| u16_at(&value, 0))
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns the value of an attribute in the body of a generic netlink message.
fn generic_attribute(body: &[u8], kind: u16) -> Option<Vec<u8>> {
    attributes(body.get(4..)?).find(|(found, _)| *found == kind).map(|(_, value)| value.to_vec())
}

fn netlink(protocol: SockProtocol) -> io::Result<OwnedFd> {
    let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    Ok(fd)
}

fn send_request(fd: &OwnedFd, kind: u16, flags: i32, body: &[u8]) -> io::Result<()> {
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
    message.extend_from_slice(&[0; 8]); // no sequence number or port id: one request at a time
    message.extend_from_slice(body);
    send(fd.as_raw_fd(), &message, MsgFlags::empty())?;
    Ok(())
}

/// Sends a request and returns the body of the one message that answers it.
fn request(fd: &OwnedFd, kind: u16, flags: i32, body: &[u8]) -> io::Result<Vec<u8>> {
    send_request(fd, kind, flags, body)?;
    let mut answer = vec![0; ANSWER_BYTES];
    let len = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(len);
    if u16_at(&answer, 4) == Some(libc::NLMSG_ERROR as u16) {
        let errno = u32_at(&answer, HEADER_BYTES).unwrap_or(0) as i32;
        if errno != 0 {
            return Err(io::Error::from_raw_os_error(-errno));
        }
    }
    answer.drain(..HEADER_BYTES.min(len));
    Ok(answer)
}

/// Builds a `struct tcmsg` for the root of interface `index`.
fn root_qdisc(index: i32) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend_from_slice(&index.to_ne_bytes());
    body.extend_from_slice(&0u32.to_ne_bytes()); // handle: the kernel chooses
    body.extend_from_slice(&TC_H_ROOT.to_ne_bytes());
    body.extend_from_slice(&0u32.to_ne_bytes());
    body
}

fn name_bytes(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// Appends an attribute: length, type, value, padded to 4 bytes.
pub(super) fn push_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

fn parse_link(body: &[u8]) -> Option<Link> {
    let flags = u32_at(body, 8)?;
    let mut link =
        Link { index: u32_at(body, 4)? as i32, up: flags & libc::IFF_UP as u32 != 0, ..Link::default() };
    let (mut linked, mut namespace) = (None, None);
    for (kind, value) in attributes(body.get(IFINFO_BYTES..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU => link.mtu = u32_at(value, 0)?,
            libc::IFLA_QDISC => link.qdisc = text(value),
            libc::IFLA_PROMISCUITY => link.promiscuous = u32_at(value, 0)? > 0,
            libc::IFLA_ADDRESS => link.mac = value.try_into().ok().map(MacAddr),
            libc::IFLA_LINK => linked = u32_at(value, 0).map(|index| index as i32),
            libc::IFLA_LINK_NETNSID => namespace = u32_at(value, 0).map(|id| id as i32),
            libc::IFLA_LINKINFO => {
                let inside = |wanted| attributes(value).find(|(kind, _)| *kind == wanted);
                link.kind = inside(IFLA_INFO_KIND).map(|(_, kind)| text(kind)).unwrap_or_default();
                let data = inside(IFLA_INFO_DATA).filter(|_| link.kind == "tun");
                link.accepts_gso = attributes(data.map_or(&[][..], |(_, data)| data))
                    .any(|(kind, value)| kind == IFLA_TUN_VNET_HDR && value.first() == Some(&1));
            }
            libc::IFLA_STATS64 => {
                let counted = [RX_FIFO_ERRORS, RX_MISSED_ERRORS].map(|at| u64_at(value, at).unwrap_or(0));
                link.missed_frames = counted.iter().sum();
            }
            libc::IFLA_XDP => {
                link.xdp_program = attributes(value)
                    .filter(|(kind, _)| (IFLA_XDP_PROG_ID..=IFLA_XDP_HW_PROG_ID).contains(kind))
                    .find_map(|(_, id)| u32_at(id, 0));
            }
            _ => {}
        }
    }
    link.peer = linked.filter(|&peer| peer > 0).map(|peer| (peer, namespace));
    link.lower = linked.filter(|&lower| namespace.is_none() && lower > 0 && lower != link.index);
    Some(link)
}

/// Iterates over the attributes in `bytes`; ends at the first truncated one.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & !(libc::NLA_F_NESTED as u16);
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Returns the text up to the first zero byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_and_nonsense_is_not() {
        let route = RouteSocket::open().unwrap();
        let link = route.link("lo").unwrap();
        assert_eq!((link.index, link.qdisc.as_str(), link.xdp_program), (1, "noqueue", None));
        assert_eq!(route.link("no-such-link").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn what_a_device_missed_is_read() {
        let mut body = vec![0; IFINFO_BYTES];
        let statistics: Vec<u8> = (100..125_u64).flat_map(u64::to_ne_bytes).collect();
        push_attribute(&mut body, libc::IFLA_STATS64, &statistics);
        assert_eq!(parse_link(&body).unwrap().missed_frames, 114 + 115);
        body.truncate(IFINFO_BYTES);
        push_attribute(&mut body, libc::IFLA_STATS64, &statistics[..8 * 15]); // an older kernel
        assert_eq!(parse_link(&body).unwrap().missed_frames, 114);
    }

    #[test]
    fn attributes_are_padded_and_cut_off_ones_end_the_list() {
        let mut body = Vec::new();
        push_attribute(&mut body, 3, b"abcde");
        push_attribute(&mut body, 4, b"f");
        assert_eq!(body.len(), 12 + 8);
        assert_eq!(attributes(&body).collect::<Vec<_>>(), [(3, &b"abcde"[..]), (4, &b"f"[..])]);
        assert_eq!(attributes(&body[..16]).count(), 1);
        assert_eq!(attributes(&[0, 0, 1, 0]).count(), 0);
    }
}
