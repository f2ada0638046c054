//! Frames that span several chunks of the UMEM.
//!
//! Rule: a frame longer than a chunk spans a chain of chunks. The owner of the token of the first
//! chunk owns them all. Each chunk is full except the last one with bytes of the frame; one more
//! chunk may follow, which is empty. Source: docs/kernel/af-xdp.md, "Frames in several chunks".
//!
//! Only the owner of the frame reads and writes its chain. So the rings that pass frames between
//! cores also order the changes of the chain. For a frame of one chunk, only that fact is read.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

/// The largest number of chunks of a frame: the longest frame, with a pushed tag, in chunks of the
/// small size.
pub(crate) const MAX_CHUNKS: usize = 6;
/// Replaces the next chunk after the last.
const NONE: u32 = u32::MAX;

/// The chains of all frames that span several chunks.
pub(crate) struct Chains {
    /// By chunk: it is the first of several.
    is_first: Box<[AtomicBool]>,
    /// By chunk: the next one of its frame.
    next: Box<[AtomicU32]>,
    /// By chunk: the first of its frame.
    head: Box<[AtomicU32]>,
    /// By first chunk: how many chunks of the frame are being transmitted.
    tx_chunks: Box<[AtomicU8]>,
}

impl Chains {
    /// Creates the table for a memory of `chunks` chunks; 0 if no frame will have several.
    pub(crate) fn new(chunks: usize) -> Self {
        Self {
            is_first: (0..chunks).map(|_| AtomicBool::new(false)).collect(),
            next: (0..chunks).map(|_| AtomicU32::new(NONE)).collect(),
            head: (0..chunks).map(|_| AtomicU32::new(NONE)).collect(),
            tx_chunks: (0..chunks).map(|_| AtomicU8::new(0)).collect(),
        }
    }

    /// True if chunk `index` is the first of a frame of several; valid only if the chunk is not
    /// free.
    #[inline]
    pub(crate) fn is_first(&self, index: usize) -> bool {
        self.is_first.get(index).is_some_and(|is_first| is_first.load(Relaxed))
    }

    /// Makes the chunks of the frame that starts with `head` single ones again.
    pub(crate) fn unlink(&self, head: u32) {
        self.is_first[head as usize].store(false, Relaxed);
    }

    /// Makes these chunks one frame, in this order.
    pub(crate) fn link(&self, chunks: &[u32]) {
        self.is_first[chunks[0] as usize].store(true, Relaxed);
        for (at, &chunk) in chunks.iter().enumerate() {
            let behind = chunks.get(at + 1).copied().unwrap_or(NONE);
            self.next[chunk as usize].store(behind, Relaxed);
            self.head[chunk as usize].store(chunks[0], Relaxed);
        }
        self.tx_chunks[chunks[0] as usize].store(0, Relaxed);
    }

    /// Appends a chunk to the frame that starts with `head`.
    #[expect(clippy::expect_used, reason = "a chain has its first chunk")]
    pub(crate) fn append(&self, head: u32, chunk: u32) {
        let last = self.of(head).last().expect("the first");
        self.next[last as usize].store(chunk, Relaxed);
        self.next[chunk as usize].store(NONE, Relaxed);
        self.head[chunk as usize].store(head, Relaxed);
    }

    /// Iterates over the chunks of the frame that starts with `head`, which has several.
    pub(crate) fn of(&self, head: u32) -> impl Iterator<Item = u32> + '_ {
        let behind =
            |&chunk: &u32| Some(self.next[chunk as usize].load(Relaxed)).filter(|&next| next != NONE);
        std::iter::successors(Some(head), behind).take(MAX_CHUNKS)
    }

    /// Returns the first chunk of the frame of `chunk`, which has several.
    pub(crate) fn head_of(&self, chunk: u32) -> u32 {
        self.head[chunk as usize].load(Relaxed)
    }

    /// Records that `chunks` chunks of the frame that starts with `head` are being transmitted.
    pub(crate) fn send(&self, head: u32, chunks: u8) {
        self.tx_chunks[head as usize].store(chunks, Relaxed);
    }

    /// Records that one of these chunks has completed. True if it was the last.
    pub(crate) fn complete(&self, head: u32) -> bool {
        let leaving = &self.tx_chunks[head as usize];
        let left = leaving.load(Relaxed).saturating_sub(1);
        leaving.store(left, Relaxed);
        left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(chains: &Chains, head: u32) -> Vec<u32> {
        chains.of(head).collect()
    }

    #[test]
    fn chunks_lie_behind_each_other_in_the_order_that_they_came() {
        let chains = Chains::new(8);
        chains.link(&[5, 2, 7]);
        chains.link(&[0, 1]);
        assert_eq!((of(&chains, 5), of(&chains, 0)), (vec![5, 2, 7], vec![0, 1]));
        assert_eq!([5, 2, 7, 0, 1].map(|chunk| chains.head_of(chunk)), [5, 5, 5, 0, 0]);
        chains.append(0, 4);
        assert_eq!((of(&chains, 0), chains.head_of(4)), (vec![0, 1, 4], 0));
        assert_eq!([5, 2, 7, 0, 1].map(|chunk| chains.is_first(chunk)), [true, false, false, true, false]);
        // The same chunks are used again: nothing is left of their earlier state.
        [5, 0].into_iter().for_each(|head| chains.unlink(head));
        assert!(!(0..9).any(|chunk| chains.is_first(chunk)));
        chains.link(&[2, 5]);
        assert_eq!((of(&chains, 2), chains.head_of(5)), (vec![2, 5], 2));
        chains.link(&[7]);
        assert_eq!(of(&chains, 7), [7]);
    }

    /// The chunks can return in any order.
    #[test]
    fn a_frame_is_back_with_its_last_chunk() {
        let chains = Chains::new(8);
        chains.link(&[5, 2, 7]);
        for sent in [3, 2, 1] {
            chains.send(5, sent);
            let back: Vec<bool> = (0..sent).map(|_| chains.complete(5)).collect();
            assert_eq!(back.iter().position(|&last| last), Some(usize::from(sent) - 1), "{sent} chunks");
        }
    }
}
