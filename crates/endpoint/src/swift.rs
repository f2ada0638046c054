//! Congestion control by a target delay: the fabric window of Swift.
//!
//! Rule: below the target the window grows by `additive` frames per round trip. Above it the window
//! shrinks in proportion to the excess, at most once per round trip and at most by
//! `max_decrease`. A window below one frame is a pace of one frame in rtt/window. The target grows
//! with the number of switches, and as the window gets small, since the queue of many flows varies
//! more:
//!
//! ```text
//!   target = base + hops · hop + max(0, min(a/√window + b, range))
//!   a = range / (1/√min − 1/√max),  b = −a/√max
//! ```
//! Source: G. Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
//! Datacenter" (SIGCOMM 2020), algorithm 1 and sections 3.2 and 3.5. Hosts take no time here, so
//! there is no endpoint window.

use switch::{Instant, Nanos};

use crate::feedback::{AckSample, FlowPath};

/// Targets of a sender, and how strongly it reacts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwiftSettings {
    /// Target delay without switches, and with a large window.
    pub base_target_ns: Nanos,
    /// What each switch on the path adds to the target.
    pub hop_ns: Nanos,
    /// The most that a small window adds to the target (fs_range); 0: nothing.
    pub scaling_range_ns: Nanos,
    /// Window, in frames, up to which the whole range is added (fs_min_cwnd).
    pub scaling_min_frames: f64,
    /// Window, in frames, from which nothing is added (fs_max_cwnd).
    pub scaling_max_frames: f64,
    /// Increase of the window per round trip, in frames (ai).
    pub additive_frames: f64,
    /// Decrease by the relative excess over the target (β).
    pub beta: f64,
    /// The largest decrease (max_mdf), from 0 to 1.
    pub max_decrease: f64,
    /// Least window, in frames.
    pub min_frames: f64,
    /// Largest window, in frames, and the first one.
    pub max_frames: f64,
    /// Timeouts in a row that lead to the least window.
    pub reset_after: u32,
}

impl SwiftSettings {
    /// The paper's rule. It leaves most values open: these are for fabrics of 100 Gbit/s.
    pub const DEFAULT: Self = Self {
        base_target_ns: 20_000,
        hop_ns: 3_000,
        scaling_range_ns: 100_000,
        scaling_min_frames: 0.1,
        scaling_max_frames: 100.0,
        additive_frames: 1.0,
        beta: 0.8,
        max_decrease: 0.5,
        min_frames: 0.01,
        max_frames: 1000.0,
        reset_after: 5,
    };
}

/// Window state of one flow.
#[derive(Debug, Clone)]
pub struct Swift {
    settings: SwiftSettings,
    frame_bytes: f64,
    hops: u32,
    /// In frames.
    window: f64,
    rtt_ns: Nanos,
    decreased_at: Option<Instant>,
    timeouts: u32,
}

impl Swift {
    /// Returns a flow whose first window is the bandwidth–delay product.
    pub fn new(settings: SwiftSettings, path: &FlowPath) -> Self {
        let frame_bytes = f64::from(path.frame_bytes);
        let window = (path.bdp_bytes() / frame_bytes).max(1.0);
        Self {
            settings,
            frame_bytes,
            hops: path.hops,
            window: window.clamp(settings.min_frames, settings.max_frames),
            rtt_ns: path.base_rtt_ns,
            decreased_at: None,
            timeouts: 0,
        }
    }

    /// Returns the target delay for a window of this many frames.
    pub fn target_ns(settings: &SwiftSettings, hops: u32, window: f64) -> f64 {
        let SwiftSettings { scaling_min_frames: min, scaling_max_frames: max, .. } = *settings;
        let range = settings.scaling_range_ns as f64;
        let a = range / (1.0 / min.sqrt() - 1.0 / max.sqrt());
        let scaling = (a / window.sqrt() - a / max.sqrt()).min(range).max(0.0);
        settings.base_target_ns as f64 + f64::from(hops) * settings.hop_ns as f64 + scaling
    }

    /// Handles an acknowledgment. One without a round-trip time only tells that the path works.
    pub fn on_ack(&mut self, ack: &AckSample) {
        self.timeouts = 0;
        let Some(rtt_ns) = ack.rtt_ns else { return };
        self.rtt_ns = rtt_ns;
        let target = Self::target_ns(&self.settings, self.hops, self.window);
        let delay = rtt_ns as f64;
        if delay < target {
            let acked = self.settings.additive_frames * ack.acked_bytes as f64 / self.frame_bytes;
            let grown = self.window + if self.window >= 1.0 { acked / self.window } else { acked };
            if ack.limited || grown < 1.0 {
                self.window = grown.min(self.settings.max_frames);
            }
        } else {
            let excess = (delay - target) / delay;
            self.decrease((self.settings.beta * excess).min(self.settings.max_decrease), ack.now);
        }
    }

