//! The server of the control API. It never accesses the switch: it passes each request for a
//! snapshot and each command to the owner of the poll loop, and waits for the reply on the client's
//! behalf.
//!
//! Rule: whatever clients do, memory stays bounded (docs/behavior.md, "Invariants", 7).
//! Connections, streams per connection, watchers and the bytes of a request are limited; beyond a
//! limit a client receives an error and may retry. A watcher gets its next snapshot only when it
//! has taken the last. Silent clients do not exclude others ([`crate::connection_limit`]).

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::Stream;
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use tonic::service::InterceptorLayer;
use tonic::{Response, Status};

use crate::access::{API_VERSION, Access, Peer, check_version, clean};
use crate::command::{Command, CommandError, CommandResult};
use crate::connection_limit::{Connection, ConnectionLimiter};
use crate::journal::Journal;
use crate::v1;
use crate::v1::control_server::{Control, ControlServer};

/// Maximum number of connected clients.
pub const MAX_CLIENTS: usize = 32;
/// Maximum number of concurrent calls on one connection.
pub const MAX_STREAMS: u32 = 8;
/// Maximum number of concurrent `SnapshotStream` streams, over all connections.
pub const MAX_WATCHERS: usize = 32;
/// Maximum number of concurrent readers of events, over all connections.
pub const MAX_EVENT_READERS: usize = 32;
/// Maximum number of requests queued for the owner of the loop.
pub const MAX_REQUESTS: usize = 64;
/// Maximum bytes of a request. The longest is that for a capture, with the names of 64 ports.
const MAX_REQUEST_BYTES: usize = 8 * 1024;
/// Maximum bytes of a request's headers.
const MAX_HEADER_BYTES: u32 = 8 * 1024;
/// Shortest interval of `SnapshotStream`.
pub const MIN_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of the keepalive pings to a silent client; well below
/// [`crate::connection_limit::SILENCE`].
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// How long a client may take to reply to a ping if no other client needs its slot.
const PING_PATIENCE: Duration = Duration::from_secs(30);
/// How long the owner of the loop may take; the loop itself takes one iteration.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest recording.
pub const MAX_RECORDING: Duration = Duration::from_secs(3600);
/// Bytes of a recording per message.
const PIECE_BYTES: usize = 1 << 20;

/// Addresses of the FDB per message.
const FDB_BATCH: usize = 4096;

/// A reader of watermarks. Each reader gets the peaks since its own last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatermarkReader {
    /// All clients of the API together.
    Api,
    /// A sensor group of a subscription, by its index.
    Sensor(usize),
    /// All readers of the metrics together.
    Metrics,
}

/// A client's request to the owner of the loop, with the channel for the reply.
#[derive(Debug)]
pub enum Request {
    /// Take a snapshot after this moment.
    Snapshot {
        /// The reader whose watermarks "since the last read" are in the snapshot.
        reader: WatermarkReader,
        /// True if these watermarks restart right after it.
        read_watermarks: bool,
        /// Channel for the snapshot.
        answer: oneshot::Sender<v1::Snapshot>,
    },
    /// Describe LLDP of the ports.
    Lldp {
        /// Channel for the description.
        answer: oneshot::Sender<v1::LldpPorts>,
    },
    /// Describe the configuration that runs.
    Configuration {
        /// Channel for the description.
        answer: oneshot::Sender<v1::Configuration>,
    },
    /// List the addresses in the FDB.
    Fdb {
        /// Limits the list to this port.
        port: Option<String>,
        /// Limits the list to this VLAN.
        vlan: Option<u16>,
        /// Channel for the list.
        answer: oneshot::Sender<Result<Vec<v1::FdbEntry>, CommandError>>,
    },
    /// Report the most bytes of a recording.
    RecordingBound {
        /// Channel for the number.
        answer: oneshot::Sender<u64>,
    },
    /// Make a recording.
    Recording {
        /// Length of the recording from now on; zero for the kept recording.
        duration: Duration,
        /// The client that sends it.
        by: Peer,
        /// Channel for the finished recording.
        answer: oneshot::Sender<Result<Recorded, CommandError>>,
    },
    /// Capture frames.
    Capture {
        /// Which frames.
        wanted: v1::CaptureRequest,
        /// The client that sends it.
        by: Peer,
        /// Channel for the frames; it ends with the capture.
        answer: oneshot::Sender<Result<mpsc::Receiver<v1::CaptureBatch>, CommandError>>,
    },
    /// Discard a kept recording, which a client has stored.
    Acknowledge {
        /// Number of the recording.
        recording: u64,
        /// The client that sends it.
        by: Peer,
        /// Channel for the result.
        answer: oneshot::Sender<CommandResult>,
    },
    /// Execute a command; the reply is sent when it is done.
    Order {
        /// The command.
        order: Command,
        /// The client that sends it.
        by: Peer,
        /// Channel for the result.
        answer: oneshot::Sender<CommandResult>,
    },
}

