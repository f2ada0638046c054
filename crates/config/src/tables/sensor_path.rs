//! The sensor paths that collectors can subscribe to.
//!
//! Rule: a path is periodic or an event path, never both; names are case-insensitive. Source:
//! docs/monitoring/telemetry.md; docs/references.md, "H3C reference" (reporting by gRPC: buffer
//! usage, PFC, ECN).

/// One kind of report to collectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SensorPath {
    /// Buffer use of each port's groups and queues.
    BufferUsages,
    /// Headroom use of each port's groups.
    HeadroomUsages,
    /// Buffer use in the newer form, in cells and bytes, with peaks of the interval.
    CommBufferUsages,
    /// Headroom use in the newer form.
    CommHeadroomUsages,
    /// PFC frames.
    PfcStatistics,
    /// PFC frames per second.
    PfcSpeeds,
    /// ECN marks and WRED drops.
    EcnAndWredStatistics,
    /// Ingress drops.
    IngressDrops,
    /// Drops of egress queues.
    EgressDrops,
    /// How often buffer use rose above the usage threshold.
    OverLimitCounters,
    /// Use of the whole buffer, by processing engine.
    XpeUsages,
    /// Frames that each egress queue forwarded and dropped.
    QueueStat,
    /// Event: a buffer usage alarm.
    PortQueOverrunEvent,
    /// Event: a drop alarm.
    PortQueDropEvent,
    /// Event: every event of the event journal.
    Events,
}

impl SensorPath {
    /// All paths, in the order in which they are listed.
    pub const ALL: [Self; 15] = [
        Self::BufferUsages,
        Self::HeadroomUsages,
        Self::CommBufferUsages,
        Self::CommHeadroomUsages,
        Self::PfcStatistics,
        Self::PfcSpeeds,
        Self::EcnAndWredStatistics,
        Self::IngressDrops,
        Self::EgressDrops,
        Self::OverLimitCounters,
        Self::XpeUsages,
        Self::QueueStat,
        Self::PortQueOverrunEvent,
        Self::PortQueDropEvent,
        Self::Events,
    ];

    /// Returns its name in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::BufferUsages => "buffermonitor/bufferusages",
            Self::HeadroomUsages => "buffermonitor/headroomusages",
            Self::CommBufferUsages => "buffermonitor/commbufferusages",
            Self::CommHeadroomUsages => "buffermonitor/commheadroomusages",
            Self::PfcStatistics => "buffermonitor/pfcstatistics",
            Self::PfcSpeeds => "buffermonitor/pfcspeeds",
            Self::EcnAndWredStatistics => "buffermonitor/ecnandwredstatistics",
            Self::IngressDrops => "buffermonitor/ingressdrops",
            Self::EgressDrops => "buffermonitor/egressdrops",
            Self::OverLimitCounters => "buffermonitor/overlimitcounters",
            Self::XpeUsages => "buffermonitor/xpeusages",
            Self::QueueStat => "qstat/queuestat",
            Self::PortQueOverrunEvent => "buffermonitor/portqueoverrunevent",
            Self::PortQueDropEvent => "buffermonitor/portquedropevent",
            Self::Events => "sluice/events",
        }
    }

    /// Returns the path of this name, case-insensitively.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|path| path.name().eq_ignore_ascii_case(name))
    }

    /// Returns true if the path reports events when they happen; it takes no interval.
    pub fn is_event(self) -> bool {
        matches!(self, Self::PortQueOverrunEvent | Self::PortQueDropEvent | Self::Events)
    }

    /// Returns true if reading the path restarts the watermark "since the last read": its peaks are
    /// those of an interval.
    pub fn reads_watermarks(self) -> bool {
        matches!(self, Self::CommBufferUsages | Self::CommHeadroomUsages)
    }

    /// Returns a one-line description of the report.
    pub fn summary(self) -> &'static str {
        match self {
            Self::BufferUsages => "cells in use, thresholds and peaks of each port's groups and queues",
            Self::HeadroomUsages => "headroom cells in use and their peaks",
            Self::CommBufferUsages => {
                "lengths in cells and bytes, with the peaks since the sample before (reads the watermarks)"
            }
            Self::CommHeadroomUsages => {
                "headroom in cells and bytes, with the peaks since the sample before (reads the watermarks)"
            }
            Self::PfcStatistics => "PFC frames sent and received by priority",
            Self::PfcSpeeds => "PFC frames a second by priority, since the sample before",
            Self::EcnAndWredStatistics => "frames marked (ECN) and dropped by WRED, by queue",
            Self::IngressDrops => "frames dropped on receipt: no buffer by priority, all others together",
            Self::EgressDrops => "frames dropped by egress queues, tail drops and WRED's",
            Self::OverLimitCounters => "how often use rose above its usage threshold",
            Self::XpeUsages => "use of the whole buffer, by processing engine",
            Self::QueueStat => "frames and bytes that each queue forwarded and dropped, and its length",
            Self::PortQueOverrunEvent => {
                "alarm: a group, a queue or headroom uses more than its alarm threshold"
            }
            Self::PortQueDropEvent => "alarm: frames of a group or queue are dropped",
            Self::Events => "every event of the journal, as `sluice events` shows it",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_are_different() {
        for path in SensorPath::ALL {
            assert_eq!(SensorPath::named(&path.name().to_uppercase()), Some(path));
            assert_eq!(SensorPath::ALL.iter().filter(|other| other.name() == path.name()).count(), 1);
        }
        assert_eq!(SensorPath::named("buffermonitor"), None);
    }
}
