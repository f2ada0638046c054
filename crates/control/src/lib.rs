//! The control API of the daemon, as `proto/sluice/v1/control.proto` defines it: generated types, the server that the
//! daemon runs, the client that the command, the tests and the demo use, and what both sides need to make sense of a
//! snapshot.
#![forbid(unsafe_code)]

pub mod balance;
pub mod client;
pub mod convert;
pub mod fields;
pub mod journal;
pub mod order;
mod places;
pub mod server;

pub use balance::Balance;
pub use client::{BlockingClient, Client, ClientError};
pub use convert::{DaemonFacts, LogCounts, PortFacts};
pub use journal::Journal;
pub use order::{Order, Outcome, Reason, Refusal};

/// Messages, client and server of `sluice.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("sluice.v1");
}
