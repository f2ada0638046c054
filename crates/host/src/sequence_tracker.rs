//! Tracks which frames of a flow have arrived: received, lost, duplicated, reordered, each exactly,
//! in bounded memory.
//!
//! Rule: sequence numbers run from 0 without a gap. A number above the highest so far is new, and
//! the numbers that it skips are missing until they arrive. A number below is reordered if it
//! arrives for the first time, otherwise a duplicate; the two are distinguished for the last
//! [`WINDOW`] numbers. Older ones are counted separately, since they cannot be classified.

/// The number of sequence numbers, counted from the highest, whose arrival is recorded.
pub const WINDOW: u64 = 65_536;

const WORDS: usize = (WINDOW / 64) as usize;

/// The sequence numbers of one flow.
#[derive(Debug, Clone)]
pub struct SequenceTracker {
    highest: Option<u64>,
    /// Bit n of the ring is set if the number that is n modulo [`WINDOW`], among the last
    /// [`WINDOW`], has arrived.
    seen: Box<[u64; WORDS]>,
    received: u64,
    duplicated: u64,
    reordered: u64,
    too_old: u64,
    /// The first number that is expected; earlier ones are not lost if they do not arrive.
    start: u64,
    /// Numbers below `start` that arrived.
    received_before_start: u64,
}

/// Classification of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalClass {
    /// Arrived for the first time.
    New,
    /// Had arrived before.
    Duplicate,
    /// Too far below the highest to classify.
    TooOld,
}

impl Default for SequenceTracker {
    fn default() -> Self {
        Self {
            highest: None,
            seen: Box::new([0; WORDS]),
            received: 0,
            duplicated: 0,
            reordered: 0,
            too_old: 0,
            start: 0,
            received_before_start: 0,
        }
    }
}

impl SequenceTracker {
    /// Creates the tracker of a flow that had sent the numbers below `start` before anyone
    /// listened.
    pub fn starting_at(start: u64) -> Self {
        Self { start, ..Self::default() }
    }

    /// Records the arrival of `sequence`.
    #[inline]
    pub fn arrive(&mut self, sequence: u64) -> ArrivalClass {
        match self.highest {
            Some(highest) if sequence <= highest => {
                if highest - sequence >= WINDOW {
                    self.too_old += 1;
                    return ArrivalClass::TooOld;
                }
                if self.is_seen(sequence) {
                    self.duplicated += 1;
                    return ArrivalClass::Duplicate;
                }
                self.reordered += 1;
            }
            Some(highest) => {
                self.clear(highest + 1, sequence - highest);
                self.highest = Some(sequence);
            }
            None => self.highest = Some(sequence),
        }
        self.seen[word(sequence)] |= 1 << (sequence % 64);
        self.received += 1;
        self.received_before_start += u64::from(sequence < self.start);
        ArrivalClass::New
    }

    /// Distinct numbers that arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Numbers from the start to the highest that have not arrived.
    pub fn lost(&self) -> u64 {
        // All received numbers are distinct and at most the highest, so this cannot go below 0.
        let missing = self.highest.map_or(0, |highest| highest - (self.received - 1));
        missing.saturating_sub(self.missed_before_start())
    }

    /// Numbers below the start that have not arrived.
    pub fn missed_before_start(&self) -> u64 {
        self.start - self.received_before_start
    }

    /// Arrivals of a number that had arrived before.
    pub fn duplicated(&self) -> u64 {
        self.duplicated
    }

    /// First arrivals of a number after a higher one.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Arrivals [`WINDOW`] or more below the highest.
    pub fn too_old(&self) -> u64 {
        self.too_old
    }

    fn is_seen(&self, sequence: u64) -> bool {
        self.seen[word(sequence)] & 1 << (sequence % 64) != 0
    }

