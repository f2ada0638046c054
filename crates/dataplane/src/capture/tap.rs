//! The loop's side of a capture.
//!
//! Rule: a received frame is written after the switch has handled its batch, with what became of
//! it; a departing frame as it leaves, with its edits. A drop of a copy, or of a queued frame, is a
//! frame of its own at the port that it was to leave by. Source: docs/monitoring/capture.md.

use std::sync::Arc;

use switch::{
    Disposition, DroppedFrame, FrameDrop, FrameId, FrameMemory, Instant, Nanos, RxFrame, Switch, TxDesc,
};
use wire::bitset::Set8;
use wire::ethernet::TAG_BYTES;
use wire::pause::{Control, decode};

use crate::capture::filter::CaptureFilter;
use crate::capture::frame::{FrameDirection, FrameHeader, FrameVerdict, HEADER_BYTES};
use crate::capture::ring::{BUFFER_BYTES, CaptureRing};

/// The most frames of a batch, as [`crate::RX_BATCH`].
const BATCH_FRAMES: usize = 64;
/// How long frames wait in a buffer that is not full.
const FLUSH_NS: Nanos = 10_000_000;

/// A capture that runs.
#[derive(Debug)]
pub struct Capture {
    ring: Arc<CaptureRing>,
    filter: CaptureFilter,
    /// Frames that are still to be taken.
    left: u64,
    /// The buffer that is being filled.
    buffer: Option<Vec<u8>>,
    flush_at: Instant,
    /// Time of the last batch or iteration, whichever is later.
    now: Instant,
    /// The received frames of the present batch, and their bytes one after the other.
    batch: Vec<Received>,
    batch_bytes: Vec<u8>,
    /// The bytes of a departing frame, with its edits.
    edited: Vec<u8>,
}

/// A received frame that the switch is handling.
#[derive(Debug)]
struct Received {
    frame: usize,
    header: FrameHeader,
    priorities: Set8,
    kept: usize,
}

impl Capture {
    /// Creates a capture, which begins with the next iteration.
    pub fn new(ring: Arc<CaptureRing>, mut filter: CaptureFilter) -> Self {
        let longest = (BUFFER_BYTES - HEADER_BYTES) as u16;
        filter.snap_bytes = filter.snap_bytes.clamp(CaptureFilter::MIN_SNAP_BYTES, longest);
        let snap_bytes = usize::from(filter.snap_bytes);
        Self {
            left: filter.max_frames,
            ring,
            buffer: None,
            flush_at: Instant::NEVER,
            now: Instant::default(),
            batch: Vec::with_capacity(BATCH_FRAMES),
            batch_bytes: Vec::with_capacity(BATCH_FRAMES * snap_bytes),
            edited: Vec::with_capacity(snap_bytes + 2 * TAG_BYTES),
            filter,
        }
    }

    /// Begins an iteration: hands over frames that have waited long enough.
    pub(crate) fn begin_iteration(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if now >= self.flush_at {
            self.flush();
        }
    }

    /// Ends the capture: hands over what is left.
    pub(crate) fn end(&mut self) {
        self.flush();
    }

    /// Copies the frames of a batch that was taken at `taken_at`.
    #[cold]
    pub(crate) fn begin_batch<M: FrameMemory>(
        &mut self,
        port: usize,
        taken_at: Instant,
        arrivals: &[RxFrame],
        memory: &M,
    ) {
        self.now = self.now.max(taken_at);
        self.batch.clear();
        self.batch_bytes.clear();
        for RxFrame { frame, meta, disposition, .. } in arrivals.iter().take(BATCH_FRAMES) {
            let bytes = self.start_of(memory, frame, meta.len);
            let (verdict, priority, priorities) = match disposition {
                Disposition::Control => (FrameVerdict::Pause, None, named(bytes)),
                Disposition::Punted => (FrameVerdict::Consumed, None, Set8::ALL),
                _ => (FrameVerdict::Forwarded, Some(meta.priority() as u8), Set8::of(meta.priority())),
            };
            let direction = FrameDirection::In;
            let (at, port, len) = (self.now, port as u8, meta.len);
            let header = FrameHeader { at, port, direction, verdict, priority, drop: None, len };
            self.batch_bytes.extend_from_slice(bytes);
            self.batch.push(Received { frame: frame.index(), header, priorities, kept: bytes.len() });
        }
    }

