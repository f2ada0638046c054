//! The checks of an interface before a port is opened on it, and their errors.

pub(crate) mod addresses;
pub(crate) mod ethtool;
pub(crate) mod generic_netlink;
pub(crate) mod host_settings;
pub(crate) mod info;
pub(crate) mod netlink;
pub(crate) mod offloads;
pub(crate) mod program;

use std::io;

use crate::error::Error;
use crate::interface::ethtool::rx_queues;
use crate::interface::netlink::{Link, RouteSocket};
use crate::umem::area::UmemFrames;

/// Returns the RX queues of an interface, each of which needs a socket of the port.
///
/// # Errors
/// The interface cannot be queried.
pub fn queues_of(interface: &str) -> Result<u32, Error> {
    rx_queues(interface).map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) => Error::NoInterface { interface: interface.into() },
        _ => Error::kernel(format!("interface {interface}: reading its channels"), error),
    })
}

/// The reason why an MTU is too large on a kernel without multi-buffer frames.
const NO_MULTI_BUFFER: &str = ", as frames in several pieces need Linux 6.6";

/// Looks up the interface and rejects one that cannot be a port.
pub(crate) fn usable_link(route: &RouteSocket, interface: &str, frames: &UmemFrames) -> Result<Link, Error> {
    let link = route.link(interface).map_err(|error| link_error(interface, error))?;
    let interface = || interface.to_owned();
    if let Some(program_id) = link.xdp_program {
        return Err(Error::HasProgram { interface: interface(), program_id });
    }
    if !link.up {
        return Err(Error::Down { interface: interface() });
    }
    let max_mtu = frames.max_mtu();
    if link.mtu > max_mtu {
        let because = if frames.is_multi_buffer() { "" } else { NO_MULTI_BUFFER };
        return Err(Error::MtuTooLarge { interface: interface(), mtu: link.mtu, max_mtu, because });
    }
    Ok(link)
}

/// Returns the error of a failed lookup by name.
pub(crate) fn link_error(interface: &str, error: io::Error) -> Error {
    match error.raw_os_error() {
        // ERANGE, EINVAL: longer than the longest possible name.
        Some(libc::ENODEV | libc::ERANGE | libc::EINVAL) => {
            Error::NoInterface { interface: interface.into() }
        }
        _ => Error::kernel(format!("interface {interface}: looking it up"), error),
    }
}

/// Returns the error that names the XDP program of another process, which was attached first.
pub(crate) fn program_error(interface: &str) -> Error {
    let link = RouteSocket::open().and_then(|route| route.link(interface));
    let program_id = link.ok().and_then(|link| link.xdp_program).unwrap_or(0);
    Error::HasProgram { interface: interface.into(), program_id }
}
