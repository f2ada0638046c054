//! PFC reception state of one priority: when the host must not send its frames.
//!
//! Rule: a time other than 0 stops the priority `reaction_delay_ns` after it was read, until that
//! time has passed since it was read. A later time replaces it, longer or shorter. Time 0 ends the
//! pause at once. Source: docs/behavior.md, "PFC received"; IEEE 802.1Q-2022 clause 36 (802.1Qbb),
//! timers of 512 bit times; the delay is the time that a NIC needs to react (36.1.3.3).
//!
//! ```text
//!             XOFF                     stop_at passed
//!   Open ───────────────▶ Reacting ─────────────────────▶ Paused      XOFF renews `until` in both
//!    ▲                       │ XON, or until passed          │ XON, or until passed
//!    └───────────────────────┴───────────────────────────────┘
//! ```

use switch::{Instant, Nanos};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Reacting { stop_at: Instant, until: Instant },
    Paused { since: Instant, until: Instant },
}

/// The pause of one priority.
#[derive(Debug, Clone)]
pub struct PauseTimer {
    reaction_delay_ns: Nanos,
    state: State,
    paused_ns: Nanos,
}

impl PauseTimer {
    /// Returns an open priority that stops `reaction_delay_ns` after an XOFF was read.
    pub fn new(reaction_delay_ns: Nanos) -> Self {
        Self { reaction_delay_ns, state: State::Open, paused_ns: 0 }
    }

    /// Processes a time that was read at `now`: an XOFF of `time_ns`, or an XON if 0.
    pub fn receive(&mut self, time_ns: Nanos, now: Instant) {
        self.expire(now);
        if time_ns == 0 {
            self.end(now);
            return;
        }
        let until = now + time_ns;
        self.state = match self.state {
            State::Open => State::Reacting { stop_at: now + self.reaction_delay_ns, until },
            State::Reacting { stop_at, .. } => State::Reacting { stop_at, until },
            State::Paused { since, .. } => State::Paused { since, until },
        };
        self.expire(now);
    }

    /// Advances the time to `now`.
    pub fn expire(&mut self, now: Instant) {
        match self.state {
            // A pause that ends before the host reacts never begins.
            State::Reacting { stop_at, until } if until <= stop_at && now >= until => {
                self.state = State::Open
            }
            State::Reacting { stop_at, until } if now >= stop_at => {
                self.state = State::Paused { since: stop_at, until };
                self.expire(now);
            }
            State::Paused { until, .. } if now >= until => self.end(until),
            _ => {}
        }
    }

    /// Returns true if no frame of this priority may leave, as of the last `receive` or `expire`.
    pub fn is_paused(&self) -> bool {
        matches!(self.state, State::Paused { .. })
    }

    /// Returns when the current pause ends by itself.
    pub fn ends_at(&self) -> Option<Instant> {
        match self.state {
            State::Paused { until, .. } => Some(until),
            State::Open | State::Reacting { .. } => None,
        }
    }

    /// Returns the nanoseconds spent paused up to `now`.
    pub fn paused_ns(&self, now: Instant) -> Nanos {
        match self.state {
            State::Paused { since, until } => self.paused_ns + now.min(until).since(since),
            State::Open | State::Reacting { .. } => self.paused_ns,
        }
    }

    fn end(&mut self, at: Instant) {
        if let State::Paused { since, .. } = self.state {
            self.paused_ns += at.since(since);
        }
        self.state = State::Open;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Nanos = 10;

    fn timer(state: State) -> PauseTimer {
        PauseTimer { reaction_delay_ns: DELAY, state, paused_ns: 0 }
    }

    /// The whole transition table, one row per line. Every input arrives at 50.
    #[test]
    fn every_state_answers_every_input() {
        #[derive(Debug, Clone, Copy)]
        enum Input {
            Xoff(Nanos),
            Xon,
            Time,
        }
        use Input::{Time, Xoff, Xon};
        use State::{Open, Paused, Reacting};
        let at = Instant;
        let reacting = Reacting { stop_at: at(55), until: at(100) };
        let paused = Paused { since: at(40), until: at(100) };
        for (from, input, to, paused_ns) in [
            (Open, Xoff(30), Reacting { stop_at: at(60), until: at(80) }, 0),
            (Open, Xoff(5), Reacting { stop_at: at(60), until: at(55) }, 0),
            (Open, Xon, Open, 0),
            (Open, Time, Open, 0),
            // A refresh extends the end and not the delay.
            (reacting, Xoff(70), Reacting { stop_at: at(55), until: at(120) }, 0),
            (reacting, Xoff(2), Reacting { stop_at: at(55), until: at(52) }, 0),
            (reacting, Xon, Open, 0),
            (reacting, Time, reacting, 0),
            (Reacting { stop_at: at(50), until: at(100) }, Time, Paused { since: at(50), until: at(100) }, 0),
            (Reacting { stop_at: at(45), until: at(100) }, Time, Paused { since: at(45), until: at(100) }, 5),
            (Reacting { stop_at: at(45), until: at(49) }, Time, Open, 4),
            (Reacting { stop_at: at(55), until: at(50) }, Time, Open, 0),
            (paused, Xoff(70), Paused { since: at(40), until: at(120) }, 10),
            (paused, Xoff(2), Paused { since: at(40), until: at(52) }, 10),
            (paused, Xon, Open, 10),
            (paused, Time, paused, 10),
            (Paused { since: at(40), until: at(50) }, Time, Open, 10),
            (Paused { since: at(40), until: at(47) }, Time, Open, 7),
            // The pause ended before the refresh was read: the priority had been open, and reacts
            // again.
            (
                Paused { since: at(40), until: at(47) },
                Xoff(30),
                Reacting { stop_at: at(60), until: at(80) },
                7,
            ),
        ] {
            let mut timer = timer(from);
            match input {
                Xoff(time) => timer.receive(time, at(50)),
                Xon => timer.receive(0, at(50)),
                Time => timer.expire(at(50)),
            }
            assert_eq!((timer.state, timer.paused_ns(at(50))), (to, paused_ns), "{from:?} on {input:?}");
        }
    }

    #[test]
    fn the_reaction_delay_is_kept_to_the_nanosecond() {
        let mut timer = PauseTimer::new(10_000);
        timer.receive(1_000_000, Instant(500));
        timer.expire(Instant(10_499));
        assert!(!timer.is_paused());
        timer.expire(Instant(10_500));
        assert!(timer.is_paused());
        timer.expire(Instant(1_000_499));
        assert!(timer.is_paused());
        timer.expire(Instant(1_000_500));
        assert!(!timer.is_paused());
        assert_eq!(timer.paused_ns(Instant(2_000_000)), 1_000_000 - 10_000);
    }

    #[test]
    fn without_delay_a_pause_begins_as_it_is_read() {
        let mut timer = PauseTimer::new(0);
        timer.receive(100, Instant(7));
        assert_eq!((timer.is_paused(), timer.ends_at()), (true, Some(Instant(107))));
    }

    /// Refreshed at half the pause time, a pause has no gap and ends with its last refresh.
    #[test]
    fn a_refreshed_pause_has_no_gap() {
        let mut timer = PauseTimer::new(0);
        for refresh in 0..10 {
            timer.receive(100, Instant(refresh * 50));
            timer.expire(Instant(refresh * 50 + 49));
            assert!(timer.is_paused(), "refresh {refresh}");
        }
        timer.expire(Instant(549));
        assert!(timer.is_paused());
        timer.expire(Instant(550));
        assert!(!timer.is_paused());
        assert_eq!(timer.paused_ns(Instant(600)), 550);
    }
}
