//! The UMEM: one block of memory for the frames of all ports, registered with the kernel.
//!
//! Every frame has exactly one owner at any time (docs/law.md, "Invariants", 1): it is free, with the user, in the fill or
//! RX ring of a port, or in the TX or completion ring of one. A tag of one byte a frame says which. What the kernel gives back
//! is checked against it: a frame that it gives back twice, or never had, stays with its owner, is counted and becomes an
//! event. Debug builds check each other change of hands, too; [`Umem::check`] counts them all; and when a port closes, the
//! tags tell which frames its rings held.
//!
//! libxdp keeps the UMEM's own descriptor as the first socket bound on it, and that one stays bound as long as the UMEM
//! lives. So that no port's interface is held that way, the first socket is bound to the loopback interface of a network
//! namespace made for it alone; the kernel removes that with the socket.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use nix::sched::{CloneFlags, unshare};
use switch::{FrameId, Memory, Received};
use xsk_rs::config::{BindFlags, FrameSize, LibxdpFlags, QueueSize, SocketConfig, UmemConfig};
use xsk_rs::{CompQueue, FillQueue, FrameDesc, RxQueue, Socket, TxQueue};

use crate::error::Error;
use crate::netlink::RouteSocket;
use crate::prefetch::prefetch;

/// The most frames that are posted on an RX queue at once: what a memory must have for each, beside what its user holds.
/// A queue never posts more than an eighth of the memory.
pub const MAX_POSTED: usize = FILL_RING as usize;
/// Entries of each fill ring.
pub(crate) const FILL_RING: u32 = 8192;
/// Entries of each completion ring; no TX ring is larger.
pub(crate) const COMPLETION_RING: u32 = 2048;
/// Bytes in front of each frame that XDP programs may use (`XDP_PACKET_HEADROOM`).
const XDP_HEADROOM: usize = 256;
/// Ethernet header and two 802.1Q tags: what comes on top of the MTU.
const LINK_BYTES: usize = 14 + 2 * 4;
/// Ports that one memory can serve: what fits in the tag.
const MAX_PORTS: usize = 126;

/// Who has a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Nobody: it is on the free stack.
    Free,
    /// Whoever holds its [`FrameId`].
    User,
    /// The fill ring or the RX ring of a port, or the kernel between the two.
    Fill(u8),
    /// The TX ring or the completion ring of a port, or the kernel between the two.
    Transmit(u8),
}

impl Owner {
    fn tag(self) -> u8 {
        match self {
            Owner::Free => 0,
            Owner::User => 1,
            Owner::Fill(port) => 2 + 2 * port,
            Owner::Transmit(port) => 3 + 2 * port,
        }
    }

    fn from_tag(tag: u8) -> Owner {
        match tag {
            0 => Owner::Free,
            1 => Owner::User,
            _ if tag.is_multiple_of(2) => Owner::Fill((tag - 2) / 2),
            _ => Owner::Transmit((tag - 3) / 2),
        }
    }
}

/// The owner of each frame, as a tag of one byte.
struct Owners(Box<[AtomicU8]>);

impl Owners {
    /// All are free.
    fn new(frames: usize) -> Self {
        Self((0..frames).map(|_| AtomicU8::new(Owner::Free.tag())).collect())
    }

    #[inline]
    fn of(&self, index: usize) -> Owner {
        Owner::from_tag(self.0[index].load(Relaxed))
    }

    #[inline]
    fn hand_over(&self, index: usize, from: Owner, to: Owner) {
        debug_assert_eq!(self.of(index), from, "frame {index} was to become {to:?}");
        self.0[index].store(to.tag(), Relaxed);
    }

    #[inline]
    fn give_back(&self, index: usize, from: Owner) -> bool {
        let Some(tag) = self.0.get(index).filter(|tag| tag.load(Relaxed) == from.tag()) else { return false };
        tag.store(Owner::User.tag(), Relaxed);
        true
    }
}

/// The frames as ports see them: where each lies, and whose it is. A tag is only changed by the frame's owner, so the
/// order of changes by different cores is that of the rings that hand frames from one to the other.
pub(crate) struct Frames {
    umem: xsk_rs::Umem,
    descs: Box<[FrameDesc]>,
    owners: Owners,
    chunk_shift: u32,
    /// Ports that were dropped without being closed: their frames are waiting to be reclaimed.
    abandoned: Mutex<Vec<u8>>,
}

impl Frames {
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