    /// Writes the frames of the batch, which the switch has handled.
    #[cold]
    pub(crate) fn end_batch(&mut self) {
        let (mut batch, bytes) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.batch_bytes));
        let mut rest = &bytes[..];
        for Received { header, priorities, kept, .. } in batch.drain(..) {
            let Some((bytes, after)) = rest.split_at_checked(kept) else { break };
            rest = after;
            self.write(&header, priorities, bytes);
        }
        (self.batch, self.batch_bytes) = (batch, bytes);
    }

    /// Writes frames that leave `port`, whose edits have not been made.
    #[cold]
    pub(crate) fn transmitted<M: FrameMemory>(
        &mut self,
        port: usize,
        frames: &[TxDesc],
        switch: &Switch,
        memory: &M,
    ) {
        for TxDesc { frame, len, edit, .. } in frames {
            let before = edit.tag.len_before(*len).min(self.filter.snap_bytes + TAG_BYTES as u16);
            let start = memory.bytes(frame, before.into()); // with the tag that is popped
            let mut edited = std::mem::take(&mut self.edited);
            edited.clear();
            edited.extend_from_slice(start);
            edited.resize(start.len() + TAG_BYTES, 0);
            edit.apply_to_start(&mut edited);
            edited.truncate(usize::from(self.filter.snap_bytes.min(*len)).min(edited.len()));
            let priority = switch.priority_of(frame);
            let verdict = match priority {
                None => FrameVerdict::Pause,
                Some(_) if edit.ds.sets_ce() => FrameVerdict::Marked,
                Some(_) => FrameVerdict::Forwarded,
            };
            let priorities = priority.map_or_else(|| named(&edited), |priority| Set8::of(priority.into()));
            let direction = FrameDirection::Out;
            let (at, port, len) = (self.now, port as u8, *len);
            let header = FrameHeader { at, port, direction, verdict, priority, drop: None, len };
            self.write(&header, priorities, &edited);
            self.edited = edited;
        }
    }

    /// Handles a drop: of a frame of the batch, or of one that was to leave a port.
    #[cold]
    fn on_drop<M: FrameMemory>(&mut self, memory: &M, frame: &FrameId, drop: &FrameDrop) {
        let (verdict, port) = (FrameVerdict::Dropped, drop.port as u8);
        if drop.what == DroppedFrame::Received {
            let is_it = |received: &&mut Received| received.frame == frame.index();
            if let Some(Received { header, .. }) = self.batch.iter_mut().find(is_it) {
                (header.verdict, header.drop) = (verdict, Some((drop.reason, port)));
            }
            return;
        }
        let (direction, priority) = (FrameDirection::Out, drop.priority);
        let (at, len, drop) = (self.now, drop.len, Some((drop.reason, port)));
        let header = FrameHeader { at, port, direction, verdict, priority: Some(priority as u8), drop, len };
        let bytes = self.start_of(memory, frame, len);
        self.write(&header, Set8::of(priority), bytes);
    }

    /// Returns the bytes that are kept of a frame.
    fn start_of<'m, M: FrameMemory>(&self, memory: &'m M, frame: &FrameId, len: u16) -> &'m [u8] {
        memory.bytes(frame, len.min(self.filter.snap_bytes).into())
    }

    /// Appends a frame to the buffer, if it is one to take.
    fn write(&mut self, header: &FrameHeader, priorities: Set8, bytes: &[u8]) {
        if self.left == 0 || !self.filter.takes(header, priorities) {
            return;
        }
        let is_full = |buffer: &Vec<u8>| buffer.len() + HEADER_BYTES + bytes.len() > BUFFER_BYTES;
        if self.buffer.as_ref().is_none_or(is_full) {
            self.flush();
            self.buffer = self.ring.pop_empty();
            self.flush_at = self.now + FLUSH_NS;
        }
        let Some(buffer) = &mut self.buffer else { return self.ring.count_missed() };
        header.put(buffer, bytes);
        self.left -= 1;
        if self.left == 0 {
            self.flush();
            self.ring.set_complete();
        }
    }

    fn flush(&mut self) {
        self.flush_at = Instant::NEVER;
        if let Some(buffer) = self.buffer.take() {
            self.ring.push_full(buffer);
        }
    }
}

/// Returns the priorities that a MAC control frame names: all for a PAUSE, and for one that is
/// neither.
fn named(frame: &[u8]) -> Set8 {
    match decode(frame) {
        Ok(Control::Pfc(pfc)) => Set8::from_bits(pfc.enable),
        _ => Set8::ALL,
    }
}

/// The memory of a loop that captures: it reports drops to the capture.
#[derive(Debug)]
pub(crate) struct TappedMemory<'a, M> {
    /// Memory with the frames of the switch.
    pub(crate) memory: &'a mut M,
    /// Receiver of the drops.
    pub(crate) capture: &'a mut Capture,
}

