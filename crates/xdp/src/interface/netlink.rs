//! Netlink route sockets: requests and their replies, the properties of interfaces (RTM_GETLINK)
//! and their changes, and a real queueing discipline on a veth (RTM_NEWQDISC).
//!
//! Rule: a socket belongs to the network namespace in which it was opened, and has one request at a
//! time. Source: `netlink(7)`, `rtnetlink(7)`, `linux/if_link.h`, `linux/rtnetlink.h`,
//! `linux/pkt_sched.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};
use wire::MacAddr;

const HEADER_BYTES: usize = 16;
const IFINFO_BYTES: usize = 16;
/// The size of the kernel's longest reply to one read.
const ANSWER_BYTES: usize = 32 * 1024;

// linux/rtnetlink.h, TCA_*: attributes of a qdisc.
/// Kind of a qdisc or a filter.
pub const TCA_KIND: u16 = 1;
/// What configures a qdisc or a filter, by its kind.
pub const TCA_OPTIONS: u16 = 2;
// linux/if_link.h: attributes of an interface, and inside IFLA_LINKINFO and IFLA_XDP.
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_TUN_VNET_HDR: u16 = 5;
const IFLA_TARGET_NETNSID: u16 = 46;
const IFLA_PARENT_DEV_BUS_NAME: u16 = 57;
const IFLA_XDP_PROG_ID: u16 = 4;
const IFLA_XDP_HW_PROG_ID: u16 = 7;
// linux/if_link.h, struct rtnl_link_stats64: offsets of these counters.
const RX_FIFO_ERRORS: usize = 8 * 14;
const RX_MISSED_ERRORS: usize = 8 * 15;
/// The root of an interface's tree of qdiscs (linux/pkt_sched.h).
pub const TC_H_ROOT: u32 = 0xffff_ffff;
/// The multicast group of changes of interfaces (linux/rtnetlink.h).
const RTMGRP_LINK: u32 = 1;

/// The kernel's description of an interface.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Link {
    /// Index in its namespace.
    pub index: i32,
    /// Name of the interface.
    pub name: String,
    /// The interface is set up.
    pub up: bool,
    /// The interface is up and has a carrier.
    pub has_carrier: bool,
    /// MTU in bytes.
    pub mtu: u32,
    /// "veth", "tun", …; empty for hardware.
    pub kind: String,
    /// The bus of the device: "pci", "virtio", …; empty for software devices.
    pub bus: String,
    /// The root qdisc: "noqueue", "pfifo", "mq", ….
    pub(crate) qdisc: String,
    /// The XDP program that the interface runs.
    pub(crate) xdp_program: Option<u32>,
    /// The interface accepts frames for other addresses, too, because a process requested that.
    pub(crate) promiscuous: bool,
    /// The hardware address, if it has the length of Ethernet's.
    pub mac: Option<MacAddr>,
    /// The index of the other end of a veth, and the id of its network namespace if that is another
    /// one.
    pub peer: Option<(i32, Option<i32>)>,
    /// The interface of this network namespace below this one, for example below a macvlan.
    pub(crate) lower: Option<i32>,
    /// The process at the other end of this tap attaches segmentation headers to its frames.
    pub(crate) accepts_gso: bool,
    /// Frames that the device dropped for lack of a buffer ([`crate::port::rx_missed`]) since it
    /// was created.
    pub(crate) missed_frames: u64,
}

/// A change of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkChange {
    /// It is new, or it has changed.
    Set(Link),
    /// It has been deleted.
    Deleted(Link),
    /// Changes were lost, because the socket's buffer overflowed.
    Lost,
}

/// A request: type, flags, body.
pub type Request = (u16, i32, Vec<u8>);

/// A netlink route socket, in the network namespace in which it was opened.
#[derive(Debug)]
pub struct RouteSocket {
    fd: OwnedFd,
}

