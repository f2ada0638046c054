//! A bounded ring of batches between two loops, on which neither side ever waits.
//!
//! Rule: one side pushes batches and the other pops them, in the same order. The number of batches,
//! full or empty, never changes, so the ring is bounded and nothing is allocated. When no batch is
//! empty, the producer keeps its items and tries again later. Source: docs/multi-core.md, "Batch
//! rings". `tests/interleavings/batches.rs` tests it, with all interleavings of both sides.

use crate::shared::{ArrayQueue, AtomicUsize, Ordering::Relaxed};

/// A ring of batches of one type of item. Each batch has a note, which applies to all its items.
#[derive(Debug)]
pub(crate) struct BatchRing<T> {
    full: ArrayQueue<(u32, Vec<T>)>,
    empty: ArrayQueue<Vec<T>>,
    /// Items on the ring.
    items: AtomicUsize,
    batch_capacity: usize,
}

impl<T> BatchRing<T> {
    /// Creates a ring of `batches` batches, each with room for `batch_capacity` items.
    pub(crate) fn new(batches: usize, of_a_batch: usize) -> Self {
        let ring = Self {
            full: ArrayQueue::new(batches),
            empty: ArrayQueue::new(batches),
            items: AtomicUsize::new(0),
            batch_capacity: of_a_batch,
        };
        for _ in 0..batches {
            ring.recycle(Vec::with_capacity(of_a_batch));
        }
        ring
    }

    /// Returns how many batches can be pushed now.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.empty.len()
    }

    /// Returns the number of batches on the ring.
    pub(crate) fn batches(&self) -> usize {
        self.full.len()
    }

    /// True if the ring holds no batch.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    /// Returns the number of items on the ring.
    #[inline]
    pub(crate) fn items(&self) -> usize {
        self.items.load(Relaxed)
    }

    /// Pushes the first of `items`, at most one batch and possibly none, with a note. Returns
    /// false and changes nothing if no batch is empty.
    #[inline]
    pub(crate) fn push(&self, note: u32, items: &mut Vec<T>) -> bool {
        let Some(mut batch) = self.empty.pop() else { return false };
        if items.len() <= self.batch_capacity {
            batch.append(items);
        } else {
            batch.extend(items.drain(..self.batch_capacity));
        }
        // Counted before the consumer can pop them, so that the count never falls below zero.
        self.items.fetch_add(batch.len(), Relaxed);
        let put = self.full.push((note, batch));
        debug_assert!(put.is_ok(), "there is a slot for each batch");
        true
    }

    /// Pops the next batch and appends its items to `out`. Returns the batch's note.
    #[inline]
    pub(crate) fn pop(&self, out: &mut Vec<T>) -> Option<u32> {
        let (note, mut batch) = self.full.pop()?;
        self.items.fetch_sub(batch.len(), Relaxed);
        out.append(&mut batch);
        self.recycle(batch);
        Some(note)
    }

    fn recycle(&self, batch: Vec<T>) {
        let given = self.empty.push(batch);
        debug_assert!(given.is_ok(), "there is a slot for each batch");
    }
}
