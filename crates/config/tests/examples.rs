//! The example files in the documentation and those that come with the project: they are valid, and
//! have the intended settings.

use std::fmt::Write;
use std::path::Path;

use config::Config;
use dcbx::settings::{PfcMode, Version, VersionSetting};
use switch::PortSettings;
use switch::settings::{EcnMarkPoint, PfcSettings, PortAlarmSettings, Threshold, WredProfile, WredSettings};

#[track_caller]
fn parse(text: &str) -> Config {
    config::parse("test.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// The complete example of the reference page is valid.
#[test]
fn the_documented_example() {
    let text: Vec<&str> = include_str!("../../../docs/settings.md")
        .lines()
        .skip_while(|line| *line != "```toml")
        .skip(1)
        .take_while(|line| *line != "```")
        .collect();
    assert_eq!(parse(&text.join("\n")).interfaces, ["veth0", "veth1"]);
}

/// The files that come with the project are valid, and have the intended settings.
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
    let expected = [
        "ecn",
        "first",
        "incast",
        "inspur-profile",
        "metrics",
        "pfc-thresholds-device-a",
        "pfc-thresholds-device-b",
        "rdma-device-a",
        "rdma-device-b",
        "vlans",
    ];
    assert_eq!(names, expected);
}

/// Rows 247 to 250: alarms and telemetry of the RDMA example.
#[test]
fn alarms_and_telemetry_of_the_rdma_example() {
    let every_5_s = Some(5_000_000_000);
    for (text, ingress, egress) in [
        (include_str!("../../../config/rdma-device-a.toml"), &["server1", "server2"][..], "uplink"),
        (include_str!("../../../config/rdma-device-b.toml"), &["uplink"], "server3"),
    ] {
        let config = parse(text);
        let alarms = &config.switch.alarms;
        assert_eq!(alarms.interval_ns, [None, every_5_s, every_5_s, every_5_s]);
        assert_eq!((alarms.egress_pool_percent, alarms.headroom_pool_percent), ([100, 90, 100, 100], 100));
        let at_90 = |of: fn(&PortAlarmSettings) -> u8| -> Vec<&str> {
            let ports = config.switch.ports.iter().filter(|port| of(&port.alarms) == 90);
            ports.map(|port| port.name.as_str()).collect()
        };
        assert_eq!(at_90(|alarms| alarms.ingress_percent[5]), ingress);
        assert_eq!(at_90(|alarms| alarms.egress_percent[5]), [egress]);
        assert_eq!(at_90(|alarms| alarms.headroom_percent[5]).len(), config.switch.ports.len());
        let telemetry = &config.telemetry;
        let [collector] = telemetry.destinations.as_slice() else { panic!("{telemetry:?}") };
        assert_eq!((collector.host.as_str(), collector.port), ("192.168.2.1", 50050));
        let [subscription] = telemetry.subscriptions.as_slice() else { panic!("{telemetry:?}") };
        let sensors: Vec<_> =
            subscription.sensors.iter().map(|sensor| (sensor.paths.len(), sensor.interval_ms)).collect();
        assert_eq!(
            (sensors, subscription.destinations.as_slice()),
            (vec![(2, Some(10_000)), (2, None)], &[0][..])
        );
    }
}

/// Row 242: device A negotiates with its servers, in revision 1.01, which priorities are no-drop.
#[test]
fn dcbx_of_the_rdma_example() {
    let config = parse(include_str!("../../../config/rdma-device-a.toml"));
    let ports = config.switch.ports.iter().zip(&config.dcbx).zip(&config.pfc_modes);
    let negotiated: Vec<_> = ports
        .map(|((port, dcbx), mode)| {
            let settings = dcbx.as_ref().map(|dcbx| &dcbx.settings);
            let version = settings.map(|settings| (settings.version, settings.pfc.willing));
            (port.name.as_str(), *mode, version, settings.map(|settings| settings.pfc.no_drop))
        })
        .collect();
    let cee = Some((VersionSetting::Pinned(Version::Cee), false));
    assert_eq!(
        negotiated,
        [
            ("server1", PfcMode::Auto, cee, Some(1 << 5)),
            ("server2", PfcMode::Auto, cee, Some(1 << 5)),
            ("uplink", PfcMode::On, None, None),
        ]
    );
}

/// The vendors' examples as settings of the switch: every no-drop group, and the queues with
/// settings other than the default.
#[test]
fn the_examples_of_the_vendor_specifications() {
    let mut table = String::new();
    for (name, text) in [
        ("rdma-device-a", include_str!("../../../config/rdma-device-a.toml")),
        ("rdma-device-b", include_str!("../../../config/rdma-device-b.toml")),
        ("pfc-thresholds-device-a", include_str!("../../../config/pfc-thresholds-device-a.toml")),
        ("pfc-thresholds-device-b", include_str!("../../../config/pfc-thresholds-device-b.toml")),
        ("inspur-profile", include_str!("../../../config/inspur-profile.toml")),
    ] {
        let switch = parse(text).switch;
        let pools = switch.buffer.egress_pools();
        let buffer = &switch.buffer;
        let _ = writeln!(
            table,
            "{name}: {} cells of {} bytes, {} fixed, {} headroom, egress pools {pools:?}, usage {} %",
            buffer.total_cells,
            buffer.cell_bytes,
            buffer.fixed_cells,
            buffer.headroom_cells,
            switch.usage_percent
        );
        for (number, port) in switch.ports.iter().enumerate() {
            let before = number.checked_sub(1).map(|before| &switch.ports[before]);
            if before
                .is_some_and(|before| *port == PortSettings { name: port.name.clone(), ..before.clone() })
            {
                let _ = writeln!(table, "  {:<10} as the one before", port.name);
                continue;
            }
            for (priority, group) in port.groups.iter().enumerate() {
                if port.pfc.no_drop & 1 << priority != 0 {
                    let _ = writeln!(
                        table,
                        "  {:<10} priority {priority}: reserved {}, XOFF {:?}, offset {}, resume {}, headroom {}",
                        port.name,
                        group.reserved_cells,
                        group.xoff,
                        group.xon_offset_cells,
                        group.resume_cells,
                        group.headroom_cells
                    );
                }
            }
            let plain = PortSettings::new("plain", None);
            for (number, queue) in
                port.queues.iter().enumerate().filter(|(n, queue)| **queue != plain.queues[*n])
            {
                let _ = writeln!(
                    table,
                    "  {:<10} queue {number}: pool {}, {:?}, shared {:?}",
                    port.name, queue.pool, queue.guaranteed, queue.shared
                );
                if let Some(wred) = queue.wred {
                    let curves = wred.curves.map(|it| (it.low_cells, it.high_cells, it.probability_percent));
                    let _ = writeln!(
                        table,
                        "  {:<10} queue {number}: WRED exponent {}, ECN {}, low, high and percent {curves:?}",
                        port.name, wred.exponent, wred.ecn
                    );
                }
            }
            for group in port.schedule.groups.iter().filter(|_| port.schedule != plain.schedule) {
                let _ = writeln!(
                    table,
                    "  {:<10} group {}: queues {:08b}, {:?}",
                    port.name, group.name, group.queues, group.inside
                );
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn the_incast_file() {
    let config = parse(include_str!("../../../config/incast.toml"));
    let ports: Vec<_> = config.switch.ports.iter().map(|port| (port.name.as_str(), port.speed_bps)).collect();
    let (fast, slow) = (Some(1_000_000_000), Some(500_000_000));
    assert_eq!(ports, [("sender1", fast), ("sender2", fast), ("receiver", slow)]);
    for port in &config.switch.ports {
        assert_eq!(
            port.pfc,
            PfcSettings { rx: true, tx: true, no_drop: 8, pause_quanta: 65_535, pause_speed_bps: None }
        );
        assert_eq!((port.groups[3].headroom_cells, port.groups[3].xoff), (16_384, Threshold::Static(4096)));
    }
    assert_eq!(config.switch.buffer.headroom_cells, 49_152);
}

/// ECN acts before PFC: all frames of the queue are marked well below the level that pauses one
/// sender.
#[test]
fn the_ecn_file() {
    let ecn = parse(include_str!("../../../config/ecn.toml")).switch;
    let mut incast = parse(include_str!("../../../config/incast.toml")).switch;
    for port in &mut incast.ports {
        let green = WredProfile { low_cells: 256, high_cells: 2048, probability_percent: 20 };
        let [_, yellow, red] = WredSettings::default().curves;
        // A table configures all eight queues (row 209).
        port.queues.iter_mut().for_each(|queue| queue.wred = Some(WredSettings::default()));
        port.queues[3].wred = Some(WredSettings {
            exponent: 0,
            ecn: true,
            mark_at: EcnMarkPoint::Dequeue,
            drop_not_ect: false,
            curves: [green, yellow, red],
        });
        assert_eq!(port.groups[3].xoff, Threshold::Static(2 * green.high_cells));
    }
    assert_eq!(ecn, incast, "the same except WRED");
}
