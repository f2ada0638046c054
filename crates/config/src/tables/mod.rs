//! The tables of the configuration file, one file each: their settings, ranges and defaults.
//!
//! Checks that span several settings are in `validate`, recommendations in `lint`.

pub(crate) mod alarm;
pub(crate) mod bridge;
pub(crate) mod buffer;
pub(crate) mod builtin_profiles;
pub(crate) mod congestion;
pub(crate) mod daemon;
pub(crate) mod fixed_area;
pub(crate) mod lldp;
pub(crate) mod metrics;
pub(crate) mod port;
pub(crate) mod ports;
pub(crate) mod preset;
pub(crate) mod sensor_path;
pub(crate) mod telemetry;
pub(crate) mod tls;

use crate::spec::KeySpec::Name;
use crate::spec::{TableSpec, ValueSpec, boolean, map, table};

/// The whole file.
pub const FILE: TableSpec = &[
    table("switch", daemon::SWITCH).says("The switch as a whole.").restart(),
    table("dataplane", daemon::DATAPLANE).says("The poll loops and their threads.").restart(),
    table("control", daemon::CONTROL).says("The control API.").restart(),
    table("recorder", daemon::RECORDER).says("The flight recorder (docs/monitoring/recorder.md)."),
    table("buffer", buffer::BUFFER).says("The areas of the buffer, its pools and its profiles."),
    map("wred", Name, &ValueSpec::Table(congestion::WRED))
        .says("Early drops and marks of queues, by table; `port.NAME.wred` names one."),
    map("queue-profile", Name, &ValueSpec::Table(congestion::QUEUE_PROFILE))
        .says("Early drops and marks, queue by queue; `port.NAME.queue_profile` names them."),
    map("classifier", Name, &ValueSpec::Table(port::policy::CLASSIFIER))
        .says("For policies: frames with any of these priorities in their tag."),
    map("policy", Name, &ValueSpec::Table(port::policy::POLICY))
        .says("Rules that give frames their queue; `port.NAME.policy` names one."),
    table("bridge", bridge::BRIDGE).says("The FDB, and what is flooded."),
    table("pfc", PFC).says("PFC of all ports."),
    table("alarm", alarm::ALARM).says("Use of the buffer that raises events (docs/behavior.md, \"Alarms\")."),
    table("lldp", lldp::LLDP).says("Timing of LLDP on all ports (docs/dcbx.md)."),
    table("port-defaults", ports::PORT)
        .says("The same settings as a port's; a port's own settings win, one by one."),
    map("port", Name, &ValueSpec::Table(ports::PORT))
        .required("A port. The order in the file gives the numbers, from 0."),
    table("telemetry", telemetry::TELEMETRY).says("Dial-out telemetry (docs/monitoring/telemetry.md)."),
    table("metrics", metrics::METRICS)
        .says("Metrics for Prometheus, and the live page (docs/monitoring/metrics.md)."),
];

const PFC: TableSpec = &[
    boolean("enabled").value("true", "False: PFC is off on all ports, whatever their settings."),
    table("watchdog", port::watchdog::WATCHDOG)
        .says("PFC deadlock detection of all ports; below a port's pfc: of that port."),
    table("early-warning", port::watchdog::EARLY_WARNING)
        .says("PFC rates that raise events, of all ports; below a port's pfc: of that port."),
];
