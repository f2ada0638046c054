//! Frame memory. Through [`FrameMemory`] headers are read, edits are made
//! ([`crate::frame::header_edit`]), and flooded frames are copied. The daemon's memory is a UMEM;
//! tests and benches use [`HeapMemory`]. The switch itself accesses only the bytes of flooded
//! frames, which it copies, and of PFC frames.

use crate::frame::FrameId;
use crate::monitor::counters::DropReason;
use serde::{Deserialize, Serialize};
use wire::ethernet;

/// Longest frame that a port accepts, in bytes without FCS: an MTU of 9216, the Ethernet header and
/// two 802.1Q tags.
pub const LONGEST_RECEIVED_BYTES: usize = 9216 + 14 + 2 * 4;

/// Longest frame that memory must fit: the longest received frame plus a pushed tag.
pub const LONGEST_BYTES: usize = LONGEST_RECEIVED_BYTES + ethernet::TAG_BYTES;

/// Limits of the frame memory that the switch needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaxFrame {
    /// Longest frame that fits.
    pub longest_bytes: u16,
    /// Contiguous bytes of a frame; a longer frame takes several chunks.
    pub chunk_bytes: u16,
}

impl MaxFrame {
    /// The largest possible limits.
    pub const MAX: Self = Self { longest_bytes: u16::MAX, chunk_bytes: u16::MAX };

    /// Returns the limits of a memory.
    pub fn of(memory: &impl FrameMemory) -> Self {
        let bytes = |bytes| u16::try_from(bytes).unwrap_or(u16::MAX);
        Self { longest_bytes: bytes(memory.max_len()), chunk_bytes: bytes(memory.chunk_bytes()) }
    }
}

/// A drop, as it is reported to the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameDrop {
    /// What is dropped.
    pub what: DroppedFrame,
    /// Port that counts the drop.
    pub port: usize,
    /// Why it is dropped.
    pub reason: DropReason,
    /// Priority of the frame.
    pub priority: usize,
    /// Length of the frame in bytes, without FCS.
    pub len: u16,
}

/// What a drop removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DroppedFrame {
    /// A frame that was just received, as a whole.
    Received,
    /// The copy of a flooded frame for one port, or a frame that was queued for that port.
    Departing,
}

/// A fixed number of equally large chunks. A frame occupies one chunk, or several if it is long:
/// its headers are contiguous, the rest is not.
pub trait FrameMemory {
    /// Takes a free frame, the one freed last first (it is still in the cache); `None` if none is
    /// free.
    fn alloc(&mut self) -> Option<FrameId>;
    /// Takes free memory for a frame of `len` bytes; `None` if there is not enough.
    #[inline]
    fn alloc_for(&mut self, _len: usize) -> Option<FrameId> {
        self.alloc()
    }
    /// Frees a frame.
    fn free(&mut self, frame: FrameId);
    /// Reports that a frame, or a copy of one, is dropped, while its bytes are still there. Only a
    /// capture has a use for it.
    #[inline]
    fn on_drop(&mut self, _frame: &FrameId, _drop: &FrameDrop) {}
    /// Returns the first `len` bytes of a frame, from its destination address on, or as many of
    /// them as are contiguous.
    fn bytes(&self, frame: &FrameId, len: usize) -> &[u8];
    /// Returns the same bytes, writable.
    fn bytes_mut(&mut self, frame: &FrameId, len: usize) -> &mut [u8];
    /// Passes the first `len` bytes of a frame to `work` in one contiguous slice. `work` returns
    /// whether it has changed any, and so does this function.
    #[inline]
    fn whole(&mut self, frame: &FrameId, len: usize, work: impl FnOnce(&mut [u8]) -> bool) -> bool {
        work(self.bytes_mut(frame, len))
    }
    /// Ensures that a frame has room for `len` bytes, which may be a tag more than it has. Returns
    /// false if there is no memory for it.
    #[inline]
    fn make_room(&mut self, _frame: &FrameId, _len: usize) -> bool {
        true
    }
    /// Copies the first `len` bytes of `from` to `to`.
    fn copy(&mut self, from: &FrameId, to: &FrameId, len: usize);
    /// Prefetches a frame's header ahead of its use: a cache miss is half of the cost of a frame. A
    /// memory that cannot do so without waiting does nothing.
    #[inline]
    fn prefetch(&self, _frame: &FrameId) {}
    /// Returns the longest frame that fits, in bytes.
    fn max_len(&self) -> usize;
    /// Returns the contiguous bytes of a frame.
    fn chunk_bytes(&self) -> usize {
        self.max_len()
    }
    /// Returns the number of free frames, or chunks of long ones.
    fn free_frames(&self) -> usize;
}

/// Minimum bytes by which memory on the heap grows.
const MIN_GROWTH_BYTES: usize = 1 << 16;

/// Frame memory on the heap, allocated as frames are used: a buffer of millions of cells costs only
/// its peak use.
#[derive(Debug)]
pub struct HeapMemory {
    bytes: Vec<u8>,
    frame_bytes: usize,
    free: Vec<u32>,
    /// Frames from this one up to `frames` were never used.
    fresh: u32,
    frames: u32,
}

impl HeapMemory {
    /// Makes `frames` frames of `frame_bytes` bytes each, all free.
    pub fn new(frames: usize, frame_bytes: usize) -> Self {
        #[expect(clippy::expect_used, reason = "at the start, with a number of our own")]
        let frames = u32::try_from(frames).expect("frame numbers are 32 bits");
        Self { bytes: Vec::new(), frame_bytes, free: Vec::new(), fresh: 0, frames }
    }

