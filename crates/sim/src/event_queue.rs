//! Queue of future events in the order of time. Of two events at the same time, the one planned
//! first comes first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Picos;

/// A future event. Numbers are indices of the network's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A link direction has sent its frame and may send the next.
    TxDone(usize),
    /// The first frame on a link direction arrives.
    Arrive(usize),
    /// A node honors the first PFC frame that has arrived over a link direction.
    Control(usize),
    /// A pause or rate limit of the sender of a link direction has ended, or PFC is due there.
    Wake(usize),
    /// A switch checks thresholds that other ports have moved.
    Tick(usize),
    /// A software switch starts an iteration.
    Iterate(usize),
    /// A watchdog of a switch is due.
    WatchdogPoll(usize),
    /// A flow's next frame is due.
    Due(usize),
    /// A flow begins.
    FlowStart(usize),
    /// A flow's next message is ready.
    Message(usize),
    /// A fault occurs.
    Fault(usize),
    /// The switches get new routes.
    Converge,
    /// The timer of a flow whose frames are acknowledged is due.
    Timeout(usize),
    /// An agent of DCBX is due, or a frame for it.
    Negotiate(usize),
    /// A point of the series is due.
    Sample,
}

impl Event {
    fn code(self) -> u128 {
        let (kind, number) = match self {
            Event::TxDone(line) => (0, line),
            Event::Arrive(line) => (1, line),
            Event::Control(line) => (2, line),
            Event::Wake(line) => (3, line),
            Event::Tick(switch) => (4, switch),
            Event::Iterate(switch) => (5, switch),
            Event::Due(flow) => (6, flow),
            Event::Message(flow) => (7, flow),
            Event::Fault(fault) => (8, fault),
            Event::FlowStart(flow) => (9, flow),
            Event::Sample => (10, 0),
            Event::WatchdogPoll(switch) => (11, switch),
            Event::Negotiate(end) => (12, end),
            Event::Converge => (13, 0),
            Event::Timeout(flow) => (14, flow),
        };
        debug_assert!(number < 1 << NUMBER_BITS);
        kind << NUMBER_BITS | number as u128
    }

    fn of(code: u128) -> Self {
        let number = (code & ((1 << NUMBER_BITS) - 1)) as usize;
        match code >> NUMBER_BITS & 15 {
            0 => Event::TxDone(number),
            1 => Event::Arrive(number),
            2 => Event::Control(number),
            3 => Event::Wake(number),
            4 => Event::Tick(number),
            5 => Event::Iterate(number),
            6 => Event::Due(number),
            7 => Event::Message(number),
            8 => Event::Fault(number),
            9 => Event::FlowStart(number),
            11 => Event::WatchdogPoll(number),
            12 => Event::Negotiate(number),
            13 => Event::Converge,
            14 => Event::Timeout(number),
            _ => Event::Sample,
        }
    }
}

const NUMBER_BITS: u32 = 22;
const CODE_BITS: u32 = NUMBER_BITS + 4;
/// Bits for the number of planned events, which keeps the order of two at the same time.
const ORDER_BITS: u32 = 64 - CODE_BITS;

/// Log2 of the duration of one slot of the wheel in picoseconds: 2 ns.
const SLOT_SHIFT: u32 = 11;
/// Slots of the wheel, which are 2.1 µs together.
const SLOTS: u64 = 1024;
/// The most entries of the current slot that are moved to make room for another.
const SLOT_LIMIT: usize = 256;

/// The place of an event in the queue, which may be taken long before the event is planned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ticket(u128);

/// The event queue. An entry is one number, so that comparing is cheap: time, order, event.
///
/// It consists of a wheel of short slots, which takes nearly all events, and a heap for distant
/// events. The cost of an event does not depend on their number. The entries of a slot are sorted
/// when it becomes current. An event planned for the current slot is inserted in order or, if the
/// slot has many entries (thousands of flows begin at once), added to the heap.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Entries of the current slot, the next one last.
    current: Vec<u128>,
    /// Number of the current slot, counted from time 0.
    slot: u64,
    slots: Vec<Vec<u128>>,
    /// Bit i is set if slot i of the wheel is not empty.
    used: Vec<u64>,
    /// Bit w is set if word w of `used` is not 0.
    used_words: u64,
    far: BinaryHeap<Reverse<u128>>,
    /// True if the heap has entries of the current slot.
    is_crowded: bool,
    planned: u64,
    /// The event that was taken last.
    taken: u128,
}

