//! The state that a loop shares with its guard: the time of the loop's last iteration and of its
//! last PFC frame, and the PFC that the guard sent during a stall.
//!
//! Rule: the loop publishes the time of each iteration, and publishes that it is about to sleep.
//! The guard only reads that. The loop also publishes that a PFC frame is about to leave, and wakes
//! the guard's threads, whose checks may be further apart than the pause lasts. The guard leaves
//! here what it sent to the peers on behalf of the loop, and the loop takes it in its next
//! iteration, so that the switch's refresh, XON and counters stay correct. Neither waits for the
//! other. `tests/interleavings/guard.rs` tries the interleavings of both with `loom`. Source:
//! docs/behavior.md, "A loop that stalls".

use std::sync::OnceLock;
use std::task::Waker;

use switch::monitor::counters::PfcCount;
use switch::settings::MAX_PORTS;
use switch::{Instant, Nanos};
use wire::bitset::{Set8, Set64};

use crate::guard::reports::GuardReports;
use crate::poll_loop::stats::{LoopStats, LoopTimes};
use crate::shared::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

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
    /// When the loop or the guard last sent PFC, or PAUSE; 0 if neither has.
    pfc_at: AtomicU64,
    /// The threads of the guard, and how many of them, the first ones, are on cores without a loop.
    guards: OnceLock<(Vec<Waker>, usize)>,
    reports: GuardReports,
}

impl Default for Heartbeat {
    /// A heartbeat of a loop that has not started, which needs no guard.
    fn default() -> Self {
        Self {
            state: AtomicU64::new(ASLEEP),
            refresh_at: AtomicU64::new(Instant::NEVER.0),
            times: LoopStats::default(),
            active_ports: AtomicU64::new(0),
            pfc_at: AtomicU64::new(0),
            guards: OnceLock::new(),
            reports: GuardReports::new(MAX_PORTS),
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

    /// Sets the threads of the guard. The first `apart` of them are on cores without a loop.
    /// Returns false if they were set before.
    pub fn set_guards(&self, threads: Vec<Waker>, apart: usize) -> bool {
        // The loop's core may be needed for the receiver of the frame: one thread comes before it.
        self.guards.set((threads, apart.max(1))).is_ok()
    }

    /// Publishes that a PFC frame is about to leave, and wakes the guard's threads on other cores.
    pub fn announce_pfc(&self, at: Instant) {
        self.pfc_at.fetch_max(at.0.max(1), Release);
        if let Some((threads, apart)) = self.guards.get() {
            threads.iter().take(*apart).for_each(Waker::wake_by_ref);
        }
    }

    /// Wakes the threads on the loops' cores once the frame has left, as they would delay it.
    pub(crate) fn follow_up_pfc(&self) {
        if let Some((threads, apart)) = self.guards.get() {
            threads.iter().skip(*apart).for_each(Waker::wake_by_ref);
        }
    }

    /// Publishes that the guard is about to send PFC, and wakes all its threads, which refresh it
    /// should this one be late.
    pub fn announce_guard_pfc(&self, at: Instant) {
        self.announce_pfc(at);
        self.follow_up_pfc();
    }

    /// Returns for which refresh of a pause the loop has to be watched: the shortest of all ports,
    /// `paused_ns`, if PFC was sent lately, else `always_ns`.
    pub fn pause_refresh_ns(&self, always_ns: Nanos, paused_ns: Nanos, now: Instant) -> Nanos {
        let sent_at = self.pfc_at.load(Acquire);
        if sent_at != 0 && now.since(Instant(sent_at)) < PAUSED_NS { paused_ns } else { always_ns }
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
        self.reports.claim(port, refresh_ns, now)
    }

    /// Makes the XOFF of these ports due again that were claimed before a time, should the loop
    /// still be stalled.
    pub fn repeat_claims(&self, ports: Set64, before: Instant) {
        ports.into_iter().for_each(|port| self.reports.repeat_claim(port, before));
    }

    /// Records that the guard has sent an XOFF for these priorities on a port.
    pub fn record_sent(&self, port: usize, priorities: Set8, at: Instant) {
        self.reports.record_sent(port, priorities, at);
    }

    /// Takes what the guard has recorded; called once per iteration. Calls `reported` with a
    /// port's number, the frames that the guard sent on it, and the time of the last one.
    #[inline]
    pub(crate) fn take_reports(&self, reported: impl FnMut(usize, PfcCount, Instant)) {
        self.reports.take(reported);
    }
}

/// The age of the last iteration at which a loop counts as stalled. A loop that keeps up runs a
/// thousand iterations in this time. The frames that peers send meanwhile must fit into the posted
/// chunks.
pub const STALL_NS: Nanos = 1_000_000;
/// The longest pause that the guard would have to refresh earlier than it notices a stall without a
/// pause: one that is refreshed each 2 ms, a third of it.
const PAUSED_NS: Nanos = 6_000_000;