    /// Makes such a memory without the frames for which `is_taken` is true: they are in use
    /// already.
    pub fn with_allocated(frames: usize, frame_bytes: usize, is_taken: impl Fn(usize) -> bool) -> Self {
        let mut memory = Self::new(frames, frame_bytes);
        memory.bytes.resize(frames * frame_bytes, 0);
        memory.fresh = memory.frames;
        memory.free = (0..memory.frames).rev().filter(|&frame| !is_taken(frame as usize)).collect();
        memory
    }

    /// Takes a frame that was never used.
    #[cold]
    fn alloc_fresh(&mut self) -> Option<FrameId> {
        if self.fresh == self.frames {
            return None;
        }
        let needed = (self.fresh as usize + 1).checked_mul(self.frame_bytes);
        if !needed.is_some_and(|needed| self.grow_to(needed)) {
            return None;
        }
        self.fresh += 1;
        Some(FrameId::new(self.fresh - 1))
    }

    /// Grows to `needed` bytes, if there is memory: doubles each time, but only up to the size of
    /// all frames.
    fn grow_to(&mut self, needed: usize) -> bool {
        let len = self.bytes.len();
        if needed > len {
            let all = self.frame_bytes.saturating_mul(self.frames as usize);
            let wanted = needed.max(2 * len).max(MIN_GROWTH_BYTES).min(all);
            if self.bytes.try_reserve_exact(wanted - len).is_err() {
                return false;
            }
            self.bytes.resize(wanted, 0);
        }
        true
    }
}

impl FrameMemory for HeapMemory {
    #[inline]
    fn alloc(&mut self) -> Option<FrameId> {
        match self.free.pop() {
            Some(frame) => Some(FrameId::new(frame)),
            None => self.alloc_fresh(),
        }
    }

    #[inline]
    fn free(&mut self, frame: FrameId) {
        self.free.push(frame.index() as u32);
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a frame of this memory, and no more bytes than it has")]
    fn bytes(&self, frame: &FrameId, len: usize) -> &[u8] {
        let start = frame.index() * self.frame_bytes;
        &self.bytes[start..start + len.min(self.frame_bytes)]
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a frame of this memory, and no more bytes than it has")]
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
        self.free.len() + (self.frames - self.fresh) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The maximum number of frames: bytes are allocated for frames in use, in the order of their
    /// numbers.
    #[test]
    fn memory_is_allocated_as_it_is_used() {
        let mut memory = HeapMemory::new(u32::MAX as usize, 64);
        let mut frames: Vec<FrameId> = (0..1024).filter_map(|_| memory.alloc()).collect();
        assert_eq!(memory.bytes.len(), 1 << 16, "all of them are used");
        frames.extend((1024..1500).filter_map(|_| memory.alloc()));
        assert!(frames.iter().map(FrameId::index).eq(0..1500));
        assert_eq!((memory.bytes.len(), memory.free_frames()), (1 << 17, u32::MAX as usize - 1500));
        frames.into_iter().for_each(|frame| memory.free(frame));
        assert_eq!(memory.alloc().map(|frame| frame.index()), Some(1499), "the one freed last first");
        memory.free.sort_unstable();
        assert!(memory.fresh == 1500 && memory.free.iter().copied().eq(0..1499));
        assert_eq!((memory.bytes.len(), memory.free_frames()), (1 << 17, u32::MAX as usize - 1));
    }

    #[test]
    fn memory_ends_with_its_frames() {
        let mut memory = HeapMemory::new(2, 64);
        let frames = [memory.alloc(), memory.alloc(), memory.alloc()];
        assert_eq!(frames.each_ref().map(Option::is_some), [true, true, false]);
    }

    /// No machine has this much memory: there is no frame.
    #[test]
    #[cfg_attr(miri, ignore = "Miri ends where memory cannot be had")]
    fn unavailable_memory_is_refused() {
        let mut memory = HeapMemory::new(4, 1 << 62);
        assert!(memory.alloc().is_none());
    }

    /// The lowest free number first; a frame in use keeps its bytes.
    #[test]
    fn frames_in_use_are_left_out() {
        let mut memory = HeapMemory::with_allocated(4, 64, |frame| frame == 1);
        assert_eq!(memory.free_frames(), 3);
        memory.bytes_mut(&FrameId::new(1), 64).fill(7);
        let frames = [(); 4].map(|()| memory.alloc().map(|frame| frame.index()));
        assert_eq!(frames, [Some(0), Some(2), Some(3), None]);
        assert_eq!((memory.free_frames(), memory.bytes(&FrameId::new(1), 64)), (0, &[7; 64][..]));
    }

    /// No more than a frame has, whatever length is asked for.
    #[test]
    fn bytes_of_a_frame_end_with_it() {
        let mut memory = HeapMemory::new(3, 64);
        let [one, two, three] = [(); 3].map(|()| memory.alloc().expect("a frame"));
        memory.bytes_mut(&two, 100).fill(7);
        memory.copy(&two, &one, 10);
        let sevens =
            |memory: &HeapMemory, frame| memory.bytes(frame, 100).iter().filter(|&&byte| byte == 7).count();
        assert_eq!([&one, &two, &three].map(|frame| sevens(&memory, frame)), [10, 64, 0]);
        memory.copy(&two, &three, 100);
        assert_eq!((sevens(&memory, &three), memory.bytes(&three, 100).len()), (64, 64));
        assert_eq!(MaxFrame::of(&memory), MaxFrame { longest_bytes: 64, chunk_bytes: 64 });
    }
}
