//! Generated networks: every host reaches every other, and the bisection carries what theory says.

#[path = "../lab/mod.rs"]
mod lab;

use lab::run;
use sim::scenario::{NodeKind, Scenario, parse};

fn read(network: &str, more: &str) -> Scenario {
    let text = format!("duration = \"1ms\"\n{more}\n[network]\n{network}\n");
    parse("test.toml", &text, &mut |path| Err(format!("{path} is not there"))).unwrap_or_else(|mistakes| {
        panic!("{}", mistakes.iter().map(|mistakes| format!("{mistakes}\n")).collect::<String>())
    })
}

/// A flow from each host to each other.
fn all_to_all(network: &str) -> Scenario {
    let probe = read(network, "traffic = [{ name = \"t\", from = [\"h1\"], to = \"h2\" }]");
    let names: Vec<String> = hosts(&probe).map(|(name, _)| format!("\"{name}\"")).collect();
    let list = names.join(", ");
    let traffic =
        format!("{{ name = \"all\", from = [{list}], to = [{list}], bytes = 1000, frame_bytes = 1000 }}");
    read(network, &format!("traffic = [{traffic}]"))
}

fn hosts(scenario: &Scenario) -> impl Iterator<Item = (&str, usize)> {
    let nodes = scenario.nodes.iter().enumerate();
    nodes
        .filter(|(_, node)| matches!(node.kind, NodeKind::Host(_)))
        .map(|(number, node)| (&*node.name, number))
}

#[test]
fn every_host_reaches_every_other() {
    for (network, count, switches) in [
        ("kind = \"leaf-spine\"\nleaves = 3\nspines = 2\nhosts_per_leaf = 4\nuplinks = 2", 12, 5),
        ("kind = \"fat-tree\"\nk = 4", 16, 20),
        (
            "kind = \"dragonfly\"\nrouters_per_group = 2\nhosts_per_router = 2\nglobal_links_per_router = 1",
            12,
            6,
        ),
    ] {
        let scenario = all_to_all(network);
        let outcome = run(&scenario);
        assert_eq!((outcome.hosts.len(), outcome.switches.len()), (count, switches), "{network}");
        let pairs = (count * (count - 1)) as u64;
        assert_eq!((outcome.traffic[0].messages, outcome.traffic[0].completed), (pairs, pairs), "{network}");
    }
}

#[test]
fn gpus_of_a_rail_share_a_switch() {
    let network = "kind = \"rail\"\npods = 2\nservers_per_pod = 3\nrails = 4\nspines = 2";
    let traffic =
        "traffic = [{ name = \"t\", from = \"gpu[1-6]-[1-4]\", to = \"gpu[1-6]-[1-4]\", bytes = 1000 }]";
    let scenario = read(network, traffic);
    let outcome = run(&scenario);
    assert_eq!((outcome.hosts.len(), outcome.switches.len(), outcome.links.len()), (24, 10, 24 + 16));
    assert_eq!(outcome.traffic[0].completed, 24 * 23);
    let peer = |host: &str| outcome.hosts.iter().find(|found| found.name == host).map(|found| &*found.peer);
    assert_eq!(peer("gpu1-3"), Some("rail1-3.g1"));
    assert_eq!(peer("gpu6-3"), Some("rail2-3.g3"));
}

/// Each host of one half sends to one of the other, at the speed of its link.
#[test]
fn the_bisection_carries_what_its_cables_do() {
    for (network, half, gbps) in [
        ("kind = \"leaf-spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 4", 4, 400.0),
        ("kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4", 4, 200.0),
        (
            "kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nhosts_per_leaf = 4\nfabric_speed = \"400G\"",
            4,
            400.0,
        ),
        ("kind = \"fat-tree\"\nk = 4", 8, 800.0),
    ] {
        let pair = |n: usize| {
            format!("{{ name = \"t{n}\", from = \"h{n}\", to = \"h{}\", priority = 3 }}", half + n)
        };
        let traffic: Vec<String> = (1..=half).map(pair).collect();
        let more = format!("multipath = \"spray\"\ntraffic = [{}]", traffic.join(", "));
        let outcome = run(&read(network, &more));
        let sum: f64 = outcome.traffic.iter().map(|traffic| traffic.throughput_bps / 1e9).sum();
        assert!((sum - gbps).abs() < 0.02 * gbps, "{network}: {sum} of {gbps}");
        assert!(outcome.traffic.iter().all(|traffic| traffic.lost_frames == 0), "{network}");
    }
}

/// The same names and the same results, whatever happened before.
#[test]
fn a_generated_network_is_always_the_same() {
    let network = "kind = \"fat-tree\"\nk = 4";
    let [one, other] = [all_to_all(network), all_to_all(network)];
    assert!(one == other && run(&one) == run(&other));
}
