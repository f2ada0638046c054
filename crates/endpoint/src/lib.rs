//! The flow control that an endpoint of a lossless network honors, as pure state: received pauses
//! ([`pause`]) and congestion marks ([`dcqcn`]). No clock, socket, thread or `unsafe`: the host
//! runs this code in real time, the simulator in virtual time.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod dcqcn;
pub mod pause;

/// Maximum number of frames that wait while a flow is held back. Frames due beyond that are never
/// sent, so a flow that was paused for long does not catch up without bound.
pub const MAX_BACKLOG_FRAMES: u64 = 1024;
