//! Changes of the link of an interface.

use std::os::fd::{AsFd, BorrowedFd};

use xdp::netlink::{LinkChange, RouteSocket};

use crate::error::Error;

/// A socket that the kernel sends changes of interfaces to.
pub struct LinkWatch(RouteSocket);

impl LinkWatch {
    /// Watches the interfaces of the namespace of the calling thread.
    pub fn open() -> Result<Self, Error> {
        RouteSocket::watch_links().map(Self).map_err(|error| Error::system("watching the links", error))
    }

    /// Returns the states of the interface of this index since the last call, in their order: true
    /// if it was up with a carrier.
    pub fn changes(&self, index: u32) -> Result<Vec<bool>, Error> {
        let changes = self.0.link_changes().map_err(|error| Error::system("watching the links", error))?;
        let state = |change: LinkChange| match change {
            LinkChange::Set(link) => (link.index == index as i32).then_some(link.has_carrier),
            LinkChange::Deleted(link) => (link.index == index as i32).then_some(false),
            // The interface may have been down.
            LinkChange::Lost => Some(false),
        };
        Ok(changes.into_iter().filter_map(state).collect())
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
