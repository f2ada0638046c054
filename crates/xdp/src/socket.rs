//! One AF_XDP socket: the four rings of an RX queue, and the calls on its descriptor.
//!
//! Source: `linux/if_xdp.h`, `net/xdp/xsk.c`; the errors of `sendto` are those of `reference/afxdp.md`.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, RawFd};

use switch::KernelCounters;
use xsk_rs::{CompQueue, FillQueue, RxQueue, Socket, TxQueue};

use crate::error::Error;
use crate::umem::{Umem, os_error, socket_config};

// linux/if_xdp.h
const SOL_XDP: i32 = 283;
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

/// An XSK bound to one queue of an interface.
#[derive(Debug)]
pub(crate) struct Xsk {
    pub(crate) rx: RxQueue,
    pub(crate) tx: TxQueue,
    pub(crate) fill: FillQueue,
    pub(crate) completion: CompQueue,
}

impl Xsk {
    /// Binds a socket in copy mode to `queue` of `interface`.
    pub(crate) fn open(umem: &Umem, interface: &str, queue: u32, rx: u32, tx: u32) -> Result<Xsk, Error> {
        let name = interface.parse().map_err(|_| Error::NoInterface { interface: interface.into() })?;
        // SAFETY: no program is loaded by libxdp, so none is detached twice.
        let opened = unsafe { Socket::new(socket_config(rx, tx), umem.registered(), &name, queue) };
        let (tx, rx, rings) = opened.map_err(|error| {
            let error = os_error(&error);
            match error.raw_os_error() {
                Some(libc::EBUSY) => Error::QueueBusy { interface: interface.into(), queue },
                _ => Error::kernel(format!("interface {interface}, queue {queue}: AF_XDP socket"), error),
            }
        })?;
        let Some((fill, completion)) = rings else {
            // This memory has a socket on this queue already.
            return Err(Error::QueueBusy { interface: interface.into(), queue });
        };
        let xsk = Xsk { rx, tx, fill, completion };
        // SAFETY: plain fcntl on a descriptor that we own.
        unsafe { libc::fcntl(xsk.fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        Ok(xsk)
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.tx.fd().as_raw_fd()
    }

    /// Lets one `sendto` handle up to `frames` descriptors (at most the size of the TX ring); kernel 6.17.
    pub(crate) fn set_send_budget(&self, frames: u32) -> io::Result<()> {
        set_option(self.fd(), SOL_XDP, XDP_MAX_TX_SKB_BUDGET, frames)
    }

    /// Bounds the kernel's copies of frames that are on their way, in bytes of its own accounting.
    pub(crate) fn set_send_buffer(&self, bytes: u32) -> io::Result<()> {
        set_option(self.fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes)
    }

    /// Makes the kernel send what is in the TX ring, up to the budget.
    #[inline]
    pub(crate) fn send(&self) -> Result<(), i32> {
        // SAFETY: no buffer and no address are passed.
        let sent =
            unsafe { libc::sendto(self.fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        if sent >= 0 { Ok(()) } else { Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)) }
    }

    /// The error that the kernel left on the socket, 0 if none: ENETDOWN once the interface is gone.
    pub(crate) fn pending_error(&self) -> i32 {
        let mut error = 0i32;
        let mut len = size_of::<i32>() as libc::socklen_t;
        // SAFETY: the buffer is an i32 and the length says so.
        let failed = unsafe {
            libc::getsockopt(
                self.fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut error).cast(),
                &raw mut len,
            )
        } != 0;
        if failed { libc::EBADF } else { error }
    }

    /// Adds what the kernel counted on this socket to `counters`.
    pub(crate) fn add_statistics(&self, counters: &mut KernelCounters) {
        let Ok(statistics) = self.tx.fd().xdp_statistics() else { return };
        counters.rx_fill_ring_empty += statistics.rx_fill_ring_empty_descs();
        counters.rx_ring_full += statistics.rx_ring_full();
        // A frame that found the fill ring empty is counted in both.
        counters.rx_dropped += statistics.rx_dropped().saturating_sub(statistics.rx_fill_ring_empty_descs());
        counters.rx_invalid += statistics.rx_invalid_descs();
        counters.tx_invalid += statistics.tx_invalid_descs();
    }
}

fn set_option(fd: RawFd, level: i32, name: i32, value: u32) -> io::Result<()> {
    // SAFETY: the value is a u32 and the length says so.
    let failed = unsafe {
        libc::setsockopt(fd, level, name, (&raw const value).cast(), size_of::<u32>() as libc::socklen_t)
    } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}
