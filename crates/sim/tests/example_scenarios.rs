//! The scenarios of `config/scenarios`: each meets its expectations, everything adds up on every
//! node, and the statements in their comments are true.

mod lab;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use sim::parts::Partition;
use sim::results::{PauseSpan, PortOutcome, TrafficOutcome};
use sim::scenario::{FaultKind, Scenario, parse};
use sim::{Results, Simulation};
use switch::Event;

const MS: u64 = 1_000_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/scenarios")
}

/// Lists the scenarios, with the folders in which some are, in order.
fn scenarios() -> Vec<String> {
    let of = |below: &str| {
        let names = files(&folder().join(below)).into_iter();
        names.map(|name| format!("{below}{name}")).collect::<Vec<_>>()
    };
    let mut names = ["", "deadlock/", "inspur/", "large/", "papers/"].map(of).concat();
    names.sort();
    names
}

/// Lists the file names of a folder, in order.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".toml")).collect();
    names.sort();
    names
}

/// Reads a scenario with another device in place of devices/deadlock-detection.toml.
fn read_with(name: &str, device: &str) -> Scenario {
    let text = std::fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let text = text.replace("devices/deadlock-detection.toml", &format!("devices/{device}"));
    let file = folder().join(name);
    let mut load =
        |path: &str| std::fs::read_to_string(file.with_file_name(path)).map_err(|error| error.to_string());
    parse(name, &text, &mut load).unwrap_or_else(|_| panic!("{name} with {device}"))
}

/// Reads a file like `sluice sim`: paths of configurations are relative to it.
fn read(name: &str) -> Scenario {
    let text = std::fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(text.starts_with("# "), "{name} does not open with what it shows");
    let file = folder().join(name);
    let mut load =
        |path: &str| std::fs::read_to_string(file.with_file_name(path)).map_err(|error| error.to_string());
    parse(name, &text, &mut load).unwrap_or_else(|mistakes| {
        panic!("{}", mistakes.iter().map(|mistakes| format!("{mistakes}\n")).collect::<String>())
    })
}

fn run(scenario: &Scenario) -> Results {
    let mut simulation = Simulation::new(scenario);
    simulation.run_until(scenario.duration_ns, &mut |_| {});
    simulation.finish()
}

/// Lists what does not hold, or does not add up.
fn complaints(name: &str, outcome: &Results) -> String {
    let mut text = String::new();
    if outcome.expectations.is_empty() {
        let _ = writeln!(text, "{name} expects nothing");
    }
    for expectation in outcome.expectations.iter().filter(|expectation| !expectation.holds) {
        let measured = expectation.metric.spell(expectation.measured);
        let _ = writeln!(text, "{name}:{}: {}: {measured}", expectation.line, expectation.expected);
    }
    for imbalance in &outcome.imbalances {
        let _ = writeln!(text, "{name}: {imbalance}");
    }
    text
}

