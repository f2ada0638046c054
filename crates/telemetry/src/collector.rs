//! The reference collector: receives reports of switches, reassembles chunks, and passes the
//! messages on.
//!
//! Rule: it serves both spellings of the service. It replies to the end of a stream as the example
//! in the vendor specifications does, once all its messages have been taken. Whatever clients send,
//! over any number of connections, memory stays bounded: a client waits while its message is taken,
//! and the streams and the incomplete messages of all clients have a limit together. Source:
//! docs/monitoring/telemetry.md, "The reference collector".

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use control::{MOST_NAME, printable};
use futures::Stream;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
pub use tonic::Status;
pub use tonic::transport::ServerTlsConfig;
use tonic::{Request, Response, Streaming};

use crate::dialout::g_rpc_dialout_server::{GRpcDialout, GRpcDialoutServer};
use crate::dialout::grpc_dialout_server::{GrpcDialout, GrpcDialoutServer};
use crate::dialout::{DeviceInfo, DialoutMsg, DialoutResponse};

/// Maximum number of concurrent streams on one connection.
const MAX_STREAMS: u32 = 16;
/// Maximum number of concurrent streams of all connections.
const MAX_ALL_STREAMS: usize = 64;
/// Maximum bytes of a reassembled message.
const MOST_BYTES: usize = 64 << 20;
/// Maximum bytes of all messages that are not complete yet.
const MOST_BYTES_OF_ALL: usize = 256 << 20;
/// The reply of the collector in the vendor specifications.
const ANSWER: &str = "test";

/// A reassembled message.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// Address of the sender.
    pub peer: Option<SocketAddr>,
    /// Identity of the sender.
    pub device: DeviceInfo,
    /// The sensor path.
    pub path: String,
    /// The JSON as received.
    pub json: String,
}

/// Passes each message that arrives at `listener`, encrypted if `tls` is given, to `take` until
/// `stop` completes. A message that `take` refuses is not confirmed.
///
/// # Errors
/// Errors of the transport.
pub async fn serve(
    listener: TcpListener,
    tls: Option<ServerTlsConfig>,
    take: impl Fn(Received) -> Result<(), Status> + Send + Sync + 'static,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let service = Service {
        sink: Arc::new(take),
        streams: Arc::new(Semaphore::new(MAX_ALL_STREAMS)),
        bytes: Arc::default(),
    };
    let mut server = tonic::transport::Server::builder();
    if let Some(tls) = tls {
        server = server.tls_config(tls)?;
    }
    server
        .max_concurrent_streams(MAX_STREAMS)
        .add_service(GrpcDialoutServer::new(service.clone()))
        .add_service(GRpcDialoutServer::new(service))
        .serve_with_incoming_shutdown(connections(listener), stop)
        .await
}

/// Accepts connections; running out of descriptors does not end the server.
fn connections(listener: TcpListener) -> impl Stream<Item = std::io::Result<tokio::net::TcpStream>> {
    futures::stream::unfold(listener, |listener| async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return Some((Ok(stream), listener)),
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            }
        }
    })
}

#[derive(Clone)]
struct Service {
    sink: Arc<dyn Fn(Received) -> Result<(), Status> + Send + Sync>,
    /// The streams that all connections may still have.
    streams: Arc<Semaphore>,
    /// Bytes of the incomplete messages of all streams.
    bytes: Arc<AtomicUsize>,
}

impl Service {
    async fn take(
        &self,
        request: Request<Streaming<DialoutMsg>>,
    ) -> Result<Response<DialoutResponse>, Status> {
        let full = |_| Status::resource_exhausted("too many streams at once");
        let _stream = self.streams.try_acquire().map_err(full)?;
        let peer = request.remote_addr();
        let mut stream = request.into_inner();
        let mut assembler = ChunkAssembler::sharing(&self.bytes);
        while let Some(message) = stream.message().await? {
            let Some((device, path, json)) = assembler.add(message)? else { continue };
            (self.sink)(Received { peer, device, path, json })?;
        }
        Ok(Response::new(DialoutResponse { response: ANSWER.to_owned() }))
    }
}

/// Reassembles the messages of a stream from their chunks.
#[derive(Debug, Default)]
pub struct ChunkAssembler {
    text: String,
    /// Bytes of the incomplete messages of all streams.
    of_all: Arc<AtomicUsize>,
}

impl ChunkAssembler {
    /// Makes an assembler that shares the limit of incomplete messages with others.
    fn sharing(of_all: &Arc<AtomicUsize>) -> Self {
        Self { text: String::new(), of_all: Arc::clone(of_all) }
    }

    /// Returns the bytes of the incomplete messages of all assemblers that share the limit.
    pub fn bytes_of_all(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.of_all)
    }

    /// Takes the next message of the stream. Returns device, path and JSON of a message once all
    /// its chunks have arrived.
    ///
    /// # Errors
    /// The incomplete messages are too large, or chunks are missing.
    pub fn add(&mut self, message: DialoutMsg) -> Result<Option<(DeviceInfo, String, String)>, Status> {
        let DialoutMsg { device_msg, sensor_path, json_data, chunk_msg } = message;
        let Some(chunk) = chunk_msg else { return Ok(Some((device_msg, sensor_path, json_data))) };
        if chunk.node_id == 0 {
            self.take();
        }
        self.push(&json_data)?;
        if chunk.node_id.saturating_add(1) < chunk.total_fragments {
            return Ok(None);
        }
        if i64::try_from(self.text.len()) != Ok(chunk.total_size) {
            return Err(Status::data_loss("the chunks of a message are not all here"));
        }
        Ok(Some((device_msg, sensor_path, self.take())))
    }

    fn push(&mut self, chunk: &str) -> Result<(), Status> {
        if self.text.len() + chunk.len() > MOST_BYTES {
            return Err(Status::resource_exhausted("a message of more than 64 MiB"));
        }
        let before = self.of_all.fetch_add(chunk.len(), Relaxed);
        self.text.push_str(chunk);
        if before + chunk.len() > MOST_BYTES_OF_ALL {
            return Err(Status::resource_exhausted("too many messages in chunks at once"));
        }
        Ok(())
    }

    fn take(&mut self) -> String {
        self.of_all.fetch_sub(self.text.len(), Relaxed);
        std::mem::take(&mut self.text)
    }
}

