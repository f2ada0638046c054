//! What an agent counts.
//!
//! Source: IEEE 802.1AB-2016 9.2.6 (statistical counters).

use serde::{Deserialize, Serialize};

/// Counters of an agent since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Frames sent, shutdown frames included.
    pub tx_frames: u64,
    /// Optional TLVs left out because the frame was full.
    pub tx_omitted_tlvs: u64,
    /// Frames received while reception was enabled.
    pub rx_frames: u64,
    /// Received frames that were malformed.
    pub rx_malformed_frames: u64,
    /// Received frames with the port's own identifiers: the link is looped.
    pub rx_own_frames: u64,
    /// Received frames of neighbors that the table had no room for.
    pub rx_excess_neighbors: u64,
    /// Malformed TLVs of 802.1 and 802.3 in otherwise good frames.
    pub rx_malformed_tlvs: u64,
    /// TLVs of reserved types, and of organizations that are unknown here.
    pub rx_unrecognized_tlvs: u64,
    /// Frames whose DCBX TLVs were malformed, counted once for each version.
    pub rx_malformed_dcbx: u64,
    /// Neighbors that were added.
    pub neighbors_added: u64,
    /// Neighbors that sent a shutdown frame.
    pub neighbors_shut_down: u64,
    /// Neighbors whose time to live ended without a new frame.
    pub neighbors_aged_out: u64,
    /// Events that were not taken in time.
    pub events_lost: u64,
}
