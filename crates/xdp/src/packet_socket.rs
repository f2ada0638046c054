//! Packet sockets. One type sends whole frames on any interface, beside the AF_XDP sockets of
//! ports, for threads that must send while a port's loop cannot, and must never wait. One is bound
//! to an interface, where it also exchanges LLDP frames of a host. Another makes an interface
//! promiscuous for the lifetime of the socket.
//!
//! Rule: a thread that must not wait neither binds nor closes a packet socket. To find the
//! interface takes a lock that the kernel holds while other links change, and a close waits for a
//! grace period of RCU (the kernel's `net/packet/af_packet.c`): some ten milliseconds, and seconds
//! on a busy machine.
//!
//! Source: packet(7). With protocol 0, a packet socket receives nothing. Sent frames pass through
//! the interface's queueing discipline, so on a veth whose peer is full they wait there and are not
//! lost; those of LLDP bypass it, as no pause may stop them.

use crate::port::socket::set_option;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use wire::ethernet::LLDP;
use wire::mac::MacAddr;

use crate::error::Error;
use crate::interface::link_error;
use crate::interface::netlink::RouteSocket;

/// Opens a packet socket that receives nothing.
fn silent_socket() -> io::Result<OwnedFd> {
    // SAFETY: plain system call; the descriptor is checked below and owned from then on.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An interface in promiscuous mode, until this is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct PromiscuousMode {
    _fd: OwnedFd,
}

impl PromiscuousMode {
    /// Makes the interface of this index promiscuous.
    pub(crate) fn of(index: i32) -> io::Result<PromiscuousMode> {
        let fd = silent_socket()?;
        add_membership(&fd, index, libc::PACKET_MR_PROMISC, &[])?;
        Ok(PromiscuousMode { _fd: fd })
    }
}

/// Has an interface receive frames of a kind (`PACKET_MR_…`) for the lifetime of the socket.
fn add_membership(fd: &OwnedFd, index: i32, kind: i32, address: &[u8]) -> io::Result<()> {
    // SAFETY: all zeroes is a valid request of this type; the relevant fields are set below.
    let mut request: libc::packet_mreq = unsafe { std::mem::zeroed() };
    request.mr_ifindex = index;
    request.mr_type = kind as u16;
    request.mr_alen = address.len() as u16;
    request.mr_address[..address.len()].copy_from_slice(address);
    set_option(fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, request)
}

/// A packet socket that sends frames on any interface of the network namespace.
#[derive(Debug)]
pub struct PacketSender {
    fd: OwnedFd,
}

impl PacketSender {
    /// Opens the socket, in the current network namespace.
    ///
    /// # Errors
    /// This process may not open packet sockets (CAP_NET_RAW).
    pub fn open() -> Result<PacketSender, Error> {
        let fd = silent_socket().map_err(|error| Error::kernel("opening a packet socket", error))?;
        Ok(PacketSender { fd })
    }

    /// Sends a whole frame, without FCS, on the interface of this index. Never waits for room: the
    /// frames that interfaces still hold fill the socket's buffer, whichever these are.
    ///
    /// # Errors
    /// There is no such interface, it is down, or the kernel did not accept the frame.
    pub fn send(&self, index: u32, frame: &[u8]) -> io::Result<()> {
        let address = address_of(index as i32, 0);
        // SAFETY: buffer and address outlive the call, and the lengths are their own.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                libc::MSG_DONTWAIT,
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Returns the address of an interface, for frames of this ethertype, none if 0.
fn address_of(index: i32, ethertype: u16) -> libc::sockaddr_ll {
    // SAFETY: all zeroes is a valid address of this type; the relevant fields are set below.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ethertype.to_be();
    address.sll_ifindex = index;
    address
}

/// A packet socket that is bound to one interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

impl PacketSocket {
    /// Opens a socket on `interface`, in the current network namespace.
    ///
    /// # Errors
    /// There is no such interface, or this process may not open packet sockets (CAP_NET_RAW).
    pub fn open(interface: &str) -> Result<PacketSocket, Error> {
        Self::open_for(interface, 0).map(|(socket, _)| socket)
    }

    /// Opens a socket that also receives LLDP frames, in the current network namespace. What it
    /// sends passes no queue of the host.
    ///
    /// # Errors
    /// As of [`PacketSocket::open`].
    pub fn open_lldp(interface: &str) -> Result<PacketSocket, Error> {
        let (socket, index) = Self::open_for(interface, LLDP)?;
        let joined = add_membership(&socket.fd, index, libc::PACKET_MR_MULTICAST, &MacAddr::NEAREST_BRIDGE.0);
        joined
            .and_then(|()| {
                set_option(socket.fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1_i32)
            })
            .map_err(|error| {
                Error::kernel(format!("interface {interface}: receiving LLDP with a packet socket"), error)
            })?;
        Ok(socket)
    }

    /// Opens a socket that receives frames of this ethertype, none if 0. Returns the interface's
    /// index, too.
    fn open_for(interface: &str, ethertype: u16) -> Result<(PacketSocket, i32), Error> {
        let route = RouteSocket::open().map_err(|error| Error::kernel("opening a netlink socket", error))?;
        let link = route.link(interface).map_err(|error| link_error(interface, error))?;
        let failed =
            |what, error| Error::kernel(format!("interface {interface}: {what} a packet socket"), error);
        let fd = silent_socket().map_err(|error| failed("opening", error))?;
        let address = address_of(link.index, ethertype);
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is a sockaddr_ll and the length matches.
        let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
        if bound < 0 {
            return Err(failed("binding", io::Error::last_os_error()));
        }
        Ok((PacketSocket { fd }, link.index))
    }

    /// Receives the next frame that waits, without FCS, and returns its length; `None` if no frame
    /// waits. Never blocks. A longer frame than the buffer is cut off.
    ///
    /// # Errors
    /// The interface has gone down (once) or is gone.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        // SAFETY: the buffer outlives the call and the length is its own.
        let received = unsafe {
            libc::recv(self.fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT)
        };
        match usize::try_from(received) {
            Ok(len) => Ok(Some(len)),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Sends a whole frame, without FCS; never blocks.
    ///
    /// # Errors
    /// The kernel did not accept the frame.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the buffer outlives the call and the length is its own.
        let sent = unsafe {
            libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
