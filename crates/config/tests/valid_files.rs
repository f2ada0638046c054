//! Valid files, and the settings that result.

use std::path::PathBuf;

use config::{Config, ControlSocket, Dataplane, Link, Lldp, LldpMode, PortLldp, RecorderSettings, Telemetry};
use dcbx::settings::{AdminStatus, LldpSettings, PfcMode, TlvSelection};
use switch::settings::{
    AlarmSettings, Alpha, BridgeSettings, BufferSettings, ClassifySettings, DownPortAction, DropLevel,
    FlowControl, GroupSettings, Guaranteed, LldpFrames, PfcSettings, PortAlarmSettings, QueueSettings,
    RewriteSettings, StaticAddress, Threshold, Trust, UNKNOWN_UNICAST_TO_QUEUE,
};
use switch::{PortSettings, SwitchSettings};
use wire::mac::MacAddr;

#[track_caller]
fn parse(text: &str) -> Config {
    config::parse("test.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn port(text: &str) -> PortSettings {
    let config = parse(&format!("[port.a]\ninterface = \"veth0\"\n{text}"));
    assert_eq!(config.interfaces, ["veth0"]);
    config.switch.ports[0].clone()
}

#[test]
fn the_smallest_file() {
    let config = parse("[port.a]\ninterface = \"veth0\"");
    let mut port = PortSettings::new("a", None);
    port.lldp = LldpFrames::Punt;
    port.groups = [GroupSettings { reserved_cells: 131_072 / 8 / 8, ..GroupSettings::lossy() }; 8];
    assert_eq!(config.warnings.list(), []);
    assert_eq!(
        config,
        Config {
            name: "sluice".to_owned(),
            preset: None,
            dataplane: Dataplane::default(),
            switch: SwitchSettings {
                buffer: BufferSettings::default(),
                bridge: BridgeSettings::default(),
                usage_percent: 100,
                alarms: Default::default(),
                seed: 0,
                ports: vec![port],
            },
            pfc_enabled: true,
            interfaces: vec!["veth0".to_owned()],
            port_cores: vec![None],
            vhost_user: vec![None],
            links: vec![Link { cable_m: None, mtu_bytes: None }],
            lldp: Lldp {
                management: Vec::new(),
                ports: vec![PortLldp {
                    mode: LldpMode::Agent(AdminStatus::Both),
                    settings: LldpSettings::default(),
                }],
            },
            admin_up: vec![true],
            pfc_modes: vec![PfcMode::Off],
            dcbx: vec![None],
            recorder: RecorderSettings::default(),
            control: ControlSocket {
                path: PathBuf::from("/run/sluice/sluice.sock"),
                group: None,
                owner: None,
                mode: 0o660,
            },
            telemetry: Telemetry::default(),
            metrics: None,
            profiles: config.profiles.clone(),
            warnings: config.warnings.clone(),
        }
    );
}

/// Every setting except those of congestion, none at its default.
#[test]
fn every_setting() {
    let config = parse(
        r#"
        [switch]
        name = "lab"
        [dataplane]
        cores = [3, 5]
        switch_core_serves = false
        [control]
        socket = "/tmp/lab.sock"
        group = "netops"
        owner = "sluice"
        mode = "0666"
        [recorder]
        always = true
        freeze_on_loss = false
        memory_mib = 128
        [pfc]
        enabled = false
        [alarm]
        usage_percent = 90
        ingress = { enabled = true, percent = 80, interval_s = 7, priority.2.percent = 60, pool.3.percent = 30 }
        egress = { enabled = false, queue.7.percent = 70 }
        headroom = { enabled = true, pool.0.percent = 50 }
        drop = { enabled = true, interval_s = 1 }
        [port-defaults.alarm]
        headroom.priority.3.percent = 40
        [buffer]
        cell_bytes = 208
        total_cells = 60000
        fixed_cells = 5000
        headroom_cells = 7000
        ingress.pool.1.shared_percent = 20
        ingress.pool.3.shared_percent = 30
        egress.pool = { 0.shared_percent = 40, 2.shared_percent = 50 }
        [bridge]
        max_entries = 100
        max_entries_per_port = 70
        aging_s = 10
        unknown_unicast_to_queue = [0, 1, 1, 1, 2, 2, 6, 6]
        no_drop_to_down_port = "flood"
        [port.b]
        interface = "veth1"
        core = 5
        speed = "2.5G"
        trust = "none"
        port_priority = 6
        dot1p_to_queue = [7, 6, 5, 4, 3, 2, 1, 0]
        in_flight_bytes = 20000
        broadcast_limit_pps = 1000
        unknown_unicast_limit_pps = 5
        static_addresses = ["02:00:00:00:00:01", "02:00:00:00:00:02"]
        cable_m = 30
        mtu = 1536
        dei_drop_level = 1
        policy = [{ dot1p = 5, local_precedence = 3 }, { dot1p = 0, local_precedence = 7 }]
        rewrite = { dot1p = [7, 6, 5, 4, 3, 2, 1, 0], dscp = [0, 1, 2, 3, 4, 5, 6, 63] }
        [port.b.alarm]
        ingress.priority.5.percent = 90
        egress.queue.0.percent = 10
        headroom.priority.3.percent = 20
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
        [port.b.buffer.egress.queue]
        5 = { guaranteed_percent = 15, shared_percent = 25, pool = 2 }
        6 = { shared_cells = 99 }
        [port.b.buffer.ingress.priority]
        3.pool = 3
        6.pool = 1
        [port.a]
        interface = "veth0"
        speed = "1K"
        trust = "dscp"
        dscp_to_dot1p = { "46" = 4, 8-15 = 2, 0 = 7 }
        dscp_to_queue = { "62-63" = 0 }
        dscp_to_drop_level = { 12 = 1, "14" = 2 }
        "#,
    );
    assert_eq!(config.name, "lab");
    assert_eq!((config.dataplane.cores, config.dataplane.switch_core_serves), (vec![3, 5], false));
    assert_eq!(config.port_cores, [Some(5), None]);
    let control = ControlSocket {
        path: PathBuf::from("/tmp/lab.sock"),
        group: Some("netops".to_owned()),
        owner: Some("sluice".to_owned()),
        mode: 0o666,
    };
    assert_eq!(config.control, control);
    let recorder = RecorderSettings { always: true, freeze_on_loss: false, memory_bytes: 128 << 20 };
    assert_eq!(config.recorder, recorder);
    assert!(!config.pfc_enabled, "the settings below stay as they are written");
    assert_eq!(config.switch.usage_percent, 90);
    let alarms = AlarmSettings {
        interval_ns: [Some(7_000_000_000), None, Some(5_000_000_000), Some(1_000_000_000)],
        ingress_pool_percent: [100, 100, 100, 30],
        egress_pool_percent: [100; 4],
        headroom_pool_percent: 50,
    };
    assert_eq!(config.switch.alarms, alarms);
    let of_b = PortAlarmSettings {
        ingress_percent: [80, 80, 60, 80, 80, 90, 80, 80],
        headroom_percent: [100, 100, 100, 20, 100, 100, 100, 100],
        egress_percent: [10, 100, 100, 100, 100, 100, 100, 70],
    };
    assert_eq!(config.switch.ports[0].alarms, of_b, "its own, then the defaults, then [alarm]");
    assert_eq!(config.switch.ports[1].alarms.headroom_percent[3], 40);
    let buffer = BufferSettings {
        cell_bytes: 208,
        total_cells: 60_000,
        fixed_cells: 5000,
        headroom_cells: 7000,
        ingress_pool_percent: [50, 20, 0, 30],
        egress_pool_percent: [40, 0, 50, 0],
        ..BufferSettings::default()
    };
    assert_eq!(config.switch.buffer, buffer);
    let bridge = BridgeSettings {
        max_entries_per_port: 70,
        key: 0,
        max_entries: 100,
        aging_ns: 10_000_000_000,
        unknown_unicast_to_queue: Some(UNKNOWN_UNICAST_TO_QUEUE),
        no_drop_to_down_port: DownPortAction::Flood,
        ..BridgeSettings::default()
    };
    assert_eq!(config.switch.bridge, bridge);
    // In the order of the file, not of the alphabet.
    assert_eq!(config.interfaces, ["veth1", "veth0"]);
    assert_eq!((config.switch.ports[1].name.as_str(), config.switch.ports[1].speed_bps), ("a", Some(1000)));

    let links = [Link { cable_m: Some(30), mtu_bytes: Some(1536) }, Link { cable_m: None, mtu_bytes: None }];
    assert_eq!(config.links, links);

    let speed = 2_500_000_000;
    let mut expected = PortSettings::new("b", Some(speed));
    expected.classify = ClassifySettings {
        trust: Trust::None,
        port_priority: 6,
        dot1p_to_queue: [7, 6, 5, 4, 3, 2, 1, 0],
        dei_drop_level: DropLevel::Yellow,
        policy: [Some(7), None, None, None, None, Some(3), None, None],
        ..ClassifySettings::default()
    };
    expected.rewrite =
        RewriteSettings { dot1p: Some([7, 6, 5, 4, 3, 2, 1, 0]), dscp: Some([0, 1, 2, 3, 4, 5, 6, 63]) };
    expected.in_flight_bytes = 20_000;
    expected.flood_limits_pps = [Some(1000), None, Some(5)];
    expected.lldp = LldpFrames::Punt;
    expected.static_addresses = [1, 2].map(|n| MacAddr([2, 0, 0, 0, 0, n])).map(StaticAddress::from).to_vec();
    expected.pfc =
        PfcSettings { rx: false, tx: true, no_drop: 0b0010_1000, pause_quanta: 1000, pause_speed_bps: None };
    // Of 5000 fixed cells two ports have 2500 each, eight groups 312 each.
    expected.groups = [GroupSettings { reserved_cells: 312, ..GroupSettings::lossy() }; 8];
    expected.groups[3] = GroupSettings {
        pool: 3,
        reserved_cells: 5,
        xoff: Threshold::Static(200),
        xon_offset_cells: 3,
        resume_cells: 4,
        headroom_cells: 1,
    };
    expected.groups[5] = GroupSettings {
        xoff: Threshold::Dynamic(Alpha::from_percent(33)),
        reserved_cells: 20, // by default on cells of 208 bytes
        ..GroupSettings::default_for(speed)
    };
    expected.groups[0] =
        GroupSettings { reserved_cells: 6, xoff: Threshold::Static(50), ..GroupSettings::lossy() };
    expected.groups[6].pool = 1;
    expected.queues[5] = QueueSettings {
        pool: 2,
        guaranteed: Guaranteed::Percent(15),
        shared: Some(Threshold::Dynamic(Alpha::from_percent(25))),
        ..QueueSettings::default()
    };
    expected.queues[6].shared = Some(Threshold::Static(99));
    expected.alarms = of_b;
    assert_eq!(config.switch.ports[0], expected);

    let mut expected = ClassifySettings { trust: Trust::Dscp, ..ClassifySettings::default() };
    expected.dscp_to_dot1p[46] = 4;
    expected.dscp_to_dot1p[8..=15].fill(2);
    expected.dscp_to_dot1p[0] = 7;
    expected.dscp_to_queue[62..].fill(Some(0));
    expected.dscp_to_drop_level[12] = DropLevel::Yellow;
    expected.dscp_to_drop_level[14] = DropLevel::Red;
    assert_eq!(config.switch.ports[1].classify, expected);
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
        buffer.egress.queue.2 = { shared_cells = 30, guaranteed_percent = 5 }
        [port.plain]
        interface = "veth0"
        [port.own]
        interface = "veth1"
        speed = "2G"
        pfc.no_drop = [3, 4]
        pfc.priority.3 = { xoff = { dynamic_percent = 50 } }
        buffer.egress.queue.2 = { shared_percent = 40 }
        [port.off]
        interface = "veth2"
        pfc.mode = "off"
        "#,
    );
    let [plain, own, off] = &config.switch.ports[..] else { panic!("three ports") };

    assert_eq!(
        plain.pfc,
        PfcSettings { rx: true, tx: false, no_drop: 8, pause_quanta: 65_535, pause_speed_bps: None }
    );
    assert_eq!((plain.speed_bps, plain.classify.trust), (Some(1_000_000_000), Trust::None));
    assert_eq!(plain.groups[3].xoff, Threshold::Static(70));
    assert_eq!(
        (plain.queues[2].shared, plain.queues[2].guaranteed),
        (Some(Threshold::Static(30)), Guaranteed::Percent(5))
    );

    assert_eq!(
        own.pfc,
        PfcSettings { rx: true, tx: false, no_drop: 0b1_1000, pause_quanta: 65_535, pause_speed_bps: None }
    );
    assert_eq!((own.speed_bps, own.classify.trust), (Some(2_000_000_000), Trust::None));
    assert_eq!(own.groups[3].xoff, Threshold::Dynamic(Alpha::from_percent(50)));
    assert_eq!((own.groups[3].headroom_cells, own.groups[3].reserved_cells), (50, 9));
    assert_eq!(own.groups[4], GroupSettings::default_for(2_000_000_000));
    assert_eq!(own.queues[2].shared, Some(Threshold::Dynamic(Alpha::from_percent(40))));
    assert_eq!(own.queues[2].guaranteed, Guaranteed::Percent(5));

    // PFC off: priority 3 is a lossy priority like all others. Its cells as set in the file stay.
    assert_eq!(
        off.pfc,
        PfcSettings { rx: false, tx: false, no_drop: 0, pause_quanta: 65_535, pause_speed_bps: None }
    );
    let lossy = GroupSettings { reserved_cells: 131_072 / 8 / 3 / 8, ..GroupSettings::lossy() };
    assert_eq!(off.groups[0], lossy);
    assert_eq!((off.groups[3].headroom_cells, off.groups[3].xoff), (0, Threshold::Static(70)));
}

