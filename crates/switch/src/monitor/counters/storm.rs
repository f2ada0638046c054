//! Sums and differences of the traffic of storms.
//!
//! Source: docs/watchdog.md.

use super::StormTraffic;

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

    fn add(mut self, other: StormTraffic) -> StormTraffic {
        self += other;
        self
    }
}
