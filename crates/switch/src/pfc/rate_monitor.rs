//! Rates of PFC frames, and early warnings of a peer, or this switch, that sends more PFC than it
//! should.
//!
//! Rule: PFC frames of each priority are counted over whole seconds, received and sent frames
//! separately. A second with at least as many as the threshold is a warning. The warning is over
//! after a second with less than four fifths of the threshold. A frame counts for each priority
//! that it pauses or releases. Source: docs/watchdog.md; docs/references.md, "H3C reference"
//! (Configuring the early warning thresholds for PFC packets).

use crate::monitor::counters::{PfcCount, PrioritySnapshot};
use crate::settings::{EarlyWarningSettings, PRIORITIES};
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

pub(crate) const SECOND: Nanos = 1_000_000_000;

/// PFC rates of all ports.
#[derive(Debug, Serialize, Deserialize)]
pub struct PfcRates {
    /// End of the last whole second.
    pub(crate) counted_at: Instant,
    pub(crate) ports: Vec<[[Rate; PRIORITIES]; 2]>,
}

/// PFC frames of one priority in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rate {
    /// Frame count at the end of the last second.
    frames: u64,
    pub(crate) pps: u64,
    pub(crate) warns: bool,
}

/// Change of a warning at the end of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WarningTransition {
    Rising,
    Clearing,
}

impl Rate {
    /// Evaluates a second, which took `nanos`, with the frame count at its end.
    pub(crate) fn count(
        &mut self,
        frames: u64,
        threshold: Option<u32>,
        nanos: Nanos,
    ) -> Option<WarningTransition> {
        let new = u128::from(frames - self.frames) * u128::from(SECOND);
        (self.frames, self.pps) = (frames, (new / u128::from(nanos.max(1))) as u64);
        let threshold = threshold.map_or(u64::MAX, u64::from);
        let was = self.warns;
        self.warns = self.pps >= threshold || (was && 5 * u128::from(self.pps) >= 4 * u128::from(threshold));
        match (was, self.warns) {
            (false, true) => Some(WarningTransition::Rising),
            (true, false) => Some(WarningTransition::Clearing),
            _ => None,
        }
    }
}

impl PfcRates {
    /// Makes the rates of `ports` ports without frames.
    pub fn new(ports: usize) -> Self {
        Self { counted_at: Instant::default(), ports: vec![Default::default(); ports] }
    }

    /// Resets the rates of a slot that another port takes.
    pub(crate) fn reset_port(&mut self, port: usize) {
        if self.ports.len() <= port {
            self.ports.resize(port + 1, Default::default());
        }
        self.ports[port] = Default::default();
    }

    /// Returns when the rates must be measured next.
    pub fn due_at(&self) -> Instant {
        self.counted_at + SECOND
    }

    pub(crate) fn snapshot(&self, port: usize, priority: usize, out: &mut PrioritySnapshot) {
        let [received, sent] = self.ports[port].map(|rates| rates[priority]);
        (out.received_pps, out.received_warning) = (received.pps, received.warns);
        (out.sent_pps, out.sent_warning) = (sent.pps, sent.warns);
    }
}

pub(crate) fn frames(count: &PfcCount, priority: usize) -> u64 {
    count.xoff_frames[priority] + count.xon_frames[priority]
}

pub(crate) fn threshold(warning: EarlyWarningSettings, sent: bool) -> Option<u32> {
    if sent { warning.out_pps } else { warning.in_pps }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_counts_whether_it_pauses_or_releases() {
        let mut count = PfcCount { frames: 9, ..PfcCount::default() };
        (count.xoff_frames[3], count.xon_frames[3], count.xoff_frames[4]) = (4, 3, 2);
        assert_eq!([3, 4].map(|priority| frames(&count, priority)), [7, 2]);
    }

    #[test]
    fn the_rates_of_a_new_port_are_zero() {
        let mut rates = PfcRates::new(2);
        rates.ports.iter_mut().for_each(|port| port[0][3].pps = 7);
        rates.reset_port(1);
        rates.reset_port(3);
        let of_ports: Vec<u64> = rates.ports.iter().map(|port| port[0][3].pps).collect();
        assert_eq!(of_ports, [7, 0, 0, 0]);
    }

    /// One second per entry: frames → reported change.
    #[test]
    fn a_warning_rises_at_the_threshold_and_clears_well_below_it() {
        let mut rate = Rate::default();
        let mut frames = 0;
        for (new, turn, warns) in [
            (99, None, false),
            (100, Some(WarningTransition::Rising), true),
            (1000, None, true),
            (80, None, true),
            (79, Some(WarningTransition::Clearing), false),
            (99, None, false),
            (100, Some(WarningTransition::Rising), true),
            (0, Some(WarningTransition::Clearing), false),
        ] {
            frames += new;
            assert_eq!((rate.count(frames, Some(100), SECOND), rate.warns), (turn, warns), "{new} frames");
            assert_eq!(rate.pps, new);
        }
        frames += 1000;
        assert_eq!(rate.count(frames, None, SECOND), None, "nobody wants to be warned");
        assert_eq!(
            rate.count(frames + 150, Some(100), 3 * SECOND / 2),
            Some(WarningTransition::Rising),
            "of 1.5 s: 100 a second"
        );
    }
}
