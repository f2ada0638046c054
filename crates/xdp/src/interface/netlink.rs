//! Netlink route sockets: requests and their replies, the properties of interfaces (RTM_GETLINK)
//! and their changes, and a real queueing discipline on a veth (RTM_NEWQDISC).
//!
//! Rule: a socket belongs to the network namespace in which it was opened, and has one request at a
//! time. What answers an earlier one, whose reader gave up, is skipped by its sequence number. A
//! dump that a change interrupted is repeated, as objects may be missing in it. Source:
//! `netlink(7)`, `rtnetlink(7)`, `linux/if_link.h`, `linux/rtnetlink.h`, `linux/pkt_sched.h`.

use std::cell::Cell;
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
/// Dumps of which each is interrupted by changes, before the last one's result is an error.
const DUMP_ATTEMPTS: usize = 16;

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
pub struct RouteSocket(NetlinkSocket);

impl RouteSocket {
    /// Opens a socket for requests.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn open() -> io::Result<RouteSocket> {
        NetlinkSocket::open(SockProtocol::NetlinkRoute).map(RouteSocket)
    }

    /// Opens a socket that the kernel sends changes of interfaces to, whose reads never block.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn watch_links() -> io::Result<RouteSocket> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, RTMGRP_LINK))?;
        Ok(RouteSocket(NetlinkSocket { fd, sequence: Cell::new(0) }))
    }

    /// Returns the changes since the last call, in their order.
    ///
    /// # Errors
    /// The socket fails.
    pub fn link_changes(&self) -> io::Result<Vec<LinkChange>> {
        let mut changes = Vec::new();
        let mut answer = vec![0; ANSWER_BYTES];
        loop {
            match recv(self.as_raw_fd(), &mut answer, MsgFlags::MSG_TRUNC) {
                Ok(len) if len > answer.len() => changes.push(LinkChange::Lost),
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
        self.0.request(kind, flags, body)
    }

    /// Requests all objects of a kind. Returns the bodies of the messages that answer it.
    ///
    /// # Errors
    /// The kernel refuses the request or fails to complete it, or the objects keep changing.
    pub fn dump(&self, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let mut answer = vec![0; ANSWER_BYTES];
        uninterrupted(|| {
            let sequence = self.0.send(&[(kind, libc::NLM_F_DUMP, body)])?;
            let mut dump = Dump::default();
            while !dump.is_done {
                let len = self.0.receive(&mut answer)?;
                dump.add(&answer[..len], sequence)?;
            }
            Ok(dump)
        })
    }

    /// Sends requests in one call, each with NLM_F_ACK; returns the reply to each.
    ///
    /// # Errors
    /// The socket fails.
    pub fn request_all(&self, requests: &[Request]) -> io::Result<Vec<io::Result<()>>> {
        let with_ack = requests.iter().map(|(kind, flags, body)| (*kind, flags | libc::NLM_F_ACK, &body[..]));
        let first = self.0.send(&with_ack.collect::<Vec<_>>())?;
        let mut replies = Vec::new();
        let mut answer = vec![0; ANSWER_BYTES];
        while replies.len() < requests.len() {
            let len = self.0.receive(&mut answer)?;
            let errors = messages(&answer[..len])
                .filter(|it| i32::from(it.kind) == libc::NLMSG_ERROR)
                .filter(|it| (it.sequence.wrapping_sub(first) as usize) < requests.len());
            replies.extend(errors.map(|error| result_of(error.body)));
        }
        Ok(replies)
    }
}

impl AsFd for RouteSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

impl AsRawFd for RouteSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.fd.as_raw_fd()
    }
}

