//! LLDP frames: consumed for the owner, dropped or forwarded, as the port has it.

mod lab;

use lab::{Lab, mac, settings};
use switch::settings::LldpFrames;
use switch::{DropReason, FrameMemory};
use wire::ethernet::{LLDP, Tag, write_header};
use wire::mac::MacAddr;

/// Returns an LLDP frame of port 0's host to 01-80-C2-00-00-`last`.
fn frame(last: u8, tag: Option<Tag>, ethertype: u16) -> [u8; 80] {
    let mut frame = [0; 80];
    write_header(&mut frame, MacAddr([1, 0x80, 0xc2, 0, 0, last]), mac(0), tag, ethertype);
    frame
}

/// Returns frames consumed, dropped as reserved, and received as data by port 0, and frames
/// transmitted by port 1.
fn counts(lab: &mut Lab) -> [u64; 4] {
    let ports = &lab.snapshot().ports;
    let reserved = ports[0].drops[DropReason::Reserved as usize].frames;
    [ports[0].lldp_received_frames, reserved, ports[0].received.frames, ports[1].transmitted.frames]
}

#[test]
fn a_port_consumes_drops_or_forwards_lldp() {
    for (lldp, expected) in [
        (LldpFrames::Drop, [0, 1, 1, 0]),
        (LldpFrames::Punt, [1, 0, 0, 0]),
        (LldpFrames::Forward, [0, 0, 1, 1]),
    ] {
        let mut settings = settings(2, 0, 1000, 0);
        settings.ports[0].lldp = lldp;
        let mut lab = Lab::new(&settings);
        let before = counts(&mut lab);
        let sent = frame(0x0e, None, LLDP);
        lab.arrive_bytes(0, &sent);
        assert_eq!(lab.switch.has_punted(), lldp == LldpFrames::Punt);
        let mut taken = Vec::new();
        lab.switch.take_punted(&mut lab.memory, |port, frame| taken.push((port, frame.to_vec())));
        let punted = (lldp == LldpFrames::Punt).then(|| (0, sent.to_vec()));
        assert_eq!(taken, Vec::from_iter(punted), "{lldp:?}");
        lab.turn();
        let after = counts(&mut lab);
        let more: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(more, expected, "{lldp:?}");
        assert_eq!(lab.memory.free_frames(), lab.frames, "{lldp:?}");
    }
}

/// Other frames to reserved addresses, and LLDP with a tag or to another address, are dropped
/// whatever the port does with LLDP.
#[test]
fn only_untagged_lldp_to_the_nearest_bridge_is_lldp() {
    let tag = Some(Tag { tpid: 0x8100, pcp: 7, dei: false, vid: 0 });
    for lldp in [LldpFrames::Drop, LldpFrames::Punt, LldpFrames::Forward] {
        let mut settings = settings(2, 0, 1000, 0);
        settings.ports[0].lldp = lldp;
        let mut lab = Lab::new(&settings);
        let before = counts(&mut lab);
        for bytes in [frame(0x0e, tag, LLDP), frame(0x0e, None, 0x88b5), frame(0x03, None, LLDP)] {
            lab.arrive_bytes(0, &bytes);
        }
        lab.turn();
        let after = counts(&mut lab);
        assert_eq!([after[0], after[1] - before[1], after[3]], [0, 3, before[3]], "{lldp:?}");
    }
}

/// While the switch stops, LLDP is consumed as before.
#[test]
fn a_stopping_switch_consumes_lldp() {
    let mut settings = settings(2, 0, 1000, 0);
    settings.ports[0].lldp = LldpFrames::Punt;
    let mut lab = Lab::new(&settings);
    lab.switch.stop();
    let bytes = frame(0x0e, None, LLDP);
    let token = lab.memory.alloc().expect("memory");
    lab.memory.fill(&token, &bytes);
    let arrival = lab.switch.parse(0, switch::RxDesc::new(token, 80), &bytes);
    lab.switch.drain_control(&mut vec![arrival], lab.now, &mut lab.memory);
    let mut taken = 0;
    lab.switch.take_punted(&mut lab.memory, |_, _| taken += 1);
    assert_eq!((taken, counts(&mut lab)[0]), (1, 1));
}
