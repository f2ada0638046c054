//! An invented switch for the tests of the views: a server that sends too much on priorities 0 and
//! 3 to a slow uplink, and an unused port.

use control::v1::{
    ByDropLevel, Caution, Count, Group, Kernel, Level, Link, PfcCount, Pool, Port, Priority, Queue,
    RemovedPorts, Snapshot, Storm, StormTraffic,
};
use switch::DropReason;

/// The switch ten seconds after its start.
pub fn snapshot() -> Snapshot {
    Snapshot {
        at_ns: 10_000_000_000,
        pfc_enabled: true,
        ports: vec![server(), uplink(), spare()],
        ingress_pools: vec![
            Pool { pause_threshold_cells: Some(17_578), ..pool(1_304, 1_412, 71_680) },
            pool(0, 0, 30_720),
            pool(0, 0, 0),
            pool(0, 0, 0),
        ],
        egress_pools: vec![
            Pool { excess_frames: 3, excess_cells: 17, ..pool(1_204, 1_310, 102_400) },
            pool(0, 0, 0),
            pool(0, 0, 0),
            pool(0, 0, 0),
        ],
        headroom: Some(pool(38, 91, 12_288)),
        cell_bytes: 256,
        bridge_entries: 2,
        bridge_moves: 3,
        bridge_full_frames: 0,
        flood_copies: 4,
        memory_frames: 139_264,
        memory_free_frames: 130_000,
        memory_in_rings_frames: 8_192,
        events_lost: 0,
        log_lines_lost: 0,
        log_lines_left_out: 12,
        recordings_kept: 2,
        recordings_kept_bytes: 93_000_000,
        recordings_frozen: 3,
        recordings_not_kept: 1,
        removed_ports: Some(RemovedPorts::default()),
        loops: vec![],
        loop_turns: 3_141_592,
        loop_worst_stall_ns: 317_000,
        loop_awake_ns: 9_000_000_000,
        loop_turns_by_time: [
            &[1_200_000, 1_541_589, 300_000, 99_000, 0, 0, 1_000, 2, 0, 1][..],
            &[0; switch::monitor::counters::ITERATION_TIME_CLASSES - 10],
        ]
        .concat(),
    }
}

/// The switch two seconds later.
pub fn later() -> Snapshot {
    let mut later = snapshot();
    later.at_ns += 2_000_000_000;
    later.loop_turns += 500_000;
    later.loop_turns_by_time[0] += 499_999;
    later.loop_turns_by_time[3] += 1;
    later.ports[0].received = count(1_200_000, 1_650_000_000);
    later.ports[1].transmitted = count(495_834, 750_000_000);
    later.ports[1].queues[3].transmitted = count(297_500, 450_000_000);
    later
}

fn count(frames: u64, bytes: u64) -> Option<Count> {
    Some(Count { frames, bytes })
}

/// The peak since the last read, a higher one since the last clear, and one since the start.
fn level(cells: u32, peak_read_cells: u32) -> Option<Level> {
    let higher = |by| if peak_read_cells == 0 { 0 } else { peak_read_cells + by };
    Some(Level { cells, peak_read_cells, peak_clear_cells: higher(100), peak_cells: higher(200) })
}

fn pool(cells: u32, peak_cells: u32, size_cells: u32) -> Pool {
    Pool { level: level(cells, peak_cells), size_cells, ..Pool::default() }
}

