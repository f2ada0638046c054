//! Networks of many switches, hosts and cables in virtual time. The switches are the daemon's own
//! (`switch::Switch`), configured by the daemon's own configuration files; only their surroundings
//! are simulated.
//!
//! ```text
//! scenario.toml ──▶ Scenario ──▶ Simulation ──▶ Results
//!  + device.toml                  run_until       summary, series for plots, expectations
//! ```
//! The same scenario and seed give the same results, byte by byte. Nothing here reads a clock, a
//! file or the machine.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod event_queue;
pub mod expect;
mod flow;
mod host_node;
mod link;
mod packet;
pub mod parts;
pub mod results;
mod routes;
pub mod scenario;
mod simulation;
mod switch_node;
mod time;
mod totals;
mod trace;

pub use results::Results;
pub use scenario::Scenario;
pub use simulation::{Captured, Simulation};
