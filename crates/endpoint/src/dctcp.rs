//! Congestion control by the share of marked bytes: the sender of DCTCP.
//!
//! Rule: alpha estimates the share F of bytes that arrived marked, once per window. A mark cuts the
//! window by the fraction alpha/2, at most once per window; otherwise it grows as in TCP: by the
//! acknowledged bytes in slow start, by one frame per window above the threshold.
//!
//! ```text
//!   once per window:  alpha ← (1 − g) alpha + g F
//!   mark:             window ← window (1 − alpha/2)
//! ```
//! Source: M. Alizadeh et al., "Data Center TCP (DCTCP)" (SIGCOMM 2010), section 3.1, equations 1
//! and 2. The first alpha is 1, the least window 1 frame after a timeout, and a window that did not
//! hold the sender back does not grow, as in RFC 8257 and RFC 5681.

use crate::feedback::{AckSample, FlowPath};

/// How strongly a sender reacts to marks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DctcpSettings {
    /// Weight in alpha of the newest window (g), from 0 to 1.
    pub gain: f64,
    /// First window, in frames.
    pub initial_frames: u32,
}

impl DctcpSettings {
    /// The paper's gain, and the first window of RFC 6928.
    pub const PAPER: Self = Self { gain: 1.0 / 16.0, initial_frames: 10 };
}

/// Window state of one flow.
#[derive(Debug, Clone)]
pub struct Dctcp {
    settings: DctcpSettings,
    frame_bytes: f64,
    window_bytes: f64,
    /// Below this the flow is in slow start.
    threshold_bytes: f64,
    alpha: f64,
    acked_bytes: u64,
    marked_bytes: u64,
    /// The estimate of alpha covers frames before this.
    estimate_ends: u64,
    /// Marks of frames before this were sent with the window that was cut.
    cut_ends: u64,
    /// True if nothing new was acknowledged since a timeout.
    timed_out: bool,
}

impl Dctcp {
    /// Returns a flow in slow start.
    pub fn new(settings: DctcpSettings, path: &FlowPath) -> Self {
        let frame_bytes = f64::from(path.frame_bytes);
        Self {
            settings,
            frame_bytes,
            window_bytes: frame_bytes * f64::from(settings.initial_frames),
            threshold_bytes: f64::INFINITY,
            alpha: 1.0,
            acked_bytes: 0,
            marked_bytes: 0,
            estimate_ends: 0,
            cut_ends: 0,
            timed_out: false,
        }
    }

    /// Handles an acknowledgment.
    pub fn on_ack(&mut self, ack: &AckSample) {
        self.timed_out &= ack.acked_bytes == 0;
        self.acked_bytes += ack.acked_bytes;
        self.marked_bytes += if ack.marked { ack.acked_bytes } else { 0 };
        if ack.number >= self.estimate_ends && self.acked_bytes > 0 {
            let share = self.marked_bytes as f64 / self.acked_bytes as f64;
            self.alpha += self.settings.gain * (share - self.alpha);
            (self.acked_bytes, self.marked_bytes) = (0, 0);
            self.estimate_ends = ack.next_number;
        }
        if ack.number < self.cut_ends {
            return;
        }
        if ack.marked {
            self.reduce(1.0 - self.alpha / 2.0, ack.next_number);
        } else if ack.limited {
            self.grow(ack.acked_bytes as f64);
        }
    }

    fn grow(&mut self, acked_bytes: f64) {
        self.window_bytes += if self.window_bytes < self.threshold_bytes {
            acked_bytes
        } else {
            self.frame_bytes * acked_bytes / self.window_bytes
        };
    }

    fn reduce(&mut self, factor: f64, next_number: u64) {
        self.window_bytes = (self.window_bytes * factor).max(2.0 * self.frame_bytes);
        self.threshold_bytes = self.window_bytes;
        self.cut_ends = next_number;
    }

    /// Halves the window, at most once per window (RFC 5681, section 3.2).
    pub fn on_loss(&mut self, number: u64, next_number: u64) {
        if number >= self.cut_ends {
            self.reduce(0.5, next_number);
        }
    }

