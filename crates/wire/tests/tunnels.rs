//! Checksums that a Linux sender leaves open inside tunnels, and those of SCTP and GRE. Each test
//! takes a complete frame from etherparse, opens the one checksum that a kernel would leave open,
//! and expects the original frame again, byte for byte.

use etherparse::{IpNumber, PacketBuilder};
use wire::checksum;
use wire::ethernet::{self, Header};
use wire::ip::DsField;
use wire::ones_complement::Sum;

const ETHERNET: u16 = 0x6558;
const ADDRESSES: ([u8; 4], [u8; 4]) = ([10, 0, 0, 1], [10, 0, 0, 2]);
const OUTER: ([u8; 4], [u8; 4]) = ([192, 0, 2, 1], [192, 0, 2, 2]);

fn finish(frame: &mut [u8]) -> bool {
    let header = Header::parse(frame).unwrap();
    DsField::find(frame, &header).is_some_and(|field| checksum::complete_transport(frame, field))
}

/// An IP packet of `version` with TCP or UDP, checksum included.
fn inner(version: u8, tcp: bool) -> Vec<u8> {
    let mut packet = Vec::new();
    let payload: Vec<u8> = (0..99_u8).map(|n| n.wrapping_mul(5)).collect();
    let builder = if version == 4 {
        PacketBuilder::ipv4(ADDRESSES.0, ADDRESSES.1, 64)
    } else {
        PacketBuilder::ipv6([1; 16], [2; 16], 64)
    };
    if tcp {
        builder.tcp(1, 2, 3, 4).write(&mut packet, &payload).unwrap();
    } else {
        builder.udp(1, 2).write(&mut packet, &payload).unwrap();
    }
    packet
}

/// Returns the offset of the checksum in such a packet, and the sum of its pseudo header, in bytes.
fn open_field(packet: &[u8], tcp: bool) -> (usize, [u8; 2]) {
    let (addresses, header_bytes) =
        if packet[0] >> 4 == 4 { (&packet[12..20], 20) } else { (&packet[8..40], 40) };
    let pseudo = Sum::default().bytes(addresses).number(if tcp { 6 } else { 17 });
    let pseudo = pseudo.number((packet.len() - header_bytes) as u16).fold();
    (header_bytes + if tcp { 16 } else { 6 }, pseudo.to_be_bytes())
}

/// The packet behind an Ethernet header.
fn ethernet(packet: &[u8], tagged: bool) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 4 { ethernet::IPV4 } else { ethernet::IPV6 };
    let mut frame = [[2; 6], [4; 6]].concat();
    if tagged {
        frame.extend([0x81, 0, 0x60, 7]);
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(packet);
    frame
}

/// A frame of IP of `version` that carries `protocol`.
fn ip_frame(version: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([6; 6], [8; 6]);
    if version == 4 {
        let builder = builder.ipv4(OUTER.0, OUTER.1, 64);
        builder.write(&mut frame, IpNumber(protocol), payload).unwrap();
    } else {
        let builder = builder.ipv6([3; 16], [4; 16], 64);
        builder.write(&mut frame, IpNumber(protocol), payload).unwrap();
    }
    frame
}

/// A frame of UDP to `port`, with its checksum, or with none.
fn udp_frame(version: u8, port: u16, payload: &[u8], checksum: bool) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([6; 6], [8; 6]);
    let at = if version == 4 {
        builder.ipv4(OUTER.0, OUTER.1, 64).udp(50_000, port).write(&mut frame, payload).unwrap();
        14 + 20 + 6
    } else {
        builder.ipv6([3; 16], [4; 16], 64).udp(50_000, port).write(&mut frame, payload).unwrap();
        14 + 40 + 6
    };
    if !checksum {
        frame[at..at + 2].fill(0);
    }
    frame
}

