//! The state that a loop shares with its guard: the time of the loop's last iteration, and the PFC
//! that the guard sent during a stall.
//!
//! Rule: the loop publishes the time of each iteration, and publishes that it is about to sleep.
//! The guard only reads that. The guard leaves here what it sent to the peers on behalf of the
//! loop, and the loop takes it in its next iteration, so that the switch's refresh, XON and
//! counters stay correct. Neither waits for the other. Source: docs/behavior.md, "A loop that
//! stalls".

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use switch::monitor::counters::PfcCount;
use switch::settings::{MAX_PORTS, PRIORITIES};
use switch::{Instant, Nanos};
use wire::bitset::{Set8, Set64};

use crate::poll_loop::stats::{LoopStats, LoopTimes};

/// Replaces the time of an iteration: the loop sleeps, and any received frame wakes it.
const ASLEEP: u64 = u64::MAX;
/// Replaces the time of an iteration: the loop has ended.
const ENDED: u64 = u64::MAX - 1;

/// The state that the loop last published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopState {
    /// The loop is awake; its last iteration started at this time.
    Awake(Instant),
    /// The loop sleeps.
    Asleep {
        /// When the loop must refresh an XOFF that is in force; [`Instant::NEVER`] if none is.
        refresh_at: Instant,
        /// Iterations before it went to sleep, which distinguishes one sleep from the next.
        turns: u64,
    },
    /// The loop has ended.
    Ended,
}

/// The memory that a loop and its guard share.
#[derive(Debug)]
pub struct Heartbeat {
    state: AtomicU64,
    /// When a sleeping loop must refresh an XOFF.
    refresh_at: AtomicU64,
    pub(crate) times: LoopStats,
    /// Bit n is set if a frame has been received on port n lately.
    active_ports: AtomicU64,
    /// The guard has left a report that the loop has not taken.
    has_reports: AtomicBool,
    ports: [GuardReport; MAX_PORTS],
}

/// The PFC frames that the guard sent on a port since the loop last took the report.
#[derive(Debug, Default)]
struct GuardReport {
    frames: AtomicU64,
    /// The frames that paused each priority.
    xoff_frames: [AtomicU64; PRIORITIES],
    /// When the last PFC frame was sent.
    at_ns: AtomicU64,
    /// When a thread of the guard was last about to send one; 0 if the loop has run since.
    claimed_ns: AtomicU64,
}

impl Default for Heartbeat {
    /// A heartbeat of a loop that has not started, which needs no guard.
    fn default() -> Self {
        Self {
            state: AtomicU64::new(ASLEEP),
            refresh_at: AtomicU64::new(Instant::NEVER.0),
            times: LoopStats::default(),
            active_ports: AtomicU64::new(0),
            has_reports: AtomicBool::new(false),
            ports: std::array::from_fn(|_| GuardReport::default()),
        }
    }
}

impl Heartbeat {
    /// Publishes the start of an iteration.
    #[inline]
    pub fn beat(&self, now: Instant) {
        self.state.store(now.0, Relaxed);
    }

    /// Publishes the ports on which frames have been received lately.
    #[inline]
    pub(crate) fn set_active_ports(&self, ports: Set64) {
        self.active_ports.store(ports.bits(), Relaxed);
    }

    /// Returns the ports on which frames have been received lately.
    pub fn active_ports(&self) -> Set64 {
        Set64::from_bits(self.active_ports.load(Relaxed))
    }

    /// Publishes that the loop goes to sleep and must refresh an XOFF at `refresh_at`. If it
    /// oversleeps, the guard refreshes the XOFF.
    pub fn sleep(&self, refresh_at: Instant) {
        self.refresh_at.store(refresh_at.0, Relaxed);
        self.state.store(ASLEEP, Release);
    }

    /// Publishes that the loop has ended.
    pub fn end(&self) {
        self.state.store(ENDED, Relaxed);
    }

    /// Returns the state that the loop last published.
    pub fn state(&self) -> LoopState {
        match self.state.load(Acquire) {
            ASLEEP => LoopState::Asleep {
                refresh_at: Instant(self.refresh_at.load(Relaxed)),
                turns: self.times.turns(),
            },
            ENDED => LoopState::Ended,
            nanos => LoopState::Awake(Instant(nanos)),
        }
    }

    /// True if the loop has started an iteration within the last [`STALL_NS`].
    pub(crate) fn is_iterating(&self, now: Instant) -> bool {
        matches!(self.state(), LoopState::Awake(at) if now.since(at) < STALL_NS)
    }

    /// Returns the iteration times so far.
    pub fn times(&self) -> LoopTimes {
        self.times.read()
    }

    /// Records a stall that the guard sees.
    pub fn record_stall(&self, nanos: Nanos) {
        self.times.record_stall(nanos);
    }

    /// Claims the XOFF that is due on a port on behalf of the loop: true for one thread of the
    /// guard when the loop has stalled, and each `refresh_ns` from then on.
    pub fn claim(&self, port: usize, refresh_ns: Nanos, now: Instant) -> bool {
        let claimed = &self.ports[port].claimed_ns;
        let last = claimed.load(Relaxed);
        let is_due = last == 0 || now.since(Instant(last)) >= refresh_ns;
        is_due && claimed.compare_exchange(last, now.0.max(1), Relaxed, Relaxed).is_ok()
    }

    /// Makes the XOFF of these ports due again that were claimed before a time, should the loop
    /// still be stalled.
    pub fn repeat_claims(&self, ports: Set64, before: Instant) {
        for claimed in ports.into_iter().map(|port| &self.ports[port].claimed_ns) {
            let last = claimed.load(Relaxed);
            if last < before.0 {
                let _ = claimed.compare_exchange(last, 0, Relaxed, Relaxed); // or it was just claimed
            }
        }
    }

    /// Records that the guard has sent an XOFF for these priorities on a port.
    pub fn record_sent(&self, port: usize, priorities: Set8, at: Instant) {
        let reported = &self.ports[port];
        reported.at_ns.store(at.0, Relaxed);
        reported.frames.fetch_add(1, Relaxed);
        priorities.into_iter().for_each(|p| _ = reported.xoff_frames[p].fetch_add(1, Relaxed));
        self.has_reports.store(true, Release);
    }

    /// Takes what the guard has recorded; called once per iteration. Calls `reported` with a
    /// port's number, the frames that the guard sent on it, and the time of the last one.
    #[inline]
    pub(crate) fn take_reports(&self, reported: impl FnMut(usize, PfcCount, Instant)) {
        if self.has_reports.load(Relaxed) {
            self.take_reports_slow(reported);
        }
    }

    #[cold]
    fn take_reports_slow(&self, mut report: impl FnMut(usize, PfcCount, Instant)) {
        self.has_reports.swap(false, Acquire);
        for (number, reported) in self.ports.iter().enumerate() {
            reported.claimed_ns.store(0, Relaxed);
            let take = |count: &AtomicU64| if count.load(Relaxed) == 0 { 0 } else { count.swap(0, Relaxed) };
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

/// The age of the last iteration at which a loop counts as stalled. A loop that keeps up runs a
/// thousand iterations in this time. The frames that peers send meanwhile must fit into the posted
/// chunks.
pub const STALL_NS: Nanos = 1_000_000;
