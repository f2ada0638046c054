//! One collector: its backlog, and the task that delivers it.
//!
//! Rule: a stream carries messages for a second, or 256 of them, and is then ended; the collector's
//! reply to its end confirms them, since gRPC has no other confirmation. Without that reply they
//! are sent again. Whatever a collector does (refuse, hang, be slow, send invalid replies) costs at
//! most its own backlog, and affects no other collector. Source: docs/monitoring/telemetry.md,
//! "Delivery".

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::{printable, v1};
use hyper_util::rt::TokioIo;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tonic::Status;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::dial_out::backlog::{Backlog, Dropped, Next};
use crate::dial_out::backoff;
use crate::dial_out::connect;
use crate::dial_out::message::{Device, Payload, SequenceLabel, member, unix_ms};
use crate::dial_out::tls;
use crate::dialout::{DialoutMsg, DialoutResponse};

/// The path of the report of dropped messages.
pub const DROPPED_PATH: &str = "sluice/dropped";
/// Maximum number of messages of a stream.
const STREAM_MESSAGES: usize = 256;
/// Maximum number of messages queued for the transport.
const TRANSPORT_QUEUE: usize = 4;
/// Maximum bytes of a reply, which is not used.
const MOST_ANSWER_BYTES: usize = 64 << 10;
/// Most characters of a reason that is shown.
const MOST_ERROR: usize = 1000;
/// Maximum bytes of the headers of a reply.
const MOST_HEADER_BYTES: u32 = 16 << 10;

/// Time limits of the delivery.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Duration of a stream before it is ended and confirmed.
    pub stream: Duration,
    /// How long a collector may take nothing, or not reply.
    pub patience: Duration,
    /// Wait after the first failure.
    pub first_wait: Duration,
    /// Longest wait after a failure.
    pub longest_wait: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            stream: Duration::from_secs(1),
            patience: Duration::from_secs(30),
            first_wait: Duration::from_millis(200),
            longest_wait: Duration::from_secs(10),
        }
    }
}

/// State of a collector's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Connecting,
    Sending,
    Waiting,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Connecting => "connecting",
            State::Sending => "sending",
            State::Waiting => "waiting",
        }
    }
}

/// A collector and its backlog.
#[derive(Debug)]
pub struct Destination {
    settings: config::Destination,
    session: String,
    /// Folder of the files of `tls`.
    folder: PathBuf,
    inner: Mutex<Inner>,
    more: Notify,
}

#[derive(Debug)]
struct Inner {
    backlog: Backlog,
    state: State,
    connections: u64,
    failures: u64,
    last_error: Option<(String, u64)>,
}

impl Destination {
    /// Returns a destination with an empty backlog, whose messages are numbered in this session.
    pub fn new(settings: config::Destination, session: String, folder: PathBuf) -> Self {
        let backlog = Backlog::new(settings.backlog_messages, settings.backlog_bytes);
        let inner = Inner { backlog, state: State::Idle, connections: 0, failures: 0, last_error: None };
        Self { settings, session, folder, inner: Mutex::new(inner), more: Notify::new() }
    }

    /// True if these are its settings.
    pub fn is(&self, settings: &config::Destination, folder: &Path) -> bool {
        self.settings == *settings && self.folder == folder
    }

    /// Adds a message to the backlog; never waits.
    pub fn push(&self, payload: Payload) {
        self.inner().backlog.push(payload);
        self.more.notify_one();
    }

    /// Counts `events` that were lost before they could be added.
    pub fn miss_events(&self, events: u64) {
        self.inner().backlog.miss_events(events);
        self.more.notify_one();
    }

    /// Returns the status for the control API.
    pub fn status(&self) -> v1::TelemetryDestination {
        let Inner { backlog, state, connections, failures, last_error } = &*self.inner();
        let (last_error, last_error_unix_ms) = last_error.clone().unzip();
        v1::TelemetryDestination {
            group: self.settings.group.clone(),
            address: self.settings.address(),
            vpn_instance: self.settings.vpn_instance.clone(),
            state: state.name().to_owned(),
            sent: backlog.sent(),
            dropped: backlog.dropped(),
            backlog: backlog.len() as u64,
            backlog_bytes: backlog.bytes() as u64,
            tls: self.settings.tls.is_some(),
            most_backlog: self.settings.backlog_messages as u64,
            connections: *connections,
            failures: *failures,
            last_error,
            last_error_unix_ms,
        }
    }

