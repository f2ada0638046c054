//! What happened that somebody should be told: a short list, drained by the owner each turn. Bounded: past
//! [`MAX_PENDING`] the newest are counted, not kept.

use crate::time::Instant;
use serde::{Deserialize, Serialize};

/// Events kept between two drains.
pub const MAX_PENDING: usize = 256;

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The neighbour of `port` is told to stop `priority`.
    XoffBegan {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// … and may go on.
    XoffEnded {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// A no-drop frame was lost because headroom was exhausted (one event an episode; the counters have the rest).
    NoDropLost {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// The kernel had nowhere to put frames that came in: the loop had posted none. Their priorities nobody knows.
    KernelDropped {
        /// Port number.
        port: usize,
        /// Frames since the last such event.
        frames: u64,
    },
    /// A priority of a port is stormed: the watchdog acts.
    StormBegan {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// … and is as any other again.
    StormEnded {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// … which somebody must restore by hand.
    RecoveryPending {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// There were too many storms: PFC is off for the priority until the limit is lifted.
    StormLimitReached {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
        /// Storms in the period.
        times: u32,
    },
    /// As many PFC frames of a priority a second as the early warning says, or more.
    EarlyWarning {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
        /// They were sent; otherwise received.
        sent: bool,
        /// Frames in a second.
        pps: u64,
    },
    /// … and clearly fewer again.
    EarlyWarningCleared {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
        /// They were sent; otherwise received.
        sent: bool,
        /// Frames in a second.
        pps: u64,
    },
    /// The port no longer carries frames.
    PortDown {
        /// Port number.
        port: usize,
    },
}

/// The events not yet drained.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Events {
    pending: Vec<(Instant, Event)>,
    lost: u64,
}

impl Events {
    /// An empty list, allocated whole.
    pub fn new() -> Self {
        Self { pending: Vec::with_capacity(MAX_PENDING), lost: 0 }
    }

    /// Notes an event.
    pub fn push(&mut self, at: Instant, event: Event) {
        if self.pending.len() < MAX_PENDING {
            self.pending.push((at, event));
        } else {
            self.lost += 1;
        }
    }

    /// Events that came when the list was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Takes all events, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = (Instant, Event)> + '_ {
        self.pending.drain(..)
    }
}
