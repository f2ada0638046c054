//! When an idle loop goes to sleep, and how it shares its core.
//!
//! Rule: an idle loop keeps polling for 20 µs after the last frame moved, and has the highest
//! scheduling weight on its core. On a busy core a sleeper is woken at once, where a polling thread
//! must wait for its share, and other threads do not delay a loop that has much to do. If most
//! pauses lately were longer than 20 µs, the loop does not poll at all when idle: it would find
//! nothing, and the thread that shares its core may be the one that is about to send.
//!
//! If the core is the loop's own, the loop is mostly idle, and frames move 10 to 250 µs apart, it
//! polls for 1 ms instead. A wakeup would delay each frame by some 30 µs, as the host of a virtual
//! machine must wake a sleeping core. The loop then has an ordinary weight, since a thread that
//! wants the core may carry its frames.
//!
//! The loop infers from its iterations whether the core is its own. Other threads want the core if
//! late iterations took more than a quarter of 20 ms and other threads ran on the core for as long.
//! For the next 200 ms the loop then acts as on a busy core. The time doubles each time that this
//! happens again soon after the loop returned to long polling. If no other thread ran on the core,
//! the machine itself stalled, and a weight changes nothing. A single late iteration is not
//! evidence either: while a loop sleeps, the kernel moves other threads to its core, and the loop
//! meets them there. (The guard uses a core for some microseconds of each millisecond, or of each
//! two.) Source: docs/performance.md, "Latency"; sched(7).

use switch::{Instant, Nanos};

/// How long an idle loop polls before it sleeps.
const POLL_NS: Nanos = 20_000;
/// How long an idle loop polls before it sleeps while extended polling is on.
const EXTENDED_POLL_NS: Nanos = 1_000_000;
/// The minimum average time between iterations that move frames, for extended polling.
const BUSY_NS: Nanos = 10_000;
/// The limit of that average: at or above it, frames are too rare for extended polling. Waking a
/// sleeping loop delays its senders, which then send the frames of 200 µs at once, and such a burst
/// moves twice, on receipt and on completion. With a limit of 100 µs a loop that slept saw rare
/// frames, and slept on.
const RARE_NS: Nanos = 250_000;
/// The minimum part of the time that pauses must take for extended polling, as a divisor:
/// iterations full of frames are far apart, too.
const MIN_IDLE_DIVISOR: u64 = 4;
/// The period over which moves and pauses are counted.
const PERIOD_NS: Nanos = 10_000_000;
/// An iteration that starts later than this after the previous one was delayed.
const LATE_NS: Nanos = 200_000;
/// The window over which late iterations are summed.
const WINDOW_NS: Nanos = 20_000_000;
/// More lateness than this in a window is contention: other threads want the core.
const MAX_LATE_NS: Nanos = WINDOW_NS / 4;
/// How long a loop must run without contention to count as alone on its core.
const ALONE_NS: Nanos = 200_000_000;
/// The longest such time, where the assumption was wrong repeatedly.
const MAX_ALONE_NS: Nanos = 16 * ALONE_NS;

/// The state of a loop's idle policy.
#[derive(Debug)]
pub struct IdlePolicy {
    /// When a frame last moved.
    moved_at: Instant,
    /// The duration of late iterations since the window started.
    late_ns: Nanos,
    /// For how long other threads had the core since the window started.
    taken_ns: Nanos,
    window_began: Instant,
    /// When other threads last wanted the core.
    last_contention: Instant,
    /// Iterations that moved frames since the period started.
    moves: u64,
    period_began: Instant,
    /// The start of the first idle iteration since a frame moved.
    idle_since: Option<Instant>,
    /// The duration of completed pauses since the period started.
    idle_ns: Nanos,
    /// Completed pauses of at most [`POLL_NS`].
    short_idles: u64,
    /// Completed pauses longer than [`POLL_NS`].
    long_idles: u64,
    /// Whether the loop polls at all when idle.
    polls: bool,
    /// Whether the loop polls for [`EXTENDED_POLL_NS`].
    extended: bool,
    /// A loop without contention for this long counts as alone on its core.
    alone_ns: Nanos,
}

