//! A port on a Linux interface: one AF_XDP socket per RX queue, the XDP program that feeds them,
//! and a queueing discipline on a veth.
//!
//! One core owns a port. Frames move between the ports of one [`Umem`] freely, and complete at the
//! port that sent them. Sockets ([`crate::port::sockets`]) and what is installed on the interface
//! ([`crate::port::attachment`]) come and go; the port stays.
//!
//! A veth loses no frames for two reasons. The send buffer bounds the frames in flight to fewer
//! than the peer's ring holds. If the ring is full anyway, a veth with a qdisc (hence the pfifo)
//! keeps the frame and returns EAGAIN (kernel 6.16 and later), while one without loses it. Source:
//! docs/kernel/af-xdp.md, "Where frames vanish".

pub(crate) mod attachment;
pub(crate) mod bind_mode;
pub(crate) mod config;
pub(crate) mod fill;
pub(crate) mod opener;
pub(crate) mod rx;
pub(crate) mod rx_missed;
pub(crate) mod socket;
pub(crate) mod sockets;
pub(crate) mod tx;
pub(crate) mod tx_loss;
pub(crate) mod tx_ring;
pub(crate) mod tx_socket;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use dataplane::{Port, PortFault};
use switch::monitor::throttle::{EVENT_NS, Throttle};
use switch::{FrameId, Instant, KernelCounters, Nanos, RxDesc, TxDesc};

use crate::error::Error;
use crate::interface::ethtool::rx_queues;
use crate::interface::netlink::{Link, RouteSocket};
use crate::interface::program::XdpMode;
use crate::interface::usable_link;
use crate::port::attachment::Attachment;
use crate::port::bind_mode::PortMode;
use crate::port::config::PortConfig;
use crate::port::opener::{PortOpener, SocketHandoff};
use crate::port::rx::Receiver;
use crate::port::sockets::{PortContext, PortSockets};
use crate::port::tx::Sender;
use crate::umem::Umem;

/// How often a port checks whether its interface still exists.
const LINK_CHECK_NS: Nanos = 10_000_000;

/// A port on an interface.
pub struct XdpPort {
    slot: PortContext,
    /// The sockets; `None` while the port is closed.
    sockets: Option<PortSockets>,
    /// What is installed on the interface, unless a [`PortOpener`] manages it.
    attachment: Option<Attachment>,
    /// Where sockets are exchanged with the [`PortOpener`], if one closes and opens them.
    handoff: Option<Arc<SocketHandoff>>,
    /// Frames in the rings of detached sockets.
    detached_frames: usize,
    /// The queue that `receive` starts with.
    first_queue: usize,
    up: bool,
    /// Faults that have not been taken yet.
    faults: VecDeque<PortFault>,
    next_link_check: Instant,
    /// Frames that the kernel dropped for lack of a buffer, in total at the last check.
    kernel_drops: u64,
    /// Of these, the unreported ones, if there was a check since the last report.
    unreported_drops: Option<u64>,
    /// Frames that the kernel completed without owning them, in total at the last check.
    kernel_stray: u64,
    /// Of these, the unreported ones.
    unreported_stray: u64,
    /// Frames too long for any port that have been reported.
    reported_too_long: u64,
    /// When more such frames may be reported.
    too_long_throttle: Throttle,
    /// The port's own counters, and those of closed sockets.
    counters: KernelCounters,
    /// The counters of detached sockets at the time of detaching.
    detached_counters: KernelCounters,
}

impl XdpPort {
    /// Opens `interface`, of the current network namespace, as a port on `umem`. Reception starts
    /// at once.
    ///
    /// # Errors
    /// See [`Error`]; the interface is then unchanged.
    pub fn open(umem: &mut Umem, interface: &str, setup: &PortConfig) -> Result<XdpPort, Error> {
        if let Some(reason) = setup.validate() {
            return Err(Error::InvalidPortConfig { interface: interface.into(), reason });
        }
        let route = RouteSocket::open().map_err(|error| Error::kernel("opening a netlink socket", error))?;
        let frames = umem.shared();
        let link = usable_link(&route, interface, &frames)?;
        let queues = rx_queues(interface)
            .map_err(|error| Error::kernel(format!("interface {interface}: reading its channels"), error))?;

        let owned = umem.add_port();
        let slot =
            PortContext { interface: interface.into(), owned, frames, config: *setup, must_copy: false };
        let mut port = XdpPort::without_sockets(slot);
        let mut opened = port.open_sockets(umem, &link, queues);
        if opened.is_ok() && port.needs_copy_mode() {
            opened = port.reopen_in_copy_mode(umem, &link, queues);
        }
        match opened {
            Ok(()) => Ok(port),
            Err(error) => {
                port.close_sockets();
                umem.remove_port(&port.slot.owned, &mut Vec::new()); // nothing was sent yet
                Err(error)
            }
        }
    }

