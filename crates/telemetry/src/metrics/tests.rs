//! The metrics of a made-up switch, and their HTTP server.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;

use control::field_docs::Numbers;
use control::server::Request;
use control::v1::{Kernel, Snapshot, StormTraffic, Telemetry, TelemetryDestination};
use control::{Journal, v1};
use tokio::sync::mpsc;

use super::family::{self, Metric};
use super::server::{Source, serve};
use super::{MetricsSnapshot, buffer, no_metric, port, priority, prometheus_text, switch};
use crate::dial_out::message::Device;
use crate::example_reports::sample;
use crate::settings::Sources;

/// Maximum number of series of a port, and of the switch beside its ports, as
/// docs/monitoring/metrics.md states.
const MOST_OF_A_PORT: usize = 669;
const MOST_OF_THE_SWITCH: usize = 120;

fn device() -> Device {
    Device { name: "lab".to_owned(), version: "0.1.0".to_owned() }
}

/// A switch on which every counter has counted.
pub(super) fn full() -> Snapshot {
    let mut snapshot = sample();
    snapshot.pfc_enabled = true;
    snapshot.removed_ports = Some(v1::RemovedPorts::default());
    snapshot.loop_turns_by_time = (0..24).collect();
    snapshot.loop_awake_ns = 1_500_000_000;
    snapshot.loop_worst_stall_ns = 2_500_000;
    for pool in &mut snapshot.ingress_pools {
        pool.pause_threshold_cells = Some(5000);
    }
    for port in &mut snapshot.ports {
        port.interface = "veth0".to_owned();
        port.xdp_mode = "native".to_owned();
        port.speed_bps = 1_000_000_000;
        port.lldp = Some(v1::Lldp::default());
        port.dcbx = Some(v1::Dcbx::default());
        port.kernel = Some(Kernel { rx_ring_full_frames: 5, tx_kicks: 77, ..Kernel::default() });
        for reason in ::switch::DropReason::ALL {
            port.drops.entry(reason.name().to_owned()).or_default();
        }
        for queue in &mut port.queues {
            queue.threshold_cells = Some(640);
            queue.average_cells = Some(12);
        }
        for priority in &mut port.priorities {
            priority.paused_ns = 1_250_000_000;
            priority.storm_traffic = Some(StormTraffic { tx_dropped_frames: 3, ..StormTraffic::default() });
        }
    }
    snapshot
}

/// The same switch with one port, of which priority 3 and its queue were used.
fn small() -> Snapshot {
    let mut snapshot = full();
    snapshot.ports.truncate(1);
    snapshot.loop_turns_by_time.truncate(5);
    let port = &mut snapshot.ports[0];
    for index in (0..8).filter(|&index| index != 3) {
        port.groups[index] = Default::default();
        port.queues[index] = Default::default();
        port.priorities[index] = Default::default();
        for count in [&mut port.pfc_sent, &mut port.pfc_received].into_iter().flatten() {
            count.xoff_frames[index] = 0;
            count.xon_frames[index] = 0;
        }
    }
    snapshot
}

fn telemetry() -> Telemetry {
    let to = TelemetryDestination {
        group: "c".to_owned(),
        address: "192.168.2.1:50050".to_owned(),
        sent: 7,
        ..TelemetryDestination::default()
    };
    Telemetry { destinations: vec![to], ..Telemetry::default() }
}

pub(super) fn openmetrics(snapshot: Snapshot) -> String {
    MetricsSnapshot { device: device(), snapshot, telemetry: telemetry() }.openmetrics()
}

/// The labels of each metric by name; for a histogram, by the name of its buckets.
pub(super) fn labels_by_name(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').expect("a series and its value");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
        let labels = labels.map(|label| label.split_once('=').expect("a label").0.to_owned());
        found.entry(name.to_owned()).or_default().extend(labels);
    }
    found
}

#[test]
fn a_port_with_one_priority_in_full() {
    insta::assert_snapshot!(openmetrics(small()));
}

#[test]
fn the_older_format_names_counters_in_full_and_knows_no_units() {
    let new = "# HELP a_frames Frames.\n# TYPE a_frames counter\n# UNIT a_frames frames\na_frames_total{port=\"x\"} 1\n\
               # HELP a A gauge, of a_frames counter.\n# TYPE a gauge\na 2\n# EOF\n";
    let old = "# HELP a_frames_total Frames.\n# TYPE a_frames_total counter\na_frames_total{port=\"x\"} 1\n\
               # HELP a A gauge, of a_frames counter.\n# TYPE a gauge\na 2\n";
    assert_eq!(prometheus_text::prometheus(new), old);
}

