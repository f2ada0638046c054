//! What the owner of a switch asks it beside the frame path: which frames it holds, what it has
//! learned, which ports have work, and when.

mod lab;

use lab::{Frame, Lab, mac, settings};
use switch::settings::{
    PfcWdAction, Restoration, StaticAddress, Threshold, VlanList, VlanSettings, WatchdogSettings,
};
use switch::{Event, FdbEntry, FdbPage, FrameId, FrameMemory, Instant, RxDesc, WatermarkReset};
use wire::mac::MacAddr;
use wire::pause::Pfc;

/// Returns three ports with PFC for priority 3, of which ports 1 and 2 hold what they have.
fn held() -> Lab {
    let mut lab = Lab::new(&settings(3, 0b0000_1000, 1000, 100));
    [1, 2].into_iter().for_each(|port| lab.switch.hold(port, true));
    lab
}

/// Returns two ports, of which port 1 holds what it has, and port 0 is in XOFF from its second cell
/// of priority 3 on.
fn soon_in_xoff() -> Lab {
    let mut settings = settings(2, 0b0000_1000, 1000, 100);
    let group = &mut settings.ports[0].groups[3];
    (group.xoff, group.headroom_cells) = (Threshold::Static(1), 10);
    let mut lab = Lab::new(&settings);
    lab.switch.hold(1, true);
    lab
}

fn arrive(lab: &mut Lab, dst: MacAddr, priority: u8, len: u16) {
    lab.arrive(Frame { port: 0, dst, priority, len });
}

/// Returns by port the queued frames, of copies the originals.
fn queued(lab: &Lab) -> Vec<(usize, usize)> {
    let mut queued = Vec::new();
    lab.switch.for_each_queued(|port, frame| queued.push((port, frame.index())));
    queued
}

#[test]
fn frames_held_are_known_by_number() {
    let mut lab = held();
    arrive(&mut lab, mac(1), 3, 300);
    arrive(&mut lab, mac(1), 0, 64);
    arrive(&mut lab, MacAddr::BROADCAST, 5, 600);
    let held: Vec<usize> = (0..lab.frames).filter(|&index| lab.switch.has_frame(index)).collect();
    let lens: Vec<u16> = held.iter().map(|&index| lab.switch.frame_len(index)).collect();
    let mut sorted = lens.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [64, 300, 600]);
    let of_len = |len| held[lens.iter().position(|&of| of == len).expect("a frame of that length")];
    let mut found = queued(&lab);
    found.sort_unstable();
    let mut expected = vec![(1, of_len(64)), (1, of_len(300)), (1, of_len(600)), (2, of_len(600))];
    expected.sort_unstable();
    assert_eq!(found, expected);
    let priorities = [300, 64, 600].map(|len| lab.switch.priority_of(&FrameId::new(of_len(len) as u32)));
    assert_eq!(priorities, [Some(3), Some(0), Some(5)]);
    let free = (0..lab.frames).find(|index| !lab.switch.has_frame(*index)).expect("a free one");
    assert_eq!((lab.switch.frame_len(free), lab.switch.memory_frames()), (0, lab.frames));
    assert!(!lab.switch.has_frame(1 << 20), "beyond the memory");
    assert_eq!(lab.switch.frame_len(1 << 20), 0);
}

/// A PFC frame has no priority, and is no data frame.
#[test]
fn the_switchs_own_frames_have_no_priority() {
    let mut lab = soon_in_xoff();
    lab.transmit(0, usize::MAX);
    lab.complete(0, usize::MAX);
    assert_eq!(lab.switch.ports_with_pfc(lab.now).bits(), 0);
    // The PFC frame is written where a data frame was.
    lab.switch.hold(1, false);
    (0..2).for_each(|_| arrive(&mut lab, mac(1), 0, 600));
    lab.transmit(1, usize::MAX);
    lab.complete(1, usize::MAX);
    lab.switch.hold(1, true);
    arrive(&mut lab, mac(1), 3, 600);
    assert_eq!(lab.switch.ports_with_pfc(lab.now).bits(), 0b01);
    lab.transmit(0, usize::MAX);
    assert_eq!(lab.switch.ports_with_pfc(lab.now).bits(), 0, "it has left");
    let pfc = lab.with_kernel[0][0].frame.index();
    assert_eq!(lab.switch.priority_of(&FrameId::new(pfc as u32)), None);
    assert_eq!((lab.switch.has_frame(pfc), lab.switch.frame_len(pfc)), (true, 0));
    lab.complete(0, usize::MAX);
    assert!(!lab.switch.has_frame(pfc));
}

