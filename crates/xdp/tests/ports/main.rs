//! Ports on real veths, in network namespaces that each test creates for itself. Needs root.

mod common;
mod errors;
mod frames;
mod jumbo;
mod life;
mod loss;
mod own_memory;
mod vlan;
