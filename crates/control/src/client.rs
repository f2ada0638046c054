//! The client of the control API, on the daemon's Unix socket. Used by `sluice`, the tests and the
//! demo.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use crate::access::{API_VERSION, VERSION_KEY};
use crate::command::{Command, ErrorKind};
use crate::v1;
use crate::v1::control_client::ControlClient;

/// How long a daemon may take to reply; this includes connecting again.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a daemon with a full backlog may take to have room for a client. It is less than
/// [`PATIENCE`], so that a call that connects again fails with the cause.
const ROOM_PATIENCE: Duration = Duration::from_secs(4);
/// Interval at which a client asks again for room among those that wait.
const PACE: Duration = Duration::from_millis(20);

/// Why a call to the daemon failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The socket does not exist.
    #[error(
        "no daemon listens on {}: the socket does not exist; start one with `sluiced --config FILE` (control.socket in \
         FILE is where it listens)", .0.display()
    )]
    NoSocket(PathBuf),
    /// The socket is left over from an earlier daemon.
    #[error(
        "no daemon listens on {}: the socket is left over from one that was killed; start it again with `sluiced \
         --config FILE`", .0.display()
    )]
    Stale(PathBuf),
    /// No access to the socket; its mode is 0660, for the owner and the group.
    #[error("no permission for {}: be root, or in the group of the socket", .0.display())]
    Permission(PathBuf),
    /// The backlog of the socket was full for [`ROOM_PATIENCE`].
    #[error(
        "the daemon on {} has not accepted this client within {} s: its backlog is full. Is it stopped (`systemctl status \
         sluiced`)? Otherwise end other clients", .0.display(), ROOM_PATIENCE.as_secs()
    )]
    Busy(PathBuf),
    /// Any other failure to connect.
    #[error("cannot talk to the daemon on {}: {cause}", socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// The error of the system or the transport.
        cause: String,
    },
    /// The daemon refused the command; the message has the reason and the cure.
    #[error("{0}")]
    Declined(String),
    /// The daemon returned an error, or the connection broke.
    #[error("the daemon on {} answered: {} ({:?})", socket.display(), status.message(), status.code())]
    Refused {
        /// The socket.
        socket: PathBuf,
        /// The status of its reply.
        status: Box<Status>,
    },
    /// The daemon does not know the call.
    #[error(
        "the daemon on {} is of another version and cannot do that: restart it with the sluiced that came with this sluice \
         (`sluice show version`)", .0.display()
    )]
    OtherVersion(PathBuf),
    /// The daemon ended, or closed the connection, before it replied.
    #[error("the daemon on {} ended before it answered; `sluice show ports` shows whether one runs again", .0.display())]
    Ended(PathBuf),
    /// The daemon sent nothing for as long as the call may take plus [`PATIENCE`].
    #[error("the daemon on {} does not answer", .0.display())]
    Silent(PathBuf),
}

impl ClientError {
    /// True if no daemon listens on the socket.
    pub fn is_no_daemon(&self) -> bool {
        matches!(self, ClientError::NoSocket(_) | ClientError::Stale(_))
    }
}

/// Adds the version of the API to each call.
#[derive(Debug, Clone)]
struct Version;

impl Interceptor for Version {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        request.metadata_mut().insert(VERSION_KEY, API_VERSION.into());
        Ok(request)
    }
}

/// A connection to one daemon.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
    inner: ControlClient<InterceptedService<Channel, Version>>,
}

impl Client {
    /// Connects to the daemon that listens on `socket`.
    pub async fn connect(socket: &Path) -> Result<Self, ClientError> {
        Self::connect_within(socket, ROOM_PATIENCE).await
    }

