//! The UMEM: one block of memory for the frames of all ports, registered with the kernel.
//!
//! Every frame has exactly one owner at any time (docs/behavior.md, "Invariants", 1): it is free,
//! with the user, in the fill or RX ring of a port, or in the TX or completion ring of one. Each
//! port records what its rings hold ([`crate::umem::ring_ownership`]), and frames that the kernel
//! returns are checked against that. A frame that the kernel returns twice, or never had, stays
//! with its owner, is counted and becomes an event. Debug builds check that nothing is freed twice;
//! [`Umem::check`] counts all frames.
//!
//! The memory is divided into chunks of less than a page. A longer frame spans several, where the
//! kernel supports that ([`crate::umem::chunk_chains`]), and its token is that of the first.

pub(crate) mod area;
pub(crate) mod bounce_buffer;
pub(crate) mod chunk_chains;
pub(crate) mod multi_buffer;
pub(crate) mod prefetch;
pub(crate) mod register;
pub(crate) mod ring_ownership;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use switch::{FrameId, FrameMemory, LONGEST_RECEIVED_BYTES, RxDesc, chunks_of};
use xsk_rs::FrameDesc;

use crate::error::Error;
use crate::interface::netlink::RouteSocket;
use crate::umem::area::{LINK_BYTES, UmemFrames, XDP_HEADROOM};
use crate::umem::prefetch::prefetch;
use crate::umem::register::{FILL_RING, MultiBuffer, Registered, UmemSocket, register};
use crate::umem::ring_ownership::{RingOwner, RingOwnership};

/// The maximum number of chunks posted on an RX queue. A memory must have this number for each
/// queue, in addition to what its user holds. A queue never posts more than an eighth of the
/// memory.
pub const MAX_POSTED: usize = FILL_RING as usize;
/// The largest MTU of a port's interface, where the kernel supports multi-buffer frames.
pub const MAX_MTU: u32 = (LONGEST_RECEIVED_BYTES - LINK_BYTES) as u32;
/// The minimum of contiguous bytes of a frame: chunks have 2048 bytes or more.
pub const MIN_CHUNK_BYTES: usize = 2048 - XDP_HEADROOM;

/// The number of frames by owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameAccounting {
    /// Frames on the free stack.
    pub free: usize,
    /// Frames with the user, for example queued in the switch.
    pub user: usize,
    /// Frames in fill and RX rings.
    pub fill: usize,
    /// Frames in TX and completion rings.
    pub transmit: usize,
}

/// The memory for the frames of all ports, as one loop sees it: all loops share the frames, and
/// each loop has its own free frames.
pub struct Umem {
    pub(crate) frames: Arc<UmemFrames>,
    /// Indices of free frames, the last freed one on top.
    pub(crate) free: Vec<u32>,
    /// The buffer in which a multi-buffer frame is assembled.
    pub(crate) scratch: Box<[u8]>,
    /// The chunks in the rings of each port that was opened on this.
    ports: Vec<Arc<RingOwnership>>,
    /// Keeps the UMEM's first socket alive.
    first_socket: Arc<Mutex<UmemSocket>>,
}

impl fmt::Debug for Umem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Umem of {} frames, {} free", self.frames(), self.free.len())
    }
}

impl Umem {
    /// Registers memory for `frames` frames of `frame_bytes` bytes each: 2048, or 4096 where a
    /// port's MTU needs it (see [`frame_bytes_for`]). 256 of these bytes are reserved for XDP.
    /// Longer frames span several.
    ///
    /// # Errors
    /// There is not enough memory, the process lacks the permission, or the frame size is not
    /// supported.
    pub fn new(frames: usize, frame_bytes: usize) -> Result<Umem, Error> {
        Self::with(frames, frame_bytes, MultiBuffer::IfPossible)
    }

    /// Registers memory with or without frames that span several chunks.
    ///
    /// # Errors
    /// As those of [`Umem::new`].
    pub fn with(frames: usize, frame_bytes: usize, wanted: MultiBuffer) -> Result<Umem, Error> {
        let bad_shape = |reason| Error::InvalidUmemSize { frames, frame_bytes, reason };
        if !matches!(frame_bytes, 2048 | 4096) {
            return Err(bad_shape("a frame takes 2048 or 4096 bytes"));
        }
        let count = u32::try_from(frames)
            .ok()
            .and_then(NonZeroU32::new)
            .ok_or_else(|| bad_shape("there must be at least one frame, and less than 2^32"))?;
        let Registered { umem, descs, multi_buffer, first_socket: anchor } =
            register(count, frame_bytes, wanted)?;
        let frames = UmemFrames::new((umem, descs), frame_bytes, multi_buffer);
        let free = (0..count.get()).rev().collect();
        let scratch = vec![0; frames.max_len()].into();
        Ok(Umem {
            frames: Arc::new(frames),
            free,
            scratch,
            ports: Vec::new(),
            first_socket: Arc::new(Mutex::new(anchor)),
        })
    }

