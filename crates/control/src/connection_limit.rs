//! Limit on the connections to the control API, so that no client occupies a slot indefinitely at
//! the expense of others.
//!
//! Rule: the number of slots is fixed. A client that connects when all slots are taken evicts the
//! client that was silent for too long: for [`IDLE_TIMEOUT`], in which it has not even replied to
//! the server's pings, as every live client does by itself, or for [`FIRST_REQUEST_TIMEOUT`] since
//! it connected without sending anything. If there is no such client, the new one waits for
//! [`PATIENCE`] and is then turned away. So clients that connect and send nothing, or take nothing,
//! or stall, lock nobody out. Source: docs/behavior.md, "Invariants", 7.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream as Socket;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::transport::server::Connected;

use crate::access::Peer;

/// A client that was silent for this long may be evicted.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(3);
/// A client that has never sent anything may be evicted after this time.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a client waits for a slot; less than the client's own time limit.
const PATIENCE: Duration = Duration::from_secs(4);
/// Interval at which a free slot is looked for.
const PACE: Duration = Duration::from_millis(50);

/// The slots and their clients.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    free: Arc<Semaphore>,
    clients: Vec<Weak<ClientConn>>,
}

/// A client's connection as the limiter accesses it.
#[derive(Debug)]
struct ClientConn {
    /// Another handle of its socket, to close the connection.
    socket: Socket,
    connected_at: Instant,
    /// When it last sent something, in nanoseconds since it connected; 0 if never.
    last_request_ns: AtomicU64,
}

impl ClientConn {
    fn touch(&self) {
        self.last_request_ns.store(self.connected_at.elapsed().as_nanos() as u64, Relaxed);
    }

    /// Returns by how much the client exceeded its allowed silence, if it did.
    fn excess(&self) -> Option<Duration> {
        let last_request_ns = self.last_request_ns.load(Relaxed);
        let silence = self.connected_at.elapsed().saturating_sub(Duration::from_nanos(last_request_ns));
        silence.checked_sub(if last_request_ns == 0 { FIRST_REQUEST_TIMEOUT } else { IDLE_TIMEOUT })
    }
}

impl ConnectionLimiter {
    /// Returns a limiter with `slots` slots, all free.
    pub(crate) fn new(slots: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(slots)), clients: Vec::new() }
    }

    /// Finds a slot for a new client; `None` if there is none.
    pub(crate) async fn admit(&mut self, stream: UnixStream) -> Option<Connection> {
        let slot = self.slot().await?;
        // Without file descriptors for it the client is turned away.
        let stream = stream.into_std().ok()?;
        let socket = stream.try_clone().ok()?;
        let stream = UnixStream::from_std(stream).ok()?;
        let client =
            Arc::new(ClientConn { socket, connected_at: Instant::now(), last_request_ns: AtomicU64::new(0) });
        self.clients.retain(|client| client.strong_count() > 0);
        self.clients.push(Arc::downgrade(&client));
        Some(Connection { stream, client, _permit: slot })
    }

    async fn slot(&mut self) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = self.free.clone().try_acquire_owned() {
            return Some(slot);
        }
        let patience = Instant::now() + PATIENCE;
        let mut has_hung_up = false;
        while Instant::now() < patience {
            has_hung_up = has_hung_up || self.evict_idlest();
            if let Ok(slot) = tokio::time::timeout(PACE, self.free.clone().acquire_owned()).await {
                return slot.ok();
            }
        }
        None
    }

    /// Closes the connection of the client that exceeded its allowed silence the most. Returns true
    /// if there was one.
    fn evict_idlest(&mut self) -> bool {
        let clients = self.clients.iter().filter_map(Weak::upgrade);
        let silent = clients.filter_map(|client| Some((client.excess()?, client)));
        let Some((_, client)) = silent.max_by_key(|(excess, _)| *excess) else { return false };
        let _ = client.socket.shutdown(Shutdown::Both); // an error: it is gone already
        self.clients.retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(&client)));
        true
    }
}

/// A client's connection and its slot.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    client: Arc<ClientConn>,
    _permit: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Self::ConnectInfo {
        Peer::of_stream(&self.stream)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.client.touch();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