    /// Shrinks the window by this part, unless it has been in the last round trip.
    fn decrease(&mut self, part: f64, now: Instant) {
        if self.decreased_at.is_none_or(|at| now.0.saturating_sub(at.0) >= self.rtt_ns) {
            self.window = (self.window * (1.0 - part)).max(self.settings.min_frames);
            self.decreased_at = Some(now);
        }
    }

    /// Handles a loss that acknowledgments show.
    pub fn on_loss(&mut self, now: Instant) {
        self.decrease(self.settings.max_decrease, now);
    }

    /// Handles a retransmission timeout.
    pub fn on_timeout(&mut self, now: Instant) {
        self.timeouts += 1;
        if self.timeouts >= self.settings.reset_after {
            self.window = self.settings.min_frames;
        } else {
            self.decrease(self.settings.max_decrease, now);
        }
    }

    /// The window, in bytes.
    pub fn window_bytes(&self) -> u64 {
        (self.window * self.frame_bytes) as u64
    }

    /// The rate of a window below one frame, in bit/s.
    pub fn pacing_bps(&self) -> Option<f64> {
        let bps = self.window * self.frame_bytes * 8e9 / self.rtt_ns.max(1) as f64;
        (self.window < 1.0).then_some(bps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Nanos = 1000;
    const PATH: FlowPath =
        FlowPath { max_bps: 100_000_000_000, base_rtt_ns: 8 * US, hops: 3, frame_bytes: 1000 };

    fn ack(at_us: u64, rtt_us: u64) -> AckSample<'static> {
        AckSample {
            now: Instant(at_us * US),
            number: 0,
            next_number: 1,
            acked_bytes: 1000,
            marked: false,
            rtt_ns: Some(rtt_us * US),
            limited: true,
            hops: &[],
        }
    }

    /// The ends of the range (section 3.5): all of it at the least window, nothing at the largest.
    #[test]
    fn a_small_window_has_a_higher_target() {
        let target = |window: f64| Swift::target_ns(&SwiftSettings::DEFAULT, 3, window).round();
        assert_eq!([0.01, 0.1, 100.0, 500.0].map(target), [129e3, 129e3, 29e3, 29e3]);
        // a = 100 us / (√10 − 1/10) = 32.65 us
        assert!((target(1.0) - (29e3 + 32_656.0 * 0.9)).abs() < 2.0, "{}", target(1.0));
        let without = SwiftSettings { scaling_range_ns: 0, ..SwiftSettings::DEFAULT };
        assert_eq!(Swift::target_ns(&without, 3, 0.1), 29e3);
    }

    #[test]
    fn below_the_target_the_window_grows_by_a_frame_per_round_trip() {
        let mut flow = Swift::new(SwiftSettings::DEFAULT, &PATH);
        assert_eq!(flow.window, 100.0, "8 us of 100 Gbit/s");
        (0..100).for_each(|_| flow.on_ack(&ack(0, 10)));
        assert!((flow.window - 101.0).abs() < 0.01, "{}", flow.window);
        flow.window = 0.5;
        flow.on_ack(&ack(0, 10));
        assert_eq!(flow.window, 1.5, "a frame for each that was acknowledged");
    }

    /// Target 29 us: a delay of 58 us is half excess, 0.8 · 0.5 = 0.4; one of 290 us is limited.
    #[test]
    fn above_the_target_it_shrinks_once_per_round_trip() {
        let mut flow = Swift::new(SwiftSettings::DEFAULT, &PATH);
        flow.on_ack(&ack(100, 58));
        assert!((flow.window - 60.0).abs() < 1e-9, "{}", flow.window);
        flow.on_ack(&ack(157, 58));
        assert!((flow.window - 60.0).abs() < 1e-9, "within the round trip");
        flow.on_ack(&ack(158, 58));
        let second = flow.window;
        assert!(second < 60.0);
        flow.on_ack(&ack(500, 290));
        assert!((flow.window - second / 2.0).abs() < 1e-9, "max_decrease");
    }

    #[test]
    fn a_window_below_a_frame_is_a_pace() {
        let mut flow = Swift::new(SwiftSettings::DEFAULT, &PATH);
        assert_eq!(flow.pacing_bps(), None);
        flow.window = 0.25;
        flow.rtt_ns = 100 * US;
        assert_eq!(flow.pacing_bps(), Some(20e6), "a frame in 400 us");
    }

    #[test]
    fn timeouts_in_a_row_lead_to_the_least_window() {
        let mut flow = Swift::new(SwiftSettings::DEFAULT, &PATH);
        (1..5).for_each(|n| flow.on_timeout(Instant(n * 1000 * US)));
        assert_eq!(flow.window, 100.0 / 16.0);
        flow.on_ack(&AckSample { rtt_ns: None, ..ack(4500, 0) });
        assert_eq!(flow.window, 100.0 / 16.0);
        (5..9).for_each(|n| flow.on_timeout(Instant(n * 1000 * US)));
        assert_eq!(flow.window, 100.0 / 256.0, "a repetition arrived, so they began again");
        flow.on_timeout(Instant(9000 * US));
        assert_eq!(flow.window, 0.01);
    }
}