/// Returns the main figures: one line for all traffic, and one for each.
fn main_figures(name: &str, outcome: &Results) -> String {
    let groups = || outcome.switches.iter().flat_map(|switch| &switch.ports).flat_map(|port| &port.groups);
    let (pauses, xoffs) =
        (outcome.series.pauses.len(), groups().map(|group| group.counts.xoff_episodes).sum::<u64>());
    let headroom = groups().map(|group| group.counts.headroom.peak_cells).max().unwrap_or(0);
    let mut text = format!("{name}: {xoffs} XOFF, {pauses} pauses, at most {headroom} cells of headroom\n");
    for traffic in &outcome.traffic {
        let completion = match traffic.completion {
            Some(completion) => format!(
                "{:>6} of {:>6} messages, slowest {:>8.1} us",
                completion.messages,
                traffic.messages,
                completion.max_ns as f64 / 1e3
            ),
            None => String::new(),
        };
        let line = format!(
            "  {:<14} {:>1} {:>8} {:>8} {:>6} {:>6} {:>6} {:>10.3}  {completion}",
            traffic.name,
            traffic.priority,
            traffic.sent_frames,
            traffic.received_frames,
            traffic.lost_frames,
            traffic.in_network_frames,
            traffic.marked_frames,
            traffic.throughput_bps / 1e9,
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// The same bytes in several parts.
#[test]
fn every_scenario_is_the_same_in_parts() {
    let mut divided = 0;
    for name in scenarios() {
        let mut scenario = read(&name);
        scenario.duration_ns = scenario.duration_ns.min(2 * MS);
        let whole = run(&scenario);
        divided += usize::from(Partition::new(&scenario, 2).count() == 2);
        for most in [2, 4] {
            assert!(lab::run_in_parts(&scenario, most) == whole, "{name} in {most} parts");
        }
    }
    assert!(divided >= 10, "{divided} scenarios have two parts");
}

/// Among them: rdma (row 254, with row 209's table of eight queues), flow-control (row 288),
/// inspur-profile-a (row 332).
#[test]
fn every_scenario_meets_its_expectations() {
    let (mut table, mut wrong) = (
        String::from("traffic, priority: sent, received, lost, left in the network, marked, Gbit/s\n\n"),
        String::new(),
    );
    let names = scenarios();
    assert!(names.len() >= 12, "{names:?}");
    for name in names {
        let outcome = run(&read(&name));
        wrong += &complaints(&name, &outcome);
        table += &main_figures(&name, &outcome);
    }
    assert!(wrong.is_empty(), "{wrong}\n{table}");
    insta::assert_snapshot!(table);
}

/// The same seed gives the same results to the last pause; another seed does not if anything is
/// random.
#[test]
fn the_same_seed_gives_the_same_outcome() {
    for name in scenarios() {
        let scenario = read(&name);
        assert!(run(&scenario) == run(&scenario), "{name}");
    }
    let scenario = read("incast-dcqcn.toml");
    let other = Scenario { seed: scenario.seed + 1, ..scenario.clone() };
    assert_ne!(run(&scenario).traffic, run(&other).traffic);
}

/// The devices are configurations that the daemon accepts without a warning.
#[test]
fn the_devices_have_no_warnings() {
    let folder = folder().join("devices");
    for name in files(&folder) {
        let text = std::fs::read_to_string(folder.join(&name)).expect("a file");
        assert!(text.starts_with("# "), "{name} does not open with what it is");
        let config = config::parse(&name, &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(config.warnings.list(), [], "{name}");
    }
}

/// A wrong expectation is detected.
#[test]
fn a_scenario_that_does_not_hold_is_found() {
    let mut scenario = read("pause-upstream.toml");
    scenario.expectations.truncate(1);
    scenario.expectations[0].at_least = Some(1.0);
    scenario.expectations[0].at_most = None;
    let line = scenario.expectations[0].line;
    let found = complaints("some.toml", &run(&scenario));
    assert_eq!(found, format!("some.toml:{line}: lost ≥ 1: 0\n"));
    scenario.expectations.clear();
    assert_eq!(complaints("some.toml", &run(&scenario)), "some.toml expects nothing\n");
}

fn pauses_of<'o>(outcome: &'o Results, port: &str) -> Vec<&'o PauseSpan> {
    outcome.series.pauses.iter().filter(|span| span.port == port).collect()
}

fn port_of<'o>(outcome: &'o Results, switch: &str, port: &str) -> &'o PortOutcome {
    let of = outcome.switches.iter().find(|of| of.name == switch).expect("the switch");
    of.ports.iter().find(|of| of.counts.name == port).expect("the port")
}

fn traffic_of<'o>(outcome: &'o Results, name: &str) -> &'o TrafficOutcome {
    outcome.traffic.iter().find(|traffic| traffic.name == name).expect("the traffic")
}

/// Figures 9 and 10: device B pauses A, later A pauses C, later C pauses the server, and nothing
/// else is paused.
#[test]
fn pauses_travel_upstream_hop_by_hop() {
    let outcome = run(&read("pause-upstream.toml"));
    let mut first: Vec<(u64, &str)> = Vec::new();
    for span in &outcome.series.pauses {
        assert_eq!(span.priority, 3);
        if first.iter().all(|(_, port)| *port != span.port) {
            first.push((span.from_ns, &span.port));
        }
    }
    let order: Vec<&str> = first.iter().map(|(_, port)| *port).collect();
    assert_eq!(order, ["device-a.port2", "device-c.port2", "server1"]);
    assert!(first.is_sorted_by(|a, b| a.0 + 10_000 < b.0), "{first:?}");
    // The cells that each device holds before it pauses the previous one: 200 cells, of which XON
    // leaves 16 free.
    for device in ["device-a", "device-b", "device-c"] {
        let group = &port_of(&outcome, device, "port1").groups[1];
        assert_eq!((group.priority, group.counts.shared.peak_cells), (3, 200), "{device}");
    }
}

