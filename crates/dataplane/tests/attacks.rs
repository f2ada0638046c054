//! A host that attacks the switch with all that its link carries, while two others exchange no-drop
//! frames: these all arrive, in order, and their sender is never paused. What the attacker sent is
//! in its counters, to the frame. Source: docs/reliability.md, "Attacks".

mod lab;
#[path = "lab/loopback_port.rs"]
mod loopback_port;

use lab::{Lab, mac, settings};
use switch::settings::{LldpFrames, SwitchSettings};
use switch::{DropReason, Snapshot};
use wire::ethernet::{EXPERIMENTAL, LLDP, MAC_CONTROL, Tag, VLAN, write_header};
use wire::mac::MacAddr;
use wire::pause::{Control, FRAME_BYTES, Pause, Pfc, decode};
use wire::random::Random;

/// Iterations of an attack, of a microsecond each.
const ITERATIONS: usize = 2_000;
/// Frames of the attacker in each: 10 Gbit/s carry 15 in a microsecond.
const BURST: usize = 16;
const SENT: u64 = (ITERATIONS * BURST) as u64;
const ATTACKER: usize = 0;
const SENDER: usize = 1;
const RECEIVER: usize = 2;

/// Runs an attack. `attack` makes each frame of the attacker. Returns the counters before and
/// after.
fn under_attack(
    settings: SwitchSettings,
    mut attack: impl FnMut(&mut Random) -> Vec<u8>,
) -> (Lab, Snapshot, Snapshot) {
    let mut lab = Lab::new();
    lab.apply(settings);
    lab.turns(10);
    let before = lab.snapshot();
    lab.wires.iter().for_each(|wire| drop(wire.take_sent()));
    let (mut random, mut arrived) = (Random::new(1), Vec::new());
    for number in 0..ITERATIONS as u64 {
        (0..BURST).for_each(|_| lab.wires[ATTACKER].inject(attack(&mut random)));
        lab.wires[SENDER].inject(numbered(number));
        lab.turns(1);
        arrived.extend(lab.wires[RECEIVER].take_sent().iter().filter_map(|bytes| number_of(bytes)));
        assert!(!lab.wires[SENDER].take_sent().iter().any(|bytes| is_xoff(bytes)), "the sender is paused");
    }
    for _ in 0..50 {
        lab.turns(1);
        arrived.extend(lab.wires[RECEIVER].take_sent().iter().filter_map(|bytes| number_of(bytes)));
    }
    assert_eq!(arrived, (0..ITERATIONS as u64).collect::<Vec<_>>(), "all arrive, in order");
    let after = lab.snapshot();
    let (sender, receiver) = (&after.ports[SENDER], &after.ports[RECEIVER]);
    assert_eq!(sender.groups[3].dropped.frames, 0);
    assert_eq!(receiver.queues[3].dropped.frames, 0);
    assert_eq!(sender.received.frames - before.ports[SENDER].received.frames, ITERATIONS as u64);
    (lab, before, after)
}

/// A no-drop frame of the sender.
fn numbered(number: u64) -> Vec<u8> {
    let mut bytes = lab::frame(mac(RECEIVER), mac(SENDER), 3);
    bytes[20..28].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn number_of(bytes: &[u8]) -> Option<u64> {
    let is_ours = bytes.get(6..12) == Some(&mac(SENDER).0[..]);
    is_ours.then(|| u64::from_be_bytes(bytes[20..28].try_into().unwrap()))
}

fn is_xoff(bytes: &[u8]) -> bool {
    matches!(decode(bytes), Ok(Control::Pfc(pfc)) if pfc.quanta != [0; 8])
}

/// How often a port has dropped for a reason meanwhile.
fn dropped((before, after): (&Snapshot, &Snapshot), port: usize, reason: DropReason) -> u64 {
    let of = |snapshot: &Snapshot| snapshot.ports[port].drops[reason as usize].frames;
    of(after) - of(before)
}

/// A frame of the attacker of this length.
fn frame(dst: MacAddr, src: MacAddr, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len.max(14)];
    write_header(&mut bytes, dst, src, None, EXPERIMENTAL);
    bytes.truncate(len);
    bytes
}

