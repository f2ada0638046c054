//! Invented results for the tests of summaries and plots: an incast controlled by PFC, a run
//! without events, and a large fabric with problems.

use sim::Results;
use sim::results::{
    Completion, DcbxOutcome, ExpectationOutcome, GroupOutcome, GroupSeries, HostOutcome, LinkOutcome,
    MessageSpan, PauseSpan, PortOutcome, QueueOutcome, Series, SwitchOutcome, TrafficOutcome,
};
use sim::scenario::Metric;
use switch::monitor::counters::{FrameCount, GroupSnapshot, PortSnapshot, QueueSnapshot};
use switch::{DropReason, Occupancy};

const DURATION_NS: u64 = 20_000_000;
const POINTS: u64 = 500;
const STEP_NS: u64 = DURATION_NS / POINTS;
/// Threshold of the incast's groups.
const XOFF_CELLS: u32 = 256;
const XON_CELLS: u32 = 244;
const HEADROOM_CELLS: u32 = 432;
/// Points in which the senders' groups fill and drain once.
const PERIOD: u64 = 40;

/// Three hosts send to one, on a no-drop priority and on a lossy one.
pub fn incast() -> Results {
    Results {
        title: "Incast 3:1 at 100G".to_owned(),
        seed: 1,
        duration_ns: DURATION_NS,
        warmup_ns: 0,
        frame_hops: 12_345_678,
        events: 40_000_000,
        traffic: vec![rdma(), bulk()],
        switches: vec![leaf()],
        hosts: (1..=4).map(host).collect(),
        links: vec![LinkOutcome {
            name: "h1–leaf1.p1".to_owned(), cut_frames: 0, busy_percent: [0.0, 99.2]
        }],
        hops: Vec::new(),
        dcbx: vec![DcbxOutcome {
            port: "leaf1.p1".to_owned(),
            version: "CEE".to_owned(),
            state: "agreed".to_owned(),
            reason: "the peer takes over ours".to_owned(),
            no_drop: vec![3],
            settled_ns: 41_000_000,
        }],
        expectations: vec![
            expectation(41, "rdma: lost = 0", Metric::Lost, 0.0, true),
            expectation(42, "rdma: throughput ≥ 60 Gbit/s", Metric::Throughput, 62.4e9, true),
            expectation(
                43,
                "rdma: slowest_completion ≤ 1 ms",
                Metric::SlowestCompletionNs,
                1_912_000.0,
                false,
            ),
        ],
        imbalances: Vec::new(),
        flows: Vec::new(),
        series: series(),
    }
}

/// Nothing was sent and nothing happened.
pub fn nothing() -> Results {
    Results {
        title: "Silence".to_owned(),
        traffic: Vec::new(),
        switches: vec![SwitchOutcome { ports: Vec::new(), ..leaf() }],
        hosts: Vec::new(),
        links: Vec::new(),
        hops: Vec::new(),
        dcbx: Vec::new(),
        expectations: Vec::new(),
        frame_hops: 0,
        events: 0,
        series: Series::default(),
        ..incast()
    }
}

/// More ports, hosts and links than a table shows, with large numbers and long names.
pub fn fabric() -> Results {
    let names = |number: usize| (format!("aggregation-{}", number % 4), format!("downlink-{number:02}"));
    let port = |number: usize| {
        let mut port = quiet_port(&names(number).1, &format!("rack{number:02}-leaf{number:02}.uplink-1"));
        port.counts.drops[DropReason::IngressNoDrop as usize].frames = 1_234_567 - number as u64;
        port.counts.drops[DropReason::TailDrop as usize].frames = 99;
        let (mut group, mut queue) = (group(3, 400), queue(3, 123_456, 19_990_000));
        (group.counts.xoff, group.counts.xoff_episodes) = (number.is_multiple_of(2), 123_456);
        queue.counts.paused = true;
        (port.groups, port.queues) = (vec![group], vec![queue]);
        port
    };
    let switch = |switch: usize| SwitchOutcome {
        name: names(switch).0,
        ports: (0..12).map(|number| port(4 * number + switch)).collect(),
        headroom_peak_cells: 12_288,
        shared_peak_cells: 100_000,
        held_frames: 4_000,
        events: Vec::new(),
    };
    let large = |traffic: TrafficOutcome| TrafficOutcome {
        name: "storage-replication-between-all-racks".to_owned(),
        flows: 65_280,
        sent_frames: 123_456_789,
        received_frames: 122_956_789,
        lost_frames: 499_000,
        in_network_frames: 1_000,
        reordered_frames: 123_456,
        marked_frames: 12_345_678,
        cnps: 1_234_567,
        ..traffic
    };
    Results {
        title: "Fabric of 16 leaves".to_owned(),
        traffic: vec![large(rdma()), large(bulk())],
        switches: (0..4).map(switch).collect(),
        hosts: (1..=20)
            .map(|number| HostOutcome { name: format!("rack{number:02}-server{number:02}"), ..host(2) })
            .collect(),
        links: (0..9).map(cut_link).collect(),
        expectations: vec![
            expectation(90, "lost = 0", Metric::Lost, 998_000.0, false),
            expectation(91, "slowest_completion ≤ 1 ms", Metric::SlowestCompletionNs, f64::INFINITY, false),
        ],
        imbalances: vec!["aggregation-1: 7 frames of memory are neither free nor held".to_owned()],
        ..incast()
    }
}

