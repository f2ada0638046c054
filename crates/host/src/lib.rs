//! An endpoint that honors PFC on a veth, which no kernel host does.
//!
//! `sluice host` is [`run`] with [`Args`]. The pure parts use neither clock nor socket: the times
//! at which a flow's frames become due ([`pacer`]), the eight queues with their pauses, the host's
//! own speed and congestion marks ([`egress`], [`endpoint`]), the frame format
//! ([`frame`]), and the received frames ([`sequence_tracker`], [`receiver`]). [`host`] combines
//! them over any port; `main_loop.rs` adds an interface, a clock, signals and an output.
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
pub mod text_report;
pub mod units;

pub use args::Args;
pub use main_loop::{HostControl, run, run_with};
