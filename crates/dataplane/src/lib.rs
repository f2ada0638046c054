//! The poll loop of one core: rings in, switch, rings out. It owns its ports, its switch and its
//! memory. It blocks only when it sleeps, allocates nothing after the start, takes no lock and
//! writes no log. The rest of the daemon communicates with it through a [`Handle`].
//!
//! ```text
//! PollLoop ─▶ Iteration ─▶ Port: xdp::XdpPort, RemotePort, the simulator's links
//!   │           └────────▶ switch::Switch
//!   ├───────▶ Mailbox ◀─▶ Handle: the daemon
//!   └───────▶ Sleeper: xdp::Waiter
//! ```
//! Pure: the implementations of a port and of a sleep are behind [`Port`] and [`Sleeper`], and time
//! is a parameter. A simulated software switch runs the same [`Iteration`].
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
// Input never ends the loop: what cannot happen is an exception with its reason.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::todo, clippy::unimplemented)]
#![deny(clippy::indexing_slicing)]

mod batch_ops;
pub mod capture;
pub mod flight_recorder;
#[expect(clippy::indexing_slicing, reason = "by port and priority, which the switch numbers")]
pub mod guard;
#[expect(clippy::indexing_slicing, reason = "by port, of its own list")]
mod io_core;
pub mod mailbox;
#[expect(clippy::indexing_slicing, reason = "by port, which the switch numbers")]
pub mod poll_loop;
pub mod port;
pub mod punt_ring;
pub mod sleeper;

pub use crate::capture::filter::CaptureFilter;
pub use crate::capture::frame::{FrameDirection, FrameHeader, FrameVerdict};
pub use crate::capture::ring::CaptureRing;
pub use crate::capture::tap::Capture;
pub use crate::poll_loop::{PollLoop, PollLoopSettings};
pub use flight_recorder::recorded_switch::RecordedSwitch;
pub use flight_recorder::recorder::{Chunk, ChunkKind, ChunkPool, Recorder};
pub use flight_recorder::replay::Replay;
pub use flight_recorder::segments::Segments;
pub use guard::heartbeat::{Heartbeat, LoopState};
pub use io_core::doorbell::Doorbell;
pub use io_core::io_loop::{IoLoop, IoPort, remote};
pub use io_core::port_channel::{CHANNEL_FRAMES, ChannelMonitor};
pub use io_core::remote_port::RemotePort;
pub use mailbox::{Handle, LoopCommand, Mailbox, Reply, Settings, mailbox};
pub use poll_loop::iteration::{Iteration, RX_BATCH, TX_BATCH};
pub use poll_loop::loop_port::LoopPort;
pub use poll_loop::stats::LoopTimes;
pub use port::{Port, PortFault};
pub use punt_ring::{PuntRings, PuntedBytes};
pub use sleeper::Sleeper;

/// What loops and threads share: atomics, and bounded queues. The tests of interleavings compile
/// the same files with those of `loom`.
mod shared {
    pub(crate) use crossbeam::queue::ArrayQueue;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
}
