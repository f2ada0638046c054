//! Settings applied to a running switch, and settings whose effect shows only in a whole switch:
//! PFC off and on again, queues of unknown unicast, remarking.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, OPEN, mac, settings};
use switch::settings::{
    GroupSettings, PortSettings, RewriteSettings, SwitchSettings, Threshold, UNKNOWN_UNICAST_TO_QUEUE,
};
use switch::{DropReason, Snapshot};
use wire::ethernet::Header;
use wire::mac::MacAddr;
use wire::pause::Pfc;

const P: usize = 5;
const NO_DROP: u8 = 1 << P;

fn frame(len: u16) -> Frame {
    Frame { port: 0, dst: mac(1), priority: P as u8, len }
}

/// Two ports; XOFF at 10 cells, 20 cells of headroom.
fn two_ports() -> SwitchSettings {
    let mut settings = settings(2, NO_DROP, 200, 20);
    let group = GroupSettings { xoff: Threshold::Static(10), headroom_cells: 20, ..OPEN };
    settings.ports.iter_mut().for_each(|port| port.groups[P] = group);
    settings
}

fn losses(seen: &Snapshot) -> u64 {
    let losses = [DropReason::IngressLossy, DropReason::IngressNoDrop, DropReason::TailDrop];
    seen.ports
        .iter()
        .map(|port| losses.map(|reason| port.drops[reason as usize].frames).iter().sum::<u64>())
        .sum()
}

fn enables(pfc: &[Pfc]) -> Vec<(u8, u16)> {
    pfc.iter().map(|pfc| (pfc.enable, pfc.quanta[P])).collect()
}

/// One switch for PFC. When it is disabled, the paused peer is sent XON, its pauses end, and
/// arrivals are lossy. When it is enabled again, the group that is still over its threshold pauses
/// again. No held frame is lost.
#[test]
fn pfc_off_and_on_again() {
    let on = two_ports();
    let mut lab = Lab::new(&on);
    lab.switch.hold(1, true);
    (0..25).for_each(|_| lab.arrive(frame(64)));
    lab.send_pfc(1, Pfc { enable: NO_DROP, quanta: [u16::MAX; 8] });
    lab.turn();
    assert_eq!(enables(&lab.pfc_sent(0)), [(NO_DROP, 65_535)]);
    assert!(lab.snapshot().ports[1].queues[P].paused);

    lab.switch.apply(&on.without_pfc(), lab.now);
    lab.turn();
    assert_eq!(enables(&lab.pfc_sent(0)), [(NO_DROP, 0)], "XON");
    let seen = lab.snapshot();
    let group = seen.ports[0].groups[P];
    assert!(!group.no_drop && !group.xoff && !seen.ports[1].queues[P].paused);
    assert_eq!((group.shared.cells, group.headroom.cells), (10, 15), "what is held stays where it is");
    lab.send_pfc(1, Pfc { enable: NO_DROP, quanta: [u16::MAX; 8] });
    assert!(!lab.snapshot().ports[1].queues[P].paused, "not honored");
    assert_eq!(lab.seen().ports[1].pfc_received.frames, 2, "but counted");

    lab.switch.apply(&on, lab.now);
    lab.turn();
    assert_eq!(enables(&lab.pfc_sent(0)), [(NO_DROP, 65_535)], "over its threshold still");
    lab.switch.hold(1, false);
    (0..2).for_each(|_| lab.turn());
    assert_eq!(enables(&lab.pfc_sent(0)), [(NO_DROP, 0)]);
    assert_eq!((lab.switch.frames_held(), losses(lab.snapshot())), (0, 0));
    assert_eq!(lab.seen().ports[1].queues[P].transmitted.frames, 25);
}

