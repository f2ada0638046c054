//! Queue of future events in the order of time.
//!
//! Rule: of the events at the same time, those of the whole network come first, then those of each
//! node in the order of the nodes. Those of one node come by kind, and of one kind in an order that
//! a hash of seed, time and number gives. So the order does not depend on when and by whom an event
//! was planned, and is the same in a part of the network; and of two senders in step none is always
//! first, as it would be by number: its congestion control would see the shorter queue each time.

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
    /// The measuring window begins.
    WindowStart,
}

impl Event {
    /// Returns its kind and number.
    #[inline]
    fn parts(self) -> (u128, usize) {
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
            Event::WindowStart => (15, 0),
        };
        debug_assert!(number < 1 << NUMBER_BITS);
        (kind, number)
    }

    /// Returns the event of an entry.
    #[inline]
    fn of(entry: u128) -> Self {
        let number = (entry & ((1 << NUMBER_BITS) - 1)) as usize;
        match entry >> KIND_SHIFT & 15 {
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
            15 => Event::WindowStart,
            _ => Event::Sample,
        }
    }
}

const NUMBER_BITS: u32 = 22;
/// Bits of the hash, above the number.
const HASH_BITS: u32 = 24;
const KIND_SHIFT: u32 = HASH_BITS + NUMBER_BITS;
/// A node has the bits above the kind, and below the time.
const NODE_SHIFT: u32 = KIND_SHIFT + 4;
/// Nodes that have a place of their own, beside the one of the whole network.
pub(crate) const MOST_NODES: usize = (1 << (64 - NODE_SHIFT)) - 1;

/// Log2 of the duration of one slot of the wheel in picoseconds: 2 ns.
const SLOT_SHIFT: u32 = 11;
/// Slots of the wheel, which are 2.1 µs together.
const SLOTS: u64 = 1024;
/// The most entries of the current slot that are moved to make room for another.
const SLOT_LIMIT: usize = 256;

/// The place of an event in the queue, which is known long before the event is planned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ticket(u128);

/// Returns bits that put numbers in another order at each time.
#[inline]
fn hash(salt: u64, at: Picos, number: usize) -> u64 {
    let mixed = at.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ salt;
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> (64 - HASH_BITS)
}

/// The event queue. An entry is one number, so that comparing is cheap: time, node, event.
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
    /// The last of the events that were taken, in their order. One that was planned for its own
    /// time may be taken after it and yet come before.
    taken: u128,
    /// What the seed puts into the order of events at the same time.
    salt: u64,
}

