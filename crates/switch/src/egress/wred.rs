//! WRED and ECN: a queue that grows drops a few frames early, or marks them instead, so that
//! senders slow down before the queue, or PFC, has to stop them.
//!
//! Rule, with the queue's average length A, in cells, the limits low and high and the probability p
//! of the frame's drop level:
//! - A ≤ low: the frame passes, and no random number is drawn;
//! - low < A ≤ high: the frame is picked with probability p · (A − low) / (high − low);
//! - A > high: the frame is picked.
//!
//! With ECN on, a picked frame with ECT(0) or ECT(1) becomes CE, CE passes unchanged, and Not-ECT
//! is dropped. With ECN off every picked frame is dropped. On a no-drop queue a Not-ECT frame is
//! dropped only if the settings ask for it, and with ECN off no frame is.
//!
//! A is updated with every arrival, even of a frame that is dropped (RED: all arrivals): A ← A +
//! (length − A) / 2^exponent, where the length includes the frame itself. Exponent 0 is the
//! instantaneous length. Where marks are set at dequeue, A is updated with every departure instead,
//! with the length before it, and only ECT frames are picked there; the others are picked at
//! enqueue.
//!
//! While the queue is idle A falls as if frames had arrived at the empty queue, one in the time
//! that the port's link takes for a frame of 1000 bytes: after m such times A ← A · (1 −
//! 2^-exponent)^m. It is computed when the next frame arrives (RED's idle rule). A queue is idle
//! while it holds no frame; a queue with a frame that waits for a pause to end is not idle.
//!
//! Source: docs/behavior.md, "WRED and ECN"; docs/references.md, "H3C reference" (ECN: limits 100
//! and 1000, probability 10 %, exponent 9, the rules for ECN fields 00, 01, 10, 11) and "Inspur
//! white paper" (3.1.4, 5.2: profiles, colors); S. Floyd and V. Jacobson, "Random early detection"
//! (1993), figure 2 (the average, and how it falls over an idle time); RFC 3168 section 5.

use crate::settings::{DropLevel, EcnMarkPoint, WredProfile, WredSettings};
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};
use wire::ip::Ecn;
use wire::random::Random;

/// Action on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WredAction {
    /// The frame passes unchanged.
    Pass,
    /// The frame passes with an ECN mark (CE).
    Mark,
    /// The frame is dropped.
    Drop,
}

/// Fractional bits of the average.
const FRACTION_BITS: u32 = 32;

/// WRED of one queue.
#[derive(Debug, Serialize, Deserialize)]
pub struct Wred {
    settings: WredSettings,
    /// True if the queue's frames must not be lost.
    no_drop: bool,
    /// Average length in cells, in units of 2^-32.
    average: u64,
    /// Time that the link takes for a typical frame.
    frame_ns: Nanos,
    /// Time up to which the average of an empty queue has been aged.
    idle_since: Instant,
}

impl Wred {
    /// Makes the WRED of an empty queue. `no_drop` is true if the queue carries no-drop priorities;
    /// `frame_ns` is the time that the link takes for a typical frame.
    pub fn new(settings: WredSettings, no_drop: bool, frame_ns: Nanos) -> Self {
        Self { settings, no_drop, average: 0, frame_ns: frame_ns.max(1), idle_since: Instant::default() }
    }

    /// Applies other settings; the average is kept.
    pub(crate) fn reconfigured(self, settings: WredSettings, no_drop: bool, frame_ns: Nanos) -> Self {
        Self { settings, no_drop, frame_ns: frame_ns.max(1), ..self }
    }

    /// Returns the average length in cells, rounded down, of a queue that holds `waiting` cells.
    pub fn average_cells(&self, waiting: u32, now: Instant) -> u32 {
        let average = if waiting == 0 { self.average_after(self.idle_frames(now)) } else { self.average };
        (average >> FRACTION_BITS) as u32
    }

    /// Decides about a frame of `cells` that arrives at the queue, which holds `waiting` cells.
    #[inline(never)] // most queues have no WRED, and need the registers
    pub fn at_enqueue(
        &mut self,
        (waiting, cells): (u32, u32),
        drop_level: DropLevel,
        ecn: Ecn,
        random: &mut Random,
        now: Instant,
    ) -> WredAction {
        self.observe((waiting, cells), now);
        if !self.picks(drop_level, random) {
            return WredAction::Pass;
        }
        match (self.settings.ecn, ecn) {
            (true, Ecn::Ce) => WredAction::Pass,
            (true, ecn) if ecn.is_markable() => match self.settings.mark_at {
                EcnMarkPoint::Enqueue => WredAction::Mark,
                EcnMarkPoint::Dequeue => WredAction::Pass, // decided at dequeue
            },
            (true, _) if self.no_drop && !self.settings.drop_not_ect => WredAction::Pass,
            (false, _) if self.no_drop => WredAction::Pass,
            (_, _) => WredAction::Drop,
        }
    }

