//! Shared parts of the end-to-end tests: configurations, the run of a few hosts through a switch,
//! and its results.
//!
//! Each test makes its own [`Testbed`]; a testbed waits until no other is in use, so the tests run
//! one after the other however they are started. Programs under test are found by
//! [`testbed::binary`].

mod capture;
mod checksums;
mod configurations;
mod datagrams;
mod frame_catalog;
mod incast;
mod programs;
mod system_calls;
mod tcp_fetch;
mod traffic_run;

pub use capture::{Capture, tshark};
pub use checksums::Checksums;
pub use configurations::{
    AMPLE_HEADROOM_CELLS, FRAME_BYTES, QUEUE_OF_PRIORITY, flow, group_config, mbps, port_config,
    slow_port_config, switch_config,
};
pub use control::frames;
pub use datagrams::datagrams;
pub use frame_catalog::{Sample, catalog, lengths};
pub use incast::{Incast, UNTIL_STOPPED};
pub use programs::{Bpf, bpf_object, events, sluice, sluice_on_terminal};
pub use system_calls::{CallCounts, SystemCalls};
pub use tcp_fetch::fetch;
pub use testbed::{CpuLoad, PeriodicStops, loop_thread, stop_thread, thread_named};
pub use traffic_run::{Total, TrafficRun, dropped, pause, run, stop_hosts, undisturbed};
