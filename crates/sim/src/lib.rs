//! Many switches, hosts and cables in virtual time. The switches are the daemon's own (`switch::Switch`), set up by the
//! daemon's own configuration files; what is simulated is all around them.
//!
//! ```text
//! scenario.toml ──▶ Scenario ──▶ Simulation ──▶ Outcome
//!  + device.toml                  run_until       summary, series for plots, expectations
//! ```
//! The same scenario and seed give the same outcome, byte by byte. Nothing here reads a clock, a file or the machine.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod device;
mod expect;
mod flow;
mod host;
mod line;
pub mod outcome;
mod packet;
mod queue;
mod record;
mod routes;
pub mod scenario;
mod simulation;
mod time;
mod totals;

pub use outcome::Outcome;
pub use scenario::Scenario;
pub use simulation::{Captured, Simulation};
