//! The chunks of a UMEM as ports see them, on any core: the position of each, and which ones form a
//! frame.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use switch::{FrameId, LONGEST_BYTES, LONGEST_RECEIVED_BYTES, chunks_of};
use xsk_rs::FrameDesc;

use crate::umem::chunk_chains::Chains;
use crate::umem::prefetch::prefetch;
use crate::umem::ring_ownership::{RingOwner, RingOwnership};

/// Bytes in front of each frame that XDP programs may use (`XDP_PACKET_HEADROOM`).
pub(crate) const XDP_HEADROOM: usize = 256;
/// linux/if_xdp.h: more descriptors of this frame follow.
const XDP_PKT_CONTD: u32 = 1;
/// Ethernet header and two 802.1Q tags: the bytes of a frame in addition to the MTU.
pub(crate) const LINK_BYTES: usize = 14 + 2 * 4;

/// The frames as ports see them. Nothing here changes for a frame of one chunk.
pub(crate) struct UmemFrames {
    pub(crate) umem: xsk_rs::Umem,
    pub(crate) descs: Box<[FrameDesc]>,
    pub(crate) chains: Chains,
    /// In debug builds: which chunks are on a free stack of any core.
    is_free: Box<[AtomicBool]>,
    multi_buffer: bool,
    chunk_shift: u32,
    /// The ownership of ports that were dropped without being closed. Their chunks wait to be
    /// reclaimed.
    abandoned: Mutex<Vec<Arc<RingOwnership>>>,
}

impl UmemFrames {
    /// Creates the frames of a registered UMEM, all free.
    pub(crate) fn new(
        (umem, descs): (xsk_rs::Umem, Box<[FrameDesc]>),
        frame_bytes: usize,
        multi_buffer: bool,
    ) -> UmemFrames {
        let count = descs.len();
        UmemFrames {
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

    /// True if frames may span several chunks.
    pub(crate) fn is_multi_buffer(&self) -> bool {
        self.multi_buffer
    }

    /// Returns the bytes of a chunk, with the headroom for XDP.
    pub(crate) fn frame_bytes(&self) -> usize {
        1 << self.chunk_shift
    }

    /// Returns the contiguous bytes of a frame.
    pub(crate) fn chunk_bytes(&self) -> usize {
        (1 << self.chunk_shift) - XDP_HEADROOM
    }

    /// Returns the longest frame that fits. It includes a tag that may be pushed on a received
    /// frame.
    pub(crate) fn max_len(&self) -> usize {
        if self.multi_buffer { LONGEST_BYTES } else { self.chunk_bytes() }
    }

    /// Returns the largest MTU whose frames, with two 802.1Q tags, can be received.
    pub(crate) fn max_mtu(&self) -> u32 {
        let longest = if self.multi_buffer { LONGEST_RECEIVED_BYTES } else { self.chunk_bytes() };
        (longest - LINK_BYTES) as u32
    }

    /// Returns the largest number of chunks of a frame.
    pub(crate) fn max_chunks(&self) -> usize {
        chunks_of(self.max_len(), self.chunk_bytes())
    }

    /// Returns the descriptor of frame `index`; its address is the start of the frame's bytes.
    #[inline]
    pub(crate) fn desc(&self, index: usize) -> FrameDesc {
        self.descs[index]
    }

    /// Returns the descriptor for sending the first `len` bytes of frame `index`.
    #[inline]
    pub(crate) fn desc_of_len(&self, index: usize, len: usize) -> FrameDesc {
        let mut desc = self.descs[index];
        debug_assert!(len > 0 && len <= desc.lengths().data(), "frame {index} is {len} bytes long");
        // SAFETY: the descriptor is of this UMEM; only its length is changed.
        unsafe { self.umem.data_mut(&mut desc) }.cursor().set_pos(len);
        desc
    }

    /// Prefetches all bytes that a descriptor sends.
    #[inline]
    pub(crate) fn prefetch(&self, desc: &FrameDesc) {
        // SAFETY: the descriptor is of this UMEM, and its frame has no writer until it is sent.
        let bytes = unsafe { self.umem.data(desc) }.contents();
        bytes.chunks(64).for_each(prefetch);
    }

    /// Returns the frame that contains the address `addr`.
    #[inline]
    pub(crate) fn index_of(&self, addr: usize) -> usize {
        addr >> self.chunk_shift
    }

    /// In debug builds, records that a chunk moves to or from a free stack, and checks that it was
    /// not, or was, on one.
    #[inline]
    pub(crate) fn debug_set_free(&self, index: usize, is_free: bool) {
        if cfg!(debug_assertions) {
            let before = self.is_free[index].swap(is_free, Relaxed);
            assert_ne!(before, is_free, "chunk {index} was to become free, or not free, once more");
        }
    }

    /// True if frame `index` has further chunks after its first.
    #[inline]
    pub(crate) fn is_chain(&self, index: usize) -> bool {
        self.chains.is_first(index)
    }

    /// Passes the first `len` bytes of frame `index`, which has several chunks, to the kernel for
    /// transmission, as these descriptors. Returns how many there are.
    pub(crate) fn send_chain(
        &self,
        index: usize,
        len: usize,
        owned: &RingOwnership,
        out: &mut [FrameDesc],
    ) -> usize {
        let chunk_bytes = self.chunk_bytes();
        let count = chunks_of(len, chunk_bytes);
        for (n, chunk) in self.chains.of(index as u32).take(count).enumerate() {
            owned.assign(chunk as usize, RingOwner::TransmitPart);
            out[n] = self.desc_of_len(chunk as usize, chunk_bytes.min(len - n * chunk_bytes));
            out[n].set_options(if n + 1 < count { XDP_PKT_CONTD } else { 0 });
        }
        self.chains.send(index as u32, count as u8);
        count
    }

    /// Records that the kernel returns chunk `index`, one of several of a transmitted frame.
    /// Returns false and changes nothing if the chunk was not with the kernel for transmission. The
    /// frame goes to `out` with its last chunk.
    #[cold]
    pub(crate) fn return_chunk(&self, index: usize, owned: &RingOwnership, out: &mut Vec<FrameId>) -> bool {
        let was_there = owned.release(index, RingOwner::TransmitPart);
        if was_there {
            let head = self.chains.head_of(index as u32);
            if self.chains.complete(head) {
                out.push(FrameId::new(head));
            }
        }
        was_there
    }

    /// Returns the registered memory, for binding a socket to it.
    pub(crate) fn registered(&self) -> &xsk_rs::Umem {
        &self.umem
    }

    /// Returns the total number of frames.
    pub(crate) fn count(&self) -> usize {
        self.descs.len()
    }

    /// Takes what [`UmemFrames::abandon`] recorded.
    pub(crate) fn take_abandoned(&self) -> Vec<Arc<RingOwnership>> {
        std::mem::take(&mut *self.abandoned.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Records the ownership of a port that was dropped without a reclaim.
    pub(crate) fn abandon(&self, owned: Arc<RingOwnership>) {
        self.abandoned.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(owned);
    }
}
