//! Choice among equal paths, against theory, and routes that heal after a cut.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{GBPS, MS, US, cable, constant, host, run, scenario, switch};
use sim::Results;
use sim::scenario::{Fault, FaultKind, FlowHash, HashFields, Multipath, NodeKind, Scenario, Traffic, parse};

const FLOW: Multipath = Multipath::Flow(FlowHash { fields: HashFields::DEFAULT, seed: None });

/// Ports `p0` to `p{ports - 1}`; priority 3 is no-drop.
fn device(ports: usize) -> String {
    let port = |port| format!("[port.p{port}]\ninterface = \"i{port}\"\n");
    "[port-defaults]\ntrust = \"dot1p\"\n[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n".to_owned()
        + &(0..ports).map(port).collect::<String>()
}

/// Four senders at 100G behind one switch, four uplinks at 100G each to a switch of its own, and a
/// receiver at 400G behind those:
///
/// ```text
/// h6 … h9 ─ 0 ═ 1, 2, 3, 4 ═ 5 ── h10
/// ```
fn four_to_one(multipath: Multipath, seed: u64) -> Scenario {
    let mut nodes = vec![switch("near", &device(8))];
    nodes.extend((1..=4).map(|n| switch(&format!("spine{n}"), &device(2))));
    nodes.push(switch("far", &device(5)));
    nodes.extend((6..=10).map(|n| host(&format!("h{n}"))));
    let mut links: Vec<_> = (0..4).map(|n| cable((6 + n, 0), (0, n), 100 * GBPS, 10)).collect();
    links.extend((0..4).map(|n| cable((0, 4 + n), (1 + n, 0), 100 * GBPS, 10)));
    links.extend((0..4).map(|n| cable((1 + n, 1), (5, n), 100 * GBPS, 10)));
    links.push(cable((5, 4), (10, 0), 400 * GBPS, 10));
    let flows = (6..10).map(|from| (from, 10)).collect();
    let traffic = vec![Traffic { flows, ..constant("all", 6, 10, 3, 1000) }];
    let mut scenario = scenario(nodes, links, traffic, 500 * US);
    scenario.seed = seed;
    for node in &mut scenario.nodes {
        if let NodeKind::Switch(switch) = &mut node.kind {
            switch.multipath = multipath;
        }
    }
    scenario
}

fn gbps(outcome: &Results) -> f64 {
    outcome.traffic[0].throughput_bps / 1e9
}

#[test]
fn one_receiver_has_one_path_unless_frames_choose() {
    let by_receiver = run(&four_to_one(Multipath::Receiver, 1));
    assert!((gbps(&by_receiver) - 100.0).abs() < 1.0, "{}", gbps(&by_receiver));
    for multipath in [Multipath::Spray, Multipath::Adaptive] {
        let outcome = run(&four_to_one(multipath, 1));
        assert!((gbps(&outcome) - 400.0).abs() < 3.0, "{multipath:?}: {}", gbps(&outcome));
        assert_eq!(outcome.traffic[0].lost_frames, 0);
    }
}

/// With flow hashing, the throughput is 100 Gbit/s for each uplink that at least one flow has:
/// exactly for each seed, and on average that of balls into bins, 400 (1 − (3/4)⁴) Gbit/s.
#[test]
fn flows_collide_as_balls_fall_into_bins() {
    let (seeds, mut sum) = (60, 0.0);
    for seed in 0..seeds {
        let mut scenario = four_to_one(FLOW, seed);
        scenario.duration_ns = 100 * US;
        let outcome = run(&scenario);
        let used = (4..8).filter(|&uplink| outcome.links[uplink].busy_percent[0] > 5.0).count();
        assert!((gbps(&outcome) - 100.0 * used as f64).abs() < 8.0, "{used} uplinks: {}", gbps(&outcome));
        assert_eq!((outcome.traffic[0].reordered_frames, outcome.traffic[0].lost_frames), (0, 0));
        sum += used as f64;
    }
    // The number of used bins has the variance 0.374: three standard errors.
    let (mean, expected) = (sum / seeds as f64, 4.0 * (1.0 - 0.75_f64.powi(4)));
    assert!((mean - expected).abs() < 3.0 * (0.374_f64 / seeds as f64).sqrt(), "{mean}, {expected}");
    // Always the same for one seed.
    let again = || gbps(&run(&four_to_one(FLOW, 1)));
    assert_eq!(again().to_bits(), again().to_bits());
}

