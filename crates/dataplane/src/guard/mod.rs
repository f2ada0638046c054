//! What the stall guard needs of a loop: its heartbeat, and the rule by which it counts as stalled.
//!
//! Pure. The threads that act on it are the daemon's. Source: docs/kernel-behavior.md.

pub mod heartbeat;
pub mod stall_detector;
