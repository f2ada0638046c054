//! The FDB in the whole switch, compared with a plain map: random frames between random addresses
//! on random ports, under a limit of addresses per port. The egress of each frame, and every count,
//! must equal the map's, whatever the hash key.

use std::collections::HashMap;

use switch::settings::{BridgeSettings, DownPortAction, SwitchSettings};
use switch::{DropReason, Event};
use wire::random::Random;

#[path = "../lab/mod.rs"]
mod lab;
use lab::{Frame, Lab, mac, settings};

const PORTS: usize = 3;
const LIMIT: usize = 5;
/// Addresses in addition to those of the hosts.
const ADDRESSES: u64 = 20;
const FIRST: usize = 100;
const STEPS: usize = 5000;

fn limited(key: u64) -> SwitchSettings {
    let bridge = BridgeSettings { max_entries: 64, max_entries_per_port: LIMIT, key, ..Default::default() };
    SwitchSettings { bridge, ..settings(PORTS, 0, 1000, 0) }
}

/// A plain model of a learning bridge.
#[derive(Default)]
struct Model {
    known: HashMap<usize, usize>,
    refused: [u64; PORTS],
    moves: u64,
    sent: [u64; PORTS],
}

impl Model {
    fn held(&self, port: usize) -> usize {
        self.known.values().filter(|&&at| at == port).count()
    }

    fn frame(&mut self, port: usize, from: usize, to: usize) {
        let before = self.known.get(&from).copied();
        if before != Some(port) && self.held(port) < LIMIT {
            self.moves += u64::from(before.is_some());
            self.known.insert(from, port);
        } else if before != Some(port) {
            self.known.remove(&from);
            self.refused[port] += 1;
        }
        match self.known.get(&to) {
            Some(&out) if out == port => {}
            Some(&out) => self.sent[out] += 1,
            None => (0..PORTS).filter(|&out| out != port).for_each(|out| self.sent[out] += 1),
        }
    }
}

#[test]
fn the_switch_is_the_model_whatever_the_key() {
    for key in [0, 1, 0xfeed_beef_0bad_cafe] {
        let mut lab = Lab::new(&limited(key));
        let mut model = Model { known: (0..PORTS).map(|n| (n, n)).collect(), ..Model::default() };
        let mut random = Random::new(7);
        let mut below = |end: u64| (u64::from(random.draw()) % end) as usize;
        let mut bytes = [0; 64];
        for step in 0..STEPS {
            let (port, from) = (below(PORTS as u64), FIRST + below(ADDRESSES));
            let to = if below(4) == 0 { below(PORTS as u64) } else { FIRST + below(ADDRESSES) };
            wire::ethernet::write_header(&mut bytes, mac(to), mac(from), None, 0x0806);
            lab.arrive_bytes(port, &bytes);
            lab.turn();
            model.frame(port, from, to);
            let seen = lab.snapshot();
            let context = || format!("key {key:#x}, step {step}: {from} to {to} on port {port}");
            assert_eq!(
                (seen.bridge_entries, seen.bridge_moves),
                (model.known.len() as u64, model.moves),
                "{}",
                context()
            );
            for (port, seen) in seen.ports.iter().enumerate() {
                let counts = (seen.bridge_entries, seen.bridge_limit_frames, seen.transmitted.frames);
                let expected = (model.held(port) as u64, model.refused[port], model.sent[port]);
                assert_eq!(counts, expected, "port {port}, {}", context());
            }
        }
        assert!(model.refused.iter().all(|&refused| refused > 100), "{:?}", model.refused);
    }
}

/// A peer uses a new source address for each frame: it is limited, an event reports it once, and
/// other ports still learn.
#[test]
fn made_up_addresses_are_an_event_and_leave_room_for_others() {
    let mut lab = Lab::new(&limited(3));
    let mut bytes = [0; 64];
    for n in 0..50 {
        wire::ethernet::write_header(&mut bytes, mac(0), mac(FIRST + n), None, 0x0806);
        lab.arrive_bytes(1, &bytes);
        lab.turn();
    }
    wire::ethernet::write_header(&mut bytes, mac(0), mac(99), None, 0x0806);
    lab.arrive_bytes(2, &bytes);
    lab.turn();
    let counts: Vec<_> =
        lab.snapshot().ports.iter().map(|port| (port.bridge_entries, port.bridge_limit_frames)).collect();
    assert_eq!(counts, [(1, 0), (LIMIT as u64, 50 - (LIMIT as u64 - 1)), (2, 0)]);
    let events: Vec<Event> = lab.switch.drain_events().map(|(_, event)| event).collect();
    assert_eq!(events, [Event::AddressLimit { port: 1 }]);
}

