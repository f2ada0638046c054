//! Alarms: events about buffer use that rose above a threshold, and about dropped frames.
//!
//! Rule: all alarms are off by default; each kind is enabled separately, with its interval. A
//! source is a priority at ingress, its headroom, a queue at egress, or a pool. A *crossing* is
//! counted when the use of a source reaches the alarm's percentage of its limit: at 100 %, when it
//! is full. An alarm reports one source, at most once per interval: that the threshold was crossed,
//! how often since the last alarm, and the peak. That use is below the threshold again is reported
//! when the interval is over. So a flood of crossings is one alarm with a count.
//!
//! ```text
//!            crossed: reported at once
//!   quiet ─────────────────────────▶ raised ──┐ the interval is over, crossed again:
//!     ◀─────────────────────────────  ▲───────┘ reported with the number
//!      the interval is over, use is down: reported
//! ```
//! Dropped frames are reported in the same way, by port and queue (dropped at egress) or priority
//! (at ingress), but nothing clears. Each crossing is recorded where cells are charged; reports are
//! polled every [`ALARM_INTERVAL_NS`]. Source: docs/behavior.md, "Alarms"; docs/references.md, "H3C
//! reference" (Configuring alarm thresholds, Configuring packet-drop alarms).

use crate::monitor::counters::FrameCount;
use crate::monitor::event::AlarmReport;
use crate::monitor::throttle::Throttle;
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

/// Minimum interval between polls of all alarms.
pub const ALARM_INTERVAL_NS: Nanos = 10_000_000;

/// Usage alarm of one source.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct UsageAlarm {
    /// Threshold in percent of the limit; 0 if disabled.
    percent: u8,
    above: bool,
    raised: bool,
    /// Crossings since the last alarm.
    crossings: u32,
    /// Crossings since the start.
    all_crossings: u64,
    /// Peak in cells since the last alarm, and the limit at that time.
    peak: (u32, u32),
    throttle: Throttle,
}

impl UsageAlarm {
    /// Makes an alarm at `percent` of the limit; 0 disables it.
    pub fn new(percent: u8) -> Self {
        Self { percent, ..Self::default() }
    }

    /// Sets another threshold, from the next change of use on.
    pub fn set_percent(&mut self, percent: u8) {
        self.percent = percent;
        if percent == 0 {
            *self = Self { all_crossings: self.all_crossings, ..Self::default() };
        }
    }

    /// Returns up to which use, of `allowed` cells, nothing has to be recorded. 0 while use is
    /// above the threshold, as its fall must be recorded.
    #[inline]
    pub fn alarm_floor(&self, allowed: u32) -> u32 {
        match self.percent {
            0 => u32::MAX,
            _ if self.above => 0,
            percent => ((u64::from(allowed) * u64::from(percent)).saturating_sub(1) / 100) as u32,
        }
    }

    /// True if the alarm watches use.
    #[inline]
    pub fn is_armed(&self) -> bool {
        self.percent != 0
    }

    /// True if use has reached the threshold, so that its fall must be recorded, too.
    #[inline]
    pub fn is_above(&self) -> bool {
        self.above
    }

    /// Records that `used` of `allowed` cells are in use now.
    pub fn update(&mut self, used: u32, allowed: u32) {
        if self.percent == 0 {
            return;
        }
        let above = used > 0 && u64::from(used) * 100 >= u64::from(allowed) * u64::from(self.percent);
        let crossed = u32::from(above && !self.above);
        self.above = above;
        self.crossings += crossed;
        self.all_crossings += u64::from(crossed);
        if above && used > self.peak.0 {
            self.peak = (used, allowed);
        }
    }

    /// Returns the crossings since the start.
    pub fn crossings(&self) -> u64 {
        self.all_crossings
    }

    /// Returns what must be reported at `now`, if anything.
    pub fn poll(&mut self, now: Instant, interval_ns: Nanos) -> Option<AlarmReport> {
        let is_news = self.crossings > 0 || (self.raised && !self.above);
        if !is_news || !self.throttle.pass(interval_ns, now) {
            return None;
        }
        let report = AlarmReport {
            raised: self.crossings > 0,
            peak: self.peak,
            crossings: self.crossings,
            percent: self.percent,
        };
        (self.raised, self.crossings, self.peak) = (report.raised, 0, (0, 0));
        Some(report)
    }

    /// Discards crossings until now, as the alarm was off.
    pub fn reset(&mut self) {
        (self.raised, self.crossings, self.peak) = (false, 0, (0, 0));
    }
}

