//! Counters of the whole switch: addresses that move, and events that were not drained.

use switch::monitor::event_list::MAX_PENDING;
use switch::settings::Threshold;
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
    let mut lab =
        Lab::new(&switch::settings::SwitchSettings { usage_percent: 70, ..settings(2, 0, 1000, 0) });
    let port = &lab.snapshot().ports[0];
    assert_eq!((port.groups[3].usage_percent, port.queues[3].usage_percent), (70, 70));
}
