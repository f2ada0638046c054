//! When a loop that has nothing to do goes to sleep, and how it shares its core.
//!
//! Rule: it goes on looking for 20 µs after the last frame. If it has had its core for itself for 200 ms, and frames come less than
//! 100 µs apart, it looks for 200 µs: being woken would delay each by some 30 µs, where a sleeping core is one that the host of a virtual
//! machine must wake. Between two turns of a loop that is awake lies more than a millisecond only where others want the core, too. There it
//! sleeps sooner, since a sleeper is woken at once and one that looks on must wait for its share, and asks for the highest weight; a loop
//! that is alone has an ordinary weight, so that it does not starve whoever comes, who may carry its frames.
//! Source: docs/performance.md, "Latency"; sched(7).

use switch::{Instant, Nanos};

/// A loop that has had nothing to do for this long sleeps …
const LOOK_NS: Nanos = 20_000;
/// … or for this long, if it is alone and frames come close together …
const LONG_LOOK_NS: Nanos = 200_000;
/// … which is to say, less than this apart.
const CLOSE_NS: Nanos = 100_000;
/// A turn that begins later after the last one was held up by others.
const HELD_UP_NS: Nanos = 1_000_000;
/// A loop that was not held up for this long is alone.
const ALONE_NS: Nanos = 200_000_000;

/// What a loop knows of its rest.
#[derive(Debug)]
pub struct Rest {
    /// Something moved then for the last time.
    moved_at: Instant,
    /// The mean time between two turns that moved something, the last ones most.
    mean_lull_ns: Nanos,
    held_up_at: Instant,
}

impl Rest {
    /// Of a loop that begins, and does not know yet whether it is alone.
    pub fn new(now: Instant) -> Self {
        Self { moved_at: now, mean_lull_ns: CLOSE_NS, held_up_at: now }
    }

    /// So much time lay between this turn and the last, awake.
    #[inline]
    pub fn note_turn(&mut self, now: Instant, nanos: Nanos) {
        if nanos > HELD_UP_NS {
            self.held_up_at = now;
        }
    }

    /// This turn moved something.
    #[inline]
    pub fn note_move(&mut self, now: Instant) {
        // Of a long lull it is enough to know that it was long.
        let lull = now.since(self.moved_at).min(10 * CLOSE_NS);
        self.mean_lull_ns = (7 * self.mean_lull_ns + lull) / 8;
        self.moved_at = now;
    }

    /// Nobody else has wanted the core lately.
    #[inline]
    pub fn is_alone(&self, now: Instant) -> bool {
        now.since(self.held_up_at) > ALONE_NS
    }

    /// Nothing has moved for long enough.
    pub fn may_sleep(&self, now: Instant) -> bool {
        let looks_long = self.mean_lull_ns < CLOSE_NS && self.is_alone(now);
        now.since(self.moved_at) >= if looks_long { LONG_LOOK_NS } else { LOOK_NS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames every `lull` for a while; then how long it looks on.
    fn look_ns(rest: &mut Rest, mut now: Instant, lull: Nanos) -> Nanos {
        for _ in 0..100 {
            now = now + lull;
            rest.note_move(now);
        }
        (0..).map(|step| step * 1_000).find(|&nanos| rest.may_sleep(now + nanos)).expect("it sleeps at last")
    }

    #[test]
    fn a_loop_looks_longer_if_it_is_alone_and_frames_come_close_together() {
        let start = Instant(5);
        for (after, lull, looks) in [
            (0, 25_600, 20_000), // it does not know yet
            (ALONE_NS + 1, 25_600, 200_000),
            (ALONE_NS + 1, 6_400, 200_000),
            (ALONE_NS + 1, 300_000, 20_000), // the next frame will not come so soon
            (ALONE_NS + 1, 10_000_000_000, 20_000),
        ] {
            let now = start + after;
            assert_eq!(look_ns(&mut Rest::new(start), now, lull), looks, "{after} ns, every {lull} ns");
        }
    }

    #[test]
    fn a_loop_that_was_held_up_is_not_alone_for_a_while() {
        let mut rest = Rest::new(Instant(0));
        let at = Instant(5_000_000_000);
        assert!(rest.is_alone(at));
        rest.note_turn(at, HELD_UP_NS);
        assert!(rest.is_alone(at));
        rest.note_turn(at, HELD_UP_NS + 1);
        assert!(!rest.is_alone(at) && !rest.is_alone(at + ALONE_NS) && rest.is_alone(at + ALONE_NS + 1));
        assert_eq!(look_ns(&mut rest, at, 6_400), LOOK_NS);
    }

    #[test]
    fn a_frame_after_a_long_silence_makes_no_long_looks_impossible() {
        let mut rest = Rest::new(Instant(0));
        let now = Instant(3_600_000_000_000);
        rest.note_move(now);
        assert_eq!(look_ns(&mut rest, now, 25_600), LONG_LOOK_NS);
    }
}
