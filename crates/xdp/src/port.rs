//! A port on a Linux interface: one AF_XDP socket per RX queue, the XDP program that feeds them, and a queueing
//! discipline on a veth.
//!
//! Frames leave by the first queue's socket only, which keeps them in order. One core owns a port; frames move between
//! the ports of one [`Umem`] freely, and complete at the port that sent them.
//!
//! What keeps a veth from losing frames: the frames on their way are bounded by the send buffer, to fewer than the peer's
//! ring holds; and should the ring be full all the same, then a veth with a qdisc (hence the pfifo) keeps the frame and
//! says EAGAIN (kernel 6.16 and later), while one without loses it. Source: docs/kernel.md, "Where frames
//! vanish".

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use dataplane::{Port, Trouble};
use switch::{FrameId, Instant, KernelCounters, Nanos, Outgoing, Received};
use xsk_rs::{CompQueue, TxQueue};

use crate::error::Error;
use crate::fill::FLOOR_FRAMES;
use crate::netlink::{Link, RouteSocket, rx_queues};
use crate::program::{Attached, XdpMode, attach};
use crate::receiver::{RX_RING, Receiver};
use crate::sender::Sender;
use crate::socket::{self, add_statistics};
use crate::umem::{COMPLETION_RING, Frames, MAX_POSTED, Umem, max_mtu};

/// Entries of the TX ring of the sockets that only receive; none is ever used.
const IDLE_TX_RING: u32 = 64;
/// Frames that a `sendto` handles unless told otherwise (`TX_BATCH_SIZE`).
const DEFAULT_TX_BUDGET: u32 = 32;
/// Send buffer on a veth: 170 small frames on their way, so that they never fill the peer's ring of 256.
const VETH_SEND_BUFFER_BYTES: u32 = 65_536;
/// How often a port looks whether its interface still exists.
const LIFE_CHECK_NS: Nanos = 10_000_000;
/// Frames that the qdisc on a veth may hold: those of the interface's own stack; ours pass it by.
const PFIFO_FRAMES: u32 = 1000;

/// How a port uses its rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortSetup {
    /// Entries of the TX ring: a power of two, at most 2048.
    pub tx_ring: u32,
    /// Frames that one `sendto` may handle; at most `tx_ring`. It holds the loop for about 0.5 µs a frame.
    pub tx_budget: u32,
    /// The most frames posted on an RX queue, at least 1, at most [`MAX_POSTED`]. Fewer are faster and stand a shorter stall
    /// of the loop.
    pub max_posted: u32,
    /// The fewest frames posted on an RX queue, whatever the need; at most `max_posted`. More than an eighth of the memory
    /// are posted only if this says so.
    pub min_posted: u32,
    /// Half of what the kernel's copies of frames on their way may take, in bytes of its own accounting (about 0.8 KB for
    /// a small frame); `None`: 64 KiB on a veth, otherwise the system's default.
    pub send_buffer_bytes: Option<u32>,
}

impl Default for PortSetup {
    fn default() -> Self {
        PortSetup {
            tx_ring: 2048,
            tx_budget: 256,
            max_posted: MAX_POSTED as u32,
            min_posted: FLOOR_FRAMES,
            send_buffer_bytes: None,
        }
    }
}

impl PortSetup {
    /// What is wrong with it.
    fn mistake(&self) -> Option<&'static str> {
        if !self.tx_ring.is_power_of_two() || self.tx_ring > COMPLETION_RING {
            Some("the TX ring must be a power of two, at most 2048")
        } else if self.tx_budget == 0 || self.tx_budget > self.tx_ring {
            Some("the TX budget must be at least 1 and at most the TX ring")
        } else if self.max_posted == 0 || self.max_posted as usize > MAX_POSTED {
            Some("at least 1 and at most 8192 frames can be posted")
        } else if self.min_posted > self.max_posted.max(FLOOR_FRAMES) {
            Some("the fewest posted frames are more than the most")
        } else {
            None
        }
    }
}

