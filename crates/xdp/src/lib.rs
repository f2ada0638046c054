//! Ports: AF_XDP sockets on a Linux interface, and a stand-in in memory for tests. The only crate with `unsafe`.
//!
//! [`Umem`] is the memory that all ports share, [`XdpPort`] a port on an interface, [`MemoryPort`] one without any
//! kernel; both are [`PortIo`]. [`Waiter`] lets a loop sleep until a port has something for it.
//!
//! Source: the kernel's `Documentation/networking/af_xdp.rst`; docs/kernel.md.

mod error;
mod fill;
mod memory_port;
mod netlink;
mod port;
mod port_io;
mod prefetch;
mod program;
mod receiver;
mod sender;
mod socket;
mod umem;
mod wait;

pub use error::Error;
pub use memory_port::{MemoryPort, Wire};
pub use port::{PortSetup, XdpPort, frames_for};
pub use port_io::PortIo;
pub use prefetch::prefetch;
pub use program::XdpMode;
pub use umem::{Census, MAX_POSTED, Umem, frame_bytes_for};
pub use wait::{Waiter, Waker, set_affinity, set_timer_slack};