/// An address that no host has.
fn random_host(random: &mut Random) -> MacAddr {
    let [.., a, b, c, d] = random.bits().to_be_bytes();
    MacAddr([2, 0xff, a, b, c, d])
}

/// XOFF of all priorities, for the longest time.
#[test]
fn a_pfc_storm_of_all_priorities() {
    let mut pfc = [0; FRAME_BYTES];
    Pfc { enable: 0xff, quanta: [u16::MAX; 8] }.encode(mac(ATTACKER), &mut pfc);
    let (_, before, after) = under_attack(settings(), |_| pfc.to_vec());
    let received = |snapshot: &Snapshot| snapshot.ports[ATTACKER].pfc_received;
    assert_eq!(received(&after).frames - received(&before).frames, SENT);
    assert_eq!(received(&after).xoff_frames[3], SENT);
    let is_paused = |port: usize| after.ports[port].priorities.each_ref().map(|priority| priority.paused);
    let with_pfc = std::array::from_fn(|priority| priority == 3);
    assert_eq!([ATTACKER, SENDER, RECEIVER].map(is_paused), [with_pfc, [false; 8], [false; 8]]);
}

/// Random vectors and times, PAUSE, and MAC control frames that are neither: each is counted
/// as what it is, and none is forwarded.
#[test]
fn random_mac_control() {
    let (mut valid, mut pauses, mut malformed) = (0, 0, 0);
    let (_, _, after) = under_attack(settings(), |random| {
        let mut bytes = [0; FRAME_BYTES];
        let quanta = std::array::from_fn(|_| random.bits() as u16);
        Pfc { enable: random.bits() as u8, quanta }.encode(mac(ATTACKER), &mut bytes);
        let mut bytes = bytes.to_vec();
        match random.index(5) {
            0 => bytes[random.index(16)] ^= 1 << random.index(8),
            1 => bytes.truncate(14 + random.index(46)),
            2 => {
                let mut pause = [0; FRAME_BYTES];
                Pause { quanta: random.bits() as u16 }.encode(mac(ATTACKER), &mut pause);
                bytes = pause.to_vec();
            }
            _ => {}
        }
        match decode(&bytes) {
            Ok(Control::Pfc(_)) => valid += 1,
            Ok(Control::Pause { .. }) => pauses += 1,
            // One bit makes it data of another type.
            _ if bytes[12..14] == MAC_CONTROL.to_be_bytes() => malformed += 1,
            _ => {}
        }
        bytes
    });
    let seen = &after.ports[ATTACKER];
    let counted = (seen.pfc_received.frames, seen.pause_received_frames, seen.pfc_malformed_frames);
    assert_eq!(counted, (valid, pauses, malformed));
    assert!(valid > SENT / 2 && pauses > SENT / 10 && malformed > SENT / 20, "{counted:?}");
}

/// An address for each frame: the attacker fills its part of the FDB and no more, and the hosts
/// stay known.
#[test]
fn a_flood_of_addresses() {
    let mut limited = settings();
    limited.bridge.max_entries_per_port = 128;
    let (_, before, after) = under_attack(limited, |random| frame(mac(ATTACKER), random_host(random), 60));
    assert_eq!(dropped((&before, &after), ATTACKER, DropReason::Filtered), SENT);
    assert_eq!(after.bridge_entries, 128 + 2, "those of the attacker, the sender and the receiver");
    assert_eq!(after.flood_copies, before.flood_copies, "the receiver stays known");
}

/// The same to destinations that no one has: each frame is flooded, and the no-drop frames are not.
#[test]
fn a_flood_of_addresses_to_unknown_hosts() {
    let mut small = settings();
    small.bridge.max_entries_per_port = 64;
    let (_, before, after) =
        under_attack(small, |random| frame(random_host(random), random_host(random), 60));
    assert_eq!(after.bridge_entries, 64 + 2, "those of the attacker, the sender and the receiver");
    let refused = dropped((&before, &after), ATTACKER, DropReason::IngressLossy);
    assert_eq!(after.flood_copies - before.flood_copies + refused, SENT, "to two ports each");
}

