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

use libc::{sockaddr_xdp, xdp_mmap_offsets};
use xsk_rs::FrameDesc;

use crate::port::socket::{option, set_option};
use crate::port::tx_ring::TxRing;

/// A socket that only sends, on the pool of another socket: their completion ring is one.
pub(crate) struct TxSocket {
    fd: OwnedFd,
    ring: TxRing,
}

impl TxSocket {
    /// Binds a socket with a TX ring of `entries` entries, a power of two, to the queue that socket
    /// `receiver` is bound to.
    ///
    /// # Errors
    /// What the kernel reports.
    pub(crate) fn open(receiver: RawFd, (interface, queue): (u32, u32), entries: u32) -> io::Result<Self> {
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
        // SAFETY: the socket was just given this many entries, and the kernel reported the offsets.
        let ring = unsafe { TxRing::map(&fd, offsets.tx, entries) }?;
        bind(&fd, receiver, (interface, queue))?;
        Ok(Self { fd, ring })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Returns the number of free entries, as far as the kernel has come.
    pub(crate) fn free(&self) -> u32 {
        self.ring.free()
    }

    /// Puts all descriptors into the ring, or none if there are not enough free entries. Returns
    /// how many it has put.
    ///
    /// # Safety
    /// The descriptors are of the sockets' UMEM, and nothing else writes to their frames until they
    /// complete.
    pub(crate) unsafe fn produce(&mut self, descs: &[FrameDesc]) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.ring.produce(descs) }
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