    /// Creates a closed port without an interface; its [`PortOpener`] assigns one.
    pub fn unassigned(umem: &mut Umem, setup: &PortConfig) -> XdpPort {
        let (frames, owned) = (umem.shared(), umem.add_port());
        let slot = PortContext { interface: String::new(), owned, frames, config: *setup, must_copy: false };
        let mut port = XdpPort::without_sockets(slot);
        port.up = false;
        port
    }

    /// Returns the [`PortOpener`] that closes and opens the port from now on. The port detaches its
    /// sockets instead of closing them.
    pub fn opener(&mut self) -> PortOpener {
        let handoff = SocketHandoff::new();
        self.handoff = Some(Arc::clone(&handoff));
        let binding = self.port_mode();
        PortOpener::new(self.slot.clone(), handoff, (self.attachment.take(), binding))
    }

    /// Returns the mode of the XDP program.
    pub fn xdp_mode(&self) -> XdpMode {
        self.attachment.as_ref().map_or(XdpMode::Native, Attachment::xdp_mode)
    }

    /// Returns how frames reach the switch's memory and leave it.
    pub fn port_mode(&self) -> PortMode {
        self.sockets.as_ref().map(PortSockets::port_mode).unwrap_or_default()
    }

    /// True if VLAN tags that the sender's stack keeps out of band are restored in the frames.
    pub fn vlan_tags_restored(&self) -> bool {
        self.attachment.as_ref().is_some_and(Attachment::vlan_tags_restored)
    }

    /// Returns the name of the interface.
    pub fn interface(&self) -> &str {
        &self.slot.interface
    }

    /// Returns the RX queues, and thus sockets, of the port.
    pub fn queues(&self) -> usize {
        self.receivers().len()
    }

    fn without_sockets(slot: PortContext) -> XdpPort {
        XdpPort {
            slot,
            sockets: None,
            attachment: None,
            handoff: None,
            detached_frames: 0,
            first_queue: 0,
            up: true,
            faults: VecDeque::with_capacity(4),
            next_link_check: Instant(0),
            kernel_drops: 0,
            unreported_drops: None,
            kernel_stray: 0,
            unreported_stray: 0,
            reported_too_long: 0,
            too_long_throttle: Throttle::default(),
            counters: KernelCounters::default(),
            detached_counters: KernelCounters::default(),
        }
    }

    /// Opens the sockets first, posts chunks, and attaches the program last, so that the first
    /// received frame finds a chunk.
    fn open_sockets(&mut self, umem: &mut Umem, link: &Link, queues: u32) -> Result<(), Error> {
        let sockets = self.sockets.insert(self.slot.open(link, queues)?);
        sockets.receivers.iter_mut().for_each(|receiver| receiver.post_initial(umem));
        let fds = sockets.fds();
        self.attachment = Some(Attachment::install(link, (fds.len(), &fds), &self.slot)?);
        Ok(())
    }

    /// True if the sockets must be opened in copy mode: only native XDP feeds zero-copy sockets.
    fn needs_copy_mode(&self) -> bool {
        self.port_mode().zero_copy && self.xdp_mode() == XdpMode::Generic
    }

    /// Opens the port again in copy mode, as the driver has accepted zero-copy sockets but no
    /// program.
    fn reopen_in_copy_mode(&mut self, umem: &mut Umem, link: &Link, queues: u32) -> Result<(), Error> {
        tracing::warn!(
            interface = self.slot.interface,
            "no zero-copy without native XDP: the kernel copies each frame"
        );
        self.close_sockets();
        (self.slot.must_copy, self.up) = (true, true);
        self.open_sockets(umem, link, queues)
    }

    fn receivers(&self) -> &[Receiver] {
        self.sockets.as_ref().map_or(&[], |sockets| &sockets.receivers)
    }

    fn receivers_mut(&mut self) -> &mut [Receiver] {
        self.sockets.as_mut().map_or(&mut [], |sockets| &mut sockets.receivers)
    }