impl<M: FrameMemory> FrameMemory for TappedMemory<'_, M> {
    fn alloc(&mut self) -> Option<FrameId> {
        self.memory.alloc()
    }

    fn alloc_for(&mut self, len: usize) -> Option<FrameId> {
        self.memory.alloc_for(len)
    }

    fn free(&mut self, frame: FrameId) {
        self.memory.free(frame);
    }

    fn on_drop(&mut self, frame: &FrameId, drop: &FrameDrop) {
        self.capture.on_drop(self.memory, frame, drop);
    }

    fn bytes(&self, frame: &FrameId, len: usize) -> &[u8] {
        self.memory.bytes(frame, len)
    }

    fn bytes_mut(&mut self, frame: &FrameId, len: usize) -> &mut [u8] {
        self.memory.bytes_mut(frame, len)
    }

    fn whole(&mut self, frame: &FrameId, len: usize, work: impl FnOnce(&mut [u8]) -> bool) -> bool {
        self.memory.whole(frame, len, work)
    }

    fn make_room(&mut self, frame: &FrameId, len: usize) -> bool {
        self.memory.make_room(frame, len)
    }

    fn copy(&mut self, from: &FrameId, to: &FrameId, len: usize) {
        self.memory.copy(from, to, len);
    }

    fn prefetch(&self, frame: &FrameId) {
        self.memory.prefetch(frame);
    }

    fn max_len(&self) -> usize {
        self.memory.max_len()
    }

    fn chunk_bytes(&self) -> usize {
        self.memory.chunk_bytes()
    }

    fn free_frames(&self) -> usize {
        self.memory.free_frames()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use wire::bitset::Set64;

    /// A memory whose answers are all different, and none of them a default.
    struct Odd {
        bytes: [u8; 100],
        prefetched: Cell<usize>,
    }

    impl FrameMemory for Odd {
        fn alloc(&mut self) -> Option<FrameId> {
            Some(FrameId::new(41))
        }

        fn alloc_for(&mut self, len: usize) -> Option<FrameId> {
            Some(FrameId::new(len as u32))
        }

        fn free(&mut self, frame: FrameId) {
            self.bytes[0] = frame.index() as u8;
        }

        fn bytes(&self, _frame: &FrameId, len: usize) -> &[u8] {
            &self.bytes[..len]
        }

        fn bytes_mut(&mut self, _frame: &FrameId, len: usize) -> &mut [u8] {
            &mut self.bytes[..len]
        }

        fn whole(&mut self, _frame: &FrameId, len: usize, work: impl FnOnce(&mut [u8]) -> bool) -> bool {
            work(&mut self.bytes[1..=len])
        }

        fn make_room(&mut self, _frame: &FrameId, len: usize) -> bool {
            len < 10
        }

        fn copy(&mut self, from: &FrameId, to: &FrameId, _len: usize) {
            self.bytes[to.index()] = from.index() as u8;
        }

        fn prefetch(&self, frame: &FrameId) {
            self.prefetched.set(frame.index());
        }

        fn max_len(&self) -> usize {
            9018
        }

        fn chunk_bytes(&self) -> usize {
            1792
        }

        fn free_frames(&self) -> usize {
            77
        }
    }

    fn capture(snap_bytes: u16) -> Capture {
        let filter = CaptureFilter {
            ports: Set64::first_n(64),
            directions: vec![FrameDirection::In],
            priorities: Set8::ALL,
            verdicts: FrameVerdict::ALL.to_vec(),
            snap_bytes,
            max_frames: 1,
        };
        Capture::new(CaptureRing::with_buffers(1), filter)
    }

    /// The switch does the same with a capture as without.
    #[test]
    fn a_tapped_memory_answers_as_the_memory_itself() {
        let mut memory = Odd { bytes: std::array::from_fn(|n| n as u8), prefetched: Cell::new(0) };
        let mut capture = capture(64);
        let mut tapped = TappedMemory { memory: &mut memory, capture: &mut capture };
        let (frame, other) = (FrameId::new(5), FrameId::new(6));
        assert_eq!(tapped.alloc(), Some(FrameId::new(41)));
        assert_eq!(tapped.alloc_for(90), Some(FrameId::new(90)));
        assert_eq!(tapped.bytes(&frame, 3), [0, 1, 2]);
        assert_eq!(tapped.bytes_mut(&frame, 2), [0, 1]);
        let mut seen = Vec::new();
        let mut work = |bytes: &mut [u8], changed| {
            seen.extend_from_slice(bytes);
            changed
        };
        assert!(tapped.whole(&frame, 2, |bytes| work(bytes, true)));
        assert!(!tapped.whole(&frame, 1, |bytes| work(bytes, false)));
        assert_eq!(seen, [1, 2, 1]);
        assert_eq!([9, 10].map(|len| tapped.make_room(&frame, len)), [true, false]);
        assert_eq!((tapped.max_len(), tapped.chunk_bytes(), tapped.free_frames()), (9018, 1792, 77));
        tapped.copy(&frame, &other, 60);
        tapped.prefetch(&other);
        tapped.free(FrameId::new(3));
        assert_eq!((memory.bytes[6], memory.prefetched.get(), memory.bytes[0]), (5, 6, 3));
    }

    #[test]
    fn a_frame_is_kept_as_far_as_a_buffer_has_room_for_it() {
        let kept = [0, 9018, u16::MAX].map(|snap_bytes| capture(snap_bytes).filter.snap_bytes);
        assert_eq!(kept, [CaptureFilter::MIN_SNAP_BYTES, 9018, (BUFFER_BYTES - HEADER_BYTES) as u16]);
    }
}
