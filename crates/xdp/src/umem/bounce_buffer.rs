//! A UMEM of a port: it holds the port's frames while the kernel has them, if the sockets cannot
//! use the switch's memory.
//!
//! Rule: a UMEM has one mode, which all sockets on it inherit, and the switch's UMEM is in copy
//! mode (docs/kernel/af-xdp.md, "Zero-copy"). So a zero-copy port has a second UMEM with as many
//! chunks as its rings have entries, each as large as the switch's. The chunks correspond one to
//! one. A received frame is copied into a free chunk of the switch's memory, which then counts as
//! received. A frame to transmit is copied from the switch's chunk, which stays with the port until
//! the other chunk has completed. So all accounting in the switch's chunks is as with any other
//! port. A received chunk is posted again as soon as it has been copied. If the switch has no free
//! chunk, the received one stays in the RX ring.
//!
//! Each receiver and the sender have chunks of their own, so nothing is shared between them.

use std::num::NonZeroU32;

use xsk_rs::FrameDesc;

use crate::error::Error;
use crate::umem::Umem;
use crate::umem::area::UmemFrames;
use crate::umem::register::memory;
use crate::umem::ring_ownership::RingOwnership;

/// Replaces the switch's chunk in the table: this chunk is not with the kernel.
const FREE: u32 = u32::MAX;
/// Replaces the switch's chunk in the table: this chunk is posted for reception.
const POSTED: u32 = u32::MAX - 1;

/// The UMEM of a port, until all its chunks have been handed out.
pub(crate) struct BounceUmem {
    umem: xsk_rs::Umem,
    descs: Box<[FrameDesc]>,
    chunk_shift: u32,
    handed_out: usize,
}

impl BounceUmem {
    /// Registers a UMEM of `chunks` chunks of the same size as those of `frames`.
    pub(crate) fn new(chunks: usize, frames: &UmemFrames) -> Result<BounceUmem, Error> {
        let frame_bytes = frames.frame_bytes();
        let reason = "there must be at least one frame, and less than 2^32";
        let count = u32::try_from(chunks).ok().and_then(NonZeroU32::new);
        let count = count.ok_or(Error::InvalidUmemSize { frames: chunks, frame_bytes, reason })?;
        let (umem, descs) = memory(count, frame_bytes)?;
        Ok(BounceUmem { umem, descs, chunk_shift: frame_bytes.trailing_zeros(), handed_out: 0 })
    }

    /// Returns the registered memory, for binding a socket to it.
    pub(crate) fn registered(&self) -> &xsk_rs::Umem {
        &self.umem
    }

    /// Hands out the next `count` chunks, all free.
    pub(crate) fn hand_out(&mut self, count: usize) -> BounceBuffers {
        let first = self.handed_out;
        self.handed_out += count;
        BounceBuffers {
            umem: self.umem.clone(),
            descs: self.descs[first..self.handed_out].into(),
            first,
            chunk_shift: self.chunk_shift,
            free: (0..count as u32).rev().collect(),
            switch_chunk: vec![FREE; count].into(),
        }
    }
}

/// The chunks of one receiver or sender.
pub(crate) struct BounceBuffers {
    umem: xsk_rs::Umem,
    /// The descriptors of the chunks, each over all bytes of its chunk.
    descs: Box<[FrameDesc]>,
    /// The index of the first chunk in the UMEM.
    first: usize,
    chunk_shift: u32,
    /// Chunks that are not with the kernel, the last returned one on top.
    free: Vec<u32>,
    /// By chunk: the switch's chunk that it transmits, [`POSTED`] or [`FREE`].
    switch_chunk: Box<[u32]>,
}

impl BounceBuffers {
    /// Takes free chunks to post, as many as `descs` has room for. Returns how many.
    pub(crate) fn take_for_fill(&mut self, descs: &mut [FrameDesc]) -> usize {
        let taken = descs.len().min(self.free.len());
        for desc in &mut descs[..taken] {
            let Some(index) = self.free.pop() else { break };
            self.switch_chunk[index as usize] = POSTED;
            *desc = self.descs[index as usize];
        }
        taken
    }

