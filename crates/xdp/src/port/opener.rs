//! Closes and opens what a port is made of, on a thread that may wait for the kernel, while the
//! port's loop goes on.
//!
//! ```text
//!   loop                          dock                          this thread
//!   lets its sockets go ────────▶ left ───────────────────────▶ takes the program off, closes them
//!   takes the frames back ◀────── what was counted ◀────────────
//!   posts frames ◀─────────────── ready ◀────────────────────── opens others
//!                                                               puts the program on, once frames are posted
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

/// Where the sockets of a port wait between its loop and the thread that closes and opens them.
pub struct SocketHandoff {
    left: ArrayQueue<PortSockets>,
    counted: ArrayQueue<KernelCounters>,
    ready: ArrayQueue<(String, PortSockets)>,
    /// Frames that the NIC missed, and of which the loop has not heard.
    missed: AtomicU64,
}

impl SocketHandoff {
    pub(crate) fn new() -> Arc<SocketHandoff> {
        let (left, counted, ready) = (ArrayQueue::new(1), ArrayQueue::new(1), ArrayQueue::new(1));
        Arc::new(SocketHandoff { left, counted, ready, missed: AtomicU64::new(0) })
    }

    /// The loop has let the port's sockets go: they want to be closed.
    pub fn has_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// The loop lets its sockets go, where none are that still want to be closed.
    pub(crate) fn leave(&self, sockets: PortSockets) {
        let room = self.left.push(sockets).is_ok();
        debug_assert!(room, "a port lets go once between being opened twice");
    }

    /// The sockets that are ready, and the interface that they are on.
    pub(crate) fn take_ready(&self) -> Option<(String, PortSockets)> {
        self.ready.pop()
    }

    /// The NIC has missed so many frames more.
    pub fn note_missed(&self, frames: u64) {
        if frames > 0 {
            self.missed.fetch_add(frames, Relaxed);
        }
    }

    /// Frames that the NIC missed since this was last asked.
    pub(crate) fn take_missed(&self) -> u64 {
        if self.missed.load(Relaxed) == 0 { 0 } else { self.missed.swap(0, Relaxed) }
    }

    pub(crate) fn take_counted(&self) -> Option<KernelCounters> {
        self.counted.pop()
    }
}

impl fmt::Debug for SocketHandoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dock, left: {}, ready: {}", self.left.len(), self.ready.len())
    }
}

/// What closes and opens a port, on one interface or, while the switch has no such port, on none
/// yet.
pub struct PortOpener {
    place: PortContext,
    dock: Arc<SocketHandoff>,
    /// RX queues that memory was set aside for.
    most_queues: u32,
    attachment: Option<Attachment>,
    /// Of the sockets that were opened last, until they are attached.
    opened: Option<(Link, Vec<RawFd>)>,
    /// How they are bound.
    binding: PortMode,
    missed: RxMissed,
}

impl PortOpener {
    pub(crate) fn new(
        place: PortContext,
        dock: Arc<SocketHandoff>,
        most_queues: u32,
        (attachment, binding): (Option<Attachment>, PortMode),
    ) -> PortOpener {
        let missed = RxMissed::default();
        let mut keeper = PortOpener { place, dock, most_queues, attachment, opened: None, binding, missed };
        keeper.look();
        keeper
    }

    /// Looks what the NIC has missed, and tells the loop.
    pub fn look(&mut self) {
        if self.attachment.is_none() {
            return;
        }
        let link = RouteSocket::open().and_then(|route| route.link(&self.place.interface));
        if let Ok(Link { index, missed_frames, .. }) = link {
            self.dock.note_missed(self.missed.rise(index, missed_frames));
        }
    }

    /// Where the loop and this leave sockets to each other.
    pub fn dock(&self) -> Arc<SocketHandoff> {
        Arc::clone(&self.dock)
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        &self.place.interface
    }

    /// From now on this is another port, which is closed: on `interface`, for at most so many RX
    /// queues.
    pub fn assign(&mut self, interface: String, most_queues: u32, min_posted: u32) {
        self.close();
        (self.place.interface, self.place.must_copy) = (interface, false);
        self.place.setup.min_posted = min_posted.min(self.place.setup.max_posted);
        self.most_queues = most_queues;
    }

    /// Closes the sockets that the loop has let go, and those that it never took; the loop may then
    /// take their frames back.
    pub fn close(&mut self) {
        self.look();
        self.missed.forget();
        self.attachment = None; // before the sockets: nothing comes in any more
        self.opened = None;
        if let Some((_, unused)) = self.dock.ready.pop() {
            unused.close();
        }
        if let Some(sockets) = self.dock.left.pop() {
            // There is one port, and its loop takes what was counted before it lets go again.
            let _ = self.dock.counted.push(sockets.close());
        }
    }

    /// Opens sockets on the interface of this name that there is now. They are for the loop to
    /// take, and hold no frames until then; so nothing comes in yet.
    ///
    /// # Errors
    /// As those of [`crate::XdpPort::open`]; the interface is then as it was.
    pub fn open(&mut self) -> Result<(), Error> {
        let interface = &self.place.interface;
        let route = RouteSocket::open().map_err(|error| Error::kernel("opening a netlink socket", error))?;
        let link = usable_link(&route, interface, &self.place.frames)?;
        let queues = rx_queues(interface)
            .map_err(|error| Error::kernel(format!("interface {interface}: reading its channels"), error))?;
        if queues > self.most_queues {
            let most = self.most_queues;
            return Err(Error::MoreQueues { interface: interface.clone(), queues, most });
        }
        if let Some((_, unused)) = self.dock.ready.pop() {
            unused.close();
        }
        let sockets = self.place.open(&link, queues)?;
        self.binding = sockets.binding();
        self.opened = Some((link, sockets.fds()));
        let _ = self.dock.ready.push((interface.clone(), sockets)); // there is room: it was just emptied
        Ok(())
    }

    /// Lets frames in: the loop has taken the sockets that were opened, and posted frames. The
    /// descriptors that become readable when one comes in.
    ///
    /// # Errors
    /// The program cannot be put on the interface; nothing comes in, and the loop should let the
    /// sockets go.
    pub fn attach(&mut self) -> Result<Vec<RawFd>, Error> {
        let Some((link, fds)) = self.opened.take() else { return Ok(Vec::new()) };
        let route = RouteSocket::open().map_err(|error| Error::kernel("opening a netlink socket", error))?;
        let interface = &self.place.interface;
        let attachment = Attachment::put_on(interface, &link, route, (&fds, &self.place))?;
        if self.binding.zero_copy && attachment.xdp_mode() == XdpMode::Generic {
            let error = Error::NoNativeXdp { interface: interface.clone() };
            self.place.must_copy = true; // when it is opened next
            return Err(error);
        }
        self.attachment = Some(attachment);
        self.look();
        Ok(fds)
    }

    /// How the XDP program runs.
    pub fn xdp_mode(&self) -> XdpMode {
        self.attachment.as_ref().map_or(XdpMode::Native, Attachment::xdp_mode)
    }

    /// How frames get to the switch's memory and back.
    pub fn binding(&self) -> PortMode {
        self.binding
    }

    /// VLAN tags that the sender's stack holds out of band are put back into the frames.
    pub fn vlan_tags_restored(&self) -> bool {
        self.attachment.as_ref().is_some_and(Attachment::vlan_tags_restored)
    }
}

impl fmt::Debug for PortOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keeper of the port on {}", self.place.interface)
    }
}
