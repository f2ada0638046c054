//! The state machine alone: its transition table, its times, storms that must be found, and
//! conditions that are no storm.

use super::*;
use crate::settings::StormLimit;
use wire::random::Random;

const MS: Nanos = 1_000_000;

fn settings(detection_ms: u64, restore: Restoration) -> WatchdogSettings {
    WatchdogSettings { detection_ns: detection_ms * MS, action: PfcWdAction::Forward, restore, limit: None }
}

fn limited(count: u16) -> WatchdogSettings {
    let limit = Some(StormLimit { period_ns: 1000 * MS, count });
    WatchdogSettings { limit, ..settings(10, Restoration::After(200 * MS)) }
}

const FREE: PauseObservation =
    PauseObservation { paused_since: None, has_queued_frames: true, received_at: Instant(0) };
const EMPTY: PauseObservation =
    PauseObservation { paused_since: Some(Instant(0)), has_queued_frames: false, received_at: Instant(0) };
const STUCK: PauseObservation =
    PauseObservation { paused_since: Some(Instant(0)), has_queued_frames: true, received_at: Instant(0) };
/// Another pause, which began at 50 ms.
const AGAIN: PauseObservation = PauseObservation { paused_since: Some(Instant(50 * MS)), ..STUCK };

/// Input of a watchdog.
#[derive(Debug, Clone, Copy)]
enum Input {
    Look(PauseObservation, u64),
    Recover(PauseObservation),
    Lift(PauseObservation),
    /// Other settings, then a poll.
    Settings(Option<WatchdogSettings>),
}
use Input::{Lift, Look, Recover, Settings};

fn give(watch: &mut PriorityWatchdog, input: Input) -> Option<StormChange> {
    let now = Instant(60 * MS);
    match input {
        Look(seen, at) => watch.poll(seen, Instant(at)),
        Recover(seen) => watch.recover(seen, now),
        Lift(seen) => {
            watch.lift(seen, now);
            None
        }
        Settings(settings) => {
            watch.reconfigure(settings);
            watch.poll(STUCK, now)
        }
    }
}

/// The whole transition table, one row per line: state, input, state, reported change.
#[test]
fn every_state_answers_every_input() {
    use State::{Calm, Off};
    let of = limited(2);
    let (after, by_hand) = (settings(50, Restoration::After(200 * MS)), settings(50, Restoration::Manual));
    let stuck = |pause: u64, since: u64| State::Stuck { pause: Instant(pause), since: Instant(since) };
    let storm = |at: u64| State::Storm { began: Instant(at), interval: Instant(at) };
    let began = Some(StormChange::Began { stuck_ns: 50 * MS + 1 });
    let ended = Some(StormChange::Ended);
    let (at, late) = (50 * MS + 1, 260 * MS + 1);
    for (settings, from, input, to, reported) in [
        (after, Calm, Look(FREE, 1), Calm, None),
        (after, Calm, Look(EMPTY, 1), Calm, None),
        (after, Calm, Look(STUCK, 1), stuck(0, 1), None),
        (after, Calm, Recover(STUCK), Calm, None),
        (after, Calm, Lift(STUCK), Calm, None),
        (after, Calm, Settings(None), Calm, None),
        (after, stuck(0, 0), Look(STUCK, 50 * MS), stuck(0, 0), None),
        (after, stuck(0, 0), Look(FREE, 50 * MS), Calm, None),
        (after, stuck(0, 0), Look(EMPTY, 50 * MS), Calm, None),
        (after, stuck(0, 0), Look(AGAIN, at), stuck(50 * MS, at), None),
        (after, stuck(0, 0), Look(FREE, at), Calm, None),
        (after, stuck(0, 0), Look(STUCK, at), storm(at), began),
        (after, stuck(0, 0), Recover(STUCK), stuck(0, 0), None),
        (after, stuck(0, 0), Lift(STUCK), stuck(0, 0), None),
        (after, stuck(0, 0), Settings(None), Calm, None),
        (after, storm(60 * MS), Look(FREE, 260 * MS), storm(60 * MS), None),
        (after, storm(60 * MS), Look(STUCK, 260 * MS), storm(60 * MS), None),
        (after, storm(60 * MS), Look(FREE, late), Calm, ended),
        (after, storm(60 * MS), Look(EMPTY, late), Calm, ended),
        (after, storm(60 * MS), Look(STUCK, late), stuck(0, late), ended),
        (after, storm(60 * MS), Recover(STUCK), storm(60 * MS), None),
        (after, storm(60 * MS), Lift(STUCK), storm(60 * MS), None),
        (after, storm(60 * MS), Settings(None), Calm, ended),
        (by_hand, storm(60 * MS), Look(FREE, u64::MAX - 1), storm(60 * MS), None),
        (by_hand, storm(60 * MS), Recover(FREE), Calm, ended),
        (by_hand, storm(60 * MS), Recover(STUCK), stuck(0, 60 * MS), ended),
        (by_hand, storm(60 * MS), Settings(Some(after)), storm(60 * MS), None),
        (of, Off, Look(STUCK, u64::MAX - 1), Off, None),
        (of, Off, Look(FREE, u64::MAX - 1), Off, None),
        (of, Off, Recover(STUCK), Off, None),
        (of, Off, Lift(STUCK), stuck(0, 60 * MS), None),
        (of, Off, Lift(EMPTY), Calm, None),
        (of, Off, Settings(Some(limited(3))), Off, None),
        (of, Off, Settings(Some(after)), stuck(0, 60 * MS), None),
        (of, Off, Settings(None), Calm, None),
    ] {
        let mut watch = PriorityWatchdog::new(Some(settings));
        watch.state = from;
        assert_eq!(give(&mut watch, input), reported, "{from:?} on {input:?}");
        assert_eq!(watch.state, to, "{from:?} on {input:?}");
    }
}

