//! What the reader of a wrong file is told, in a table that a person can judge: each file, and what is said of it.

use std::fmt::Write;

use miette::{GraphicalReportHandler, GraphicalTheme};

const PORT: &str = "[port.a]\ninterface = \"veth0\"\n";

/// Files of one port with these lines, and whole files.
const WRONG_PORTS: &[&str] = &[
    // names
    "sped = \"1G\"",
    "Speed = \"1G\"",
    "colour = \"red\"",
    "pfc.prority.3.headroom_cells = 1",
    "pfc.priority.8.headroom_cells = 1",
    "pfc.priority.x.headroom_cells = 1",
    "\"two\\nlines\" = 1",
    "pfc = { mode = \"on\", no_drop = [3], priority.3.headroom = 5 }",
    "schedule.queue.1.wait = 3",
    "buffer.egress.queue.1.guaranteed = 3",
    // types
    "speed = true",
    "speed = 1.5",
    "trust = 1",
    "port_priority = \"3\"",
    "port_priority = 1.0",
    "pfc = \"on\"",
    "pfc.rx = \"yes\"",
    "pfc.no_drop = 3",
    "pfc.no_drop = [3, \"4\", 9]",
    "pfc.priority = 3",
    "pfc.priority.3 = 100",
    "pfc.priority.3.xoff = 100",
    "dot1p_to_queue = { 0 = 1 }",
    "schedule = [1]",
    "schedule.queue.1 = \"sp\"",
    // values
    "speed = \"1g\"",
    "speed = \"fast\"",
    "speed = \"0G\"",
    "speed = -5",
    "speed = 0",
    "speed = \"801G\"",
    "speed = 800000000001",
    "trust = \"dotip\"",
    "trust = \"mac\"",
    "trust = \"non\"",
    "port_priority = 8",
    "port_priority = -1",
    "port_priority = 99999999999999999999",
    "in_flight_bytes = 100",
    "dot1p_to_queue = [0, 1, 2, 3]",
    "dot1p_to_queue = [0, 1, 2, 3, 4, 5, 6, 8]",
    "pfc.mode = \"enabled\"",
    "pfc.mode = \"of\"",
    "pfc.pause_time = 0",
    "pfc.pause_time = 65536",
    "schedule.queue.1.group = \"wr\"",
    "schedule.queue.1.weight = 0",
    "schedule.queue.1.weight = 256",
    "buffer.egress.queue.1.guaranteed_percent = 101",
    "buffer.egress.queue.1.shared_percent = 101",
    "pfc = { mode = \"on\", no_drop = [3], priority.3.xoff.dynamic_percent = 101 }",
    "pfc = { mode = \"on\", no_drop = [3], priority.3.xoff.static_cells = 0 }",
    "pfc = { mode = \"on\", no_drop = [3], priority.3.xoff = {} }",
    "pfc = { mode = \"on\", no_drop = [3], priority.3.xoff = { cells = 5 } }",
    // known, but not yet
    "cable_m = 10\ndcbx = { version = \"cee\" }\nwred = \"table\"",
    "trust = \"dscp\"",
    "pfc.mode = \"auto\"",
    "pfc.watchdog.precision = \"high\"",
    "buffer.egress.queue.1.pool = 1",
    "buffer.egress.pool.1.shared_percent = 20",
    // settings that contradict or need one another
    "pfc = { mode = \"on\", no_drop = [3], priority.3.xoff = { static_cells = 5, dynamic_percent = 5 } }",
    "buffer.egress.queue.1 = { shared_percent = 5, shared_cells = 5 }",
    "schedule.queue.1 = { group = \"sp\", weight = 3 }",
    "pfc.rx = true\npfc.tx = false",
    "pfc = { mode = \"off\", tx = true }",
    "pfc.no_drop = [3]",
    "pfc = { mode = \"on\", no_drop = [3], priority.4 = { headroom_cells = 5, resume_cells = 1, xon_offset_cells = 2 } }",
    "pfc = { mode = \"on\", no_drop = [3], priority.3 = { xoff = { static_cells = 9 }, resume_cells = 9 } }",
    "pfc = { mode = \"on\", no_drop = [3], priority.3.headroom_cells = 12289 }",
    "pfc.priority.3.reserved_cells = 200000",
];

