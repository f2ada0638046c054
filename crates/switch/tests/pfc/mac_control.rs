//! MAC control frames, complete: which ones are honored, and which ones are only counted.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, mac, settings};
use switch::settings::{FlowControl, SwitchSettings, Threshold};
use switch::{DropReason, FrameMemory, Snapshot};
use wire::mac::MacAddr;
use wire::pause::{FRAME_BYTES, Pause, Pfc};

/// Returns PFC received, its XOFFs of priority 3, malformed frames and PAUSE; then data received,
/// forwarded and dropped on all ports.
fn counts(seen: &Snapshot) -> ([u64; 4], [u64; 3]) {
    let port = &seen.ports[0];
    let control = [
        port.pfc_received.frames,
        port.pfc_received.xoff_frames[3],
        port.pfc_malformed_frames,
        port.pause_received_frames,
    ];
    let data = seen.ports.iter().fold([0; 3], |[received, sent, dropped], port| {
        let drops: u64 = port.drops.iter().map(|count| count.frames).sum();
        [received + port.received.frames, sent + port.transmitted.frames, dropped + drops]
    });
    (control, data)
}

/// Row 282: "on receipt only that destination is PFC". Any other frame of ethertype 0x8808 is
/// malformed: counted as such, not honored and not bridged, even if it is for a host in the FDB,
/// for broadcast, or for the port itself.
#[test]
fn only_frames_to_the_reserved_address_are_mac_control() {
    let pfc = Pfc { enable: 1 << 3, quanta: [1000; 8] };
    let reserved = |last| MacAddr([0x01, 0x80, 0xc2, 0, 0, last]);
    for (dst, honored) in [
        (reserved(0x01), true),
        (reserved(0x00), false),
        (reserved(0x02), false),
        (reserved(0x0e), false),
        (mac(1), false),
        (MacAddr::BROADCAST, false),
        (MacAddr([2, 9, 9, 9, 9, 9]), false),
    ] {
        let mut lab = Lab::new(&settings(3, 1 << 3, 1000, 0));
        let (_, data) = counts(lab.snapshot());
        let mut frame = [0; FRAME_BYTES];
        pfc.encode(mac(0), &mut frame);
        frame[..6].copy_from_slice(&dst.0);
        lab.arrive_bytes(0, &frame);
        Pause { quanta: 9 }.encode(mac(0), &mut frame);
        frame[..6].copy_from_slice(&dst.0);
        lab.arrive_bytes(0, &frame);
        lab.turn();
        let control = if honored { [1, 1, 0, 1] } else { [0, 0, 2, 0] };
        assert_eq!(counts(lab.snapshot()), (control, data), "to {dst}");
        assert_eq!(lab.seen().ports[0].queues[3].paused, honored, "to {dst}");
        assert_eq!(lab.memory.free_frames(), lab.frames, "to {dst}: it ends here");
    }
}

/// Two ports without PFC; frames of every priority of port 0 wait behind a threshold of 40 cells,
/// with 20 of headroom.
fn link(flow_control: FlowControl) -> SwitchSettings {
    let mut settings = settings(2, 0, 1000, 100);
    for port in &mut settings.ports {
        (port.pfc.rx, port.pfc.tx, port.flow_control) = (false, false, flow_control);
        for group in &mut port.groups {
            (group.xoff, group.headroom_cells, group.xon_offset_cells) = (Threshold::Static(40), 20, 10);
        }
        port.queues.iter_mut().for_each(|queue| *queue = lab::queue_of(Threshold::Static(500)));
    }
    settings
}

fn send(lab: &mut Lab, priority: u8, frames: usize) {
    (0..frames).for_each(|_| lab.arrive(Frame { port: 0, dst: mac(1), priority, len: 200 }));
}

