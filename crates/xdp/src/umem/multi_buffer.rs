//! Long frames: the operations of a UMEM on frames that span several chunks. A frame of one chunk
//! never reaches this code.
//!
//! Rule: [`crate::umem::chunk_chains`]. Code that reads headers reads the first chunk. Code that
//! needs all bytes of a frame receives a copy, which is written back if it was changed. Source:
//! docs/kernel/af-xdp.md, "Frames in several chunks".

use switch::{FrameId, FrameMemory, RxDesc};
use xsk_rs::FrameDesc;

use crate::umem::Umem;
use crate::umem::chunk_chains::MAX_CHUNKS;
use crate::umem::ring_ownership::{RingOwner, RingOwnership};

impl Umem {
    /// Takes the frame that the kernel put into an RX ring in several chunks, `len` bytes in all,
    /// for the user. `None` if a chunk was not posted, or appears twice. Also returns how many
    /// chunks were posted, which the port's rings no longer hold.
    #[cold]
    pub(crate) fn take_chain(
        &mut self,
        descs: &[FrameDesc],
        len: usize,
        owned: &RingOwnership,
    ) -> (Option<RxDesc>, usize) {
        let mut chunks = [0; MAX_CHUNKS];
        let mut count = 0;
        for desc in descs {
            let index = self.frames.index_of(desc.addr());
            if owned.release(index, RingOwner::Fill) {
                if desc.addr() != self.frames.descs[index].addr() {
                    self.normalize_offset(desc);
                }
                chunks[count] = index as u32;
                count += 1;
            }
        }
        let chunks = &chunks[..count];
        if count < descs.len() {
            chunks.iter().for_each(|&chunk| self.push_free(chunk));
            return (None, count);
        }
        self.frames.chains.link(chunks);
        (Some(RxDesc::new(FrameId::new(chunks[0]), len as u16)), count)
    }

    /// Frees a chunk that the kernel put into an RX ring and that is not used. Returns false if no
    /// such chunk was posted.
    #[cold]
    pub(crate) fn drop_received(&mut self, desc: &FrameDesc, owned: &RingOwnership) -> bool {
        let index = self.frames.index_of(desc.addr());
        let was_there = owned.release(index, RingOwner::Fill);
        if was_there {
            self.push_free(index as u32);
        }
        was_there
    }

    /// Returns the chunks of a frame in their order, and their number.
    fn chunks(&self, index: usize) -> ([usize; MAX_CHUNKS], usize) {
        let mut chunks = [index; MAX_CHUNKS];
        if !self.frames.is_chain(index) {
            return (chunks, 1);
        }
        let mut count = 0;
        for chunk in self.frames.chains.of(index as u32) {
            chunks[count] = chunk as usize;
            count += 1;
        }
        (chunks, count)
    }

    /// Frees all chunks of a frame.
    #[cold]
    pub(crate) fn free_chain(&mut self, index: usize) {
        let (chunks, count) = self.chunks(index);
        self.frames.chains.unlink(index as u32);
        chunks[..count].iter().rev().for_each(|&chunk| self.push_free(chunk as u32));
    }

    /// Takes `count` free chunks as one frame.
    #[cold]
    pub(crate) fn alloc_chain(&mut self, count: usize) -> Option<FrameId> {
        if count > MAX_CHUNKS || self.free.len() < count {
            return None;
        }
        let mut chunks = [0; MAX_CHUNKS];
        for chunk in &mut chunks[..count] {
            *chunk = self.pop_free()?;
        }
        self.frames.chains.link(&chunks[..count]);
        Some(FrameId::new(chunks[0]))
    }

    /// Implements [`FrameMemory::make_room`] for a `len` longer than a chunk.
    #[cold]
    pub(crate) fn make_room_in_chain(&mut self, index: usize, len: usize) -> bool {
        let (_, count) = self.chunks(index);
        let room = (count * self.chunk_bytes()).min(self.max_len());
        if len <= room {
            return true;
        }
        if len > self.max_len().min(room + self.chunk_bytes()) {
            return false;
        }
        let Some(chunk) = self.pop_free() else { return false };
        if count > 1 {
            self.frames.chains.append(index as u32, chunk);
        } else {
            self.frames.chains.link(&[index as u32, chunk]);
        }
        true
    }

    /// Implements [`FrameMemory::copy`] for a `len` longer than a chunk.
    #[cold]
    pub(crate) fn copy_chain(&mut self, from: usize, to: usize, len: usize) {
        let (from, have) = self.chunks(from);
        let (to, room) = self.chunks(to);
        let chunk_bytes = self.chunk_bytes();
        debug_assert!(len <= have.min(room) * chunk_bytes, "{have} chunks to {room}, {len} bytes");
        for (at, start) in (0..len).step_by(chunk_bytes).enumerate().take(have.min(room)) {
            self.copy_chunk(from[at], to[at], chunk_bytes.min(len - start));
        }
    }

    /// Implements [`FrameMemory::whole`] for a `len` longer than a chunk.
    #[cold]
    pub(crate) fn whole_chain(
        &mut self,
        index: usize,
        len: usize,
        work: impl FnOnce(&mut [u8]) -> bool,
    ) -> bool {
        let (chunks, count) = self.chunks(index);
        let (chunks, chunk_bytes) = (&chunks[..count], self.chunk_bytes());
        debug_assert!(len <= count * chunk_bytes, "{count} chunks have no {len} bytes");
        let mut scratch = std::mem::take(&mut self.scratch);
        let len = len.min(count * chunk_bytes).min(scratch.len());
        let all = &mut scratch[..len];
        for (&chunk, piece) in chunks.iter().zip(all.chunks_mut(chunk_bytes)) {
            piece.copy_from_slice(self.slice_mut(chunk, piece.len()));
        }
        let changed = work(all);
        if changed {
            for (&chunk, piece) in chunks.iter().zip(all.chunks(chunk_bytes)) {
                self.slice_mut(chunk, piece.len()).copy_from_slice(piece);
            }
        }
        self.scratch = scratch;
        changed
    }

    /// Returns which chunks belong to multi-buffer frames. It is an error if a chunk belongs to
    /// two, records the wrong frame, or is where no such chunk can be (`may_be`): free, posted, or
    /// transmitted as a whole frame.
    pub(crate) fn check_chains(&self, may_be: impl Fn(usize) -> bool) -> Result<Vec<bool>, String> {
        let chains = &self.frames.chains;
        let mut is_part = vec![false; self.frames()];
        for head in (0..self.frames()).filter(|&index| chains.is_first(index)) {
            for part in chains.of(head as u32).map(|part| part as usize) {
                if chains.head_of(part as u32) as usize != head {
                    let other = chains.head_of(part as u32);
                    return Err(format!("chunk {part} is behind {head} and behind {other}"));
                }
                if !may_be(part) {
                    return Err(format!("chunk {part} is behind {head}, and free, posted or sent by itself"));
                }
                if std::mem::replace(&mut is_part[part], true) {
                    return Err(format!("chunk {part} is behind {head} twice"));
                }
            }
        }
        Ok(is_part)
    }
}
