//! When a loop that has nothing to do goes to sleep, and how it shares its core.
//!
//! Rule: it goes on looking for 20 µs after something moved last, and has the highest weight on its
//! core: on a busy one a sleeper is woken at once, where one that looks on must wait for its share,
//! and a loop with much to do is not held up by others. If most pauses lately were longer than
//! that, it does not look on at all: it would find nothing, and whoever shares its core may be the
//! one that is about to send something.
//!
//! If the core is its own, it does little but look, and what moves is 10 to 100 µs apart, it looks
//! for 1 ms instead: being woken would delay each frame by some 30 µs, where a sleeping core is one
//! that the host of a virtual machine must wake. Then it has an ordinary weight, since whoever
//! wants the core may carry its frames.
//!
//! That the core is its own it takes from its turns: where turns that began late took more than a
//! quarter of 20 ms, and other threads had the core for as long, they want it, and for the next 200
//! ms it is as on a busy one; for twice as long each time that they want it again once it looks for
//! long. Where nobody had it the machine itself stood still, and a weight changes nothing. One turn
//! that began late says nothing either: a loop that sleeps lets the kernel put others on its core,
//! whom it then meets there. (The guard has a core for some microseconds of each millisecond, or of
//! each two.) Source: docs/performance.md, "Latency"; sched(7).

use switch::{Instant, Nanos};

/// A loop that has had nothing to do for this long sleeps …
const LOOK_NS: Nanos = 20_000;
/// … or for this long.
const LONG_LOOK_NS: Nanos = 1_000_000;
/// It looks for long where turns that move something are this far apart, at the least …
const BUSY_NS: Nanos = 10_000;
/// … and at the most.
const RARE_NS: Nanos = 100_000;
/// It does little but look where pauses are at least one part in so many of the time: turns full of
/// frames are far apart, too.
const PAUSED_PART: u64 = 4;
/// How far apart they are is counted up in so long.
const PERIOD_NS: Nanos = 10_000_000;
/// A turn that begins later after the last one was held up.
const LATE_NS: Nanos = 200_000;
/// How long turns were late is counted up in so long …
const WINDOW_NS: Nanos = 20_000_000;
/// … and this part of it is more than there is where nobody wants the core.
const MOST_LATE_NS: Nanos = WINDOW_NS / 4;
/// A loop that was not held up for this long has its core for itself …
const ALONE_NS: Nanos = 200_000_000;
/// … or for this long, where it was wrong about that again and again.
const MAX_ALONE_NS: Nanos = 16 * ALONE_NS;

/// What a loop knows of its rest.
#[derive(Debug)]
pub struct IdlePolicy {
    /// Something moved then for the last time.
    moved_at: Instant,
    /// Since the window began: how long turns took that were late, and for how long others had the
    /// core.
    late_ns: Nanos,
    taken_ns: Nanos,
    window_began: Instant,
    /// Others wanted the core, the last time.
    last_contention: Instant,
    /// Turns that moved something since the period began.
    moves: u64,
    period_began: Instant,
    /// Nothing has moved since the turn that began then.
    idle_since: Option<Instant>,
    /// For how long nothing has moved since the period began, in pauses that are over …
    paused_ns: Nanos,
    /// … of which so many were no longer than [`LOOK_NS`], and so many were.
    short_pauses: u64,
    long_pauses: u64,
    /// It looks on at all.
    looks: bool,
    looks_long: bool,
    /// A loop that was not held up for so long is taken to be alone.
    alone_ns: Nanos,
}

