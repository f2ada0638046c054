//! The tables inside `[port.NAME]` and `[port-defaults]`.

pub(crate) mod classify;
pub(crate) mod dcbx;
pub(crate) mod policy;
pub(crate) mod schedule;
pub(crate) mod storm_control;
pub(crate) mod thresholds;
pub(crate) mod vhost;
pub(crate) mod vlan;
pub(crate) mod watchdog;
pub(crate) mod zero_copy;
