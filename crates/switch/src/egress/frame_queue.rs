//! The frames that the switch stores until they have left: what is charged for each, and the order
//! of each queue.
//!
//! There is one slot per frame of the memory, made at the start, or on demand where the memory
//! grows. A queue is a linked list through the slots, so any queue may hold any number of frames
//! and no queue needs memory of its own. A slot takes the frame's token and returns it, so that a
//! frame has one owner at a time. Frame n has slot n + 1. Slot 0 is a sentinel: it precedes the
//! first frame of an empty queue, so push and pop have no unpredictable branch. Slots beyond those
//! of the memory are queued copies of flooded frames ([`crate::egress::flood_copies`]).

use crate::cow_table::{self, CowTable};
use crate::frame::FrameId;
use crate::frame::header_edit::VlanAction;
use crate::frame::meta::FrameMeta;
use serde::{Deserialize, Serialize};
use std::hint::select_unpredictable;

/// One slot. Four slots fit a cache line.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[repr(C, align(16))]
pub(crate) struct Slot {
    pub(super) meta: FrameMeta,
    /// Slot of the next frame of its queue.
    pub(super) next: u32,
}

pub(super) const EMPTY: Slot = Slot { meta: FrameMeta::NONE, next: NONE };

impl cow_table::Slot for Slot {
    const EMPTY: Self = EMPTY;

    fn is_empty(&self) -> bool {
        self.meta.in_port == FrameMeta::NO_FRAME
    }
}

/// Slot 0.
pub(super) const NONE: u32 = 0;

/// Returns the slot of frame number `index`.
#[inline]
pub(super) fn slot_of(index: usize) -> usize {
    index + 1
}

/// First and last frame of one queue, by their slots.
#[derive(Debug, Serialize, Deserialize)]
pub struct FrameList {
    head: u32,
    tail: u32,
    frames: u32,
}

impl Default for FrameList {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, frames: 0 }
    }
}

impl FrameList {
    /// Returns the number of frames in the queue.
    #[inline]
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Returns the slot of the first frame.
    pub(super) fn head(&self) -> u32 {
        self.head
    }

    /// True if the queue holds no frame.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// Slot of the original of a queued copy; 0 if the copy is not in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OriginalSlot(pub(super) u32);

impl cow_table::Slot for OriginalSlot {
    const EMPTY: Self = Self(NONE);

    fn is_empty(&self) -> bool {
        self.0 == NONE
    }
}

/// State of the slots beyond those of the memory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FloodCopies {
    /// Frames of the memory. The first queued copy has the slot after theirs.
    pub(super) frames: u32,
    /// Maximum number of queued copies.
    pub(super) limit: u32,
    pub(super) queued: u32,
    /// Originals of the copies, by slot. As long as the most copies that were ever queued.
    pub(super) originals: CowTable<OriginalSlot>,
    /// First of the unused slots below that length. A checkpoint does not contain them: they only
    /// save memory.
    #[serde(skip)]
    pub(super) unused: u32,
}

impl FloodCopies {
    pub(super) fn new(frames: usize, limit: usize) -> Self {
        let (frames, limit) = (frames as u32, limit as u32);
        Self { frames, limit, queued: 0, originals: CowTable::new(0), unused: NONE }
    }

    pub(super) fn memory_frames(&self) -> usize {
        self.frames as usize
    }

    pub(super) fn originals(&mut self) -> &mut CowTable<OriginalSlot> {
        &mut self.originals
    }

    /// Returns the index in `originals` of a queued copy; `None` for a frame of the memory.
    pub(super) fn index_of(&self, frame: &FrameId) -> Option<usize> {
        frame.index().checked_sub(self.frames as usize)
    }
}

/// Slots of all frames of the memory that were ever in use.
#[derive(Debug, Serialize, Deserialize)]
pub struct FrameQueues {
    pub(super) slots: CowTable<Slot>,
    /// Tag edits of queued frames, by slot. Empty until ports have VLANs.
    tags: CowTable<VlanAction>,
    pub(super) copies: FloodCopies,
}

