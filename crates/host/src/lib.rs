//! The endpoint that a veth needs: no kernel host obeys PFC there, this one does.
//!
//! `sluice host` is [`run`] with [`Args`]. The pure parts know neither clock nor socket: when a
//! flow's frames fall due ([`pacer`]), the host's own speed ([`shaper`]), the eight queues in which
//! these two meet pauses and congestion marks ([`egress`], [`endpoint`]); the frame format
//! ([`frame`]), and what arrived ([`sequence_tracker`], [`receiver`]). [`host`] joins them over any port;
//! `run.rs` gives it an interface, a clock, signals and an output.
#![forbid(unsafe_code)]

pub mod args;
pub mod egress;
pub mod frame;
pub mod host;
pub mod in_flight;
mod main_loop;
pub mod pacer;
pub mod receiver;
pub mod report;
pub mod sequence_tracker;
pub mod shaper;
pub mod text_report;
pub mod units;

pub use args::Args;
pub use main_loop::{Orders, run, run_with};
