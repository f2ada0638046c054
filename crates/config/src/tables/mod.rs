//! The tables of the configuration file, one file each: their settings, ranges and defaults.
//!
//! What settings must be together is in `validate`, what they should be in `lint`.

pub(crate) mod alarm;
pub(crate) mod buffer;
pub(crate) mod builtin_profiles;
pub(crate) mod congestion;
pub(crate) mod fixed_area;
pub(crate) mod metrics;
pub(crate) mod port;
pub(crate) mod ports;
pub(crate) mod preset;
pub(crate) mod sensor_path;
pub(crate) mod telemetry;
pub(crate) mod tls;
