//! Long frames: what a UMEM does with those that lie in several chunks. Nothing here is on the way of a frame of one chunk.
//!
//! Rule: [`crate::chains`]. Who reads headers reads the first chunk; who must see all of a frame's bytes is shown a copy, which is
//! written back if it was changed. Source: docs/kernel.md, "Frames in several chunks".

use switch::{FrameId, Memory, Received};
use xsk_rs::FrameDesc;

use crate::chains::MAX_CHUNKS;
use crate::owners::Owner;
use crate::umem::Umem;

impl Umem {
    /// The frame that the kernel put into the RX ring of `port` in several chunks, `len` bytes in all, now the user's; nothing if the
    /// port had not posted one of them, or not twice. Also how many it had posted, which its rings hold no more.
    #[cold]
    pub(crate) fn take_chain(
        &mut self,
        descs: &[FrameDesc],
        len: usize,
        port: u8,
    ) -> (Option<Received>, usize) {
        let mut chunks = [0; MAX_CHUNKS];
        let mut count = 0;
        for desc in descs {
            let index = self.frames.index_of(desc.addr());
            if self.frames.owners.give_back(index, Owner::Fill(port), Owner::Behind) {
                if desc.addr() != self.frames.descs[index].addr() {
                    self.settle(desc);
                }
                chunks[count] = index as u32;
                count += 1;
            }
        }
        let chunks = &chunks[..count];
        if count < descs.len() {
            chunks.iter().for_each(|&chunk| self.free_chunk(chunk, Owner::Behind));
            return (None, count);
        }
        self.frames.chains.link(chunks);
        self.frames.hand_over(chunks[0] as usize, Owner::Behind, Owner::UserChain);
        (Some(Received { frame: FrameId::new(chunks[0]), len: len as u16 }), count)
    }

    /// A chunk that the kernel put into the RX ring of `port`, and that nobody wants. False: the port had posted no such chunk.
    #[cold]
    pub(crate) fn drop_received(&mut self, desc: &FrameDesc, port: u8) -> bool {
        let index = self.frames.index_of(desc.addr());
        let was_there = self.frames.owners.give_back(index, Owner::Fill(port), Owner::Behind);
        if was_there {
            self.free_chunk(index as u32, Owner::Behind);
        }
        was_there
    }

    /// The chunks of a frame in their order, of which there are so many.
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

    /// Gives back all chunks of a frame.
    #[cold]
    pub(crate) fn free_chain(&mut self, index: usize) {
        let (chunks, count) = self.chunks(index);
        for &chunk in chunks[1..count].iter().rev() {
            self.free_chunk(chunk as u32, Owner::Behind);
        }
        self.free_chunk(index as u32, Owner::UserChain);
    }

    /// Takes `count` free chunks as one frame.
    #[cold]
    pub(crate) fn alloc_chain(&mut self, count: usize) -> Option<FrameId> {
        if count > MAX_CHUNKS || self.free.len() < count {
            return None;
        }
        let mut chunks = [0; MAX_CHUNKS];
        for place in &mut chunks[..count] {
            *place = self.free.pop()?;
            self.frames.hand_over(*place as usize, Owner::Free, Owner::Behind);
        }
        self.frames.chains.link(&chunks[..count]);
        self.frames.hand_over(chunks[0] as usize, Owner::Behind, Owner::UserChain);
        Some(FrameId::new(chunks[0]))
    }

    /// What [`Memory::make_room`] does where `len` is more than a chunk has.
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
        let Some(chunk) = self.free.pop() else { return false };
        self.frames.hand_over(chunk as usize, Owner::Free, Owner::Behind);
        if count > 1 {
            self.frames.chains.append(index as u32, chunk);
        } else {
            self.frames.chains.link(&[index as u32, chunk]);
            self.frames.hand_over(index, Owner::User, Owner::UserChain);
        }
        true
    }

    /// What [`Memory::copy`] does where `len` is more than a chunk has.
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

    /// What [`Memory::whole`] does where `len` is more than a chunk has.
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

    /// Whether the frame that `chunk` is of, one of several, has it once, and none that is another's.
    pub(crate) fn check_chain(&self, chunk: u32) -> Result<(), String> {
        let chains = &self.frames.chains;
        let head = chains.head_of(chunk);
        let mut seen = 0;
        for part in chains.of(head) {
            let owner = self.frames.owners.of(part as usize);
            if chains.head_of(part) != head {
                return Err(format!("chunk {part} is behind {head} and behind {}", chains.head_of(part)));
            }
            if !matches!(owner, Owner::UserChain | Owner::Behind | Owner::TransmitPart(_)) {
                return Err(format!("chunk {part} is behind {head} and with {owner:?}"));
            }
            seen += usize::from(part == chunk);
        }
        if seen == 1 { Ok(()) } else { Err(format!("chunk {chunk} is behind {head} {seen} times")) }
    }
}