/// Figures 3-11 to 3-15: PFC while switch B is congested, not before and not after; each xoff is
/// followed by its xon.
#[test]
fn the_run_of_pfc_goes_as_its_figures() {
    let outcome = run(&read("inspur/pfc.toml"));
    let pauses = pauses_of(&outcome, "switch-a.ethernet2");
    assert!(pauses.iter().all(|span| span.from_ns > MS && span.to_ns < 19 * MS / 10), "{pauses:?}");
    let (switch_a, switch_b) =
        (port_of(&outcome, "switch-a", "ethernet2"), port_of(&outcome, "switch-b", "ethernet1"));
    assert_eq!(switch_b.groups[0].counts.xoff_episodes, pauses.len() as u64);
    // An XOFF and an XON each. The last XON is sent twice; the others were overtaken by the next
    // XOFF.
    let reported = 2 * pauses.len() as u64 + 1;
    assert_eq!((switch_b.counts.pfc_sent.frames, switch_a.counts.pfc_received.frames), (reported, reported));
    assert_eq!(switch_b.groups[0].counts.shared.peak_cells, 76);
    assert_eq!((switch_a.queues[0].counts.paused, switch_b.groups[0].counts.xoff), (false, false));
}

/// Figures 3-16 and 3-17: a pause longer than the watchdog's detection time, from end to end, and
/// everything after it.
#[test]
fn a_storm_lasts_as_long_as_its_host() {
    let outcome = run(&read("inspur/storm.toml"));
    for port in ["switch-b.ethernet2", "switch-a.ethernet2", "ce-a"] {
        let pauses = pauses_of(&outcome, port);
        assert_eq!(pauses.len(), 1, "{port}");
        assert!(pauses[0].to_ns - pauses[0].from_ns > 490 * MS && pauses[0].to_ns < 511 * MS, "{pauses:?}");
    }
}

/// As above, with a watchdog on switch A, which forwards again 400 ms after the last xoff.
#[test]
fn a_watchdog_ends_a_storm_and_itself() {
    let outcome = run(&read("inspur/watchdog.toml"));
    let port = port_of(&outcome, "switch-a", "ethernet2");
    let [storm] = port.storms[..] else { panic!("{:?}", port.storms) };
    assert!(storm.drops && storm.priority == 3, "{storm:?}");
    assert_eq!(storm.stuck_ns, 400 * MS + 1);
    let paused = pauses_of(&outcome, "switch-a.ethernet2")[0];
    assert!(storm.began_ns - paused.from_ns > 400 * MS && storm.began_ns - paused.from_ns < 401 * MS);
    let ended = storm.ended_ns.expect("over");
    assert!(
        ended > 900 * MS && ended < 912 * MS,
        "400 ms after the last xoff before the xon of 510 ms: {ended}"
    );
    assert!(storm.traffic.tx_dropped_frames > 0 && storm.traffic.tx_frames == 0, "{storm:?}");
    // CE A was resumed when the queue was dropped, although the storm of CE B continued.
    let of_host = pauses_of(&outcome, "ce-a");
    assert!(of_host.iter().all(|span| span.to_ns <= storm.began_ns + MS), "{of_host:?}");
}

/// Figure 19 as configured: a device that has waited for more than 50 ms forwards for 700 ms, and
/// all traffic continues. The first one to do so frees the devices behind it.
#[test]
fn detection_breaks_the_deadlock() {
    let outcome = run(&read("deadlock/detection.toml"));
    let mut found = 0;
    for (from, _) in RING {
        let port = port_of(&outcome, from, "port1");
        let device = outcome.switches.iter().find(|of| of.name == from).expect("the switch");
        let reported: Vec<bool> = device
            .events
            .iter()
            .map(|reported| matches!(reported.1, Event::StormBegan { priority: 5, .. }))
            .collect();
        assert_eq!(reported, [true, false].repeat(port.storms.len()), "{from}: Begin, End");
        for storm in &port.storms {
            assert_eq!(
                (storm.stuck_ns, storm.ended_ns),
                (50 * MS + 1, Some(storm.began_ns + 700 * MS + 1)),
                "{from}"
            );
            found += 1;
        }
    }
    assert!((1..=4).contains(&found), "{found} storms");
    let rdma = traffic_of(&outcome, "rdma");
    assert!(rdma.last_arrival_ns.is_some_and(|at| at > outcome.duration_ns - 10_000), "{rdma:?}");
}