impl IdlePolicy {
    /// Creates the policy of a loop that starts, and that cannot know yet whether it is alone.
    pub fn new(now: Instant) -> Self {
        Self {
            moved_at: now,
            late_ns: 0,
            taken_ns: 0,
            window_began: now,
            last_contention: now,
            moves: 0,
            period_began: now,
            idle_since: None,
            idle_ns: 0,
            short_idles: 0,
            long_idles: 0,
            polls: true,
            extended: false,
            alone_ns: ALONE_NS,
        }
    }

    /// Records the time between this iteration and the previous one, without sleep.
    #[inline]
    pub fn record_iteration(&mut self, nanos: Nanos) {
        if nanos > LATE_NS {
            self.late_ns += nanos;
        }
    }

    /// True if the policy needs a sample of how long others have had the core; once per period.
    #[inline]
    pub fn sample_due(&self, now: Instant) -> bool {
        now.since(self.period_began) >= PERIOD_NS
    }

    /// Records that sample: how long others had the core since the previous one.
    #[cold]
    pub fn record_core_time(&mut self, now: Instant, taken_ns: Nanos) {
        self.taken_ns = self.taken_ns.saturating_add(taken_ns);
        if now.since(self.window_began) >= WINDOW_NS {
            if self.late_ns.min(self.taken_ns) > MAX_LATE_NS {
                self.on_contention(now);
            }
            (self.window_began, self.late_ns, self.taken_ns) = (now, 0, 0);
        }
        self.end_period(now);
    }

    /// Records that other threads want the core.
    fn on_contention(&mut self, now: Instant) {
        let left_alone_ns = now.since(self.last_contention);
        if left_alone_ns > self.alone_ns {
            let was_right = left_alone_ns > 2 * self.alone_ns;
            self.alone_ns = if was_right { ALONE_NS } else { (2 * self.alone_ns).min(MAX_ALONE_NS) };
        }
        (self.last_contention, self.extended) = (now, false);
    }

    fn end_period(&mut self, now: Instant) {
        let period_ns = now.since(self.period_began);
        let apart = period_ns / self.moves.max(1);
        let is_alone = now.since(self.last_contention) > self.alone_ns;
        let pauses = MIN_IDLE_DIVISOR * self.idle_ns >= period_ns;
        self.extended = is_alone && pauses && (BUSY_NS..RARE_NS).contains(&apart);
        if self.short_idles != self.long_idles {
            self.polls = self.short_idles > self.long_idles;
        }
        (self.period_began, self.moves, self.idle_ns) = (now, 0, 0);
        (self.short_idles, self.long_idles) = (0, 0);
    }

    /// Records an iteration that moved a frame.
    #[inline]
    pub fn on_frames(&mut self, now: Instant) {
        self.moved_at = now;
        self.moves += 1;
        if let Some(since) = self.idle_since.take() {
            let nanos = now.since(since);
            self.idle_ns += nanos;
            *(if nanos > POLL_NS { &mut self.long_idles } else { &mut self.short_idles }) += 1;
        }
    }

    /// True if the loop polls for long. It then has an ordinary weight.
    #[inline]
    pub fn extended_poll(&self) -> bool {
        self.extended
    }