/// GRE's header with these optional fields, and its checksum.
fn gre(carried: u16, payload: &[u8], checksum: bool, key: bool, sequence: bool) -> Vec<u8> {
    let flags = u16::from(checksum) << 15 | u16::from(key) << 13 | u16::from(sequence) << 12;
    let mut packet = [flags.to_be_bytes(), carried.to_be_bytes()].concat();
    for (is_there, value) in [(checksum, 0_u32), (key, 0x0102_0304), (sequence, 77)] {
        packet.extend(is_there.then(|| value.to_be_bytes()).into_iter().flatten());
    }
    packet.extend(payload);
    if checksum {
        let sum = !Sum::default().bytes(&packet).fold();
        packet[4..6].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

fn vxlan(inside: &[u8]) -> Vec<u8> {
    [&[0x08, 0, 0, 0, 0, 0, 42, 0], inside].concat()
}

fn vxlan_gpe(kind: u8, inside: &[u8]) -> Vec<u8> {
    [&[0x0c, 0, 0, kind, 0, 0, 42, 0], inside].concat()
}

fn geneve(carried: u16, options: usize, inside: &[u8]) -> Vec<u8> {
    let [high, low] = carried.to_be_bytes();
    [&[options as u8, 0, high, low, 0, 0, 42, 0], &vec![9; options * 4][..], inside].concat()
}

/// The number of a packet's protocol in IP, and in Ethernet.
fn numbers(packet: &[u8]) -> (u8, u16, u8) {
    if packet[0] >> 4 == 4 { (4, ethernet::IPV4, 1) } else { (41, ethernet::IPV6, 2) }
}

/// Every encapsulation of a packet in every tunnel over IP of this version, with a name.
fn tunnels(version: u8, packet: &[u8]) -> Vec<(String, Vec<u8>)> {
    let (protocol, ethertype, gpe) = numbers(packet);
    let (plain, tagged) = (ethernet(packet, false), ethernet(packet, true));
    let mut all = vec![("IP in IP".to_string(), ip_frame(version, protocol, packet))];
    for bits in 0..8 {
        let of = |carried, inside: &[u8]| gre(carried, inside, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        all.push((format!("GRE {bits}"), ip_frame(version, 47, &of(ethertype, packet))));
        all.push((format!("GRE {bits} of Ethernet"), ip_frame(version, 47, &of(ETHERNET, &tagged))));
    }
    for checksum in [false, true] {
        let mut over_udp = |name: &str, port, payload: &[u8]| {
            let name = format!("{name} on {port}, checksum {checksum}");
            all.push((name, udp_frame(version, port, payload, checksum)));
        };
        over_udp("VXLAN", 4789, &vxlan(&plain));
        over_udp("VXLAN", 8472, &vxlan(&tagged));
        over_udp("VXLAN-GPE of IP", 4790, &vxlan_gpe(gpe, packet));
        over_udp("VXLAN-GPE of Ethernet", 4790, &vxlan_gpe(3, &plain));
        over_udp("GENEVE of Ethernet", 6081, &geneve(ETHERNET, 0, &plain));
        over_udp("GENEVE of IP with options", 6081, &geneve(ethertype, 3, packet));
        let twice = udp_frame(4, 4789, &vxlan(&plain), checksum);
        over_udp("VXLAN in VXLAN", 4789, &vxlan(&twice));
    }
    all
}

/// The inner checksum is open and the outer ones are computed as if it were not: as a kernel sends
/// it.
#[test]
fn what_is_open_inside_a_tunnel_is_finished_and_nothing_else_changes() {
    let mut tried = 0;
    for (outer, version, tcp) in [(4, 4, true), (4, 6, true), (6, 4, true), (6, 6, true), (4, 4, false)] {
        let packet = inner(version, tcp);
        let (at, pseudo) = open_field(&packet, tcp);
        for (name, whole) in tunnels(outer, &packet) {
            let begins = whole.windows(packet.len()).position(|window| window == packet).unwrap();
            let mut frame = whole.clone();
            assert!(!finish(&mut frame), "{name}: nothing is open");
            assert_eq!(frame, whole, "{name}: nothing is open");
            frame[begins + at..begins + at + 2].copy_from_slice(&pseudo);
            frame.extend([0xa5; 7]); // Ethernet padding
            assert!(finish(&mut frame), "{name} over IPv{outer}, inside IPv{version}");
            assert_eq!(frame[..whole.len()], whole, "{name} over IPv{outer}, inside IPv{version}");
            assert_eq!(frame[whole.len()..], [0xa5; 7]);
            tried += 1;
        }
    }
    assert_eq!(tried, 5 * (1 + 16 + 14));
}

/// The inner packet needs no checksum offload (ARP, ping), so the tunnel's own checksum is the one
/// that is left open.
#[test]
fn the_open_checksum_of_a_tunnel_itself_is_finished() {
    let packet = inner(4, true);
    let whole = udp_frame(4, 4789, &vxlan(&ethernet(&packet, false)), true);
    let (at, pseudo) = open_field(&whole[14..], false);
    let mut frame = whole.clone();
    frame[14 + at..14 + at + 2].copy_from_slice(&pseudo);
    assert!(finish(&mut frame));
    assert_eq!(frame, whole);

    let whole = ip_frame(6, 47, &gre(ethernet::IPV4, &packet, true, true, false));
    let mut frame = whole.clone();
    frame[14 + 40 + 4..14 + 40 + 6].fill(0);
    assert!(finish(&mut frame));
    assert_eq!(frame, whole);
    // Both at once: the inner one first, since GRE's covers it.
    let (at, pseudo) = open_field(&packet, true);
    let begins = frame.len() - packet.len();
    frame[14 + 40 + 4..14 + 40 + 6].fill(0);
    frame[begins + at..begins + at + 2].copy_from_slice(&pseudo);
    assert!(finish(&mut frame));
    assert_eq!(frame, whole);
}

/// An SCTP packet whose checksum is 0: the common header of an INIT and some bytes behind it.
fn sctp_open() -> Vec<u8> {
    let mut packet = [&[0x30, 0x39, 0x30, 0x3a, 0, 0, 0, 1, 0, 0, 0, 0][..], &[7; 20]].concat();
    packet[13] = 0;
    packet
}

/// CRC-32C one bit at a time (RFC 9260, appendix A), as it is written into a packet.
fn crc_by_bits(bytes: &[u8]) -> [u8; 4] {
    let mut crc = !0_u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 != 0 { 0x82f6_3b78 } else { 0 };
        }
    }
    (!crc).to_le_bytes()
}

#[test]
fn sctp_is_finished_where_no_other_checksum_covers_it() {
    assert_eq!(crc_by_bits(b"123456789"), 0xe306_9283_u32.to_le_bytes(), "the CRC's check value");
    let open = sctp_open();
    let crc = crc_by_bits(&open);
    for version in [4, 6] {
        let mut frame = ip_frame(version, 132, &open);
        let at = frame.len() - open.len() + 8;
        let mut whole = frame.clone();
        whole[at..at + 4].copy_from_slice(&crc);
        assert!(finish(&mut frame));
        assert_eq!(frame, whole);
        assert!(!finish(&mut frame), "once");
    }
    let mut packet = Vec::new();
    PacketBuilder::ipv4(ADDRESSES.0, ADDRESSES.1, 64).write(&mut packet, IpNumber(132), &open).unwrap();
    for (name, frame) in tunnels(4, &packet) {
        // A GRE or UDP checksum around it would be wrong afterwards.
        let is_covered = name.contains("checksum true") || name.contains("GRE") && odd(&name);
        let mut finished = frame.clone();
        assert_eq!(finish(&mut finished), !is_covered, "{name}");
        let tail = finished.len() - open.len() + 8;
        assert_eq!(finished[tail..tail + 4], if is_covered { [0; 4] } else { crc }, "{name}");
    }
}

/// True if the first number in `name` is odd.
fn odd(name: &str) -> bool {
    name.split(' ').find_map(|word| word.parse::<u32>().ok()).is_some_and(|bits| bits % 2 == 1)
}

#[test]
fn what_is_no_tunnel_or_not_ours_to_finish_is_left_alone() {
    let mut packet = inner(4, true);
    let (at, pseudo) = open_field(&packet, true);
    packet[at..at + 2].copy_from_slice(&pseudo);
    let plain = ethernet(&packet, false);
    let mut fragment = packet.clone();
    fragment[6] = 0x20; // more fragments
    let mut remote = vxlan(&plain);
    remote[1] = 0x20;
    let mut without_vni = vxlan(&plain);
    without_vni[0] = 0;
    let (mut gpe_without_vni, mut gpe_without_type) = (vxlan_gpe(3, &plain), vxlan_gpe(3, &plain));
    (gpe_without_vni[0], gpe_without_type[0]) = (0x04, 0x08);
    let mut pptp = gre(ethernet::IPV4, &packet, false, true, false);
    pptp[1] |= 1;
    let mut routed = gre(ethernet::IPV4, &packet, false, true, false);
    routed[0] |= 0x40;
    let mut later = geneve(ethernet::IPV4, 0, &packet);
    later[0] = 0x40;
    let mut deep = packet.clone();
    for _ in 0..=checksum::MAX_NESTED {
        deep = ip_frame(4, 4, &deep)[14..].to_vec();
    }
    for (what, frame) in [
        ("another port", udp_frame(4, 4788, &vxlan(&plain), false)),
        ("VXLAN with remote checksum offload", udp_frame(4, 4789, &remote, false)),
        ("VXLAN without VNI", udp_frame(4, 4789, &without_vni, false)),
        ("VXLAN-GPE of a type unknown", udp_frame(4, 4790, &vxlan_gpe(4, &packet), false)),
        ("VXLAN-GPE without VNI", udp_frame(4, 4790, &gpe_without_vni, false)),
        ("VXLAN-GPE without a next protocol", udp_frame(4, 4790, &gpe_without_type, false)),
        ("GENEVE of a later version", udp_frame(4, 6081, &later, false)),
        ("a fragment inside", ip_frame(4, 4, &fragment)),
        ("PPTP", ip_frame(4, 47, &pptp)),
        ("GRE with routing", ip_frame(4, 47, &routed)),
        ("too deep", ethernet(&deep, false)),
        ("the wrong version inside", ip_frame(4, 41, &packet)),
    ] {
        let mut finished = frame.clone();
        assert!(!finish(&mut finished), "{what}");
        assert_eq!(finished, frame, "{what}");
    }
    // One level less is not too deep.
    assert!(finish(&mut ethernet(&deep[20..], false)));
}

/// (change of the packet) → the tag inside, as PCP · 2 + DEI. The outer IPv4 header has 20 bytes.
#[test]
fn the_tag_inside_vxlan() {
    use wire::ip::Version::{V4, V6};
    use wire::tunnel::vxlan_inner_tag;
    type Change = fn(&mut Vec<u8>);
    let unchanged: Change = |_| ();
    let mut tagged = ethernet(&inner(4, true), true);
    tagged[14] = 0xb0; // PCP 5, DEI
    let packet = |version, port, inside: &[u8]| udp_frame(version, port, &vxlan(inside), true)[14..].to_vec();
    let untagged = ethernet(&inner(4, true), false);
    for (what, version, mut packet, change, tag) in [
        ("VXLAN over IPv4", V4, packet(4, 4789, &tagged), unchanged, Some(11)),
        ("on Linux' port", V4, packet(4, 8472, &tagged), unchanged, Some(11)),
        ("over IPv6", V6, packet(6, 4789, &tagged), unchanged, Some(11)),
        ("without a tag", V4, packet(4, 4789, &untagged), unchanged, None),
        ("on another port", V4, packet(4, 4790, &tagged), unchanged, None),
        ("without VNI", V4, packet(4, 4789, &tagged), |packet| packet[28] = 0xf7, None),
        ("the first fragment", V4, packet(4, 4789, &tagged), |packet| packet[6] = 0x20, None),
        ("a later fragment", V4, packet(4, 4789, &tagged), |packet| packet[7] = 1, None),
        ("not to be fragmented", V4, packet(4, 4789, &tagged), |packet| packet[6] = 0x40, Some(11)),
        ("TCP over IPv4", V4, packet(4, 4789, &tagged), |packet| packet[9] = 6, None),
        ("TCP over IPv6", V6, packet(6, 4789, &tagged), |packet| packet[6] = 6, None),
        (
            "IPv4 options",
            V4,
            packet(4, 4789, &tagged),
            |packet| {
                packet[0] = 0x46;
                packet.splice(20..20, [1; 4]);
            },
            Some(11),
        ),
        ("cut off", V4, packet(4, 4789, &tagged)[..20 + 8 + 8 + 13].to_vec(), unchanged, None),
    ] {
        change(&mut packet);
        assert_eq!(vxlan_inner_tag(&packet, version), tag, "{what}");
    }
    // UDP is where the length field says.
    let mut short = packet(4, 4789, &tagged);
    short.drain(16..20);
    short[0] = 0x44;
    assert_eq!(vxlan_inner_tag(&short, V4), None, "a header of 16 bytes");
}

/// Each frame is cut off at each byte, with its lengths corrected or not: nothing panics, and
/// nothing behind the end is written.
#[test]
fn frames_that_are_cut_off_do_no_harm() {
    for version in [4, 6] {
        for (_, whole) in tunnels(version, &inner(version, true)) {
            for end in 14..whole.len() {
                let mut frame = whole[..end].to_vec();
                finish(&mut frame);
                let length = if version == 4 { end - 14 } else { end.saturating_sub(54) } as u16;
                let at = if version == 4 { 16 } else { 18 };
                if let Some(field) = frame.get_mut(at..at + 2) {
                    field.copy_from_slice(&length.to_be_bytes());
                    finish(&mut frame);
                }
            }
        }
    }
}
