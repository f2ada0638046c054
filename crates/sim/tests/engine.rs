//! Tests of the engine: times to the nanosecond, the equations of the totals under any faults, and
//! networks in parts, which have the results of the whole: every byte of them.

mod lab;

use endpoint::dcqcn::DcqcnSettings;
use endpoint::dctcp::DctcpSettings;
use endpoint::hpcc::HpccSettings;
use endpoint::swift::SwiftSettings;
use endpoint::timely::TimelySettings;
use lab::{
    GBPS, MS, US, cable, constant, host, one_frame, run, run_in_parts, run_partition, scenario, switch,
};
use proptest::prelude::*;
use sim::parts::Partition;
use sim::results::{OccupancyOf, OccupancySeries, TrafficOutcome};
use sim::scenario::{
    AckSettings, Expectation, Fault, FaultKind, Forwarding, Link, LinkEnd, Metric, NodeKind, Pattern,
    Retransmission, Route, Scenario, Scope, Start, Traffic, TransportSettings, parse,
};
use sim::{Results, Simulation};

/// Configuration with ports `p0` to `p{ports - 1}`; priority 3 is no-drop.
fn device(ports: usize, more: &str) -> String {
    let mut config = format!(
        "[buffer]\ncell_bytes = 256\ntotal_cells = 65536\nheadroom_cells = 12288\n{more}\
         [port-defaults]\ntrust = \"dot1p\"\n[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n\
         [port-defaults.pfc.priority.3]\nxoff = {{ static_cells = 200 }}\nheadroom_cells = 1000\n"
    );
    for port in 0..ports {
        config += &format!("[port.p{port}]\ninterface = \"i{port}\"\n");
    }
    config
}

/// A switch (node 0) with a host on each of its ports (nodes 1 to `hosts`), cables of 100 m at 10G.
fn star(hosts: usize, traffic: Vec<Traffic>, duration_ns: u64) -> Scenario {
    let mut nodes = vec![switch("switch", &device(hosts, ""))];
    nodes.extend((1..=hosts).map(|n| host(&format!("h{n}"))));
    let links = (1..=hosts).map(|n| cable((n, 0), (0, n - 1), 10 * GBPS, 100)).collect();
    scenario(nodes, links, traffic, duration_ns)
}

/// Acknowledgments of some traffic, with every kind of retransmission and congestion control.
fn acks_of(priority: u8, bytes: u16) -> Option<AckSettings> {
    let transport = match bytes % 6 {
        0 => Some(TransportSettings::Dctcp(DctcpSettings::PAPER)),
        1 => Some(TransportSettings::Timely(TimelySettings::PAPER)),
        2 => Some(TransportSettings::Swift(SwiftSettings::DEFAULT)),
        3 => Some(TransportSettings::Hpcc(HpccSettings::PAPER)),
        4 => None,
        _ => return None,
    };
    let retransmission = if bytes % 4 < 2 { Retransmission::Selective } else { Retransmission::GoBackN };
    let transport = transport.filter(|_| priority != 3); // which has DCQCN
    Some(AckSettings { priority, dscp: priority * 8, retransmission, timeout_ns: 50 * US, transport })
}

/// True if the frames collect telemetry. A scenario file with learning switches may not have it.
fn has_hpcc(acks: &AckSettings) -> bool {
    matches!(acks.transport, Some(TransportSettings::Hpcc(_)))
}

/// Returns when frames of each link arrive: (link, end that sent it, ns, length).
fn captured(scenario: &Scenario) -> Vec<(usize, usize, u64, u16)> {
    let mut simulation = Simulation::new(scenario);
    (0..scenario.links.len()).for_each(|link| simulation.capture(link));
    let mut seen = Vec::new();
    simulation.run_until(scenario.duration_ns, &mut |frame| {
        seen.push((frame.link, frame.from_end, frame.at_ns, frame.len));
    });
    seen
}

#[test]
fn a_frame_takes_the_time_that_its_bytes_and_the_cables_take() {
    let mut scenario = star(2, vec![one_frame("one", 1, 2, 3, 1000, 100)], MS);
    // 1000 bytes at 10 Gbit/s take 800 ns, 100 m take 500 ns; the switch stores and forwards.
    let (first, second) = (100 + 800 + 500, 100 + 2 * (800 + 500));
    assert_eq!(captured(&scenario), [(0, 0, first, 1000), (1, 1, second, 1000)]);
    let outcome = run(&scenario);
    let completion = outcome.traffic[0].completion.expect("it has arrived");
    assert_eq!((completion.messages, completion.max_ns), (1, 2600));
    // With preamble, FCS and gap, each frame takes 24 bytes (19.2 ns) more.
    scenario.links.iter_mut().for_each(|link| link.overhead_bytes = 24);
    assert_eq!(captured(&scenario), [(0, 0, first + 19, 1000), (1, 1, second + 38, 1000)]);
}

#[test]
fn a_line_carries_what_its_speed_is() {
    // 64 bytes at 400 Gbit/s take 1.28 ns, without rounding to nanoseconds.
    let mut scenario = star(2, vec![constant("all", 1, 2, 3, 64)], 100 * US);
    scenario.links.iter_mut().for_each(|link| link.speed_bps = 400 * GBPS);
    let outcome = run(&scenario);
    let in_flight_ns = 2 * (500 + 1) + 1;
    let frames = (100_000 - in_flight_ns) * 100 / 128;
    assert!(outcome.traffic[0].received_frames.abs_diff(frames) <= 1, "{:?}", outcome.traffic[0]);
    assert!((outcome.links[0].busy_percent[0] - 100.0).abs() < 0.01, "{:?}", outcome.links);
}

