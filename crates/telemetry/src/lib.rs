//! Telemetry reports of a switch: samples and events as the JSON that collectors expect, gRPC
//! dial-out to collectors with a bounded backlog each, and the reference collector. Source:
//! docs/monitoring/telemetry.md.
#![forbid(unsafe_code)]

pub mod collector;
mod dial_out;
mod example_reports;
mod metrics;
mod reporter;
mod settings;
#[cfg(test)]
mod tests;
mod web_page;

pub use dial_out::message::Device;
pub use dial_out::tls::{FileError, server as server_tls};
pub use example_reports::example;
pub use reporter::Telemetry;
pub use settings::{Settings, Sources};

/// Messages and server of `grpc_dialout`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod dialout {
    tonic::include_proto!("grpc_dialout");
}
