//! A capture has the frames that the loop received, transmitted and dropped, as they were on the
//! wire, and changes nothing.

mod lab;
#[path = "lab/loopback_port.rs"]
mod loopback_port;

use std::sync::Arc;

use dataplane::{
    Capture, CaptureFilter, CaptureRing, FrameDirection, FrameHeader, FrameVerdict, LoopCommand, RX_BATCH,
    Reply,
};
use lab::{Lab, conserved, frame, mac, settings, xoff_3};
use switch::settings::{
    Guaranteed, LldpFrames, Threshold, VlanList, VlanSettings, WredProfile, WredSettings,
};
use switch::{DropReason, SwitchSettings};
use wire::bitset::{Set8, Set64};
use wire::ethernet::{IPV4, LLDP, Tag, VLAN, write_header};
use wire::mac::MacAddr;

fn everything() -> CaptureFilter {
    CaptureFilter {
        ports: Set64::first_n(64),
        directions: vec![FrameDirection::In, FrameDirection::Out],
        priorities: Set8::ALL,
        verdicts: FrameVerdict::ALL.to_vec(),
        snap_bytes: 128,
        max_frames: u64::MAX,
    }
}

fn start(lab: &mut Lab, filter: CaptureFilter) -> Arc<CaptureRing> {
    let ring = CaptureRing::new();
    let capture = Capture::new(Arc::clone(&ring), filter);
    let reply = lab.send_command(LoopCommand::Capture(Some(Box::new(capture))));
    assert!(matches!(reply, Reply::Captured(None)));
    ring
}

fn stop(lab: &mut Lab, ring: &CaptureRing) -> Vec<(FrameHeader, Vec<u8>)> {
    assert!(matches!(lab.send_command(LoopCommand::Capture(None)), Reply::Captured(Some(_))));
    taken(ring)
}

/// Takes all frames of the full buffers.
fn taken(ring: &CaptureRing) -> Vec<(FrameHeader, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some(buffer) = ring.pop_full() {
        let mut rest = &buffer[..];
        frames.extend(
            std::iter::from_fn(|| FrameHeader::take(&mut rest))
                .map(|(header, bytes)| (header, bytes.to_vec())),
        );
        assert!(rest.is_empty(), "whole frames");
        ring.recycle(buffer);
    }
    frames
}

/// Summaries: port, direction, verdict, priority, drop.
type Summary = (u8, FrameDirection, FrameVerdict, Option<u8>, Option<(DropReason, u8)>);

fn summary((header, _): &(FrameHeader, Vec<u8>)) -> Summary {
    (header.port, header.direction, header.verdict, header.priority, header.drop)
}

fn inject(lab: &Lab, port: usize, to: usize, priority: u8, frames: usize) {
    (0..frames).for_each(|_| lab.wires[port].inject(frame(mac(to), mac(port), priority)));
}

/// Lets the peer of a port pause priority 3.
fn inject_xoff(lab: &Lab, port: usize) {
    let mut bytes = [0; 60];
    xoff_3(200).encode(mac(port), &mut bytes);
    lab.wires[port].inject(bytes);
}

