//! WRED and ECN: a queue that grows drops a few frames early, or marks them instead, so that senders slow down before the
//! queue, or PFC, has to stop them.
//!
//! Rule: with the queue's average length A, in cells, the limits low and high and the probability p of the frame's drop
//! level,
//! - A ≤ low: nothing happens, and no random number is drawn;
//! - low < A ≤ high: the frame is picked with probability p · (A − low) / (high − low);
//! - A > high: the frame is picked.
//!
//! What happens to a picked frame: with ECN on, ECT(0) and ECT(1) become CE, CE passes as it is, and Not-ECT drops; with
//! ECN off every picked frame drops. On a no-drop queue a Not-ECT frame drops only if that was asked for, and with ECN off
//! nothing does.
//!
//! A is updated with every arrival: A ← A + (length − A) / 2^exponent, where the length counts the frame itself; exponent
//! 0 is the length of the instant. Where marks are set at dequeue, A is updated with every departure instead, with the
//! length before it, and only ECT frames are picked there; the others are picked at enqueue.
//!
//! Source: docs/law.md, "WRED and ECN"; docs/sources.md, "H3C reference" (ECN: limits 100 and 1000, probability 10 %,
//! exponent 9, the rules for ECN fields 00, 01, 10, 11) and "Inspur white paper" (3.1.4, 5.2: profiles, colours); S.
//! Floyd and V. Jacobson, "Random early detection" (1993); RFC 3168 section 5.

use crate::settings::{Curve, DropLevel, MarkAt, WredSettings};
use wire::ip::Ecn;

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on as it is.
    Pass,
    /// It goes on marked as having met congestion (CE).
    Mark,
    /// It drops.
    Drop,
}

/// Bits of the average behind the binary point.
const FRACTION_BITS: u32 = 32;

/// WRED of one queue.
#[derive(Debug)]
pub struct Wred {
    settings: WredSettings,
    /// The queue's frames must not be lost.
    no_drop: bool,
    /// The average length in cells, in units of 2^-32.
    average: u64,
}

impl Wred {
    /// An empty queue's. `no_drop`: the queue carries no-drop priorities.
    pub fn new(settings: WredSettings, no_drop: bool) -> Self {
        Self { settings, no_drop, average: 0 }
    }

    /// Other settings; the average goes on.
    pub(crate) fn reconfigured(self, settings: WredSettings, no_drop: bool) -> Self {
        Self { settings, no_drop, average: self.average }
    }

    /// Marks are set when frames leave.
    pub fn marks_at_dequeue(&self) -> bool {
        self.settings.mark_at == MarkAt::Dequeue
    }

    /// The average length in cells, rounded down.
    pub fn average_cells(&self) -> u32 {
        (self.average >> FRACTION_BITS) as u32
    }

    /// A frame arrives, with which the queue holds `cells`.
    #[inline(never)] // most queues have no WRED, and need the registers
    pub fn at_enqueue(
        &mut self,
        cells: u32,
        drop_level: DropLevel,
        ecn: Ecn,
        random: &mut Random,
    ) -> Verdict {
        if self.settings.mark_at == MarkAt::Enqueue {
            self.update(cells);
        }
        if !self.picks(drop_level, random) {
            return Verdict::Pass;
        }
        match (self.settings.ecn, ecn) {
            (true, Ecn::Ce) => Verdict::Pass,
            (true, ecn) if ecn.is_markable() => match self.settings.mark_at {
                MarkAt::Enqueue => Verdict::Mark,
                MarkAt::Dequeue => Verdict::Pass, // its turn comes
            },
            (true, _) if self.no_drop && !self.settings.drop_not_ect => Verdict::Pass,
            (false, _) if self.no_drop => Verdict::Pass,
            (_, _) => Verdict::Drop,
        }
    }

