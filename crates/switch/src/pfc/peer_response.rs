//! What a peer does after XOFF, and so when XOFF is sent to it beyond the refreshes that the pause
//! time asks for.
//!
//! Rule: a frame counts as sent in spite of XOFF only if it arrived for certain after the XOFF had
//! left and the response time ([`PortSettings::response_ns`]) had passed: the RX rings of its port
//! had been empty after that. What may have waited there says nothing, however late the loop takes
//! it, and neither does a frame that may have arrived when the pause had ended by itself.
//! - A peer that goes on may not have received XOFF, or is slow to react. XOFF is repeated, and the
//!   time that the next repeat waits for is doubled, until it is that of the refresh: the number of
//!   repeats is bounded. With the first XON after ten seconds without a repeat the time is as
//!   before.
//! - A peer that was silent and then goes on for a while counts quanta faster than assumed. After
//!   [`MIN_EARLY_ENDS`] pauses that ended alike in this way, less those that did not, XOFF is
//!   refreshed after half of the time that they lasted. This is kept until the first XON after ten
//!   seconds.
//!
//! Nothing here is passed to another port, or to the guard. Source: docs/behavior.md, "PFC sent".
//!
//! [`PortSettings::response_ns`]: crate::settings::PortSettings::response_ns

use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

/// Pauses that must have ended early, and alike, until the refresh is shortened.
const MIN_EARLY_ENDS: u8 = 3;
/// How long what was learned is kept.
pub(crate) const ADAPTATION_LIFETIME_NS: Nanos = 10_000_000_000;
/// Lower bound of the refresh, however fast a peer counts quanta.
pub(crate) const SHORTEST_REFRESH_NS: Nanos = 50_000;

/// What is assumed of a peer before its response is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedResponse {
    /// Time after an XOFF in which frames may still arrive.
    pub response_ns: Nanos,
    /// Interval of the refresh of XOFF: a third of the pause time.
    pub refresh_ns: Nanos,
}

/// The response of one peer.
#[derive(Debug, Serialize, Deserialize)]
pub struct XoffResponse {
    expected: ExpectedResponse,
    /// Earliest and latest time at which the last XOFF can have left; the latter is
    /// [`Instant::NEVER`] if it has not left yet, or the peer is not paused.
    sent_at: Instant,
    left_at: Instant,
    /// Latest time at which the last frame of a paused priority can have arrived.
    frame_at: Instant,
    /// When the peer first sent again in this pause, and how long it had been silent before: at
    /// least, and at most.
    resumed: Option<(Instant, [Nanos; 2])>,
    /// True if the early end of this pause has been counted.
    is_counted: bool,
    /// True if the pause before ended early.
    is_suspect: bool,
    early_ends: u8,
    /// The shortest and the longest of the pauses counted in `early_ends`.
    lasted_ns: [Nanos; 2],
    refresh_ns: Nanos,
    adapted_at: Instant,
    /// Time after XOFF in which a frame causes no repeat.
    repeat_after_ns: Nanos,
    repeated_at: Instant,
    /// True if the XOFF that is sent next is a repeat.
    is_repeat: bool,
}

impl XoffResponse {
    /// Makes the state of a peer that has not been paused yet.
    pub fn new(expected: ExpectedResponse) -> Self {
        Self {
            expected,
            sent_at: Instant::default(),
            left_at: Instant::NEVER,
            frame_at: Instant::default(),
            resumed: None,
            is_counted: false,
            is_suspect: false,
            early_ends: 0,
            lasted_ns: [0; 2],
            refresh_ns: expected.refresh_ns,
            adapted_at: Instant::default(),
            repeat_after_ns: expected.response_ns,
            repeated_at: Instant::default(),
            is_repeat: false,
        }
    }

    /// Returns the interval of the refresh.
    #[inline]
    pub fn refresh_ns(&self) -> Nanos {
        self.refresh_ns
    }

    /// Records an XOFF that is sent at `now`.
    pub fn sent(&mut self, now: Instant) {
        self.end_pause(now);
        (self.sent_at, self.left_at) = (now, Instant::NEVER);
        if std::mem::take(&mut self.is_repeat) {
            self.repeat_after_ns = self.repeat_after_ns.saturating_mul(2);
            self.repeated_at = now;
        }
    }

    /// Records that the XOFF had left by `at`.
    pub fn left(&mut self, at: Instant) {
        self.left_at = at;
    }

    /// Records that no priority is paused any more.
    pub fn released(&mut self, now: Instant) {
        self.end_pause(now);
        (self.left_at, self.is_repeat) = (Instant::NEVER, false);
        if now.since(self.adapted_at) >= ADAPTATION_LIFETIME_NS {
            self.refresh_ns = self.expected.refresh_ns;
        }
        if now.since(self.repeated_at) >= ADAPTATION_LIFETIME_NS {
            self.repeat_after_ns = self.expected.response_ns;
        }
    }

