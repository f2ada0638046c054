//! LLDP frames byte by byte, and every way in which they may be malformed.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::MacAddr;
use wire::lldp::organization::{OUI_802_1, OUI_802_3, Standard};
use wire::lldp::{Capabilities, ChassisId, LldpError, Lldpdu, ManagementAddress, OrgTlv, PortId, decode};

const SRC: MacAddr = MacAddr([0x02, 0x53, 0x4c, 0x55, 0x43, 0x45]);

/// The Ethernet header of all frames.
const HEADER: [u8; 14] = [0x01, 0x80, 0xc2, 0, 0, 0x0e, 0x02, 0x53, 0x4c, 0x55, 0x43, 0x45, 0x88, 0xcc];
/// Chassis 02:53:4c:55:43:45, port `p1`, TTL 121.
const MANDATORY: [u8; 18] = [2, 7, 4, 0x02, 0x53, 0x4c, 0x55, 0x43, 0x45, 4, 3, 5, b'p', b'1', 6, 2, 0, 121];

fn frame(tlvs: &[u8]) -> Vec<u8> {
    [&HEADER[..], &MANDATORY, tlvs].concat()
}

fn whole() -> Lldpdu {
    let mut lldpdu = Lldpdu::new(ChassisId::mac(SRC), PortId::interface("p1"), 121);
    lldpdu.port_description = Some("to srv1".to_owned());
    lldpdu.system_name = Some("sw1".to_owned());
    lldpdu.system_description = Some("Sluice".to_owned());
    let bridge = Capabilities::BRIDGE;
    lldpdu.capabilities = Some(Capabilities { system: bridge | Capabilities::STATION, enabled: bridge });
    lldpdu.management.push(ManagementAddress {
        family: 1,
        address: vec![192, 0, 2, 1],
        interface_subtype: 2,
        interface: 7,
        oid: vec![],
    });
    let standard = [Standard::PortVlan(10), Standard::MaxFrameSize(9216), Standard::NO_LINK_AGGREGATION];
    lldpdu.organization.extend(standard.map(Standard::to_tlv));
    lldpdu
}

#[test]
fn a_frame_byte_by_byte() {
    let encoded = whole().encode(SRC);
    let expected = frame(
        &[
            &[0xfe, 6, 0, 0x80, 0xc2, 1, 0, 10][..],
            &[0xfe, 6, 0, 0x12, 0x0f, 4, 0x24, 0],
            &[0xfe, 9, 0, 0x80, 0xc2, 7, 0, 0, 0, 0, 0],
            &[14, 4, 0, 0x84, 0, 0x04],
            &[16, 12, 5, 1, 192, 0, 2, 1, 2, 0, 0, 0, 7, 0],
            &[8, 7, b't', b'o', b' ', b's', b'r', b'v', b'1'],
            &[10, 3, b's', b'w', b'1'],
            &[12, 6, b'S', b'l', b'u', b'i', b'c', b'e'],
            &[0, 0],
        ]
        .concat(),
    );
    assert_eq!(encoded.frame, expected);
    assert_eq!(encoded.omitted_tlvs, 0);
    assert_eq!(decode(&encoded.frame), Ok((SRC, whole())));
}

#[test]
fn a_shutdown_frame_is_padded() {
    let encoded = Lldpdu::new(ChassisId::mac(SRC), PortId::interface("p1"), 0).encode(SRC);
    assert_eq!(encoded.frame.len(), 60);
    assert_eq!(encoded.frame[28..32], [6, 2, 0, 0]);
    assert_eq!(encoded.frame[32..], [0; 28]);
    assert_eq!(decode(&encoded.frame).unwrap().1.ttl_s, 0);
}

/// The End TLV may be missing, and what follows it is padding.
#[test]
fn the_end_tlv_is_optional_and_hides_what_follows() {
    assert!(decode(&frame(&[])).is_ok());
    assert!(decode(&frame(&[0, 0, 0xff, 0xff, 0xff])).is_ok());
    assert_eq!(decode(&frame(&[0, 1, 0])), Err(LldpError::Length { kind: 0, len: 1 }));
}

#[test]
fn other_frames_are_refused() {
    for (at, byte, error) in [
        (5, 0x00, LldpError::WrongDestination),
        (5, 0x03, LldpError::WrongDestination),
        (12, 0x81, LldpError::WrongType),
    ] {
        let mut other = frame(&[]);
        other[at] = byte;
        assert_eq!(decode(&other), Err(error), "byte {at} is {byte:#x}");
    }
}