#[test]
fn cells_in_use_by_queue_and_by_pool() {
    let mut lab = held();
    let free = lab.switch.free_cells();
    arrive(&mut lab, mac(1), 0, 600);
    arrive(&mut lab, mac(1), 5, 64);
    let cells = lab.switch.queue_cells(1);
    assert_eq!(cells.iter().filter(|&&cells| cells > 0).count(), 2);
    assert_eq!((cells.iter().sum::<u32>(), lab.switch.queued_cells(1)), (4, 4), "cells of 256 bytes");
    assert_eq!((lab.switch.queued_cells(0), lab.switch.queued_cells(2)), (0, 0));
    let now_free = lab.switch.free_cells();
    assert_eq!((free[0] - now_free[0], &free[1..]), (4, &now_free[1..]));
}

/// A read of a group resets its peaks since the last read, and no other's.
#[test]
fn a_read_of_a_group_resets_its_peaks() {
    let mut lab = held();
    arrive(&mut lab, mac(1), 0, 600);
    arrive(&mut lab, mac(1), 5, 600);
    [1, 2].into_iter().for_each(|port| lab.switch.hold(port, false));
    lab.turn();
    let peaks = |lab: &mut Lab, priority| {
        let group = lab.switch.read_group(0, priority, lab.now);
        (group.total.cells, group.total.peak_read_cells)
    };
    assert_eq!([peaks(&mut lab, 0), peaks(&mut lab, 0), peaks(&mut lab, 5)], [(0, 3), (0, 0), (0, 3)]);
}

#[test]
fn work_of_ports() {
    let mut lab = held();
    lab.switch.take_newly_pending();
    assert_eq!(lab.switch.ports_with_work(), 0);
    arrive(&mut lab, mac(1), 0, 64);
    assert_eq!((lab.switch.ports_with_work(), lab.switch.take_newly_pending()), (0b010, 0b010));
    assert_eq!(lab.switch.take_newly_pending(), 0, "taken");
    assert_eq!(lab.switch.deadline_of(2, lab.now), Instant::NEVER);
    assert_eq!(lab.switch.deadline_of(1, lab.now), Instant::NEVER, "on hold");
    lab.switch.hold(1, false);
    assert_eq!(lab.switch.deadline_of(1, lab.now), lab.now);
    lab.turn();
    assert_eq!((lab.switch.ports_with_work(), lab.switch.is_watching()), (0, false));
    assert_eq!(lab.switch.next_tick(), Instant::NEVER, "no watchdog");
    assert_eq!(lab.switch.next_deadline(lab.now), Instant::NEVER);
}

/// Returns all addresses, by MAC address.
fn addresses(lab: &Lab) -> Vec<FdbEntry> {
    let (mut page, mut all) = (FdbPage::default(), Vec::new());
    while !page.is_last {
        lab.switch.read_fdb(&mut page, lab.now);
        all.extend_from_slice(&page.entries);
    }
    all.sort_unstable_by_key(|entry| entry.mac.0);
    all
}

#[test]
fn addresses_are_read_and_forgotten() {
    let mut lab = held();
    let ports = |lab: &Lab| addresses(lab).iter().map(|entry| entry.port).collect::<Vec<_>>();
    assert_eq!(ports(&lab), [0, 1, 2]);
    assert!(addresses(&lab).iter().all(|entry| !entry.is_static && entry.vid == 0));
    lab.switch.flush_fdb(Some(1), None);
    assert_eq!(ports(&lab), [0, 2]);
    let printer = MacAddr([2, 0, 0, 0, 9, 200]);
    lab.switch.set_static(StaticAddress::from(printer), 2);
    lab.switch.flush_fdb(None, Some(7));
    assert_eq!(ports(&lab), [0, 2, 2], "none is in that VLAN");
    lab.switch.flush_fdb(None, None);
    let left = addresses(&lab);
    assert_eq!((left.len(), left[0].mac, left[0].port, left[0].is_static), (1, printer, 2, true));
}

