//! Work in another network namespace.
//!
//! Rule: a thread that has entered a namespace stays there. So the work runs on a thread of its
//! own, which ends with it; sockets that it opened stay in the namespace. Source: `setns(2)`,
//! `ip-netns(8)`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use nix::sched::{CloneFlags, setns, unshare};

/// The directory in which `ip netns` keeps the namespaces that have a name.
pub const NAMED_NAMESPACES: &str = "/run/netns";

/// The namespace of the thread that opens this file.
pub const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// Opens the namespace that `ip netns` knows by this name.
///
/// # Errors
/// There is no such namespace.
pub fn named_namespace(name: &str) -> io::Result<File> {
    File::open(std::path::Path::new(NAMED_NAMESPACES).join(name))
}

/// Runs `work` in a namespace.
///
/// # Errors
/// The system refuses to enter it.
pub fn in_namespace<T: Send>(namespace: impl AsFd + Send, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    after(move || setns(namespace, CloneFlags::CLONE_NEWNET), work)
}

/// Runs `work` in a new namespace, which is removed with its interfaces afterwards.
///
/// # Errors
/// The system refuses to make one.
pub fn in_new_namespace<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    after(|| unshare(CloneFlags::CLONE_NEWNET), work)
}

fn after<T: Send>(
    enter: impl FnOnce() -> nix::Result<()> + Send,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    let entered = || enter().map(|()| work()).map_err(io::Error::from);
    std::thread::scope(|scope| {
        scope.spawn(entered).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
