//! Sluice's configuration language: reads TOML text into plain values, or reports every error with
//! its position and cure.
//!
//! All settings, with their ranges and defaults, are in docs/settings.md, which is generated from
//! the description that the reader reads by ([`spec`]).
//!
//! Settings of later versions are refused as not working yet. Valid settings that cannot keep a
//! no-drop priority lossless are accepted with a warning ([`Config::warnings`]).
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod aliases;
mod config;
mod diff;
mod headroom_fix;
mod lint;
mod profiles;
pub mod read;
pub mod reference;
pub mod spec;
mod tables;
mod validate;
pub use crate::config::{Config, parse, parse_for_daemon};
pub use crate::diff::{Changes, PFC_ON_AGAIN, changes};
pub use crate::headroom_fix::{FixedFile, fix};
pub use crate::lint::agreement::agreement_warnings;
pub use crate::lint::headroom_duration::{Headroom, headrooms, spell_time};
pub use crate::lint::lossless::{DEFAULT_MTU_BYTES, headroom_shortage};
pub use crate::lint::mtu::{headroom_mtu_warning, mtu_warning};
pub use crate::lint::short_pauses::short_pause_warning;
pub use crate::profiles::{Bindings, BufferProfile, IngressThresholds, Profiles, QueueProfile, WredTable};
pub use crate::read::diagnostics::{ConfigError, ConfigErrors, draw_errors_unwrapped};
pub use crate::read::parse::{parse_speed, spell_speed};
pub use crate::spec::{CELL_BYTES, MAX_CELLS};
pub use crate::tables::daemon::{ControlSocket, Dataplane, PfcTest, RecorderSettings, Scheduling};
pub use crate::tables::lldp::{Lldp, LldpMode, PortLldp};
pub use crate::tables::metrics::Metrics;
pub use crate::tables::port::dcbx::{Negotiated, PortDcbx};
pub use crate::tables::port::vhost::{VhostRole, VhostUserPort};
pub use crate::tables::port::zero_copy::ZeroCopy;
pub use crate::tables::ports::{CABLE_M, Link, MTU_BYTES};
pub use crate::tables::preset::{PRESETS, Preset};
pub use crate::tables::sensor_path::SensorPath;
pub use crate::tables::telemetry::{Destination, Sensor, Subscription, Telemetry};
pub use crate::tables::tls::{Tls, TlsIdentity};
