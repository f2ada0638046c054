//! The receiving half of a socket: the fill ring, into which chunks are posted, and the RX ring
//! with the received frames. Chunks of both belong to the switch's memory, or to the port's own
//! UMEM, from which received frames are copied ([`crate::umem::bounce_buffer`]).

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use switch::{FrameMemory, Instant, LONGEST_RECEIVED_BYTES, RxDesc};
use xsk_rs::{FillQueue, FrameDesc, RxQueue};

use crate::port::bind_mode::Mode;
use crate::port::config::PortConfig;
use crate::port::fill::{FLOOR_FRAMES, FillPolicy};
use crate::port::socket::wake_receiver;
use crate::umem::Umem;
use crate::umem::bounce_buffer::BounceBuffers;
use crate::umem::chunk_chains::MAX_CHUNKS;
use crate::umem::register::FILL_RING;
use crate::umem::ring_ownership::RingOwnership;

/// Entries of each RX ring: it holds what a full fill ring delivers, while as much again is posted
/// before that is taken.
pub(crate) const RX_RING: u32 = 2 * FILL_RING;
/// Descriptors per access to a ring.
pub(crate) const BATCH: usize = 256;

/// Frames taken at a time even if memory has no chunk to replace them. Otherwise the port could
/// wait indefinitely: the XON that would free memory may be among these very frames.
const MIN_RX_WITHOUT_MEMORY: usize = 32;
/// One queue posts at most this part of the memory (as a divisor), which leaves memory to other
/// queues and to the user.
const MAX_POSTED_DIVISOR: usize = 8;

/// The chunks received so far of a multi-buffer frame.
struct Partial {
    /// The first [`MAX_CHUNKS`] of them.
    chunks: [FrameDesc; MAX_CHUNKS],
    /// The number of chunks received, which exceeds [`MAX_CHUNKS`] if the frame is too long.
    count: usize,
    bytes: usize,
    /// A chunk other than the last is not full. Such a frame cannot be assembled.
    has_gap: bool,
}

impl Partial {
    fn new() -> Self {
        Self { chunks: [FrameDesc::default(); MAX_CHUNKS], count: 0, bytes: 0, has_gap: false }
    }
}

/// An RX queue of a port.
pub(crate) struct Receiver {
    rx: RxQueue,
    fill: FillQueue,
    mode: Mode,
    /// The chunks to post, unless they belong to the switch's memory.
    bounce: Option<BounceBuffers>,
    ownership: Arc<RingOwnership>,
    policy: FillPolicy,
    /// Chunks in the fill ring, in the RX ring and between the two, and chunks of a partially
    /// received frame.
    in_rings: usize,
    /// Frames that the last call left in the RX ring.
    waiting: u32,
    /// Received chunks that were not posted.
    stray: u64,
    /// The multi-buffer frame whose last chunk has not been received. Its chunks still count as
    /// held by the RX ring.
    partial: Partial,
    /// Received frames longer than any that a port accepts.
    too_long: u64,
    /// The length of the longest of these since the last report.
    longest_bytes: u32,
    batch: Box<[FrameDesc; BATCH]>,
}

impl Receiver {
    /// Returns the minimum and maximum number of posted chunks of one queue, for a memory of
    /// `frames` frames and the settings `setup`.
    pub(crate) fn bounds(frames: usize, setup: &PortConfig) -> (u32, u32) {
        let part = ((frames / MAX_POSTED_DIVISOR) as u32).max(1);
        let most =
            if setup.min_posted > FLOOR_FRAMES { setup.max_posted } else { setup.max_posted.min(part) };
        (setup.min_posted, most)
    }

