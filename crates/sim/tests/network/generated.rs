//! Generated networks: every host reaches every other, and the bisection carries what theory says.

#[path = "../lab/mod.rs"]
mod lab;

use lab::run;
use sim::scenario::{Multipath, NodeKind, Scenario, parse};

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

const TWO_LEAVES: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2";
const TRAFFIC: &str = "traffic = [{ name = \"t\", from = \"h1\", to = \"h3\", dcqcn = true }]";

/// Returns the mistakes of a scenario with this network, and tables after it.
fn mistakes(network: &str, tables: &str) -> String {
    let text = format!("duration = \"1ms\"\n{TRAFFIC}\n[network]\n{network}\n{tables}");
    let load = &mut |_: &str| Ok("[port-defaults.pfc]\nmode = \"on\"\nno_drop = [4]\n".to_owned());
    match parse("test.toml", &text, load) {
        Ok(_) => String::new(),
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    }
}

/// Leaves and spines differ. A role that is left out has the default.
#[test]
fn each_role_may_have_a_configuration() {
    let text = |network: &str| format!("duration = \"1ms\"\n{TRAFFIC}\n[network]\n{TWO_LEAVES}\n{network}\n");
    let load = &mut |path: &str| match path {
        "leaf.toml" => Ok("[port-defaults.pfc]\nmode = \"on\"\nno_drop = [4]\n".to_owned()),
        "spine.toml" => Ok("[port-defaults.pfc]\nmode = \"on\"\nno_drop = [5]\n".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    let mut no_drop = |network: &str| -> Vec<u8> {
        let scenario = parse("test.toml", &text(network), load).unwrap();
        let of_switch = |node: &sim::scenario::Node| match &node.kind {
            NodeKind::Switch(switch) => Some(switch.settings.ports[0].pfc.no_drop),
            NodeKind::Host(_) => None,
        };
        scenario.nodes.iter().filter_map(of_switch).collect()
    };
    let (three, four, five) = (1 << 3, 1 << 4, 1 << 5);
    assert_eq!(no_drop(""), [three; 4]);
    assert_eq!(no_drop("config = \"leaf.toml\""), [four; 4]);
    assert_eq!(
        no_drop("config = { leaf = \"leaf.toml\", spine = \"spine.toml\" }"),
        [four, four, five, five]
    );
    assert_eq!(no_drop("[network.config]\nspine = \"spine.toml\""), [three, three, five, five]);
}

/// Single hosts and switches of a network have settings of their own.
#[test]
fn nodes_of_a_network_may_have_tables() {
    let tables = "[host.\"h[1-2]\"]\nno_drop = [4]\nvlan = 7\n[host.h3]\nvlan = 7\ndcqcn = { additive = \"5M\" }\n\
        [switch.spine1]\nmultipath = \"spray\"\nturn = \"10us\"";
    let traffic = "traffic = [{ name = \"t\", from = \"h3\", to = \"h1\", bytes = 100000, dcqcn = true }]";
    let scenario = read(TWO_LEAVES, traffic);
    let text = format!("duration = \"1ms\"\n{traffic}\n[network]\n{TWO_LEAVES}\n{tables}");
    let refined = parse("test.toml", &text, &mut |path| Err(path.to_owned())).unwrap();
    assert_eq!(scenario.links, refined.links);
    let of_host = |node: &sim::scenario::Node| match &node.kind {
        NodeKind::Host(host) => Some((node.name.clone(), host.no_drop, host.vlan)),
        NodeKind::Switch(_) => None,
    };
    let of_hosts: Vec<_> = refined.nodes.iter().filter_map(of_host).collect();
    let expected =
        [("h1", 1 << 4, Some(7)), ("h2", 1 << 4, Some(7)), ("h3", 0xff, Some(7)), ("h4", 0xff, None)];
    assert_eq!(of_hosts, expected.map(|(name, no_drop, vlan)| (name.to_owned(), no_drop, vlan)));
    let of_switch = |name: &str| match &refined.nodes.iter().find(|node| node.name == name).unwrap().kind {
        NodeKind::Switch(switch) => (switch.multipath, switch.turn_ns),
        NodeKind::Host(_) => panic!("{name} is a switch"),
    };
    assert_eq!(of_switch("spine1"), (Multipath::Spray, 10_000));
    assert!(matches!(of_switch("spine2"), (Multipath::Flow(_), 0)));
    assert_eq!(run(&refined).traffic[0].completed, 1);
}

#[test]
fn what_a_table_cannot_change_is_refused() {
    for (network, tables, expected) in [
        (
            "",
            "[host.h1]\nports = 2",
            "host.h1: h1 is a host of the network, which gives it one port; leave ports out",
        ),
        ("", "[host.h1]\n[host.\"h[1-2]\"]", "h1 is in host.h1 already"),
        ("", "[switch.h1]\nconfig = \"x.toml\"", "network: h1 is in switch.h1 already"),
        ("", "[host.leaf1]", "host.leaf1: leaf1 is in network already"),
        (
            "",
            "[switch.leaf1]\nconfig = \"x.toml\"",
            "switch.leaf1.config: the network has the configuration of its switches",
        ),
        (
            "",
            "[switch.\"leaf[1-3]\"]\nturn = \"1us\"",
            "switch.\"leaf[1-3]\": the network has no switch leaf3; write",
        ),
        (
            "",
            "[switch.leaf1]\n[switch.\"leaf[1-2]\"]",
            "switch.\"leaf[1-2]\": leaf1 is in switch.leaf1 already",
        ),
        ("", "[host.\"x[1-5000]\"]", "host.\"x[1-5000]\": 5000 more nodes are too many"),
        ("config = { core = \"x.toml\" }", "", "network.config.core: unknown setting"),
        ("config = { leaf = 3 }", "", "network.config.leaf: "),
    ] {
        let found = mistakes(&format!("{TWO_LEAVES}\n{network}"), tables);
        assert!(found.contains(expected), "{tables}{network}: {found}");
    }
    assert_eq!(mistakes(TWO_LEAVES, ""), "");
}
