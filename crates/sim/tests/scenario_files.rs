//! Valid scenario files and the resulting scenarios.

mod common;
mod example;

use std::fmt::Write;

use endpoint::dcqcn::{DcqcnSettings, FastRecovery};
use sim::Scenario;
use sim::scenario::{Expectation, NodeKind, Start, parse};

/// Lists everything, one line each.
fn in_short(scenario: &Scenario) -> String {
    let Scenario { title, duration_ns, seed, sample_ns, forwarding, .. } = scenario;
    let mut text =
        format!("{title:?}: {duration_ns} ns, seed {seed}, sample {sample_ns} ns, {forwarding:?}\n\n");
    for (number, node) in scenario.nodes.iter().enumerate() {
        let _ = match &node.kind {
            NodeKind::Switch(switch) => {
                let no_drop: Vec<u8> = switch.settings.ports.iter().map(|port| port.pfc.no_drop).collect();
                writeln!(
                    text,
                    "{number} {}: turn {} ns, no-drop by port {no_drop:?}",
                    node.name, switch.turn_ns
                )
            }
            NodeKind::Host(host) => writeln!(text, "{number} {}: no-drop {:#010b}", node.name, host.no_drop),
        };
    }
    text += "\n";
    for link in &scenario.links {
        let [a, b] = link.ends.map(|end| format!("{}:{}", end.node, end.port));
        let _ = writeln!(
            text,
            "{} ({a}, {b}): {} bit/s, {} m, {} ns, MTU {}, response {} ns, overhead {}",
            link.name,
            link.speed_bps,
            link.cable_m,
            link.propagation_ns,
            link.mtu_bytes,
            link.response_ns,
            link.overhead_bytes
        );
    }
    text += "\n";
    for traffic in &scenario.traffic {
        let flows: Vec<String> = traffic.flows.iter().map(|(from, to)| format!("{from}→{to}")).collect();
        let start = match &traffic.start {
            Start::At(at_ns) => format!("from {at_ns}"),
            Start::After(others) => {
                let names: Vec<&str> = others.iter().map(|&other| &*scenario.traffic[other].name).collect();
                format!("after {}", names.join(", "))
            }
        };
        let _ = writeln!(
            text,
            "{}: {}; priority {}, DSCP {}, {} bytes, {} bit/s, {:?}, {start} to {} ns, ECN {}, DCQCN {}",
            traffic.name,
            flows.join(" "),
            traffic.priority,
            traffic.dscp,
            traffic.frame_bytes,
            traffic.rate_bps,
            traffic.pattern,
            traffic.stop_ns,
            traffic.ecn,
            traffic.dcqcn.is_some()
        );
    }
    text += "\n";
    scenario.routes.iter().for_each(|route| text += &format!("{route:?}\n"));
    scenario.faults.iter().for_each(|fault| text += &format!("{fault:?}\n"));
    for Expectation { line, scope, metric, at_least, at_most } in &scenario.expectations {
        let _ = writeln!(text, "line {line}: {scope:?} {metric:?} {at_least:?} to {at_most:?}");
    }
    text
}

fn read(text: &str) -> Scenario {
    parse("dir/some.toml", text, &mut common::load).unwrap_or_else(|mistakes| {
        panic!("{}", mistakes.iter().map(|mistakes| format!("{mistakes}\n")).collect::<String>())
    })
}

#[test]
fn the_example_of_the_language() {
    insta::assert_snapshot!(in_short(&read(&example::example())));
}

/// Ranges on both sides, defaults of the ports' configurations, an all-to-all traffic, faults that
/// are sorted.
#[test]
fn what_is_left_out() {
    let scenario = read(
        r#"
        duration = "1us"
        [host."h[1-4]"]
        [switch.a]
        config = "10g.toml"
        [switch.b]
        config = "no-pfc.toml"
        [[link]]
        ends = ["h[1-2]", "a.p[1-2]"]
        [[link]]
        ends = ["b.p[1-2]", "h[3-4]"]
        speed = "1G"
        mtu = 1000
        wire_overhead = false
        [[link]]
        ends = ["a.up", "b.up"]
        [[traffic]]
        name = "all"
        from = "h[1-4]"
        to = ["h[3-4]", "h1"]
        [[traffic]]
        name = "one"
        from = "h3"
        to = "h4"
        dcqcn = true
        dcqcn_fast_recovery = "up_to_f"
        pattern = "poisson"
        rate = 1000000
        [[fault]]
        at = "500ns"
        link-up = "h1"
        [[fault]]
        at = "400ns"
        link-down = "a.p1"
        "#,
    );
    insta::assert_snapshot!(in_short(&scenario));
}

