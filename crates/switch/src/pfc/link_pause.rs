//! 802.3x PAUSE: flow control of a whole link, for peers without support for priorities.
//!
//! Rule, where a port's `flow_control` enables it:
//! - *receive*: a PAUSE with a time other than 0 stops all queues of the port until the time ends
//!   or time 0 arrives; a new time replaces the old one. MAC control frames (PFC, PAUSE) still
//!   leave.
//! - *send*: the peer is paused while any priority group of the port is in XOFF. The groups enter
//!   XOFF as no-drop groups do: at their thresholds, with headroom for what still arrives, or while
//!   the RX backlog is long. PAUSE is sent as PFC is: at once, refreshed after a third of the pause
//!   time, XON twice.
//!
//! The groups are lossy nevertheless: a frame that finds no room does not count as a no-drop loss,
//! and queues keep their tail drop. A link has PFC or PAUSE, not both: a PAUSE would stop
//! priorities that PFC lets through. A PAUSE that must not be honored is counted.
//!
//! Source: docs/behavior.md, "802.3x PAUSE"; IEEE 802.3-2022 annex 31B (PAUSE); docs/references.md,
//! "Huawei PFC" and "Inspur white paper" (PAUSE of a whole link, and why PFC came after it).

use crate::pfc::rx::{ArrivalTimes, PfcRxState};
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};
use wire::bitset::Set8;
use wire::pause::Pfc;

/// Index of the link as a whole in sets of priorities.
pub(crate) const LINK: usize = 0;

/// How a peer is paused for frames of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowControlMode {
    /// The peer is not paused.
    None,
    /// PAUSE of the whole link; a loss is not a no-drop loss.
    Pause,
    /// PFC: the group is no-drop.
    Pfc,
}

/// Pause of a whole link, kept as that of one priority.
#[derive(Debug, Serialize, Deserialize)]
pub struct LinkPause(PfcRxState);

impl LinkPause {
    /// Makes the state without pause; quanta are counted at `speed_bps`.
    pub fn new(speed_bps: u64) -> Self {
        Self(PfcRxState::new(Set8::of(LINK), speed_bps))
    }

    /// Applies a PAUSE frame that is read as soon as it arrives.
    pub fn apply(&mut self, quanta: u16, now: Instant) {
        self.apply_late(quanta, ArrivalTimes::exact(now));
    }

    /// Applies a PAUSE frame that may be read late; see [`PfcRxState::apply_late`].
    pub fn apply_late(&mut self, quanta: u16, arrived: ArrivalTimes) {
        let mut pfc = Pfc { enable: Set8::of(LINK).bits(), quanta: [0; 8] };
        pfc.quanta[LINK] = quanta;
        self.0.apply_late(&pfc, arrived);
    }

    /// True if the link is paused now.
    #[inline]
    pub fn is_paused(&mut self, now: Instant) -> bool {
        !self.0.paused(now).is_empty()
    }

    /// Returns when the pause ends by itself; [`Instant::NEVER`] if there is none.
    pub fn ends_at(&self) -> Instant {
        self.0.next_end()
    }

    /// Counts quanta at another speed.
    pub fn reconfigure(&mut self, speed_bps: u64, now: Instant) {
        self.0.reconfigure(Set8::of(LINK), speed_bps, now);
    }

    /// Ends the pause, as when the port goes down.
    pub fn clear(&mut self, now: Instant) {
        self.0.clear(now);
    }

    /// Returns the pauses begun, and the nanoseconds spent paused.
    pub fn history(&self, now: Instant) -> (u64, Nanos) {
        let (episodes, paused_ns) = self.0.history(now);
        (episodes[LINK], paused_ns[LINK])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quantum at 10 Gbit/s takes 51.2 ns.
    #[test]
    fn a_link_is_paused_until_its_time_ends() {
        let mut pause = LinkPause::new(10_000_000_000);
        pause.apply(100, Instant(1_000));
        assert_eq!(pause.ends_at(), Instant(1_000 + 5_120));
        assert_eq!([6_119, 6_120].map(|at| pause.is_paused(Instant(at))), [true, false]);
        assert_eq!(pause.history(Instant(9_000)), (1, 5_120));
        pause.reconfigure(1_000_000_000, Instant(9_000));
        pause.apply(100, Instant(10_000));
        assert_eq!(pause.ends_at(), Instant(10_000 + 51_200));
        pause.clear(Instant(11_000));
        assert_eq!((pause.is_paused(Instant(11_000)), pause.ends_at()), (false, Instant::NEVER));
        assert_eq!(pause.history(Instant(20_000)), (2, 5_120 + 1_000));
    }
}
