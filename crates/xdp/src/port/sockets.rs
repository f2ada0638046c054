//! The sockets of a port: an AF_XDP socket per RX queue, with its rings. They can move between
//! threads, since the kernel takes tens of milliseconds to open and close them, for which no loop
//! may stall.
//!
//! Frames are sent on the first queue only, which keeps them in order. Zero-copy sockets have a
//! UMEM of their own ([`crate::umem::bounce_buffer`]), which closes with them: a driver that still
//! writes to it after the close does no harm.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use switch::{KernelCounters, chunks_of};
use xsk_rs::socket::Fd;

use crate::error::Error;
use crate::interface::generic_netlink::zero_copy_segments;
use crate::interface::netlink::Link;
use crate::port::bind_mode::{Mode, PortMode, ZeroCopy, modes};
use crate::port::config::PortConfig;
use crate::port::rx::{RX_RING, Receiver};
use crate::port::socket::{self, Rings, add_statistics, tx_invalid_frames};
use crate::port::tx::{PortTxRing, Sender};
use crate::port::tx_socket::TxSocket;
use crate::umem::area::{LINK_BYTES, UmemFrames};
use crate::umem::bounce_buffer::BounceUmem;
use crate::umem::ring_ownership::RingOwnership;

/// Entries of the TX ring of sockets that only receive, which libxdp makes; none is ever used.
const IDLE_TX_RING: u32 = 64;
/// Frames that a `sendto` processes by default (`TX_BATCH_SIZE`).
const DEFAULT_TX_BUDGET: u32 = 32;
/// Send buffer on a veth: 170 small frames in flight, so that they never fill the peer's ring of
/// 256.
const VETH_SEND_BUFFER_BYTES: u32 = 65_536;

/// The receiving sockets and the sending socket of an open port.
pub(crate) struct PortSockets {
    pub(crate) receivers: Vec<Receiver>,
    pub(crate) sender: Sender,
    mode: Mode,
    /// The sockets have a UMEM of their own.
    own_memory: bool,
}

/// The parameters of opening a port's sockets, on any thread.
#[derive(Clone)]
pub(crate) struct PortContext {
    pub(crate) interface: String,
    /// The ownership of the chunks in the port's rings.
    pub(crate) owned: Arc<RingOwnership>,
    pub(crate) frames: Arc<UmemFrames>,
    pub(crate) config: PortConfig,
    /// Zero-copy sockets could be opened on this interface but not be fed: the kernel must copy.
    pub(crate) must_copy: bool,
}

impl PortContext {
    /// Opens `queues` sockets, in the best available mode. They hold no chunks yet.
    #[expect(clippy::expect_used, reason = "copy mode is always one of the modes")]
    pub(crate) fn open(&self, link: &Link, queues: u32) -> Result<PortSockets, Error> {
        let segments = zero_copy_segments(link.index).unwrap_or(0); // error: no such query
        let frames = &self.frames;
        let needed = chunks_of(link.mtu as usize + LINK_BYTES, frames.chunk_bytes());
        let wanted = if self.must_copy { ZeroCopy::Off } else { self.config.zero_copy };
        let modes = modes(wanted, segments as usize, needed, frames.max_chunks());
        let (&copy, others) = modes.split_last().expect("to copy is one");
        for &mode in others {
            match self.open_in(mode, true, link, queues) {
                Err(error) if !matches!(error, Error::QueueBusy { .. }) => {
                    let (interface, most_chunks) = (&self.interface, mode.max_chunks);
                    tracing::warn!(interface, most_chunks, %error, "no zero-copy here: the kernel copies each frame");
                }
                opened => return opened,
            }
        }
        self.open_in(copy, wanted == ZeroCopy::Emulate, link, queues)
    }

