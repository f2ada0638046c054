//! Received PFC: which priorities of a port the peer has paused, and until when.
//!
//! Rule: a non-zero time for a no-drop priority stops its queue until the time ends or time 0 (XON)
//! arrives; a new time replaces the old one. Priorities whose class-enable bit is zero, lossy
//! priorities, and all priorities while reception is disabled are not affected, but are counted.
//!
//! ```text
//!            time ≠ 0                       time ≠ 0: new end
//!   Free ───────────────▶ Paused until t ──┐
//!     ▲                      │      ▲──────┘
//!     └──────────────────────┘
//!        time 0, or t has come
//! ```
//! Source: IEEE 802.1Q-2022 36.1.3.3 (PFC receive); 802.3-2022 annex 31B: a quantum is 512 bit
//! times.

use crate::monitor::counters::PfcCount;
use crate::settings::PRIORITIES;
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};
use wire::bitset::Set8;
use wire::pause::Pfc;

/// Returns the duration of `quanta` quanta of 512 bit times at `speed_bps`, in nanoseconds, rounded
/// up.
pub fn quanta_ns(quanta: u16, speed_bps: u64) -> Nanos {
    let bits = u64::from(quanta) * 512;
    (u128::from(bits) * 1_000_000_000).div_ceil(u128::from(speed_bps)) as Nanos
}

/// Between which times a PFC frame arrived.
#[derive(Debug, Clone, Copy)]
pub struct ArrivalTimes {
    /// When the loop last served the port before.
    pub last_served: Instant,
    /// Start of the iteration that reads the frame.
    pub now: Instant,
    /// Time at which its batch had been taken: the latest at which it can have arrived.
    pub taken_at: Instant,
}

impl ArrivalTimes {
    /// Returns the times of a frame that is read as soon as it arrives.
    pub fn exact(now: Instant) -> Self {
        Self { last_served: now, now, taken_at: now }
    }
}

/// Pauses that a port's peer has requested.
#[derive(Debug, Serialize, Deserialize)]
#[repr(C)]
pub struct PfcRxState {
    /// Earliest `until` of the paused priorities.
    next_end: Instant,
    /// Priorities that are paused.
    paused: Set8,
    /// Priorities whose pauses are honored: no-drop, and reception enabled.
    honored: Set8,
    speed_bps: u64,
    until: [Instant; PRIORITIES],
    since: [Instant; PRIORITIES],
    /// Time at which the last pause ended by itself.
    expired_at: [Instant; PRIORITIES],
    /// Time at which the last XOFF arrived, honored or not.
    last_xoff_at: [Instant; PRIORITIES],
    episodes: [u64; PRIORITIES],
    paused_ns: [Nanos; PRIORITIES],
    count: PfcCount,
}

impl PfcRxState {
    /// Makes the state without pauses. `honored` priorities may be paused, quanta are counted at
    /// `speed_bps`.
    pub fn new(honored: Set8, speed_bps: u64) -> Self {
        Self {
            honored,
            speed_bps,
            paused: Set8::EMPTY,
            until: [Instant::NEVER; PRIORITIES],
            next_end: Instant::NEVER,
            since: [Instant::default(); PRIORITIES],
            expired_at: [Instant::default(); PRIORITIES],
            last_xoff_at: [Instant::default(); PRIORITIES],
            episodes: [0; PRIORITIES],
            paused_ns: [0; PRIORITIES],
            count: PfcCount::default(),
        }
    }

    /// Applies a PFC frame that is read as soon as it arrives.
    pub fn apply(&mut self, pfc: &Pfc, now: Instant) {
        self.apply_late(pfc, ArrivalTimes::exact(now));
    }

    /// Applies a PFC frame that may be read late. Where a pause ran out since the loop last served
    /// the port, a new time continues it, however late it is read: no frame left in between. The
    /// new time counts from the latest instant at which the frame can have arrived.
    pub fn apply_late(&mut self, pfc: &Pfc, arrived: ArrivalTimes) {
        let ArrivalTimes { last_served: iterated, now, taken_at } = arrived;
        self.expire(now);
        self.count.frames += 1;
        for p in Set8::from_bits(pfc.enable) {
            let quanta = pfc.quanta[p];
            let counter = if quanta == 0 { &mut self.count.xon_frames } else { &mut self.count.xoff_frames };
            counter[p] += 1;
            if quanta != 0 {
                self.last_xoff_at[p] = now;
            }
            if !self.honored.contains(p) {
                continue;
            }
            if quanta == 0 {
                self.end(p, now);
                self.expired_at[p] = Instant::default();
            } else {
                if !self.paused.contains(p) {
                    self.paused.set(p, true);
                    if self.expired_at[p] > iterated {
                        self.paused_ns[p] -= self.expired_at[p].since(self.since[p]);
                    } else {
                        self.since[p] = now;
                        self.episodes[p] += 1;
                    }
                }
                self.until[p] = taken_at + quanta_ns(quanta, self.speed_bps);
            }
        }
        self.find_next_end();
    }

