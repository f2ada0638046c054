//! The buffers of a capture, on their way from the loop to the daemon and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crossbeam::queue::ArrayQueue;

/// Bytes of a buffer: several of the longest frames.
pub(crate) const BUFFER_BYTES: usize = 1 << 16;
/// Buffers of a capture, 16 MiB together: more than the daemon leaves unread for 20 ms at full
/// rate.
const BUFFERS: usize = 256;

/// The buffers of a capture.
#[derive(Debug)]
pub struct CaptureRing {
    full: ArrayQueue<Vec<u8>>,
    empty: ArrayQueue<Vec<u8>>,
    missed: AtomicU64,
    is_complete: AtomicBool,
}

impl CaptureRing {
    /// Creates the buffers of a capture.
    pub fn new() -> Arc<Self> {
        Self::with_buffers(BUFFERS)
    }

    /// Creates this number of buffers.
    pub fn with_buffers(buffers: usize) -> Arc<Self> {
        let ring = Self {
            full: ArrayQueue::new(buffers),
            empty: ArrayQueue::new(buffers),
            missed: AtomicU64::new(0),
            is_complete: AtomicBool::new(false),
        };
        for _ in 0..buffers {
            // Written once, so that the loop takes no page fault.
            ring.recycle(vec![1; BUFFER_BYTES]);
        }
        Arc::new(ring)
    }

    /// Takes the next buffer with frames.
    pub fn pop_full(&self) -> Option<Vec<u8>> {
        self.full.pop()
    }

    /// Returns a buffer to the loop.
    pub fn recycle(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let _ = self.empty.push(buffer); // never more buffers than capacity
    }

    /// Returns the number of frames that found no buffer.
    pub fn missed(&self) -> u64 {
        self.missed.load(Relaxed)
    }

    /// True once the capture has all the frames that it was to take.
    pub fn is_complete(&self) -> bool {
        self.is_complete.load(Relaxed)
    }

    pub(super) fn pop_empty(&self) -> Option<Vec<u8>> {
        self.empty.pop()
    }

    pub(super) fn push_full(&self, buffer: Vec<u8>) {
        let _ = self.full.push(buffer); // never more buffers than capacity
    }

    /// Counts a frame that found no buffer. Only the loop counts.
    pub(super) fn count_missed(&self) {
        self.missed.store(self.missed.load(Relaxed) + 1, Relaxed);
    }

    pub(super) fn set_complete(&self) {
        self.is_complete.store(true, Relaxed);
    }
}
