//! Messages of the control API: the whole service in memory, with an owner of the loop that answers
//! at once.
//!
//! Rule: whatever a client sends, the call ends with an answer or an error of one line, and text of
//! the client is never echoed with control characters. The first byte selects the call and the
//! role, the rest is the body of the request.

use std::time::Instant;

use control::server::{self, DaemonInfo, Recorded, Request};
use control::v1::control_server::{Control, ControlServer};
use control::{FrameBalance, Journal, Peer, v1};
use http_body_util::Full;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::codegen::http;
use tower::ServiceExt;
use tower::util::BoxCloneService;

use crate::input::Input;

/// The calls of proto/sluice/v1/control.proto.
const CALLS: [&str; 19] = [
    "GetInfo",
    "GetSnapshot",
    "Watch",
    "ClearWatermarks",
    "HoldPort",
    "SetPortAdmin",
    "RecoverStorms",
    "LiftStormLimit",
    "SetPfc",
    "GetConfiguration",
    "GetFdb",
    "FlushFdb",
    "Record",
    "AcknowledgeRecording",
    "Capture",
    "Events",
    "GetLldp",
    "GetTelemetry",
    "Reload",
];

type Service = BoxCloneService<http::Request<Body>, http::Response<Body>, std::convert::Infallible>;

thread_local! {
    static SERVER: (Runtime, Service) = {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let service = runtime.block_on(async { BoxCloneService::new(start()) });
        (runtime, service)
    };
}

/// Makes a call.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let selection = input.byte();
    let body = input.rest();
    snapshot(body);
    let call = request(CALLS[usize::from(selection) % CALLS.len()], selection < 128, body);
    let response = SERVER.with(|(runtime, service)| runtime.block_on(service.clone().oneshot(call)));
    let response = response.expect("there is an answer");
    assert_eq!(response.status(), 200, "errors are those of gRPC");
    if let Some(status) = tonic::Status::from_header_map(response.headers()) {
        let message = status.message();
        assert!(message.lines().count() <= 1 && !message.chars().any(char::is_control), "{message:?}");
        assert!(message.len() < 1000, "{message}");
    }
}

/// Returns the request of a call with this body, of root or of another user.
fn request(call: &str, is_root: bool, body: &[u8]) -> http::Request<Body> {
    // A message is preceded by a byte that says that it is not compressed, and by its length.
    let framed = [&[0][..], &(body.len() as u32).to_be_bytes(), body].concat();
    let mut request = http::Request::post(format!("/sluice.v1.Control/{call}"))
        .header("content-type", "application/grpc")
        .body(Body::new(Full::from(framed)))
        .expect("a request");
    request.extensions_mut().insert(Peer { uid: Some(if is_root { 0 } else { 1000 }), ..Peer::default() });
    request
}

/// A snapshot from a file: its sums do not overflow, and it can be subtracted from any other.
fn snapshot(bytes: &[u8]) {
    let Some(snapshot) = v1::Snapshot::from_bytes(bytes) else { return };
    FrameBalance::of(&snapshot).holds();
    for port in &snapshot.ports {
        port.no_drop_lost_frames(None);
        port.dropped_where(|_| true);
    }
    let mut later = v1::Snapshot { ports: vec![v1::Port::default()], ..Default::default() };
    later.subtract(&snapshot);
}

/// Starts a service, and the owner of its loop.
fn start() -> ControlServer<impl Control> {
    let (requests, mut requested) = mpsc::channel(server::MAX_REQUESTS);
    tokio::spawn(async move {
        while let Some(request) = requested.recv().await {
            answer(request);
        }
    });
    let info = DaemonInfo {
        name: "fuzz".into(),
        version: "0".into(),
        config: "/etc/fuzz.toml".into(),
        started: Instant::now(),
        admins: Vec::new(),
    };
    server::service(info, requests, Journal::default(), v1::Telemetry::default)
}

/// Answers as an owner of a loop does that has nothing.
fn answer(request: Request) {
    match request {
        Request::Snapshot { answer, .. } => drop(answer.send(v1::Snapshot::default())),
        Request::Lldp { answer } => drop(answer.send(v1::LldpPorts::default())),
        Request::Configuration { answer } => drop(answer.send(v1::Configuration::default())),
        Request::Fdb { answer, .. } => drop(answer.send(Ok(vec![v1::FdbEntry::default()]))),
        Request::RecordingBound { answer } => drop(answer.send(0)),
        Request::Recording { answer, .. } => drop(answer.send(Ok(Recorded::default()))),
        Request::Capture { answer, .. } => drop(answer.send(Ok(mpsc::channel(1).1))),
        Request::Acknowledge { answer, .. } => drop(answer.send(Ok(Vec::new()))),
        Request::Order { order, answer, .. } => drop(answer.send(Ok(vec![format!("{order:?}")]))),
    }
}

/// Each call with a port, a number and a flag, as both roles.
pub fn seeds() -> Vec<Vec<u8>> {
    let body = [0x0a, 2, b'p', b'1', 0x10, 1, 0x18, 3];
    let calls = (0..CALLS.len() as u8).flat_map(|call| [call, 133 + call]);
    calls.map(|call| [&[call][..], &body].concat()).collect()
}
