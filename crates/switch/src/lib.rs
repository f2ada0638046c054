//! A lossless Ethernet switch as pure state: frames and time come in, decisions come out. No clock, socket, thread or
//! `unsafe`; the daemon and the simulator run this same code.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod buffer;
pub mod egress;
pub mod fifo_set;
pub mod forwarding;
pub mod frame;
pub mod ingress;
pub mod monitor;
pub mod pfc;
pub mod pipeline;
pub mod settings;
mod sparse_table;
pub mod time;
pub mod token_bucket;

pub use self::pipeline::Switch;
pub use buffer::sizing::{chunks_of, frames_needed};
pub use forwarding::parsed_frame::{Arrival, Looker};
pub use frame::header_edit::{Edit, Outgoing, TagChange};
pub use frame::memory::{FrameRoom, HeapMemory, LONGEST_BYTES, LONGEST_RECEIVED_BYTES, Memory};
pub use frame::{FrameId, Received};
pub use monitor::counters::{DropReason, KernelCounters, Snapshot};
pub use monitor::event::Event;
pub use monitor::event_text::{Description, Severity};
pub use monitor::watermark::{Level, Mark};
pub use settings::{PortSettings, SwitchSettings};
pub use time::{Instant, Nanos};
