//! Networks for tests, built in code.
#![allow(dead_code, reason = "each test uses a part of it")]

use sim::parts::{Mail, Partition};
use sim::scenario::{
    Forwarding, HostNode, Link, LinkEnd, Node, NodeKind, Pattern, Scenario, Start, SwitchNode, Traffic,
};
use sim::{Results, Simulation};

pub const GBPS: u64 = 1_000_000_000;
pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;

/// Builds a switch with this configuration.
pub fn switch(name: &str, config: &str) -> Node {
    let config = config::parse(name, config).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    Node { name: name.to_owned(), kind: NodeKind::Switch(Box::new(SwitchNode::new(config, 0))) }
}

/// Builds a host that honors every pause.
pub fn host(name: &str) -> Node {
    Node { name: name.to_owned(), kind: NodeKind::Host(HostNode::DEFAULT) }
}

/// Builds a cable of `cable_m` meters without overhead per frame, between (node, port) and (node,
/// port).
pub fn cable(a: (usize, usize), b: (usize, usize), speed_bps: u64, cable_m: u32) -> Link {
    let [a, b] = [a, b].map(|(node, port)| LinkEnd { node, port });
    Link {
        name: format!("{}.{}–{}.{}", a.node, a.port, b.node, b.port),
        ends: [a, b],
        speed_bps,
        cable_m,
        propagation_ns: 5 * u64::from(cable_m),
        mtu_bytes: 9216,
        response_ns: 3840 * 8 * GBPS / speed_bps,
        overhead_bytes: 0,
    }
}

/// Builds traffic without end at line rate from the start on.
pub fn constant(name: &str, from: usize, to: usize, priority: u8, frame_bytes: u16) -> Traffic {
    Traffic {
        name: name.to_owned(),
        flows: vec![(from, to)],
        ranks: Vec::new(),
        priority,
        dscp: priority * 8,
        frame_bytes,
        rate_bps: u64::MAX >> 8,
        pattern: Pattern::Constant,
        sizes: None,
        trace: None,
        start: Start::At(0),
        stop_ns: u64::MAX >> 20,
        ecn: false,
        dcqcn: None,
        host_dcqcn: Vec::new(),
        acks: None,
    }
}

/// Builds traffic of one frame at a time.
pub fn one_frame(name: &str, from: usize, to: usize, priority: u8, bytes: u16, at_ns: u64) -> Traffic {
    let pattern = Pattern::Finite { bytes: u64::from(bytes) };
    Traffic { pattern, start: Start::At(at_ns), ..constant(name, from, to, priority, bytes) }
}

/// Builds a network and its traffic, without faults.
pub fn scenario(nodes: Vec<Node>, links: Vec<Link>, traffic: Vec<Traffic>, duration_ns: u64) -> Scenario {
    Scenario {
        title: "test".to_owned(),
        duration_ns,
        warmup_ns: 0,
        seed: 1,
        sample_ns: duration_ns,
        forwarding: Forwarding::ShortestPath,
        convergence_ns: None,
        latency: false,
        queue_lengths: false,
        nodes,
        links,
        traffic,
        routes: Vec::new(),
        faults: Vec::new(),
        expectations: Vec::new(),
        sweep: Default::default(),
        warnings: config::ConfigErrors::default(),
    }
}

/// Runs the whole scenario and checks that everything adds up.
pub fn run(scenario: &Scenario) -> Results {
    let mut simulation = Simulation::new(scenario);
    simulation.run_until(scenario.duration_ns, &mut |_| {});
    let outcome = simulation.finish();
    assert!(outcome.imbalances.is_empty(), "{:?}", outcome.imbalances);
    outcome
}

/// Runs the whole scenario in at most `most` parts, one after the other in each window.
pub fn run_in_parts(scenario: &Scenario, most: usize) -> Results {
    run_partition(&Partition::new(scenario, most))
}

/// Runs all parts, one after the other in each window.
pub fn run_partition(partition: &Partition) -> Results {
    let mut parts: Vec<_> = (0..partition.count()).map(|number| partition.part(number)).collect();
    let (mut earliest, mut mail) = (0, Mail::default());
    while let Some(end) = partition.window(earliest) {
        parts.iter_mut().for_each(|part| part.advance(end, &mut |_| {}));
        for from in 0..parts.len() {
            for to in (0..parts.len()).filter(|to| *to != from) {
                let first = parts[from].send(to, &mut mail);
                assert!(first >= end, "{first} is before the window's end {end}");
                parts[to].receive(&mut mail);
            }
        }
        earliest = parts.iter_mut().map(|part| part.next_at()).min().unwrap_or(u64::MAX);
    }
    partition.join(parts).finish()
}
