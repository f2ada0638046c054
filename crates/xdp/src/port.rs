//! A port on a Linux interface: one AF_XDP socket per RX queue, the XDP program that feeds them, and a queueing
//! discipline on a veth.
//!
//! Frames leave by the first queue's socket only, which keeps them in order. One core owns a port; frames move between
//! the ports of one [`Umem`] freely, and complete at the port that sent them.
//!
//! Why the pfifo on a veth: a veth without a qdisc loses the frames that find its ring full; with one, the kernel keeps
//! them (6.16 and later) and says EAGAIN. Source: `reference/afxdp.md`, "What happens to a frame in copy mode".

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use switch::{FrameId, Instant, KernelCounters, Nanos, Outgoing, Received};
use xsk_rs::FrameDesc;

use crate::error::Error;
use crate::fill::FillPolicy;
use crate::netlink::{Link, RouteSocket, rx_queues};
use crate::port_io::PortIo;
use crate::program::{Attached, XdpMode, attach};
use crate::socket::Xsk;
use crate::umem::{COMPLETION_RING, FILL_RING, Frames, Owner, Umem, max_mtu};

/// Entries of each RX ring: what a full fill ring can deliver, while as much again is posted before that is taken.
const RX_RING: u32 = 2 * FILL_RING;
/// Descriptors that go through a ring at once.
const BATCH: usize = 256;
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
    /// Bound of the kernel's copies of frames on their way, in bytes of its own accounting (about 0.8 KB a small
    /// frame); `None`: the system's default.
    pub send_buffer_bytes: Option<u32>,
}

impl Default for PortSetup {
    fn default() -> Self {
        PortSetup { tx_ring: 2048, tx_budget: 256, send_buffer_bytes: None }
    }
}

impl PortSetup {
    /// What is wrong with it.
    fn mistake(&self) -> Option<&'static str> {
        if !self.tx_ring.is_power_of_two() || self.tx_ring > COMPLETION_RING {
            Some("the TX ring must be a power of two, at most 2048")
        } else if self.tx_budget == 0 || self.tx_budget > self.tx_ring {
            Some("the TX budget must be at least 1 and at most the TX ring")
        } else {
            None
        }
    }
}

/// A port on an interface.
#[derive(Debug)]
pub struct XdpPort {
    interface: String,
    index: i32,
    number: u8,
    frames: Arc<Frames>,
    queues: Vec<Queue>,
    /// The queue that `receive` begins with.
    next_queue: usize,
    program: Option<Attached>,
    /// Where to remove the qdisc that we set.
    qdisc: Option<RouteSocket>,
    sender: Sender,
    up: bool,
    closed: bool,
    next_life_check: Instant,
    /// What we count ourselves; after `close` also what the sockets had counted.
    counters: KernelCounters,
    batch: Box<[FrameDesc; BATCH]>,
}

/// What is on its way out.
#[derive(Debug)]
struct Sender {
    ring: usize,
    budget: usize,
    /// Free entries of the TX ring, as last seen.
    ring_free: usize,
    /// Transmitted and not yet completed.
    outstanding: usize,
}