    fn sender(&self) -> Option<&Sender> {
        self.sockets.as_ref().map(|sockets| &sockets.sender)
    }

    fn check_alive(&mut self, now: Instant) {
        if now < self.next_link_check || !self.up {
            return;
        }
        self.next_link_check = now + LINK_CHECK_NS;
        let mut errors = self.receivers().iter().map(|receiver| socket::take_error(receiver.fd()));
        if let Some(errno) = errors.find(|&errno| errno != 0) {
            self.go_down(errno);
        }
        self.check_drops();
    }

    /// Records what the kernel or the NIC dropped since the last check, most often for lack of a
    /// posted chunk.
    fn check_drops(&mut self) {
        self.counters.rx_missed_frames += self.handoff.as_ref().map_or(0, |handoff| handoff.take_missed());
        let counters = self.kernel_counters();
        let stray = counters.tx_stray_frames + counters.rx_stray_frames;
        self.unreported_stray += stray - self.kernel_stray;
        self.kernel_stray = stray;
        let drops = counters.rx_unbuffered_frames();
        *self.unreported_drops.get_or_insert(0) += drops - self.kernel_drops;
        self.kernel_drops = drops;
        self.report_mtu_drops(counters.rx_too_long_frames);
    }

    /// Records, at most once per second, frames that are too long for any port: `frames` in total.
    fn report_mtu_drops(&mut self, frames: u64) {
        if frames == self.reported_too_long || !self.too_long_throttle.pass(EVENT_NS, self.next_link_check) {
            return;
        }
        let longest_bytes = self.receivers_mut().iter_mut().map(Receiver::take_longest).max().unwrap_or(0);
        self.faults.push_back(PortFault::TooLong { frames: frames - self.reported_too_long, longest_bytes });
        self.reported_too_long = frames;
    }

    fn go_down(&mut self, errno: i32) {
        self.up = false;
        self.faults.push_back(PortFault::Down(errno));
    }

    /// Detaches the program, closes the sockets, removes the qdisc. Returns false if that was done
    /// before.
    fn close_sockets(&mut self) -> bool {
        let was_open = self.sockets.is_some() || self.attachment.is_some();
        if let Some(mut attachment) = self.attachment.take()
            && let Err(error) = attachment.remove()
        {
            self.faults.push_back(PortFault::QdiscStays(error.raw_os_error().unwrap_or(0)));
        }
        if let Some(sockets) = self.sockets.take() {
            self.counters += sockets.close();
        }
        self.up = false;
        was_open
    }
}

impl Port for XdpPort {
    type Memory = Umem;

    fn receive(&mut self, umem: &mut Umem, now: Instant, max: usize, out: &mut Vec<RxDesc>) {
        self.check_alive(now);
        let first = self.first_queue;
        let receivers = self.receivers_mut();
        let queues = receivers.len();
        let mut left = max;
        for turn in 0..queues {
            let at = (first + turn) % queues;
            left -= receivers[at].receive(umem, now, left, out);
        }
        // Another queue comes first next time, so that a busy one does not use the whole budget.
        self.first_queue = (first + 1) % queues.max(1);
    }

    fn set_min_posted(&mut self, frames: u32) {
        let setup = &mut self.slot.config;
        setup.min_posted = frames.min(setup.max_posted);
        let bounds = Receiver::bounds(self.slot.frames.count(), setup);
        self.receivers_mut().iter_mut().for_each(|receiver| receiver.set_bounds(bounds));
    }

    fn rx_waiting(&self) -> u32 {
        self.receivers().iter().map(Receiver::waiting).sum()
    }

    fn take_kernel_drops(&mut self) -> Option<u64> {
        self.unreported_drops.take()
    }

    fn take_stray(&mut self) -> u64 {
        std::mem::take(&mut self.unreported_stray)
    }

    fn pop_fault(&mut self) -> Option<PortFault> {
        self.faults.pop_front()
    }

    fn transmit_room(&self) -> usize {
        self.sender().filter(|_| self.up).map_or(0, Sender::room)
    }

    #[expect(clippy::expect_used, reason = "a closed port has no room to transmit")]
    fn transmit(&mut self, _memory: &mut Self::Memory, frames: &mut Vec<TxDesc>) {
        if frames.is_empty() {
            return;
        }
        self.sockets.as_mut().expect("an open port").sender.transmit(frames);
        frames.clear();
    }