    /// Frame `index` changes hands.
    #[inline]
    pub(crate) fn hand_over(&self, index: usize, from: Owner, to: Owner) {
        self.owners.hand_over(index, from, to);
    }

    /// The kernel gives frame `index` back, from `from` to the user. False: it was not there, and nothing has changed.
    #[inline]
    #[must_use]
    pub(crate) fn give_back(&self, index: usize, from: Owner) -> bool {
        self.owners.give_back(index, from)
    }

    /// The registered memory, for binding a socket to it.
    pub(crate) fn registered(&self) -> &xsk_rs::Umem {
        &self.umem
    }

    /// All frames.
    pub(crate) fn count(&self) -> usize {
        self.owners.0.len()
    }

    /// Bytes of each frame, those set apart for XDP included.
    pub(crate) fn frame_bytes(&self) -> usize {
        1 << self.chunk_shift
    }

    fn owner(&self, index: usize) -> Owner {
        self.owners.of(index)
    }

    /// Notes that `port` is gone and that nobody reclaimed its frames.
    pub(crate) fn abandon(&self, port: u8) {
        self.abandoned.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(port);
    }
}

/// How many frames are where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// On the free stack.
    pub free: usize,
    /// With the user: queued in the switch, say.
    pub user: usize,
    /// In fill and RX rings.
    pub fill: usize,
    /// In TX and completion rings.
    pub transmit: usize,
}

/// Memory for the frames of all ports.
pub struct Umem {
    frames: Arc<Frames>,
    /// Indices of free frames, the one freed last on top.
    free: Vec<u32>,
    frame_bytes: usize,
    /// Bit i: port number i is taken.
    ports: u128,
    _anchor: Anchor,
}

impl fmt::Debug for Umem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Umem of {} frames, {} free", self.frames(), self.free.len())
    }
}

/// The first socket on the UMEM; see the top of the file.
struct Anchor {
    _tx: TxQueue,
    _rx: RxQueue,
    _rings: Option<(FillQueue, CompQueue)>,
}

impl Umem {
    /// Registers memory for `frames` frames of `frame_bytes` bytes each: 2048, or 4096 where a port's MTU needs it (see
    /// [`frame_bytes_for`]). 256 of these bytes are set apart for XDP.
    ///
    /// # Errors
    /// Not that much memory, not permitted, or another size of frame.
    pub fn new(frames: usize, frame_bytes: usize) -> Result<Umem, Error> {
        let bad_shape = |reason| Error::BadShape { frames, frame_bytes, reason };
        if !matches!(frame_bytes, 2048 | 4096) {
            return Err(bad_shape("a frame takes 2048 or 4096 bytes"));
        }
        let count = u32::try_from(frames)
            .ok()
            .and_then(NonZeroU32::new)
            .ok_or_else(|| bad_shape("there must be at least one frame, and less than 2^32"))?;
        check_available(frames, frame_bytes)?;

        let (umem, descs, anchor) = register(count, frame_bytes)?;
        let frames = Frames {
            descs: with_full_length(&umem, descs),
            umem,
            owners: Owners::new(frames),
            chunk_shift: frame_bytes.trailing_zeros(),
            abandoned: Mutex::default(),
        };
        let free = (0..count.get()).rev().collect();
        Ok(Umem { frames: Arc::new(frames), free, frame_bytes, ports: 0, _anchor: anchor })
    }

    /// All frames.
    pub fn frames(&self) -> usize {
        self.frames.count()
    }

    /// Counts the frames by owner.
    ///
    /// # Errors
    /// A frame has two owners or none: says which.
    pub fn check(&self) -> Result<Census, String> {
        let mut census = Census::default();
        for index in 0..self.frames() {
            match self.frames.owner(index) {
                Owner::Free => census.free += 1,
                Owner::User => census.user += 1,
                Owner::Fill(_) => census.fill += 1,
                Owner::Transmit(_) => census.transmit += 1,
            }
        }
        let mut on_stack = vec![false; self.frames()];
        for &index in &self.free {
            let owner = self.frames.owner(index as usize);
            if std::mem::replace(&mut on_stack[index as usize], true) {
                return Err(format!("frame {index} is on the free stack twice"));
            }
            if owner != Owner::Free {
                return Err(format!("frame {index} is on the free stack and with {owner:?}"));
            }
        }
        if census.free != self.free.len() {
            return Err(format!("{} frames are tagged free, {} on the stack", census.free, self.free.len()));
        }
        Ok(census)
    }