/// A counter that appeared with the first loss would hide it from increase(), so all counters of
/// losses of no-drop frames are there from the start: of the port, the priority and its queue.
#[test]
fn counters_of_losses_begin_at_zero() {
    let mut snapshot = small();
    let port = &mut snapshot.ports[0];
    for index in 0..8 {
        port.groups[index] = v1::Group { no_drop: index == 5, ..Default::default() };
        port.queues[index] = Default::default();
        port.priorities[index] = v1::Priority { local_precedence: 7 - index as u32, ..Default::default() };
    }
    let text = openmetrics(snapshot);
    for series in [
        "sluice_group_dropped_frames_total{port=\"server1\",priority=\"5\"} 0",
        "sluice_queue_dropped_frames_total{port=\"server1\",queue=\"2\"} 0",
        "sluice_port_kernel_dropped_frames_total{port=\"server1\",reason=\"rx_closed\"} 0",
        "sluice_port_dropped_frames_total{port=\"server1\",reason=\"destination_down\"} 0",
    ] {
        assert!(text.contains(series), "{series}\n{text}");
    }
    assert!(!text.contains("queue=\"3\""), "no other queue has counted");
}

/// A port without PFC that no-drop frames leave by may lose them, too.
#[test]
fn counters_of_losses_begin_at_zero_at_output_ports_without_pfc() {
    let mut snapshot = small();
    snapshot.ports[0].groups[3].no_drop = true;
    let mut output = v1::Port { name: "output".to_owned(), ..Default::default() };
    output.groups = vec![v1::Group::default(); 8];
    output.queues = vec![v1::Queue::default(); 8];
    output.priorities =
        (0..8).map(|of| v1::Priority { local_precedence: of, ..Default::default() }).collect();
    snapshot.ports.push(output);
    let text = |snapshot: &Snapshot| openmetrics(snapshot.clone());
    for series in [
        "sluice_priority_no_drop_lost_frames_total{port=\"output\",priority=\"3\"} 0",
        "sluice_queue_dropped_frames_total{port=\"output\",queue=\"3\"} 0",
    ] {
        assert!(text(&snapshot).contains(series), "{series}");
    }
    let lossy = "sluice_priority_no_drop_lost_frames_total{port=\"output\",priority=\"4\"}";
    assert!(!text(&snapshot).contains(lossy), "no port protects it");
    // PFC was turned off after the loss.
    snapshot.ports[1].priorities[4].no_drop_lost_frames = 7;
    assert!(text(&snapshot).contains(&format!("{lossy} 7")));
}

/// The sum over ports and removed ports never steps back.
#[test]
fn removed_ports_keep_their_counts() {
    let count = |frames| v1::Count { frames, bytes: 0 };
    let mut snapshot = small();
    snapshot.removed_ports = Some(v1::RemovedPorts {
        ports: 1,
        received: Some(count(7)),
        transmitted: Some(count(5)),
        drops: [("tail_drop".to_owned(), count(2))].into(),
        kernel_lost_frames: 3,
        kernel_dropped_frames: 4,
        no_drop_lost_frames: 6,
    });
    let text = openmetrics(snapshot);
    for series in [
        "sluice_removed_ports_total 1",
        "sluice_removed_ports_received_frames_total 7",
        "sluice_removed_ports_transmitted_frames_total 5",
        "sluice_removed_ports_dropped_frames_total{reason=\"tail_drop\"} 2",
        "sluice_removed_ports_kernel_lost_frames_total 3",
        "sluice_removed_ports_kernel_dropped_frames_total 4",
        "sluice_removed_ports_no_drop_lost_frames_total 6",
    ] {
        assert!(text.contains(series), "{series}\n{text}");
    }
}

/// Checks the numbers of one message. Adds the names of its metrics.
fn check_numbers<T: Numbers>(metrics: &[Metric<T>], names: &mut Vec<&'static str>) {
    let derived: Vec<_> = family::derived(metrics).collect();
    for number in T::NUMBERS {
        let of = |metrics: &[Metric<T>]| metrics.iter().filter(|metric| metric.shows(number.path)).count();
        let reason = no_metric::reason::<T>(number.path);
        assert!(
            of(metrics) + of(&derived) == 1 || (reason.is_some() && of(&derived) == 0),
            "{}.{} is one metric, or metrics/no_metric.rs has the reason",
            T::MESSAGE,
            number.path
        );
    }
    for path in metrics.iter().flat_map(Metric::numbers) {
        let is_known = T::NUMBERS.iter().any(|number| number.path == path);
        assert!(is_known, "there is no number {path} in {}", T::MESSAGE);
    }
    names.extend(metrics.iter().chain(&derived).map(Metric::name));
}

