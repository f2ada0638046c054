//! Changes of the link of an interface. Source: rtnetlink(7), group `RTMGRP_LINK`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;

use crate::error::Error;
use crate::netlink::is_up;

/// The multicast group of link changes (linux/rtnetlink.h).
const RTMGRP_LINK: u32 = 1;

/// Room for the messages of one read.
const BUFFER_BYTES: usize = 32 * 1024;

/// A socket that the kernel sends changes of interfaces to.
pub struct LinkWatch(OwnedFd);

impl LinkWatch {
    /// Watches the interfaces of the namespace of the calling thread.
    pub fn open() -> Result<Self, Error> {
        let failed = |error| Error::system("watching the links", error);
        let (kind, flags) = (SockType::Raw, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK);
        let fd = socket(AddressFamily::Netlink, kind, flags, SockProtocol::NetlinkRoute).map_err(failed)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, RTMGRP_LINK)).map_err(failed)?;
        Ok(Self(fd))
    }

    /// Returns the states of the interface of this index since the last call, in their order: true
    /// if it was up with a carrier.
    pub fn changes(&self, index: u32) -> Result<Vec<bool>, Error> {
        let mut states = Vec::new();
        let mut buffer = [0; BUFFER_BYTES];
        loop {
            match recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(len) => states.extend(states_of(&buffer[..len], index)),
                Err(nix::Error::EAGAIN) => return Ok(states),
                // Messages were lost: the interface may have been down.
                Err(nix::Error::ENOBUFS) => states.push(false),
                Err(nix::Error::EINTR) => {}
                Err(error) => return Err(Error::system("watching the links", error)),
            }
        }
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns the states of an interface in the messages of one read.
fn states_of(mut messages: &[u8], index: u32) -> Vec<bool> {
    let mut states = Vec::new();
    while let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(messages) {
        let length = message.header.length as usize;
        match message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link))
                if link.header.index == index =>
            {
                states.push(is_up(&link));
            }
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link))
                if link.header.index == index =>
            {
                states.push(false);
            }
            _ => {}
        }
        // Messages are aligned to four bytes.
        match messages.get(length.next_multiple_of(4)..) {
            Some(rest) if length > 0 && !rest.is_empty() => messages = rest,
            _ => break,
        }
    }
    states
}
