//! Limit of recurring events: at once, then at most one in an interval while the cause lasts.
//!
//! Source: docs/monitoring/events.md.

use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

/// Interval of events about losses and other lasting conditions.
pub const EVENT_NS: Nanos = 1_000_000_000;

/// Earliest time of the next event of one kind at one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttle {
    next: Instant,
}

impl Throttle {
    /// True if an event may be reported now.
    #[inline]
    pub fn is_open(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Returns when the next event may be reported.
    #[inline]
    pub fn opens_at(&self) -> Instant {
        self.next
    }

    /// Records that an event is reported now; the next may follow after `interval_ns`.
    pub fn close_for(&mut self, interval_ns: Nanos, now: Instant) {
        self.next = now + interval_ns;
    }

    /// True if an event may be reported now; if so, the next may follow after `interval_ns`.
    pub fn pass(&mut self, interval_ns: Nanos, now: Instant) -> bool {
        let is_open = self.is_open(now);
        if is_open {
            self.close_for(interval_ns, now);
        }
        is_open
    }
}
