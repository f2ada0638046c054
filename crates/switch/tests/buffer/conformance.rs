//! The checks that SONiC runs on real chips, restated for Sluice (docs/references.md, "Conformance
//! list"), with margin 0: the expected result is computed from cells alone, and the switch must
//! match it to the frame.
//!
//! "Held" is the list's "tx off": transmission on the egress port is held. A turn is an iteration
//! of the poll loop.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, OPEN, mac, queue_of, settings};
use switch::settings::{
    Alpha, GroupDiscipline, GroupSettings, ScheduleSettings, SwitchSettings, Threshold, Trust,
};
use switch::{DropReason, Snapshot, WatermarkReset};
use wire::ethernet::{Header, IPV4, IPV6, SERVICE_VLAN, Tag, VLAN, write_header};
use wire::pause::Pfc;

/// Cell sizes of real chips.
const CELLS: [u32; 3] = [208, 254, 256];
/// Frame lengths around the cell sizes, the smallest and the largest.
const LENGTHS: [u16; 7] = [64, 65, 128, 208, 300, 1514, 9216];
/// The no-drop priority of these tests.
const P: u8 = 5;
const NO_DROP: u8 = 1 << P;

/// Returns every cell size with every length, and the cells that such a frame takes.
fn every_size() -> impl Iterator<Item = (u32, u16, u32)> {
    CELLS
        .into_iter()
        .flat_map(|cell| LENGTHS.into_iter().map(move |len| (cell, len, u32::from(len).div_ceil(cell))))
}

fn frame(port: usize, to: usize, len: u16) -> Frame {
    Frame { port, dst: mac(to), priority: P, len }
}

/// Returns the non-zero drops of all ports, by (reason, frames), without the drops of the lab's own
/// frames.
fn drops(snapshot: &Snapshot) -> Vec<(DropReason, u64)> {
    DropReason::ALL
        .into_iter()
        .filter(|&reason| reason != DropReason::Filtered)
        .map(|reason| (reason, snapshot.ports.iter().map(|port| port.drops[reason as usize].frames).sum()))
        .filter(|&(_, frames)| frames > 0)
        .collect()
}

/// Returns whether one of these PFC frames pauses `P`, and whether one resumes it.
fn reported(pfc: &[Pfc]) -> (bool, bool) {
    let of_p = pfc.iter().filter(|pfc| pfc.enable & NO_DROP != 0).map(|pfc| pfc.quanta[usize::from(P)]);
    (of_p.clone().any(|quanta| quanta > 0), of_p.clone().any(|quanta| quanta == 0))
}

/// Gives every port one group with these thresholds, in cells.
fn with_group(mut settings: SwitchSettings, cell: u32, group: GroupSettings) -> SwitchSettings {
    settings.buffer.cell_bytes = cell;
    settings.ports.iter_mut().for_each(|port| port.groups[usize::from(P)] = group);
    settings
}

