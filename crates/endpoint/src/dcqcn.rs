//! Rate control of a flow by congestion marks: the reaction point of DCQCN.
//!
//! Rule: a CNP reports that a frame of the flow arrived marked. It cuts the rate by the fraction
//! alpha/2, and the rate before the cut becomes the target. alpha estimates how often marks arrive:
//! each CNP moves it toward 1, each alpha interval without a CNP toward 0. The rate recovers in
//! steps, one for each step interval and one for each `step_bytes` of the flow:
//!
//! ```text
//!            CNP: target = rate, rate ·= 1 − alpha/2, steps = 0
//!      ┌────────────────────────────────────────────────────────────┐
//!      ▼                       Fth step of a kind                   │
//!   Fast recovery ─────────────▶ Additive ─────────────▶ Hyper ─────┘
//!   rate → half way to target    target += R_AI          target += R_HAI (step F + 1 of both kinds)
//!                                rate → half way         rate → half way
//! ```
//! These are the conditions of the paper's figure 7: max(T, BC) < F is fast recovery, min(T, BC) >
//! F hyper increase. Implementations that count up to F leave fast recovery a step later
//! ([`FastRecovery`]).
//! Source: Y. Zhu et al., "Congestion control for large-scale RDMA deployments" (SIGCOMM 2015),
//! section 3; docs/references.md, "Inspur white paper" (figures 3-2 to 3-7).

use switch::{Instant, Nanos};

/// How long fast recovery lasts, for T and BC steps since the last cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FastRecovery {
    /// While max(T, BC) < F, as in the paper.
    #[default]
    BelowF,
    /// While max(T, BC) ≤ F.
    UpToF,
}

/// How soon a sender learns of marks, and how strongly it reacts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DcqcnSettings {
    /// Minimum interval between two CNPs of a flow.
    pub cnp_interval_ns: Nanos,
    /// Length of an alpha interval: without a CNP in it, alpha decays once.
    pub alpha_interval_ns: Nanos,
    /// The rate takes one recovery step per interval of this length.
    pub step_interval_ns: Nanos,
    /// The rate also takes one recovery step each time that the flow has sent this many bytes.
    pub step_bytes: u64,
    /// Weight in alpha of the newest interval, with a CNP or without (g), from 0 to 1.
    pub gain: f64,
    /// Increase of the target per additive step (R_AI), in bit/s.
    pub additive_bps: f64,
    /// Increase of the target per hyper step (R_HAI), in bit/s.
    pub hyper_bps: f64,
    /// Minimum rate of a flow, in bit/s.
    pub min_bps: f64,
    /// A late sender catches up with what its rate carries in this time. With 0, each frame keeps
    /// its distance to the one before.
    pub burst_ns: Nanos,
    /// Number of steps of fast recovery (F).
    pub fast_steps: u32,
    /// How long fast recovery lasts.
    pub fast_recovery: FastRecovery,
    /// Each cut makes the rate before it the target, as in the paper. Otherwise only the first cut
    /// after an increase does, as in the simulator of HPCC's authors (`CLAMP_TARGET_RATE 0`).
    pub clamps_target: bool,
}

impl DcqcnSettings {
    /// The values of the paper, for NICs of 40 Gbit/s. The paper has no figure for two of them:
    /// R_HAI is ten times R_AI, as in its predecessor QCN, and the minimum rate is R_AI.
    pub const PAPER: Self = Self {
        cnp_interval_ns: 50_000,
        alpha_interval_ns: 55_000,
        step_interval_ns: 55_000,
        step_bytes: 10_000_000,
        gain: 1.0 / 256.0,
        additive_bps: 40e6,
        hyper_bps: 400e6,
        min_bps: 40e6,
        burst_ns: 0,
        fast_steps: 5,
        fast_recovery: FastRecovery::BelowF,
        clamps_target: true,
    };

