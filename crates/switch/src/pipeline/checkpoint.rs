//! A checkpoint of a running switch: its whole state at one instant.
//!
//! Rule: what is small is serialized at once, which is the [`Switch`] with the sizes of its tables.
//! The tables grow with the frames held and the addresses known. They are copied in slices, over
//! many iterations, as they were at that instant ([`crate::cow_table`]). Source:
//! docs/monitoring/recorder.md, "Checkpoints".

use crate::egress::frame_queue::{OriginalSlot, Slot};
use crate::forwarding::fdb::Entry;
use crate::frame::header_edit::VlanAction;
use crate::pipeline::Switch;
use serde::{Deserialize, Serialize};

/// Used slots of a switch's tables, with their numbers: a slice of a checkpoint.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CopiedSlots {
    frames: Vec<(u32, Slot)>,
    tags: Vec<(u32, VlanAction)>,
    originals: Vec<(u32, OriginalSlot)>,
    addresses: Vec<(u32, Entry)>,
}

impl CopiedSlots {
    /// Allocates room for this many slots of each table.
    pub fn with_capacity(slots: usize) -> Self {
        Self {
            frames: Vec::with_capacity(slots),
            tags: Vec::with_capacity(slots),
            originals: Vec::with_capacity(slots),
            addresses: Vec::with_capacity(slots),
        }
    }

    /// Returns the number of slots.
    pub fn count(&self) -> usize {
        self.frames.len() + self.tags.len() + self.originals.len() + self.addresses.len()
    }

    fn clear(&mut self) {
        self.frames.clear();
        self.tags.clear();
        self.originals.clear();
        self.addresses.clear();
    }
}

impl Switch {
    /// Allocates the memory of a checkpoint, so that none is allocated when one begins.
    pub fn reserve_checkpoint(&mut self) {
        let (frames, tags, originals) = self.frame_queues.tables();
        frames.reserve_copy();
        tags.reserve_copy();
        originals.reserve_copy();
        self.fdb.table().reserve_copy();
    }

    /// Begins a copy of the tables as they are now. A copy that is under way is abandoned.
    pub fn begin_checkpoint(&mut self) {
        let (frames, tags, originals) = self.frame_queues.tables();
        frames.begin_copy();
        tags.begin_copy();
        originals.begin_copy();
        self.fdb.table().begin_copy();
    }

    /// Fills `out` with the next slots of the copy. At most `work` slots are visited, and
    /// an eighth of that are copied. Returns false once all are copied.
    pub fn copy_slots(&mut self, work: u32, out: &mut CopiedSlots) -> bool {
        out.clear();
        let mut left = work;
        let (frames, tags, originals) = self.frame_queues.tables();
        frames.copy_slice(&mut left, &mut out.frames);
        tags.copy_slice(&mut left, &mut out.tags);
        originals.copy_slice(&mut left, &mut out.originals);
        self.fdb.table().copy_slice(&mut left, &mut out.addresses);
        let (frames, tags, originals) = self.frame_queues.tables();
        frames.is_copying() || tags.is_copying() || originals.is_copying() || self.fdb.table().is_copying()
    }

    /// Ends a copy of the tables that is not needed any more.
    pub fn end_checkpoint(&mut self) {
        let (frames, tags, originals) = self.frame_queues.tables();
        frames.end_copy();
        tags.end_copy();
        originals.end_copy();
        self.fdb.table().end_copy();
    }

    /// Sets slots of a switch that was read from a checkpoint. Returns false if a table has no such
    /// slot.
    pub fn restore_slots(&mut self, slots: &CopiedSlots) -> bool {
        let (frames, tags, originals) = self.frame_queues.tables();
        frames.restore(&slots.frames)
            && tags.restore(&slots.tags)
            && originals.restore(&slots.originals)
            && self.fdb.table().restore(&slots.addresses)
    }
}