/// A recording for a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The recording, in pieces.
    pub pieces: Vec<Bytes>,
    /// The number of the recording if it is kept until the client acknowledges it.
    pub number: Option<u64>,
    /// How many further recordings are kept.
    pub further: u64,
}

/// Identity of the daemon.
#[derive(Debug, Clone)]
pub struct DaemonInfo {
    /// Name of the switch.
    pub name: String,
    /// Version of the daemon.
    pub version: String,
    /// The configuration file.
    pub config: PathBuf,
    /// When the daemon started.
    pub started: Instant,
    /// Users who may change the switch, besides root.
    pub admins: Vec<u32>,
}

/// Serves clients on `listener` until `stop` completes, then waits for the pending calls.
/// `telemetry` returns the state of the telemetry. Streams of snapshots end when the receiver of
/// `requests` is dropped.
pub async fn serve(
    listener: UnixListener,
    about: DaemonInfo,
    requests: mpsc::Sender<Request>,
    journal: Journal,
    telemetry: impl Fn() -> v1::Telemetry + Send + Sync + 'static,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let service = service(about, requests, journal, telemetry);
    tonic::transport::Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        // A live client replies to the pings; one that no longer replies gives its slot back.
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_PATIENCE))
        .layer(InterceptorLayer::new(check_version))
        .add_service(service)
        .serve_with_incoming_shutdown(clients(listener), stop)
        .await
}

/// Makes the service behind [`serve`], without a connection: as [`serve`], clients of a call are
/// those that its [`Peer`] extension names.
pub fn service(
    about: DaemonInfo,
    requests: mpsc::Sender<Request>,
    journal: Journal,
    telemetry: impl Fn() -> v1::Telemetry + Send + Sync + 'static,
) -> ControlServer<impl Control> {
    let api = Api {
        access: Access::new(&about.admins),
        info: about,
        owner: LoopOwner(requests),
        watchers: Arc::new(Semaphore::new(MAX_WATCHERS)),
        journal,
        event_readers: Arc::new(Semaphore::new(MAX_EVENT_READERS)),
        telemetry: Box::new(telemetry),
    };
    ControlServer::new(api).max_decoding_message_size(MAX_REQUEST_BYTES)
}

/// Accepts connections; those without a free slot are closed.
fn clients(listener: UnixListener) -> impl Stream<Item = io::Result<Connection>> {
    futures::stream::unfold(
        (listener, ConnectionLimiter::new(MAX_CLIENTS)),
        |(listener, mut slots)| async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        if let Some(connection) = slots.admit(stream).await {
                            return Some((Ok(connection), (listener, slots)));
                        }
                    }
                    // Out of descriptors, or the client closed before it was served: neither may
                    // end the API, and neither may make it spin.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        },
    )
}

/// The channel to the owner of the loop.
#[derive(Clone)]
struct LoopOwner(mpsc::Sender<Request>);

impl LoopOwner {
    async fn snapshot(&self, read_watermarks: bool) -> Result<v1::Snapshot, Status> {
        self.request(|answer| Request::Snapshot { reader: WatermarkReader::Api, read_watermarks, answer })
            .await
    }

    async fn carry_out(&self, order: Command, by: Peer) -> Result<Vec<String>, Status> {
        let patience = order.patience();
        self.request_from(|answer| Request::Order { order, by, answer }, patience)
            .await?
            .map_err(Status::from)
    }