    /// The paper's values, twenty times slower and for flows of about 1 Gbit/s: for a software loop
    /// that polls every few hundred microseconds, and may be preempted for tens of milliseconds on
    /// a busy machine. So it catches up with that much, and its recovery steps are twice what a
    /// fortieth of the rate would make them.
    pub const SOFTWARE_LOOP: Self = Self {
        cnp_interval_ns: 1_000_000,
        alpha_interval_ns: 1_100_000,
        step_interval_ns: 1_100_000,
        step_bytes: 5_000_000,
        gain: 1.0 / 256.0,
        additive_bps: 2e6,
        hyper_bps: 20e6,
        min_bps: 1e6,
        burst_ns: 50_000_000,
        fast_steps: 5,
        fast_recovery: FastRecovery::BelowF,
        clamps_target: true,
    };
}

/// Rate state of one flow.
#[derive(Debug, Clone)]
pub struct Dcqcn {
    settings: DcqcnSettings,
    max_bps: f64,
    target_bps: f64,
    rate_bps: f64,
    lowest_bps: f64,
    alpha: f64,
    alpha_at: Instant,
    step_at: Instant,
    time_steps: u32,
    byte_steps: u32,
    bytes: u64,
    /// Earliest time of the next frame.
    free_at: Instant,
    cnps: u64,
}