    /// Records an iteration that moved nothing. True if no frame has moved for long enough to
    /// sleep.
    #[inline]
    pub fn on_idle(&mut self, now: Instant) -> bool {
        self.idle_since.get_or_insert(now);
        let look_ns = match (self.extended, self.polls) {
            (true, _) => EXTENDED_POLL_NS,
            (_, true) => POLL_NS,
            _ => 0,
        };
        now.since(self.moved_at) >= look_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Single frames this far apart are neither many nor rare.
    const APART_NS: Nanos = 20_000;

    /// An iteration `nanos` after the previous one; others had the core meanwhile.
    fn turn(idle: &mut IdlePolicy, now: Instant, nanos: Nanos) {
        idle.record_iteration(nanos);
        if idle.sample_due(now) {
            idle.record_core_time(now, nanos);
        }
    }

    /// A frame moves every `apart` until `until`.
    fn move_on(idle: &mut IdlePolicy, now: &mut Instant, until: Instant, apart: Nanos) {
        while *now < until {
            *now = *now + apart;
            idle.on_frames(*now);
            idle.on_idle(*now);
            turn(idle, *now, apart.min(LATE_NS)); // a longer time contains sleep
        }
    }

    /// One iteration is late by `late_ns`, and others had the core for `taken_ns`. The following
    /// ones are on time until the window is over.
    fn delay(idle: &mut IdlePolicy, now: &mut Instant, late_ns: Nanos, taken_ns: Nanos) {
        *now = *now + late_ns;
        idle.record_iteration(late_ns);
        idle.record_core_time(*now, taken_ns);
        let next = *now + WINDOW_NS + PERIOD_NS;
        move_on(idle, now, next, APART_NS);
    }

    /// Successive iterations of 64 frames are as far apart as single rare frames.
    #[test]
    fn a_loop_with_much_to_do_keeps_its_weight() {
        let mut now = Instant(0);
        let mut idle = IdlePolicy::new(now);
        while now < Instant(5 * ALONE_NS) {
            now = now + 40_000;
            idle.on_frames(now);
            turn(&mut idle, now, 40_000);
            assert!(!idle.extended_poll());
        }
    }

    /// Returns how long the loop polls once nothing moves any more.
    fn poll_ns(idle: &mut IdlePolicy, now: Instant) -> Nanos {
        (0..).map(|step| step * 1_000).find(|&nanos| idle.on_idle(now + nanos)).expect("it sleeps at last")
    }

    #[test]
    #[cfg_attr(miri, ignore = "half a million iterations")]
    fn a_loop_polls_for_long_where_it_is_alone_and_frames_neither_press_nor_are_rare() {
        for (apart, polls) in [
            (1_000, POLL_NS),
            (9_900, POLL_NS),
            (10_100, EXTENDED_POLL_NS),
            (12_800, EXTENDED_POLL_NS), // 39,000 frames/s; each moves on receipt and on completion
            (105_000, EXTENDED_POLL_NS), // the same frames in the bursts that a loop's sleep causes
            (240_000, EXTENDED_POLL_NS),
            (260_000, 0),
            (10_000_000, 0),
        ] {
            let mut now = Instant(7);
            let mut idle = IdlePolicy::new(now);
            move_on(&mut idle, &mut now, Instant(ALONE_NS / 2), apart);
            let before = if apart <= POLL_NS { POLL_NS } else { 0 };
            assert_eq!(poll_ns(&mut idle, now), before, "every {apart} ns: it does not know yet");
            move_on(&mut idle, &mut now, Instant(ALONE_NS + 3 * PERIOD_NS), apart);
            assert_eq!(
                (poll_ns(&mut idle, now), idle.extended_poll()),
                (polls, polls == EXTENDED_POLL_NS),
                "every {apart} ns"
            );
        }
    }

    /// The bursts that a loop's sleep causes are further apart than those that it would see awake.
    #[test]
    fn a_loop_that_sleeps_does_not_take_its_frames_for_rare_ones() {
        let mut now = Instant(0);
        let mut idle = IdlePolicy::new(now);
        while now < Instant(3 * ALONE_NS) {
            let apart = if idle.extended_poll() { 41_000 } else { 105_000 };
            let next = now + PERIOD_NS;
            move_on(&mut idle, &mut now, next, apart);
        }
        assert!(idle.extended_poll());
    }

    /// Short and long pauses alternate: the majority of the last period decides.
    #[test]
    fn a_loop_does_not_poll_where_it_would_find_nothing() {
        for (short, long, polls) in [(2, 1, true), (1, 2, false), (1, 0, true), (0, 1, false)] {
            let mut now = Instant(0);
            let mut idle = IdlePolicy::new(now);
            for (pauses, apart) in [(short, POLL_NS), (long, POLL_NS + 1)].repeat(1000) {
                let until = now + pauses * apart;
                move_on(&mut idle, &mut now, until, apart);
            }
            assert_eq!(poll_ns(&mut idle, now) > 0, polls, "{short} short ones for {long} long ones");
        }
    }

    #[test]
    fn a_loop_that_was_delayed_is_not_alone_for_a_while() {
        let mut now = Instant(0);
        let mut idle = IdlePolicy::new(now);
        move_on(&mut idle, &mut now, Instant(3 * ALONE_NS), APART_NS);
        for (late_ns, taken_ns, extended) in [
            (MAX_LATE_NS, MAX_LATE_NS, true),
            (10 * WINDOW_NS, MAX_LATE_NS / 2, true), // the machine stalled, without contention
            (LATE_NS, WINDOW_NS, true),              // others had it while the loop was not late
            (MAX_LATE_NS + 1, WINDOW_NS, false),
        ] {
            delay(&mut idle, &mut now, late_ns, taken_ns);
            assert_eq!(idle.extended_poll(), extended, "{late_ns} ns late, {taken_ns} ns taken");
        }
        assert_eq!(poll_ns(&mut idle, now), POLL_NS);
        let delayed_at = now;
        move_on(&mut idle, &mut now, delayed_at + ALONE_NS - 2 * WINDOW_NS, APART_NS);
        assert!(!idle.extended_poll());
        move_on(&mut idle, &mut now, delayed_at + ALONE_NS + 2 * PERIOD_NS, APART_NS);
        assert!(idle.extended_poll());
    }

    /// A busy thread that shares the core alternately is detected within two windows, though no
    /// iteration is very late.
    #[test]
    fn a_loop_that_shares_its_core_is_not_alone() {
        let mut now = Instant(0);
        let mut idle = IdlePolicy::new(now);
        move_on(&mut idle, &mut now, Instant(3 * ALONE_NS), APART_NS);
        let began = now;
        while idle.extended_poll() {
            let next = now + 1_000_000;
            move_on(&mut idle, &mut now, next, APART_NS);
            now = now + 1_000_000;
            idle.record_iteration(1_000_000);
            if idle.sample_due(now) {
                idle.record_core_time(now, PERIOD_NS / 2);
            }
        }
        assert!(now.since(began) <= 2 * WINDOW_NS, "{} ns", now.since(began));
    }

    /// Contention after each return to long polling doubles the wait. Without contention for as
    /// long, the wait starts from its minimum again.
    #[test]
    #[cfg_attr(miri, ignore = "a million iterations")]
    fn a_loop_that_is_delayed_again_and_again_tries_less_often() {
        let mut now = Instant(0);
        let mut idle = IdlePolicy::new(now);
        let mut waits = |idle: &mut IdlePolicy, alone_for: Nanos| {
            let began = now;
            while !idle.extended_poll() {
                let next = now + APART_NS;
                move_on(idle, &mut now, next, APART_NS);
            }
            let waited = now.since(began);
            let next = now + alone_for;
            move_on(idle, &mut now, next, APART_NS);
            delay(idle, &mut now, WINDOW_NS, WINDOW_NS);
            assert!(!idle.extended_poll());
            (waited + 2 * WINDOW_NS) / ALONE_NS
        };
        let times = [0; 7].map(|alone_for| waits(&mut idle, alone_for));
        assert_eq!(times, [1, 2, 4, 8, 16, 16, 16], "times 200 ms");
        assert_eq!([MAX_ALONE_NS + ALONE_NS, 0].map(|alone_for| waits(&mut idle, alone_for)), [16, 1]);
    }
}
