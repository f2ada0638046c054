//! What `dataplane` and `virtio` have under this name, with atomics of `loom`, for the models of
//! both. Bounded queues are behind a lock: what is tested is the rule on top of them.
//!
//! Under Miri all is as in the programs, the queues too: one schedule each time, chosen at random,
//! in which a race or a value that cannot be is an error.

#[cfg(not(miri))]
pub use bounded::ArrayQueue;
#[cfg(miri)]
pub use crossbeam::queue::ArrayQueue;
#[cfg(not(miri))]
pub use loom::{sync, thread};
#[cfg(miri)]
pub use std::{sync, thread};
pub use sync::Mutex;
pub use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Runs a model with at most this number of preemptions; `None` for all interleavings.
#[cfg(not(miri))]
pub fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// Runs a model once.
#[cfg(miri)]
pub fn check(_preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    model();
}

#[cfg(not(miri))]
mod bounded {
    /// A bounded queue, as crossbeam's.
    #[derive(Debug)]
    pub struct ArrayQueue<T> {
        entries: super::sync::Mutex<std::collections::VecDeque<T>>,
        capacity: usize,
    }

    impl<T> ArrayQueue<T> {
        pub fn new(capacity: usize) -> Self {
            Self { entries: Default::default(), capacity }
        }

        pub fn push(&self, entry: T) -> Result<(), T> {
            let mut entries = self.entries.lock().unwrap();
            if entries.len() == self.capacity {
                return Err(entry);
            }
            entries.push_back(entry);
            Ok(())
        }

        pub fn pop(&self) -> Option<T> {
            self.entries.lock().unwrap().pop_front()
        }

        pub fn len(&self) -> usize {
            self.entries.lock().unwrap().len()
        }

        pub fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }
}