/// Every number of the proto file is a metric, or there is a reason why not;
/// docs/monitoring/metrics.md covers every metric.
#[test]
fn every_number_is_a_metric_or_has_a_reason() {
    let mut names = Vec::new();
    check_numbers(switch::METRICS, &mut names);
    check_numbers(port::METRICS, &mut names);
    check_numbers(priority::METRICS, &mut names);
    check_numbers(buffer::GROUP, &mut names);
    check_numbers(buffer::QUEUE, &mut names);
    check_numbers(buffer::POOL, &mut names);
    names.extend(buffer::HEADROOM.iter().map(Metric::name));
    let page = std::fs::read_to_string("../../docs/monitoring/metrics.md").unwrap();
    let covers = |word: &str, name: &str| match word.strip_suffix('…') {
        Some(prefix) => format!("{name}_total").starts_with(prefix),
        None => word.strip_suffix("_total").unwrap_or(word) == name,
    };
    for name in names {
        let is_covered = page.split('`').any(|word| word.starts_with("sluice_") && covers(word, name));
        assert!(is_covered, "docs/monitoring/metrics.md does not mention {name}");
    }
    let all: Vec<(&str, &str)> = [v1::Snapshot::paths(), v1::Port::paths(), v1::Priority::paths()]
        .into_iter()
        .chain([v1::Group::paths(), v1::Queue::paths(), v1::Pool::paths()])
        .flatten()
        .collect();
    for (message, of, _) in no_metric::REASONS {
        let is_needed = |&(found, path): &(&str, &str)| {
            (message.is_empty() || *message == found) && no_metric::is_of(path, of)
        };
        assert!(all.iter().any(is_needed), "the reason for {message} {of} is about no number");
    }
}

/// The messages and paths of numbers.
trait Paths: Numbers {
    fn paths() -> Vec<(&'static str, &'static str)> {
        Self::NUMBERS.iter().map(|number| (Self::MESSAGE, number.path)).collect()
    }
}

impl<T: Numbers> Paths for T {}

#[test]
fn series_are_bounded_and_each_is_there_once() {
    let [two, one, none] = [2, 1, 0].map(|ports| {
        let mut snapshot = full();
        snapshot.ports.truncate(ports);
        let text = openmetrics(snapshot);
        let series: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
        let names = series.iter().map(|line| line.rsplit_once(' ').unwrap().0);
        assert_eq!(names.collect::<BTreeSet<_>>().len(), series.len(), "each once");
        series.len()
    });
    assert_eq!(two - one, one - none, "ports are alike");
    assert!(two - one <= MOST_OF_A_PORT && none <= MOST_OF_THE_SWITCH, "{} {none}", two - one);
}

/// Prometheus's naming conventions, as far as one line shows them.
#[test]
fn names_and_help_are_as_prometheus_has_them() {
    let text = openmetrics(full());
    let mut families = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("# HELP")) {
        let mut words = line.splitn(4, ' ').skip(2);
        let (name, help) = (words.next().unwrap(), words.next().unwrap());
        assert!(families.insert(name.to_owned()), "{name} is there twice");
        assert!(name.starts_with("sluice_") && help.ends_with('.'), "{line}");
        assert!(["_ns", "_ms", "_bps", "_total"].iter().all(|end| !name.ends_with(end)), "{name}");
    }
    for (name, labels) in labels_by_name(&text) {
        let known =
            ["port", "priority", "queue", "pool", "side", "since", "le", "reason", "drop_level", "kind"];
        let more = [
            "direction",
            "error",
            "fate",
            "switch",
            "version",
            "interface",
            "xdp_mode",
            "group",
            "collector",
        ];
        assert!(
            labels.iter().all(|label| known.contains(&&**label) || more.contains(&&**label)),
            "{name} {labels:?}"
        );
    }
}

/// Sends one request and reads the whole response.
fn response(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(port: u16, path: &str, accept: &str) -> String {
    response(
        port,
        &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"),
    )
}

/// A metrics server of a switch that replies to requests; returns its port.
fn server(requested: fn(mpsc::Receiver<Request>), has_page: bool) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (requests, receiver) = mpsc::channel(8);
    std::thread::spawn(move || requested(receiver));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let journal = Journal::default();
        journal.record(v1::Event { message: "something happened".to_owned(), ..v1::Event::default() });
        let telemetry = Box::new(telemetry);
        let sources = Sources { device: device(), requests, journal };
        let source = Source { sources, telemetry, has_page };
        runtime.block_on(async { serve(tokio::net::TcpListener::from_std(listener).unwrap(), source).await });
    });
    port
}

