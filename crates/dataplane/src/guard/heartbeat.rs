//! What a loop and its guard tell each other: that the loop turns, and what the guard did while it
//! did not.
//!
//! Rule: the loop says at each turn what time it is, and says so before it goes to sleep. The guard
//! only reads that. What it told the peers in the loop's place it leaves here, and the loop takes
//! it at its next turn, so that the switch's refresh, XON and counters stay true. Neither waits for
//! the other. Source: docs/behavior.md, "A loop that stands still".

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use switch::monitor::counters::PfcCount;
use switch::settings::{MAX_PORTS, PRIORITIES};
use switch::{Instant, Nanos};
use wire::bitset::{Set8, Set64};

use crate::poll_loop::stats::{LoopStats, LoopTimes};

/// In place of the time of a turn: the loop sleeps, and is woken by whatever comes in.
const ASLEEP: u64 = u64::MAX;
/// … or has ended.
const ENDED: u64 = u64::MAX - 1;

/// What the loop last said of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopState {
    /// It began a turn then.
    Turned(Instant),
    /// It sleeps.
    Asleep {
        /// When it must repeat an XOFF that lasts; [`Instant::NEVER`]: none lasts.
        refresh_at: Instant,
    },
    /// It has ended.
    Ended,
}

/// The place where both leave what they say.
#[derive(Debug)]
pub struct Heartbeat {
    pulse: AtomicU64,
    /// When a loop that sleeps must repeat an XOFF.
    refresh_at: AtomicU64,
    pub(crate) times: LoopStats,
    /// Bit n: frames have come in on port n.
    heard: AtomicU64,
    /// How soon some peer must be told again of an XOFF that lasts.
    refresh_ns: AtomicU64,
    /// The guard has left something.
    has_news: AtomicBool,
    ports: [GuardReport; MAX_PORTS],
}

/// What the guard told the peer of a port since the loop last asked.
#[derive(Debug, Default)]
struct GuardReport {
    frames: AtomicU64,
    /// Of them, those that paused this priority.
    xoff_frames: [AtomicU64; PRIORITIES],
    /// When the last of them left.
    at_ns: AtomicU64,
}

impl Default for Heartbeat {
    /// Of a loop that does not turn yet, which nobody need stand in for.
    fn default() -> Self {
        Self {
            pulse: AtomicU64::new(ASLEEP),
            refresh_at: AtomicU64::new(Instant::NEVER.0),
            times: LoopStats::default(),
            heard: AtomicU64::new(0),
            refresh_ns: AtomicU64::new(Nanos::MAX),
            has_news: AtomicBool::new(false),
            ports: std::array::from_fn(|_| GuardReport::default()),
        }
    }
}

impl Heartbeat {
    /// The loop begins a turn.
    #[inline]
    pub fn beat(&self, now: Instant) {
        self.pulse.store(now.0, Relaxed);
    }

    /// Frames have come in on these ports so far.
    #[inline]
    pub(crate) fn hear(&self, ports: Set64) {
        self.heard.store(ports.bits(), Relaxed);
    }

    /// XOFF is repeated after so long: as settings have it, or as peers have taught the loop.
    pub(crate) fn leave_refresh(&self, nanos: Nanos) {
        self.refresh_ns.store(nanos, Relaxed);
    }

    /// XOFF is repeated after so long, or sooner where settings that the loop does not know yet say
    /// so.
    pub fn refresh_ns(&self) -> Nanos {
        self.refresh_ns.load(Relaxed)
    }

    /// Frames have come in on this port: it has a peer.
    pub fn has_heard(&self, port: usize) -> bool {
        self.heard.load(Relaxed) & 1 << port != 0
    }

    /// The loop goes to sleep, and must repeat an XOFF at `refresh_at`. Should it oversleep, the
    /// guard does that.
    pub fn sleep(&self, refresh_at: Instant) {
        self.refresh_at.store(refresh_at.0, Relaxed);
        self.pulse.store(ASLEEP, Release);
    }

    /// The loop ends.
    pub fn end(&self) {
        self.pulse.store(ENDED, Relaxed);
    }

    /// What the loop last said of itself.
    pub fn pulse(&self) -> LoopState {
        match self.pulse.load(Acquire) {
            ASLEEP => LoopState::Asleep { refresh_at: Instant(self.refresh_at.load(Relaxed)) },
            ENDED => LoopState::Ended,
            nanos => LoopState::Turned(Instant(nanos)),
        }
    }

    /// The loop has begun a turn lately.
    pub(crate) fn turns(&self, now: Instant) -> bool {
        matches!(self.pulse(), LoopState::Turned(at) if now.since(at) < STALL_NS)
    }

    /// How the loop has turned so far.
    pub fn times(&self) -> LoopTimes {
        self.times.read()
    }

    /// The guard has sent an XOFF for these priorities out of a port.
    pub fn leave(&self, port: usize, priorities: Set8, at: Instant) {
        let told = &self.ports[port];
        told.at_ns.store(at.0, Relaxed);
        told.frames.fetch_add(1, Relaxed);
        priorities.into_iter().for_each(|p| _ = told.xoff_frames[p].fetch_add(1, Relaxed));
        self.has_news.store(true, Release);
    }

    /// Takes what the guard has left; the loop calls it once a turn. `told` is given a port's
    /// number, the frames that the guard sent for it, and when the last of them left.
    #[inline]
    pub(crate) fn take(&self, told: impl FnMut(usize, PfcCount, Instant)) {
        if self.has_news.load(Relaxed) {
            self.take_news(told);
        }
    }

    #[cold]
    fn take_news(&self, mut tell: impl FnMut(usize, PfcCount, Instant)) {
        self.has_news.swap(false, Acquire);
        for (number, told) in self.ports.iter().enumerate() {
            let take = |count: &AtomicU64| if count.load(Relaxed) == 0 { 0 } else { count.swap(0, Relaxed) };
            let xoff_frames = std::array::from_fn(|p| take(&told.xoff_frames[p]));
            let frames = PfcCount { frames: take(&told.frames), xoff_frames, ..PfcCount::default() };
            // The guard may be in the midst of leaving one: it has news again then.
            if frames != PfcCount::default() {
                tell(number, frames, Instant(told.at_ns.load(Relaxed)));
            }
        }
    }
}

/// A loop that keeps up turns a thousand times in this time. What the peers send meanwhile must fit
/// the posted frames.
pub const STALL_NS: Nanos = 1_000_000;
