//! MAC control frames, whole: what is obeyed, and what is only counted.

mod lab;

use lab::{Lab, mac, settings};
use switch::{Memory, Snapshot};
use wire::mac::MacAddr;
use wire::pause::{FRAME_BYTES, Pause, Pfc};

/// PFC received, its XOFFs of priority 3, malformed frames, PAUSE; data received, forwarded and dropped on all ports.
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

/// Row 282: "on receipt only that destination is PFC". Any other frame of ethertype 0x8808 is malformed: counted so, not
/// obeyed, not bridged, though it be for a host that the bridge knows, for everybody, or for the port itself.
#[test]
fn only_frames_to_the_reserved_address_are_mac_control() {
    let pfc = Pfc { enable: 1 << 3, quanta: [1000; 8] };
    let reserved = |last| MacAddr([0x01, 0x80, 0xc2, 0, 0, last]);
    for (dst, obeyed) in [
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
        let control = if obeyed { [1, 1, 0, 1] } else { [0, 0, 2, 0] };
        assert_eq!(counts(lab.snapshot()), (control, data), "to {dst}");
        assert_eq!(lab.seen().ports[0].queues[3].paused, obeyed, "to {dst}");
        assert_eq!(lab.memory.free_frames(), lab.frames, "to {dst}: it ends here");
    }
}
