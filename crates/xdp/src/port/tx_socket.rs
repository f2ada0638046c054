//! The sending socket of a port in copy mode: a TX ring on the queue of a socket that receives.
//!
//! Rule: nothing waits on a socket that sends. In copy mode `poll` on it sends what is in its TX
//! ring and reports no frame that the interface rejects, so the frame would count as transmitted.
//! libxdp gives every socket both rings, and shares a queue's completion ring only with the first
//! socket of the UMEM, which is bound elsewhere ([`crate::umem::register`]). So this one is bound
//! here. Source: docs/kernel/af-xdp.md, "Which frame was lost"; `linux/if_xdp.h`, `net/xdp/xsk.c`.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_void, sockaddr_xdp, xdp_desc, xdp_mmap_offsets};
use xsk_rs::FrameDesc;

use crate::port::socket::{option, set_option};

/// A socket that only sends, on the pool of another socket: their completion ring is one.
pub(crate) struct TxSocket {
    fd: OwnedFd,
    ring: Mapping,
    /// Positions of the ring in the mapping, in bytes.
    offsets: libc::xdp_ring_offset,
    entries: u32,
    /// Entries ever put into the ring; it wraps.
    produced: u32,
}

impl TxSocket {
    /// Binds a socket with a TX ring of `entries` entries, a power of two, to the queue that socket
    /// `receiver` is bound to.
    ///
    /// # Errors
    /// What the kernel reports.
    pub(crate) fn open(receiver: RawFd, (interface, queue): (u32, u32), entries: u32) -> io::Result<Self> {
        debug_assert!(entries.is_power_of_two());
        // SAFETY: plain socket(2), whose descriptor has no other owner.
        let fd = unsafe {
            let fd = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        set_option(fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_TX_RING, entries)?;
        // SAFETY: plain numbers.
        let offsets: xdp_mmap_offsets =
            unsafe { option(fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS) }?;
        let len = offsets.tx.desc as usize + entries as usize * size_of::<xdp_desc>();
        let ring = Mapping::new(&fd, len, libc::XDP_PGOFF_TX_RING)?;
        bind(&fd, receiver, (interface, queue))?;
        Ok(Self { fd, ring, offsets: offsets.tx, entries, produced: 0 })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Returns the number of free entries, as far as the kernel has come.
    pub(crate) fn free(&self) -> u32 {
        let consumed = self.position(self.offsets.consumer).load(Ordering::Acquire);
        self.entries - self.produced.wrapping_sub(consumed)
    }

    /// Puts all descriptors into the ring, or none if there are not enough free entries. Returns
    /// how many it has put.
    ///
    /// # Safety
    /// The descriptors are of the sockets' UMEM, and nothing else writes to their frames until they
    /// complete.
    pub(crate) unsafe fn produce(&mut self, descs: &[FrameDesc]) -> usize {
        if descs.len() > self.free() as usize {
            return 0;
        }
        for desc in descs {
            let slot = (self.produced & (self.entries - 1)) as usize;
            let entry = xdp_desc {
                addr: desc.addr() as u64,
                len: desc.lengths().data() as u32,
                options: desc.options(),
            };
            // SAFETY: the mapping has `entries` descriptors from this offset on, 8-byte aligned.
            // The kernel reads a free one only after the store of the producer's position below.
            unsafe { self.ring.at::<xdp_desc>(self.offsets.desc).add(slot).write(entry) };
            self.produced = self.produced.wrapping_add(1);
        }
        self.position(self.offsets.producer).store(self.produced, Ordering::Release);
        descs.len()
    }

    fn position(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the mapping has an aligned u32 there for as long as it lives, which this process
        // and the kernel access atomically only.
        unsafe { AtomicU32::from_ptr(self.ring.at(offset)) }
    }
}

/// Binds the socket to this queue, on the pool of `receiver`, which is bound to it.
fn bind(fd: &OwnedFd, receiver: RawFd, (interface, queue): (u32, u32)) -> io::Result<()> {
    let address = sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_SHARED_UMEM,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: receiver as u32,
    };
    let len = size_of::<sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the address is of this family, and the length matches.
    let failed = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A ring that the kernel shares.
struct Mapping {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: a mapping belongs to no thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(fd: &OwnedFd, len: usize, offset: libc::off_t) -> io::Result<Self> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping, wherever the kernel puts it.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd.as_raw_fd(), offset) };
        match NonNull::new(start).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Ok(Self { start, len }),
            None => Err(io::Error::last_os_error()),
        }
    }

    /// Returns what is at this offset.
    ///
    /// # Safety
    /// The offset is within the mapping.
    unsafe fn at<T>(&self, offset: u64) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe { self.start.byte_add(offset as usize).cast().as_ptr() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, to which nothing refers any more.
        unsafe { libc::munmap(self.start.as_ptr(), self.len) };
    }
}