#[test]
fn destination_of_a_received_frame() {
    let mut lab = held();
    let mut destination = |dst: MacAddr, ethertype: u16| {
        let mut bytes = [0; 64];
        wire::ethernet::write_header(&mut bytes, dst, mac(0), None, ethertype);
        let frame = lab.memory.alloc().expect("a frame");
        let arrival = lab.switch.parse(0, RxDesc::new(frame, 64), &bytes);
        lab.switch.destination_of(&arrival, lab.now)
    };
    let data = wire::ethernet::EXPERIMENTAL;
    assert_eq!([destination(mac(1), data), destination(mac(2), data)], [Some(1), Some(2)]);
    assert_eq!(destination(mac(99), data), None, "not known");
    assert_eq!(destination(MacAddr::BROADCAST, data), None);
    assert_eq!(destination(mac(1), wire::ethernet::MAC_CONTROL), None, "not forwarded");
}

/// A batch has the same effect as its frames one by one.
#[test]
fn a_batch_is_received_and_completed_in_order() {
    let mut lab = held();
    let mut arrivals = Vec::new();
    for (dst, len) in [(mac(1), 64), (mac(2), 65), (mac(1), 66)] {
        let frame = lab.memory.alloc().expect("a frame");
        let bytes = lab.memory.bytes_mut(&frame, len);
        wire::ethernet::write_header(bytes, dst, mac(0), None, wire::ethernet::EXPERIMENTAL);
        let bytes = lab.memory.bytes(&frame, len).to_vec();
        arrivals.push(lab.switch.parse(0, RxDesc::new(frame, len as u16), &bytes));
    }
    lab.switch.receive_all(&mut arrivals, lab.now, &mut lab.memory);
    assert!(arrivals.is_empty());
    assert_eq!((lab.switch.frames_held(), lab.switch.queued_cells(1), lab.switch.queued_cells(2)), (3, 2, 1));
    lab.switch.hold(1, false);
    let mut out = Vec::new();
    lab.switch.transmit(1, usize::MAX, lab.now, &mut lab.memory, &mut out);
    assert_eq!(out.iter().map(|sent| sent.len).collect::<Vec<_>>(), [64, 66]);
    let frames = out.into_iter().map(|sent| sent.frame);
    lab.switch.complete_all(1, frames, lab.now, &mut lab.memory);
    assert_eq!((lab.switch.frames_held(), lab.memory_free()), (1, lab.frames - 1));
    assert_eq!(lab.snapshot().ports[1].transmitted.frames, 2);
}

#[test]
fn frames_that_the_kernel_did_not_have_are_an_event() {
    let mut lab = held();
    lab.switch.drain_events().for_each(drop);
    lab.switch.stray_frames(2, 5, lab.now);
    let events: Vec<_> = lab.switch.drain_events().collect();
    assert_eq!(events, [(lab.now, Event::StrayFrames { port: 2, frames: 5 })]);
}

#[test]
fn ports_that_settings_add_and_remove() {
    let lab = held();
    let mut other = lab.switch.settings().clone();
    other.ports[1] = switch::PortSettings::vacant();
    other.ports.push(other.ports[2].clone());
    assert_eq!(lab.switch.slot_count(), 3);
    assert_eq!(lab.switch.added_by(&other).collect::<Vec<_>>(), [3]);
    assert_eq!(lab.switch.removed_by(&other).collect::<Vec<_>>(), [1]);
    assert_eq!([0, 2, 3].map(|port| lab.switch.is_vacant(port)), [false, false, true]);
    assert_eq!([0, 2].map(|port| lab.switch.is_up(port)), [true, true]);
}

#[test]
fn a_reset_of_one_watermark_keeps_the_others() {
    let mut lab = held();
    arrive(&mut lab, mac(1), 0, 600);
    lab.switch.hold(1, false);
    lab.turn();
    let peaks = |lab: &mut Lab| {
        let seen = lab.snapshot();
        let group = seen.ports[0].groups[0].total;
        let pool = seen.egress_pools[0].level;
        [group, pool].map(|level| (level.peak_read_cells, level.peak_cells))
    };
    let before = peaks(&mut lab);
    assert_eq!(before[0], (3, 3));
    lab.switch.reset_watermarks(WatermarkReset::Read);
    assert_eq!(peaks(&mut lab).map(|peaks| peaks.1), before.map(|peaks| peaks.1));
    assert_eq!(peaks(&mut lab).map(|peaks| peaks.0), [0, 0]);
}