fn link_change(Message { kind, body, .. }: Message) -> Option<LinkChange> {
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

/// A netlink socket of any protocol.
#[derive(Debug)]
pub(super) struct NetlinkSocket {
    fd: OwnedFd,
    /// Sequence number of the last request.
    sequence: Cell<u32>,
}

impl NetlinkSocket {
    pub(super) fn open(protocol: SockProtocol) -> io::Result<Self> {
        let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Self { fd, sequence: Cell::new(0) })
    }

    /// Sends requests, each a type, flags and a body, in one call. Returns the sequence number of
    /// the first; those of the others follow it.
    fn send(&self, requests: &[(u16, i32, &[u8])]) -> io::Result<u32> {
        let first = self.sequence.get().wrapping_add(1);
        let mut bytes = Vec::new();
        for (kind, flags, body) in requests {
            self.sequence.set(self.sequence.get().wrapping_add(1));
            bytes.extend(message(*kind, *flags, self.sequence.get(), body));
        }
        send(self.fd.as_raw_fd(), &bytes, MsgFlags::empty())?;
        Ok(first)
    }

    /// Waits for the next read of messages, and returns its length.
    fn receive(&self, answer: &mut [u8]) -> io::Result<usize> {
        let len = recv(self.fd.as_raw_fd(), answer, MsgFlags::MSG_TRUNC)?;
        if len > answer.len() {
            let what = format!("a netlink answer of {len} bytes, which is longer than {}", answer.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(len)
    }

    /// Sends a request and returns the body of the one message that answers it.
    pub(super) fn request(&self, kind: u16, flags: i32, body: &[u8]) -> io::Result<Vec<u8>> {
        let sequence = self.send(&[(kind, flags, body)])?;
        let mut answer = vec![0; ANSWER_BYTES];
        loop {
            let len = self.receive(&mut answer)?;
            if messages(&answer[..len]).next().is_none() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let Some(message) = messages(&answer[..len]).find(|it| it.sequence == sequence) else { continue };
            if i32::from(message.kind) == libc::NLMSG_ERROR {
                result_of(message.body)?;
            }
            return Ok(message.body.to_vec());
        }
    }
}

/// The answer to a request for all objects of a kind, as far as it has arrived.
#[derive(Debug, Default)]
struct Dump {
    bodies: Vec<Vec<u8>>,
    /// Objects changed meanwhile, so some may be missing.
    is_interrupted: bool,
    is_done: bool,
}

impl Dump {
    /// Adds the messages of a read that answer the request of this sequence number.
    fn add(&mut self, read: &[u8], sequence: u32) -> io::Result<()> {
        for message in messages(read).filter(|it| it.sequence == sequence) {
            self.is_interrupted |= i32::from(message.flags) & libc::NLM_F_DUMP_INTR != 0;
            match i32::from(message.kind) {
                // An error of 0 is an acknowledgment: no object follows.
                libc::NLMSG_DONE | libc::NLMSG_ERROR => {
                    result_of(message.body)?;
                    self.is_done = true;
                }
                _ => self.bodies.push(message.body.to_vec()),
            }
        }
        Ok(())
    }
}

/// Repeats a dump until no change interrupts it. Returns the bodies of its messages.
fn uninterrupted(mut dump: impl FnMut() -> io::Result<Dump>) -> io::Result<Vec<Vec<u8>>> {
    for _ in 0..DUMP_ATTEMPTS {
        let dump = dump()?;
        if !dump.is_interrupted {
            return Ok(dump.bodies);
        }
    }
    Err(io::Error::other(format!("the objects changed during each of {DUMP_ATTEMPTS} dumps; try again")))
}

fn message(kind: u16, flags: i32, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
    message.extend_from_slice(&sequence.to_ne_bytes());
    message.extend_from_slice(&[0; 4]); // the port id, which the kernel knows
    message.extend_from_slice(body);
    message.resize(message.len().next_multiple_of(4), 0);
    message
}

/// A received message: a `struct nlmsghdr`, and what follows it.
#[derive(Debug)]
struct Message<'b> {
    kind: u16,
    flags: u16,
    sequence: u32,
    body: &'b [u8],
}

/// Iterates over the messages of one read; ends at the first truncated one.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let len = u32_at(bytes, 0)? as usize;
        let (kind, flags, sequence) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?, u32_at(bytes, 8)?);
        let body = bytes.get(HEADER_BYTES..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(Message { kind, flags, sequence, body })
    })
}

