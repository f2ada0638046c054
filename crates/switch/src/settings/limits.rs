//! Fixed limits of a switch, which no setting changes.

/// Maximum number of ports of a switch.
pub const MAX_PORTS: usize = 64;

/// Number of 802.1p priorities, and of queues of a port.
pub const PRIORITIES: usize = 8;

/// Number of differentiated services code points.
pub const DSCPS: usize = 64;

/// The largest frame, in bytes without FCS.
pub const LARGEST_FRAME_BYTES: u32 = 9216;

/// Bytes on the wire that a frame takes beyond its own: preamble and start delimiter 8, FCS 4, gap
/// 12 (IEEE 802.3-2022 3.1.1, 4.4.2).
pub const WIRE_OVERHEAD_BYTES: u16 = 24;

/// Service pools that the shared area is divided into.
pub const POOLS: usize = 4;

/// The most cells that are read of a guest's queue in an iteration, unless a single frame has more:
/// what may arrive after XOFF on a port of a vhost-user socket (docs/vhost-user.md,
/// "Backpressure"). 42 frames of 1514 bytes, in cells of 256.
pub const GUEST_BATCH_CELLS: u32 = 256;
/// The fewest cells that such a batch is limited to, however little headroom there is.
pub const LEAST_GUEST_BATCH_CELLS: u32 = 64;

/// PFC frames of a port that may be in flight at once, if its state changes repeatedly meanwhile.
pub const MAX_IN_FLIGHT: u8 = 4;
