//! Registers a UMEM with the kernel and binds its first socket.
//!
//! libxdp keeps the UMEM's own descriptor as the first socket bound on it, and that socket stays
//! bound for the lifetime of the UMEM. To keep this from blocking a port's interface, the first
//! socket is bound to the loopback interface of a network namespace created for it alone. The
//! kernel removes the namespace with the socket. Without CAP_SYS_ADMIN no namespace can be made:
//! then it is the loopback interface of the process's own namespace, which takes one such socket.
//!
//! That socket decides for all sockets on the UMEM whether they support multi-buffer frames
//! (`XDP_USE_SG`, kernel 6.6). Source: docs/kernel/af-xdp.md, "Frames in several chunks".

use std::num::NonZeroU32;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use xsk_rs::config::{BindFlags, FrameSize, LibxdpFlags, QueueSize, SocketConfig, UmemConfig};
use xsk_rs::{CompQueue, FillQueue, FrameDesc, RxQueue, Socket, TxQueue};

use crate::error::Error;

/// Rejects a memory that would not fit: the kernel allows more shared memory than there is, and
/// then kills processes.
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

/// The first socket on a UMEM; see the module documentation.
pub(crate) struct UmemSocket {
    _tx: TxQueue,
    _rx: RxQueue,
    _rings: Option<(FillQueue, CompQueue)>,
}

/// A UMEM that is registered with the kernel.
pub(crate) struct Registered {
    pub(crate) umem: xsk_rs::Umem,
    /// The descriptors of the chunks, each over all bytes of its chunk.
    pub(crate) descs: Box<[FrameDesc]>,
    /// The sockets on it support multi-buffer frames.
    pub(crate) multi_buffer: bool,
    pub(crate) first_socket: UmemSocket,
}

/// Registers a UMEM and binds its first socket, with multi-buffer frames if requested and
/// supported.
pub(crate) fn register(
    chunks: NonZeroU32,
    frame_bytes: usize,
    wanted: MultiBuffer,
) -> Result<Registered, Error> {
    if wanted == MultiBuffer::IfPossible {
        match register_with(chunks, frame_bytes, true) {
            // What libxdp keeps of a failed socket cannot be reused: all of it is created again.
            Err(Error::Kernel { source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => {}
            registered => return registered,
        }
    }
    register_with(chunks, frame_bytes, false)
}

/// Registers on a thread of its own, which can change its network namespace.
#[expect(clippy::expect_used, reason = "the thread does not panic, and the name is a constant")]
fn register_with(chunks: NonZeroU32, frame_bytes: usize, multi_buffer: bool) -> Result<Registered, Error> {
    let work = move || {
        let action = match unshare(CloneFlags::CLONE_NEWNET) {
            Ok(()) => "binding the UMEM's first socket",
            Err(Errno::EPERM) => {
                "binding the UMEM's first socket to lo (with CAP_SYS_ADMIN it would not be lo)"
            }
            Err(errno) => {
                return Err(Error::kernel("making a network namespace for the UMEM", errno.into()));
            }
        };
        let (umem, descs) = memory(chunks, frame_bytes)?;
        let flags =
            BindFlags::XDP_COPY | if multi_buffer { BindFlags::XDP_USE_SG } else { BindFlags::empty() };
        let loopback = "lo".parse().expect("no zero byte");
        // SAFETY: no program is loaded by libxdp, so none is detached twice.
        let (tx, rx, rings) = unsafe { Socket::new(socket_config(64, 64, flags), &umem, &loopback, 0) }
            .map_err(|error| Error::kernel(action, os_error(&error)))?;
        let anchor = UmemSocket { _tx: tx, _rx: rx, _rings: rings };
        Ok(Registered { descs, umem, multi_buffer, first_socket: anchor })
    };
    std::thread::spawn(work).join().expect("it does not panic")
}

/// Registers memory without a socket, and returns the descriptor of each chunk.
pub(crate) fn memory(
    chunks: NonZeroU32,
    frame_bytes: usize,
) -> Result<(xsk_rs::Umem, Box<[FrameDesc]>), Error> {
    check_available(chunks.get() as usize, frame_bytes)?;
    let (umem, descs) = xsk_rs::Umem::new(umem_config(frame_bytes), chunks, false)
        .map_err(|error| not_registered(chunks.get() as usize, frame_bytes, &error))?;
    let descs = with_full_length(&umem, descs);
    Ok((umem, descs))
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

/// Returns the kernel's error from an error of xsk-rs.
pub(crate) fn os_error(error: &dyn std::error::Error) -> std::io::Error {
    error
        .source()
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .and_then(std::io::Error::raw_os_error)
        .map_or_else(|| std::io::Error::other(error.to_string()), std::io::Error::from_raw_os_error)
}

#[expect(clippy::expect_used, reason = "constants, and one of two frame sizes")]
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

/// Returns the settings of a socket whose program this crate loads. The flags of a UMEM's first
/// socket apply to all that share it.
#[expect(clippy::expect_used, reason = "constants")]
pub(crate) fn socket_config(rx_ring: u32, tx_ring: u32, flags: BindFlags) -> SocketConfig {
    SocketConfig::builder()
        .rx_queue_size(QueueSize::new(rx_ring).expect("a power of two"))
        .tx_queue_size(QueueSize::new(tx_ring).expect("a power of two"))
        .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
        .bind_flags(flags)
        .build()
}

/// Returns the descriptors with the length of the longest frame, so that each covers all bytes of
/// its frame.
fn with_full_length(umem: &xsk_rs::Umem, mut descs: Vec<FrameDesc>) -> Box<[FrameDesc]> {
    for desc in &mut descs {
        // SAFETY: the descriptor belongs to this UMEM, which is not shared yet.
        unsafe { umem.data_mut(desc) }.cursor().set_pos(usize::MAX);
    }
    descs.into()
}

/// Entries of each fill ring.
pub(crate) const FILL_RING: u32 = 8192;

/// Entries of each completion ring; no TX ring is larger.
pub(crate) const COMPLETION_RING: u32 = 2048;

/// Whether frames may span several chunks of memory (`XDP_USE_SG`; Linux 6.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MultiBuffer {
    /// If the kernel supports that.
    IfPossible,
    /// Never: frames longer than a chunk are rejected, as on older kernels.
    Never,
}
