//! DCBX in the simulator: the daemon's machines between a switch and its hosts.

mod lab;

use lab::{GBPS, MS, cable, constant, host, run, scenario, switch};
use sim::Results;
use sim::results::DcbxOutcome;
use sim::scenario::{Fault, FaultKind, Node, NodeKind, Scenario};
use std::fmt::Write as _;

const PORTS: usize = 64;

/// A switch with hosts at all of its ports, which begin to negotiate at time 0.
fn star(ports: usize, dcbx: &str, willing: bool, duration_ns: u64) -> Scenario {
    let mut file =
        format!("[port-defaults]\ndcbx = {{ {dcbx} }}\npfc = {{ mode = \"auto\", no_drop = [3] }}\n");
    for port in 0..ports {
        writeln!(file, "[port.p{port}]\ninterface = \"p{port}\"\nspeed = \"25G\"").unwrap();
    }
    let negotiating = |number: usize| {
        let mut node: Node = host(&format!("h{number}"));
        if let NodeKind::Host(host) = &mut node.kind {
            (host.willing, host.no_drop) = (Some(willing), 1 << 5);
        }
        node
    };
    let mut nodes: Vec<Node> = vec![switch("sw", &file)];
    nodes.extend((0..ports).map(negotiating));
    let links = (0..ports).map(|port| cable((0, port), (port + 1, 0), 25 * GBPS, 10)).collect();
    scenario(nodes, links, Vec::new(), duration_ns)
}

/// Both ends of each link: state, no-drop priorities, and the time of the last one to settle.
fn summary(results: &Results) -> String {
    assert!(results.imbalances.is_empty(), "{:?}", results.imbalances);
    let side = |is_switch: bool| {
        let ends = results.dcbx.iter().filter(|end| end.port.starts_with("sw.") == is_switch);
        let mut outcomes: Vec<String> = ends
            .map(|DcbxOutcome { version, state, reason, no_drop, .. }| {
                format!("{version} {state} ({reason}), no-drop {no_drop:?}")
            })
            .collect();
        let count = outcomes.len();
        outcomes.dedup();
        format!("{count} × {}", outcomes.join(" | "))
    };
    let settled = results.dcbx.iter().map(|end| end.settled_ns).max().unwrap_or_default();
    format!("{} / {}: {:.3} ms", side(true), side(false), settled as f64 / 1e6)
}

/// All 64 ports of a switch converge, and stay as they are. The time is that from the link up until
/// the last end has settled; reading a frame takes 20 ms.
#[test]
fn sixty_four_ports_converge() {
    let mut table = String::new();
    for version in ["auto", "ieee", "cee", "cin"] {
        for (switch_willing, host_willing) in [(false, true), (true, false), (true, true), (false, false)] {
            let dcbx = format!("version = \"{version}\", willing = {switch_willing}");
            let scenario = star(PORTS, &dcbx, host_willing, 10_000 * MS);
            let summary = summary(&run(&scenario));
            let word = |willing: bool| if willing { "willing" } else { "unwilling" };
            writeln!(table, "{version}, switch {}, hosts {}:", word(switch_willing), word(host_willing))
                .unwrap();
            writeln!(table, "  {}", summary.replace(" / ", "\n  ")).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

/// Traffic of the priority that is agreed on becomes lossless once it is; before, and on a link
/// that is down, no priority is.
#[test]
fn what_is_agreed_applies_and_goes_with_the_link() {
    let mut scenario = star(3, "version = \"auto\"", true, 400 * MS);
    for sender in [1, 2] {
        let mut traffic = constant(&format!("from{sender}"), sender, 3, 3, 1000);
        traffic.start = sim::scenario::Start::At(100 * MS);
        scenario.traffic.push(traffic);
    }
    let results = run(&scenario);
    assert!(results.imbalances.is_empty(), "{:?}", results.imbalances);
    for traffic in &results.traffic {
        assert_eq!(traffic.lost_frames, 0, "{traffic:?}");
    }
    assert!(results.hosts[0].pauses[3] > 0 && results.hosts[1].pauses[3] > 0, "{:?}", results.hosts);

    // Without an agreement the same is lossy: no host negotiates.
    let mut alone = scenario.clone();
    for node in &mut alone.nodes {
        if let NodeKind::Host(host) = &mut node.kind {
            host.willing = None;
        }
    }
    let lost: u64 = run(&alone).traffic.iter().map(|traffic| traffic.lost_frames).sum();
    assert!(lost > 0);

    // A link that is cut and repaired agrees again, and only its own ends begin again.
    scenario.traffic.clear();
    let fault = |at_ns: u64, kind| Fault { at_ns, kind };
    scenario.faults = vec![
        fault(200 * MS, FaultKind::LinkDown { link: 0 }),
        fault(250 * MS, FaultKind::LinkUp { link: 0 }),
    ];
    let of =
        |results: &Results, port: &str| results.dcbx.iter().find(|end| end.port == port).unwrap().clone();
    let results = run(&scenario);
    let (flapped, other) = (of(&results, "sw.p0"), of(&results, "sw.p1"));
    assert_eq!((flapped.state.as_str(), flapped.no_drop), ("agreed", vec![3]));
    assert!(flapped.settled_ns > 250 * MS && other.settled_ns < 100 * MS);
    scenario.faults.pop();
    let down = of(&run(&scenario), "sw.p0");
    assert_eq!((down.state.as_str(), down.no_drop), ("local", vec![]));
}

/// Two switches that negotiate over a cable that is cut and repaired: both ends begin at once, and
/// each hears the first frame of the other, in parts as on one core.
#[test]
fn a_repaired_cable_between_parts_is_negotiated_as_on_one_core() {
    let file = "[port-defaults]\ndcbx = { version = \"ieee\", willing = true }\n\
        pfc = { mode = \"auto\", no_drop = [3] }\n[port.p0]\ninterface = \"p0\"\nspeed = \"25G\"\n";
    let mut scenario = scenario(
        vec![switch("a", file), switch("b", &file.replace("true", "false"))],
        vec![cable((0, 0), (1, 0), 25 * GBPS, 10)],
        Vec::new(),
        10_000 * MS,
    );
    scenario.faults =
        [(200 * MS, FaultKind::LinkDown { link: 0 }), (250 * MS, FaultKind::LinkUp { link: 0 })]
            .map(|(at_ns, kind)| Fault { at_ns, kind })
            .to_vec();
    let whole = run(&scenario);
    assert!(whole.dcbx.iter().all(|end| end.state == "agreed" && end.no_drop == [3]), "{:?}", whole.dcbx);
    assert_eq!(lab::run_in_parts(&scenario, 2), whole);
}
