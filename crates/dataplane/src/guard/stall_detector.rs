//! The guard's decision: is the loop stalled, and must its peers be paused?
//!
//! Rule: a loop is stalled if its last iteration started more than [`STALL_NS`] ago. So is a
//! sleeping loop whose received frames have waited for that long, or that is that late for the
//! refresh of an XOFF. While PFC is sent, the time is shorter where the pause time of a port is so
//! short that the loop would have refreshed it by then ([`Heartbeat::pause_refresh_ns`]). During a
//! stall the guard pauses the no-drop priorities of all peers that have sent lately on behalf of
//! the loop, and again with each refresh that the pause time of the port asks for
//! ([`Heartbeat::claim`]). Once the loop runs again, the loop itself sends XON. After
//! [`GIVE_UP_NS`] the loop is considered dead, and the guard stops pausing peers: an endless pause
//! would be a storm.
//!
//! ```text
//!             iteration > STALL_NS or refresh_ns ago, or asleep with frames that long
//!   Quiet ─────────────────────────────────────────▶ Acting: XOFF now, and with each refresh
//!     ◀─────────────────────────────────────────────── │ GIVE_UP_NS
//!             the loop runs again                      ▼
//!     ◀─────────────────────────────────────────────── Given up
//! ```
//! Source: docs/behavior.md, "A loop that stalls".
//!
//! [`Heartbeat::claim`]: crate::guard::heartbeat::Heartbeat::claim
//! [`Heartbeat::pause_refresh_ns`]: crate::guard::heartbeat::Heartbeat::pause_refresh_ns

use switch::pfc::tx::GUARD_REFRESH_NS;
use switch::{Instant, Nanos};

use crate::guard::heartbeat::{LoopState, STALL_NS};

/// A loop that has stalled for this long is considered dead.
pub const GIVE_UP_NS: Nanos = 10_000_000_000;
/// The check interval while the loop is awake or frames wait for it. It is shorter while a pause
/// may be in force that must be refreshed more often, but at least [`GUARD_REFRESH_NS`]. A check
/// takes 12 µs of a core in a virtual machine (docs/performance.md, "Forwarding on one core").
const CHECK_INTERVAL_NS: Nanos = 1_000_000;

/// The longest time from the start of a stall to the guard's XOFF, with a core to run on: headroom
/// that lasts longer is covered.
pub const COVERED_AFTER_NS: Nanos = STALL_NS + CHECK_INTERVAL_NS;

/// When the guard must check the loop again; the earlier, the less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextCheck {
    /// After this time.
    After(Nanos),
    /// When a frame is received: the loop sleeps, and no frame waits for it.
    OnFrame,
}

/// The guard's state for one loop.
#[derive(Debug, Default)]
pub struct StallDetector {
    /// The sleep in which frames were seen to wait, by the iterations before it, and since when.
    waiting_since: Option<(u64, Instant)>,
    /// How long the present stall has lasted; 0 without one.
    stalled_ns: Nanos,
}

impl StallDetector {
    /// Checks the loop. True if the guard acts for it now. `frames_wait` returns whether
    /// received frames are waiting in the rings; it is called only while the loop sleeps. The loop
    /// refreshes an XOFF after `refresh_ns` at the earliest.
    pub fn check(
        &mut self,
        state: LoopState,
        frames_wait: impl FnOnce() -> bool,
        refresh_ns: Nanos,
        now: Instant,
    ) -> bool {
        let still_since = match state {
            LoopState::Awake(at) => Some(at),
            LoopState::Asleep { refresh_at, .. } if refresh_at <= now => Some(refresh_at),
            LoopState::Asleep { turns, .. } if frames_wait() => {
                // Frames of an earlier sleep have been taken since.
                self.waiting_since = self.waiting_since.filter(|&(of, _)| of == turns).or(Some((turns, now)));
                self.waiting_since.map(|(_, since)| since)
            }
            LoopState::Asleep { .. } | LoopState::Ended => None,
        };
        if !matches!(state, LoopState::Asleep { .. }) || still_since.is_none() {
            self.waiting_since = None;
        }
        let stall_ns = STALL_NS.min(refresh_ns).max(GUARD_REFRESH_NS);
        let Some(since) = still_since.filter(|&since| now.since(since) >= stall_ns) else {
            self.stalled_ns = 0;
            return false;
        };
        self.stalled_ns = now.since(since);
        self.stalled_ns < GIVE_UP_NS
    }

    /// Returns when to check again, after a check at `now` that saw this state.
    pub fn next_check(&self, state: LoopState, refresh_ns: Nanos, now: Instant) -> NextCheck {
        match (state, self.waiting_since) {
            (LoopState::Asleep { refresh_at: Instant::NEVER, .. }, None) => NextCheck::OnFrame,
            // When this iteration would be a stall: the pause may have been sent long before it.
            (LoopState::Awake(at), _) if refresh_ns < STALL_NS && self.stalled_ns == 0 => {
                NextCheck::After(refresh_ns.saturating_sub(now.since(at)).max(GUARD_REFRESH_NS))
            }
            _ => NextCheck::After(CHECK_INTERVAL_NS.min(refresh_ns).max(GUARD_REFRESH_NS)),
        }
    }