    /// A frame leaves, with which the queue held `cells`. True: it is to be marked, if it is ECT.
    #[inline(never)]
    pub fn at_dequeue(&mut self, cells: u32, drop_level: DropLevel, random: &mut Random) -> bool {
        if self.settings.mark_at == MarkAt::Enqueue || !self.settings.ecn {
            return false;
        }
        self.update(cells);
        self.picks(drop_level, random)
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

    /// Whether a frame is picked at the average as it stands.
    #[inline]
    fn picks(&self, drop_level: DropLevel, random: &mut Random) -> bool {
        let Curve { low_cells, high_cells, probability_percent } = self.settings.curves[drop_level as usize];
        let (low, high) = (u64::from(low_cells) << FRACTION_BITS, u64::from(high_cells) << FRACTION_BITS);
        if self.average <= low {
            return false;
        }
        if self.average > high {
            return true;
        }
        // p · (A − low) / (high − low) as a share of 2^32; high > low here.
        let share = (u128::from(self.average - low) << 32) / u128::from(high - low);
        u128::from(random.draw()) * 100 < share * u128::from(probability_percent)
    }
}

/// Random numbers, the same from the same seed (SplitMix64's output function over a counter).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to 2^32 − 1.
    pub fn draw(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 32) as u32
    }

    /// A number from 0, which is excluded, to 1.
    pub fn fraction(&mut self) -> f64 {
        (f64::from(self.draw()) + 1.0) / (1u64 << 32) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DropLevel::{Green, Red, Yellow};

    /// Low = high = 10 without averaging: every frame above is picked, none below.
    fn sharp() -> WredSettings {
        let curve = Curve { low_cells: 10, high_cells: 10, probability_percent: 100 };
        WredSettings { exponent: 0, ecn: true, curves: [curve; 3], ..WredSettings::default() }
    }

    /// (ECN on, no-drop queue, Not-ECT asked to drop), then the verdict on a picked 00, 01, 10 and 11.
    #[test]
    fn what_becomes_of_a_picked_frame() {
        use Verdict::{Drop, Mark, Pass};
        for (ecn, no_drop, drop_not_ect, expected) in [
            (true, false, false, [Drop, Mark, Mark, Pass]),
            (true, true, false, [Pass, Mark, Mark, Pass]),
            (true, true, true, [Drop, Mark, Mark, Pass]),
            (false, false, false, [Drop; 4]),
            (false, true, false, [Pass; 4]),
        ] {
            let mut wred = Wred::new(WredSettings { ecn, drop_not_ect, ..sharp() }, no_drop);
            let fields = [0b00, 0b01, 0b10, 0b11].map(Ecn::of);
            let mut random = Random::new(1);
            let above = fields.map(|field| wred.at_enqueue(11, Green, field, &mut random));
            assert_eq!(above, expected, "ECN {ecn}, no-drop {no_drop}, asked {drop_not_ect}");
            let below = fields.map(|field| wred.at_enqueue(10, Green, field, &mut random));
            assert_eq!(below, [Pass; 4]);
        }
    }

    #[test]
    fn below_the_low_limit_no_random_number_is_drawn() {
        let mut wred = Wred::new(WredSettings { exponent: 0, ..WredSettings::default() }, false);
        let mut random = Random::new(7);
        for cells in 0..=100 {
            let verdict = wred.at_enqueue(cells, Green, Ecn::NotEct, &mut random);
            assert_eq!(verdict, Verdict::Pass);
        }
        assert_eq!(random.draw(), Random::new(7).draw());
    }

    /// Each drop level by its own line.
    #[test]
    fn colours() {
        let curve = |low_cells| Curve { low_cells, high_cells: low_cells, probability_percent: 100 };
        let curves = [curve(30), curve(20), curve(10)];
        let mut wred = Wred::new(WredSettings { exponent: 0, curves, ..WredSettings::default() }, false);
        for (cells, expected) in
            [(10, [false; 3]), (11, [false, false, true]), (21, [false, true, true]), (31, [true; 3])]
        {
            wred.update(cells);
            let picked = [Green, Yellow, Red].map(|level| wred.picks(level, &mut Random::new(1)));
            assert_eq!(picked, expected, "{cells} cells");
        }
    }

    /// From 0 towards 1000 by halves of the way for exponent 1, and so on; it reaches the length and stays there.
    #[test]
    fn the_average_follows_by_its_exponent() {
        for (exponent, after) in
            [(0, [1000, 1000, 1000]), (1, [500, 750, 875]), (3, [125, 234, 330]), (9, [1, 3, 5])]
        {
            let mut wred = Wred::new(WredSettings { exponent, ..WredSettings::default() }, false);
            let seen = [0; 3].map(|_: u32| {
                wred.update(1000);
                wred.average_cells()
            });
            assert_eq!(seen, after, "exponent {exponent}");
        }
        for exponent in 0..=15 {
            let mut wred = Wred::new(WredSettings { exponent, ..WredSettings::default() }, false);
            (0..2_000_000).for_each(|_| wred.update(1000));
            assert!((999..=1000).contains(&wred.average_cells()), "exponent {exponent}");
            (0..2_000_000).for_each(|_| wred.update(0));
            assert_eq!(wred.average_cells(), 0, "exponent {exponent}");
        }
    }
}
