//! Copies of flooded frames: a flooded frame is stored once, and each queue holds an entry for it.
//!
//! Rule: the original stays stored, and charged at ingress, until its last copy has left, whether
//! sent, dropped or flushed. A queued copy is a slot without memory; it is charged at its queue. It
//! gets memory when it is handed out to be sent. Copies with memory are bounded per port, so that
//! the memory reserved for them ([`crate::buffer::sizing`]) is never used up. Source:
//! docs/behavior.md, "Flooded frames".

use crate::cow_table;
use crate::egress::frame_queue::{EMPTY, FrameList, FrameQueues, NONE, OriginalSlot, Slot, slot_of};
use crate::frame::FrameId;
use crate::frame::meta::FrameMeta;

/// A completed copy of a flooded frame.
#[derive(Debug)]
pub(crate) struct CompletedCopy {
    /// Metadata, as charged at egress.
    pub(crate) meta: FrameMeta,
    /// True if the copy had memory: it was handed out.
    pub(crate) had_memory: bool,
    /// The original and what it is charged at ingress, if this was its last copy.
    pub(crate) original: Option<(FrameId, FrameMeta)>,
}

impl FrameQueues {
    /// Sets the maximum number of queued copies. Unless the memory grows, allocates their slots.
    pub(crate) fn reserve_copies(&mut self, limit: usize) {
        let first = slot_of(self.memory_frames());
        self.copies.limit = (limit as u32).min(cow_table::MAX_SLOTS.saturating_sub(first as u32));
        if self.slots.len() >= first {
            let limit = self.copies.limit as usize;
            self.slots.reserve(first + limit);
            self.copies.originals.reserve(limit);
        }
    }

    /// Stores a flooded frame, of which copies are to be queued.
    pub(crate) fn store_original(&mut self, frame: &FrameId, charge: &FrameMeta) {
        *self.empty_slot(slot_of(frame.index())) = Slot { meta: *charge, next: 0 };
    }

    /// Removes an original of which no copy was queued.
    pub(crate) fn remove_original(&mut self, frame: &FrameId) {
        self.slots.write(slot_of(frame.index())).meta.in_port = FrameMeta::NO_FRAME;
    }

    /// True if one more copy may be queued.
    pub(crate) fn has_room_for_copy(&self) -> bool {
        self.copies.queued < self.copies.limit
    }

    /// Returns a copy of a stored original, which must be queued. There is room for it.
    pub(crate) fn copy_of(&mut self, original: &FrameId) -> FrameId {
        debug_assert!(self.has_room_for_copy());
        let first = slot_of(self.memory_frames());
        let number = match self.copies.unused {
            NONE => self.add_copy_slot(first),
            unused => {
                self.copies.unused = self.slots[unused as usize].next;
                unused as usize
            }
        };
        let of = slot_of(original.index());
        *self.copies.originals.write(number - first) = OriginalSlot(of as u32);
        self.copies.queued += 1;
        self.slots.write(of).next += 1; // an original is in no queue, so it counts its copies here
        FrameId::new(number as u32 - 1)
    }

    /// Adds the slot of one more copy, within the capacity that `reserve_copies` allocated.
    fn add_copy_slot(&mut self, first: usize) -> usize {
        if self.slots.len() < first {
            self.slots.grow(first); // a memory that grows
        }
        self.copies.originals.grow(self.copies.originals.len() + 1);
        self.slots.grow(self.slots.len() + 1);
        self.slots.len() - 1
    }

    /// Returns the original of a queued copy and its length; `None` for a frame of the memory. The
    /// original remains stored.
    #[inline]
    pub(crate) fn original_of(&self, copy: &FrameId) -> Option<(FrameId, u16)> {
        let OriginalSlot(of) = self.copies.originals[self.copies.index_of(copy)?];
        Some((FrameId::new(of - 1), self.slots[of as usize].meta.len))
    }

    /// Gives memory to a copy that left its queue: `frame` is handed out instead of it.
    pub(crate) fn attach_memory(&mut self, copy: &FrameId, frame: &FrameId) {
        let charge = *self.meta(copy);
        let Some(OriginalSlot(of)) = self.free_copy_slot(copy) else { return };
        // A frame that is handed out is in no queue, so its slot has room for the original.
        *self.empty_slot(slot_of(frame.index())) = Slot { meta: charge, next: of };
    }

    /// Frees the slot of a queued copy. Returns its original.
    fn free_copy_slot(&mut self, copy: &FrameId) -> Option<OriginalSlot> {
        let index = self.copies.index_of(copy)?;
        let number = slot_of(copy.index());
        *self.slots.write(number) = Slot { next: self.copies.unused, ..EMPTY };
        self.copies.unused = number as u32;
        self.copies.queued -= 1;
        Some(std::mem::replace(self.copies.originals.write(index), OriginalSlot(NONE)))
    }