    /// Returns a view of the same memory for another loop, with no free frames yet. Loops exchange
    /// frames as tokens over a ring, which orders their accesses. Ports are opened on the first
    /// view.
    pub fn share(&self) -> Umem {
        let scratch = vec![0; self.frames.max_len()].into();
        let (frames, anchor) = (Arc::clone(&self.frames), Arc::clone(&self.first_socket));
        Umem {
            frames,
            free: Vec::with_capacity(self.frames()),
            scratch,
            ports: Vec::new(),
            first_socket: anchor,
        }
    }

    /// True if frames may span several chunks, and so be as long as an MTU of [`MAX_MTU`] allows.
    pub fn is_multi_buffer(&self) -> bool {
        self.frames.is_multi_buffer()
    }

    /// Returns the total number of frames, free or not.
    pub fn frames(&self) -> usize {
        self.frames.count()
    }

    /// Counts the frames by owner, if one loop has all free frames and all ports were opened on
    /// this. A multi-buffer frame counts once per chunk.
    ///
    /// # Errors
    /// A frame has two owners; the message names them.
    pub fn check(&self) -> Result<FrameAccounting, String> {
        let mut accounting = FrameAccounting { free: self.free.len(), ..FrameAccounting::default() };
        let mut owners = vec!["the user"; self.frames()];
        let mut claim = |index: usize, owner: &'static str| {
            let before = std::mem::replace(&mut owners[index], owner);
            let is_first = before == "the user";
            is_first.then_some(()).ok_or_else(|| format!("frame {index} is with {before} and with {owner}"))
        };
        for &index in &self.free {
            claim(index as usize, "the free stack")?;
        }
        for owned in &self.ports {
            for index in 0..self.frames() {
                let Some(owner) = owned.of(index) else { continue };
                let (count, owner) = match owner {
                    RingOwner::Fill => (&mut accounting.fill, "a fill ring"),
                    RingOwner::Transmit => (&mut accounting.transmit, "a TX ring"),
                    RingOwner::TransmitPart => (&mut accounting.transmit, "a TX ring, in part"),
                };
                *count += 1;
                claim(index, owner)?;
            }
        }
        accounting.user = owners.iter().filter(|&&owner| owner == "the user").count();
        let is_part =
            self.check_chains(|index| ["the user", "a TX ring, in part"].contains(&owners[index]))?;
        let stray =
            (0..self.frames()).find(|&index| owners[index] == "a TX ring, in part" && !is_part[index]);
        if let Some(index) = stray {
            return Err(format!("chunk {index} is sent as a part, and of no frame"));
        }
        Ok(accounting)
    }

    /// Returns the frames as a port sees them.
    pub(crate) fn shared(&self) -> Arc<UmemFrames> {
        Arc::clone(&self.frames)
    }

    /// Takes free chunks for a fill ring, as many as `descs` has room for and memory has. Returns
    /// how many.
    #[inline]
    pub(crate) fn take_for_fill(&mut self, owned: &RingOwnership, descs: &mut [FrameDesc]) -> usize {
        let taken = descs.len().min(self.free.len());
        for desc in &mut descs[..taken] {
            let Some(index) = self.pop_free() else { break };
            owned.assign(index as usize, RingOwner::Fill);
            *desc = self.frames.descs[index as usize];
        }
        taken
    }

    /// Takes the frame of a descriptor that the kernel put into an RX ring, for the user. `None` if
    /// the port had not posted it.
    #[inline]
    pub(crate) fn take_received(&mut self, desc: &FrameDesc, owned: &RingOwnership) -> Option<RxDesc> {
        let index = self.frames.index_of(desc.addr());
        if !owned.release(index, RingOwner::Fill) {
            return None;
        }
        if desc.addr() != self.frames.descs[index].addr() {
            self.normalize_offset(desc);
        }
        Some(RxDesc::new(FrameId::new(index as u32), desc.lengths().data() as u16))
    }

    /// Takes a free chunk, the last freed one.
    #[inline]
    pub(crate) fn pop_free(&mut self) -> Option<u32> {
        let chunk = self.free.pop()?;
        self.frames.debug_set_free(chunk as usize, false);
        Some(chunk)
    }

    #[inline]
    pub(crate) fn push_free(&mut self, chunk: u32) {
        self.frames.debug_set_free(chunk as usize, true);
        self.free.push(chunk);
    }

    /// Returns the ownership record of a new port. First reclaims the chunks of ports that were
    /// dropped.
    pub(crate) fn add_port(&mut self) -> Arc<RingOwnership> {
        for owned in self.frames.take_abandoned() {
            let mut unsent = Vec::new();
            self.remove_port(&owned, &mut unsent);
            unsent.into_iter().for_each(|frame| self.free(frame));
        }
        let owned = Arc::new(RingOwnership::new(self.frames()));
        self.ports.push(Arc::clone(&owned));
        owned
    }

    /// Removes a port whose sockets are closed. Frees what its fill and RX rings held, and appends
    /// frames to transmit to `unsent`.
    pub(crate) fn remove_port(&mut self, owned: &Arc<RingOwnership>, unsent: &mut Vec<FrameId>) {
        self.reclaim(owned, unsent);
        self.ports.retain(|other| !Arc::ptr_eq(other, owned));
    }

    /// Reclaims the chunks in the rings of a port that will have other sockets.
    pub(crate) fn reclaim(&mut self, owned: &RingOwnership, unsent: &mut Vec<FrameId>) {
        for index in 0..self.frames() {
            let Some(owner) = owned.of(index) else { continue };
            let was_there = match owner {
                RingOwner::TransmitPart => self.frames.return_chunk(index, owned, unsent),
                _ => owned.release(index, owner),
            };
            debug_assert!(was_there, "chunk {index} was just seen there");
            match owner {
                RingOwner::Fill => self.push_free(index as u32),
                RingOwner::Transmit => unsent.push(FrameId::new(index as u32)),
                RingOwner::TransmitPart => {}
            }
        }
    }

    /// Moves the bytes of a received frame to the regular offset in its chunk, if the driver has
    /// put them elsewhere. `received` is the descriptor that the driver returned.
    #[cold]
    pub(crate) fn normalize_offset(&mut self, received: &FrameDesc) {
        let regular = self.frames.desc(self.frames.index_of(received.addr()));
        let mut all = if received.addr() < regular.addr() { *received } else { regular };
        let (from, to) = (received.addr() - all.addr(), regular.addr() - all.addr());
        let len = received.lengths().data().min(regular.lengths().data());
        // SAFETY: the descriptor belongs to this UMEM, and its frame has no other owner.
        let mut data = unsafe { self.frames.umem.data_mut(&mut all) };
        data.cursor().set_pos(usize::MAX); // to the end of the chunk
        let len = len.min(data.contents().len() - from.max(to)); // the rest is not of this chunk
        data.contents_mut().copy_within(from..from + len, to);
    }

    /// Copies the first `len` bytes of a chunk to another.
    pub(crate) fn copy_chunk(&mut self, from: usize, to: usize, len: usize) {
        debug_assert_ne!(from, to);
        let source: *const [u8] = self.slice_mut(from, len);
        let target = self.slice_mut(to, len);
        // SAFETY: two different chunks, whose tokens the caller holds, so the slices do not
        // overlap. Both are `len` bytes long, or as long as any chunk.
        unsafe { std::ptr::copy_nonoverlapping(source.cast::<u8>(), target.as_mut_ptr(), target.len()) };
    }

    pub(crate) fn slice_mut(&mut self, index: usize, len: usize) -> &mut [u8] {
        let mut desc = self.frames.desc(index);
        // SAFETY: the descriptor belongs to this UMEM. The caller holds the frame's token, so no
        // core writes it concurrently. `&mut self` excludes other slices of this loop.
        let mut data = unsafe { self.frames.umem.data_mut(&mut desc) };
        let contents = data.contents_mut();
        let (start, len) = (contents.as_mut_ptr(), len.min(contents.len()));
        // SAFETY: the same bytes, borrowed as long as `self` instead of as long as the descriptor
        // on the stack.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }
}

