//! Where a frame goes and how it is treated: parsing, classification, VLANs, the forwarding
//! database (FDB), storm control.
//!
//! This module counts no cells and queues no frames.

pub mod classifier;
#[expect(
    clippy::indexing_slicing,
    reason = "by slot, as wide as the table; by port, which the switch numbers"
)]
pub(crate) mod fdb;
pub(crate) mod parsed_frame;
pub mod storm_control;
pub mod vlan;
