//! Storm control in the whole switch: which frames pass, what is counted where, and what is
//! reported.

use switch::frame::meta::FloodType;
use switch::settings::SwitchSettings;
use switch::{DropReason, Event, Instant};
use wire::ethernet::{ARP, Tag, write_header};
use wire::mac::MacAddr;

#[path = "../lab/mod.rs"]
mod lab;
use lab::{Lab, mac, settings};

const PORTS: usize = 3;
const NO_DROP: u8 = 3;
const GROUP: MacAddr = MacAddr([0x01, 0, 0x5e, 0, 0, 1]);
const UNKNOWN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 7, 7]);

/// Port 0 accepts 10 broadcasts, 20 multicasts and 30 unknown unicasts a second, in bursts of 1, 2
/// and 3.
fn limited() -> SwitchSettings {
    let mut settings = settings(PORTS, 1 << NO_DROP, 1000, 100);
    settings.ports[0].flood_limits_pps = [Some(10), Some(20), Some(30)];
    settings
}

/// Receives `frames` frames of 100 bytes to `dst` on `port` at once.
fn arrive(lab: &mut Lab, port: usize, dst: MacAddr, priority: u8, frames: usize) {
    let mut bytes = [0; 100];
    write_header(&mut bytes, dst, mac(port), Some(Tag::priority(priority)), ARP);
    (0..frames).for_each(|_| lab.arrive_bytes(port, &bytes));
}

/// Returns the frames dropped at port 0 for these reasons.
fn dropped(lab: &mut Lab) -> [u64; 3] {
    let reasons = [DropReason::BroadcastLimit, DropReason::MulticastLimit, DropReason::UnknownUnicastLimit];
    let port = &lab.snapshot().ports[0];
    reasons.map(|reason| {
        assert_eq!(port.drops[reason as usize].bytes, 100 * port.drops[reason as usize].frames);
        port.drops[reason as usize].frames
    })
}

#[test]
fn each_kind_has_its_limit_and_known_unicast_none() {
    let mut lab = Lab::new(&limited());
    for dst in [MacAddr::BROADCAST, GROUP, UNKNOWN_MAC, mac(1)] {
        arrive(&mut lab, 0, dst, 0, 10);
    }
    lab.turn();
    assert_eq!(dropped(&mut lab), [9, 8, 7]);
    let seen = lab.snapshot().clone();
    assert_eq!(
        seen.ports[0].input_dropped.frames,
        24 + 1,
        "and the frame to itself by which the host was learned"
    );
    assert_eq!(seen.ports.iter().map(|port| port.transmitted.frames).collect::<Vec<_>>(), [0, 6 + 10, 6]);
    let received = |port: usize| {
        let port = &seen.ports[port];
        [port.received_broadcast_frames, port.received_multicast_frames, port.received_unknown_unicast_frames]
    };
    let transmitted = |port: usize| {
        let port = &seen.ports[port];
        [
            port.transmitted_broadcast_frames,
            port.transmitted_multicast_frames,
            port.transmitted_unknown_unicast_frames,
        ]
    };
    assert_eq!((received(0), received(1)), ([10; 3], [0; 3]), "what was dropped came in, too");
    assert_eq!([transmitted(0), transmitted(1), transmitted(2)], [[0; 3], [1, 2, 3], [1, 2, 3]]);
    assert_eq!(lab.memory_free(), lab.frames, "every frame is given back");

    // No other port has a limit.
    arrive(&mut lab, 1, MacAddr::BROADCAST, 0, 50);
    lab.turn();
    assert_eq!(lab.snapshot().ports[0].transmitted.frames, 50);

    // A tenth of a second later one more broadcast passes.
    lab.now = lab.now + 100_000_000;
    arrive(&mut lab, 0, MacAddr::BROADCAST, 0, 5);
    lab.turn();
    assert_eq!((dropped(&mut lab)[0], lab.snapshot().ports[1].transmitted_broadcast_frames), (13, 2));
}

/// A limit drops frames of a no-drop priority like others: their group counts them, and the event
/// has the count.
#[test]
fn no_drop_frames_are_counted_and_named() {
    let mut lab = Lab::new(&limited());
    arrive(&mut lab, 0, MacAddr::BROADCAST, 0, 3);
    arrive(&mut lab, 0, MacAddr::BROADCAST, NO_DROP, 4);
    lab.turn();
    let groups = &lab.snapshot().ports[0].groups;
    let counts =
        [0, usize::from(NO_DROP)].map(|p| (groups[p].flood_limited.frames, groups[p].dropped.frames));
    assert_eq!(counts, [(2, 0), (4, 0)]);
    let events: Vec<(Instant, Event)> = lab.switch.drain_events().collect();
    let event = Event::FloodLimit { port: 0, cast: FloodType::Broadcast, frames: 6, no_drop_frames: 4 };
    assert_eq!(events, [(lab.now, event)]);

    // The next event comes a second later, whatever is dropped meanwhile.
    for _ in 0..5 {
        arrive(&mut lab, 0, MacAddr::BROADCAST, 0, 2);
        lab.turn();
    }
    assert_eq!(lab.switch.drain_events().count(), 0);
    lab.now = lab.now + 1_000_000_000;
    lab.turn();
    let events: Vec<Event> = lab.switch.drain_events().map(|(_, event)| event).collect();
    assert_eq!(
        events,
        [Event::FloodLimit { port: 0, cast: FloodType::Broadcast, frames: 10, no_drop_frames: 0 }]
    );
    lab.now = lab.now + 9_000_000_000;
    lab.turn();
    assert_eq!(lab.switch.drain_events().count(), 0);
}

/// A frame dropped by a limit is never charged, and so pauses no peer; its source is learned
/// anyway.
#[test]
fn what_a_limit_drops_takes_no_buffer_and_its_sender_is_learned() {
    let mut lab = Lab::new(&limited());
    arrive(&mut lab, 0, MacAddr::BROADCAST, NO_DROP, 1);
    lab.turn();
    let mut bytes = [0; 100];
    write_header(&mut bytes, MacAddr::BROADCAST, mac(50), Some(Tag::priority(NO_DROP)), ARP);
    lab.arrive_bytes(0, &bytes);
    let port = &lab.snapshot().ports[0];
    assert_eq!(port.groups[usize::from(NO_DROP)].total.cells, 0);
    assert_eq!((port.bridge_entries, dropped(&mut lab)), (2, [1, 0, 0]));
}

#[test]
fn limits_change_on_a_running_switch() {
    let mut settings = limited();
    let mut lab = Lab::new(&settings);
    arrive(&mut lab, 0, MacAddr::BROADCAST, 0, 5);
    settings.ports[0].flood_limits_pps = [None; 3];
    lab.switch.apply(&settings, lab.now);
    arrive(&mut lab, 0, MacAddr::BROADCAST, 0, 5);
    assert_eq!(dropped(&mut lab), [4, 0, 0]);
    settings.ports[0].flood_limits_pps = [Some(20); 3];
    lab.switch.apply(&settings, lab.now);
    arrive(&mut lab, 0, MacAddr::BROADCAST, 0, 5);
    assert_eq!(dropped(&mut lab), [7, 0, 0]);
    settings.ports[0].flood_limits_pps = [Some(1000); 3];
    lab.switch.apply(&settings, lab.now);
    // 50 ms for the last frame at the old rate, then ten frames, and one that begins.
    lab.now = lab.now + 60_000_000;
    arrive(&mut lab, 0, MacAddr::BROADCAST, 0, 20);
    assert_eq!(dropped(&mut lab), [16, 0, 0]);
}
