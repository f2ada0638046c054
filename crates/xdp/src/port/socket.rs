//! AF_XDP sockets: opening one, and the system calls that xsk-rs does not make or whose errors it
//! does not return.
//!
//! Source: `linux/if_xdp.h`, `net/xdp/xsk.c`.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use switch::KernelCounters;
use xsk_rs::{CompQueue, FillQueue, RxQueue, Socket, TxQueue};

use crate::error::Error;
use crate::port::bind_mode::Mode;
use crate::umem::register::{os_error, socket_config};

// linux/if_xdp.h
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

/// The four rings of a socket. The socket closes when the last of them is dropped.
pub(crate) struct Rings {
    pub(crate) rx: RxQueue,
    pub(crate) fill: FillQueue,
    pub(crate) tx: TxQueue,
    pub(crate) completion: CompQueue,
}

/// How long a busy queue is retried: the kernel releases the queue of a closed socket a moment
/// after the close, in a worker thread, which waits for a core as others do.
const PATIENCE: Duration = Duration::from_secs(2);

/// Binds a socket on `umem`, with rings of these sizes, to `queue` of `interface`. The mode applies
/// to the first socket on the UMEM.
pub(crate) fn open(
    umem: &xsk_rs::Umem,
    mode: Mode,
    (interface, queue): (&str, u32),
    (rx_ring, tx_ring): (u32, u32),
) -> Result<Rings, Error> {
    let name = interface.parse().map_err(|_| Error::NoInterface { interface: interface.into() })?;
    let config = socket_config(rx_ring, tx_ring, mode.bind_flags());
    let busy = || Error::QueueBusy { interface: interface.into(), queue };
    let start = Instant::now();
    let (tx, rx, rings) = loop {
        // SAFETY: no program is loaded by libxdp, so none is detached twice.
        let error = match unsafe { Socket::new(config, umem, &name, queue) } {
            Ok(socket) => break socket,
            Err(error) => os_error(&error),
        };
        if error.raw_os_error() != Some(libc::EBUSY) {
            return Err(Error::kernel(format!("interface {interface}, queue {queue}: AF_XDP socket"), error));
        }
        if start.elapsed() > PATIENCE {
            return Err(busy());
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    // Without its own rings, it shares those of another socket of this memory on the same queue.
    let (fill, completion) = rings.ok_or_else(busy)?;
    // SAFETY: plain fcntl on a descriptor that this function owns.
    unsafe { libc::fcntl(tx.fd().as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    Ok(Rings { rx, fill, tx, completion })
}

/// Lets one `sendto` process up to `frames` descriptors (at most the size of the TX ring); kernel
/// 6.17.
pub(crate) fn set_send_budget(fd: RawFd, frames: u32) -> io::Result<()> {
    set_option(fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, frames)
}

/// Bounds the kernel's copies of frames in flight, in bytes of its own accounting.
pub(crate) fn set_send_buffer(fd: RawFd, bytes: u32) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes)
}

pub(crate) fn set_option<T: Copy>(fd: RawFd, level: i32, name: i32, value: T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is to a value of this length, which outlives the call.
    let failed = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the value of a socket option.
///
/// # Safety
/// Every pattern of bits is a value of `T`, as of the kernel's plain structures and numbers.
pub(crate) unsafe fn option<T: Copy>(fd: RawFd, level: i32, name: i32) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the buffer is a `T` and the length matches.
    let failed = unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len) } != 0;
    // SAFETY: zeros and what the kernel wrote are a value, by the caller's promise.
    if failed { Err(io::Error::last_os_error()) } else { Ok(unsafe { value.assume_init() }) }
}

/// Makes the kernel send what is in the TX ring, up to the budget, or wakes the driver that sends.
/// Returns the error number on failure.
#[inline]
pub(crate) fn send(fd: RawFd) -> Result<(), i32> {
    // SAFETY: no buffer and no address are passed.
    let sent = unsafe { libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
    if sent >= 0 { Ok(()) } else { Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)) }
}

/// Wakes the receiving driver, so that it sees the posted chunks. [`take_error`] reports an
/// interface that is down.
#[cold]
pub(crate) fn wake_receiver(fd: RawFd) {
    let nowhere = std::ptr::null_mut();
    // SAFETY: no buffer and no address are passed.
    unsafe { libc::recvfrom(fd, nowhere, 0, libc::MSG_DONTWAIT, std::ptr::null_mut(), std::ptr::null_mut()) };
}

/// Takes the error that the kernel left on the socket, 0 if none: ENETDOWN if the interface has
/// disappeared. Unlike poll(), this sends nothing.
pub(crate) fn take_error(fd: RawFd) -> i32 {
    // SAFETY: a number.
    unsafe { option(fd, libc::SOL_SOCKET, libc::SO_ERROR) }.unwrap_or(libc::EBADF)
}

/// Adds the kernel's counters of a socket that receives to `counters`.
pub(crate) fn add_statistics(fd: RawFd, mode: Mode, counters: &mut KernelCounters) {
    let statistics = statistics(fd);
    let (dropped, empty) = (statistics.rx_dropped, statistics.rx_fill_ring_empty_descs);
    if mode.zero_copy {
        // A driver that found the fill ring empty mostly has other buffers to receive into, so that
        // is no loss.
        counters.rx_dropped_frames += dropped;
    } else if mode.max_chunks > 1 {
        // No frame is too long for the socket, so all dropped frames found too few chunks, not
        // necessarily none.
        counters.rx_fill_ring_empty_frames += dropped.max(empty);
    } else {
        // A frame that found the fill ring empty is counted in both.
        counters.rx_fill_ring_empty_frames += empty;
        counters.rx_dropped_frames += dropped.saturating_sub(empty);
    }
    counters.rx_ring_full_frames += statistics.rx_ring_full;
    counters.rx_invalid_frames += statistics.rx_invalid_descs;
    counters.tx_invalid_frames += statistics.tx_invalid_descs;
}

/// Returns how many bad descriptors the kernel has found in the socket's TX ring. All else that it
/// reports of a socket that only sends is of the rings shared with another.
pub(crate) fn tx_invalid_frames(fd: RawFd) -> u64 {
    statistics(fd).tx_invalid_descs
}

fn statistics(fd: RawFd) -> libc::xdp_statistics {
    // SAFETY: plain numbers.
    let statistics = unsafe { option(fd, libc::SOL_XDP, libc::XDP_STATISTICS) };
    // It fails only on a descriptor that is no such socket.
    // SAFETY: zeros are numbers.
    statistics.unwrap_or_else(|_| unsafe { std::mem::zeroed() })
}
