//! Settings of alarms.

use super::limits::{POOLS, PRIORITIES};
use crate::time::Nanos;
use serde::{Deserialize, Serialize};

/// Default minimum interval between alarms of one source: docs/references.md, "H3C reference"
/// (Configuring alarm thresholds).
pub const ALARM_INTERVAL_NS: Nanos = 5_000_000_000;

/// Buffer region or drops that an alarm watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlarmKind {
    /// Use of priority groups outside headroom, and of the pools at ingress.
    Ingress,
    /// Use of queues, and of the pools at egress.
    Egress,
    /// Use of headroom, of groups and its pool.
    Headroom,
    /// Dropped frames.
    Drop,
}

/// Alarms of the whole switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlarmSettings {
    /// Minimum interval between alarms of one source, by [`AlarmKind`]; `None` if the kind is off.
    pub interval_ns: [Option<Nanos>; 4],
    /// Thresholds of the service pools at ingress, in percent.
    pub ingress_pool_percent: [u8; POOLS],
    /// Thresholds of the service pools at egress, in percent.
    pub egress_pool_percent: [u8; POOLS],
    /// Threshold of the headroom area, in percent of its size.
    pub headroom_pool_percent: u8,
}

impl Default for AlarmSettings {
    fn default() -> Self {
        Self {
            interval_ns: [None; 4],
            ingress_pool_percent: [100; POOLS],
            egress_pool_percent: [100; POOLS],
            headroom_pool_percent: 100,
        }
    }
}

impl AlarmSettings {
    /// Returns the minimum interval between alarms of a kind; `None` if the kind is off.
    pub fn interval_ns(&self, kind: AlarmKind) -> Option<Nanos> {
        self.interval_ns[kind as usize]
    }

    /// Returns `percent` if this kind is on, else 0.
    pub(crate) fn percent(&self, kind: AlarmKind, percent: u8) -> u8 {
        if self.interval_ns(kind).is_some() { percent } else { 0 }
    }
}

/// Alarm thresholds of a port, in percent of the limit of each source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortAlarmSettings {
    /// Thresholds of each priority group, outside headroom.
    pub ingress_percent: [u8; PRIORITIES],
    /// Thresholds of the headroom of each priority group.
    pub headroom_percent: [u8; PRIORITIES],
    /// Thresholds of each queue.
    pub egress_percent: [u8; PRIORITIES],
}

impl Default for PortAlarmSettings {
    fn default() -> Self {
        let percent = [100; PRIORITIES];
        Self { ingress_percent: percent, headroom_percent: percent, egress_percent: percent }
    }
}
