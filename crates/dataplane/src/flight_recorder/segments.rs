//! The chunks that a recorder has written, by segment: the most recent part of a recording.
//!
//! Rule: a replay has to start with a checkpoint, so segments are discarded whole, the oldest
//! first. A copy shares the bytes. Source: `docs/recorder.md`.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::flight_recorder::recorder::{Chunk, title};

/// Consecutive segments of a recording, the last of which may still grow.
#[derive(Debug, Clone, Default)]
pub struct Segments {
    segments: VecDeque<Segment>,
    bytes: usize,
}

#[derive(Debug, Clone, Default)]
struct Segment {
    chunks: Vec<Bytes>,
    bytes: usize,
}

impl Segments {
    /// Appends a chunk. A chunk whose segment has been discarded is discarded, too.
    pub fn push(&mut self, chunk: &Chunk) {
        if chunk.begins {
            self.segments.push_back(Segment::default());
        }
        if let Some(segment) = self.segments.back_mut() {
            segment.chunks.push(Bytes::copy_from_slice(&chunk.bytes));
            segment.bytes += chunk.bytes.len();
            self.bytes += chunk.bytes.len();
        }
    }

    /// Discards the oldest segments until the others, or `least` of them, have at most
    /// `most_bytes`.
    pub fn discard_beyond(&mut self, most_bytes: usize, least: usize) {
        while self.bytes > most_bytes && self.segments.len() > least {
            self.bytes -= self.segments.pop_front().map_or(0, |oldest| oldest.bytes);
        }
    }

    /// Discards all segments.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the bytes of all segments.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the recording: its title line and its chunks in order; nothing if there are none.
    pub fn recording(&self) -> Vec<Bytes> {
        let title = (!self.segments.is_empty()).then(|| Bytes::from(title()));
        let chunks = self.segments.iter().flat_map(|segment| segment.chunks.iter().cloned());
        title.into_iter().chain(chunks).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(begins: bool, number: u8, bytes: usize) -> Chunk {
        Chunk { begins, bytes: vec![number; bytes] }
    }

    /// Segments consist of two chunks of 10 bytes each.
    #[test]
    fn the_oldest_segments_are_discarded_whole() {
        let mut segments = Segments::default();
        assert!(segments.recording().is_empty());
        for number in 0..15 {
            segments.push(&chunk(number % 2 == 1, number, 10));
            segments.discard_beyond(64, 0);
        }
        let kept: Vec<u8> = segments.recording()[1..].iter().map(|chunk| chunk[0]).collect();
        assert_eq!((kept, segments.bytes()), (vec![9, 10, 11, 12, 13, 14], 60));
        let copy = segments.clone();
        segments.discard_beyond(0, 2);
        assert_eq!((segments.bytes(), copy.bytes()), (40, 60));
        segments.discard_beyond(0, 0);
        segments.push(&chunk(false, 15, 10));
        assert_eq!(segments.bytes(), 0, "its segment is gone");
    }
}
