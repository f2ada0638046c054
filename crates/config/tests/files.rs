//! Files that are right, and what comes of them.

use std::path::{Path, PathBuf};

use config::{Config, Dataplane};
use switch::settings::{
    Alpha, BridgeSettings, BufferSettings, GroupSettings, PfcSettings, QueueSettings, Schedule, Trust, Xoff,
};
use switch::{PortSettings, SwitchSettings};

#[track_caller]
fn parse(text: &str) -> Config {
    config::parse("test.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn port(text: &str) -> PortSettings {
    let config = parse(&format!("[port.a]\ninterface = \"veth0\"\n{text}"));
    assert_eq!(config.interfaces, ["veth0"]);
    config.switch.ports[0].clone()
}

fn lossy(speed_bps: u64) -> GroupSettings {
    GroupSettings {
        reserved_cells: 0,
        xoff: Xoff::Dynamic(Alpha::from_percent(100)),
        headroom_cells: 0,
        ..GroupSettings::default_for(speed_bps)
    }
}

#[test]
fn the_smallest_file() {
    let config = parse("[port.a]\ninterface = \"veth0\"");
    let mut port = PortSettings::new("a", None);
    port.groups = [lossy(10_000_000_000); 8];
    assert_eq!(
        config,
        Config {
            name: "sluice".to_owned(),
            dataplane: Dataplane { cores: vec![0] },
            switch: SwitchSettings {
                buffer: BufferSettings::default(),
                bridge: BridgeSettings::default(),
                ports: vec![port],
            },
            interfaces: vec!["veth0".to_owned()],
            control_socket: PathBuf::from("/run/sluice/sluice.sock"),
        }
    );
}

/// Every setting there is, none at its default.
#[test]
fn every_setting() {
    let config = parse(
        r#"
        [switch]
        name = "lab"
        [dataplane]
        cores = [3]
        [control]
        socket = "/tmp/lab.sock"
        [buffer]
        cell_bytes = 208
        total_cells = 60000
        fixed_cells = 5000
        headroom_cells = 7000
        [bridge]
        max_entries = 100
        aging_s = 10
        [port.b]
        interface = "veth1"
        speed = "2.5G"
        trust = "none"
        port_priority = 6
        dot1p_to_queue = [7, 6, 5, 4, 3, 2, 1, 0]
        in_flight_bytes = 20000
        [port.b.pfc]
        mode = "on"
        rx = false
        tx = true
        no_drop = [3, 5]
        pause_time = 1000
        [port.b.pfc.priority.3]
        headroom_cells = 1
        xoff = { static_cells = 200 }
        xon_offset_cells = 3
        resume_cells = 4
        reserved_cells = 5
        [port.b.pfc.priority.5]
        xoff.dynamic_percent = 33
        [port.b.pfc.priority.0]
        xoff.static_cells = 50
        reserved_cells = 6
        [port.b.schedule]
        queue.5 = { group = "sp" }
        queue.1 = { group = "wrr", weight = 200 }
        queue.2 = { weight = 7 }
        [port.b.buffer.egress.queue]
        5 = { guaranteed_percent = 15, shared_percent = 25 }
        6 = { shared_cells = 99 }
        [port.a]
        interface = "veth0"
        speed = 1000
        "#,
    );
    assert_eq!(config.name, "lab");
    assert_eq!(config.dataplane.cores, [3]);
    assert_eq!(config.control_socket, Path::new("/tmp/lab.sock"));
    let buffer =
        BufferSettings { cell_bytes: 208, total_cells: 60_000, fixed_cells: 5000, headroom_cells: 7000 };
    assert_eq!(config.switch.buffer, buffer);
    assert_eq!(config.switch.bridge, BridgeSettings { max_entries: 100, aging_ns: 10_000_000_000 });
    // In the order of the file, not of the alphabet.
    assert_eq!(config.interfaces, ["veth1", "veth0"]);
    assert_eq!((config.switch.ports[1].name.as_str(), config.switch.ports[1].speed_bps), ("a", Some(1000)));

    let speed = 2_500_000_000;
    let mut expected = PortSettings::new("b", Some(speed));
    expected.trust = Trust::None;
    expected.port_priority = 6;
    expected.dot1p_to_queue = [7, 6, 5, 4, 3, 2, 1, 0];
    expected.in_flight_bytes = 20_000;
    expected.pfc = PfcSettings { rx: false, tx: true, no_drop: 0b0010_1000, pause_quanta: 1000 };
    expected.groups = [lossy(speed); 8];
    expected.groups[3] = GroupSettings {
        reserved_cells: 5,
        xoff: Xoff::Static(200),
        xon_offset_cells: 3,
        resume_cells: 4,
        headroom_cells: 1,
    };
    expected.groups[5] =
        GroupSettings { xoff: Xoff::Dynamic(Alpha::from_percent(33)), ..GroupSettings::default_for(speed) };
    expected.groups[0] = GroupSettings { reserved_cells: 6, xoff: Xoff::Static(50), ..lossy(speed) };
    expected.queues[5] = QueueSettings {
        guaranteed_percent: 15,
        shared: Some(Xoff::Dynamic(Alpha::from_percent(25))),
        schedule: Schedule::Sp,
    };
    expected.queues[1].schedule = Schedule::Wrr { weight: 200 };
    expected.queues[2].schedule = Schedule::Wrr { weight: 7 };
    expected.queues[6].shared = Some(Xoff::Static(99));
    assert_eq!(config.switch.ports[0], expected);
}

#[test]
fn a_ports_own_settings_win_one_by_one() {
    let config = parse(
        r#"
        [port-defaults]
        speed = "1G"
        trust = "none"
        pfc.mode = "on"
        pfc.no_drop = [3]
        pfc.tx = false
        pfc.priority.3 = { headroom_cells = 50, xoff = { static_cells = 70 }, reserved_cells = 9 }
        schedule.queue.4 = { weight = 9 }
        schedule.queue.6 = { group = "sp" }
        buffer.egress.queue.2 = { shared_cells = 30, guaranteed_percent = 5 }
        [port.plain]
        interface = "veth0"
        [port.own]
        interface = "veth1"
        speed = "2G"
        pfc.no_drop = [3, 4]
        pfc.priority.3 = { xoff = { dynamic_percent = 50 } }
        schedule.queue.4 = { group = "sp" }
        schedule.queue.6 = { group = "wrr" }
        buffer.egress.queue.2 = { shared_percent = 40 }
        [port.off]
        interface = "veth2"
        pfc.mode = "off"
        "#,
    );
    let [plain, own, off] = &config.switch.ports[..] else { panic!("three ports") };

    assert_eq!(plain.pfc, PfcSettings { rx: true, tx: false, no_drop: 8, pause_quanta: 65_535 });
    assert_eq!((plain.speed_bps, plain.trust), (Some(1_000_000_000), Trust::None));
    assert_eq!(plain.groups[3].xoff, Xoff::Static(70));
    assert_eq!(plain.queues[4].schedule, Schedule::Wrr { weight: 9 });
    assert_eq!(plain.queues[6].schedule, Schedule::Sp);
    assert_eq!((plain.queues[2].shared, plain.queues[2].guaranteed_percent), (Some(Xoff::Static(30)), 5));

    assert_eq!(own.pfc, PfcSettings { rx: true, tx: false, no_drop: 0b1_1000, pause_quanta: 65_535 });
    assert_eq!((own.speed_bps, own.trust), (Some(2_000_000_000), Trust::None));
    assert_eq!(own.groups[3].xoff, Xoff::Dynamic(Alpha::from_percent(50)));
    assert_eq!((own.groups[3].headroom_cells, own.groups[3].reserved_cells), (50, 9));
    assert_eq!(own.groups[4], GroupSettings::default_for(2_000_000_000));
    assert_eq!(own.queues[4].schedule, Schedule::Sp);
    assert_eq!(own.queues[6].schedule, Schedule::Wrr { weight: 13 });
    assert_eq!(own.queues[2].shared, Some(Xoff::Dynamic(Alpha::from_percent(40))));
    assert_eq!(own.queues[2].guaranteed_percent, 5);

    // PFC off: priority 3 is a lossy priority like all others. What the file says of its cells stays.
    assert_eq!(off.pfc, PfcSettings { rx: false, tx: false, no_drop: 0, pause_quanta: 65_535 });
    assert_eq!(off.groups[0], lossy(1_000_000_000));
    assert_eq!((off.groups[3].headroom_cells, off.groups[3].xoff), (0, Xoff::Static(70)));
}

#[test]
fn rx_and_tx_follow_the_mode() {
    for (text, expected) in [
        ("", (false, false)),
        ("pfc.mode = \"off\"", (false, false)),
        ("pfc.mode = \"on\"", (true, true)),
        ("pfc = { mode = \"on\", rx = false }", (false, true)),
        ("pfc = { mode = \"on\", tx = false }", (true, false)),
        ("pfc = { mode = \"off\", tx = false, rx = false }", (false, false)),
    ] {
        let pfc = port(text).pfc;
        assert_eq!((pfc.rx, pfc.tx), expected, "{text}");
    }
}

#[test]
fn headroom_follows_the_speed() {
    for (speed, headroom_cells) in [("1G", 100), ("10G", 100), ("25G", 125), ("100G", 491), ("400G", 1000)] {
        let text = format!("speed = \"{speed}\"\npfc = {{ mode = \"on\", no_drop = [0] }}");
        assert_eq!(port(&text).groups[0].headroom_cells, headroom_cells, "{speed}");
    }
}

/// Unless the file says, an eighth of the cells is fixed, or as much as the groups reserve.
#[test]
fn fixed_cells_hold_what_is_reserved() {
    let config = |reserved: u32| {
        parse(&format!(
            "[buffer]\ntotal_cells = 8000\nheadroom_cells = 1000\n
             [port.a]\ninterface = \"veth0\"\npfc.priority.2.reserved_cells = {reserved}"
        ))
    };
    assert_eq!(config(999).switch.buffer.fixed_cells, 1000);
    assert_eq!(config(1001).switch.buffer.fixed_cells, 1001);
}

/// Sixty-four ports are the most, and their defaults fit together.
#[test]
fn sixty_four_ports() {
    let mut text = "[port-defaults.pfc]\nmode = \"on\"\nno_drop = [0, 1, 2, 3, 4, 5, 6, 7]\n".to_owned();
    for number in 0..64 {
        text += &format!("[port.p{number}]\ninterface = \"veth{number}\"\n");
    }
    let config = parse(&text);
    assert_eq!(config.switch.ports.len(), 64);
    assert_eq!(config.switch.ports[63].name, "p63");
    assert_eq!(config.switch.buffer.fixed_cells, 131_072 / 8);
}

/// The example at the head of the crate works, all of it.
#[test]
fn the_documented_example() {
    let text: Vec<&str> = include_str!("../src/lib.rs")
        .lines()
        .skip_while(|line| *line != "//! ```toml")
        .skip(1)
        .take_while(|line| *line != "//! ```")
        .map(|line| line.trim_start_matches("//!"))
        .collect();
    assert_eq!(parse(&text.join("\n")).interfaces, ["veth0"]);
}

/// The files that come with the project work, and say what they are meant to say.
#[test]
fn every_file_in_config() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            assert_eq!(parse(&std::fs::read_to_string(&path).unwrap()).name, name);
            names.push(name);
        }
    }
    names.sort();
    assert_eq!(names, ["first", "incast"]);
}

#[test]
fn the_incast_file() {
    let config = parse(include_str!("../../../config/incast.toml"));
    let ports: Vec<_> = config.switch.ports.iter().map(|port| (port.name.as_str(), port.speed_bps)).collect();
    let (fast, slow) = (Some(1_000_000_000), Some(500_000_000));
    assert_eq!(ports, [("sender1", fast), ("sender2", fast), ("receiver", slow)]);
    for port in &config.switch.ports {
        assert_eq!(port.pfc, PfcSettings { rx: true, tx: true, no_drop: 8, pause_quanta: 65_535 });
        assert_eq!((port.groups[3].headroom_cells, port.groups[3].xoff), (16_384, Xoff::Static(4096)));
    }
    assert_eq!(config.switch.buffer.headroom_cells, 49_152);
}