impl Drop for ChunkAssembler {
    fn drop(&mut self) {
        self.take();
    }
}

#[tonic::async_trait]
impl GrpcDialout for Service {
    async fn dialout(
        &self,
        request: Request<Streaming<DialoutMsg>>,
    ) -> Result<Response<DialoutResponse>, Status> {
        self.take(request).await
    }
}

#[tonic::async_trait]
impl GRpcDialout for Service {
    async fn dialout(
        &self,
        request: Request<Streaming<DialoutMsg>>,
    ) -> Result<Response<DialoutResponse>, Status> {
        self.take(request).await
    }
}

/// The position of a message's number in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceCheck {
    /// The next number, or the first.
    Next,
    /// A number that was received before: it was not confirmed in time.
    Again,
    /// This many numbers before it were not received.
    After(u64),
}

/// The last number of each device in each of its sessions.
#[derive(Debug, Default)]
pub struct SequenceState(BTreeMap<(String, String), u64>);

/// Maximum number of sessions that are tracked.
const MOST_SESSIONS: usize = 1000;

impl SequenceState {
    /// Records number `number` of a session of `device`.
    pub fn note(&mut self, device: &str, session: &str, number: u64) -> SequenceCheck {
        let key = (printable(device, MOST_NAME), printable(session, MOST_NAME));
        let Some(last) = self.0.get_mut(&key) else {
            if self.0.len() >= MOST_SESSIONS {
                self.0.pop_first(); // the oldest of some device; whatever comes of it again is taken as new
            }
            self.0.insert(key, number);
            return SequenceCheck::Next;
        };
        if number <= *last {
            return SequenceCheck::Again;
        }
        let missing = number - *last - 1;
        *last = number;
        if missing == 0 { SequenceCheck::Next } else { SequenceCheck::After(missing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialout::ChunkInfo;

    #[test]
    fn chunks_are_put_together_and_what_is_incomplete_is_refused() {
        let chunk = |text: &str, node_id, total_size| DialoutMsg {
            device_msg: DeviceInfo::default(),
            sensor_path: "p".to_owned(),
            json_data: text.to_owned(),
            chunk_msg: Some(ChunkInfo { total_size, total_fragments: 3, node_id }),
        };
        let mut assembler = ChunkAssembler::default();
        assembler.push("left over").unwrap();
        assert_eq!(assembler.add(chunk("a", 0, 3)).unwrap(), None);
        assert_eq!(assembler.add(chunk("b", 1, 3)).unwrap(), None);
        let (_, path, json) = assembler.add(chunk("c", 2, 3)).unwrap().unwrap();
        assert_eq!((path.as_str(), json.as_str(), assembler.text.as_str()), ("p", "abc", ""));
        assert_eq!(assembler.of_all.load(Relaxed), 0);
        assert!(assembler.add(chunk("c", 2, 3)).is_err());
        assert!(assembler.add(chunk("d", u64::MAX, 3)).is_err(), "a number without a next one");
    }

    /// Five streams with chunks of 60 MiB each: the fifth is refused, and what a refused or a
    /// completed one held is free.
    #[test]
    fn incomplete_messages_of_all_streams_are_bounded_together() {
        let of_all = Arc::new(AtomicUsize::new(0));
        let chunk = "x".repeat(60 << 20);
        let mut streams: Vec<_> = (0..5).map(|_| ChunkAssembler::sharing(&of_all)).collect();
        let taken: Vec<bool> = streams.iter_mut().map(|stream| stream.push(&chunk).is_ok()).collect();
        assert_eq!(taken, [true, true, true, true, false]);
        assert!(streams[0].push(&chunk).is_err(), "one message has a limit of its own");
        streams.pop();
        streams[0].take();
        assert_eq!(of_all.load(Relaxed), 180 << 20);
        drop(streams);
        assert_eq!(of_all.load(Relaxed), 0);
    }

    #[test]
    fn numbers_are_followed_session_by_session() {
        let mut numbers = SequenceState::default();
        for (device, session, number, expected) in [
            ("a", "1.0", 5, SequenceCheck::Next), // the collector came later
            ("a", "1.0", 6, SequenceCheck::Next),
            ("b", "1.0", 1, SequenceCheck::Next),
            ("a", "1.0", 6, SequenceCheck::Again),
            ("a", "1.0", 9, SequenceCheck::After(2)),
            ("a", "1.0", 8, SequenceCheck::Again),
            ("b", "1.0", 2, SequenceCheck::Next),
            ("a", "2.0", 4, SequenceCheck::Next), // restarted
            ("a", "2.0", 5, SequenceCheck::Next),
        ] {
            assert_eq!(numbers.note(device, session, number), expected, "{device} {session} {number}");
        }
        (0..2000)
            .for_each(|session| assert_eq!(numbers.note("c", &session.to_string(), 1), SequenceCheck::Next));
        assert_eq!(numbers.0.len(), MOST_SESSIONS);
    }
}
