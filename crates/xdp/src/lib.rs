//! Ports on Linux interfaces, by AF_XDP sockets. The only crate with `unsafe`.
//!
//! [`Umem`] is the memory that all ports share, the switch's; a zero-copy port has one of its own besides, which nobody else sees. [`XdpPort`] a port on an interface: what `dataplane` asks of a
//! [`Port`](dataplane::Port). [`Keeper`] closes and opens one while its loop goes on. [`Waiter`] lets a loop [`Wait`](dataplane::Wait) until a port has something for it.
//!
//! What a loop calls logs nothing, since a log can make it wait: [`dataplane::Trouble`] goes to the daemon instead.
//!
//! Source: the kernel's `Documentation/networking/af_xdp.rst`; docs/kernel-behavior.md.

mod attachment;
mod chains;
mod error;
mod ethtool;
mod facts;
mod fill;
mod frames;
mod interface;
mod keeper;
mod lent;
mod long;
mod losses;
mod missed;
mod modes;
mod netlink;
mod offloads;
mod own;
mod packet;
mod port;
mod prefetch;
mod program;
mod receiver;
mod register;
mod schedule;
mod sender;
mod setup;
mod socket;
mod sockets;
mod umem;
mod wait;

pub use error::Error;
pub use ethtool::Pause;
pub use facts::{Facts, Lower, facts};
pub use interface::queues_of;
pub use keeper::{Dock, Keeper};
pub use modes::{Binding, ZeroCopy};
pub use offloads::{Caution, cautions};
pub use packet::PacketSocket;
pub use port::{FRAMES_OF_A_QUEUE, XdpPort};
pub use prefetch::prefetch;
pub use program::XdpMode;
pub use schedule::{Scheduling, lock_memory, longest_gap, set_scheduling};
pub use setup::PortSetup;
pub use umem::{Census, LEAST_CHUNK_BYTES, MAX_MTU, MAX_POSTED, MultiBuffer, Umem, frame_bytes_for};
pub use wait::{FrameWatch, Waiter, cores, leave_core, set_affinity, set_timer_slack};
