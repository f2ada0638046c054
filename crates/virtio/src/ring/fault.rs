//! What a guest can do wrong in a ring, each with its name and counter.

/// A violation of the rules of split virtqueues, or a frame that no port accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RingFault {
    /// The available index is further ahead than the ring is long.
    IndexJump,
    /// An available entry names a descriptor that does not exist.
    HeadOutOfRange,
    /// A descriptor continues with one that does not exist.
    NextOutOfRange,
    /// A chain has more descriptors than a frame may have; it may be a loop.
    ChainTooLong,
    /// A descriptor points outside of the guest's memory, or across two regions.
    BadAddress,
    /// A descriptor has no bytes.
    EmptyDescriptor,
    /// The bytes of a chain are more than a frame may have.
    FrameTooLong,
    /// The bytes of a chain are less than the headers of virtio and Ethernet.
    FrameTooShort,
    /// The guest sends a buffer that it wants written.
    WritableSent,
    /// The guest posts a buffer that it wants read.
    ReadOnlyPosted,
    /// A table of descriptors, which was not negotiated.
    IndirectNotNegotiated,
    /// A table of descriptors in a table of descriptors.
    IndirectNested,
    /// A table of descriptors with a successor.
    IndirectWithNext,
    /// A table of descriptors whose length is no number of descriptors.
    IndirectBadLength,
    /// A posted buffer without room for the virtio header.
    BufferTooSmall,
    /// A frame that is longer than a posted buffer where buffers are not merged, or than all that
    /// the ring can hold.
    FrameDoesNotFit,
    /// The frame asks for segmentation or a checksum, which was not negotiated.
    OffloadNotNegotiated,
}

impl RingFault {
    /// All faults.
    pub const ALL: [RingFault; 17] = [
        RingFault::IndexJump,
        RingFault::HeadOutOfRange,
        RingFault::NextOutOfRange,
        RingFault::ChainTooLong,
        RingFault::BadAddress,
        RingFault::EmptyDescriptor,
        RingFault::FrameTooLong,
        RingFault::FrameTooShort,
        RingFault::WritableSent,
        RingFault::ReadOnlyPosted,
        RingFault::IndirectNotNegotiated,
        RingFault::IndirectNested,
        RingFault::IndirectWithNext,
        RingFault::IndirectBadLength,
        RingFault::BufferTooSmall,
        RingFault::FrameDoesNotFit,
        RingFault::OffloadNotNegotiated,
    ];

    /// Returns its name, as counters and messages have it.
    pub fn name(self) -> &'static str {
        match self {
            RingFault::IndexJump => "index-jump",
            RingFault::HeadOutOfRange => "head-out-of-range",
            RingFault::NextOutOfRange => "next-out-of-range",
            RingFault::ChainTooLong => "chain-too-long",
            RingFault::BadAddress => "bad-address",
            RingFault::EmptyDescriptor => "empty-descriptor",
            RingFault::FrameTooLong => "frame-too-long",
            RingFault::FrameTooShort => "frame-too-short",
            RingFault::WritableSent => "writable-sent",
            RingFault::ReadOnlyPosted => "read-only-posted",
            RingFault::IndirectNotNegotiated => "indirect-not-negotiated",
            RingFault::IndirectNested => "indirect-nested",
            RingFault::IndirectWithNext => "indirect-with-next",
            RingFault::IndirectBadLength => "indirect-bad-length",
            RingFault::BufferTooSmall => "buffer-too-small",
            RingFault::FrameDoesNotFit => "frame-does-not-fit",
            RingFault::OffloadNotNegotiated => "offload-not-negotiated",
        }
    }

    /// True if the ring cannot continue after it: what the guest means is unknown. Otherwise only
    /// the frame is lost.
    pub fn stops_ring(self) -> bool {
        !matches!(
            self,
            RingFault::FrameTooLong
                | RingFault::FrameTooShort
                | RingFault::FrameDoesNotFit
                | RingFault::OffloadNotNegotiated
        )
    }
}

/// Faults of a port's rings by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts([u64; RingFault::ALL.len()]);

impl FaultCounts {
    /// Counts a fault.
    #[expect(clippy::indexing_slicing, reason = "by kind, an enumeration")]
    pub fn count(&mut self, fault: RingFault) {
        self.0[fault as usize] += 1;
    }

    /// Returns how often a fault occurred.
    #[expect(clippy::indexing_slicing, reason = "by kind, an enumeration")]
    pub fn of(&self, fault: RingFault) -> u64 {
        self.0[fault as usize]
    }

    /// Returns the number of all faults.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
