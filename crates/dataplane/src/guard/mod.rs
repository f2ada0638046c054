//! The stall guard's interface to a loop: its heartbeat, and the rule by which it counts as
//! stalled.
//!
//! Pure. The threads that act on it belong to the daemon. Source: docs/behavior.md, "A loop that
//! stalls".

pub mod heartbeat;
mod reports;
pub mod stall_detector;
