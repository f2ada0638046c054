//! What a port installs on its interface, beside its sockets, and removes again: the XDP program,
//! on a veth a queueing discipline, and promiscuous mode, if the port belongs to a switch, since a
//! NIC otherwise drops frames for hosts behind other ports.
//!
//! Source: docs/kernel/af-xdp.md, "Where frames vanish" (why a veth needs one).

use std::io;
use std::os::fd::RawFd;

use crate::error::Error;
use crate::interface::host_settings::HostSettings;
use crate::interface::netlink::Link;
use crate::interface::program::{Attached, XdpMode, attach};
use crate::packet_socket::PromiscuousMode;
use crate::port::sockets::PortContext;

/// What a port has installed on an interface; dropping it removes all of it.
#[derive(Debug)]
pub(crate) struct Attachment {
    interface: String,
    program: Option<Attached>,
    /// The qdisc, if the port installed one.
    host: HostSettings,
    _promiscuity: Option<PromiscuousMode>,
}

impl Attachment {
    /// Installs the XDP program for an interface with this number of RX queues, and the qdisc. It
    /// passes the frames of RX queue i to `sockets[i]` from now on, and drops those of queues
    /// without one. Makes the interface promiscuous if requested.
    pub(crate) fn install(
        link: &Link,
        (queues, sockets): (usize, &[RawFd]),
        slot: &PortContext,
    ) -> Result<Attachment, Error> {
        let interface = slot.interface.as_str();
        let promiscuity =
            slot.config.promiscuous.then(|| PromiscuousMode::of(link.index)).transpose().map_err(
                |error| Error::kernel(format!("interface {interface}: making it promiscuous"), error),
            )?;
        let multi_buffer = slot.frames.is_multi_buffer();
        let program = Some(attach(interface, link.index, (queues, sockets), multi_buffer)?);
        let mut attachment = Attachment {
            interface: interface.into(),
            program,
            host: HostSettings::default(),
            _promiscuity: promiscuity,
        };
        let host = HostSettings::of_link(link);
        match host.change() {
            Ok(()) => attachment.host = host,
            Err(error) => tracing::warn!(interface, %error, "no pfifo on this veth"),
        }
        Ok(attachment)
    }

    /// Passes the frames of RX queue i to `sockets[i]` from now on.
    ///
    /// # Errors
    /// The kernel accepts a socket no longer.
    pub(crate) fn enable_rx(&self, sockets: &[RawFd]) -> Result<(), Error> {
        self.program.as_ref().map_or(Ok(()), |program| program.enable_rx(sockets)).map_err(|error| {
            let action = format!("interface {}: passing frames to the sockets", self.interface);
            Error::Kernel { action, source: io::Error::other(error.to_string()) }
        })
    }

    /// Returns the mode of the XDP program.
    pub(crate) fn xdp_mode(&self) -> XdpMode {
        self.program.as_ref().map_or(XdpMode::Native, |program| program.mode)
    }

    /// True if VLAN tags that the sender's stack keeps out of band are restored in the frames.
    pub(crate) fn vlan_tags_restored(&self) -> bool {
        self.program.as_ref().is_some_and(|program| program.restores_vlan_tags)
    }

    /// Removes all that was installed.
    ///
    /// # Errors
    /// The installed qdisc could not be removed.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        self.program = None;
        let host = std::mem::take(&mut self.host);
        if host.is_empty() { Ok(()) } else { host.restore() }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::warn!(interface = self.interface, %error, "the qdisc stays");
        }
    }
}