const WRONG_FILES: &[&str] = &[
    "",
    "[port]",
    "port = 3",
    "[[port]]\ninterface = \"veth0\"",
    "[port.a]\nspeed = \"1G\"",
    "[port.a]\n[port.b]",
    "[port.\"a b\"]\ninterface = \"veth0\"",
    "[port.a]\ninterface = \"a-very-long-name\"",
    "[port.a]\ninterface = \"\"",
    "[port.a]\ninterface = 5",
    "[port.a]\ninterface = \"a/b\"",
    "[port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"\n[port.c]\ninterface = \"veth0\"",
    "[port-default]\nspeed = \"1G\"\n[port.a]\ninterface = \"veth0\"",
    "[port-defaults]\ninterface = \"veth1\"\n[port.a]\ninterface = \"veth0\"",
    // Said once, not once a port; and defaults that help one port are right.
    "[port-defaults]\npfc.rx = true\nschedule.queue.1 = { group = \"sp\", weight = 3 }\npfc.priority.3.resume_cells = 9\n\
     [port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"",
    "[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n[port-defaults.pfc.priority.3]\nheadroom_cells = 13000\n\
     [port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"",
    "[wred.table.queue.5]\necn = true\n[alarm]\nusage_percent = 90\n[pfc.watchdog]\nprecision = \"high\"\n\
     [telemetry.sensor-group.a]\npaths = []\n[port.a]\ninterface = \"veth0\"",
    "[port.a]\ninterface = \"veth0\"\n[swich]\nname = \"x\"",
    "[port.a]\ninterface = \"veth0\"\n[switch]\nname = \"a/b\"",
    "[port.a]\ninterface = \"veth0\"\n[switch]\nname = 7",
    "[port.a]\ninterface = \"veth0\"\n[dataplane]\ncores = [0, 1]",
    "[port.a]\ninterface = \"veth0\"\n[dataplane]\ncores = []",
    "[port.a]\ninterface = \"veth0\"\n[dataplane]\ncores = 1",
    "[port.a]\ninterface = \"veth0\"\n[control]\nsocket = \"here.sock\"\npath = 1",
    "[port.a]\ninterface = \"veth0\"\n[bridge]\nmax_entries = 0\naging_s = 0",
    "[port.a]\ninterface = \"veth0\"\n[buffer]\ncell_bytes = 63\ntotal_cells = \"many\"\nheadroom_cells = 20000000",
    "[port.a]\ninterface = \"veth0\"\n[buffer]\ntotal_cells = 1000",
    "[port.a]\ninterface = \"veth0\"\n[buffer]\nfixed_cells = 118784",
    "[port.a]\ninterface = \"veth0\"\n[buffer]\nheadroom_cells = 200000",
    "[port.a]\ninterface = \"veth0\"\npfc.priority.1.reserved_cells = 6\npfc.priority.2.reserved_cells = 5\n\
     [buffer]\nfixed_cells = 10",
    "[port.a]\ninterface = \"veth0\"\npfc = { mode = \"on\", no_drop = [3] }\n[buffer]\nheadroom_cells = 99",
    "[port.a]\ninterface = \"veth0\"\n[buffer.egress.pool.1]\nshared_percent = 20",
    // not TOML
    "[port.a\ninterface = \"veth0\"",
    "[port.a]\ninterface = \"veth0",
    "[port.a]\ninterface = veth0",
    "[port.a]\ninterface = \"veth0\"\ninterface = \"veth1\"",
    "[port.a]\ninterface = \"veth0\"\n[port.a]\nspeed = \"1G\"",
    "[port.a]\n= 3\nspeed = = 4",
    // the column counts characters
    "[port.a]\ninterface = \"veth0\"\npfc = { \"ü\" = 1, mode = \"of\" }",
];

#[test]
fn wrong_files() {
    let mut table = String::new();
    for lines in WRONG_PORTS {
        explain(&mut table, lines, &format!("{PORT}{lines}"));
    }
    for text in WRONG_FILES {
        explain(&mut table, text, text);
    }
    insta::assert_snapshot!(table);
}

/// Adds to the table what is said of `text`, of which `shown` is shown.
fn explain(table: &mut String, shown: &str, text: &str) {
    let mistakes = match config::parse("x.toml", text) {
        Ok(config) => panic!("accepted:\n{text}\n{config:#?}"),
        Err(mistakes) => mistakes,
    };
    for line in shown.lines() {
        writeln!(table, "    {line}").unwrap();
    }
    writeln!(table, "{mistakes}\n").unwrap();
}

#[test]
fn too_many_ports() {
    let text: String = (0..66).map(|n| format!("[port.p{n}]\ninterface = \"veth{n}\"\n")).collect();
    let mistakes = config::parse("x.toml", &text).unwrap_err();
    let expected =
        "x.toml:129:7: port.p64: this is the first of 2 ports too many; a switch has at most 64 ports";
    assert_eq!(mistakes.to_string(), expected);
}

/// All mistakes come in one run, in the order of the file, and each is pointed at.
#[test]
fn the_picture() {
    let text =
        "[port.a]\ninterface = \"veth0\"\nsped = \"1G\"\npfc.mode = \"auto\"\n\n[bufer]\ncell_bytes = 5\n";
    let mistakes = config::parse("x.toml", text).unwrap_err();
    let mut picture = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
        .with_width(110)
        .render_report(&mut picture, &mistakes)
        .unwrap();
    insta::assert_snapshot!(picture);
}
