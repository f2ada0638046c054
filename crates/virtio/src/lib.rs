//! Ports on vhost-user sockets: the peer is a guest, or a process with a virtio driver, whose
//! memory the switch shares.
//!
//! [`VhostUser`] is a socket and the thread that answers on it; [`VirtioPort`] is the port that a
//! loop serves, and implements [`Port`](dataplane::Port) for `dataplane`. Besides `xdp` this is the
//! only crate with `unsafe`: for the mappings of guest memory and accesses to it, in [`memory`].
//!
//! Source: Virtual I/O Device 1.2; QEMU's vhost-user protocol; docs/vhost-user.md.
// Input never ends the loop: what cannot happen is an exception with its reason.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::todo, clippy::unimplemented)]
#![deny(clippy::indexing_slicing)]

mod backend;
mod error;
#[expect(
    clippy::indexing_slicing,
    reason = "by pair and ring, of its own lists; a test host, not the switch"
)]
pub mod front_end;
pub mod memory;
mod port;
pub mod ring;
mod vhost_user;

pub use backend::Notice;
pub use backend::socket::SocketRole;
pub use error::MemoryError;
pub use memory::UnsealedMemory;
pub use port::device::MAX_PAIRS;
pub use port::{PortSettings, VirtioPort};
pub use vhost_user::{SocketSettings, VhostLink, VhostUser};

/// What threads and loops share: atomics, and bounded queues. The test of interleavings compiles
/// the same file with those of `loom`.
mod shared {
    pub(crate) use crossbeam::queue::ArrayQueue;
    pub(crate) use std::sync::Mutex;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
}
