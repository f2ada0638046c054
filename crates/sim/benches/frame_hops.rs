//! Cost of a simulated frame-hop: a frame that arrives at a switch is parsed, classified, admitted,
//! checked by WRED, queued, scheduled and transmitted, each at its time. The networks are
//! leaf–spine with 2 to 64 switches and every feature on: PFC with dynamic thresholds, ECN, ETS,
//! DCQCN, and an incast over a permutation.
//!
//! `cargo bench -p sim`. Prints the best of three runs of each, in one process on one core.

use std::time::Instant;

/// As in `sluice sim`.
#[path = "../../sluice/src/sim/huge_pages.rs"]
mod huge_pages;

use sim::scenario::{
    DcqcnSettings, Forwarding, HostNode, Link, LinkEnd, Node, NodeKind, Pattern, Scenario, Start, SwitchNode,
    Traffic,
};
use sim::{Results, Simulation};

const GBPS: u64 = 1_000_000_000;
const US: u64 = 1_000;

/// Thresholds of docs/references.md, "H3C reference" (Configuring PFC thresholds), and ECN below
/// them.
const CONFIG: &str = r#"
[buffer]
cell_bytes = 256
total_cells = 131072
headroom_cells = 12288
[wred.roce.queue.3]
ecn = true
weighting_exponent = 0
green = { low_cells = 100, high_cells = 1000, probability_percent = 10 }
[port-defaults]
trust = "dot1p"
wred = "roce"
[port-defaults.schedule]
mode = "ets"
[port-defaults.pfc]
mode = "on"
no_drop = [3]
[port-defaults.pfc.priority.3]
xoff = { dynamic_percent = 5 }
headroom_cells = 250
reserved_cells = 8
"#;

/// Returns a switch with `ports` ports at 100G.
fn switch(name: String, ports: usize) -> Node {
    let port = |n: usize| format!("[port.p{n}]\ninterface = \"i{n}\"\nspeed = \"100G\"\n");
    let text = CONFIG.to_owned() + &(0..ports).map(port).collect::<String>();
    let config = config::parse(&name, &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    Node { name, kind: NodeKind::Switch(Box::new(SwitchNode::new(config, 0))) }
}

fn cable(a: (usize, usize), b: (usize, usize)) -> Link {
    let [a, b] = [a, b].map(|(node, port)| LinkEnd { node, port });
    Link {
        name: format!("{a:?}–{b:?}"),
        ends: [a, b],
        speed_bps: 100 * GBPS,
        cable_m: 5,
        propagation_ns: 25,
        mtu_bytes: 9216,
        response_ns: 307,
        overhead_bytes: 24,
    }
}

/// Every host sends to a host of another leaf at 60 Gbit/s, and every 50 µs all send to the first.
fn leaf_spine(leaves: usize, spines: usize, hosts_per_leaf: usize, duration_ns: u64) -> Scenario {
    let mut nodes: Vec<Node> =
        (0..leaves).map(|n| switch(format!("leaf{n}"), hosts_per_leaf + spines)).collect();
    nodes.extend((0..spines).map(|n| switch(format!("spine{n}"), leaves)));
    let mut links = Vec::new();
    for leaf in 0..leaves {
        links.extend((0..spines).map(|spine| cable((leaf, hosts_per_leaf + spine), (leaves + spine, leaf))));
    }
    let hosts = leaves * hosts_per_leaf;
    let first = nodes.len();
    for host in 0..hosts {
        nodes.push(Node { name: format!("h{host}"), kind: NodeKind::Host(HostNode::DEFAULT) });
        links.push(cable((first + host, 0), (host / hosts_per_leaf, host % hosts_per_leaf)));
    }
    let to = |host: usize| first + (host + hosts / 2 + 1) % hosts;
    let permutation = (0..hosts).map(|host| (first + host, to(host))).collect();
    let incast = (1..hosts).map(|host| (first + host, first)).collect();
    let traffic = |name: &str, flows, priority, rate_bps, pattern| Traffic {
        name: name.to_owned(),
        flows,
        ranks: Vec::new(),
        priority,
        dscp: priority * 8,
        frame_bytes: 1024,
        rate_bps,
        pattern,
        sizes: None,
        trace: None,
        start: Start::At(0),
        stop_ns: duration_ns,
        ecn: true,
        dcqcn: Some(DcqcnSettings::PAPER),
        host_dcqcn: Vec::new(),
        acks: None,
    };
    Scenario {
        title: format!("{leaves} leaves, {spines} spines, {hosts} hosts"),
        duration_ns,
        warmup_ns: 0,
        seed: 1,
        sample_ns: duration_ns / 100,
        forwarding: Forwarding::ShortestPath,
        convergence_ns: None,
        latency: false,
        queue_lengths: false,
        nodes,
        links,
        traffic: vec![
            traffic("permutation", permutation, 3, 60 * GBPS, Pattern::Constant),
            traffic("incast", incast, 3, 100 * GBPS, Pattern::Incast { bytes: 4096, every_ns: 50 * US }),
        ],
        routes: Vec::new(),
        faults: Vec::new(),
        expectations: Vec::new(),
        sweep: Default::default(),
        warnings: config::ConfigErrors::default(),
    }
}

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Returns the seconds, the memory and the results of a run.
fn run(scenario: &Scenario) -> (f64, u64, Results) {
    let before = resident_bytes();
    let mut simulation = Simulation::new(scenario);
    let start = Instant::now();
    simulation.run_until(scenario.duration_ns, &mut |_| {});
    let seconds = start.elapsed().as_secs_f64();
    let bytes = resident_bytes().saturating_sub(before);
    (seconds, bytes, simulation.finish())
}

fn main() {
    huge_pages::reexec_with_huge_pages();
    // As in the other benches, a word on the command line selects benches by name.
    if std::env::args().skip(1).any(|word| !word.starts_with('-') && !"frame_hops".contains(&*word)) {
        return;
    }
    println!("switches  hosts  frame-hops  M hops/s  ns a hop  events a hop   lost  XOFF  memory");
    // The first figure is the fabric of the scenarios. It is first so that its memory is its own.
    let sizes = [(16, 8, 16), (1, 1, 8), (2, 2, 8), (5, 3, 8), (11, 5, 8), (22, 10, 8), (43, 21, 8)];
    for (leaves, spines, hosts_per_leaf) in sizes {
        // About two million hops each.
        let duration_ns = 1200 * US * 128 / (leaves * hosts_per_leaf) as u64;
        let scenario = leaf_spine(leaves, spines, hosts_per_leaf, duration_ns);
        let (mut best, first_bytes, outcome) = run(&scenario);
        for _ in 0..2 {
            best = best.min(run(&scenario).0);
        }
        let hops = outcome.frame_hops as f64;
        let ports = outcome.switches.iter().flat_map(|of| &of.ports);
        let xoff: u64 = ports.flat_map(|port| &port.groups).map(|group| group.counts.xoff_episodes).sum();
        let lost: u64 = outcome.traffic.iter().map(|traffic| traffic.lost_frames).sum();
        assert!(outcome.imbalances.is_empty(), "{:?}", outcome.imbalances);
        println!(
            "{:>8} {:>6} {:>11} {:>9.2} {:>9.0} {:>13.2} {lost:>6} {xoff:>5} {:>5} MB",
            leaves + spines,
            leaves * hosts_per_leaf,
            outcome.frame_hops,
            hops / best / 1e6,
            best * 1e9 / hops,
            outcome.events as f64 / hops,
            first_bytes >> 20,
        );
    }
}