    /// Begins again with one frame, in slow start up to half the window; further timeouts in a row
    /// do not change this threshold (RFC 5681, section 3.1).
    pub fn on_timeout(&mut self) {
        if !std::mem::replace(&mut self.timed_out, true) {
            self.threshold_bytes = (self.window_bytes / 2.0).max(2.0 * self.frame_bytes);
        }
        self.window_bytes = self.frame_bytes;
    }

    /// The window, in bytes.
    pub fn window_bytes(&self) -> u64 {
        self.window_bytes as u64
    }

    /// The estimated share of marked bytes.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switch::Instant;

    const PATH: FlowPath =
        FlowPath { max_bps: 10_000_000_000, base_rtt_ns: 100_000, hops: 1, frame_bytes: 1000 };

    fn ack(number: u64, next_number: u64, marked: bool) -> AckSample<'static> {
        let now = Instant(0);
        let (acked_bytes, rtt_ns, limited, hops) = (1000, None, true, &[][..]);
        AckSample { now, number, next_number, acked_bytes, marked, rtt_ns, limited, hops }
    }

    #[test]
    fn slow_start_doubles_the_window_and_above_the_threshold_it_grows_by_a_frame() {
        let mut flow = Dctcp::new(DctcpSettings::PAPER, &PATH);
        (0..10).for_each(|number| flow.on_ack(&ack(number, 10 + number, false)));
        assert_eq!(flow.window_bytes(), 20_000);
        flow.threshold_bytes = 20_000.0;
        (10..30).for_each(|number| flow.on_ack(&ack(number, 20 + number, false)));
        assert!(flow.window_bytes().abs_diff(21_000) < 30, "{}", flow.window_bytes());
        flow.on_ack(&AckSample { limited: false, ..ack(30, 51, false) });
        assert!(flow.window_bytes() < 21_000, "it did not hold the sender back");
    }

    /// With alpha 1 a mark halves the window; the marks of the same window cut it no further.
    #[test]
    fn a_window_is_cut_once() {
        let mut flow = Dctcp::new(DctcpSettings::PAPER, &PATH);
        flow.window_bytes = 100_000.0;
        flow.on_ack(&ack(0, 100, true));
        assert_eq!((flow.window_bytes(), flow.alpha), (50_000, 1.0), "F is 1");
        (1..100).for_each(|number| flow.on_ack(&ack(number, 100 + number, true)));
        assert_eq!(flow.window_bytes(), 50_000);
        flow.on_ack(&ack(100, 200, true));
        assert_eq!(flow.window_bytes(), 25_000);
    }

    /// Windows of which a quarter is marked bring alpha to a quarter: 15/16 of the distance remains
    /// after each.
    #[test]
    fn alpha_approaches_the_share_of_marks() {
        let mut flow = Dctcp::new(DctcpSettings::PAPER, &PATH);
        flow.on_ack(&ack(0, 1, false));
        assert_eq!(flow.alpha, 15.0 / 16.0);
        for window in 0..20_u64 {
            for n in 0..100 {
                let number = 1 + 100 * window + n;
                flow.on_ack(&ack(number, number.max(101 + 100 * window), n % 4 == 3));
            }
        }
        // Each estimate ends with the first frame of the next window.
        let expected = 0.25 + (15.0 / 16.0 - 0.25) * (15.0_f64 / 16.0).powi(20);
        assert!((flow.alpha() - expected).abs() < 0.03, "{} {expected}", flow.alpha());
    }

    #[test]
    fn losses_halve_the_window_and_a_timeout_begins_again() {
        let mut flow = Dctcp::new(DctcpSettings::PAPER, &PATH);
        flow.window_bytes = 80_000.0;
        flow.on_loss(5, 80);
        flow.on_loss(6, 80);
        assert_eq!(flow.window_bytes(), 40_000);
        flow.on_timeout();
        assert_eq!((flow.window_bytes(), flow.threshold_bytes), (1000, 20_000.0));
        flow.on_timeout();
        assert_eq!((flow.window_bytes(), flow.threshold_bytes), (1000, 20_000.0), "in a row");
        flow.on_ack(&ack(80, 81, false));
        flow.on_timeout();
        assert_eq!((flow.window_bytes(), flow.threshold_bytes), (1000, 2000.0));
    }
}