/// An RX queue.
#[derive(Debug)]
struct Queue {
    xsk: Xsk,
    policy: FillPolicy,
    /// Frames in the fill ring, the RX ring, and between the two.
    held: usize,
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
        let mut port = XdpPort::without_sockets(umem.shared(), interface, link.index, number, setup);
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
        self.queues.len()
    }

    fn without_sockets(
        frames: Arc<Frames>,
        name: &str,
        index: i32,
        number: u8,
        setup: &PortSetup,
    ) -> XdpPort {
        XdpPort {
            interface: name.into(),
            index,
            number,
            frames,
            queues: Vec::new(),
            next_queue: 0,
            program: None,
            qdisc: None,
            sender: Sender {
                ring: setup.tx_ring as usize,
                budget: setup.tx_budget as usize,
                ring_free: setup.tx_ring as usize,
                outstanding: 0,
            },
            up: true,
            closed: false,
            next_life_check: Instant(0),
            counters: KernelCounters::default(),
            batch: Box::new([FrameDesc::default(); BATCH]),
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
        for queue in 0..queues {
            let tx_ring = if queue == 0 { setup.tx_ring } else { 64 };
            let xsk = Xsk::open(umem, &self.interface, queue, RX_RING, tx_ring)?;
            self.queues.push(Queue { xsk, policy: FillPolicy::new(FILL_RING), held: 0 });
        }
        self.tune_sending(setup)?;
        for queue in &mut self.queues {
            queue.post(umem, self.number, (FILL_RING as usize, 0), &mut self.batch[..]);
        }
        let sockets: Vec<RawFd> = self.queues.iter().map(|queue| queue.xsk.fd()).collect();
        self.program = Some(attach(&self.interface, link.index, &sockets)?);
        if link.kind == "veth" && link.qdisc == "noqueue" {
            route.set_pfifo(link.index, PFIFO_FRAMES).map_err(|error| {
                Error::kernel(format!("interface {}: setting the qdisc", self.interface), error)
            })?;
            self.qdisc = Some(route);
        }
        Ok(())
    }

    fn tune_sending(&self, setup: &PortSetup) -> Result<(), Error> {
        let xsk = &self.queues[0].xsk;
        if let Err(error) = xsk.set_send_budget(setup.tx_budget) {
            tracing::warn!(interface = self.interface, %error, "one sendto handles 32 frames (kernel before 6.17)");
        }
        if let Some(bytes) = setup.send_buffer_bytes {
            xsk.set_send_buffer(bytes).map_err(|error| {
                Error::kernel(format!("interface {}: send buffer", self.interface), error)
            })?;
        }
        Ok(())
    }

    /// Descriptors in the TX ring that the kernel has not taken.
    fn unsent(&mut self) -> usize {
        let Some(queue) = self.queues.first_mut() else { return 0 };
        self.sender.ring_free = queue.xsk.tx.nb_free_exact() as usize;
        self.sender.ring - self.sender.ring_free
    }

    fn check_alive(&mut self, now: Instant) {
        if now < self.next_life_check || !self.up {
            return;
        }
        self.next_life_check = now + LIFE_CHECK_NS;
        let error = self.queues.iter().map(|queue| queue.xsk.pending_error()).find(|&error| error != 0);
        if let Some(errno) = error {
            self.go_down(errno);
        }
    }

    fn go_down(&mut self, errno: i32) {
        self.up = false;
        let error = io::Error::from_raw_os_error(errno);
        tracing::warn!(interface = self.interface, %error, "the port is down");
    }

    /// Takes the program off, closes the sockets, removes the qdisc. False if that was done before.
    fn shut(&mut self) -> bool {
        if self.closed {
            return false;
        }
        self.closed = true;
        self.program = None;
        self.counters = self.kernel_counters();
        self.queues.clear();
        if let Some(route) = self.qdisc.take()
            && let Err(error) = route.remove_qdisc(self.index)
            && error.raw_os_error() != Some(libc::ENODEV)
        {
            tracing::warn!(interface = self.interface, %error, "the qdisc stays");
        }
        self.up = false;
        self.sender = Sender { ring: 0, budget: 0, ring_free: 0, outstanding: 0 };
        true
    }

    /// Counts an error of `sendto`. Returns whether another call can do any good.
    fn count_error(&mut self, errno: i32, sent: usize) -> bool {
        match errno {
            libc::EAGAIN => {
                self.counters.tx_again += 1;
                sent >= self.sender.budget // it was the budget, not a full ring or buffer
            }
            libc::EBUSY => {
                self.counters.tx_busy += 1;
                true
            }
            libc::ENOBUFS => {
                self.counters.tx_no_buffers += 1;
                false
            }
            _ => {
                self.counters.tx_down += 1;
                if self.up {
                    self.go_down(errno);
                }
                false
            }
        }
    }
}

impl Queue {
    /// Posts frames until the kernel has `target` empty ones, given that `waiting` of those held are full. Returns how
    /// many it posted, and whether memory was short.
    fn post(
        &mut self,
        umem: &mut Umem,
        port: u8,
        (target, waiting): (usize, usize),
        batch: &mut [FrameDesc],
    ) -> (usize, bool) {
        let empty = self.held - waiting;
        let want = target.saturating_sub(empty).min(RX_RING as usize - self.held);
        // The kernel publishes received frames a moment before it gives back their places in the fill ring.
        let want = want.min(self.xsk.fill.nb_free(want as u32) as usize);
        let mut posted = 0;
        while posted < want {
            let room = batch.len().min(want - posted);
            let taken = umem.take_for_fill(port, &mut batch[..room]);
            // SAFETY: the descriptors are of this UMEM, their frames were free until now, and there is room for them.
            let produced = unsafe { self.xsk.fill.produce(&batch[..taken]) };
            debug_assert_eq!(produced, taken, "the fill ring had no room");
            posted += taken;
            if taken < room {
                break;
            }
        }
        self.held += posted;
        (posted, posted < want)
    }

