//! Queues that the peer has no room for: a virtio driver that posts no buffers there.
//!
//! Rule: their frames wait, as those of a paused queue do. To the watchdog such a queue is paused
//! for as long as it has had no room without a break. It is stalled if frames have waited for it
//! since the last check ([`CHECK_NS`](crate::egress::tx_stall::CHECK_NS) ago or more), it has had
//! no room, and none has left. After [`REPORT_NS`](crate::egress::tx_stall::REPORT_NS) that is an
//! event, and another when frames leave again. Source: docs/watchdog.md, "A port that does not
//! send"; docs/vhost-user.md, "Backpressure".

use crate::egress::tx_stall::{TxStall, TxStallChange};
use crate::settings::PRIORITIES;
use crate::time::Instant;
use serde::{Deserialize, Serialize};
use wire::bitset::Set8;

/// How long the queues of a port have had no room at the peer.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RoomStalls {
    /// Since when each queue without room has had none.
    since: [Instant; PRIORITIES],
    stalls: [TxStall; PRIORITIES],
}

impl RoomStalls {
    /// Notes that the peer has no room for these queues from now on.
    pub(crate) fn begin(&mut self, queues: Set8, now: Instant) {
        queues.into_iter().for_each(|queue| self.since[queue] = now);
    }

    /// Returns since when one of these queues, which have no room, has had none.
    pub(crate) fn since(&self, queues: Set8) -> Option<Instant> {
        queues.into_iter().map(|queue| self.since[queue]).min()
    }

    /// Checks a queue, of which `completed_frames` have left so far. `waits` says whether it has
    /// frames and no room.
    pub(crate) fn check(
        &mut self,
        queue: usize,
        (completed_frames, waits): (u64, bool),
        now: Instant,
    ) -> Option<TxStallChange> {
        let had_none = self.since[queue] <= self.stalls[queue].checked_at();
        self.stalls[queue].poll(completed_frames, waits && had_none, now)
    }

    /// Returns how often a stall of a queue was reported.
    pub(crate) fn count(&self, queue: usize) -> u64 {
        self.stalls[queue].stalls()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::tx_stall::{CHECK_NS, REPORT_NS};

    /// Only a queue without room since the last check, or for longer, is stalled.
    #[test]
    fn a_queue_is_stalled_without_room_since_the_last_check() {
        let mut stalls = RoomStalls::default();
        let check = |stalls: &mut RoomStalls, now| stalls.check(3, (0, true), now);
        assert_eq!(check(&mut stalls, Instant(CHECK_NS)), None);
        let begin = Instant(CHECK_NS + 1);
        stalls.begin(Set8::of(3), begin);
        stalls.begin(Set8::of(5), begin + 7);
        assert_eq!(stalls.since(Set8::of(5)), Some(begin + 7));
        assert_eq!(
            (stalls.since(Set8::of(3).with(Set8::of(5))), stalls.since(Set8::EMPTY)),
            (Some(begin), None)
        );
        // In the time before this check there was room.
        let checked = Instant(2 * CHECK_NS);
        assert_eq!(check(&mut stalls, checked), None);
        assert_eq!(check(&mut stalls, Instant(3 * CHECK_NS)), None);
        assert_eq!((check(&mut stalls, checked + REPORT_NS - 1), stalls.count(3)), (None, 0));
        assert_eq!(check(&mut stalls, checked + REPORT_NS), Some(TxStallChange::Stalled));
        assert_eq!((stalls.count(3), stalls.count(5)), (1, 0));
        stalls.begin(Set8::of(3), checked + REPORT_NS);
        let next = checked + REPORT_NS + CHECK_NS;
        assert_eq!(check(&mut stalls, next), None, "no room since that very check");
        stalls.begin(Set8::of(3), next + 1);
        assert_eq!(check(&mut stalls, next + CHECK_NS), Some(TxStallChange::Resumed), "there was room");
    }
}
