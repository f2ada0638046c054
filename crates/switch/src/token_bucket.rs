//! Rate limiter of a port, a scheduler group or a queue: a token bucket, kept as the time at which
//! it is full again.
//!
//! Rule: a frame of L bytes occupies the link for 8·(L + overhead) / rate, and the next may start
//! once the link is free. A link that was idle, or whose owner was late, may catch up by at most
//! its burst. The long-run rate is therefore exact although a software loop is not punctual to the
//! nanosecond. The bucket is full at first, since a link that never sent was idle. On an emulated
//! wire the overhead is what Ethernet adds to a frame (preamble, FCS and gap: 24 bytes), so that
//! 10G is 14.88 million frames of 64 bytes (60 without FCS) a second. Source: docs/behavior.md,
//! "Shapers"; the virtual-time form of the token bucket (GCRA, ITU-T I.371 annex A).

use crate::settings::Rate;
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

/// Default burst: how far a link that has fallen behind may catch up. A loop of a busy two-core
/// machine stalls for a few milliseconds at a time; without credit for stalls the port would not
/// reach its rate.
pub const BURST_NS: Nanos = 4_000_000;

/// Token bucket of one rate.
#[derive(Debug, Serialize, Deserialize)]
pub struct TokenBucket {
    /// Wire time of a byte in units of 2^-32 ns; 0 if unlimited.
    byte_time: u64,
    /// Time at which the link is free, and its whole burst accumulated: no earlier than the last
    /// frame, whatever the initial clock.
    full_at: Instant,
    /// Fraction of a nanosecond beyond `full_at`, in units of 2^-32 ns.
    fraction: u64,
    burst_ns: Nanos,
    overhead_bytes: u16,
}

impl TokenBucket {
    /// Makes the bucket of a link of this rate, on which each frame takes `overhead_bytes` beyond
    /// its own; `None` for no limit.
    pub fn new(rate: Option<Rate>, overhead_bytes: u16) -> Self {
        let (byte_time, burst_ns) = byte_time_and_burst(rate);
        Self { byte_time, full_at: Instant::default(), fraction: 0, burst_ns, overhead_bytes }
    }

    /// Spends the credit of a bucket that was idle until now: the next frame leaves at the rate.
    pub fn drain(&mut self, now: Instant) {
        self.full_at = now + self.burst_ns;
    }

    /// Sets another rate, from the next frame on. The link is free when it would have been.
    pub fn set_rate(&mut self, rate: Option<Rate>, overhead_bytes: u16) {
        let (byte_time, burst_ns) = byte_time_and_burst(rate);
        self.full_at = (self.full_at + burst_ns) - self.burst_ns;
        (self.byte_time, self.burst_ns, self.overhead_bytes) = (byte_time, burst_ns, overhead_bytes);
    }

    /// True if there is a limit.
    #[inline]
    pub fn has_rate(&self) -> bool {
        self.byte_time != 0
    }

    /// Returns the bytes on the wire that each frame takes beyond its own.
    pub fn overhead_bytes(&self) -> u16 {
        self.overhead_bytes
    }

    /// True if a frame may start now.
    #[inline]
    pub fn is_free(&self, now: Instant) -> bool {
        self.full_at <= now + self.burst_ns
    }

    /// Returns when the link is free.
    pub fn free_at(&self) -> Instant {
        self.full_at - self.burst_ns
    }

    /// Charges a frame of `len` bytes that starts now.
    #[inline]
    pub fn take(&mut self, len: u16, now: Instant) {
        if self.byte_time != 0 {
            self.occupy(u64::from(len) + u64::from(self.overhead_bytes), now);
        }
    }

    #[inline(never)] // most ports have no rate limit, and need the registers
    fn occupy(&mut self, bytes: u64, now: Instant) {
        if self.full_at < now {
            (self.full_at, self.fraction) = (now, 0);
        }
        let total = u128::from(self.byte_time) * u128::from(bytes) + u128::from(self.fraction);
        self.full_at = self.full_at + (total >> 32) as u64;
        self.fraction = total as u64 & 0xffff_ffff;
    }
}