impl Queue {
    /// Creates an empty queue of a run with this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            current: Vec::new(),
            slot: 0,
            slots: vec![Vec::new(); SLOTS as usize],
            used: vec![0; SLOTS as usize / 64],
            used_words: 0,
            far: BinaryHeap::new(),
            is_crowded: false,
            taken: 0,
            salt: seed.wrapping_mul(0xd6e8_feb8_6659_fd93),
        }
    }

    /// Returns the place of an event of a node.
    #[inline]
    pub(crate) fn ticket(&self, at: Picos, node: usize, event: Event) -> Ticket {
        let (kind, number) = event.parts();
        let order = u128::from(hash(self.salt, at, number)) << NUMBER_BITS | number as u128;
        Ticket(u128::from(at) << 64 | (node as u128 + 1) << NODE_SHIFT | kind << KIND_SHIFT | order)
    }

    /// Plans an event of the whole network.
    pub(crate) fn schedule_global(&mut self, at: Picos, event: Event) {
        let (kind, number) = event.parts();
        self.insert(u128::from(at) << 64 | kind << KIND_SHIFT | number as u128);
    }

    /// Plans an event of a node. An event in the past happens next.
    #[inline]
    pub(crate) fn schedule(&mut self, at: Picos, node: usize, event: Event) {
        self.insert(self.ticket(at, node, event).0);
    }

    /// Plans an event at its place.
    #[inline]
    pub(crate) fn plan(&mut self, ticket: Ticket) {
        self.insert(ticket.0);
    }

    /// True if an event was taken, or would have come before one that was.
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
        self.taken = self.taken.max(entry);
        Some((at, Event::of(entry)))
    }

    /// Returns the time of the next event.
    pub(crate) fn next_at(&mut self) -> Option<Picos> {
        if self.current.is_empty() {
            self.advance();
        }
        let near = self.current.last().copied();
        let far = self.far.peek().map(|Reverse(entry)| *entry);
        near.into_iter().chain(far).min().map(|entry| (entry >> 64) as Picos)
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
    fn earlier_first_and_then_by_node_and_kind() {
        let mut queue = Queue::new(0);
        let planned = [
            (7, 2, Event::TxDone(3)),
            (5, 2, Event::Message(3)),
            (5, 1, Event::TxDone((1 << NUMBER_BITS) - 1)),
            (9, 0, Event::Arrive(2)),
            (5, 1, Event::Due(9)),
            (5, 1, Event::Arrive(8)),
            (0, 5, Event::Control(4)),
        ];
        for (at, node, event) in planned {
            queue.schedule(at, node, event);
        }
        queue.schedule_global(5, Event::Fault(1));
        let taken: Vec<_> = std::iter::from_fn(|| queue.next(8)).collect();
        let of = |n: usize| (planned[n].0, planned[n].2);
        assert_eq!(taken, [of(6), (5, Event::Fault(1)), of(2), of(5), of(4), of(1), of(0)]);
        assert_eq!((queue.next(8), queue.next(9)), (None, Some(of(3))));
    }

    /// Of two that are due together, each comes first half of the time.
    #[test]
    #[cfg_attr(miri, ignore = "statistics of hundreds of thousands of hashes")]
    fn ties_favor_none() {
        let queue = Queue::new(0);
        for [a, b] in [[0, 1], [2, 4], [7, 4000], [512, 513]] {
            let is_first =
                |at: Picos| queue.ticket(at, 1, Event::Arrive(a)).0 < queue.ticket(at, 1, Event::Arrive(b)).0;
            for step in [81_920, 83_840, 1_000_000] {
                let first = (0..10_000).filter(|frame| is_first(frame * step)).count();
                assert!((4_700..5_300).contains(&first), "{a}, {b}, each {step} ps: {first}");
            }
        }
    }

    /// An event that is planned late comes where it would have come.
    #[test]
    fn a_ticket_is_kept() {
        let mut queue = Queue::new(0);
        queue.schedule(5, 1, Event::Due(1));
        let ticket = queue.ticket(7, 1, Event::TxDone(2));
        queue.schedule(7, 1, Event::Due(3));
        assert_eq!((queue.next(9), queue.is_past(ticket)), (Some((5, Event::Due(1))), false));
        queue.plan(ticket);
        assert_eq!((queue.next(9), queue.is_past(ticket)), (Some((7, Event::TxDone(2))), true));
        let never_planned = queue.ticket(7, 1, Event::Arrive(4));
        assert!(!queue.is_past(never_planned));
        assert_eq!((queue.next(9), queue.is_past(never_planned)), (Some((7, Event::Due(3))), true));
        // One that is planned for the present comes next, and what was past remains so.
        queue.schedule(7, 1, Event::TxDone(3));
        assert_eq!((queue.next(9), queue.is_past(never_planned)), (Some((7, Event::TxDone(3))), true));
    }

    /// Plans far more events than the limit of one slot, some of them while that slot is current.
    #[test]
    fn a_crowd_at_one_time() {
        let mut queue = Queue::new(0);
        let numbers = 0..4 * SLOT_LIMIT;
        numbers.clone().for_each(|number| queue.schedule(7, 1, Event::FlowStart(number)));
        let mut taken = Vec::new();
        for _ in numbers.clone() {
            let Some((7, Event::FlowStart(number))) = queue.next(7) else {
                panic!("{} were taken", taken.len())
            };
            queue.schedule(7, 2, Event::Message(number));
            taken.push(number);
        }
        taken.sort_unstable();
        assert!(taken.into_iter().eq(numbers.clone()));
        let messages = std::iter::from_fn(|| queue.next(7)).count();
        assert_eq!(messages, numbers.len());
        assert_eq!(queue.next(Picos::MAX), None);
    }

    proptest! {
        /// Compares random plans at all distances, and random steps of time, with a sorted list.
        #[test]
        fn agrees_with_a_sorted_list(
            steps in proptest::collection::vec((0u64..40, 0u64..1000, 0u64..6, 0usize..9), 1..400),
        ) {
            let mut queue = Queue::new(0);
            let (mut model, mut now) = (Vec::new(), 0);
            for (number, (shift, part, take, node)) in steps.into_iter().enumerate() {
                let at = now + (part << shift) / 1000;
                queue.schedule(at, node, Event::Due(number));
                model.push((at, node, number));
                for _ in 0..take / 2 {
                    model.sort_unstable_by_key(|&(at, node, number)| (at, node, hash(0, at, number), number));
                    let until = now + (1 << shift);
                    let expected = model.first().filter(|(at, ..)| *at <= until).copied();
                    let event = expected.map(|(at, _, number)| (at, Event::Due(number)));
                    prop_assert_eq!(queue.next(until), event);
                    if let Some((at, ..)) = expected {
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
        let queue = Queue::new(1);
        assert_eq!(events.map(|event| Event::of(queue.ticket(7, 4095, event).0)), events);
    }
}
