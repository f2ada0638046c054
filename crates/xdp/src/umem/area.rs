//! The chunks of a UMEM as ports see them, on whatever core: where each lies, and which are one
//! frame.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use switch::{FrameId, LONGEST_BYTES, LONGEST_RECEIVED_BYTES, chunks_of};
use xsk_rs::FrameDesc;

use crate::umem::chains::Chains;
use crate::umem::ring_ownership::{RingOwner, RingOwnership};

/// Bytes in front of each frame that XDP programs may use (`XDP_PACKET_HEADROOM`).
pub(crate) const XDP_HEADROOM: usize = 256;
/// linux/if_xdp.h: more descriptors of this frame follow.
const XDP_PKT_CONTD: u32 = 1;
/// Ethernet header and two 802.1Q tags: what comes on top of the MTU.
pub(crate) const LINK_BYTES: usize = 14 + 2 * 4;

/// The frames as ports see them. Nothing here changes for a frame of one chunk.
pub(crate) struct Frames {
    pub(crate) umem: xsk_rs::Umem,
    pub(crate) descs: Box<[FrameDesc]>,
    pub(crate) chains: Chains,
    /// In debug builds: which chunks are on a free stack, on whatever core.
    is_free: Box<[AtomicBool]>,
    multi_buffer: bool,
    chunk_shift: u32,
    /// What ports had lent that were dropped without being closed: it waits to be reclaimed.
    abandoned: Mutex<Vec<Arc<RingOwnership>>>,
}

impl Frames {
    /// Those of a registered UMEM, all free.
    pub(crate) fn new(
        (umem, descs): (xsk_rs::Umem, Box<[FrameDesc]>),
        frame_bytes: usize,
        multi_buffer: bool,
    ) -> Frames {
        let count = descs.len();
        Frames {
            umem,
            descs,
            chains: Chains::new(if multi_buffer { count } else { 0 }),
            is_free: (0..if cfg!(debug_assertions) { count } else { 0 })
                .map(|_| AtomicBool::new(true))
                .collect(),
            multi_buffer,
            chunk_shift: frame_bytes.trailing_zeros(),
            abandoned: Mutex::default(),
        }
    }

    /// Frames may lie in several chunks.
    pub(crate) fn is_multi_buffer(&self) -> bool {
        self.multi_buffer
    }

    /// Bytes of a chunk, those set apart for XDP included.
    pub(crate) fn frame_bytes(&self) -> usize {
        1 << self.chunk_shift
    }

    /// Bytes of a frame that lie together.
    pub(crate) fn chunk_bytes(&self) -> usize {
        (1 << self.chunk_shift) - XDP_HEADROOM
    }

    /// The longest frame that there is room for: one that came in may have got a tag.
    pub(crate) fn max_len(&self) -> usize {
        if self.multi_buffer { LONGEST_BYTES } else { self.chunk_bytes() }
    }

    /// The largest MTU whose frames, with two 802.1Q tags, may come in.
    pub(crate) fn max_mtu(&self) -> u32 {
        let longest = if self.multi_buffer { LONGEST_RECEIVED_BYTES } else { self.chunk_bytes() };
        (longest - LINK_BYTES) as u32
    }

    /// The most chunks that a frame takes.
    pub(crate) fn most_chunks(&self) -> usize {
        chunks_of(self.max_len(), self.chunk_bytes())
    }

    /// The descriptor of frame `index`; its address is where the frame's bytes begin.
    #[inline]
    pub(crate) fn desc(&self, index: usize) -> FrameDesc {
        self.descs[index]
    }

    /// The descriptor for sending the first `len` bytes of frame `index`.
    #[inline]
    pub(crate) fn desc_of_len(&self, index: usize, len: usize) -> FrameDesc {
        let mut desc = self.descs[index];
        debug_assert!(len > 0 && len <= desc.lengths().data(), "frame {index} is {len} bytes long");
        // SAFETY: the descriptor is of this UMEM; only its length is changed.
        unsafe { self.umem.data_mut(&mut desc) }.cursor().set_pos(len);
        desc
    }

    /// The frame that holds the address `addr`.
    #[inline]
    pub(crate) fn index_of(&self, addr: usize) -> usize {
        addr >> self.chunk_shift
    }

    /// Debug builds note that a chunk goes on a free stack, or comes off one, and check that it was
    /// not, or was, on one.
    #[inline]
    pub(crate) fn note_free(&self, index: usize, is_free: bool) {
        if cfg!(debug_assertions) {
            let before = self.is_free[index].swap(is_free, Relaxed);
            assert_ne!(before, is_free, "chunk {index} was to become free, or not free, once more");
        }
    }

    /// Whether frame `index` has more chunks behind its first.
    #[inline]
    pub(crate) fn is_chain(&self, index: usize) -> bool {
        self.chains.is_first(index)
    }

    /// The first `len` bytes of frame `index`, which has several chunks, are lent to be sent, as
    /// these descriptors. How many they are.
    pub(crate) fn send_chain(
        &self,
        index: usize,
        len: usize,
        lent: &RingOwnership,
        out: &mut [FrameDesc],
    ) -> usize {
        let chunk_bytes = self.chunk_bytes();
        let count = chunks_of(len, chunk_bytes);
        for (n, chunk) in self.chains.of(index as u32).take(count).enumerate() {
            lent.lend(chunk as usize, RingOwner::TransmitPart);
            out[n] = self.desc_of_len(chunk as usize, chunk_bytes.min(len - n * chunk_bytes));
            out[n].set_options(if n + 1 < count { XDP_PKT_CONTD } else { 0 });
        }
        self.chains.send(index as u32, count as u8);
        count
    }

    /// The kernel gives chunk `index` back, one of several of a frame that was sent. False: it was
    /// not lent for that, and nothing has changed. The frame goes to `out` with the last of
    /// them.
    #[cold]
    pub(crate) fn give_part_back(&self, index: usize, lent: &RingOwnership, out: &mut Vec<FrameId>) -> bool {
        let was_there = lent.give_back(index, RingOwner::TransmitPart);
        if was_there {
            let head = self.chains.head_of(index as u32);
            if self.chains.complete(head) {
                out.push(FrameId::new(head));
            }
        }
        was_there
    }

    /// The registered memory, for binding a socket to it.
    pub(crate) fn registered(&self) -> &xsk_rs::Umem {
        &self.umem
    }

    /// All frames.
    pub(crate) fn count(&self) -> usize {
        self.descs.len()
    }

    /// Takes what [`Frames::abandon`] noted.
    pub(crate) fn take_abandoned(&self) -> Vec<Arc<RingOwnership>> {
        std::mem::take(&mut *self.abandoned.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// A port is gone, and nobody has reclaimed what it had lent.
    pub(crate) fn abandon(&self, lent: Arc<RingOwnership>) {
        self.abandoned.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(lent);
    }
}