    /// Clears `count` numbers from `first` on: the ring's bits that they reuse.
    fn clear(&mut self, first: u64, count: u64) {
        let (mut index, mut left) = (first % WINDOW, count.min(WINDOW));
        while left > 0 {
            let bits = left.min(64 - index % 64);
            let mask = if bits == 64 { u64::MAX } else { ((1 << bits) - 1) << (index % 64) };
            self.seen[word(index)] &= !mask;
            index = (index + bits) % WINDOW;
            left -= bits;
        }
    }
}

#[inline]
fn word(sequence: u64) -> usize {
    (sequence / 64) as usize % WORDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Returns the counts in this order: received, lost, duplicated, reordered, too old.
    fn counts(sequences: &SequenceTracker) -> (u64, u64, u64, u64, u64) {
        (
            sequences.received(),
            sequences.lost(),
            sequences.duplicated(),
            sequences.reordered(),
            sequences.too_old(),
        )
    }

    #[test]
    fn arrivals_are_counted_as_by_hand() {
        for (arrivals, expected) in [
            (vec![], (0, 0, 0, 0, 0)),
            (vec![0, 1, 2, 3], (4, 0, 0, 0, 0)),
            (vec![0, 2, 3], (3, 1, 0, 0, 0)),
            (vec![0, 2, 1, 3], (4, 0, 0, 1, 0)),
            (vec![0, 1, 1, 0, 2], (3, 0, 2, 0, 0)),
            (vec![5], (1, 5, 0, 0, 0)),
            (vec![5, 4, 3, 2, 1, 0, 0], (6, 0, 1, 5, 0)),
            // At the edge of the window, one inside and one outside.
            (vec![WINDOW, 1, 1, 0], (2, WINDOW - 1, 1, 1, 1)),
            // A jump over the whole window clears it.
            (vec![0, 1, 2, 3 * WINDOW, 2 * WINDOW + 1, 2], (5, 3 * WINDOW - 4, 0, 1, 1)),
            (vec![u64::MAX, u64::MAX], (1, u64::MAX, 1, 0, 0)),
            (vec![0, u64::MAX, u64::MAX - 1], (3, u64::MAX - 2, 0, 1, 0)),
        ] {
            let mut sequences = SequenceTracker::default();
            for &sequence in &arrivals {
                sequences.arrive(sequence);
            }
            assert_eq!(counts(&sequences), expected, "{arrivals:?}");
        }
    }

    /// The simplest way to count, which stores everything.
    fn model(arrivals: &[u64]) -> (u64, u64, u64, u64, u64) {
        let mut seen = BTreeSet::new();
        let (mut duplicated, mut reordered, mut too_old) = (0, 0, 0);
        for &sequence in arrivals {
            let highest = seen.last().copied();
            if highest.is_some_and(|highest| highest >= sequence && highest - sequence >= WINDOW) {
                too_old += 1;
            } else if !seen.insert(sequence) {
                duplicated += 1;
            } else if highest.is_some_and(|highest| highest > sequence) {
                reordered += 1;
            }
        }
        let missing = seen.last().map_or(0, |highest| highest + 1 - seen.len() as u64);
        (seen.len() as u64, missing, duplicated, reordered, too_old)
    }

    proptest! {
        /// Steps forward and back, small and beyond the window.
        #[test]
        fn counts_agree_with_a_model_that_remembers_all(
            start in 0..3 * WINDOW,
            steps in prop::collection::vec(
                prop_oneof![
                    8 => -5_i64..=5,
                    2 => -200_i64..=300,
                    1 => -80_000_i64..=80_000,
                    1 => Just(1_i64),
                ],
                0..400,
            ),
        ) {
            let mut sequences = SequenceTracker::default();
            let mut at = start;
            let mut arrivals = Vec::new();
            for step in steps {
                at = at.saturating_add_signed(step);
                arrivals.push(at);
                sequences.arrive(at);
            }
            prop_assert_eq!(counts(&sequences), model(&arrivals));
        }
    }
}