    /// Opens the sockets in this mode, on the switch's memory or on a UMEM of their own.
    #[expect(clippy::expect_used, reason = "an interface has a queue")]
    fn open_in(&self, mode: Mode, own_memory: bool, link: &Link, queues: u32) -> Result<PortSockets, Error> {
        let (frames, queues) = (&self.frames, queues as usize);
        let tx_ring = self.config.tx_ring as usize;
        let mut own =
            own_memory.then(|| BounceUmem::new(queues * FRAMES_PER_QUEUE + tx_ring, frames)).transpose()?;
        let umem = own.as_ref().map_or(frames.registered(), BounceUmem::registered).clone();
        let bounds = Receiver::bounds(frames.count(), &self.config);
        let mut receivers = Vec::with_capacity(queues);
        let mut sending = None;
        for queue in 0..queues {
            let sends = queue == 0 && mode.zero_copy;
            let tx_ring = if sends { self.config.tx_ring } else { IDLE_TX_RING };
            let slot = (self.interface.as_str(), queue as u32);
            let Rings { rx, fill, tx, completion } = socket::open(&umem, mode, slot, (RX_RING, tx_ring))?;
            let chunks = own.as_mut().map(|own| own.hand_out(FRAMES_PER_QUEUE));
            receivers.push(Receiver::new((rx, fill), chunks, (mode, Arc::clone(&self.owned)), bounds));
            sending.get_or_insert((tx, completion));
        }
        let (tx, completion) = sending.expect("an interface has a queue");
        let tx = if mode.zero_copy { PortTxRing::Shared(tx) } else { self.open_sender(tx.fd(), link)? };
        let budget = self.set_up_sending(tx.fd(), &link.kind, mode)?;
        let chunks = own.as_mut().map(|own| own.hand_out(tx_ring));
        let sizes = (tx_ring, budget as usize);
        let sender =
            Sender::new((tx, completion), chunks, Arc::clone(frames), (mode, Arc::clone(&self.owned)), sizes);
        Ok(PortSockets { receivers, sender, mode, own_memory })
    }

    /// Opens the sending socket of copy mode, on the queue of the first receiving one.
    fn open_sender(&self, receiver: &Fd, link: &Link) -> Result<PortTxRing, Error> {
        TxSocket::open(receiver.as_raw_fd(), (link.index as u32, 0), self.config.tx_ring)
            .map(PortTxRing::Own)
            .map_err(|error| Error::kernel(format!("interface {}: AF_XDP socket to send", link.name), error))
    }

    /// Bounds the frames in flight in the kernel. Returns how many frames one `sendto` processes.
    fn set_up_sending(&self, fd: RawFd, kind: &str, mode: Mode) -> Result<u32, Error> {
        let mut budget = self.config.tx_budget;
        if mode.zero_copy {
            return Ok(budget); // neither applies there
        }
        if let Err(error) = socket::set_send_budget(fd, budget) {
            budget = budget.min(DEFAULT_TX_BUDGET);
            tracing::warn!(interface = self.interface, %error, "one sendto sends {budget} frames at most");
        }
        let on_veth = (kind == "veth").then_some(VETH_SEND_BUFFER_BYTES);
        if let Some(bytes) = self.config.send_buffer_bytes.or(on_veth) {
            let action = || format!("interface {}: setting the send buffer", self.interface);
            socket::set_send_buffer(fd, bytes).map_err(|error| Error::kernel(action(), error))?;
        }
        Ok(budget)
    }
}

impl PortSockets {
    /// Returns the descriptors, by RX queue.
    pub(crate) fn fds(&self) -> Vec<RawFd> {
        self.receivers.iter().map(Receiver::fd).collect()
    }

    /// Adds the kernel's counters of the sockets so far.
    pub(crate) fn add_counters(&self, counters: &mut KernelCounters) {
        for receiver in &self.receivers {
            add_statistics(receiver.fd(), self.mode, counters);
        }
        if !self.mode.zero_copy {
            counters.tx_invalid_frames += tx_invalid_frames(self.sender.fd());
        }
        counters.rx_too_long_frames += self.receivers.iter().map(Receiver::too_long).sum::<u64>();
        counters.rx_stray_frames += self.receivers.iter().map(Receiver::stray).sum::<u64>();
        counters.tx_stray_frames += self.sender.stray();
    }

    /// Returns the frames of the switch's memory in all rings; a multi-buffer frame counts once per
    /// chunk.
    pub(crate) fn frames_held(&self) -> usize {
        self.receivers.iter().map(Receiver::in_rings).sum::<usize>() + self.sender.outstanding()
    }

    /// Returns how frames reach the switch's memory and leave it.
    pub(crate) fn port_mode(&self) -> PortMode {
        PortMode { zero_copy: self.mode.zero_copy, own_memory: self.own_memory }
    }

    /// Closes the sockets, whose program has been detached, so that nothing more is received.
    /// Returns their counters, which include frames that were never taken.
    pub(crate) fn close(mut self) -> KernelCounters {
        let mut counters = KernelCounters::default();
        self.add_counters(&mut counters);
        counters.rx_closed_frames = self.receivers.iter_mut().map(Receiver::count_in_ring).sum();
        counters
    }
}

/// The maximum number of frames that the rings of one RX queue hold, beyond those that the user
/// passes in. The memory has this number for each queue.
pub const FRAMES_PER_QUEUE: usize = RX_RING as usize;