/// Headroom overflows, a PFC frame goes to the sender, and one comes from the receiver.
#[test]
fn frames_pauses_and_drops_with_their_reasons() {
    use FrameDirection::{In, Out};
    use FrameVerdict::{Dropped, Forwarded, Pause};
    let mut lab = Lab::new();
    lab.hold(1, true);
    let ring = start(&mut lab, everything());
    inject(&lab, 0, 1, 3, 15);
    lab.turns(3);
    lab.hold(1, false);
    lab.turns(3);
    inject_xoff(&lab, 1);
    lab.turns(2);
    let frames = stop(&mut lab, &ring);

    let all: Vec<Summary> = frames.iter().map(summary).collect();
    let count = |summary: Summary| all.iter().filter(|other| **other == summary).count();
    assert_eq!(count((0, In, Forwarded, Some(3), None)), 12, "{all:?}");
    assert_eq!(count((0, In, Dropped, Some(3), Some((DropReason::IngressNoDrop, 0)))), 3, "{all:?}");
    assert_eq!(count((1, Out, Forwarded, Some(3), None)), 12, "{all:?}");
    assert_eq!(count((0, Out, Pause, None, None)), 2, "XOFF and XON: {all:?}");
    assert_eq!(count((1, In, Pause, None, None)), 1, "{all:?}");
    assert_eq!(all.len(), 12 + 3 + 12 + 2 + 1);

    let pauses = frames.iter().filter(|(header, _)| header.verdict == Pause && header.direction == Out);
    let on_wire = lab.wires[0].take_sent();
    assert!(pauses.map(|(_, bytes)| bytes).eq(&on_wire), "as they left");
    assert!(frames.windows(2).all(|pair| pair[0].0.at <= pair[1].0.at), "in the order of time");
    assert_eq!((ring.missed(), ring.is_complete()), (0, false));
    conserved(&lab.snapshot());
}

/// A mark, a pushed tag and a popped one: what is captured is what is on the wire.
#[test]
fn departing_frames_have_their_edits() {
    let mut lab = Lab::new();
    let mut other: SwitchSettings = settings();
    let curve = WredProfile { low_cells: 0, high_cells: 0, probability_percent: 100 };
    let trunk = |pvid| VlanSettings::Trunk { pvid, allowed: VlanList::of([10..=10]) };
    for (port, vlan) in
        other.ports.iter_mut().zip([VlanSettings::Access { pvid: 10 }, trunk(Some(10)), trunk(None)])
    {
        port.vlan = vlan;
        port.queues[2].wred =
            Some(WredSettings { exponent: 0, ecn: true, curves: [curve; 3], ..WredSettings::default() });
    }
    lab.apply(other);
    let packet = |to: MacAddr, from: usize, vid: Option<u16>| {
        let mut bytes = vec![0; 200];
        let tag = vid.map(|vid| Tag { tpid: VLAN, pcp: 0, dei: false, vid });
        let at = write_header(&mut bytes, to, mac(from), tag, IPV4);
        bytes[at..at + 2].copy_from_slice(&[0x45, 2]);
        (0..200).skip(at + 20).for_each(|n| bytes[n] = n as u8);
        bytes
    };
    lab.wires[2].inject(packet(MacAddr::BROADCAST, 2, Some(10)));
    lab.turns(2);
    lab.wires.iter().for_each(|wire| drop(wire.take_sent()));

    let ring = start(&mut lab, everything());
    for _ in 0..4 {
        lab.wires[0].inject(packet(mac(2), 0, None)); // a tag is pushed
        lab.wires[2].inject(packet(mac(0), 2, Some(10))); // and popped
        lab.wires[0].inject(packet(MacAddr::BROADCAST, 0, None));
    }
    lab.turns(5);
    let frames = stop(&mut lab, &ring);
    assert!(frames.iter().any(|(header, _)| header.verdict == FrameVerdict::Marked));
    for (port, wire) in lab.wires.iter().enumerate() {
        let left = |(header, _): &&(FrameHeader, Vec<u8>)| {
            usize::from(header.port) == port && header.direction == FrameDirection::Out
        };
        let (captured, sent): (Vec<_>, _) = (frames.iter().filter(left).collect(), wire.take_sent());
        assert_eq!(captured.len(), sent.len());
        assert!(!sent.is_empty());
        for ((header, bytes), sent) in captured.iter().zip(&sent) {
            assert_eq!((usize::from(header.len), &bytes[..]), (sent.len(), &sent[..128]), "port {port}");
        }
    }
}

