//! The tables of the configuration file, one file each: their settings, ranges and defaults.
//!
//! Checks that span several settings are in `validate`, recommendations in `lint`.

pub(crate) mod alarm;
pub(crate) mod buffer;
pub(crate) mod builtin_profiles;
pub(crate) mod congestion;
pub(crate) mod fixed_area;
pub(crate) mod lldp;
pub(crate) mod metrics;
pub(crate) mod port;
pub(crate) mod ports;
pub(crate) mod preset;
pub(crate) mod sensor_path;
pub(crate) mod telemetry;
pub(crate) mod tls;
