//! Small networks with their diagrams.

use std::fmt::Write;

use switch::{PortSettings, SwitchSettings};

use super::Routes;
use crate::scenario::types::{HostNode, Link, LinkEnd, Node, NodeKind, Route, SwitchNode};

/// Builds a network of links between `(node, port)` and `(node, port)`. Nodes whose names begin
/// with h are hosts.
fn network(names: &[&str], ends: &[[(usize, usize); 2]]) -> (Vec<Node>, Vec<Link>) {
    let ports = |node| {
        let ends = ends.iter().flatten().filter(|(other, _)| *other == node);
        ends.map(|(_, port)| port + 1).max().unwrap_or(0)
    };
    let node = |(number, name): (usize, &&str)| {
        let kind = if name.starts_with('h') {
            NodeKind::Host(HostNode::DEFAULT)
        } else {
            let ports = (0..ports(number)).map(|port| PortSettings::new(format!("p{port}"), None)).collect();
            let (buffer, bridge) = Default::default();
            let settings = SwitchSettings {
                buffer,
                bridge,
                usage_percent: 100,
                alarms: Default::default(),
                seed: 0,
                ports,
            };
            NodeKind::Switch(Box::new(SwitchNode {
                settings,
                turn_ns: 0,
                multipath: Default::default(),
                dcbx: vec![],
                lldp: vec![],
                file: String::new(),
                added_ports: String::new(),
                interfaces: vec![],
            }))
        };
        Node { name: (*name).to_owned(), kind }
    };
    let link = |ends: &[(usize, usize); 2]| Link {
        name: String::new(),
        ends: ends.map(|(node, port)| LinkEnd { node, port }),
        speed_bps: 1,
        cable_m: 0,
        propagation_ns: 0,
        mtu_bytes: 1514,
        response_ns: 0,
        overhead_bytes: 24,
    };
    (names.iter().enumerate().map(node).collect(), ends.iter().map(link).collect())
}

fn table(nodes: &[Node], routes: &[Route]) -> String {
    let mut table = String::new();
    for route in routes {
        let Route { switch, host, port } = *route;
        let _ = writeln!(table, "{} to {}: p{port}", nodes[switch].name, nodes[host].name);
    }
    table
}

/// ```text
///            h4   h5   h6   h7
///             3    4    5    6
///   h8 ─0 a 1 ───────── 1 b ──┐        c 0 ── h9, linked to nobody else
///         │ 2 ── 0 d 1 ── 2 ──┘
///         └ 7 ───────── 7 (to b, in parallel)
/// ```
#[test]
#[cfg_attr(miri, ignore = "a snapshot is a file")]
fn a_small_network() {
    let names = ["a", "b", "c", "d", "h4", "h5", "h6", "h7", "h8", "h9"];
    let (nodes, links) = network(
        &names,
        &[
            [(0, 1), (1, 1)],
            [(0, 2), (3, 0)],
            [(3, 1), (1, 2)],
            [(0, 7), (1, 7)],
            [(1, 3), (4, 0)],
            [(1, 4), (5, 0)],
            [(6, 0), (1, 5)],
            [(7, 0), (1, 6)],
            [(8, 0), (0, 0)],
            [(9, 0), (2, 0)],
        ],
    );
    insta::assert_snapshot!(table(&nodes, &Routes::shortest(&nodes, &links).list()));
}

/// ```text
///   h3 ─ a ─ b ─ h4      entries for h4 that send it round: a → b → c → a
///         \ /
///          c ─ h5
/// ```
#[test]
fn ways() {
    let (nodes, links) = network(
        &["a", "b", "c", "h3", "h4", "h5"],
        &[
            [(0, 0), (3, 0)],
            [(1, 0), (4, 0)],
            [(2, 0), (5, 0)],
            [(0, 1), (1, 2)],
            [(1, 1), (2, 2)],
            [(2, 1), (0, 2)],
        ],
    );
    let mut routes = Routes::shortest(&nodes, &links);
    assert_eq!(routes.path(3, 4), Some(vec![0, 3, 1]));
    assert_eq!(routes.path(4, 5), Some(vec![1, 4, 2]));
    routes.set(Route { switch: 1, host: 4, port: 1 });
    assert_eq!(routes.path(3, 4), Some(vec![0, 3, 4, 4]), "from b to c and back");
    routes.set(Route { switch: 2, host: 4, port: 1 });
    assert_eq!(routes.path(3, 4), Some(vec![0, 3, 4, 5]), "once round");
    routes.set(Route { switch: 1, host: 4, port: 7 });
    assert_eq!(routes.path(3, 4), None, "there is no such port");
    routes.set(Route { switch: 0, host: 4, port: 0 });
    assert_eq!(routes.path(3, 4), None, "back to the sender");
    assert_eq!(routes.path(5, 3), Some(vec![2, 5, 0]));
}

/// Two hosts need no switch, and a cable between them is their path.
#[test]
fn two_hosts() {
    let (nodes, links) = network(&["h0", "h1", "h2"], &[[(0, 0), (1, 0)]]);
    let routes = Routes::shortest(&nodes, &links);
    assert_eq!((routes.path(0, 1), routes.path(0, 2), routes.path(2, 0)), (Some(vec![0]), None, None));
}

/// 32 leaves of 32 hosts, each linked to all of 32 spines. On each leaf every uplink has an equal
/// share of the 992 remote hosts.
#[test]
#[cfg_attr(miri, ignore = "a network of 1088 nodes")]
fn traffic_spreads() {
    let mut names: Vec<String> = (0..64).map(|number| format!("s{number}")).collect();
    names.extend((0..1024).map(|number| format!("h{number}")));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut ends = Vec::new();
    for leaf in 0..32 {
        ends.extend((0..32).map(|host| [(64 + leaf * 32 + host, 0), (leaf, host)]));
        ends.extend((0..32).map(|spine| [(leaf, 32 + spine), (32 + spine, leaf)]));
    }
    let (nodes, links) = network(&names, &ends);
    let routes = Routes::shortest(&nodes, &links).list();
    assert_eq!(routes.len(), 64 * 1024);
    for leaf in 0..32 {
        for port in 32..64 {
            assert_eq!(routes.iter().filter(|route| (route.switch, route.port) == (leaf, port)).count(), 31);
        }
    }
}
