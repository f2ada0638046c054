//! What an endpoint of a lossless network does, as pure state: it honors received pauses
//! ([`pause`]), slows down by congestion marks ([`dcqcn`]) or by acknowledgments ([`transport`]),
//! and sends lost frames again ([`retransmission`]). No clock, socket, thread or `unsafe`: the host
//! runs this code in real time, the simulator in virtual time.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod dcqcn;
pub mod dctcp;
pub mod feedback;
pub mod hpcc;
pub mod pause;
pub mod retransmission;
pub mod swift;
pub mod timely;
pub mod transport;

/// Maximum number of frames that wait while a flow is held back. Frames due beyond that are never
/// sent, so a flow that was paused for long does not catch up without bound.
pub const MAX_BACKLOG_FRAMES: u64 = 1024;
