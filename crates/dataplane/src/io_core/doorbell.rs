//! A doorbell: wakes a loop that sleeps, and costs almost nothing while the loop is awake.
//!
//! Rule: the sleeper sets a flag, checks once more for work, and only then sleeps. The producer
//! publishes its work first, and then reads the flag. Both have a fence in between: of two threads
//! that each write and then read what the other writes, at least one sees the other's write
//! (Dekker). So no work is left for a sleeper.
//!
//! `tests/interleavings/doorbells.rs` tries all interleavings of both with `loom`.

use crate::shared::{AtomicBool, Ordering, fence};
use std::task::Waker;

/// The doorbell of one loop.
#[derive(Debug)]
pub struct Doorbell {
    is_asleep: AtomicBool,
    waker: Waker,
}

impl Doorbell {
    /// Creates the doorbell of a loop that is awake. `waker` wakes it, now or when it next sleeps.
    pub fn new(waker: Waker) -> Self {
        Self { is_asleep: AtomicBool::new(false), waker }
    }

    /// Announces that the loop goes to sleep. It must check for work once more before it sleeps.
    pub fn prepare_sleep(&self) {
        self.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Announces that the loop is awake.
    pub fn cancel_sleep(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
    }

    /// Announces work for the loop, and wakes it if it sleeps.
    #[inline]
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.is_asleep.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.waker.wake_by_ref();
        }
    }
}

impl Default for Doorbell {
    /// A doorbell of a loop that never needs waking.
    fn default() -> Self {
        Self::new(Waker::noop().clone())
    }
}
