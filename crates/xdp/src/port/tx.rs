//! The sending half of a port: the TX ring, the completion ring, and the `sendto`
//! that makes the kernel send.
//!
//! In zero-copy mode the driver takes entries by itself; `sendto` only wakes it, where it has
//! requested that, and loses nothing. The errors in copy mode mean (docs/kernel/af-xdp.md,
//! "Errors of sendto"):
//!
//! ```text
//! EAGAIN          budget used, or no room in the completion ring,
//!                 the send buffer, the peer's ring                   frames stay
//! ENOBUFS         no memory for the kernel's copy                    frames stay
//! EBUSY           the interface refused the frame                    one frame lost (`tx_loss.rs`)
//! ENETDOWN ENXIO  the interface is down or does not exist            frames stay
//! ```

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use switch::{FrameId, KernelCounters, TxDesc};
use xsk_rs::{CompQueue, FrameDesc, TxQueue};

use crate::port::bind_mode::{Mode, is_down};
use crate::port::rx::BATCH;
use crate::port::socket::send;
use crate::port::tx_loss::TxLossTracker;
use crate::port::tx_socket::TxSocket;
use crate::umem::area::UmemFrames;
use crate::umem::bounce_buffer::BounceBuffers;
use crate::umem::chunk_chains::MAX_CHUNKS;
use crate::umem::ring_ownership::{RingOwner, RingOwnership};

/// The TX ring that a port sends from.
pub(crate) enum PortTxRing {
    /// In copy mode: of a socket that only sends.
    Own(TxSocket),
    /// In zero-copy mode: of the first socket that receives. The driver sends there, so that `poll`
    /// only wakes it.
    Shared(TxQueue),
}

impl PortTxRing {
    pub(crate) fn fd(&self) -> RawFd {
        match self {
            PortTxRing::Own(socket) => socket.fd(),
            PortTxRing::Shared(tx) => tx.fd().as_raw_fd(),
        }
    }

    /// Returns the number of free entries, as far as the kernel has come.
    fn free(&mut self) -> usize {
        match self {
            PortTxRing::Own(socket) => socket.free() as usize,
            PortTxRing::Shared(tx) => tx.nb_free_exact() as usize,
        }
    }

    /// Puts the descriptors into the ring. Returns how many it has put.
    ///
    /// # Safety
    /// See [`TxSocket::produce`].
    unsafe fn produce(&mut self, descs: &[FrameDesc]) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                PortTxRing::Own(socket) => socket.produce(descs),
                PortTxRing::Shared(tx) => tx.produce(descs),
            }
        }
    }

    /// True if the driver wants a call to go on.
    fn needs_wakeup(&self) -> bool {
        matches!(self, PortTxRing::Shared(tx) if tx.needs_wakeup())
    }
}

/// The TX ring of a port and its accounting.
pub(crate) struct Sender {
    tx: PortTxRing,
    completion: CompQueue,
    mode: Mode,
    /// The chunks to send from, unless they belong to the switch's memory.
    bounce: Option<BounceBuffers>,
    frames: Arc<UmemFrames>,
    ownership: Arc<RingOwnership>,
    /// Entries of the TX ring.
    ring: usize,
    /// The largest number of entries of a frame.
    entries_of_a_frame: usize,
    /// Entries that one `sendto` processes.
    budget: usize,
    /// Free entries of the TX ring, as last read.
    ring_free: usize,
    /// Entries transmitted and not yet completed: chunks of frames.
    outstanding: usize,
    /// Completions of chunks that were not outstanding.
    stray: u64,
    /// The frame of each entry of the TX ring, and the lost frames.
    losses: TxLossTracker,
    /// Chunks of frames that have more chunks than the socket sends, not returned yet.
    unsent: Vec<u32>,
    batch: Box<[FrameDesc; BATCH]>,
}

