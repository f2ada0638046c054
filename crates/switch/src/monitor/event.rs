//! Events of the switch: what happened, where, and with which numbers.
//!
//! Rule: an event is made where its cause is, and says no more than that place knows. Its kind is
//! in [`crate::monitor::event_kind`], its text in [`crate::monitor::event_text`]. Source:
//! docs/monitoring/events.md.

use serde::{Deserialize, Serialize};

use crate::frame::meta::FloodType;
use crate::monitor::counters::{DropReason, FrameCount};
use crate::settings::AlarmKind;

/// An event, with the port and the numbers that belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// XOFF for `priority` was advertised to the peer of `port`.
    XoffBegan {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// XOFF for `priority` ended: the peer may send again.
    XoffEnded {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// A no-drop frame was lost because headroom was exhausted. There is one event per episode; the
    /// counters have every loss.
    NoDropLost {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// The kernel, or the NIC below it, had no buffer for received frames. Their priorities are
    /// unknown.
    KernelDropped {
        /// Port number.
        port: usize,
        /// Frames since the last such event.
        frames: u64,
    },
    /// The kernel took frames to send and lost them (at most one event a second).
    KernelLost {
        /// Port number of the output port.
        port: usize,
        /// Data frames since the last such event.
        frames: u64,
        /// Frames of no-drop priorities among them.
        no_drop_frames: u64,
        /// PFC and PAUSE frames since the last such event.
        pfc_frames: u64,
    },
    /// The kernel returned frames that the port had not passed to it, or returned them twice: a
    /// fault of the kernel or a driver. They were ignored.
    StrayFrames {
        /// Port number.
        port: usize,
        /// Frames since the last such event.
        frames: u64,
    },
    /// Frames were dropped that are longer than the port's interface can send (at most one event a
    /// second).
    MtuExceeded {
        /// Port number.
        port: usize,
        /// Frames since the last such event.
        frames: u64,
    },
    /// The port has reached its limit of addresses in the FDB, so further ones are not learned.
    /// There is one event per episode; the counters have every frame.
    AddressLimit {
        /// Port number.
        port: usize,
    },
    /// Flooded frames of a type exceeded the port's limit and were dropped (at most one event a
    /// second).
    FloodLimit {
        /// Port number.
        port: usize,
        /// Type of the flooded frames.
        cast: FloodType,
        /// Frames dropped since the last such event.
        frames: u64,
        /// Frames of no-drop priorities among them.
        no_drop_frames: u64,
    },
    /// A priority of a port is stormed: the watchdog acts.
    StormBegan {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// A stormed priority was restored.
    StormEnded {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// No transmission of a port has completed for 5 s although the kernel has frames.
    TxStalled {
        /// Port number.
        port: usize,
    },
    /// Transmissions of such a port complete again.
    TxResumed {
        /// Port number.
        port: usize,
    },
    /// The peer of a port has had no room for a queue with frames for 5 s.
    QueueStalled {
        /// Port number.
        port: usize,
        /// Number of the egress queue.
        queue: usize,
    },
    /// Frames leave such a queue again, or none wait for it.
    QueueResumed {
        /// Port number.
        port: usize,
        /// Number of the egress queue.
        queue: usize,
    },
    /// A stormed priority must be restored by hand.
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
    /// PFC frames of a priority reached the rate of the early warning.
    EarlyWarning {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
        /// True if the frames were sent, false if they were received.
        sent: bool,
        /// Frames in a second.
        pps: u64,
    },
    /// PFC frames of a priority fell clearly below the rate of the early warning.
    EarlyWarningCleared {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
        /// True if the frames were sent, false if they were received.
        sent: bool,
        /// Frames in a second.
        pps: u64,
    },
    /// The port no longer carries frames.
    PortDown {
        /// Port number.
        port: usize,
    },
    /// The port carries frames again.
    PortUp {
        /// Port number.
        port: usize,
    },
    /// The use of a source reached its alarm threshold, or is below it again.
    Alarm {
        /// Source of the alarm.
        source: AlarmSource,
        /// Contents of the report.
        report: AlarmReport,
    },
    /// Frames were dropped, and a drop alarm is enabled.
    DropAlarm {
        /// Source of the alarm, at ingress or egress.
        source: AlarmSource,
        /// Frames dropped since the last alarm.
        dropped: FrameCount,
    },
    /// Source addresses were not learned, since the FDB is full (at most one event a second).
    BridgeFull {
        /// Frames since the last such event.
        frames: u64,
    },
    /// No-drop frames were lost for another reason than want of room at ingress (at most one event
    /// a second).
    NoDropDropped {
        /// Port number of the port that counted them.
        port: usize,
        /// 802.1p priority.
        priority: usize,
        /// Reason of the drops.
        reason: DropReason,
        /// Frames since the last such event.
        frames: u64,
    },
}

impl Event {
    /// True if no-drop frames were lost, or may have been: the priorities of some lost frames are
    /// unknown. Such a loss freezes the flight recorder (docs/monitoring/recorder.md).
    pub fn is_no_drop_loss(&self) -> bool {
        match *self {
            Self::NoDropLost { .. } | Self::NoDropDropped { .. } | Self::KernelDropped { .. } => true,
            Self::KernelLost { no_drop_frames, .. } | Self::FloodLimit { no_drop_frames, .. } => {
                no_drop_frames > 0
            }
            _ => false,
        }
    }

    /// Adds a later loss at the same place, for the same reason. Returns false for any other event.
    pub(crate) fn add(&mut self, later: &Self) -> bool {
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
            (
                Self::FloodLimit { port, cast, frames, no_drop_frames },
                Self::FloodLimit { port: of, cast: kind, frames: more, no_drop_frames: no_drop },
            ) if (*port, *cast) == (of, kind) => {
                *frames += more;
                *no_drop_frames += no_drop;
                true
            }
            _ => false,
        }
    }
}

/// Part of a port, or pool, that an alarm is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlarmSource {
    /// A part of a port: a priority (at ingress, in headroom) or a queue (at egress).
    Port {
        /// Port number.
        port: usize,
        /// Kind of the alarm, which gives the side of the port.
        kind: AlarmKind,
        /// Number of the priority or queue.
        number: usize,
    },
    /// A pool.
    Pool {
        /// Kind of the alarm, which gives the side of the pool.
        kind: AlarmKind,
        /// Number of the pool.
        number: usize,
    },
}

/// Report of a usage alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlarmReport {
    /// True if use reached the threshold, false if it is below it again.
    pub raised: bool,
    /// Peak in cells, and the limit at that time.
    pub peak: (u32, u32),
    /// Crossings since the last alarm.
    pub crossings: u32,
    /// Threshold, in percent of the limit.
    pub percent: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_of_no_drop_frames_is_reported_from_others() {
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
        let limited = |no_drop_frames| Event::FloodLimit {
            port: 0,
            cast: FloodType::Broadcast,
            frames: 5,
            no_drop_frames,
        };
        assert!(limited(5).is_no_drop_loss());
        for other in [
            kernel_lost(0, 5),
            limited(0),
            Event::MtuExceeded { port: 0, frames: 5 },
            Event::PortDown { port: 0 },
        ] {
            assert!(!other.is_no_drop_loss(), "{other:?}");
        }
    }

    /// Two losses, and what the first is after the second was added; `None` if they stay apart.
    #[test]
    fn losses_add_up_at_one_location_for_one_reason() {
        let dropped =
            |port, priority, reason, frames| Event::NoDropDropped { port, priority, reason, frames };
        let (tail, wred) = (DropReason::TailDrop, DropReason::Wred);
        let unread = |port, frames| Event::KernelDropped { port, frames };
        let lost = |port, frames, no_drop_frames, pfc_frames| Event::KernelLost {
            port,
            frames,
            no_drop_frames,
            pfc_frames,
        };
        let limited =
            |port, cast, frames, no_drop_frames| Event::FloodLimit { port, cast, frames, no_drop_frames };
        let (broadcast, multicast) = (FloodType::Broadcast, FloodType::Multicast);
        let exhausted = |port, priority| Event::NoDropLost { port, priority };
        for (first, later, sum) in [
            (dropped(1, 3, tail, 2), dropped(1, 3, tail, 5), Some(dropped(1, 3, tail, 7))),
            (dropped(1, 3, tail, 2), dropped(2, 3, tail, 5), None),
            (dropped(1, 3, tail, 2), dropped(1, 4, tail, 5), None),
            (dropped(1, 3, tail, 2), dropped(1, 3, wred, 5), None),
            (unread(1, 2), unread(1, 5), Some(unread(1, 7))),
            (unread(1, 2), unread(2, 5), None),
            (lost(1, 4, 2, 3), lost(1, 6, 5, 4), Some(lost(1, 10, 7, 7))),
            (lost(1, 4, 2, 3), lost(2, 6, 5, 4), None),
            (limited(1, broadcast, 4, 2), limited(1, broadcast, 6, 5), Some(limited(1, broadcast, 10, 7))),
            (limited(1, broadcast, 4, 2), limited(2, broadcast, 6, 5), None),
            (limited(1, broadcast, 4, 2), limited(1, multicast, 6, 5), None),
            (exhausted(1, 3), exhausted(1, 3), Some(exhausted(1, 3))),
            (exhausted(1, 3), exhausted(1, 4), None),
            (exhausted(1, 3), unread(1, 5), None),
        ] {
            let mut added = first;
            assert_eq!(added.add(&later), sum.is_some(), "{first:?}, {later:?}");
            assert_eq!(added, sum.unwrap_or(first), "{later:?}");
        }
    }
}
