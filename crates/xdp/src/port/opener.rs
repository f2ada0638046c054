//! Opening and closing of a port's sockets on a thread that may wait for the kernel, while the
//! port's loop continues.
//!
//! ```text
//!   loop                          SocketHandoff                 this thread
//!   detaches its sockets ───────▶ left ───────────────────────▶ detaches the program, closes them
//!   reclaims the frames ◀──────── counted ◀────────────────────
//!   posts chunks ◀─────────────── ready ◀────────────────────── opens others
//!                                                               attaches the program after that
//! ```

use std::fmt;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam::queue::ArrayQueue;
use switch::KernelCounters;

use crate::error::Error;
use crate::interface::ethtool::rx_queues;
use crate::interface::netlink::{Link, RouteSocket};
use crate::interface::program::XdpMode;
use crate::interface::usable_link;
use crate::port::attachment::Attachment;
use crate::port::bind_mode::PortMode;
use crate::port::rx_missed::RxMissed;
use crate::port::sockets::{PortContext, PortSockets};

/// The exchange of a port's sockets between its loop and the thread that closes and opens them.
pub struct SocketHandoff {
    detached: ArrayQueue<PortSockets>,
    closed: ArrayQueue<KernelCounters>,
    opened: ArrayQueue<(String, PortSockets)>,
    /// Frames that the NIC missed and that the loop has not taken into account.
    missed: AtomicU64,
}

impl SocketHandoff {
    pub(crate) fn new() -> Arc<SocketHandoff> {
        let (left, counted, ready) = (ArrayQueue::new(1), ArrayQueue::new(1), ArrayQueue::new(1));
        Arc::new(SocketHandoff { detached: left, closed: counted, opened: ready, missed: AtomicU64::new(0) })
    }

    /// True if the loop has detached the port's sockets and they are not closed yet.
    pub fn has_detached(&self) -> bool {
        !self.detached.is_empty()
    }

    /// Detaches the loop's sockets, unless others still wait to be closed.
    pub(crate) fn detach(&self, sockets: PortSockets) {
        let room = self.detached.push(sockets).is_ok();
        debug_assert!(room, "a port lets go once between being opened twice");
    }

    /// Takes the opened sockets and the name of their interface.
    pub(crate) fn take_ready(&self) -> Option<(String, PortSockets)> {
        self.opened.pop()
    }

    /// Adds `frames` frames that the NIC missed.
    pub fn add_missed(&self, frames: u64) {
        if frames > 0 {
            self.missed.fetch_add(frames, Relaxed);
        }
    }

    /// Takes the number of frames that the NIC missed since the last call.
    pub(crate) fn take_missed(&self) -> u64 {
        if self.missed.load(Relaxed) == 0 { 0 } else { self.missed.swap(0, Relaxed) }
    }

    pub(crate) fn take_counted(&self) -> Option<KernelCounters> {
        self.closed.pop()
    }
}

impl fmt::Debug for SocketHandoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SocketHandoff, left: {}, ready: {}", self.detached.len(), self.opened.len())
    }
}

/// The closing and opening of one port, on an interface, or without one while the switch has no
/// such port.
pub struct PortOpener {
    slot: PortContext,
    handoff: Arc<SocketHandoff>,
    attachment: Option<Attachment>,
    /// The link and descriptors of the last opened sockets, until the program is attached.
    opened: Option<(Link, Vec<RawFd>)>,
    /// How the sockets are bound.
    port_mode: PortMode,
    missed: RxMissed,
}

impl PortOpener {
    pub(crate) fn new(
        slot: PortContext,
        handoff: Arc<SocketHandoff>,
        (attachment, binding): (Option<Attachment>, PortMode),
    ) -> PortOpener {
        let missed = RxMissed::default();
        let mut opener = PortOpener { slot, handoff, attachment, opened: None, port_mode: binding, missed };
        opener.poll();
        opener
    }

    /// Reads how many frames the NIC has missed, and reports them to the loop.
    pub fn poll(&mut self) {
        if self.attachment.is_none() {
            return;
        }
        let link = RouteSocket::open().and_then(|route| route.link(&self.slot.interface));
        if let Ok(Link { index, missed_frames, .. }) = link {
            self.handoff.add_missed(self.missed.rise(index, missed_frames));
        }
    }

    /// Returns the exchange of sockets with the loop.
    pub fn handoff(&self) -> Arc<SocketHandoff> {
        Arc::clone(&self.handoff)
    }

    /// Returns the name of the interface.
    pub fn interface(&self) -> &str {
        &self.slot.interface
    }

