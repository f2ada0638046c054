//! The poll loop of one core: rings in, switch, rings out. It owns its ports, its switch and its memory, never blocks
//! but where it sleeps, never allocates after the start, never locks and logs nothing; the rest of the daemon talks to it through a
//! [`Handle`].
//!
//! ```text
//! Core ─▶ Turn ─▶ Port: xdp::XdpPort, MemoryPort, the simulator's lines
//!   │      └────▶ switch::Switch
//!   ├───▶ Mailbox ◀─▶ Handle: the daemon
//!   └───▶ Wait: xdp::Waiter
//! ```
//! Pure: what a port and a sleep are made of is behind [`Port`] and [`Wait`], time is a parameter, and a simulated
//! software switch takes the very same [`Turn`].
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod belt;
pub mod core;
mod core_port;
mod doorbell;
mod edits;
pub mod heartbeat;
mod lane;
mod line;
mod look;
pub mod mailbox;
pub mod memory_port;
pub mod port;
pub mod recorder;
mod remote_port;
pub mod replay;
mod rest;
mod times;
pub mod turn;
pub mod vigil;
pub mod wait;

pub use crate::core::{Core, CoreSettings};
pub use core_port::CorePort;
pub use doorbell::Doorbell;
pub use heartbeat::{Heartbeat, Pulse};
pub use lane::{LANE_FRAMES, LaneNews};
pub use line::{Line, LinePort, remote};
pub use mailbox::{Command, Handle, Mailbox, Reply, Settings, mailbox};
pub use memory_port::{Calls, MemoryPort, Wire};
pub use port::{Port, Trouble};
pub use recorder::{Chunk, Recorder, Reel};
pub use remote_port::RemotePort;
pub use replay::Replay;
pub use times::LoopTimes;
pub use turn::{RX_BATCH, TX_BATCH, Turn};
pub use wait::Wait;

/// What the doorbell is made of. Its test tries the same file with atomics of another make.
mod atomics {
    pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
}