/// A port on an interface.
pub struct XdpPort {
    interface: String,
    index: i32,
    number: u8,
    frames: Arc<Frames>,
    memory_frames: usize,
    setup: PortSetup,
    receivers: Vec<Receiver>,
    /// The queue that `receive` begins with.
    first: usize,
    sender: Option<Sender>,
    program: Option<Attached>,
    /// Where to remove the qdisc that we set.
    qdisc: Option<RouteSocket>,
    up: bool,
    closed: bool,
    /// What went wrong, to be asked for.
    troubles: VecDeque<Trouble>,
    next_life_check: Instant,
    /// Frames that the kernel had nowhere to put: in all at the last check, and those of them not yet told, if there was a check since.
    kernel_drops: u64,
    untold_drops: Option<u64>,
    /// The same of frames that it gave back and did not have.
    kernel_stray: u64,
    untold_stray: u64,
    /// What we count ourselves; after `close` also what the sockets had counted.
    counters: KernelCounters,
}

impl XdpPort {
    /// Opens `interface`, of the current network namespace, as a port on `umem`: frames are taken from it from now on.
    ///
    /// # Errors
    /// See [`Error`]; the interface is then as it was.
    pub fn open(umem: &mut Umem, interface: &str, setup: &PortSetup) -> Result<XdpPort, Error> {
        if let Some(reason) = setup.mistake() {
            return Err(Error::BadSetup { interface: interface.into(), reason });
        }
        let route = RouteSocket::open().map_err(|error| Error::kernel("opening a netlink socket", error))?;
        let link = usable_link(&route, interface, max_mtu(umem.frame_bytes()))?;
        let queues = rx_queues(interface)
            .map_err(|error| Error::kernel(format!("interface {interface}: reading its channels"), error))?;

        let ports = umem.port_count();
        let number =
            umem.add_port().ok_or_else(|| Error::TooManyPorts { interface: interface.into(), ports })?;
        let mut port = XdpPort::without_sockets(umem, (interface, link.index), number, setup);
        match port.bring_up(umem, &link, route, queues, setup) {
            Ok(()) => Ok(port),
            Err(error) => {
                port.close(umem, &mut Vec::new());
                Err(error)
            }
        }
    }

    /// How the XDP program runs.
    pub fn xdp_mode(&self) -> XdpMode {
        self.program.as_ref().map_or(XdpMode::Native, |program| program.mode)
    }