impl FrameQueues {
    /// Makes empty slots for a memory of `frames` frames, and room for `copies` queued copies of
    /// flooded frames, so that nothing is allocated later.
    pub fn new(frames: usize, copies: usize) -> Self {
        let mut store = Self::growing(frames, copies);
        store.slots.reserve(1 + frames + copies);
        store.slots.grow(1 + frames);
        store.reserve_copies(copies);
        store
    }

    /// Makes no slots: for a memory of at most `frames` frames that grows. Slots are added as
    /// frames are used.
    pub fn growing(frames: usize, copies: usize) -> Self {
        Self { slots: CowTable::new(1), tags: CowTable::new(0), copies: FloodCopies::new(frames, copies) }
    }

    /// Makes room for tag edits, of copies to come as well.
    pub fn make_room_for_tags(&mut self) {
        self.tags.reserve(self.slots.capacity());
        self.tags.grow(self.slots.len());
    }

    /// Sets the tag edit of queued frame number `index`.
    pub fn set_tag(&mut self, index: usize, tag: VlanAction) {
        if self.tags.len() < self.slots.len() {
            self.make_room_for_tags(); // memory has grown
        }
        *self.tags.write(slot_of(index)) = tag;
    }

    /// Takes the tag edit of a frame that left its queue.
    pub fn take_tag(&mut self, frame: &FrameId) -> VlanAction {
        match slot_of(frame.index()) {
            index if index < self.tags.len() => std::mem::take(self.tags.write(index)),
            _ => VlanAction::Keep,
        }
    }

    /// Returns the metadata of a stored frame.
    #[inline]
    pub fn meta(&self, frame: &FrameId) -> &FrameMeta {
        &self.slots[slot_of(frame.index())].meta
    }

    /// Appends a frame to a queue.
    #[inline(always)] // twice in the frame path
    pub fn push(&mut self, list: &mut FrameList, frame: FrameId, charge: &FrameMeta) {
        let number = slot_of(frame.index());
        let slot = self.empty_slot(number);
        (slot.meta, slot.next) = (*charge, NONE);
        let number = number as u32;
        self.slots.write(list.tail as usize).next = number;
        list.head = select_unpredictable(list.head == NONE, number, list.head);
        list.tail = number;
        list.frames += 1;
    }

    /// Returns the length of the first frame of a queue in bytes; 0 if the queue is empty.
    #[inline]
    pub fn front_len(&self, list: &FrameList) -> u16 {
        self.slots[list.head as usize].meta.len
    }

    /// Takes the first frame of a queue to be sent. It stays charged until `complete`.
    #[inline]
    pub fn pop(&mut self, list: &mut FrameList) -> Option<(FrameId, &mut FrameMeta)> {
        if list.head == NONE {
            return None;
        }
        let number = list.head;
        let slot = self.slots.write(number as usize);
        list.head = slot.next;
        list.tail = select_unpredictable(slot.next == NONE, NONE, list.tail);
        list.frames -= 1;
        Some((FrameId::new(number - 1), &mut slot.meta))
    }

    /// Takes the first frame of a queue that holds some. Returns it, its length and its cells. It
    /// stays charged until `complete`.
    #[inline]
    pub fn pop_front(&self, list: &mut FrameList) -> (FrameId, u16, u32) {
        let number = list.head;
        let slot = &self.slots[number as usize];
        list.head = slot.next;
        if slot.next == NONE {
            list.tail = NONE;
        }
        list.frames -= 1;
        (FrameId::new(number - 1), slot.meta.len, slot.meta.cells.into())
    }

    /// Records a frame that the switch made itself and hands out to be sent.
    pub fn push_control(&mut self, frame: &FrameId) {
        self.empty_slot(slot_of(frame.index())).meta.in_port = FrameMeta::CONTROL;
    }

    /// Returns the slot of a frame that is not stored yet.
    #[inline]
    pub(super) fn empty_slot(&mut self, number: usize) -> &mut Slot {
        if number >= self.slots.len() {
            self.grow(number);
        }
        let slot = self.slots.write(number);
        debug_assert_eq!(
            slot.meta.in_port,
            FrameMeta::NO_FRAME,
            "the frame of slot {number} is stored twice"
        );
        slot
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, number: usize) {
        self.slots.grow(1 + number.next_power_of_two().min(self.copies.memory_frames()));
    }

