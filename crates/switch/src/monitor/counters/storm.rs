//! Counters of storms.
//!
//! Source: docs/watchdog.md.

use crate::time::Nanos;
use serde::{Deserialize, Serialize};

/// Frames of a stormed priority.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StormTraffic {
    /// Frames of its queue that left.
    pub tx_frames: u64,
    /// Frames for its queue that the watchdog dropped.
    pub tx_dropped_frames: u64,
    /// Received frames of its group that were admitted.
    pub rx_frames: u64,
    /// Frames of its group that the watchdog dropped.
    pub rx_dropped_frames: u64,
}

impl StormTraffic {
    /// Returns the traffic since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            tx_frames: self.tx_frames.saturating_sub(earlier.tx_frames),
            tx_dropped_frames: self.tx_dropped_frames.saturating_sub(earlier.tx_dropped_frames),
            rx_frames: self.rx_frames.saturating_sub(earlier.rx_frames),
            rx_dropped_frames: self.rx_dropped_frames.saturating_sub(earlier.rx_dropped_frames),
        }
    }
}

impl std::ops::Add for StormTraffic {
    type Output = StormTraffic;

    fn add(self, other: StormTraffic) -> StormTraffic {
        StormTraffic {
            tx_frames: self.tx_frames + other.tx_frames,
            tx_dropped_frames: self.tx_dropped_frames + other.tx_dropped_frames,
            rx_frames: self.rx_frames + other.rx_frames,
            rx_dropped_frames: self.rx_dropped_frames + other.rx_dropped_frames,
        }
    }
}

/// One storm of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StormSnapshot {
    /// Stormed 802.1p priority.
    pub priority: u8,
    /// Time of detection, in nanoseconds as [`Snapshot::at_ns`].
    pub began_ns: Nanos,
    /// How long the priority had been stuck at that time.
    pub stuck_ns: Nanos,
    /// Time of restoration; `None` while it lasts.
    pub ended_ns: Option<Nanos>,
    /// True if its frames were dropped, false if its pauses were ignored.
    pub drops: bool,
    /// True if it reached the limit, so that PFC was turned off.
    pub limit_reached: bool,
    /// Traffic during the storm.
    pub traffic: StormTraffic,
}
