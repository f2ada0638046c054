//! The sending half of a port's first socket: the TX ring, the completion ring, and the `sendto`
//! that makes the kernel send.
//!
//! In zero-copy mode the driver takes entries by itself; `sendto` only wakes it, where it has asked
//! for that, and loses nothing. What the errors mean in copy mode (docs/kernel-behavior.md, "Errors
//! of sendto"):
//!
//! ```text
//! EAGAIN          budget used, or no room in the completion ring, the send buffer, the peer's ring   frames stay
//! ENOBUFS         no memory for the kernel's copy                                                    frames stay
//! EBUSY           the interface refused the frame                                                    one frame lost (`losses.rs`)
//! ENETDOWN ENXIO  the interface is down or gone                                                      frames stay
//! ```

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use switch::{FrameId, KernelCounters, TxDesc};
use xsk_rs::{CompQueue, FrameDesc, TxQueue};

use crate::port::bind_mode::{Mode, is_down};
use crate::port::rx::BATCH;
use crate::port::socket::send;
use crate::port::tx_loss::TxLossTracker;
use crate::umem::area::Frames;
use crate::umem::bounce_buffer::BounceBuffers;
use crate::umem::chains::MAX_CHUNKS;
use crate::umem::ring_ownership::{RingOwner, RingOwnership};

/// What a port sends through.
pub(crate) struct Sender {
    tx: TxQueue,
    completion: CompQueue,
    mode: Mode,
    /// What it sends, if that is not of the switch's memory.
    own: Option<BounceBuffers>,
    frames: Arc<Frames>,
    lent: Arc<RingOwnership>,
    /// Entries of the TX ring.
    ring: usize,
    /// The most entries that a frame takes.
    entries_of_a_frame: usize,
    /// Entries that one `sendto` handles.
    budget: usize,
    /// Free entries of the TX ring, as last seen.
    ring_free: usize,
    /// Entries transmitted and not yet completed: chunks of frames.
    outstanding: usize,
    /// Completions of what was not outstanding.
    stray: u64,
    /// Which frame each entry of the TX ring was of, and which frames were lost.
    losses: TxLossTracker,
    /// Chunks of frames that lie in more than the socket sends, not given back yet.
    unsent: Vec<u32>,
    batch: Box<[FrameDesc; BATCH]>,
}