/// PFC thresholds and the drop point of a group. Up to one frame short of XOFF nothing happens; one
/// more frame triggers PFC. Until the end of headroom PFC is refreshed and nothing drops; one more
/// frame is one ingress drop, and no egress drop, on that group alone.
#[test]
fn pfc_thresholds() {
    for (cell, len, n) in every_size() {
        for (reserved, xoff) in [(0, 40), (17, 100), (8, 45)] {
            let (reserved_cells, headroom_cells) = (reserved * n, 20 * n + n / 2);
            let static_cells = xoff * n;
            let group = GroupSettings {
                reserved_cells,
                xoff: Threshold::Static(static_cells),
                xon_offset_cells: n,
                headroom_cells,
                ..OPEN
            };
            let context = format!("{len} bytes in cells of {cell}, {reserved} + {xoff} frames");
            let mut lab = Lab::new(&with_group(settings(3, NO_DROP, 4000 * n.max(1), 1000), cell, group));
            lab.switch.hold(1, true);
            // The frame that fills the last cell of reserved + threshold reaches XOFF.
            let to_xoff = (reserved_cells + static_cells).div_ceil(n);
            let to_drop = to_xoff + headroom_cells / n;
            for arrived in 1..=to_drop {
                lab.arrive(frame(0, 1, len));
                lab.turn();
                let expected = (arrived == to_xoff, false);
                assert_eq!(reported(&lab.pfc_sent(0)), expected, "PFC after frame {arrived}: {context}");
                assert_eq!(drops(lab.snapshot()), [], "frame {arrived}: {context}");
            }
            // "PFC keeps being sent": the pause time of 65535 quanta at 10 Gbit/s is 3.4 ms.
            for _ in 0..3 {
                lab.now = lab.now + 1_700_000;
                lab.turn();
                assert_eq!(reported(&lab.pfc_sent(0)), (true, false), "refreshed: {context}");
            }
            lab.arrive(frame(0, 1, len));
            assert_eq!(drops(lab.snapshot()), [(DropReason::IngressNoDrop, 1)], "{context}");
            let group = |port: usize, priority: usize| lab.seen().ports[port].groups[priority];
            assert_eq!(group(0, 5).dropped.frames, 1, "{context}");
            assert!((0..8).filter(|&p| p != 5).all(|p| group(0, p).dropped.frames == 0));
            assert_eq!(lab.seen().ports[1].queues[5].dropped.frames, 0, "{context}");
            assert_eq!(
                (group(0, 5).shared.cells, group(0, 5).headroom.cells),
                (static_cells, headroom_cells / n * n),
                "{context}"
            );
        }
    }
}

/// The same with a dynamic threshold on the only group in use: the group settles at α/(1+α) of the
/// pool, and XOFF comes with the frame that brings its cells to alpha times the cells then free.
#[test]
fn pfc_thresholds_dynamic() {
    for (cell, len, n) in every_size() {
        for percent in [3, 11, 33, 50, 66] {
            let alpha = Alpha::from_percent(percent);
            let group = GroupSettings { xoff: Threshold::Dynamic(alpha), headroom_cells: 10 * n, ..OPEN };
            let pool = 3000 * n;
            let mut lab = Lab::new(&with_group(settings(2, NO_DROP, pool, 10 * n), cell, group));
            lab.switch.hold(1, true);
            let context = format!("{len} bytes in cells of {cell}, {percent} %");
            let (mut shared, mut xoff, mut headroom) = (0, false, 0);
            while headroom < 10 * n {
                if headroom == 0 && shared + n <= alpha.of(pool - shared) {
                    shared += n;
                } else {
                    headroom += n;
                }
                let over = headroom > 0 || shared >= alpha.of(pool - shared);
                lab.arrive(frame(0, 1, len));
                lab.turn();
                assert_eq!(
                    reported(&lab.pfc_sent(0)),
                    (over && !xoff, false),
                    "{shared} + {headroom}: {context}"
                );
                assert_eq!(drops(lab.snapshot()), [], "{shared} + {headroom}: {context}");
                xoff |= over;
            }
            lab.arrive(frame(0, 1, len));
            assert_eq!(drops(lab.snapshot()), [(DropReason::IngressNoDrop, 1)], "{context}");
        }
    }
}