    async fn record(&self, duration: Duration, by: Peer) -> Result<Recorded, Status> {
        let request = |answer| Request::Recording { duration, by, answer };
        self.request_from(request, duration + PATIENCE).await?.map_err(Status::from)
    }

    async fn request<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, Status> {
        self.request_from(request, PATIENCE).await
    }

    async fn request_from<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
        patience: Duration,
    ) -> Result<T, Status> {
        let stopping = || Status::unavailable("the switch is stopping");
        let (answer, answered) = oneshot::channel();
        let request = async {
            self.0.send(request(answer)).await.map_err(|_| stopping())?;
            answered.await.map_err(|_| stopping())
        };
        tokio::time::timeout(patience, request).await.unwrap_or_else(|_| {
            let seconds = patience.as_secs();
            Err(Status::deadline_exceeded(format!(
                "the switch did not answer within {seconds} s; a command may still take effect (`sluice show events`)"
            )))
        })
    }
}

/// Returns the VLAN of a request.
fn vlan_of(vlan: Option<u32>) -> Result<Option<u16>, Status> {
    match vlan {
        Some(vlan) if vlan > 4094 => Err(Status::invalid_argument("VLANs are 1 to 4094, and 0 is none")),
        vlan => Ok(vlan.map(|vlan| vlan as u16)),
    }
}

struct Api {
    access: Access,
    info: DaemonInfo,
    owner: LoopOwner,
    watchers: Arc<Semaphore>,
    journal: Journal,
    event_readers: Arc<Semaphore>,
    telemetry: Box<dyn Fn() -> v1::Telemetry + Send + Sync>,
}

