//! The receiving half of a socket: the fill ring, into which frames are posted, and the RX ring,
//! out of which they come. Both are of the switch's memory, or of the port's own, out of which what
//! came in is copied ([`crate::umem::bounce_buffer`]).

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use switch::{FrameMemory, Instant, LONGEST_RECEIVED_BYTES, RxDesc};
use xsk_rs::socket::Fd;
use xsk_rs::{FillQueue, FrameDesc, RxQueue};

use crate::port::bind_mode::Mode;
use crate::port::config::PortConfig;
use crate::port::fill::{FLOOR_FRAMES, FillPolicy};
use crate::port::socket::wake_receiver;
use crate::umem::Umem;
use crate::umem::bounce_buffer::BounceBuffers;
use crate::umem::chains::MAX_CHUNKS;
use crate::umem::register::FILL_RING;
use crate::umem::ring_ownership::RingOwnership;

/// Entries of each RX ring: what a full fill ring can deliver, while as much again is posted before
/// that is taken.
pub(crate) const RX_RING: u32 = 2 * FILL_RING;
/// Descriptors that go through a ring at once.
pub(crate) const BATCH: usize = 256;

/// Frames that are taken at a time although memory has no replacement for them. Waiting for memory
/// alone could be in vain: what frees it may be the XON among these very frames.
const TRICKLE: usize = 32;
/// One queue posts at most this part of the memory, so that others, and the user, have theirs.
const MEMORY_PART: usize = 8;

/// The chunks of a frame that have come so far.
struct Partial {
    /// The first of them.
    chunks: [FrameDesc; MAX_CHUNKS],
    /// How many have come: more than there is room for, if the frame is too long.
    count: usize,
    bytes: usize,
    /// One that is not the last is not full: no such frame can be put together.
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
    /// What it posts, if that is not of the switch's memory.
    own: Option<BounceBuffers>,
    lent: Arc<RingOwnership>,
    policy: FillPolicy,
    /// Chunks in the fill ring, in the RX ring, and between the two, and those of a frame that has
    /// not come whole yet.
    held: usize,
    /// Frames that the last call left in the RX ring.
    waiting: u32,
    /// Received frames that were not posted.
    stray: u64,
    /// The frame of several chunks of which the last has not come yet. They are still held, and the
    /// RX ring's.
    partial: Partial,
    /// Received frames longer than any that a port takes in, and the length of the longest since it
    /// was last asked for.
    too_long: u64,
    longest_bytes: u32,
    batch: Box<[FrameDesc; BATCH]>,
}

impl Receiver {
    /// The fewest and the most frames that one queue may hold posted, of a memory of `frames`,
    /// where the user wants `setup`.
    pub(crate) fn bounds(frames: usize, setup: &PortConfig) -> (u32, u32) {
        let part = ((frames / MEMORY_PART) as u32).max(1);
        let most =
            if setup.min_posted > FLOOR_FRAMES { setup.max_posted } else { setup.max_posted.min(part) };
        (setup.min_posted, most)
    }

    /// The receiving half of a socket, which holds nothing yet and keeps at least and at most so
    /// many posted; these are `lent`.
    pub(crate) fn new(
        (rx, fill): (RxQueue, FillQueue),
        own: Option<BounceBuffers>,
        (mode, lent): (Mode, Arc<RingOwnership>),
        (least, most): (u32, u32),
    ) -> Receiver {
        let batch = Box::new([FrameDesc::default(); BATCH]);
        Receiver {
            rx,
            fill,
            mode,
            own,
            lent,
            policy: FillPolicy::new(least, most),
            held: 0,
            waiting: 0,
            stray: 0,
            partial: Partial::new(),
            too_long: 0,
            longest_bytes: 0,
            batch,
        }
    }

    /// It keeps so many posted from now on, at least and at most.
    pub(crate) fn set_bounds(&mut self, (least, most): (u32, u32)) {
        self.policy.set_bounds(least, most);
    }

    pub(crate) fn socket(&self) -> &Fd {
        self.rx.fd()
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.rx.fd().as_raw_fd()
    }

    /// Chunks of the switch's memory in the fill ring, in the RX ring, and between the two.
    pub(crate) fn held(&self) -> usize {
        // Of a memory of its own, those of the switch's that the first chunks of a frame were copied into.
        if self.own.is_some() { self.partial.count.min(MAX_CHUNKS) } else { self.held }
    }

    /// Posts the frames that the policy wants, before any has come.
    pub(crate) fn post_first(&mut self, umem: &mut Umem) {
        self.post(umem, 0);
    }

    /// Posts frames by need, then takes at most `max` received ones, appended to `out`. Returns how
    /// many; a frame of several chunks counts as so many, here and in all that is about rings.
    pub(crate) fn receive(
        &mut self,
        umem: &mut Umem,
        now: Instant,
        max: usize,
        out: &mut Vec<RxDesc>,
    ) -> usize {
        let waiting = self.rx.nb_avail_exact();
        let (posted, memory_short) = self.post(umem, waiting as usize);
        let may_take = match &self.own {
            Some(_) => max.min(umem.free_frames()), // the rest has a place to wait, the RX ring
            None if memory_short => max.min(posted.max(TRICKLE)),
            None => max,
        };
        let taken = self.take(umem, may_take.min(waiting as usize), out);
        self.policy.observe(now, waiting, taken as u32);
        self.waiting = waiting - taken as u32;
        taken
    }