impl RouteSocket {
    /// Opens a socket for requests.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn open() -> io::Result<RouteSocket> {
        Ok(RouteSocket { fd: netlink(SockProtocol::NetlinkRoute)? })
    }

    /// Opens a socket that the kernel sends changes of interfaces to, whose reads never block.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn watch_links() -> io::Result<RouteSocket> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, RTMGRP_LINK))?;
        Ok(RouteSocket { fd })
    }

    /// Returns the changes since the last call, in their order.
    ///
    /// # Errors
    /// The socket fails.
    pub fn link_changes(&self) -> io::Result<Vec<LinkChange>> {
        let mut changes = Vec::new();
        let mut answer = vec![0; ANSWER_BYTES];
        loop {
            match recv(self.fd.as_raw_fd(), &mut answer, MsgFlags::empty()) {
                Ok(len) => changes.extend(messages(&answer[..len]).filter_map(link_change)),
                Err(Errno::EAGAIN) => return Ok(changes),
                Err(Errno::ENOBUFS) => changes.push(LinkChange::Lost),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Returns all interfaces.
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn links(&self) -> io::Result<Vec<Link>> {
        let bodies = self.dump(libc::RTM_GETLINK, &[0; IFINFO_BYTES])?;
        Ok(bodies.iter().filter_map(|body| parse_link(body)).collect())
    }

    /// Looks up an interface by name; ENODEV if there is none.
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn link(&self, name: &str) -> io::Result<Link> {
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
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn remove_qdisc(&self, index: i32) -> io::Result<()> {
        self.request(libc::RTM_DELQDISC, libc::NLM_F_ACK, &root_qdisc(index)).map(drop)
    }

    /// Sends a request; returns the body of the one message that answers it.
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn request(&self, kind: u16, flags: i32, body: &[u8]) -> io::Result<Vec<u8>> {
        request(&self.fd, kind, flags, body)
    }

    /// Requests all objects of a kind. Returns the bodies of the messages that answer it.
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn dump(&self, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        send(self.fd.as_raw_fd(), &message(kind, libc::NLM_F_DUMP, body), MsgFlags::empty())?;
        let mut bodies = Vec::new();
        let mut answer = vec![0; ANSWER_BYTES];
        loop {
            let len = recv(self.fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
            for (kind, body) in messages(&answer[..len]) {
                match i32::from(kind) {
                    libc::NLMSG_DONE => return Ok(bodies),
                    libc::NLMSG_ERROR => result_of(body)?,
                    _ => bodies.push(body.to_vec()),
                }
            }
        }
    }

    /// Sends requests in one call, each with NLM_F_ACK; returns the reply to each.
    ///
    /// # Errors
    /// The socket fails.
    pub fn request_all(&self, requests: &[Request]) -> io::Result<Vec<io::Result<()>>> {
        let messages_of = |(kind, flags, body): &Request| message(*kind, flags | libc::NLM_F_ACK, body);
        let bytes: Vec<u8> = requests.iter().flat_map(messages_of).collect();
        send(self.fd.as_raw_fd(), &bytes, MsgFlags::empty())?;
        let mut replies = Vec::new();
        let mut answer = vec![0; ANSWER_BYTES];
        while replies.len() < requests.len() {
            let len = recv(self.fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
            let errors = messages(&answer[..len]).filter(|(kind, _)| *kind == libc::NLMSG_ERROR as u16);
            replies.extend(errors.map(|(_, body)| result_of(body)));
        }
        Ok(replies)
    }
}

impl AsFd for RouteSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for RouteSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

fn link_change((kind, body): (u16, &[u8])) -> Option<LinkChange> {
    // A bridge also reports its ports, as links of its own address family.
    if i32::from(*body.first()?) != libc::AF_UNSPEC {
        return None;
    }
    match kind {
        libc::RTM_NEWLINK => parse_link(body).map(LinkChange::Set),
        libc::RTM_DELLINK => parse_link(body).map(LinkChange::Deleted),
        _ => None,
    }
}

pub(super) fn netlink(protocol: SockProtocol) -> io::Result<OwnedFd> {
    let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    Ok(fd)
}

fn message(kind: u16, flags: i32, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
    message.extend_from_slice(&[0; 8]); // no sequence number or port id: one request at a time
    message.extend_from_slice(body);
    message.resize(message.len().next_multiple_of(4), 0);
    message
}

/// Iterates over the messages of one read, by type and body; ends at the first truncated one.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = u32_at(bytes, 0)? as usize;
        let (kind, body) = (u16_at(bytes, 4)?, bytes.get(HEADER_BYTES..len)?);
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// Returns the result in the body of an NLMSG_ERROR, which an acknowledgment is, too.
fn result_of(error: &[u8]) -> io::Result<()> {
    match u32_at(error, 0).unwrap_or(0) as i32 {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(-errno)),
    }
}

/// Sends a request and returns the body of the one message that answers it.
pub(super) fn request(fd: &OwnedFd, kind: u16, flags: i32, body: &[u8]) -> io::Result<Vec<u8>> {
    send(fd.as_raw_fd(), &message(kind, flags, body), MsgFlags::empty())?;
    let mut answer = vec![0; ANSWER_BYTES];
    let len = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let Some((kind, body)) = messages(&answer[..len]).next() else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    if kind == libc::NLMSG_ERROR as u16 {
        result_of(body)?;
    }
    Ok(body.to_vec())
}

/// Builds a `struct tcmsg` for the root of interface `index`; the kernel chooses the handle.
fn root_qdisc(index: i32) -> Vec<u8> {
    traffic_control(index, 0, TC_H_ROOT, 0)
}

/// Builds a `struct tcmsg`.
pub fn traffic_control(index: i32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    [0, index as u32, handle, parent, info].iter().flat_map(|field| field.to_ne_bytes()).collect()
}

fn name_bytes(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// Appends an attribute: length, type, value, padded to 4 bytes.
pub fn push_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

fn parse_link(body: &[u8]) -> Option<Link> {
    let flags = u32_at(body, 8)?;
    let mut link =
        Link { index: u32_at(body, 4)? as i32, up: flags & libc::IFF_UP as u32 != 0, ..Link::default() };
    link.has_carrier = link.up && flags & libc::IFF_LOWER_UP as u32 != 0;
    let (mut linked, mut namespace) = (None, None);
    for (kind, value) in attributes(body.get(IFINFO_BYTES..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU => link.mtu = u32_at(value, 0)?,
            libc::IFLA_QDISC => link.qdisc = text(value),
            libc::IFLA_PROMISCUITY => link.promiscuous = u32_at(value, 0)? > 0,
            libc::IFLA_ADDRESS => link.mac = value.try_into().ok().map(MacAddr),
            IFLA_PARENT_DEV_BUS_NAME => link.bus = text(value),
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
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & !(libc::NLA_F_NESTED as u16);
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Returns the 32 bits at an offset.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Returns the text up to the first zero byte.
pub fn text(bytes: &[u8]) -> String {
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
