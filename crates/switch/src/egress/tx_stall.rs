//! Transmissions that do not complete: an interface that takes frames and never sends them.
//!
//! Rule: a port is stalled while frames are with the kernel and none has left since the last check,
//! [`CHECK_NS`] ago or more. After [`REPORT_NS`] that is an event, and another
//! when frames leave again. A priority with a watchdog is stuck as if its peer had paused it
//! ([`crate::pfc::watchdog`]): after its detection time it is stormed, and with the action `drop`
//! the senders of what waits are released. Without that nothing is dropped.
//!
//! Source: docs/watchdog.md, "A port that does not send"; Linux: `dev_watchdog` reports a TX queue
//! after 5 s as well.

use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

/// Interval of the checks.
pub const CHECK_NS: Nanos = 100_000_000;
/// How long nothing must have left until that is an event.
pub const REPORT_NS: Nanos = 5_000_000_000;

/// Whether the transmissions of a port complete.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TxStall {
    /// Frames that had left, or were lost, at the last check.
    completed_frames: u64,
    checked_at: Instant,
    /// Since when none has left although the kernel has some.
    stalled_since: Option<Instant>,
    is_reported: bool,
    stalls: u64,
}

/// A change to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxStallChange {
    /// Nothing has left for [`REPORT_NS`].
    Stalled,
    /// Frames leave again.
    Resumed,
}

impl TxStall {
    /// Checks the port, of which `completed_frames` have left so far. `is_sending` says whether
    /// the kernel has frames.
    pub fn poll(&mut self, completed_frames: u64, is_sending: bool, now: Instant) -> Option<TxStallChange> {
        let since = std::mem::replace(&mut self.checked_at, now);
        let has_moved = std::mem::replace(&mut self.completed_frames, completed_frames) != completed_frames;
        if has_moved || !is_sending {
            self.stalled_since = None;
            return std::mem::take(&mut self.is_reported).then_some(TxStallChange::Resumed);
        }
        let since = *self.stalled_since.get_or_insert(since);
        if self.is_reported || now.since(since) < REPORT_NS {
            return None;
        }
        self.is_reported = true;
        self.stalls += 1;
        Some(TxStallChange::Stalled)
    }

    /// Returns since when nothing has left, if the port is stalled.
    #[inline]
    pub fn stalled_since(&self) -> Option<Instant> {
        self.stalled_since
    }

    /// Returns the time of the last check.
    pub fn checked_at(&self) -> Instant {
        self.checked_at
    }

    /// Returns how often a stall was reported.
    pub fn stalls(&self) -> u64 {
        self.stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_stalled_after_five_seconds_in_which_nothing_left() {
        let mut stall = TxStall::default();
        let begin = Instant(CHECK_NS);
        assert_eq!((stall.poll(7, true, begin), stall.stalled_since()), (None, None), "some have left");
        let reported_at = begin + REPORT_NS;
        for (now, change, stalls) in [
            (begin + CHECK_NS, None, 0),
            (begin + REPORT_NS - 1, None, 0),
            (reported_at, Some(TxStallChange::Stalled), 1),
            (reported_at + REPORT_NS, None, 1),
        ] {
            assert_eq!((stall.poll(7, true, now), stall.stalls()), (change, stalls), "{now:?}");
            assert_eq!((stall.stalled_since(), stall.checked_at()), (Some(begin), now));
        }
        let later = reported_at + REPORT_NS + CHECK_NS;
        assert_eq!(stall.poll(8, true, later), Some(TxStallChange::Resumed));
        assert_eq!((stall.poll(8, true, later + CHECK_NS), stall.stalled_since()), (None, Some(later)));
        assert_eq!(stall.poll(8, false, later + 2 * CHECK_NS), None);
        assert_eq!((stall.stalled_since(), stall.stalls()), (None, 1), "the kernel has none");
    }
}
