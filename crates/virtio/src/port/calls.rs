//! Which rings have something for the guest, and the descriptors by which it learns of that. The
//! loop notes rings, a thread of the port writes to their descriptors, and the control thread
//! replaces these.
//!
//! Rule: a note that is made while none is there wakes the thread, which takes all notes after its
//! wakeup. The thread writes outside the lock, since a write may block, but notes under the lock to
//! which descriptor. So the control thread, once it has replaced one, sees whether the other thread
//! still uses it, and waits until it does not. `tests/interleavings.rs` tries the interleavings
//! with `loom`.

use std::sync::{Arc, PoisonError};

use crate::ring::MAX_RINGS;
use crate::shared::{AtomicU32, AtomicU64, Mutex, Ordering};

/// The notes, and the descriptors, of type `C`.
#[derive(Debug)]
pub(crate) struct Calls<C> {
    /// Rings to signal, one bit each.
    wanted: AtomicU32,
    /// The number of the descriptor that the thread writes to; 0 if to none.
    writing: AtomicU64,
    /// The descriptors by ring.
    calls: Mutex<[Option<Call<C>>; MAX_RINGS]>,
    /// How many descriptors there were.
    numbered: AtomicU64,
}

/// A descriptor of the guest.
#[derive(Debug)]
struct Call<C> {
    /// It has no other's number.
    number: u64,
    descriptor: Arc<C>,
}

impl<C> Calls<C> {
    pub(crate) fn new() -> Self {
        Self {
            wanted: AtomicU32::new(0),
            writing: AtomicU64::new(0),
            calls: Mutex::new(std::array::from_fn(|_| None)),
            numbered: AtomicU64::new(0),
        }
    }

    /// Sets the descriptor of a ring. The thread no longer writes to the one before: `unblock` is
    /// called with it until that is so.
    pub(crate) fn set(&self, ring: usize, call: Option<C>, unblock: impl Fn(&C)) {
        let number = 1 + self.numbered.fetch_add(1, Ordering::Relaxed);
        let call = call.map(|descriptor| Call { number, descriptor: Arc::new(descriptor) });
        let before =
            std::mem::replace(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner)[ring], call);
        before.iter().for_each(|before| self.wait_for(before, &unblock));
    }

    /// Forgets all descriptors, as [`Calls::set`] does.
    pub(crate) fn clear(&self, unblock: impl Fn(&C)) {
        (0..MAX_RINGS).for_each(|ring| self.set(ring, None, &unblock));
    }

    fn wait_for(&self, call: &Call<C>, unblock: impl Fn(&C)) {
        while self.writing.load(Ordering::SeqCst) == call.number {
            unblock(&call.descriptor);
        }
    }

    /// Notes rings to signal. True if the thread must be woken. Does not wait.
    #[inline]
    pub(crate) fn want(&self, rings: u32) -> bool {
        rings != 0 && self.wanted.fetch_or(rings, Ordering::AcqRel) == 0
    }

    /// Has `write` signal the rings that are noted. Called by the thread, after each wakeup.
    pub(crate) fn signal_wanted(&self, write: impl Fn(&C)) {
        let rings = self.wanted.swap(0, Ordering::AcqRel);
        for ring in (0..MAX_RINGS).filter(|ring| rings & 1 << ring != 0) {
            let descriptor = {
                let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(call) = &calls[ring] else { continue };
                self.writing.store(call.number, Ordering::SeqCst);
                Arc::clone(&call.descriptor)
            };
            write(&descriptor);
            self.writing.store(0, Ordering::SeqCst);
        }
    }
}
