//! The sending half of a port's first socket: the TX ring, the completion ring, and the `sendto` that makes the kernel send.
//!
//! What the errors of `sendto` mean in copy mode (docs/kernel.md, "Errors of sendto"):
//!
//! ```text
//! EAGAIN          budget used, or no room in the completion ring, the send buffer, the peer's ring   frames stay
//! ENOBUFS         no memory for the kernel's copy                                                    frames stay
//! EBUSY           the interface refused the frame                                                    one frame lost
//! ENETDOWN ENXIO  the interface is down or gone                                                      frames stay
//! ```

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use switch::{FrameId, KernelCounters, Outgoing};
use xsk_rs::{CompQueue, FrameDesc, TxQueue};

use crate::chains::MAX_CHUNKS;
use crate::frames::Frames;
use crate::owners::Owner;
use crate::receiver::BATCH;
use crate::socket::send;

/// What a port sends through.
pub(crate) struct Sender {
    tx: TxQueue,
    completion: CompQueue,
    frames: Arc<Frames>,
    port: u8,
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
    batch: Box<[FrameDesc; BATCH]>,
}

/// What came of a kick.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Kicked {
    /// Frames that the kernel took and lost.
    pub(crate) lost: u32,
    /// The error that says the interface is down or gone.
    pub(crate) down: Option<i32>,
}

impl Sender {
    /// The sending half of a socket of `port`, whose `sendto` handles `budget` descriptors.
    pub(crate) fn new(
        (tx, completion): (TxQueue, CompQueue),
        frames: Arc<Frames>,
        port: u8,
        (ring, budget): (usize, usize),
    ) -> Sender {
        let batch = Box::new([FrameDesc::default(); BATCH]);
        Sender {
            tx,
            completion,
            entries_of_a_frame: frames.most_chunks(),
            frames,
            port,
            ring,
            budget,
            ring_free: ring,
            outstanding: 0,
            stray: 0,
            batch,
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.tx.fd().as_raw_fd()
    }

    /// Frames that fit, if each is of the longest: into the TX ring, and, since the completion ring is as large, back out. What the
    /// kernel has seen of a frame that it then puts back is read once more, so no entry of it is free before it has completed.
    pub(crate) fn room(&self) -> usize {
        self.ring_free.min(self.ring - self.outstanding) / self.entries_of_a_frame
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
    pub(crate) fn transmit(&mut self, frames: &[Outgoing]) {
        let mut filled = 0;
        for outgoing in frames {
            if filled + MAX_CHUNKS > BATCH {
                self.produce(filled);
                filled = 0;
            }
            let (index, len) = (outgoing.frame.index(), usize::from(outgoing.len));
            if self.frames.is_chain(index) {
                filled += self.frames.send_chain(index, len, self.port, &mut self.batch[filled..]);
            } else {
                self.frames.hand_over(index, Owner::User, Owner::Transmit(self.port));
                self.batch[filled] = self.frames.desc_of_len(index, len);
                filled += 1;
            }
        }
        self.produce(filled);
    }

    /// Puts the first `count` descriptors of the batch into the TX ring.
    fn produce(&mut self, count: usize) {
        // SAFETY: the descriptors are of this UMEM, and their frames' tokens were given to us.
        let produced = unsafe { self.tx.produce(&self.batch[..count]) };
        assert_eq!(produced, count, "more frames than the TX ring had room for");
        self.ring_free -= count;
        self.outstanding += count;
    }

    /// Calls `sendto` until the TX ring is empty or another call would do no good.
    pub(crate) fn kick(&mut self, counters: &mut KernelCounters) -> Kicked {
        let mut kicked = Kicked::default();
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
            match result {
                Ok(()) => {}
                Err(libc::EAGAIN) => {
                    counters.tx_again += 1;
                    if before - waiting < self.budget {
                        break; // no room further on: it was not the budget that ended the call
                    }
                }
                Err(libc::EBUSY) => {
                    counters.tx_busy += 1;
                    kicked.lost += 1;
                }
                Err(libc::ENOBUFS) => {
                    counters.tx_no_buffers += 1;
                    break;
                }
                Err(errno) => {
                    counters.tx_down += 1;
                    kicked.down = Some(errno);
                    break;
                }
            }
        }
        kicked
    }

    /// Takes the frames that the kernel is done with.
    pub(crate) fn complete(&mut self, out: &mut Vec<FrameId>) {
        loop {
            // SAFETY: completion ring and descriptors are of this one UMEM.
            let count = unsafe { self.completion.consume(&mut self.batch[..]) };
            let mut stray = 0;
            for desc in &self.batch[..count] {
                let index = self.frames.index_of(desc.addr());
                if self.frames.give_back(index, Owner::Transmit(self.port)) {
                    out.push(FrameId::new(index as u32));
                } else if !self.frames.give_part_back(index, self.port, out) {
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
    }

    /// Looks how many entries of the TX ring wait for the kernel.
    fn waiting(&mut self) -> usize {
        self.ring_free = self.tx.nb_free_exact() as usize;
        self.ring - self.ring_free
    }
}