    /// A pause ends, or starts again, and is compared with those that ended early.
    fn end_pause(&mut self, now: Instant) {
        let is_honored = self.resumed.is_none() && now.since(self.sent_at) > self.lasted_ns[1];
        if is_honored && self.left_at != Instant::NEVER {
            self.early_ends = self.early_ends.saturating_sub(1);
        }
        self.is_suspect = self.resumed.is_some() || self.early_ends > 0;
        (self.resumed, self.is_counted) = (None, false);
    }

    /// Records a frame of a paused priority, which arrived between `after`, when the RX rings were
    /// empty, and `by`. Returns true if XOFF must be repeated.
    pub fn on_frame(&mut self, after: Instant, by: Instant) -> bool {
        let ExpectedResponse { response_ns, refresh_ns } = self.expected;
        let silent_since = self.frame_at.max(self.left_at);
        let silence_ns = [after, by].map(|at| at.since(silent_since));
        self.frame_at = by;
        let is_due = self.left_at != Instant::NEVER && after.since(self.left_at) > response_ns;
        if !is_due || by.since(self.sent_at) >= refresh_ns.saturating_mul(3) {
            return false;
        }
        match self.resumed {
            None if silence_ns[0] > response_ns / 2 => self.resumed = Some((by, silence_ns)),
            Some((at, [least_ns, most_ns])) if !self.is_counted && after.since(at) >= response_ns / 2 => {
                self.is_counted = true;
                // A loop that slept does not know how long the pause lasted.
                if most_ns <= 2 * least_ns {
                    self.count_early_end(least_ns, by);
                }
            }
            _ => {}
        }
        let is_patient = by.since(self.sent_at) <= self.repeat_after_ns || self.repeat_after_ns >= refresh_ns;
        self.is_repeat |= !is_patient;
        !is_patient
    }

    fn count_early_end(&mut self, lasted_ns: Nanos, now: Instant) {
        let [shortest_ns, longest_ns] = self.lasted_ns;
        if self.early_ends == 0 || lasted_ns > 2 * shortest_ns || longest_ns > 2 * lasted_ns {
            (self.early_ends, self.lasted_ns) = (0, [lasted_ns; 2]);
        }
        self.lasted_ns = [self.lasted_ns[0].min(lasted_ns), self.lasted_ns[1].max(lasted_ns)];
        self.early_ends += 1;
        if self.early_ends >= MIN_EARLY_ENDS {
            self.refresh_ns = self.refresh_ns.min(self.lasted_ns[1] / 2).max(SHORTEST_REFRESH_NS);
            (self.adapted_at, self.early_ends) = (now, 0);
        }
    }