/// Classification, pools and the cable: a port has the defaults for what it does not write. A map
/// by DSCP overrides theirs DSCP by DSCP; lists and the policy are replaced.
#[test]
fn a_ports_own_maps_and_pools_win() {
    let config = parse(
        r#"
        [buffer.egress.pool.1]
        shared_percent = 20
        [buffer.ingress.pool.2]
        shared_percent = 20
        [port-defaults]
        trust = "dscp"
        cable_m = 10
        mtu = 1536
        dscp_to_dot1p = { "8-15" = 5, "46" = 6 }
        dscp_to_queue = { "46" = 1 }
        policy = [{ dot1p = 1, local_precedence = 2 }, { dot1p = 2, local_precedence = 3 }]
        rewrite = { dot1p = [1, 1, 1, 1, 1, 1, 1, 1], dscp = [2, 2, 2, 2, 2, 2, 2, 2] }
        buffer.egress.queue.5 = { pool = 1, shared_percent = 25 }
        buffer.ingress.priority.5 = { pool = 2 }
        [port.plain]
        interface = "veth0"
        [port.own]
        interface = "veth1"
        cable_m = 100
        dscp_to_dot1p = { 10 = 7 }
        policy = [{ dot1p = 1, local_precedence = 7 }]
        rewrite.dot1p = [3, 3, 3, 3, 3, 3, 3, 3]
        buffer.egress.queue.5 = { pool = 0 }
        buffer.ingress.priority.5 = { pool = 0 }
        [port.none]
        interface = "veth2"
        policy = []
        "#,
    );
    let [plain, own, none] = &config.switch.ports[..] else { panic!("three ports") };
    let link = |cable_m| Link { cable_m: Some(cable_m), mtu_bytes: Some(1536) };
    assert_eq!(config.links, [link(10), link(100), link(10)]);

    let mut classify = ClassifySettings { trust: Trust::Dscp, ..ClassifySettings::default() };
    classify.dscp_to_dot1p[8..=15].fill(5);
    classify.dscp_to_dot1p[46] = 6;
    classify.dscp_to_queue[46] = Some(1);
    let without_policy = classify.clone();
    (classify.policy[1], classify.policy[2]) = (Some(2), Some(3));
    assert_eq!(plain.classify, classify);
    assert_eq!(plain.rewrite, RewriteSettings { dot1p: Some([1; 8]), dscp: Some([2; 8]) });
    assert_eq!((plain.queues[5].pool, plain.groups[5].pool), (1, 2));

    classify.dscp_to_dot1p[10] = 7;
    (classify.policy[1], classify.policy[2]) = (Some(7), None);
    assert_eq!(own.classify, classify);
    assert_eq!(own.rewrite, RewriteSettings { dot1p: Some([3; 8]), dscp: Some([2; 8]) });
    assert_eq!((own.queues[5].pool, own.groups[5].pool), (0, 0));
    assert_eq!(own.queues[5].shared, Some(Threshold::Dynamic(Alpha::from_percent(25))));

    assert_eq!(none.classify, without_policy);
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

/// Row 288: 802.3x PAUSE. Where it is sent, groups have thresholds as no-drop ones do; defaults
/// apply except on ports with settings of their own.
#[test]
fn flow_control_of_the_whole_link() {
    for (name, flow_control) in FlowControl::ALL {
        let own = port(&format!("speed = \"25G\"\nflow_control = \"{name}\""));
        assert_eq!((own.flow_control, own.flow_control.name()), (flow_control, name));
        assert_eq!((own.pfc.rx, own.pfc.tx, own.pfc.no_drop), (false, false, 0));
        let group = if flow_control.sends() {
            GroupSettings::default_for(25_000_000_000)
        } else {
            GroupSettings { reserved_cells: 2048, ..GroupSettings::lossy() } // its part of the fixed area (row 15)
        };
        assert_eq!(own.groups, [group; 8], "{name}");
    }
    let own = port(
        "flow_control = \"send\"\npfc.pause_time = 100\n\
                    pfc.priority.5 = { xoff = { static_cells = 70 }, headroom_cells = 9, resume_cells = 8 }",
    );
    assert_eq!((own.pfc.pause_quanta, own.groups[5].headroom_cells, own.groups[5].resume_cells), (100, 9, 8));
    let config = parse(
        "[port-defaults]\nflow_control = \"both\"\n[port.a]\ninterface = \"a\"\n[port.b]\ninterface = \"b\"\n\
                        flow_control = \"off\"\npfc = { mode = \"on\", no_drop = [3] }",
    );
    let [a, b] = [0, 1].map(|port: usize| config.switch.ports[port].flow_control);
    assert_eq!((a, b), (FlowControl::Both, FlowControl::Off));
}

#[test]
fn headroom_follows_the_speed() {
    for (speed, headroom_cells) in [("1G", 100), ("10G", 100), ("25G", 125), ("100G", 491), ("400G", 1000)] {
        let text = format!("speed = \"{speed}\"\npfc = {{ mode = \"on\", no_drop = [0] }}");
        assert_eq!(port(&text).groups[0].headroom_cells, headroom_cells, "{speed}");
    }
}

/// Sixty-four ports are the maximum, and their defaults fit together.
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

/// LLDP: the timing is the switch's, direction and TLVs are the ports'. All ports forward LLDP, or
/// none does.
#[test]
fn lldp() {
    let ports = "[port.a]\ninterface = \"veth0\"\nlldp = \"rx\"\n[port.b]\ninterface = \"veth1\"\n";
    let config = parse(&format!(
        "[lldp]\ntx_interval_s = 3600\nhold = 100\nfast_interval_s = 2\nfast_frames = 8\ncredit_max = 10\n\
         reinit_delay_s = 1\nmax_neighbors = 64\nmanagement_addresses = [\"192.0.2.1\", \"fd00::1\"]\n\
         [port-defaults]\nlldp = \"tx\"\nlldp_tlvs = [\"system-name\", \"port-vlan\"]\n{ports}"
    ));
    let none = TlvSelection {
        port_description: false,
        system_name: true,
        system_description: false,
        capabilities: false,
        management: false,
        port_vlan: true,
        max_frame_size: false,
        link_aggregation: false,
    };
    let settings = |admin| LldpSettings {
        admin,
        tx_interval_s: 3600,
        hold: 100,
        fast_interval_s: 2,
        fast_frames: 8,
        credit_max: 10,
        reinit_delay_s: 1,
        max_neighbors: 64,
        tlvs: none,
    };
    let port = |admin| PortLldp { mode: LldpMode::Agent(admin), settings: settings(admin) };
    assert_eq!(config.lldp.ports, [port(AdminStatus::RxOnly), port(AdminStatus::TxOnly)]);
    assert_eq!(
        config.lldp.management.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["192.0.2.1", "fd00::1"]
    );
    let frames: Vec<_> = config.switch.ports.iter().map(|port| port.lldp).collect();
    assert_eq!(frames, [LldpFrames::Punt, LldpFrames::Drop]);

    let all = format!("[port-defaults]\nlldp = \"forward\"\n{}", ports.replace("lldp = \"rx\"\n", ""));
    let config = parse(&all);
    assert!(config.switch.ports.iter().all(|port| port.lldp == LldpFrames::Forward));
    let one = ports.replace("rx", "forward");
    let mistakes = config::parse("test.toml", &one).unwrap_err().to_string();
    assert!(mistakes.contains("port b does not forward LLDP, while port a does"), "{mistakes}");
}
