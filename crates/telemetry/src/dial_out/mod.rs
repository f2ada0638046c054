//! gRPC dial-out: samples and events of subscriptions, sent to collectors.

pub(crate) mod backlog;
pub(crate) mod backoff;
pub(crate) mod connect;
pub(crate) mod destination;
pub(crate) mod event;
pub(crate) mod message;
pub(crate) mod sample;
pub(crate) mod source;
pub(crate) mod status;
pub(crate) mod tls;
#[cfg(test)]
pub(crate) mod tls_tests;
