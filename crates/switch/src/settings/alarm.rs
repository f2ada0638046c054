//! Settings of alarms.

use super::limits::{POOLS, PRIORITIES};
use crate::time::Nanos;
use serde::{Deserialize, Serialize};

/// How far apart alarms of one place are at the least unless something else is set:
/// docs/references.md, "H3C reference" (Configuring alarm thresholds).
pub const ALARM_INTERVAL_NS: Nanos = 5_000_000_000;

/// What there are alarms of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlarmKind {
    /// Use of priority groups outside headroom, and of the pools at ingress.
    Ingress,
    /// Use of queues, and of the pools at egress.
    Egress,
    /// Use of headroom, of groups and its pool.
    Headroom,
    /// Frames that were dropped.
    Drop,
}

/// Alarms of the whole switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlarmSettings {
    /// By [`AlarmKind`]: how far apart alarms of one place are at the least; `None`: there are
    /// none.
    pub interval_ns: [Option<Nanos>; 4],
    /// Percent of each service pool as ingress sees it.
    pub ingress_pool_percent: [u8; POOLS],
    /// … as egress sees it.
    pub egress_pool_percent: [u8; POOLS],
    /// Percent of the headroom pool.
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
    /// How far apart the alarms of a kind are at the least; `None`: there are none.
    pub fn interval_ns(&self, kind: AlarmKind) -> Option<Nanos> {
        self.interval_ns[kind as usize]
    }

    /// `percent` if there are alarms of this kind, else none.
    pub(crate) fn percent(&self, kind: AlarmKind, percent: u8) -> u8 {
        if self.interval_ns(kind).is_some() { percent } else { 0 }
    }
}

/// Alarm thresholds of a port, in percent of what each place is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortAlarmSettings {
    /// Of each priority group, outside headroom.
    pub ingress_percent: [u8; PRIORITIES],
    /// Of the headroom of each priority group.
    pub headroom_percent: [u8; PRIORITIES],
    /// Of each queue.
    pub egress_percent: [u8; PRIORITIES],
}

impl Default for PortAlarmSettings {
    fn default() -> Self {
        let percent = [100; PRIORITIES];
        Self { ingress_percent: percent, headroom_percent: percent, egress_percent: percent }
    }
}