    /// The frames as a port sees them.
    pub(crate) fn shared(&self) -> Arc<Frames> {
        Arc::clone(&self.frames)
    }

    /// Takes free frames for the fill ring of `port`, as many as `descs` has room for and memory has. Returns how many.
    #[inline]
    pub(crate) fn take_for_fill(&mut self, port: u8, descs: &mut [FrameDesc]) -> usize {
        let taken = descs.len().min(self.free.len());
        for desc in &mut descs[..taken] {
            let Some(index) = self.free.pop() else { break };
            self.frames.hand_over(index as usize, Owner::Free, Owner::Fill(port));
            *desc = self.frames.descs[index as usize];
        }
        taken
    }

    /// The frame of a descriptor that the kernel put into the RX ring of `port`, now the user's; nothing if the port had posted
    /// no such frame.
    #[inline]
    pub(crate) fn take_received(&mut self, desc: &FrameDesc, port: u8) -> Option<Received> {
        let index = self.frames.index_of(desc.addr());
        if !self.frames.give_back(index, Owner::Fill(port)) {
            return None;
        }
        if desc.addr() != self.frames.descs[index].addr() {
            self.settle(desc);
        }
        Some(Received { frame: FrameId::new(index as u32), len: desc.lengths().data() as u16 })
    }

    /// A number for a new port, once the frames of ports that were dropped are reclaimed.
    pub(crate) fn add_port(&mut self) -> Option<u8> {
        let abandoned = std::mem::take(
            &mut *self.frames.abandoned.lock().unwrap_or_else(|poisoned| poisoned.into_inner()),
        );
        for port in abandoned {
            let mut unsent = Vec::new();
            self.remove_port(port, &mut unsent);
            unsent.into_iter().for_each(|frame| self.free(frame));
        }
        let port = self.ports.trailing_ones() as usize;
        (port < MAX_PORTS).then(|| {
            self.ports |= 1 << port;
            port as u8
        })
    }

    /// Ports there are.
    pub(crate) fn port_count(&self) -> usize {
        self.ports.count_ones() as usize
    }

    /// The sockets of `port` are closed: what its fill and RX rings held is freed, and what it had to transmit goes to
    /// `unsent`.
    pub(crate) fn remove_port(&mut self, port: u8, unsent: &mut Vec<FrameId>) {
        self.reclaim(port, unsent);
        self.ports &= !(1 << port);
    }

    /// The same where the port keeps its number, for other sockets.
    pub(crate) fn reclaim(&mut self, port: u8, unsent: &mut Vec<FrameId>) {
        for index in 0..self.frames() {
            match self.frames.owner(index) {
                Owner::Fill(owner) if owner == port => {
                    self.frames.hand_over(index, Owner::Fill(port), Owner::Free);
                    self.free.push(index as u32);
                }
                Owner::Transmit(owner) if owner == port => {
                    self.frames.hand_over(index, Owner::Transmit(port), Owner::User);
                    unsent.push(FrameId::new(index as u32));
                }
                _ => {}
            }
        }
    }

    /// Brings the bytes of a received frame to the place where those of all frames begin, should the driver have put
    /// them elsewhere: `received` is the descriptor it gave back.
    #[cold]
    fn settle(&mut self, received: &FrameDesc) {
        let index = self.frames.index_of(received.addr());
        // SAFETY: the descriptor is of this UMEM, and its frame is in nobody's hands but ours.
        let from = unsafe { self.frames.umem.data(received) }.contents();
        let (from, len) = (from.as_ptr(), from.len());
        let to = self.slice_mut(index, len);
        // SAFETY: both lie in the same chunk of the UMEM; `copy` allows for the overlap.
        unsafe { std::ptr::copy(from, to.as_mut_ptr(), to.len()) };
    }

    fn slice_mut(&mut self, index: usize, len: usize) -> &mut [u8] {
        let mut desc = self.frames.desc(index);
        // SAFETY: the descriptor is of this UMEM. The caller holds the frame's token (or is `settle`, on a frame in
        // nobody's hands), so nobody else writes it, and `&mut self` keeps other slices of this memory away.
        let mut data = unsafe { self.frames.umem.data_mut(&mut desc) };
        let contents = data.contents_mut();
        let (start, len) = (contents.as_mut_ptr(), len.min(contents.len()));
        // SAFETY: the same bytes, borrowed as long as `self` is instead of as long as the descriptor on the stack.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }
}

impl Memory for Umem {
    #[inline]
    fn alloc(&mut self) -> Option<FrameId> {
        let index = self.free.pop()?;
        self.frames.hand_over(index as usize, Owner::Free, Owner::User);
        Some(FrameId::new(index))
    }