    /// Creates the receiving half of a socket, which holds no chunk yet and keeps between `least`
    /// and `most` posted. `ownership` records their ownership.
    pub(crate) fn new(
        (rx, fill): (RxQueue, FillQueue),
        own: Option<BounceBuffers>,
        (mode, owned): (Mode, Arc<RingOwnership>),
        (least, most): (u32, u32),
    ) -> Receiver {
        let batch = Box::new([FrameDesc::default(); BATCH]);
        Receiver {
            rx,
            fill,
            mode,
            bounce: own,
            ownership: owned,
            policy: FillPolicy::new(least, most),
            in_rings: 0,
            waiting: 0,
            stray: 0,
            partial: Partial::new(),
            too_long: 0,
            longest_bytes: 0,
            batch,
        }
    }

    /// Sets the minimum and maximum number of posted chunks.
    pub(crate) fn set_bounds(&mut self, (least, most): (u32, u32)) {
        self.policy.set_bounds(least, most);
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.rx.fd().as_raw_fd()
    }

    /// Returns the chunks of the switch's memory in the fill ring, in the RX ring, and between the
    /// two.
    pub(crate) fn in_rings(&self) -> usize {
        // With a UMEM of its own, only the chunks of the switch's memory into which the first
        // chunks of a partial frame were copied.
        if self.bounce.is_some() { self.partial.count.min(MAX_CHUNKS) } else { self.in_rings }
    }

    /// Posts the chunks that the policy requires initially.
    pub(crate) fn post_initial(&mut self, umem: &mut Umem) {
        self.post(umem, 0);
    }

    /// Posts chunks as needed, then takes at most `max` received frames, appended to `out`. Returns
    /// how many. A multi-buffer frame counts once per chunk, as in everything about rings.
    pub(crate) fn receive(
        &mut self,
        umem: &mut Umem,
        now: Instant,
        max: usize,
        out: &mut Vec<RxDesc>,
    ) -> usize {
        let waiting = self.rx.nb_avail_exact();
        let (posted, memory_short) = self.post(umem, waiting as usize);
        let may_take = match &self.bounce {
            Some(_) => max.min(umem.free_frames()), // the rest waits in the RX ring
            None if memory_short => max.min(posted.max(MIN_RX_WITHOUT_MEMORY)),
            None => max,
        };
        let taken = self.take(umem, may_take.min(waiting as usize), out);
        self.policy.observe(now, waiting, taken as u32);
        self.waiting = waiting - taken as u32;
        taken
    }

    /// Empties the RX ring of a socket that is about to be closed. Returns the number of frames;
    /// their chunks still count as held by the ring.
    pub(crate) fn count_in_ring(&mut self) -> u64 {
        let mut frames = 0;
        loop {
            // SAFETY: RX ring and descriptors are of this one UMEM.
            let consumed = unsafe { self.rx.consume(&mut self.batch[..]) };
            frames += self.batch[..consumed].iter().filter(|desc| !desc.has_more_frames()).count() as u64;
            if consumed < BATCH {
                return frames;
            }
        }
    }

    /// Returns the number of received frames longer than any that a port accepts. Their chunks were
    /// returned to memory.
    pub(crate) fn too_long(&self) -> u64 {
        self.too_long
    }

    /// Takes the length of the longest of these frames since the last call; 0 if there were none.
    pub(crate) fn take_longest(&mut self) -> u32 {
        std::mem::take(&mut self.longest_bytes)
    }

    /// Returns the frames that the last call of `receive` left in the RX ring.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Returns the number of received frames that the port had not posted. They are ignored.
    pub(crate) fn stray(&self) -> u64 {
        self.stray
    }

