//! What a port is made of: an AF_XDP socket for each RX queue, with its rings. They may go from one thread to another, since
//! opening and closing them takes the kernel tens of milliseconds, for which no loop can stand still.
//!
//! Frames leave by the first queue's socket only, which keeps them in order.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use switch::KernelCounters;

use crate::error::Error;
use crate::frames::Frames;
use crate::netlink::Link;
use crate::port::PortSetup;
use crate::receiver::{RX_RING, Receiver};
use crate::sender::Sender;
use crate::socket::{self, Rings, add_statistics};

/// Entries of the TX ring of the sockets that only receive; none is ever used.
const IDLE_TX_RING: u32 = 64;
/// Frames that a `sendto` handles unless told otherwise (`TX_BATCH_SIZE`).
const DEFAULT_TX_BUDGET: u32 = 32;
/// Send buffer on a veth: 170 small frames on their way, so that they never fill the peer's ring of 256.
const VETH_SEND_BUFFER_BYTES: u32 = 65_536;

/// The sockets of a port.
pub(crate) struct Sockets {
    pub(crate) receivers: Vec<Receiver>,
    pub(crate) sender: Sender,
    /// Frames of several chunks go through them.
    multi_buffer: bool,
}

/// What sockets are opened with, on whatever thread.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) interface: String,
    /// The port's number in its memory.
    pub(crate) number: u8,
    pub(crate) frames: Arc<Frames>,
    pub(crate) setup: PortSetup,
}

impl Place {
    /// Opens `queues` sockets. They hold no frames yet.
    pub(crate) fn open(&self, link: &Link, queues: u32) -> Result<Sockets, Error> {
        let bounds = Receiver::bounds(self.frames.count(), &self.setup);
        let mut receivers = Vec::with_capacity(queues as usize);
        let first = self.open_queue(0, self.setup.tx_ring)?;
        receivers.push(Receiver::new(first.rx, first.fill, self.number, bounds));
        let sender = self.new_sender(&link.kind, first.tx, first.completion)?;
        for queue in 1..queues {
            let rings = self.open_queue(queue, IDLE_TX_RING)?;
            receivers.push(Receiver::new(rings.rx, rings.fill, self.number, bounds));
        }
        Ok(Sockets { receivers, sender, multi_buffer: self.frames.is_multi_buffer() })
    }

    fn open_queue(&self, queue: u32, tx_ring: u32) -> Result<Rings, Error> {
        socket::open(self.frames.registered(), &self.interface, queue, (RX_RING, tx_ring))
    }

    fn new_sender(
        &self,
        kind: &str,
        tx: xsk_rs::TxQueue,
        completion: xsk_rs::CompQueue,
    ) -> Result<Sender, Error> {
        let fd = tx.fd().as_raw_fd();
        let mut budget = self.setup.tx_budget;
        if let Err(error) = socket::set_send_budget(fd, budget) {
            budget = budget.min(DEFAULT_TX_BUDGET);
            tracing::warn!(interface = self.interface, %error, "one sendto sends {budget} frames at most");
        }
        let on_veth = (kind == "veth").then_some(VETH_SEND_BUFFER_BYTES);
        if let Some(bytes) = self.setup.send_buffer_bytes.or(on_veth) {
            let action = || format!("interface {}: setting the send buffer", self.interface);
            socket::set_send_buffer(fd, bytes).map_err(|error| Error::kernel(action(), error))?;
        }
        let sizes = (self.setup.tx_ring as usize, budget as usize);
        Ok(Sender::new((tx, completion), Arc::clone(&self.frames), self.number, sizes))
    }
}

impl Sockets {
    /// The descriptors, by RX queue.
    pub(crate) fn fds(&self) -> Vec<RawFd> {
        self.receivers.iter().map(Receiver::fd).collect()
    }

    /// Adds what the kernel counted on the sockets so far.
    pub(crate) fn add_counters(&self, counters: &mut KernelCounters) {
        for receiver in &self.receivers {
            add_statistics(receiver.socket(), self.multi_buffer, counters);
        }
        counters.rx_too_long_frames += self.receivers.iter().map(Receiver::too_long).sum::<u64>();
        counters.rx_stray_frames += self.receivers.iter().map(Receiver::stray).sum::<u64>();
        counters.tx_stray_frames += self.sender.stray();
    }

    /// Frames in all rings; those of several chunks count as so many.
    pub(crate) fn frames_held(&self) -> usize {
        self.receivers.iter().map(Receiver::held).sum::<usize>() + self.sender.outstanding()
    }

    /// Closes the sockets, of which the program has been taken off, so that nothing more comes in. What was counted on them;
    /// frames that nobody has taken are among it.
    pub(crate) fn close(mut self) -> KernelCounters {
        let mut counters = KernelCounters::default();
        self.add_counters(&mut counters);
        counters.rx_closed_frames = self.receivers.iter_mut().map(Receiver::count_in_ring).sum();
        counters
    }
}
