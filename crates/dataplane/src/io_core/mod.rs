//! Several cores: I/O loops own ports and hand parsed frames to the switching core over bounded
//! single-producer, single-consumer rings.
//!
//! Nothing here decides where a frame goes. Source: docs/multi-core.md.

pub(crate) mod batch_ring;
pub(crate) mod doorbell;
pub(crate) mod io_loop;
pub(crate) mod port_channel;
pub(crate) mod remote_port;
