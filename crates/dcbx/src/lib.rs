//! LLDP agent and DCBX state machines of one port: PFC, ETS and application priorities negotiated
//! with the peer.
//!
//! Frames and time go in, frames and an operational configuration come out. There is no clock,
//! socket or thread: time is a parameter, a [`Duration`](core::time::Duration) since an epoch that
//! the owner chose.
//!
//! | module | subject |
//! |---|---|
//! | [`agent`] | [`Agent`]: one port; owns the machines and builds what is advertised |
//! | [`lldp`] | transmit, transmit timer and receive machines of 802.1AB; the neighbors |
//! | [`negotiation`] | which version is spoken; IEEE, CEE and CIN |
//! | [`settings`] | plain values with their defaults |
//! | [`status`] | local, peer and operational configuration of each feature, with the reason |
//! | [`event`], [`counters`] | what happened, and how often |
//!
//! docs/dcbx.md has the rules.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
// Input never ends the loop: what cannot happen is an exception with its reason.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::todo, clippy::unimplemented)]
#![deny(clippy::indexing_slicing)]

pub mod agent;
pub mod counters;
pub mod event;
pub mod lldp;
pub mod negotiation;
pub mod settings;
pub mod status;

pub use agent::{Agent, PollOutput};
pub use counters::Counters;
pub use event::Event;
pub use settings::AgentSettings;
pub use status::{Operational, Status};