fn cut_link(number: u64) -> LinkOutcome {
    LinkOutcome {
        name: format!("h{number}–leaf1.p{number}"),
        cut_frames: 1_000 + number,
        busy_percent: [1.0, 2.0],
    }
}

fn expectation(
    line: usize,
    expected: &str,
    metric: Metric,
    measured: f64,
    holds: bool,
) -> ExpectationOutcome {
    ExpectationOutcome { line, expected: expected.to_owned(), metric, measured, holds }
}

fn rdma() -> TrafficOutcome {
    TrafficOutcome {
        name: "rdma".to_owned(),
        priority: 3,
        flows: 3,
        sent_frames: 150_000,
        received_frames: 149_800,
        received_bytes: 153_395_200,
        in_network_frames: 200,
        lost_frames: 0,
        reordered_frames: 0,
        marked_frames: 4_321,
        cnps: 0,
        throughput_bps: 62.4e9,
        fairness: Some(0.97),
        messages: 300,
        completed: 299,
        completion: Some(Completion {
            messages: 299,
            min_ns: 81_000,
            mean_ns: 412_000,
            p50_ns: 380_500,
            p99_ns: 1_702_000,
            max_ns: 1_912_000,
        }),
        job_ns: None,
        latency: None,
        last_arrival_ns: Some(DURATION_NS - 90),
    }
}

fn bulk() -> TrafficOutcome {
    TrafficOutcome {
        name: "bulk".to_owned(),
        priority: 0,
        sent_frames: 90_000,
        received_frames: 60_001,
        received_bytes: 90_841_514,
        in_network_frames: 999,
        lost_frames: 29_000,
        marked_frames: 0,
        throughput_bps: 36.9e9,
        fairness: Some(0.5),
        messages: 0,
        completed: 0,
        completion: None,
        job_ns: None,
        latency: None,
        ..rdma()
    }
}

fn leaf() -> SwitchOutcome {
    let mut receiver = quiet_port("p1", "h1");
    receiver.counts.drops[DropReason::TailDrop as usize].frames = 29_000;
    receiver.queues = vec![queue(2, 0, 0), queue(3, 0, 0)];
    let sender = |number: u64| {
        let mut port = quiet_port(&format!("p{number}"), &format!("h{number}"));
        port.counts.pfc_sent.frames = 24;
        port.groups = vec![group(3, 100 + 7 * number as u32)];
        port
    };
    SwitchOutcome {
        name: "leaf1".to_owned(),
        ports: vec![receiver, sender(2), sender(3), sender(4), quiet_port("up", "spine1.p1")],
        headroom_peak_cells: 363,
        shared_peak_cells: 1_900,
        held_frames: 1_199,
        events: Vec::new(),
    }
}

fn quiet_port(name: &str, peer: &str) -> PortOutcome {
    let counts = PortSnapshot { name: name.to_owned(), ..PortSnapshot::default() };
    PortOutcome { peer: peer.to_owned(), counts, ..PortOutcome::default() }
}

fn group(priority: u8, headroom_peak_cells: u32) -> GroupOutcome {
    let peak = |peak_cells| Occupancy { peak_cells, ..Occupancy::default() };
    let counts = GroupSnapshot {
        no_drop: true,
        xoff_episodes: 12,
        shared: peak(XOFF_CELLS),
        headroom: peak(headroom_peak_cells),
        headroom_size_cells: HEADROOM_CELLS,
        ..GroupSnapshot::default()
    };
    GroupOutcome { priority, counts }
}

