//! Cell accounting: the size of a cell, the pools of cells, their thresholds, and the headroom that
//! a link needs.
//!
//! This module contains numbers only, without frames, queues or ports.

pub mod cell;
pub mod headroom;
pub(crate) mod pool;
pub(crate) mod sizing;
pub(crate) mod threshold;