#[test]
fn one_storm_too_many_turns_pfc_off() {
    let mut watch = PriorityWatchdog::new(Some(limited(3)));
    let mut now = Instant(0);
    let mut storm = |watch: &mut PriorityWatchdog, after_ms: u64| {
        now = now + after_ms * MS;
        watch.state = State::Stuck { pause: Instant(0), since: now };
        now = now + 10 * MS + 1;
        let change = watch.poll(STUCK, now);
        if watch.is_stormed() {
            watch.state = State::Calm;
        }
        change
    };
    let began = Some(StormChange::Began { stuck_ns: 10 * MS + 1 });
    assert_eq!([storm(&mut watch, 0), storm(&mut watch, 300)], [began, began]);
    assert_eq!(storm(&mut watch, 900), began, "the first was more than a second ago");
    let reached = Some(StormChange::LimitReached { stuck_ns: 10 * MS + 1, times: 3 });
    assert_eq!(storm(&mut watch, 50), reached, "as many as the limit says are enough");
    assert!(watch.is_off() && watch.action().is_none() && watch.deadline(Instant(0)) == Instant::NEVER);
    assert!(watch.lift(FREE, Instant(0)) && !watch.lift(FREE, Instant(0)));
    assert_eq!([storm(&mut watch, 1), storm(&mut watch, 1)], [began, began], "they are counted again");
}

/// A storm counts until it is longer ago than the period.
#[test]
fn a_storm_counts_for_the_whole_period() {
    let began = StormChange::Began { stuck_ns: 11 * MS };
    let reached = StormChange::LimitReached { stuck_ns: 11 * MS, times: 2 };
    for (after_ns, change) in [(1000 * MS, reached), (1000 * MS + 1, began)] {
        let mut watch = PriorityWatchdog::new(Some(limited(2)));
        assert_eq!(watch.storm(11 * MS, limited(2), Instant(5)), began);
        assert_eq!(watch.storm(11 * MS, limited(2), Instant(5) + after_ns), change, "{after_ns} ns later");
    }
}

/// Another limit counts from its first storm on; other settings leave the count as it is.
#[test]
fn only_another_limit_restarts_the_count_of_storms() {
    let slower = WatchdogSettings { detection_ns: 20 * MS, ..limited(2) };
    let began = StormChange::Began { stuck_ns: 21 * MS };
    let reached = StormChange::LimitReached { stuck_ns: 21 * MS, times: 2 };
    for (before, after, change) in [(limited(2), slower, reached), (limited(3), limited(2), began)] {
        let mut watch = PriorityWatchdog::new(Some(before));
        assert_eq!(watch.storm(21 * MS, before, Instant(0)), began);
        watch.reconfigure(Some(after));
        assert_eq!(watch.storm(21 * MS, after, Instant(MS)), change, "{before:?}, then {after:?}");
    }
}

/// Only of a calm priority that is watched and paused the owner must ask each iteration whether a
/// frame waits.
#[test]
fn which_priorities_are_polled_each_iteration() {
    let stuck = State::Stuck { pause: Instant(0), since: Instant(0) };
    let watched = Some(limited(2));
    for (settings, state, seen, needs_poll) in [
        (watched, State::Calm, EMPTY, true),
        (watched, State::Calm, FREE, false),
        (watched, stuck, STUCK, false),
        (watched, State::Off, EMPTY, false),
        (None, State::Calm, EMPTY, false),
    ] {
        let mut watch = PriorityWatchdog::new(settings);
        watch.state = state;
        assert_eq!(watch.needs_poll(seen), needs_poll, "{settings:?}, {state:?}, {seen:?}");
    }
}