/// Three congested egress ports. Freeing one is not enough, so the pause is still refreshed;
/// freeing the next sends XON, repeated once, then nothing for 30 s. No drops.
#[test]
fn xon() {
    for (cell, len, n) in every_size() {
        let group = GroupSettings {
            reserved_cells: 2 * n,
            xoff: Threshold::Static(28 * n),
            xon_offset_cells: 18 * n, // XON at 10 frames of shared cells
            headroom_cells: 10 * n,
            ..OPEN
        };
        let mut lab = Lab::new(&with_group(settings(4, NO_DROP, 4000 * n, 100 * n), cell, group));
        (1..=3).for_each(|out| lab.switch.hold(out, true));
        for arrived in 0..30 {
            lab.arrive(frame(0, 1 + arrived % 3, len));
        }
        lab.turn();
        assert_eq!(reported(&lab.pfc_sent(0)), (true, false));
        lab.switch.hold(1, false); // 10 frames go: 20 stay, 18 of them shared
        (0..2).for_each(|_| lab.turn()); // the frames leave in one, the next would tell
        assert_eq!(reported(&lab.pfc_sent(0)), (false, false), "18 frames are more than 10");
        for _ in 0..3 {
            lab.now = lab.now + 1_700_000;
            lab.turn();
            assert_eq!(reported(&lab.pfc_sent(0)), (true, false), "refreshed");
        }
        lab.switch.hold(2, false); // 10 stay, 8 of them shared
        (0..2).for_each(|_| lab.turn());
        assert_eq!(reported(&lab.pfc_sent(0)), (false, true), "XON with {len} bytes in cells of {cell}");
        lab.now = lab.now + 1_000_000;
        lab.turn();
        assert_eq!(reported(&lab.pfc_sent(0)), (false, true), "once more, should the first have been lost");
        for _ in 0..30 {
            lab.now = lab.now + 1_000_000_000;
            lab.turn();
            assert!(lab.pfc_sent(0).is_empty(), "silence");
        }
        lab.switch.hold(3, false);
        lab.turn();
        assert!(lab.pfc_sent(0).is_empty());
        assert_eq!(drops(lab.snapshot()), []);
    }
}

/// An absolute resume threshold, and the offset: XON comes with the frame that brings the shared
/// cells down to the larger of the two.
#[test]
fn xon_at_the_larger_of_resume_and_offset() {
    for (xon_offset_cells, resume_cells, xon_at) in [(4, 0, 16), (4, 10, 16), (15, 10, 10), (100, 0, 0)] {
        let group = GroupSettings {
            xoff: Threshold::Static(20),
            xon_offset_cells,
            resume_cells,
            headroom_cells: 8,
            ..OPEN
        };
        let mut lab = Lab::new(&with_group(settings(2, NO_DROP, 4000, 8), 256, group));
        lab.switch.hold(1, true);
        (0..28).for_each(|_| lab.arrive(frame(0, 1, 64)));
        lab.turn();
        assert_eq!(reported(&lab.pfc_sent(0)), (true, false));
        for left in (0..28).rev() {
            lab.switch.hold(1, false);
            lab.transmit(1, 1);
            lab.switch.hold(1, true);
            lab.complete(1, 1);
            lab.turn();
            let expected = (false, left == xon_at);
            assert_eq!(reported(&lab.pfc_sent(0)), expected, "{left} left, XON at {xon_at}");
        }
    }
}

/// Headroom pool: 8 groups fill their shared cells (each sends PFC), then the headroom of all of
/// them. There are no drops, and the pool's watermark is exact; one more frame is one ingress drop.
/// The watermark never exceeds the size.
#[test]
fn headroom_pool() {
    const PORTS: usize = 5; // four come in, with two no-drop priorities each; the last goes out
    for (cell, len, n) in every_size() {
        let group = GroupSettings { xoff: Threshold::Static(3 * n), headroom_cells: 12 * n, ..OPEN };
        let pool = 60 * n; // 5 of the 8 groups can have all their headroom
        let mut settings = settings(PORTS, 0b0011_0000, 1000 * n, pool);
        settings.buffer.cell_bytes = cell;
        settings.ports.iter_mut().for_each(|port| (port.groups[4], port.groups[5]) = (group, group));
        let mut lab = Lab::new(&settings);
        lab.switch.hold(PORTS - 1, true);
        let groups: Vec<_> = (0..PORTS - 1).flat_map(|port| [(port, 4), (port, 5)]).collect();
        let of = |(port, priority)| Frame { port, dst: mac(PORTS - 1), priority, len };
        for &group in &groups {
            (0..3).for_each(|_| lab.arrive(of(group)));
        }
        lab.turn();
        assert!((0..PORTS - 1).all(|port| lab.pfc_sent(port)[0].enable == 0b0011_0000), "each group pauses");
        let mut in_pool = 0;
        'full: loop {
            for (at, &group) in groups.iter().enumerate() {
                if in_pool == pool {
                    lab.arrive(of(group));
                    let (port, priority) = group;
                    let seen = lab.snapshot();
                    assert_eq!(drops(seen), [(DropReason::IngressNoDrop, 1)], "{len} in {cell}");
                    assert_eq!(seen.ports[port].groups[usize::from(priority)].dropped.frames, 1);
                    assert_eq!((at, seen.headroom.level.peak_cells), (4, pool));
                    break 'full;
                }
                lab.arrive(of(group));
                in_pool += n;
                let seen = lab.snapshot();
                assert_eq!(drops(seen), [], "{in_pool} of {pool} cells");
                assert_eq!((seen.headroom.level.cells, seen.headroom.level.peak_cells), (in_pool, in_pool));
            }
        }
        lab.switch.hold(PORTS - 1, false);
        lab.turn();
        let seen = lab.snapshot();
        assert_eq!((seen.headroom.level.cells, seen.headroom.level.peak_cells), (0, pool));
    }
}

