//! Congestion control by the gradient of the round-trip time: TIMELY.
//!
//! Rule: each completed segment gives a round-trip time. Below `low` the rate rises, above `high`
//! it falls in proportion to the excess. Between them the gradient decides: the smoothed
//! difference of two round-trip times, relative to the least. If it falls the rate rises, after
//! five such segments in five times larger steps; if it rises the rate is cut in proportion.
//!
//! ```text
//!   rtt < low:      rate += delta
//!   rtt > high:     rate *= 1 − beta (1 − high/rtt)
//!   gradient ≤ 0:   rate += n · delta      n = 5 from the fifth segment in a row on, else 1
//!   gradient > 0:   rate *= 1 − beta · gradient
//! ```
//! Source: R. Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter" (SIGCOMM
//! 2015), algorithm 1 and section 4.3. Of many fixed points it reaches one (Y. Zhu et al., "ECN or
//! Delay", CoNEXT 2016, theorem 3), so flows need not be fair.

use switch::Nanos;

use crate::feedback::{AckSample, FlowPath};

/// Segments with a falling gradient after which steps are larger (HAI).
const HAI_SEGMENTS: u32 = 5;
/// How much larger.
const HAI_STEPS: f64 = 5.0;

/// Limits of the round-trip time, and how strongly a sender reacts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimelySettings {
    /// Below this round-trip time the rate rises.
    pub low_ns: Nanos,
    /// Above this round-trip time the rate falls.
    pub high_ns: Nanos,
    /// Round-trip time to which the gradient is relative.
    pub min_rtt_ns: Nanos,
    /// Weight of the newest difference (α), from 0 to 1.
    pub alpha: f64,
    /// Strength of a decrease (β), from 0 to 1.
    pub beta: f64,
    /// A step up, in bit/s (δ).
    pub additive_bps: f64,
    /// Bytes that one round-trip time is measured for.
    pub segment_bytes: u64,
    /// Minimum rate of a flow, in bit/s.
    pub min_bps: f64,
}

impl TimelySettings {
    /// The paper's values (section 6.1), for NICs of 10 Gbit/s. The least rate is one step.
    pub const PAPER: Self = Self {
        low_ns: 50_000,
        high_ns: 500_000,
        min_rtt_ns: 20_000,
        alpha: 0.875,
        beta: 0.8,
        additive_bps: 10e6,
        segment_bytes: 16_000,
        min_bps: 10e6,
    };
}

/// Rate state of one flow.
#[derive(Debug, Clone)]
pub struct Timely {
    settings: TimelySettings,
    max_bps: f64,
    rate_bps: f64,
    segment_bytes: u64,
    previous_ns: Option<f64>,
    /// Smoothed difference of two round-trip times.
    difference_ns: f64,
    falling: u32,
}

impl Timely {
    /// Returns a flow that has met no congestion.
    pub fn new(settings: TimelySettings, path: &FlowPath) -> Self {
        let max_bps = path.max_bps as f64;
        let (rate_bps, segment_bytes) = (max_bps, 0);
        Self { settings, max_bps, rate_bps, segment_bytes, previous_ns: None, difference_ns: 0.0, falling: 0 }
    }

    /// Handles an acknowledgment. A segment ends with the first round-trip time after its bytes.
    pub fn on_ack(&mut self, ack: &AckSample) {
        self.segment_bytes += ack.acked_bytes;
        if let Some(rtt_ns) = ack.rtt_ns
            && self.segment_bytes >= self.settings.segment_bytes
        {
            self.segment_bytes = 0;
            self.on_rtt(rtt_ns as f64);
        }
    }

    fn on_rtt(&mut self, rtt_ns: f64) {
        let TimelySettings { low_ns, high_ns, min_rtt_ns, alpha, beta, additive_bps, .. } = self.settings;
        let difference = rtt_ns - self.previous_ns.replace(rtt_ns).unwrap_or(rtt_ns);
        self.difference_ns += alpha * (difference - self.difference_ns);
        let gradient = self.difference_ns / min_rtt_ns as f64;
        let (low, high) = (low_ns as f64, high_ns as f64);
        let is_between = (low..=high).contains(&rtt_ns);
        self.falling = if is_between && gradient <= 0.0 { self.falling + 1 } else { 0 };
        if rtt_ns < low {
            self.rate_bps += additive_bps;
        } else if rtt_ns > high {
            self.rate_bps *= 1.0 - beta * (1.0 - high / rtt_ns);
        } else if gradient <= 0.0 {
            let steps = if self.falling >= HAI_SEGMENTS { HAI_STEPS } else { 1.0 };
            self.rate_bps += steps * additive_bps;
        } else {
            self.rate_bps *= (1.0 - beta * gradient).max(0.0);
        }
        self.rate_bps = self.rate_bps.max(self.settings.min_bps).min(self.max_bps);
    }

    /// The rate, in bit/s.
    pub fn rate_bps(&self) -> f64 {
        self.rate_bps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: FlowPath =
        FlowPath { max_bps: 10_000_000_000, base_rtt_ns: 20_000, hops: 1, frame_bytes: 1000 };

    fn at(bps: f64) -> Timely {
        let mut flow = Timely::new(TimelySettings::PAPER, &PATH);
        flow.rate_bps = bps;
        flow
    }

    #[test]
    fn outside_the_limits_the_round_trip_time_decides() {
        let mut flow = at(5e9);
        flow.on_rtt(49e3);
        assert_eq!(flow.rate_bps, 5.01e9);
        flow.on_rtt(1000e3);
        assert!((flow.rate_bps - 5.01e9 * 0.6).abs() < 1.0, "1 − 0.8 (1 − 1/2): {}", flow.rate_bps);
        let mut idle = at(10e9);
        idle.on_rtt(20e3);
        assert_eq!(idle.rate_bps, 10e9, "the speed of the link is the most");
        let mut least = at(12e6);
        (0..9).for_each(|_| least.on_rtt(5000e3));
        assert_eq!(least.rate_bps, 10e6);
    }

    /// From 100 to 104 us: the smoothed difference is 3.5 us, the gradient 0.175.
    #[test]
    fn between_them_the_gradient_decides() {
        let mut flow = at(5e9);
        flow.on_rtt(100e3);
        assert_eq!(flow.rate_bps, 5.01e9, "no gradient yet");
        flow.on_rtt(104e3);
        assert!((flow.rate_bps - 5.01e9 * (1.0 - 0.8 * 0.175)).abs() < 1.0, "{}", flow.rate_bps);
        let before = flow.rate_bps;
        for n in 1..=4 {
            flow.on_rtt(104e3 - 5e3 * f64::from(n));
        }
        assert!((flow.rate_bps - before - 40e6).abs() < 1.0, "one step each");
        flow.on_rtt(80e3);
        assert!((flow.rate_bps - before - 90e6).abs() < 1.0, "five from the fifth on");
    }

    #[test]
    fn a_segment_gives_one_round_trip_time() {
        let mut flow = at(5e9);
        let ack = |rtt_ns| AckSample {
            now: switch::Instant(0),
            number: 0,
            next_number: 1,
            acked_bytes: 1000,
            marked: false,
            rtt_ns,
            limited: false,
            hops: &[],
        };
        (0..14).for_each(|_| flow.on_ack(&ack(Some(10_000))));
        (0..2).for_each(|_| flow.on_ack(&ack(None)));
        assert_eq!(flow.rate_bps, 5e9, "repetitions have no round-trip time");
        flow.on_ack(&ack(Some(10_000)));
        assert_eq!(flow.rate_bps, 5.01e9);
    }
}