fn port(name: &str, interface: &str, speed_bps: u64) -> Port {
    let none = |reason: DropReason| (reason.name().to_owned(), Count::default());
    let zeros = || Some(PfcCount { frames: 0, xoff_frames: vec![0; 8], xon_frames: vec![0; 8] });
    Port {
        name: name.into(),
        interface: interface.into(),
        up: true,
        speed_bps,
        xdp_mode: "native".into(),
        pfc_mode: "off".into(),
        overhead_bytes: 24,
        vlan_tags_restored: true,
        mtu_bytes: 9000,
        link: Some(Link {
            kind: "veth".into(),
            driver: "veth".into(),
            rx_queues: 1,
            tx_queues: 1,
            promiscuous: true,
            ..Link::default()
        }),
        received: count(0, 0),
        transmitted: count(0, 0),
        input_dropped: count(0, 0),
        output_dropped: count(0, 0),
        drops: DropReason::ALL.into_iter().map(none).collect(),
        pfc_received: zeros(),
        pfc_sent: zeros(),
        groups: vec![
            Group {
                threshold_cells: 568_000,
                is_dynamic: true,
                usage_percent: 70,
                ..Group::default()
            };
            8
        ],
        queues: vec![
            Queue {
                threshold_cells: Some(640),
                guaranteed_cells: 266,
                is_dynamic: true,
                allowed_cells: 906,
                usage_percent: 70,
                ..Queue::default()
            };
            8
        ],
        kernel: Some(Kernel::default()),
        priorities: (0..8)
            .map(|priority| Priority { local_precedence: [2, 0, 1, 3, 4, 5, 6, 7][priority], ..calm() })
            .collect(),
        ..Port::default()
    }
}

fn calm() -> Priority {
    Priority {
        storm_traffic: Some(StormTraffic::default()),
        last_storm_traffic: Some(StormTraffic::default()),
        ..Priority::default()
    }
}

/// Two storms of the uplink: an earlier one, and one that needs manual recovery.
fn storms() -> (Vec<Storm>, Priority) {
    let last = StormTraffic { tx_frames: 3, tx_dropped_frames: 1_200, rx_frames: 0, rx_dropped_frames: 40 };
    let first = StormTraffic { tx_frames: 0, tx_dropped_frames: 300, rx_frames: 0, rx_dropped_frames: 2 };
    let storm = Storm {
        priority: 3,
        began_ns: 7_000_000_000,
        stuck_ns: 50_000_001,
        ended_ns: Some(7_700_000_001),
        drops: true,
        traffic: Some(first),
        ..Storm::default()
    };
    let running = Storm { began_ns: 9_100_000_000, ended_ns: None, traffic: Some(last), ..storm };
    let both = StormTraffic { tx_frames: 3, tx_dropped_frames: 1_500, rx_frames: 0, rx_dropped_frames: 42 };
    let priority = Priority {
        local_precedence: 3,
        paused: true,
        pauses: 5,
        paused_ns: 1_800_000_321,
        received_pps: 8_928,
        received_warning: true,
        watched: true,
        stormed: true,
        recovery_pending: true,
        storms: 2,
        storms_restored: 1,
        storm_traffic: Some(both),
        last_storm_traffic: Some(last),
        ..calm()
    };
    (vec![storm, running], priority)
}

fn server() -> Port {
    let mut port = port("server1", "a-server1", 25_000_000_000);
    port.received = count(1_000_000, 1_375_000_000);
    (port.received_yellow_frames, port.received_red_frames) = (1_000, 20);
    port.transmitted = count(12, 768);
    (port.bridge_entries, port.received_broadcast_frames, port.received_multicast_frames) = (1, 1_007, 40);
    *port.drops.get_mut("broadcast_limit").unwrap() = Count { frames: 7, bytes: 420 };
    *port.drops.get_mut("tail_drop").unwrap() = Count { frames: 399_412, bytes: 549_191_500 };
    *port.drops.get_mut("filtered").unwrap() = Count { frames: 2, bytes: 128 };
    port.input_dropped = count(9, 548);
    port.output_dropped = count(399_412, 549_191_500);
    port.pfc_mode = "on".into();
    port.pfc_sent.as_mut().unwrap().frames = 1_204;
    (port.pfc_change_frames, port.pfc_refresh_frames, port.pfc_repeat_frames) = (1_000, 200, 4);
    port.pfc_sent.as_mut().unwrap().xoff_frames[3] = 702;
    port.pfc_sent.as_mut().unwrap().xon_frames[3] = 502;
    port.groups[0].received = count(500_000, 687_500_000);
    port.groups[3] = Group {
        no_drop: true,
        pool: 1,
        xoff: true,
        xoff_episodes: 503,
        xoff_ns: 2_400_000_000,
        reserved_cells: 17,
        reserved_size_cells: 17,
        shared: level(1_304, 1_412),
        headroom: level(38, 91),
        headroom_size_cells: 1_000,
        total: level(1_359, 1_520),
        threshold_cells: 1_304,
        is_dynamic: false,
        usage_percent: 70,
        violations: 4,
        headroom_violations: 2,
        received: count(500_000, 687_500_000),
        dropped: count(0, 0),
        storm_dropped: count(0, 0),
        flood_limited: count(7, 420),
    };
    port.queues[2].transmitted = count(12, 768);
    port.queues[2].level = level(0, 1);
    port
}

