//! The host's own egress speed: a token bucket in bits, exact to the nanosecond.
//!
//! Rule: frames may leave while credit is not negative; a frame uses its bytes (without FCS, as in
//! flow rates). Credit grows at the speed, up to `BURST_NS`, so that a host which wakes late keeps
//! its speed, and one that was idle does not exceed it for long.

use switch::{Instant, Nanos};

/// The most idle time that earns credit.
const BURST_NS: Nanos = 1_000_000;

/// The token bucket of a host.
#[derive(Debug, Clone)]
pub struct Shaper {
    speed_bps: u64,
    /// In bits / 10⁹: a nanosecond earns `speed_bps` of them. Below 2⁶³ up to 9 Tbit/s.
    credit: i64,
    filled_at: Instant,
}

impl Shaper {
    /// Creates a bucket for `speed_bps` (1 bit/s to 1 Tbit/s) that is empty at `now`.
    pub fn new(speed_bps: u64, now: Instant) -> Self {
        Self { speed_bps, credit: 0, filled_at: now }
    }

    /// Advances the time to `now`.
    #[inline]
    pub fn fill(&mut self, now: Instant) {
        let full = (BURST_NS * self.speed_bps) as i64;
        let passed = i128::from(now.since(self.filled_at)) * i128::from(self.speed_bps);
        self.credit = (i128::from(self.credit) + passed).min(i128::from(full)) as i64;
        self.filled_at = self.filled_at.max(now);
    }

    /// True if a frame may leave. State as of the last `fill`.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.credit >= 0
    }

    /// Takes a frame of `len` bytes off the credit.
    #[inline]
    pub fn take(&mut self, len: u16) {
        self.credit -= i64::from(len) * 8 * 1_000_000_000;
    }

    /// Returns when a frame may leave, if none does until then.
    pub fn opens_at(&self) -> Instant {
        let debt = self.credit.min(0).unsigned_abs();
        self.filled_at + debt.div_ceil(self.speed_bps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    /// Sends whenever permitted for `seconds` in iterations of `turn_ns`. Returns the sent bytes.
    fn send(speed_bps: u64, len: u16, seconds: u64, turn_ns: Nanos) -> u64 {
        let mut shaper = Shaper::new(speed_bps, Instant(0));
        let (mut now, mut bytes) = (Instant(0), 0);
        while now < Instant(seconds * SECOND) {
            shaper.fill(now);
            while shaper.is_open() {
                shaper.take(len);
                bytes += u64::from(len);
            }
            now = now + turn_ns;
        }
        bytes
    }

    /// The speed has no error beyond one frame and one iteration, as long as iterations are shorter
    /// than the burst.
    #[test]
    fn the_speed_is_exact_over_time() {
        for (speed_bps, len, turn_ns) in [
            (1_000_000_000, 1514, 1_000),
            (1_000_000_000, 64, 200_000),
            (500_000_000, 1000, 999_983),
            (333_333_333, 777, 123_457),
            (1_000_000_000_000, 1514, 50_000),
        ] {
            let bytes = send(speed_bps, len, 2, turn_ns);
            let line = 2 * speed_bps / 8;
            let turn_bytes = (u128::from(turn_ns) * u128::from(speed_bps) / 8 / 1_000_000_000) as u64;
            assert!(bytes <= line + u64::from(len), "{bytes} of {line} at {speed_bps} bit/s");
            assert!(bytes + turn_bytes >= line, "{bytes} of {line} at {speed_bps} bit/s");
        }
    }

    #[test]
    fn idle_time_is_worth_a_millisecond_at_most() {
        let mut shaper = Shaper::new(SECOND, Instant(0));
        shaper.fill(Instant(60 * SECOND));
        let mut bytes = 0;
        while shaper.is_open() {
            shaper.take(1000);
            bytes += 1000;
        }
        assert_eq!(bytes, 126_000, "125 000 bytes a millisecond, and the frame that overdraws");
        // 1000 bytes overdrawn at 8 ns per byte.
        assert_eq!(shaper.opens_at(), Instant(60 * SECOND + 8_000));
        shaper.fill(Instant(60 * SECOND + 7_999));
        assert!(!shaper.is_open());
        shaper.fill(Instant(60 * SECOND + 8_000));
        assert!(shaper.is_open());
    }

    #[test]
    fn a_slow_bucket_never_overflows() {
        let mut shaper = Shaper::new(1, Instant(0));
        shaper.take(1514);
        assert_eq!(shaper.opens_at(), Instant(1514 * 8 * SECOND));
        shaper.fill(Instant::NEVER);
        assert!(shaper.is_open());
    }
}
