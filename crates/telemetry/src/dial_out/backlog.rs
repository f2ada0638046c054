//! Backlog of messages to a collector.
//!
//! Rule: every message has a number, from 1, without gaps as long as none is dropped. The number of
//! waiting messages and their bytes are limited; beyond a limit the oldest sample is dropped, and
//! if none is left the oldest event. A sent message stays until the collector has confirmed it; if
//! it does not, the message is sent again in order, under the same number. Drops are reported to
//! the collector before anything else. Source: docs/monitoring/telemetry.md, "Delivery".

use std::collections::VecDeque;

use crate::dial_out::message::Payload;

/// Messages that were dropped before the collector confirmed them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Number of dropped messages.
    pub messages: u64,
    /// Number of events among them.
    pub events: u64,
    /// Lowest number of a dropped message.
    pub first: u64,
    /// Highest number of a dropped message.
    pub last: u64,
}

impl Dropped {
    fn add(&mut self, other: Dropped) {
        if other.messages == 0 {
            return;
        }
        self.first = if self.messages == 0 { other.first } else { self.first.min(other.first) };
        self.last = self.last.max(other.last);
        self.messages += other.messages;
        self.events += other.events;
    }
}

/// The next item to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A report of dropped messages.
    Dropped(Dropped),
    /// A message and its number.
    Message(u64, Payload),
}

#[derive(Debug)]
struct Item {
    number: u64,
    payload: Payload,
}

/// The backlog of one collector.
#[derive(Debug)]
pub struct Backlog {
    most_messages: usize,
    most_bytes: usize,
    /// Waiting samples, oldest first.
    samples: VecDeque<Item>,
    events: VecDeque<Item>,
    /// Messages sent and not confirmed.
    in_flight: Vec<Item>,
    /// Bytes of all messages.
    bytes: usize,
    /// Number of the newest message.
    last: u64,
    sent: u64,
    dropped: u64,
    /// Drops that have not been reported to the collector.
    unreported: Dropped,
    /// Drops that have been reported, and whose report the collector has not confirmed.
    reported: Dropped,
}

impl Backlog {
    /// Returns an empty backlog with these limits.
    pub fn new(most_messages: usize, most_bytes: usize) -> Self {
        Self {
            most_messages,
            most_bytes,
            samples: VecDeque::new(),
            events: VecDeque::new(),
            in_flight: Vec::new(),
            bytes: 0,
            last: 0,
            sent: 0,
            dropped: 0,
            unreported: Dropped::default(),
            reported: Dropped::default(),
        }
    }

    /// Adds a message; drops what exceeds the limits.
    pub fn push(&mut self, payload: Payload) {
        self.last += 1;
        let item = Item { number: self.last, payload };
        let bytes = item.payload.bytes();
        while self.len() >= self.most_messages || self.bytes + bytes > self.most_bytes {
            let Some(oldest) = self.samples.pop_front().or_else(|| self.events.pop_front()) else {
                return self.lose(&item); // what is in flight may have arrived already
            };
            self.bytes -= oldest.payload.bytes();
            self.lose(&oldest);
        }
        self.bytes += bytes;
        if item.payload.is_event { self.events.push_back(item) } else { self.samples.push_back(item) }
    }

    /// Counts `events` that were lost before they could be added.
    pub fn miss_events(&mut self, events: u64) {
        let first = self.last + 1;
        self.last += events;
        self.dropped += events;
        self.unreported.add(Dropped { messages: events, events, first, last: self.last });
    }

    fn lose(&mut self, item: &Item) {
        self.dropped += 1;
        let events = u64::from(item.payload.is_event);
        self.unreported.add(Dropped { messages: 1, events, first: item.number, last: item.number });
    }

    /// Returns the next item to send; it is in flight from now on.
    pub fn take(&mut self) -> Option<Next> {
        if self.unreported.messages > 0 {
            let dropped = std::mem::take(&mut self.unreported);
            self.reported.add(dropped);
            return Some(Next::Dropped(dropped));
        }
        let number = |items: &VecDeque<Item>| items.front().map_or(u64::MAX, |item| item.number);
        let is_event = number(&self.events) < number(&self.samples);
        let item = if is_event { self.events.pop_front() } else { self.samples.pop_front() }?;
        let next = Next::Message(item.number, item.payload.clone());
        self.in_flight.push(item);
        Some(next)
    }

    /// Removes all that is in flight, which the collector has confirmed.
    pub fn confirm(&mut self) {
        self.sent += self.in_flight.len() as u64;
        for item in self.in_flight.drain(..) {
            self.bytes -= item.payload.bytes();
        }
        self.reported = Dropped::default();
    }

