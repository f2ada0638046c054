//! What the guard's threads leave for a loop that stalls: which PFC frames they sent on its behalf.
//!
//! Rule: of all threads of the guard, one claims the XOFF that is due on a port. Each frame that
//! was sent is taken by the loop exactly once, with the time of that frame or of a later one. The
//! loop reads one flag per iteration. `tests/interleavings/guard.rs` tries the
//! interleavings of both with `loom`. Source: docs/behavior.md, "A loop that stalls".

use switch::monitor::counters::PfcCount;
use switch::settings::PRIORITIES;
use switch::{Instant, Nanos};
use wire::bitset::Set8;

use crate::shared::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The reports of all ports.
#[derive(Debug)]
pub(crate) struct GuardReports {
    /// The guard has left a report that the loop has not taken.
    has_reports: AtomicBool,
    ports: Box<[GuardReport]>,
}

/// The PFC frames that the guard sent on a port since the loop last took the report.
#[derive(Debug)]
struct GuardReport {
    frames: AtomicU64,
    /// The frames that paused each priority.
    xoff_frames: [AtomicU64; PRIORITIES],
    /// When the last PFC frame was sent.
    at_ns: AtomicU64,
    /// When a thread of the guard was last about to send one; 0 if the loop has run since.
    claimed_ns: AtomicU64,
}

impl GuardReports {
    /// Creates the reports of this number of ports.
    pub(crate) fn new(ports: usize) -> Self {
        let report = |_| GuardReport {
            frames: AtomicU64::new(0),
            xoff_frames: std::array::from_fn(|_| AtomicU64::new(0)),
            at_ns: AtomicU64::new(0),
            claimed_ns: AtomicU64::new(0),
        };
        Self { has_reports: AtomicBool::new(false), ports: (0..ports).map(report).collect() }
    }

    /// Claims the XOFF that is due on a port; see `Heartbeat::claim`.
    pub(crate) fn claim(&self, port: usize, refresh_ns: Nanos, now: Instant) -> bool {
        let claimed = &self.ports[port].claimed_ns;
        let last = claimed.load(Relaxed);
        let is_due = last == 0 || now.since(Instant(last)) >= refresh_ns;
        is_due && claimed.compare_exchange(last, now.0.max(1), Relaxed, Relaxed).is_ok()
    }

    /// Makes the XOFF of a port due again that was claimed before a time.
    pub(crate) fn repeat_claim(&self, port: usize, before: Instant) {
        let claimed = &self.ports[port].claimed_ns;
        let last = claimed.load(Relaxed);
        if last < before.0 {
            let _ = claimed.compare_exchange(last, 0, Relaxed, Relaxed); // or it was just claimed
        }
    }

    /// Records that the guard has sent an XOFF for these priorities on a port.
    pub(crate) fn record_sent(&self, port: usize, priorities: Set8, at: Instant) {
        let reported = &self.ports[port];
        reported.at_ns.store(at.0, Relaxed);
        // The time comes with what is counted, also to a loop that takes another port's report.
        reported.frames.fetch_add(1, Release);
        priorities.into_iter().for_each(|p| _ = reported.xoff_frames[p].fetch_add(1, Release));
        self.has_reports.swap(true, Release);
    }

    /// Takes what the guard has recorded; see `Heartbeat::take_reports`.
    #[inline]
    pub(crate) fn take(&self, reported: impl FnMut(usize, PfcCount, Instant)) {
        if self.has_reports.load(Relaxed) {
            self.take_all(reported);
        }
    }

    #[cold]
    fn take_all(&self, mut report: impl FnMut(usize, PfcCount, Instant)) {
        self.has_reports.swap(false, Acquire);
        for (number, reported) in self.ports.iter().enumerate() {
            reported.claimed_ns.store(0, Relaxed);
            let take = |count: &AtomicU64| if count.load(Relaxed) == 0 { 0 } else { count.swap(0, Acquire) };
            let xoff_frames = std::array::from_fn(|p| take(&reported.xoff_frames[p]));
            let frames = PfcCount { frames: take(&reported.frames), xoff_frames, ..PfcCount::default() };
            // The guard may be in the middle of recording one. It sets `has_reports` again
            // afterwards.
            if frames != PfcCount::default() {
                report(number, frames, Instant(reported.at_ns.load(Relaxed)));
            }
        }
    }
}
