//! The server of the control API. It never touches the switch: it hands each wish for a snapshot to whoever owns the
//! way to the poll loop, and waits for the answer on the client's behalf.
//!
//! Rule: whatever clients do, memory stays bounded (design §7.7). So many connections, so many streams on each, so
//! many watchers and so many bytes in a request; past that a client is told to come back. A watcher gets its next
//! snapshot only when it has taken the last.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::UCred;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status};

use crate::v1;
use crate::v1::control_server::{Control, ControlServer};

/// Clients connected at once.
pub const MAX_CLIENTS: usize = 32;
/// Calls at once on one connection.
pub const MAX_STREAMS: u32 = 8;
/// `Watch` streams at once, over all connections.
pub const MAX_WATCHERS: usize = 32;
/// Wishes for a snapshot on their way to the owner of the loop.
pub const MAX_WISHES: usize = 64;
/// Bytes of a request; none has more than one number in it.
const MAX_REQUEST_BYTES: usize = 1024;
/// Bytes of a request's headers.
const MAX_HEADER_BYTES: u32 = 8 * 1024;
/// Shortest interval of `Watch`.
pub const MIN_INTERVAL: Duration = Duration::from_millis(50);
/// How long the loop may take for a snapshot; it takes a turn.
const PATIENCE: Duration = Duration::from_secs(2);

/// Somebody wants a snapshot, taken after this moment.
pub type Wish = oneshot::Sender<v1::Snapshot>;

/// What the daemon says of itself.
#[derive(Debug, Clone)]
pub struct About {
    /// Name of the switch.
    pub name: String,
    /// Version of the daemon.
    pub version: String,
    /// The configuration file.
    pub config: PathBuf,
    /// When the daemon started.
    pub started: Instant,
}

/// Answers clients on `listener` until `stop` is done; then waits for the calls under way. `Watch` streams end when
/// the receiver of `wishes` is dropped.
pub async fn serve(
    listener: UnixListener,
    about: About,
    wishes: mpsc::Sender<Wish>,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let api = Api { about, wishes: Wishes(wishes), watchers: Arc::new(Semaphore::new(MAX_WATCHERS)) };
    let service = ControlServer::new(api).max_decoding_message_size(MAX_REQUEST_BYTES);
    tonic::transport::Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        // A client that no longer answers gives its place back.
        .http2_keepalive_interval(Some(Duration::from_secs(30)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .add_service(service)
        .serve_with_incoming_shutdown(clients(listener), stop)
        .await
}

/// Connections as they come; those over the limit are closed at once.
fn clients(listener: UnixListener) -> impl Stream<Item = io::Result<Connection>> {
    let places = Arc::new(Semaphore::new(MAX_CLIENTS));
    futures::stream::unfold((listener, places), |(listener, places)| async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    if let Ok(place) = places.clone().try_acquire_owned() {
                        return Some((Ok(Connection { stream, _place: place }), (listener, places)));
                    }
                }
                // Out of descriptors, or a client gone before it was served: neither ends the API, nor may it spin.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    })
}

/// A client's connection and its place among [`MAX_CLIENTS`].
struct Connection {
    stream: UnixStream,
    _place: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = Option<UCred>;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.peer_cred().ok()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
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

/// The way to the owner of the loop.
#[derive(Clone)]
struct Wishes(mpsc::Sender<Wish>);

impl Wishes {
    async fn snapshot(&self) -> Result<v1::Snapshot, Status> {
        let stopping = || Status::unavailable("the switch is stopping");
        let (wish, granted) = oneshot::channel();
        let ask = async {
            self.0.send(wish).await.map_err(|_| stopping())?;
            granted.await.map_err(|_| stopping())
        };
        tokio::time::timeout(PATIENCE, ask)
            .await
            .unwrap_or_else(|_| Err(Status::deadline_exceeded("the poll loop gave no snapshot within 2 s")))
    }
}

struct Api {
    about: About,
    wishes: Wishes,
    watchers: Arc<Semaphore>,
}

#[tonic::async_trait]
impl Control for Api {
    async fn get_info(&self, _: Request<v1::GetInfoRequest>) -> Result<Response<v1::Info>, Status> {
        Ok(Response::new(v1::Info {
            name: self.about.name.clone(),
            version: self.about.version.clone(),
            pid: std::process::id(),
            uptime_ns: u64::try_from(self.about.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            config: self.about.config.display().to_string(),
        }))
    }

    async fn get_snapshot(
        &self,
        _: Request<v1::GetSnapshotRequest>,
    ) -> Result<Response<v1::Snapshot>, Status> {
        self.wishes.snapshot().await.map(Response::new)
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::Snapshot, Status>> + Send>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let place = self.watchers.clone().try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!("{MAX_WATCHERS} clients are watching already"))
        })?;
        let interval = Duration::from_millis(request.into_inner().interval_ms.into()).max(MIN_INTERVAL);
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let watcher = Some((ticks, self.wishes.clone(), place));
        // The stream is asked for its next item when the client has room for it; after an error it is over.
        let stream = futures::stream::unfold(watcher, |watcher| async {
            let (mut ticks, wishes, place) = watcher?;
            ticks.tick().await;
            let snapshot = wishes.snapshot().await;
            let next = snapshot.is_ok().then_some((ticks, wishes, place));
            Some((snapshot, next))
        });
        Ok(Response::new(Box::pin(stream)))
    }
}
