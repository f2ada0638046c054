//! Ports on Linux interfaces, by AF_XDP sockets. With `virtio` the only crate with `unsafe`.
//!
//! [`Umem`] is the memory of the switch, which all ports share. A zero-copy port has a private UMEM
//! in addition. [`XdpPort`] is a port on an interface and implements [`Port`](dataplane::Port) for
//! `dataplane`. [`PortOpener`] closes and opens a port while its loop continues. [`Waiter`] lets a
//! loop sleep ([`Sleeper`](dataplane::Sleeper)) until a port has work for it.
//!
//! Functions that a loop calls write no log, since that can block. A [`dataplane::PortFault`] goes
//! to the daemon instead.
//!
//! Source: the kernel's `Documentation/networking/af_xdp.rst`; docs/kernel/af-xdp.md.
// Input never ends the loop: what cannot happen is an exception with its reason.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::todo, clippy::unimplemented)]
#![deny(clippy::indexing_slicing)]

mod error;
#[expect(clippy::indexing_slicing, reason = "by what the kernel has put into a buffer of ours")]
mod interface;
#[expect(clippy::indexing_slicing, reason = "an address that the caller passes")]
mod packet_socket;
#[expect(clippy::indexing_slicing, reason = "by entry of a batch, as many as a ring has moved")]
mod port;
#[expect(clippy::indexing_slicing, reason = "by descriptor, of its own list")]
mod thread;
#[expect(
    clippy::indexing_slicing,
    reason = "by chunk of a descriptor of this memory, which the kernel returns as it got it"
)]
mod umem;

/// Netlink route sockets, for all crates that request interfaces and qdiscs.
pub mod netlink {
    pub use crate::interface::netlink::{
        Link, LinkChange, Request, RouteSocket, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, attributes, push_attribute,
        text, traffic_control, u32_at,
    };
}

pub use error::Error;
pub use interface::addresses::Address;
pub use interface::ethtool::Pause;
pub use interface::host_settings::HostSettings;
pub use interface::info::{InterfaceInfo, LowerDevice, query};
pub use interface::offloads::{OffloadWarning, warnings};
pub use interface::program::XdpMode;
pub use interface::queues_of;
pub use packet_socket::{PacketSender, PacketSocket};
pub use port::XdpPort;
pub use port::bind_mode::{PortMode, ZeroCopy};
pub use port::config::PortConfig;
pub use port::opener::{PortOpener, SocketHandoff};
pub use port::sockets::FRAMES_PER_QUEUE;
pub use thread::netns::{NAMED_NAMESPACES, OWN_NAMESPACE, in_namespace, in_new_namespace, named_namespace};
pub use thread::sched::{Scheduling, lock_memory, longest_gap, set_scheduling};
pub use thread::sleep::{RxWatcher, Waiter, cores, exclude_core, set_affinity, set_timer_slack};
pub use umem::prefetch::prefetch;
pub use umem::register::MultiBuffer;
pub use umem::{FrameAccounting, MAX_MTU, MAX_POSTED, MIN_CHUNK_BYTES, Umem, frame_bytes_for};
