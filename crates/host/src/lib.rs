//! The endpoint that a veth needs: no kernel host obeys PFC there, this one does.

pub mod egress;
pub mod pace;
pub mod pause;
pub mod report;
pub mod shaper;
pub mod units;
