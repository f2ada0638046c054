//! The receiving half of a socket: the fill ring, into which frames are posted, and the RX ring, out of which they come.

use std::os::fd::{AsRawFd, RawFd};

use switch::{Instant, Received};
use xsk_rs::socket::Fd;
use xsk_rs::{FillQueue, FrameDesc, RxQueue};

use crate::fill::{FLOOR_FRAMES, FillPolicy};
use crate::port::PortSetup;
use crate::umem::{FILL_RING, Umem};

/// Entries of each RX ring: what a full fill ring can deliver, while as much again is posted before that is taken.
pub(crate) const RX_RING: u32 = 2 * FILL_RING;
/// Descriptors that go through a ring at once.
pub(crate) const BATCH: usize = 256;

/// Frames that are taken at a time although memory has no replacement for them. Waiting for memory alone could be in vain:
/// what frees it may be the XON among these very frames.
const TRICKLE: usize = 32;
/// One queue posts at most this part of the memory, so that others, and the user, have theirs.
const MEMORY_PART: usize = 8;

/// An RX queue of a port.
pub(crate) struct Receiver {
    rx: RxQueue,
    fill: FillQueue,
    port: u8,
    policy: FillPolicy,
    /// Frames in the fill ring, in the RX ring, and between the two.
    held: usize,
    /// Frames that the last call left in the RX ring.
    waiting: u32,
    /// Received frames that were not posted.
    stray: u64,
    batch: Box<[FrameDesc; BATCH]>,
}

impl Receiver {
    /// The fewest and the most frames that one queue may hold posted, of a memory of `frames`, where the user wants
    /// `setup`.
    pub(crate) fn bounds(frames: usize, setup: &PortSetup) -> (u32, u32) {
        let part = ((frames / MEMORY_PART) as u32).max(1);
        let most =
            if setup.min_posted > FLOOR_FRAMES { setup.max_posted } else { setup.max_posted.min(part) };
        (setup.min_posted, most)
    }

    /// The receiving half of a socket of `port`, which holds nothing yet and keeps at least and at most so many posted.
    pub(crate) fn new(rx: RxQueue, fill: FillQueue, port: u8, (least, most): (u32, u32)) -> Receiver {
        let batch = Box::new([FrameDesc::default(); BATCH]);
        Receiver {
            rx,
            fill,
            port,
            policy: FillPolicy::new(least, most),
            held: 0,
            waiting: 0,
            stray: 0,
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

    /// Frames in the fill ring, in the RX ring, and between the two.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Posts the frames that the policy wants, before any has come.
    pub(crate) fn post_first(&mut self, umem: &mut Umem) {
        self.post(umem, 0);
    }

    /// Posts frames by need, then takes at most `max` received ones, appended to `out`. Returns how many.
    pub(crate) fn receive(
        &mut self,
        umem: &mut Umem,
        now: Instant,
        max: usize,
        out: &mut Vec<Received>,
    ) -> usize {
        let waiting = self.rx.nb_avail_exact();
        let (posted, memory_short) = self.post(umem, waiting as usize);
        let may_take = if memory_short { max.min(posted.max(TRICKLE)) } else { max };
        let taken = self.take(umem, may_take.min(waiting as usize), out);
        self.policy.observe(now, waiting, taken as u32);
        self.waiting = waiting - taken as u32;
        taken
    }

    /// Frames that are in the RX ring now.
    pub(crate) fn in_ring(&mut self) -> u32 {
        self.rx.nb_avail_exact()
    }

    /// Frames that the last call of `receive` left in the RX ring.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Received frames that the port had not posted: ignored, and counted here.
    pub(crate) fn stray(&self) -> u64 {
        self.stray
    }

    /// Posts frames until the kernel has as many empty ones as the policy wants, given that `waiting` of those held are
    /// full. Returns how many it posted, and whether memory was short.
    fn post(&mut self, umem: &mut Umem, waiting: usize) -> (usize, bool) {
        let empty = self.held - waiting;
        let want = (self.policy.target() as usize).saturating_sub(empty).min(RX_RING as usize - self.held);
        // The kernel publishes received frames a moment before it gives back their places in the fill ring.
        let want = want.min(self.fill.nb_free(want as u32) as usize);
        let mut posted = 0;
        while posted < want {
            let room = BATCH.min(want - posted);
            let taken = umem.take_for_fill(self.port, &mut self.batch[..room]);
            // SAFETY: the descriptors are of this UMEM, their frames were free until now, and there is room for them.
            let produced = unsafe { self.fill.produce(&self.batch[..taken]) };
            debug_assert_eq!(produced, taken, "the fill ring had no room");
            posted += taken;
            if taken < room {
                break;
            }
        }
        self.held += posted;
        (posted, posted < want)
    }

    /// Takes `count` frames, which are there, from the RX ring.
    fn take(&mut self, umem: &mut Umem, count: usize, out: &mut Vec<Received>) -> usize {
        let mut taken = 0;
        while taken < count {
            let room = BATCH.min(count - taken);
            // SAFETY: RX ring and descriptors are of this one UMEM.
            let consumed = unsafe { self.rx.consume(&mut self.batch[..room]) };
            let before = out.len();
            out.extend(self.batch[..consumed].iter().filter_map(|desc| umem.take_received(desc, self.port)));
            self.held -= out.len() - before;
            self.stray += (consumed - (out.len() - before)) as u64;
            taken += consumed;
            if consumed == 0 {
                break;
            }
        }
        taken
    }
}