/// The receiver pauses its port for 20 µs. XOFF propagates to the sender, which stops and later
/// resumes.
#[test]
fn pause_stops_a_priority_and_no_other() {
    let traffic = vec![
        Traffic { rate_bps: 6 * GBPS, ..constant("no-drop", 1, 2, 3, 1000) },
        Traffic { rate_bps: GBPS, ..constant("other", 1, 2, 0, 1000) },
    ];
    let mut scenario = star(2, traffic, 200 * US);
    let storm = FaultKind::Storm { host: 2, priorities: 1 << 3, duration_ns: 100 * US };
    scenario.faults.push(Fault { at_ns: 20 * US, kind: storm });
    let outcome = run(&scenario);
    let [no_drop, other] = &outcome.traffic[..] else { panic!("two traffics") };
    assert_eq!((no_drop.lost_frames, other.lost_frames), (0, 0));
    let expected = |bps: u64| bps * 200 / 1_000_000 / 8000;
    assert!(other.received_frames.abs_diff(expected(GBPS)) <= 2, "never held back: {other:?}");
    assert!(no_drop.received_frames < expected(6 * GBPS) * 8 / 10, "held back: {no_drop:?}");
    // The receiver's port is paused from when the storm's frame takes effect until its XON does;
    // the sender is paused within that time.
    let honored = |at: u64| at + 48 + 500 + 3072;
    let spans: Vec<_> = outcome.series.pauses.iter().map(|span| (&*span.port, span.priority)).collect();
    assert_eq!(spans, [("switch.p1", 3), ("h1", 3)]);
    let span = &outcome.series.pauses[0];
    // A frame that has begun delays PFC: the receiver sends nothing here, so nothing delays it.
    assert_eq!((span.from_ns, span.to_ns), (honored(20 * US), honored(120 * US)));
    let sender = &outcome.series.pauses[1];
    assert!(span.from_ns < sender.from_ns && span.to_ns < sender.to_ns, "{:?}", outcome.series.pauses);
    assert_eq!(outcome.hosts[0].paused_ns[3], sender.to_ns - sender.from_ns);
}

/// Two storms of one host: each pauses its priorities for its own duration. A priority of both is
/// paused until the later end.
#[test]
fn storms_of_a_host_go_side_by_side() {
    let mut scenario = star(2, vec![constant("t", 2, 1, 0, 1000)], 400 * US);
    let mut storm = |at_us: u64, priorities: u8, us: u64| {
        let kind = FaultKind::Storm { host: 2, priorities, duration_ns: us * US };
        scenario.faults.push(Fault { at_ns: at_us * US, kind });
    };
    storm(10, 0b0001_1000, 100);
    storm(50, 0b0011_0000, 200);
    let config = device(2, "").replace("no_drop = [3]", "no_drop = [3, 4, 5]");
    scenario.nodes[0] = switch("switch", &config);
    let outcome = run(&scenario);
    let near = |ns: u64| (ns + 5 * US) / (10 * US) * 10;
    let spans = outcome.series.pauses.iter().filter(|span| span.port == "switch.p1");
    let spans: Vec<_> = spans.map(|span| (span.priority, near(span.from_ns), near(span.to_ns))).collect();
    assert_eq!(spans, [(3, 10, 110), (4, 10, 250), (5, 50, 250)], "in µs");
}

/// The threshold of a group that was empty for long is known for that time too: it moved with the
/// cells held by others.
#[test]
fn a_series_has_its_threshold_from_the_beginning() {
    let late = Traffic { start: Start::At(300 * US), ..constant("late", 1, 3, 3, 1000) };
    let traffic = vec![constant("a", 1, 3, 4, 1000), constant("b", 2, 3, 4, 1000), late];
    let mut scenario = star(3, traffic, 500 * US);
    scenario.sample_ns = 100 * US;
    let config = device(3, "").replace("no_drop = [3]", "no_drop = [3, 4]");
    let config = config.replace("xoff = { static_cells = 200 }", "xoff = { dynamic_percent = 5 }");
    scenario.nodes[0] = switch("switch", &config);
    let outcome = run(&scenario);
    let group = outcome.series.groups.iter().find(|group| (&*group.port, group.priority) == ("p0", 3));
    let group = group.expect("it held something");
    assert_eq!((group.shared_cells[1], group.shared_cells.len(), group.xoff_cells.len()), (0, 5, 5));
    // 45056 shared cells, alpha 1/16, less what priority 4 holds: two links into one add 500 cells
    // each 100 µs.
    assert!(group.xoff_cells[0] > group.xoff_cells[1], "{:?}", group.xoff_cells);
    assert!(group.xoff_cells.iter().all(|&cells| cells <= 45_056 / 16), "{:?}", group.xoff_cells);
}

#[test]
fn flows_of_a_host_share_its_line() {
    let shares = |priorities: [u8; 3]| {
        let traffic = priorities.iter().enumerate();
        let traffic =
            traffic.map(|(n, &priority)| constant(&format!("t{n}"), 1, 2, priority, 1000)).collect();
        let outcome = run(&star(2, traffic, 10 * MS));
        [0, 1, 2].map(|n| (outcome.traffic[n].throughput_bps / 1e8).round() / 10.0)
    };
    assert_eq!(shares([3, 3, 3]), [3.3; 3], "flows take turns");
    assert_eq!(shares([3, 3, 5]), [2.5, 2.5, 5.0], "priorities take turns, and the flows of each");
}