/// Returns the wire time of a byte in units of 2^-32 ns, and how far the link may catch up.
fn byte_time_and_burst(rate: Option<Rate>) -> (u64, Nanos) {
    let Some(Rate { bps, burst_bytes }) = rate else { return (0, BURST_NS) };
    let byte_time = ((8_000_000_000_u128 << 32) / u128::from(bps.max(1))).min(u64::MAX.into()) as u64;
    let burst_ns = |bytes: u64| ((u128::from(bytes) * u128::from(byte_time)) >> 32) as Nanos;
    (byte_time, burst_bytes.map_or(BURST_NS, burst_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends whenever possible for a second, polling every `turn_ns`; returns the bytes.
    fn a_second(rate_bps: u64, len: u16, turn_ns: u64) -> u64 {
        let mut shaper = TokenBucket::new(Some(Rate { bps: rate_bps, burst_bytes: None }), 0);
        let (mut bytes, mut now) = (0, 1_000_000_000);
        shaper.drain(Instant(now));
        while now < 2_000_000_000 {
            while shaper.is_free(Instant(now)) {
                shaper.take(len, Instant(now));
                bytes += u64::from(len);
            }
            now += turn_ns;
        }
        bytes
    }

    #[test]
    #[cfg_attr(miri, ignore = "statistics of hundreds of thousands of steps")]
    fn the_rate_is_kept_to_a_frame_whatever_the_turn() {
        for rate in [1_000_000, 500_000_000, 10_000_000_000, 400_000_000_000] {
            for len in [64, 1000, 9216] {
                for turn_ns in [1_000, 33_333, 3_000_000] {
                    let bytes = a_second(rate, len, turn_ns);
                    let slack = u64::from(len) + turn_ns * rate / 8_000_000_000;
                    let want = rate / 8;
                    assert!(
                        bytes.abs_diff(want) <= slack + 1,
                        "{rate} bit/s, {len} B, {turn_ns} ns: {bytes} of {want}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_idle_line_saves_up_no_more_than_the_burst() {
        let rate = Rate { bps: 8_000_000_000, burst_bytes: Some(1_000) }; // a byte a nanosecond
        let mut shaper = TokenBucket::new(Some(rate), 0);
        let now = Instant(1_000_000_000);
        let sent = std::iter::repeat_n((), 100).take_while(|()| {
            let free = shaper.is_free(now);
            if free {
                shaper.take(100, now);
            }
            free
        });
        assert_eq!(sent.count(), 11, "1000 ns of credit and the frame that starts now");
    }

    #[test]
    fn a_slow_bucket_never_overflows() {
        let mut shaper = TokenBucket::new(Some(Rate { bps: 2, burst_bytes: Some(0) }), 0);
        shaper.take(1514, Instant(0));
        assert_eq!(shaper.free_at(), Instant(1514 * 4_000_000_000));
        assert!(shaper.is_free(Instant::NEVER));
    }

    /// The bucket is full wherever the clock begins (in a simulation: at 0).
    #[test]
    fn a_bucket_is_full_at_first() {
        let rate = Rate { bps: 8_000_000_000, burst_bytes: Some(1_000) }; // a byte a nanosecond
        for begin in [0, 1, 999, 1_000_000_000] {
            let mut shaper = TokenBucket::new(Some(rate), 0);
            let sent = (0..100).take_while(|_| {
                let free = shaper.is_free(Instant(begin));
                if free {
                    shaper.take(100, Instant(begin));
                }
                free
            });
            assert_eq!(sent.count(), 11, "the burst and the frame that starts now, at {begin} ns");
            assert_eq!(shaper.free_at(), Instant(begin + 100));
        }
    }

    /// A byte takes a nanosecond, and the link may be 1000 ns behind.
    #[test]
    fn a_link_is_free_until_it_is_more_than_its_burst_behind() {
        let now = Instant(1_000_000);
        let mut bucket = TokenBucket::new(Some(Rate { bps: 8_000_000_000, burst_bytes: Some(1_000) }), 24);
        assert!(bucket.has_rate() && !TokenBucket::new(None, 24).has_rate());
        (0..10).for_each(|_| bucket.take(76, now)); // 1000 on the wire
        assert!(bucket.is_free(now));
        bucket.take(60, now);
        assert_eq!([0, 83, 84].map(|after_ns| bucket.is_free(now + after_ns)), [false, false, true]);
        assert_eq!(bucket.free_at(), now + 84);
        bucket.drain(now + 5_000);
        assert_eq!(bucket.free_at(), now + 5_000);
    }

    /// Fifty bytes take a nanosecond: the part of it that is taken counts.
    #[test]
    fn frames_shorter_than_a_nanosecond_add_up() {
        let now = Instant(1_000_000);
        let mut bucket = TokenBucket::new(Some(Rate { bps: 400_000_000_000, burst_bytes: Some(0) }), 0);
        let taken = (0..10).take_while(|_| {
            let is_free = bucket.is_free(now);
            bucket.take(10, now);
            is_free
        });
        assert_eq!(taken.count(), 6, "until 60 bytes have been taken");
        assert!(bucket.is_free(now + 1));
    }

    /// The link is free when the frame in transmission is over, whatever the burst of the new rate.
    #[test]
    fn another_rate_does_not_touch_what_is_on_the_line() {
        for burst_bytes in [Some(0), Some(100_000), None] {
            let mut shaper = TokenBucket::new(Some(Rate { bps: 8_000_000_000, burst_bytes: Some(0) }), 0);
            shaper.take(500, Instant(1_000_000_000));
            shaper.set_rate(Some(Rate { bps: 1_000_000, burst_bytes }), 0);
            assert_eq!(shaper.free_at(), Instant(1_000_000_500));
        }
    }

    #[test]
    fn without_a_rate_it_is_always_free() {
        let mut shaper = TokenBucket::new(None, 24);
        shaper.take(9216, Instant(5));
        assert!(shaper.is_free(Instant(5)));
    }

    /// 10G Ethernet carries 14,880,952 frames of the smallest size a second.
    #[test]
    #[cfg_attr(miri, ignore = "statistics of hundreds of thousands of steps")]
    fn an_emulated_wire_carries_what_ethernet_carries() {
        let rate = Rate { bps: 10_000_000_000, burst_bytes: Some(0) };
        let mut shaper = TokenBucket::new(Some(rate), crate::settings::WIRE_OVERHEAD_BYTES);
        let (mut frames, mut now) = (0_u64, Instant(1_000_000_000));
        let end = Instant(2_000_000_000);
        while now < end {
            shaper.take(60, now);
            frames += 1;
            now = shaper.free_at();
        }
        assert!(frames.abs_diff(14_880_952) <= 1_000, "{frames}"); // whole nanoseconds cost a fraction of 67.2
    }
}