    /// Returns the priorities that are paused now.
    #[inline]
    pub fn paused(&mut self, now: Instant) -> Set8 {
        if self.next_end <= now {
            self.expire(now);
        }
        self.paused
    }

    /// Returns since when a priority has been paused without a break; `None` if it is not paused
    /// now.
    pub fn paused_since(&mut self, priority: usize, now: Instant) -> Option<Instant> {
        self.paused(now).contains(priority).then_some(self.since[priority])
    }

    /// Returns when the last XOFF for a priority arrived.
    pub fn last_xoff_at(&self, priority: usize) -> Instant {
        self.last_xoff_at[priority]
    }

    /// Returns when the next pause ends by itself; [`Instant::NEVER`] if there is none.
    pub fn next_end(&self) -> Instant {
        self.next_end
    }

    /// Sets other honored priorities, or another speed. Pauses of priorities no longer honored end.
    pub fn reconfigure(&mut self, honored: Set8, speed_bps: u64, now: Instant) {
        self.expire(now); // pauses that ran out ended at their own time
        for p in Set8::ALL.without(honored) {
            self.end(p, now);
        }
        (self.honored, self.speed_bps) = (honored, speed_bps);
        self.find_next_end();
    }

    /// Ends the pause of one priority, as XON does.
    pub fn release(&mut self, priority: usize, now: Instant) {
        self.expire(now);
        self.end(priority, now);
        self.expired_at[priority] = Instant::default();
        self.find_next_end();
    }

    /// Ends all pauses, as when the port goes down.
    pub fn clear(&mut self, now: Instant) {
        self.expire(now);
        for p in 0..PRIORITIES {
            self.end(p, now);
        }
        self.expired_at = [Instant::default(); PRIORITIES];
        self.find_next_end();
    }

    /// Returns the PFC frames received.
    pub fn count(&self) -> PfcCount {
        self.count
    }

    /// Returns the pauses begun, and the nanoseconds spent paused, by priority.
    pub fn history(&self, now: Instant) -> ([u64; PRIORITIES], [Nanos; PRIORITIES]) {
        let spent = std::array::from_fn(|p| {
            let running =
                if self.paused.contains(p) { now.min(self.until[p]).since(self.since[p]) } else { 0 };
            self.paused_ns[p] + running
        });
        (self.episodes, spent)
    }

    fn expire(&mut self, now: Instant) {
        for p in 0..PRIORITIES {
            if self.until[p] <= now {
                self.expired_at[p] = self.until[p];
                self.end(p, self.until[p]);
            }
        }
        self.find_next_end();
    }

    fn end(&mut self, p: usize, at: Instant) {
        if self.paused.contains(p) {
            self.paused.set(p, false);
            self.paused_ns[p] += at.since(self.since[p]);
            self.until[p] = Instant::NEVER;
        }
    }