fn uplink() -> Port {
    let mut port = port("uplink", "a-uplink", 500_000_000);
    port.transmitted = count(413_201, 625_000_000);
    port.received = count(14, 896);
    (port.bridge_entries, port.received_unknown_unicast_frames) = (1, 3);
    (port.transmitted_broadcast_frames, port.transmitted_multicast_frames) = (1_000, 40);
    port.in_flight_peak_bytes = 65_104;
    port.pause_received_frames = 1;
    (port.storms, port.priorities[3]) = storms();
    port.pfc_malformed_frames = 2;
    port.pfc_received = Some(PfcCount {
        frames: 9,
        xoff_frames: vec![0, 0, 0, 5, 0, 0, 0, 0],
        xon_frames: vec![0, 0, 0, 4, 0, 0, 0, 0],
    });
    port.queues[2] = Queue {
        level: level(640, 641),
        guaranteed_cells: 266,
        waiting_frames: 106,
        flooded_frames: 6,
        flooded_paused: true,
        threshold_cells: Some(640),
        is_dynamic: true,
        allowed_cells: 906,
        usage_percent: 70,
        violations: 12,
        transmitted: count(165_284, 250_000_000),
        dropped: count(399_412, 549_191_500),
        marked: count(1_212, 1_666_500),
        wred_dropped: Some(ByDropLevel {
            green: count(77, 105_875),
            yellow: count(6, 8_250),
            red: count(5, 6_875),
        }),
        average_cells: Some(612),
        ..Queue::default()
    };
    port.queues[3] = Queue {
        paused: true,
        pauses: 5,
        paused_ns: 16_800_000,
        level: level(564, 670),
        allowed_cells: 102_666,
        usage_percent: 70,
        guaranteed_cells: 266,
        waiting_frames: 94,
        transmitted: count(247_917, 375_000_000),
        dropped: count(0, 0),
        ..Queue::default()
    };
    port
}

fn spare() -> Port {
    let mut port = port("spare", "enp3s0f1", 0);
    port.xdp_mode = "generic".into();
    port.vlan_tags_restored = false;
    port.mtu_bytes = 9000;
    let caution = |setting: &str, harm: &str, cure: &str| Caution {
        setting: setting.into(),
        harm: harm.into(),
        cure: cure.into(),
    };
    port.link = Some(Link {
        driver: "ixgbe".into(),
        rx_queues: 4,
        tx_queues: 8,
        link_speed_bps: 10_000_000_000,
        cautions: vec![
            caution("rx-lro", "received frames are merged", "`ethtool -K enp3s0f1 lro off`"),
            caution("pause", "the NIC honors PAUSE frames", "`ethtool -A enp3s0f1 rx off`"),
        ],
        ..Link::default()
    });
    port.up = false;
    port.kernel.as_mut().unwrap().rx_dropped_frames = 7;
    port
}

/// The same switch with VLANs: an access port, and trunks with and without a native VLAN.
pub fn with_vlans() -> Snapshot {
    let mut now = snapshot();
    for (port, (mode, pvid, vlans)) in now.ports.iter_mut().zip([
        ("access", Some(10), "10"),
        ("trunk", Some(1), "1-100,200"),
        ("trunk", None, "10,20"),
    ]) {
        (port.vlan_mode, port.pvid, port.vlans) = (mode.to_owned(), pvid, vlans.to_owned());
    }
    now
}
