//! Split virtqueues, the device's side.
//!
//! Rule: the guest owns the descriptors and the available ring, and the switch the used ring; both
//! are in the guest's memory. A number that the guest wrote is read once into a local, checked, and
//! then used, so a guest that changes it in between changes nothing. A chain has at most
//! [`MAX_SEGMENTS`] descriptors, which bounds the work for it. A guest that breaks the rules stops
//! its own ring only. Source: Virtual I/O Device 1.2, 2.7 "Split Virtqueues"; docs/vhost-user.md,
//! "Hostile guests".

pub(crate) mod chain;
pub mod fault;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::memory::{GuestBytes, GuestMemory, RingArea};
pub(crate) use crate::ring::chain::DESC_BYTES;
pub use crate::ring::chain::MAX_SEGMENTS;
use crate::ring::chain::{Chain, Descriptor, Direction};
use crate::ring::fault::RingFault;

/// The most queue pairs of a port: one for each priority.
pub const MAX_PAIRS: usize = 8;
/// The most rings of a port.
pub const MAX_RINGS: usize = 2 * MAX_PAIRS;

/// The largest ring of the standard.
pub const MAX_RING: u16 = 32768;
/// The most posted buffers that one frame is spread over.
pub(crate) const MAX_BUFFERS: usize = 64;

/// Bytes of a used entry.
const USED_BYTES: usize = 8;
/// Bytes before the entries of an available or used ring: flags and index.
const RING_HEADER: usize = 4;
/// Offset of the index.
const INDEX: usize = 2;
/// Entries after which an event index that is not wanted is put behind the guest's index again.
const FAR: u16 = 1 << 14;
/// The most entries that are read ahead of their use.
const AHEAD: usize = 64;
/// How many buffers are being fetched ahead of the entry that is popped next. A core has few
/// requests to another core's cache under way at once, and waits if it makes more.
const FETCHED_AHEAD: usize = 6;
/// Used entries of a cache line.
const USED_OF_A_LINE: usize = 64 / USED_BYTES;
/// Flag of the available ring: the guest wants no interrupt.
const NO_INTERRUPT: u16 = 1;
/// Flag of the used ring: the device wants no kick.
const NO_NOTIFY: u16 = 1;

/// The configuration of a ring, as the front end sends it. Addresses are those of the front end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingConfig {
    /// Number of descriptors, a power of two.
    pub size: u16,
    /// Address of the descriptors.
    pub descriptors: u64,
    /// Address of the available ring.
    pub available: u64,
    /// Address of the used ring.
    pub used: u64,
    /// The first available entry to process.
    pub base: u16,
    /// Both sides say at which index they want to be notified.
    pub event_index: bool,
    /// Chains may be in tables of descriptors.
    pub indirect: bool,
}

/// A ring that cannot be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The size is 0, no power of two, or more than the standard has.
    #[error("a ring of {0} descriptors: the size must be a power of two up to 32768")]
    BadSize(u32),
    /// A part of the ring is not in the guest's memory, or not aligned.
    #[error("the {part} of a ring at {addr:#x} are not in one memory region, or not aligned")]
    BadAddress {
        /// The part of the ring.
        part: &'static str,
        /// Its address.
        addr: u64,
    },
}

/// An index of a ring, stored as 32 bits. The compiler may load a field of 16 bits together with
/// its neighbor, and a load that is wider than a recent store waits until that store is in the
/// cache, after all earlier stores to the guest's memory.
#[derive(Debug, Clone, Copy)]
struct Index(u32);

impl Index {
    fn new(index: u16) -> Self {
        Self(index.into())
    }

    #[inline]
    fn get(self) -> u16 {
        self.0 as u16
    }

    /// Moves it by a number of entries, which wraps around.
    #[inline]
    fn advance(&mut self, entries: u16) {
        self.0 = u32::from(self.get().wrapping_add(entries));
    }
}

/// Available entries that were read ahead of their use, from the next one on. Their descriptors and
/// buffers come from the cache of the guest's core. So the requests for all descriptors are made
/// before the first is waited for, and those for buffers a few entries ahead of their use, so that
/// they are under way while other frames are copied.
#[derive(Debug)]
struct Ahead {
    entries: Box<[Entry; AHEAD]>,
    next: usize,
    end: usize,
    /// The first one whose buffer is not fetched.
    fetched: usize,
}

