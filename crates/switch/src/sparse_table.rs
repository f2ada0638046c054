//! Serialization of a table of slots in a checkpoint: its size, and only the used slots with their
//! numbers. A table has tens of thousands of slots, most of them empty, and a loop that waited for
//! all of them would stall.

use serde::de::Error;
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of slots of a table; a file with more is not ours.
pub(crate) const MOST_SLOTS: u32 = 1 << 24;

/// Slot of a table.
pub(crate) trait Slot: Copy {
    /// An unused slot.
    const EMPTY: Self;
    /// True if the slot is unused.
    fn is_empty(&self) -> bool;
}

/// The used slots, with their numbers.
struct Used<'a, T>(&'a [T]);

impl<T: Slot + Serialize> Serialize for Used<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let used = || self.0.iter().zip(0_u32..).filter(|(slot, _)| !slot.is_empty());
        let mut seq = serializer.serialize_seq(Some(used().count()))?;
        for (slot, index) in used() {
            seq.serialize_element(&(index, slot))?;
        }
        seq.end()
    }
}

/// Serializes a table.
pub(crate) fn serialize<T: Slot + Serialize, S: Serializer>(
    slots: &[T],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    (slots.len() as u32, Used(slots)).serialize(serializer)
}

/// Deserializes a table.
pub(crate) fn deserialize<'de, T: Slot + Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let (len, used) = <(u32, Vec<(u32, T)>)>::deserialize(deserializer)?;
    if len > MOST_SLOTS {
        return Err(D::Error::custom(format!("a table of {len} slots")));
    }
    let mut slots = vec![T::EMPTY; len as usize];
    for (index, slot) in used {
        let place = slots.get_mut(index as usize);
        *place.ok_or_else(|| D::Error::custom(format!("slot {index} of {len}")))? = slot;
    }
    Ok(slots)
}