/// A priority that is not watched any more is of interest until its storm has ended.
#[test]
fn a_storm_that_is_not_watched_any_more_is_still_on() {
    let mut watch = PriorityWatchdog::new(Some(limited(2)));
    watch.storm(11 * MS, limited(2), Instant(0));
    watch.reconfigure(None);
    assert_eq!((watch.is_watched(), watch.is_on()), (false, true));
    assert_eq!(watch.poll(STUCK, Instant(0)), Some(StormChange::Ended));
    assert_eq!((watch.is_watched(), watch.is_on()), (false, false));
}

/// A loop that stalled finds in one iteration that XOFF arrived and that an interval is over.
#[test]
fn an_xoff_that_a_late_owner_finds_counts_in_its_interval() {
    let mut watch = PriorityWatchdog::new(Some(settings(50, Restoration::QuietInterval)));
    watch.state = State::Storm { began: Instant(0), interval: Instant(0) };
    let seen = PauseObservation { received_at: Instant(60 * MS), ..FREE };
    for (now, change) in
        [(60 * MS, None), (100 * MS + 1, None), (150 * MS, None), (150 * MS + 1, Some(StormChange::Ended))]
    {
        assert_eq!(watch.poll(seen, Instant(now)), change, "at {now} ns");
    }
}

/// (restoration, XOFF came at) → restored at.
#[test]
fn each_way_to_be_restored() {
    for (restore, received_ms, restored_ns) in [
        (Restoration::After(700 * MS), &[100, 650][..], Some(700 * MS + 1)),
        (Restoration::QuietInterval, &[], Some(50 * MS + 1)),
        (Restoration::QuietInterval, &[0], Some(50 * MS + 1)),
        (Restoration::QuietInterval, &[1], Some(100 * MS + 1)),
        (Restoration::QuietInterval, &[1, 51], Some(150 * MS + 1)),
        (Restoration::QuietInterval, &[1, 101], Some(100 * MS + 1)),
        (Restoration::Quiet(400 * MS), &[], Some(400 * MS + 1)),
        (Restoration::Quiet(400 * MS), &[399], Some(799 * MS + 1)),
        (Restoration::Quiet(400 * MS), &[399, 799, 801], Some(1199 * MS + 1 + 2 * MS)),
        (Restoration::Manual, &[], None),
    ] {
        let mut watch = PriorityWatchdog::new(Some(settings(50, restore)));
        watch.state = State::Storm { began: Instant(0), interval: Instant(0) };
        let mut seen = FREE;
        let mut received = received_ms.iter().map(|ms| Instant(ms * MS)).peekable();
        let mut restored = None;
        while restored.is_none() {
            let deadline = watch.deadline(seen.received_at);
            let now = received.peek().map_or(deadline, |&at| at.min(deadline));
            if now == Instant::NEVER {
                break;
            }
            if let Some(at) = received.next_if(|&at| at <= deadline) {
                seen.received_at = at;
            }
            restored = watch.poll(seen, now).map(|_| now.0);
        }
        assert_eq!(restored, restored_ns, "{restore:?}, XOFF at {received_ms:?} ms");
    }
}