/// An available entry: its head, and the first descriptor of its chain, each as read once.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    head: u16,
    first: Descriptor,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { entries: Box::new([Entry::default(); AHEAD]), next: 0, end: 0, fetched: 0 }
    }
}

/// A split virtqueue.
#[derive(Debug)]
pub struct Queue {
    descriptors: RingArea,
    available: RingArea,
    used: RingArea,
    size: u16,
    event_index: bool,
    indirect: bool,
    /// The next available entry to process.
    next_available: Index,
    /// The guest's available index, as last read.
    seen_available: Index,
    /// The next used entry to write.
    next_used: Index,
    /// The used index that the guest sees.
    published: Index,
    /// True while kicks are wanted.
    armed: bool,
    /// The event index, at which the guest kicks, as last written.
    event_at: u16,
    stopped: Option<RingFault>,
    ahead: Ahead,
    chain: Chain,
}

impl Queue {
    /// Starts a ring in a guest's memory.
    ///
    /// # Errors
    /// The size is none, or a part of the ring is not in the memory.
    pub fn new(memory: &Arc<GuestMemory>, config: &RingConfig) -> Result<Self, RingError> {
        let RingConfig { size, .. } = *config;
        if !size.is_power_of_two() || size > MAX_RING {
            return Err(RingError::BadSize(size.into()));
        }
        let entries = usize::from(size);
        let area = |part, addr, len, align| {
            memory.ring_area(addr, len, align).ok_or(RingError::BadAddress { part, addr })
        };
        let event = 2;
        let descriptors = area("descriptors", config.descriptors, entries * DESC_BYTES, 16)?;
        let available = area("available entries", config.available, RING_HEADER + entries * 2 + event, 2)?;
        let used = area("used entries", config.used, RING_HEADER + entries * USED_BYTES + event, 4)?;
        // What the guest has seen of the used ring is where the device continues.
        let next_used = used.load_u16(INDEX, Ordering::Acquire);
        let mut queue = Self {
            descriptors,
            available,
            used,
            size,
            event_index: config.event_index,
            indirect: config.indirect,
            next_available: Index::new(config.base),
            seen_available: Index::new(config.base),
            next_used: Index::new(next_used),
            published: Index::new(next_used),
            armed: true,
            event_at: 0,
            stopped: None,
            ahead: Ahead::default(),
            chain: Chain::default(),
        };
        queue.disarm();
        Ok(queue)
    }

    /// Returns the next available entry to process: what a front end continues with.
    pub fn base(&self) -> u16 {
        self.next_available.get()
    }

    /// Returns why the ring is stopped, if it is.
    #[inline]
    pub fn stopped(&self) -> Option<RingFault> {
        self.stopped
    }

    /// Stops the ring until it is configured again.
    pub(crate) fn stop(&mut self, fault: RingFault) {
        self.stopped = self.stopped.or(Some(fault));
        self.seen_available = self.next_available;
    }

    /// Returns the number of available entries, after a look at the guest's index.
    ///
    /// # Errors
    /// The index is further ahead than the ring is long.
    #[inline]
    pub fn available(&mut self) -> Result<u16, RingFault> {
        if self.stopped.is_some() {
            return Ok(0);
        }
        let index = self.available.load_u16(INDEX, Ordering::Acquire);
        let count = index.wrapping_sub(self.next_available.get());
        if count > self.size {
            return Err(RingFault::IndexJump);
        }
        self.seen_available = Index::new(index);
        Ok(count)
    }

    /// Returns the number of available entries as last read.
    #[inline]
    pub fn seen(&self) -> u16 {
        self.seen_available.get().wrapping_sub(self.next_available.get())
    }

    /// True if an entry is available that no call has seen. For a look before a sleep.
    pub fn has_news(&self) -> bool {
        self.stopped.is_none()
            && self.available.load_u16(INDEX, Ordering::Acquire) != self.next_available.get()
    }

