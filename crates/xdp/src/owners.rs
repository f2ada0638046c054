//! Who has each chunk of the UMEM: a tag of one byte a chunk.
//!
//! Rule: every chunk has exactly one owner at any time (docs/law.md, "Invariants", 1). The tag also says whether more chunks of
//! the same frame lie behind ([`crate::chains`]), so that whoever handles a frame of one chunk looks nowhere else.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Ports that one memory can serve: what fits in the tag.
pub(crate) const MAX_PORTS: usize = (256 - FIRST_OF_PORTS as usize) / KINDS as usize;
/// The first tag that has a port in it …
const FIRST_OF_PORTS: u8 = 4;
/// … and how many each port has.
const KINDS: u8 = 3;

/// Who has a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Nobody: it is on the free stack.
    Free,
    /// Whoever holds its [`FrameId`](switch::FrameId); it is all of the frame.
    User,
    /// The same; it is the first of several chunks.
    UserChain,
    /// Whoever has the frame that it is a later chunk of; or the frame is being sent, and this chunk has left or need not.
    Behind,
    /// The fill ring or the RX ring of a port, or the kernel between the two.
    Fill(u8),
    /// The TX ring or the completion ring of a port, or the kernel between the two; it is all of the frame.
    Transmit(u8),
    /// The same; it is one of several chunks.
    TransmitPart(u8),
}

impl Owner {
    fn tag(self) -> u8 {
        match self {
            Owner::Free => 0,
            Owner::User => 1,
            Owner::UserChain => 2,
            Owner::Behind => 3,
            Owner::Fill(port) => FIRST_OF_PORTS + KINDS * port,
            Owner::Transmit(port) => FIRST_OF_PORTS + KINDS * port + 1,
            Owner::TransmitPart(port) => FIRST_OF_PORTS + KINDS * port + 2,
        }
    }

    fn from_tag(tag: u8) -> Owner {
        let Some(of_port) = tag.checked_sub(FIRST_OF_PORTS) else {
            return [Owner::Free, Owner::User, Owner::UserChain, Owner::Behind][usize::from(tag)];
        };
        let kinds = [Owner::Fill, Owner::Transmit, Owner::TransmitPart];
        kinds[usize::from(of_port % KINDS)](of_port / KINDS)
    }
}

/// The owner of each chunk.
pub(crate) struct Owners(Box<[AtomicU8]>);

impl Owners {
    /// All are free.
    pub(crate) fn new(chunks: usize) -> Self {
        Self((0..chunks).map(|_| AtomicU8::new(Owner::Free.tag())).collect())
    }

    /// All chunks.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn of(&self, index: usize) -> Owner {
        Owner::from_tag(self.0[index].load(Relaxed))
    }

    /// Whether chunk `index` is this owner's.
    #[inline]
    pub(crate) fn is(&self, index: usize, owner: Owner) -> bool {
        self.0[index].load(Relaxed) == owner.tag()
    }

    /// Chunk `index` changes hands.
    #[inline]
    pub(crate) fn hand_over(&self, index: usize, from: Owner, to: Owner) {
        debug_assert_eq!(self.of(index), from, "chunk {index} was to become {to:?}");
        self.0[index].store(to.tag(), Relaxed);
    }

    /// The kernel gives chunk `index` back. False: there is no such chunk or it was not there, and nothing has changed.
    #[inline]
    #[must_use]
    pub(crate) fn give_back(&self, index: usize, from: Owner, to: Owner) -> bool {
        let Some(tag) = self.0.get(index).filter(|tag| tag.load(Relaxed) == from.tag()) else { return false };
        tag.store(to.tag(), Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_owner_has_a_tag_of_its_own() {
        let ports = 0..MAX_PORTS as u8;
        let of_ports =
            ports.flat_map(|port| [Owner::Fill(port), Owner::Transmit(port), Owner::TransmitPart(port)]);
        let mut seen = vec![false; 256];
        for owner in [Owner::Free, Owner::User, Owner::UserChain, Owner::Behind].into_iter().chain(of_ports) {
            assert_eq!(Owner::from_tag(owner.tag()), owner);
            assert!(!std::mem::replace(&mut seen[usize::from(owner.tag())], true), "{owner:?}");
        }
        assert!(seen.into_iter().all(|seen| seen), "no tag is wasted");
    }

    /// Whoever has a frame keeps it when the kernel gives it back a second time, or to a port that it is not from, or when there
    /// is no such frame: in release builds as well.
    #[test]
    fn what_the_kernel_gives_back_twice_stays_where_it_is() {
        let owners = Owners::new(2);
        owners.hand_over(1, Owner::Free, Owner::User);
        owners.hand_over(1, Owner::User, Owner::Transmit(3));
        let give_back = |index, from| owners.give_back(index, from, Owner::User);
        assert!(!give_back(1, Owner::Transmit(4)), "another port's");
        assert!(!give_back(1, Owner::Fill(3)), "not received");
        assert_eq!(owners.of(1), Owner::Transmit(3));
        assert!(give_back(1, Owner::Transmit(3)));
        for owner in [Owner::User, Owner::Free, Owner::Fill(3), Owner::Transmit(4), Owner::TransmitPart(3)] {
            owners.0[1].store(owner.tag(), Relaxed);
            assert!(!give_back(1, Owner::Transmit(3)), "{owner:?}");
            assert_eq!(owners.of(1), owner);
        }
        assert!(!give_back(2, Owner::Transmit(3)), "there is no such frame");
        assert_eq!(owners.of(0), Owner::Free);
    }
}