    #[inline]
    fn free(&mut self, frame: FrameId) {
        self.frames.hand_over(frame.index(), Owner::User, Owner::Free);
        self.free.push(frame.index() as u32);
    }

    #[inline]
    fn bytes(&self, frame: &FrameId, len: usize) -> &[u8] {
        // SAFETY: the descriptor is of this UMEM, and whoever holds the token owns the frame: nobody writes to it.
        let contents = unsafe { self.frames.umem.data(&self.frames.descs[frame.index()]) }.contents();
        &contents[..len.min(contents.len())]
    }

    #[inline]
    fn bytes_mut(&mut self, frame: &FrameId, len: usize) -> &mut [u8] {
        self.slice_mut(frame.index(), len)
    }

    #[inline]
    fn prefetch(&self, frame: &FrameId) {
        prefetch(self.bytes(frame, 1));
    }

    fn copy(&mut self, from: &FrameId, to: &FrameId, len: usize) {
        let source: *const [u8] = self.bytes(from, len);
        let target = self.slice_mut(to.index(), len);
        // SAFETY: two tokens are two different frames, so the slices do not overlap; both are `len` bytes, or as many as
        // any frame has.
        unsafe { std::ptr::copy_nonoverlapping(source.cast::<u8>(), target.as_mut_ptr(), target.len()) };
    }

    fn max_len(&self) -> usize {
        max_len(self.frame_bytes)
    }

    fn free_frames(&self) -> usize {
        self.free.len()
    }
}

/// The longest frame that fits in `frame_bytes` bytes.
fn max_len(frame_bytes: usize) -> usize {
    frame_bytes - XDP_HEADROOM
}

/// The largest MTU whose frames, with two 802.1Q tags, fit in `frame_bytes` bytes.
pub(crate) fn max_mtu(frame_bytes: usize) -> u32 {
    (max_len(frame_bytes) - LINK_BYTES) as u32
}

/// The bytes that each frame needs for the MTUs of these interfaces: 2048 or 4096. An MTU that is too large for either
/// is refused when its port is opened.
///
/// # Errors
/// An interface does not exist.
pub fn frame_bytes_for<'a>(interfaces: impl IntoIterator<Item = &'a str>) -> Result<usize, Error> {
    let route = RouteSocket::open().map_err(|error| Error::kernel("opening a netlink socket", error))?;
    let mut frame_bytes = 2048;
    for interface in interfaces {
        let link = route.link(interface).map_err(|error| crate::port::no_link(interface, error))?;
        if link.mtu > max_mtu(2048) {
            frame_bytes = 4096;
        }
    }
    Ok(frame_bytes)
}

/// Refuses what would not fit: the kernel hands out more shared memory than there is, and then kills processes.
fn check_available(frames: usize, frame_bytes: usize) -> Result<(), Error> {
    let no_memory = |reason| Error::NoMemory { frames, frame_bytes, reason };
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available_kib = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|kib| kib.parse::<u64>().ok());
    match available_kib {
        Some(kib) if (frames as u64).saturating_mul(frame_bytes as u64) > kib << 10 => {
            Err(no_memory(format!("{} MiB are available", kib >> 10)))
        }
        _ => Ok(()),
    }
}

/// Registers the UMEM and binds its first socket, on a thread of its own for the sake of its network namespace.
fn register(frames: NonZeroU32, frame_bytes: usize) -> Result<(xsk_rs::Umem, Vec<FrameDesc>, Anchor), Error> {
    let work = move || {
        unshare(CloneFlags::CLONE_NEWNET)
            .map_err(|errno| Error::kernel("making a network namespace for the UMEM", errno.into()))?;
        let config = umem_config(frame_bytes);
        let (umem, descs) = xsk_rs::Umem::new(config, frames, false)
            .map_err(|error| not_registered(frames.get() as usize, frame_bytes, &error))?;
        let config = socket_config(64, 64);
        let loopback = "lo".parse().expect("no zero byte");
        // SAFETY: no program is loaded by libxdp, so none is detached twice.
        let (tx, rx, rings) = unsafe { Socket::new(config, &umem, &loopback, 0) }
            .map_err(|error| Error::kernel("binding the UMEM's first socket", os_error(&error)))?;
        Ok((umem, descs, Anchor { _tx: tx, _rx: rx, _rings: rings }))
    };
    std::thread::spawn(work).join().expect("it does not panic")
}

