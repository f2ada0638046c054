//! What loops and threads share without a lock, in every interleaving that memory models allow: the
//! same files that the loops use, with atomics of `loom`.
//!
//! Bounded queues are crossbeam's, which has its own tests. Here a queue behind a lock of `loom`
//! takes their place: what is tested is the rule on top of them. Source: docs/reliability.md,
//! "Concurrency".
#![allow(dead_code, reason = "a part of each file is enough here")]

mod batches;
mod doorbells;
mod guard_reports;

/// What `dataplane` has under this name, with atomics of `loom`.
mod shared {
    pub use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

    /// A bounded queue, as crossbeam's.
    #[derive(Debug)]
    pub struct ArrayQueue<T> {
        entries: loom::sync::Mutex<std::collections::VecDeque<T>>,
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

/// Runs a model with at most this number of preemptions; `None` for all interleavings.
fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}