/// Shared size: 32 groups fill the shared pool. XOFF is sent exactly when a group reaches its
/// threshold, and headroom is used exactly when the pool is full; after release there is no new
/// XOFF.
#[test]
fn shared_size() {
    for (cell, len, n) in every_size() {
        let group = GroupSettings {
            xoff: Threshold::Static(10 * n),
            xon_offset_cells: 2 * n,
            headroom_cells: 4 * n,
            ..OPEN
        };
        let pool = 250 * n; // 32 groups of 10 frames would be 320
        let mut settings = settings(9, 0b1111_0000, pool, 128 * n);
        settings.buffer.cell_bytes = cell;
        settings.ports.iter_mut().for_each(|port| port.groups[4..].fill(group));
        let mut lab = Lab::new(&settings);
        lab.switch.hold(8, true);
        let groups: Vec<_> = (0..8).flat_map(|port| (4..8).map(move |p| (port, p))).collect();
        let mut in_pool = 0;
        for round in 1..=10 {
            for &(port, priority) in &groups {
                let was_xoff = lab.snapshot().ports[port].groups[usize::from(priority)].xoff;
                lab.arrive(Frame { port, dst: mac(8), priority, len });
                let in_shared = in_pool < pool;
                in_pool = (in_pool + n).min(pool);
                lab.turn();
                let pauses = lab.pfc_sent(port).iter().any(|pfc| pfc.quanta[usize::from(priority)] > 0);
                let seen = lab.snapshot();
                let group = seen.ports[port].groups[usize::from(priority)];
                assert_eq!(seen.ingress_pools[0].level.peak_cells, in_pool, "{len} in {cell}");
                assert_eq!(group.xoff, round == 10 || !in_shared, "round {round}, {in_pool} of {pool}");
                assert_eq!(pauses, group.xoff && !was_xoff, "advertised when it begins, and then not again");
                assert_eq!(group.headroom.cells > 0, !in_shared);
            }
        }
        assert_eq!(drops(lab.snapshot()), []);
        let before: u64 = episodes(lab.seen());
        lab.switch.hold(8, false);
        (0..3).for_each(|_| lab.turn());
        assert_eq!(episodes(lab.snapshot()), before, "no new XOFF after release");
        assert!(lab.seen().ports.iter().flat_map(|port| &port.groups).all(|group| !group.xoff));
    }
}

fn episodes(snapshot: &Snapshot) -> u64 {
    snapshot.ports.iter().flat_map(|port| &port.groups).map(|group| group.xoff_episodes).sum()
}

