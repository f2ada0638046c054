//! Congestion control by the load of each link: HPCC.
//!
//! Rule: each frame collects the queue, the sent bytes, the time and the speed of every egress port
//! on its path. From two such records follows the load U of a link: its queue and the rate that it
//! carried, relative to its speed. The window is set so that the most loaded link carries the share
//! eta of its speed, and `additive` bytes more, so that flows become fair. Each acknowledgment
//! computes a window from the reference window, which changes once per round trip, so that none of
//! them is counted twice:
//!
//! ```text
//!   u = min(qlen, qlen before) / (B T) + txRate / B       of the most loaded link
//!   U ← (1 − τ/T) U + τ/T · u                             τ: time between the records, at most T
//!   window = reference / (U/eta) + additive               if U ≥ eta, or after `max_stage` steps
//!   window = reference + additive                         otherwise
//! ```
//! Source: Y. Li et al., "HPCC: High Precision Congestion Control" (SIGCOMM 2019), algorithm 1.

use switch::Nanos;

use crate::feedback::{AckSample, FlowPath, HopRecord};

/// The load to aim at, and how a sender approaches it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HpccSettings {
    /// The share of a link's speed to use (η).
    pub eta: f64,
    /// Additive steps in a row before a multiplicative one.
    pub max_stage: u32,
    /// Additive step, in bytes (W_AI).
    pub additive_bytes: f64,
    /// The round-trip time T of the rule; 0: that of the path through empty queues.
    pub base_rtt_ns: Nanos,
}

impl HpccSettings {
    /// The paper's values (section 5.1).
    pub const PAPER: Self = Self { eta: 0.95, max_stage: 5, additive_bytes: 80.0, base_rtt_ns: 0 };
}

/// Window state of one flow.
#[derive(Debug, Clone)]
pub struct Hpcc {
    settings: HpccSettings,
    frame_bytes: f64,
    /// T, in ns.
    rtt_ns: f64,
    max_bytes: f64,
    window_bytes: f64,
    reference_bytes: f64,
    /// Load of the most loaded link (U).
    load: f64,
    stage: u32,
    /// The reference window changes with an acknowledgment of this frame or a later one.
    update_from: u64,
    links: Vec<HopRecord>,
}

impl Hpcc {
    /// Returns a flow whose first window is the bandwidth–delay product.
    pub fn new(settings: HpccSettings, path: &FlowPath) -> Self {
        let rtt_ns = if settings.base_rtt_ns > 0 { settings.base_rtt_ns } else { path.base_rtt_ns } as f64;
        let max_bytes = path.max_bps as f64 * rtt_ns / 8e9;
        Self {
            settings,
            frame_bytes: f64::from(path.frame_bytes),
            rtt_ns,
            max_bytes,
            window_bytes: max_bytes,
            reference_bytes: max_bytes,
            load: 0.0,
            stage: 0,
            update_from: 0,
            links: Vec::new(),
        }
    }

    /// Handles an acknowledgment. Records of a repetition are as good as any others.
    pub fn on_ack(&mut self, ack: &AckSample) {
        if ack.hops.is_empty() {
            return;
        }
        // The first record, or the path has changed: there is nothing to compare it with.
        let is_same_path = self.links.iter().map(|hop| hop.link).eq(ack.hops.iter().map(|hop| hop.link));
        if self.links.is_empty() || !is_same_path {
            self.links = ack.hops.to_vec();
            return;
        }
        self.measure(ack.hops);
        let is_update = ack.number >= self.update_from;
        self.compute_window(is_update);
        if is_update {
            self.update_from = ack.next_number;
        }
        self.links.copy_from_slice(ack.hops);
    }

    /// Updates the load (MeasureInflight).
    fn measure(&mut self, hops: &[HopRecord]) {
        let (mut load, mut tau) = (0.0, 0.0);
        for (hop, before) in hops.iter().zip(&self.links) {
            let time_ns = hop.at.0.saturating_sub(before.at.0) as f64;
            if time_ns == 0.0 {
                continue;
            }
            let byte_rate = hop.speed_bps as f64 / 8e9;
            let rate = hop.tx_bytes.saturating_sub(before.tx_bytes) as f64 / time_ns;
            let queue_bytes = hop.queue_bytes.min(before.queue_bytes) as f64;
            let of_link = queue_bytes / (byte_rate * self.rtt_ns) + rate / byte_rate;
            if of_link > load {
                (load, tau) = (of_link, time_ns);
            }
        }
        let weight = tau.min(self.rtt_ns) / self.rtt_ns;
        self.load = (1.0 - weight) * self.load + weight * load;
    }

    /// Computes the window (ComputeWind).
    fn compute_window(&mut self, is_update: bool) {
        let HpccSettings { eta, max_stage, additive_bytes, .. } = self.settings;
        let is_multiplicative = self.load >= eta || self.stage >= max_stage;
        let window = if is_multiplicative {
            self.reference_bytes / (self.load / eta).max(f64::MIN_POSITIVE) + additive_bytes
        } else {
            self.reference_bytes + additive_bytes
        };
        let least_bytes = self.frame_bytes.min(additive_bytes).min(self.max_bytes);
        self.window_bytes = window.clamp(least_bytes, self.max_bytes);
        if is_update {
            self.stage = if is_multiplicative { 0 } else { self.stage + 1 };
            self.reference_bytes = self.window_bytes;
        }
    }

