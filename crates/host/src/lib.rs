//! The endpoint that a veth needs: no kernel host obeys PFC there, this one does.
#![forbid(unsafe_code)]

pub mod args;
pub mod egress;
pub mod frame;
pub mod host;
pub mod pace;
pub mod pause;
pub mod receiver;
pub mod report;
pub mod sequences;
pub mod shaper;
pub mod units;

pub use args::Args;
