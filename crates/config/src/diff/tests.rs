use super::*;
use crate::reference::needs_restart;

const FILE: &str = "\
[switch]
name = \"lab\"
[buffer]
total_cells = 16384
headroom_cells = 2048
[bridge]
aging_s = 300
[port-defaults.pfc]
mode = \"on\"
no_drop = [3]
[port.a]
interface = \"veth0\"
speed = \"1G\"
[port.b]
interface = \"veth1\"
";

fn parse(text: &str) -> Config {
    crate::config::parse("test.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// The replacement text, then the changes that can be applied live and those that cannot.
#[test]
fn each_change_is_named_and_judged() {
    let old = parse(FILE);
    let (a, b) = (FILE.find("[port.a]").unwrap(), FILE.find("[port.b]").unwrap());
    let (ports, port_b) = (&FILE[a..], &FILE[b..]);
    let swapped = format!("{port_b}{}", &FILE[a..b]);
    for (from, to, live, restart) in [
        ("", "", &[][..], &[][..]),
        (
            "total_cells = 16384",
            "total_cells = 20480",
            &["buffer: total cells 16384 → 20480", "buffer: fixed cells 2048 → 2560"],
            &[],
        ),
        ("headroom_cells = 2048", "headroom_cells = 1024", &["buffer: headroom cells 2048 → 1024"], &[]),
        // With cells of 208 bytes a no-drop group reserves a different number of cells by default.
        (
            "[bridge]",
            "cell_bytes = 208\n[bridge]",
            &["port.a: PFC thresholds of priority 3", "port.b: PFC thresholds of priority 3"],
            &["buffer: cell_bytes 256 → 208"],
        ),
        ("aging_s = 300", "aging_s = 20", &["bridge: aging in seconds 300 → 20"], &[]),
        (
            "aging_s = 300",
            "no_drop_to_down_port = \"flood\"",
            &["bridge: no-drop frames to a port that is down"],
            &[],
        ),
        ("aging_s = 300", "max_entries_per_port = 10", &["bridge: max_entries_per_port 8192 → 10"], &[]),
        (
            "aging_s = 300",
            "max_entries = 10",
            &["bridge: max_entries_per_port 8192 → 5"],
            &["bridge: max_entries 16384 → 10"],
        ),
        (
            "speed = \"1G\"",
            "",
            &["port.a: speed 1000000000 bit/s → unbounded", "port.a: wire overhead in bytes 24 → 0"],
            &[],
        ),
        ("speed = \"1G\"", "speed = \"1G\"\ntrust = \"none\"", &["port.a: classification"], &[]),
        (
            "speed = \"1G\"",
            "speed = \"1G\"\nmtu = 9216\ncable_m = 100",
            &["port.a: mtu unset → 9216", "port.a: cable_m unset → 100"],
            &[],
        ),
        (
            "speed = \"1G\"",
            "speed = \"1G\"\nin_flight_bytes = 9000",
            &["port.a: in_flight_bytes 65536 → 9000"],
            &[],
        ),
        (
            "[port.b]",
            "[port.a.pfc.priority.3]\nheadroom_cells = 8\n[port.b]",
            &["port.a: PFC thresholds of priority 3"],
            &[],
        ),
        (
            "[port.b]",
            "[port.a.pfc]\npause_time = 9\nrx = false\n[port.b]",
            &["port.a: PFC: rx true → false", "port.a: PFC: pause_time 65535 → 9"],
            &[],
        ),
        ("[port.b]", "[port.a.schedule]\nqueue.1 = { group = \"sp\" }\n[port.b]", &["port.a: schedule"], &[]),
        (
            "[port.b]",
            "[port.a.schedule]\nmode = \"ets\"\nqueue.7.rate = \"1M\"\n[port.b]",
            &["port.a: schedule", "port.a: rate of queue 7"],
            &[],
        ),
        (
            "speed = \"1G\"",
            "speed = \"1G\"\nburst_bytes = 9\nwire_overhead = false",
            &["port.a: burst_bytes", "port.a: wire overhead in bytes 24 → 0"],
            &[],
        ),
        (
            "[port.b]",
            "wred = \"t\"\nqueue_profile = { p = [6] }\n[wred.t.queue.3]\necn = true\n[queue-profile.p]\n\
             action = \"wred\"\n[port.b]",
            // A table configures all eight queues (row 209).
            &[
                "port.a: WRED of queue 0",
                "port.a: WRED of queue 1",
                "port.a: WRED of queue 2",
                "port.a: WRED of queue 3",
                "port.a: WRED of queue 4",
                "port.a: WRED of queue 5",
                "port.a: WRED of queue 6",
                "port.a: WRED of queue 7",
            ],
            &[],
        ),
        (
            "[port.b]",
            "[port.a.buffer.egress.queue.5]\nshared_cells = 9\n[port.b]",
            &["port.a: buffer of queue 5"],
            &[],
        ),
        (
            "no_drop = [3]",
            "no_drop = [4]",
            &[
                "port.a: PFC: no-drop priorities [3] → [4]",
                "port.a: PFC thresholds of priority 3",
                "port.a: PFC thresholds of priority 4",
                "port.b: PFC: no-drop priorities [3] → [4]",
                "port.b: PFC thresholds of priority 3",
                "port.b: PFC thresholds of priority 4",
            ],
            &[],
        ),
        (
            "\"lab\"",
            "\"prod\"",
            &[],
            &[
                "switch: name \"lab\" → \"prod\"",
                "control: socket \"/run/sluice/lab.sock\" → \"/run/sluice/prod.sock\"",
            ],
        ),
        ("[buffer]", "[dataplane]\ncores = [1]\n[buffer]", &[], &["dataplane: cores [0] → [1]"]),
        (
            "[buffer]",
            "[dataplane]\ncores = [0, 1]\nswitch_core_serves = false\n[buffer]",
            &[],
            &["dataplane: cores [0] → [0, 1]", "dataplane: switch_core_serves true → false"],
        ),
        (
            "[buffer]",
            "[dataplane]\nscheduling = \"fifo\"\noverload = \"drop\"\n[buffer]",
            &[],
            &[
                "dataplane: scheduling \"short-slices\" → \"fifo\"",
                "dataplane: overload \"pause\" → \"drop\"",
            ],
        ),
        (
            "[port.b]",
            "broadcast_limit_pps = 100\n[port.b]\nmulticast_limit_pps = 7\nunknown_unicast_limit_pps = \"off\"",
            &["port.a: broadcast_limit_pps off → 100", "port.b: multicast_limit_pps off → 7"],
            &[],
        ),
        (
            "[port-defaults.pfc]",
            "[port-defaults]\nvlan = { mode = \"access\", pvid = 5 }\n[port-defaults.pfc]",
            &["port.a: VLANs", "port.b: VLANs"],
            &[],
        ),
        ("[port.b]", "pfc.pause_speed = \"2G\"\n[port.b]", &["port.a: PFC: pause_speed"], &[]),
        (
            "[port.b]",
            "pfc.watchdog.priority.3.interval = 2\npfc.early-warning.priority.5.in_pps = 9\n[port.b]",
            &["port.a: watchdog of priority 3", "port.a: early warning of priority 5"],
            &[],
        ),
        (
            "[port.b]",
            "static_addresses = [\"02:00:00:00:00:01\"]\n[port.b]",
            &["port.a: static addresses"],
            &[],
        ),
        (
            "[port.a]",
            "pause_speed = \"10G\"\n[port.a]",
            &["port.a: PFC: pause_speed", "port.b: PFC: pause_speed"],
            &[],
        ),
        ("veth1", "veth2", &[], &["port.b: interface \"veth1\" → \"veth2\""]),
        (port_b, "", &["port.b: removed"], &[]),
        ("[port.b]", "[port.c]\ninterface = \"veth2\"\n[port.b]", &["port.c: added"], &[]),
        ("[port.b]", "[port.c]", &["port.b: removed", "port.c: added"], &[]),
        (ports, &swapped, &["port.a: position in the file 0 → 1", "port.b: position in the file 1 → 0"], &[]),
        ("[buffer]", "[dataplane]\nspare_ports = 5\n[buffer]", &[], &["dataplane: spare_ports 2 → 5"]),
        (
            "[buffer]",
            "[dataplane]\npfc_test = \"all\"\n[buffer]",
            &[],
            &["dataplane: pfc_test \"nics\" → \"all\""],
        ),
        (
            "[buffer]",
            "[dataplane]\nzero_copy = \"off\"\n[buffer]",
            &[],
            &["dataplane: zero_copy \"auto\" → \"off\""],
        ),
    ] {
        let new = parse(&FILE.replacen(from, to, 1));
        let found = changes(&old, &new);
        assert_eq!(
            (found.live.as_slice(), found.restart.as_slice()),
            (&*own(live), &*own(restart)),
            "{from} → {to}"
        );
        assert_eq!(found.is_empty(), old == new);
        let named = needs_restart().into_iter().map(|path| path.replace("port.NAME", "port.a"));
        let named: Vec<String> =
            named.map(|path| path.replacen('.', ": ", 1).replace("port: a.", "port.a: ")).collect();
        let is_named =
            |line: &&String| named.iter().any(|what| line.replace("port.b:", "port.a:").starts_with(what));
        assert_eq!(found.restart.iter().find(|line| !is_named(line)), None, "what needs a restart is named");
    }
    let tables = "[dataplane]\ncores = [1]\n[recorder]\nalways = true\n[metrics]\nenabled = true\n";
    let found = changes(&parse(&format!("{FILE}\n{tables}")), &parse(FILE));
    assert!(found.restart.iter().all(|line| line.starts_with("dataplane")), "{found:?}");
    assert_eq!(found.live, ["recorder: always true → false", "metrics"]);
}

fn own(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|&line| line.to_owned()).collect()
}

/// Settings that the language has no notation for, or none yet.
#[test]
fn settings_are_compared_one_by_one() {
    let old = parse(FILE);
    let mut new = old.clone();
    new.pfc_enabled = false;
    new.switch.usage_percent = 70;
    new.switch.buffer.ingress_pool_percent = [60, 40, 0, 0];
    new.switch.buffer.egress_pool_percent = [50, 50, 0, 0];
    new.switch.buffer.ingress_pool_cells[1] = Some(500);
    new.switch.buffer.egress_pool_cells[0] = Some(600);
    new.switch.buffer.pause_cells[1] = Some(400);
    new.switch.bridge.unknown_unicast_to_queue = Some([0; 8]);
    new.switch.ports[1].rewrite.dscp = Some([0; 8]);
    new.switch.ports[1].queues[7].pool = 1;
    new.switch.ports[1].pfc.tx = false;
    let expected = [
        "pfc: off on all ports",
        "buffer: shares of the service pools at ingress in percent [100, 0, 0, 0] → [60, 40, 0, 0]",
        "buffer: shares of the service pools at egress in percent [100, 0, 0, 0] → [50, 50, 0, 0]",
        "buffer: sizes of the service pools at ingress in cells [–, –, –, –] → [–, 500, –, –]",
        "buffer: sizes of the service pools at egress in cells [–, –, –, –] → [600, –, –, –]",
        "buffer: pause thresholds of the service pools in cells [–, –, –, –] → [–, 400, –, –]",
        "buffer: usage threshold in percent 100 → 70",
        "bridge: queues of unknown unicast",
        "port.b: rewriting",
        "port.b: PFC: tx true → false",
        "port.b: buffer of queue 7",
    ];
    assert_eq!(changes(&old, &new), Changes { live: own(&expected), restart: vec![] });
    assert_eq!(changes(&new, &old).live[0], "pfc: on again on all ports");

    let mut new = old.clone();
    new.switch.seed = 7;
    assert_eq!(changes(&old, &new), Changes { live: vec![], restart: own(&["switch: seed 0 → 7"]) });
}

#[test]
fn settings_that_need_a_restart_are_documented() {
    let page = include_str!("../../../../docs/behavior.md");
    let (_, section) = page.split_once("### Settings that need a restart\n").unwrap();
    let section = section.split("\n#").next().unwrap();
    let listed: Vec<&str> =
        section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(listed, needs_restart());
}