/// Row 288: a PAUSE stops all queues of a port that honors it, until its time ends or time 0
/// arrives, and none of a port that does not. It is counted either way.
#[test]
fn a_pause_of_the_link_stops_all_queues() {
    use FlowControl::{Both, Off, Receive, Send};
    for (flow_control, honors) in [(Off, false), (Receive, true), (Send, false), (Both, true)] {
        for ends_by_xon in [true, false] {
            let mut lab = Lab::new(&link(flow_control));
            let mut frame = [0; FRAME_BYTES];
            let pause = |lab: &mut Lab, frame: &mut [u8; FRAME_BYTES], quanta| {
                Pause { quanta }.encode(mac(1), frame);
                lab.arrive_bytes(1, frame);
            };
            pause(&mut lab, &mut frame, 1000); // 51,200 ns at 10G
            (0..8).for_each(|priority| send(&mut lab, priority, 1));
            lab.turn();
            let waiting: u64 = lab.snapshot().ports[1].queues.iter().map(|queue| queue.waiting_frames).sum();
            assert_eq!(waiting, if honors { 8 } else { 0 }, "{flow_control:?}");
            let port = &lab.snapshot().ports[1];
            assert_eq!((port.link_paused, port.queues[5].paused), (honors, honors));
            if ends_by_xon {
                pause(&mut lab, &mut frame, 0);
            } else {
                assert_eq!(lab.switch.deadline_of(1, lab.now).0 == 1_051_200, honors);
                lab.now = lab.now + 51_200;
            }
            lab.turn();
            let port = &lab.snapshot().ports[1];
            assert_eq!((port.transmitted.frames, port.link_paused), (8, false), "{flow_control:?}");
            assert_eq!(port.pause_received_frames, if ends_by_xon { 2 } else { 1 });
            let lasted = if ends_by_xon { 1_000 } else { 51_200 };
            assert_eq!((port.link_pauses, port.link_paused_ns), if honors { (1, lasted) } else { (0, 0) });
            assert_eq!(port.pfc_malformed_frames, 0);
        }
    }
}

/// PFC is off on a link that uses PAUSE: neither honored nor sent.
#[test]
fn a_link_with_pause_knows_no_pfc() {
    let mut lab = Lab::new(&link(FlowControl::Both));
    lab.send_pfc(1, Pfc { enable: 0xff, quanta: [1000; 8] });
    send(&mut lab, 3, 100);
    lab.turn();
    assert_eq!(lab.snapshot().ports[1].transmitted.frames, 60, "all that found room");
    assert_eq!((lab.pfc_sent(0), lab.pauses[0].len()), (Vec::new(), 1));
}

/// Row 288: lossy groups at their thresholds pause the whole link before any data leaves. Frames
/// that still arrive go into headroom; time 0 follows when none of the groups is in XOFF. A frame
/// that finds no room is not a no-drop loss.
#[test]
fn groups_at_their_thresholds_pause_the_link() {
    for (flow_control, sends) in [(FlowControl::Send, true), (FlowControl::Receive, false)] {
        let mut lab = Lab::new(&link(flow_control));
        lab.switch.hold(1, true);
        send(&mut lab, 0, 40);
        lab.turn();
        assert_eq!(lab.pauses[0], vec![65_535; usize::from(sends)]);
        send(&mut lab, 5, 40); // another group: the link is paused already
        send(&mut lab, 0, 30); // 20 of them find headroom
        lab.turn();
        assert_eq!(lab.pauses[0].len(), usize::from(sends), "sent once");
        let port = &lab.snapshot().ports[0];
        let lossy = port.drops[DropReason::IngressLossy as usize].frames;
        assert_eq!(
            (lossy, port.drops[DropReason::IngressNoDrop as usize].frames),
            (if sends { 10 } else { 30 }, 0)
        );
        assert_eq!(port.groups[0].headroom.cells, if sends { 20 } else { 0 });
        assert_eq!((port.groups[0].xoff, port.groups[0].no_drop), (sends, false));
        lab.switch.hold(1, false);
        for _ in 0..3 {
            lab.turn();
        }
        lab.now = lab.now + 1_000_000;
        lab.turn();
        lab.turn();
        assert_eq!(lab.pauses[0], if sends { vec![65_535, 0, 0] } else { vec![] }, "XON, twice");
        let port = &lab.snapshot().ports[0];
        assert_eq!((port.pause_sent_frames, port.pfc_sent.frames), (if sends { 3 } else { 0 }, 0));
    }
}
