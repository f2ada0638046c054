//! A TCP connection to a collector, from the daemon's network namespace or from another.
//!
//! A thread enters a network namespace permanently, and name resolution blocks. So each attempt has
//! a separate thread, which ends with it. A socket stays in the namespace in which it was created.

use std::fs::File;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use tokio::sync::oneshot;

/// Maximum number of addresses of a name that are tried.
const MOST_ADDRESSES: usize = 4;
/// Time limit for each address.
const PATIENCE: Duration = Duration::from_secs(5);

/// Directory of the names of `ip netns`.
const NAMESPACES: &str = "/run/netns";

/// A network namespace.
pub type Namespace = Arc<File>;

/// Opens the network namespace that `ip netns` knows by this name.
///
/// # Errors
/// There is no such namespace, with its remedy.
pub fn namespace(name: &str) -> Result<Namespace, String> {
    File::open(Path::new(NAMESPACES).join(name)).map(Arc::new).map_err(|cause| {
        format!(
            "vpn_instance: there is no network namespace `{name}` ({NAMESPACES}/{name}: {cause}); make it with `ip netns add \
             {name}`, or leave the setting out"
        )
    })
}

/// Connects to a collector.
///
/// # Errors
/// The system's error for the last address that was tried.
pub async fn connect(
    host: String,
    port: u16,
    namespace: Option<Namespace>,
) -> io::Result<tokio::net::TcpStream> {
    let (answer, answered) = oneshot::channel();
    std::thread::Builder::new().name("telemetry-dial".to_owned()).spawn(move || {
        let _ = answer.send(dial(&host, port, namespace)); // the receiver may have given up
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