/// Frames of a port that was removed still wait for another. The next port in its slot has their
/// cells until they leave.
#[test]
fn a_port_inherits_the_cells_of_the_one_before_in_its_slot() {
    let mut settings = two_ports();
    let mut lab = Lab::new(&settings);
    lab.switch.hold(1, true);
    (0..25).for_each(|_| lab.arrive(frame(64)));
    lab.switch.port_down(0, lab.now, &mut lab.memory);
    let port = std::mem::replace(&mut settings.ports[0], PortSettings::vacant());
    lab.switch.apply(&settings, lab.now);
    settings.ports[0] = port;
    lab.switch.apply(&settings, lab.now);
    assert_eq!(lab.snapshot().ports[0].groups[P].total.cells, 25);
    lab.switch.hold(1, false);
    (0..2).for_each(|_| lab.turn());
    assert_eq!((lab.snapshot().ports[0].groups[P].total.cells, lab.switch.frames_held()), (0, 0));
}

/// Thresholds, pools and reservations change under a full switch: all cells stay charged, nothing
/// drops, and the new thresholds apply from then on.
#[test]
fn smaller_buffers_under_a_full_switch() {
    let wide = two_ports();
    let mut narrow = wide.clone();
    narrow.buffer.ingress_pool_percent = [10, 90, 0, 0]; // 20 cells stay in pool 0
    narrow.buffer.egress_pool_percent = [1, 99, 0, 0];
    narrow.ports[0].groups[P] =
        GroupSettings { reserved_cells: 4, xoff: Threshold::Static(3), headroom_cells: 5, ..OPEN };
    let mut lab = Lab::new(&wide);
    lab.switch.hold(1, true);
    (0..8).for_each(|_| lab.arrive(frame(64)));
    lab.turn();
    assert_eq!(enables(&lab.pfc_sent(0)), []);
    lab.switch.apply(&narrow, lab.now);
    lab.turn();
    assert_eq!(enables(&lab.pfc_sent(0)), [(NO_DROP, 65_535)], "4 shared cells are over 3");
    let group = lab.snapshot().ports[0].groups[P];
    assert_eq!((group.reserved_cells, group.shared.cells, group.headroom.cells), (4, 4, 0));
    assert_eq!((lab.seen().ingress_pools[0].level.cells, lab.seen().ingress_pools[0].size_cells), (4, 20));
    (0..5).for_each(|_| lab.arrive(frame(64)));
    assert_eq!(losses(lab.snapshot()), 0, "5 cells of headroom");
    lab.arrive(frame(64));
    assert_eq!(losses(lab.snapshot()), 1);
    lab.switch.apply(&wide, lab.now);
    lab.switch.hold(1, false);
    (0..2).for_each(|_| lab.turn());
    let seen = lab.snapshot();
    assert_eq!(seen.ports[1].queues[P].transmitted.frames, 13);
    let pools = seen.ingress_pools.iter().chain(&seen.egress_pools).chain([&seen.headroom]);
    assert_eq!(pools.map(|pool| pool.level.cells).sum::<u32>(), 0);
}

/// Another pause time is advertised at once, and refreshed at its own interval.
#[test]
fn another_pause_time_is_sent_at_once() {
    let mut settings = two_ports();
    let mut lab = Lab::new(&settings);
    lab.switch.hold(1, true);
    (0..10).for_each(|_| lab.arrive(frame(64)));
    lab.turn();
    assert_eq!(enables(&lab.pfc_sent(0)), [(NO_DROP, 65_535)]);
    settings.ports[0].pfc.pause_quanta = 1000;
    lab.switch.apply(&settings, lab.now);
    lab.turn();
    assert_eq!(enables(&lab.pfc_sent(0)), [(NO_DROP, 1000)]);
    lab.now = lab.now + 51_200 / 2; // half of 1000 quanta at 10 Gbit/s
    lab.turn();
    assert_eq!(enables(&lab.pfc_sent(0)), [(NO_DROP, 1000)]);
}

