//! The poll loop of one core: rings in, switch, rings out. It owns its ports, its switch and its
//! memory, never blocks but where it sleeps, never allocates after the start, never locks and logs
//! nothing; the rest of the daemon talks to it through a [`Handle`].
//!
//! ```text
//! Core ─▶ Turn ─▶ Port: xdp::XdpPort, MemoryPort, the simulator's lines
//!   │      └────▶ switch::Switch
//!   ├───▶ Mailbox ◀─▶ Handle: the daemon
//!   └───▶ Wait: xdp::Waiter
//! ```
//! Pure: what a port and a sleep are made of is behind [`Port`] and [`Sleeper`], time is a parameter,
//! and a simulated software switch takes the very same [`Iteration`].
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod flight_recorder;
mod frame_batch;
pub mod guard;
mod io_core;
pub mod loopback_port;
pub mod mailbox;
pub mod poll_loop;
pub mod port;
pub mod sleeper;

pub use crate::poll_loop::{PollLoop, PollLoopSettings};
pub use flight_recorder::recorder::{Chunk, ChunkPool, Recorder};
pub use flight_recorder::replay::Replay;
pub use guard::heartbeat::{Heartbeat, LoopState};
pub use io_core::doorbell::Doorbell;
pub use io_core::io_loop::{IoLoop, IoPort, remote};
pub use io_core::port_channel::{ChannelMonitor, LANE_FRAMES};
pub use io_core::remote_port::RemotePort;
pub use loopback_port::{Calls, LoopbackPort, Wire};
pub use mailbox::{Handle, LoopCommand, Mailbox, Reply, Settings, mailbox};
pub use poll_loop::iteration::{Iteration, RX_BATCH, TX_BATCH};
pub use poll_loop::loop_port::LoopPort;
pub use poll_loop::stats::LoopTimes;
pub use port::{Port, PortFault};
pub use sleeper::Sleeper;

/// What the doorbell is made of. Its test tries the same file with atomics of another make.
mod atomics {
    pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
}