/// The copy of a flooded frame that a port has no room for, and frames queued for a port that goes
/// down, are drops at that port.
#[test]
fn drops_of_copies_and_of_queued_frames() {
    let mut lab = Lab::new();
    let mut other = settings();
    other.ports[1].queues.iter_mut().for_each(|queue| {
        queue.guaranteed = Guaranteed::Cells(0);
        queue.shared = Some(Threshold::Static(2));
    });
    lab.apply(other);
    (1..3).for_each(|port| lab.hold(port, true));
    let ring = start(&mut lab, everything());
    (0..3).for_each(|_| lab.wires[0].inject(frame(MacAddr::BROADCAST, mac(0), 0)));
    lab.turns(2);
    lab.handle.send(LoopCommand::PortDown(2)).unwrap();
    lab.turns(2);
    let frames = stop(&mut lab, &ring);
    let of = |reason: DropReason| {
        let is =
            move |(header, _): &&(FrameHeader, Vec<u8>)| header.drop.is_some_and(|(why, _)| why == reason);
        frames.iter().filter(is).map(summary).collect::<Vec<_>>()
    };
    let dropped =
        |port, reason| (port, FrameDirection::Out, FrameVerdict::Dropped, Some(0), Some((reason, port)));
    assert_eq!(of(DropReason::TailDrop), [dropped(1, DropReason::TailDrop)]);
    assert_eq!(of(DropReason::PortDown), [dropped(2, DropReason::PortDown); 3]);
    let broadcast = frame(MacAddr::BROADCAST, mac(0), 0);
    assert!(frames.iter().all(|(_, bytes)| *bytes == broadcast));
    assert_eq!(frames.len(), 3 + 1 + 3, "three came in, and none left");
}

#[test]
fn only_frames_of_the_filter() {
    let mut lab = Lab::new();
    let mut run = |filter: CaptureFilter| {
        let ring = start(&mut lab, filter);
        lab.hold(1, true);
        inject(&lab, 0, 1, 3, 13);
        inject(&lab, 0, 2, 0, 1);
        lab.turns(3);
        lab.hold(1, false);
        lab.turns(3);
        stop(&mut lab, &ring)
    };
    let dropped =
        run(CaptureFilter { verdicts: vec![FrameVerdict::Dropped], ports: Set64::of(0), ..everything() });
    assert_eq!(
        dropped.iter().map(|frame| summary(frame).4).collect::<Vec<_>>(),
        [Some((DropReason::IngressNoDrop, 0))]
    );
    let out = run(CaptureFilter { ports: Set64::of(2), ..everything() });
    assert_eq!(
        out.iter().map(summary).collect::<Vec<_>>(),
        [(2, FrameDirection::Out, FrameVerdict::Forwarded, Some(0), None)]
    );
    let pauses = run(CaptureFilter {
        priorities: Set8::of(3),
        directions: vec![FrameDirection::Out],
        ports: Set64::of(0),
        ..everything()
    });
    assert_eq!(pauses.len(), 2, "XOFF and XON");
    assert_eq!(run(CaptureFilter { priorities: Set8::of(5), ..everything() }), []);
}

#[test]
fn it_ends_after_its_frames_and_counts_those_without_a_buffer() {
    let mut lab = Lab::new();
    let ring = start(&mut lab, CaptureFilter { max_frames: 5, snap_bytes: 0, ..everything() });
    inject(&lab, 0, 1, 0, 9);
    lab.turns(1);
    assert!(ring.is_complete());
    let frames = taken(&ring);
    assert_eq!((frames.len(), frames[0].1.len()), (5, usize::from(CaptureFilter::MIN_SNAP_BYTES)));
    assert_eq!(stop(&mut lab, &ring), []);

    let ring = CaptureRing::with_buffers(1);
    let capture = Capture::new(Arc::clone(&ring), everything());
    assert!(matches!(lab.send_command(LoopCommand::Capture(Some(Box::new(capture)))), Reply::Captured(None)));
    // A buffer has room for some 800 frames.
    for _ in 0..250 {
        inject(&lab, 0, 1, 0, 4);
        lab.turns(2);
    }
    let frames = taken(&ring).len() as u64;
    assert!(ring.missed() > 1000 && frames > 500, "{frames} and {}", ring.missed());
    lab.turns(2);
    assert_eq!(frames + ring.missed() + stop(&mut lab, &ring).len() as u64, 2000);
}

