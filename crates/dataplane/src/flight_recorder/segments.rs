//! The chunks that a recorder has written, by segment: the most recent part of a recording.
//!
//! A recording is its title line, then chunks, each preceded by its kind (1: state, 2: entries) and
//! its length, u32. The state of a segment comes before its entries, although it was complete
//! later.
//!
//! Rule: a replay has to start with a complete state, so segments are discarded whole, the oldest
//! first, and a recording begins with the first that has one. A copy shares the bytes.
//! Source: `docs/monitoring/recorder.md`.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes};

use crate::flight_recorder::recorder::{Chunk, ChunkKind, title};

/// Kind of a chunk of state, in a recording.
pub const STATE: u8 = 1;
/// Kind of a chunk of entries, in a recording.
pub(crate) const ENTRIES: u8 = 2;

/// Consecutive segments of a recording, the last of which may still grow.
#[derive(Debug, Clone, Default)]
pub struct Segments {
    segments: VecDeque<Segment>,
    bytes: usize,
    /// Number of the last segment, kept or not.
    last: Option<u32>,
}

#[derive(Debug, Clone, Default)]
struct Segment {
    state: Vec<Bytes>,
    /// A replay can start here.
    is_complete: bool,
    entries: Vec<Bytes>,
    bytes: usize,
}

impl Segments {
    /// Appends a chunk. A chunk whose segment has been discarded is discarded, too.
    pub fn push(&mut self, chunk: &Chunk) {
        if self.last.replace(chunk.segment) != Some(chunk.segment) {
            self.segments.push_back(Segment::default());
        }
        let Some(segment) = self.segments.back_mut() else { return };
        let (kind, chunks) = match chunk.kind {
            ChunkKind::State | ChunkKind::LastState => (STATE, &mut segment.state),
            ChunkKind::Entries => (ENTRIES, &mut segment.entries),
        };
        let mut bytes = Vec::with_capacity(5 + chunk.bytes.len());
        bytes.put_u8(kind);
        bytes.put_u32_le(chunk.bytes.len() as u32);
        bytes.put_slice(&chunk.bytes);
        segment.is_complete |= chunk.kind == ChunkKind::LastState;
        segment.bytes += bytes.len();
        self.bytes += bytes.len();
        chunks.push(bytes.into());
    }

    /// Marks the end of a recorder: the next chunk begins a segment, whatever its number.
    pub fn end(&mut self) {
        self.last = None;
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

    /// Returns the number of segments.
    pub fn count(&self) -> usize {
        self.segments.len()
    }

    /// Returns the recording: its title line and its chunks in order; nothing if no replay can
    /// start.
    pub fn recording(&self) -> Vec<Bytes> {
        let usable = || self.segments.iter().skip_while(|segment| !segment.is_complete);
        let title = usable().next().map(|_| Bytes::from(title()));
        let chunks = usable().flat_map(|segment| segment.state.iter().chain(&segment.entries).cloned());
        title.into_iter().chain(chunks).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(segment: u32, kind: ChunkKind, number: u8) -> Chunk {
        Chunk { segment, kind, bytes: vec![number; 10] }
    }

    /// Returns the kind and the content of each chunk of the recording.
    fn chunks(segments: &Segments) -> Vec<(u8, u8)> {
        segments.recording().iter().skip(1).map(|chunk| (chunk[0], chunk[5])).collect()
    }

    /// Segments consist of two chunks of 15 bytes each.
    #[test]
    fn the_oldest_segments_are_discarded_whole() {
        let mut segments = Segments::default();
        assert!(segments.recording().is_empty());
        for number in 0..8 {
            segments.push(&chunk(number, ChunkKind::Entries, number as u8));
            segments.push(&chunk(number, ChunkKind::LastState, 100 + number as u8));
            segments.discard_beyond(70, 0);
        }
        let kept = [(1, 106), (2, 6), (1, 107), (2, 7)];
        assert_eq!((chunks(&segments), segments.bytes(), segments.count()), (kept.to_vec(), 60, 2));
        let copy = segments.clone();
        segments.discard_beyond(0, 1);
        assert_eq!((segments.bytes(), copy.bytes()), (30, 60));
        segments.discard_beyond(30, 0);
        assert_eq!(segments.bytes(), 30, "as many as may be kept");
        segments.discard_beyond(0, 0);
        segments.push(&chunk(7, ChunkKind::Entries, 8));
        assert_eq!(segments.bytes(), 0, "its segment is gone");
        segments.end();
        segments.push(&chunk(7, ChunkKind::LastState, 9));
        assert_eq!(chunks(&segments), [(1, 9)], "a segment of the next recorder");
        segments.clear();
        assert_eq!((segments.bytes(), segments.count()), (0, 0));
    }

    #[test]
    fn a_recording_begins_with_a_complete_state() {
        let mut segments = Segments::default();
        segments.push(&chunk(1, ChunkKind::Entries, 1));
        segments.push(&chunk(1, ChunkKind::State, 2));
        assert!(segments.recording().is_empty());
        segments.push(&chunk(2, ChunkKind::Entries, 3));
        segments.push(&chunk(2, ChunkKind::State, 4));
        segments.push(&chunk(2, ChunkKind::LastState, 5));
        segments.push(&chunk(3, ChunkKind::Entries, 6));
        assert_eq!(chunks(&segments), [(1, 4), (1, 5), (2, 3), (2, 6)]);
    }
}