/// One flow at 40 Gbit/s over one of four paths, whose first cable is cut: what is sent until the
/// switches have converged is lost, by name, and nothing more. After the repair nothing is lost.
#[test]
fn routes_heal_after_a_cut() {
    for multipath in [Multipath::Receiver, FLOW, Multipath::Spray, Multipath::Adaptive] {
        let mut scenario = four_to_one(multipath, 1);
        scenario.traffic[0].flows.truncate(1);
        scenario.traffic[0].rate_bps = 40 * GBPS;
        scenario.duration_ns = 2 * MS;
        let probe = run(&scenario);
        let used = (4..8).find(|&link| probe.links[link].busy_percent[0] > 5.0).expect("an uplink");
        let share = if multipath == Multipath::Spray { 4 } else { 1 };
        scenario.faults = vec![
            Fault { at_ns: 500 * US, kind: FaultKind::LinkDown { link: used } },
            Fault { at_ns: 1500 * US, kind: FaultKind::LinkUp { link: used } },
        ];
        let lost = |convergence_ns: Option<u64>| {
            let outcome = run(&Scenario { convergence_ns, ..scenario.clone() });
            let cut = outcome.links[used].cut_frames;
            let drops: u64 = outcome.switches[0]
                .ports
                .iter()
                .flat_map(|port| port.drops())
                .filter(|(name, _)| *name == "port_down")
                .map(|(_, frames)| frames)
                .sum();
            assert_eq!(outcome.traffic[0].lost_frames, cut + drops, "{multipath:?}: by name");
            drops + cut
        };
        // A frame each 200 ns.
        let healed = lost(Some(100 * US));
        if multipath == Multipath::Adaptive {
            // The switch at the cut takes its other ports at once.
            assert!(healed <= 5 && lost(None) <= 5, "{healed}");
        } else {
            assert!(healed.abs_diff(500 / share) <= 5, "{multipath:?}: {healed}");
            assert!(lost(None) >= 9 * healed, "{multipath:?}: they stay otherwise");
        }
        assert!(lost(Some(0)) <= 5, "{multipath:?}: frames on the cable only");
    }
}

/// Static entries of hosts do not depend on how many addresses a switch may learn.
#[test]
fn a_small_fdb_has_all_routes() {
    let device = "[bridge]\nmax_entries = 1\n".to_owned() + &device(3);
    let nodes = vec![switch("s", &device), host("h1"), host("h2"), host("h3")];
    let links = (0..3).map(|n| cable((1 + n, 0), (0, n), 10 * GBPS, 10)).collect();
    let traffic = vec![constant("a", 1, 2, 3, 1000), constant("b", 2, 3, 3, 1000)];
    let outcome = run(&scenario(nodes, links, traffic, 100 * US));
    assert!(outcome.hosts.iter().all(|host| host.foreign_frames == 0), "{:?}", outcome.hosts);
}

