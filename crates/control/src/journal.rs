//! The event journal that clients read: events numbered from 1 in the order they happened, of which
//! the last [`CAPACITY`] are kept.
//!
//! Rule: recording an event never waits for a reader, and a late reader receives the number of
//! events that it missed. Each reader keeps its own position: the number of the last event that it
//! has seen. XOFF and XON, of which there may be thousands a second, are no part of the journal:
//! they are counted, logged at level debug, and in every recording. Source:
//! docs/monitoring/events.md.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::v1;

/// Number of events that are kept.
pub const CAPACITY: usize = 4096;
/// Maximum number of events in one message to a reader.
pub const BATCH: usize = 256;

/// The event journal; clones share it.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kept: Mutex<Entries>,
    last: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Entries {
    /// Oldest first, numbered without a gap.
    events: VecDeque<v1::Event>,
    /// Number of the newest event.
    last: u64,
}

impl Default for Journal {
    fn default() -> Self {
        Self(Arc::new(Inner { kept: Mutex::default(), last: watch::Sender::new(0) }))
    }
}

impl Journal {
    /// Records an event under the next number.
    pub fn record(&self, event: v1::Event) {
        let last = {
            let mut kept = self.kept();
            kept.last += 1;
            let number = kept.last;
            if kept.events.len() == CAPACITY {
                kept.events.pop_front();
            }
            kept.events.push_back(v1::Event { number, ..event });
            number
        };
        self.0.last.send_replace(last);
    }

    /// Returns the number of the newest event; 0 if there was none.
    pub fn last(&self) -> u64 {
        self.kept().last
    }

    /// Returns the next events after number `since`, [`BATCH`] at most, and how many before them
    /// are no longer kept.
    pub fn read(&self, since: u64) -> v1::EventBatch {
        let kept = self.kept();
        let first = kept.last + 1 - kept.events.len() as u64;
        let from = (since + 1).max(first);
        let skipped = (from - first) as usize;
        v1::EventBatch {
            events: kept.events.iter().skip(skipped).take(BATCH).cloned().collect(),
            missed: from - (since + 1),
        }
    }

    /// Waits until there is an event after number `since`.
    pub async fn later_than(&self, since: u64) {
        // The journal owns the sender, so it still exists.
        let _ = self.0.last.subscribe().wait_for(|&last| last > since).await;
    }

    fn kept(&self) -> MutexGuard<'_, Entries> {
        // The state is consistent even after a panic elsewhere: an event is added in one step.
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str) -> v1::Event {
        v1::Event { kind: kind.to_owned(), ..v1::Event::default() }
    }

    #[test]
    fn events_are_numbered_and_a_late_reader_learns_how_many_it_missed() {
        let journal = Journal::default();
        assert_eq!(journal.read(0), v1::EventBatch::default());
        for kind in ["a", "b", "c"] {
            journal.record(event(kind));
        }
        let kinds = |batch: v1::EventBatch| {
            let of = |event: &v1::Event| format!("{} {}", event.number, event.kind);
            (batch.events.iter().map(of).collect::<Vec<_>>().join(", "), batch.missed)
        };
        assert_eq!(kinds(journal.read(0)), ("1 a, 2 b, 3 c".to_owned(), 0));
        assert_eq!(kinds(journal.read(2)), ("3 c".to_owned(), 0));
        assert_eq!(kinds(journal.read(3)), (String::new(), 0));

        (3..CAPACITY + 900).for_each(|_| journal.record(event("more")));
        let batch = journal.read(0);
        assert_eq!((batch.events[0].number, batch.events.len(), batch.missed), (901, BATCH, 900));
        assert_eq!(journal.read(899).missed, 1);
        assert_eq!(journal.read(900).missed, 0);
        assert_eq!(journal.last(), CAPACITY as u64 + 900);
    }

    /// A reader takes batch after batch while events are being recorded: each event once, in order.
    #[tokio::test]
    async fn a_reader_that_follows_gets_each_event_once() {
        let journal = Journal::default();
        let writer = journal.clone();
        let noted = tokio::spawn(async move {
            for _ in 0..2000 {
                writer.record(event("x"));
                tokio::task::yield_now().await;
            }
        });
        let mut seen = 0;
        while seen < 2000 {
            journal.later_than(seen).await;
            for event in journal.read(seen).events {
                assert_eq!(event.number, seen + 1);
                seen = event.number;
            }
        }
        noted.await.unwrap();
    }
}
