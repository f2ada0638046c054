//! VLANs in the whole switch: which frame leaves by which port with which tag, and that no frame
//! leaves its VLAN.

use std::fmt::Write;

use proptest::prelude::*;
use switch::settings::{
    PortSettings, RewriteSettings, StaticAddress, SwitchSettings, Threshold, Trust, VlanList, VlanSettings,
};
use switch::{DropReason, FrameMemory, MaxFrame};
use wire::ethernet::{EXPERIMENTAL, HEADER_BYTES, Header, IPV4, SERVICE_VLAN, Tag, VLAN, write_header};
use wire::ip;
use wire::mac::MacAddr;

#[path = "../lab/mod.rs"]
mod lab;
use lab::{Lab, mac, settings};

fn access(pvid: u16) -> VlanSettings {
    VlanSettings::Access { pvid }
}

fn trunk(pvid: Option<u16>, allowed: &[u16]) -> VlanSettings {
    VlanSettings::Trunk { pvid, allowed: VlanList::of(allowed.iter().map(|&vid| vid..=vid)) }
}

/// Returns a switch whose ports have these VLANs.
fn switch_of(vlans: &[VlanSettings]) -> SwitchSettings {
    let mut settings = settings(vlans.len(), 0, 4000, 0);
    for (port, vlan) in settings.ports.iter_mut().zip(vlans) {
        port.vlan = vlan.clone();
    }
    settings
}

fn lab_of(vlans: &[VlanSettings]) -> Lab {
    Lab::new(&switch_of(vlans))
}

fn tag(pcp: u8, dei: bool, vid: u16) -> Tag {
    Tag { tpid: VLAN, pcp, dei, vid }
}

/// Returns a frame with these tags, outermost first, and this payload.
fn frame(dst: MacAddr, src: MacAddr, tags: &[Tag], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEADER_BYTES];
    write_header(&mut frame, dst, src, None, ethertype);
    let types = frame.split_off(12);
    for tag in tags {
        let tci = u16::from(tag.pcp) << 13 | u16::from(tag.dei) << 12 | tag.vid;
        frame.extend(tag.tpid.to_be_bytes());
        frame.extend(tci.to_be_bytes());
    }
    frame.extend(types);
    frame.extend(payload);
    frame
}

/// Transmits and returns the frames of each port.
fn sent(lab: &mut Lab) -> Vec<Vec<Vec<u8>>> {
    let ports = lab.with_kernel.len();
    (0..ports).for_each(|port| lab.transmit(port, usize::MAX));
    let bytes = |lab: &Lab, port: usize| {
        let frames = lab.with_kernel[port].iter();
        frames.map(|out| lab.memory.all(&out.frame, out.len.into()).to_vec()).collect()
    };
    let sent = (0..ports).map(|port| bytes(lab, port)).collect();
    (0..ports).for_each(|port| lab.complete(port, usize::MAX));
    sent
}

/// Returns the tags of a frame as text, outermost first: type, PCP, DEI, VID.
fn words(frame: &[u8]) -> String {
    let header = Header::parse(frame).expect("a whole header");
    let word = |tag: Tag| {
        let kind = if tag.tpid == VLAN { "C" } else { "S" };
        let dei = if tag.dei { "d" } else { "" };
        format!("{kind}{}.{}{dei}", tag.vid, tag.pcp)
    };
    let mut words: Vec<String> = [header.outer, header.inner].into_iter().flatten().map(word).collect();
    if header.ethertype == VLAN {
        words.push("+".to_owned());
    }
    if words.is_empty() { "untagged".to_owned() } else { words.join(" ") }
}