/// At the boundary of a TLV the frame is read, as the End TLV may be missing; everywhere else a
/// truncated frame is refused.
#[test]
fn a_frame_that_is_cut_off_is_refused_at_every_length() {
    let frame = whole().encode(SRC).frame;
    let mut boundaries = vec![HEADER.len()];
    while *boundaries.last().unwrap() < frame.len() {
        let at = *boundaries.last().unwrap();
        let len = usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]) & 0x1ff);
        boundaries.push(at + 2 + len);
    }
    for len in 0..frame.len() {
        let at = boundaries.iter().filter(|boundary| **boundary <= len).count();
        let is_boundary = boundaries.contains(&len);
        let result = decode(&frame[..len]);
        match at {
            0 => assert_eq!(result, Err(LldpError::NoHeader), "{len}"),
            1..=3 if is_boundary => {
                let error = LldpError::Order { expected: at as u8, found: 0 };
                assert_eq!(result, Err(error), "{len}");
            }
            _ if is_boundary => assert!(result.is_ok(), "{len}"),
            _ => assert!(matches!(result, Err(LldpError::Truncated { .. })), "{len}: {result:?}"),
        }
    }
}

#[test]
fn mandatory_tlvs_come_first_and_once() {
    let chassis = &MANDATORY[..9];
    let port = &MANDATORY[9..14];
    let ttl = &MANDATORY[14..];
    for (tlvs, error) in [
        (vec![port, chassis, ttl], LldpError::Order { expected: 1, found: 2 }),
        (vec![chassis, ttl, port], LldpError::Order { expected: 2, found: 3 }),
        (vec![chassis, port, &[10, 1, b'x'], ttl], LldpError::Order { expected: 3, found: 5 }),
        (vec![chassis, chassis, port, ttl], LldpError::Order { expected: 2, found: 1 }),
        (vec![&[0, 0]], LldpError::Order { expected: 1, found: 0 }),
        (vec![chassis, port, ttl, chassis], LldpError::Repeated { kind: 1 }),
        (vec![chassis, port, ttl, port], LldpError::Repeated { kind: 2 }),
        (vec![chassis, port, ttl, &[10, 1, b'x'], ttl], LldpError::Repeated { kind: 3 }),
    ] {
        let bytes = [&HEADER[..], &tlvs.concat()].concat();
        assert_eq!(decode(&bytes), Err(error), "{tlvs:?}");
    }
}

/// Lengths that a TLV of the basic set may have; all others are refused by name.
#[test]
fn every_length_of_the_basic_tlvs() {
    let mandatory = |kind: u8, value: &[u8]| {
        let tlv = [&[kind << 1 | (value.len() >> 8) as u8, value.len() as u8][..], value].concat();
        let parts = [&MANDATORY[..9], &MANDATORY[9..14], &MANDATORY[14..]];
        let parts = (1..=3).zip(parts).map(|(of, part)| if of == kind { &tlv[..] } else { part });
        decode(&[&HEADER[..], &parts.collect::<Vec<_>>().concat()].concat())
    };
    let optional = |kind: u8, value: &[u8]| {
        let header = [kind << 1 | (value.len() >> 8) as u8, value.len() as u8];
        decode(&frame(&[&header[..], value].concat()))
    };
    for len in 0..=511_usize {
        let (local, mac, text) = (vec![7; len], vec![4; len], vec![b'x'; len]);
        let check = |kind: u8, result: Result<(MacAddr, Lldpdu), LldpError>, is_valid: bool| {
            let expected = (!is_valid).then_some(LldpError::Length { kind, len: len as u16 });
            assert_eq!(result.err(), expected, "type {kind}, length {len}");
        };
        check(1, mandatory(1, &local), (2..=256).contains(&len));
        check(1, mandatory(1, &mac), len == 7);
        check(2, mandatory(2, &local), (2..=256).contains(&len));
        check(2, mandatory(2, &[3].repeat(len)), len == 7);
        check(3, mandatory(3, &local), len >= 2);
        for kind in 4..=6 {
            check(kind, optional(kind, &text), len <= 255);
        }
        check(7, optional(7, &text), len == 4);
        // Of an IPv4 address without an object identifier.
        let mut address = vec![5, 1, 192, 0, 2, 1, 2, 0, 0, 0, 7, 0];
        address.resize(len, 0);
        check(8, optional(8, &address), len == 12);
        check(127, optional(127, &text), len >= 4);
        assert_eq!(optional(9, &text).unwrap().1.reserved_tlvs, 1, "a reserved type, length {len}");
    }
}