    /// Copies a received frame into a free chunk of the switch's memory, of which there must be
    /// one, as if that had been posted. Returns its descriptor; `None` if no such chunk was posted
    /// here.
    pub(crate) fn copy_in(
        &mut self,
        desc: &FrameDesc,
        umem: &mut Umem,
        owned: &RingOwnership,
    ) -> Option<FrameDesc> {
        self.give_back(desc.addr(), |stands_for| stands_for == POSTED)?;
        if desc.lengths().data() > umem.frames.chunk_bytes() {
            return None; // larger than a chunk of the switch
        }
        let mut descs = [FrameDesc::default()];
        assert_eq!(umem.take_for_fill(owned, &mut descs), 1, "no more is taken than memory has chunks");
        let index = umem.frames.index_of(descs[0].addr());
        // SAFETY: the kernel's descriptor belongs to this memory, and the kernel has just returned
        // the chunk, which has no other owner.
        let from = unsafe { self.umem.data(desc) }.contents();
        umem.slice_mut(index, from.len()).copy_from_slice(from);
        let mut brought = umem.frames.desc_of_len(index, from.len());
        brought.set_options(desc.options());
        Some(brought)
    }

    /// Copies a frame to transmit from the switch's memory into a free chunk and returns its
    /// descriptor. There are as many chunks as the TX ring has entries.
    #[expect(clippy::expect_used, reason = "the sender has as many chunks as its ring has entries")]
    pub(crate) fn copy_out(&mut self, desc: &FrameDesc, frames: &UmemFrames) -> FrameDesc {
        let index = self.free.pop().expect("as many chunks as the TX ring has entries") as usize;
        self.switch_chunk[index] = frames.index_of(desc.addr()) as u32;
        // SAFETY: the descriptor belongs to the switch's memory, and its chunk was passed to this
        // port for transmission, so it has no writer.
        let from = unsafe { frames.registered().data(desc) }.contents();
        let mut own = self.descs[index];
        // SAFETY: the descriptor belongs to this memory, and the chunk was free, so it has no other
        // owner.
        let mut to = unsafe { self.umem.data_mut(&mut own) };
        to.contents_mut()[..from.len()].copy_from_slice(from);
        to.cursor().set_pos(from.len());
        own.set_options(desc.options());
        own
    }

    /// Records that the kernel has sent the chunk that contains this address. Returns the
    /// corresponding chunk of the switch's memory; `None` if the chunk was not being sent.
    pub(crate) fn complete(&mut self, addr: usize) -> Option<usize> {
        self.give_back(addr, |stands_for| stands_for < POSTED).map(|index| index as usize)
    }

    /// Takes the chunk that contains this address back from the kernel. Returns its table entry.
    /// Returns `None` and changes nothing if the entry does not satisfy `is_such`.
    fn give_back(&mut self, addr: usize, is_such: impl Fn(u32) -> bool) -> Option<u32> {
        let index = (addr >> self.chunk_shift).checked_sub(self.first)?;
        let stands_for = self.switch_chunk.get_mut(index).filter(|stands_for| is_such(**stands_for))?;
        self.free.push(index as u32);
        Some(std::mem::replace(stands_for, FREE))
    }
}

#[cfg(test)]
mod tests {
    use switch::FrameMemory;

    use super::*;

    /// Returns eight chunks of a separate UMEM, half of them for a receiver and half for a sender.
    fn chunks(umem: &Umem) -> [BounceBuffers; 2] {
        let mut own = BounceUmem::new(8, &umem.frames).unwrap();
        [own.hand_out(4), own.hand_out(4)]
    }

