//! Ports on Linux interfaces, by AF_XDP sockets. The only crate with `unsafe`.
//!
//! [`Umem`] is the memory that all ports share, [`XdpPort`] a port on an interface: what `dataplane` asks of a
//! [`Port`](dataplane::Port). [`Waiter`] lets a loop [`Wait`](dataplane::Wait) until a port has something for it.
//!
//! Source: the kernel's `Documentation/networking/af_xdp.rst`; design §2 ("Memory"); `reference/afxdp.md`.

mod error;
mod fill;
mod netlink;
mod port;
mod prefetch;
mod program;
mod receiver;
mod sender;
mod socket;
mod umem;
mod wait;

pub use error::Error;
pub use port::{PortSetup, XdpPort, frames_for};
pub use prefetch::prefetch;
pub use program::XdpMode;
pub use umem::{Census, MAX_POSTED, Umem, frame_bytes_for};
pub use wait::{Waiter, set_affinity, set_timer_slack};