    /// Delivers messages until `stop` is signaled, and then the rest, if the collector takes it at
    /// once.
    pub async fn deliver(self: Arc<Self>, device: Device, timing: Timing, mut stop: watch::Receiver<bool>) {
        let mut channel = None;
        let mut failures = 0;
        loop {
            while !self.inner().backlog.has_next() {
                tokio::select! {
                    () = self.more.notified() => {}
                    _ = stop.wait_for(|&stop| stop) => return,
                }
            }
            let done = self.attempt(&mut channel, &device, timing, &mut stop).await;
            let Err(why) = done else {
                self.inner().backlog.confirm();
                self.set(State::Idle);
                failures = 0;
                continue;
            };
            channel = None;
            failures += 1;
            self.fail(why);
            let wait = backoff::delay(failures, fastrand::f64(), timing.first_wait, timing.longest_wait);
            tokio::select! {
                () = sleep(wait) => {}
                _ = stop.wait_for(|&stop| stop) => return,
            }
        }
    }

    /// Runs one stream, on the present connection or on a new one.
    async fn attempt(
        &self,
        channel: &mut Option<Channel>,
        device: &Device,
        timing: Timing,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), String> {
        let is_new = channel.is_none();
        let connected = match channel.take() {
            Some(channel) => channel,
            None => {
                self.set(State::Connecting);
                let connect = timeout(timing.patience, self.connect(timing));
                let connected = connect.await.map_err(|_| timeout_error("connect", timing))??;
                self.inner().connections += 1;
                connected
            }
        };
        self.set(State::Sending);
        let done = self.stream(connected.clone(), device, timing, stop).await;
        done.map_err(|why| if is_new && self.settings.tls.is_some() { after_handshake(why) } else { why })?;
        *channel = Some(connected);
        Ok(())
    }

    async fn connect(&self, timing: Timing) -> Result<Channel, String> {
        let config::Destination { host, port, vpn_instance, .. } = &self.settings;
        // It may have been made, or made again, since the last attempt.
        let namespace = vpn_instance.as_deref().map(connect::namespace).transpose()?;
        let (host, port) = (host.clone(), *port);
        let connector = tower::service_fn(move |_| {
            let connection = connect::connect(host.clone(), port, namespace.clone());
            async move { connection.await.map(TokioIo::new) }
        });
        let scheme = if self.settings.tls.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{}", self.settings.address()))
            .map_err(|error| root(&error))?
            .http2_keep_alive_interval(timing.patience)
            .keep_alive_timeout(timing.patience)
            .http2_max_header_list_size(MOST_HEADER_BYTES);
        if let Some(tls) = &self.settings.tls {
            let tls = tls::client(tls, &self.settings.host, &self.folder)
                .map_err(|(setting, error)| format!("tls.{setting}: {error}"))?;
            endpoint = endpoint.tls_config(tls.timeout(timing.patience)).map_err(|error| root(&error))?;
        }
        endpoint.connect_with_connector(connector).await.map_err(|error| root(&error))
    }

