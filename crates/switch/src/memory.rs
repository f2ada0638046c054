//! Where frames lie. The switch reads headers and copies flooded frames through [`Memory`]; the daemon's is a UMEM,
//! tests and benches use [`HeapMemory`].

use crate::frame::FrameId;
use crate::pfc_sent::MAX_IN_FLIGHT;
use crate::settings::SwitchSettings;

/// Frames of memory that PFC may need beyond what cells account for.
const OWN_FRAMES_PER_PORT: usize = MAX_IN_FLIGHT as usize;

/// Frames of memory that the switch itself may hold: every cell a minimum-size frame, and PFC.
pub fn frames_needed(settings: &SwitchSettings) -> usize {
    let cells = settings.buffer.shared_cells()
        + settings.buffer.headroom_cells
        + settings.ports.iter().flat_map(|port| &port.groups).map(|group| group.reserved_cells).sum::<u32>();
    cells as usize + settings.ports.len() * OWN_FRAMES_PER_PORT
}

/// A fixed number of equally large frames.
pub trait Memory {
    /// Takes a free frame, the one freed last first (it is still in the cache); `None` when all are taken.
    fn alloc(&mut self) -> Option<FrameId>;
    /// Gives a frame back.
    fn free(&mut self, frame: FrameId);
    /// The first `len` bytes of a frame, from its destination address on.
    fn bytes(&self, frame: &FrameId, len: usize) -> &[u8];
    /// The first `len` bytes of a frame, to be written.
    fn bytes_mut(&mut self, frame: &FrameId, len: usize) -> &mut [u8];
    /// Copies the first `len` bytes of `from` to `to`.
    fn copy(&mut self, from: &FrameId, to: &FrameId, len: usize);
    /// Brings a frame's header towards the cache, ahead of its use: a miss is half of what a frame costs. Memory that
    /// cannot do so without waiting does nothing.
    #[inline]
    fn prefetch(&self, _frame: &FrameId) {}
    /// The longest frame that fits, in bytes.
    fn max_len(&self) -> usize;
    /// Frames that nobody holds.
    fn free_frames(&self) -> usize;
}

/// Frames on the heap.
#[derive(Debug)]
pub struct HeapMemory {
    bytes: Vec<u8>,
    frame_bytes: usize,
    free: Vec<u32>,
}

impl HeapMemory {
    /// `frames` frames of `frame_bytes` bytes each, all free.
    pub fn new(frames: usize, frame_bytes: usize) -> Self {
        let frames = u32::try_from(frames).expect("frame numbers are 32 bits");
        Self { bytes: vec![0; frames as usize * frame_bytes], frame_bytes, free: (0..frames).rev().collect() }
    }

    /// The same, but for the frames that `is_taken` says somebody holds already.
    pub fn with_taken(frames: usize, frame_bytes: usize, is_taken: impl Fn(usize) -> bool) -> Self {
        let mut memory = Self::new(frames, frame_bytes);
        memory.free.retain(|&frame| !is_taken(frame as usize));
        memory
    }
}

impl Memory for HeapMemory {
    #[inline]
    fn alloc(&mut self) -> Option<FrameId> {
        self.free.pop().map(FrameId::new)
    }

    #[inline]
    fn free(&mut self, frame: FrameId) {
        self.free.push(frame.index() as u32);
    }

    #[inline]
    fn bytes(&self, frame: &FrameId, len: usize) -> &[u8] {
        let start = frame.index() * self.frame_bytes;
        &self.bytes[start..start + len.min(self.frame_bytes)]
    }

    #[inline]
    fn bytes_mut(&mut self, frame: &FrameId, len: usize) -> &mut [u8] {
        let start = frame.index() * self.frame_bytes;
        &mut self.bytes[start..start + len.min(self.frame_bytes)]
    }

    fn copy(&mut self, from: &FrameId, to: &FrameId, len: usize) {
        let start = from.index() * self.frame_bytes;
        self.bytes.copy_within(start..start + len.min(self.frame_bytes), to.index() * self.frame_bytes);
    }

    fn max_len(&self) -> usize {
        self.frame_bytes
    }

    fn free_frames(&self) -> usize {
        self.free.len()
    }
}
