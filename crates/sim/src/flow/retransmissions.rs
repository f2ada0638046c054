//! Retransmissions of a flow by message.

use std::collections::{BTreeMap, VecDeque};

/// Frames of a sender that were sent again, by message.
#[derive(Debug, Default)]
pub(crate) struct Retransmissions {
    /// The number after the last frame of each message, from message `first` on.
    ends: VecDeque<u64>,
    first: u64,
    /// Messages of which a frame was sent again.
    frames: BTreeMap<u64, u64>,
}

impl Retransmissions {
    /// Adds the next message, which ends before frame `end`. Frames before `acknowledged` are not
    /// sent again.
    pub(crate) fn expect(&mut self, end: u64, acknowledged: u64) {
        while self.ends.front().is_some_and(|end| *end <= acknowledged) {
            self.ends.pop_front();
            self.first += 1;
        }
        self.ends.push_back(end);
    }

    /// Counts frame `number`, which is sent again. Traffic without end has no messages.
    pub(crate) fn add(&mut self, number: u64) {
        let index = self.ends.partition_point(|end| *end <= number);
        if index < self.ends.len() {
            *self.frames.entry(self.first + index as u64).or_default() += 1;
        }
    }

    /// Returns the frames of a message that were sent again.
    pub(crate) fn of(&self, message: u64) -> u64 {
        self.frames.get(&message).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of 3, 1 and 2 frames; the third is known once the first is acknowledged.
    #[test]
    fn frames_belong_to_the_messages_of_their_numbers() {
        let mut counts = Retransmissions::default();
        counts.expect(3, 0);
        counts.expect(4, 0);
        [0, 2, 2, 3].into_iter().for_each(|number| counts.add(number));
        counts.expect(6, 3);
        [5, 4, 3].into_iter().for_each(|number| counts.add(number));
        counts.add(6);
        assert_eq!([0, 1, 2, 3].map(|message| counts.of(message)), [3, 2, 2, 0]);
    }
}
