//! What a port puts on its interface, beside its sockets, and takes off again: the XDP program, on
//! a veth a queueing discipline, and promiscuity, if the port is a switch's: a NIC does not take in
//! what is for hosts behind other ports.
//!
//! Source: docs/kernel-behavior.md, "Where frames vanish" (why a veth needs one).

use std::io;
use std::os::fd::RawFd;

use crate::error::Error;
use crate::interface::netlink::{Link, RouteSocket};
use crate::interface::program::{Attached, XdpMode, attach};
use crate::packet_socket::Promiscuity;
use crate::port::sockets::PortContext;

/// Frames that the qdisc on a veth may hold: those of the interface's own stack; ours pass it by.
const PFIFO_FRAMES: u32 = 1000;

/// What is on an interface for the sake of a port; dropping it takes it off.
#[derive(Debug)]
pub(crate) struct Attachment {
    interface: String,
    index: i32,
    program: Option<Attached>,
    /// Where to remove the qdisc that we set.
    qdisc: Option<RouteSocket>,
    _promiscuity: Option<Promiscuity>,
}

impl Attachment {
    /// The XDP program, which hands the frames of RX queue i to `sockets[i]` from now on, and the
    /// qdisc; what is for others is taken in, too, if that is wanted.
    pub(crate) fn put_on(
        interface: &str,
        link: &Link,
        route: RouteSocket,
        (sockets, place): (&[RawFd], &PortContext),
    ) -> Result<Attachment, Error> {
        let promiscuity =
            place.setup.promiscuous.then(|| Promiscuity::of(link.index)).transpose().map_err(|error| {
                Error::kernel(format!("interface {interface}: making it promiscuous"), error)
            })?;
        let program = Some(attach(interface, link.index, sockets, place.frames.is_multi_buffer())?);
        let mut attachment = Attachment {
            interface: interface.into(),
            index: link.index,
            program,
            qdisc: None,
            _promiscuity: promiscuity,
        };
        if link.kind == "veth" && link.qdisc == "noqueue" {
            match route.set_pfifo(link.index, PFIFO_FRAMES) {
                Ok(()) => attachment.qdisc = Some(route),
                Err(error) => tracing::warn!(interface, %error, "no pfifo on this veth"),
            }
        }
        Ok(attachment)
    }

    /// How the XDP program runs.
    pub(crate) fn xdp_mode(&self) -> XdpMode {
        self.program.as_ref().map_or(XdpMode::Native, |program| program.mode)
    }

    /// VLAN tags that the sender's stack holds out of band are put back into the frames.
    pub(crate) fn vlan_tags_restored(&self) -> bool {
        self.program.as_ref().is_some_and(|program| program.restores_vlan_tags)
    }

    /// Takes it all off.
    ///
    /// # Errors
    /// The qdisc was there, and it did not go.
    pub(crate) fn take_off(&mut self) -> io::Result<()> {
        self.program = None;
        match self.qdisc.take().map_or(Ok(()), |route| route.remove_qdisc(self.index)) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOENT)) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if let Err(error) = self.take_off() {
            tracing::warn!(interface = self.interface, %error, "the qdisc stays");
        }
    }
}
