//! A frame is a token: whoever holds the [`FrameId`] owns the frame's memory, and nobody else does.
//!
//! Source: docs/behavior.md, "Invariants", 1. The token can neither be copied nor cloned, so the
//! compiler sees to it that a frame is in one place at a time: free, in a fill ring, in a queue of
//! the switch, or on its way out.

pub mod header_edit;
pub mod memory;
pub mod meta;
pub mod remark;

/// The number of one frame of the memory. Holding it is owning the frame.
#[derive(Debug, PartialEq, Eq)]
pub struct FrameId(u32);

impl FrameId {
    /// Makes the token of frame `index`. Only the owner of the memory calls this, once for each
    /// frame that it hands out.
    pub fn new(index: u32) -> Self {
        Self(index)
    }

    /// Stands where a token was that somebody has taken.
    pub(crate) const TAKEN: FrameId = FrameId(u32::MAX);

    /// The frame's number, from 0 to the number of frames less one.
    pub fn index(&self) -> usize {
        self.0 as usize
    }
}

/// A frame that came in on a port.
#[derive(Debug)]
pub struct RxDesc {
    /// The frame's token.
    pub frame: FrameId,
    /// Bytes from the destination address on, without FCS.
    pub len: u16,
}
