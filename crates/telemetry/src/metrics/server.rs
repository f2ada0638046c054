//! The metrics over HTTP: `GET /metrics`; and the live page, if enabled: `GET /` and `GET /live`.
//!
//! Rule: clients that accept OpenMetrics 1.0 get it, all others Prometheus's text 0.0.4. One
//! response is generated at a time and serves all requests within 100 ms, so any number of readers
//! costs the poll loop ten snapshots a second at most, and ten more for the page. The number of
//! open connections and the duration of each (a minute) are limited, so memory stays bounded.
//! Source: docs/metrics.md.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control::server::{Request, WatermarkReader};
use control::{Journal, v1};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::{MetricsSnapshot, prometheus_text};
use crate::dial_out::message::Device;
use crate::web_page;

/// Maximum number of concurrent connections.
const MOST_CONNECTIONS: usize = 16;
/// Maximum duration of a connection, however busy.
const CONNECTION: Duration = Duration::from_secs(60);
/// How long a client may take to send the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// Maximum bytes of a head, and of the read buffer.
const MOST_HEAD_BYTES: usize = 16 << 10;
/// Maximum age of a response.
const FRESH: Duration = Duration::from_millis(100);
/// How long the switch may take to reply.
const PATIENCE: Duration = Duration::from_secs(2);

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The data sources of the responses.
pub struct Source {
    /// Identity of the switch.
    pub device: Device,
    /// Channel for requests to the switch.
    pub requests: mpsc::Sender<Request>,
    /// Returns the state of the telemetry to collectors.
    pub telemetry: Box<dyn Fn() -> v1::Telemetry + Send + Sync>,
    /// The event journal.
    pub journal: Journal,
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

/// Opens a socket that listens at `address`.
///
/// # Errors
/// The address is in use, or not of this machine.
pub fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves clients until the future is dropped.
///
/// # Errors
/// `listener` cannot be registered with this runtime.
pub async fn serve(listener: std::net::TcpListener, source: Source) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let site = Arc::new(Site { source, last: Mutex::default(), live: Mutex::default() });
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        let stream = loop {
            match listener.accept().await {
                Ok((stream, _)) => break stream,
                Err(_) => sleep(Duration::from_millis(100)).await, // out of descriptors, or a client gone already
            }
        };
        while connections.try_join_next().is_some() {}
        let site = Arc::clone(&site);
        connections.spawn(async move {
            let answer = service_fn(move |request| answer(Arc::clone(&site), request));
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .max_buf_size(MOST_HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), answer);
            let _ = timeout(CONNECTION, connection).await; // whatever a client does, it is its own affair
            drop(place);
        });
    }
}

type Answer = Response<Full<Bytes>>;

async fn answer(site: Arc<Site>, request: hyper::Request<Incoming>) -> Result<Answer, Infallible> {
    let (path, has_page) = (request.uri().path(), site.source.has_page);
    let is_known = matches!(path, "/" | "/metrics") || has_page && path == "/live";
    if is_known && request.method() != Method::GET && request.method() != Method::HEAD {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "this is only read: GET\n");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(answer);
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
    async fn metrics(&self, as_openmetrics: bool) -> Answer {
        match self.openmetrics().await {
            Some(found) if as_openmetrics => respond(StatusCode::OK, OPENMETRICS, found.to_string()),
            Some(found) => respond(StatusCode::OK, PROMETHEUS, prometheus_text::prometheus(&found)),
            None => plain(StatusCode::SERVICE_UNAVAILABLE, "the poll loop did not answer within 2 s\n"),
        }
    }

    async fn openmetrics(&self) -> Option<Arc<str>> {
        let mut last = self.last.lock().await;
        if let Some((made, text)) = &*last
            && made.elapsed() < FRESH
        {
            return Some(Arc::clone(text));
        }
        let snapshot = self.snapshot(true).await?;
        let device = self.source.device.clone();
        let text: Arc<str> =
            MetricsSnapshot { device, snapshot, telemetry: (self.source.telemetry)() }.openmetrics().into();
        *last = Some((Instant::now(), Arc::clone(&text)));
        Some(text)
    }

    async fn live(&self, query: Option<&str>) -> Answer {
        match self.live_snapshot().await {
            Some(snapshot) => {
                let live = web_page::live(&self.source.device, &snapshot, &self.source.journal, query);
                respond(StatusCode::OK, JSON, live)
            }
            None => plain(StatusCode::SERVICE_UNAVAILABLE, "the poll loop did not answer within 2 s\n"),
        }
    }

    async fn live_snapshot(&self) -> Option<Arc<v1::Snapshot>> {
        let mut last = self.live.lock().await;
        if let Some((taken, snapshot)) = &*last
            && taken.elapsed() < FRESH
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
            self.source.requests.send(request).await.ok()?;
            answered.await.ok()
        };
        timeout(PATIENCE, request).await.ok()?
    }
}

fn document() -> Answer {
    let mut answer = respond(StatusCode::OK, HTML, web_page::DOCUMENT.to_owned());
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(web_page::POLICY));
    answer
}

fn plain(status: StatusCode, text: &str) -> Answer {
    respond(status, PLAIN, text.to_owned())
}

fn respond(status: StatusCode, kind: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