impl FrameMemory for Umem {
    #[inline]
    fn alloc(&mut self) -> Option<FrameId> {
        let index = self.pop_free()?;
        Some(FrameId::new(index))
    }

    fn alloc_for(&mut self, len: usize) -> Option<FrameId> {
        match chunks_of(len, self.chunk_bytes()) {
            1 => self.alloc(),
            _ if len > self.max_len() => None,
            count => self.alloc_chain(count),
        }
    }

    #[inline]
    fn free(&mut self, frame: FrameId) {
        if self.frames.is_chain(frame.index()) {
            return self.free_chain(frame.index());
        }
        self.push_free(frame.index() as u32);
    }

    #[inline]
    fn bytes(&self, frame: &FrameId, len: usize) -> &[u8] {
        // SAFETY: the descriptor belongs to this UMEM, and the holder of the token owns the frame,
        // so it has no writer.
        let contents = unsafe { self.frames.umem.data(&self.frames.descs[frame.index()]) }.contents();
        &contents[..len.min(contents.len())]
    }

    #[inline]
    fn bytes_mut(&mut self, frame: &FrameId, len: usize) -> &mut [u8] {
        self.slice_mut(frame.index(), len)
    }

    fn whole(&mut self, frame: &FrameId, len: usize, work: impl FnOnce(&mut [u8]) -> bool) -> bool {
        if len <= self.chunk_bytes() {
            return work(self.slice_mut(frame.index(), len));
        }
        self.whole_chain(frame.index(), len, work)
    }

