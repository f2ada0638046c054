//! The switch's counters arrive in the message. The compiler checks that no field is forgotten or
//! mixed up (build.rs: both sides name all fields, and the same ones); these tests cover one field
//! of each kind.

use control::v1::{self, ByDropLevel};
use control::{DaemonState, LogCounts, PortDetails, RecordingCounts, convert};
use switch::monitor::counters::{
    FrameCount, GroupSnapshot, PfcCount, PoolSnapshot, PortSnapshot, QueueSnapshot, RemovedPorts,
};
use switch::{DropReason, KernelCounters, Occupancy, Snapshot};

fn count(frames: u64) -> FrameCount {
    FrameCount { frames, bytes: 100 * frames }
}

fn reported(frames: u64) -> Option<v1::Count> {
    Some(v1::Count { frames, bytes: 100 * frames })
}

fn facts(interface: &str) -> PortDetails {
    PortDetails {
        interface: interface.into(),
        xdp_mode: "native".into(),
        vlan_tags_restored: true,
        mtu_bytes: 1500,
        link: v1::Link { rx_queues: 2, ..v1::Link::default() },
    }
}

/// The message of a switch with these two ports.
fn message(left: PortSnapshot, right: PortSnapshot) -> v1::Snapshot {
    let snapshot = Snapshot {
        at_ns: 1,
        ports: vec![left, right],
        headroom: PoolSnapshot { size_cells: 2, ..PoolSnapshot::default() },
        bridge_moves: 3,
        events_lost: 4,
        ..Snapshot::default()
    };
    let loops = vec![v1::Loop { core: 7, turns: 8, ..v1::Loop::default() }];
    let log = LogCounts { lost: 5, left_out: 6 };
    let recordings = RecordingCounts { kept: 9, kept_bytes: 10, frozen: 11, not_kept: 12 };
    let daemon = DaemonState { pfc_enabled: true, log, recordings, loops };
    let mut message = convert::snapshot(&snapshot, &daemon);
    convert::list_ports(&mut message, [(0, &facts("a-left")), (1, &facts("a-right"))]);
    message
}

/// One of three slots is vacant, and the file has the other ports in another order.
#[test]
fn ports_are_listed_in_the_order_of_the_file_and_vacant_slots_are_not() {
    let at = |name: &str, number| PortSnapshot { name: name.into(), number, ..PortSnapshot::default() };
    let ports = vec![at("left", 1), at("", 2), at("right", 3)];
    let removed_ports = RemovedPorts { ports: 1, received: count(7), ..RemovedPorts::default() };
    let snapshot = Snapshot { ports, removed_ports, ..Snapshot::default() };
    let (log, recordings) = (LogCounts::default(), RecordingCounts::default());
    let daemon = DaemonState { pfc_enabled: true, log, recordings, loops: Vec::new() };
    let mut message = convert::snapshot(&snapshot, &daemon);
    assert_eq!(message.ports.len(), 3);
    convert::list_ports(&mut message, [(2, &facts("a-right")), (0, &facts("a-left"))]);
    let listed: Vec<_> = message.ports.iter().map(|port| (port.name.as_str(), port.number)).collect();
    assert_eq!(listed, [("right", 3), ("left", 1)]);
    assert_eq!(message.ports[0].interface, "a-right");
    assert_eq!(message.removed_ports.unwrap().received, reported(7));
}

#[test]
fn numbers_text_and_flags() {
    let left = PortSnapshot { name: "left".into(), overhead_bytes: 24, ..PortSnapshot::default() };
    let right = PortSnapshot { name: "right".into(), up: true, held: true, ..PortSnapshot::default() };
    let message = message(left, right);
    assert_eq!((message.at_ns, message.bridge_moves, message.events_lost), (1, 3, 4));
    assert_eq!((message.log_lines_lost, message.log_lines_left_out), (5, 6));
    assert_eq!((message.recordings_kept, message.recordings_kept_bytes), (9, 10));
    assert_eq!((message.recordings_frozen, message.recordings_not_kept), (11, 12));
    assert_eq!((message.loops[0].core, message.loops[0].turns), (7, 8));
    assert!(message.pfc_enabled && message.ingress_pools.len() == 4);
    assert_eq!(message.headroom.unwrap().size_cells, 2);
    let [left, right] = &message.ports[..] else { panic!("two ports") };
    assert_eq!((left.name.as_str(), left.interface.as_str(), left.overhead_bytes), ("left", "a-left", 24));
    assert_eq!((right.name.as_str(), right.interface.as_str()), ("right", "a-right"));
    assert_eq!((right.xdp_mode.as_str(), right.vlan_tags_restored, right.mtu_bytes), ("native", true, 1500));
    assert_eq!(right.link.as_ref().map(|link| link.rx_queues), Some(2));
    assert_eq!((right.up, right.held, left.up, left.held), (true, true, false, false));
}

#[test]
fn drops_have_the_names_of_their_reasons() {
    let drops = DropReason::ALL.map(|reason| count(1 + reason as u64));
    let message = message(PortSnapshot { drops, ..PortSnapshot::default() }, PortSnapshot::default());
    for reason in DropReason::ALL {
        assert_eq!(message.ports[0].drops[reason.name()].frames, 1 + reason as u64, "{reason:?}");
    }
    assert_eq!(message.ports[0].drops.len(), DropReason::ALL.len());
}

#[test]
fn lists_and_structs_inside_structs() {
    let level = Occupancy { cells: 1, peak_read_cells: 2, peak_clear_cells: 3, peak_cells: 4 };
    let queue = QueueSnapshot {
        pool: 2,
        level,
        threshold_cells: Some(5),
        wred_dropped: [count(6), count(7), count(8)],
        ..QueueSnapshot::default()
    };
    let mut port = PortSnapshot {
        pfc_sent: PfcCount { frames: 9, xoff_frames: [1, 2, 3, 4, 5, 6, 7, 8], xon_frames: [0; 8] },
        kernel: KernelCounters { tx_busy: 10, ..KernelCounters::default() },
        received: count(11),
        ..PortSnapshot::default()
    };
    port.queues[7] = queue;
    port.groups[3] = GroupSnapshot { no_drop: true, shared: level, ..GroupSnapshot::default() };
    let message = message(port, PortSnapshot::default());

    let port = &message.ports[0];
    let sent = port.pfc_sent.as_ref().unwrap();
    assert_eq!((sent.frames, &sent.xoff_frames[..]), (9, &[1, 2, 3, 4, 5, 6, 7, 8][..]));
    assert_eq!((port.kernel.unwrap().tx_busy, port.received), (10, reported(11)));
    let level = v1::Level { cells: 1, peak_read_cells: 2, peak_clear_cells: 3, peak_cells: 4 };
    assert_eq!((port.groups[3].no_drop, port.groups[3].shared), (true, Some(level)));
    let queue = &port.queues[7];
    assert_eq!((queue.pool, queue.level, queue.threshold_cells), (2, Some(level), Some(5)));
    assert_eq!(
        queue.wred_dropped,
        Some(ByDropLevel { green: reported(6), yellow: reported(7), red: reported(8) })
    );
    assert_eq!(port.queues[0].threshold_cells, None);
}