#[test]
fn patterns_send_their_frames() {
    let sent = |pattern: Pattern, rate_bps: u64| {
        let traffic = Traffic { pattern, rate_bps, ..constant("t", 1, 2, 0, 1000) };
        let outcome = run(&star(2, vec![traffic], 10 * MS - 1)).traffic.remove(0);
        (outcome.sent_frames, outcome.messages)
    };
    // A gigabit a second is a frame each 8 µs.
    assert_eq!(sent(Pattern::Constant, GBPS), (1250, 0));
    let on_off = Pattern::OnOff { on_ns: 80 * US, off_ns: 320 * US };
    assert_eq!(sent(on_off, GBPS), (250, 0), "10 frames in each of 25 periods");
    assert_eq!(sent(Pattern::Finite { bytes: 12_345 }, GBPS), (13, 1), "whole frames");
    assert_eq!(sent(Pattern::Incast { bytes: 5_000, every_ns: MS }, GBPS), (50, 10));
    let (frames, messages) = sent(Pattern::Poisson { bytes: 5_000 }, GBPS);
    assert!(
        messages.abs_diff(250) < 3 * 16 && frames == 5 * messages,
        "{frames} frames, {messages} messages"
    );
}

#[test]
fn traffic_can_wait_for_other_traffic() {
    let mut second = one_frame("second", 2, 1, 3, 1000, 0);
    second.start = Start::After(vec![0]);
    let mut first = one_frame("first", 1, 2, 3, 1000, 50);
    first.flows.push((3, 2));
    let outcome = run(&star(3, vec![first, second], MS));
    let arrivals: Vec<_> = outcome.traffic.iter().map(|traffic| traffic.last_arrival_ns).collect();
    // Two frames meet at the receiver's port: the second waits for the first.
    assert_eq!(arrivals, [Some(50 + 2600 + 800), Some(50 + 2600 + 800 + 2600)]);
}

#[test]
fn what_a_cut_loses_is_counted() {
    let mut scenario = star(2, vec![constant("all", 1, 2, 3, 1000)], MS);
    for (at_ns, link) in [(200 * US, 0), (600 * US, 1)] {
        scenario.faults.push(Fault { at_ns, kind: FaultKind::LinkDown { link } });
        scenario.faults.push(Fault { at_ns: at_ns + 100 * US, kind: FaultKind::LinkUp { link } });
    }
    let outcome = run(&scenario);
    let traffic = &outcome.traffic[0];
    let cut: u64 = outcome.links.iter().map(|link| link.cut_frames).sum();
    let drops = outcome.switches[0].ports.iter().flat_map(|port| port.drops());
    let dropped: u64 = drops.map(|(_, frames)| frames).sum();
    assert!(cut > 0 && dropped > 0, "{:?}", outcome.switches[0].ports);
    assert_eq!(traffic.lost_frames, cut + dropped, "{traffic:?}");
    // While the first link was cut, nothing was sent, and after that traffic continued.
    assert!(traffic.sent_frames.abs_diff(900_000 / 800) <= 2 && traffic.last_arrival_ns > Some(999_000));
}

/// Two hosts through a software switch with an iteration every 20 µs: the same throughput as
/// through a chip, a little later, without loss.
#[test]
fn a_software_switch_carries_as_much_a_little_later() {
    let chip = star(3, vec![constant("a", 1, 3, 3, 1000), constant("b", 2, 3, 3, 1000)], 10 * MS);
    let mut software = chip.clone();
    let NodeKind::Switch(device) = &mut software.nodes[0].kind else { panic!("a switch") };
    device.turn_ns = 20 * US;
    let [chip, software] = [chip, software].map(|scenario| run(&scenario));
    let received = |outcome: &Results| outcome.traffic.iter().map(|of| of.received_frames).sum::<u64>();
    let lost = |outcome: &Results| outcome.traffic.iter().map(|of| of.lost_frames).sum::<u64>();
    assert_eq!((lost(&chip), lost(&software)), (0, 0));
    let (chip_frames, software_frames) = (received(&chip), received(&software));
    assert!(
        software_frames <= chip_frames && software_frames * 100 > chip_frames * 98,
        "{chip_frames} {software_frames}"
    );
    let headroom = |outcome: &Results| outcome.switches[0].headroom_peak_cells;
    assert!(headroom(&software) > headroom(&chip), "the loop is part of the cable");
}

/// Pauses are so short that PFC is to be refreshed faster than its link can send it. A frame that
/// has not been sent is not repeated, so the queue at the link is bounded, and there is memory for
/// every cell (this once failed with a panic).
#[test]
fn pfc_that_is_refreshed_faster_than_its_line_sends_it_is_bounded() {
    let mut config = "[buffer]\ntotal_cells = 2000\nheadroom_cells = 500\n[port-defaults]\nspeed = \"3.3G\"\ntrust = \"dot1p\"\n\
                      [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\npause_time = 1\n"
        .to_owned();
    (0..3).for_each(|port| config += &format!("[port.p{port}]\ninterface = \"i{port}\"\n"));
    let mut device = switch("switch", &config);
    let NodeKind::Switch(settings) = &mut device.kind else { panic!("a switch") };
    settings.turn_ns = 50;
    let nodes = vec![device, host("h1"), host("h2"), host("h3")];
    let links = (1..=3).map(|n| cable((n, 0), (0, n - 1), 3_300_000_000, 10)).collect();
    let traffic = vec![constant("a", 1, 3, 3, 64), constant("b", 2, 3, 3, 64)];
    let outcome = run(&scenario(nodes, links, traffic, 2 * MS));
    let ports = &outcome.switches[0].ports;
    // A PFC frame of 60 bytes takes 145 ns on the link, which limits their number; a refresh every
    // 51 ns would be 39,000.
    for port in &ports[..2] {
        let sent = port.counts.pfc_sent.frames;
        assert!((1_000..=2 * MS / 145 + 1).contains(&sent), "{sent} PFC frames");
    }
}

