//! Memory in which only the first bytes of a frame are contiguous, as in a jumbo frame. What the
//! switch reads or writes beyond them without requesting the whole frame is missing.

use switch::{FrameId, FrameMemory, HeapMemory};

/// Contiguous bytes: room for the longest headers that the switch reads, and no more.
pub const CHUNK_BYTES: usize = 160;

/// Frames on the heap, of which `bytes` shows only the first piece.
pub struct ChunkedMemory {
    heap: HeapMemory,
    /// False if a frame cannot be moved to make room for a tag.
    pub has_room: bool,
}

impl ChunkedMemory {
    /// Creates `frames` frames of `frame_bytes` bytes each, all free.
    pub fn new(frames: usize, frame_bytes: usize) -> Self {
        Self { heap: HeapMemory::new(frames, frame_bytes), has_room: true }
    }

    /// Writes these bytes into a frame.
    pub fn fill(&mut self, frame: &FrameId, bytes: &[u8]) {
        self.heap.bytes_mut(frame, bytes.len()).copy_from_slice(bytes);
    }

    /// Returns all bytes of a frame, for the test itself.
    pub fn all(&self, frame: &FrameId, len: usize) -> &[u8] {
        self.heap.bytes(frame, len)
    }
}

impl FrameMemory for ChunkedMemory {
    fn alloc(&mut self) -> Option<FrameId> {
        self.heap.alloc()
    }

    fn free(&mut self, frame: FrameId) {
        self.heap.free(frame);
    }

    fn bytes(&self, frame: &FrameId, len: usize) -> &[u8] {
        self.heap.bytes(frame, len.min(CHUNK_BYTES))
    }

    fn bytes_mut(&mut self, frame: &FrameId, len: usize) -> &mut [u8] {
        self.heap.bytes_mut(frame, len.min(CHUNK_BYTES))
    }

    fn whole(&mut self, frame: &FrameId, len: usize, work: impl FnOnce(&mut [u8]) -> bool) -> bool {
        // A copy, written back if it was changed: a change that is not reported is lost.
        let mut bytes = self.heap.bytes(frame, len).to_vec();
        let changed = work(&mut bytes);
        if changed {
            self.fill(frame, &bytes);
        }
        changed
    }

    fn make_room(&mut self, _frame: &FrameId, _len: usize) -> bool {
        self.has_room
    }

    fn copy(&mut self, from: &FrameId, to: &FrameId, len: usize) {
        self.heap.copy(from, to, len);
    }

    fn max_len(&self) -> usize {
        self.heap.max_len()
    }

    fn chunk_bytes(&self) -> usize {
        CHUNK_BYTES
    }

    fn free_frames(&self) -> usize {
        self.heap.free_frames()
    }
}