impl Queue {
    /// Creates an empty queue.
    pub(crate) fn new() -> Self {
        Self {
            current: Vec::new(),
            slot: 0,
            slots: vec![Vec::new(); SLOTS as usize],
            used: vec![0; SLOTS as usize / 64],
            used_words: 0,
            far: BinaryHeap::new(),
            is_crowded: false,
            planned: 0,
            taken: 0,
        }
    }

    /// Plans an event. An event in the past happens next.
    #[inline]
    pub(crate) fn schedule(&mut self, at: Picos, event: Event) {
        let ticket = self.reserve(at, event);
        self.plan(ticket);
    }

    /// Takes the place of an event that would be planned now, without planning it.
    #[inline]
    pub(crate) fn reserve(&mut self, at: Picos, event: Event) -> Ticket {
        self.planned += 1;
        let order = u128::from(self.planned & ((1 << ORDER_BITS) - 1));
        Ticket(u128::from(at) << 64 | order << CODE_BITS | event.code())
    }

    /// Plans an event at its place.
    #[inline]
    pub(crate) fn plan(&mut self, ticket: Ticket) {
        self.insert(ticket.0);
    }

    /// True if an event is the one that was taken last, or would have come before it.
    #[inline]
    pub(crate) fn is_past(&self, ticket: Ticket) -> bool {
        ticket.0 <= self.taken
    }

    #[inline]
    fn insert(&mut self, entry: u128) {
        let slot = slot_of(entry);
        if slot <= self.slot {
            if self.current.len() < SLOT_LIMIT {
                let index = self.current.partition_point(|later| *later > entry);
                self.current.insert(index, entry);
            } else {
                self.far.push(Reverse(entry));
                self.is_crowded = true;
            }
        } else if slot - self.slot < SLOTS {
            let index = (slot % SLOTS) as usize;
            self.slots[index].push(entry);
            self.used[index / 64] |= 1 << (index % 64);
            self.used_words |= 1 << (index / 64);
        } else {
            self.far.push(Reverse(entry));
        }
    }

    /// Takes the next event if it is not after `until`.
    #[inline]
    pub(crate) fn next(&mut self, until: Picos) -> Option<(Picos, Event)> {
        if self.current.is_empty() {
            self.advance();
        }
        let mut entry = *self.current.last()?;
        let is_far = self.is_crowded && self.far.peek().is_some_and(|Reverse(far)| *far < entry);
        if is_far {
            entry = self.far.peek()?.0;
        }
        let at = (entry >> 64) as Picos;
        if at > until {
            return None;
        }
        if is_far {
            self.far.pop();
        } else {
            self.current.pop();
        }
        self.taken = entry;
        Some((at, Event::of(entry)))
    }

