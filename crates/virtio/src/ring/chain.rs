//! A chain of descriptors: one buffer of the guest, in parts.

use crate::memory::{GuestMemory, RingArea};
use crate::ring::fault::RingFault;

/// The most descriptors of one chain.
pub const MAX_SEGMENTS: usize = 64;
/// Bytes of a descriptor.
pub(crate) const DESC_BYTES: usize = 16;

/// Flags of a descriptor.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// Who reads a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The guest sends.
    FromGuest,
    /// The guest posted a buffer to receive.
    ToGuest,
}

/// A descriptor, as it was read once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Descriptor {
    /// Address of the bytes in the guest.
    pub(crate) addr: u64,
    len: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    #[inline]
    fn new(addr: u64, rest: u64) -> Self {
        Self { addr, len: rest as u32, flags: (rest >> 32) as u16, next: (rest >> 48) as u16 }
    }

    /// Reads a descriptor of a table.
    #[inline]
    pub(crate) fn read(table: &RingArea, index: u16) -> Self {
        let offset = usize::from(index) * DESC_BYTES;
        Self::new(table.load_u64(offset), table.load_u64(offset + 8))
    }
}

/// The segments of the chain that was popped last.
#[derive(Debug)]
pub(crate) struct Chain {
    segments: Box<[(u64, u32); MAX_SEGMENTS]>,
    count: usize,
    /// They are in a table of their own.
    is_indirect: bool,
}

impl Default for Chain {
    fn default() -> Self {
        Self { segments: Box::new([(0, 0); MAX_SEGMENTS]), count: 0, is_indirect: false }
    }
}

impl Chain {
    /// Reads the chain that begins with this descriptor of a table of `size`. Returns the number of
    /// its bytes.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "an array that is not empty")]
    pub(crate) fn read(
        &mut self,
        table: &RingArea,
        (size, first): (u16, Descriptor),
        indirect: bool,
        direction: Direction,
    ) -> Result<u32, RingFault> {
        let only = if direction == Direction::FromGuest { 0 } else { WRITE };
        if first.flags == only && first.len > 0 {
            self.segments[0] = (first.addr, first.len);
            (self.count, self.is_indirect) = (1, false);
            return Ok(first.len);
        }
        self.read_chain(table, (size, first), indirect, direction)
    }

    /// Reads a chain of several descriptors, or one that breaks the rules.
    #[inline(never)]
    fn read_chain(
        &mut self,
        table: &RingArea,
        (size, first): (u16, Descriptor),
        indirect: bool,
        direction: Direction,
    ) -> Result<u32, RingFault> {
        self.count = 0;
        self.is_indirect = first.flags & INDIRECT != 0;
        if self.is_indirect {
            return self.read_table(table.memory(), first, indirect, direction);
        }
        self.read_all(first, direction, |next| (next < size).then(|| Descriptor::read(table, next)))
    }

    /// Reads a chain that is in a table of its own.
    #[cold]
    fn read_table(
        &mut self,
        memory: &GuestMemory,
        table: Descriptor,
        indirect: bool,
        direction: Direction,
    ) -> Result<u32, RingFault> {
        let Descriptor { addr, len, flags, .. } = table;
        if !indirect {
            return Err(RingFault::IndirectNotNegotiated);
        }
        if flags & NEXT != 0 {
            return Err(RingFault::IndirectWithNext);
        }
        let entries = len as usize / DESC_BYTES;
        if entries == 0 || !(len as usize).is_multiple_of(DESC_BYTES) || entries > usize::from(u16::MAX) {
            return Err(RingFault::IndirectBadLength);
        }
        let bytes = memory.at_guest(addr, len).ok_or(RingFault::BadAddress)?;
        let descriptor = |index: u16| {
            let mut raw = [0; DESC_BYTES];
            let read = bytes.read(usize::from(index) * DESC_BYTES, &mut raw);
            let [addr, rest] = raw.as_chunks().0 else { return None };
            let [addr, rest] = [addr, rest].map(|half| u64::from_le_bytes(*half));
            (read == DESC_BYTES).then(|| Descriptor::new(addr, rest))
        };
        let first = descriptor(0).ok_or(RingFault::NextOutOfRange)?;
        self.read_all(first, direction, descriptor)
    }

    #[inline]
    fn read_all(
        &mut self,
        first: Descriptor,
        direction: Direction,
        at: impl Fn(u16) -> Option<Descriptor>,
    ) -> Result<u32, RingFault> {
        let (mut descriptor, mut bytes) = (first, 0_u32);
        loop {
            let Descriptor { addr, len, flags, next } = descriptor;
            if flags & INDIRECT != 0 {
                return Err(RingFault::IndirectNested);
            }
            match (direction, flags & WRITE != 0) {
                (Direction::FromGuest, true) => return Err(RingFault::WritableSent),
                (Direction::ToGuest, false) => return Err(RingFault::ReadOnlyPosted),
                _ => {}
            }
            if len == 0 {
                return Err(RingFault::EmptyDescriptor);
            }
            let slot = self.segments.get_mut(self.count).ok_or(RingFault::ChainTooLong)?;
            *slot = (addr, len);
            self.count += 1;
            bytes = bytes.saturating_add(len);
            if flags & NEXT == 0 {
                return Ok(bytes);
            }
            descriptor = at(next).ok_or(RingFault::NextOutOfRange)?;
        }
    }

    /// Returns the descriptors of the ring that it takes.
    pub(crate) fn descriptors(&self) -> usize {
        if self.is_indirect { 1 } else { self.count }
    }

    /// Returns the first segment.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "an array that is not empty")]
    pub(crate) fn first(&self) -> (u64, u32) {
        self.segments[0]
    }

    /// Returns its only segment; `None` if it has several.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "an array that is not empty")]
    pub(crate) fn single(&self) -> Option<(u64, u32)> {
        (self.count == 1).then_some(self.segments[0])
    }

    /// Copies bytes of the chain from `skip` on, which has as many as `to`.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "no more is read than the rest takes")]
    pub(crate) fn copy_out(&self, memory: &GuestMemory, skip: usize, to: &mut [u8]) -> Result<(), RingFault> {
        let mut done = 0;
        self.each(memory, skip, |bytes, offset| {
            done += bytes.read(offset, &mut to[done..]);
            done < to.len()
        })?;
        if done < to.len() { Err(RingFault::FrameTooShort) } else { Ok(()) }
    }

    /// Copies bytes to the chain from `skip` on, as many as fit. Returns how many.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "no more is written than the rest has")]
    pub(crate) fn copy_in(&self, memory: &GuestMemory, skip: usize, from: &[u8]) -> Result<usize, RingFault> {
        let mut done = 0;
        self.each(memory, skip, |bytes, offset| {
            done += bytes.write(offset, &from[done..]);
            done < from.len()
        })?;
        Ok(done)
    }

    /// Visits the segments from byte `skip` on, until `visit` returns false.
    #[inline]
    fn each(
        &self,
        memory: &GuestMemory,
        mut skip: usize,
        mut visit: impl FnMut(crate::memory::GuestBytes<'_>, usize) -> bool,
    ) -> Result<(), RingFault> {
        #[expect(clippy::indexing_slicing, reason = "`read_all` counts no more than there are")]
        for &(addr, len) in &self.segments[..self.count] {
            if skip >= len as usize {
                skip -= len as usize;
                continue;
            }
            let bytes = memory.at_guest(addr, len).ok_or(RingFault::BadAddress)?;
            if !visit(bytes, skip) {
                return Ok(());
            }
            skip = 0;
        }
        Ok(())
    }
}
