//! When a loop that has nothing to do goes to sleep, and how it shares its core.
//!
//! Rule: it goes on looking for 20 µs after something moved last, and has the highest weight on its core: on a busy one a sleeper
//! is woken at once, where one that looks on must wait for its share, and a loop with much to do is not held up by others.
//!
//! If the core is its own, it does little but look, and what moves is 10 to 100 µs apart, it looks for 1 ms instead: being woken
//! would delay each frame by some 30 µs, where a sleeping core is one that the host of a virtual machine must wake. Then it has an
//! ordinary weight, since whoever wants the core may carry its frames.
//!
//! That the core is its own it takes from its turns: where more than 4 ms lie between two of them, and other threads
//! had the core for half of that, they want it, and for the next 200 ms it is as on a busy one; for twice as long each time that
//! they want it again once it looks for long. Where nobody had it the machine itself stood still, and a weight changes nothing.
//! (The guard has each core for some microseconds of each millisecond.)
//! Source: docs/performance.md, "Latency"; sched(7).

use switch::{Instant, Nanos};

/// A loop that has had nothing to do for this long sleeps …
const LOOK_NS: Nanos = 20_000;
/// … or for this long.
const LONG_LOOK_NS: Nanos = 1_000_000;
/// It looks for long where turns that move something are this far apart, at the least …
const BUSY_NS: Nanos = 10_000;
/// … and at the most.
const RARE_NS: Nanos = 100_000;
/// It does little but look where it takes so many turns for one that moves something: turns full of frames are far apart, too.
const LOOKS: u64 = 4;
/// How far apart they are is counted up in so long.
const PERIOD_NS: Nanos = 10_000_000;
/// A turn that begins later after the last one was held up.
const HELD_UP_NS: Nanos = 4_000_000;
/// A loop that was not held up for this long has its core for itself …
const ALONE_NS: Nanos = 200_000_000;
/// … or for this long, where it was wrong about that again and again.
const MAX_ALONE_NS: Nanos = 16 * ALONE_NS;

/// What a loop knows of its rest.
#[derive(Debug)]
pub struct Rest {
    /// Something moved then for the last time.
    moved_at: Instant,
    /// A turn began late, and it is not known yet why.
    is_late: bool,
    /// Others had the core meanwhile, the last time.
    held_up_at: Instant,
    /// Turns since the period began, but those after a sleep.
    turns: u64,
    /// Turns that moved something since then.
    moves: u64,
    period_began: Instant,
    looks_long: bool,
    /// It has looked for long since then.
    long_since: Instant,
    /// A loop that was not held up for so long is taken to be alone.
    alone_ns: Nanos,
}

impl Rest {
    /// Of a loop that begins, and does not know yet whether it is alone.
    pub fn new(now: Instant) -> Self {
        Self {
            moved_at: now,
            is_late: false,
            held_up_at: now,
            turns: 0,
            moves: 0,
            period_began: now,
            looks_long: false,
            long_since: now,
            alone_ns: ALONE_NS,
        }
    }

    /// So much time lay between this turn and the last, awake.
    #[inline]
    pub fn note_turn(&mut self, nanos: Nanos) {
        self.turns += 1;
        self.is_late |= nanos > HELD_UP_NS;
    }

    /// It wants to know for how long others had the core since it last asked: now and then, and after a turn that began late.
    #[inline]
    pub fn asks(&self, now: Instant) -> bool {
        self.is_late || now.since(self.period_began) >= PERIOD_NS
    }

    /// The answer.
    #[cold]
    pub fn note_core(&mut self, now: Instant, taken_ns: Nanos) {
        if self.is_late && taken_ns > HELD_UP_NS / 2 {
            self.note_others(now);
        }
        self.is_late = false;
        if now.since(self.period_began) >= PERIOD_NS {
            self.end_period(now);
        }
    }

    /// Others want the core.
    fn note_others(&mut self, now: Instant) {
        if self.looks_long {
            let was_right = now.since(self.long_since) > self.alone_ns;
            self.alone_ns = if was_right { ALONE_NS } else { (2 * self.alone_ns).min(MAX_ALONE_NS) };
        }
        (self.held_up_at, self.looks_long) = (now, false);
    }

    fn end_period(&mut self, now: Instant) {
        let apart = now.since(self.period_began) / self.moves.max(1);
        let is_alone = now.since(self.held_up_at) > self.alone_ns;
        let looked_long = self.looks_long;
        let looks = self.turns >= LOOKS * self.moves;
        self.looks_long = is_alone && looks && (BUSY_NS..RARE_NS).contains(&apart);
        if self.looks_long && !looked_long {
            self.long_since = now;
        }
        (self.period_began, self.turns, self.moves) = (now, 0, 0);
    }

    /// This turn moved something.
    #[inline]
    pub fn note_move(&mut self, now: Instant) {
        self.moved_at = now;
        self.moves += 1;
    }

    /// It looks for long, and needs no more weight than others.
    #[inline]
    pub fn looks_long(&self) -> bool {
        self.looks_long
    }

