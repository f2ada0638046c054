//! Errors that no setting shows by itself: what the settings of a file must be together.

pub(crate) mod buffer;
pub(crate) mod vlan;
pub(crate) mod watchdog;