    /// Requeues all that is in flight, since the collector may have received none of it.
    pub fn retry(&mut self) {
        for item in self.in_flight.drain(..).rev() {
            let queue = if item.payload.is_event { &mut self.events } else { &mut self.samples };
            queue.push_front(item);
        }
        self.unreported.add(std::mem::take(&mut self.reported));
    }

    /// Returns true if there is something to send.
    pub fn has_next(&self) -> bool {
        self.unreported.messages > 0 || !self.samples.is_empty() || !self.events.is_empty()
    }

    /// Returns the number of messages that wait or are in flight.
    pub fn len(&self) -> usize {
        self.samples.len() + self.events.len() + self.in_flight.len()
    }

    /// Returns the bytes of these messages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of messages that the collector has confirmed.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of dropped messages.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(is_event: bool) -> Payload {
        Payload { path: "x", unix_ms: 0, member: "".into(), is_event }
    }

    fn backlog(messages: usize) -> Backlog {
        Backlog::new(messages, 1 << 20)
    }

    /// All items sent, by number; reports as `-MESSAGES/EVENTS FIRST-LAST`.
    fn taken(backlog: &mut Backlog) -> String {
        let spell = |next| match next {
            Next::Message(number, payload) => format!("{number}{}", if payload.is_event { "!" } else { "" }),
            Next::Dropped(Dropped { messages, events, first, last }) => {
                format!("-{messages}/{events} {first}-{last}")
            }
        };
        std::iter::from_fn(|| backlog.take()).map(spell).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn with_room_for_100_of_1000_events_900_are_reported_as_dropped() {
        let mut backlog = backlog(100);
        (0..1000).for_each(|_| backlog.push(payload(true)));
        assert_eq!((backlog.len(), backlog.dropped()), (100, 900));
        let numbers = taken(&mut backlog);
        assert!(numbers.starts_with("-900/900 1-900, 901!, 902!, ") && numbers.ends_with("999!, 1000!"));
        backlog.confirm();
        assert_eq!((backlog.len(), backlog.bytes(), backlog.sent()), (0, 0, 100));
    }

    #[test]
    fn samples_are_dropped_before_events() {
        let mut backlog = backlog(3);
        for is_event in [true, false, false, true, true] {
            backlog.push(payload(is_event));
        }
        assert_eq!(taken(&mut backlog), "-2/0 2-3, 1!, 4!, 5!");
        // All of them may have arrived, so the new message is dropped.
        backlog.push(payload(true));
        assert_eq!(taken(&mut backlog), "-1/1 6-6");
        backlog.retry();
        backlog.push(payload(true));
        assert_eq!(taken(&mut backlog), "-4/2 1-6, 4!, 5!, 7!");
        assert_eq!(backlog.dropped(), 4);
    }

    #[test]
    fn what_is_not_confirmed_goes_again_in_order() {
        let mut backlog = backlog(10);
        for is_event in [true, false, true] {
            backlog.push(payload(is_event));
        }
        assert_eq!(taken(&mut backlog), "1!, 2, 3!");
        assert!(!backlog.has_next());
        backlog.push(payload(false));
        backlog.retry();
        assert!(backlog.has_next());
        assert_eq!(taken(&mut backlog), "1!, 2, 3!, 4");
        backlog.confirm();
        backlog.retry();
        assert_eq!((taken(&mut backlog), backlog.sent()), (String::new(), 4));
    }

    #[test]
    fn a_report_that_did_not_arrive_is_made_again_and_grows() {
        let mut backlog = backlog(1);
        backlog.push(payload(false));
        backlog.push(payload(false));
        assert_eq!(taken(&mut backlog), "-1/0 1-1, 2");
        backlog.retry();
        backlog.miss_events(5);
        assert_eq!(taken(&mut backlog), "-6/5 1-7, 2");
        backlog.confirm();
        backlog.retry();
        assert_eq!(taken(&mut backlog), "");
    }

    #[test]
    fn bytes_are_bounded_too() {
        let long = || Payload { member: "x".repeat(744).into(), ..payload(true) };
        let mut backlog = Backlog::new(1000, 3500);
        (0..10).for_each(|_| backlog.push(long()));
        assert_eq!((backlog.len(), backlog.bytes(), backlog.dropped()), (3, 3000, 7));
        backlog.push(Payload { member: "x".repeat(4000).into(), ..payload(true) });
        assert_eq!(
            (backlog.len(), backlog.bytes(), backlog.dropped()),
            (0, 0, 11),
            "longer than all there is"
        );
        assert_eq!(taken(&mut backlog), "-11/11 1-11");
    }
}
