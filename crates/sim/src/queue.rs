//! What is to happen, in the order of time; of two things at the same time, the one that was planned first comes first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Picos;

/// Something that is to happen. Numbers are those of the network's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A line has sent its frame and may send the next.
    LineFree(usize),
    /// The first frame on a line arrives.
    Arrive(usize),
    /// A node obeys the first PFC frame that has arrived over a line.
    Obey(usize),
    /// A pause or a rate no longer holds back what the sender of a line has, or PFC is due there.
    Wake(usize),
    /// A switch looks at thresholds that others have moved.
    Tick(usize),
    /// A software switch turns its loop.
    Turn(usize),
    /// A flow's next frame is due.
    Due(usize),
    /// A flow begins.
    Begin(usize),
    /// A flow's next message is there.
    Message(usize),
    /// A fault.
    Fault(usize),
    /// A point of the series.
    Sample,
}

impl Event {
    fn code(self) -> u128 {
        let (kind, number) = match self {
            Event::LineFree(line) => (0, line),
            Event::Arrive(line) => (1, line),
            Event::Obey(line) => (2, line),
            Event::Wake(line) => (3, line),
            Event::Tick(switch) => (4, switch),
            Event::Turn(switch) => (5, switch),
            Event::Due(flow) => (6, flow),
            Event::Message(flow) => (7, flow),
            Event::Fault(fault) => (8, fault),
            Event::Begin(flow) => (9, flow),
            Event::Sample => (10, 0),
        };
        debug_assert!(number < 1 << NUMBER_BITS);
        kind << NUMBER_BITS | number as u128
    }

    fn of(code: u128) -> Self {
        let number = (code & ((1 << NUMBER_BITS) - 1)) as usize;
        match code >> NUMBER_BITS & 15 {
            0 => Event::LineFree(number),
            1 => Event::Arrive(number),
            2 => Event::Obey(number),
            3 => Event::Wake(number),
            4 => Event::Tick(number),
            5 => Event::Turn(number),
            6 => Event::Due(number),
            7 => Event::Message(number),
            8 => Event::Fault(number),
            9 => Event::Begin(number),
            _ => Event::Sample,
        }
    }
}

const NUMBER_BITS: u32 = 22;
const CODE_BITS: u32 = NUMBER_BITS + 4;
/// Events planned in one run: the order of two at the same time is kept for so many.
const ORDER_BITS: u32 = 64 - CODE_BITS;

/// The queue. An entry is one number, so that comparing is cheap: time, order, event.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: BinaryHeap<Reverse<u128>>,
    planned: u64,
}

impl Queue {
    /// Plans an event.
    #[inline]
    pub(crate) fn plan(&mut self, at: Picos, event: Event) {
        self.planned += 1;
        let order = u128::from(self.planned & ((1 << ORDER_BITS) - 1));
        self.entries.push(Reverse(u128::from(at) << 64 | order << CODE_BITS | event.code()));
    }

    /// Takes the next event if it is not after `until`.
    #[inline]
    pub(crate) fn next(&mut self, until: Picos) -> Option<(Picos, Event)> {
        let Reverse(entry) = *self.entries.peek()?;
        let at = (entry >> 64) as Picos;
        if at > until {
            return None;
        }
        self.entries.pop();
        Some((at, Event::of(entry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_first_and_then_in_the_order_of_planning() {
        let mut queue = Queue::default();
        let planned = [
            (7, Event::Sample),
            (5, Event::Message(3)),
            (5, Event::LineFree((1 << NUMBER_BITS) - 1)),
            (9, Event::Arrive(2)),
            (5, Event::Due(1)),
            (0, Event::Obey(4)),
        ];
        for (at, event) in planned {
            queue.plan(at, event);
        }
        let taken: Vec<_> = std::iter::from_fn(|| queue.next(8)).collect();
        assert_eq!(taken, [planned[5], planned[1], planned[2], planned[4], planned[0]]);
        assert_eq!((queue.next(8), queue.next(9)), (None, Some(planned[3])));
    }

    #[test]
    fn every_event_comes_back_as_it_went_in() {
        let events = [
            Event::LineFree(1),
            Event::Arrive(2),
            Event::Obey(3),
            Event::Wake(4),
            Event::Tick(5),
            Event::Turn(6),
            Event::Due(7),
            Event::Message(8),
            Event::Fault(9),
            Event::Begin(10),
            Event::Sample,
        ];
        assert_eq!(events.map(|event| Event::of(event.code())), events);
    }
}