    /// Advances the wheel to the next slot that has entries.
    fn advance(&mut self) {
        let near = self.next_used();
        let far = self.far.peek().map(|Reverse(entry)| slot_of(*entry));
        let Some(next) = near.into_iter().chain(far).min() else { return };
        let next = next.max(self.slot);
        self.slot = next;
        self.is_crowded = false;
        let index = (next % SLOTS) as usize;
        if near == Some(next) {
            self.used[index / 64] &= !(1 << (index % 64));
            self.used_words &= !(u64::from(self.used[index / 64] == 0) << (index / 64));
            std::mem::swap(&mut self.current, &mut self.slots[index]);
        }
        // Distant events that now have a slot on the wheel.
        while let Some(&Reverse(entry)) = self.far.peek()
            && slot_of(entry).saturating_sub(self.slot) < SLOTS
        {
            self.far.pop();
            if slot_of(entry) <= self.slot {
                self.current.push(entry);
            } else {
                self.insert(entry);
            }
        }
        // Entries arrive roughly in the order of time, and short lists that are nearly in order are
        // sorted quickly.
        self.current.reverse();
        self.current.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Returns the next slot on the wheel that has entries.
    #[inline]
    fn next_used(&self) -> Option<u64> {
        let start = (self.slot % SLOTS) as usize;
        let bits = self.used[start / 64] & u64::MAX << (start % 64);
        let index = if bits != 0 {
            start / 64 * 64 + bits.trailing_zeros() as usize
        } else {
            // The next word after this one, or from the start of the wheel; finally this one again.
            let later = self.used_words & (u64::MAX << (start / 64) << 1);
            let word = if later != 0 { later } else { self.used_words }.trailing_zeros() as usize;
            word * 64 + self.used.get(word)?.trailing_zeros() as usize
        };
        Some(self.slot + (index + SLOTS as usize - start) as u64 % SLOTS)
    }
}

#[inline]
fn slot_of(entry: u128) -> u64 {
    (entry >> 64) as u64 >> SLOT_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn earlier_first_and_then_in_the_order_of_planning() {
        let mut queue = Queue::new();
        let planned = [
            (7, Event::Sample),
            (5, Event::Message(3)),
            (5, Event::TxDone((1 << NUMBER_BITS) - 1)),
            (9, Event::Arrive(2)),
            (5, Event::Due(1)),
            (0, Event::Control(4)),
        ];
        for (at, event) in planned {
            queue.schedule(at, event);
        }
        let taken: Vec<_> = std::iter::from_fn(|| queue.next(8)).collect();
        assert_eq!(taken, [planned[5], planned[1], planned[2], planned[4], planned[0]]);
        assert_eq!((queue.next(8), queue.next(9)), (None, Some(planned[3])));
    }

    /// An event that is planned late comes where it would have come.
    #[test]
    fn a_reserved_slot_is_kept() {
        let mut queue = Queue::new();
        queue.schedule(5, Event::Due(1));
        let ticket = queue.reserve(7, Event::TxDone(2));
        queue.schedule(7, Event::Due(3));
        assert_eq!((queue.next(9), queue.is_past(ticket)), (Some((5, Event::Due(1))), false));
        queue.plan(ticket);
        assert_eq!((queue.next(9), queue.is_past(ticket)), (Some((7, Event::TxDone(2))), true));
        let never_planned = queue.reserve(7, Event::TxDone(4));
        assert!(!queue.is_past(never_planned));
        assert_eq!((queue.next(9), queue.is_past(never_planned)), (Some((7, Event::Due(3))), false));
        queue.schedule(8, Event::Due(5));
        assert_eq!((queue.next(9), queue.is_past(never_planned)), (Some((8, Event::Due(5))), true));
    }

    /// Plans far more events than the limit of one slot, some of them while that slot is current.
    #[test]
    fn a_crowd_at_one_time() {
        let mut queue = Queue::new();
        let numbers = 0..4 * SLOT_LIMIT;
        numbers.clone().for_each(|number| queue.schedule(7, Event::FlowStart(number)));
        for number in numbers.clone() {
            assert_eq!(queue.next(7), Some((7, Event::FlowStart(number))));
            queue.schedule(7 + (number % 2) as Picos, Event::Message(number));
        }
        for odd in 0..2 {
            for number in numbers.clone().filter(|number| number % 2 == odd) {
                assert_eq!(queue.next(9), Some((7 + odd as Picos, Event::Message(number))));
            }
        }
        assert_eq!(queue.next(Picos::MAX), None);
    }

    proptest! {
        /// Compares random plans at all distances, and random steps of time, with a sorted list.
        #[test]
        fn agrees_with_a_sorted_list(steps in proptest::collection::vec((0u64..40, 0u64..1000, 0u64..6), 1..400)) {
            let mut queue = Queue::new();
            let (mut model, mut now) = (Vec::new(), 0);
            for (number, (shift, part, take)) in steps.into_iter().enumerate() {
                let at = now + (part << shift) / 1000;
                queue.schedule(at, Event::Due(number));
                model.push((at, number));
                for _ in 0..take / 2 {
                    model.sort_unstable();
                    let until = now + (1 << shift);
                    let expected = model.first().filter(|(at, _)| *at <= until).copied();
                    prop_assert_eq!(queue.next(until), expected.map(|(at, number)| (at, Event::Due(number))));
                    if let Some((at, _)) = expected {
                        now = at;
                        model.remove(0);
                    }
                }
            }
        }
    }

    #[test]
    fn every_event_comes_back_as_it_went_in() {
        let events = [
            Event::TxDone(1),
            Event::Arrive(2),
            Event::Control(3),
            Event::Wake(4),
            Event::Tick(5),
            Event::Iterate(6),
            Event::Due(7),
            Event::Message(8),
            Event::Fault(9),
            Event::FlowStart(10),
            Event::WatchdogPoll(11),
            Event::Sample,
        ];
        assert_eq!(events.map(|event| Event::of(event.code())), events);
    }
}