impl IdlePolicy {
    /// Of a loop that begins, and does not know yet whether it is alone.
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
            paused_ns: 0,
            short_pauses: 0,
            long_pauses: 0,
            looks: true,
            looks_long: false,
            alone_ns: ALONE_NS,
        }
    }

    /// So much time lay between this turn and the last, awake.
    #[inline]
    pub fn note_turn(&mut self, nanos: Nanos) {
        if nanos > LATE_NS {
            self.late_ns += nanos;
        }
    }

    /// It wants to know for how long others had the core since it last asked: now and then.
    #[inline]
    pub fn sample_due(&self, now: Instant) -> bool {
        now.since(self.period_began) >= PERIOD_NS
    }

    /// The answer.
    #[cold]
    pub fn note_core(&mut self, now: Instant, taken_ns: Nanos) {
        self.taken_ns = self.taken_ns.saturating_add(taken_ns);
        if now.since(self.window_began) >= WINDOW_NS {
            if self.late_ns.min(self.taken_ns) > MOST_LATE_NS {
                self.on_contention(now);
            }
            (self.window_began, self.late_ns, self.taken_ns) = (now, 0, 0);
        }
        self.end_period(now);
    }

    /// Others want the core.
    fn on_contention(&mut self, now: Instant) {
        let left_alone_ns = now.since(self.last_contention);
        if left_alone_ns > self.alone_ns {
            let was_right = left_alone_ns > 2 * self.alone_ns;
            self.alone_ns = if was_right { ALONE_NS } else { (2 * self.alone_ns).min(MAX_ALONE_NS) };
        }
        (self.last_contention, self.looks_long) = (now, false);
    }

    fn end_period(&mut self, now: Instant) {
        let period_ns = now.since(self.period_began);
        let apart = period_ns / self.moves.max(1);
        let is_alone = now.since(self.last_contention) > self.alone_ns;
        let pauses = PAUSED_PART * self.paused_ns >= period_ns;
        self.looks_long = is_alone && pauses && (BUSY_NS..RARE_NS).contains(&apart);
        if self.short_pauses != self.long_pauses {
            self.looks = self.short_pauses > self.long_pauses;
        }
        (self.period_began, self.moves, self.paused_ns) = (now, 0, 0);
        (self.short_pauses, self.long_pauses) = (0, 0);
    }

    /// This turn moved something.
    #[inline]
    pub fn note_move(&mut self, now: Instant) {
        self.moved_at = now;
        self.moves += 1;
        if let Some(since) = self.idle_since.take() {
            let nanos = now.since(since);
            self.paused_ns += nanos;
            *(if nanos > LOOK_NS { &mut self.long_pauses } else { &mut self.short_pauses }) += 1;
        }
    }

    /// It looks for long, and has no more weight than others.
    #[inline]
    pub fn extended_poll(&self) -> bool {
        self.looks_long
    }

    /// This turn moved nothing. True: nor has any for long enough.
    #[inline]
    pub fn note_idle(&mut self, now: Instant) -> bool {
        self.idle_since.get_or_insert(now);
        let look_ns = match (self.looks_long, self.looks) {
            (true, _) => LONG_LOOK_NS,
            (_, true) => LOOK_NS,
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

    /// A turn that began so long after the last; others had the core meanwhile.
    fn turn(rest: &mut IdlePolicy, now: Instant, nanos: Nanos) {
        rest.note_turn(nanos);
        if rest.sample_due(now) {
            rest.note_core(now, nanos);
        }
    }

    /// Something moves every `apart` until `until`.
    fn move_on(rest: &mut IdlePolicy, now: &mut Instant, until: Instant, apart: Nanos) {
        while *now < until {
            *now = *now + apart;
            rest.note_move(*now);
            rest.note_idle(*now);
            turn(rest, *now, apart.min(LATE_NS)); // of longer ones it slept
        }
    }

    /// One turn is late by so much, for part of which others had the core; the others are not,
    /// until the window is over.
    fn hold_up(rest: &mut IdlePolicy, now: &mut Instant, late_ns: Nanos, taken_ns: Nanos) {
        *now = *now + late_ns;
        rest.note_turn(late_ns);
        rest.note_core(*now, taken_ns);
        let next = *now + WINDOW_NS + PERIOD_NS;
        move_on(rest, now, next, APART_NS);
    }

    /// Turns of 64 frames, one after the other, are as far apart as single frames that are rare.
    #[test]
    fn a_loop_with_much_to_do_keeps_its_weight() {
        let mut now = Instant(0);
        let mut rest = IdlePolicy::new(now);
        while now < Instant(5 * ALONE_NS) {
            now = now + 40_000;
            rest.note_move(now);
            turn(&mut rest, now, 40_000);
            assert!(!rest.extended_poll());
        }
    }

    /// How long it looks on when nothing moves any more.
    fn look_ns(rest: &mut IdlePolicy, now: Instant) -> Nanos {
        (0..).map(|step| step * 1_000).find(|&nanos| rest.note_idle(now + nanos)).expect("it sleeps at last")
    }

    #[test]
    fn a_loop_looks_for_long_where_it_is_alone_and_frames_neither_press_nor_are_rare() {
        for (apart, looks) in [
            (1_000, LOOK_NS),
            (9_900, LOOK_NS),
            (10_100, LONG_LOOK_NS),
            (12_800, LONG_LOOK_NS), // 39,000 frames a second, each of which moves when it comes and when it has left
            (99_000, LONG_LOOK_NS),
            (110_000, 0),
            (10_000_000, 0),
        ] {
            let mut now = Instant(7);
            let mut rest = IdlePolicy::new(now);
            move_on(&mut rest, &mut now, Instant(ALONE_NS / 2), apart);
            let before = if apart <= LOOK_NS { LOOK_NS } else { 0 };
            assert_eq!(look_ns(&mut rest, now), before, "every {apart} ns: it does not know yet");
            move_on(&mut rest, &mut now, Instant(ALONE_NS + 3 * PERIOD_NS), apart);
            assert_eq!(
                (look_ns(&mut rest, now), rest.extended_poll()),
                (looks, looks == LONG_LOOK_NS),
                "every {apart} ns"
            );
        }
    }

    /// Pauses of both kinds by turns: it does as most of them were.
    #[test]
    fn a_loop_does_not_look_where_it_would_find_nothing() {
        for (short, long, looks) in [(2, 1, true), (1, 2, false), (1, 0, true), (0, 1, false)] {
            let mut now = Instant(0);
            let mut rest = IdlePolicy::new(now);
            for (pauses, apart) in [(short, LOOK_NS), (long, LOOK_NS + 1)].repeat(1000) {
                let until = now + pauses * apart;
                move_on(&mut rest, &mut now, until, apart);
            }
            assert_eq!(look_ns(&mut rest, now) > 0, looks, "{short} short ones for {long} long ones");
        }
    }

    #[test]
    fn a_loop_that_was_held_up_is_not_alone_for_a_while() {
        let mut now = Instant(0);
        let mut rest = IdlePolicy::new(now);
        move_on(&mut rest, &mut now, Instant(3 * ALONE_NS), APART_NS);
        for (late_ns, taken_ns, looks_long) in [
            (MOST_LATE_NS, MOST_LATE_NS, true),
            (10 * WINDOW_NS, MOST_LATE_NS / 2, true), // the machine stood still, and nobody else wanted the core
            (LATE_NS, WINDOW_NS, true),               // others had it while the loop was not late
            (MOST_LATE_NS + 1, WINDOW_NS, false),
        ] {
            hold_up(&mut rest, &mut now, late_ns, taken_ns);
            assert_eq!(rest.extended_poll(), looks_long, "{late_ns} ns late, {taken_ns} ns taken");
        }
        assert_eq!(look_ns(&mut rest, now), LOOK_NS);
        let held_up_at = now;
        move_on(&mut rest, &mut now, held_up_at + ALONE_NS - 2 * WINDOW_NS, APART_NS);
        assert!(!rest.extended_poll());
        move_on(&mut rest, &mut now, held_up_at + ALONE_NS + 2 * PERIOD_NS, APART_NS);
        assert!(rest.extended_poll());
    }

    /// A hog that shares the core by turns is found within two windows, though no turn is late by
    /// much.
    #[test]
    fn a_loop_that_shares_its_core_is_not_alone() {
        let mut now = Instant(0);
        let mut rest = IdlePolicy::new(now);
        move_on(&mut rest, &mut now, Instant(3 * ALONE_NS), APART_NS);
        let began = now;
        while rest.extended_poll() {
            let next = now + 1_000_000;
            move_on(&mut rest, &mut now, next, APART_NS);
            now = now + 1_000_000;
            rest.note_turn(1_000_000);
            if rest.sample_due(now) {
                rest.note_core(now, PERIOD_NS / 2);
            }
        }
        assert!(now.since(began) <= 2 * WINDOW_NS, "{} ns", now.since(began));
    }

    /// Held up whenever it looks for long, it waits for longer and longer; left alone for as long,
    /// it begins again.
    #[test]
    fn a_loop_that_is_held_up_again_and_again_tries_less_often() {
        let mut now = Instant(0);
        let mut rest = IdlePolicy::new(now);
        let mut waits = |rest: &mut IdlePolicy, alone_for: Nanos| {
            let began = now;
            while !rest.extended_poll() {
                let next = now + APART_NS;
                move_on(rest, &mut now, next, APART_NS);
            }
            let waited = now.since(began);
            let next = now + alone_for;
            move_on(rest, &mut now, next, APART_NS);
            hold_up(rest, &mut now, WINDOW_NS, WINDOW_NS);
            assert!(!rest.extended_poll());
            (waited + 2 * WINDOW_NS) / ALONE_NS
        };
        let times = [0; 7].map(|alone_for| waits(&mut rest, alone_for));
        assert_eq!(times, [1, 2, 4, 8, 16, 16, 16], "times 200 ms");
        assert_eq!([MAX_ALONE_NS + ALONE_NS, 0].map(|alone_for| waits(&mut rest, alone_for)), [16, 1]);
    }
}
