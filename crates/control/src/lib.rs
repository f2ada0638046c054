//! The control API of the daemon, as `proto/sluice/v1/control.proto` defines it: generated types,
//! the server that the daemon runs, the client that the command, the tests and the demo use, and
//! what both sides need to interpret a snapshot.
#![forbid(unsafe_code)]

mod access;
pub mod client;
pub mod command;
mod connection_limit;
pub mod conservation;
pub mod convert;
pub mod field_docs;
pub mod journal;
mod printable;
pub mod server;

pub use access::{API_VERSION, Peer, Role};
pub use client::{BlockingClient, Client, ClientError};
pub use command::{Command, CommandError, CommandResult, ErrorKind};
pub use conservation::FrameBalance;
pub use convert::{DaemonState, LogCounts, PortDetails, RecordingCounts, frames};
pub use journal::Journal;
pub use printable::{MOST_NAME, printable};

/// Messages, client and server of `sluice.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("sluice.v1");
}