/// Frames wait at most 10 ms for a buffer to fill.
#[test]
fn frames_arrive_though_few() {
    let mut lab = Lab::new();
    let ring = start(&mut lab, everything());
    inject(&lab, 0, 1, 0, 1);
    lab.turns(5);
    assert_eq!(taken(&ring).len(), 0);
    lab.turns(10_000);
    assert_eq!(taken(&ring).len(), 2);
}

/// The switch does the same with a capture as without.
#[test]
fn a_capture_changes_nothing() {
    let run = |captures: bool| {
        let mut lab = Lab::new();
        let ring = captures.then(|| start(&mut lab, everything()));
        if ring.is_none() {
            lab.turns(1); // that of the command
        }
        for round in 0..40 {
            lab.hold(1, round % 3 == 0);
            inject(&lab, round % 2, (round + 1) % 3, 3, 7);
            inject(&lab, 2, 1, 0, 5);
            lab.wires[0].inject(frame(MacAddr::BROADCAST, mac(0), 0));
            inject_xoff(&lab, 1);
            lab.turns(2);
        }
        (lab.snapshot(), lab.wires.iter().map(|wire| wire.take_sent()).collect::<Vec<_>>())
    };
    let ((with, sent_with), (without, sent_without)) = (run(true), run(false));
    assert!(
        sent_with == sent_without
            && with.ports.iter().any(|port| port.drops.iter().any(|drop| drop.frames > 0))
    );
    assert!(with.ports[1].priorities[3].pauses > 0, "the switch reads them: {with:?}");
    assert_eq!(with.without_loop_counters(), without.without_loop_counters());
}

#[test]
fn lldp_that_the_daemon_consumes_is_captured() {
    let mut lab = Lab::new();
    let mut other = settings();
    other.ports[0].lldp = LldpFrames::Punt;
    lab.apply(other);
    let ring = start(&mut lab, everything());
    let mut bytes = [0; 100];
    write_header(&mut bytes, MacAddr::NEAREST_BRIDGE, mac(0), None, LLDP);
    lab.wires[0].inject(bytes);
    lab.turns(2);
    let frames = stop(&mut lab, &ring);
    let consumed = (0, FrameDirection::In, FrameVerdict::Consumed, None, None);
    assert_eq!(frames.iter().map(summary).collect::<Vec<_>>(), [consumed]);
    assert_eq!(frames[0].1, bytes);
}

/// A frame of 110 bytes takes 128 with its header, and a buffer has room for 512 of them. After 448
/// frames of 128 bytes, another one would fit without its header.
#[test]
fn a_buffer_is_filled_to_its_last_byte_and_never_beyond() {
    let mut lab = Lab::new();
    for (snap_bytes, full_bytes) in [(110, 1 << 16), (111, 508 * 129), (128, 448 * 146)] {
        let ring = start(&mut lab, CaptureFilter { snap_bytes, ..everything() });
        for _ in 0..20 {
            for _ in 0..40 {
                let mut bytes = frame(mac(1), mac(0), 0);
                bytes.resize(200, 0);
                lab.wires[0].inject(bytes);
            }
            lab.turns(2);
        }
        assert!(matches!(lab.send_command(LoopCommand::Capture(None)), Reply::Captured(Some(_))));
        let buffers: Vec<_> = std::iter::from_fn(|| ring.pop_full()).map(|buffer| buffer.len()).collect();
        assert!(buffers.len() > 2, "{buffers:?}");
        assert_eq!(buffers[..2], [full_bytes; 2]);
    }
}

#[test]
fn verdicts_have_their_names() {
    let names = ["forwarded", "marked", "dropped", "pause", "consumed"];
    assert_eq!(FrameVerdict::ALL.map(FrameVerdict::name), names);
}

#[test]
fn a_batch_fits() {
    assert_eq!(RX_BATCH, 64, "BATCH_FRAMES of a capture is as large");
}
