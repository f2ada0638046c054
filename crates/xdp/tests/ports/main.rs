//! Ports on real veths, in network namespaces that each test creates for itself. Needs root.

mod common;
mod errors;
mod frames;
mod jumbo;
mod loss;
mod open_close;
mod separate_umem;
mod vlan;
