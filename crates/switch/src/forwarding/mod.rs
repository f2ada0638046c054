//! Where a frame goes and how it is treated: parsing, classification, VLANs, the forwarding
//! database (FDB), storm control.
//!
//! No cell is counted and no frame is queued here.

pub mod classifier;
pub mod fdb;
pub mod parsed_frame;
pub mod storm_control;
pub mod vlan;
