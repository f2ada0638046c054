//! Split virtqueues, the driver's side.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::memory::{GuestMemory, RingArea};
use crate::ring::{DESC_BYTES, RingConfig};

const RING_HEADER: usize = 4;
const INDEX: usize = 2;
const NO_INTERRUPT: u16 = 1;
const NO_NOTIFY: u16 = 1;

/// A virtqueue as the driver sees it.
#[derive(Debug)]
pub struct DriverQueue {
    descriptors: RingArea,
    available: RingArea,
    used: RingArea,
    config: RingConfig,
    next_available: u16,
    /// The available index when the device was last notified, or need not be.
    notified: u16,
    seen_used: u16,
}

impl DriverQueue {
    /// Returns the bytes of a ring's three parts, each of which begins at a multiple of 64.
    pub fn bytes(size: u16) -> u64 {
        let size = u64::from(size);
        (size * 16) + (size * 2 + 6).next_multiple_of(64) + (size * 8 + 6).next_multiple_of(64)
    }

    /// Lays out a ring of `size` descriptors from `user_addr` on.
    pub fn layout(size: u16, user_addr: u64) -> RingConfig {
        let descriptors = user_addr;
        let available = descriptors + (u64::from(size) * 16).next_multiple_of(64);
        let used = available + (u64::from(size) * 2 + 6).next_multiple_of(64);
        RingConfig { size, descriptors, available, used, ..RingConfig::default() }
    }

    /// Makes the driver's side of a ring; `None` if it is not in the memory.
    pub fn new(memory: &Arc<GuestMemory>, config: &RingConfig) -> Option<Self> {
        let size = usize::from(config.size);
        Some(Self {
            descriptors: memory.ring_area(config.descriptors, size * DESC_BYTES, 16)?,
            available: memory.ring_area(config.available, size * 2 + 6, 2)?,
            used: memory.ring_area(config.used, size * 8 + 6, 4)?,
            config: *config,
            next_available: config.base,
            notified: config.base,
            seen_used: config.base,
        })
    }

    /// Has the next device go on after what was used last.
    pub fn resume(&mut self) {
        self.config.base = self.used.load_u16(INDEX, Ordering::Acquire);
    }

    /// Returns where the ring is.
    pub fn config(&self) -> &RingConfig {
        &self.config
    }

    /// Sets where a buffer is, and what it is chained to.
    pub fn write_descriptor(&self, index: u16, addr: u64, (len, flags, next): (u32, u16, u16)) {
        let rest = u64::from(len) | u64::from(flags) << 32 | u64::from(next) << 48;
        self.descriptors.store_u64(usize::from(index) * DESC_BYTES, addr);
        self.descriptors.store_u64(usize::from(index) * DESC_BYTES + 8, rest);
    }

    /// Makes a chain available. The device sees it with [`DriverQueue::publish`].
    pub fn push(&mut self, head: u16) {
        let slot = usize::from(self.next_available & (self.config.size - 1));
        self.available.store_u16(RING_HEADER + slot * 2, head, Ordering::Relaxed);
        self.next_available = self.next_available.wrapping_add(1);
    }

    /// Shows the device the available chains. Returns true if it wants a kick.
    pub fn publish(&mut self) -> bool {
        self.set_available_index(self.next_available);
        fence(Ordering::SeqCst);
        let before = std::mem::replace(&mut self.notified, self.next_available);
        if self.config.event_index {
            let at = RING_HEADER + usize::from(self.config.size) * 8;
            let event = self.used.load_u16(at, Ordering::Relaxed);
            let now = self.next_available;
            return now.wrapping_sub(event).wrapping_sub(1) < now.wrapping_sub(before);
        }
        self.used.load_u16(0, Ordering::Relaxed) & NO_NOTIFY == 0
    }

    /// Sets the available index, also to one that is wrong.
    pub fn set_available_index(&self, index: u16) {
        self.available.store_u16(INDEX, index, Ordering::Release);
    }

    /// Takes the next used chain: its head and the bytes written.
    pub fn pop_used(&mut self) -> Option<(u32, u32)> {
        if self.used.load_u16(INDEX, Ordering::Acquire) == self.seen_used {
            return None;
        }
        let slot = usize::from(self.seen_used & (self.config.size - 1));
        self.seen_used = self.seen_used.wrapping_add(1);
        Some(self.used.load_used(RING_HEADER + slot * 8))
    }

    /// True if a used chain is there.
    pub fn has_used(&self) -> bool {
        self.used.load_u16(INDEX, Ordering::Acquire) != self.seen_used
    }

    /// Sets whether an interrupt is wanted with the next used chain.
    pub fn set_interrupts(&mut self, wanted: bool) {
        if self.config.event_index {
            let event = if wanted { self.seen_used } else { self.seen_used.wrapping_sub(1) };
            let at = RING_HEADER + usize::from(self.config.size) * 2;
            self.available.store_u16(at, event, Ordering::Relaxed);
        } else {
            self.available.store_u16(0, if wanted { 0 } else { NO_INTERRUPT }, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }
}