fn fat_tree(more: &str) -> Scenario {
    let text = format!(
        "duration = \"20us\"\n{more}\n[network]\nkind = \"fat-tree\"\nk = 4\n\
         [[traffic]]\nname = \"t\"\nfrom = \"h[1-16]\"\nto = \"h[1-16]\"\nrate = \"5G\"\n"
    );
    parse("t.toml", &text, &mut |file| Err(file.to_owned())).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

/// Uplinks of the aggregation switches of a fat-tree that carry frames, of 16.
fn used_core_links(more: &str) -> usize {
    let outcome = run(&fat_tree(more));
    let to_core = outcome.links.iter().filter(|link| link.name.contains("agg") && link.name.contains("core"));
    let used: Vec<bool> = to_core.map(|link| link.busy_percent[0] > 0.0).collect();
    assert_eq!(used.len(), 16);
    used.into_iter().filter(|used| *used).count()
}

/// Hash polarization: if edge and aggregation switches have one hash function, an aggregation
/// switch gets only flows for which that selects the same one of its two uplinks. Functions of
/// their own for the two tiers, or fields of their own, use all.
#[test]
fn one_hash_function_in_two_tiers_leaves_uplinks_idle() {
    assert_eq!(used_core_links(""), 16);
    assert_eq!(used_core_links("hash_seed = 7"), 8);
    assert_eq!(used_core_links("hash_seed = 7\n[switch.\"agg[1-8]\"]\nhash_seed = 8"), 16);
    let fields = "hash_seed = 7\nhash_fields = [\"src-ip\", \"dst-ip\"]";
    assert_eq!(used_core_links(fields), 8);
    assert_eq!(used_core_links(&format!("{fields}\n[switch.\"agg[1-8]\"]\nhash_fields = [\"dst-qp\"]")), 16);
}

/// Without the UDP source port, which is what a queue pair differs in, all flows of two hosts have
/// one path; with the queue pair they spread.
#[test]
fn fields_decide_which_flows_share_a_path() {
    let used = |fields: &str| {
        let text = format!(
            "duration = \"20us\"\nhash_fields = [{fields}]\n[network]\nkind = \"leaf-spine\"\nleaves = 2\n\
             spines = 4\nhosts_per_leaf = 1\n{}",
            (1..=32)
                .map(|n| format!("[[traffic]]\nname = \"t{n}\"\nfrom = \"h1\"\nto = \"h2\"\nrate = \"1G\"\n"))
                .collect::<String>()
        );
        let scenario = parse("t.toml", &text, &mut |file| Err(file.to_owned())).unwrap();
        let outcome = run(&scenario);
        let uplinks = outcome.links.iter().filter(|link| link.name.contains("spine"));
        uplinks.filter(|link| link.busy_percent[0] > 0.0 && link.name.contains("leaf1")).count()
    };
    assert_eq!(
        used("\"src-ip\", \"dst-ip\", \"protocol\", \"dst-port\", \"vlan\", \"src-mac\", \"dst-mac\""),
        1
    );
    assert_eq!([used("\"src-port\""), used("\"dst-qp\"")], [4, 4]);
}

/// A host with two ports, each on a switch of its own, sends 16 flows to one behind both:
///
/// ```text
/// h1.1 ─ a ─ c ─ h2
/// h1.2 ─ b ─ c
/// ```
fn two_ports(host: &str, uplink: &str, more: &str) -> Scenario {
    let flow = |n| {
        format!(
            "[[traffic]]\nname = \"t{n}\"\nfrom = \"h1\"\nto = \"h2\"\npriority = 3\nframe_bytes = 1000\n\
             rate = \"100G\"\n"
        )
    };
    let switches =
        ["a", "b", "c"].map(|name| format!("[switch.{name}]\nconfig = \"device.toml\"\n")).concat();
    let cable = |ends: &str, speed: &str| format!("[[link]]\nends = [{ends}]\nspeed = \"{speed}\"\n");
    let cables = [
        cable("\"h1.1\", \"a.p0\"", "100G"),
        cable("\"h1.2\", \"b.p0\"", "100G"),
        cable("\"a.p1\", \"c.p0\"", uplink),
        cable("\"b.p1\", \"c.p1\"", "100G"),
        cable("\"c.p2\", \"h2\"", "400G"),
    ];
    let flows: String = (1..=16).map(flow).collect();
    let text = format!(
        "duration = \"750us\"\n{switches}[host.h1]\nports = 2\n{host}\n[host.h2]\n{}{flows}{more}",
        cables.concat()
    );
    parse("t.toml", &text, &mut |_| Ok(device(3))).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

fn sum_gbps(outcome: &Results) -> f64 {
    outcome.traffic.iter().map(|traffic| traffic.throughput_bps / 1e9).sum()
}

fn is_near(outcome: &Results, gbps: f64) {
    let sum = sum_gbps(outcome);
    assert!((sum - gbps).abs() < 0.01 * gbps, "{sum}, expected {gbps}");
}

const BALANCED: &str = "bond = \"balance-xor\"";

/// One port after the other, or both at once; and the pauses of one do not stop the other.
#[test]
fn a_bond_sends_over_its_first_port_or_over_all() {
    let outcome = run(&two_ports("", "100G", ""));
    is_near(&outcome, 100.0);
    for (uplink, gbps) in [("100G", 200.0), ("10G", 110.0)] {
        let outcome = run(&two_ports(BALANCED, uplink, ""));
        is_near(&outcome, gbps);
        assert!(outcome.traffic.iter().all(|traffic| traffic.lost_frames + traffic.reordered_frames == 0));
    }
    is_near(&run(&two_ports("", "10G", "")), 10.0);
}

/// While one cable is cut, its flows leave by the other port; only frames on the cable are lost.
#[test]
fn flows_of_a_cut_port_leave_by_another() {
    let faults = "[[fault]]\nat = \"250us\"\nlink-down = \"a.p0\"\n\
        [[fault]]\nat = \"500us\"\nlink-up = \"a.p0\"\n";
    let outcome = run(&two_ports(BALANCED, "100G", faults));
    is_near(&outcome, (200.0 + 100.0 + 200.0) / 3.0);
    let lost: u64 = outcome.traffic.iter().map(|traffic| traffic.lost_frames).sum();
    assert_eq!(lost, outcome.links[0].cut_frames);
    assert!((1..=2).contains(&lost), "{lost}");
    let flows: Vec<bool> = outcome.traffic.iter().map(|traffic| traffic.received_frames > 0).collect();
    assert_eq!(flows, [true; 16]);
}

/// Acknowledgments leave by the ports of their flows, also while one is cut. The parts of a network
/// agree.
#[test]
fn what_a_bond_answers_arrives() {
    let back = (1..=8)
        .map(|n| {
            format!(
                "[[traffic]]\nname = \"b{n}\"\nfrom = \"h2\"\nto = \"h1\"\npriority = 3\nbytes = 20000\n\
                 retransmission = \"selective\"\n"
            )
        })
        .collect::<String>();
    let faults = "[[fault]]\nat = \"1us\"\nlink-down = \"a.p0\"\n[[fault]]\nat = \"100us\"\nlink-up = \"a.p0\"\n\
        [[fault]]\nat = \"100us\"\nlink-down = \"b.p0\"\n";
    let scenario = two_ports(BALANCED, "100G", &format!("{back}{faults}"));
    let scenario = Scenario { convergence_ns: Some(1000), ..scenario };
    let outcome = run(&scenario);
    assert!(outcome.traffic[16..].iter().all(|traffic| traffic.completed == 1));
    for most in [2, 3] {
        assert!(lab::run_in_parts(&scenario, most) == outcome, "{most} parts");
    }
}

/// Another seed distributes the flows in another way.
#[test]
fn the_seed_decides_which_port_a_flow_has() {
    let shares = (0..8).map(|seed| {
        let outcome = run(&Scenario { seed, duration_ns: 20 * US, ..two_ports(BALANCED, "10G", "") });
        outcome.traffic.iter().map(|traffic| traffic.throughput_bps > 1e9).collect::<Vec<bool>>()
    });
    assert!(shares.collect::<std::collections::BTreeSet<_>>().len() > 4);
}

/// A port from which there is no way, and links of different speeds, are refused.
#[test]
fn ports_of_a_bond_must_be_alike() {
    let text = |second: &str, speed: &str| {
        format!(
            "duration = \"1us\"\n[switch.a]\nconfig = \"device.toml\"\n[switch.b]\nconfig = \"device.toml\"\n\
             [host.h1]\nports = 2\nbond = \"balance-xor\"\n[host.h2]\n[host.h3]\n\
             [[link]]\nends = [\"h1.1\", \"a.p0\"]\nspeed = \"100G\"\n\
             [[link]]\nends = [\"h1.2\", \"{second}\"]\nspeed = \"{speed}\"\n\
             [[link]]\nends = [\"h2\", \"a.p2\"]\nspeed = \"100G\"\n\
             [[link]]\nends = [\"h3\", \"b.p2\"]\nspeed = \"100G\"\n\
             [[traffic]]\nname = \"t\"\nfrom = \"h1\"\nto = \"h2\"\n"
        )
    };
    let mistakes = |text: String| match parse("t.toml", &text, &mut |_| Ok(device(3))) {
        Ok(_) => String::new(),
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
    };
    assert_eq!(mistakes(text("a.p1", "100G")), "");
    assert_eq!(
        mistakes(text("a.p1", "25G")).trim(),
        "t.toml:6:7: host.h1: h1 sends over links of different speeds; give them one speed, or leave bond out"
    );
    let no_way = mistakes(text("b.p1", "100G"));
    assert!(no_way.contains("there is no way from h1 to h2"), "{no_way}");
}
