//! The chunks of the switch's memory that a port's rings hold, that is, that the kernel owns; one
//! byte per chunk.
//!
//! Rule: every chunk has exactly one owner at any time (docs/behavior.md, "Invariants", 1): it is
//! free, its token is held, or it is in the rings of one port. The kernel has no tokens. It names
//! chunks by their addresses, and what it returns must be what that port passed to it. Each port
//! has its own record, so cores do not contend for it when frames move between them.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The purpose for which the kernel owns a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RingOwner {
    /// Reception: the chunk is in a fill ring or an RX ring, or the kernel has it between the two.
    Fill = 1,
    /// Transmission: the chunk is in the TX ring or the completion ring, or between the two. It is
    /// a whole frame.
    Transmit,
    /// Transmission, of one of several chunks of a frame ([`crate::umem::chunk_chains`]).
    TransmitPart,
}

/// Replaces a [`RingOwner`]: the kernel does not own the chunk.
const NONE: u8 = 0;

/// The chunks in the rings of one port. Only the core that serves the port changes it.
#[derive(Debug)]
pub(crate) struct RingOwnership(Box<[AtomicU8]>);

impl RingOwnership {
    /// Creates an empty record for a memory of `chunks` chunks.
    pub(crate) fn new(chunks: usize) -> Self {
        Self((0..chunks).map(|_| AtomicU8::new(NONE)).collect())
    }

    /// Returns the purpose for which the kernel owns chunk `index`, if it does.
    pub(crate) fn of(&self, index: usize) -> Option<RingOwner> {
        let owners = [RingOwner::Fill, RingOwner::Transmit, RingOwner::TransmitPart];
        let tag = self.0[index].load(Relaxed);
        owners.into_iter().find(|&owner| owner as u8 == tag)
    }

    /// True if the kernel owns chunk `index` for transmission.
    pub(crate) fn is_sending(&self, index: usize) -> bool {
        matches!(self.of(index), Some(RingOwner::Transmit | RingOwner::TransmitPart))
    }

    /// Passes chunk `index` to the kernel. The chunk was free, or its token was given up for this.
    #[inline]
    pub(crate) fn assign(&self, index: usize, owner: RingOwner) {
        debug_assert_eq!(self.of(index), None, "chunk {index} already belongs to the kernel");
        self.0[index].store(owner as u8, Relaxed);
    }

    /// Records that the kernel returns chunk `index`. Returns false and changes nothing if there is
    /// no such chunk or the kernel did not own it for that purpose.
    #[inline]
    #[must_use]
    pub(crate) fn release(&self, index: usize, owner: RingOwner) -> bool {
        let Some(tag) = self.0.get(index).filter(|tag| tag.load(Relaxed) == owner as u8) else {
            return false;
        };
        tag.store(NONE, Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The owner of a frame keeps it when the kernel returns it a second time, or to the wrong
    /// port, or when there is no such frame. This holds in release builds as well.
    #[test]
    fn what_the_kernel_gives_back_twice_stays_where_it_is() {
        let [owned, others] = [RingOwnership::new(2), RingOwnership::new(2)];
        for owner in [RingOwner::Fill, RingOwner::Transmit, RingOwner::TransmitPart] {
            owned.assign(1, owner);
            assert!(!others.release(1, owner), "another port's");
            for other in [RingOwner::Fill, RingOwner::Transmit, RingOwner::TransmitPart] {
                assert!(other == owner || !owned.release(1, other), "{owner:?}, not {other:?}");
            }
            assert_eq!((owned.of(1), owned.of(0)), (Some(owner), None));
            assert!(owned.release(1, owner));
            assert!(!owned.release(1, owner), "once");
            assert_eq!(owned.of(1), None);
        }
        assert!(!owned.release(2, RingOwner::Transmit), "there is no such chunk");
    }
}