/// Of the parameters of DCQCN, those that a table leaves out are the paper's.
#[test]
fn dcqcn_has_other_parameters() {
    let text = |dcqcn: &str| {
        format!(
            "duration = \"1ms\"\nwarmup = \"100us\"\n[switch.s]\nconfig = \"s.toml\"\n[host.\"h[1-2]\"]\n[[link]]\n\
             ends = [\"h[1-2]\", \"s.p[1-2]\"]\n[[traffic]]\nname = \"t\"\nfrom = \"h1\"\nto = \"h2\"\ndcqcn = {dcqcn}\n"
        )
    };
    let port = |n: usize| format!("[port.p{n}]\ninterface = \"i{n}\"\nspeed = \"25G\"\n");
    let config: String = (1..=2).map(port).collect();
    let read = |dcqcn: &str| parse("x.toml", &text(dcqcn), &mut |_| Ok(config.clone())).unwrap();
    assert_eq!(read("false").traffic[0].dcqcn, None);
    assert_eq!(read("true").traffic[0].dcqcn, Some(DcqcnSettings::PAPER));
    assert_eq!((read("true").warmup_ns, read("true").traffic[0].ecn), (100_000, true));
    let other = "{ cnp_interval = \"4us\", step_interval = \"300us\", additive = \"5M\", gain = 0.0625, \
                 step_bytes = \"1M\", fast_recovery = \"up_to_f\", clamp_target = false }";
    let expected = DcqcnSettings {
        cnp_interval_ns: 4_000,
        step_interval_ns: 300_000,
        additive_bps: 5e6,
        gain: 0.0625,
        step_bytes: 1_000_000,
        fast_recovery: FastRecovery::UpToF,
        clamps_target: false,
        ..DcqcnSettings::PAPER
    };
    assert_eq!(read(other).traffic[0].dcqcn, Some(expected));
}

/// A parameter is that of the traffic, else that of the sending host, else the paper's. Of what a
/// host sends without DCQCN, and of flows of other hosts, nothing changes.
#[test]
fn hosts_have_parameters_of_dcqcn() {
    let text = "duration = \"1ms\"\n[switch.s]\nconfig = \"s.toml\"\n[host.\"g[1-2]\"]\n\
                dcqcn = { additive = \"5M\", gain = 0.5, fast_steps = 3 }\n[host.\"f[1-2]\"]\n\
                [[link]]\nends = [\"g[1-2]\", \"s.p[1-2]\"]\n[[link]]\nends = [\"f[1-2]\", \"s.p[3-4]\"]\n\
                [[traffic]]\nname = \"a\"\nfrom = [\"f1\", \"g1\", \"g2\"]\nto = \"f2\"\ndcqcn = { gain = 0.25 }\n\
                [[traffic]]\nname = \"b\"\nfrom = \"g1\"\nto = \"f2\"\n";
    let port = |n: usize| format!("[port.p{n}]\ninterface = \"i{n}\"\nspeed = \"25G\"\n");
    let config: String = (1..=4).map(port).collect();
    let scenario = parse("x.toml", text, &mut |_| Ok(config.clone())).unwrap();
    let own = DcqcnSettings { gain: 0.25, ..DcqcnSettings::PAPER };
    let of_host = DcqcnSettings { additive_bps: 5e6, fast_steps: 3, ..own };
    let node = |name: &str| scenario.nodes.iter().position(|node| node.name == name).unwrap();
    assert_eq!(scenario.traffic[0].dcqcn, Some(own));
    assert_eq!(scenario.traffic[0].host_dcqcn, [(node("g1"), of_host), (node("g2"), of_host)]);
    assert_eq!((scenario.traffic[1].dcqcn, scenario.traffic[1].host_dcqcn.len()), (None, 0));
}