/// Lossy queue: up to its limit no drop and no PFC; one more frame is one egress drop, no PFC and
/// no ingress drop.
#[test]
fn lossy_queue() {
    for (cell, len, n) in every_size() {
        for (shared, pool, limit) in [
            (Threshold::Static(70 * n), 4000 * n, 70 * n),
            (Threshold::Dynamic(Alpha::from_percent(50)), 400 * n, 200 * n), // α = 1: half of the pool
            (Threshold::Dynamic(Alpha::from_percent(20)), 400 * n, 80 * n),  // α = 1/4: a fifth
        ] {
            let mut settings = settings(3, NO_DROP, pool, 0);
            settings.buffer.cell_bytes = cell;
            settings.ports[1].queues[2] = queue_of(shared); // priority 0
            let mut lab = Lab::new(&settings);
            lab.switch.hold(1, true);
            let lossy = Frame { priority: 0, ..frame(0, 1, len) };
            for _ in 0..limit / n {
                lab.arrive(lossy);
                lab.turn();
            }
            assert_eq!(drops(lab.snapshot()), [], "{shared:?}, {len} in {cell}");
            assert_eq!(lab.seen().ports[1].queues[2].level.cells, limit / n * n);
            lab.arrive(lossy);
            lab.turn();
            assert_eq!(drops(lab.snapshot()), [(DropReason::TailDrop, 1)], "{shared:?}, {len} in {cell}");
            assert_eq!(lab.seen().ports[1].queues[2].dropped.frames, 1);
            assert!(lab.pfc_sent(0).is_empty(), "no PFC");
        }
    }
}

/// Watermarks of a group (shared, headroom and total), of the queue and of the pools: exact after
/// every frame, up and down, and each since its own reset.
#[test]
fn watermarks() {
    for (cell, len, n) in every_size() {
        let group = GroupSettings {
            reserved_cells: 2 * n,
            xoff: Threshold::Static(5 * n),
            headroom_cells: 4 * n,
            ..OPEN
        };
        let mut lab = Lab::new(&with_group(settings(2, NO_DROP, 100 * n, 4 * n), cell, group));
        lab.switch.hold(1, true);
        let split = |frames: u32| {
            let (shared, headroom) = (frames.saturating_sub(2).min(5) * n, frames.saturating_sub(7) * n);
            [shared, headroom, frames * n, frames * n, shared, headroom]
        };
        // Group shared, headroom, total; queue; ingress pool; headroom pool.
        let levels = |seen: &Snapshot| {
            let group = seen.ports[0].groups[usize::from(P)];
            let queue = seen.ports[1].queues[usize::from(P)];
            let pools = [seen.ingress_pools[0].level, seen.headroom.level];
            [group.shared, group.headroom, group.total, queue.level, pools[0], pools[1]]
        };
        let mut peak = 0;
        for (up, frames) in [(true, 1..=6), (false, 3..=5), (true, 4..=11), (false, 0..=10)] {
            let steps: Vec<u32> = if up { frames.collect() } else { frames.rev().collect() };
            for frames in steps {
                if up {
                    lab.arrive(frame(0, 1, len));
                } else {
                    lab.switch.hold(1, false);
                    lab.transmit(1, 1);
                    lab.switch.hold(1, true);
                    lab.complete(1, 1);
                }
                peak = peak.max(frames);
                let seen = levels(lab.snapshot());
                assert_eq!(seen.map(|level| level.cells), split(frames), "{len} in {cell}, {frames} frames");
                assert_eq!(seen.map(|level| level.peak_cells), split(peak), "peak, {frames} frames");
            }
        }
        lab.switch.reset_watermarks(WatermarkReset::Read);
        (0..3).for_each(|_| lab.arrive(frame(0, 1, len)));
        let seen = levels(lab.snapshot());
        assert_eq!(seen.map(|level| level.peak_read_cells), split(3), "since read");
        assert_eq!(seen.map(|level| level.peak_clear_cells), split(11), "since clear");
        lab.switch.reset_watermarks(WatermarkReset::Clear);
        lab.arrive(frame(0, 1, len));
        let seen = levels(lab.snapshot());
        assert_eq!(seen.map(|level| level.peak_read_cells), split(4));
        assert_eq!(seen.map(|level| level.peak_clear_cells), split(4), "since clear");
        assert_eq!(seen.map(|level| level.peak_cells), split(11), "since start");
    }
}

