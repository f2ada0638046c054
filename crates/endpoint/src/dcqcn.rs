//! How a flow's rate follows congestion marks: the reaction point of DCQCN.
//!
//! Rule: a CNP says that a frame of the flow came marked. It cuts the rate by the part alpha/2, and the rate before
//! becomes the target. alpha estimates how often marks come: each CNP moves it towards 1, each alpha interval without one
//! towards 0. The rate comes back in steps, one for each increase interval and one for every so many bytes:
//!
//! ```text
//!            CNP: target = rate, rate ·= 1 − alpha/2, steps = 0
//!      ┌────────────────────────────────────────────────────────────┐
//!      ▼                       5 steps of a kind                    │
//!   Fast recovery ─────────────▶ Additive ─────────────▶ Hyper ─────┘
//!   rate → half way to target    target += R_AI          target += R_HAI    (5 steps of both kinds)
//!                                rate → half way         rate → half way
//! ```
//! Source: Y. Zhu et al., "Congestion control for large-scale RDMA deployments" (SIGCOMM 2015), section 3; the seeds'
//! figures 3-2 to 3-7 (inspur-ecn-pfc-white-paper-zh.txt).

use switch::{Instant, Nanos};

/// Steps of fast recovery (F of the paper).
const FAST_STEPS: u32 = 5;

/// How quickly marks are told, and how strongly they are followed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DcqcnSettings {
    /// A receiver sends at most one CNP a flow in this time.
    pub cnp_interval_ns: Nanos,
    /// Without a CNP for so long alpha decays, and again each time.
    pub alpha_interval_ns: Nanos,
    /// The rate takes a step back up so often …
    pub step_interval_ns: Nanos,
    /// … and with every so many bytes of the flow.
    pub step_bytes: u64,
    /// Weight of the newest sign in alpha (g), from 0 to 1.
    pub gain: f64,
    /// What an additive step adds to the target (R_AI), in bit/s.
    pub additive_bps: f64,
    /// What a hyper step adds to the target (R_HAI), in bit/s.
    pub hyper_bps: f64,
    /// No flow becomes slower, in bit/s.
    pub least_bps: f64,
    /// A sender that comes late catches up with so much of its rate; 0: each frame keeps its distance to the one before.
    pub burst_ns: Nanos,
}

impl DcqcnSettings {
    /// The values of the paper, for NICs of 40 Gbit/s. For two it has no figure: R_HAI is ten times R_AI, as in its
    /// forerunner QCN, and no flow becomes slower than R_AI.
    pub const PAPER: Self = Self {
        cnp_interval_ns: 50_000,
        alpha_interval_ns: 55_000,
        step_interval_ns: 55_000,
        step_bytes: 10_000_000,
        gain: 1.0 / 256.0,
        additive_bps: 40e6,
        hyper_bps: 400e6,
        least_bps: 40e6,
        burst_ns: 0,
    };

    /// For a software loop that looks every few hundred microseconds, and flows of about 1 Gbit/s: a tenth of the
    /// paper's signs, so each weighs more.
    pub const SOFTWARE_LOOP: Self = Self {
        cnp_interval_ns: 500_000,
        alpha_interval_ns: 550_000,
        step_interval_ns: 4_000_000,
        step_bytes: 500_000,
        gain: 1.0 / 16.0,
        additive_bps: 5e6,
        hyper_bps: 50e6,
        least_bps: 1e6,
        burst_ns: 1_000_000,
    };
}

/// One flow's rate.
#[derive(Debug, Clone)]
pub struct Dcqcn {
    settings: DcqcnSettings,
    most_bps: f64,
    target_bps: f64,
    rate_bps: f64,
    lowest_bps: f64,
    alpha: f64,
    alpha_at: Instant,
    step_at: Instant,
    time_steps: u32,
    byte_steps: u32,
    bytes: u64,
    /// When the next frame may leave.
    free_at: Instant,
    cnps: u64,
}

