//! A frame is a token: whoever holds the [`FrameId`] owns the frame's memory, and nobody else does.
//!
//! Source: docs/behavior.md, "Invariants", 1. The token can neither be copied nor cloned, so the compiler sees to it that a
//! frame is in one place at a time: free, in a fill ring, in a queue of the switch, or on its way out.

use crate::edit::Edit;

/// The number of one frame of the memory. Holding it is owning the frame.
#[derive(Debug, PartialEq, Eq)]
pub struct FrameId(u32);

impl FrameId {
    /// Makes the token of frame `index`. Only the owner of the memory calls this, once for each frame that it hands out.
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
pub struct Received {
    /// The frame's token.
    pub frame: FrameId,
    /// Bytes from the destination address on, without FCS.
    pub len: u16,
}

/// A frame that is to leave a port now.
#[derive(Debug)]
pub struct Outgoing {
    /// The frame's token.
    pub frame: FrameId,
    /// Bytes from the destination address on, without FCS, as it leaves.
    pub len: u16,
    /// What is still to be done to its bytes.
    pub edit: Edit,
}

impl Outgoing {
    /// A frame that leaves as it is.
    #[inline]
    pub fn new(frame: FrameId, len: u16) -> Self {
        Self { frame, len, edit: Edit::NONE }
    }
}
