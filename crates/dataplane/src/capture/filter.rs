//! Which frames a capture takes.

use wire::bitset::{Set8, Set64};

use crate::capture::frame::{FrameDirection, FrameHeader, FrameVerdict};

/// Which frames a capture takes, and how much of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureFilter {
    /// Port numbers. A drop belongs to the port that received the frame and to the one that counts
    /// the drop.
    pub ports: Set64,
    /// In, out, or both, as seen from the switch.
    pub directions: Vec<FrameDirection>,
    /// Priorities; a pause belongs to each one that it names.
    pub priorities: Set8,
    /// What became of the frames.
    pub verdicts: Vec<FrameVerdict>,
    /// Bytes that are kept of each frame.
    pub snap_bytes: u16,
    /// Frames after which the capture ends.
    pub max_frames: u64,
}

impl CaptureFilter {
    /// Least bytes that are kept of a frame: the headers that an edit changes.
    pub const MIN_SNAP_BYTES: u16 = 64;

    pub(crate) fn takes(&self, header: &FrameHeader, priorities: Set8) -> bool {
        let is_at = |port: u8| self.ports.contains(port.into());
        (is_at(header.port) || header.drop.is_some_and(|(_, port)| is_at(port)))
            && !self.priorities.and(priorities).is_empty()
            && self.directions.contains(&header.direction)
            && self.verdicts.contains(&header.verdict)
    }
}
