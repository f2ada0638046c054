//! The metrics over HTTP: `GET /metrics`; and the live page, if enabled: `GET /` and `GET /live`.
//!
//! Rule: clients that accept OpenMetrics 1.0 get it, all others Prometheus's text 0.0.4. One
//! response is generated at a time and serves all requests within 100 ms, so any number of readers
//! costs the poll loop ten snapshots a second at most, and ten more for the page. The number of
//! open connections and the duration of each (a minute) are limited, so memory stays bounded. A
//! further connection ends the one that has asked for nothing for longest, so clients that only
//! hold connections keep nobody out. The page is served only to requests for an address or for this
//! machine's name: a foreign name that was made to resolve here (DNS rebinding) reads nothing. An
//! address that cannot be listened on is tried again each second. Source:
//! docs/monitoring/metrics.md.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use control::server::{Request, WatermarkReader};
use control::v1;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::{MetricsSnapshot, prometheus_text};
use crate::dial_out::message::unix_ms;
use crate::settings::Sources;
use crate::web_page;

/// Maximum number of concurrent connections.
const MOST_CONNECTIONS: usize = 16;
/// Maximum duration of a connection, however busy.
const MAX_CONNECTION_TIME: Duration = Duration::from_secs(60);
/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of a head, and of the read buffer.
const MOST_HEAD_BYTES: usize = 16 << 10;
/// Maximum age of a response.
const CACHE_TIME: Duration = Duration::from_millis(100);
/// How long after a failure the address is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How long the switch may take to reply.
const PATIENCE: Duration = Duration::from_secs(2);

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The data sources of the responses.
pub struct Source {
    /// The switch.
    pub sources: Sources,
    /// Returns the state of the telemetry to collectors.
    pub telemetry: Box<dyn Fn() -> v1::Telemetry + Send + Sync>,
    /// True if the live page is served, too.
    pub has_page: bool,
}

struct Site {
    source: Source,
    /// The last response in the format of OpenMetrics, and when it was generated.
    last: Mutex<Option<(Instant, Arc<str>)>>,
    /// The last snapshot for the page, and when it was taken.
    live: Mutex<Option<(Instant, Arc<v1::Snapshot>)>>,
}

/// Where metrics are served, and whether they are.
#[derive(Debug)]
pub struct MetricsServer {
    /// Where they are served, and whether the live page is, too.
    pub settings: config::Metrics,
    state: std::sync::Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_listening: bool,
    /// The last error, and when it happened.
    last_error: Option<(String, u64)>,
}

impl MetricsServer {
    /// Creates a server that does not listen yet.
    pub fn new(settings: config::Metrics) -> Self {
        Self { settings, state: std::sync::Mutex::default() }
    }