    fn make_room(&mut self, frame: &FrameId, len: usize) -> bool {
        len <= self.chunk_bytes() || self.make_room_in_chain(frame.index(), len)
    }

    #[inline]
    fn prefetch(&self, frame: &FrameId) {
        prefetch(self.bytes(frame, 1));
    }

    fn copy(&mut self, from: &FrameId, to: &FrameId, len: usize) {
        if len > self.chunk_bytes() {
            return self.copy_chain(from.index(), to.index(), len);
        }
        self.copy_chunk(from.index(), to.index(), len);
    }

    fn max_len(&self) -> usize {
        self.frames.max_len()
    }

    #[inline]
    fn chunk_bytes(&self) -> usize {
        self.frames.chunk_bytes()
    }

    fn free_frames(&self) -> usize {
        self.free.len()
    }
}

/// Returns the chunk size, 2048 or 4096, with which frames of the MTUs of these interfaces span few
/// chunks. An MTU that is too large is rejected when its port is opened.
///
/// # Errors
/// An interface does not exist.
pub fn frame_bytes_for<'a>(interfaces: impl IntoIterator<Item = &'a str>) -> Result<usize, Error> {
    let route = RouteSocket::open().map_err(|error| Error::kernel("opening a netlink socket", error))?;
    let mut frame_bytes = 2048;
    for interface in interfaces {
        let link = route.link(interface).map_err(|error| crate::interface::link_error(interface, error))?;
        if link.mtu as usize > MIN_CHUNK_BYTES - LINK_BYTES {
            frame_bytes = 4096;
        }
    }
    Ok(frame_bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use xsk_rs::config::UmemConfig;

    use super::*;

    /// As if the driver had put the bytes 64 further on, and 256 before: the two places overlap.
    #[test]
    #[cfg_attr(miri, ignore = "a memory of the kernel")]
    fn bytes_that_are_elsewhere_in_a_chunk_are_moved() {
        let mut umem = Umem::new(4, 2048).unwrap();
        let config = UmemConfig::builder().frame_headroom(64).build().unwrap();
        let (other, mut descs) = xsk_rs::Umem::new(config, NonZeroU32::MIN, false).unwrap();
        let mut bytes: Vec<u8> = (0..1000).map(|n| n as u8).collect();
        umem.slice_mut(0, 1064)[64..].copy_from_slice(&bytes);
        // SAFETY: a descriptor of the other memory.
        unsafe { other.data_mut(&mut descs[0]) }.cursor().set_pos(1000);
        assert_eq!((descs[0].addr(), umem.frames.desc(0).addr()), (320, 256));
        umem.normalize_offset(&descs[0]);
        assert_eq!(umem.slice_mut(0, 1000), bytes);

        bytes.reverse();
        let mut early = FrameDesc::default(); // at address 0
        // SAFETY: the first chunk, which nothing else has.
        unsafe { umem.frames.umem.data_mut(&mut early) }.cursor().write_all(&bytes).unwrap();
        umem.normalize_offset(&early);
        assert_eq!(umem.slice_mut(0, 1000), bytes);
    }
}