/// Mapping: each PCP and each DSCP, IPv4 and IPv6, single and double tagged, moves the counters of
/// its group and its queue by exactly one frame, and the frame leaves unchanged.
#[test]
fn mapping() {
    let dot1p = settings(2, 0, 1000, 0);
    let mut dscp = dot1p.clone();
    dscp.ports.iter_mut().for_each(|port| port.classify.trust = Trust::Dscp);
    dscp.ports[0].classify.dscp_to_dot1p[26] = 5;
    dscp.ports[0].classify.dscp_to_queue[48] = Some(1);
    let queues = [2, 0, 1, 3, 4, 5, 6, 7];
    for tags in 1..=2 {
        let mut lab = Lab::new(&dot1p);
        for pcp in 0..8_u8 {
            let bytes = ip_frame(tags, pcp, IPV4, 46);
            moves_one_frame(&mut lab, &bytes, pcp, queues[usize::from(pcp)]);
        }
    }
    for (tags, ethertype) in [(0, IPV4), (1, IPV4), (2, IPV4), (0, IPV6), (1, IPV6), (2, IPV6)] {
        let mut lab = Lab::new(&dscp);
        for value in 0..64 {
            let (priority, queue) = match value {
                26 => (5, 5),
                48 => (6, 1),
                _ => (value / 8, queues[usize::from(value / 8)]),
            };
            moves_one_frame(&mut lab, &ip_frame(tags, 7, ethertype, value), priority, queue);
        }
    }
}

/// Returns an IP packet with this DSCP behind `tags` tags, the outermost with this PCP, from the
/// host of port 0 to the host of port 1.
fn ip_frame(tags: usize, pcp: u8, ethertype: u16, dscp: u8) -> Vec<u8> {
    let mut bytes = vec![0; 128];
    let outer = Tag { tpid: SERVICE_VLAN, pcp, dei: false, vid: 10 };
    let mut at = match tags {
        0 => write_header(&mut bytes, mac(1), mac(0), None, ethertype),
        1 => write_header(&mut bytes, mac(1), mac(0), Some(outer), ethertype),
        _ => write_header(&mut bytes, mac(1), mac(0), Some(outer), VLAN),
    };
    if tags == 2 {
        bytes[at..at + 2].copy_from_slice(&0x2014_u16.to_be_bytes()); // PCP 1, VLAN 20
        bytes[at + 2..at + 4].copy_from_slice(&ethertype.to_be_bytes());
        at += 4;
    }
    let first = if ethertype == IPV4 { [0x45, dscp << 2 | 1] } else { [0x60 | dscp >> 2, dscp << 6 | 0x10] };
    bytes[at..at + 2].copy_from_slice(&first);
    bytes
}

fn moves_one_frame(lab: &mut Lab, bytes: &[u8], priority: u8, queue: u8) {
    let counts = |seen: &Snapshot| {
        let groups = seen.ports[0].groups.map(|group| group.received.frames);
        (groups, seen.ports[1].queues.map(|queue| queue.transmitted.frames))
    };
    let (mut groups, mut queues) = counts(lab.snapshot());
    lab.arrive_bytes(0, bytes);
    lab.transmit(1, 1);
    let left = lab.memory_of(1);
    assert_eq!(left, bytes, "the frame leaves as it came");
    lab.complete(1, 1);
    groups[usize::from(priority)] += 1;
    queues[usize::from(queue)] += 1;
    let header = Header::parse(bytes).expect("a whole header");
    assert_eq!(counts(lab.snapshot()), (groups, queues), "{header:?}");
}