    /// Takes at most `max` frames from the RX ring.
    fn take(
        &mut self,
        umem: &mut Umem,
        port: u8,
        max: usize,
        batch: &mut [FrameDesc],
        out: &mut Vec<Received>,
    ) -> usize {
        let mut taken = 0;
        while taken < max {
            let room = batch.len().min(max - taken);
            // SAFETY: RX, fill ring and descriptors are of this one UMEM.
            let count = unsafe { self.xsk.rx.consume(&mut batch[..room]) };
            for desc in &batch[..count] {
                out.push(umem.take_received(desc, port));
            }
            taken += count;
            if count < room {
                break;
            }
        }
        self.held -= taken;
        taken
    }
}

impl PortIo for XdpPort {
    type Memory = Umem;

    fn receive(&mut self, umem: &mut Umem, now: Instant, max: usize, out: &mut Vec<Received>) {
        self.check_alive(now);
        let mut left = max;
        for turn in 0..self.queues.len() {
            let at = (self.next_queue + turn) % self.queues.len();
            let queue = &mut self.queues[at];
            let waiting = queue.xsk.rx.nb_avail_exact();
            let need = (queue.policy.target() as usize, waiting as usize);
            let (posted, memory_short) = queue.post(umem, self.number, need, &mut self.batch[..]);
            let may_take = if memory_short { left.min(posted) } else { left };
            let taken = queue.take(umem, self.number, may_take, &mut self.batch[..], out);
            queue.policy.observe(now, waiting, taken as u32);
            left -= taken;
        }
        self.next_queue = (self.next_queue + 1) % self.queues.len().max(1);
    }

    fn transmit_room(&self) -> usize {
        if !self.up {
            return 0;
        }
        self.sender.ring_free.min(self.sender.ring - self.sender.outstanding)
    }

    fn transmit(&mut self, frames: &mut Vec<Outgoing>) {
        debug_assert!(frames.len() <= self.transmit_room());
        for chunk in frames.chunks(BATCH) {
            for (desc, outgoing) in self.batch.iter_mut().zip(chunk) {
                let index = outgoing.frame.index();
                self.frames.hand_over(index, Owner::User, Owner::Transmit(self.number));
                *desc = self.frames.desc_of_len(index, outgoing.len.into());
            }
            if let Some(queue) = self.queues.first_mut() {
                // SAFETY: the descriptors are of this UMEM, and their frames' tokens were given to us.
                let produced = unsafe { queue.xsk.tx.produce(&self.batch[..chunk.len()]) };
                debug_assert_eq!(produced, chunk.len(), "the TX ring had no room");
            }
        }
        self.sender.ring_free -= frames.len();
        self.sender.outstanding += frames.len();
        frames.clear();
    }

    fn kick(&mut self) -> u32 {
        let mut lost = 0;
        let mut unsent = self.unsent();
        // A call that sends nothing ends the loop, and a call that loses a frame sends at least that: so many are enough.
        for _ in 0..unsent {
            if unsent == 0 || !self.up {
                break;
            }
            self.counters.tx_kicks += 1;
            let result = self.queues[0].xsk.send();
            let before = std::mem::replace(&mut unsent, self.unsent());
            if let Err(errno) = result {
                lost += u32::from(errno == libc::EBUSY);
                if !self.count_error(errno, before - unsent) {
                    break;
                }
            }
        }
        lost
    }

    fn complete(&mut self, out: &mut Vec<FrameId>) {
        let Some(queue) = self.queues.first_mut() else { return };
        loop {
            // SAFETY: completion ring and descriptors are of this one UMEM.
            let count = unsafe { queue.xsk.completion.consume(&mut self.batch[..]) };
            for desc in &self.batch[..count] {
                let index = self.frames.index_of(desc.addr());
                self.frames.hand_over(index, Owner::Transmit(self.number), Owner::User);
                out.push(FrameId::new(index as u32));
            }
            self.sender.outstanding -= count;
            if count < BATCH {
                break;
            }
        }
        self.unsent();
    }

    fn outstanding(&self) -> usize {
        self.sender.outstanding
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
        self.queues.iter().for_each(|queue| queue.xsk.add_statistics(&mut counters));
        counters
    }

    fn frames_held(&self) -> usize {
        self.queues.iter().map(|queue| queue.held).sum::<usize>() + self.sender.outstanding
    }

    fn poll_fds(&self, out: &mut Vec<RawFd>) {
        out.extend(self.queues.iter().map(|queue| queue.xsk.fd()));
    }
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        if self.shut() {
            self.frames.abandon(self.number);
        }
    }
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
