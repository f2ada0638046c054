//! Cell accounting: the size of a cell, the pools that cells come from, the thresholds that they
//! are held against, and the headroom that a link needs.
//!
//! Numbers only. No frame, queue or port is known here.

pub mod cell;
pub mod headroom;
pub mod pool;
pub mod sizing;
pub(crate) mod threshold;
