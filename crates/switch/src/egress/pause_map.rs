//! Pause map: the FIFOs of a port that a pause of each priority stops.
//!
//! Rule: a pause stops every FIFO that may hold frames of its priority. The port that classified a
//! frame chose its queue, so the maps of all ports count. After a reload that changes them, a FIFO
//! that still holds frames queued by the previous maps is stopped, too, until it has been empty
//! once. Source: docs/behavior.md, "PFC received"; IEEE 802.1Q-2022 36.1.3.3.

use crate::fifo_set::FifoSet;
use crate::settings::PRIORITIES;
use serde::{Deserialize, Serialize};
use wire::bitset::Set8;

/// FIFOs that a pause of each priority stops.
#[derive(Debug, Serialize, Deserialize)]
pub struct PauseMap {
    /// Map in force: the configured map, and lingering FIFOs.
    fifos: [FifoSet; PRIORITIES],
    /// Configured map alone.
    mapped: [FifoSet; PRIORITIES],
    /// FIFOs that still hold frames queued by earlier maps.
    lingering: FifoSet,
}

impl PauseMap {
    /// Makes the map of empty FIFOs.
    pub fn new(mapped: [FifoSet; PRIORITIES]) -> Self {
        Self { fifos: mapped, mapped, lingering: FifoSet::EMPTY }
    }

    /// Returns the FIFOs that a pause of one priority stops.
    #[inline]
    pub fn of(&self, priority: usize) -> FifoSet {
        self.fifos[priority & 7]
    }

    /// Returns the FIFOs that pauses of these priorities stop.
    #[inline]
    pub fn of_all(&self, priorities: Set8) -> FifoSet {
        priorities.into_iter().fold(FifoSet::EMPTY, |set, p| set.with(self.fifos[p & 7]))
    }

    /// Returns the FIFOs of these priorities by the configured map. New frames can only be there.
    pub fn mapped(&self, priorities: Set8) -> FifoSet {
        priorities.into_iter().fold(FifoSet::EMPTY, |set, p| set.with(self.mapped[p & 7]))
    }

    /// Applies other maps, while `backlogged` FIFOs hold frames.
    pub fn reconfigure(&mut self, mapped: [FifoSet; PRIORITIES], backlogged: FifoSet) {
        let earlier = self.fifos;
        (self.mapped, self.fifos, self.lingering) = (mapped, mapped, FifoSet::EMPTY);
        for (priority, fifos) in earlier.into_iter().enumerate() {
            let lingering = fifos.and(backlogged).without(mapped[priority]);
            self.fifos[priority] = mapped[priority].with(lingering);
            self.lingering = self.lingering.with(lingering);
        }
    }

    /// True if some FIFO is lingering and may have become empty.
    #[inline]
    pub fn is_lingering(&self) -> bool {
        !self.lingering.is_empty()
    }

    /// Ends the lingering of FIFOs that are no longer `backlogged`: only the configured map stops
    /// them.
    #[cold]
    pub fn settle(&mut self, backlogged: FifoSet) {
        let emptied = self.lingering.without(backlogged);
        self.lingering = self.lingering.and(backlogged);
        for (fifos, mapped) in self.fifos.iter_mut().zip(self.mapped) {
            *fifos = fifos.without(emptied).with(mapped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(of_three: usize) -> [FifoSet; PRIORITIES] {
        std::array::from_fn(|p| FifoSet::of(if p == 3 { of_three } else { p }, false))
    }

    #[test]
    fn a_queue_of_earlier_maps_is_stopped_until_it_has_been_empty() {
        let queues = |numbers: &[usize]| {
            numbers.iter().fold(FifoSet::EMPTY, |set, &q| set.with(FifoSet::of(q, false)))
        };
        let mut pauses = PauseMap::new(map(3));
        pauses.reconfigure(map(5), queues(&[1, 3]));
        assert_eq!((pauses.of(3), pauses.mapped(Set8::of(3))), (queues(&[3, 5]), queues(&[5])));
        // Changes the map again, while frames of both maps are queued.
        pauses.reconfigure(map(6), queues(&[3, 5]));
        assert_eq!((pauses.of(3), pauses.is_lingering()), (queues(&[3, 5, 6]), true));
        pauses.settle(queues(&[5]));
        assert_eq!((pauses.of(3), pauses.is_lingering()), (queues(&[5, 6]), true));
        pauses.settle(FifoSet::EMPTY);
        assert_eq!((pauses.of(3), pauses.is_lingering()), (queues(&[6]), false));
        assert_eq!(
            (pauses.of(5), pauses.of_all(Set8::of(1).with(Set8::of(3)))),
            (queues(&[5]), queues(&[1, 6]))
        );
    }

    #[test]
    fn nothing_lingers_where_nothing_waits_or_maps_are_as_they_were() {
        let mut pauses = PauseMap::new(map(3));
        pauses.reconfigure(map(5), FifoSet::EMPTY);
        assert_eq!((pauses.of(3), pauses.is_lingering()), (FifoSet::of(5, false), false));
        pauses.reconfigure(map(5), FifoSet::ALL);
        assert!(!pauses.is_lingering());
    }
}