/// With a detection time of 10 ms and no delay, a persistent loop reaches the limit of 10 in a
/// second: Begin, End, … and the limit.
#[test]
fn a_loop_that_stays_reaches_the_limit() {
    let mut scenario = read("deadlock/detection.toml");
    let quick = read_with("deadlock/detection.toml", "deadlock-limit.toml");
    scenario.nodes = quick.nodes;
    scenario.faults.retain(|fault| fault.at_ns < MENDED_NS); // it is never repaired
    scenario.duration_ns = 400 * MS;
    let outcome = run(&scenario);
    let mut reached = 0;
    for (from, _) in RING {
        let device = outcome.switches.iter().find(|of| of.name == from).expect("the switch");
        let port = port_of(&outcome, from, "port1");
        let mut reported = device.events.iter().map(|reported| reported.1);
        let Some(at) = reported.position(|event| matches!(event, Event::StormLimitReached { .. })) else {
            continue;
        };
        reached += 1;
        let before: Vec<bool> = device.events[..at]
            .iter()
            .map(|reported| matches!(reported.1, Event::StormBegan { .. }))
            .collect();
        assert_eq!(before, [true, false].repeat(10), "{from}");
        assert!(matches!(device.events[at].1, Event::StormLimitReached { priority: 5, times: 10, .. }));
        let priority = port.priorities.iter().find(|of| of.priority == 5).expect("priority 5").counts;
        assert!(priority.limit_reached && priority.storms == 10, "{from}: {priority:?}");
    }
    assert!(reached > 0, "somewhere");
}

const RING: [(&str, &str); 4] =
    [("device-c", "device-a"), ("device-a", "device-d"), ("device-d", "device-b"), ("device-b", "device-c")];
/// When the link and its routes are repaired.
const MENDED_NS: u64 = 5 * MS;

/// Runs the scenario. Returns the data frames that arrive over links between devices from
/// `MENDED_NS` on.
fn data_after_mending(scenario: &Scenario) -> (Results, u64) {
    let mut simulation = Simulation::new(scenario);
    for (number, link) in scenario.links.iter().enumerate() {
        if !link.name.contains("server") {
            simulation.capture(number);
        }
    }
    let mut data = 0;
    simulation.run_until(scenario.duration_ns, &mut |frame| {
        let is_control = frame.headers[12..14] == [0x88, 0x08];
        data += u64::from(!is_control && frame.at_ns >= MENDED_NS);
    });
    (simulation.finish(), data)
}

/// Figure 13: each device blocks the one before it, and repairing the network does not move a byte.
#[test]
fn a_deadlock_arises_and_stays() {
    for (name, least_pfc) in [("deadlock/loop.toml", 30), ("deadlock/short-pauses.toml", 10_000)] {
        let scenario = read(name);
        let (outcome, data) = data_after_mending(&scenario);
        assert_eq!(data, 0, "{name}");
        for (from, to) in RING {
            let port = format!("{from}.port1");
            let last = *pauses_of(&outcome, &port).last().expect("pauses");
            assert!(last.from_ns < MENDED_NS && last.to_ns == scenario.duration_ns, "{name}: {last:?}");
            let (sender, receiver) = (port_of(&outcome, from, "port1"), port_of(&outcome, to, "port2"));
            assert!(receiver.groups[0].counts.xoff && sender.queues[0].counts.paused, "{name}: {from}");
            let received = sender.counts.pfc_received.frames;
            assert!(received > least_pfc, "{name}: {from}: {received} PFC frames");
        }
        assert!(pauses_of(&outcome, "server1").last().is_some_and(|last| last.to_ns == scenario.duration_ns));
    }
}

