//! A testbed for Sluice on one machine: namespaces, veth pairs, hosts and daemons under test.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! let bed = testbed::Testbed::new()?;
//! let switch = bed.switch("sw")?;
//! let sender = bed.sluice_host(&switch, "sender")?;
//! let receiver = bed.sluice_host(&switch, "receiver")?;
//! let daemon = bed.daemon(&switch, "[port.sender]\ninterface = \"sender\"\n …")?;
//! # Ok(()) }
//! ```
//!
//! Everything has a unique name (`sl<pid>-<n>-…`) and is removed with the [`Testbed`], also when a
//! test panics. If the whole process is killed, the kernel ends its children (they run under
//! `setpriv --pdeathsig`), and the next [`Testbed`], or `cargo xtask`, removes the namespaces of
//! the dead process ([`sweep`]).
//!
//! The kernel sends that signal when the *thread* that started a child ends, so start children from
//! a thread that lives at least as long.

mod cpu_load;
mod daemon;
mod endpoint;
mod host;
mod invariants;
mod netns;
mod preemption;
mod process;
pub mod scenario;
mod signals;
mod spread;
mod testbed;
mod wait;

pub use control::v1::Snapshot;
pub use cpu_load::CpuLoad;
pub use daemon::{Daemon, binary};
pub use endpoint::Endpoint;
pub use host::Host;
pub use invariants::{
    ANNOUNCEMENT_QUEUE, Port, conservation, conservation_beside_announcements, drops, idle, line_bytes,
    lost_by_kernels, pauses_sent, port,
};
pub use netns::{Namespace, require_root, sweep, veth};
pub use preemption::{PeriodicStops, loop_thread, stop_thread, thread_named};
pub use process::Process;
pub use signals::watch_signals;
pub use spread::Spread;
pub use testbed::Testbed;
pub use wait::{PATIENCE, eventually};
