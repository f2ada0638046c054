//! Service pools in a whole switch: what is mapped to a pool uses only that pool, a pool may
//! trigger pauses, and a drop is counted on one side of one port.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, OPEN, mac, queue_of, settings};
use switch::DropReason;
use switch::monitor::counters::{PoolSnapshot, PortSnapshot};
use switch::settings::{GroupSettings, Guaranteed, QueueSettings, SwitchSettings, Threshold};

/// The no-drop priority of these tests, and its queue.
const P: u8 = 5;
const NO_DROP: u8 = 1 << P;
/// A lossy priority.
const LOSSY: u8 = 4;

/// Returns a frame of one cell.
fn frame(port: usize, to: usize, priority: u8) -> Frame {
    Frame { port, dst: mac(to), priority, len: 64 }
}

fn dropped(port: &PortSnapshot, reason: DropReason) -> u64 {
    port.drops[reason as usize].frames
}

/// Three ports; egress pool 1 has 40 of 400 cells, and queues 4 and 5 of all ports use it.
fn small_egress_pool() -> SwitchSettings {
    let mut settings = settings(3, NO_DROP, 400, 100);
    settings.buffer.egress_pool_percent = [90, 10, 0, 0];
    for port in &mut settings.ports {
        port.groups[usize::from(P)] =
            GroupSettings { xoff: Threshold::Static(50), headroom_cells: 30, ..OPEN };
        let lossy = queue_of(Threshold::Static(300));
        port.queues[usize::from(LOSSY)] = QueueSettings { pool: 1, ..lossy };
        port.queues[usize::from(P)] = QueueSettings { pool: 1, shared: None, ..lossy };
    }
    settings
}

/// Row 18 of the vendors' table: a queue mapped to a service pool can use only that pool, even if
/// its own maximum and the rest of the buffer would allow more.
#[test]
fn row_18_a_lossy_queue_uses_its_pool_and_no_other() {
    let mut lab = Lab::new(&small_egress_pool());
    lab.switch.hold(1, true);
    (0..60).for_each(|_| lab.arrive(frame(0, 1, LOSSY)));
    let seen = lab.snapshot().clone();
    assert_eq!(
        seen.ports[1].queues[usize::from(LOSSY)].level.cells,
        40,
        "the pool's 40, not the maximum's 300"
    );
    assert_eq!(dropped(&seen.ports[1], DropReason::TailDrop), 20);
    let pools = seen.egress_pools.map(|pool| (pool.size_cells, pool.level.cells, pool.excess_frames));
    assert_eq!(pools, [(360, 0, 0), (40, 40, 0), (0, 0, 0), (0, 0, 0)]);
    lab.switch.hold(1, false);
    lab.turn();
    assert_eq!(lab.snapshot().egress_pools[1].level.cells, 0);
}

/// Row 18: a frame that ingress admitted to a no-drop queue is not dropped for lack of cells in its
/// egress pool. Cells beyond the pool are counted, and a lossy queue of the pool gets none
/// meanwhile.
#[test]
fn row_18_a_no_drop_queue_keeps_what_ingress_admitted_and_its_pool_counts_what_is_beyond() {
    let mut lab = Lab::new(&small_egress_pool());
    lab.switch.hold(1, true);
    // XOFF at 50 cells and 30 of headroom, from each of two ports.
    for port in [0, 2] {
        (0..80).for_each(|_| lab.arrive(frame(port, 1, P)));
    }
    let seen = lab.snapshot().clone();
    assert_eq!(seen.ports[1].queues[usize::from(P)].level.cells, 160);
    assert!(seen.ports.iter().all(|port| dropped(port, DropReason::TailDrop) == 0));
    assert!(seen.ports.iter().all(|port| dropped(port, DropReason::IngressNoDrop) == 0));
    let pool = seen.egress_pools[1];
    assert_eq!((pool.level.cells, pool.excess_frames, pool.excess_cells), (160, 120, 120));
    lab.arrive(frame(0, 1, LOSSY));
    assert_eq!(dropped(&lab.snapshot().ports[1], DropReason::TailDrop), 1, "nothing is free for it");
    lab.switch.hold(1, false);
    lab.turn();
    lab.arrive(frame(0, 1, LOSSY));
    let PoolSnapshot { level, excess_frames, excess_cells, .. } = lab.snapshot().egress_pools[1];
    assert_eq!((level.cells, excess_frames, excess_cells), (1, 120, 120), "counted once, and room again");
}

