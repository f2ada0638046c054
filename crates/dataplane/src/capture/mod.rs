//! Captures: copies of the frames that a loop receives, transmits and drops, for a client that
//! looks at them. `tcpdump` does not see the frames of an AF_XDP port.
//!
//! Rule: a capture that is off costs the loop a branch per batch. One that is on neither allocates
//! nor waits: the start of each frame is copied into a buffer that the daemon supplied, and a frame
//! that finds no buffer is counted and left out. Source: docs/monitoring/capture.md.

pub mod filter;
pub mod frame;
pub mod ring;
pub mod tap;
