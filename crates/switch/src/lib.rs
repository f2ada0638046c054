//! A lossless Ethernet switch as pure state: frames and time go in, decisions come out. It has no
//! clock, socket, thread or `unsafe`, so the daemon and the simulator run the same code.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
// Input never ends the loop: what cannot happen is an exception with its reason.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::todo, clippy::unimplemented)]
#![deny(clippy::indexing_slicing)]

#[expect(clippy::indexing_slicing, reason = "by pool, of which a port names one that exists")]
pub mod buffer;
#[expect(clippy::indexing_slicing, reason = "by port, as every table of ports")]
mod cow_table;
#[expect(clippy::indexing_slicing, reason = "by port, priority and queue, which the switch numbers")]
pub mod egress;
mod fifo_set;
pub mod forwarding;
pub mod frame;
#[expect(clippy::indexing_slicing, reason = "by port, priority and queue, which the switch numbers")]
mod ingress;
#[expect(clippy::indexing_slicing, reason = "by kind, an enumeration, or by priority, 0 to 7")]
pub mod monitor;
#[expect(clippy::indexing_slicing, reason = "by priority, 0 to 7, or by port, which the switch numbers")]
pub mod pfc;
#[expect(clippy::indexing_slicing, reason = "by port, priority and queue, which the switch numbers")]
mod pipeline;
#[expect(clippy::indexing_slicing, reason = "by port, priority and queue, which the switch numbers")]
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