impl Dcqcn {
    /// Returns a flow that has met no congestion: it sends at `max_bps`.
    pub fn new(settings: DcqcnSettings, most_bps: u64, now: Instant) -> Self {
        let most_bps = most_bps as f64;
        Self {
            settings,
            max_bps: most_bps,
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

    /// Cuts the rate because a CNP arrived.
    pub fn cut(&mut self, now: Instant) {
        self.advance(now);
        self.cnps += 1;
        if self.settings.clamps_target || self.time_steps + self.byte_steps > 0 {
            self.target_bps = self.rate_bps;
        }
        self.rate_bps =
            (self.rate_bps * (1.0 - self.alpha / 2.0)).max(self.settings.min_bps.min(self.max_bps));
        self.lowest_bps = self.lowest_bps.min(self.rate_bps);
        self.alpha = (1.0 - self.settings.gain) * self.alpha + self.settings.gain;
        self.alpha_at = now + self.settings.alpha_interval_ns;
        self.step_at = now + self.settings.step_interval_ns;
        (self.time_steps, self.byte_steps, self.bytes) = (0, 0, 0);
    }

    /// Advances the time to `now`: alpha decays, the rate recovers.
    pub fn advance(&mut self, now: Instant) {
        while self.alpha_at <= now {
            self.alpha *= 1.0 - self.settings.gain;
            self.alpha_at = self.alpha_at + self.settings.alpha_interval_ns;
        }
        while self.step_at <= now {
            self.time_steps += 1;
            self.step();
            self.step_at = if self.is_at_full_rate() {
                Instant::NEVER
            } else {
                self.step_at + self.settings.step_interval_ns
            };
        }
    }

    /// Accounts a frame of `bytes` that leaves at `now`.
    pub fn take(&mut self, bytes: u16, now: Instant) {
        let gap_ns = (f64::from(bytes) * 8e9 / self.rate_bps) as Nanos;
        self.free_at = self.free_at.max(now - self.settings.burst_ns) + gap_ns;
        self.bytes += u64::from(bytes);
        if self.bytes >= self.settings.step_bytes && !self.is_at_full_rate() {
            self.bytes = 0;
            self.byte_steps += 1;
            self.step();
        }
    }

    fn step(&mut self) {
        let (most, least) = (self.time_steps.max(self.byte_steps), self.time_steps.min(self.byte_steps));
        let is_fast = match self.settings.fast_recovery {
            FastRecovery::BelowF => most < self.settings.fast_steps,
            FastRecovery::UpToF => most <= self.settings.fast_steps,
        };
        if least > self.settings.fast_steps {
            self.target_bps += self.settings.hyper_bps;
        } else if !is_fast {
            self.target_bps += self.settings.additive_bps;
        }
        self.target_bps = self.target_bps.min(self.max_bps);
        self.rate_bps = (self.target_bps + self.rate_bps) / 2.0;
        if self.max_bps - self.rate_bps < self.max_bps / 1000.0 {
            self.rate_bps = self.max_bps;
        }
    }

    /// Returns true if congestion does not limit the rate.
    fn is_at_full_rate(&self) -> bool {
        self.rate_bps >= self.max_bps
    }

    /// Returns the earliest time of the next frame.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Returns the current rate under congestion control, in bit/s.
    pub fn rate_bps(&self) -> u64 {
        self.rate_bps as u64
    }

    /// Returns the lowest rate so far, in bit/s.
    pub fn lowest_bps(&self) -> u64 {
        self.lowest_bps as u64
    }

    /// Returns the number of CNPs received.
    pub fn cnps(&self) -> u64 {
        self.cnps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;
    const SETTINGS: DcqcnSettings = DcqcnSettings::SOFTWARE_LOOP;

    fn mbps(flow: &Dcqcn) -> (u64, u64) {
        ((flow.rate_bps / 1e6).round() as u64, (flow.target_bps / 1e6).round() as u64)
    }

    /// Rate and target of a flow of 600 Mbit/s over time, computed by the formulas, in Mbit/s.
    #[test]
    fn a_cnp_cuts_the_rate_and_it_comes_back_in_three_ways() {
        let mut flow = Dcqcn::new(SETTINGS, 600_000_000, Instant(0));
        flow.advance(Instant(100 * MS));
        assert_eq!(mbps(&flow), (600, 600), "nothing happens without a CNP");
        flow.cut(Instant(100 * MS));
        assert_eq!(mbps(&flow), (300, 600), "alpha is 1: half");
        assert!((flow.alpha - 1.0).abs() < 1e-9, "255/256 + 1/256");
        let mut now = Instant(100 * MS);
        let mut steps = |flow: &mut Dcqcn, count: u64| {
            now = now + count * SETTINGS.step_interval_ns;
            flow.advance(now);
            now
        };
        for rate in [450, 525, 563, 581] {
            steps(&mut flow, 1);
            assert_eq!(mbps(&flow), (rate, 600), "fast recovery: half way to the target");
        }
        steps(&mut flow, 1);
        assert_eq!(mbps(&flow), (591, 600), "additive: the target cannot rise above the most");
        assert!((flow.alpha - (255.0_f64 / 256.0).powi(5)).abs() < 1e-9, "five decays: {}", flow.alpha);

        let now = steps(&mut flow, 395);
        assert_eq!((mbps(&flow), flow.step_at), ((600, 600), Instant::NEVER), "back, and at rest");
        flow.cut(now);
        assert!((flow.rate_bps - 600e6 * (1.0 - flow_alpha(400) / 2.0)).abs() < 1.0, "{}", flow.rate_bps);
        assert_eq!(mbps(&flow), (537, 600), "alpha is a fifth: a tenth");

        (flow.target_bps, flow.rate_bps) = (300e6, 300e6);
        flow.time_steps = SETTINGS.fast_steps - 2;
        steps(&mut flow, 1);
        assert_eq!((flow.target_bps, flow.rate_bps), (300e6, 300e6), "the fourth step: fast recovery");
        steps(&mut flow, 1);
        assert_eq!((flow.target_bps, flow.rate_bps), (302e6, 301e6), "the fifth: the target rises by 2");
        flow.byte_steps = SETTINGS.fast_steps + 1;
        steps(&mut flow, 1);
        assert_eq!((flow.target_bps, flow.rate_bps), (322e6, 311.5e6), "hyper: by 20");
        assert_eq!((flow.lowest_bps(), flow.cnps()), (300_000_000, 2));
    }

    /// Of implementations that count up to F the fifth step is fast recovery, the sixth additive.
    #[test]
    fn fast_recovery_may_last_a_step_longer() {
        let settings = DcqcnSettings { fast_recovery: FastRecovery::UpToF, ..SETTINGS };
        let mut flow = Dcqcn::new(settings, 600_000_000, Instant(0));
        (flow.target_bps, flow.rate_bps, flow.step_at) = (300e6, 300e6, Instant(0));
        let targets = (1..=6_u64).map(|step| {
            flow.advance(Instant((step - 1) * SETTINGS.step_interval_ns));
            flow.target_bps
        });
        assert_eq!(targets.collect::<Vec<_>>(), [300e6, 300e6, 300e6, 300e6, 300e6, 302e6]);
    }

    /// Of two cuts with no step between them the second leaves the target, unless each lowers it; a
    /// cut after a step makes the rate before it the target.
    #[test]
    fn cuts_in_a_row_may_leave_the_target() {
        for (clamps_target, targets) in [(true, [600, 300, 225]), (false, [600, 600, 375])] {
            let settings = DcqcnSettings { clamps_target, ..SETTINGS };
            let mut flow = Dcqcn::new(settings, 600_000_000, Instant(0));
            let mut found = [0; 3];
            for (at, target) in [0, 0, SETTINGS.step_interval_ns].into_iter().zip(&mut found) {
                flow.cut(Instant(at));
                *target = mbps(&flow).1;
            }
            assert_eq!(found, targets, "half of 600, then a quarter and half way back");
        }
    }

    /// With F = 2 the second step is additive, and the third of both kinds hyper.
    #[test]
    fn fast_recovery_may_have_fewer_steps() {
        let settings = DcqcnSettings { fast_steps: 2, ..SETTINGS };
        let mut flow = Dcqcn::new(settings, 600_000_000, Instant(0));
        (flow.target_bps, flow.rate_bps, flow.step_at) = (300e6, 300e6, Instant(0));
        flow.byte_steps = 2;
        flow.time_steps = 0;
        let targets = (1..=4_u64).map(|step| {
            if step == 4 {
                flow.byte_steps = 3;
            }
            flow.advance(Instant((step - 1) * SETTINGS.step_interval_ns));
            flow.target_bps
        });
        assert_eq!(targets.collect::<Vec<_>>(), [302e6, 304e6, 306e6, 326e6]);
    }

    /// The value of alpha after this many decays from 1.
    fn flow_alpha(decays: i32) -> f64 {
        (1.0 - SETTINGS.gain).powi(decays)
    }

    #[test]
    fn bytes_make_steps_and_frames_leave_at_the_rate() {
        let mut flow = Dcqcn::new(SETTINGS, 800_000_000, Instant(0));
        flow.cut(Instant(0));
        flow.step_at = Instant::NEVER;
        let mut now = flow.free_at();
        for _ in 0..4999 {
            flow.take(1000, now);
            now = flow.free_at();
        }
        assert_eq!(now, Instant(4999 * 20_000), "1000 bytes at 400 Mbit/s");
        flow.take(1000, now);
        assert_eq!((mbps(&flow), flow.byte_steps), ((600, 800), 1));
    }

    /// A late sender catches up with the burst, and no more.
    #[test]
    fn a_late_sender_catches_up_with_the_burst() {
        let mut flow = Dcqcn::new(SETTINGS, 800_000_000, Instant(0));
        let late = Instant(SETTINGS.burst_ns + 50 * MS);
        let mut frames = 0;
        while flow.free_at() <= late {
            flow.take(1000, late);
            frames += 1;
        }
        assert_eq!(frames, SETTINGS.burst_ns / 10_000 + 1, "10 µs each, and the one that is due");
    }

    /// A link that marks the frames that leave it: none below `low_bytes` of queue, all above
    /// `high_bytes`, and linearly up to `most` in between.
    struct SharedLink {
        bps: f64,
        low_bytes: f64,
        high_bytes: f64,
        most: f64,
    }

    impl SharedLink {
        fn mark_share(&self, queue_bytes: f64) -> f64 {
            match (queue_bytes - self.low_bytes) / (self.high_bytes - self.low_bytes) {
                part if part < 0.0 => 0.0,
                part if part > 1.0 => 1.0,
                part => part * self.most,
            }
        }
    }

    /// Throughput of two flows on a link in the second half of the time.
    #[derive(Debug)]
    struct LinkThroughput {
        busy: f64,
        peak_bytes: f64,
        first_share: f64,
    }

    /// Runs two flows into one link for `turns`; CNPs arrive in the turn after the mark.
    fn two_flows(
        settings: DcqcnSettings,
        most_bps: u64,
        line: &SharedLink,
        turn_ns: Nanos,
        turns: u64,
    ) -> LinkThroughput {
        let mut flows = [(); 2].map(|()| Dcqcn::new(settings, most_bps, Instant(0)));
        let (mut reported_at, mut sent) = ([Instant(0); 2], [0.0; 2]);
        let (mut queue, mut room_bytes, mut random) = (std::collections::VecDeque::new(), 0.0, 1_u64);
        let mut peak_bytes = 0.0_f64;
        for turn in 1..=turns {
            let now = Instant(turn * turn_ns);
            for (index, flow) in flows.iter_mut().enumerate() {
                flow.advance(now);
                while flow.free_at() <= now {
                    flow.take(1000, now);
                    queue.push_back(index);
                }
            }
            room_bytes += line.bps * turn_ns as f64 / 8e9;
            let settled = turn > turns / 2;
            if settled {
                peak_bytes = peak_bytes.max(queue.len() as f64 * 1000.0);
            }
            while room_bytes >= 1000.0 {
                let Some(index) = queue.pop_front() else {
                    room_bytes = 0.0;
                    break;
                };
                room_bytes -= 1000.0;
                sent[index] += if settled { 1000.0 } else { 0.0 };
                // Knuth's linear congruential generator (MMIX); its upper bits are random enough.
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let marked = (random >> 40) as f64 / (1 << 24) as f64;
                if marked < line.mark_share(queue.len() as f64 * 1000.0) && now >= reported_at[index] {
                    reported_at[index] = now + settings.cnp_interval_ns;
                    flows[index].cut(now);
                }
            }
        }
        let carried: f64 = sent.iter().sum();
        let busy = carried * 8e9 / (line.bps * (turns / 2 * turn_ns) as f64);
        LinkThroughput { busy, peak_bytes, first_share: sent[0] / carried }
    }

    /// Two flows of 600 Mbit/s into a link of 500 that marks from 1 to 8 ms of queue, as
    /// config/ecn.toml: the link is busy, the queue stays well below the length where all frames
    /// are marked, and both get half, whether the loop polls often or seldom.
    #[test]
    #[cfg_attr(miri, ignore = "statistics of hundreds of thousands of turns")]
    fn two_flows_of_a_software_loop_share_a_line() {
        let line = SharedLink { bps: 500e6, low_bytes: 64e3, high_bytes: 512e3, most: 0.2 };
        for turn_ns in [50_000, 200_000, MS] {
            let outcome = two_flows(SETTINGS, 600_000_000, &line, turn_ns, 10_000 * MS / turn_ns);
            let LinkThroughput { busy, peak_bytes, first_share } = outcome;
            assert!(busy > 0.98 && peak_bytes < 256e3, "{turn_ns} ns: {outcome:?}");
            assert!((0.45..0.55).contains(&first_share), "{turn_ns} ns: {outcome:?}");
        }
    }

    /// Two NICs of 40 Gbit/s into one link of the same speed, with the paper's thresholds (5 kB,
    /// 200 kB, 1 %).
    #[test]
    #[cfg_attr(miri, ignore = "statistics of hundreds of thousands of turns")]
    fn two_flows_of_the_paper_share_a_line() {
        let line = SharedLink { bps: 40e9, low_bytes: 5e3, high_bytes: 200e3, most: 0.01 };
        let outcome = two_flows(DcqcnSettings::PAPER, 40_000_000_000, &line, 200, 500_000);
        let LinkThroughput { busy, peak_bytes, first_share } = outcome;
        assert!(busy > 0.98 && peak_bytes < 250e3, "{outcome:?}");
        assert!((0.45..0.55).contains(&first_share), "{outcome:?}");
    }
}
