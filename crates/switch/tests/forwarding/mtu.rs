//! Frames longer than the MTU of their egress interface: dropped there, counted by reason, and
//! reported once a second.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, mac};
use switch::settings::Threshold;
use switch::{DropReason, Event};
use wire::mac::MacAddr;

const SECOND: u64 = 1_000_000_000;

/// Three ports; the longest frames that leave by port 1 have 1018 bytes (an MTU of 1000, an
/// Ethernet header and a tag).
fn lab() -> Lab {
    let mut settings = lab::settings(3, 0b0000_1000, 1000, 100);
    settings.ports[1].mtu_bytes = Some(1000);
    let mut lab = Lab::new(&settings);
    lab.switch.drain_events().for_each(drop);
    lab
}

/// Returns by port the frames that left and the frames that exceeded the MTU.
fn counts(lab: &mut Lab) -> [(u64, u64); 3] {
    lab.turn();
    let ports = &lab.snapshot().ports;
    let of = |port: usize| {
        let too_long = ports[port].drops[DropReason::MtuExceeded as usize];
        assert_eq!(ports[port].output_dropped, too_long, "nothing else is dropped");
        (ports[port].transmitted.frames, too_long.frames)
    };
    std::array::from_fn(of)
}

#[test]
fn what_is_too_long_is_dropped_at_the_output_port_whatever_its_priority() {
    let mut lab = lab();
    let dst = mac(1);
    for (len, priority, expected) in [
        (1018, 3, [(0, 0), (1, 0), (0, 0)]),
        (1019, 3, [(0, 0), (1, 1), (0, 0)]),
        (1019, 0, [(0, 0), (1, 2), (0, 0)]),
    ] {
        lab.arrive(Frame { port: 0, dst, priority, len });
        assert_eq!(counts(&mut lab), expected, "{len} bytes of priority {priority}");
    }
    // A flooded frame leaves by the ports whose MTU allows it.
    lab.arrive(Frame { port: 0, dst: MacAddr::BROADCAST, priority: 3, len: 1019 });
    assert_eq!(counts(&mut lab), [(0, 0), (1, 3), (1, 0)]);
    lab.arrive(Frame { port: 1, dst: mac(2), priority: 3, len: 9000 });
    assert_eq!(counts(&mut lab), [(0, 0), (1, 3), (2, 0)], "it may come in");
    let groups = &lab.seen().ports[0].groups[3];
    assert_eq!((groups.dropped.frames, groups.total.cells), (0, 0), "at ingress it leaves no trace");
}

/// A frame that exceeds the MTU is dropped whether or not the buffer has room, and is counted as
/// such.
#[test]
fn what_is_too_long_is_no_loss_of_a_full_group() {
    let mut settings = lab::settings(2, 0b0000_1000, 1000, 100);
    settings.ports[1].mtu_bytes = Some(1000);
    (settings.ports[0].groups[3].xoff, settings.ports[0].groups[3].headroom_cells) =
        (Threshold::Static(0), 0);
    let mut lab = Lab::new(&settings);
    let mut lost = |len| {
        lab.arrive(Frame { port: 0, dst: mac(1), priority: 3, len });
        let ports = &lab.snapshot().ports;
        let of = |port: usize, reason: DropReason| ports[port].drops[reason as usize].frames;
        (of(0, DropReason::IngressNoDrop), of(1, DropReason::MtuExceeded))
    };
    assert_eq!([lost(1018), lost(1019)], [(1, 0), (1, 1)]);
}

#[test]
fn it_is_reported_at_once_and_then_once_a_second() {
    let mut lab = lab();
    let mut reported = Vec::new();
    let start = lab.now;
    for (at_ns, frames) in [(0, 3), (SECOND - 1, 2), (SECOND, 1), (3 * SECOND, 0), (4 * SECOND, 1)] {
        lab.now = start + at_ns;
        for _ in 0..frames {
            lab.arrive(Frame { port: 0, dst: mac(1), priority: 3, len: 2000 });
        }
        reported.push(lab.switch.drain_events().map(|(_, event)| event).collect::<Vec<_>>());
    }
    let event = |frames| vec![Event::MtuExceeded { port: 1, frames }];
    assert_eq!(reported, [event(1), vec![], event(5), vec![], event(1)]);
}

#[test]
fn another_mtu_holds_from_then_on() {
    let mut lab = lab();
    let mut settings = lab.switch.settings().clone();
    settings.ports[1].mtu_bytes = None;
    lab.switch.apply(&settings, lab.now);
    lab.arrive(Frame { port: 0, dst: mac(1), priority: 3, len: 9000 });
    assert_eq!(counts(&mut lab), [(0, 0), (1, 0), (0, 0)]);
    settings.ports[1].mtu_bytes = Some(1500);
    lab.switch.apply(&settings, lab.now);
    lab.arrive(Frame { port: 0, dst: mac(1), priority: 3, len: 9000 });
    assert_eq!(counts(&mut lab), [(0, 0), (1, 1), (0, 0)]);
}
