//! Frame ownership: a frame is a token, and the holder of the [`FrameId`] is the only owner of the
//! frame's memory.
//!
//! Source: docs/behavior.md, "Invariants", 1. The token can be neither copied nor cloned, so the
//! compiler ensures that a frame is in one place at a time: free, in a fill ring, in a queue of the
//! switch, or being transmitted.

pub mod header_edit;
pub(crate) mod memory;
pub mod meta;
pub(crate) mod remark;

/// Number of one frame of the memory. Its holder owns the frame.
#[derive(Debug, PartialEq, Eq)]
pub struct FrameId(u32);

impl FrameId {
    /// Makes the token of frame `index`. Only the owner of the memory calls this, once for each
    /// frame that it hands out.
    pub fn new(index: u32) -> Self {
        Self(index)
    }

    /// Placeholder for a token that was taken.
    pub(crate) const TAKEN: FrameId = FrameId(u32::MAX);

    /// Returns the frame's number, from 0 to the number of frames less one.
    #[inline]
    pub fn index(&self) -> usize {
        self.0 as usize
    }
}

/// RX descriptor: a frame that was received on a port.
#[derive(Debug)]
pub struct RxDesc {
    /// The frame's token.
    pub frame: FrameId,
    /// Bytes from the destination address on, without FCS.
    pub len: u16,
    /// Priority of the queue that it came from, where each has one of its own.
    pub priority: Option<u8>,
}

impl RxDesc {
    /// Makes a descriptor of a frame that is classified by its headers.
    #[inline]
    pub fn new(frame: FrameId, len: u16) -> Self {
        Self { frame, len, priority: None }
    }
}

/// Frames that a batch may contain without an allocation.
pub(crate) const PUNTED_IN_A_BATCH: usize = 64;

/// A frame that the switch consumed for its owner.
#[derive(Debug)]
pub(crate) struct PuntedFrame {
    /// The frame's token.
    pub(crate) frame: FrameId,
    /// Port that received it.
    pub(crate) port: usize,
    /// Its length, without FCS.
    pub(crate) len: u16,
}