    /// Assigns another port, which is closed, on `interface`.
    pub fn assign(&mut self, interface: String, min_posted: u32) {
        self.close();
        (self.slot.interface, self.slot.must_copy) = (interface, false);
        self.slot.config.min_posted = min_posted.min(self.slot.config.max_posted);
    }

    /// Closes detached sockets, and opened ones that the loop never took. The loop can reclaim
    /// their frames afterwards.
    pub fn close(&mut self) {
        self.poll();
        self.missed.forget();
        self.attachment = None; // before the sockets: reception ends here
        self.opened = None;
        if let Some((_, unused)) = self.handoff.opened.pop() {
            unused.close();
        }
        if let Some(sockets) = self.handoff.detached.pop() {
            // There is one port, and its loop takes the counters before it detaches again.
            let _ = self.handoff.closed.push(sockets.close());
        }
    }

    /// Opens sockets on the interface that has this name now, for the loop to take: one for each RX
    /// queue, of which there may be `most`. Returns their number. Nothing is received yet, as they
    /// hold no chunks until then.
    ///
    /// # Errors
    /// As those of [`crate::XdpPort::open`]; the interface is then unchanged.
    pub fn open(&mut self, most: u32) -> Result<u32, Error> {
        let interface = &self.slot.interface;
        let route = RouteSocket::open().map_err(|error| Error::kernel("opening a netlink socket", error))?;
        let link = usable_link(&route, interface, &self.slot.frames)?;
        let queues = rx_queues(interface)
            .map_err(|error| Error::kernel(format!("interface {interface}: reading its channels"), error))?;
        if queues > most {
            return Err(Error::MoreQueues { interface: interface.clone(), queues, most });
        }
        if let Some((_, unused)) = self.handoff.opened.pop() {
            unused.close();
        }
        let sockets = self.slot.open(&link, queues)?;
        self.port_mode = sockets.port_mode();
        self.opened = Some((link, sockets.fds()));
        let _ = self.handoff.opened.push((interface.clone(), sockets)); // there is room: it was just emptied
        Ok(queues)
    }

    /// Opens sockets and attaches the program as well, which drops all frames until
    /// [`PortOpener::attach`]: so what would fail then fails now, and the NIC is reset only once.
    ///
    /// # Errors
    /// As those of [`crate::XdpPort::open`]; the interface is then unchanged.
    pub fn prepare(&mut self, most: u32) -> Result<u32, Error> {
        let mut prepare = || {
            let queues = self.open(most)?;
            match self.install(&[]) {
                Err(Error::NoNativeXdp { .. }) => {
                    let queues = self.open(most)?; // in copy mode
                    self.install(&[]).map(|()| queues)
                }
                done => done.map(|()| queues),
            }
        };
        let prepared = prepare();
        if prepared.is_err() {
            self.close();
        }
        prepared
    }

    /// Attaches the program and so starts reception: the loop has taken the opened sockets and
    /// posted chunks. Returns the descriptors that become readable when a frame is received.
    ///
    /// # Errors
    /// The program cannot be attached to the interface. Nothing is received, and the loop should
    /// detach the sockets.
    pub fn attach(&mut self) -> Result<Vec<RawFd>, Error> {
        let Some((_, fds)) = &self.opened else { return Ok(Vec::new()) };
        let fds = fds.clone();
        match &self.attachment {
            Some(prepared) => prepared.enable_rx(&fds)?,
            None => self.install(&fds)?,
        }
        self.opened = None;
        self.poll();
        Ok(fds)
    }

    /// Attaches the program, which passes the frames of RX queue i to `sockets[i]`.
    fn install(&mut self, sockets: &[RawFd]) -> Result<(), Error> {
        let Some((link, fds)) = &self.opened else { return Ok(()) };
        let attachment = Attachment::install(link, (fds.len(), sockets), &self.slot)?;
        if self.port_mode.zero_copy && attachment.xdp_mode() == XdpMode::Generic {
            self.slot.must_copy = true; // for the next opening
            return Err(Error::NoNativeXdp { interface: self.slot.interface.clone() });
        }
        self.attachment = Some(attachment);
        Ok(())
    }

    /// Returns the mode of the XDP program.
    pub fn xdp_mode(&self) -> XdpMode {
        self.attachment.as_ref().map_or(XdpMode::Native, Attachment::xdp_mode)
    }

    /// Returns how frames reach the switch's memory and leave it.
    pub fn port_mode(&self) -> PortMode {
        self.port_mode
    }

    /// True if VLAN tags that the sender's stack keeps out of band are restored in the frames.
    pub fn vlan_tags_restored(&self) -> bool {
        self.attachment.as_ref().is_some_and(Attachment::vlan_tags_restored)
    }
}

impl fmt::Debug for PortOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keeper of the port on {}", self.slot.interface)
    }
}