/// Drop alarm of one queue, or of one priority at ingress.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct DropAlarm {
    /// Drops that alarms have reported.
    reported: FrameCount,
    throttle: Throttle,
}

impl DropAlarm {
    /// Returns which of `dropped` frames must be reported at `now`, if any.
    pub fn poll(&mut self, dropped: FrameCount, now: Instant, interval_ns: Nanos) -> Option<FrameCount> {
        if dropped.frames == self.reported.frames || !self.throttle.pass(interval_ns, now) {
            return None;
        }
        let reported = std::mem::replace(&mut self.reported, dropped);
        Some(FrameCount { frames: dropped.frames - reported.frames, bytes: dropped.bytes - reported.bytes })
    }

    /// Discards drops until now, as the alarm was off.
    pub fn reset(&mut self, dropped: FrameCount) {
        self.reported = dropped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL_NS: Nanos = 5_000_000_000;

    /// Each state and its reaction: use of 10 cells at 70 %, a time in seconds, and the report.
    #[test]
    fn the_transition_table() {
        let mut watch = UsageAlarm::new(70);
        let raised =
            |most, crossings| Some(AlarmReport { raised: true, peak: (most, 10), crossings, percent: 70 });
        let cleared = Some(AlarmReport { raised: false, peak: (0, 0), crossings: 0, percent: 70 });
        for (step, (at_s, uses, expected)) in [
            (0, &[0, 6][..], None),          // quiet: below
            (1, &[7], raised(7, 1)),         // crossed: at once
            (2, &[8], None),                 // raised: nothing new
            (3, &[6, 9, 6, 10, 6, 7], None), // crossed again, thrice: the interval is not over
            (6, &[], raised(10, 3)),         // … now it is: one alarm with a count
            (7, &[6], None),                 // down, too early
            (11, &[], cleared),              // … reported when the interval is over
            (12, &[], None),                 // quiet: nothing more
            (13, &[7, 6], None),             // crossed and down again within the interval …
            (16, &[], raised(7, 1)),         // … is reported anyway
            (30, &[], cleared),              // and cleared after
            (60, &[7, 0], raised(7, 1)),
        ]
        .into_iter()
        .enumerate()
        {
            uses.iter().for_each(|&used| watch.update(used, 10));
            assert_eq!(watch.poll(Instant(at_s * 1_000_000_000), INTERVAL_NS), expected, "step {step}");
        }
        assert_eq!(watch.crossings(), 6, "since the start");
        for (used, allowed) in [(8, 10), (8, 11), (7, 9)] {
            watch.update(used, allowed);
        }
        let report = watch.poll(Instant(90_000_000_000), INTERVAL_NS);
        assert_eq!(report.map(|report| report.peak), Some((8, 10)), "the limit when the peak was reached");
        watch.set_percent(0);
        watch.update(10, 10);
        assert_eq!((watch.poll(Instant::NEVER, 0), watch.alarm_floor(10)), (None, u32::MAX), "off");
    }

    #[test]
    fn the_alarm_floor_is_just_below_the_threshold() {
        for (percent, allowed, unnoted) in [
            (70, 10, 6),
            (100, 17, 16),
            (1, 17, 0),
            (90, 208, 187),
            (100, 0, 0),
            (50, u32::MAX, 2_147_483_647),
        ] {
            let mut watch = UsageAlarm::new(percent);
            assert_eq!(watch.alarm_floor(allowed), unnoted, "{percent} % of {allowed}");
            watch.update(unnoted, allowed);
            assert!(!watch.is_above(), "{percent} % of {allowed}");
            watch.update(unnoted + 1, allowed);
            assert!(watch.is_above(), "{percent} % of {allowed}");
            assert_eq!(watch.alarm_floor(allowed), 0, "while it is above all is noted");
        }
    }

    #[test]
    fn drops_are_reported_once_an_interval_with_their_number() {
        let mut watch = DropAlarm::default();
        let count = |frames| FrameCount { frames, bytes: frames * 64 };
        watch.reset(count(3));
        let mut add_line =
            |at_s: u64, frames| watch.poll(count(frames), Instant(at_s * 1_000_000_000), INTERVAL_NS);
        let reported = [(1, 3), (2, 4), (3, 9), (6, 9), (7, 10), (12, 10), (13, 11), (30, 11)];
        let reported = reported.map(|(at_s, frames)| add_line(at_s, frames));
        let expected = [None, Some(1), None, None, Some(6), None, Some(1), None];
        assert_eq!(reported, expected.map(|frames| frames.map(count)));
    }
}