impl Dcqcn {
    /// A flow that has met no congestion: it sends at `most_bps`.
    pub fn new(settings: DcqcnSettings, most_bps: u64, now: Instant) -> Self {
        let most_bps = most_bps as f64;
        Self {
            settings,
            most_bps,
            target_bps: most_bps,
            rate_bps: most_bps,
            lowest_bps: most_bps,
            alpha: 1.0,
            alpha_at: Instant::NEVER,
            step_at: Instant::NEVER,
            time_steps: 0,
            byte_steps: 0,
            bytes: 0,
            free_at: now,
            cnps: 0,
        }
    }

    /// A CNP came.
    pub fn cut(&mut self, now: Instant) {
        self.advance(now);
        self.cnps += 1;
        self.target_bps = self.rate_bps;
        self.rate_bps =
            (self.rate_bps * (1.0 - self.alpha / 2.0)).max(self.settings.least_bps.min(self.most_bps));
        self.lowest_bps = self.lowest_bps.min(self.rate_bps);
        self.alpha = (1.0 - self.settings.gain) * self.alpha + self.settings.gain;
        self.alpha_at = now + self.settings.alpha_interval_ns;
        self.step_at = now + self.settings.step_interval_ns;
        (self.time_steps, self.byte_steps, self.bytes) = (0, 0, 0);
    }

    /// Time has come to `now`: alpha decays, the rate comes back.
    pub fn advance(&mut self, now: Instant) {
        while self.alpha_at <= now {
            self.alpha *= 1.0 - self.settings.gain;
            self.alpha_at = self.alpha_at + self.settings.alpha_interval_ns;
        }
        while self.step_at <= now {
            self.time_steps += 1;
            self.step();
            self.step_at =
                if self.is_free() { Instant::NEVER } else { self.step_at + self.settings.step_interval_ns };
        }
    }

    /// A frame of `bytes` leaves at `now`.
    pub fn take(&mut self, bytes: u16, now: Instant) {
        let gap_ns = (f64::from(bytes) * 8e9 / self.rate_bps) as Nanos;
        self.free_at = self.free_at.max(now - self.settings.burst_ns) + gap_ns;
        self.bytes += u64::from(bytes);
        if self.bytes >= self.settings.step_bytes && !self.is_free() {
            self.bytes = 0;
            self.byte_steps += 1;
            self.step();
        }
    }

    fn step(&mut self) {
        let (most, least) = (self.time_steps.max(self.byte_steps), self.time_steps.min(self.byte_steps));
        if least > FAST_STEPS {
            self.target_bps += self.settings.hyper_bps;
        } else if most > FAST_STEPS {
            self.target_bps += self.settings.additive_bps;
        }
        self.target_bps = self.target_bps.min(self.most_bps);
        self.rate_bps = (self.target_bps + self.rate_bps) / 2.0;
        if self.most_bps - self.rate_bps < self.most_bps / 1000.0 {
            self.rate_bps = self.most_bps;
        }
    }

    /// It sends as fast as it ever will.
    fn is_free(&self) -> bool {
        self.rate_bps >= self.most_bps
    }

    /// When the next frame may leave.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// The rate that congestion leaves it, in bit/s.
    pub fn rate_bps(&self) -> u64 {
        self.rate_bps as u64
    }

    /// The lowest rate that it had, in bit/s.
    pub fn lowest_bps(&self) -> u64 {
        self.lowest_bps as u64
    }

