//! Marks and tags of waiting frames: decided on receipt, applied on transmission, whatever happens
//! in between.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Lab, mac, settings};
use switch::settings::{PortSettings, SwitchSettings, VlanList, VlanSettings, WredProfile, WredSettings};
use switch::{HeaderEdit, TxDesc, VlanAction};
use wire::ethernet::{Header, IPV4, Tag, VLAN, write_header};
use wire::ip;

const TAG: Tag = Tag { tpid: VLAN, pcp: 3, dei: false, vid: 10 };

/// Three ports; frames arrive tagged on port 0, and leave port 1 untagged and marked, port 2 with
/// another VID.
fn edited() -> SwitchSettings {
    let mut settings = settings(3, 0, 4_000, 0);
    let curve = WredProfile { low_cells: 0, high_cells: 0, probability_percent: 100 };
    let wred = WredSettings { exponent: 0, ecn: true, curves: [curve; 3], ..WredSettings::default() };
    settings.ports[1].queues.iter_mut().for_each(|queue| queue.wred = Some(wred));
    let trunk = VlanSettings::Trunk { pvid: None, allowed: VlanList::of([10..=10]) };
    settings.ports[0].vlan = trunk.clone();
    settings.ports[1].vlan = VlanSettings::Access { pvid: 10 };
    settings.ports[2].vlan = trunk;
    settings
}

/// The same ports without header edits.
fn plain() -> SwitchSettings {
    settings(3, 0, 4_000, 0)
}

/// Returns a tagged ECT(0) broadcast packet.
fn packet(number: u8) -> Vec<u8> {
    let mut bytes = vec![number; 100];
    let at = write_header(&mut bytes, wire::mac::MacAddr::BROADCAST, mac(0), Some(TAG), IPV4);
    bytes[at..at + 2].copy_from_slice(&[0x45, 2]);
    bytes
}

/// Transmits on a port and returns the tag, the ECN field and the last byte of each frame.
fn left(lab: &mut Lab, port: usize) -> Vec<(Option<Tag>, Option<u8>, u8)> {
    lab.transmit(port, usize::MAX);
    let words = |outgoing: &TxDesc| {
        let bytes = lab.memory.all(&outgoing.frame, outgoing.len.into());
        let header = Header::parse(bytes).expect("a whole header");
        (header.outer, ip::ecn(bytes, &header), bytes[bytes.len() - 1])
    };
    let left = lab.with_kernel[port].iter().map(words).collect();
    lab.complete(port, usize::MAX);
    left
}

/// Frames that wait when marks and VLANs are disabled leave with the edits decided on receipt;
/// later frames leave unchanged. The edits belong to each frame, and once no frame has any, none is
/// looked up.
#[test]
fn frames_leave_as_was_decided_when_they_came() {
    let mut lab = Lab::new(&edited());
    (1..3).for_each(|port| lab.switch.hold(port, true));
    (1..4).for_each(|number| lab.arrive_bytes(0, &packet(number)));
    lab.switch.apply(&plain(), lab.now);
    (4..6).for_each(|number| lab.arrive_bytes(0, &packet(number)));
    assert_eq!(lab.snapshot().ports[1].queues.map(|queue| queue.marked.frames).iter().sum::<u64>(), 3);
    (1..3).for_each(|port| lab.switch.hold(port, false));
    let mut out = Vec::new();
    assert!(lab.switch.transmit(1, 2, lab.now, &mut lab.memory, &mut out));
    for TxDesc { frame, len, edit, .. } in out {
        assert!(edit.ds.sets_ce() && edit.tag == VlanAction::Pop && len == 96, "{edit:?}");
        let untouched = Header::parse(lab.memory.all(&frame, 100)).expect("a whole header");
        assert_eq!(untouched.outer, Some(TAG), "the switch itself writes nothing");
        lab.switch.complete(1, frame, lab.now, &mut lab.memory);
    }
    assert_eq!(left(&mut lab, 1), [(None, Some(3), 3), (Some(TAG), Some(2), 4), (Some(TAG), Some(2), 5)]);
    let expected: Vec<_> = (1..6).map(|number| (Some(TAG), Some(2), number)).collect();
    assert_eq!(left(&mut lab, 2), expected);
    lab.arrive_bytes(0, &packet(6));
    assert!(!lab.switch.transmit(1, 2, lab.now, &mut lab.memory, &mut Vec::new()), "no edits are left");
}

/// A frame that is dropped while it waits takes its edits with it: the next frame in the same
/// memory leaves unchanged.
#[test]
fn what_is_dropped_leaves_no_edit_behind() {
    let mut lab = Lab::new(&edited());
    lab.switch.hold(1, true);
    (1..9).for_each(|number| lab.arrive_bytes(0, &packet(number)));
    lab.switch.port_down(1, lab.now, &mut lab.memory);
    lab.switch.apply(&plain(), lab.now);
    lab.switch.port_up(1, None, lab.now);
    lab.switch.hold(1, false);
    let _ = left(&mut lab, 2);
    (1..17).for_each(|number| lab.arrive_bytes(0, &packet(number)));
    let mut out = Vec::new();
    assert!(!lab.switch.transmit(1, usize::MAX, lab.now, &mut lab.memory, &mut out));
    assert!(out.len() == 16 && out.iter().all(|outgoing| outgoing.edit == HeaderEdit::NONE));
}

/// Marks that are decided at dequeue are applied at once.
#[test]
fn marks_at_dequeue_go_with_the_frame() {
    let mut settings = plain();
    let mark_at = switch::settings::EcnMarkPoint::Dequeue;
    let of_port = |port: &mut PortSettings, wred| port.queues.iter_mut().for_each(|queue| queue.wred = wred);
    of_port(
        &mut settings.ports[1],
        edited().ports[1].queues[0].wred.map(|wred| WredSettings { mark_at, ..wred }),
    );
    let mut lab = Lab::new(&settings);
    for ecn in [1, 2, 3] {
        let mut bytes = packet(9);
        bytes[19] = ecn;
        lab.arrive_bytes(0, &bytes);
        assert_eq!(left(&mut lab, 1), [(Some(TAG), Some(3), 9)], "it came with {ecn}");
    }
    let marked: u64 = lab.snapshot().ports[1].queues.iter().map(|queue| queue.marked.frames).sum();
    assert_eq!(marked, 2, "what came with the mark is not marked");
}

/// A packet with a truncated IPv4 header cannot be marked, and is not counted as marked.
#[test]
fn a_header_that_is_cut_off_is_not_marked() {
    let mut lab = Lab::new(&edited());
    for (len, marked) in [(37, 0), (38, 1)] {
        lab.arrive_bytes(0, &packet(1)[..len]);
        let seen: u64 = lab.snapshot().ports[1].queues.iter().map(|queue| queue.marked.frames).sum();
        assert_eq!(seen, marked, "{len} bytes");
    }
}
