//! Packet sockets. One type sends whole frames on an interface, beside the AF_XDP socket of its
//! port, for threads that must send while the port's loop cannot.
//!
//! Another makes an interface promiscuous for the lifetime of the socket.
//!
//! Source: packet(7). With protocol 0, a packet socket receives nothing. Sent frames pass through
//! the interface's queueing discipline, so on a veth whose peer is full they wait there and are not
//! lost.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

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
        // SAFETY: all zeroes is a valid request of this type; the relevant fields are set below.
        let mut request: libc::packet_mreq = unsafe { std::mem::zeroed() };
        request.mr_ifindex = index;
        request.mr_type = libc::PACKET_MR_PROMISC as u16;
        let len = size_of::<libc::packet_mreq>() as libc::socklen_t;
        let (level, name) = (libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP);
        // SAFETY: the request is a packet_mreq and the length matches.
        let failed =
            unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const request).cast(), len) };
        if failed != 0 { Err(io::Error::last_os_error()) } else { Ok(PromiscuousMode { _fd: fd }) }
    }
}

/// A packet socket that sends frames on one interface.
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
        let route = RouteSocket::open().map_err(|error| Error::kernel("opening a netlink socket", error))?;
        let link = route.link(interface).map_err(|error| link_error(interface, error))?;
        let failed =
            |what, error| Error::kernel(format!("interface {interface}: {what} a packet socket"), error);
        let fd = silent_socket().map_err(|error| failed("opening", error))?;
        // SAFETY: all zeroes is a valid address of this type; the relevant fields are set below.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = link.index;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is a sockaddr_ll and the length matches.
        let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
        if bound < 0 { Err(failed("binding", io::Error::last_os_error())) } else { Ok(PacketSocket { fd }) }
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