/// The lengths inside a management address contradict the TLV's, or are out of range.
#[test]
fn lengths_inside_a_management_address() {
    let rest = [2, 0, 0, 0, 7];
    for (address_len, address, oid_len, oid, is_valid) in [
        (5, 5, 0, 0, true),
        (1, 1, 0, 0, false),
        (2, 2, 0, 0, true),
        (32, 32, 128, 128, true),
        (33, 33, 0, 0, false),
        (5, 5, 129, 129, false),
        (5, 5, 1, 0, false),
        (5, 5, 0, 1, false),
        (0, 0, 0, 0, false),
        (255, 5, 0, 0, false),
    ] {
        let value = [&[address_len][..], &vec![1; address], &rest, &[oid_len], &vec![6; oid]].concat();
        let tlv = [&[16, value.len() as u8][..], &value].concat();
        assert_eq!(decode(&frame(&tlv)).is_ok(), is_valid, "{address_len} {address} {oid_len} {oid}");
    }
}

#[test]
fn optional_tlvs_come_once_except_management_addresses() {
    let address = [16, 12, 5, 1, 192, 0, 2, 1, 2, 0, 0, 0, 7, 0];
    let two = decode(&frame(&address.repeat(2))).unwrap().1;
    assert_eq!(two.management.len(), 2);
    assert_eq!(two.management[0].to_string(), "192.0.2.1");
    for (kind, tlv) in [(4, &[8, 1, b'a'][..]), (5, &[10, 0]), (6, &[12, 0]), (7, &[14, 4, 0, 4, 0, 4])] {
        assert_eq!(decode(&frame(&tlv.repeat(2))).err(), Some(LldpError::Repeated { kind }));
    }
}

#[test]
fn organizational_tlvs_have_one_length() {
    let tlv = |oui, subtype, value: &[u8]| OrgTlv { oui, subtype, value: value.to_vec() }.standard();
    for len in 0..=507_usize {
        let bytes = vec![1; len];
        for (oui, subtype, expected_len, expected) in [
            (OUI_802_1, 1, 2, Standard::PortVlan(0x101)),
            (OUI_802_3, 4, 2, Standard::MaxFrameSize(0x101)),
            (OUI_802_1, 7, 5, Standard::LinkAggregation { status: 1, port: 0x0101_0101 }),
            (OUI_802_3, 3, 5, Standard::LinkAggregation { status: 1, port: 0x0101_0101 }),
        ] {
            let expected = if len == expected_len {
                Ok(expected)
            } else {
                Err(LldpError::OrgLength { oui, subtype, len: len as u16 })
            };
            assert_eq!(tlv(oui, subtype, &bytes), Some(expected));
        }
    }
    assert_eq!(tlv(OUI_802_1, 3, &[0; 8]), None);
}

/// Control characters would reach the terminal of a person who looks at the neighbors.
#[test]
fn text_is_safe_to_print() {
    let decoded = decode(&frame(&[10, 5, b'a', 0x1b, b'[', 0xff, b'b'])).unwrap().1;
    assert_eq!(decoded.system_name.as_deref(), Some("a\u{fffd}[\u{fffd}b"));
    let port = PortId { subtype: 7, id: b"x\n".to_vec() };
    assert_eq!(port.to_string(), "x\u{fffd}");
    let chassis = ChassisId { subtype: 5, id: [&[2][..], &[0; 15], &[1]].concat() };
    assert_eq!(chassis.to_string(), "::1");
    assert_eq!(ChassisId::mac(SRC).to_string(), "02:53:4c:55:43:45");
}

/// An identifier is an address only where its subtype says so.
#[test]
fn identifiers_as_text() {
    for (subtype, id, text) in [
        (7, &b"switch"[..], "switch"), // as long as a MAC address
        (5, &[1, 192, 0, 2, 1], "192.0.2.1"),
        (5, &[6, 2, 0x53, 0x4c, 0x55, 0x43, 0x45], "02:53:4c:55:43:45"),
        (5, &[1, 192, 0, 2], "c0:00:02"),
        (5, &[16, 0xab, 0xcd], "ab:cd"),
    ] {
        assert_eq!(ChassisId { subtype, id: id.to_vec() }.to_string(), text);
    }
    let names = |name: &dyn Fn(u8) -> &'static str| (0..=8).map(name).collect::<Vec<_>>();
    assert_eq!(
        names(&|subtype| ChassisId { subtype, id: vec![] }.type_name()),
        ["unhandled", "component", "ifalias", "port", "mac", "ip", "ifname", "local", "unhandled"]
    );
    assert_eq!(
        names(&|subtype| PortId { subtype, id: vec![] }.type_name()),
        ["unhandled", "ifalias", "component", "mac", "ip", "ifname", "circuit", "local", "unhandled"]
    );
}