    /// Takes out of the RX ring all that is in it, for its socket is to be closed. How many frames
    /// these are; their chunks stay the ring's.
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

    /// Frames longer than any that a port takes in: put back, and counted here.
    pub(crate) fn too_long(&self) -> u64 {
        self.too_long
    }

    /// The length of the longest of them since this was last asked; 0 if there were none.
    pub(crate) fn take_longest(&mut self) -> u32 {
        std::mem::take(&mut self.longest_bytes)
    }

    /// Frames that the last call of `receive` left in the RX ring.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Received frames that the port had not posted: ignored, and counted here.
    pub(crate) fn stray(&self) -> u64 {
        self.stray
    }

    /// Posts frames until the kernel has as many empty ones as the policy wants, given that
    /// `waiting` of those held are full. Returns how many it posted, and whether memory was
    /// short.
    fn post(&mut self, umem: &mut Umem, waiting: usize) -> (usize, bool) {
        let empty = self.held - waiting;
        let want = (self.policy.target() as usize).saturating_sub(empty).min(RX_RING as usize - self.held);
        // The kernel publishes received frames a moment before it gives back their places in the fill ring.
        let want = want.min(self.fill.nb_free(want as u32) as usize);
        let mut posted = 0;
        while posted < want {
            let room = BATCH.min(want - posted);
            let taken = match &mut self.own {
                Some(own) => own.take_for_fill(&mut self.batch[..room]),
                None => umem.take_for_fill(&self.lent, &mut self.batch[..room]),
            };
            // SAFETY: the descriptors are of the socket's UMEM, their frames were free until now, and there
            // is room for them.
            let produced = unsafe { self.fill.produce(&self.batch[..taken]) };
            debug_assert_eq!(produced, taken, "the fill ring had no room");
            posted += taken;
            if taken < room {
                break;
            }
        }
        self.held += posted;
        if self.mode.zero_copy && self.held > waiting && self.fill.needs_wakeup() {
            wake_receiver(self.fd()); // it found nothing posted, and does not look again by itself
        }
        (posted, posted < want)
    }

    /// Takes `count` frames, which are there, from the RX ring.
    fn take(&mut self, umem: &mut Umem, count: usize, out: &mut Vec<RxDesc>) -> usize {
        let mut taken = 0;
        while taken < count {
            let room = BATCH.min(count - taken);
            // SAFETY: RX ring and descriptors are of this one UMEM.
            let consumed = unsafe { self.rx.consume(&mut self.batch[..room]) };
            for at in 0..consumed {
                let mut desc = self.batch[at];
                let mut is_part = desc.has_more_frames() || self.partial.count > 0;
                if let Some(own) = &mut self.own {
                    let Some(brought) = own.bring_in(&desc, umem, &self.lent) else {
                        self.stray += 1;
                        self.partial.has_gap |= is_part;
                        continue;
                    };
                    desc = brought;
                    is_part |= self.partial.has_gap;
                }
                if is_part {
                    self.take_part(umem, desc, out);
                } else if let Some(received) = umem.take_received(&desc, &self.lent) {
                    self.held -= 1;
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

    /// One more chunk of a frame that has several; with the last of them the frame is taken.
    #[cold]
    fn take_part(&mut self, umem: &mut Umem, desc: FrameDesc, out: &mut Vec<RxDesc>) {
        let is_last = !desc.has_more_frames();
        let partial = &mut self.partial;
        partial.bytes += desc.lengths().data();
        partial.has_gap |= !is_last && desc.lengths().data() != umem.chunk_bytes();
        if let Some(place) = partial.chunks.get_mut(partial.count) {
            *place = desc;
        } else if umem.drop_received(&desc, &self.lent) {
            self.held -= 1;
        }
        partial.count += 1;
        if is_last {
            let partial = std::mem::replace(&mut self.partial, Partial::new());
            self.take_whole(umem, partial, out);
        }
    }

    /// A frame of several chunks, of which all have come.
    fn take_whole(&mut self, umem: &mut Umem, partial: Partial, out: &mut Vec<RxDesc>) {
        let Partial { chunks, count, bytes, has_gap } = partial;
        let chunks = &chunks[..count.min(MAX_CHUNKS)];
        let is_too_long = count > MAX_CHUNKS || bytes > LONGEST_RECEIVED_BYTES;
        if !is_too_long && !has_gap {
            let (received, posted) = umem.take_chain(chunks, bytes, &self.lent);
            self.held -= posted;
            self.stray += u64::from(received.is_none());
            out.extend(received);
            return;
        }
        self.held -= chunks.iter().filter(|desc| umem.drop_received(desc, &self.lent)).count();
        if is_too_long {
            self.too_long += 1;
            self.longest_bytes = self.longest_bytes.max(bytes as u32);
        } else {
            self.stray += 1;
        }
    }
}
