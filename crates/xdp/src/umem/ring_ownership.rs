//! What a port has lent to the kernel: which chunks of the switch's memory its rings hold, a byte a
//! chunk.
//!
//! Rule: every chunk has exactly one owner at any time (docs/behavior.md, "Invariants", 1): it is
//! free, somebody holds its token, or it is lent by one port. The kernel has no tokens; it names
//! chunks by their addresses, and what it gives back must be what that port lent. Each port writes
//! down its own, so cores do not wait for each other where frames go from one to another.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// What a chunk was lent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RingOwner {
    /// To be received into: it is in a fill ring or an RX ring, or the kernel has it between the
    /// two.
    Fill = 1,
    /// To be sent: in the TX ring or the completion ring, or between the two. It is all of the
    /// frame.
    Transmit,
    /// The same; it is one of several chunks ([`crate::umem::chains`]).
    TransmitPart,
}

/// In place of a loan.
const NONE: u8 = 0;

/// What one port has lent. Only the core that serves the port changes it.
#[derive(Debug)]
pub(crate) struct RingOwnership(Box<[AtomicU8]>);

impl RingOwnership {
    /// Nothing, of a memory of so many chunks.
    pub(crate) fn new(chunks: usize) -> Self {
        Self((0..chunks).map(|_| AtomicU8::new(NONE)).collect())
    }

    /// What chunk `index` is lent for, if it is.
    pub(crate) fn of(&self, index: usize) -> Option<RingOwner> {
        let loans = [RingOwner::Fill, RingOwner::Transmit, RingOwner::TransmitPart];
        let tag = self.0[index].load(Relaxed);
        loans.into_iter().find(|&loan| loan as u8 == tag)
    }

    /// Chunk `index` is lent to be sent.
    pub(crate) fn is_sending(&self, index: usize) -> bool {
        matches!(self.of(index), Some(RingOwner::Transmit | RingOwner::TransmitPart))
    }

    /// Lends chunk `index`, which was free or whose token was given for it.
    #[inline]
    pub(crate) fn lend(&self, index: usize, loan: RingOwner) {
        debug_assert_eq!(self.of(index), None, "chunk {index} was to be lent once more");
        self.0[index].store(loan as u8, Relaxed);
    }

    /// The kernel gives chunk `index` back. False: there is no such chunk or it was not lent for
    /// that, and nothing has changed.
    #[inline]
    #[must_use]
    pub(crate) fn give_back(&self, index: usize, loan: RingOwner) -> bool {
        let Some(tag) = self.0.get(index).filter(|tag| tag.load(Relaxed) == loan as u8) else { return false };
        tag.store(NONE, Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever has a frame keeps it when the kernel gives it back a second time, or to a port that
    /// it is not from, or when there is no such frame: in release builds as well.
    #[test]
    fn what_the_kernel_gives_back_twice_stays_where_it_is() {
        let [lent, others] = [RingOwnership::new(2), RingOwnership::new(2)];
        for loan in [RingOwner::Fill, RingOwner::Transmit, RingOwner::TransmitPart] {
            lent.lend(1, loan);
            assert!(!others.give_back(1, loan), "another port's");
            for other in [RingOwner::Fill, RingOwner::Transmit, RingOwner::TransmitPart] {
                assert!(other == loan || !lent.give_back(1, other), "{loan:?}, not {other:?}");
            }
            assert_eq!((lent.of(1), lent.of(0)), (Some(loan), None));
            assert!(lent.give_back(1, loan));
            assert!(!lent.give_back(1, loan), "once");
            assert_eq!(lent.of(1), None);
        }
        assert!(!lent.give_back(2, RingOwner::Transmit), "there is no such chunk");
    }
}
