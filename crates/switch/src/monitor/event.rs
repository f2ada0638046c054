//! What happened that somebody should be told: a short list, drained by the owner each turn.
//!
//! Rule: the list is bounded: past [`MAX_PENDING`] the newest are counted, not kept. Losses of
//! no-drop frames have places of their own: as many, and beyond them one for each place and reason,
//! where they add up, so that none goes unreported. An event has a name for programs, a
//! severity, the place it belongs to, its numbers, and one line of text for people: all in
//! [`Event::describe`] (`event/description.rs`), and nowhere else.
//! Source: docs/events.md.

use crate::frame::meta::FloodType;
use crate::monitor::counters::{DropReason, FrameCount};
use crate::settings::AlarmKind;
use crate::time::Instant;
use serde::{Deserialize, Serialize};

/// Events kept between two drains.
pub const MAX_PENDING: usize = 256;

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The peer of `port` is told to stop `priority`.
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
    /// A no-drop frame was lost because headroom was exhausted (one event an episode; the counters
    /// have the rest).
    NoDropLost {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// The kernel, or the NIC below it, had nowhere to put frames that came in. Their priorities
    /// nobody knows.
    KernelDropped {
        /// Port number.
        port: usize,
        /// Frames since the last such event.
        frames: u64,
    },
    /// The kernel took frames to send and lost them (one event a second at most).
    KernelLost {
        /// Port number: where they were to leave.
        port: usize,
        /// Data frames since the last such event.
        frames: u64,
        /// Those of no-drop priorities among them.
        no_drop_frames: u64,
        /// PFC and PAUSE frames since the last such event.
        pfc_frames: u64,
    },
    /// The kernel gave frames back that the port had not given it, or gave them back twice: a fault
    /// of the kernel or a driver. They were ignored.
    StrayFrames {
        /// Port number.
        port: usize,
        /// Frames since the last such event.
        frames: u64,
    },
    /// Frames were dropped that are longer than the port's interface can send (one event a second
    /// at most).
    MtuExceeded {
        /// Port number.
        port: usize,
        /// Frames since the last such event.
        frames: u64,
    },
    /// The port has as many addresses in the bridge table as it may have: its next ones are not
    /// learned (one event an episode; the counters have the rest).
    AddressLimit {
        /// Port number.
        port: usize,
    },
    /// More frames of a kind that is flooded came in than the port's limit allows, and were dropped
    /// (one event a second at most).
    FloodLimit {
        /// Port number.
        port: usize,
        /// The kind.
        cast: FloodType,
        /// Frames dropped since the last such event.
        frames: u64,
        /// Those of no-drop priorities among them.
        no_drop_frames: u64,
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
        /// The local precedence of the priority: the CoS value of the message.
        local_precedence: u8,
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
    /// … and carries them again.
    PortUp {
        /// Port number.
        port: usize,
    },
    /// The use of a place came to its alarm threshold, or is down again.
    Alarm {
        /// Where.
        place: AlarmSource,
        /// What there is to say.
        telling: AlarmReport,
    },
    /// Frames were dropped, and somebody wants to know.
    DropAlarm {
        /// Where: at ingress or egress.
        place: AlarmSource,
        /// What was dropped since the last alarm.
        dropped: FrameCount,
    },
    /// Sources of frames were not learned, since the bridge table is full (one event a second at
    /// most).
    BridgeFull {
        /// Frames since the last such event.
        frames: u64,
    },
    /// No-drop frames were lost for another reason than want of room at ingress (one event a second
    /// at most).
    NoDropDropped {
        /// Port number: where they were counted.
        port: usize,
        /// 802.1p priority.
        priority: usize,
        /// Why.
        reason: DropReason,
        /// Frames since the last such event.
        frames: u64,
    },
}

impl Event {
    /// The promise is broken, or may be: no-drop frames were lost, or frames whose priorities
    /// nobody knows. What a limit of the operator's drops is no such loss. It freezes the
    /// flight recorder (docs/recorder.md).
    pub fn is_no_drop_loss(&self) -> bool {
        match *self {
            Self::NoDropLost { .. } | Self::NoDropDropped { .. } | Self::KernelDropped { .. } => true,
            Self::KernelLost { no_drop_frames, .. } => no_drop_frames > 0,
            _ => false,
        }
    }

    /// Adds a later loss at the same place, for the same reason. False: it is another.
    fn add(&mut self, later: &Self) -> bool {
        match (self, *later) {
            (same @ Self::NoDropLost { .. }, _) => *same == *later,
            (
                Self::NoDropDropped { port, priority, reason, frames },
                Self::NoDropDropped { port: of, priority: and, reason: why, frames: more },
            ) if (*port, *priority, *reason) == (of, and, why) => {
                *frames += more;
                true
            }
            (Self::KernelDropped { port, frames }, Self::KernelDropped { port: of, frames: more })
                if *port == of =>
            {
                *frames += more;
                true
            }
            (
                Self::KernelLost { port, frames, no_drop_frames, pfc_frames },
                Self::KernelLost { port: of, frames: more, no_drop_frames: no_drop, pfc_frames: pfc },
            ) if *port == of => {
                *frames += more;
                *no_drop_frames += no_drop;
                *pfc_frames += pfc;
                true
            }
            _ => false,
        }
    }
}

/// What an alarm is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlarmSource {
    /// A part of a port: a priority (at ingress, in headroom) or a queue (at egress).
    Port {
        /// Port number.
        port: usize,
        /// The side of it.
        kind: AlarmKind,
        /// The priority, or the queue.
        number: usize,
    },
    /// A pool.
    Pool {
        /// The side that it is seen from.
        kind: AlarmKind,
        /// Its number.
        number: usize,
    },
}

