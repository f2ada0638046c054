//! Usage-threshold violations: how often a queue or group used more of its buffer than the
//! threshold.
//!
//! Rule: when use rises above `percent` of what is allowed (reserved or guaranteed cells and the
//! shared threshold as it stands), one violation is counted; the next one only after use has come
//! down to the threshold again. Headroom is no part of either. A queue without maximum is allowed
//! the pool that it is in. Judged when the cells of the queue or group itself change: a rise can
//! only come with an arrival. Source: docs/behavior.md, "Usage violations"; docs/references.md,
//! "H3C reference" (Setting the per-interface buffer usage threshold; the fields Total,
//! Threshold(%) and Violations of display buffer usage interface).

use serde::{Deserialize, Serialize};

/// The violations of one queue or group.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct UsageViolations {
    percent: u8,
    above: bool,
    violations: u32,
}

impl UsageViolations {
    /// No violation yet; `percent` from 1 to 100.
    pub fn new(percent: u8) -> Self {
        Self { percent, above: false, violations: 0 }
    }

    /// Another threshold, from the next change of use on.
    pub fn set_percent(&mut self, percent: u8) {
        self.percent = percent;
    }

    /// Use is above the threshold: it must be noted when it falls, too.
    pub fn is_above(&self) -> bool {
        self.above
    }

    /// Of `own` cells, reserved or guaranteed, as many as may be in use with nothing to note,
    /// whatever the threshold: what is allowed is never less than they are. None while use is
    /// above.
    pub fn alarm_floor(&self, own: u32) -> u32 {
        if self.above { 0 } else { (u64::from(own) * u64::from(self.percent) / 100) as u32 }
    }

    /// `used` of `allowed` cells are in use now.
    pub fn note(&mut self, used: u32, allowed: u32) {
        let above = u64::from(used) * 100 > u64::from(allowed) * u64::from(self.percent);
        self.violations += u32::from(above && !self.above);
        self.above = above;
    }

    /// Use above this many percent of what is allowed is a violation.
    pub fn percent(&self) -> u8 {
        self.percent
    }

    /// Violations so far.
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
            usage.note(used, 200);
            assert_eq!(usage.violations(), violations, "{used} cells");
        }
        // A threshold that shrinks makes the same use a violation; none is possible without limit.
        usage.note(50, 60);
        assert_eq!(usage.violations(), 3);
        assert_eq!(UsageViolations::new(70).alarm_floor(17), 11, "70 % of 17, rounded down");
        let mut above = UsageViolations::new(70);
        above.note(8, 10);
        assert_eq!(above.alarm_floor(17), 0);
        let mut all = UsageViolations::new(100);
        all.note(u32::MAX, u32::MAX);
        assert_eq!(all.violations(), 0);
    }
}