    /// Takes the next available chain of those last seen, and returns its head and the number of
    /// its bytes. The segments are read with [`Queue::read`] and written with [`Queue::write`].
    ///
    /// # Errors
    /// The chain breaks the rules of the standard. Its head is then lost to the guest.
    #[inline]
    pub(crate) fn pop(&mut self, direction: Direction) -> Result<Option<(u16, u32)>, RingFault> {
        if self.seen() == 0 {
            return Ok(None);
        }
        if self.ahead.next == self.ahead.end {
            self.read_ahead(direction);
        }
        if self.ahead.fetched < self.ahead.end {
            self.fetch_buffer(direction);
        }
        #[expect(clippy::indexing_slicing, reason = "a remainder")]
        let Entry { head, first } = self.ahead.entries[self.ahead.next % AHEAD];
        if head >= self.size {
            return Err(RingFault::HeadOutOfRange);
        }
        self.ahead.next += 1;
        self.next_available.advance(1);
        let bytes = self.chain.read(&self.descriptors, (self.size, first), self.indirect, direction)?;
        Ok(Some((head, bytes)))
    }

    /// Reads entries ahead if few are left, so that the cache fetches what they need while the
    /// caller does other work.
    #[inline]
    pub(crate) fn look_ahead(&mut self, direction: Direction) {
        let left = self.ahead.end - self.ahead.next;
        if left < AHEAD / 2 && left < self.seen().into() {
            self.read_ahead(direction);
        }
    }

    /// Reads more of the entries last seen, after those that are left, and has the cache fetch what
    /// they need: all heads first, then the descriptors, then the first buffers.
    #[inline(never)]
    #[expect(clippy::indexing_slicing, reason = "no more than there are entries")]
    fn read_ahead(&mut self, direction: Direction) {
        let seen = usize::from(self.seen());
        let Self { ahead, descriptors, available, used, .. } = self;
        ahead.entries.copy_within(ahead.next..ahead.end, 0);
        let begin = ahead.end - ahead.next;
        let end = AHEAD.min(seen);
        debug_assert!(begin <= end, "fewer are left than are available and can be held");
        let mask = self.size - 1;
        let slot = |index: Index, n: usize| usize::from(index.get().wrapping_add(n as u16) & mask);
        for n in begin..end {
            let entry = &mut ahead.entries[n];
            entry.head =
                available.load_u16(RING_HEADER + slot(self.next_available, n) * 2, Ordering::Relaxed);
            descriptors.prefetch(usize::from(entry.head & mask) * DESC_BYTES);
        }
        for n in (begin..end + USED_OF_A_LINE).step_by(USED_OF_A_LINE) {
            used.prefetch_to_write(RING_HEADER + slot(self.next_used, n) * USED_BYTES);
        }
        for entry in &mut ahead.entries[begin..end] {
            // A head that does not exist is a fault when it is popped.
            entry.first = Descriptor::read(descriptors, entry.head & mask);
        }
        ahead.fetched -= ahead.next;
        (ahead.next, ahead.end) = (0, end);
        while self.ahead.fetched < end.min(FETCHED_AHEAD) {
            self.fetch_buffer(direction);
        }
    }

    /// Has the cache fetch the buffer of the next entry whose buffer it does not have.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a remainder")]
    fn fetch_buffer(&mut self, direction: Direction) {
        let Entry { first, .. } = self.ahead.entries[self.ahead.fetched % AHEAD];
        self.ahead.fetched += 1;
        self.descriptors.memory().prefetch(first.addr, direction == Direction::ToGuest);
    }