    /// Returns the status for the control API.
    pub fn status(&self) -> v1::TelemetryMetrics {
        let State { is_listening, last_error } = &*self.state();
        let (last_error, last_error_unix_ms) = last_error.clone().unzip();
        let address = self.settings.listen.to_string();
        v1::TelemetryMetrics { address, listening: *is_listening, last_error, last_error_unix_ms }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves clients until the future is dropped. An address that cannot be listened on is tried
/// again.
pub async fn run(server: Arc<MetricsServer>, source: Source) {
    let listener = loop {
        match TcpListener::bind(server.settings.listen).await {
            Ok(listener) => break listener,
            Err(cause) => {
                let why = format!("cannot listen on {}: {cause}", server.settings.listen);
                server.state().last_error = Some((why, unix_ms()));
                sleep(RETRY).await;
            }
        }
    };
    server.state().is_listening = true;
    serve(listener, source).await;
}

/// A connection of a client.
struct Connection {
    task: AbortHandle,
    /// Since when nothing is asked for; `None` while a request is being answered.
    idle_since: Arc<std::sync::Mutex<Option<Instant>>>,
}

impl Connection {
    fn idle_since(&self) -> Option<Instant> {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves the clients of a listener; never ends.
pub(super) async fn serve(listener: TcpListener, source: Source) {
    let site = Arc::new(Site { source, last: Mutex::default(), live: Mutex::default() });
    let mut tasks = JoinSet::new();
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                sleep(Duration::from_millis(100)).await; // out of descriptors, or a client gone already
                continue;
            }
        };
        while tasks.try_join_next().is_some() {}
        connections.retain(|connection| !connection.task.is_finished());
        if connections.len() >= MOST_CONNECTIONS {
            // One that is being answered comes last: `None` would sort first.
            let longest = (0..connections.len()).min_by_key(|&index| {
                let idle_since = connections[index].idle_since();
                (idle_since.is_none(), idle_since)
            });
            connections.remove(longest.unwrap_or(0)).task.abort();
        }
        let idle_since = Arc::new(std::sync::Mutex::new(Some(Instant::now())));
        let task = tasks.spawn(serve_connection(stream, Arc::clone(&site), Arc::clone(&idle_since)));
        connections.push(Connection { task, idle_since });
    }
}

/// Answers the requests of a connection.
async fn serve_connection(
    stream: tokio::net::TcpStream,
    site: Arc<Site>,
    idle_since: Arc<std::sync::Mutex<Option<Instant>>>,
) {
    let answer = service_fn(move |request| {
        let (site, idle_since) = (Arc::clone(&site), Arc::clone(&idle_since));
        async move {
            let set = |since| *idle_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
            set(None);
            let answered = answer(site, request).await;
            set(Some(Instant::now()));
            answered
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MOST_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), answer);
    let _ = timeout(MAX_CONNECTION_TIME, connection).await; // whatever a client does, it is its own affair
}

/// True if the request is for an address, or for this machine by its name.
fn is_for_this_machine<T>(request: &hyper::Request<T>) -> bool {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let Some(Ok(authority)) = host.map(str::parse::<hyper::http::uri::Authority>) else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let own_name = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    host.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || host.eq_ignore_ascii_case(own_name().trim())
}

type HttpResponse = Response<Full<Bytes>>;

async fn answer(site: Arc<Site>, request: hyper::Request<Incoming>) -> Result<HttpResponse, Infallible> {
    let (path, has_page) = (request.uri().path(), site.source.has_page);
    let is_known = matches!(path, "/" | "/metrics") || has_page && path == "/live";
    if is_known && request.method() != Method::GET && request.method() != Method::HEAD {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "this is only read: GET\n");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(answer);
    }
    if has_page && matches!(path, "/" | "/live") && !is_for_this_machine(&request) {
        let cure =
            "this page is not served under that name: write the address of the switch, or its host name\n";
        return Ok(plain(StatusCode::MISDIRECTED_REQUEST, cure));
    }
    Ok(match path {
        "/" if has_page => document(),
        "/live" if has_page => site.live(request.uri().query()).await,
        "/metrics" => site.metrics(wants_openmetrics(&request)).await,
        "/" => {
            plain(StatusCode::OK, "Sluice, a lossless Ethernet switch in software. Its metrics: /metrics\n")
        }
        _ => plain(StatusCode::NOT_FOUND, "there is nothing here; the metrics are at /metrics\n"),
    })
}

fn wants_openmetrics<T>(request: &hyper::Request<T>) -> bool {
    let accepted = request.headers().get_all(ACCEPT);
    accepted
        .iter()
        .any(|accepted| accepted.to_str().is_ok_and(|text| text.contains("application/openmetrics-text")))
}

impl Site {
    async fn metrics(&self, as_openmetrics: bool) -> HttpResponse {
        match self.openmetrics().await {
            Some(found) if as_openmetrics => respond(StatusCode::OK, OPENMETRICS, found.to_string()),
            Some(found) => respond(StatusCode::OK, PROMETHEUS, prometheus_text::prometheus(&found)),
            None => plain(StatusCode::SERVICE_UNAVAILABLE, "the poll loop did not answer within 2 s\n"),
        }
    }

    async fn openmetrics(&self) -> Option<Arc<str>> {
        let mut last = self.last.lock().await;
        if let Some((made, text)) = &*last
            && made.elapsed() < CACHE_TIME
        {
            return Some(Arc::clone(text));
        }
        let snapshot = self.snapshot(true).await?;
        let device = self.source.sources.device.clone();
        let text: Arc<str> =
            MetricsSnapshot { device, snapshot, telemetry: (self.source.telemetry)() }.openmetrics().into();
        *last = Some((Instant::now(), Arc::clone(&text)));
        Some(text)
    }

    async fn live(&self, query: Option<&str>) -> HttpResponse {
        match self.live_snapshot().await {
            Some(snapshot) => {
                let live = web_page::live(
                    &self.source.sources.device,
                    &snapshot,
                    &self.source.sources.journal,
                    query,
                );
                respond(StatusCode::OK, JSON, live)
            }
            None => plain(StatusCode::SERVICE_UNAVAILABLE, "the poll loop did not answer within 2 s\n"),
        }
    }

    async fn live_snapshot(&self) -> Option<Arc<v1::Snapshot>> {
        let mut last = self.live.lock().await;
        if let Some((taken, snapshot)) = &*last
            && taken.elapsed() < CACHE_TIME
        {
            return Some(Arc::clone(snapshot));
        }
        let snapshot = Arc::new(self.snapshot(false).await?);
        *last = Some((Instant::now(), Arc::clone(&snapshot)));
        Some(snapshot)
    }

    async fn snapshot(&self, read_watermarks: bool) -> Option<v1::Snapshot> {
        let (answer, answered) = oneshot::channel();
        let request = async {
            let request = Request::Snapshot { reader: WatermarkReader::Metrics, read_watermarks, answer };
            self.source.sources.requests.send(request).await.ok()?;
            answered.await.ok()
        };
        timeout(PATIENCE, request).await.ok()?
    }
}

fn document() -> HttpResponse {
    let mut answer = respond(StatusCode::OK, HTML, web_page::DOCUMENT.to_owned());
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(web_page::POLICY));
    answer
}

fn plain(status: StatusCode, text: &str) -> HttpResponse {
    respond(status, PLAIN, text.to_owned())
}

fn respond(status: StatusCode, kind: &'static str, text: String) -> HttpResponse {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
