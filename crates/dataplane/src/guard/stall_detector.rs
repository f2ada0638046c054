//! The guard's judgement: does the loop stand still, and must its peers be told to stop?
//!
//! Rule: a loop that began its last turn more than [`STALL_NS`] ago stands still, and so does one
//! that sleeps while frames have waited for it that long, or that long past the refresh of an XOFF;
//! less where a pause that the loop would
//! have refreshed by then is over sooner. While it does, the no-drop priorities of all peers are
//! paused, and paused again before the pause has passed, in the loop's place; once the loop turns,
//! it is the loop that says XON. After [`GIVE_UP_NS`] the loop is taken for dead, and peers are
//! left alone: a pause without end would be a storm.
//!
//! ```text
//!             turned > STALL_NS or refresh_ns ago, or asleep with frames that long
//!   Quiet ──────────────────────────────────────────────────────▶ Standing in: XOFF now, and each refresh_ns
//!     ◀───────────────────────────────────────────────────────────  │ GIVE_UP_NS
//!             the loop turned                                        ▼
//!     ◀──────────────────────────────────────────────────────────── Given up
//! ```
//! Source: docs/behavior.md, "A loop that stands still".

use switch::{Instant, Nanos};

use crate::guard::heartbeat::{LoopState, STALL_NS};

/// A loop that has stood still for this long is dead.
pub const GIVE_UP_NS: Nanos = 10_000_000_000;
/// How often to look while the loop is awake, or frames wait for it; as often as a pause is
/// refreshed, if that is more often …
const LOOK_NS: Nanos = 1_000_000;
/// … but no more often than this.
const SHORTEST_LOOK_NS: Nanos = 100_000;

/// When to look again, the sooner the less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextCheck {
    /// After so long.
    After(Nanos),
    /// When a frame comes in: the loop sleeps, and nothing waits for it.
    WithFrames,
}

/// What the guard knows.
#[derive(Debug, Default)]
pub struct StallDetector {
    /// Frames wait for a loop that sleeps, as seen first at that time.
    waiting_since: Option<Instant>,
    /// The loop stands still since then, and the peers were last told at the second.
    standing_in: Option<(Instant, Instant)>,
    stalls: u64,
    longest_ns: Nanos,
}

impl StallDetector {
    /// Looks at the loop. True: tell the peers now. `frames_wait` says whether frames have come in
    /// that nobody took; it is only asked while the loop sleeps. XOFF lasts for some
    /// `refresh_ns` at least.
    pub fn look(
        &mut self,
        pulse: LoopState,
        frames_wait: impl FnOnce() -> bool,
        refresh_ns: Nanos,
        now: Instant,
    ) -> bool {
        let still_since = match pulse {
            LoopState::Turned(at) => Some(at),
            LoopState::Asleep { refresh_at } if refresh_at <= now => Some(refresh_at),
            LoopState::Asleep { .. } if frames_wait() => Some(*self.waiting_since.get_or_insert(now)),
            LoopState::Asleep { .. } | LoopState::Ended => None,
        };
        if !matches!(pulse, LoopState::Asleep { .. }) || still_since.is_none() {
            self.waiting_since = None;
        }
        let stall_ns = STALL_NS.min(refresh_ns).max(SHORTEST_LOOK_NS);
        let Some(since) = still_since.filter(|&since| now.since(since) >= stall_ns) else {
            self.standing_in = None;
            return false;
        };
        self.stalls += u64::from(self.standing_in.is_none());
        self.longest_ns = self.longest_ns.max(now.since(since));
        if now.since(since) >= GIVE_UP_NS {
            return false;
        }
        let due = self.standing_in.is_none_or(|(_, told)| now.since(told) >= refresh_ns);
        if due {
            self.standing_in = Some((since, now));
        }
        due
    }

    /// When to look again, after a look at this.
    pub fn next_look(&self, pulse: LoopState, refresh_ns: Nanos) -> NextCheck {
        match (pulse, self.waiting_since) {
            (LoopState::Asleep { refresh_at: Instant::NEVER }, None) => NextCheck::WithFrames,
            _ => NextCheck::After(LOOK_NS.min(refresh_ns).max(SHORTEST_LOOK_NS)),
        }
    }