/// Returns the result in the body of an NLMSG_ERROR, which an acknowledgment is, too, or of an
/// NLMSG_DONE.
fn result_of(error: &[u8]) -> io::Result<()> {
    match u32_at(error, 0).unwrap_or(0) as i32 {
        0.. => Ok(()),
        errno => Err(io::Error::from_raw_os_error(-errno)),
    }
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
    #[cfg_attr(miri, ignore = "netlink sockets")]
    fn loopback_is_found_and_nonsense_is_not() {
        let route = RouteSocket::open().unwrap();
        let link = route.link("lo").unwrap();
        assert_eq!((link.index, link.qdisc.as_str(), link.xdp_program), (1, "noqueue", None));
        assert_eq!(route.link("no-such-link").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    #[cfg_attr(miri, ignore = "netlink sockets")]
    fn an_answer_that_nobody_read_answers_no_later_request() {
        let route = RouteSocket::open().unwrap();
        let mut body = vec![0; IFINFO_BYTES];
        push_attribute(&mut body, libc::IFLA_IFNAME, b"lo\0");
        route.0.send(&[(libc::RTM_GETLINK, 0, &body)]).unwrap();
        assert_eq!(route.link("no-such-link").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        route.0.send(&[(libc::RTM_GETLINK, 0, &body), (libc::RTM_GETLINK, 0, &body)]).unwrap();
        assert_eq!(route.links().unwrap().iter().filter(|link| link.name == "lo").count(), 1);
        route.0.send(&[(libc::RTM_DELQDISC, libc::NLM_F_ACK, &root_qdisc(-1))]).unwrap();
        let get = (libc::RTM_GETLINK, 0, body.clone());
        let replies = route.request_all(&[get.clone(), get]).unwrap();
        assert!(replies.len() == 2 && replies.iter().all(Result::is_ok), "{replies:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "netlink sockets")]
    fn an_answer_that_is_longer_than_the_buffer_is_an_error() {
        let route = RouteSocket::open().unwrap();
        let mut body = vec![0; IFINFO_BYTES];
        push_attribute(&mut body, libc::IFLA_IFNAME, b"lo\0");
        route.0.send(&[(libc::RTM_GETLINK, 0, &body)]).unwrap();
        assert_eq!(route.0.receive(&mut [0; 64]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn the_end_of_a_dump_has_a_result() {
        let object = |flags| message(libc::RTM_NEWLINK, flags, 7, b"abcd");
        let end = |kind: i32, errno: i32| message(kind as u16, 0, 7, &errno.to_ne_bytes());
        let mut dump = Dump::default();
        dump.add(&message(libc::NLMSG_DONE as u16, 0, 6, &[0; 4]), 7).unwrap();
        dump.add(&[object(0), object(0)].concat(), 7).unwrap();
        assert_eq!((dump.bodies.len(), dump.is_interrupted, dump.is_done), (2, false, false));
        dump.add(&object(libc::NLM_F_DUMP_INTR), 7).unwrap();
        dump.add(&end(libc::NLMSG_DONE, 0), 7).unwrap();
        assert_eq!((dump.bodies.len(), dump.is_interrupted, dump.is_done), (3, true, true));
        for kind in [libc::NLMSG_DONE, libc::NLMSG_ERROR] {
            let error = Dump::default().add(&end(kind, -libc::ENOMEM), 7).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
        }
        let mut empty = Dump::default();
        empty.add(&end(libc::NLMSG_ERROR, 0), 7).unwrap();
        assert!(empty.is_done, "nothing follows an acknowledgment");
    }

    #[test]
    fn an_interrupted_dump_is_repeated_but_not_indefinitely() {
        let mut dumps = 0;
        let mut interrupted = |times: usize| {
            dumps = 0;
            let bodies = uninterrupted(|| {
                dumps += 1;
                Ok(Dump { bodies: vec![vec![dumps as u8]], is_interrupted: dumps <= times, is_done: true })
            });
            (bodies, dumps)
        };
        let (bodies, dumps) = interrupted(2);
        assert_eq!((bodies.unwrap(), dumps), (vec![vec![3]], 3));
        let (bodies, dumps) = interrupted(usize::MAX);
        assert_eq!((bodies.is_err(), dumps), (true, DUMP_ATTEMPTS));
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