    /// Returns how long the loop had been stalled at the last check; 0 if it was not.
    pub fn stalled_ns(&self) -> Nanos {
        self.stalled_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::heartbeat::Heartbeat;
    use wire::bitset::Set8;

    const MS: u64 = 1_000_000;
    const ASLEEP: LoopState = asleep_after(7);

    /// A loop that went to sleep after that many iterations, and that has no XOFF to refresh.
    const fn asleep_after(turns: u64) -> LoopState {
        LoopState::Asleep { refresh_at: Instant::NEVER, turns }
    }

    /// Runs the detector on the loop's state, and whether frames wait, at each half millisecond
    /// from 10 ms on. Returns when the peers are paused, in half milliseconds, of a port whose
    /// XOFF is refreshed after 2 ms.
    fn pauses_sent(states: &[(LoopState, bool)]) -> Vec<usize> {
        let (mut detector, heartbeat) = (StallDetector::default(), Heartbeat::default());
        let looks = states.iter().enumerate().filter(|&(n, &(state, waiting))| {
            let now = Instant(10 * MS + n as u64 * MS / 2);
            detector.check(state, || waiting, 2 * MS, now) && heartbeat.claim(0, 2 * MS, now)
        });
        looks.map(|(n, _)| n).collect()
    }

    fn iterated(half_ms: u64) -> (LoopState, bool) {
        (LoopState::Awake(Instant(10 * MS + half_ms * MS / 2)), true)
    }

    const NONE: [usize; 0] = [];

    #[test]
    fn a_running_loop_is_not_paused_for() {
        let busy: Vec<_> = (0..20).map(iterated).collect();
        assert_eq!(pauses_sent(&busy), NONE);
        assert_eq!(
            pauses_sent(&[(ASLEEP, false); 20]),
            NONE,
            "a loop that sleeps while nothing comes in is not"
        );
        assert_eq!(pauses_sent(&[(LoopState::Ended, true); 20]), NONE, "a loop that has ended is not");
    }

    #[test]
    fn a_loop_that_stalls_is_covered_until_it_iterates() {
        let mut states = vec![iterated(0); 12]; // one iteration at 0, and none since
        states.extend((12..20).map(iterated));
        assert_eq!(pauses_sent(&states), [2, 6, 10], "after 1 ms, and each 2 ms from then on");
    }

    #[test]
    fn a_sleeping_loop_with_waiting_frames_counts_as_stalled() {
        let mut states = vec![(ASLEEP, false); 4];
        states.extend([(ASLEEP, true); 5]);
        states.extend([(ASLEEP, false), (ASLEEP, true), (ASLEEP, false)]);
        assert_eq!(pauses_sent(&states), [6,], "1 ms after frames were first seen");
    }

    /// A pause of 335 µs, received by a peer at 100 Gbit/s: the loop refreshes it after 112 µs, and
    /// so must the guard.
    #[test]
    fn a_short_pause_is_guarded_more_closely() {
        let (mut detector, heartbeat) = (StallDetector::default(), Heartbeat::default());
        let turned = LoopState::Awake(Instant(10 * MS));
        let mut check = |us: u64| {
            let now = Instant(10 * MS + us * 1000);
            detector.check(turned, || true, 112_000, now) && heartbeat.claim(0, 112_000, now)
        };
        let reported: Vec<u64> = (0..500).step_by(56).filter(|us| check(*us)).collect();
        assert_eq!(reported, [112, 224, 336, 448]);
        let next = |refresh_ns| detector.next_check(turned, refresh_ns, Instant(10 * MS + 500_000));
        assert_eq!(next(112_000), NextCheck::After(112_000), "for the refresh");
        assert_eq!(next(1000), NextCheck::After(GUARD_REFRESH_NS));
    }

    /// A pause at 40 Gbit/s is refreshed after 280 µs and lasts for 839. The loop may have sent it
    /// 280 µs before its last iteration, so a stall is noticed 280 µs after that.
    #[test]
    fn a_short_pause_is_refreshed_in_time() {
        let (mut detector, at) = (StallDetector::default(), Instant(10 * MS));
        let mut next = |us: u64, refresh_ns| {
            let (state, now) = (LoopState::Awake(at), at + us * 1000);
            (detector.check(state, || true, refresh_ns, now), detector.next_check(state, refresh_ns, now))
        };
        let after = |us: u64| NextCheck::After(us * 1000);
        assert_eq!((next(0, 280_000), next(60, 280_000)), ((false, after(280)), (false, after(220))));
        assert_eq!((next(250, 280_000), next(280, 280_000)), ((false, after(100)), (true, after(280))));
        // Without a pause, and with one that is refreshed later.
        assert_eq!(
            (next(280, Nanos::MAX), next(999, 1_118_000)),
            ((false, after(1000)), (false, after(1000)))
        );
    }

    /// PFC is sent at 10 ms by the loop, and at 30 ms by the guard, whose time stays when the loop
    /// announces a frame of earlier. No pause that needs close checks lasts for more than 6 ms.
    #[test]
    fn a_loop_is_watched_closely_while_a_pause_may_be_in_force() {
        let heartbeat = Heartbeat::default();
        let refresh_ns = |ms: u64| heartbeat.pause_refresh_ns(Nanos::MAX, 112_000, Instant(ms * MS));
        assert_eq!(refresh_ns(9), Nanos::MAX);
        heartbeat.announce_pfc(Instant(10 * MS));
        assert_eq!((refresh_ns(10), refresh_ns(15), refresh_ns(16)), (112_000, 112_000, Nanos::MAX));
        heartbeat.announce_guard_pfc(Instant(30 * MS));
        heartbeat.announce_pfc(Instant(22 * MS));
        assert_eq!((refresh_ns(30), refresh_ns(35), refresh_ns(36)), (112_000, 112_000, Nanos::MAX));
        assert_eq!(heartbeat.pause_refresh_ns(280_000, 112_000, Instant(36 * MS)), 280_000);
    }

    /// XOFF is in force, no frame moves, and the loop sleeps past the refresh that was due at 2 ms.
    #[test]
    fn the_xoff_of_a_loop_that_oversleeps_is_refreshed() {
        let asleep = LoopState::Asleep { refresh_at: Instant(12 * MS), turns: 7 };
        let mut states = vec![(asleep, false); 16];
        states.extend([(LoopState::Awake(Instant(18 * MS)), false)]);
        assert_eq!(pauses_sent(&states), [6, 10, 14], "1 ms after it was due, and each 2 ms from then on");
        let detector = StallDetector::default();
        assert_eq!(
            detector.next_check(asleep, 2 * MS, Instant(18 * MS)),
            NextCheck::After(MS),
            "no frame would wake the guard"
        );
    }

    #[test]
    fn a_sleeping_loop_without_waiting_frames_is_not_stalled() {
        let mut detector = StallDetector::default();
        let mut next = |state, frames_wait| {
            detector.check(state, || frames_wait, 2 * MS, Instant(10 * MS));
            detector.next_check(state, 2 * MS, Instant(10 * MS))
        };
        assert_eq!(next(LoopState::Awake(Instant(10 * MS)), false), NextCheck::After(CHECK_INTERVAL_NS));
        assert_eq!(next(ASLEEP, false), NextCheck::OnFrame);
        assert_eq!(next(ASLEEP, true), NextCheck::After(CHECK_INTERVAL_NS), "it should be awake by then");
        assert_eq!(next(ASLEEP, false), NextCheck::OnFrame);
    }

    /// Each frame wakes the loop, and a check happens to come between the frame and the loop's
    /// iteration each time.
    #[test]
    fn a_sleeper_that_runs_between_two_checks_does_not_stall() {
        let states: Vec<_> = (0..20).map(|n| (asleep_after(7 + n), true)).collect();
        assert_eq!(pauses_sent(&states), NONE);
    }

    /// A loop was asleep when its thread was stopped: it wakes half a second after frames came, and
    /// only the guard knows since when they waited.
    #[test]
    fn the_stall_of_a_sleeper_counts_from_when_frames_came() {
        let (mut detector, heartbeat) = (StallDetector::default(), Heartbeat::default());
        for ms in 0..=500 {
            detector.check(ASLEEP, || true, 2 * MS, Instant((10 + ms) * MS));
            heartbeat.record_stall(detector.stalled_ns());
        }
        detector.check(LoopState::Awake(Instant(511 * MS)), || true, 2 * MS, Instant(511 * MS));
        assert_eq!((detector.stalled_ns(), heartbeat.times().worst_stall_ns), (0, 500 * MS));
    }

    #[test]
    fn a_dead_loop_is_given_up() {
        let mut detector = StallDetector::default();
        let since = LoopState::Awake(Instant(0));
        let last = (0..30_000).filter(|ms| detector.check(since, || true, 2 * MS, Instant(ms * MS))).last();
        assert_eq!(last, Some(9_999));
        assert!(
            detector.check(LoopState::Awake(Instant(40_000 * MS)), || true, 2 * MS, Instant(40_001 * MS)),
            "it lives"
        );
    }

    /// Two threads check, and each port is refreshed by its own pause time; when the loop has run
    /// in between, the peers are paused again at once.
    #[test]
    fn one_thread_sends_what_is_due_on_a_port() {
        let heartbeat = Heartbeat::default();
        let at = |ms: u64| Instant(100 * MS + ms * MS);
        let claims = |port, refresh_ns| {
            let due = (0..20).filter(|&ms| {
                let first = heartbeat.claim(port, refresh_ns, at(ms));
                assert!(!heartbeat.claim(port, refresh_ns, at(ms)));
                first
            });
            due.collect::<Vec<_>>()
        };
        assert_eq!(claims(0, 11 * MS), [0, 11]);
        assert_eq!(claims(1, 6 * MS), [0, 6, 12, 18]);
        heartbeat.record_sent(0, Set8::of(3), at(11));
        heartbeat.take_reports(|_, _, _| {});
        assert!(heartbeat.claim(0, 11 * MS, at(20)));
    }
}
