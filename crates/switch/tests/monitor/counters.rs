//! Counters of the whole switch: addresses that move, and events that were not drained.

use switch::monitor::event_list::MAX_PENDING;
use switch::settings::{DropLevel, Threshold};
use switch::{DropReason, Event, RefusedFrames};
use wire::mac::MacAddr;

#[path = "../lab/mod.rs"]
mod lab;
use lab::{Frame, Lab, mac, settings};

#[test]
fn an_address_that_moves_is_counted_each_time() {
    let mut lab = Lab::new(&settings(2, 0, 1000, 0));
    assert_eq!((lab.snapshot().bridge_entries, lab.seen().bridge_moves), (2, 0));
    let mut bytes = vec![0; 64];
    for (port, moves) in [(1, 1), (1, 1), (0, 2), (1, 3)] {
        // From the host of port 0 to itself.
        wire::ethernet::write_header(&mut bytes, mac(0), mac(0), None, wire::ethernet::EXPERIMENTAL);
        lab.arrive_bytes(port, &bytes);
        assert_eq!((lab.snapshot().bridge_entries, lab.seen().bridge_moves), (2, moves), "from port {port}");
    }
}

/// One XOFF and one XON for each frame that arrives and leaves, while the events are not drained.
#[test]
fn events_that_nobody_takes_are_counted() {
    let mut settings = settings(2, 1 << 3, 1000, 100);
    settings.ports[0].groups[3].xoff = Threshold::Static(1);
    settings.ports[0].groups[3].headroom_cells = 10;
    let mut lab = Lab::new(&settings);
    let frame = Frame { port: 0, dst: mac(1), priority: 3, len: 64 };
    for _ in 0..MAX_PENDING {
        lab.arrive(frame);
        lab.turn();
    }
    assert_eq!(lab.snapshot().ports[0].groups[3].xoff_episodes, MAX_PENDING as u64);
    assert_eq!(lab.seen().events_lost, MAX_PENDING as u64, "of two kinds of events there was room for half");
    assert_eq!(lab.switch.drain_events().count(), MAX_PENDING);
    lab.arrive(Frame { dst: MacAddr::BROADCAST, ..frame });
    assert_eq!(lab.snapshot().events_lost, MAX_PENDING as u64, "there is room again");
}

#[test]
fn groups_and_queues_have_their_usage_threshold() {
    let mut settings = settings(2, 0, 1000, 0);
    settings.usage_percent = 70;
    let mut lab = Lab::new(&settings);
    let percent = |lab: &mut Lab| {
        let port = &lab.snapshot().ports[0];
        (port.groups[3].usage_percent, port.queues[3].usage_percent)
    };
    assert_eq!(percent(&mut lab), (70, 70));
    settings.usage_percent = 50;
    lab.switch.apply(&settings, lab.now);
    assert_eq!(percent(&mut lab), (50, 50), "after a reload");
}

/// Priorities 1 and 2 have drop levels 1 and 2.
#[test]
fn received_frames_are_counted_by_drop_level() {
    let mut settings = settings(2, 0, 1000, 0);
    let levels = &mut settings.ports[0].classify.dot1p_to_drop_level;
    (levels[1], levels[2]) = (DropLevel::Yellow, DropLevel::Red);
    let mut lab = Lab::new(&settings);
    for priority in [0, 1, 2, 2, 3] {
        lab.arrive(Frame { port: 0, dst: mac(1), priority, len: 64 });
    }
    let port = &lab.snapshot().ports[0];
    assert_eq!((port.received_yellow_frames, port.received_red_frames), (1, 2));
}

/// Frames that a port refused from a guest: priority 3 is no-drop, 4 is not.
#[test]
fn frames_refused_of_a_guest_are_received_and_dropped() {
    let mut lab = Lab::new(&settings(2, 1 << 3, 1000, 100));
    let before = lab.snapshot().ports[0].received.frames;
    let mut refused = RefusedFrames { others: 5, ..RefusedFrames::default() };
    (refused.by_priority[3], refused.by_priority[4]) = (7, 2);
    lab.switch.refused_frames(0, &refused);
    let port = &lab.snapshot().ports[0];
    assert_eq!((port.received.frames - before, port.drops[DropReason::Refused as usize].frames), (14, 14));
    assert_eq!([3, 4].map(|priority| port.priorities[priority].no_drop_lost_frames), [7, 0]);
}

#[test]
fn reading_a_group_resets_its_peaks_since_the_last_read() {
    let mut lab = Lab::new(&settings(2, 0, 1000, 0));
    (0..2).for_each(|_| lab.arrive(Frame { port: 0, dst: mac(1), priority: 3, len: 64 }));
    lab.turn();
    let read = [(); 2].map(|()| lab.switch.read_group(0, 3, lab.now));
    assert_eq!(read.map(|group| (group.received.frames, group.total.peak_read_cells)), [(2, 2), (2, 0)]);
    assert_eq!(lab.snapshot().ports[0].groups[3].total.peak_clear_cells, 2);
}

#[test]
fn drops_of_the_kernel_are_reported_at_once_and_then_once_a_second() {
    let mut lab = Lab::new(&settings(2, 0, 1000, 0));
    lab.switch.drain_events().for_each(drop);
    for (after_ns, frames) in [(0, 7), (1, 5), (999_999_998, 1), (1, 0)] {
        lab.now = lab.now + after_ns;
        lab.switch.kernel_dropped(0, frames, lab.now);
    }
    let events: Vec<_> = lab.switch.drain_events().map(|(_, event)| event).collect();
    assert_eq!(events, [7, 6].map(|frames| Event::KernelDropped { port: 0, frames }));
}