    /// Times that the loop stood still, and the longest that it was seen to.
    pub fn stalls(&self) -> (u64, Nanos) {
        (self.stalls, self.longest_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const ASLEEP: LoopState = LoopState::Asleep { refresh_at: Instant::NEVER };

    /// What the loop says, and whether frames wait, at each half millisecond from `start_ms` on;
    /// when the peers are told, in half milliseconds. They are told again after 2 ms.
    fn told(pulses: &[(LoopState, bool)]) -> Vec<usize> {
        let mut vigil = StallDetector::default();
        let looks = pulses.iter().enumerate().filter(|&(n, &(pulse, waiting))| {
            vigil.look(pulse, || waiting, 2 * MS, Instant(10 * MS + n as u64 * MS / 2))
        });
        looks.map(|(n, _)| n).collect()
    }

    fn turned(half_ms: u64) -> (LoopState, bool) {
        (LoopState::Turned(Instant(10 * MS + half_ms * MS / 2)), true)
    }

    #[test]
    fn a_loop_that_turns_is_left_alone() {
        let busy: Vec<_> = (0..20).map(turned).collect();
        assert_eq!(told(&busy), []);
        assert_eq!(told(&[(ASLEEP, false); 20]), [], "nor one that sleeps, and nothing comes in");
        assert_eq!(told(&[(LoopState::Ended, true); 20]), [], "nor one that has ended");
    }

    #[test]
    fn a_loop_that_stands_still_is_stood_in_for_until_it_turns() {
        let mut pulses = vec![turned(0); 12]; // it turned at 0, and never since
        pulses.extend((12..20).map(turned));
        assert_eq!(told(&pulses), [2, 6, 10], "after 1 ms, and each 2 ms from then on");
    }

    #[test]
    fn a_sleeper_whom_frames_do_not_wake_is_stood_in_for() {
        let mut pulses = vec![(ASLEEP, false); 4];
        pulses.extend([(ASLEEP, true); 5]);
        pulses.extend([(ASLEEP, false), (ASLEEP, true), (ASLEEP, false)]);
        assert_eq!(told(&pulses), [6,], "1 ms after frames were first seen");
    }

    /// A peer at 100 Gbit/s hears a pause of 335 µs: the loop refreshes it after 112, and so must
    /// the guard.
    #[test]
    fn a_short_pause_is_guarded_more_closely() {
        let mut vigil = StallDetector::default();
        let turned = LoopState::Turned(Instant(10 * MS));
        let mut look = |us: u64| vigil.look(turned, || true, 112_000, Instant(10 * MS + us * 1000));
        let told: Vec<u64> = (0..500).step_by(56).filter(|us| look(*us)).collect();
        assert_eq!(told, [112, 224, 336, 448]);
        assert_eq!(vigil.next_look(turned, 112_000), NextCheck::After(112_000));
        assert_eq!(vigil.next_look(turned, 1000), NextCheck::After(SHORTEST_LOOK_NS));
    }

    /// XOFF lasts, nothing moves, and the loop sleeps past the refresh that was due at 2 ms.
    #[test]
    fn the_xoff_of_a_loop_that_oversleeps_is_refreshed() {
        let asleep = LoopState::Asleep { refresh_at: Instant(12 * MS) };
        let mut pulses = vec![(asleep, false); 16];
        pulses.extend([(LoopState::Turned(Instant(18 * MS)), false)]);
        assert_eq!(told(&pulses), [6, 10, 14], "1 ms after it was due, and each 2 ms from then on");
        let vigil = StallDetector::default();
        assert_eq!(vigil.next_look(asleep, 2 * MS), NextCheck::After(MS), "no frame would wake the guard");
    }

    #[test]
    fn a_sleeper_for_whom_nothing_waits_is_let_sleep() {
        let mut vigil = StallDetector::default();
        let mut next = |pulse, frames_wait| {
            vigil.look(pulse, || frames_wait, 2 * MS, Instant(10 * MS));
            vigil.next_look(pulse, 2 * MS)
        };
        assert_eq!(next(LoopState::Turned(Instant(10 * MS)), false), NextCheck::After(LOOK_NS));
        assert_eq!(next(ASLEEP, false), NextCheck::WithFrames);
        assert_eq!(next(ASLEEP, true), NextCheck::After(LOOK_NS), "it should be awake by then");
        assert_eq!(next(ASLEEP, false), NextCheck::WithFrames);
    }

    #[test]
    fn a_dead_loop_is_given_up() {
        let mut vigil = StallDetector::default();
        let since = LoopState::Turned(Instant(0));
        let last = (0..30_000).filter(|ms| vigil.look(since, || true, 2 * MS, Instant(ms * MS))).last();
        assert_eq!(last, Some(9_999));
        assert_eq!(vigil.stalls().0, 1);
        assert!(
            vigil.look(LoopState::Turned(Instant(40_000 * MS)), || true, 2 * MS, Instant(40_001 * MS)),
            "it lives"
        );
    }
}
