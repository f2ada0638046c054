//! The daemon's side against the reference collector, on loopback in one process; no test depends
//! on timing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use control::server::Request;
use control::{Journal, v1};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::collector::{self, Received};
use crate::dial_out::destination::Timing;
use crate::dialout::{DialoutMsg, DialoutResponse};
use crate::example_reports::sample;
use crate::{Device, Settings, Sources, Telemetry};

/// Time limit that only ends a failed test; nothing is measured by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Short waits, so that tests are fast; the results do not depend on them.
const TIMING: Timing = Timing {
    stream: Duration::from_millis(50),
    patience: Duration::from_secs(1),
    first_wait: Duration::from_millis(10),
    longest_wait: Duration::from_millis(100),
};

/// A switch that replies to requests, and its telemetry.
pub(crate) struct Lab {
    journal: Journal,
    telemetry: Telemetry,
    status: Box<dyn Fn() -> v1::Telemetry>,
    /// Its configuration.
    text: String,
}

impl Lab {
    /// `more` is added to the destination group, `sensors` are the paths and their interval in ms.
    pub(crate) fn new(port: u16, more: &str, sensors: &[(&str, Option<u64>)]) -> Self {
        let mut text = format!(
            "[port.server1]\ninterface = \"a\"\n[port.server2]\ninterface = \"b\"\n\
             [telemetry.destination-group.c]\ncollectors = [\"127.0.0.1:{port}\"]\n{more}\n"
        );
        let mut list = Vec::new();
        for (number, (path, interval_ms)) in sensors.iter().enumerate() {
            text += &format!("[telemetry.sensor-group.g{number}]\npaths = [\"{path}\"]\n");
            let interval = interval_ms.map_or(String::new(), |ms| format!(", interval_ms = {ms}"));
            list.push(format!("{{ group = \"g{number}\"{interval} }}"));
        }
        let list = list.join(", ");
        text += &format!("[telemetry.subscription.s]\nsensors = [{list}]\ndestinations = [\"c\"]\n");
        let config = config::parse("x.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let (requests, requested) = mpsc::channel(8);
        std::thread::spawn(|| answer(requested));
        let journal = Journal::default();
        let device = Device { name: "lab".to_owned(), version: "0".to_owned() };
        let sources = Sources { device, requests, journal: journal.clone() };
        let settings = Settings::of(&config, std::path::Path::new("x.toml"));
        let telemetry = Telemetry::start_with(&settings, sources, TIMING).unwrap();
        let status = Box::new(telemetry.status());
        Self { journal, telemetry, status, text }
    }

    pub(crate) fn note(&self, kind: &str) {
        self.journal.record(v1::Event { kind: kind.to_owned(), ..v1::Event::default() });
    }

    pub(crate) fn destination(&self) -> v1::TelemetryDestination {
        (self.status)().destinations.remove(0)
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, condition: impl Fn(&v1::TelemetryDestination) -> bool) {
        let began = Instant::now();
        while !condition(&self.destination()) {
            assert!(began.elapsed() < PATIENCE, "{what}: never: {:#?}", (self.status)());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Replies to requests for snapshots, as the daemon's control loop does.
fn answer(mut requested: mpsc::Receiver<Request>) {
    while let Some(request) = requested.blocking_recv() {
        if let Request::Snapshot { answer, .. } = request {
            let _ = answer.send(sample());
        }
    }
}

/// A collector on a separate thread; dropping it kills it, with all pending work.
pub(crate) struct Collector {
    pub(crate) port: u16,
    end: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Collector {
    /// Listens on this port, or on any.
    fn start(port: u16, to: std::sync::mpsc::Sender<Received>) -> Self {
        Self::start_with(port, None, to)
    }

    /// Starts a collector, with TLS if given.
    pub(crate) fn start_with(
        port: u16,
        tls: Option<collector::ServerTlsConfig>,
        to: std::sync::mpsc::Sender<Received>,
    ) -> Self {
        Self::taking(port, tls, move |message| to.send(message).map_err(|_| Status::unavailable("over")))
    }

    /// Starts a collector that passes its messages to `take`.
    fn taking(
        port: u16,
        tls: Option<collector::ServerTlsConfig>,
        take: impl Fn(Received) -> Result<(), Status> + Send + Sync + 'static,
    ) -> Self {
        let (end, ended) = oneshot::channel::<()>();
        let (ready, reported) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = listen(port).await;
                ready.send(listener.local_addr().unwrap().port()).unwrap();
                tokio::select! {
                    served = collector::serve(listener, tls, take, std::future::pending()) => served.unwrap(),
                    _ = ended => {}
                }
            });
            runtime.shutdown_background(); // nothing is answered any more: that is what killing does
        });
        Self { port: reported.recv().unwrap(), end: Some(end), thread: Some(thread) }
    }
}

/// The port of a killed collector may take a moment to become free.
async fn listen(port: u16) -> TcpListener {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(([127, 0, 0, 1], port).into()).unwrap();
    socket.listen(64).unwrap()
}

impl Drop for Collector {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A port without a listener.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn notification(message: &Received) -> Value {
    let json: Value = serde_json::from_str(&message.json).unwrap();
    json["Notification"].clone()
}

/// The event of a message of `sluice/events`.
fn event(message: &Received) -> Value {
    notification(message)["Sluice"]["Events"]["Event"][0].clone()
}

#[test]
fn all_periodic_paths_and_events_arrive() {
    let (to, received) = std::sync::mpsc::channel();
    let collector = Collector::start(0, to);
    let periodic: Vec<_> = config::SensorPath::ALL.into_iter().filter(|path| !path.is_event()).collect();
    let mut sensors: Vec<_> = periodic.iter().map(|path| (path.name(), Some(100))).collect();
    sensors.push(("sluice/events", None));
    // A snapshot that does not change has no rates.
    sensors.retain(|(path, _)| *path != "buffermonitor/pfcspeeds");
    let lab = Lab::new(collector.port, "", &sensors);
    lab.note("reloaded");
    let mut missing: Vec<_> = sensors.iter().map(|(path, _)| *path).collect();
    while !missing.is_empty() {
        let message = received.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{missing:?} did not come"));
        assert_eq!(message.device.device_name, "lab");
        if message.path == "sluice/events" {
            assert_eq!(event(&message)["Kind"], "reloaded");
        } else {
            let path = config::SensorPath::named(&message.path).unwrap();
            let member = crate::dial_out::sample::report(path, &sample(), None).unwrap();
            let expected: Value = serde_json::from_str(&format!("{{{member}}}")).unwrap();
            let (key, value) = expected.as_object().unwrap().iter().next().unwrap();
            assert_eq!(&notification(&message)[key], value, "{}", message.path);
        }
        missing.retain(|path| *path != message.path);
    }
}

/// Events are generated continuously while the collector is killed and restarted repeatedly.
#[test]
fn no_event_is_lost_by_a_collector_that_is_killed_under_load() {
    const EVENTS: u64 = 3000;
    let port = free_port();
    let lab = Lab::new(port, "backlog_messages = 5000", &[("sluice/events", None)]);
    let (to, received) = std::sync::mpsc::channel();
    let noted = Arc::new(AtomicU64::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let noting = {
        let (journal, noted) = (lab.journal.clone(), Arc::clone(&noted));
        std::thread::spawn(move || {
            for number in 0..EVENTS {
                journal.record(v1::Event { kind: format!("k{number}"), ..v1::Event::default() });
                noted.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
        })
    };
    let killing = {
        let done = Arc::clone(&done);
        std::thread::spawn(move || {
            let mut restarts = 0;
            while !done.load(Ordering::Relaxed) {
                let collector = Collector::start(port, to.clone());
                let lifetime_ms = if restarts < 5 { 80 } else { 600_000 };
                let began = Instant::now();
                while began.elapsed() < Duration::from_millis(lifetime_ms) && !done.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                drop(collector);
                restarts += 1;
            }
            restarts
        })
    };
    noting.join().unwrap();
    lab.until("all is confirmed", |to| to.sent == EVENTS);
    done.store(true, Ordering::Relaxed);
    assert!(killing.join().unwrap() > 5);
    let mut numbers: Vec<u64> = Vec::new();
    for message in received.try_iter() {
        assert_eq!(message.path, "sluice/events");
        let number: u64 = notification(&message)["Number"].as_str().unwrap().parse().unwrap();
        assert_eq!(event(&message)["Kind"], format!("k{}", number - 1));
        // In order, except that a stream which was not confirmed is repeated.
        assert!(numbers.last().is_none_or(|&last| number <= last + 1), "{number} after {:?}", numbers.last());
        numbers.push(number);
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert!(numbers.into_iter().eq(1..=EVENTS));
    assert_eq!((lab.destination().dropped, lab.destination().backlog), (0, 0));
}

#[test]
fn with_room_for_100_of_1000_events_900_are_reported_as_dropped() {
    let port = free_port();
    let lab = Lab::new(port, "backlog_messages = 100", &[("sluice/events", None)]);
    (0..1000).for_each(|number| lab.note(&format!("k{number}")));
    lab.until("900 are dropped", |to| to.dropped == 900 && to.backlog == 100);
    lab.until("nobody is there", |to| to.last_error.is_some());
    let error = lab.destination().last_error.unwrap();
    assert!(error.contains("Connection refused"), "{error}");

    let (to, received) = std::sync::mpsc::channel();
    let _collector = Collector::start(port, to);
    let report = received.recv_timeout(PATIENCE).unwrap();
    assert_eq!(report.path, "sluice/dropped");
    let drop = notification(&report)["Sluice"]["Dropped"]["Drop"][0].clone();
    let expected = r#"{"Events":900,"FirstNumber":1,"LastNumber":900,"Messages":900}"#;
    assert_eq!(drop.to_string(), expected);
    for number in 900..1000 {
        assert_eq!(event(&received.recv_timeout(PATIENCE).unwrap())["Kind"], format!("k{number}"));
    }
    lab.until("all is confirmed", |to| to.sent == 100 && to.backlog == 0);
}

/// A collector that only accepts connections.
fn on_connections(does: impl Fn(std::net::TcpStream) + Send + 'static) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(does));
    port
}

/// None of these accepts a message; the backlog stays within its bound, the rest is counted as
/// dropped, and samples and events go on.
#[test]
fn collectors_that_hang_refuse_or_answer_rubbish_cost_no_more_than_the_backlog() {
    use std::io::Write;
    let held = std::sync::Mutex::new(Vec::new());
    let hangs = on_connections(move |stream| held.lock().unwrap().push(stream));
    let rubbish = on_connections(|mut stream| drop(stream.write_all(&[0x5a; 100_000])));
    let closes = on_connections(drop);
    for port in [hangs, rubbish, closes, free_port()] {
        let sensors = [("sluice/events", None), ("buffermonitor/bufferusages", Some(100))];
        let lab = Lab::new(port, "backlog_messages = 50", &sensors);
        (0..500).for_each(|_| lab.note("k"));
        lab.until("it is full", |to| to.backlog == 50 && to.dropped >= 450);
        lab.until("it failed twice", |to| to.failures >= 2 && to.last_error.is_some());
        let before = (lab.status)().subscriptions[0].sensors[1].samples;
        lab.until("samples go on", |_| (lab.status)().subscriptions[0].sensors[1].samples > before + 2);
        let to = lab.destination();
        assert!((to.sent, to.backlog) == (0, 50) && to.backlog_bytes < 50_000, "{to:#?}");
        let stopping = Instant::now();
        drop(lab.telemetry);
        assert!(stopping.elapsed() < PATIENCE, "it ends");
    }
}

/// A collector that does not implement the service replies, too.
#[test]
fn the_service_is_a_setting_and_both_spellings_are_served() {
    let (to, received) = std::sync::mpsc::channel();
    let collector = Collector::start(0, to);
    let service = |path: &str| format!("service = \"{path}\"");
    let lab =
        Lab::new(collector.port, &service("/grpc_dialout.gRPCDialout/Dialout"), &[("sluice/events", None)]);
    lab.note("k");
    assert_eq!(event(&received.recv_timeout(PATIENCE).unwrap())["Kind"], "k");
    let lab = Lab::new(collector.port, &service("/other.Service/Dialout"), &[("sluice/events", None)]);
    lab.note("k");
    lab.until("it is refused", |to| to.last_error.is_some());
    let error = lab.destination().last_error.unwrap();
    assert!(error.contains("Unimplemented"), "{error}");
}

#[test]
fn long_messages_arrive_whole() {
    let (to, received) = std::sync::mpsc::channel();
    let collector = Collector::start(0, to);
    let lab = Lab::new(collector.port, "message_kib = 2", &[("qstat/queuestat", Some(100))]);
    let message = received.recv_timeout(PATIENCE).unwrap();
    assert!(message.json.len() > 2048 && notification(&message)["QSTAT"].is_object());
    drop(lab);
}

#[test]
fn a_network_namespace_that_is_not_there_is_shown_and_tried_again() {
    let lab = Lab::new(1, "vpn_instance = \"sluice-nowhere\"", &[("qstat/queuestat", Some(100))]);
    lab.until("it was tried again", |to| to.failures >= 2);
    assert_eq!(
        lab.destination().last_error.unwrap(),
        "vpn_instance: there is no network namespace `sluice-nowhere` (/run/netns/sluice-nowhere: No such file or \
         directory (os error 2)); make it with `ip netns add sluice-nowhere`, or leave the setting out"
    );
}

/// A collector that stays has its backlog and its numbers; the address of the metrics is in use at
/// first.
#[test]
fn other_settings_are_applied_while_it_runs() {
    let (to, received) = std::sync::mpsc::channel();
    let collector = Collector::start(0, to);
    let mut lab = Lab::new(collector.port, "", &[("qstat/queuestat", Some(100))]);
    received.recv_timeout(PATIENCE).unwrap();
    let in_use = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = in_use.local_addr().unwrap();
    let text = lab.text.clone()
        + &format!("[metrics]\nenabled = true\nlisten = \"{address}\"\n")
        + "[telemetry.destination-group.d]\ncollectors = [\"127.0.0.1:1\"]\n\
           [telemetry.subscription.t]\nsensors = [{ group = \"g0\", interval_ms = 100 }]\ndestinations = [\"d\"]\n";
    let config = config::parse("x.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    lab.telemetry.apply(&Settings::of(&config, std::path::Path::new("x.toml"))).unwrap();
    let metrics = || (lab.status)().metrics.unwrap();
    let began = Instant::now();
    let until = |condition: &dyn Fn() -> bool| {
        while !condition() {
            assert!(began.elapsed() < PATIENCE, "{:?}", (lab.status)());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until(&|| metrics().last_error.is_some_and(|why| why.contains("cannot listen on ")));
    assert!(!metrics().listening);
    drop(in_use);
    until(&|| metrics().listening);
    until(&|| (lab.status)().destinations[1].failures > 0);
    let before = lab.destination();
    assert_eq!(before.connections, 1, "it was not connected again");
    until(&|| lab.destination().sent > before.sent);
    let config = config::parse("x.toml", &lab.text).unwrap();
    lab.telemetry.apply(&Settings::of(&config, std::path::Path::new("x.toml"))).unwrap();
    let status = (lab.status)();
    assert_eq!((status.destinations.len(), status.subscriptions.len(), status.metrics), (1, 1, None));
    until(&|| std::net::TcpListener::bind(address).is_ok());
}

/// What a collector answers reaches `sluice show telemetry` and the log.
#[test]
fn what_a_collector_answers_is_cleaned() {
    let answer = |_| Err(Status::unavailable("\u{1b}[2J\u{202e}full"));
    let collector = Collector::taking(0, None, answer);
    let lab = Lab::new(collector.port, "", &[("sluice/events", None)]);
    lab.note("reloaded");
    lab.until("the refusal is known", |to| to.last_error.as_ref().is_some_and(|why| why.contains("full")));
    let why = lab.destination().last_error.unwrap();
    assert!(why.contains("\u{fffd}[2J\u{fffd}full") && !why.contains(['\u{1b}', '\u{202e}']), "{why:?}");
}

async fn dial(
    channel: Channel,
    stream: futures::channel::mpsc::Receiver<DialoutMsg>,
) -> Result<String, Status> {
    let mut client = Grpc::new(channel);
    client.ready().await.unwrap();
    let codec = ProstCodec::<DialoutMsg, DialoutResponse>::default();
    let path = PathAndQuery::from_static("/grpc_dialout.gRPCDialout/Dialout");
    let answer = client.client_streaming(tonic::Request::new(stream), path, codec).await?;
    Ok(answer.into_inner().response)
}

/// Five clients with 16 streams each: the 65th stream and those after it are refused, until others
/// have ended.
#[test]
fn streams_of_all_connections_are_bounded_together() {
    let (to, _received) = std::sync::mpsc::channel();
    let collector = Collector::start(0, to);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut streams = Vec::new();
        let mut calls = Vec::new();
        for _ in 0..5 {
            let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", collector.port)).unwrap();
            let channel = endpoint.connect().await.unwrap();
            for _ in 0..16 {
                let (messages, stream) = futures::channel::mpsc::channel::<DialoutMsg>(1);
                calls.push(Box::pin(dial(channel.clone(), stream)));
                streams.push(messages);
            }
        }
        let mut refused = 0;
        while refused < 16 {
            let (answer, index, _) = futures::future::select_all(calls.iter_mut()).await;
            assert_eq!(answer.unwrap_err().message(), "too many streams at once");
            drop(calls.remove(index));
            streams.remove(index);
            refused += 1;
        }
        streams.clear();
        for call in calls {
            assert_eq!(call.await.unwrap(), "test");
        }
        let url = format!("http://127.0.0.1:{}", collector.port);
        let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
        let ended = futures::channel::mpsc::channel(1).1;
        assert_eq!(dial(channel, ended).await.unwrap(), "test");
    });
}
