//! VLANs, as in the daemon: who reaches whom, with which tag, and what a scenario may not have.

#[path = "../lab/mod.rs"]
mod lab;

use lab::run;
use sim::scenario::Scenario;
use sim::{Results, Simulation};

/// Hosts at 1 to 3, a trunk at `up1` and `up2`: priority 3 is no-drop.
const LEAF: &str = "
[port-defaults]
trust = \"dot1p\"
speed = \"10G\"
[port-defaults.pfc]
mode = \"on\"
no_drop = [3]
[port.p1]
interface = \"i1\"
vlan = { mode = \"access\", pvid = 10 }
[port.p2]
interface = \"i2\"
vlan = { mode = \"access\", pvid = 20 }
[port.p3]
interface = \"i3\"
vlan = { mode = \"trunk\", allowed = \"10-30\", pvid = 10 }
[port.up1]
interface = \"i4\"
vlan = { mode = \"trunk\", allowed = \"10-30\", pvid = 10 }
[port.up2]
interface = \"i5\"
vlan = { mode = \"trunk\", allowed = \"10-30\" }
";

/// h1 and h4 are untagged in VLAN 10, h2 and h5 in VLAN 20; h3 and h6 send tags of VLAN 20.
const NETWORK: &str = "
duration = \"200us\"
[switch.\"leaf[1-2]\"]
config = \"leaf.toml\"
[host.\"h[1-2]\"]
[host.h3]
vlan = 20
[host.\"h[4-5]\"]
[host.h6]
vlan = 20
[[link]]
ends = [\"h[1-6]\", \"leaf[1-2].p[1-3]\"]
[[link]]
ends = [\"leaf1.up[1-2]\", \"leaf2.up[1-2]\"]
cable_m = 5
";

fn parse(settings: &str, network: &str, leaf: &str) -> Result<Scenario, String> {
    let load = &mut |_: &str| Ok(leaf.to_owned());
    sim::scenario::parse("x.toml", &format!("{settings}{network}"), load)
        .map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn traffic(name: &str, from: &str, to: &str, more: &str) -> String {
    format!(
        "[[traffic]]\nname = \"{name}\"\nfrom = {from}\nto = {to}\npriority = 3\nframe_bytes = 1000\n\
         bytes = 20000\n{more}\n"
    )
}

/// Everything within each VLAN, in both directions.
fn within_vlans(more: &str) -> String {
    traffic("ten", "[\"h1\", \"h4\"]", "[\"h1\", \"h4\"]", more)
        + &traffic("twenty", "[\"h2\", \"h3\", \"h5\", \"h6\"]", "[\"h2\", \"h3\", \"h5\", \"h6\"]", more)
}

fn assert_all_arrived(outcome: &Results, what: &str) {
    for traffic in &outcome.traffic {
        let (sent, received) = (traffic.sent_frames, traffic.received_frames);
        assert_eq!((received, traffic.lost_frames), (sent, 0), "{what}: {}", traffic.name);
        assert_eq!(traffic.completed, traffic.messages, "{what}: {}", traffic.name);
    }
    assert!(outcome.hosts.iter().all(|host| host.foreign_frames == 0), "{what}");
}

#[test]
fn hosts_of_a_vlan_reach_each_other_and_nobody_else() {
    for multipath in ["receiver", "flow", "spray", "adaptive"] {
        for congestion_control in ["", "ecn = true\ndcqcn = true", "dctcp = true", "hpcc = true"] {
            let settings = format!("multipath = \"{multipath}\"\nlatency = true\n");
            let network = format!("{NETWORK}{}", within_vlans(congestion_control));
            let scenario = parse(&settings, &network, LEAF).unwrap_or_else(|why| panic!("{why}"));
            let outcome = run(&scenario);
            assert_all_arrived(&outcome, &format!("{multipath}, {congestion_control}"));
            assert!(lab::run_in_parts(&scenario, 2) == outcome, "{multipath}, {congestion_control}");
        }
    }
}

/// Entries that are learned are of a VLAN, too. One trunk remains, as another would close a loop.
#[test]
fn learning_switches_learn_by_vlan() {
    let network = NETWORK.replace("up[1-2]", "up1") + &within_vlans("");
    let outcome =
        run(&parse("forwarding = \"learn\"\n", &network, LEAF).unwrap_or_else(|why| panic!("{why}")));
    for traffic in &outcome.traffic {
        assert_eq!((traffic.received_frames, traffic.lost_frames), (traffic.sent_frames, 0));
    }
    let foreign =
        |name: &str| outcome.hosts.iter().find(|host| host.name == name).map(|host| host.foreign_frames);
    assert_eq!([foreign("h1"), foreign("h4")], [Some(0); 2], "two hosts, each known to the other at once");
}

/// One frame from a host of each kind: tag and length on every link.
#[test]
fn tags_are_those_of_the_ports() {
    let frames = |from: &str, to: &str| {
        let network =
            NETWORK.replace("up[1-2]", "up2") + &traffic("t", from, to, "").replace("20000", "1000");
        let scenario = parse("", &network, LEAF).unwrap_or_else(|why| panic!("{why}"));
        let mut simulation = Simulation::new(&scenario);
        (0..scenario.links.len()).for_each(|link| simulation.capture(link));
        let mut seen = Vec::new();
        simulation.run_until(scenario.duration_ns, &mut |frame| {
            let bytes = frame.bytes();
            let vid =
                (bytes[12..14] == [0x81, 0]).then(|| u16::from_be_bytes([bytes[14], bytes[15]]) & 0xfff);
            seen.push((vid, frame.len));
        });
        seen
    };
    let untagged_by_the_last = [(Some(0), 1000), (Some(20), 1000), (None, 996)];
    assert_eq!(frames("\"h2\"", "\"h5\""), untagged_by_the_last, "access to access");
    assert_eq!(frames("\"h2\"", "\"h6\""), [(Some(0), 1000), (Some(20), 1000), (Some(20), 1000)]);
    assert_eq!(frames("\"h3\"", "\"h5\""), [(Some(20), 1000), (Some(20), 1000), (None, 996)]);
    assert_eq!(frames("\"h3\"", "\"h2\""), [(Some(20), 1000), (None, 996)], "within a switch");
    // Its VLAN is untagged on the other trunk, and tagged on this one.
    assert_eq!(frames("\"h1\"", "\"h4\""), [(Some(0), 1000), (Some(10), 1000), (None, 996)]);
}

/// The native VLAN crosses a trunk without a tag, and comes back from there.
#[test]
fn the_native_vlan_of_a_trunk_is_untagged() {
    let network = NETWORK.replace("up[1-2]", "up1") + &within_vlans("");
    let outcome = run(&parse("", &network, LEAF).unwrap_or_else(|why| panic!("{why}")));
    assert_all_arrived(&outcome, "native VLAN");
}

/// PFC works as without VLANs: two senders to one receiver are paused, and nothing is lost.
#[test]
fn an_incast_within_a_vlan_is_lossless() {
    let network = NETWORK.replace("up[1-2]", "up1")
        + &traffic("incast", "[\"h3\", \"h5\", \"h6\"]", "\"h2\"", "").replace("20000", "\"300k\"");
    let leaf = LEAF.to_owned() + "[port-defaults.pfc.priority.3]\nxoff = { static_cells = 64 }\n";
    let outcome =
        run(&parse("", &network.replace("200us", "5ms"), &leaf).unwrap_or_else(|why| panic!("{why}")));
    assert_all_arrived(&outcome, "incast");
    let paused: u64 = outcome.hosts.iter().map(|host| host.paused_ns.iter().sum::<u64>()).sum();
    assert!(paused > 0);
}

#[test]
fn mistakes_name_the_port_and_the_cure() {
    let refused = |network: &str, leaf: &str| parse("", network, leaf).err().unwrap_or_default();
    let between = NETWORK.to_owned() + &traffic("t", "\"h1\"", "\"h5\"", "");
    assert_eq!(
        refused(&between, LEAF),
        "x.toml:16:1: traffic: of the frames from h1 to h5: leaf1.p1 puts them into VLAN 10, and the receiver is in 20; \
         give the ports on their way one VLAN"
    );
    let within = NETWORK.to_owned() + &within_vlans("");
    let pairs = [
        (within.replace("vlan = 20\n", ""), LEAF.to_owned(), ""),
        (
            within.replace("vlan = 20", "vlan = 10"),
            LEAF.to_owned(),
            "leaf1.p3 of h3 accepts frames of VLAN 10, and sends them untagged",
        ),
        (
            within.replace("vlan = 20\n", "vlan = 31\n"),
            LEAF.to_owned(),
            "leaf1.p3 of h3 does not accept frames of VLAN 31",
        ),
        (
            within.replace("[host.\"h[1-2]\"]", "[host.\"h[1-2]\"]\nvlan = 20"),
            LEAF.to_owned(),
            "leaf1.p1 of h1 does not accept frames of VLAN 20",
        ),
        (within.clone(), LEAF.replace("\"10-30\" }", "\"10-19\" }"), "leaf1.up2 is not a member of VLAN 20"),
        (
            within.replace("[\"leaf1.up[1-2]\", \"leaf2.up[1-2]\"]", "[\"leaf1.up1\", \"leaf2.up2\"]"),
            LEAF.to_owned(),
            "of the frames from h1 to h4: leaf2.up2 does not accept untagged frames",
        ),
    ];
    for (network, leaf, expected) in pairs {
        let why = refused(&network, &leaf);
        match expected {
            "" => assert!(why.contains("puts them into VLAN"), "h3 is in VLAN 10 then: {why}"),
            expected => assert!(why.contains(expected), "{expected}: {why}"),
        }
    }
}

/// Hosts may send tags through switches that have no VLANs, to hosts that accept them.
#[test]
fn a_switch_without_vlans_leaves_tags_as_they_are() {
    let plain =
        "[port.p1]\ninterface = \"i1\"\nspeed = \"1G\"\n[port.p2]\ninterface = \"i2\"\nspeed = \"1G\"\n";
    let network = |vlans: &str| {
        format!(
            "duration = \"1ms\"\n[switch.s]\nconfig = \"plain.toml\"\n[host.a]\nvlan = 7\n[host.b]\n{vlans}\n\
             [[link]]\nends = [\"a\", \"s.p1\"]\n[[link]]\nends = [\"b\", \"s.p2\"]\n{}",
            traffic("t", "\"a\"", "\"b\"", "")
        )
    };
    let scenario = parse("", &network("vlan = 7"), plain).unwrap_or_else(|why| panic!("{why}"));
    assert_all_arrived(&run(&scenario), "plain");
    let why = parse("", &network(""), plain).err().unwrap_or_default();
    assert!(why.contains("s.p2 sends frames of VLAN 7, which the receiver does not accept"), "{why}");
}

/// Frames of 60 bytes, of which a port sends 56: the windows of parts are no longer than their
/// flight.
#[test]
fn short_frames_without_their_tag_are_in_time() {
    let frames: String = (0..100).map(|number| format!("{},60\n", 400 * number)).collect();
    let trace = |name: &str, from: &str, to: &str| {
        format!(
            "[[traffic]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\npattern = \"trace\"\nframes = \"t.csv\"\n"
        )
    };
    // Frames reach a leaf, and leave it, when a window begins.
    let network = NETWORK.replace("up[1-2]", "up1").replace("p[1-3]\"]", "p[1-3]\"]\ncable_m = 20")
        + &trace("a", "h1", "h4")
        + &trace("b", "h4", "h1");
    let load = &mut |path: &str| Ok(if path == "t.csv" { frames.clone() } else { LEAF.to_owned() });
    let scenario = sim::scenario::parse("x.toml", &network, load).unwrap();
    let whole = run(&scenario);
    assert_all_arrived(&whole, "short");
    assert!(lab::run_in_parts(&scenario, 2) == whole, "the native VLAN crosses between the parts untagged");
}

/// The trunk that remains after a cut does not carry VLAN 20.
#[test]
fn paths_after_a_cut_are_checked_too() {
    let leaf = LEAF.replace(
        "vlan = { mode = \"trunk\", allowed = \"10-30\", pvid = 10 }\n[port.up2]",
        "vlan = { mode = \"trunk\", allowed = \"10-15\", pvid = 10 }\n[port.up2]",
    );
    assert_ne!(leaf, LEAF);
    let fault = "[[fault]]\nat = \"50us\"\nlink-down = \"leaf1.up2\"\n";
    let route = "[[fault]]\nat = \"50us\"\nroute = { switch = \"leaf1\", to = \"h5\", port = \"up1\" }\n";
    let first = "[[route]]\nswitch = \"leaf1\"\nto = \"h5\"\nport = \"up2\"\n[[route]]\nswitch = \"leaf2\"\nto = \"h2\"\nport = \"up2\"\n";
    let with = |settings: &str, faults: &str| {
        let network = format!("{NETWORK}{}{faults}", traffic("t", "\"h2\"", "\"h5\"", ""));
        parse(settings, &network, &leaf).err().unwrap_or_default()
    };
    assert_eq!(with("", first), "");
    assert_eq!(with("", &format!("{first}{fault}")), "", "the routes stay");
    let why = with("", &format!("{first}{route}"));
    assert!(
        why.contains("of the frames from h2 to h5 at 50us: leaf1.up1 is not a member of VLAN 20"),
        "{why}"
    );
    let why = with("convergence = \"10us\"\n", fault);
    assert!(why.contains("leaf1.up1 is not a member of VLAN 20"), "{why}");
}

/// Two hosts and a cable: no switch is there to remove a tag.
#[test]
fn hosts_on_one_cable_need_one_vlan() {
    let network = |vlan: &str| {
        format!(
            "duration = \"1ms\"\n[host.a]\nvlan = 7\n[host.b]\n{vlan}\n\
             [[link]]\nends = [\"a\", \"b\"]\nspeed = \"1G\"\n{}",
            traffic("t", "\"a\"", "\"b\"", "")
        )
    };
    let scenario = parse("", &network("vlan = 7"), "").unwrap_or_else(|why| panic!("{why}"));
    assert_all_arrived(&run(&scenario), "cable");
    let why = parse("", &network(""), "").err().unwrap_or_default();
    assert!(why.contains("a sends frames of VLAN 7, which the receiver does not accept"), "{why}");
}
