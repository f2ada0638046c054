//! The sensor paths: what collectors can subscribe to.
//!
//! Rule: a path is periodic or an event path, and never both; names are compared without case.
//! Source: docs/telemetry.md; docs/references.md, "H3C reference" (reporting by gRPC: buffer usage,
//! PFC, ECN).

/// A sensor path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SensorPath {
    /// Use of each port's groups and queues.
    BufferUsages,
    /// Headroom of each port's groups.
    HeadroomUsages,
    /// The newer form of the use, in cells and bytes, with peaks of the interval.
    CommBufferUsages,
    /// The newer form of headroom.
    CommHeadroomUsages,
    /// PFC frames.
    PfcStatistics,
    /// PFC frames a second.
    PfcSpeeds,
    /// ECN marks and WRED drops.
    EcnAndWredStatistics,
    /// Drops on receipt.
    IngressDrops,
    /// Drops of egress queues.
    EgressDrops,
    /// How often use rose above its usage threshold.
    OverLimitCounters,
    /// Use of the whole buffer, by processing engine.
    XpeUsages,
    /// What each egress queue forwarded and dropped.
    QueueStat,
    /// Event: an alarm of use.
    PortQueOverrunEvent,
    /// Event: an alarm of drops.
    PortQueDropEvent,
    /// Event: whatever is in the journal of events.
    Events,
}

impl SensorPath {
    /// All of them, in the order in which they are listed.
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

    /// Its name in files and messages.
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

    /// The path of this name, in whatever case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|path| path.name().eq_ignore_ascii_case(name))
    }

    /// It tells what happens when it happens, and takes no interval.
    pub fn is_event(self) -> bool {
        matches!(self, Self::PortQueOverrunEvent | Self::PortQueDropEvent | Self::Events)
    }

    /// Reading it begins the watermark "since the last read" again: its peaks are those of an
    /// interval.
    pub fn reads_watermarks(self) -> bool {
        matches!(self, Self::CommBufferUsages | Self::CommHeadroomUsages)
    }

    /// What it reports, in a line.
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
