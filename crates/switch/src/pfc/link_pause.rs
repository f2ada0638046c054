//! 802.3x PAUSE: flow control of a whole link, for peers that know no priorities.
//!
//! Rule, where a port's `flow_control` says so:
//! - *receive*: a PAUSE with a time other than 0 stops all queues of the port until the time ends
//!   or time 0 comes; a new time replaces the old one. What is MAC control (PFC, PAUSE) leaves all
//!   the same.
//! - *send*: the peer is told to stop as long as any priority group of the port is in XOFF, which
//!   its groups come to as no-drop ones do: at their thresholds, with headroom for what still
//!   arrives, or while RX rings are long. It is told as it is with PFC: at once, refreshed after a
//!   third of the pause time, XON twice.
//!
//! The groups are lossy all the same: what finds no room is no broken promise, and queues keep
//! their tail drop. A link has PFC or PAUSE, not both: a PAUSE would stop priorities that PFC keeps
//! going. A PAUSE that is not to be obeyed is counted.
//!
//! Source: docs/behavior.md, "802.3x PAUSE"; IEEE 802.3-2022 annex 31B (PAUSE); docs/references.md,
//! "Huawei PFC" and "Inspur white paper" (PAUSE of a whole link, and why PFC came after it).

use crate::pfc::rx::PfcRxState;
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};
use wire::bitset::Set8;
use wire::pause::Pfc;

/// In sets of priorities, the link as a whole.
pub(crate) const LINK: usize = 0;

/// How a peer is told to stop frames of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowControlMode {
    /// It is not.
    None,
    /// By PAUSE of the whole link; what is lost all the same is no broken promise.
    Pause,
    /// By PFC: the group is no-drop.
    Pfc,
}

/// The pause of a whole link: that of one priority which stands for all.
#[derive(Debug, Serialize, Deserialize)]
pub struct LinkPause(PfcRxState);

impl LinkPause {
    /// No pause; quanta are counted at `speed_bps`.
    pub fn new(speed_bps: u64) -> Self {
        Self(PfcRxState::new(Set8::of(LINK), speed_bps))
    }

    /// A PAUSE frame came in, and is read at once.
    pub fn apply(&mut self, quanta: u16, now: Instant) {
        self.apply_late(quanta, now, now);
    }

    /// A PAUSE frame came in; see [`PfcRxState::apply_late`].
    pub fn apply_late(&mut self, quanta: u16, now: Instant, iterated: Instant) {
        let mut pfc = Pfc { enable: Set8::of(LINK).bits(), quanta: [0; 8] };
        pfc.quanta[LINK] = quanta;
        self.0.apply_late(&pfc, now, iterated);
    }

    /// The link is paused now.
    #[inline]
    pub fn is_paused(&mut self, now: Instant) -> bool {
        !self.0.paused(now).is_empty()
    }

    /// When the pause ends by itself; [`Instant::NEVER`]: there is none.
    pub fn ends_at(&self) -> Instant {
        self.0.next_end()
    }

    /// Quanta are counted at another speed.
    pub fn reconfigure(&mut self, speed_bps: u64, now: Instant) {
        self.0.reconfigure(Set8::of(LINK), speed_bps, now);
    }

    /// The pause ends, as when the port goes down.
    pub fn clear(&mut self, now: Instant) {
        self.0.clear(now);
    }

    /// Pauses begun, and nanoseconds spent paused.
    pub fn history(&self, now: Instant) -> (u64, Nanos) {
        let (episodes, paused_ns) = self.0.history(now);
        (episodes[LINK], paused_ns[LINK])
    }
}