    /// Completes a frame that was handed out and has left. Returns its metadata, or `None` for a
    /// copy of a flooded frame and for a frame that the switch made:
    /// `complete_copy_or_control_slow` completes these.
    pub fn complete(&mut self, frame: &FrameId) -> Option<FrameMeta> {
        let stored = self.charged(frame)?;
        let charge = *stored;
        stored.in_port = FrameMeta::NO_FRAME;
        Some(charge)
    }

    /// Returns the metadata of a frame as `complete` does, in its place. The caller marks it as
    /// [`FrameMeta::NO_FRAME`] once it has read it.
    #[inline]
    pub fn charged(&mut self, frame: &FrameId) -> Option<&mut FrameMeta> {
        let meta = &mut self.slots.write(slot_of(frame.index())).meta;
        debug_assert_ne!(meta.in_port, FrameMeta::NO_FRAME, "frame {} was not handed out", frame.index());
        (meta.in_port < FrameMeta::COPY).then_some(meta)
    }

    /// True if frame number `index` is stored: queued or handed out.
    pub fn has(&self, index: usize) -> bool {
        self.slots.get(slot_of(index)).is_some_and(|slot| slot.meta.in_port != FrameMeta::NO_FRAME)
    }

    /// Returns the bytes of frame number `index`, without FCS; 0 if it is not stored.
    pub fn len_of(&self, index: usize) -> u16 {
        self.slots
            .get(slot_of(index))
            .filter(|slot| slot.meta.in_port < FrameMeta::CONTROL)
            .map_or(0, |slot| slot.meta.len)
    }

    /// Returns the number of frames of the memory.
    pub fn memory_frames(&self) -> usize {
        self.copies.memory_frames()
    }

    /// Returns the slots of frames of the memory.
    pub(super) fn memory_slots(&self) -> &[Slot] {
        &self.slots[..self.slots.len().min(slot_of(self.memory_frames()))]
    }

    /// Returns the tables, for a copy of them.
    pub(crate) fn tables(
        &mut self,
    ) -> (&mut CowTable<Slot>, &mut CowTable<VlanAction>, &mut CowTable<OriginalSlot>) {
        (&mut self.slots, &mut self.tags, self.copies.originals())
    }

    /// Returns the number of frames stored, queued or handed out. For checks only, as it visits
    /// every slot.
    pub fn count(&self) -> usize {
        self.memory_slots().iter().filter(|slot| slot.meta.in_port != FrameMeta::NO_FRAME).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_slots_are_a_cache_line() {
        assert_eq!(size_of::<Slot>(), 16);
    }

    /// Slots are made for the first frame, and for more as they come.
    #[test]
    fn a_memory_that_grows_has_a_slot_for_each_frame() {
        let mut store = FrameQueues::growing(8, 0);
        let mut queue = FrameList::default();
        for index in 0..8 {
            store.push(&mut queue, FrameId::new(index), &FrameMeta { len: 100, cells: 1, ..EMPTY.meta });
            assert_eq!(store.slots.len(), 1 + (index as usize + 1).next_power_of_two());
        }
        assert_eq!(queue.frames(), 8);
    }

    #[test]
    fn two_queues_through_the_same_slots_keep_their_orders() {
        let mut store = FrameQueues::new(8, 0);
        let charge = |len| FrameMeta { len, cells: 1, in_port: 0, ..EMPTY.meta };
        let (mut a, mut b) = (FrameList::default(), FrameList::default());
        for index in [3, 1, 7] {
            store.push(&mut a, FrameId::new(index), &charge(index as u16));
            store.push(&mut b, FrameId::new(index - 1), &charge(index as u16 + 100));
        }
        assert_eq!((store.front_len(&a), store.front_len(&b), store.count()), (3, 103, 6));
        let order: Vec<_> =
            std::iter::from_fn(|| store.pop(&mut a).map(|(frame, _)| frame.index())).collect();
        assert_eq!((order, a.is_empty(), b.frames()), (vec![3, 1, 7], true, 3));
        assert_eq!(store.complete(&FrameId::new(1)), Some(charge(1)));
        assert_eq!(store.count(), 5);
    }
}
