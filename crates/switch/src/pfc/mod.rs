//! Priority flow control (IEEE 802.1Qbb) of one port: sending and honoring pauses, the watchdog
//! against pause storms, and rates.
//!
//! This module has no queues or cells: `ingress` decides what is in XOFF, `egress` stops what is
//! paused.

pub mod link_pause;
pub mod peer_response;
pub(crate) mod port_watchdog;
pub(crate) mod rate_monitor;
pub mod rx;
pub mod rx_backlog;
pub mod tx;
pub(crate) mod watchdog;
