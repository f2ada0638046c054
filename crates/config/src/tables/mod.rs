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
    table("switch", daemon::SWITCH).about("The switch as a whole.").restart(),
    table("dataplane", daemon::DATAPLANE).about("The poll loops and their threads.").restart(),
    table("control", daemon::CONTROL).about("The control API.").restart(),
    table("recorder", daemon::RECORDER).about("The flight recorder (docs/monitoring/recorder.md)."),
    table("buffer", buffer::BUFFER).about("The areas of the buffer, its pools and its profiles."),
    map("wred", Name, &ValueSpec::Table(congestion::WRED))
        .about("Early drops and marks of queues, by table; `port.NAME.wred` names one."),
    map("queue-profile", Name, &ValueSpec::Table(congestion::QUEUE_PROFILE))
        .about("Early drops and marks, queue by queue; `port.NAME.queue_profile` names them."),
    map("classifier", Name, &ValueSpec::Table(port::policy::CLASSIFIER))
        .about("For policies: frames with any of these priorities in their tag."),
    map("policy", Name, &ValueSpec::Table(port::policy::POLICY))
        .about("Rules that give frames their queue; `port.NAME.policy` names one."),
    table("bridge", bridge::BRIDGE).about("The FDB, and what is flooded."),
    table("pfc", PFC).about("PFC of all ports."),
    table("alarm", alarm::ALARM)
        .about("Use of the buffer that raises events (docs/behavior.md, \"Alarms\")."),
    table("lldp", lldp::LLDP).about("Timing of LLDP on all ports (docs/dcbx.md)."),
    table("port-defaults", ports::PORT)
        .about("The same settings as a port's; a port's own settings win, one by one."),
    map("port", Name, &ValueSpec::Table(ports::PORT))
        .required("A port. The order in the file gives the numbers, from 0."),
    table("telemetry", telemetry::TELEMETRY).about("Dial-out telemetry (docs/monitoring/telemetry.md)."),
    table("metrics", metrics::METRICS)
        .about("Metrics for Prometheus, and the live page (docs/monitoring/metrics.md)."),
];

const PFC: TableSpec = &[
    boolean("enabled").value("true", "False: PFC is off on all ports, whatever their settings."),
    table("watchdog", port::watchdog::WATCHDOG)
        .about("PFC deadlock detection of all ports; below a port's pfc: of that port."),
    table("early-warning", port::watchdog::EARLY_WARNING)
        .about("PFC rates that raise events, of all ports; below a port's pfc: of that port."),
];