/// The map of docs/references.md, "Huawei PFC" (table 3-1), by priority; broadcast and known
/// destinations use the port's map. A pause of the priority stops the FIFOs of both, and no other.
#[test]
fn queues_of_unknown_unicast() {
    let mut settings = settings(2, 1 << 3, 1000, 0);
    settings.bridge.unknown_unicast_to_queue = Some(UNKNOWN_UNICAST_TO_QUEUE);
    let mut lab = Lab::new(&settings);
    lab.turn();
    lab.switch.hold(1, true);
    let by_map = [2, 0, 1, 3, 4, 5, 6, 7];
    for priority in 0..8_usize {
        for (dst, queue) in [
            (mac(77), usize::from(UNKNOWN_UNICAST_TO_QUEUE[priority])),
            (MacAddr::BROADCAST, by_map[priority]),
            (mac(1), by_map[priority]),
        ] {
            let mut waiting = lab.snapshot().ports[1].queues.map(|queue| queue.waiting_frames);
            lab.arrive(Frame { port: 0, dst, priority: priority as u8, len: 64 });
            waiting[queue] += 1;
            assert_eq!(
                lab.snapshot().ports[1].queues.map(|queue| queue.waiting_frames),
                waiting,
                "{priority}"
            );
        }
    }
    lab.send_pfc(1, Pfc { enable: 1 << 3, quanta: [u16::MAX; 8] });
    let paused = lab.snapshot().ports[1].queues.map(|queue| (queue.paused, queue.flooded_paused));
    let mut expected = [(false, false); 8];
    (expected[1], expected[3]) = ((false, true), (true, false));
    assert_eq!(paused, expected);
}

/// A static address stays behind its port whatever is learned, and is removed when the settings no
/// longer have it.
#[test]
fn static_addresses() {
    let mut settings = settings(3, 0, 1000, 0);
    settings.ports[2].static_addresses = vec![mac(77).into()];
    let mut lab = Lab::new(&settings);
    let to = |lab: &mut Lab| {
        lab.arrive(Frame { dst: mac(77), ..frame(64) });
        let leaves = |port: &usize| {
            lab.transmit(*port, 1);
            let sent = lab.with_kernel[*port].len();
            lab.complete(*port, 1);
            sent > 0
        };
        (0..3).filter(leaves).collect::<Vec<_>>()
    };
    assert_eq!(to(&mut lab), [2], "before the first frame from there");
    lab.switch.set_learned(mac(77), 1, lab.now);
    assert_eq!(to(&mut lab), [2]);
    (settings.ports[2].static_addresses, settings.ports[1].static_addresses) =
        (Vec::new(), vec![mac(77).into()]);
    lab.switch.apply(&settings, lab.now);
    assert_eq!(to(&mut lab), [1]);
    settings.ports[1].static_addresses.clear();
    lab.switch.apply(&settings, lab.now);
    assert_eq!(to(&mut lab), [1, 2], "to all that are not its sender's");
}

/// A port that remarks: the frame leaves with the PCP of its queue, and the peer's pause of that
/// PCP stops it.
#[test]
fn a_rewriting_port() {
    let mut settings = settings(3, 0xff, 1000, 0);
    settings.ports[1].rewrite = RewriteSettings { dot1p: Some([0, 1, 2, 3, 4, 2, 6, 7]), dscp: None };
    let mut lab = Lab::new(&settings);
    lab.turn();
    lab.arrive(frame(64));
    lab.arrive(Frame { dst: mac(2), ..frame(64) });
    for (port, pcp) in [(1, 2), (2, 5)] {
        lab.transmit(port, 1);
        let header = Header::parse(lab.memory_of(port)).expect("a whole header");
        assert_eq!(header.outer.map(|tag| tag.pcp), Some(pcp), "port {port}");
        lab.complete(port, 1);
    }
    for (pause, sent) in [(1_u8 << 5, 1), (1 << 2, 0)] {
        lab.send_pfc(1, Pfc { enable: 0xff, quanta: [0; 8] });
        lab.send_pfc(1, Pfc { enable: pause, quanta: [u16::MAX; 8] });
        lab.arrive(frame(64));
        lab.transmit(1, 10);
        assert_eq!(lab.with_kernel[1].len(), sent, "{pause:#b}");
        lab.complete(1, 10);
    }
}

