//! A TCP connection to a collector, from the daemon's network namespace or from another.
//!
//! A thread enters a network namespace for good, and names are looked up by a call that blocks:
//! each attempt has a thread of its own, which ends with it. A socket stays in the namespace in
//! which it was made.

use std::fs::File;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use tokio::sync::oneshot;

/// Addresses of a name that are tried.
const MOST_ADDRESSES: usize = 4;
/// How long each may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where `ip netns` keeps its namespaces.
const NAMESPACES: &str = "/run/netns";

/// A network namespace.
pub type Namespace = Arc<File>;

/// The network namespace that `ip netns` knows by this name.
///
/// # Errors
/// There is none.
pub fn namespace(name: &str) -> io::Result<Namespace> {
    File::open(Path::new(NAMESPACES).join(name)).map(Arc::new)
}

/// Connects.
///
/// # Errors
/// What the system says of the last address that was tried.
pub async fn connect(
    host: String,
    port: u16,
    namespace: Option<Namespace>,
) -> io::Result<tokio::net::TcpStream> {
    let (answer, answered) = oneshot::channel();
    std::thread::Builder::new().name("telemetry-dial".to_owned()).spawn(move || {
        let _ = answer.send(dial(&host, port, namespace)); // whoever asked may have given up
    })?;
    let stream = answered.await.map_err(|_| io::Error::other("the thread that connects ended"))??;
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    tokio::net::TcpStream::from_std(stream)
}

fn dial(host: &str, port: u16, namespace: Option<Namespace>) -> io::Result<TcpStream> {
    if let Some(namespace) = namespace {
        setns(namespace, CloneFlags::CLONE_NEWNET)?;
    }
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()?.take(MOST_ADDRESSES) {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