/// Memory is allocated on use: switches of 2²⁴ cells, 16 GiB of headers if all were full, for one
/// frame.
#[test]
fn a_large_buffer_costs_what_it_holds() {
    let config =
        "[buffer]\ntotal_cells = 16777216\n[port.p0]\ninterface = \"a\"\n[port.p1]\ninterface = \"b\"\n";
    let mut nodes: Vec<_> = (0..16).map(|n| switch(&format!("s{n}"), config)).collect();
    nodes.extend([host("h1"), host("h2")]);
    let mut links: Vec<_> = (0..15).map(|n| cable((n, 1), (n + 1, 0), 10 * GBPS, 1)).collect();
    links.extend([cable((16, 0), (0, 0), 10 * GBPS, 1), cable((17, 0), (15, 1), 10 * GBPS, 1)]);
    let outcome = run(&scenario(nodes, links, vec![one_frame("one", 16, 17, 0, 1000, 0)], MS));
    assert_eq!(outcome.traffic[0].received_frames, 1);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    let peak_kb: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak_kb < 4 << 20, "{peak_kb} kB of addresses");
}

/// A switch of many hosts, some slow, in a network of two or three switches in a row.
#[derive(Debug, Clone)]
struct Random {
    switches: usize,
    /// Switch of each host.
    hosts: Vec<usize>,
    /// (from, to, priority, bytes, rate in Mbit/s, pattern)
    traffic: Vec<(usize, usize, u8, u16, u64, u8)>,
    /// (time in µs, kind, index)
    faults: Vec<(u64, u8, usize)>,
    turn_us: u64,
    learning: bool,
    seed: u64,
}

fn random_network() -> impl Strategy<Value = Random> {
    let traffic = (0usize..8, 0usize..8, 0u8..8, 64u16..2000, 1u64..12_000, 0u8..5);
    (
        1usize..4,
        proptest::collection::vec(0usize..4, 3..8),
        proptest::collection::vec(traffic, 1..8),
        proptest::collection::vec((0u64..900, 0u8..4, 0usize..8), 0..4),
        prop_oneof![Just(0u64), Just(0), 1u64..30],
        any::<bool>(),
        any::<u64>(),
    )
        .prop_map(|(switches, hosts, traffic, faults, turn_us, learning, seed)| Random {
            switches,
            hosts: hosts.into_iter().map(|switch| switch % switches).collect(),
            traffic,
            faults,
            turn_us,
            learning,
            seed,
        })
}

impl Random {
    fn scenario(&self) -> Scenario {
        const PORTS: usize = 12;
        let ecn = "[wred.t.queue.3]\necn = true\ngreen = { low_cells = 20, high_cells = 100, probability_percent = 50 }\n";
        let config = device(PORTS, ecn).replace("[port-defaults.pfc]", "wred = \"t\"\n[port-defaults.pfc]");
        let mut nodes: Vec<_> = (0..self.switches).map(|n| switch(&format!("s{n}"), &config)).collect();
        for node in &mut nodes {
            let NodeKind::Switch(device) = &mut node.kind else { continue };
            device.turn_ns = self.turn_us * US;
        }
        let mut links: Vec<Link> =
            (1..self.switches).map(|n| cable((n - 1, PORTS - 1), (n, PORTS - 2), 10 * GBPS, 50)).collect();
        for (n, &switch) in self.hosts.iter().enumerate() {
            nodes.push(host(&format!("h{n}")));
            let speed_bps = if n % 3 == 0 { GBPS } else { 10 * GBPS };
            links.push(cable((self.switches + n, 0), (switch, n), speed_bps, 10 * n as u32));
        }
        let node = |host: usize| self.switches + host % self.hosts.len();
        let traffic = self.traffic.iter().filter(|of| node(of.0) != node(of.1)).map(
            |&(from, to, priority, bytes, mbps, kind)| {
                let pattern = match kind {
                    0 => Pattern::OnOff { on_ns: 30 * US, off_ns: 50 * US },
                    1 => Pattern::Finite { bytes: 100_000 },
                    2 => Pattern::Poisson { bytes: 3 * u64::from(bytes) },
                    3 => Pattern::Incast { bytes: 20_000, every_ns: 100 * US },
                    _ => Pattern::Constant,
                };
                let rate_bps = mbps * 1_000_000;
                let of = constant("t", node(from), node(to), priority, bytes);
                Traffic {
                    pattern,
                    rate_bps,
                    dcqcn: (priority == 3).then_some(DcqcnSettings::PAPER),
                    acks: acks_of(priority, bytes).filter(|acks| !(self.learning && has_hpcc(acks))),
                    stop_ns: 800 * US,
                    ..of
                }
            },
        );
        let mut scenario = scenario(nodes, links.clone(), traffic.collect(), MS);
        scenario.seed = self.seed;
        scenario.sample_ns = 50 * US;
        scenario.convergence_ns = self.seed.is_multiple_of(2).then_some(70 * US);
        scenario.forwarding = if self.learning { Forwarding::Learning } else { Forwarding::ShortestPath };
        for &(at_us, kind, which) in &self.faults {
            let link = which % links.len();
            let kind = match kind {
                0 => FaultKind::LinkDown { link },
                1 => FaultKind::LinkUp { link },
                2 => FaultKind::Storm { host: node(which), priorities: 1 << 3, duration_ns: 100 * US },
                // To any port, even one without a link.
                _ => FaultKind::Route(Route { switch: 0, host: node(which), port: which }),
            };
            scenario.faults.push(Fault { at_ns: at_us * US, kind });
        }
        scenario.faults.sort_by_key(|fault| fault.at_ns);
        scenario
    }