    /// Returns the bytes of the popped chain, if it is one segment.
    ///
    /// # Errors
    /// The segment is not in the guest's memory.
    #[inline]
    pub(crate) fn single(&self) -> Result<Option<GuestBytes<'_>>, RingFault> {
        let Some((addr, len)) = self.chain.single() else { return Ok(None) };
        self.memory().at_guest(addr, len).map(Some).ok_or(RingFault::BadAddress)
    }

    /// Gives chains back that were popped last and are not used.
    #[inline]
    pub(crate) fn unpop(&mut self, chains: u16) {
        self.next_available.advance(chains.wrapping_neg());
        // Entries that were read ahead remain as they were read, unless others have replaced them.
        match self.ahead.next.checked_sub(chains.into()) {
            Some(next) => self.ahead.next = next,
            None => (self.ahead.next, self.ahead.end, self.ahead.fetched) = (0, 0, 0),
        }
    }

    /// Copies bytes of the popped chain from `skip` on.
    ///
    /// # Errors
    /// A segment is not in the guest's memory.
    #[inline]
    pub(crate) fn read(&self, skip: usize, to: &mut [u8]) -> Result<(), RingFault> {
        self.chain.copy_out(self.descriptors.memory(), skip, to)
    }

    /// Copies bytes to the popped chain from `skip` on, as many as fit. Returns how many.
    ///
    /// # Errors
    /// A segment is not in the guest's memory.
    #[inline]
    pub(crate) fn write(&self, skip: usize, from: &[u8]) -> Result<usize, RingFault> {
        self.chain.copy_in(self.descriptors.memory(), skip, from)
    }

    /// Returns the address of the first segment of the popped chain, and its length.
    #[inline]
    pub(crate) fn first_segment(&self) -> (u64, u32) {
        self.chain.first()
    }

    /// Returns the descriptors of the ring that the popped chain takes.
    pub(crate) fn chain_descriptors(&self) -> usize {
        self.chain.descriptors()
    }

    /// Returns the guest's memory.
    #[inline]
    pub(crate) fn memory(&self) -> &GuestMemory {
        self.descriptors.memory()
    }

    /// Gives a chain back to the guest, with the number of bytes written. The guest sees it with
    /// [`Queue::publish`].
    #[inline]
    pub(crate) fn push_used(&mut self, head: u16, written: u32) {
        let slot = usize::from(self.next_used.get() & (self.size - 1));
        self.used.store_used(RING_HEADER + slot * USED_BYTES, head.into(), written);
        self.next_used.advance(1);
    }

    /// Shows the guest the used entries. Returns true if it wants an interrupt for them.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        let (before, now) = (self.published.get(), self.next_used.get());
        if before == now {
            return false;
        }
        self.used.store_u16(INDEX, now, Ordering::Release);
        self.published = self.next_used;
        fence(Ordering::SeqCst); // the guest's wish is read after it can see the entries
        if self.event_index {
            let event = self.available.load_u16(self.used_event(), Ordering::Relaxed);
            return now.wrapping_sub(event).wrapping_sub(1) < now.wrapping_sub(before);
        }
        self.available.load_u16(0, Ordering::Relaxed) & NO_INTERRUPT == 0
    }

    /// Asks for a kick with the next available entry. [`Queue::has_news`] must be checked after it.
    pub(crate) fn arm(&mut self) {
        self.armed = true;
        if self.event_index {
            self.used.store_u16(self.available_event(), self.next_available.get(), Ordering::Relaxed);
        } else {
            self.used.store_u16(0, 0, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst); // the index is read after the guest can see the wish
    }

    /// Asks for no kicks.
    pub(crate) fn disarm(&mut self) {
        if !std::mem::replace(&mut self.armed, false) {
            return;
        }
        if self.event_index {
            self.put_event_far();
        } else {
            self.used.store_u16(0, NO_NOTIFY, Ordering::Relaxed);
        }
    }

    /// Keeps the event index, at which the guest kicks, far away while no kicks are wanted.
    #[inline]
    pub(crate) fn keep_disarmed(&mut self) {
        if self.event_index && !self.armed && self.next_available.get().wrapping_sub(self.event_at) > FAR {
            self.put_event_far();
        }
    }

    /// Puts the event index, which the guest's index must pass for a kick, just behind it.
    fn put_event_far(&mut self) {
        self.event_at = self.next_available.get().wrapping_sub(1);
        self.used.store_u16(self.available_event(), self.event_at, Ordering::Relaxed);
    }

    /// Returns the number of descriptors.
    #[inline]
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// True if the guest has made more entries available than were last seen.
    pub(crate) fn has_more_than_seen(&self) -> bool {
        self.stopped.is_none()
            && self.available.load_u16(INDEX, Ordering::Acquire) != self.seen_available.get()
    }

    /// Offset of the index at which the guest wants an interrupt, in the available ring.
    fn used_event(&self) -> usize {
        RING_HEADER + usize::from(self.size) * 2
    }

    /// Offset of the index at which the device wants a kick, in the used ring.
    fn available_event(&self) -> usize {
        RING_HEADER + usize::from(self.size) * USED_BYTES
    }
}