/// The fabric of the examples: 16 leaves, 8 spines, 256 hosts. Every configuration is read once.
#[test]
fn a_fabric() {
    let mut text = String::from(
        r#"
        duration = "1ms"
        [switch."leaf[1-16]"]
        config = "leaf"
        [switch."spine[1-8]"]
        config = "spine"
        [host."h[1-256]"]
        [[link]]
        ends = ["h[1-256]", "leaf[1-16].h[1-16]"]
        [[traffic]]
        name = "all"
        from = "h[1-256]"
        to = "h[1-256]"
        "#,
    );
    for spine in 1..=8 {
        let _ = writeln!(text, "[[link]]\nends = [\"leaf[1-16].up{spine}\", \"spine{spine}.p[1-16]\"]");
    }
    let mut loaded = Vec::new();
    let mut load = |path: &str| {
        loaded.push(path.to_owned());
        let port = |name: String| format!("[port.{name}]\ninterface = \"{name}\"\nspeed = \"100G\"\n");
        let downs =
            (1..=16).map(|number| port(format!("{}{number}", if path == "leaf" { "h" } else { "p" })));
        Ok(downs.chain((1..=8).map(|number| port(format!("up{number}")))).collect())
    };
    let scenario = parse("fabric.toml", &text, &mut load).unwrap();
    assert_eq!(loaded, ["leaf", "spine"]);
    assert_eq!((scenario.nodes.len(), scenario.links.len()), (280, 256 + 128));
    assert_eq!(scenario.traffic[0].flows.len(), 256 * 255);
    assert_eq!((&*scenario.title, &*scenario.links[255].name), ("fabric", "h256–leaf16.h16"));
    assert_eq!(scenario.links[383].name, "leaf16.up8–spine8.p16");
}

/// A cable that is too long for a switch's headroom gives one warning, wherever its length is
/// configured; the scenario runs anyway. Without a length, there is no warning.
#[test]
fn cables_that_headroom_is_too_short_for() {
    let config = |lines: &str| {
        let port = |n: usize| format!("[port.p{n}]\ninterface = \"i{n}\"\nspeed = \"25G\"\n{lines}");
        let ports: String = (1..=3).map(port).collect();
        format!(
            "[buffer]\nheadroom_cells = 99999\n[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n{ports}"
        )
    };
    let warnings = |cable: &str, config: String| {
        let text = format!(
            "duration = \"1ms\"\n[switch.s]\nconfig = \"s.toml\"\n[host.\"h[1-3]\"]\n[[link]]\n\
             ends = [\"h[1-3]\", \"s.p[1-3]\"]\n{cable}[[traffic]]\nname = \"rdma\"\nfrom = \"h1\"\nto = \"h2\"\n\
             priority = 3\nframe_bytes = 1536\n"
        );
        parse("x.toml", &text, &mut |_| Ok(config.clone())).unwrap().warnings.to_string()
    };
    let short = |line: &str| {
        format!(
            "x.toml:{line}: 125 headroom cells are too few: after XOFF 14917 bytes may arrive at 25G over 10 m, which \
             take 234 cells as frames of 64 bytes (priority 3 of s.p1 and 2 more ports); give at least 234 cells (59904 \
             bytes), as `sluice headroom --speed 25G --cable 10m --mtu 1536 --cell 256` explains"
        )
    };
    assert_eq!(warnings("", config("")), "");
    assert_eq!(warnings("cable_m = 10\n", config("")), short("7:11: link.cable_m"));
    assert_eq!(warnings("", config("cable_m = 10\n")), short("6:8: link.ends"));
    let enough = "pfc.priority.3.headroom_cells = 234\n";
    assert_eq!(warnings("cable_m = 10\n", config(enough)), "");
    assert!(
        warnings("cable_m = 12\n", config(enough))
            .starts_with("x.toml:7:11: link.cable_m: 234 headroom cells are")
    );
    let off = "pfc.mode = \"off\"\n";
    assert_eq!(warnings("cable_m = 10\n", config(off)), "");
}