    /// Returns when the RX rings must be looked at, so that a frame that arrives later is known to;
    /// [`Instant::NEVER`] if they need not be. A peer that ended a pause early is watched closely.
    pub fn rx_ring_check_at(&self, now: Instant) -> Instant {
        let first = self.left_at + self.expected.response_ns + 1;
        if first > now {
            first
        } else if self.is_suspect || self.resumed.is_some() {
            now + self.expected.response_ns.max(SHORTEST_REFRESH_NS)
        } else {
            Instant::NEVER
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Nanos = 1000;
    /// 65535 quanta at 10 Gbit/s.
    const EXPECTED: ExpectedResponse = ExpectedResponse { response_ns: 300 * US, refresh_ns: 1_118 * US };

    fn at(us: u64) -> Instant {
        Instant(1_000_000_000 + us * US)
    }

    /// A peer that reacts after `reaction_us` and reads the pause as `pause_us` long, with a frame
    /// each 80 µs. The loop looks each 10 µs and sends XOFF as `response` asks for it, until
    /// `end_us`. Returns the times of the XOFF, and the frames that came.
    fn sends(response: &mut XoffResponse, reaction_us: u64, pause_us: u64, end_us: u64) -> (Vec<u64>, u64) {
        let (mut xoff, mut frames, mut next_us) = (Vec::new(), 0, 0);
        let mut is_due = true;
        for us in (0..end_us).step_by(10) {
            let last = xoff.last().copied();
            if is_due || last.is_some_and(|last| at(us).since(at(last)) >= response.refresh_ns()) {
                response.sent(at(us));
                response.left(at(us));
                xoff.push(us);
                is_due = false;
            }
            let in_force = xoff.iter().rev().find(|&&sent| sent + reaction_us <= us);
            let is_paused = in_force.is_some_and(|sent| us < sent + reaction_us + pause_us);
            if us >= next_us && !is_paused {
                next_us = us + 80;
                frames += 1;
                is_due |= response.on_frame(at(us.saturating_sub(10)), at(us));
            }
        }
        (xoff, frames)
    }

    #[test]
    fn a_peer_that_honors_xoff_is_sent_the_refreshes() {
        for reaction_us in [0, 50, 280] {
            let mut response = XoffResponse::new(EXPECTED);
            let (xoff, _) = sends(&mut response, reaction_us, 3_355, 20_000);
            assert_eq!(xoff.len(), 1 + 20_000 / 1_120, "{reaction_us}: {xoff:?}");
        }
    }

    /// A repeat after 300 µs, one 600 µs after that, and then the refreshes alone.
    #[test]
    fn a_peer_that_never_honors_xoff_is_sent_a_bounded_number_of_repeats() {
        let mut response = XoffResponse::new(EXPECTED);
        let (xoff, _) = sends(&mut response, 1_000_000, 0, 50_000);
        assert_eq!(xoff.len(), 1 + 2 + (50_000 - 960) / 1_120, "{xoff:?}");
        assert_eq!(response.refresh_ns(), EXPECTED.refresh_ns);
        for (released_us, frames) in [(9_000_000, 1), (10_100_000, 3)] {
            response.released(at(released_us));
            let (xoff, _) = sends(&mut response, 1_000_000, 0, 1_000);
            assert_eq!(xoff.len(), frames, "after {released_us} µs: {xoff:?}");
        }
    }

    /// Pauses of 335 and 839 µs: links of 100 and 40 Gbit/s. Reacting slowly hides nothing.
    #[test]
    fn a_peer_that_counts_faster_is_noticed() {
        for (pause_us, reaction_us) in [(335, 0), (335, 250), (839, 0), (839, 100), (335, 500)] {
            let mut response = XoffResponse::new(EXPECTED);
            sends(&mut response, 5_000, 0, 4_000); // preempted, it does not react at all
            assert_eq!(response.refresh_ns(), EXPECTED.refresh_ns);
            response.released(at(4_000));
            let (xoff, _) = sends(&mut response, reaction_us, pause_us, 20_000);
            let refresh_us = response.refresh_ns() / US;
            assert!(
                (pause_us / 3..=(pause_us + 80) / 2).contains(&refresh_us),
                "{pause_us}, {reaction_us}: {refresh_us}, {xoff:?}"
            );
            let (_, frames) = sends(&mut response, reaction_us, pause_us, 20_000);
            assert!(frames <= reaction_us / 80 + 1, "{pause_us}, {reaction_us}: {frames}");
        }
    }

    /// An XOFF at `start_us`, and a peer that was silent for as long as given and then goes on.
    fn pause_that_ends_early(response: &mut XoffResponse, start_us: u64, lasted_us: u64) {
        response.sent(at(start_us));
        response.left(at(start_us));
        for us in [lasted_us, lasted_us + 150] {
            response.on_frame(at(start_us + us), at(start_us + us));
        }
    }

    /// Half of the response time is 150 µs: the peer must have been silent for longer, and then it
    /// must go on for as long, to count as one that ended its pause. It counts once.
    #[test]
    fn a_pause_counts_as_ended_after_a_silence_and_frames_that_follow() {
        let mut response = XoffResponse::new(EXPECTED);
        response.sent(at(0));
        response.left(at(0));
        for (us, has_resumed, early_ends) in
            [(200, false, 0), (350, false, 0), (501, true, 0), (650, true, 0), (651, true, 1), (660, true, 1)]
        {
            response.on_frame(at(us), at(us));
            assert_eq!((response.resumed.is_some(), response.early_ends), (has_resumed, early_ends), "{us}");
        }
    }

    /// Pauses of which one lasted more than twice as long as another are not alike: the count
    /// starts again with the last.
    #[test]
    fn only_pauses_that_ended_alike_count_together() {
        for (lasted_us, counted) in [([400, 800], 2), ([400, 801], 1), ([800, 400], 2), ([801, 400], 1)] {
            let mut response = XoffResponse::new(EXPECTED);
            pause_that_ends_early(&mut response, 0, lasted_us[0]);
            pause_that_ends_early(&mut response, 2_000, lasted_us[1]);
            assert_eq!(response.early_ends, counted, "{lasted_us:?}");
            assert_eq!(response.refresh_ns(), EXPECTED.refresh_ns, "{lasted_us:?}");
        }
    }

    /// A pause that outlasted those which ended early counts against them; one that was not longer,
    /// or whose XOFF never left, says nothing.
    #[test]
    fn a_longer_pause_that_was_honored_counts_against_early_ends() {
        for (has_left, lasted_us, counted) in [(true, 401, 0), (true, 400, 1), (false, 401, 1)] {
            let mut response = XoffResponse::new(EXPECTED);
            pause_that_ends_early(&mut response, 0, 400);
            response.sent(at(2_000));
            if has_left {
                response.left(at(2_000));
            }
            response.sent(at(2_000 + lasted_us));
            assert_eq!(response.early_ends, counted, "{has_left}, {lasted_us} µs");
        }
    }

    /// Half of the longest of three pauses, until the first XON after ten seconds.
    #[test]
    fn the_refresh_is_shorter_for_ten_seconds() {
        let mut response = XoffResponse::new(EXPECTED);
        for (start_us, lasted_us) in [(0, 400), (2_000, 600), (4_000, 500)] {
            assert_eq!(response.refresh_ns(), EXPECTED.refresh_ns);
            pause_that_ends_early(&mut response, start_us, lasted_us);
        }
        let adapted_us = 4_000 + 500 + 150;
        assert_eq!(response.refresh_ns(), 300 * US);
        response.released(at(adapted_us + 9_999_999));
        assert_eq!(response.refresh_ns(), 300 * US);
        response.released(at(adapted_us + 10_000_000));
        assert_eq!(response.refresh_ns(), EXPECTED.refresh_ns);
    }

    /// The next repeat waits for 600 µs, however many frames asked for the first.
    #[test]
    fn each_repeat_waits_twice_as_long_as_the_one_before() {
        let mut response = XoffResponse::new(EXPECTED);
        response.sent(at(0));
        response.left(at(0));
        assert!([310, 320].into_iter().all(|us| response.on_frame(at(us), at(us))));
        response.sent(at(330));
        response.left(at(330));
        for (us, is_due) in [(310, false), (600, false), (601, true)] {
            assert_eq!(response.on_frame(at(330 + us), at(330 + us)), is_due, "{us} µs after the repeat");
        }
    }

    /// A peer that went on in the pause before may end the next one early, too; so may one that
    /// ended one before.
    #[test]
    fn the_rings_of_a_suspect_peer_are_looked_at_again_and_again() {
        let mut response = XoffResponse::new(EXPECTED);
        let mut pause_with_frames_at = |start_us: u64, frames_us: &[u64]| {
            response.sent(at(start_us));
            response.left(at(start_us));
            let checked_at = response.rx_ring_check_at(at(start_us + 1_000));
            for us in frames_us {
                response.on_frame(at(start_us + us), at(start_us + us));
            }
            checked_at
        };
        assert_eq!(pause_with_frames_at(0, &[400]), Instant::NEVER);
        assert_eq!(pause_with_frames_at(2_000, &[]), at(3_300), "it went on, but too briefly to count");
        assert_eq!(pause_with_frames_at(4_000, &[400, 550]), Instant::NEVER, "it was silent");
        assert_eq!(pause_with_frames_at(6_000, &[]), at(7_300));
        assert_eq!(pause_with_frames_at(6_400, &[]), at(7_700), "silent, as long as the one before");
        assert_eq!(pause_with_frames_at(8_000, &[]), Instant::NEVER, "silent for longer");
    }

    /// Frames of before XOFF wait in the ring for 5 ms; the loop takes one each 10 µs.
    #[test]
    fn frames_that_waited_in_the_ring_are_not_counted() {
        let mut response = XoffResponse::new(EXPECTED);
        response.sent(at(0));
        response.left(at(10));
        for us in (20..5_000).step_by(10) {
            assert!(!response.on_frame(at(0), at(us)), "{us}");
        }
        assert_eq!(response.refresh_ns(), EXPECTED.refresh_ns);
    }

    /// The loop slept from 100 µs on, and was woken by the frame.
    #[test]
    fn the_first_frame_after_a_sleep_is_not_counted() {
        let mut response = XoffResponse::new(EXPECTED);
        response.sent(at(0));
        response.left(at(10));
        assert!(!response.on_frame(at(100), at(2_000)));
        assert!(response.on_frame(at(2_010), at(2_020)), "the next does");
    }

    /// XOFF was not refreshed for the whole pause, so the peer may send.
    #[test]
    fn a_frame_after_the_pause_is_no_sign_of_anything() {
        let mut response = XoffResponse::new(EXPECTED);
        response.sent(at(0));
        response.left(at(10));
        assert!(!response.on_frame(at(3_300), at(3_355)));
    }

    /// A loop with nothing to do looks once per XOFF, or again and again at a peer that is suspect.
    #[test]
    fn the_rings_are_looked_at_after_each_xoff() {
        let mut response = XoffResponse::new(EXPECTED);
        assert_eq!(response.rx_ring_check_at(at(0)), Instant::NEVER);
        response.sent(at(0));
        assert_eq!(response.rx_ring_check_at(at(0)), Instant::NEVER, "it has not left");
        response.left(at(10));
        assert_eq!(response.rx_ring_check_at(at(20)), at(310) + 1);
        assert_eq!(response.rx_ring_check_at(at(310) + 1), Instant::NEVER);
        response.on_frame(at(600), at(610));
        assert_eq!(response.rx_ring_check_at(at(611)), at(911));
    }
}