fn queue(queue: u8, pauses: u64, paused_ns: u64) -> QueueOutcome {
    let counts = QueueSnapshot {
        level: Occupancy { peak_cells: 2_000, ..Occupancy::default() },
        transmitted: FrameCount { frames: 149_800, bytes: 153_395_200 },
        pauses,
        paused_ns,
        ..QueueSnapshot::default()
    };
    QueueOutcome { queue, counts }
}

/// Host 1 receives; the others are paused on priority 3.
fn host(number: u64) -> HostOutcome {
    let (mut pauses, mut paused_ns) = ([0; 8], [0; 8]);
    if number > 1 {
        pauses[3] = 12;
        paused_ns[3] = 3_214_000 + number * 1_000;
    }
    HostOutcome {
        name: format!("h{number}"),
        peer: format!("leaf1.p{number}"),
        sent_frames: 50_000,
        received_frames: 0,
        foreign_frames: 0,
        pauses,
        paused_ns,
    }
}

/// The senders' groups rise to XOFF, use headroom, and drain to XON, repeatedly, until all is sent.
fn series() -> Series {
    let end = POINTS * 9 / 10;
    let shape = |point: u64, late: u64| -> (u32, u32) {
        let phase = (point + late) % PERIOD;
        match phase {
            _ if point < 20 || point >= end => (0, 0),
            0..16 => (XON_CELLS - 140 + 10 * phase as u32, 0),
            16..20 => (XOFF_CELLS, 30 * (phase as u32 - 15)),
            20..24 => (XOFF_CELLS, 30 * (24 - phase as u32)),
            _ => (XOFF_CELLS - 9 * (phase as u32 - 23), 0),
        }
    };
    let group = |port: u64| {
        let points = || (0..POINTS).map(|point| shape(point, 5 * port));
        GroupSeries {
            switch: "leaf1".to_owned(),
            port: format!("p{port}"),
            priority: 3,
            shared_cells: points().map(|(shared, _)| shared).collect(),
            headroom_cells: points().map(|(_, headroom)| headroom).collect(),
            xoff_cells: vec![XOFF_CELLS; POINTS as usize],
            xon_cells: vec![XON_CELLS; POINTS as usize],
            headroom_size_cells: HEADROOM_CELLS,
        }
    };
    let is_paused = |point: u64, port: u64| shape(point, 5 * port).1 > 0;
    let mut pauses: Vec<PauseSpan> = (2..=4_u64)
        .flat_map(|port| (0..POINTS).map(move |point| (point, port)))
        .filter(|&(point, port)| is_paused(point, port) && !is_paused(point - 1, port))
        .map(|(point, port)| PauseSpan {
            port: format!("h{port}"),
            priority: 3,
            from_ns: point * STEP_NS,
            to_ns: (point + 10) * STEP_NS,
        })
        .collect();
    pauses.sort_by_key(|span| span.from_ns);
    Series {
        at_ns: (1..=POINTS).map(|point| point * STEP_NS).collect(),
        groups: (2..=4).map(group).collect(),
        traffic_bps: [62.4e9, 36.9e9].map(|bps| throughput(bps, end)).to_vec(),
        pause_count: [0, 0, 0, pauses.len() as u64, 0, 0, 0, 0],
        pauses,
        completions: completions(),
    }
}

fn throughput(bps: f64, end: u64) -> Vec<f64> {
    let ripple = |point: u64| 1.0 + 0.05 * (point as f64 / 6.0).sin();
    (0..POINTS).map(|point| if (5..end).contains(&point) { bps * ripple(point) } else { 0.0 }).collect()
}

/// From 81 us to 1.9 ms, most of them near the lower end.
fn completions() -> Vec<MessageSpan> {
    let took_ns =
        |number: u64| 81_000 + 20 * number * number + if number > 290 { 16_000 * (number - 290) } else { 0 };
    let span = |number: u64| MessageSpan {
        traffic: 0,
        flow: 0,
        number,
        bytes: 1_000_000,
        from_ns: 50_000 * number,
        to_ns: 50_000 * number + took_ns(number),
        ideal_ns: 80_000.0,
    };
    (0..299).map(span).collect()
}
