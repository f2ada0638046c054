//! What a switch reports, and to whom: samples and events as the JSON that collectors expect, dial-out to them over gRPC
//! with a bounded backlog each, and the reference collector. Source: docs/telemetry.md.
#![forbid(unsafe_code)]

mod backlog;
mod backoff;
pub mod collector;
mod connect;
mod destination;
mod event;
mod example;
mod message;
mod metrics;
mod page;
mod run;
mod sample;
mod source;
mod status;
#[cfg(test)]
mod tests;
mod tls;
#[cfg(test)]
mod tls_tests;

pub use example::example;
pub use message::Device;
pub use run::{Settings, StartError, Telemetry, check};
pub use tls::{FileError, server as server_tls};

/// Messages and server of `grpc_dialout`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod dialout {
    tonic::include_proto!("grpc_dialout");
}