/// A PFC frame that is due takes the first of the frames that there is room for.
#[test]
fn pfc_counts_as_one_of_the_frames() {
    let mut lab = soon_in_xoff();
    arrive(&mut lab, mac(1), 3, 600);
    lab.arrive(Frame { port: 1, dst: mac(0), priority: 0, len: 64 });
    let mut out = Vec::new();
    lab.switch.transmit(0, 0, lab.now, &mut lab.memory, &mut out);
    assert_eq!(out.len(), 0);
    lab.switch.hold(1, false);
    lab.switch.transmit(1, 1, lab.now, &mut lab.memory, &mut out);
    lab.switch.transmit(0, 1, lab.now, &mut lab.memory, &mut out);
    assert_eq!(out.iter().map(|sent| sent.len).collect::<Vec<_>>(), [600, 60], "PFC first");
    lab.switch.transmit(0, 1, lab.now, &mut lab.memory, &mut out);
    assert_eq!(out.last().map(|sent| sent.len), Some(64));
}

/// A port that a watchdog observes is to be checked when frames move.
#[test]
fn pauses_of_a_watched_port_are_watched() {
    let mut settings = settings(2, 0b0000_1000, 1000, 100);
    settings.ports[1].watchdog[3] = Some(WatchdogSettings {
        detection_ns: 50_000_000,
        action: PfcWdAction::Forward,
        restore: Restoration::Manual,
        limit: None,
    });
    let mut lab = Lab::new(&settings);
    lab.turn();
    assert!(!lab.switch.is_watching());
    lab.send_pfc(1, Pfc { enable: 1 << 3, quanta: [u16::MAX; 8] });
    assert!(lab.switch.is_watching());
    assert!(lab.switch.next_tick() < Instant::NEVER);
}

#[test]
fn a_snapshot_has_the_vlans_of_ports() {
    let mut settings = settings(3, 0, 1000, 0);
    settings.ports[0].vlan = VlanSettings::Access { pvid: 5 };
    settings.ports[1].vlan = VlanSettings::Trunk { pvid: None, allowed: VlanList::of([5..=7]) };
    settings.ports[2].vlan = VlanSettings::Access { pvid: 6 };
    let mut lab = Lab::new(&settings);
    let ports = &lab.snapshot().ports;
    let seen =
        ports.iter().map(|port| (port.number, port.pvid, port.vlan_mode.as_str(), port.vlans.as_str()));
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [(1, Some(5), "access", "5"), (2, None, "trunk", "5-7"), (3, Some(6), "access", "6")]
    );
}

/// The counters of a removed port stay in the sum, with and without another port in its slot.
#[test]
fn a_removed_port_is_counted_in_the_sum() {
    let mut lab = Lab::new(&settings(2, 0, 1000, 0));
    let with_both = lab.switch.settings().clone();
    (0..3).for_each(|_| arrive(&mut lab, mac(1), 0, 64));
    lab.transmit(1, usize::MAX);
    lab.lose(1, 2);
    lab.complete(1, 1);
    lab.switch.port_down(1, lab.now, &mut lab.memory);
    assert_eq!([0, 1].map(|port| lab.switch.is_up(port)), [true, false]);
    let mut without = with_both.clone();
    without.ports[1] = switch::PortSettings::vacant();
    for settings in [without, with_both] {
        lab.switch.apply(&settings, lab.now);
        let removed = lab.snapshot().removed_ports;
        assert_eq!((removed.ports, removed.kernel_lost_frames, removed.transmitted.frames), (1, 2, 1));
    }
}

/// Pauses of peers are honored until the end.
#[test]
fn a_switch_that_ends_honors_pfc() {
    let mut lab = held();
    lab.switch.stop();
    let frame = lab.memory.alloc().expect("a frame");
    let bytes = lab.memory.bytes_mut(&frame, 60);
    let pfc = Pfc { enable: 1 << 3, quanta: [u16::MAX; 8] };
    pfc.encode(mac(200), bytes.try_into().expect("60 bytes"));
    let bytes = lab.memory.bytes(&frame, 60).to_vec();
    let mut arrivals = vec![lab.switch.parse(1, RxDesc::new(frame, 60), &bytes)];
    lab.switch.drain_control(&mut arrivals, lab.now, &mut lab.memory);
    assert!(lab.snapshot().ports[1].priorities[3].paused);
    assert_eq!(lab.memory_free(), lab.frames);
}

