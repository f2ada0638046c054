//! Ports on vhost-user sockets, with a driver in the same process.

mod common;
mod forwarding;
mod frames;
mod hostile_front_ends;
mod hostile_messages;
mod hostile_rings;
mod link;
#[path = "../../../dataplane/tests/lab/loopback_port.rs"]
mod loopback_port;
