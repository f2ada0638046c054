//! Warnings about valid files, in a table for review.

use std::fmt::Write;
use std::path::Path;

use config::Config;
use miette::{GraphicalReportHandler, GraphicalTheme};

/// Returns a file of these lines, with interfaces for its ports. Unless they define ports, there
/// are ports a and b, whose priority 3 is no-drop.
fn file(lines: &str) -> String {
    let mut text = format!("{lines}\n");
    if !lines.contains("[port-defaults.pfc]") {
        text += "[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n";
    }
    for port in ["[port.a]\n", "[port.b]\n"] {
        if !text.contains(port) {
            text += port;
        }
    }
    for name in ["a", "b", "c"] {
        let port = format!("[port.{name}]\n");
        text = text.replacen(&port, &format!("{port}interface = \"veth-{name}\"\n"), 1);
    }
    text
}

/// Names of the warnings, and the lines of the file.
const WARNED: &[(&str, &str)] = &[
    (
        "an egress limit below what meets on it: both ports, one place",
        "[port-defaults.pfc.priority.3]\nxoff.static_cells = 1000\n\
         [port-defaults.buffer.egress.queue.3]\nguaranteed_percent = 0\nshared_cells = 1116",
    ),
    (
        "one port's limit, the other has none",
        "[port.a.buffer.egress.queue.3]\nguaranteed_percent = 0\nshared_percent = 0",
    ),
    (
        "of three ports two meet: dynamic thresholds settle against one another",
        "[port.c.buffer.egress.queue.3]\nguaranteed_percent = 0\nshared_percent = 33\n[port.c]\n\
         [port-defaults.pfc.priority.3]\nxoff.dynamic_percent = 33",
    ),
    (
        "a limit of a profile, in bytes",
        "[buffer.egress.profile.tight]\nreserved_cells = 10\nshared.static_bytes = 25600\n\
         [port-defaults.buffer.egress.queue.3]\nprofile = \"tight\"",
    ),
    (
        "the queue of the other port's map counts, and the maps differ",
        "[port.a]\ndot1p_to_queue = [0, 1, 2, 6, 4, 5, 6, 7]\n[port.b.buffer.egress.queue.6]\nshared_cells = 1",
    ),
    (
        "ECN that acts after PFC: a static threshold",
        "[wred.late.queue.3]\necn = true\ngreen = { low_cells = 100, high_cells = 512 }\n\
         [port-defaults]\nwred = \"late\"\n[port-defaults.pfc.priority.3]\nxoff.static_cells = 512",
    ),
    (
        "… and a dynamic one",
        "[wred.late.queue.3]\necn = true\ngreen = { low_cells = 100, high_cells = 7000 }\n[port.b]\nwred = \"late\"",
    ),
    ("too little headroom for all groups", "[buffer]\nheadroom_cells = 199"),
    ("the same in bytes", "[buffer]\nheadroom_bytes = 50944"),
    (
        "too little headroom for all groups of ports that send 802.3x PAUSE",
        "[buffer]\nheadroom_cells = 1599\n[port-defaults]\nflow_control = \"send\"\n[port-defaults.pfc]\nmode = \"off\"",
    ),
    (
        "too little headroom in the default pool",
        "[port-defaults.pfc.priority.3]\nheadroom_cells = 6145\n[port.a.pfc.priority.3]\nheadroom_cells = 6144",
    ),
    (
        "reserved cells of the defaults below a frame",
        "[port-defaults]\nmtu = 1536\n[port-defaults.pfc.priority.3]\nreserved_cells = 7",
    ),
    ("jumbo frames on one port, reserved by default", "[port.b]\nmtu = 9216"),
    (
        "a profile without reserved cells",
        "[port-defaults]\nmtu = 1518\nbuffer.ingress.priority.3.profile = \"bare\"\n\
         [buffer.ingress.profile.bare]\nshared.dynamic_th = 0\nxoff_cells = 100",
    ),
    (
        "headroom by default below the cable's need: default MTU, two speeds",
        "[port-defaults]\ncable_m = 100\n[port.a]\nspeed = \"25G\"\n[port.b]\nspeed = 10000000000",
    ),
    (
        "headroom of the defaults below the formula, on one of the two ports",
        "[buffer]\ncell_bytes = 208\n[port-defaults]\nspeed = \"2.5G\"\nmtu = 1536\ncable_m = 10\n\
         [port.b]\ncable_m = 1000\n[port-defaults.pfc.priority.3]\nheadroom_cells = 230",
    ),
    (
        "an XON offset of exactly a frame, of the defaults (row 146 of docs/conformance.md)",
        "[port-defaults]\nmtu = 1536\n[port-defaults.pfc.priority.3]\nxon_offset_cells = 6",
    ),
    (
        "jumbo frames and the default offset, with reserved cells that hold them",
        "[port.b]\nmtu = 9216\n[port-defaults.pfc.priority.3]\nreserved_cells = 38",
    ),
    (
        "a priority that is not no-drop on one port of three (row 111)",
        "[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3, 4]\n[port.b]\npfc.no_drop = [3]\n[port.c]",
    ),
    (
        "PFC on one port, and nothing said of the others: no [port-defaults.pfc]",
        "# no [port-defaults.pfc]\n[port.a]\npfc = { mode = \"on\", no_drop = [3] }\n[port.c]",
    ),
    (
        "a list without a priority in common: other maps are right",
        "[port.b]\npfc.no_drop = [4]\ndot1p_to_queue = [0, 1, 2, 3, 4, 5, 6, 7]",
    ),
    ("nothing is trusted", "[port-defaults]\ntrust = \"none\"\nport_priority = 3"),
    (
        "a priority that protocols use, once for the defaults and once for a port",
        "[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3, 6]\n[port.c]\npfc.no_drop = [0, 5, 7]",
    ),
    ("one map differs from two that nobody wrote", "[port.c]\ndot1p_to_queue = [2, 0, 1, 3, 4, 5, 7, 6]"),
    (
        "two ports have the map, the third does not",
        "[port.a]\ndot1p_to_queue = [0, 1, 2, 3, 4, 5, 6, 7]\n[port.b]\ndot1p_to_queue = [0, 1, 2, 3, 4, 5, 6, 7]\n\
         [port.c]",
    ),
    (
        "DSCPs of one port have another priority",
        "[port-defaults]\ntrust = \"dscp\"\n[port.b]\ndscp_to_dot1p = { 26 = 5 }",
    ),
    (
        "thresholds of alarms that are off",
        "[alarm]\nheadroom.percent = 50\negress = { percent = 90, queue.2.percent = 9 }\n\
         [port-defaults.alarm]\ningress.priority.3.percent = 9",
    ),
    ("PFC in one direction only", "[port.a.pfc]\ntx = false\n[port.b.pfc]\nrx = false"),
    (
        "shared cells in no pool",
        "[buffer]\ningress.pool = { 0.shared_percent = 40, 1.shared_percent = 50 }\negress.pool.0.shared_percent = 99",
    ),
    (
        "a watchdog that takes one pause for a storm: 335.5 ms at 100M",
        "[port-defaults]\nspeed = \"100M\"\n[port-defaults.pfc.watchdog]\npriority.3 = { detection_ms = 335, restoration_ms = 200 }",
    ),
    (
        "… with intervals of 10 ms, and where none is long enough",
        "[port.a]\nspeed = \"100M\"\n[port.b]\nspeed = \"5M\"\n[port-defaults.pfc.watchdog]\nprecision = \"high\"\n\
         priority.3 = { interval = 15 }",
    ),
    (
        "… where the pause's own speed counts, on one port",
        "[port.a]\nspeed = \"10G\"\n[port.a.pfc]\npause_speed = \"1G\"\nwatchdog.precision = \"high\"\n\
         watchdog.priority.3 = { interval = 3 }",
    ),
];