#[tonic::async_trait]
impl Control for Api {
    async fn get_info(
        &self,
        request: tonic::Request<v1::GetInfoRequest>,
    ) -> Result<Response<v1::Info>, Status> {
        let recording_most_bytes = self.owner.request(|answer| Request::RecordingBound { answer }).await?;
        Ok(Response::new(v1::Info {
            name: self.info.name.clone(),
            version: self.info.version.clone(),
            pid: std::process::id(),
            uptime_ns: u64::try_from(self.info.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            config: self.info.config.display().to_string(),
            recording_most_bytes,
            api_version: API_VERSION,
            role: self.access.role(&Peer::of(&request)).name().to_owned(),
        }))
    }

    async fn get_snapshot(
        &self,
        request: tonic::Request<v1::GetSnapshotRequest>,
    ) -> Result<Response<v1::Snapshot>, Status> {
        self.may_read_watermarks(&request, request.get_ref().read_watermarks)?;
        self.owner.snapshot(request.into_inner().read_watermarks).await.map(Response::new)
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::Snapshot, Status>> + Send>>;

    async fn watch(
        &self,
        request: tonic::Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.may_read_watermarks(&request, request.get_ref().read_watermarks)?;
        let slot = self.watchers.clone().try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!("{MAX_WATCHERS} clients are watching already"))
        })?;
        let v1::WatchRequest { interval_ms, read_watermarks } = request.into_inner();
        let mut ticks = tokio::time::interval(Duration::from_millis(interval_ms.into()).max(MIN_INTERVAL));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let watcher = Some((ticks, self.owner.clone(), slot));
        // The stream is polled for its next item when the client has room for it; an error ends it.
        let stream = futures::stream::unfold(watcher, move |watcher| async move {
            let (mut ticks, owner, slot) = watcher?;
            ticks.tick().await;
            let snapshot = owner.snapshot(read_watermarks).await;
            let next = snapshot.is_ok().then_some((ticks, owner, slot));
            Some((snapshot, next))
        });
        Ok(Response::new(Box::pin(stream)))
    }

    async fn clear_watermarks(
        &self,
        request: tonic::Request<v1::ClearWatermarksRequest>,
    ) -> Result<Response<v1::Done>, Status> {
        self.done(&request, Command::ClearWatermarks).await
    }

    async fn hold_port(
        &self,
        request: tonic::Request<v1::HoldPortRequest>,
    ) -> Result<Response<v1::Done>, Status> {
        let v1::HoldPortRequest { port, held } = request.get_ref();
        self.done(&request, Command::HoldPort { port: clean(port), held: *held }).await
    }

    async fn set_port_admin(
        &self,
        request: tonic::Request<v1::SetPortAdminRequest>,
    ) -> Result<Response<v1::Done>, Status> {
        let v1::SetPortAdminRequest { port, up } = request.get_ref();
        self.done(&request, Command::SetPortAdmin { port: clean(port), up: *up }).await
    }

    async fn recover_storms(
        &self,
        request: tonic::Request<v1::RecoverStormsRequest>,
    ) -> Result<Response<v1::Done>, Status> {
        let port = clean(&request.get_ref().port);
        self.done(&request, Command::RecoverStorms { port }).await
    }

    async fn lift_storm_limit(
        &self,
        request: tonic::Request<v1::LiftStormLimitRequest>,
    ) -> Result<Response<v1::Done>, Status> {
        let v1::LiftStormLimitRequest { port, priority } = request.get_ref();
        let priority = match priority {
            Some(priority) if *priority > 7 => return Err(Status::invalid_argument("priorities are 0 to 7")),
            priority => priority.map(|priority| priority as u8),
        };
        self.done(&request, Command::LiftStormLimit { port: clean(port), priority }).await
    }

    async fn set_pfc(
        &self,
        request: tonic::Request<v1::SetPfcRequest>,
    ) -> Result<Response<v1::Done>, Status> {
        let enabled = request.get_ref().enabled;
        self.done(&request, Command::SetPfc { enabled }).await
    }

    async fn get_configuration(
        &self,
        _: tonic::Request<v1::GetConfigurationRequest>,
    ) -> Result<Response<v1::Configuration>, Status> {
        self.owner.request(|answer| Request::Configuration { answer }).await.map(Response::new)
    }

    type GetFdbStream = Pin<Box<dyn Stream<Item = Result<v1::FdbBatch, Status>> + Send>>;

    async fn get_fdb(
        &self,
        request: tonic::Request<v1::GetFdbRequest>,
    ) -> Result<Response<Self::GetFdbStream>, Status> {
        let v1::GetFdbRequest { port, vlan } = request.into_inner();
        let (port, vlan) = (port.as_deref().map(clean), vlan_of(vlan)?);
        let entries = self.owner.request(|answer| Request::Fdb { port, vlan, answer }).await??;
        let batch = |entries: &[v1::FdbEntry]| Ok(v1::FdbBatch { entries: entries.to_vec() });
        let batches: Vec<_> = entries.chunks(FDB_BATCH).map(batch).collect();
        Ok(Response::new(Box::pin(futures::stream::iter(batches))))
    }

    async fn flush_fdb(
        &self,
        request: tonic::Request<v1::FlushFdbRequest>,
    ) -> Result<Response<v1::Done>, Status> {
        let v1::FlushFdbRequest { port, vlan } = request.get_ref();
        let (port, vlan) = (port.as_deref().map(clean), vlan_of(*vlan)?);
        self.done(&request, Command::FlushFdb { port, vlan }).await
    }

    type RecordStream = Pin<Box<dyn Stream<Item = Result<v1::RecordingPiece, Status>> + Send>>;

    async fn record(
        &self,
        request: tonic::Request<v1::RecordRequest>,
    ) -> Result<Response<Self::RecordStream>, Status> {
        let duration = Duration::from_millis(request.get_ref().duration_ms.into()).min(MAX_RECORDING);
        let by = match duration.is_zero() {
            true => Peer::of(&request),
            false => self.access.must_be_admin(&request, "record")?,
        };
        let Recorded { pieces, number, further } = self.owner.record(duration, by).await?;
        let first = v1::RecordingPiece { bytes: Vec::new(), recording: number, further_recordings: further };
        let pieces = pieces.into_iter().flat_map(|piece| {
            let message = |bytes: &[u8]| v1::RecordingPiece { bytes: bytes.to_vec(), ..Default::default() };
            piece.chunks(PIECE_BYTES).map(message).collect::<Vec<_>>()
        });
        Ok(Response::new(Box::pin(futures::stream::iter(std::iter::once(first).chain(pieces).map(Ok)))))
    }

    async fn acknowledge_recording(
        &self,
        request: tonic::Request<v1::AcknowledgeRecordingRequest>,
    ) -> Result<Response<v1::Done>, Status> {
        let by = self.access.must_be_admin(&request, "discard a recording")?;
        let recording = request.into_inner().recording;
        let outcome = self.owner.request(|answer| Request::Acknowledge { recording, by, answer }).await?;
        outcome.map(|_| Response::new(v1::Done {})).map_err(Status::from)
    }

    type CaptureStream = Pin<Box<dyn Stream<Item = Result<v1::CaptureBatch, Status>> + Send>>;

    async fn capture(
        &self,
        request: tonic::Request<v1::CaptureRequest>,
    ) -> Result<Response<Self::CaptureStream>, Status> {
        let by = self.access.must_be_admin(&request, "capture frames")?;
        let mut wanted = request.into_inner();
        wanted.ports.iter_mut().for_each(|port| *port = clean(port));
        let batches = self.owner.request(|answer| Request::Capture { wanted, by, answer }).await??;
        let stream = futures::stream::unfold(batches, |mut batches| async move {
            let batch = batches.recv().await?;
            Some((Ok(batch), batches))
        });
        Ok(Response::new(Box::pin(stream)))
    }

    type EventsStream = Pin<Box<dyn Stream<Item = Result<v1::EventBatch, Status>> + Send>>;

    async fn events(
        &self,
        request: tonic::Request<v1::EventsRequest>,
    ) -> Result<Response<Self::EventsStream>, Status> {
        let slot = self.event_readers.clone().try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!("{MAX_EVENT_READERS} clients are reading events already"))
        })?;
        let v1::EventsRequest { since, follow } = request.into_inner();
        let last = self.journal.last();
        if since > last {
            return Err(Status::invalid_argument(format!(
                "the last event is number {last}, not yet {since}: numbers begin at 1 when the daemon starts; leave `since` out"
            )));
        }
        let reader = (self.journal.clone(), self.owner.clone(), since, slot);
        // A slow reader is sent no more than it takes; the stream reports how many events it
        // missed.
        let stream = futures::stream::unfold(reader, move |(journal, owner, since, slot)| async move {
            if follow {
                tokio::select! {
                    () = journal.later_than(since) => {}
                    () = owner.0.closed() => {} // the switch is stopping: what is left, and the end
                }
            }
            let batch = journal.read(since);
            let last = batch.events.last()?.number;
            Some((Ok(batch), (journal, owner, last, slot)))
        });
        Ok(Response::new(Box::pin(stream)))
    }

    async fn get_lldp(
        &self,
        _: tonic::Request<v1::GetLldpRequest>,
    ) -> Result<Response<v1::LldpPorts>, Status> {
        self.owner.request(|answer| Request::Lldp { answer }).await.map(Response::new)
    }

    async fn get_telemetry(
        &self,
        _: tonic::Request<v1::GetTelemetryRequest>,
    ) -> Result<Response<v1::Telemetry>, Status> {
        Ok(Response::new((self.telemetry)()))
    }

    async fn reload(
        &self,
        request: tonic::Request<v1::ReloadRequest>,
    ) -> Result<Response<v1::Reloaded>, Status> {
        let by = self.access.must_be_admin(&request, Command::Reload.what())?;
        let changes = self.owner.carry_out(Command::Reload, by).await?;
        Ok(Response::new(v1::Reloaded { changes }))
    }
}

impl Api {
    /// Executes a command that returns no text, of a client that may change the switch.
    async fn done<T>(
        &self,
        request: &tonic::Request<T>,
        order: Command,
    ) -> Result<Response<v1::Done>, Status> {
        let by = self.access.must_be_admin(request, order.what())?;
        self.owner.carry_out(order, by).await.map(|_| Response::new(v1::Done {}))
    }

    /// Refuses to restart the watermarks of all clients for one that may only read.
    fn may_read_watermarks<T>(&self, request: &tonic::Request<T>, restarts: bool) -> Result<(), Status> {
        if restarts {
            self.access.must_be_admin(request, "restart the watermarks since the last read")?;
        }
        Ok(())
    }
}