/// The receiver's address as source, from the attacker's port: where it is a static entry, the
/// attacker gets none of its frames.
#[test]
fn a_stolen_address() {
    let mut fixed = settings();
    fixed.ports[RECEIVER].static_addresses = vec![mac(RECEIVER).into()];
    let (lab, ..) = under_attack(fixed, |_| frame(mac(SENDER), mac(RECEIVER), 60));
    let got = lab.wires[ATTACKER].take_sent();
    assert!(!got.iter().any(|bytes| number_of(bytes).is_some()));
}

/// LLDP frames: the attacker fills its own ring to the daemon, and another port's frame is there.
#[test]
fn a_flood_of_lldp() {
    let mut punting = settings();
    punting.ports.iter_mut().for_each(|port| port.lldp = LldpFrames::Punt);
    let lldp = |port: usize| {
        let mut bytes = vec![0; 200];
        write_header(&mut bytes, MacAddr::NEAREST_BRIDGE, mac(port), None, LLDP);
        bytes
    };
    let (mut lab, before, after) = under_attack(punting, |_| lldp(ATTACKER));
    let received = |snapshot: &Snapshot, port: usize| snapshot.ports[port].lldp_received_frames;
    assert_eq!(received(&after, ATTACKER) - received(&before, ATTACKER), SENT);
    lab.wires[RECEIVER].inject(lldp(RECEIVER));
    lab.turns(2);
    assert_eq!(received(&lab.snapshot(), RECEIVER) - received(&before, RECEIVER), 1);
    let taken = |port| std::iter::from_fn(|| lab.punts.pop(port)).count() as u64;
    assert_eq!((taken(ATTACKER) + lab.punts.lost(ATTACKER), lab.punts.lost(ATTACKER) > 0), (SENT, true));
    assert_eq!((taken(RECEIVER), lab.punts.lost(RECEIVER)), (1, 0), "it has a ring of its own");
    lab::conserved(&after);
}

/// The addresses that no bridge forwards, with any type but MAC control's.
#[test]
fn spoofed_reserved_addresses() {
    let (_, before, after) = under_attack(settings(), |random| {
        let dst = MacAddr([0x01, 0x80, 0xc2, 0, 0, random.index(16) as u8]);
        frame(dst, mac(ATTACKER), 60)
    });
    assert_eq!(dropped((&before, &after), ATTACKER, DropReason::Reserved), SENT);
    assert_eq!(after.flood_copies, before.flood_copies);
}

/// Frames without a whole header, or with half a tag.
#[test]
fn runts() {
    let (_, before, after) = under_attack(settings(), |random| {
        let mut bytes = vec![0; 18];
        write_header(&mut bytes, mac(RECEIVER), mac(ATTACKER), Some(Tag::priority(3)), VLAN);
        bytes.truncate(random.index(18));
        bytes
    });
    assert_eq!(dropped((&before, &after), ATTACKER, DropReason::Malformed), SENT);
}

/// No-drop frames that are longer than the receiver's link carries.
#[test]
fn oversize_frames() {
    let mut short = settings();
    short.ports[RECEIVER].mtu_bytes = Some(1000);
    let (_, before, after) = under_attack(short, |_| {
        let mut bytes = frame(mac(RECEIVER), mac(ATTACKER), 1400);
        write_header(&mut bytes, mac(RECEIVER), mac(ATTACKER), Some(Tag::priority(3)), EXPERIMENTAL);
        bytes
    });
    assert_eq!(dropped((&before, &after), RECEIVER, DropReason::MtuExceeded), SENT);
}

/// Broadcasts at full rate: they take queues of their own priority, and no cell of the no-drop
/// traffic.
#[test]
fn a_flood_of_broadcasts() {
    let (_, before, after) = under_attack(settings(), |_| frame(MacAddr::BROADCAST, mac(ATTACKER), 300));
    let refused = dropped((&before, &after), ATTACKER, DropReason::IngressLossy);
    assert_eq!(after.flood_copies - before.flood_copies + refused, SENT, "each makes one copy beside itself");
    assert!(refused > 0, "there is no cell for all of them");
    lab::conserved(&after);
}
