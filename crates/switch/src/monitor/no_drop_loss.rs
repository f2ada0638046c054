//! No-drop frames that are lost for another reason than want of room at ingress.
//!
//! Rule: every drop of a frame of a no-drop priority is an event of its port, priority and reason:
//! within the iteration, then at most once a second while it lasts, with all frames since. A frame
//! that has no room at ingress has a separate event (`pipeline::drops`), and so has a frame that
//! the kernel loses ([`crate::monitor::kernel_tx_loss`]), and one that a flood limit drops
//! ([`crate::forwarding::storm_control`]). Frames that no bridge forwards, and frames whose
//! destination is on their own port, are no losses. Source: docs/behavior.md, "Drops";
//! docs/monitoring/events.md, `no_drop_dropped`.

use crate::monitor::counters::DropReason;
use crate::monitor::event::Event;
use crate::monitor::event_list::Events;
use crate::monitor::throttle::{EVENT_NS, Throttle};
use crate::time::Instant;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Key of a loss: the port at which it is counted, the priority, the reason.
type LossKey = (u8, u8, DropReason);

/// Recent losses. Empty without losses.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct NoDropLosses {
    losses: BTreeMap<LossKey, Loss>,
    /// Time at which a loss must be reported, or forgotten.
    due_at: Instant,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Loss {
    /// Frames since the last event.
    frames: u64,
    throttle: Throttle,
}

impl NoDropLosses {
    pub(crate) fn record(&mut self, key: LossKey, frames: u64) {
        let loss = self.losses.entry(key).or_default();
        loss.frames += frames;
        self.due_at = self.due_at.min(loss.throttle.opens_at());
    }

    /// True if a loss must be reported, or forgotten.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        !self.losses.is_empty() && now >= self.due_at
    }

    /// Reports losses that are due, and forgets episodes that are over.
    #[cold]
    pub(crate) fn report(&mut self, now: Instant, events: &mut Events) {
        self.due_at = Instant::NEVER;
        let due_at = &mut self.due_at;
        self.losses.retain(|&(port, priority, reason), loss| {
            if loss.throttle.is_open(now) {
                let frames = std::mem::take(&mut loss.frames);
                if frames == 0 {
                    return false;
                }
                let (port, priority) = (port.into(), priority.into());
                events.push(now, Event::NoDropDropped { port, priority, reason, frames });
                loss.throttle.close_for(EVENT_NS, now);
            }
            *due_at = (*due_at).min(loss.throttle.opens_at());
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At once, after a second, and once more when the episode is over, which is no event.
    #[test]
    fn when_a_loss_is_due() {
        let (mut losses, mut events) = (NoDropLosses::default(), Events::default());
        let begin = Instant(5 * EVENT_NS);
        let key = (1, 3, DropReason::Wred);
        assert!(!losses.is_due(begin), "nothing was lost");
        losses.record(key, 7);
        assert!(losses.is_due(begin));
        losses.report(begin, &mut events);
        losses.record(key, 2);
        losses.record(key, 3);
        for second in [1, 2] {
            let next = begin + second * EVENT_NS;
            let is_due = [next - EVENT_NS, next - 1, next].map(|now| losses.is_due(now));
            assert_eq!(is_due, [false, false, true], "second {second}");
            losses.report(next, &mut events);
        }
        assert!(!losses.is_due(begin + 9 * EVENT_NS), "it is over");
        let of = |frames| Event::NoDropDropped { port: 1, priority: 3, reason: DropReason::Wred, frames };
        assert_eq!(events.drain().collect::<Vec<_>>(), [(begin, of(7)), (begin + EVENT_NS, of(5))]);
    }
}
