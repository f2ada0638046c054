//! The list of pending events, drained by the owner of the switch each iteration.
//!
//! Rule: the list is bounded. Beyond [`MAX_PENDING`] further events are counted, not kept. Losses
//! of no-drop frames have as many entries to themselves, and beyond these one entry for each place
//! and reason, in which they add up, so that none goes unreported. Source:
//! docs/monitoring/events.md.

use crate::monitor::event::Event;
use crate::time::Instant;
use serde::{Deserialize, Serialize};

/// Events kept between two drains.
pub const MAX_PENDING: usize = 256;

/// Events not drained yet.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Events {
    pending: Vec<(Instant, Event)>,
    /// Number of losses of no-drop frames among them.
    losses: usize,
    lost: u64,
}

impl Events {
    /// Makes an empty list with its full capacity allocated.
    pub fn new() -> Self {
        Self { pending: Vec::with_capacity(2 * MAX_PENDING), losses: 0, lost: 0 }
    }

    /// Appends an event.
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

    /// Returns the number of events that arrived when the list was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// True if there is no event.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::counters::DropReason;

    #[test]
    fn losses_beyond_capacity_are_merged() {
        let mut events = Events::new();
        assert!(events.is_empty());
        let loss =
            |priority, frames| Event::NoDropDropped { port: 1, priority, reason: DropReason::Wred, frames };
        (0..MAX_PENDING as u64).for_each(|frames| events.push(Instant(0), loss(3, frames)));
        for event in [loss(3, 5), loss(4, 6), loss(4, 7), Event::PortDown { port: 0 }] {
            events.push(Instant(1), event);
        }
        assert!(!events.is_empty());
        let kept: Vec<_> = events.drain().map(|(_, event)| event).collect();
        assert_eq!((kept.len(), kept[0], events.lost()), (MAX_PENDING + 2, loss(3, 5), 0));
        assert_eq!(kept[MAX_PENDING..], [loss(4, 13), Event::PortDown { port: 0 }]);
        (0..=MAX_PENDING).for_each(|port| events.push(Instant(2), Event::PortDown { port }));
        assert_eq!((events.drain().count(), events.lost()), (MAX_PENDING, 1));
    }
}