    fn kick(&mut self) {
        let Some(sockets) = self.sockets.as_mut().filter(|_| self.up) else { return };
        if let Some(errno) = sockets.sender.kick(&mut self.counters) {
            self.go_down(errno);
        }
    }

    fn complete(&mut self, out: &mut Vec<FrameId>) {
        if let Some(sockets) = &mut self.sockets {
            sockets.sender.complete(out);
        }
    }

    fn take_lost(&mut self, out: &mut Vec<FrameId>) {
        if let Some(sockets) = &mut self.sockets {
            sockets.sender.take_lost(out);
        }
    }

    fn outstanding(&self) -> usize {
        self.sender().map_or(0, Sender::outstanding)
    }

    fn is_up(&self) -> bool {
        self.up
    }

    fn detach(&mut self) -> bool {
        let Some(handoff) = self.handoff.as_ref().filter(|handoff| !handoff.has_detached()) else {
            return false;
        };
        let Some(sockets) = self.sockets.take() else { return false };
        sockets.add_counters(&mut self.detached_counters);
        self.detached_frames = sockets.frames_held();
        self.up = false;
        handoff.detach(sockets);
        true
    }

    fn reclaim(&mut self, umem: &mut Umem, unsent: &mut Vec<FrameId>) -> bool {
        self.counters += self.handoff.as_ref().and_then(|handoff| handoff.take_counted()).unwrap_or_default();
        (self.detached_counters, self.detached_frames) = (KernelCounters::default(), 0);
        umem.reclaim(&self.slot.owned, unsent);
        true
    }

    fn reopen(&mut self, umem: &mut Umem) -> Option<bool> {
        let ready = self.handoff.as_ref().and_then(|handoff| handoff.take_ready());
        let is_ready = ready.is_some();
        if let Some((interface, mut sockets)) = ready {
            self.slot.interface = interface;
            let bounds = Receiver::bounds(self.slot.frames.count(), &self.slot.config);
            for receiver in &mut sockets.receivers {
                receiver.set_bounds(bounds);
                receiver.post_initial(umem);
            }
            self.sockets = Some(sockets);
            self.up = true;
        }
        Some(is_ready)
    }

    fn reset_counters(&mut self) -> KernelCounters {
        let counted = self.kernel_counters();
        (self.counters, self.detached_counters) = (KernelCounters::default(), KernelCounters::default());
        (self.kernel_drops, self.kernel_stray, self.reported_too_long) = (0, 0, 0);
        (self.unreported_drops, self.unreported_stray) = (None, 0);
        counted
    }

    fn close(&mut self, umem: &mut Umem, unsent: &mut Vec<FrameId>) -> bool {
        if self.close_sockets() {
            umem.remove_port(&self.slot.owned, unsent);
        }
        true
    }

    fn kernel_counters(&self) -> KernelCounters {
        let mut counters = self.counters;
        counters += self.detached_counters;
        if let Some(sockets) = &self.sockets {
            sockets.add_counters(&mut counters);
        }
        counters
    }

    fn frames_held(&self) -> usize {
        self.detached_frames + self.sockets.as_ref().map_or(0, PortSockets::frames_held)
    }

    fn poll_fds(&self, out: &mut Vec<RawFd>) {
        out.extend(self.receivers().iter().map(Receiver::fd));
    }
}

impl fmt::Debug for XdpPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.up { "up" } else { "down" };
        write!(f, "XdpPort on {}, {state}, {} frames held", self.slot.interface, self.frames_held())
    }
}

impl Drop for XdpPort {
    // The loop has already read the counters of sockets that it closed. This is for ports that
    // never reached a loop, or that do not belong to a daemon.
    fn drop(&mut self) {
        if self.close_sockets() {
            self.slot.frames.abandon(Arc::clone(&self.slot.owned));
        }
        for fault in self.faults.drain(..) {
            let interface = &self.slot.interface;
            match fault {
                PortFault::Down(errno) => {
                    let error = io::Error::from_raw_os_error(errno);
                    tracing::warn!(interface, %error, "the port is down");
                }
                PortFault::QdiscStays(errno) => {
                    let error = io::Error::from_raw_os_error(errno);
                    tracing::warn!(interface, %error, "the qdisc stays");
                }
                PortFault::PeerNotReleased | PortFault::LeftInRings(_) => {} // of the poll loop
                PortFault::TooLong { frames, longest_bytes } => {
                    tracing::warn!(interface, frames, longest_bytes, "frames came in that fit no port");
                }
            }
        }
    }
}
