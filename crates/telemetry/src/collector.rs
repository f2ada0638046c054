//! The reference collector: receives reports of switches, reassembles chunks, and passes the
//! messages on.
//!
//! Rule: it serves both spellings of the service. It replies to the end of a stream as the example
//! in the vendor specifications does, once all its messages have been taken. Whatever clients send,
//! memory stays bounded: a client waits while its message is taken. Source: docs/telemetry.md.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::Stream;
use tokio::net::TcpListener;
pub use tonic::Status;
pub use tonic::transport::ServerTlsConfig;
use tonic::{Request, Response, Streaming};

use crate::dialout::g_rpc_dialout_server::{GRpcDialout, GRpcDialoutServer};
use crate::dialout::grpc_dialout_server::{GrpcDialout, GrpcDialoutServer};
use crate::dialout::{DeviceInfo, DialoutMsg, DialoutResponse};

/// Maximum number of concurrent streams on one connection.
const MAX_STREAMS: u32 = 16;
/// Maximum bytes of a reassembled message.
const MOST_BYTES: usize = 64 << 20;
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
    let service = Service(Arc::new(take));
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
struct Service(Arc<dyn Fn(Received) -> Result<(), Status> + Send + Sync>);

impl Service {
    async fn take(
        &self,
        request: Request<Streaming<DialoutMsg>>,
    ) -> Result<Response<DialoutResponse>, Status> {
        let peer = request.remote_addr();
        let mut stream = request.into_inner();
        let mut parts = String::new();
        while let Some(message) = stream.message().await? {
            let Some((device, path, json)) = whole(message, &mut parts)? else { continue };
            (self.0)(Received { peer, device, path, json })?;
        }
        Ok(Response::new(DialoutResponse { response: ANSWER.to_owned() }))
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

/// Returns device, path and JSON of a message once all its chunks have arrived; `parts` holds the
/// earlier chunks.
fn whole(message: DialoutMsg, parts: &mut String) -> Result<Option<(DeviceInfo, String, String)>, Status> {
    let DialoutMsg { device_msg, sensor_path, json_data, chunk_msg } = message;
    let Some(chunk) = chunk_msg else { return Ok(Some((device_msg, sensor_path, json_data))) };
    if chunk.node_id == 0 {
        parts.clear();
    }
    if parts.len() + json_data.len() > MOST_BYTES {
        return Err(Status::resource_exhausted("a message of more than 64 MiB"));
    }
    parts.push_str(&json_data);
    if chunk.node_id + 1 < chunk.total_fragments {
        return Ok(None);
    }
    if i64::try_from(parts.len()) != Ok(chunk.total_size) {
        return Err(Status::data_loss("the chunks of a message are not all here"));
    }
    Ok(Some((device_msg, sensor_path, std::mem::take(parts))))
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
        let key = (device.to_owned(), session.to_owned());
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
        let mut parts = String::from("left over");
        assert_eq!(whole(chunk("a", 0, 3), &mut parts).unwrap(), None);
        assert_eq!(whole(chunk("b", 1, 3), &mut parts).unwrap(), None);
        let (_, path, json) = whole(chunk("c", 2, 3), &mut parts).unwrap().unwrap();
        assert_eq!((path.as_str(), json.as_str(), parts.as_str()), ("p", "abc", ""));
        assert!(whole(chunk("c", 2, 3), &mut parts).is_err());
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
