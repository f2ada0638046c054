//! What a loop and its guard share: a sleep is seen with its deadline, one thread claims an XOFF,
//! and the loop takes each frame that was sent once, with the time of that frame or of a later one.

use std::sync::Arc;

use crate::shared::thread;
use switch::Instant;
use wire::bitset::Set8;

#[path = "../../src/guard/heartbeat.rs"]
pub mod heartbeat;
#[path = "../../src/guard/reports.rs"]
pub mod reports;

use heartbeat::{Heartbeat, LoopState};
use reports::GuardReports;

const PRIORITY: usize = 3;
const REFRESH_NS: u64 = 1000;

/// Two threads of the guard see that the loop stalls, and one of them sends.
#[test]
fn one_thread_claims_an_xoff() {
    crate::check(None, || {
        let reports = Arc::new(GuardReports::new(1));
        let claims: Vec<_> = [5, 6]
            .into_iter()
            .map(|at| {
                let reports = Arc::clone(&reports);
                thread::spawn(move || reports.claim(0, REFRESH_NS, Instant(at)))
            })
            .collect();
        let claimed = claims.into_iter().map(|claim| claim.join().unwrap());
        assert_eq!(claimed.filter(|&claimed| claimed).count(), 1);
        assert!(!reports.claim(0, REFRESH_NS, Instant(7)), "until the refresh");
        assert!(reports.claim(0, REFRESH_NS, Instant(1007)));
    });
}

/// A thread of the guard sends on two ports, while the loop takes reports.
#[test]
fn each_frame_is_taken_once_with_its_time() {
    crate::check(Some(2), || {
        let reports = Arc::new(GuardReports::new(2));
        let guard = {
            let reports = Arc::clone(&reports);
            thread::spawn(move || {
                reports.record_sent(0, Set8::of(PRIORITY), Instant(10));
                reports.record_sent(1, Set8::of(PRIORITY), Instant(20));
            })
        };
        let (mut frames, mut paused) = ([0; 2], [0; 2]);
        let mut take = |reports: &GuardReports| {
            reports.take(|port, taken, at| {
                frames[port] += taken.frames;
                paused[port] += taken.xoff_frames[PRIORITY];
                assert_eq!(at, Instant([10, 20][port]), "the time of its frame");
            });
        };
        take(&reports);
        guard.join().unwrap();
        take(&reports);
        assert_eq!((frames, paused), ([1; 2], [1; 2]));
    });
}

/// A loop sleeps twice. When the guard reads that it sleeps, it also reads the deadline of that
/// sleep, or of the next one.
#[test]
fn a_sleep_is_seen_with_its_deadline() {
    crate::check(None, || {
        let heartbeat = Arc::new(Heartbeat::default());
        heartbeat.beat(Instant(1));
        let of_loop = {
            let heartbeat = Arc::clone(&heartbeat);
            thread::spawn(move || {
                heartbeat.sleep(Instant(10));
                heartbeat.beat(Instant(11));
                heartbeat.sleep(Instant(20));
            })
        };
        let mut earliest = 10;
        for _ in 0..2 {
            match heartbeat.state() {
                LoopState::Awake(Instant(1)) => {}
                LoopState::Awake(Instant(11)) => earliest = 20,
                LoopState::Asleep { refresh_at: Instant(at), .. } => assert!(at == earliest || at == 20),
                other => panic!("{other:?}"),
            }
        }
        of_loop.join().unwrap();
        assert_eq!(heartbeat.state(), LoopState::Asleep { refresh_at: Instant(20), turns: 0 });
    });
}