    fn find_next_end(&mut self) {
        self.next_end = self.until.into_iter().min().unwrap_or(Instant::NEVER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEED: u64 = 10_000_000_000;

    fn pfc(enable: u8, quanta: u16) -> Pfc {
        Pfc { enable, quanta: [quanta; 8] }
    }

    fn late(iterated: u64, now: u64) -> ArrivalTimes {
        ArrivalTimes { last_served: Instant(iterated), ..ArrivalTimes::exact(Instant(now)) }
    }

    /// The table of docs/behavior.md, "PFC received".
    #[test]
    fn the_longest_pause_by_speed() {
        for (gigabit, ns) in [(1, 33_553_920), (10, 3_355_392), (25, 1_342_157), (100, 335_540)] {
            assert_eq!(quanta_ns(65_535, gigabit * 1_000_000_000), ns, "{gigabit}G");
        }
    }

    /// Each state against each input: (paused before, quanta) → paused after.
    #[test]
    fn every_state_answers_every_input() {
        for (before, quanta, after) in [(0, 100, true), (0, 0, false), (100, 100, true), (100, 0, false)] {
            let mut pauses = PfcRxState::new(Set8::of(3), SPEED);
            pauses.apply(&pfc(1 << 3, before), Instant(0));
            pauses.apply(&pfc(1 << 3, quanta), Instant(10));
            assert_eq!(!pauses.paused(Instant(11)).is_empty(), after, "{before} then {quanta}");
        }
    }

    #[test]
    fn ends_to_the_nanosecond_and_a_refresh_prolongs() {
        let mut pauses = PfcRxState::new(Set8::of(3), SPEED);
        pauses.apply(&pfc(1 << 3, 100), Instant(0)); // 100 quanta: 5120 ns
        assert_eq!((pauses.paused(Instant(5119)), pauses.next_end()), (Set8::of(3), Instant(5120)));
        pauses.apply(&pfc(1 << 3, 100), Instant(5000));
        assert_eq!((pauses.paused(Instant(10_119)).bits(), pauses.paused(Instant(10_120)).bits()), (8, 0));
        assert_eq!(pauses.next_end(), Instant::NEVER);
        assert_eq!(
            pauses.history(Instant(20_000)),
            ([0, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 10_120, 0, 0, 0, 0])
        );
    }

    /// A pause that ran out keeps its real duration, whatever arrives before its end is noticed.
    #[test]
    fn a_pause_that_ended_by_itself_is_no_longer_for_being_looked_at_late() {
        let late = Instant(1_000_000);
        let ways: [fn(&mut PfcRxState, Instant); 4] = [
            |pauses, now| _ = pauses.paused(now),
            |pauses, now| pauses.clear(now),
            |pauses, now| pauses.reconfigure(Set8::EMPTY, SPEED, now),
            |pauses, now| pauses.apply(&pfc(1 << 3, 0), now),
        ];
        for (number, way) in ways.into_iter().enumerate() {
            let mut pauses = PfcRxState::new(Set8::of(3), SPEED);
            pauses.apply(&pfc(1 << 3, 100), Instant(0));
            way(&mut pauses, late);
            assert_eq!(pauses.history(late).1[3], 5120, "way {number}");
        }
    }

    /// The loop served the port at 1000 and is late; the refresh is read at 9000. XON, or a port
    /// that went down, ends the pause for good.
    #[test]
    fn a_refresh_that_is_read_late_continues_its_pause() {
        type End = fn(&mut PfcRxState);
        let ends: [(End, u64); 4] = [
            (|_| (), 1),
            (|pauses| _ = pauses.paused(Instant(8000)), 1),
            (|pauses| pauses.apply_late(&pfc(1 << 3, 0), late(1000, 2000)), 2),
            (|pauses| pauses.clear(Instant(2000)), 2),
        ];
        for (number, (end, episodes)) in ends.into_iter().enumerate() {
            let mut pauses = PfcRxState::new(Set8::of(3), SPEED);
            pauses.apply(&pfc(1 << 3, 100), Instant(0)); // until 5120
            end(&mut pauses);
            pauses.apply_late(&pfc(1 << 3, 100), late(1000, 9000));
            assert_eq!(pauses.history(Instant(10_000)).0[3], episodes, "way {number}");
            let since = if episodes == 1 { 0 } else { 9000 };
            assert_eq!(pauses.paused_since(3, Instant(10_000)), Some(Instant(since)), "way {number}");
            let earlier = if episodes == 1 { 0 } else { 2000 };
            assert_eq!(pauses.history(Instant(10_000)).1[3], 10_000 - since + earlier, "way {number}");
        }
        // The port was served at 6000 and had no pause then.
        let mut pauses = PfcRxState::new(Set8::of(3), SPEED);
        pauses.apply(&pfc(1 << 3, 100), Instant(0));
        pauses.apply_late(&pfc(1 << 3, 100), late(6000, 9000));
        assert_eq!(pauses.history(Instant(10_000)).0[3], 2);
    }

    #[test]
    fn zero_enable_bits_lossy_priorities_and_disabled_reception_change_nothing_but_count() {
        for (honored, enable) in [(1 << 3, 0), (1 << 3, !(1 << 3)), (0, 0xff)] {
            let mut pauses = PfcRxState::new(Set8::from_bits(honored), SPEED);
            pauses.apply(&pfc(enable, 1000), Instant(0));
            assert_eq!(pauses.paused(Instant(1)), Set8::EMPTY, "honored {honored:08b}, enable {enable:08b}");
            let xoff: u64 = pauses.count().xoff_frames.iter().sum();
            assert_eq!((pauses.count().frames, xoff), (1, u64::from(enable.count_ones())));
        }
    }

    #[test]
    fn quanta_last_512_bit_times() {
        for (quanta, speed_bps, ns) in [
            (1, 1_000_000_000, 512),
            (1, 10_000_000_000, 52), // 51.2, rounded up
            (65_535, 1_000_000_000, 33_553_920),
            (65_535, 10_000_000_000, 3_355_392),
            (65_535, 100_000_000_000, 335_540),
            (65_535, 1, 33_553_920_000_000_000),
            (0, 1_000_000_000, 0),
        ] {
            assert_eq!(quanta_ns(quanta, speed_bps), ns, "{quanta} quanta at {speed_bps} bit/s");
        }
    }
}
