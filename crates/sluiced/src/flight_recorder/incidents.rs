//! Recordings of losses, kept until a client has stored them.
//!
//! Rule: a kept recording is discarded only when a client acknowledges that it has stored it. The
//! number and the bytes of kept recordings are bounded: each takes at most half of the remaining
//! room, so that there is room for the next, and loses its oldest seconds to fit. Beyond the bounds
//! a new recording is not kept, which is counted. Source: docs/monitoring/recorder.md, "What
//! freezes a recording".

use std::collections::VecDeque;

use control::RecordingCounts;
use dataplane::Segments;

/// The most recordings that are kept.
pub const MAX_INCIDENTS: usize = 8;
/// The last segments of a recording: the end of it, and the second with the loss.
const MIN_SEGMENTS: usize = 3;

/// A recording that is kept.
#[derive(Debug)]
pub struct Incident {
    /// Its number; the first has number 1.
    pub number: u64,
    /// What was recorded.
    pub segments: Segments,
}

/// The kept recordings, the oldest first.
#[derive(Debug)]
pub struct Incidents {
    kept: VecDeque<Incident>,
    max_bytes: usize,
    frozen: u64,
    not_kept: u64,
}

impl Incidents {
    /// Creates room for recordings of `max_bytes` together.
    pub fn new(most_bytes: usize) -> Self {
        Self { kept: VecDeque::new(), max_bytes: most_bytes, frozen: 0, not_kept: 0 }
    }

    /// Changes the room. What is kept already stays.
    pub fn set_most_bytes(&mut self, most_bytes: usize) {
        self.max_bytes = most_bytes;
    }

    /// Keeps a recording. Returns it with its number, or `None` if there is no room.
    pub fn keep(&mut self, mut segments: Segments) -> Option<&Incident> {
        let room = self.max_bytes.saturating_sub(self.bytes());
        segments.discard_beyond(room / 2, MIN_SEGMENTS);
        if self.kept.len() >= MAX_INCIDENTS || segments.bytes() > room {
            self.not_kept += 1;
            return None;
        }
        self.frozen += 1;
        self.kept.push_back(Incident { number: self.frozen, segments });
        self.kept.back()
    }

    /// Returns the oldest kept recording.
    pub fn oldest(&self) -> Option<&Incident> {
        self.kept.front()
    }

    /// Discards the recording of this number. Returns false if it is not kept.
    pub fn discard(&mut self, number: u64) -> bool {
        let before = self.kept.len();
        self.kept.retain(|incident| incident.number != number);
        self.kept.len() < before
    }

    pub fn counts(&self) -> RecordingCounts {
        RecordingCounts {
            kept: self.kept.len() as u64,
            kept_bytes: self.bytes() as u64,
            frozen: self.frozen,
            not_kept: self.not_kept,
        }
    }

    fn bytes(&self) -> usize {
        self.kept.iter().map(|incident| incident.segments.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::{Chunk, ChunkKind};

    /// Returns a recording of segments of 10 bytes.
    fn recorded(segments: u32) -> Segments {
        let mut recorded = Segments::default();
        let chunk = |segment| Chunk { segment, kind: ChunkKind::LastState, bytes: vec![1; 5] };
        (0..segments).for_each(|segment| recorded.push(&chunk(segment)));
        recorded
    }

    #[test]
    fn each_recording_leaves_room_for_the_next_and_none_is_discarded_unasked() {
        let mut incidents = Incidents::new(400);
        let mut kept = |segments| incidents.keep(recorded(segments)).map(|kept| kept.segments.bytes());
        assert_eq!([30, 30, 30].map(&mut kept), [Some(200), Some(100), Some(50)]);
        assert_eq!([30, 30].map(&mut kept), [Some(30), None], "the last three segments, or nothing");
        assert_eq!(incidents.counts(), RecordingCounts { kept: 4, kept_bytes: 380, frozen: 4, not_kept: 1 });
        assert!(incidents.discard(1) && !incidents.discard(1));
        assert_eq!(incidents.oldest().map(|oldest| oldest.number), Some(2));
        assert_eq!(incidents.keep(recorded(30)).map(|kept| kept.number), Some(5));
    }

    #[test]
    fn the_number_of_recordings_is_bounded() {
        let mut incidents = Incidents::new(1 << 20);
        let kept = (0..20).filter(|_| incidents.keep(recorded(1)).is_some()).count();
        assert_eq!((kept, incidents.counts().not_kept), (MAX_INCIDENTS, 20 - MAX_INCIDENTS as u64));
    }
}