/// All port types: each frame is received on each of them, and the frames sent on the others are
/// listed. The port priority is 2.
#[test]
fn port_kinds_and_tags() {
    let kinds = [
        ("access 10", access(10)),
        ("access 20", access(20)),
        ("trunk 10,20 pvid 10", trunk(Some(10), &[10, 20])),
        ("trunk 10,20", trunk(None, &[10, 20])),
        ("trunk 20,30 pvid 20", trunk(Some(20), &[20, 30])),
    ];
    let service = Tag { tpid: SERVICE_VLAN, ..tag(4, true, 10) };
    let frames: [&[Tag]; 10] = [
        &[],
        &[tag(5, false, 0)],
        &[tag(5, true, 0)],
        &[tag(5, true, 10)],
        &[tag(6, false, 20)],
        &[tag(7, false, 30)],
        &[tag(1, false, 4095)],
        &[service],
        &[service, tag(3, false, 20)],
        &[tag(5, false, 20), tag(3, true, 99)],
    ];
    let vlans: Vec<VlanSettings> = kinds.iter().map(|(_, vlan)| vlan.clone()).collect();
    let mut table = String::new();
    for (port, (kind, _)) in kinds.iter().enumerate() {
        writeln!(table, "in by {kind}:").unwrap();
        for tags in frames {
            let mut settings = switch_of(&vlans);
            settings.ports.iter_mut().for_each(|port| port.classify.port_priority = 2);
            let mut lab = Lab::new(&settings);
            let before = lab.snapshot().ports[port].drops[DropReason::VlanFiltered as usize].frames;
            let came = frame(MacAddr::BROADCAST, mac(100), tags, 0x0806, &[7; 50]);
            lab.arrive_bytes(port, &came);
            let left: Vec<String> = sent(&mut lab)
                .iter()
                .zip(&kinds)
                .flat_map(|(frames, (kind, _))| frames.iter().map(move |frame| (frame, kind)))
                .map(|(frame, kind)| {
                    assert_eq!(
                        (&frame[..12], &frame[frame.len() - 52..]),
                        (&came[..12], &came[came.len() - 52..])
                    );
                    format!("{kind}: {}", words(frame))
                })
                .collect();
            let filtered =
                lab.snapshot().ports[port].drops[DropReason::VlanFiltered as usize].frames - before;
            let out = match (filtered, left.is_empty()) {
                (1, true) => "filtered".to_owned(),
                (0, true) => "no other port has it".to_owned(),
                (0, false) => left.join("; "),
                other => panic!("{other:?}: {left:?}"),
            };
            writeln!(table, "  {:<12} → {out}", words(&came)).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

/// Returns whether a port is a member of a VLAN, from its settings without the switch.
fn has(vlan: &VlanSettings, vid: u16) -> bool {
    match vlan {
        VlanSettings::Transparent => false,
        VlanSettings::Access { pvid } => *pvid == vid,
        VlanSettings::Trunk { allowed, .. } => allowed.iter().any(|allowed| allowed == vid),
    }
}

/// Returns the VLAN of a frame with this tag.
fn vlan_of(vlan: &VlanSettings, tag: Option<u16>) -> Option<u16> {
    let vid = match (vlan, tag) {
        (_, None | Some(0)) => vlan.pvid()?,
        (VlanSettings::Access { .. }, Some(_)) => return None,
        (_, Some(vid)) => vid,
    };
    has(vlan, vid).then_some(vid)
}

fn any_vlan() -> impl Strategy<Value = VlanSettings> {
    let vids = || prop::collection::btree_set(1_u16..6, 1..4);
    prop_oneof![
        (1_u16..6).prop_map(access),
        (vids(), any::<prop::sample::Index>(), any::<bool>()).prop_map(|(vids, which, has_pvid)| {
            let vids: Vec<u16> = vids.into_iter().collect();
            trunk(has_pvid.then(|| vids[which.index(vids.len())]), &vids)
        }),
    ]
}

/// A received frame: port, source, destination (of a few, and the broadcast address), tag.
type Came = (usize, usize, usize, Option<u16>);

fn any_frames() -> impl Strategy<Value = Vec<Came>> {
    let vid = prop_oneof![Just(None), (0_u16..7).prop_map(Some), Just(Some(4095))];
    prop::collection::vec((0_usize..6, 0_usize..5, 0_usize..6, vid), 1..80)
}

proptest! {
    /// With any settings and any frames, learned or flooded: a frame leaves only by ports of its
    /// VLAN, with the tag of that VLAN, or untagged where it is the port's PVID. All other bytes
    /// are unchanged. A broadcast leaves by all ports of the VLAN.
    #[test]
    fn no_frame_crosses_between_vlans(
        vlans in prop::collection::vec(any_vlan(), 2..6),
        others in prop::collection::vec(any_vlan(), 2..6),
        frames in any_frames(),
    ) {
        let mut lab = lab_of(&vlans);
        let mut vlans = vlans;
        for (number, (port, src, dst, vid)) in frames.iter().enumerate() {
            if number == 40 && others.len() == vlans.len() {
                // Other VLANs on the running switch.
                vlans.clone_from(&others);
                lab.switch.apply(&switch_of(&vlans), lab.now);
            }
            let port = port % vlans.len();
            let dst = if *dst == 5 { MacAddr::BROADCAST } else { mac(100 + dst) };
            let tags: Vec<Tag> = vid.map(|vid| tag((number % 8) as u8, number % 3 == 0, vid)).into_iter().collect();
            let came = frame(dst, mac(100 + src), &tags, 0x0806, &[number as u8; 50]);
            lab.arrive_bytes(port, &came);
            let vlan = vlan_of(&vlans[port], *vid);
            let mut left = 0;
            for (out, frames) in sent(&mut lab).iter().enumerate() {
                for sent in frames {
                    left += 1;
                    let header = Header::parse(sent).expect("a whole header");
                    let vid = vlan.expect("what is filtered leaves nowhere");
                    prop_assert!(out != port && has(&vlans[out], vid), "VLAN {vid} by port {out}");
                    let tag = (vlans[out].pvid() != Some(vid)).then_some(vid);
                    prop_assert_eq!(header.outer.map(|tag| tag.vid), tag);
                    if let (Some(sent), Some(came)) = (header.outer, tags.first()) {
                        prop_assert_eq!((sent.pcp, sent.dei), (came.pcp, came.dei));
                    }
                    prop_assert_eq!((header.dst, header.src), (dst, mac(100 + src)));
                    prop_assert_eq!(&sent[header.payload_offset..], &[number as u8; 50]);
                }
            }
            if let (Some(vid), true) = (vlan, dst.is_group()) {
                let members = (0..vlans.len()).filter(|&out| out != port && has(&vlans[out], vid)).count();
                prop_assert_eq!(left, members);
            }
        }
        let seen = lab.snapshot();
        let cells: u32 = seen.ports.iter().flat_map(|port| &port.queues).map(|queue| queue.level.cells).sum();
        prop_assert_eq!((cells, seen.ingress_pools[0].level.cells), (0, 0));
        prop_assert_eq!(lab.memory_free(), lab.frames);
    }
}

/// The same address in two VLANs is behind two ports, and frames of neither VLAN go to the port of
/// the other.
#[test]
fn each_vlan_learns_for_itself() {
    let mut lab = lab_of(&[trunk(None, &[10, 20]), access(10), access(20), trunk(None, &[10, 20])]);
    let from = |src| frame(mac(99), src, &[], 0x0806, &[0; 50]);
    lab.arrive_bytes(1, &from(mac(50)));
    lab.arrive_bytes(2, &from(mac(50)));
    sent(&mut lab);
    for (vid, to) in [(10, 1), (20, 2)] {
        lab.arrive_bytes(0, &frame(mac(50), mac(60), &[tag(0, false, vid)], 0x0806, &[0; 50]));
        let left: Vec<usize> = sent(&mut lab).iter().map(Vec::len).collect();
        let expected: Vec<usize> = (0..4).map(|port| usize::from(port == to)).collect();
        assert_eq!(left, expected, "VLAN {vid}");
    }
    let seen = lab.snapshot();
    assert_eq!(
        (seen.bridge_moves, seen.ports[1].bridge_entries, seen.ports[2].bridge_entries),
        (0, 2, 2),
        "with the host's own"
    );
}

/// A peer's address is in the VLAN of untagged frames; a trunk without one has none.
#[test]
fn the_address_of_a_peer_is_in_the_native_vlan() {
    let mut lab = lab_of(&[trunk(Some(10), &[10, 20]), access(10), access(20), trunk(None, &[10, 20])]);
    for port in 1..4 {
        lab.switch.peer_address(port, mac(50 + port), lab.now);
    }
    for (vid, to, expected) in
        [(10, 51, [0, 1, 0, 0]), (20, 51, [0, 0, 1, 1]), (20, 52, [0, 0, 1, 0]), (10, 53, [0, 1, 0, 1])]
    {
        lab.arrive_bytes(0, &frame(mac(to), mac(60), &[tag(0, false, vid)], 0x0806, &[0; 50]));
        let left: Vec<usize> = sent(&mut lab).iter().map(Vec::len).collect();
        assert_eq!(left, expected, "VLAN {vid} to {to}");
    }
    let mut lab = lab_of(&[VlanSettings::Transparent, VlanSettings::Transparent, VlanSettings::Transparent]);
    lab.switch.peer_address(1, mac(51), lab.now);
    lab.arrive_bytes(0, &frame(mac(51), mac(60), &[], 0x0806, &[0; 50]));
    assert_eq!(sent(&mut lab).iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 0]);
}

/// A frame keeps the cells of its length on receipt, and is counted with its length on
/// transmission: 256 bytes are one cell, 260 two.
#[test]
fn cells_as_it_came_and_bytes_as_it_leaves() {
    let mut lab = lab_of(&[access(10), trunk(None, &[10])]);
    let untagged = frame(mac(99), mac(50), &[], 0x0806, &[1; 242]);
    let before = lab.snapshot().ports[0].received.bytes;
    lab.arrive_bytes(0, &untagged);
    let seen = lab.snapshot();
    assert_eq!((seen.ports[1].queues[2].level.cells, seen.ports[0].received.bytes - before), (1, 256));
    let left = sent(&mut lab);
    assert_eq!(left[1][0].len(), 260);
    assert_eq!(lab.snapshot().ports[1].transmitted.bytes, 260);

    let tagged = frame(mac(50), mac(99), &[tag(0, false, 10)], 0x0806, &[1; 242]);
    lab.arrive_bytes(1, &tagged);
    assert_eq!(lab.snapshot().ports[0].queues[2].level.cells, 2);
    assert_eq!(sent(&mut lab)[0][0], frame(mac(50), mac(99), &[], 0x0806, &[1; 242]));
    let seen = lab.snapshot();
    assert_eq!((seen.ports[0].transmitted.bytes, seen.ports[0].queues[2].level.cells), (256, 0));
}

/// Header edits on transmission are written at the packet's new offset.
#[test]
fn marks_find_the_packet_behind_another_header() {
    let mut settings = switch_of(&[access(10), trunk(None, &[10]), access(10)]);
    for port in &mut settings.ports {
        port.rewrite = RewriteSettings { dot1p: Some([6; 8]), dscp: Some([46; 8]) };
    }
    let mut packet = [0; 46];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&46_u16.to_be_bytes());
    packet[8..10].copy_from_slice(&[64, 17]);
    let checksum = !wire::ones_complement::Sum::default().bytes(&packet[..20]).fold();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    let mut lab = Lab::new(&settings);
    for (port, tags, expected) in [(0, vec![], Some(tag(6, false, 10))), (1, vec![tag(3, false, 10)], None)] {
        lab.arrive_bytes(port, &frame(MacAddr::BROADCAST, mac(50), &tags, IPV4, &packet));
        let left = sent(&mut lab).remove(1 - port).remove(0);
        let header = Header::parse(&left).expect("a whole header");
        assert_eq!((header.outer, ip::dscp(&left, &header)), (expected, Some(46)));
        let ip = wire::ipv4::Packet::parse(&left[header.payload_offset..]).expect("a whole packet");
        assert_eq!(ip.payload(), &packet[20..]);
        let sum = wire::ones_complement::Sum::default().bytes(&left[header.payload_offset..][..20]).fold();
        assert_eq!(sum, 0xffff, "the header's checksum is right");
    }
}

#[test]
fn a_frame_that_has_no_room_for_its_tag_is_dropped_and_counted() {
    let mut lab = lab_of(&[access(10), trunk(None, &[10]), access(10)]);
    lab.switch.set_max_frame(MaxFrame { longest_bytes: 100, ..MaxFrame::MAX });
    for (len, too_long) in [(96, 0), (97, 1), (100, 2)] {
        let came = frame(MacAddr::BROADCAST, mac(50), &[], 0x0806, &vec![1; len - HEADER_BYTES]);
        lab.arrive_bytes(0, &came);
        assert_eq!(sent(&mut lab)[2], [came], "where no tag is put on it leaves");
        assert_eq!(
            lab.snapshot().ports[1].drops[DropReason::MtuExceeded as usize].frames,
            too_long,
            "{len} bytes"
        );
    }
    assert_eq!((lab.snapshot().ports[1].output_dropped.frames, lab.memory_free()), (2, lab.frames));
}

/// The tag of a frame that its queue had no room for is not put on a later frame in its memory.
#[test]
fn a_dropped_frame_leaves_no_tag_behind() {
    let mut settings = switch_of(&[access(10), trunk(None, &[10]), trunk(None, &[10])]);
    settings.ports[1].queues = [lab::queue_of(Threshold::Static(1)); 8];
    let mut lab = Lab::new(&settings);
    let tagged = |dst, src| frame(dst, src, &[tag(0, false, 10)], 0x0806, &[1; 100]);
    lab.arrive_bytes(1, &tagged(MacAddr::BROADCAST, mac(51)));
    sent(&mut lab);
    lab.switch.hold(1, true);
    (0..2).for_each(|_| lab.arrive_bytes(0, &frame(mac(51), mac(50), &[], 0x0806, &[1; 100])));
    lab.switch.hold(1, false);
    assert_eq!(sent(&mut lab)[1], [tagged(mac(51), mac(50))], "the second found the queue full");
    let first = lab.memory.alloc().expect("the memory of the frame that left last");
    let came = tagged(mac(51), mac(52));
    lab.arrive_bytes(2, &came);
    assert_eq!(sent(&mut lab)[1], [came], "in the memory of the second");
    lab.memory.free(first);
}

/// Memory that cannot move a frame to make room for its tag costs the frame, and no other.
#[test]
fn a_frame_whose_memory_has_no_room_for_its_tag_is_dropped() {
    let mut lab = lab_of(&[access(10), trunk(None, &[10]), access(10)]);
    lab.arrive_bytes(1, &frame(MacAddr::BROADCAST, mac(51), &[tag(0, false, 10)], 0x0806, &[1; 100]));
    lab.arrive_bytes(2, &frame(MacAddr::BROADCAST, mac(52), &[], 0x0806, &[1; 100]));
    sent(&mut lab);
    lab.memory.has_room = false;
    lab.arrive_bytes(0, &frame(mac(51), mac(50), &[], 0x0806, &[1; 100]));
    let unchanged = frame(mac(52), mac(50), &[], 0x0806, &[1; 100]);
    lab.arrive_bytes(0, &unchanged);
    assert_eq!(sent(&mut lab), [vec![], vec![], vec![unchanged]]);
    assert_eq!(lab.snapshot().ports[1].drops[DropReason::MtuExceeded as usize].frames, 1);
    assert_eq!(lab.memory_free(), lab.frames);
}

/// The MTU check includes the tag that the frame leaves with, flooded or not.
#[test]
fn a_frame_is_as_long_as_it_leaves() {
    let mut settings = switch_of(&[trunk(None, &[10]), access(10), trunk(None, &[10]), access(10)]);
    for port in &mut settings.ports[1..3] {
        port.mtu_bytes = Some(200);
    }
    let mut lab = Lab::new(&settings);
    let fits = |lab: &mut Lab, port: usize, dst, tags: &[Tag], len: usize| {
        let payload = vec![1; len - HEADER_BYTES - 4 * tags.len()];
        lab.arrive_bytes(port, &frame(dst, mac(50 + port), tags, 0x0806, &payload));
        sent(lab).iter().map(Vec::len).collect::<Vec<_>>()
    };
    // 218 bytes: 14 and a tag on top of the MTU.
    assert_eq!(fits(&mut lab, 0, MacAddr::BROADCAST, &[tag(0, false, 10)], 218), [0, 1, 1, 1]);
    assert_eq!(fits(&mut lab, 0, MacAddr::BROADCAST, &[tag(0, false, 10)], 222), [0, 1, 0, 1]);
    assert_eq!(fits(&mut lab, 0, MacAddr::BROADCAST, &[tag(0, false, 10)], 223), [0, 0, 0, 1]);
    assert_eq!(fits(&mut lab, 3, MacAddr::BROADCAST, &[], 214), [1, 1, 1, 0]);
    assert_eq!(fits(&mut lab, 3, MacAddr::BROADCAST, &[], 215), [1, 1, 0, 0]);
    // The same for a known unicast.
    fits(&mut lab, 1, mac(53), &[], 60);
    fits(&mut lab, 2, mac(53), &[tag(0, false, 10)], 64);
    for (station, longest) in [(51, 222), (52, 218)] {
        let len_of = |len| (longest + len) as usize;
        let to = |lab: &mut Lab, len| {
            let counts = fits(lab, 0, mac(station), &[tag(0, false, 10)], len);
            counts.iter().sum::<usize>()
        };
        assert_eq!((to(&mut lab, len_of(0)), to(&mut lab, len_of(1))), (1, 0), "to {station}");
    }
    let exceeded: Vec<u64> =
        lab.snapshot().ports.iter().map(|port| port.drops[DropReason::MtuExceeded as usize].frames).collect();
    assert_eq!((exceeded, lab.memory_free()), (vec![0, 2, 4, 0], lab.frames));
}

/// A static address is in its VLAN only, and is removed when the settings no longer have it.
#[test]
fn static_addresses_have_a_vlan() {
    let vlans = [trunk(None, &[10, 20]), trunk(None, &[10, 20]), trunk(None, &[10, 20])];
    let mut settings = switch_of(&vlans);
    settings.ports[1].static_addresses = vec![StaticAddress { mac: mac(77), vid: 10 }];
    settings.ports[2].static_addresses = vec![StaticAddress { mac: mac(77), vid: 20 }];
    let mut lab = Lab::new(&settings);
    let to = |lab: &mut Lab, vid: u16| {
        lab.arrive_bytes(0, &frame(mac(77), mac(50), &[tag(0, false, vid)], 0x0806, &[0; 50]));
        sent(lab).iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!((to(&mut lab, 10), to(&mut lab, 20)), (vec![0, 1, 0], vec![0, 0, 1]));
    settings.ports[1].static_addresses.clear();
    lab.switch.apply(&settings, lab.now);
    assert_eq!((to(&mut lab, 10), to(&mut lab, 20)), (vec![0, 1, 1], vec![0, 0, 1]));
}

/// A reload that changes the VLANs of ports flushes learned addresses; any other reload keeps them.
#[test]
fn other_vlans_begin_with_an_empty_table() {
    let mut settings = switch_of(&[access(10), access(10), access(10)]);
    let mut lab = Lab::new(&settings);
    assert_eq!(lab.snapshot().bridge_entries, 3, "its hosts, with their priority tags");
    lab.arrive_bytes(0, &frame(mac(99), mac(50), &[], 0x0806, &[0; 50]));
    lab.switch.apply(&settings, lab.now);
    assert_eq!(lab.snapshot().bridge_entries, 4);
    settings.ports[2].vlan = access(20);
    lab.switch.apply(&settings, lab.now);
    assert_eq!(lab.snapshot().bridge_entries, 0);
    lab.turn();
    lab.arrive_bytes(0, &frame(mac(99), mac(50), &[], 0x0806, &[0; 50]));
    assert_eq!(sent(&mut lab).iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 0]);
    // Back to one transparent bridge.
    settings.ports.iter_mut().for_each(|port: &mut PortSettings| port.vlan = VlanSettings::Transparent);
    lab.switch.apply(&settings, lab.now);
    let came = frame(mac(99), mac(50), &[tag(5, true, 4095)], EXPERIMENTAL, &[9; 50]);
    lab.arrive_bytes(0, &came);
    assert_eq!(sent(&mut lab), [vec![], vec![came.clone()], vec![came]]);
}

/// Row 107: the tag of the frame inside a VXLAN packet is the priority where the port trusts it,
/// and the outermost tag's where the port trusts that. A packet that is not VXLAN, or is truncated,
/// has the port priority.
#[test]
fn the_tag_inside_a_tunnel_counts_where_it_is_trusted() {
    let inner = frame(mac(9), mac(8), &[tag(5, false, 7)], EXPERIMENTAL, &[0; 46]);
    let packet = |udp_port: u16, flags: u8| {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0x80, 0]);
        packet.extend(udp_port.to_be_bytes());
        packet.extend([0; 4]);
        packet.extend([flags, 0, 0, 0, 0, 0, 42, 0]);
        packet.extend(&inner);
        packet
    };
    let whole = packet(4789, 0x08);
    for (trust, payload, priority) in [
        (Trust::TunnelDot1p, &whole[..], 5),
        (Trust::Dot1p, &whole, 2),
        (Trust::TunnelDot1p, &packet(4790, 0x08), 2),
        (Trust::TunnelDot1p, &packet(4789, 0), 2),
        (Trust::TunnelDot1p, &whole[..48], 2), // the tag is cut off
    ] {
        let mut settings = settings(2, 0, 4000, 0);
        (settings.ports[0].classify.trust, settings.ports[0].classify.port_priority) = (trust, 2);
        let mut lab = Lab::new(&settings);
        let before = lab.snapshot().ports[0].groups[priority].received.frames;
        lab.arrive_bytes(0, &frame(mac(1), mac(0), &[], IPV4, payload));
        let after = lab.snapshot().ports[0].groups[priority].received.frames;
        assert_eq!(after, before + 1, "{trust:?}, {} bytes", payload.len());
    }
}