    /// Connects, with this time limit where the backlog of the socket is full.
    async fn connect_within(socket: &Path, patience: Duration) -> Result<Self, ClientError> {
        let path = socket.to_path_buf();
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { connect_patiently(&path, patience).await.map(TokioIo::new) }
        });
        // The address is unused: the connector has the socket's path.
        let endpoint = Endpoint::from_static("http://sluiced");
        let channel = endpoint.connect_with_connector(connector).await.map_err(|e| refusal(socket, &e))?;
        Ok(Self { socket: socket.to_path_buf(), inner: ControlClient::with_interceptor(channel, Version) })
    }

    /// Returns the identity of the daemon.
    pub async fn info(&mut self) -> Result<v1::Info, ClientError> {
        let socket = self.socket.clone();
        answer(socket, self.inner.get_info(v1::GetInfoRequest {})).await
    }

    /// Returns a snapshot of the whole switch.
    pub async fn snapshot(&mut self) -> Result<v1::Snapshot, ClientError> {
        self.get_snapshot(false).await
    }

    /// Returns a snapshot, and restarts the watermarks since the last read.
    pub async fn read_watermarks(&mut self) -> Result<v1::Snapshot, ClientError> {
        self.get_snapshot(true).await
    }

    async fn get_snapshot(&mut self, read_watermarks: bool) -> Result<v1::Snapshot, ClientError> {
        let socket = self.socket.clone();
        answer(socket, self.inner.get_snapshot(v1::GetSnapshotRequest { read_watermarks })).await
    }

    /// Streams a snapshot every `interval` (50 ms at least), the first at once. With
    /// `read_watermarks`, each restarts the watermarks since the last read.
    pub async fn watch(
        &mut self,
        interval: Duration,
        read_watermarks: bool,
    ) -> Result<SnapshotStream, ClientError> {
        let interval_ms = u32::try_from(interval.as_millis()).unwrap_or(u32::MAX);
        let socket = self.socket.clone();
        let request = v1::WatchRequest { interval_ms, read_watermarks };
        let stream = answer(socket.clone(), self.inner.watch(request)).await?;
        Ok(SnapshotStream { socket, stream })
    }

    /// Records the loop for `duration`; with a zero duration, fetches the kept recording.
    pub async fn record(&mut self, duration: Duration) -> Result<RecordingStream, ClientError> {
        let socket = self.socket.clone();
        let duration_ms = u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
        let call = self.inner.record(v1::RecordRequest { duration_ms });
        let stream = answer_within(socket.clone(), call, duration + PATIENCE).await?;
        Ok(RecordingStream { socket, stream, number: None, further: 0 })
    }

    /// Captures frames until a bound is reached, or the stream is dropped.
    pub async fn capture(&mut self, wanted: v1::CaptureRequest) -> Result<CaptureBatches, ClientError> {
        let socket = self.socket.clone();
        let stream = answer(socket.clone(), self.inner.capture(wanted)).await?;
        Ok(CaptureBatches { socket, stream })
    }

    /// Has the daemon discard the kept recording of this number, which is stored elsewhere now.
    pub async fn acknowledge_recording(&mut self, recording: u64) -> Result<(), ClientError> {
        let socket = self.socket.clone();
        let request = v1::AcknowledgeRecordingRequest { recording };
        answer(socket, self.inner.acknowledge_recording(request)).await.map(|_| ())
    }

    /// Streams the events after number `since`; with `follow`, also the events that happen from
    /// then on.
    pub async fn events(&mut self, since: u64, follow: bool) -> Result<EventBatches, ClientError> {
        let socket = self.socket.clone();
        let stream = answer(socket.clone(), self.inner.events(v1::EventsRequest { since, follow })).await?;
        Ok(EventBatches { socket, stream })
    }

    /// Returns the sensor paths reported to collectors, and the state of their delivery.
    pub async fn telemetry(&mut self) -> Result<v1::Telemetry, ClientError> {
        let socket = self.socket.clone();
        answer(socket, self.inner.get_telemetry(v1::GetTelemetryRequest {})).await
    }

    /// Returns what the ports advertise by LLDP, and their neighbors.
    pub async fn lldp(&mut self) -> Result<v1::LldpPorts, ClientError> {
        let socket = self.socket.clone();
        answer(socket, self.inner.get_lldp(v1::GetLldpRequest {})).await
    }

    /// Returns the configuration that runs.
    pub async fn configuration(&mut self) -> Result<v1::Configuration, ClientError> {
        let socket = self.socket.clone();
        answer(socket, self.inner.get_configuration(v1::GetConfigurationRequest {})).await
    }

    /// Returns the addresses in the FDB: of a port, in a VLAN, or all.
    pub async fn fdb(
        &mut self,
        port: Option<&str>,
        vlan: Option<u16>,
    ) -> Result<Vec<v1::FdbEntry>, ClientError> {
        let socket = self.socket.clone();
        let request = v1::GetFdbRequest { port: port.map(str::to_owned), vlan: vlan.map(u32::from) };
        let mut stream = answer(socket.clone(), self.inner.get_fdb(request)).await?;
        let mut entries = Vec::new();
        while let Some(batch) = stream.message().await.map_err(|status| no(socket.clone(), status))? {
            entries.extend(batch.entries);
        }
        Ok(entries)
    }

    /// Sends a command; returns the changes that are worth a line.
    pub async fn execute(&mut self, order: Command) -> Result<Vec<String>, ClientError> {
        let socket = self.socket.clone();
        let inner = &mut self.inner;
        match order {
            Command::ClearWatermarks => {
                answer(socket, inner.clear_watermarks(v1::ClearWatermarksRequest {})).await?;
            }
            Command::HoldPort { port, held } => {
                answer(socket, inner.hold_port(v1::HoldPortRequest { port, held })).await?;
            }
            Command::SetPortAdmin { port, up } => {
                let patience = Command::SetPortAdmin { port: String::new(), up }.patience() + PATIENCE;
                let call = inner.set_port_admin(v1::SetPortAdminRequest { port, up });
                answer_within(socket, call, patience).await?;
            }
            Command::SetPfc { enabled } => {
                answer(socket, inner.set_pfc(v1::SetPfcRequest { enabled })).await?;
            }
            Command::RecoverStorms { port } => {
                answer(socket, inner.recover_storms(v1::RecoverStormsRequest { port })).await?;
            }
            Command::LiftStormLimit { port, priority } => {
                let priority = priority.map(u32::from);
                answer(socket, inner.lift_storm_limit(v1::LiftStormLimitRequest { port, priority })).await?;
            }
            Command::FlushFdb { port, vlan } => {
                let vlan = vlan.map(u32::from);
                answer(socket, inner.flush_fdb(v1::FlushFdbRequest { port, vlan })).await?;
            }
            Command::Reload => {
                let call = inner.reload(v1::ReloadRequest {});
                let reload = answer_within(socket, call, Command::Reload.patience() + PATIENCE).await?;
                return Ok(reload.changes);
            }
        }
        Ok(Vec::new())
    }
}

