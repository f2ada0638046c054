//! The frames that the switch stores until they have left: what is charged for each, and the order of each queue.
//!
//! One slot a frame of the memory, made at the start. A queue is a list through the slots, so any queue may hold any
//! number of frames and no queue needs memory of its own. A slot takes the frame's token and gives it back: a frame is
//! either here or with somebody else.

use crate::frame::FrameId;
use crate::settings::DropLevel;
use wire::ip::DsField;

/// What is remembered of a frame until its cells are released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// Bytes without FCS.
    pub len: u16,
    /// Cells charged, at ingress and at egress.
    pub cells: u16,
    /// Port it came in on.
    pub in_port: u8,
    /// Its priority group there.
    pub priority: u8,
    /// Queue it leaves by.
    pub queue: u8,
    /// Its drop level.
    pub drop_level: DropLevel,
    /// Where its differentiated services field is, if it has one: marks and rewriting look no further.
    pub ds_field: Option<DsField>,
}

/// Four of them are a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(16))]
struct Slot {
    next: u32,
    charge: Charge,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The switch does not have it.
    Absent,
    /// In a queue, or handed out to be sent and still charged.
    Charged,
    /// A frame that the switch made itself (PFC); it has no cells.
    Own,
}

const NONE: u32 = u32::MAX;

/// First and last frame of one queue.
#[derive(Debug)]
pub struct List {
    head: u32,
    tail: u32,
    frames: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, frames: 0 }
    }
}

impl List {
    /// Frames in it.
    #[inline]
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Nothing in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// A slot for each frame of the memory.
#[derive(Debug)]
pub struct Store {
    slots: Vec<Slot>,
}

impl Store {
    /// Slots for frames 0 to `frames` − 1, all empty.
    pub fn new(frames: usize) -> Self {
        let charge = Charge {
            len: 0,
            cells: 0,
            in_port: 0,
            priority: 0,
            queue: 0,
            drop_level: DropLevel::Green,
            ds_field: None,
        };
        Self { slots: vec![Slot { next: NONE, charge, state: State::Absent }; frames] }
    }

    /// Appends a frame to a queue.
    #[inline]
    pub fn push(&mut self, list: &mut List, frame: FrameId, charge: Charge) {
        let index = frame.index();
        debug_assert_eq!(self.slots[index].state, State::Absent, "frame {index} is stored twice");
        self.slots[index] = Slot { next: NONE, charge, state: State::Charged };
        match list.tail {
            NONE => list.head = index as u32,
            tail => self.slots[tail as usize].next = index as u32,
        }
        list.tail = index as u32;
        list.frames += 1;
    }

    /// Length of the first frame of a queue in bytes; 0 if it is empty.
    #[inline]
    pub fn front_len(&self, list: &List) -> u16 {
        if list.head == NONE { 0 } else { self.slots[list.head as usize].charge.len }
    }

    /// Takes the first frame of a queue to be sent. It stays charged until `finish`.
    #[inline]
    pub fn pop(&mut self, list: &mut List) -> Option<(FrameId, Charge)> {
        if list.head == NONE {
            return None;
        }
        let index = list.head;
        let slot = &self.slots[index as usize];
        list.head = slot.next;
        list.frames -= 1;
        if list.head == NONE {
            list.tail = NONE;
        }
        Some((FrameId::new(index), slot.charge))
    }

    /// Notes a frame that the switch made itself and hands out to be sent.
    pub fn lend_own(&mut self, frame: &FrameId) {
        debug_assert_eq!(self.slots[frame.index()].state, State::Absent);
        self.slots[frame.index()].state = State::Own;
    }

    /// A frame handed out has left: what was charged for it, `None` if it was the switch's own.
    #[inline]
    pub fn finish(&mut self, frame: &FrameId) -> Option<Charge> {
        let slot = &mut self.slots[frame.index()];
        debug_assert_ne!(slot.state, State::Absent, "frame {} was not handed out", frame.index());
        let charged = slot.state == State::Charged;
        slot.state = State::Absent;
        charged.then_some(slot.charge)
    }

    /// Frames stored, in queues or handed out (checks only: it looks at every slot).
    pub fn count(&self) -> usize {
        self.slots.iter().filter(|slot| slot.state != State::Absent).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_slots_are_a_cache_line() {
        assert_eq!(size_of::<Slot>(), 16);
    }

    #[test]
    fn two_queues_through_the_same_slots_keep_their_orders() {
        let mut store = Store::new(8);
        let charge = |len| Charge {
            len,
            cells: 1,
            in_port: 0,
            priority: 0,
            queue: 0,
            drop_level: DropLevel::Green,
            ds_field: None,
        };
        let (mut a, mut b) = (List::default(), List::default());
        for index in [3, 1, 7] {
            store.push(&mut a, FrameId::new(index), charge(index as u16));
            store.push(&mut b, FrameId::new(index - 1), charge(index as u16 + 100));
        }
        assert_eq!((store.front_len(&a), store.front_len(&b), store.count()), (3, 103, 6));
        let order: Vec<_> = std::iter::from_fn(|| store.pop(&mut a)).map(|(frame, _)| frame.index()).collect();
        assert_eq!((order, a.is_empty(), b.frames()), (vec![3, 1, 7], true, 3));
        assert_eq!(store.finish(&FrameId::new(1)), Some(charge(1)));
        assert_eq!(store.count(), 5);
    }
}
