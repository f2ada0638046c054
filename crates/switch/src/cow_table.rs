//! A table that is copied in slices while it changes (copy-on-write).
//!
//! Rule: a copy has the value that each slot had when the copy began. A slot that changes before it
//! has been copied is saved first, so each slice is a bounded amount of work, and so is each
//! change. Slots are changed only by [`CowTable::write`], which saves. A copy has only the used
//! slots, with their numbers: a table has tens of thousands of slots, most of them empty.
//! Source: docs/monitoring/recorder.md, "Checkpoints".

use std::ops::Deref;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of slots of a table; a file with more is not ours.
pub(crate) const MAX_SLOTS: u32 = 1 << 24;
/// The work of copying a used slot, in slots that are visited and empty.
pub(crate) const USED_COST: u32 = 8;
/// Value of `copied` while no copy is under way.
const IDLE: usize = usize::MAX;

/// Slot of a table.
pub(crate) trait Slot: Copy {
    /// An unused slot.
    const EMPTY: Self;
    /// True if the slot is unused.
    fn is_empty(&self) -> bool;
}

/// A table of slots. It dereferences to the slots for reading.
#[derive(Debug)]
pub(crate) struct CowTable<T> {
    slots: Vec<T>,
    /// Slots before this one have been copied; [`IDLE`] while no copy is under way.
    copied: usize,
    /// What slots were when the copy began, where `is_saved`.
    saved: Vec<T>,
    /// Bit n % 64 of word n / 64: slot n changed before it was copied.
    is_saved: Vec<u64>,
}

impl<T> Deref for CowTable<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.slots
    }
}

impl<T: Slot> CowTable<T> {
    /// Creates a table of empty slots.
    pub(crate) fn new(slots: usize) -> Self {
        Self { slots: vec![T::EMPTY; slots], copied: IDLE, saved: Vec::new(), is_saved: Vec::new() }
    }

    /// Returns a slot to be changed.
    #[inline]
    pub(crate) fn write(&mut self, index: usize) -> &mut T {
        if index >= self.copied {
            self.save(index);
        }
        &mut self.slots[index]
    }

    #[cold]
    #[inline(never)]
    fn save(&mut self, index: usize) {
        let (word, bit) = (index / 64, 1 << (index % 64));
        if self.is_saved[word] & bit == 0 {
            self.is_saved[word] |= bit;
            self.saved[index] = self.slots[index];
        }
    }

    /// Allocates room for this many slots, so that none is allocated when the table grows to them.
    pub(crate) fn reserve(&mut self, slots: usize) {
        self.slots.reserve_exact(slots.saturating_sub(self.slots.len()));
    }

    /// Returns the number of slots that there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Appends empty slots up to this number, without amortized doubling.
    pub(crate) fn grow(&mut self, slots: usize) {
        self.reserve(slots);
        self.slots.resize(slots, T::EMPTY);
        if self.copied != IDLE {
            self.reserve_copy();
        }
    }

    /// Allocates the memory of a copy, so that none is allocated when a copy begins.
    pub(crate) fn reserve_copy(&mut self) {
        let (slots, room) = (self.slots.len(), self.slots.capacity());
        self.saved.reserve_exact(room.saturating_sub(self.saved.len()));
        self.saved.resize(slots, T::EMPTY);
        self.is_saved.reserve_exact(room.div_ceil(64).saturating_sub(self.is_saved.len()));
        self.is_saved.resize(slots.div_ceil(64), 0);
    }

    /// Begins a copy of all slots as they are now. A copy that is under way is abandoned.
    pub(crate) fn begin_copy(&mut self) {
        self.is_saved.fill(0);
        self.reserve_copy();
        self.copied = 0;
    }

    /// Ends a copy, complete or not.
    pub(crate) fn end_copy(&mut self) {
        self.copied = IDLE;
    }

    /// True if a copy is under way.
    pub(crate) fn is_copying(&self) -> bool {
        self.copied != IDLE
    }

    /// Appends the next used slots of the copy to `out`, for at most `work`, of which it subtracts
    /// what it took. Ends the copy after the last slot.
    pub(crate) fn copy_slice(&mut self, work: &mut u32, out: &mut Vec<(u32, T)>) {
        while *work > 0 && self.copied < self.slots.len() {
            let index = self.copied;
            let is_saved = self.is_saved[index / 64] >> (index % 64) & 1 != 0;
            let slot = if is_saved { self.saved[index] } else { self.slots[index] };
            let cost = if slot.is_empty() { 1 } else { USED_COST };
            *work = work.saturating_sub(cost);
            if !slot.is_empty() {
                out.push((index as u32, slot));
            }
            self.copied += 1;
        }
        if self.copied >= self.slots.len() {
            self.copied = IDLE;
        }
    }

    /// Sets slots to those of a copy. Returns false if the table has no such slot.
    pub(crate) fn restore(&mut self, slots: &[(u32, T)]) -> bool {
        slots.iter().all(|&(index, slot)| {
            let entry = self.slots.get_mut(index as usize);
            entry.map(|entry| *entry = slot).is_some()
        })
    }
}

/// Serializes the size of the table; its slots are copied in slices.
impl<T> Serialize for CowTable<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.slots.len() as u32)
    }
}

impl<'de, T: Slot> Deserialize<'de> for CowTable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            slots if slots > MAX_SLOTS => Err(D::Error::custom(format!("a table of {slots} slots"))),
            slots => Ok(Self::new(slots as usize)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Slot for u8 {
        const EMPTY: Self = 0;

        fn is_empty(&self) -> bool {
            *self == 0
        }
    }

    /// The size of a table in a file may be forged.
    #[test]
    fn a_table_of_too_many_slots_is_refused() {
        use serde::de::IntoDeserializer;
        use serde::de::value::{Error, U32Deserializer};
        let read = |slots: u32| {
            let size: U32Deserializer<Error> = slots.into_deserializer();
            CowTable::<u8>::deserialize(size).ok().map(|table| table.len())
        };
        let sizes = [0, 5, MAX_SLOTS, MAX_SLOTS + 1].map(read);
        assert_eq!(sizes, [Some(0), Some(5), Some(1 << 24), None]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Write(usize, u8),
        Slice(u32),
        Grow(usize),
        Begin,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0..100_usize, 0..4_u8).prop_map(|(index, value)| Step::Write(index, value)),
            4 => (1..40_u32).prop_map(Step::Slice),
            1 => (1..200_usize).prop_map(Step::Grow),
            1 => Just(Step::Begin),
        ]
    }

    proptest! {
        /// Whatever changes while it is copied, a copy is the table as it was when the copy began.
        #[test]
        fn a_copy_is_of_the_instant_at_which_it_began(steps in prop::collection::vec(step(), 1..400)) {
            let mut table = CowTable::<u8>::new(100);
            let (mut copy, mut began) = (Vec::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Write(index, value) => *table.write(index) = value,
                    Step::Grow(more) => table.grow(table.len().max(100 + more)),
                    Step::Begin => {
                        table.begin_copy();
                        (copy, began) = (Vec::new(), table.to_vec());
                    }
                    Step::Slice(work) => {
                        let (mut left, before) = (work, copy.len());
                        table.copy_slice(&mut left, &mut copy);
                        prop_assert!((copy.len() - before) as u32 <= work.div_ceil(USED_COST), "bounded work");
                        if !table.is_copying() {
                            let used = began.iter().zip(0_u32..).filter(|(value, _)| **value != 0);
                            let used: Vec<(u32, u8)> = used.map(|(&value, index)| (index, value)).collect();
                            prop_assert_eq!(&copy, &used);
                        }
                    }
                }
            }
        }
    }
}
