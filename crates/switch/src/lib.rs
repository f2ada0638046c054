//! A lossless Ethernet switch as pure state: frames and time come in, decisions come out. No clock, socket, thread or
//! `unsafe`; the daemon and the simulator run this same code.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod admission;
pub mod alarm;
mod apply;
pub mod arrival;
pub mod bridge;
pub mod cells;
pub mod classify;
pub mod counters;
mod drops;
mod due;
pub mod edit;
pub mod egress;
pub mod event;
pub mod fifo;
mod flood;
pub mod flood_limit;
pub mod frame;
pub mod group;
pub mod headroom;
pub mod ingress;
pub mod kernel_lost;
pub mod limits;
mod link;
pub mod link_pause;
mod losses;
pub mod memory;
pub mod pfc_rates;
pub mod pfc_received;
pub mod pfc_sent;
mod places;
pub mod pool;
pub mod queue;
pub mod rewrite;
pub mod rx_rings;
pub mod schedule;
pub mod settings;
pub mod shaper;
mod sparse;
mod status;
mod stop;
pub mod store;
pub mod storm;
pub mod switch;
mod threshold;
pub mod time;
pub mod usage;
pub mod vlan;
pub mod watchdog;
pub mod watermark;
pub mod wred;
mod xoff;

pub use self::switch::Switch;
pub use arrival::{Arrival, Looker};
pub use counters::{DropReason, KernelCounters, Snapshot};
pub use edit::{Edit, TagChange};
pub use event::{Description, Event, Severity};
pub use frame::{FrameId, Outgoing, Received};
pub use memory::{
    FrameRoom, HeapMemory, LONGEST_BYTES, LONGEST_RECEIVED_BYTES, Memory, chunks_of, frames_needed,
};
pub use settings::{PortSettings, SwitchSettings};
pub use time::{Instant, Nanos};
pub use watermark::{Level, Mark};