    /// Updates the average with a frame of `cells` that arrives at the queue, which holds `waiting`
    /// cells. Whether the frame is admitted does not matter.
    #[inline]
    pub fn observe(&mut self, (waiting, cells): (u32, u32), now: Instant) {
        if waiting == 0 {
            self.catch_up(now);
        }
        if self.settings.mark_at == EcnMarkPoint::Enqueue {
            self.update(waiting + cells);
        }
    }

    /// Records that a frame of `cells` leaves the queue, which still holds `waiting` cells. Returns
    /// true if it must be marked, provided that it is ECT.
    #[inline(never)]
    pub fn at_dequeue(
        &mut self,
        (waiting, cells): (u32, u32),
        drop_level: DropLevel,
        random: &mut Random,
        now: Instant,
    ) -> bool {
        if waiting == 0 {
            self.on_empty(now);
        }
        if !self.decides_at_dequeue() {
            return false;
        }
        self.update(waiting + cells);
        self.picks(drop_level, random)
    }

    /// True if frames are checked when they leave, too.
    pub fn decides_at_dequeue(&self) -> bool {
        self.settings.mark_at == EcnMarkPoint::Dequeue && self.settings.ecn
    }

    /// Records that the queue has become empty: it is idle from now on.
    #[inline]
    pub fn on_empty(&mut self, now: Instant) {
        self.idle_since = now;
    }

    /// Returns how many typical frames could have left since the queue became empty.
    fn idle_frames(&self, now: Instant) -> u64 {
        now.since(self.idle_since) / self.frame_ns
    }

    /// Ages the average of the empty queue up to `now`.
    fn catch_up(&mut self, now: Instant) {
        let frames = self.idle_frames(now);
        self.average = self.average_after(frames);
        // A remainder below one frame's time counts later, should this frame not stay.
        self.idle_since = self.idle_since + frames * self.frame_ns;
    }