impl Sender {
    /// Creates the sending half of a socket, whose `sendto` processes `budget` descriptors.
    /// `ownership` records the ownership of the chunks.
    pub(crate) fn new(
        (tx, completion): (PortTxRing, CompQueue),
        own: Option<BounceBuffers>,
        frames: Arc<UmemFrames>,
        (mode, owned): (Mode, Arc<RingOwnership>),
        (ring, budget): (usize, usize),
    ) -> Sender {
        let batch = Box::new([FrameDesc::default(); BATCH]);
        Sender {
            tx,
            completion,
            mode,
            bounce: own,
            entries_of_a_frame: mode.max_chunks,
            frames,
            ownership: owned,
            ring,
            budget,
            ring_free: ring,
            outstanding: 0,
            stray: 0,
            losses: TxLossTracker::new(ring),
            unsent: Vec::with_capacity(if mode.zero_copy { ring * MAX_CHUNKS } else { 0 }),
            batch,
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.tx.fd()
    }

    /// Returns the number of frames that fit, if each has the maximum length, into the TX ring and,
    /// since the completion ring is as large, out of it. The kernel reads an entry again after it
    /// has put the frame back, so an entry is not free before its frame has completed.
    pub(crate) fn room(&self) -> usize {
        self.ring_free.min(self.ring.saturating_sub(self.outstanding)) / self.entries_of_a_frame
    }

    /// Returns the chunks of frames transmitted and not yet completed.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Returns the number of completions of frames that were not outstanding. They are ignored.
    pub(crate) fn stray(&self) -> u64 {
        self.stray
    }

    /// Puts at most `room` frames into the TX ring.
    pub(crate) fn transmit(&mut self, frames: &[TxDesc]) {
        let mut filled = 0;
        for outgoing in frames {
            if filled + MAX_CHUNKS > BATCH {
                self.produce(filled);
                filled = 0;
            }
            let (index, len) = (outgoing.frame.index(), usize::from(outgoing.len));
            let entries = if self.frames.is_chain(index) {
                if len > self.mode.max_chunks * self.frames.chunk_bytes() {
                    self.drop_too_many_chunks(index, len);
                    continue;
                }
                self.frames.send_chain(index, len, &self.ownership, &mut self.batch[filled..])
            } else {
                self.ownership.assign(index, RingOwner::Transmit);
                self.batch[filled] = self.frames.desc_of_len(index, len);
                1
            };
            self.losses.record_entries(index, entries);
            // The kernel copies the frame, and waits for each cache line that another core wrote.
            if !self.mode.zero_copy {
                self.batch[filled..filled + entries].iter().for_each(|desc| self.frames.prefetch(desc));
            }
            filled += entries;
        }
        self.produce(filled);
    }

    /// Puts the first `count` descriptors of the batch into the TX ring.
    fn produce(&mut self, count: usize) {
        if let Some(own) = &mut self.bounce {
            self.batch[..count].iter_mut().for_each(|desc| *desc = own.copy_out(desc, &self.frames));
        }
        // SAFETY: the descriptors belong to the socket's UMEM, and the caller owned their frames,
        // or they were free until now.
        let produced = unsafe { self.tx.produce(&self.batch[..count]) };
        assert_eq!(produced, count, "more frames than the TX ring had room for");
        self.ring_free -= count;
        self.outstanding += count;
    }

    /// Rejects a frame with more chunks than the driver accepts: it counts as lost, and completes.
    #[cold]
    fn drop_too_many_chunks(&mut self, index: usize, len: usize) {
        let mut chunks = [FrameDesc::default(); MAX_CHUNKS];
        let count = self.frames.send_chain(index, len, &self.ownership, &mut chunks);
        let frames = &self.frames;
        self.unsent.extend(chunks[..count].iter().map(|desc| frames.index_of(desc.addr()) as u32));
        self.outstanding += count;
        self.losses.record_lost(index);
    }

    /// Makes the kernel send what is in the TX ring. Returns the error if the interface is down or
    /// does not exist.
    pub(crate) fn kick(&mut self, counters: &mut KernelCounters) -> Option<i32> {
        if self.mode.zero_copy { self.wake(counters) } else { self.send_all(counters) }
    }

    /// Wakes the driver, if it has requested that.
    fn wake(&mut self, counters: &mut KernelCounters) -> Option<i32> {
        if self.outstanding > 0 && self.tx.needs_wakeup() {
            counters.tx_kicks += 1;
            match send(self.fd()) {
                // No carrier, or a device that restarts. The link monitor decides whether the
                // interface is down.
                Err(libc::ENETDOWN) => counters.tx_down += 1,
                Err(errno) if is_down(errno) => {
                    counters.tx_down += 1;
                    return Some(errno);
                }
                Err(_) => counters.tx_again += 1,
                Ok(()) => {}
            }
        }
        None
    }

    /// Calls `sendto` until the TX ring is empty or another call would not help.
    fn send_all(&mut self, counters: &mut KernelCounters) -> Option<i32> {
        let mut waiting = self.waiting();
        // Every call but the last takes at least one entry, so this is a bound, not a goal.
        let most_calls = waiting;
        for _ in 0..most_calls {
            if waiting == 0 {
                break;
            }
            counters.tx_kicks += 1;
            let result = send(self.fd());
            let before = std::mem::replace(&mut waiting, self.waiting());
            let owned = &self.ownership;
            self.losses.on_sendto(waiting, result == Err(libc::EBUSY), |index| owned.is_sending(index));
            match result {
                Ok(()) => {}
                Err(libc::EAGAIN) => {
                    counters.tx_again += 1;
                    if before - waiting < self.budget {
                        break; // no room downstream: the budget did not end the call
                    }
                }
                Err(libc::EBUSY) => counters.tx_busy += 1,
                Err(libc::ENOBUFS) => {
                    counters.tx_no_buffers += 1;
                    break;
                }
                Err(errno) => {
                    counters.tx_down += 1;
                    return Some(errno);
                }
            }
        }
        None
    }

    /// Takes the frames that the kernel has completed, except those that it lost, which
    /// [`Sender::take_lost`] returns.
    pub(crate) fn complete(&mut self, out: &mut Vec<FrameId>) {
        let before = out.len();
        for index in self.unsent.drain(..) {
            let was_there = self.frames.return_chunk(index as usize, &self.ownership, out);
            debug_assert!(was_there, "chunk {index} was refused");
            self.outstanding -= 1;
        }
        loop {
            // SAFETY: completion ring and descriptors are of this one UMEM.
            let count = unsafe { self.completion.consume(&mut self.batch[..]) };
            let mut stray = 0;
            for desc in &self.batch[..count] {
                let index = match &mut self.bounce {
                    Some(own) => own.complete(desc.addr()),
                    None => Some(self.frames.index_of(desc.addr())),
                };
                let Some(index) = index else {
                    stray += 1;
                    continue;
                };
                if self.ownership.release(index, RingOwner::Transmit) {
                    out.push(FrameId::new(index as u32));
                } else if !self.frames.return_chunk(index, &self.ownership, out) {
                    stray += 1;
                }
            }
            self.outstanding -= count - stray;
            self.stray += stray as u64;
            if count < BATCH {
                break;
            }
        }
        self.waiting(); // a lost frame may complete before its TX ring entry is seen free
        self.losses.split_lost(before, out);
    }

    /// Takes the frames that the kernel took, lost and completed.
    pub(crate) fn take_lost(&mut self, out: &mut Vec<FrameId>) {
        self.losses.take(out);
    }

    /// Returns how many entries of the TX ring wait for the kernel.
    fn waiting(&mut self) -> usize {
        self.ring_free = self.tx.free();
        self.ring - self.ring_free
    }
}
