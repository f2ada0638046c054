//! Errors that involve several settings: the constraints between the settings of a file.

pub(crate) mod buffer;
pub(crate) mod dcbx;
pub(crate) mod lldp;
pub(crate) mod vhost;
pub(crate) mod vlan;
pub(crate) mod watchdog;
