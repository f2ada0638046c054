//! Times at which the frames of a constant-rate flow become due.
//!
//! Rule: slot k comes at `start + ⌊k × interval⌋`. The interval of `size` bytes at the rate is an
//! exact fraction, so that the rate has no error over any duration. Each slot permits a frame.
//! Frames that are due and not taken wait, at most `max_backlog` of them. Beyond that, the oldest
//! slots expire unused, so that a flow does not catch up without bound after a long pause. A flow
//! with a fixed number of frames then lasts longer; any other flow sends fewer.

use switch::{Instant, Nanos};

/// The slots of one flow, and its position in them.
#[derive(Debug, Clone)]
pub struct Pacer {
    start: Instant,
    /// The interval is this divided by `rate_bps`, in nanoseconds.
    bit_ns: u64,
    rate_bps: u64,
    /// Slots before the end of the flow's duration.
    slots: u64,
    /// Number of frames after which the flow ends, if limited.
    count: Option<u64>,
    max_backlog: u64,
    /// Frames taken.
    taken: u64,
    /// The next slot; earlier ones are taken or expired.
    next: u64,
    next_due: Instant,
    /// Remainder of the division for `next_due`, in 1/`rate_bps` ns.
    next_rest: u64,
}

impl Pacer {
    /// Creates a flow of frames of `size_bytes` at `rate_bps` (not 0), the first at `start`. It has
    /// at most `count` frames, and none that is due at `stop` or later.
    pub fn new(
        size_bytes: u16,
        rate_bps: u64,
        start: Instant,
        stop: Instant,
        count: Option<u64>,
        max_backlog: u64,
    ) -> Self {
        let mut pace = Self {
            start,
            bit_ns: u64::from(size_bytes) * 8 * 1_000_000_000,
            rate_bps,
            slots: u64::MAX,
            count,
            max_backlog,
            taken: 0,
            next: 0,
            next_due: start,
            next_rest: 0,
        };
        pace.slots = match stop.since(start) {
            0 => 0,
            open => pace.slots_until(start + (open - 1)),
        };
        pace
    }

    /// The frames offered up to and including `now`.
    pub fn offered(&self, now: Instant) -> u64 {
        let slots = self.slots_until(now);
        match self.count {
            Some(count) => slots.saturating_sub(self.next - self.taken).min(count),
            None => slots,
        }
    }

    /// The slots up to and including `now`.
    fn slots_until(&self, now: Instant) -> u64 {
        if now < self.start {
            return 0;
        }
        // ⌊k × b / r⌋ ≤ t  ⇔  k < (t + 1) × r / b
        let passed = u128::from(now.since(self.start)) + 1;
        let slots = (passed * u128::from(self.rate_bps)).div_ceil(u128::from(self.bit_ns));
        u64::try_from(slots).unwrap_or(u64::MAX).min(self.slots)
    }

    /// Returns when the next frame is due (in the past, if it waits); `None` if none is left.
    #[inline]
    pub fn next_due(&self) -> Option<Instant> {
        let is_over = self.next >= self.slots || self.count.is_some_and(|count| self.taken >= count);
        (!is_over).then_some(self.next_due)
    }

    /// Takes the next frame.
    #[inline]
    pub fn take(&mut self) {
        debug_assert!(self.next_due().is_some());
        self.taken += 1;
        self.next += 1;
        let rest = self.next_rest + self.bit_ns % self.rate_bps;
        self.next_due = self.next_due + (self.bit_ns / self.rate_bps + rest / self.rate_bps);
        self.next_rest = rest % self.rate_bps;
    }

    /// Expires the oldest slots that wait beyond the bound.
    #[inline]
    pub fn limit_backlog(&mut self, now: Instant) {
        let span_ns = self.max_backlog.saturating_mul(self.interval_ns());
        // Usually fewer wait, and that needs no division.
        if self.next_due().is_none_or(|due| now.since(due) < span_ns) {
            return;
        }
        let waiting = self.slots_until(now).saturating_sub(self.next);
        if waiting > self.max_backlog {
            self.skip_to(self.next + (waiting - self.max_backlog));
        }
    }

    /// Nanoseconds between two frames, rounded down.
    pub fn interval_ns(&self) -> Nanos {
        self.bit_ns / self.rate_bps
    }

