//! What `dataplane` and `virtio` have under this name, with atomics of `loom`, for the models of
//! both. Bounded queues are behind a lock: what is tested is the rule on top of them.

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