/// PFC frames are counted as PFC and nowhere else: not as received, dropped or transmitted.
#[test]
fn counters() {
    let mut lab = Lab::new(&settings(2, NO_DROP, 1000, 0));
    lab.turn();
    let before = lab.snapshot().clone();
    lab.send_pfc(0, Pfc { enable: NO_DROP, quanta: [100; 8] });
    lab.send_pfc(0, Pfc { enable: 0, quanta: [100; 8] });
    lab.turn();
    let after = lab.snapshot();
    assert_eq!(
        (after.ports[0].received, after.ports[0].drops),
        (before.ports[0].received, before.ports[0].drops)
    );
    assert_eq!(after.ports[1].transmitted, before.ports[1].transmitted, "never bridged");
    assert_eq!(
        (after.ports[0].pfc_received.frames, after.ports[0].pfc_received.xoff_frames[usize::from(P)]),
        (2, 1)
    );
    assert!(after.ports[0].queues[usize::from(P)].paused && !after.ports[0].queues[4].paused);
}

/// WRR: bursts are in proportion to the weights, and on release all queues finish within one
/// quantum of each other.
#[test]
fn wrr() {
    let weights = [1, 2, 3, 4, 5, 9, 13, 15];
    let mut settings = settings(2, 0xff, 100_000, 0);
    settings.ports[1].schedule =
        ScheduleSettings::sp_wrr(0, 0xff, 0, GroupDiscipline::WeightedByBytes(weights));
    settings.ports[0].classify.dot1p_to_queue = [0, 1, 2, 3, 4, 5, 6, 7];
    settings.ports[1].classify.dot1p_to_queue = [0, 1, 2, 3, 4, 5, 6, 7];
    let mut lab = Lab::new(&settings);
    lab.turn();
    lab.switch.hold(1, true);
    for (priority, weight) in weights.into_iter().enumerate() {
        for _ in 0..8 * 9 * u32::from(weight) {
            lab.arrive(Frame { port: 0, dst: mac(1), priority: priority as u8, len: 1024 });
        }
    }
    lab.switch.hold(1, false);
    // A weight of 1 (the largest frame) is nine frames, so a round is 468 frames, and everything
    // has left after 8 rounds: in the last one, each queue sends its last frames.
    for round in 1..=8 {
        lab.transmit(1, 468);
        lab.complete(1, 468);
        let queues = lab.snapshot().ports[1].queues;
        let left: Vec<u64> = queues.iter().map(|queue| queue.waiting_frames).collect();
        let expected: Vec<u64> = weights.iter().map(|&weight| u64::from(weight) * 9 * (8 - round)).collect();
        let within = left.iter().zip(&expected).zip(weights);
        assert!(
            within
                .clone()
                .all(|((&left, &expected), weight)| left.abs_diff(expected) <= 9 * u64::from(weight)),
            "round {round}: {left:?} are left, {expected:?} expected"
        );
    }
}

/// A dynamic threshold that falls below a group's use because other groups took cells triggers XOFF
/// in the same iteration, although the group's own use did not change.
#[test]
fn others_push_a_group_into_xoff_within_a_turn() {
    let group =
        GroupSettings { xoff: Threshold::Dynamic(Alpha::from_percent(50)), headroom_cells: 10, ..OPEN };
    let mut settings = with_group(settings(3, NO_DROP, 100, 100), 256, group);
    settings.ports[2].queues[2] = queue_of(Threshold::Static(100));
    let mut lab = Lab::new(&settings);
    lab.switch.hold(2, true);
    (0..30).for_each(|_| lab.arrive(frame(0, 2, 64)));
    lab.turn();
    assert_eq!(reported(&lab.pfc_sent(0)), (false, false), "30 cells, 70 are free, alpha 1");
    // A lossy priority takes 40 cells: 30 are free, as many as the group holds.
    (0..39).for_each(|_| lab.arrive(Frame { priority: 0, ..frame(1, 2, 64) }));
    lab.turn();
    assert_eq!(reported(&lab.pfc_sent(0)), (false, false), "31 are free");
    lab.arrive(Frame { priority: 0, ..frame(1, 2, 64) });
    lab.turn();
    assert_eq!(reported(&lab.pfc_sent(0)), (true, false), "30 are free");
    assert_eq!(lab.snapshot().ports[0].groups[usize::from(P)].threshold_cells, 30);
}