fn answer(mut requested: mpsc::Receiver<Request>) {
    while let Some(request) = requested.blocking_recv() {
        if let Request::Snapshot { answer, .. } = request {
            let _ = answer.send(full());
        }
    }
}

#[test]
fn readers_get_the_format_that_they_accept() {
    let port = server(answer, false);
    let new =
        get(port, "/metrics", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5");
    assert!(new.starts_with("HTTP/1.1 200 OK\r\n"), "{new}");
    assert!(new.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
    let (_, body) = new.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, openmetrics(full()));
    let old = get(port, "/metrics", "*/*");
    assert!(old.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    assert_eq!(old.split_once("\r\n\r\n").unwrap().1, prometheus_text::prometheus(&openmetrics(full())));
}

#[test]
fn other_requests_get_a_hint() {
    let port = server(answer, false);
    for (request, status, expected) in [
        ("GET / HTTP/1.1", "200 OK", "/metrics"),
        ("GET /other HTTP/1.1", "404 Not Found", "the metrics are at /metrics"),
        ("POST /metrics HTTP/1.1", "405 Method Not Allowed", "allow: GET, HEAD"),
    ] {
        let answer = response(
            port,
            &format!("{request}\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
        );
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}\r\n")) && answer.contains(expected),
            "{answer}"
        );
    }
    assert!(response(port, "rubbish\r\n\r\n").starts_with("HTTP/1.1 400 Bad Request\r\n"));
    // A head without an end costs no more than the read buffer, and is then refused.
    let long = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let _ = stream.write_all(long.as_bytes()); // it may be closed meanwhile
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert!(get(port, "/metrics", "*/*").starts_with("HTTP/1.1 200 OK\r\n"), "and others are served");
}

/// The live page is served if enabled, with a policy that lets it load nothing, and so are its
/// requests.
#[test]
fn the_page_is_served_where_it_is_wanted() {
    let port = server(answer, true);
    let document = get(port, "/", "text/html");
    assert!(document.starts_with("HTTP/1.1 200 OK\r\n") && document.ends_with("</html>\n"), "{document}");
    assert!(document.contains("content-type: text/html; charset=utf-8\r\n"));
    assert!(document.contains("content-security-policy: default-src 'none'; "), "{document}");
    let live = get(port, "/live?since=0", "*/*");
    let (head, body) = live.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: application/json"), "{head}");
    let live: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(live["switch"], serde_json::to_value(full()).unwrap());
    let queues = &full().ports[0].queues;
    assert_eq!(live["ports"][0]["queues"], serde_json::to_value(queues).unwrap());
    assert_eq!(live["events"][0]["message"], "something happened");
    let port = server(answer, false);
    assert!(get(port, "/live", "*/*").starts_with("HTTP/1.1 404 Not Found\r\n"));
    assert!(get(server(drop, true), "/live", "*/*").starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
}

#[test]
fn a_missing_switch_is_reported() {
    let answer = get(server(drop, false), "/metrics", "*/*");
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
}

/// Sixteen clients that ask for nothing, and one whose request is being answered: a reader ends the
/// idle one that came first.
#[test]
fn idle_clients_keep_no_reader_out() {
    let port = server(answer, false);
    let mut idle: Vec<_> = (0..16).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    for _ in 0..20 {
        assert!(get(port, "/metrics", "*/*").starts_with("HTTP/1.1 200 OK\r\n"));
    }
    // The first was closed, and the last is still served.
    assert_eq!(idle[0].read(&mut [0]).unwrap_or(0), 0);
    let mut last = idle.pop().unwrap();
    last.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answered = String::new();
    last.read_to_string(&mut answered).unwrap();
    assert!(answered.starts_with("HTTP/1.1 200 OK\r\n"), "{answered}");
}

/// A name that a stranger made resolve to this machine reads no page; Prometheus may use any name.
#[test]
fn the_page_is_served_under_no_foreign_name() {
    let port = server(answer, true);
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let hosts = ["127.0.0.1", "127.0.0.1:9464", "[::1]:9464", "localhost:1", own.trim()];
    for (host, page) in hosts.into_iter().map(|host| (host, 200)).chain([("evil.example:9464", 421)]) {
        for (path, status) in [("/", page), ("/live", page), ("/metrics", 200)] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let answer = response(port, &request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host} {path}: {answer}");
        }
    }
}