    #[test]
    #[cfg_attr(miri, ignore = "a memory of the kernel")]
    fn what_is_sent_stays_the_switchs_until_it_has_left() {
        let mut umem = Umem::new(16, 2048).unwrap();
        let [mut receiver, mut sender] = chunks(&umem);
        let frame = umem.alloc().unwrap();
        umem.bytes_mut(&frame, 5).copy_from_slice(b"frame");
        let index = frame.index();
        let own = sender.copy_out(&umem.frames.desc_of_len(index, 5), &umem.frames);
        assert_eq!((own.addr() >> 11, own.lengths().data()), (4, 5), "the first that the sender has");
        umem.bytes_mut(&frame, 5).copy_from_slice(b"other");
        // SAFETY: a chunk of this memory, which no kernel has.
        assert_eq!(unsafe { sender.umem.data(&own) }.contents(), b"frame");
        assert_eq!((sender.free.len(), receiver.complete(own.addr())), (3, None), "another's");
        assert_eq!((sender.complete(own.addr()), sender.complete(own.addr())), (Some(index), None), "once");
        assert_eq!(sender.free.len(), 4);
        umem.free(frame);
    }

    #[test]
    #[cfg_attr(miri, ignore = "a memory of the kernel")]
    fn what_came_in_is_copied_and_its_chunk_is_free_again() {
        let mut umem = Umem::new(16, 2048).unwrap();
        let owned = umem.add_port();
        let [mut receiver, mut sender] = chunks(&umem);
        let mut posted = [FrameDesc::default(); 6];
        assert_eq!(receiver.take_for_fill(&mut posted), 4, "all that there are");
        let mut arrived = posted[1];
        // SAFETY: a chunk of this memory, which no kernel has.
        let mut data = unsafe { receiver.umem.data_mut(&mut arrived) };
        data.contents_mut()[..5].copy_from_slice(b"frame");
        data.cursor().set_pos(5);
        arrived.set_options(1);
        assert!(sender.copy_in(&arrived, &mut umem, &owned).is_none(), "another's");
        let brought = receiver.copy_in(&arrived, &mut umem, &owned).unwrap();
        assert_eq!((brought.lengths().data(), brought.has_more_frames()), (5, true));
        assert_eq!((umem.free_frames(), umem.check().unwrap().fill, receiver.free.len()), (15, 1, 1));
        assert!(receiver.copy_in(&arrived, &mut umem, &owned).is_none(), "once");
        let received = umem.take_received(&brought, &owned).unwrap();
        assert_eq!((received.len, umem.bytes(&received.frame, 5)), (5, &b"frame"[..]));
        umem.free(received.frame);
        assert_eq!(umem.check().unwrap().free, 16);
    }

    #[test]
    #[cfg_attr(miri, ignore = "a memory of the kernel")]
    fn more_than_a_chunk_has_is_not_brought_in() {
        let mut umem = Umem::new(16, 2048).unwrap();
        let owned = umem.add_port();
        let [mut receiver, _] = chunks(&umem);
        let mut posted = [FrameDesc::default()];
        receiver.take_for_fill(&mut posted);
        // The descriptor of a driver that has put data in front of the frame's bytes.
        let mut longer = Umem::new(1, 4096).unwrap().frames.desc_of_len(0, 1793);
        longer.set_options(0);
        assert_eq!(longer.addr(), posted[0].addr());
        assert!(receiver.copy_in(&longer, &mut umem, &owned).is_none());
        assert_eq!((receiver.free.len(), umem.free_frames()), (4, 16), "and no chunk is missing");
    }

    #[test]
    #[cfg_attr(miri, ignore = "a memory of the kernel")]
    fn a_chunk_that_the_kernel_does_not_have_stays_where_it_is() {
        let umem = Umem::new(16, 2048).unwrap();
        let [mut receiver, mut sender] = chunks(&umem);
        for addr in [0, 4 << 11, 8 << 11, usize::MAX] {
            assert_eq!((receiver.complete(addr), sender.complete(addr)), (None, None), "{addr}");
        }
        receiver.take_for_fill(&mut [FrameDesc::default(); 1]);
        assert_eq!(receiver.complete(256), None, "it is posted, not sent");
        assert_eq!([&receiver, &sender].map(|chunks| chunks.free.len()), [3, 4]);
    }
}
