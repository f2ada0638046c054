//! The control API of the daemon: types, client and server, generated from `proto/sluice/v1/control.proto`.

/// Messages, client and server of `sluice.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("sluice.v1");
}
