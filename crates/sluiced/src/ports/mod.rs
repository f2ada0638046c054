//! The ports of a running switch: their states from open to removed, their interfaces, slots and
//! cores.
//!
//! The state machine is in `fsm`; `supervisor` drives it.

pub(crate) mod core_assignment;
pub(crate) mod fsm;
pub(crate) mod interface;
pub(crate) mod link_monitor;
pub(crate) mod open_ports;
pub(crate) mod slots;
pub(crate) mod supervisor;
pub(crate) mod vhost;
pub(crate) mod worker;
