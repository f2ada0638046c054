//! What happened that somebody should be told: a short list, drained by the owner each turn. Bounded: past
//! [`MAX_PENDING`] the newest are counted, not kept.

use crate::time::Instant;

/// Events kept between two drains.
pub const MAX_PENDING: usize = 256;

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// The kernel gave frames back that the port had not given it, or gave them back twice: a fault of the kernel or a driver.
    /// They were ignored.
    StrayFrames {
        /// Port number.
        port: usize,
        /// Frames since the last such event.
        frames: u64,
    },
    /// The port has as many addresses in the bridge table as it may have: its next ones are not learned (one event an episode;
    /// the counters have the rest).
    AddressLimit {
        /// Port number.
        port: usize,
    },
    /// The port no longer carries frames.
    PortDown {
        /// Port number.
        port: usize,
    },
}

/// The events not yet drained.
#[derive(Debug, Default)]
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
