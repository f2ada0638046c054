//! A lossless Ethernet switch as pure state: frames and time go in, decisions come out. It has no
//! clock, socket, thread or `unsafe`, so the daemon and the simulator run the same code.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
// Input never ends the loop: what cannot happen is an exception with its reason.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::todo, clippy::unimplemented)]

pub mod buffer;
mod cow_table;
pub mod egress;
mod fifo_set;
pub mod forwarding;
pub mod frame;
mod ingress;
pub mod monitor;
pub mod pfc;
mod pipeline;
pub mod settings;
mod time;
pub mod token_bucket;

pub use self::pipeline::Switch;
pub use self::pipeline::checkpoint::CopiedSlots;
pub use buffer::sizing::{FRAMES_PER_PORT, chunks_of, frames_needed};
pub use forwarding::fdb::{FdbEntry, FdbPage};
pub use forwarding::parsed_frame::{Disposition, FrameParser, RxFrame};
pub use frame::header_edit::{HeaderEdit, TxDesc, VlanAction};
pub use frame::memory::{
    DroppedFrame, FrameDrop, FrameMemory, HeapMemory, LONGEST_BYTES, LONGEST_RECEIVED_BYTES, MaxFrame,
};
pub use frame::{FrameId, RxDesc};
pub use monitor::counters::{DropReason, KernelCounters, RefusedFrames, Snapshot};
pub use monitor::event::Event;
pub use monitor::event_kind::{EventKind, Severity};
pub use monitor::event_text::EventRecord;
pub use monitor::watermark::{Occupancy, WatermarkReset};
pub use settings::{PortSettings, SwitchSettings};
pub use time::{Instant, Nanos};
