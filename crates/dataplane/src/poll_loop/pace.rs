//! What the poll loop of the switching core and an I/O loop have in common: each publishes its
//! iterations, keeps its sleeper up to date, and sleeps when its idle policy says so.
//!
//! Rule: a loop that goes to sleep announces that first and then looks for work once more, so that
//! no doorbell is missed. Source: docs/architecture.md, "Frame path".

use std::io;
use std::sync::Arc;

use switch::{Instant, Nanos};
use wire::bitset::Set64;

use crate::guard::heartbeat::Heartbeat;
use crate::io_core::doorbell::Doorbell;
use crate::poll_loop::idle_policy::IdlePolicy;
use crate::port::Port;
use crate::sleeper::{Sleeper, overslept};

/// The longest sleep, a bound on how late anything missed is noticed: an interface that has
/// disappeared is detected only in an iteration.
pub(crate) const LONGEST_SLEEP_NS: Nanos = 100_000_000;

/// Iterations and sleeps of a loop.
#[derive(Debug)]
pub(crate) struct LoopPace {
    pub(crate) heartbeat: Arc<Heartbeat>,
    pub(crate) idle: IdlePolicy,
    bell: Arc<Doorbell>,
    last_iteration: Option<Instant>,
    /// The ports that end a sleep.
    watched: Set64,
    /// The loop polls for longer, at an ordinary weight.
    extended: bool,
}

impl LoopPace {
    pub(crate) fn new(heartbeat: Arc<Heartbeat>, bell: Arc<Doorbell>) -> Self {
        Self {
            heartbeat,
            idle: IdlePolicy::new(Instant::default()),
            bell,
            last_iteration: None,
            watched: Set64::EMPTY,
            extended: false,
        }
    }

    pub(crate) fn start(&mut self, now: Instant) {
        self.idle = IdlePolicy::new(now);
        (self.watched, self.extended) = (Set64::EMPTY, false);
    }

    /// Passes the open ports and the weight to the sleeper, if they have changed.
    #[inline]
    pub(crate) fn update<'a, P: Port + 'a>(
        &mut self,
        sleeper: &mut impl Sleeper,
        open: Set64,
        port: impl Fn(usize) -> &'a P,
    ) {
        if self.watched != open {
            self.watched = open;
            sleeper.watch(open.into_iter().map(port));
        }
        if self.extended != self.idle.extended_poll() {
            self.extended = !self.extended;
            sleeper.set_weight(!self.extended);
        }
    }

    #[inline]
    pub(crate) fn begin_iteration(&mut self, now: Instant) {
        self.heartbeat.beat(now);
        let after = self.last_iteration.replace(now).map(|last| now.since(last));
        self.heartbeat.times.record_iteration(after);
        if let Some(nanos) = after {
            self.idle.record_iteration(nanos);
        }
    }

    #[inline]
    pub(crate) fn end_iteration(&mut self, now: Instant, moved: bool, sleeper: &mut impl Sleeper) {
        if self.idle.sample_due(now) {
            self.idle.record_core_time(now, sleeper.core_wait_ns());
        }
        if moved {
            self.idle.on_frames(now);
        }
    }

    /// Sleeps for at most `nanos` from `now`, unless there is work. `deadline` is when the guard
    /// must expect the loop again.
    ///
    /// # Errors
    /// The sleeper cannot sleep.
    pub(crate) fn sleep(
        &mut self,
        sleeper: &mut impl Sleeper,
        (now, nanos): (Instant, Nanos),
        deadline: Instant,
        clock: impl Fn() -> Instant,
        has_work: impl FnOnce() -> bool,
    ) -> io::Result<()> {
        self.bell.prepare_sleep();
        if !has_work() {
            self.heartbeat.sleep(deadline);
            sleeper.wait(nanos)?;
            self.last_iteration = overslept(clock(), now + nanos, sleeper.stopped_ns());
        }
        self.bell.cancel_sleep();
        Ok(())
    }
}