/// The events not yet drained.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Events {
    pending: Vec<(Instant, Event)>,
    /// Losses of no-drop frames among them.
    losses: usize,
    lost: u64,
}

impl Events {
    /// An empty list, allocated whole.
    pub fn new() -> Self {
        Self { pending: Vec::with_capacity(2 * MAX_PENDING), losses: 0, lost: 0 }
    }

    /// Notes an event.
    pub fn push(&mut self, at: Instant, event: Event) {
        if event.is_no_drop_loss() {
            self.push_loss(at, event);
        } else if self.pending.len() - self.losses < MAX_PENDING {
            self.pending.push((at, event));
        } else {
            self.lost += 1;
        }
    }

    #[cold]
    fn push_loss(&mut self, at: Instant, event: Event) {
        let is_full = self.losses >= MAX_PENDING;
        if is_full && self.pending.iter_mut().any(|(_, pending)| pending.add(&event)) {
            return;
        }
        self.pending.push((at, event));
        self.losses += 1;
    }

    /// Events that came when the list was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// There is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes all events, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = (Instant, Event)> + '_ {
        self.losses = 0;
        self.pending.drain(..)
    }
}

/// What an alarm says of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlarmReport {
    /// Use came to the threshold; false: it is down again.
    pub raised: bool,
    /// The most cells in use, and how many were allowed then.
    pub most: (u32, u32),
    /// Crossings since the last alarm.
    pub crossings: u32,
    /// The threshold, in percent of what is allowed.
    pub percent: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_beyond_their_places_add_up() {
        let mut events = Events::new();
        let loss =
            |priority, frames| Event::NoDropDropped { port: 1, priority, reason: DropReason::Wred, frames };
        (0..MAX_PENDING as u64).for_each(|frames| events.push(Instant(0), loss(3, frames)));
        for event in [loss(3, 5), loss(4, 6), loss(4, 7), Event::PortDown { port: 0 }] {
            events.push(Instant(1), event);
        }
        let kept: Vec<_> = events.drain().map(|(_, event)| event).collect();
        assert_eq!((kept.len(), kept[0], events.lost()), (MAX_PENDING + 2, loss(3, 5), 0));
        assert_eq!(kept[MAX_PENDING..], [loss(4, 13), Event::PortDown { port: 0 }]);
        (0..=MAX_PENDING).for_each(|port| events.push(Instant(2), Event::PortDown { port }));
        assert_eq!((events.drain().count(), events.lost()), (MAX_PENDING, 1));
    }

    #[test]
    fn a_loss_of_no_drop_frames_is_told_from_others() {
        let kernel_lost =
            |no_drop_frames, pfc_frames| Event::KernelLost { port: 0, frames: 5, no_drop_frames, pfc_frames };
        for loss in [
            Event::NoDropLost { port: 0, priority: 3 },
            Event::NoDropDropped { port: 0, priority: 3, reason: DropReason::TailDrop, frames: 1 },
            Event::KernelDropped { port: 0, frames: 1 },
            kernel_lost(1, 0),
        ] {
            assert!(loss.is_no_drop_loss(), "{loss:?}");
        }
        let limited = Event::FloodLimit { port: 0, cast: FloodType::Broadcast, frames: 5, no_drop_frames: 5 };
        for other in [
            kernel_lost(0, 5),
            limited,
            Event::MtuExceeded { port: 0, frames: 5 },
            Event::PortDown { port: 0 },
        ] {
            assert!(!other.is_no_drop_loss(), "{other:?}");
        }
    }
}