#[test]
fn capabilities_have_names() {
    let names: Vec<_> = whole().capabilities.unwrap().names().collect();
    assert_eq!(names, [("Bridge", true), ("Station", false)]);
}

/// What does not fit is omitted and counted, text before anything else.
#[test]
fn a_frame_never_exceeds_the_payload_of_ethernet() {
    let mut lldpdu = whole();
    lldpdu.organization = vec![OrgTlv { oui: OUI_802_1, subtype: 99, value: vec![1; 507] }; 2];
    lldpdu.system_name = Some("é".repeat(200));
    lldpdu.system_description = Some("x".repeat(400));
    let encoded = lldpdu.encode(SRC);
    assert_eq!(encoded.omitted_tlvs, 1);
    assert!(encoded.frame.len() <= 14 + 1500);
    let decoded = decode(&encoded.frame).unwrap().1;
    assert_eq!(decoded.system_name, Some("é".repeat(127)));
    assert_eq!(decoded.system_description, None);
}

/// 18 bytes of mandatory TLVs and 2 of the End TLV leave 1480: twice 513, and 454 with its header.
#[test]
fn the_last_byte_of_the_payload_is_used() {
    let tlv = |bytes| OrgTlv { oui: OUI_802_1, subtype: 99, value: vec![1; bytes] };
    for (bytes, frame_bytes, omitted_tlvs) in [(448, 1514, 0), (449, 1514 - 454, 1)] {
        let mut lldpdu = Lldpdu::new(ChassisId::mac(SRC), PortId::interface("p1"), 121);
        lldpdu.organization = vec![tlv(507), tlv(507), tlv(bytes)];
        let encoded = lldpdu.encode(SRC);
        assert_eq!((encoded.frame.len(), encoded.omitted_tlvs), (frame_bytes, omitted_tlvs), "{bytes}");
    }
}

#[test]
fn errors_name_the_tlv() {
    let names = [
        (0, "End"),
        (1, "Chassis ID"),
        (2, "Port ID"),
        (3, "TTL"),
        (4, "Port Description"),
        (5, "System Name"),
        (6, "System Description"),
        (7, "System Capabilities"),
        (8, "Management Address"),
        (9, "reserved"),
        (127, "organizationally specific"),
    ];
    for (kind, name) in names {
        assert_eq!(LldpError::Repeated { kind }.to_string(), format!("a second {name} TLV"));
    }
    let errors = [
        LldpError::NoHeader,
        LldpError::WrongType,
        LldpError::WrongDestination,
        LldpError::Truncated { kind: 0 },
        LldpError::Truncated { kind: 5 },
        LldpError::Order { expected: 1, found: 2 },
        LldpError::Repeated { kind: 3 },
        LldpError::Length { kind: 7, len: 3 },
        LldpError::OrgLength { oui: OUI_802_1, subtype: 1, len: 3 },
    ];
    let texts: Vec<String> = errors.iter().map(LldpError::to_string).collect();
    assert_eq!(
        texts,
        [
            "no Ethernet header",
            "not an untagged LLDP frame",
            "not to the nearest bridge",
            "a TLV header is cut off",
            "the System Name TLV is cut off",
            "the Port ID TLV is where Chassis ID must be",
            "a second TTL TLV",
            "the System Capabilities TLV has length 3",
            "TLV 00-80-c2/1 has length 7",
        ]
    );
}

proptest! {
    /// No bytes make the reader panic or loop, and what it reads it can write and read again.
    #[test]
    fn any_bytes_are_read_or_refused(tlvs in vec(any::<u8>(), 0..200), with_mandatory: bool) {
        let bytes = if with_mandatory { frame(&tlvs) } else { [&HEADER[..], &tlvs].concat() };
        if let Ok((src, lldpdu)) = decode(&bytes) {
            let encoded = lldpdu.encode(src);
            let again = decode(&encoded.frame).expect("what was written can be read").1;
            prop_assert_eq!(again.organization, lldpdu.organization);
            prop_assert_eq!(again.chassis, lldpdu.chassis);
        }
    }
}

/// A flipped bit in a TLV is refused, or read as something else.
#[test]
fn no_flipped_bit_makes_the_reader_panic() {
    let frame = whole().encode(SRC).frame;
    for bit in HEADER.len() * 8..frame.len() * 8 {
        let mut flipped = frame.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let read = decode(&flipped);
        assert_ne!(read, Ok((SRC, whole())), "bit {bit}");
        let tlvs = read.into_iter().flat_map(|(_, lldpdu)| lldpdu.organization);
        assert!(tlvs.filter_map(|tlv| tlv.standard()).count() <= 3, "bit {bit}");
    }
}