/// Files that are just sufficient, or that only look insufficient.
const WITHOUT_WARNINGS: &[(&str, &str)] = &[
    (
        "the limit is what meets on it",
        "[port-defaults.pfc.priority.3]\nxoff.static_cells = 1000\n\
         [port-defaults.buffer.egress.queue.3]\nguaranteed_percent = 0\nshared_cells = 1117",
    ),
    (
        "lossy queues may be tight, a no-drop queue has no limit",
        "[port-defaults.buffer.egress.queue.5]\nguaranteed_percent = 0\nshared_cells = 1\n\
         [port-defaults.pfc.priority.3]\nxoff.dynamic_percent = 100",
    ),
    ("alarms that are off, and the file says so", "[alarm]\negress = { enabled = false, percent = 90 }"),
    ("all headroom fits", "[buffer]\nheadroom_cells = 200"),
    (
        "reserved cells hold a frame",
        "[port-defaults]\nmtu = 1536\n[port-defaults.pfc.priority.3]\nreserved_cells = 8",
    ),
    ("reserved cells without MTU", "[port-defaults.pfc.priority.3]\nreserved_cells = 0"),
    (
        "headroom of the formula",
        "[port-defaults]\nspeed = \"25G\"\nmtu = 1536\ncable_m = 10\n[port-defaults.pfc.priority.3]\nheadroom_cells = 234",
    ),
    (
        "a watchdog that waits longer than one pause",
        "[port-defaults]\nspeed = \"100M\"\n[port-defaults.pfc.watchdog]\npriority.3 = { detection_ms = 336, restoration_ms = 200 }",
    ),
    ("no speed, so no need", "[port-defaults]\ncable_m = 100000"),
    (
        "only what protects a priority in common needs the same maps, and a port may say that PFC is off",
        "[port.b]\npfc.mode = \"off\"\ndot1p_to_queue = [0, 1, 2, 3, 4, 5, 6, 7]",
    ),
    (
        "an offset of slightly more than a frame",
        "[port-defaults]\nmtu = 1536\n[port-defaults.pfc.priority.3]\nxon_offset_cells = 7",
    ),
    ("a map of DSCPs that is not trusted", "[port.a]\ntrust = \"dscp\"\ndscp_to_dot1p = { 26 = 5 }"),
    (
        "PFC is off",
        "[port-defaults]\ntrust = \"none\"\nspeed = \"100G\"\ncable_m = 1000\nmtu = 9216\n\
         [port.a]\npfc.mode = \"off\"\n[port.b]\npfc.mode = \"off\"",
    ),
    (
        "pool 0 has the rest",
        "[buffer]\ningress.pool.1.shared_percent = 40\negress.pool = { 0.shared_percent = 0, 3.shared_percent = 100 }\n\
         [port-defaults.buffer.egress]\nqueue = { 0.pool = 3, 1.pool = 3, 2.pool = 3, 3.pool = 3, 4.pool = 3, 5.pool = 3, \
         6.pool = 3, 7.pool = 3 }",
    ),
];

