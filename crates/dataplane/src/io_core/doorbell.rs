//! A doorbell: wakes a loop that sleeps, and costs next to nothing while it is awake.
//!
//! Rule: the sleeper says that it lies down, looks once more whether something has been left for
//! it, and only then sleeps. Whoever leaves something does so first, and then looks whether the
//! sleeper lies. In between both have a fence: of two who each write and then read what the other
//! writes, at least one sees the other's (Dekker), so nothing is left lying beside a sleeper.
//!
//! `tests/doorbell.rs` tries all orders of both, with `loom`.

use crate::atomics::{AtomicBool, Ordering, fence};
use std::task::Waker;

/// The doorbell of one loop.
#[derive(Debug)]
pub struct Doorbell {
    lies: AtomicBool,
    waker: Waker,
}

impl Doorbell {
    /// The doorbell of a loop that is awake, and is woken by `waker`, now or when it next sleeps.
    pub fn new(waker: Waker) -> Self {
        Self { lies: AtomicBool::new(false), waker }
    }

    /// The loop lies down. It must look once more before it sleeps.
    pub fn prepare_sleep(&self) {
        self.lies.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The loop is awake.
    pub fn cancel_sleep(&self) {
        self.lies.store(false, Ordering::Relaxed);
    }

    /// Something has been left for the loop: wakes it if it lies.
    #[inline]
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.lies.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.lies.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.waker.wake_by_ref();
        }
    }
}

impl Default for Doorbell {
    /// Of a loop that nobody need wake.
    fn default() -> Self {
        Self::new(Waker::noop().clone())
    }
}