    /// The CNPs that came.
    pub fn cnps(&self) -> u64 {
        self.cnps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;
    const SETTINGS: DcqcnSettings = DcqcnSettings::SOFTWARE_LOOP;
    const STEP_NS: Nanos = SETTINGS.step_interval_ns;

    fn mbps(flow: &Dcqcn) -> (u64, u64) {
        ((flow.rate_bps / 1e6).round() as u64, (flow.target_bps / 1e6).round() as u64)
    }

    /// The life of a flow of 600 Mbit/s, by the formulas: time in ms, what happens, then rate and target in Mbit/s.
    #[test]
    fn cut_decay_and_the_three_ways_back() {
        let mut flow = Dcqcn::new(SETTINGS, 600_000_000, Instant(0));
        flow.advance(Instant(100 * MS));
        assert_eq!(mbps(&flow), (600, 600), "nothing happens without a CNP");
        flow.cut(Instant(100 * MS));
        assert_eq!(mbps(&flow), (300, 600), "alpha is 1: half");
        assert!((flow.alpha - 1.0).abs() < 1e-9, "15/16 + 1/16");
        // Fast recovery: half way to the target each 4 ms.
        for (step, rate) in [(1, 450), (2, 525), (3, 563), (4, 581), (5, 591)] {
            flow.advance(Instant(100 * MS + step * STEP_NS));
            assert_eq!(mbps(&flow), (rate, 600), "step {step}");
        }
        // 20 ms are 36 decays of alpha.
        assert!((flow.alpha - (15.0_f64 / 16.0).powi(36)).abs() < 1e-9, "{}", flow.alpha);
        flow.cut(Instant(120 * MS));
        assert_eq!(mbps(&flow), (562, 591), "alpha is a tenth: five percent");
        flow.target_bps = 300e6;
        flow.rate_bps = 300e6;
        (flow.time_steps, flow.byte_steps) = (5, 0);
        flow.advance(Instant(124 * MS));
        assert_eq!(mbps(&flow), (303, 305), "additive: the target rises by 5");
        flow.byte_steps = 6;
        flow.advance(Instant(128 * MS));
        assert_eq!(mbps(&flow), (329, 355), "hyper: by 50");
        for step in 3..30 {
            flow.advance(Instant(120 * MS + step * STEP_NS));
        }
        assert_eq!((mbps(&flow), flow.step_at), ((600, 600), Instant::NEVER), "back, and at rest");
        assert_eq!((flow.rate_bps(), flow.lowest_bps(), flow.cnps()), (600_000_000, 300_000_000, 2));
    }

    #[test]
    fn bytes_make_steps_too_and_frames_leave_at_the_rate() {
        let mut flow = Dcqcn::new(SETTINGS, 800_000_000, Instant(0));
        flow.cut(Instant(0));
        let mut now = Instant(10 * MS);
        flow.step_at = Instant::NEVER;
        let start = now;
        flow.free_at = now;
        for _ in 0..499 {
            flow.take(1000, now);
            now = flow.free_at();
        }
        assert_eq!(now.since(start), 499 * 20_000, "1000 bytes at 400 Mbit/s");
        flow.take(1000, now);
        assert_eq!((mbps(&flow), flow.byte_steps), ((600, 800), 1));
    }

    /// Two flows of 600 Mbit/s through a line of 500, which marks what finds more than 300 kB before it: the queue stays
    /// below a megabyte, the line is busy, and both get about half.
    #[test]
    fn two_flows_share_a_bottleneck() {
        const LINE_BPS: f64 = 500e6;
        const TURN_NS: Nanos = 50_000;
        let mut flows =
            [Dcqcn::new(SETTINGS, 600_000_000, Instant(0)), Dcqcn::new(SETTINGS, 600_000_000, Instant(0))];
        let (mut queue_bytes, mut peak_bytes, mut carried, mut sent) = (0.0_f64, 0.0_f64, 0.0, [0.0; 2]);
        let mut told = [Instant(0); 2];
        for turn in 1..=40_000 {
            let now = Instant(turn * TURN_NS);
            for (flow, (told, sent)) in flows.iter_mut().zip(told.iter_mut().zip(&mut sent)) {
                flow.advance(now);
                while flow.free_at() <= now {
                    flow.take(1000, now);
                    queue_bytes += 1000.0;
                    *sent += 1000.0;
                    if queue_bytes > 300_000.0 && now.since(*told) >= SETTINGS.cnp_interval_ns {
                        *told = now;
                        flow.cut(now);
                    }
                }
            }
            let drained = (LINE_BPS * TURN_NS as f64 / 8e9).min(queue_bytes);
            queue_bytes -= drained;
            if turn > 10_000 {
                (carried, peak_bytes) = (carried + drained, peak_bytes.max(queue_bytes));
            }
        }
        let busy = carried * 8e9 / LINE_BPS / (30_000.0 * TURN_NS as f64);
        assert!(busy > 0.97, "the line was {:.1} % busy", busy * 100.0);
        assert!(peak_bytes < 1e6, "{peak_bytes} bytes at most");
        let share = sent[0] / (sent[0] + sent[1]);
        assert!((0.4..0.6).contains(&share), "{share}");
    }
}