    /// VLAN tags that the sender's stack holds out of band are put back into the frames.
    pub fn vlan_tags_restored(&self) -> bool {
        self.program.as_ref().is_some_and(|program| program.restores_vlan_tags)
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// RX queues, and thus sockets, of the port.
    pub fn queues(&self) -> usize {
        self.receivers.len()
    }

    fn without_sockets(umem: &Umem, (name, index): (&str, i32), number: u8, setup: &PortSetup) -> XdpPort {
        XdpPort {
            interface: name.into(),
            index,
            number,
            frames: umem.shared(),
            memory_frames: umem.frames(),
            setup: *setup,
            receivers: Vec::new(),
            first: 0,
            sender: None,
            program: None,
            qdisc: None,
            up: true,
            closed: false,
            troubles: VecDeque::with_capacity(2),
            next_life_check: Instant(0),
            kernel_drops: 0,
            untold_drops: None,
            kernel_stray: 0,
            untold_stray: 0,
            counters: KernelCounters::default(),
        }
    }

    /// Sockets first, then frames for them, the program last: the first frame that comes finds a place.
    fn bring_up(
        &mut self,
        umem: &mut Umem,
        link: &Link,
        route: RouteSocket,
        queues: u32,
        setup: &PortSetup,
    ) -> Result<(), Error> {
        let bounds = Receiver::bounds(umem.frames(), setup);
        for queue in 0..queues {
            let tx_ring = if queue == 0 { setup.tx_ring } else { IDLE_TX_RING };
            let rings = socket::open(umem, &self.interface, queue, (RX_RING, tx_ring))?;
            self.receivers.push(Receiver::new(rings.rx, rings.fill, self.number, bounds));
            if queue == 0 {
                self.sender = Some(self.new_sender(&link.kind, (rings.tx, rings.completion), setup)?);
            }
        }
        for receiver in &mut self.receivers {
            receiver.post_first(umem);
        }
        let sockets: Vec<RawFd> = self.receivers.iter().map(Receiver::fd).collect();
        self.program = Some(attach(&self.interface, link.index, &sockets)?);
        if link.kind == "veth" && link.qdisc == "noqueue" {
            match route.set_pfifo(link.index, PFIFO_FRAMES) {
                Ok(()) => self.qdisc = Some(route),
                Err(error) => tracing::warn!(interface = self.interface, %error, "no pfifo on this veth"),
            }
        }
        Ok(())
    }

    fn new_sender(
        &self,
        kind: &str,
        (tx, completion): (TxQueue, CompQueue),
        setup: &PortSetup,
    ) -> Result<Sender, Error> {
        let fd = tx.fd().as_raw_fd();
        let mut budget = setup.tx_budget;
        if let Err(error) = socket::set_send_budget(fd, budget) {
            budget = budget.min(DEFAULT_TX_BUDGET);
            tracing::warn!(interface = self.interface, %error, "one sendto sends {budget} frames at most");
        }
        let on_veth = (kind == "veth").then_some(VETH_SEND_BUFFER_BYTES);
        if let Some(bytes) = setup.send_buffer_bytes.or(on_veth) {
            let action = || format!("interface {}: setting the send buffer", self.interface);
            socket::set_send_buffer(fd, bytes).map_err(|error| Error::kernel(action(), error))?;
        }
        let sizes = (setup.tx_ring as usize, budget as usize);
        Ok(Sender::new((tx, completion), Arc::clone(&self.frames), self.number, sizes))
    }

    fn check_alive(&mut self, now: Instant) {
        if now < self.next_life_check || !self.up {
            return;
        }
        self.next_life_check = now + LIFE_CHECK_NS;
        let mut errors = self.receivers.iter().map(|receiver| socket::take_error(receiver.fd()));
        if let Some(errno) = errors.find(|&errno| errno != 0) {
            self.go_down(errno);
        }
        self.check_drops();
    }

    /// Notes what the kernel dropped for want of an empty frame, or of room in an RX ring, since the last check.
    fn check_drops(&mut self) {
        let counters = self.kernel_counters();
        let stray = counters.tx_stray_frames + counters.rx_stray_frames;
        self.untold_stray += stray - self.kernel_stray;
        self.kernel_stray = stray;
        let drops = counters.rx_fill_ring_empty_frames + counters.rx_ring_full_frames;
        *self.untold_drops.get_or_insert(0) += drops - self.kernel_drops;
        self.kernel_drops = drops;
    }

    fn go_down(&mut self, errno: i32) {
        self.up = false;
        self.troubles.push_back(Trouble::Down(errno));
    }

    /// Takes the program off, closes the sockets, removes the qdisc. False if that was done before.
    fn shut(&mut self) -> bool {
        if self.closed {
            return false;
        }
        self.closed = true;
        self.program = None;
        self.counters = self.kernel_counters();
        self.receivers.clear();
        self.sender = None;
        if let Some(route) = self.qdisc.take()
            && let Err(error) = route.remove_qdisc(self.index)
            && !matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOENT))
        {
            // It was there, and it did not go.
            self.troubles.push_back(Trouble::QdiscStays(error.raw_os_error().unwrap_or(0)));
        }
        self.up = false;
        true
    }
}

impl Port for XdpPort {
    type Memory = Umem;

    fn receive(&mut self, umem: &mut Umem, now: Instant, max: usize, out: &mut Vec<Received>) {
        self.check_alive(now);
        let queues = self.receivers.len();
        let mut left = max;
        for turn in 0..queues {
            let at = (self.first + turn) % queues;
            left -= self.receivers[at].receive(umem, now, left, out);
        }
        // Another queue comes first next time, lest a busy one take all there is to take.
        self.first = (self.first + 1) % queues.max(1);
    }

    fn set_min_posted(&mut self, frames: u32) {
        self.setup.min_posted = frames.min(self.setup.max_posted);
        let bounds = Receiver::bounds(self.memory_frames, &self.setup);
        self.receivers.iter_mut().for_each(|receiver| receiver.set_bounds(bounds));
    }

    fn rx_waiting(&self) -> u32 {
        self.receivers.iter().map(Receiver::waiting).sum()
    }

    fn take_kernel_drops(&mut self) -> Option<u64> {
        self.untold_drops.take()
    }

    fn take_stray(&mut self) -> u64 {
        std::mem::take(&mut self.untold_stray)
    }

    fn take_trouble(&mut self) -> Option<Trouble> {
        self.troubles.pop_front()
    }

    fn transmit_room(&self) -> usize {
        self.sender.as_ref().filter(|_| self.up).map_or(0, Sender::room)
    }

    fn transmit(&mut self, frames: &mut Vec<Outgoing>) {
        if frames.is_empty() {
            return;
        }
        self.sender.as_mut().expect("an open port").transmit(frames);
        frames.clear();
    }

