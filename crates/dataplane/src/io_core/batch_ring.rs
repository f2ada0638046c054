//! A belt between two loops: things go from one to the other in batches, without either ever
//! waiting.
//!
//! Rule: one side puts batches on, the other takes them off, in the same order. There are as many
//! batches as at the start, full or empty, so a belt is bounded and nothing is allocated; where
//! none is empty, whoever wants to put something on keeps it, and tries again later. Source:
//! docs/multi-core.md, "Belts".

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crossbeam::queue::ArrayQueue;

/// A belt for things of one kind. Each batch has a note, for what is to be said of all in it.
#[derive(Debug)]
pub(crate) struct BatchRing<T> {
    full: ArrayQueue<(u32, Vec<T>)>,
    empty: ArrayQueue<Vec<T>>,
    /// Things on it.
    things: AtomicUsize,
    of_a_batch: usize,
}

impl<T> BatchRing<T> {
    /// A belt of `batches` batches, each with room for `of_a_batch` things.
    pub(crate) fn new(batches: usize, of_a_batch: usize) -> Self {
        let belt = Self {
            full: ArrayQueue::new(batches),
            empty: ArrayQueue::new(batches),
            things: AtomicUsize::new(0),
            of_a_batch,
        };
        for _ in 0..batches {
            belt.give_back(Vec::with_capacity(of_a_batch));
        }
        belt
    }

    /// Batches that can be put on now.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.empty.len()
    }

    /// Batches on it.
    pub(crate) fn batches(&self) -> usize {
        self.full.len()
    }

    /// Nothing is on it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    /// Things on it.
    #[inline]
    pub(crate) fn things(&self) -> usize {
        self.things.load(Relaxed)
    }

    /// Puts on the first of `things`, as many as one batch holds, or none, with a note. False, and
    /// nothing has changed: no batch is empty.
    #[inline]
    pub(crate) fn put(&self, note: u32, things: &mut Vec<T>) -> bool {
        let Some(mut batch) = self.empty.pop() else { return false };
        if things.len() <= self.of_a_batch {
            batch.append(things);
        } else {
            batch.extend(things.drain(..self.of_a_batch));
        }
        // Before they can be taken off, so that there are never less than none.
        self.things.fetch_add(batch.len(), Relaxed);
        let put = self.full.push((note, batch));
        debug_assert!(put.is_ok(), "there is a place for each batch");
        true
    }

    /// Takes the next batch off, its things appended to `out`; its note.
    #[inline]
    pub(crate) fn take(&self, out: &mut Vec<T>) -> Option<u32> {
        let (note, mut batch) = self.full.pop()?;
        self.things.fetch_sub(batch.len(), Relaxed);
        out.append(&mut batch);
        self.give_back(batch);
        Some(note)
    }

    fn give_back(&self, batch: Vec<T>) {
        let given = self.empty.push(batch);
        debug_assert!(given.is_ok(), "there is a place for each batch");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_off_in_their_order_and_a_full_belt_takes_no_more() {
        let belt = BatchRing::new(2, 3);
        let mut things: Vec<u8> = (0..9).collect();
        assert!(belt.put(7, &mut things) && belt.put(8, &mut things));
        assert!(!belt.put(9, &mut things), "two batches are there");
        assert_eq!((things.len(), belt.things(), belt.room()), (3, 6, 0));
        let mut out = vec![100];
        assert_eq!(belt.take(&mut out), Some(7));
        assert!(belt.put(9, &mut things));
        assert_eq!([belt.take(&mut out), belt.take(&mut out), belt.take(&mut out)], [Some(8), Some(9), None]);
        assert_eq!(out, [100, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((belt.things(), belt.room(), belt.is_empty()), (0, 2, true));
    }

    /// A note may go alone.
    #[test]
    fn a_batch_may_be_empty() {
        let belt = BatchRing::<u8>::new(1, 3);
        assert!(belt.put(5, &mut Vec::new()) && !belt.is_empty());
        assert_eq!((belt.take(&mut Vec::new()), belt.is_empty()), (Some(5), true));
    }
}