    /// Posts chunks until the kernel has as many empty ones as the policy requires, given that
    /// `waiting` of the held ones are full. Returns how many it posted, and whether memory was
    /// short.
    fn post(&mut self, umem: &mut Umem, waiting: usize) -> (usize, bool) {
        let empty = self.in_rings - waiting;
        let want =
            (self.policy.target() as usize).saturating_sub(empty).min(RX_RING as usize - self.in_rings);
        // The kernel publishes received frames a moment before it releases their fill ring entries.
        let want = want.min(self.fill.nb_free(want as u32) as usize);
        let mut posted = 0;
        while posted < want {
            let room = BATCH.min(want - posted);
            let taken = match &mut self.bounce {
                Some(own) => own.take_for_fill(&mut self.batch[..room]),
                None => umem.take_for_fill(&self.ownership, &mut self.batch[..room]),
            };
            // SAFETY: the descriptors belong to the socket's UMEM, their chunks were free until
            // now, and there is room for them.
            let produced = unsafe { self.fill.produce(&self.batch[..taken]) };
            debug_assert_eq!(produced, taken, "the fill ring had no room");
            posted += taken;
            if taken < room {
                break;
            }
        }
        self.in_rings += posted;
        if self.mode.zero_copy && self.in_rings > waiting && self.fill.needs_wakeup() {
            wake_receiver(self.fd()); // with an empty fill ring, it does not check again by itself
        }
        (posted, posted < want)
    }

    /// Takes `count` available frames from the RX ring.
    fn take(&mut self, umem: &mut Umem, count: usize, out: &mut Vec<RxDesc>) -> usize {
        let mut taken = 0;
        while taken < count {
            let room = BATCH.min(count - taken);
            // SAFETY: RX ring and descriptors are of this one UMEM.
            let consumed = unsafe { self.rx.consume(&mut self.batch[..room]) };
            for at in 0..consumed {
                let mut desc = self.batch[at];
                let mut is_part = desc.has_more_frames() || self.partial.count > 0;
                if let Some(own) = &mut self.bounce {
                    let Some(brought) = own.copy_in(&desc, umem, &self.ownership) else {
                        self.stray += 1;
                        self.partial.has_gap |= is_part;
                        continue;
                    };
                    desc = brought;
                    is_part |= self.partial.has_gap;
                }
                if is_part {
                    self.add_chunk(umem, desc, out);
                } else if let Some(received) = umem.take_received(&desc, &self.ownership) {
                    self.in_rings -= 1;
                    out.push(received);
                } else {
                    self.stray += 1;
                }
            }
            taken += consumed;
            if consumed == 0 {
                break;
            }
        }
        taken
    }

    /// Adds a chunk to a multi-buffer frame. The last chunk completes the frame.
    #[cold]
    fn add_chunk(&mut self, umem: &mut Umem, desc: FrameDesc, out: &mut Vec<RxDesc>) {
        let is_last = !desc.has_more_frames();
        let partial = &mut self.partial;
        partial.bytes += desc.lengths().data();
        partial.has_gap |= !is_last && desc.lengths().data() != umem.chunk_bytes();
        if let Some(slot) = partial.chunks.get_mut(partial.count) {
            *slot = desc;
        } else if umem.drop_received(&desc, &self.ownership) {
            self.in_rings -= 1;
        }
        partial.count += 1;
        if is_last {
            let partial = std::mem::replace(&mut self.partial, Partial::new());
            self.take_multi_buffer(umem, partial, out);
        }
    }

    /// Takes a multi-buffer frame of which all chunks have been received.
    fn take_multi_buffer(&mut self, umem: &mut Umem, partial: Partial, out: &mut Vec<RxDesc>) {
        let Partial { chunks, count, bytes, has_gap } = partial;
        let chunks = &chunks[..count.min(MAX_CHUNKS)];
        let is_too_long = count > MAX_CHUNKS || bytes > LONGEST_RECEIVED_BYTES;
        if !is_too_long && !has_gap {
            let (received, posted) = umem.take_chain(chunks, bytes, &self.ownership);
            self.in_rings -= posted;
            self.stray += u64::from(received.is_none());
            out.extend(received);
            return;
        }
        self.in_rings -= chunks.iter().filter(|desc| umem.drop_received(desc, &self.ownership)).count();
        if is_too_long {
            self.too_long += 1;
            self.longest_bytes = self.longest_bytes.max(bytes as u32);
        } else {
            self.stray += 1;
        }
    }
}