    /// Runs a stream from its beginning to the collector's reply to its end.
    async fn stream(
        &self,
        channel: Channel,
        device: &Device,
        timing: Timing,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), String> {
        let path =
            PathAndQuery::try_from(self.settings.service.as_str()).map_err(|error| error.to_string())?;
        let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(MOST_ANSWER_BYTES);
        let ready = timeout(timing.patience, grpc.ready())
            .await
            .map_err(|_| timeout_error("take a stream", timing))?;
        ready.map_err(|error| root(&error))?;
        let (sender, receiver) = mpsc::channel::<DialoutMsg>(TRANSPORT_QUEUE);
        let messages = futures::stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|message| (message, receiver))
        });
        let codec = ProstCodec::<DialoutMsg, DialoutResponse>::default();
        let mut call = pin!(grpc.client_streaming(tonic::Request::new(messages), path, codec));
        let answer = tokio::select! {
            answer = &mut call => return Err(early(answer)),
            fed = self.feed(sender, device, timing, stop) => {
                fed?;
                timeout(timing.patience, call).await
            }
        };
        match answer {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(status)) => Err(refusal(&status)),
            Err(_) => Err(timeout_error("answer", timing)),
        }
    }

    /// Passes on messages until the stream reaches its duration or its number of messages, or the
    /// receiver is dropped.
    async fn feed(
        &self,
        sender: mpsc::Sender<DialoutMsg>,
        device: &Device,
        timing: Timing,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), String> {
        let mut end = pin!(sleep(timing.stream));
        let mut has_ended = false;
        let mut in_hand = VecDeque::new();
        let mut taken = 0;
        let mut moved = Instant::now();
        loop {
            if in_hand.is_empty() && !has_ended && taken < STREAM_MESSAGES {
                let next = self.inner().backlog.take();
                in_hand.extend(next.map(|next| self.messages(next, device)).into_iter().flatten());
                taken += usize::from(!in_hand.is_empty());
            }
            if in_hand.is_empty() && (has_ended || taken == STREAM_MESSAGES || *stop.borrow()) {
                return Ok(());
            }
            let waits = in_hand.is_empty();
            tokio::select! {
                permit = sender.reserve(), if !waits => {
                    let permit = permit.map_err(|_| "the collector ended the stream early".to_owned())?;
                    if let Some(message) = in_hand.pop_front() {
                        permit.send(message);
                    }
                    moved = Instant::now();
                }
                () = &mut end, if !has_ended => has_ended = true,
                () = self.more.notified(), if waits => {}
                _ = stop.changed(), if waits => {}
                () = sleep_until(moved + timing.patience), if !waits => {
                    return Err(timeout_error("take a message", timing));
                }
            }
        }
    }

    /// Encodes the next item as messages.
    fn messages(&self, next: Next, device: &Device) -> Vec<DialoutMsg> {
        let (number, payload) = match next {
            Next::Message(number, payload) => (Some(number), payload),
            Next::Dropped(dropped) => (None, report(dropped)),
        };
        let label = SequenceLabel { session: &self.session, number };
        payload.messages(device, label, self.settings.message_bytes)
    }

    fn set(&self, state: State) {
        self.inner().state = state;
    }

    fn fail(&self, why: String) {
        let mut inner = self.inner();
        inner.backlog.retry();
        inner.state = State::Waiting;
        inner.failures += 1;
        inner.last_error = Some((printable(&why, MOST_ERROR), unix_ms())); // some of it is from the wire
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the report of dropped messages. It is about numbers, so it has none itself.
fn report(dropped: Dropped) -> Payload {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Row {
        messages: u64,
        events: u64,
        first_number: u64,
        last_number: u64,
    }
    let Dropped { messages, events, first, last } = dropped;
    let row = Row { messages, events, first_number: first, last_number: last };
    Payload {
        path: DROPPED_PATH,
        unix_ms: unix_ms(),
        member: member("Sluice", "Dropped", "Drop", &[row]),
        is_event: true,
    }
}

fn early(answer: Result<tonic::Response<DialoutResponse>, Status>) -> String {
    match answer {
        Ok(_) => "the collector ended the stream early".to_owned(),
        Err(status) => refusal(&status),
    }
}

/// Returns the text of a refusal; the system's own error is a source of a transport error.
fn refusal(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => root(source),
        None => format!("the collector answered: {} ({:?})", status.message(), status.code()),
    }
}

/// Explains an error after a handshake. With TLS 1.3 a handshake has ended before the collector has
/// checked our certificate: it rejects it by an alert, which is lost if the connection breaks
/// first.
fn after_handshake(why: String) -> String {
    if why.starts_with("the collector") {
        return why; // the alert is already in the text
    }
    format!(
        "the collector ended the connection after the handshake ({why}): it may want to see a certificate (tls.certificate and \
         tls.key), or not take the one that it saw"
    )
}

fn timeout_error(what: &str, timing: Timing) -> String {
    format!("the collector did not {what} within {} s", timing.patience.as_secs_f64())
}

/// Returns the root cause of an error; TLS errors are explained in words.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(words) = tls::explain(error) {
        return words;
    }
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
