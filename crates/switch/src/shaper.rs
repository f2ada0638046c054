//! The rate of a port, a scheduler group or a queue: a token bucket, kept as the time at which its line is free again.
//!
//! Rule: a frame of L bytes occupies the line for 8·(L + overhead) / rate; the next may start once the line is free. A
//! line that was idle, or whose owner came late, may catch up by at most its burst, so that the long-run rate is exact
//! although a software loop does not come to the nanosecond. On an emulated wire the overhead is what Ethernet adds to a
//! frame (preamble, FCS and gap: 24 bytes), so that 10G is 14.88 million frames of 64 bytes (60 without FCS) a second.
//! Source: docs/law.md, "Shapers"; the virtual-time form of the token bucket (GCRA, ITU-T I.371 annex A).

use crate::settings::Rate;
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

/// How far a line that has fallen behind may catch up. A loop of a busy two-core machine stalls for a few milliseconds
/// at a time; without credit for them the port would not reach its rate.
pub const BURST_NS: Nanos = 4_000_000;

/// One rate.
#[derive(Debug, Serialize, Deserialize)]
pub struct Shaper {
    /// Line time of a byte in units of 2^-32 ns; 0: no limit.
    byte_time: u64,
    free_at: Instant,
    /// Fraction of a nanosecond beyond `free_at`, in units of 2^-32 ns.
    fraction: u64,
    burst_ns: Nanos,
    overhead_bytes: u16,
}

impl Shaper {
    /// A line of this rate, on which each frame takes `overhead_bytes` beyond its own; `None`: as fast as frames are
    /// taken.
    pub fn new(rate: Option<Rate>, overhead_bytes: u16) -> Self {
        let mut shaper = Self {
            byte_time: 0,
            free_at: Instant::default(),
            fraction: 0,
            burst_ns: BURST_NS,
            overhead_bytes,
        };
        shaper.set_rate(rate, overhead_bytes);
        shaper
    }

    /// Another rate, from the next frame on.
    pub fn set_rate(&mut self, rate: Option<Rate>, overhead_bytes: u16) {
        let byte_time = |bps: u64| {
            let units = (8_000_000_000_u128 << 32) / u128::from(bps.max(1));
            units.min(u64::MAX.into()) as u64
        };
        self.byte_time = rate.map_or(0, |rate| byte_time(rate.bps));
        self.burst_ns = match rate.and_then(|rate| rate.burst_bytes) {
            Some(bytes) => ((u128::from(bytes) * u128::from(self.byte_time)) >> 32) as Nanos,
            None => BURST_NS,
        };
        self.overhead_bytes = overhead_bytes;
    }

    /// There is a limit.
    #[inline]
    pub fn has_rate(&self) -> bool {
        self.byte_time != 0
    }

    /// What each frame takes of the line beyond its own bytes.
    pub fn overhead_bytes(&self) -> u16 {
        self.overhead_bytes
    }

    /// A frame may start now.
    #[inline]
    pub fn is_free(&self, now: Instant) -> bool {
        self.free_at <= now
    }

    /// When the line is free.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// A frame of `len` bytes starts now.
    #[inline]
    pub fn take(&mut self, len: u16, now: Instant) {
        if self.byte_time != 0 {
            self.occupy(len, now);
        }
    }

    #[inline(never)] // most lines have no rate, and need the registers
    fn occupy(&mut self, len: u16, now: Instant) {
        let earliest = now - self.burst_ns;
        if self.free_at < earliest {
            (self.free_at, self.fraction) = (earliest, 0);
        }
        let bytes = u64::from(len) + u64::from(self.overhead_bytes);
        let total = u128::from(self.byte_time) * u128::from(bytes) + u128::from(self.fraction);
        self.free_at = self.free_at + (total >> 32) as u64;
        self.fraction = total as u64 & 0xffff_ffff;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends whenever it may for a second, looking every `turn_ns`; returns the bytes.
    fn a_second(rate_bps: u64, len: u16, turn_ns: u64) -> u64 {
        let mut shaper = Shaper::new(Some(Rate { bps: rate_bps, burst_bytes: None }), 0);
        let (mut bytes, mut now) = (0, 1_000_000_000);
        shaper.take(0, Instant(now));
        shaper.free_at = Instant(now); // begin without credit
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
        let mut shaper = Shaper::new(Some(rate), 0);
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
    fn without_a_rate_it_is_always_free() {
        let mut shaper = Shaper::new(None, 24);
        shaper.take(9216, Instant(5));
        assert!(shaper.is_free(Instant(5)));
    }

    /// 10G Ethernet carries 14,880,952 frames of the smallest size a second.
    #[test]
    fn an_emulated_wire_carries_what_ethernet_carries() {
        let rate = Rate { bps: 10_000_000_000, burst_bytes: Some(0) };
        let mut shaper = Shaper::new(Some(rate), crate::settings::WIRE_OVERHEAD_BYTES);
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