    /// Nothing has moved for long enough.
    #[inline]
    pub fn may_sleep(&self, now: Instant) -> bool {
        now.since(self.moved_at) >= if self.looks_long { LONG_LOOK_NS } else { LOOK_NS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A turn that began so long after the last, during which others had the core if it was late.
    fn turn(rest: &mut Rest, now: Instant, nanos: Nanos) {
        rest.note_turn(nanos);
        if rest.asks(now) {
            rest.note_core(now, nanos);
        }
    }

    /// Something moves every `apart` until `until`.
    fn move_on(rest: &mut Rest, now: &mut Instant, until: Instant, apart: Nanos) {
        while *now < until {
            *now = *now + apart;
            rest.note_move(*now);
            for _ in 0..LOOKS {
                turn(rest, *now, apart.min(HELD_UP_NS)); // of longer ones it slept
            }
        }
    }

    /// Turns of 64 frames, one after the other, are as far apart as single frames that are rare.
    #[test]
    fn a_loop_with_much_to_do_keeps_its_weight() {
        let mut now = Instant(0);
        let mut rest = Rest::new(now);
        while now < Instant(5 * ALONE_NS) {
            now = now + 40_000;
            rest.note_move(now);
            turn(&mut rest, now, 40_000);
            assert!(!rest.looks_long());
        }
    }

    /// How long it looks on when nothing moves any more.
    fn look_ns(rest: &Rest, now: Instant) -> Nanos {
        (0..).map(|step| step * 1_000).find(|&nanos| rest.may_sleep(now + nanos)).expect("it sleeps at last")
    }

    #[test]
    fn a_loop_looks_for_long_where_it_is_alone_and_frames_neither_press_nor_are_rare() {
        for (apart, looks) in [
            (1_000, LOOK_NS),
            (9_900, LOOK_NS),
            (10_100, LONG_LOOK_NS),
            (12_800, LONG_LOOK_NS), // 39,000 frames a second, each of which moves when it comes and when it has left
            (99_000, LONG_LOOK_NS),
            (110_000, LOOK_NS),
            (10_000_000, LOOK_NS),
        ] {
            let mut now = Instant(7);
            let mut rest = Rest::new(now);
            move_on(&mut rest, &mut now, Instant(ALONE_NS / 2), apart);
            assert_eq!(look_ns(&rest, now), LOOK_NS, "every {apart} ns: it does not know yet");
            move_on(&mut rest, &mut now, Instant(ALONE_NS + 3 * PERIOD_NS), apart);
            assert_eq!(
                (look_ns(&rest, now), rest.looks_long()),
                (looks, looks == LONG_LOOK_NS),
                "every {apart} ns"
            );
        }
    }

    #[test]
    fn a_loop_that_was_held_up_is_not_alone_for_a_while() {
        const APART_NS: Nanos = 20_000;
        let mut now = Instant(0);
        let mut rest = Rest::new(now);
        move_on(&mut rest, &mut now, Instant(3 * ALONE_NS), APART_NS);
        turn(&mut rest, now, HELD_UP_NS);
        assert!(rest.looks_long());
        rest.note_turn(10 * HELD_UP_NS);
        assert!(rest.asks(now));
        rest.note_core(now, HELD_UP_NS / 2);
        assert!(rest.looks_long(), "the machine stood still, and nobody else wanted the core");
        let held_up_at = now;
        turn(&mut rest, now, HELD_UP_NS + 1);
        assert_eq!((rest.looks_long(), look_ns(&rest, now)), (false, LOOK_NS));
        move_on(&mut rest, &mut now, held_up_at + ALONE_NS, APART_NS);
        assert!(!rest.looks_long());
        move_on(&mut rest, &mut now, held_up_at + ALONE_NS + 2 * PERIOD_NS, APART_NS);
        assert!(rest.looks_long());
    }

    /// Held up whenever it looks for long, it waits for longer and longer; left alone for as long, it begins anew.
    #[test]
    fn a_loop_that_is_held_up_again_and_again_tries_less_often() {
        const APART_NS: Nanos = 20_000;
        let mut now = Instant(0);
        let mut rest = Rest::new(now);
        let mut waits = |rest: &mut Rest, alone_for: Nanos| {
            let began = now;
            while !rest.looks_long() {
                let next = now + APART_NS;
                move_on(rest, &mut now, next, APART_NS);
            }
            let waited = now.since(began);
            let next = now + alone_for;
            move_on(rest, &mut now, next, APART_NS);
            turn(rest, now, HELD_UP_NS + 1);
            waited / ALONE_NS
        };
        let times = [0; 7].map(|alone_for| waits(&mut rest, alone_for));
        assert_eq!(times, [1, 2, 4, 8, 16, 16, 16], "times 200 ms");
        assert_eq!([MAX_ALONE_NS + ALONE_NS, 0].map(|alone_for| waits(&mut rest, alone_for)), [16, 1]);
    }
}
