//! No-drop frames that are lost for another reason than want of room at ingress.
//!
//! Rule: whatever drops a frame of a no-drop priority, that is an event of its port, priority and
//! reason: within the turn, then once a second at most while it lasts, with all frames since. What
//! has no room at ingress has an event of its own (`pipeline::drops`), and so has what the
//! kernel loses ([`crate::monitor::kernel_tx_loss`]). What a flood limit drops is no loss: the
//! operator asked for it. Source: docs/behavior.md, "Drops"; docs/events.md, `no_drop_dropped`.

use crate::monitor::counters::DropReason;
use crate::monitor::event::{Event, Events};
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Events of one port, priority and reason are no closer together.
const EVENT_NS: Nanos = 1_000_000_000;

/// Where frames are lost, and why: the port at which that is counted, the priority, the reason.
type LossKey = (u8, u8, DropReason);

/// What was lost lately. Without losses it holds nothing.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct NoDropLosses {
    places: BTreeMap<LossKey, Loss>,
    /// When there is something to report, or to forget.
    due_at: Instant,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Loss {
    /// Frames since the last event.
    frames: u64,
    next_event: Instant,
}

impl NoDropLosses {
    pub(crate) fn note(&mut self, place: LossKey) {
        let loss = self.places.entry(place).or_default();
        loss.frames += 1;
        self.due_at = self.due_at.min(loss.next_event);
    }

    /// Whether there is something to report, or to forget.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        !self.places.is_empty() && now >= self.due_at
    }

    /// Reports what it is time for, and forgets what is over.
    #[cold]
    pub(crate) fn report(&mut self, now: Instant, events: &mut Events) {
        self.due_at = Instant::NEVER;
        let due_at = &mut self.due_at;
        self.places.retain(|&(port, priority, reason), loss| {
            if now >= loss.next_event {
                let frames = std::mem::take(&mut loss.frames);
                if frames == 0 {
                    return false;
                }
                let (port, priority) = (port.into(), priority.into());
                events.push(now, Event::NoDropDropped { port, priority, reason, frames });
                loss.next_event = now + EVENT_NS;
            }
            *due_at = (*due_at).min(loss.next_event);
            true
        });
    }
}
