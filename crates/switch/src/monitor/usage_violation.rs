//! Usage-threshold violations: how often a queue or group used more of its buffer than the
//! threshold.
//!
//! Rule: when use rises above `percent` of the limit (reserved or guaranteed cells plus the present
//! shared threshold), one violation is counted. The next one is counted only after use has fallen
//! to the threshold again. Headroom is part of neither. The limit of a queue without maximum is its
//! pool. The check runs when the cells of the queue or group itself change: use can rise only with
//! an arrival. Source: docs/behavior.md, "Usage violations"; docs/references.md, "H3C reference"
//! (Setting the per-interface buffer usage threshold; the fields Total, Threshold(%) and Violations
//! of display buffer usage interface).

use serde::{Deserialize, Serialize};

/// Violations of one queue or group.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct UsageViolations {
    percent: u8,
    above: bool,
    violations: u32,
}

impl UsageViolations {
    /// Makes a counter without violations; `percent` is from 1 to 100.
    pub fn new(percent: u8) -> Self {
        Self { percent, above: false, violations: 0 }
    }

    /// Sets another threshold, from the next change of use on.
    pub fn set_percent(&mut self, percent: u8) {
        self.percent = percent;
    }

    /// True if use is above the threshold, so that its fall must be recorded, too.
    #[inline]
    pub fn is_above(&self) -> bool {
        self.above
    }

    /// Returns up to which use, of `own` reserved or guaranteed cells, nothing has to be recorded,
    /// whatever the threshold: the limit is never below `own`. 0 while use is above the threshold.
    pub fn alarm_floor(&self, own: u32) -> u32 {
        if self.above { 0 } else { (u64::from(own) * u64::from(self.percent) / 100) as u32 }
    }

    #[inline]
    fn is_violation(&self, used: u32, allowed: u32) -> bool {
        u64::from(used) * 100 > u64::from(allowed) * u64::from(self.percent)
    }

    /// True if `used` of `allowed` cells are on the other side of the threshold from the use that
    /// was recorded last.
    #[inline]
    pub fn crosses(&self, used: u32, allowed: u32) -> bool {
        self.is_violation(used, allowed) != self.above
    }

    /// Records that `used` of `allowed` cells are in use now.
    pub fn update(&mut self, used: u32, allowed: u32) {
        let above = self.is_violation(used, allowed);
        self.violations += u32::from(above && !self.above);
        self.above = above;
    }

    /// Returns the threshold in percent of the limit.
    pub fn percent(&self) -> u8 {
        self.percent
    }

    /// Returns the violations so far.
    pub fn violations(&self) -> u64 {
        u64::from(self.violations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Used cells of 200 allowed at 70 %, and the violations after each step.
    #[test]
    fn counts_each_rise_above_the_threshold_once() {
        let mut usage = UsageViolations::new(70);
        for (used, violations) in [(0, 0), (140, 0), (141, 1), (200, 1), (141, 1), (140, 1), (141, 2), (0, 2)]
        {
            usage.update(used, 200);
            assert_eq!((usage.violations(), usage.is_above()), (violations, used > 140), "{used} cells");
        }
        usage.set_percent(50);
        assert_eq!((usage.percent(), usage.alarm_floor(10)), (50, 5));
        usage.set_percent(70);
        // A threshold that shrinks makes the same use a violation; none is possible without limit.
        usage.update(50, 60);
        assert_eq!(usage.violations(), 3);
        assert_eq!(UsageViolations::new(70).alarm_floor(17), 11, "70 % of 17, rounded down");
        let mut above = UsageViolations::new(70);
        above.update(8, 10);
        assert_eq!(above.alarm_floor(17), 0);
        let mut all = UsageViolations::new(100);
        all.update(u32::MAX, u32::MAX);
        assert_eq!(all.violations(), 0);
    }
}