    fn skip_to(&mut self, slot: u64) {
        let offset = u128::from(slot) * u128::from(self.bit_ns);
        let rate = u128::from(self.rate_bps);
        self.next = slot;
        // Both fit: the slot is not later than now, and the remainder is below the rate.
        self.next_due = self.start + (offset / rate) as u64;
        self.next_rest = (offset % rate) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    /// Takes every frame that is due by `now`.
    fn drain(pace: &mut Pacer, now: Instant) -> u64 {
        let mut taken = 0;
        while pace.next_due().is_some_and(|due| due <= now) {
            pace.take();
            taken += 1;
        }
        taken
    }

    /// The frames are exactly rate × time, for any size, rate and iteration times.
    #[test]
    fn the_rate_is_exact() {
        for (size, rate, seconds, frames) in [
            (1000, 600_000_000, 10, 750_000),
            (64, 600_000_000, 1, 1_171_875),
            (1514, 1_000_000_000, 10, 825_628), // 825 627.47…
            (64, 1_000_000_000, 1, 1_953_125),
            (1000, 333_333_333, 3, 125_000), // 124 999.999…
            (1514, 10_000_000_000, 1, 825_628),
            (100, 7, 1000, 9), // 8.75
        ] {
            let stop = Instant(5 + seconds * SECOND);
            let mut pace = Pacer::new(size, rate, Instant(5), stop, None, u64::MAX);
            let (mut now, mut taken, mut turn) = (Instant(0), 0, 0);
            while now < stop {
                taken += drain(&mut pace, now);
                assert_eq!(taken, pace.offered(now), "{size} bytes at {rate} bit/s by {now:?}");
                turn += 1;
                now = now + (turn * 7_919) % 1_000_003;
            }
            taken += drain(&mut pace, stop + SECOND);
            assert_eq!((taken, pace.next_due()), (frames, None), "{size} bytes at {rate} bit/s");
            assert_eq!(pace.offered(Instant::NEVER), frames);
        }
    }

    /// Frame k is due exactly at the floor of k intervals: 1514 bytes at 1 Gbit/s are 12 112 ns; at
    /// 3 Gbit/s 4037.33….
    #[test]
    fn due_times_are_the_floor_of_exact_ones() {
        for (rate, due) in
            [(1_000_000_000, [0, 12_112, 24_224, 36_336]), (3_000_000_000, [0, 4_037, 8_074, 12_112])]
        {
            let mut pace = Pacer::new(1514, rate, Instant(0), Instant::NEVER, Some(4), 0);
            for due in due {
                assert_eq!(pace.next_due(), Some(Instant(due)), "at {rate} bit/s");
                assert_eq!(pace.offered(Instant(due)) - 1, pace.next, "at {rate} bit/s");
                pace.take();
            }
            assert_eq!(pace.next_due(), None);
        }
    }

    #[test]
    fn a_count_ends_the_flow() {
        let mut pace = Pacer::new(125, 1_000_000, Instant(0), Instant::NEVER, Some(3), 10);
        assert_eq!(drain(&mut pace, Instant(10 * SECOND)), 3);
        assert_eq!(pace.offered(Instant(10 * SECOND)), 3);
    }

    #[test]
    fn nothing_is_due_before_the_start_or_of_a_flow_that_starts_too_late() {
        let pace = Pacer::new(125, 1_000_000, Instant(100), Instant(SECOND), None, 10);
        assert_eq!((pace.offered(Instant(99)), pace.offered(Instant(100))), (0, 1));
        let late = Pacer::new(125, 1_000_000, Instant(100), Instant(100), None, 10);
        assert_eq!((late.offered(Instant(SECOND)), late.next_due()), (0, None));
    }

    /// 1 frame a millisecond, none taken for 1 s: 10 frames wait, the other slots have expired, and
    /// the phase is kept.
    #[test]
    fn the_backlog_is_bounded_and_the_rhythm_kept() {
        let mut pace = Pacer::new(125, 1_000_000, Instant(0), Instant(10 * SECOND), None, 10);
        let now = Instant(SECOND);
        pace.limit_backlog(now);
        assert_eq!(pace.next_due(), Some(Instant(991_000_000)));
        assert_eq!(drain(&mut pace, now), 10);
        assert_eq!(pace.next_due(), Some(Instant(1_001_000_000)));
        assert_eq!(pace.offered(now), 1001);
        pace.limit_backlog(now);
        assert_eq!(pace.next_due(), Some(Instant(1_001_000_000)), "nothing waits, nothing passes");
    }

    /// The same with a count: expired frames are sent later.
    #[test]
    fn a_flow_with_a_count_sends_it_anyway() {
        let mut pace = Pacer::new(125, 1_000_000, Instant(0), Instant(10 * SECOND), Some(1500), 10);
        let now = Instant(SECOND);
        pace.limit_backlog(now);
        assert_eq!((pace.offered(now), drain(&mut pace, now)), (10, 10));
        let now = Instant(2 * SECOND);
        assert_eq!((pace.offered(now), drain(&mut pace, now)), (1010, 1000));
        assert_eq!(drain(&mut pace, Instant(9 * SECOND)), 490);
        pace.limit_backlog(Instant(9 * SECOND));
        assert_eq!((pace.offered(Instant(3 * SECOND)), pace.next_due()), (1500, None));
    }
}