/// A recording, received in pieces.
#[derive(Debug)]
pub struct RecordingStream {
    socket: PathBuf,
    stream: Streaming<v1::RecordingPiece>,
    number: Option<u64>,
    further: u64,
}

impl RecordingStream {
    /// Returns the next piece; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        let piece = self.stream.message().await.map_err(|status| no(self.socket.clone(), status))?;
        Ok(piece.map(|v1::RecordingPiece { bytes, recording, further_recordings }| {
            self.number = self.number.or(recording);
            self.further = self.further.max(further_recordings);
            bytes
        }))
    }

    /// Returns the number of a recording that the daemon keeps until it is acknowledged; valid
    /// after the first piece.
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    /// Returns how many further recordings the daemon keeps; valid after the first piece.
    pub fn further(&self) -> u64 {
        self.further
    }
}

/// A stream of captured frames.
#[derive(Debug)]
pub struct CaptureBatches {
    socket: PathBuf,
    stream: Streaming<v1::CaptureBatch>,
}

impl CaptureBatches {
    /// Returns the next frames; `None` when the capture has ended.
    pub async fn next(&mut self) -> Result<Option<v1::CaptureBatch>, ClientError> {
        self.stream.message().await.map_err(|status| no(self.socket.clone(), status))
    }
}

/// A stream of events.
#[derive(Debug)]
pub struct EventBatches {
    socket: PathBuf,
    stream: Streaming<v1::EventBatch>,
}