/// A thousand storms after some ordinary pauses, at both precisions and in Inspur's style, with an
/// owner that polls at random times, but never later than a tick. None is missed, and each is
/// found, and restored, in more than its time and no more than a tick.
#[test]
fn no_storm_is_missed() {
    for seed in 0..if cfg!(miri) { 10 } else { 1000 } {
        let mut random = Random::new(seed);
        let (tick, detection_ms) = match random.below(3) {
            0 => (10 * MS, 10 * (1 + random.below(15))),
            1 => (100 * MS, 100 * (1 + random.below(15))),
            _ => (10 * MS, 100 + random.below(4901)),
        };
        let restore_ns = 100 * MS * (2 + random.below(15));
        let mut watch = PriorityWatchdog::new(Some(settings(detection_ms, Restoration::After(restore_ns))));
        let mut now = Instant(random.below(1000 * MS));
        for _ in 0..random.below(20) {
            let pause = now;
            now = now + random.below(detection_ms * MS);
            let seen = PauseObservation {
                paused_since: Some(pause),
                has_queued_frames: random.below(4) > 0,
                received_at: pause,
            };
            assert_eq!(
                watch.poll(PauseObservation { has_queued_frames: seen.has_queued_frames, ..seen }, pause),
                None
            );
            assert_eq!(watch.poll(seen, now), None, "seed {seed}");
            assert_eq!(watch.poll(FREE, now), None);
        }
        // The storm: paused first, or frames first.
        let pause = now;
        if random.below(2) == 0 {
            assert_eq!(
                watch.poll(
                    PauseObservation {
                        paused_since: Some(pause),
                        has_queued_frames: false,
                        received_at: pause
                    },
                    now
                ),
                None
            );
            now = now + random.below(200 * MS);
        }
        let seen = PauseObservation { paused_since: Some(pause), has_queued_frames: true, received_at: now };
        let stuck = now;
        assert_eq!(watch.poll(seen, now), None);
        let mut until = |watch: &mut PriorityWatchdog, now: &mut Instant| {
            for _ in 0..1_000_000 {
                *now = *now + 1 + random.below(tick);
                if let Some(change) = watch.poll(PauseObservation { received_at: *now, ..seen }, *now) {
                    return change;
                }
            }
            panic!("seed {seed}: missed");
        };
        let found = until(&mut watch, &mut now);
        let took = now.since(stuck);
        assert_eq!(found, StormChange::Began { stuck_ns: took });
        assert!(detection_ms * MS < took && took <= detection_ms * MS + tick, "seed {seed}: {took} ns");
        let began = now;
        assert_eq!(until(&mut watch, &mut now), StormChange::Ended);
        let took = now.since(began);
        assert!(restore_ns < took && took <= restore_ns + tick, "seed {seed}: restored after {took} ns");
    }
}

/// An owner that polls at the deadline is not a nanosecond late.
#[test]
fn an_owner_that_keeps_the_deadline_finds_it_at_once() {
    let mut watch = PriorityWatchdog::new(Some(settings(50, Restoration::After(700 * MS))));
    assert_eq!(watch.poll(STUCK, Instant(7)), None);
    let deadline = watch.deadline(Instant(0));
    assert_eq!(deadline, Instant(50 * MS + 8));
    assert_eq!(watch.poll(STUCK, deadline - 1), None);
    assert_eq!(watch.poll(STUCK, deadline), Some(StormChange::Began { stuck_ns: 50 * MS + 1 }));
}

/// Ten million steps of priorities that are not stormed, however bad they look: pauses without
/// queued frames, for hours; pauses a nanosecond shorter than the detection time; pauses on and off
/// all the time, with a queue that drains frame by frame in between; polls at any time. No alarm.
#[test]
#[cfg_attr(miri, ignore = "statistics of hundreds of thousands of steps")]
fn progress_is_not_a_storm() {
    const STEPS: u64 = 10_000_000;
    let mut random = Random::new(2026);
    let mut steps = 0;
    while steps < STEPS {
        let detection_ns = MS * (10 + random.below(1500));
        let mut watch = PriorityWatchdog::new(Some(WatchdogSettings {
            detection_ns,
            ..settings(1, Restoration::Manual)
        }));
        let mut now = Instant(random.below(1 << 50));
        for _ in 0..1000 {
            let pause = now;
            let never_waits = random.below(4) == 0;
            // Duration: unlimited without frames, at most the detection time with them.
            let lasts = match random.below(4) {
                _ if never_waits => random.below(100 * detection_ns),
                0 => detection_ns,
                1 => detection_ns - random.below(1000),
                2 => random.below(detection_ns + 1),
                _ => random.below(1000),
            };
            let seen = PauseObservation {
                paused_since: Some(pause),
                has_queued_frames: !never_waits,
                received_at: pause,
            };
            let mut poll = |seen: PauseObservation, at: Instant| {
                steps += 1;
                assert_eq!(watch.poll(seen, at), None, "{detection_ns} ns, {seen:?} at {at:?}");
            };
            poll(seen, now);
            for _ in 0..random.below(8) {
                poll(PauseObservation { received_at: now, ..seen }, pause + random.below(lasts + 1));
            }
            now = pause + lasts;
            poll(seen, now);
            // It goes on: at once, by an end that was not observed, or after a while in which
            // frames leave.
            match random.below(3) {
                0 => now = now + 1,
                1 => poll(FREE, now),
                _ => {
                    poll(FREE, now);
                    now = now + random.below(detection_ns);
                    poll(PauseObservation { has_queued_frames: false, ..FREE }, now);
                }
            }
            now = now + random.below(2);
            if now == pause {
                now = now + 1;
            }
        }
    }
}
