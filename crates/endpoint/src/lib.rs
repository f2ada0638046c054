//! What an endpoint of a lossless network obeys, as pure state: a received pause ([`pause`]) and
//! congestion marks ([`dcqcn`]). No clock, socket, thread or `unsafe`: whoever drives a host, in
//! real time or in virtual, runs this code.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod dcqcn;
pub mod pause;

/// Frames that wait at most while a flow is held back. What falls due beyond them is never sent, so
/// that a flow that was paused for long does not make up for it without bound.
pub const MAX_BACKLOG_FRAMES: u64 = 1024;