impl EventBatches {
    /// Returns the next events; `None` at the end, or when the daemon has stopped.
    pub async fn next(&mut self) -> Result<Option<v1::EventBatch>, ClientError> {
        self.stream.message().await.map_err(|status| no(self.socket.clone(), status))
    }
}

/// The snapshots that the daemon sends at an interval.
#[derive(Debug)]
pub struct SnapshotStream {
    socket: PathBuf,
    stream: Streaming<v1::Snapshot>,
}

impl SnapshotStream {
    /// Returns the next snapshot; `None` when the daemon has ended the stream.
    pub async fn next(&mut self) -> Result<Option<v1::Snapshot>, ClientError> {
        self.stream.message().await.map_err(|status| no(self.socket.clone(), status))
    }
}

/// A blocking client for code that is not asynchronous: tests and the demo.
#[derive(Debug)]
pub struct BlockingClient {
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl BlockingClient {
    /// Connects to the daemon that listens on `socket`.
    pub fn connect(socket: &Path) -> Result<Self, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| ClientError::Connect { socket: socket.to_path_buf(), cause: e.to_string() })?;
        let client = runtime.block_on(Client::connect(socket))?;
        Ok(Self { client, runtime })
    }

    /// Returns the identity of the daemon.
    pub fn info(&mut self) -> Result<v1::Info, ClientError> {
        self.runtime.block_on(self.client.info())
    }

    /// Returns a snapshot of the whole switch.
    pub fn snapshot(&mut self) -> Result<v1::Snapshot, ClientError> {
        self.runtime.block_on(self.client.snapshot())
    }

    /// Returns a snapshot, and restarts the watermarks since the last read.
    pub fn read_watermarks(&mut self) -> Result<v1::Snapshot, ClientError> {
        self.runtime.block_on(self.client.read_watermarks())
    }

    /// Returns the kept events after number `since`.
    pub fn events(&mut self, since: u64) -> Result<Vec<v1::Event>, ClientError> {
        self.runtime.block_on(async {
            let mut batches = self.client.events(since, false).await?;
            let mut events = Vec::new();
            while let Some(batch) = batches.next().await? {
                events.extend(batch.events);
            }
            Ok(events)
        })
    }

    /// Records the loop for `duration`; with a zero duration, fetches the kept recording. Returns
    /// the whole recording.
    pub fn record(&mut self, duration: Duration) -> Result<Vec<u8>, ClientError> {
        self.runtime.block_on(async {
            let mut pieces = self.client.record(duration).await?;
            let mut recording = Vec::new();
            while let Some(piece) = pieces.next().await? {
                recording.extend(piece);
            }
            Ok(recording)
        })
    }

    /// Returns the sensor paths reported to collectors, and the state of their delivery.
    pub fn telemetry(&mut self) -> Result<v1::Telemetry, ClientError> {
        self.runtime.block_on(self.client.telemetry())
    }

    /// Returns what the ports advertise by LLDP, and their neighbors.
    pub fn lldp(&mut self) -> Result<v1::LldpPorts, ClientError> {
        self.runtime.block_on(self.client.lldp())
    }

    /// Sends a command; returns the changes that are worth a line.
    pub fn execute(&mut self, order: Command) -> Result<Vec<String>, ClientError> {
        self.runtime.block_on(self.client.execute(order))
    }
}

/// Connects; where the backlog of the socket is full, waits for room as a blocking connect(2) does.
async fn connect_patiently(socket: &Path, patience: Duration) -> io::Result<UnixStream> {
    let deadline = Instant::now() + patience;
    loop {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                tokio::time::sleep(PACE).await;
            }
            connected => return connected,
        }
    }
}