impl Sender {
    /// The sending half of a socket, whose `sendto` handles `budget` descriptors; what it sends is
    /// `lent`.
    pub(crate) fn new(
        (tx, completion): (TxQueue, CompQueue),
        own: Option<BounceBuffers>,
        frames: Arc<Frames>,
        (mode, lent): (Mode, Arc<RingOwnership>),
        (ring, budget): (usize, usize),
    ) -> Sender {
        let batch = Box::new([FrameDesc::default(); BATCH]);
        Sender {
            tx,
            completion,
            mode,
            own,
            entries_of_a_frame: mode.most_chunks,
            frames,
            lent,
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
        self.tx.fd().as_raw_fd()
    }

    /// Frames that fit, if each is of the longest: into the TX ring, and, since the completion ring
    /// is as large, back out. What the kernel has seen of a frame that it then puts back is
    /// read once more, so no entry of it is free before it has completed.
    pub(crate) fn room(&self) -> usize {
        self.ring_free.min(self.ring.saturating_sub(self.outstanding)) / self.entries_of_a_frame
    }

    /// Chunks of frames transmitted and not yet completed.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Completions of frames that were not outstanding: ignored, and counted here.
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
            if self.frames.is_chain(index) {
                if len > self.mode.most_chunks * self.frames.chunk_bytes() {
                    self.refuse(index, len);
                    continue;
                }
                let entries = self.frames.send_chain(index, len, &self.lent, &mut self.batch[filled..]);
                self.losses.note_entries(index, entries);
                filled += entries;
            } else {
                self.losses.note_entries(index, 1);
                self.lent.lend(index, RingOwner::Transmit);
                self.batch[filled] = self.frames.desc_of_len(index, len);
                filled += 1;
            }
        }
        self.produce(filled);
    }

    /// Puts the first `count` descriptors of the batch into the TX ring.
    fn produce(&mut self, count: usize) {
        if let Some(own) = &mut self.own {
            self.batch[..count].iter_mut().for_each(|desc| *desc = own.take_out(desc, &self.frames));
        }
        // SAFETY: the descriptors are of the socket's UMEM, and their frames were given to us, or were free
        // until now.
        let produced = unsafe { self.tx.produce(&self.batch[..count]) };
        assert_eq!(produced, count, "more frames than the TX ring had room for");
        self.ring_free -= count;
        self.outstanding += count;
    }

    /// A frame that lies in more chunks than the driver takes: it counts as lost, and completes.
    #[cold]
    fn refuse(&mut self, index: usize, len: usize) {
        let mut chunks = [FrameDesc::default(); MAX_CHUNKS];
        let count = self.frames.send_chain(index, len, &self.lent, &mut chunks);
        let frames = &self.frames;
        self.unsent.extend(chunks[..count].iter().map(|desc| frames.index_of(desc.addr()) as u32));
        self.outstanding += count;
        self.losses.note_lost(index);
    }

    /// Sees to it that what is in the TX ring is sent. The error that says the interface is down or
    /// gone, if that is so.
    pub(crate) fn kick(&mut self, counters: &mut KernelCounters) -> Option<i32> {
        if self.mode.zero_copy { self.wake(counters) } else { self.send_all(counters) }
    }

    /// Wakes the driver, if it has asked for that.
    fn wake(&mut self, counters: &mut KernelCounters) -> Option<i32> {
        if self.outstanding > 0 && self.tx.needs_wakeup() {
            counters.tx_kicks += 1;
            match send(self.fd()) {
                // No carrier, or a device that begins again: who watches the interface knows whether it is
                // down.
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

    /// Calls `sendto` until the TX ring is empty or another call would do no good.
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
            let lent = &self.lent;
            self.losses.called(waiting, result == Err(libc::EBUSY), |index| lent.is_sending(index));
            match result {
                Ok(()) => {}
                Err(libc::EAGAIN) => {
                    counters.tx_again += 1;
                    if before - waiting < self.budget {
                        break; // no room further on: it was not the budget that ended the call
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

    /// Takes the frames that the kernel is done with: those that it lost are for
    /// [`Sender::take_lost`].
    pub(crate) fn complete(&mut self, out: &mut Vec<FrameId>) {
        let before = out.len();
        for index in self.unsent.drain(..) {
            let was_there = self.frames.give_part_back(index as usize, &self.lent, out);
            debug_assert!(was_there, "chunk {index} was refused");
            self.outstanding -= 1;
        }
        loop {
            // SAFETY: completion ring and descriptors are of this one UMEM.
            let count = unsafe { self.completion.consume(&mut self.batch[..]) };
            let mut stray = 0;
            for desc in &self.batch[..count] {
                let index = match &mut self.own {
                    Some(own) => own.complete(desc.addr()),
                    None => Some(self.frames.index_of(desc.addr())),
                };
                let Some(index) = index else {
                    stray += 1;
                    continue;
                };
                if self.lent.give_back(index, RingOwner::Transmit) {
                    out.push(FrameId::new(index as u32));
                } else if !self.frames.give_part_back(index, &self.lent, out) {
                    stray += 1;
                }
            }
            self.outstanding -= count - stray;
            self.stray += stray as u64;
            if count < BATCH {
                break;
            }
        }
        self.waiting(); // a lost frame may have completed before its place in the TX ring was seen to be free
        self.losses.part(before, out);
    }

    /// Frames that the kernel took and lost, and is done with.
    pub(crate) fn take_lost(&mut self, out: &mut Vec<FrameId>) {
        self.losses.take(out);
    }

    /// Looks how many entries of the TX ring wait for the kernel.
    fn waiting(&mut self) -> usize {
        self.ring_free = self.tx.nb_free_exact() as usize;
        self.ring - self.ring_free
    }
}