/// Row 15: a group's reserved cells are its own at ingress, too: groups that fill the pool cannot
/// take them.
#[test]
fn row_15_a_reservation_at_ingress_cannot_be_taken_by_others() {
    let mut settings = settings(3, 0, 100, 0);
    (settings.buffer.total_cells, settings.buffer.fixed_cells) = (120, 20);
    for port in &mut settings.ports {
        port.queues
            .fill(QueueSettings { guaranteed: Guaranteed::Cells(0), ..queue_of(Threshold::Static(1000)) });
        port.groups[1].xoff = Threshold::Static(1000);
        port.groups[2].reserved_cells = 20;
    }
    settings.buffer.egress_pool_cells = [Some(120), None, None, None];
    let mut lab = Lab::new(&settings);
    lab.switch.hold(1, true);
    (0..150).for_each(|_| lab.arrive(frame(0, 1, 1)));
    assert_eq!(dropped(&lab.snapshot().ports[0], DropReason::IngressLossy), 50, "the pool has 100");
    (0..25).for_each(|_| lab.arrive(frame(2, 1, 2)));
    let group = lab.snapshot().ports[2].groups[2];
    assert_eq!((group.reserved_cells, group.shared.cells, group.dropped.frames), (20, 0, 5));
}

/// Row 334: an ingress pool with a pause threshold pauses its no-drop groups once its use reaches
/// that threshold, whichever group uses it, and resumes them when use has fallen by their offset.
#[test]
fn row_334_a_pool_pauses_its_groups_at_its_threshold() {
    let mut settings = settings(3, NO_DROP, 400, 100);
    settings.buffer.pause_cells = [Some(100), None, None, None];
    for port in &mut settings.ports {
        port.groups[usize::from(P)] = GroupSettings {
            reserved_cells: 4,
            xoff: Threshold::Static(200),
            xon_offset_cells: 10,
            headroom_cells: 30,
            ..OPEN
        };
        port.queues[usize::from(LOSSY)] = queue_of(Threshold::Static(1000));
    }
    (settings.buffer.total_cells, settings.buffer.fixed_cells) = (520, 20);
    let mut lab = Lab::new(&settings);
    lab.switch.hold(1, true);
    let paused = |lab: &mut Lab| {
        lab.turn();
        let seen = lab.snapshot();
        [0, 2].map(|port: usize| seen.ports[port].groups[usize::from(P)].xoff)
    };
    assert_eq!(lab.snapshot().ingress_pools[0].pause_threshold_cells, Some(100));
    (0..24).for_each(|_| lab.arrive(frame(0, 1, P))); // 4 reserved, 20 shared
    (0..4).for_each(|_| lab.arrive(frame(2, 1, P))); // reserved only
    (0..79).for_each(|_| lab.arrive(frame(2, 1, LOSSY)));
    assert_eq!(paused(&mut lab), [false, false], "99 cells of the pool");
    lab.arrive(frame(2, 1, LOSSY));
    assert_eq!(paused(&mut lab), [true, false], "the group that holds none of it goes on");
    assert_eq!(lab.pfc_sent(0).last().map(|pfc| pfc.quanta[usize::from(P)] > 0), Some(true), "XOFF was sent");
    lab.arrive(frame(2, 1, P));
    assert_eq!(paused(&mut lab), [true, true], "now it holds one");
    // 101 cells are in use. Lossy frames leave: 92 are still too many, 90 are the threshold less
    // the offset.
    lab.switch.hold(1, false);
    for (leave, expected) in [(9, [true, true]), (1, [true, true]), (1, [false, false])] {
        let before = lab.snapshot().ingress_pools[0].level.cells;
        let mut left = 0;
        while left < leave {
            lab.transmit(1, 1);
            lab.complete(1, 1);
            left = before - lab.snapshot().ingress_pools[0].level.cells;
        }
        lab.switch.hold(1, true);
        assert_eq!(paused(&mut lab), expected, "{} cells", before - left);
        lab.switch.hold(1, false);
    }
}

/// Rows 74 and 192: a drop on the output side of a port is counted there, and not at the ingress
/// port of the frame.
#[test]
fn rows_74_and_192_drops_count_on_the_side_where_they_happen() {
    let mut settings = small_egress_pool();
    settings.ports[0].groups[1].xoff = Threshold::Static(7);
    let mut lab = Lab::new(&settings);
    let before = lab.snapshot().ports[0].input_dropped.frames; // the lab's own, to themselves
    lab.switch.hold(1, true);
    (0..60).for_each(|_| lab.arrive(frame(0, 1, LOSSY)));
    (0..10).for_each(|_| lab.arrive(frame(0, 1, 1)));
    let seen = lab.snapshot().clone();
    let sides = |port: usize| (seen.ports[port].input_dropped.frames, seen.ports[port].output_dropped.frames);
    assert_eq!((sides(0), sides(1)), ((before + 3, 0), (before, 20)));
    assert_eq!(seen.ports[1].output_dropped.bytes, 20 * 64);
    lab.switch.port_down(1, lab.now, &mut lab.memory);
    let seen = lab.snapshot();
    assert_eq!(seen.ports[1].output_dropped.frames, 20 + 40 + 7, "what waited for a port that went down");
    assert_eq!(seen.ports[0].output_dropped.frames, 0);
    for port in &seen.ports {
        let all: u64 = port.drops.iter().map(|drops| drops.frames).sum();
        assert_eq!(port.input_dropped.frames + port.output_dropped.frames, all, "{}", port.name);
    }
}