/// The same without the loop, as a control. Without a fault everything arrives at line rate without
/// pauses. Where only the link fails, frames sent meanwhile are lost, and traffic continues after
/// the repair.
#[test]
fn without_a_loop_there_is_no_deadlock() {
    let mut scenario = read("deadlock/loop.toml");
    scenario.faults.retain(|fault| !matches!(fault.kind, FaultKind::Route(_)));
    let (outcome, _) = data_after_mending(&scenario);
    let rdma = traffic_of(&outcome, "rdma");
    let down = (rdma.sent_frames as f64 * 4.0 / 50.0).round() as u64;
    assert!(rdma.lost_frames.abs_diff(down) < 10, "{rdma:?}");
    assert!(rdma.last_arrival_ns.is_some_and(|at| at > scenario.duration_ns - 1000), "{rdma:?}");
    assert!(outcome.series.pauses.is_empty());

    scenario.faults.clear();
    let (outcome, _) = data_after_mending(&scenario);
    let rdma = traffic_of(&outcome, "rdma");
    assert_eq!((rdma.lost_frames, rdma.sent_frames), (0, rdma.received_frames + rdma.in_network_frames));
    assert!(rdma.throughput_bps > 24.9e9, "{rdma:?}");
    assert!(outcome.series.pauses.is_empty());
}

/// Figure 13 with server 2 on devices D and C: the short loop becomes a deadlock if the port of C
/// to server 2 is congested, and disappears without a trace if it is not.
#[test]
fn a_congested_port_makes_a_deadlock_of_a_short_loop() {
    let mut scenario = read("deadlock/figure-13.toml");
    let (outcome, data) = data_after_mending(&scenario);
    assert_eq!(data, 0);
    for (from, to) in RING {
        let (sender, receiver) = (port_of(&outcome, from, "port1"), port_of(&outcome, to, "port2"));
        assert!(receiver.groups[0].counts.xoff && sender.queues[0].counts.paused, "{from}");
    }
    let idle = port_of(&outcome, "device-c", "server2");
    assert!(idle.queues.iter().all(|queue| queue.counts.level.cells == 0), "nothing waits for server 2");

    scenario.traffic[0].rate_bps = 4_900_000_000; // twice that fits the 10 Gbit/s
    let (outcome, _) = data_after_mending(&scenario);
    let rdma = traffic_of(&outcome, "rdma");
    assert!(rdma.last_arrival_ns.is_some_and(|at| at > scenario.duration_ns - 10_000), "{rdma:?}");
    assert!(rdma.lost_frames <= 2 && outcome.series.pauses.iter().all(|pause| pause.to_ns < 10 * MS));
}

/// 64 to 1: in both cases everything arrives. Senders that react to marks leave less to PFC, and
/// more capacity to others.
#[test]
fn dcqcn_relieves_pfc() {
    let [pfc, dcqcn] = ["incast-pfc.toml", "incast-dcqcn.toml"].map(|name| run(&read(name)));
    for outcome in [&pfc, &dcqcn] {
        let lost: u64 = outcome.traffic.iter().map(|traffic| traffic.lost_frames).sum();
        assert_eq!(lost, 0);
    }
    assert!(2 * dcqcn.series.pauses.len() < pfc.series.pauses.len());
    let slowest = |outcome: &Results| traffic_of(outcome, "victim").completion.expect("a message").max_ns;
    assert!(2.7 * (slowest(&dcqcn) as f64) < slowest(&pfc) as f64, "{} {}", slowest(&dcqcn), slowest(&pfc));
    // Senders through the trunk are not worse off.
    let spread = |outcome: &Results| {
        let completion = traffic_of(outcome, "incast").completion.expect("messages");
        completion.max_ns as f64 / completion.min_ns as f64
    };
    assert!(spread(&pfc) > 1.8 && spread(&dcqcn) < 1.3, "{} {}", spread(&pfc), spread(&dcqcn));
}

/// The fabric: without DCQCN, the pauses of the incast spread to unrelated messages.
#[test]
fn the_fabric_suffers_without_dcqcn() {
    let scenario = read("leaf-spine.toml");
    let mut without = scenario.clone();
    without.traffic.iter_mut().for_each(|traffic| traffic.dcqcn = None);
    without.traffic.iter_mut().for_each(|traffic| traffic.ecn = false);
    let slow = [scenario, without].map(|scenario| {
        let outcome = run(&scenario);
        assert!(outcome.traffic.iter().all(|traffic| traffic.lost_frames == 0));
        traffic_of(&outcome, "background").completion.expect("messages").p99_ns
    });
    assert!(slow[1] > 5 * slow[0], "{slow:?}");
}
