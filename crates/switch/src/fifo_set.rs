//! The FIFOs of a port's queues.
//!
//! Rule: each queue keeps its frames in two FIFOs, one of frames to known addresses and one of
//! flooded frames that a separate map put there. A pause of a priority stops only the FIFOs that
//! its frames may be in: flooded frames of a paused priority delay no unicast of another, though
//! both share the queue's cells, weight and rate. Where both FIFOs may send, they alternate, frame
//! by frame. Without such a map flooded frames are queued with all others, and the second FIFO is
//! empty. Source: docs/behavior.md, "Classification"; docs/references.md, "Huawei PFC" (table 3-1,
//! unknown unicast).

use std::fmt;

use serde::{Deserialize, Serialize};
use wire::bitset::Set8;

/// A set of FIFOs of a port: bit q is the FIFO of queue q for known addresses, bit 8 + q the one
/// for flooded frames.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FifoSet(u16);

impl FifoSet {
    /// The set without any FIFO.
    pub const EMPTY: FifoSet = FifoSet(0);
    /// All sixteen FIFOs.
    pub const ALL: FifoSet = FifoSet(u16::MAX);

    /// Makes the set of one FIFO of a queue.
    #[inline]
    pub const fn of(queue: usize, flooded: bool) -> Self {
        Self(1 << ((queue & 7) | (flooded as usize) << 3))
    }

    /// Makes the set of both FIFOs of these queues.
    #[inline]
    pub const fn both(queues: Set8) -> Self {
        Self(queues.bits() as u16 * 0x101)
    }

    /// Makes the set of these queues' FIFOs for known addresses.
    #[inline]
    pub const fn known_of(queues: Set8) -> Self {
        Self(queues.bits() as u16)
    }

    /// Returns the queues whose FIFO for known addresses is in the set.
    #[inline]
    pub const fn known(self) -> Set8 {
        Set8::from_bits(self.0 as u8)
    }

    /// Returns the queues whose FIFO for flooded frames is in the set.
    #[inline]
    pub const fn flooded(self) -> Set8 {
        Set8::from_bits((self.0 >> 8) as u8)
    }

    /// Returns the queues with at least one FIFO in the set.
    #[inline]
    pub const fn queues(self) -> Set8 {
        self.known().with(self.flooded())
    }

    /// True if the set has no FIFO.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the first FIFO: its queue, and whether it is the one for flooded frames.
    #[inline]
    pub const fn first(self) -> Option<(usize, bool)> {
        let number = self.0.trailing_zeros() as usize;
        if self.0 == 0 { None } else { Some((number & 7, number > 7)) }
    }

    /// Returns the union.
    #[inline]
    pub const fn with(self, other: FifoSet) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the intersection.
    #[inline]
    pub const fn and(self, other: FifoSet) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the difference.
    #[inline]
    pub const fn without(self, other: FifoSet) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for FifoSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}; flooded {}}}", self.known(), self.flooded())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_fifos_is_two_sets_of_queues() {
        for queue in 0..8 {
            let (known, flooded) = (FifoSet::of(queue, false), FifoSet::of(queue, true));
            assert_eq!((known.known(), known.flooded()), (Set8::of(queue), Set8::EMPTY));
            assert_eq!((flooded.known(), flooded.flooded()), (Set8::EMPTY, Set8::of(queue)));
            assert_eq!((known.first(), flooded.first()), (Some((queue, false)), Some((queue, true))));
            assert_eq!(known.with(flooded), FifoSet::both(Set8::of(queue)));
            assert_eq!(FifoSet::both(Set8::of(queue)).without(known), flooded);
            assert_eq!(flooded.queues(), Set8::of(queue));
        }
        assert_eq!((FifoSet::EMPTY.first(), FifoSet::both(Set8::ALL)), (None, FifoSet::ALL));
        assert_eq!(format!("{:?}", FifoSet::of(1, true).with(FifoSet::of(3, false))), "{3; flooded 1}");
    }
}