fn not_registered(frames: usize, frame_bytes: usize, error: &xsk_rs::umem::UmemCreateError) -> Error {
    let error = os_error(error);
    match error.raw_os_error() {
        Some(libc::ENOMEM) => {
            Error::NoMemory { frames, frame_bytes, reason: "the kernel has not got it".into() }
        }
        Some(libc::ENOBUFS) => {
            let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_MEMLOCK);
            let limit_kib = limit.map_or(0, |(soft, _)| soft >> 10);
            let reason =
                format!("locked memory is limited to {limit_kib} KiB (`ulimit -l`, or CAP_IPC_LOCK)");
            Error::NoMemory { frames, frame_bytes, reason }
        }
        _ => Error::kernel("registering a UMEM", error),
    }
}

/// What the kernel said, from an error of xsk-rs.
pub(crate) fn os_error(error: &dyn std::error::Error) -> std::io::Error {
    error
        .source()
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .and_then(std::io::Error::raw_os_error)
        .map_or_else(|| std::io::Error::other(error.to_string()), std::io::Error::from_raw_os_error)
}

fn umem_config(frame_bytes: usize) -> UmemConfig {
    let ring = |entries| QueueSize::new(entries).expect("a power of two");
    UmemConfig::builder()
        .frame_size(FrameSize::new(frame_bytes as u32).expect("at least 2048"))
        .fill_queue_size(ring(FILL_RING))
        .comp_queue_size(ring(COMPLETION_RING))
        .frame_headroom(0)
        .build()
        .expect("a power of two with room for the headroom")
}

/// Settings of a socket in copy mode, whose program is ours to load.
pub(crate) fn socket_config(rx_ring: u32, tx_ring: u32) -> SocketConfig {
    SocketConfig::builder()
        .rx_queue_size(QueueSize::new(rx_ring).expect("a power of two"))
        .tx_queue_size(QueueSize::new(tx_ring).expect("a power of two"))
        .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
        .bind_flags(BindFlags::XDP_COPY)
        .build()
}

/// The descriptors with the length of the longest frame, so that each stands for all of its frame's bytes.
fn with_full_length(umem: &xsk_rs::Umem, mut descs: Vec<FrameDesc>) -> Box<[FrameDesc]> {
    for desc in &mut descs {
        // SAFETY: the descriptor is of this UMEM, which nobody else knows yet.
        unsafe { umem.data_mut(desc) }.cursor().set_pos(usize::MAX);
    }
    descs.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_owner_has_a_tag_of_its_own() {
        let ports = 0..MAX_PORTS as u8;
        let with_port = ports.flat_map(|port| [Owner::Fill(port), Owner::Transmit(port)]);
        let mut seen = vec![false; 256];
        for owner in [Owner::Free, Owner::User].into_iter().chain(with_port) {
            assert_eq!(Owner::from_tag(owner.tag()), owner);
            assert!(!std::mem::replace(&mut seen[usize::from(owner.tag())], true), "{owner:?}");
        }
    }

    /// Whoever has a frame keeps it when the kernel gives it back a second time, or to a port that it is not from, or when there
    /// is no such frame: in release builds as well.
    #[test]
    fn what_the_kernel_gives_back_twice_stays_where_it_is() {
        let owners = Owners::new(2);
        owners.hand_over(1, Owner::Free, Owner::User);
        owners.hand_over(1, Owner::User, Owner::Transmit(3));
        assert!(!owners.give_back(1, Owner::Transmit(4)), "another port's");
        assert!(!owners.give_back(1, Owner::Fill(3)), "not received");
        assert_eq!(owners.of(1), Owner::Transmit(3));
        assert!(owners.give_back(1, Owner::Transmit(3)));
        for owner in [Owner::User, Owner::Free, Owner::Fill(3), Owner::Transmit(4)] {
            owners.0[1].store(owner.tag(), Relaxed);
            assert!(!owners.give_back(1, Owner::Transmit(3)), "{owner:?}");
            assert_eq!(owners.of(1), owner);
        }
        assert!(!owners.give_back(2, Owner::Transmit(3)), "there is no such frame");
        assert_eq!(owners.of(0), Owner::Free);
    }
}