/// Row 280: frames to group addresses have queues of their own where the map has them, unknown
/// unicast by its own map; a pause of their priority stops their FIFOs there, too.
#[test]
fn multicast_has_queues_of_its_own() {
    let mut settings = settings(3, 1 << 3, 1000, 100);
    settings.bridge.multicast_to_queue = Some([0, 1, 2, 6, 4, 5, 6, 7]);
    settings.bridge.unknown_unicast_to_queue = Some([0, 1, 2, 7, 4, 5, 6, 7]);
    let mut lab = Lab::new(&settings);
    (1..3).for_each(|port| lab.switch.hold(port, true));
    for dst in [wire::mac::MacAddr::BROADCAST, wire::mac::MacAddr([1, 0, 0x5e, 0, 0, 1]), mac(100), mac(1)] {
        lab.arrive(Frame { port: 0, dst, priority: 3, len: 100 });
    }
    let waiting =
        |lab: &mut Lab, port: usize| lab.snapshot().ports[port].queues.map(|queue| queue.waiting_frames);
    assert_eq!(waiting(&mut lab, 1), [0, 0, 0, 1, 0, 0, 2, 1]);
    assert_eq!(waiting(&mut lab, 2), [0, 0, 0, 0, 0, 0, 2, 1]);
    lab.send_pfc(1, wire::pause::Pfc { enable: 1 << 3, quanta: [1000; 8] });
    let paused = lab.snapshot().ports[1].queues.map(|queue| queue.paused);
    assert_eq!(paused, [false, false, false, true, false, false, false, false]);
    let paused = lab.snapshot().ports[1].queues.map(|queue| queue.flooded_paused);
    assert_eq!(paused, [false, false, false, false, false, false, true, true]);
}

/// Row 280: a pause of priority 3 stops its flooded frames in the queue of priority 2's unicast,
/// and not that unicast; once the pause ends, the two FIFOs alternate.
#[test]
fn a_pause_of_flooded_frames_stops_no_unicast_of_another_priority() {
    let mut settings = settings(3, 1 << 3, 1000, 100);
    settings.bridge.multicast_to_queue = Some([0, 1, 2, 1, 4, 5, 6, 7]);
    let mut lab = Lab::new(&settings);
    lab.turn();
    (1..3).for_each(|port| lab.switch.hold(port, true));
    let arrive = |lab: &mut Lab, dst, priority| lab.arrive(Frame { port: 0, dst, priority, len: 100 });
    for _ in 0..3 {
        arrive(&mut lab, MacAddr::BROADCAST, 3);
    }
    for _ in 0..5 {
        arrive(&mut lab, mac(1), 2); // queue 1 by the default map
    }
    let queue = |lab: &mut Lab, number: usize| {
        let queue = lab.snapshot().ports[1].queues[number];
        (queue.waiting_frames, queue.flooded_frames, queue.paused, queue.flooded_paused)
    };
    assert_eq!(queue(&mut lab, 1), (8, 3, false, false));

    lab.send_pfc(1, wire::pause::Pfc { enable: 1 << 3, quanta: [1000; 8] });
    lab.switch.hold(1, false);
    lab.transmit(1, 2);
    assert_eq!(queue(&mut lab, 1), (6, 3, false, true), "unicast of priority 2 goes on");
    assert_eq!(queue(&mut lab, 3), (0, 0, true, false));
    assert_eq!(lab.switch.next_deadline(lab.now), lab.now, "there is more to send");

    lab.send_pfc(1, wire::pause::Pfc { enable: 1 << 3, quanta: [0; 8] });
    let priorities = |lab: &mut Lab| {
        let before = lab.with_kernel[1].len();
        lab.transmit(1, usize::MAX);
        let sent = lab.with_kernel[1][before..].iter();
        let bytes = sent.map(|frame| lab.memory.all(&frame.frame, usize::from(frame.len)));
        bytes
            .map(|bytes| wire::ethernet::Header::parse(bytes).expect("whole").outer.map(|tag| tag.pcp))
            .collect::<Vec<_>>()
    };
    assert_eq!(priorities(&mut lab), [2, 3, 2, 3, 2, 3].map(Some), "turn and turn about");
}