/// A carrier that is reported again changes nothing.
#[test]
fn a_port_comes_up_once() {
    let mut lab = held();
    let came_up = |lab: &mut Lab| {
        lab.switch.port_up(1, None, lab.now);
        lab.switch.drain_events().map(|(_, event)| event).collect::<Vec<_>>()
    };
    lab.switch.drain_events().for_each(drop);
    assert_eq!((came_up(&mut lab), addresses(&lab).len()), (vec![], 3));
    lab.switch.port_down(1, lab.now, &mut lab.memory);
    lab.switch.drain_events().for_each(drop);
    assert_eq!(came_up(&mut lab), [Event::PortUp { port: 1 }]);
    assert_eq!(addresses(&lab).len(), 2, "another host may be there");
}

/// No address of a port that is down, and none that no host can have.
#[test]
fn only_an_address_that_may_be_a_peers_is_entered() {
    let mut lab = held();
    lab.switch.flush_fdb(None, None);
    lab.switch.port_down(2, lab.now, &mut lab.memory);
    for (port, mac) in [(0, mac(50)), (1, MacAddr::default()), (1, MacAddr::BROADCAST), (2, mac(52))] {
        lab.switch.peer_address(port, mac, lab.now);
    }
    assert_eq!(
        addresses(&lab).iter().map(|entry| (entry.mac, entry.port)).collect::<Vec<_>>(),
        [(mac(50), 0)]
    );
}

/// Addresses are forgotten where the VLAN of a port changes, and stay where a port is added.
#[test]
fn only_a_change_of_vlan_forgets_addresses() {
    let mut settings = settings(3, 0, 1000, 0);
    settings.ports.iter_mut().for_each(|port| port.vlan = VlanSettings::Access { pvid: 5 });
    let added = settings.clone();
    settings.ports[2] = switch::PortSettings::vacant();
    let mut lab = Lab::new(&settings);
    lab.arrive(Frame { port: 0, dst: mac(1), priority: 0, len: 64 });
    let known = addresses(&lab);
    assert!(known.iter().any(|entry| (entry.mac, entry.vid) == (mac(0), 5)), "{known:?}");
    lab.switch.apply(&added, lab.now);
    assert_eq!(addresses(&lab), known);
    let mut other = added;
    other.ports[1].vlan = VlanSettings::Access { pvid: 6 };
    lab.switch.apply(&other, lab.now);
    assert_eq!(addresses(&lab), []);
}

/// With a batch that was taken late the peer's pause lasts later, since it may have arrived until
/// then.
#[test]
fn a_pause_lasts_from_when_its_batch_was_taken() {
    let ends = [0, 5_000].map(|late_ns| {
        let mut lab = Lab::new(&settings(2, 0b0000_1000, 1000, 100));
        lab.switch.begin_iteration(lab.now);
        lab.switch.begin_batch(lab.now + late_ns);
        lab.send_pfc(1, Pfc { enable: 0b0000_1000, quanta: [1000; 8] });
        arrive(&mut lab, mac(1), 3, 64);
        lab.switch.deadline_of(1, lab.now).since(lab.now)
    });
    assert_eq!(ends[1], ends[0] + 5_000);
}

/// An owner that serves only ports with work, when they have some, repeats XOFF.
#[test]
fn a_port_in_xoff_has_work_again_and_again() {
    let mut lab = soon_in_xoff();
    (0..2).for_each(|_| arrive(&mut lab, mac(1), 3, 64));
    for repetition in 0..4 {
        lab.switch.tick(lab.now, &mut lab.memory);
        let work = lab.switch.ports_with_work();
        for port in (0..2).filter(|port| work & 1 << port != 0) {
            lab.transmit(port, usize::MAX);
            lab.complete(port, usize::MAX);
        }
        assert_eq!(lab.pfc_sent(0).len(), 1, "repetition {repetition}");
        let next = lab.switch.next_deadline(lab.now);
        assert!(next > lab.now && next < Instant::NEVER, "repetition {repetition}: {next:?}");
        lab.now = next;
    }
}

/// A new port takes a slot at the end, also behind a slot without port.
#[test]
fn settings_add_ports_at_the_end() {
    let mut lab = Lab::new(&settings(2, 0, 1000, 0));
    let mut more = lab.switch.settings().clone();
    more.ports.push(switch::PortSettings::vacant());
    more.ports.push(more.ports[1].clone());
    lab.switch.apply(&more, lab.now);
    assert_eq!(lab.switch.slot_count(), 4);
    assert_eq!([1, 2, 3].map(|port| lab.switch.is_vacant(port)), [false, true, false]);
    lab.plug(4);
    assert_eq!(lab.snapshot().ports.len(), 4);
}