/// A port goes down. No-drop frames to its host are not for the other hosts; frames of other
/// priorities are flooded, as the host may have moved. Where it has, and speaks, all frames follow.
#[test]
fn no_drop_frames_to_a_port_that_is_down_are_held_back() {
    let counts = |lab: &mut Lab, reason: DropReason| {
        let s = lab.snapshot();
        (s.ports[1].drops[reason as usize].frames, s.flood_copies)
    };
    let frame = |port, dst, priority| Frame { port, dst: mac(dst), priority, len: 64 };
    for action in [DownPortAction::Drop, DownPortAction::Flood] {
        let mut settings = lab::settings(4, 0b0000_1000, 1000, 100);
        settings.bridge.no_drop_to_down_port = action;
        let mut lab = Lab::new(&settings);
        lab.switch.port_down(1, lab.now, &mut lab.memory);
        let is_held_back = action == DownPortAction::Drop;
        lab.arrive(frame(0, 1, 3));
        let expected = if is_held_back { (1, 0) } else { (0, 1) };
        assert_eq!(counts(&mut lab, DropReason::DestinationDown), expected, "{action:?}");
        lab.arrive(frame(0, 1, 1));
        assert_eq!(lab.snapshot().flood_copies, expected.1 + 1, "a lossy frame is flooded");
        // Another host may be on the port that comes up: its old addresses are unknown.
        lab.switch.port_up(1, None, lab.now);
        lab.arrive(frame(0, 1, 3));
        assert_eq!(lab.snapshot().flood_copies, expected.1 + 3, "to three ports");
        // The host has moved to port 2, and speaks.
        lab.switch.port_down(1, lab.now, &mut lab.memory);
        lab.switch.set_learned(mac(1), 2, lab.now);
        lab.arrive(frame(0, 1, 3));
        assert_eq!(lab.snapshot().flood_copies, expected.1 + 3);
        assert_eq!(counts(&mut lab, DropReason::PortDown).0, 1, "what waited for it: {action:?}");
    }
}

/// A link that flaps twice before its host speaks again: the switch still knows that no other port
/// leads to the host. A host that speaks on another port, or ages out, is no longer expected there.
#[test]
fn a_link_that_flaps_again_forgets_no_host() {
    let mut lab = Lab::new(&lab::settings(4, 0b0000_1000, 1000, 100));
    let to_1 = Frame { port: 0, dst: mac(1), priority: 3, len: 64 };
    let held_back = |lab: &mut Lab| {
        let s = lab.snapshot();
        (s.ports[1].drops[DropReason::DestinationDown as usize].frames, s.flood_copies)
    };
    lab.switch.port_down(1, lab.now, &mut lab.memory);
    lab.switch.port_up(1, None, lab.now);
    lab.arrive(to_1);
    assert_eq!(held_back(&mut lab), (0, 2), "flooded to three ports: another host may be there");
    lab.switch.port_down(1, lab.now, &mut lab.memory);
    lab.arrive(to_1);
    assert_eq!(held_back(&mut lab), (1, 2));
    lab.arrive(Frame { priority: 1, ..to_1 });
    assert_eq!(held_back(&mut lab), (1, 3), "a lossy frame is flooded to the two others");

    lab.switch.set_learned(mac(1), 2, lab.now);
    lab.arrive(to_1);
    assert_eq!(held_back(&mut lab), (1, 3), "it is on port 2 now");
    lab.switch.port_down(2, lab.now, &mut lab.memory);
    lab.switch.port_up(2, None, lab.now);
    lab.switch.port_down(2, lab.now, &mut lab.memory);
    lab.now = lab.now + BridgeSettings::default().aging_ns + 200_000_000;
    lab.arrive(to_1);
    assert_eq!(held_back(&mut lab), (1, 3), "nobody expects it: to port 3, the only one that is up");
}

/// A reload to the other setting takes effect for ports that are already down.
#[test]
fn held_back_frames_are_flooded_after_a_reload() {
    let mut settings = lab::settings(4, 0b0000_1000, 1000, 100);
    let mut lab = Lab::new(&settings);
    lab.switch.port_down(1, lab.now, &mut lab.memory);
    settings.bridge.no_drop_to_down_port = DownPortAction::Flood;
    lab.switch.apply(&settings, lab.now);
    lab.arrive(Frame { port: 0, dst: mac(1), priority: 3, len: 64 });
    let s = lab.snapshot();
    assert_eq!((s.ports[1].drops[DropReason::DestinationDown as usize].frames, s.flood_copies), (0, 1));
}