/// Waits for a reply with a time limit.
async fn answer<T>(
    socket: PathBuf,
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, ClientError> {
    answer_within(socket, call, PATIENCE).await
}

async fn answer_within<T>(
    socket: PathBuf,
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    patience: Duration,
) -> Result<T, ClientError> {
    match tokio::time::timeout(patience, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(no(socket, status)),
        Err(_) => Err(ClientError::Silent(socket)),
    }
}

fn no(socket: PathBuf, status: Status) -> ClientError {
    if ErrorKind::is_user_message(status.code()) {
        ClientError::Declined(status.message().to_owned())
    } else if status.code() == tonic::Code::Unimplemented {
        ClientError::OtherVersion(socket)
    } else if let Some(cause) = status.source().filter(|cause| cause.is::<tonic::transport::Error>()) {
        // The client connected again, or could not.
        match system_error(cause) {
            Some(error) if error.kind() == io::ErrorKind::WouldBlock => ClientError::Busy(socket),
            _ => ClientError::Ended(socket),
        }
    } else {
        ClientError::Refused { socket, status: Box::new(status) }
    }
}

/// Translates a failed connection.
fn refusal(socket: &Path, error: &tonic::transport::Error) -> ClientError {
    let socket = socket.to_path_buf();
    match system_error(error).map(io::Error::kind) {
        Some(io::ErrorKind::NotFound) => ClientError::NoSocket(socket),
        Some(io::ErrorKind::ConnectionRefused) => ClientError::Stale(socket),
        Some(io::ErrorKind::PermissionDenied) => ClientError::Permission(socket),
        Some(io::ErrorKind::WouldBlock) => ClientError::Busy(socket),
        _ => {
            let last = causes(error).last().map_or_else(String::new, ToString::to_string);
            ClientError::Connect { socket, cause: last }
        }
    }
}

/// Returns the system's own error, which is a source of the transport's.
fn system_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e io::Error> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// Returns an error and its sources, the last one the root.
fn causes<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{UnixListener, UnixSocket};

    /// Returns a listener on `socket` and clients that fill its backlog.
    async fn full_backlog(socket: &Path) -> (UnixListener, Vec<UnixStream>) {
        let unheard = UnixSocket::new_stream().unwrap();
        unheard.bind(socket).unwrap();
        let listener = unheard.listen(1).unwrap();
        let mut clients = Vec::new();
        loop {
            match UnixStream::connect(socket).await {
                Ok(client) => clients.push(client),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    return (listener, clients);
                }
            }
        }
    }

    /// The daemon takes a client of its backlog after the new one was turned away once.
    #[tokio::test]
    async fn a_client_waits_for_room_in_a_full_backlog() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("full.sock");
        let (listener, _clients) = full_backlog(&socket).await;
        let (connected, _accepted) =
            tokio::join!(connect_patiently(&socket, ROOM_PATIENCE), listener.accept());
        connected.unwrap();
    }

    #[tokio::test]
    async fn finding_no_room_in_time_is_an_error_of_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("full.sock");
        let (_listener, _clients) = full_backlog(&socket).await;
        let error = Client::connect_within(&socket, PACE).await.unwrap_err();
        assert!(matches!(error, ClientError::Busy(_)) && !error.is_no_daemon(), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("full.sock has not accepted this client") && !text.contains('\n'), "{text}");
    }

    /// The daemon was started again, and is stopped before it accepts anyone. The wait for room
    /// ends before the call's own.
    #[tokio::test]
    async fn a_call_that_connects_again_finds_the_backlog_full() {
        assert!(ROOM_PATIENCE + PACE < PATIENCE);
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("full.sock");
        let earlier = UnixListener::bind(&socket).unwrap();
        let (client, accepted) = tokio::join!(Client::connect_within(&socket, PACE), earlier.accept());
        drop((accepted, earlier));
        std::fs::remove_file(&socket).unwrap();
        let (_listener, _clients) = full_backlog(&socket).await;
        let mut client = client.unwrap();
        loop {
            match client.info().await.unwrap_err() {
                ClientError::Ended(_) => tokio::task::yield_now().await, // of the first connection
                error => return assert!(matches!(error, ClientError::Busy(_)), "{error:?}"),
            }
        }
    }
}
