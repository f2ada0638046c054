//! Priority flow control (IEEE 802.1Qbb) of one port: sending and honoring pauses, the watchdog
//! against pause storms, and rates.
//!
//! No queue and no cell: what is in XOFF is decided in `ingress`, what is stopped in `egress`.

pub mod link_pause;
pub mod rate_monitor;
pub mod rx;
pub mod rx_backlog;
pub mod storm_history;
pub mod tx;
pub mod watchdog;