    fn kick(&mut self) -> u32 {
        let Some(sender) = self.sender.as_mut().filter(|_| self.up) else { return 0 };
        let kicked = sender.kick(&mut self.counters);
        if let Some(errno) = kicked.down {
            self.go_down(errno);
        }
        kicked.lost
    }

    fn complete(&mut self, out: &mut Vec<FrameId>) {
        if let Some(sender) = &mut self.sender {
            sender.complete(out);
        }
    }

    fn outstanding(&self) -> usize {
        self.sender.as_ref().map_or(0, Sender::outstanding)
    }

    fn is_up(&self) -> bool {
        self.up
    }

    fn close(&mut self, umem: &mut Umem, unsent: &mut Vec<FrameId>) {
        if self.shut() {
            umem.remove_port(self.number, unsent);
        }
    }

    fn kernel_counters(&self) -> KernelCounters {
        let mut counters = self.counters;
        self.receivers.iter().for_each(|receiver| add_statistics(receiver.socket(), &mut counters));
        counters.rx_stray_frames += self.receivers.iter().map(Receiver::stray).sum::<u64>();
        counters.tx_stray_frames += self.sender.as_ref().map_or(0, Sender::stray);
        counters
    }

    fn frames_held(&self) -> usize {
        self.receivers.iter().map(Receiver::held).sum::<usize>() + self.outstanding()
    }

    fn poll_fds(&self, out: &mut Vec<RawFd>) {
        out.extend(self.receivers.iter().map(Receiver::fd));
    }
}

impl fmt::Debug for XdpPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.up { "up" } else { "down" };
        write!(f, "XdpPort on {}, {state}, {} frames held", self.interface, self.frames_held())
    }
}

impl Drop for XdpPort {
    // What the loop has closed it has asked, too; this is for ports that never came to one, or were no daemon's.
    fn drop(&mut self) {
        if self.shut() {
            self.frames.abandon(self.number);
        }
        for trouble in self.troubles.drain(..) {
            let interface = &self.interface;
            match trouble {
                Trouble::Down(errno) => {
                    let error = io::Error::from_raw_os_error(errno);
                    tracing::warn!(interface, %error, "the port is down");
                }
                Trouble::QdiscStays(errno) => {
                    let error = io::Error::from_raw_os_error(errno);
                    tracing::warn!(interface, %error, "the qdisc stays");
                }
            }
        }
    }
}

/// Frames that the rings of a port on `interface` may hold at most beyond those that the user hands in: memory has this
/// many for each port.
///
/// # Errors
/// The interface cannot be asked.
pub fn frames_for(interface: &str) -> Result<usize, Error> {
    let queues = rx_queues(interface).map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) => Error::NoInterface { interface: interface.into() },
        _ => Error::kernel(format!("interface {interface}: reading its channels"), error),
    })?;
    Ok(queues as usize * RX_RING as usize)
}

/// Looks the interface up and refuses what cannot become a port.
fn usable_link(route: &RouteSocket, interface: &str, max_mtu: u32) -> Result<Link, Error> {
    let link = route.link(interface).map_err(|error| no_link(interface, error))?;
    let interface = || interface.to_owned();
    if let Some(program_id) = link.xdp_program {
        return Err(Error::HasProgram { interface: interface(), program_id });
    }
    if !link.up {
        return Err(Error::Down { interface: interface() });
    }
    if link.mtu > max_mtu {
        return Err(Error::MtuTooLarge { interface: interface(), mtu: link.mtu, max_mtu });
    }
    Ok(link)
}

/// The error of a look-up by name.
pub(crate) fn no_link(interface: &str, error: io::Error) -> Error {
    match error.raw_os_error() {
        // ERANGE, EINVAL: longer than any name.
        Some(libc::ENODEV | libc::ERANGE | libc::EINVAL) => {
            Error::NoInterface { interface: interface.into() }
        }
        _ => Error::kernel(format!("interface {interface}: looking it up"), error),
    }
}

/// Somebody was quicker: the error that names their program.
pub(crate) fn has_program(interface: &str) -> Error {
    let link = RouteSocket::open().and_then(|route| route.link(interface));
    let program_id = link.ok().and_then(|link| link.xdp_program).unwrap_or(0);
    Error::HasProgram { interface: interface.into(), program_id }
}