    /// Completes a copy of a flooded frame, queued or handed out. Returns `None` for a frame that
    /// the switch made, which it completes as well.
    #[cold]
    pub(crate) fn complete_copy_or_control(&mut self, frame: &FrameId) -> Option<CompletedCopy> {
        let slot = self.slots.write(slot_of(frame.index()));
        let mut charge = slot.meta;
        slot.meta.in_port = FrameMeta::NO_FRAME;
        if charge.in_port != FrameMeta::COPY {
            return None;
        }
        let handed_out = slot.next;
        let queued = self.free_copy_slot(frame);
        let of = queued.map_or(handed_out, |OriginalSlot(of)| of);
        let original = self.slots.write(of as usize);
        charge.in_port = original.meta.in_port;
        original.next -= 1;
        let is_last = original.next == 0;
        let original = is_last.then(|| {
            let charge = original.meta;
            original.meta.in_port = FrameMeta::NO_FRAME;
            (FrameId::new(of - 1), charge)
        });
        Some(CompletedCopy { meta: charge, had_memory: queued.is_none(), original })
    }

    /// Visits the frames of a queue, of copies the originals. For checks only.
    pub(crate) fn for_each(&self, queue: &FrameList, look: &mut impl FnMut(&FrameId)) {
        let mut number = queue.head();
        while number != NONE {
            let frame = FrameId::new(number - 1);
            let original = self.original_of(&frame).map(|(original, _)| original);
            look(&original.unwrap_or(frame));
            number = self.slots[number as usize].next;
        }
    }

    /// Returns the cells of all stored frames, at ingress and at egress. For checks only, as it
    /// visits every slot.
    pub(crate) fn cells(&self) -> [u32; 2] {
        let queued = self.slots.iter().skip(slot_of(self.memory_frames()));
        let is_copy = |slot: &&Slot| slot.meta.in_port == FrameMeta::COPY;
        let cells = |slot: &Slot| slot.meta.cells();
        let handed_out = self.memory_slots().iter().filter(is_copy);
        let copies: u32 = queued.filter(is_copy).chain(handed_out.clone()).map(cells).sum();
        let mut originals: Vec<u32> = self.copies.originals.iter().map(|&OriginalSlot(of)| of).collect();
        originals.extend(handed_out.map(|slot| slot.next));
        originals.sort_unstable();
        originals.dedup();
        let stored_once: u32 =
            originals.into_iter().filter(|&of| of != NONE).map(|of| cells(&self.slots[of as usize])).sum();
        let is_data = |slot: &&Slot| slot.meta.in_port < FrameMeta::COPY;
        let ingress: u32 = self.memory_slots().iter().filter(is_data).map(cells).sum();
        [ingress, ingress - stored_once + copies]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An original is stored until its last copy has left: here one is flushed, one sent.
    #[test]
    fn an_original_leaves_with_its_last_copy() {
        for mut store in [FrameQueues::new(64, 2), FrameQueues::growing(64, 2)] {
            let charge = FrameMeta { len: 100, cells: 1, in_port: 3, ..FrameMeta::NONE };
            let original = FrameId::new(5);
            store.store_original(&original, &charge);
            let mut queues = [FrameList::default(), FrameList::default()];
            for queue in &mut queues {
                assert!(store.has_room_for_copy(), "two are allowed");
                let copy = store.copy_of(&original);
                store.push(queue, copy, &FrameMeta { in_port: FrameMeta::COPY, ..charge });
            }
            assert!(!store.has_room_for_copy());
            assert_eq!((store.count(), store.cells()), (1, [1, 2]));

            let (copy, _) = store.pop(&mut queues[0]).expect("a copy");
            let flushed = store.complete_copy_or_control(&copy).expect("a copy");
            assert_eq!((flushed.meta, flushed.had_memory), (charge, false));
            assert!(flushed.original.is_none());

            let (copy, _) = store.pop(&mut queues[1]).expect("a copy");
            assert_eq!(store.original_of(&copy), Some((FrameId::new(5), 100)));
            let memory = FrameId::new(2);
            store.attach_memory(&copy, &memory);
            assert_eq!((store.count(), store.cells(), store.len_of(2)), (2, [1, 1], 100));
            assert!(store.complete(&memory).is_none());
            let sent = store.complete_copy_or_control(&memory).expect("a copy");
            assert_eq!((sent.meta, sent.had_memory), (charge, true));
            assert_eq!(sent.original, Some((original, charge)));
            assert_eq!((store.count(), store.cells(), store.slots.len()), (0, [0, 0], 67));
        }
    }
}