    /// Returns the average after `frames` arrivals at the empty queue: times (1 − 2^-exponent)
    /// each, by repeated squaring.
    fn average_after(&self, mut frames: u64) -> u64 {
        let one = 1_u64 << 63;
        let times = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> 63) as u64;
        let (mut average, mut factor) = (self.average, one - (one >> self.settings.exponent));
        while frames > 0 && average > 0 {
            if frames & 1 == 1 {
                average = times(average, factor);
            }
            factor = times(factor, factor);
            frames >>= 1;
        }
        average
    }

    #[inline]
    fn update(&mut self, cells: u32) {
        let length = u64::from(cells) << FRACTION_BITS;
        if length >= self.average {
            self.average += (length - self.average) >> self.settings.exponent;
        } else {
            self.average -= (self.average - length) >> self.settings.exponent;
        }
    }

    /// True if a frame is picked at the present average.
    #[inline]
    fn picks(&self, drop_level: DropLevel, random: &mut Random) -> bool {
        let WredProfile { low_cells, high_cells, probability_percent } =
            self.settings.curves[drop_level as usize];
        let (low, high) = (u64::from(low_cells) << FRACTION_BITS, u64::from(high_cells) << FRACTION_BITS);
        if self.average <= low {
            return false;
        }
        if self.average > high {
            return true;
        }
        // p · (A − low) / (high − low) as a fraction of 2^32; high > low here.
        let share = (u128::from(self.average - low) << 32) / u128::from(high - low);
        u128::from(random.draw()) * 100 < share * u128::from(probability_percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DropLevel::{Green, Red, Yellow};

    /// Low = high = 10 without averaging: every frame above is picked, none below.
    fn sharp() -> WredSettings {
        let curve = WredProfile { low_cells: 10, high_cells: 10, probability_percent: 100 };
        WredSettings { exponent: 0, ecn: true, curves: [curve; 3], ..WredSettings::default() }
    }

    /// (ECN on, no-drop queue, Not-ECT set to drop), then the action on a picked 00, 01, 10 and 11.
    #[test]
    fn what_becomes_of_a_picked_frame() {
        use WredAction::{Drop, Mark, Pass};
        for (ecn, no_drop, drop_not_ect, expected) in [
            (true, false, false, [Drop, Mark, Mark, Pass]),
            (true, true, false, [Pass, Mark, Mark, Pass]),
            (true, true, true, [Drop, Mark, Mark, Pass]),
            (false, false, false, [Drop; 4]),
            (false, true, false, [Pass; 4]),
        ] {
            let mut wred = Wred::new(WredSettings { ecn, drop_not_ect, ..sharp() }, no_drop, 800);
            let fields = [0b00, 0b01, 0b10, 0b11].map(Ecn::of);
            let mut random = Random::new(1);
            let now = Instant(0);
            let above = fields.map(|field| wred.at_enqueue((10, 1), Green, field, &mut random, now));
            assert_eq!(above, expected, "ECN {ecn}, no-drop {no_drop}, asked {drop_not_ect}");
            let below = fields.map(|field| wred.at_enqueue((9, 1), Green, field, &mut random, now));
            assert_eq!(below, [Pass; 4]);
        }
    }

    #[test]
    fn below_the_low_limit_no_random_number_is_drawn() {
        let mut wred = Wred::new(WredSettings { exponent: 0, ..WredSettings::default() }, false, 800);
        let mut random = Random::new(7);
        for cells in 0..=100 {
            let verdict = wred.at_enqueue((0, cells), Green, Ecn::NotEct, &mut random, Instant(0));
            assert_eq!(verdict, WredAction::Pass);
        }
        assert_eq!(random.draw(), Random::new(7).draw());
    }

    /// At a quarter of the way from low to high a quarter of the probability; at high all of it.
    #[test]
    fn the_share_of_picked_frames_rises_between_the_limits() {
        let curve = WredProfile { low_cells: 100, high_cells: 300, probability_percent: 60 };
        let settings = WredSettings { exponent: 0, curves: [curve; 3], ..WredSettings::default() };
        for (cells, expected) in
            [(100, 0..=0), (150, 1_400..=1_600), (300, 5_800..=6_200), (301, 10_000..=10_000)]
        {
            let mut wred = Wred::new(settings, false, 800);
            wred.update(cells);
            let mut random = Random::new(1);
            let picked = (0..10_000).filter(|_| wred.picks(Green, &mut random)).count();
            assert!(expected.contains(&picked), "{cells} cells: {picked}");
        }
    }

    /// Each drop level has its own curve.
    #[test]
    fn colors() {
        let curve = |low_cells| WredProfile { low_cells, high_cells: low_cells, probability_percent: 100 };
        let curves = [curve(30), curve(20), curve(10)];
        let settings = WredSettings { exponent: 0, curves, ..WredSettings::default() };
        let mut wred = Wred::new(settings, false, 800);
        for (cells, expected) in
            [(10, [false; 3]), (11, [false, false, true]), (21, [false, true, true]), (31, [true; 3])]
        {
            wred.update(cells);
            let picked = [Green, Yellow, Red].map(|level| wred.picks(level, &mut Random::new(1)));
            assert_eq!(picked, expected, "{cells} cells");
        }
    }

    /// The average rises from 0 toward 1000, by half of the difference for exponent 1, and so on.
    /// It reaches the length and stays there.
    #[test]
    #[cfg_attr(miri, ignore = "statistics of hundreds of thousands of steps")]
    fn the_average_follows_by_its_exponent() {
        for (exponent, after) in
            [(0, [1000, 1000, 1000]), (1, [500, 750, 875]), (3, [125, 234, 330]), (9, [1, 3, 5])]
        {
            let mut wred = Wred::new(WredSettings { exponent, ..WredSettings::default() }, false, 800);
            let seen = [0; 3].map(|_: u32| {
                wred.update(1000);
                wred.average_cells(1, Instant(0))
            });
            assert_eq!(seen, after, "exponent {exponent}");
        }
        for exponent in 0..=15 {
            let mut wred = Wred::new(WredSettings { exponent, ..WredSettings::default() }, false, 800);
            (0..2_000_000).for_each(|_| wred.update(1000));
            assert!((999..=1000).contains(&wred.average_cells(1, Instant(0))), "exponent {exponent}");
            (0..2_000_000).for_each(|_| wred.update(0));
            assert_eq!(wred.average_cells(1, Instant(0)), 0, "exponent {exponent}");
        }
    }

    /// Row 204: RED's idle rule, against its formula. Queries, and frames that are dropped at once,
    /// do not affect it.
    #[test]
    fn the_average_falls_while_the_queue_is_idle() {
        for exponent in 0..=15 {
            for idle_frames in [0, 1, 2, 7, 1000, 12_345, 1_250_000] {
                let mut wred = Wred::new(WredSettings { exponent, ..WredSettings::default() }, false, 800);
                wred.average = 20_000 << FRACTION_BITS;
                wred.at_dequeue((0, 6), Green, &mut Random::new(1), Instant(5_000));
                let now = Instant(5_000 + 800 * idle_frames + 799);
                let expected = 20_000.0 * (1.0 - 0.5_f64.powi(exponent.into())).powf(idle_frames as f64);
                let found = wred.average_cells(0, now);
                assert!((f64::from(found) - expected).abs() <= 1.0, "{exponent}, {idle_frames}: {found}");
                assert_eq!(
                    wred.average_cells(1, now),
                    20_000,
                    "a frame that waits, for a pause to end, is not idle"
                );
                for at in 0..=now.0 / 100_000 {
                    wred.catch_up(Instant(5_000 + 100_000 * at).min(now));
                }
                wred.catch_up(now);
                assert!(
                    wred.average_cells(0, now).abs_diff(found) <= 1,
                    "in steps: {exponent}, {idle_frames}"
                );
            }
        }
    }
}