    /// The window, in bytes.
    pub fn window_bytes(&self) -> u64 {
        self.window_bytes as u64
    }

    /// The rate at which frames are spaced, in bit/s: a window per round trip.
    pub fn rate_bps(&self) -> f64 {
        self.window_bytes * 8e9 / self.rtt_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switch::Instant;

    /// T is 10 us, and a window of 125 000 bytes the bandwidth–delay product.
    const PATH: FlowPath =
        FlowPath { max_bps: 100_000_000_000, base_rtt_ns: 10_000, hops: 1, frame_bytes: 1000 };

    /// A record of a link at 100 Gbit/s, which sends 12.5 bytes a nanosecond.
    fn hop(at_ns: u64, tx_bytes: u64, queue_bytes: u64) -> HopRecord {
        HopRecord { link: 0, queue_bytes, tx_bytes, at: Instant(at_ns), speed_bps: 100_000_000_000 }
    }

    fn ack<'h>(number: u64, next_number: u64, hops: &'h [HopRecord]) -> AckSample<'h> {
        let (now, acked_bytes) = (Instant(0), 1000);
        AckSample { now, number, next_number, acked_bytes, marked: false, rtt_ns: None, limited: true, hops }
    }

    /// A full link with a queue of one bandwidth–delay product: U is 2, the window 0.95/2 of
    /// before.
    #[test]
    fn a_queue_is_drained_in_a_round_trip() {
        let mut flow = Hpcc::new(HpccSettings::PAPER, &PATH);
        flow.on_ack(&ack(0, 100, &[hop(0, 0, 125_000)]));
        assert_eq!(flow.window_bytes(), 125_000, "the first record");
        flow.on_ack(&ack(1, 101, &[hop(10_000, 125_000, 150_000)]));
        assert_eq!(flow.load, 2.0, "the lower of both queues");
        assert_eq!(flow.window_bytes(), (125_000.0 / (2.0 / 0.95) + 80.0) as u64);
        let reference = flow.reference_bytes;
        flow.on_ack(&ack(2, 102, &[hop(20_000, 250_000, 125_000)]));
        assert_eq!(flow.reference_bytes, reference, "the same round trip");
        assert_eq!(flow.window_bytes(), (reference / (2.0 / 0.95) + 80.0) as u64);
        assert!((flow.rate_bps() - flow.window_bytes * 8e5).abs() < 1.0);
    }

    /// A link that is half full: five steps of W_AI, then to eta at once.
    #[test]
    fn a_free_link_is_used_after_five_steps() {
        let mut flow = Hpcc::new(HpccSettings::PAPER, &PATH);
        (flow.window_bytes, flow.reference_bytes) = (50_000.0, 50_000.0);
        flow.on_ack(&ack(0, 1, &[hop(0, 0, 0)]));
        for n in 1..=5_u64 {
            flow.on_ack(&ack(n, n + 1, &[hop(n * 10_000, n * 62_500, 0)]));
            assert_eq!(flow.window_bytes(), 50_000 + n * 80);
        }
        flow.on_ack(&ack(6, 7, &[hop(60_000, 6 * 62_500, 0)]));
        assert_eq!(flow.window_bytes(), (50_400.0 * 0.95 / 0.5 + 80.0) as u64);
        assert_eq!(flow.stage, 0);
    }

    /// Of several links the most loaded counts, and a short time between records weighs little.
    #[test]
    fn the_most_loaded_link_counts() {
        let mut flow = Hpcc::new(HpccSettings::PAPER, &PATH);
        flow.on_ack(&ack(0, 1, &[hop(0, 0, 0), hop(0, 0, 0)]));
        flow.on_ack(&ack(1, 2, &[hop(1_000, 2_500, 0), hop(1_000, 12_500, 0)]));
        assert!((flow.load - 0.1).abs() < 1e-12, "a tenth of T at full load: {}", flow.load);
        flow.on_ack(&ack(2, 3, &[hop(2_000, 5_000, 0)]));
        assert!((flow.load - 0.1).abs() < 1e-12, "another path: nothing to compare with");
    }

    /// Of a T of 10 ns the bandwidth–delay product is 125 bytes, less than a frame and a step.
    #[test]
    fn a_window_is_at_most_the_bandwidth_delay_product() {
        let settings = HpccSettings { base_rtt_ns: 10, additive_bytes: 500.0, ..HpccSettings::PAPER };
        let mut flow = Hpcc::new(settings, &PATH);
        flow.on_ack(&ack(0, 1, &[hop(0, 0, 0)]));
        flow.on_ack(&ack(1, 2, &[hop(1_000, 12_500, 0)]));
        assert_eq!(flow.window_bytes(), 125);
    }
}