    /// True if only congestion can lose a frame.
    fn is_calm(&self) -> bool {
        self.faults.iter().all(|fault| fault.1 == 2)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    /// Under any traffic and faults, nodes and links balance (`run` asserts it), frames are where
    /// they are counted, no-drop frames are lost only where the network was changed, order is kept,
    /// and a second run gives the same results, in several parts too.
    #[test]
    fn everything_adds_up(random in random_network()) {
        let scenario = random.scenario();
        let outcome = run(&scenario);
        for traffic in &outcome.traffic {
            prop_assert!(traffic.received_frames + traffic.in_network_frames + traffic.lost_frames >= traffic.sent_frames);
            if random.is_calm() {
                let accounted = traffic.received_frames + traffic.in_network_frames + traffic.lost_frames;
                // What is sent again may have arrived before, and comes out of order.
                if traffic.retransmitted_frames.unwrap_or(0) == 0 {
                    prop_assert_eq!(accounted, traffic.sent_frames, "{:?}", traffic);
                    prop_assert_eq!(traffic.reordered_frames, 0);
                }
                prop_assert!(traffic.priority != 3 || traffic.lost_frames == 0, "{:?}", traffic);
            }
        }
        for most in [2, 4] {
            prop_assert_eq!(&run_in_parts(&scenario, most), &outcome, "{} parts", most);
        }
        prop_assert_eq!(run(&scenario), outcome);
    }
}

/// The receiver never speaks, so its frames are flooded, and the copy for it is dropped where its
/// port is full. Copies that other hosts receive, or that wait for them, hide no loss.
#[test]
fn copies_for_other_hosts_hide_no_loss() {
    let traffic = [2, 3].map(|from| constant("t", from, 1, 0, 1000));
    let mut scenario = star(5, traffic.to_vec(), 5 * MS);
    scenario.forwarding = Forwarding::Learning;
    let outcome = run(&scenario);
    let of = |count: fn(&TrafficOutcome) -> u64| outcome.traffic.iter().map(count).sum::<u64>();
    let to_receiver = &outcome.switches[0].ports[0];
    let dropped: u64 = to_receiver.drops().map(|(_, frames)| frames).sum();
    let ingress: u64 = to_receiver.counts.input_dropped.frames;
    assert!(dropped > 100 && ingress == 0, "{dropped} {ingress}");
    assert_eq!(of(|traffic| traffic.lost_frames), dropped);
    let accounted = of(|traffic| traffic.received_frames + traffic.in_network_frames) + dropped;
    assert_eq!(of(|traffic| traffic.sent_frames), accounted);
}

/// Two flows share a port until one ends. Before the warm-up nothing is measured.
#[test]
fn results_are_measured_after_the_warm_up() {
    let mut traffic = constant("t", 2, 1, 0, 1000);
    traffic.flows.push((3, 1));
    let message = one_frame("early", 4, 1, 0, 1000, 0);
    let mut scenario = star(5, vec![traffic, message], 4 * MS);
    let all = run(&scenario);
    let [a, b] = [0, 1].map(|flow| all.flows[flow].throughput_bps);
    let jain = (a + b).powi(2) / (2.0 * (a * a + b * b));
    let fairness = all.traffic[0].fairness.unwrap();
    assert!((fairness - jain).abs() < 1e-9 && jain > 0.98, "{fairness}");
    assert_eq!(all.traffic[1].completion.map(|completion| completion.messages), Some(1));
    scenario.warmup_ns = 2 * MS;
    let (metric, at_most) = (Metric::SlowestCompletionNs, Some(1e6));
    scenario.expectations = vec![Expectation { line: 1, scope: Scope::All, metric, at_least: None, at_most }];
    let late = run(&scenario);
    assert!(late.holds(), "no message is unfinished: {:?}", late.expectations);
    let bps = |outcome: &Results| (outcome.traffic[0].throughput_bps / 1e6).round();
    assert_eq!(
        (bps(&all), bps(&late)),
        (9_992.0, 10_000.0),
        "the first frames need 2.6 µs, one is another's"
    );
    assert_eq!((late.traffic[1].throughput_bps, late.traffic[1].completion), (0.0, None));
    assert_eq!((late.traffic[1].messages, late.traffic[1].completed), (1, 1), "it is complete anyway");
    assert_eq!(
        late.traffic[0].received_frames, all.traffic[0].received_frames,
        "frames count from the start"
    );
    let sum: f64 = late.flows[..2].iter().map(|flow| flow.throughput_bps).sum();
    assert!((sum - late.traffic[0].throughput_bps).abs() < 1.0, "{sum}");
    assert_eq!(late.flows.iter().map(|flow| flow.received_frames).sum::<u64>(), {
        late.traffic.iter().map(|traffic| traffic.received_frames).sum::<u64>()
    });
}

/// The sender is idle until 60 µs, and then sends 800 ns every 1.6 µs: 25 frames, which are half of
/// 40 µs. Host 2 pauses its port from 20 µs to 120 µs, as of when its PFC frames take effect.
#[test]
fn utilization_and_pauses_are_those_of_the_window() {
    let sends = Traffic { rate_bps: 5 * GBPS, start: Start::At(60 * US), ..constant("t", 1, 2, 3, 1000) };
    let mut scenario = star(2, vec![sends], 100 * US);
    let storm = FaultKind::Storm { host: 2, priorities: 1 << 3, duration_ns: 70 * US };
    scenario.faults.push(Fault { at_ns: 20 * US, kind: storm });
    let pauses = |outcome: &Results| {
        let port = &outcome.switches[0].ports[1];
        let priority = &port.priorities[0];
        let of_queue = port.queues.iter().find(|queue| queue.queue == 3).expect("it held frames");
        assert_eq!(of_queue.counts.paused_ns, priority.counts.paused_ns);
        (priority.counts.pauses, priority.counts.paused_ns)
    };
    let all = run(&scenario);
    assert_eq!((all.links[0].busy_percent[0], pauses(&all)), (20.0, (1, 70 * US)));
    scenario.warmup_ns = 50 * US;
    let late = run(&scenario);
    let honored = |at: u64| at + 48 + 500 + 3072;
    assert_eq!(late.links[0].busy_percent[0], 40.0);
    assert_eq!(pauses(&late), (0, honored(90 * US) - 50 * US), "it began before");
    assert_eq!(late.traffic[0].sent_frames, all.traffic[0].sent_frames, "frames count from the start");
    // The window may begin within a frame: 400 ns of one, and 800 ns of each of 24.
    scenario.warmup_ns = 60 * US + 400;
    let percent = run(&scenario).links[0].busy_percent[0];
    assert!((percent - 19.6 / 39.6 * 100.0).abs() < 1e-9, "{percent}");
}

/// What is counted in the window, and before it, is what is counted in all.
#[test]
fn time_in_xoff_is_that_of_the_window() {
    let incast = [2, 3].map(|from| constant("t", from, 1, 3, 1000));
    let mut scenario = star(3, incast.to_vec(), 2 * MS);
    let counts = |outcome: &Results| {
        let ports = &outcome.switches[0].ports;
        let groups: Vec<_> = ports
            .iter()
            .flat_map(|port| &port.groups)
            .map(|group| [group.counts.xoff_episodes, group.counts.xoff_ns])
            .collect();
        let hosts = outcome.hosts.iter().map(|host| [host.pauses[3], host.paused_ns[3]]);
        groups.into_iter().chain(hosts).collect::<Vec<_>>()
    };
    let whole = run(&scenario);
    let warmup_ns = 700 * US + 1;
    let before = run(&Scenario { duration_ns: warmup_ns, ..scenario.clone() });
    scenario.warmup_ns = warmup_ns;
    let metric = Metric::XoffEpisodes;
    let expected = Expectation { line: 1, scope: Scope::All, metric, at_least: None, at_most: Some(1e9) };
    scenario.expectations = vec![expected];
    let window = run(&scenario);
    let sum: Vec<_> =
        counts(&before).iter().zip(counts(&window)).map(|([a, b], [c, d])| [a + c, b + d]).collect();
    assert_eq!(sum, counts(&whole));
    assert!(counts(&before).iter().chain(&counts(&window)).filter(|[count, _]| *count > 10).count() == 8);
    let episodes: u64 =
        whole.switches[0].ports[1..].iter().map(|port| port.groups[0].counts.xoff_episodes).sum();
    assert_eq!(window.expectations[0].measured, episodes as f64, "expectations are of the whole run");
}

/// Lossy traffic, recorded as cells of its group at ingress and of its queue at egress, in the
/// whole network and in parts of it.
#[test]
fn queues_and_lossy_groups_have_series() {
    let mut scenario = leaf_spine(POISSON);
    scenario.sample_ns = 10 * US;
    let mut simulation = Simulation::new(&scenario);
    simulation.record_occupancy();
    simulation.run_until(scenario.duration_ns, &mut |_| {});
    let whole = simulation.finish();
    let series = &whole.series;
    assert_eq!(series.at_ns.len(), 50);
    assert!(series.occupancy.iter().all(|of| of.peak_cells.len() == 50));
    let (groups, queues): (Vec<_>, Vec<_>) =
        series.occupancy.iter().partition(|of| matches!(of.of, OccupancyOf::Group(_)));
    assert_eq!((groups.len(), queues.len()), (28, 28), "each of 28 ports");
    let peak = |of: &OccupancySeries| of.peak_cells.iter().copied().max().unwrap_or(0);
    let port = &whole.switches[0].ports[0];
    let queue =
        queues.iter().find(|of| of.port == format!("{}.{}", whole.switches[0].name, port.counts.name));
    assert_eq!(queue.map(|of| peak(of)), Some(port.queues[0].counts.level.peak_cells));
    assert!(run(&scenario).series.occupancy.is_empty(), "on request only");
    for most in [2, 4] {
        let mut partition = Partition::new(&scenario, most);
        partition.record_occupancy();
        assert!(run_partition(&partition) == whole, "{most} parts");
    }
}

/// A flow whose messages come at random times may have none: then it has not begun.
#[test]
fn flows_have_bytes_and_slowdowns() {
    let message = |name: &str, from: usize, bytes: u64, at_us: u64| Traffic {
        pattern: Pattern::Finite { bytes },
        start: Start::At(at_us * US),
        ..constant(name, from, 1, 0, 1000)
    };
    let rare = Traffic {
        pattern: Pattern::Poisson { bytes: 1_000_000_000 },
        rate_bps: GBPS,
        ..constant("rare", 4, 1, 0, 1000)
    };
    let traffic = vec![message("a", 2, 10_000, 0), message("b", 3, 20_000, 0), rare];
    let outcome = run(&star(4, traffic, 20 * US));
    let [a, b, rare] = &outcome.flows[..] else { panic!("three flows") };
    assert_eq!((a.begun_ns, rare.begun_ns, rare.sent_frames), (Some(0), None, 0));
    // Ten frames of each share the port, frame by frame: the last of the first message leaves
    // as the 19th or 20th.
    assert_eq!(a.received_bytes, 10_000);
    let ideal_ns = 11.0 * 800.0 + 2.0 * 500.0;
    assert_eq!(a.ideal_ns, Some(ideal_ns));
    let slowdown = a.slowdown.expect("its message arrived");
    let frames = (slowdown * ideal_ns - 1000.0) / 800.0;
    assert!(frames == 20.0 || frames == 21.0, "{frames}");
    // The other message has 20 frames, and 22 arrive in 20 µs.
    assert_eq!((b.slowdown, b.received_bytes), (None, 22_000 - 10_000));
    let [open] = &outcome.series.unfinished[..] else { panic!("{:?}", outcome.series.unfinished) };
    assert_eq!((open.flow, open.number, open.bytes, open.from_ns, open.to_ns), (1, 0, 20_000, 0, 20 * US));
}

#[test]
fn a_port_that_nothing_is_linked_to_takes_nothing() {
    let mut scenario = star(2, vec![constant("t", 1, 2, 3, 1000)], MS);
    scenario.nodes[0] = switch("switch", &device(5, ""));
    scenario.routes.push(Route { switch: 0, host: 2, port: 4 });
    let outcome = run(&scenario);
    assert_eq!(outcome.traffic[0].received_frames, 0);
    assert_eq!(
        outcome.traffic[0].lost_frames,
        outcome.traffic[0].sent_frames - outcome.traffic[0].in_network_frames
    );
    assert_eq!(scenario.links[1].ends[1], LinkEnd { node: 0, port: 1 });
}

/// Reads a leaf–spine network of four leaves and two spines with `more` in it.
fn leaf_spine(more: &str) -> Scenario {
    let network = "[network]\nkind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 3\n";
    let text = format!("duration = \"500us\"\n{more}\n{network}");
    parse("test.toml", &text, &mut |path| Err(format!("{path} is not there"))).unwrap_or_else(|mistakes| {
        panic!("{}", mistakes.iter().map(|mistakes| format!("{mistakes}\n")).collect::<String>())
    })
}

const EVERY_PAIR: &str =
    "traffic = [{ name = \"all\", from = \"h[1-12]\", to = \"h[1-12]\", bytes = 20000 }]";
const POISSON: &str = "traffic = [{ name = \"some\", from = \"h[1-12]\", to = \"h[1-12]\", rate = \"3G\", \
    pattern = \"poisson\", bytes = 9000 }]";

/// Returns the number of parts.
fn parts(scenario: &Scenario, most: usize) -> usize {
    Partition::new(scenario, most).count()
}

#[test]
fn a_fabric_in_parts_has_the_results_of_the_whole() {
    for traffic in [EVERY_PAIR, POISSON] {
        for multipath in ["receiver", "flow", "spray", "adaptive"] {
            let scenario = leaf_spine(&format!("multipath = \"{multipath}\"\n{traffic}"));
            let whole = run(&scenario);
            assert!(whole.frame_hops > 1000, "{multipath}: {}", whole.frame_hops);
            for most in [1, 2, 3, 4] {
                assert_eq!(parts(&scenario, most), most);
                assert!(run_in_parts(&scenario, most) == whole, "{multipath}, {most} parts");
            }
        }
    }
}

/// Latencies, too: of traffic with retransmission, of frames that are reordered, and while cables
/// are cut.
#[test]
fn latency_in_parts_is_that_of_the_whole() {
    let acked = "traffic = [{ name = \"t\", from = \"h[2-12]\", to = \"h1\", bytes = 400000, dctcp = true, \
        retransmission_timeout = \"20us\" }]";
    for traffic in [EVERY_PAIR, POISSON, acked] {
        for multipath in ["flow", "spray"] {
            let settings = format!("latency = true\nwarmup = \"2us\"\nmultipath = \"{multipath}\"");
            let scenario = leaf_spine(&format!("{settings}\n{traffic}"));
            let cut = |link| [FaultKind::LinkDown { link }, FaultKind::LinkUp { link }];
            let faults = (0..scenario.links.len()).flat_map(cut).zip(1..);
            let faults: Vec<_> = faults.map(|(kind, number)| (number * 4 * US, kind)).collect();
            let scenario = with_faults(scenario, &faults);
            let whole = run(&scenario);
            let of_traffic = &whole.traffic[0];
            let frames = of_traffic.latency.map_or(0, |latency| latency.frames);
            let lost = of_traffic.lost_frames + of_traffic.retransmitted_frames.unwrap_or(0);
            assert!(
                frames > 100 && lost > 0 && whole.hops.len() > 5,
                "the test would show nothing: {frames} frames, {lost} lost: {multipath}, {traffic}"
            );
            for most in [1, 2, 3, 4, 6] {
                let in_parts = run_in_parts(&scenario, most);
                assert!(in_parts == whole, "{multipath}, {most} parts: {traffic}");
            }
        }
    }
}

/// What acts without delay is in one part, with the switches of its hosts: the ranks of a
/// collective are everywhere here, so only the spines remain beside them.
#[test]
fn what_has_no_delay_is_in_one_part() {
    let ring = "traffic = [{ name = \"r\", from = \"h[1-12]\", bytes = 120000, pattern = \"all-reduce\", \
        algorithm = \"ring\" }]";
    let scenario = leaf_spine(ring);
    assert_eq!(parts(&scenario, 8), 3);
    let whole = run(&scenario);
    assert_eq!(whole.traffic[0].completed, whole.traffic[0].messages);
    assert!(run_in_parts(&scenario, 8) == whole);
}

/// A small network has as many parts as switches.
#[test]
fn there_are_no_more_parts_than_switches() {
    assert_eq!(parts(&leaf_spine(EVERY_PAIR), 64), 6);
}

/// The telemetry of HPCC goes through every part, with frames and their acknowledgments, of which
/// some are lost: without it congestion control would see other queues.
#[test]
fn telemetry_in_parts_is_that_of_the_whole() {
    for retransmission in ["selective", "go-back-n"] {
        for multipath in ["flow", "spray"] {
            let traffic = format!(
                "traffic = [{{ name = \"t\", from = \"h[2-12]\", to = \"h1\", bytes = 400000, hpcc = true, \
                 retransmission = \"{retransmission}\", retransmission_timeout = \"20us\" }}]"
            );
            let scenario = leaf_spine(&format!("multipath = \"{multipath}\"\n{traffic}"));
            let cut = |link| [FaultKind::LinkDown { link }, FaultKind::LinkUp { link }];
            let faults = (0..scenario.links.len()).flat_map(cut).zip(1..);
            let faults: Vec<_> = faults.map(|(kind, number)| (number * 4 * US, kind)).collect();
            for scenario in [with_faults(scenario.clone(), &faults), scenario] {
                let whole = run(&scenario);
                let again = whole.traffic[0].retransmitted_frames.unwrap_or(0);
                assert!(again > 0 || scenario.faults.is_empty(), "{retransmission}, {multipath}");
                for most in [2, 3, 4, 6] {
                    assert!(run_in_parts(&scenario, most) == whole, "{retransmission}, {multipath}, {most}");
                }
            }
        }
    }
}

/// A window of 128 frames that is sent again while the first copies are on their way: each copy has
/// records of its own. A retransmission timeout below the round-trip time does that.
#[test]
fn copies_of_a_frame_do_not_share_telemetry() {
    for (frames, timeout) in [(128, "40us"), (64, "12us"), (128, "12us")] {
        let text = format!(
            "duration = \"1ms\"\n[network]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 1\nhosts_per_leaf = 2\n\
             fabric_cable_m = 5000\n[[traffic]]\nname = \"t\"\nfrom = \"h1\"\nto = \"h3\"\npattern = \"incast\"\n\
             every = \"130us\"\nbytes = {}\nframe_bytes = 1000\nhpcc = true\nretransmission_timeout = \"{timeout}\"\n\
             [[traffic]]\nname = \"u\"\nfrom = [\"h2\", \"h4\"]\nto = \"h3\"\npattern = \"poisson\"\nrate = \"40G\"\n\
             bytes = 30000\n",
            1000 * frames
        );
        let scenario = sim::scenario::parse("x.toml", &text, &mut |path| Err(path.to_owned())).unwrap();
        let whole = run(&scenario);
        assert!(whole.traffic[0].retransmitted_frames >= Some(frames), "{frames} {timeout}");
        for most in [2, 3] {
            assert!(run_in_parts(&scenario, most) == whole, "{frames} {timeout}: {most} parts");
        }
    }
}

/// At 100 Gbit/s the shortest frame, 60 bytes and 24 around it, takes 6.72 ns.
#[test]
fn a_window_is_as_long_as_the_shortest_flight() {
    let mut scenario = leaf_spine(EVERY_PAIR);
    for link in &mut scenario.links {
        (link.speed_bps, link.propagation_ns, link.overhead_bytes) = (100 * GBPS, 25, 24);
    }
    let partition = Partition::new(&scenario, 2);
    assert_eq!(partition.window(1000), Some(1000 + 6720 + 25_000));
    let end = 500 * US * 1000;
    assert_eq!((partition.window(end), partition.window(end + 1)), (Some(end + 1), None));
}

/// Gives a scenario these faults.
fn with_faults(mut scenario: Scenario, faults: &[(u64, FaultKind)]) -> Scenario {
    scenario.faults = faults.iter().map(|&(at_ns, kind)| Fault { at_ns, kind }).collect();
    scenario
}

/// What a fault makes a port send at once, another at the same time cuts: on the way to another
/// part, too.
#[test]
fn faults_at_one_time_are_the_same_in_parts() {
    let scenario = leaf_spine(EVERY_PAIR);
    let between = |link: &Link| {
        link.ends.iter().all(|end| matches!(scenario.nodes[end.node].kind, NodeKind::Switch(_)))
    };
    let links: Vec<usize> =
        (0..scenario.links.len()).filter(|&link| between(&scenario.links[link])).collect();
    for &link in &links {
        let others = links.iter().filter(|&&other| other != link);
        let mut faults = vec![(20 * US, FaultKind::LinkDown { link })];
        faults.extend(others.map(|&other| (40 * US, FaultKind::LinkDown { link: other })));
        faults.extend([(40 * US, FaultKind::LinkUp { link }), (40 * US, FaultKind::LinkDown { link })]);
        faults.extend(links.iter().map(|&link| (90 * US, FaultKind::LinkUp { link })));
        let faulty = with_faults(leaf_spine(EVERY_PAIR), &faults);
        let whole = run(&faulty);
        for most in [2, 3, 6] {
            assert!(run_in_parts(&faulty, most) == whole, "link {link}, {most} parts");
        }
    }
}
