//! Fixed sizes of a switch: what no setting changes.

/// Ports a switch can have.
pub const MAX_PORTS: usize = 64;

/// 802.1p priorities, and queues of a port.
pub const PRIORITIES: usize = 8;

/// Differentiated services code points.
pub const DSCPS: usize = 64;

/// The largest frame, in bytes without FCS.
pub const LARGEST_FRAME_BYTES: u32 = 9216;

/// What a frame takes of an Ethernet line beyond its own bytes: preamble and start delimiter 8, FCS
/// 4, gap 12 (IEEE 802.3-2022 3.1.1, 4.4.2).
pub const WIRE_OVERHEAD_BYTES: u16 = 24;

/// Service pools that the shared area is divided into.
pub const POOLS: usize = 4;

/// Frames of PFC that may be on their way out of a port at once, should its state change again and
/// again meanwhile.
pub const MAX_IN_FLIGHT: u8 = 4;