fn parse(text: &str) -> Config {
    config::parse("x.toml", text).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes}"))
}

#[test]
fn warnings() {
    let mut table = String::new();
    for (title, lines) in WARNED {
        let text = file(lines);
        let warnings = parse(&text).warnings;
        assert!(!warnings.list().is_empty(), "{title}");
        writeln!(table, "=== {title}").unwrap();
        for (number, line) in text.lines().enumerate() {
            writeln!(table, "{:>6} {line}", number + 1).unwrap();
        }
        writeln!(table, "{warnings}\n").unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn files_without_warnings() {
    for (title, lines) in WITHOUT_WARNINGS {
        let warnings = parse(&file(lines)).warnings;
        assert_eq!(warnings.to_string(), "", "{title}");
    }
}

/// One cause gives one warning, and many ports are counted.
#[test]
fn a_default_is_reported_once() {
    let ports: String = (0..64).map(|n| format!("[port.p{n}]\ninterface = \"veth{n}\"\n")).collect();
    let buffer = "[buffer]\nheadroom_cells = 12800\negress.pool.0.size_cells = 106000"; // what 128 groups may fill
    let defaults =
        "[port-defaults]\ntrust = \"none\"\nmtu = 9216\npfc = { mode = \"on\", no_drop = [3, 4] }\n";
    let warnings = parse(&format!("{defaults}{ports}{buffer}")).warnings;
    let expected = [
        "x.toml:2:9: port-defaults.trust: PFC needs a trusted field: here all frames have the port priority, 0, \
         whatever they carry (priorities 3, 4 of 64 ports); write trust = \"dot1p\" or \"dscp\", or pfc.mode = \"off\"",
        "x.toml:3:7: port-defaults.mtu: 17 reserved cells do not hold the longest frame: (9216 + 64 + 256) / 256 = \
         37.25 (priorities 3, 4 of 64 ports); reserve at least 38 cells (9728 bytes)",
        "x.toml:3:7: port-defaults.mtu: an XON offset of 12 cells is not more than the longest frame, 9216 bytes: one frame \
         that leaves brings XON, and the next XOFF again (priorities 3, 4 of 64 ports); an offset slightly more is 37 cells \
         (9472 bytes)",
    ];
    assert_eq!(warnings.to_string(), expected.join("\n"));
}

/// The vendors' examples and our own give no warning.
#[test]
fn the_examples() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
    let mut read = 0;
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for path in entries.filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(parse(&text).warnings.to_string(), "", "{}", path.display());
        read += 1;
    }
    assert!(read >= 7, "{read} files");
}

/// Warnings are drawn as warnings.
#[test]
fn the_picture() {
    let (_, lines) = WARNED[0];
    let mut picture = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
        .with_width(110)
        .render_report(&mut picture, &parse(&file(lines)).warnings)
        .unwrap();
    insta::assert_snapshot!(picture);
}
