//! The readers and the checksum compared with etherparse, on random frames and on random bytes.

use etherparse::{
    EtherType, Ethernet2Header, IpDscp, IpEcn, IpFragOffset, IpHeaders, IpNumber, Ipv4Header,
    Ipv4HeaderSlice, Ipv6Extensions, Ipv6FragmentHeader, Ipv6Header, Ipv6RawExtHeader, Ipv6RoutingExtensions,
    NetSlice, PacketBuilder, SingleVlanHeader, SlicedPacket, TcpHeader, VlanId, VlanPcp,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use wire::ethernet::{self, Header, Tag};
use wire::{Error, MacAddr, checksum, ip, ipv4, ipv6, ones_complement, pause};

/// A random frame as etherparse wrote it, with the values that it was built from.
#[derive(Debug, Clone)]
struct Sample {
    dst: [u8; 6],
    src: [u8; 6],
    tags: Vec<Tag>,
    ip: Ip,
    tcp: bool,
    payload: Vec<u8>,
    /// Ethernet padding behind the IP packet.
    padding: usize,
}

#[derive(Debug, Clone)]
enum Ip {
    V4(Ipv4Header),
    V6(Ipv6Header, Box<Ipv6Extensions>),
}

impl Sample {
    fn bytes(&self) -> Vec<u8> {
        let (ip, ethertype) = match &self.ip {
            Ip::V4(header) => (IpHeaders::Ipv4(header.clone(), Default::default()), ethernet::IPV4),
            Ip::V6(header, extensions) => {
                (IpHeaders::Ipv6(header.clone(), *extensions.clone()), ethernet::IPV6)
            }
        };
        let mut types: Vec<u16> = self.tags.iter().map(|tag| tag.tpid).collect();
        types.push(ethertype);
        let mut bytes = Vec::new();
        let link = Ethernet2Header {
            destination: self.dst,
            source: self.src,
            ether_type: EtherType(types.remove(0)),
        };
        link.write(&mut bytes).unwrap();
        for (tag, next) in self.tags.iter().zip(types) {
            let vlan = SingleVlanHeader {
                pcp: VlanPcp::try_new(tag.pcp).unwrap(),
                drop_eligible_indicator: tag.dei,
                vlan_id: VlanId::try_new(tag.vid).unwrap(),
                ether_type: EtherType(next),
            };
            vlan.write(&mut bytes).unwrap();
        }
        let builder = PacketBuilder::ip(ip);
        if self.tcp {
            builder.tcp_header(TcpHeader::new(1, 2, 3, 4)).write(&mut bytes, &self.payload).unwrap();
        } else {
            builder.udp(1, 2).write(&mut bytes, &self.payload).unwrap();
        }
        bytes.resize(bytes.len() + self.padding, 0xa5);
        bytes
    }

    fn is_fragment(&self) -> bool {
        match &self.ip {
            Ip::V4(header) => header.is_fragmenting_payload(),
            Ip::V6(_, extensions) => extensions.is_fragmenting_payload() || extensions.fragment.is_some(),
        }
    }
}

fn tag() -> impl Strategy<Value = Tag> {
    (any::<bool>(), 0..8u8, any::<bool>(), 0..4096u16).prop_map(|(service, pcp, dei, vid)| Tag {
        tpid: if service { ethernet::SERVICE_VLAN } else { ethernet::VLAN },
        pcp,
        dei,
        vid,
    })
}

fn ipv4_header() -> impl Strategy<Value = Ip> {
    (any::<[u8; 4]>(), any::<[u8; 4]>(), 0..64u8, 0..4u8, 0..=10usize, any::<bool>(), 0..20u8).prop_map(
        |(source, destination, dscp, ecn, option_words, dont_fragment, fragment)| {
            let mut header = Ipv4Header::new(0, 64, IpNumber::UDP, source, destination).unwrap();
            header.dscp = IpDscp::try_new(dscp).unwrap();
            header.ecn = IpEcn::try_new(ecn).unwrap();
            header.options = vec![1; option_words * 4][..].try_into().unwrap();
            header.dont_fragment = dont_fragment;
            header.more_fragments = fragment == 0 || fragment == 1;
            if fragment == 1 || fragment == 2 {
                header.fragment_offset = IpFragOffset::try_new(185).unwrap();
            }
            Ip::V4(header)
        },
    )
}

fn ipv6_options() -> impl Strategy<Value = Ipv6RawExtHeader> {
    // The second byte is a routing header's "segments left"; 0 so that the destination is the final
    // one.
    (0..4usize, any::<u8>()).prop_map(|(units, fill)| {
        let mut payload = vec![fill; 6 + 8 * units];
        payload[1] = 0;
        Ipv6RawExtHeader::new_raw(IpNumber(0), &payload).unwrap()
    })
}

fn ipv6_header() -> impl Strategy<Value = Ip> {
    let extensions = (
        option::of(ipv6_options()),
        option::of(ipv6_options()),
        option::of((ipv6_options(), option::of(ipv6_options()))),
        0..10u8,
    );
    (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<u8>(), extensions).prop_map(
        |(source, destination, traffic_class, (hop_by_hop, options, routing, fragment))| {
            let header =
                Ipv6Header { traffic_class, hop_limit: 64, source, destination, ..Ipv6Header::default() };
            let extensions = Ipv6Extensions {
                hop_by_hop_options: hop_by_hop,
                destination_options: options,
                routing: routing.map(|(routing, last)| Ipv6RoutingExtensions {
                    routing,
                    final_destination_options: last,
                }),
                fragment: (fragment == 0).then(|| {
                    Ipv6FragmentHeader::new(IpNumber(0), IpFragOffset::try_new(3).unwrap(), true, 1)
                }),
                auth: None,
            };
            Ip::V6(header, Box::new(extensions))
        },
    )
}

fn sample() -> impl Strategy<Value = Sample> {
    (
        any::<[u8; 6]>(),
        any::<[u8; 6]>(),
        vec(tag(), 0..=2),
        prop_oneof![ipv4_header(), ipv6_header()],
        any::<bool>(),
        vec(any::<u8>(), 0..1600),
        0..40usize,
    )
        .prop_map(|(dst, src, tags, ip, tcp, payload, padding)| Sample {
            dst,
            src,
            tags,
            ip,
            tcp,
            payload,
            padding,
        })
}

/// The sum of RFC 1071 as it is defined: 16 bits at a time.
fn naive_sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the offset of the transport's checksum field in the frame, and the pseudo header's sum,
/// as etherparse parses the frame.
fn transport_field(frame: &[u8], tcp: bool) -> (usize, u16) {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let (addresses, payload) = match sliced.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            ([&ip.header().source()[..], &ip.header().destination()].concat(), ip.payload().payload)
        }
        NetSlice::Ipv6(ip) => {
            ([&ip.header().source()[..], &ip.header().destination()].concat(), ip.payload().payload)
        }
        other => panic!("not IP: {other:?}"),
    };
    let mut pseudo = addresses;
    pseudo.extend((payload.len() as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, if tcp { 6 } else { 17 }]);
    let start = payload.as_ptr() as usize - frame.as_ptr() as usize;
    (start + if tcp { 16 } else { 6 }, naive_sum(&pseudo))
}

/// Finishes the checksum of a frame with this header, if it is open.
fn finish(frame: &mut [u8], header: &Header) -> bool {
    ip::DsField::find(frame, header).is_some_and(|field| checksum::complete_transport(frame, field))
}

proptest! {
    /// Setting DSCP and PCP in place gives the frame that etherparse writes with these values, byte
    /// by byte, checksum included.
    #[test]
    fn in_situ_edits_are_what_etherparse_writes(sample in sample(), dscp in 0_u8..64, pcp in 0_u8..8) {
        let mut bytes = sample.bytes();
        let header = Header::parse(&bytes).unwrap();
        prop_assert!(ip::set_dscp(&mut bytes, &header, dscp));
        prop_assert_eq!(ip::dscp(&bytes, &header), Some(dscp));
        prop_assert_eq!(ethernet::set_outer_pcp(&mut bytes, pcp), header.outer.is_some());
        let mut wanted = sample.clone();
        match &mut wanted.ip {
            Ip::V4(header) => header.dscp = IpDscp::try_new(dscp).unwrap(),
            Ip::V6(header, _) => header.set_dscp(IpDscp::try_new(dscp).unwrap()),
        }
        if let Some(tag) = wanted.tags.first_mut() {
            tag.pcp = pcp;
        }
        prop_assert_eq!(bytes, wanted.bytes());
    }

    #[test]
    fn headers_read_as_etherparse_reads_them(sample in sample()) {
        let bytes = sample.bytes();
        let header = Header::parse(&bytes).unwrap();
        prop_assert_eq!(header.dst, MacAddr(sample.dst));
        prop_assert_eq!(header.src, MacAddr(sample.src));
        prop_assert_eq!(header.outer, sample.tags.first().copied());
        prop_assert_eq!(header.inner, sample.tags.get(1).copied());
        prop_assert_eq!(header.payload_offset, 14 + 4 * sample.tags.len());
        let packet = &bytes[header.payload_offset..];
        let sliced = SlicedPacket::from_ethernet(&bytes).unwrap();
        match sliced.net.unwrap() {
            NetSlice::Ipv4(expected) => {
                prop_assert_eq!(header.ethertype, ethernet::IPV4);
                let ip = ipv4::Packet::parse(packet).unwrap();
                let reference = expected.header();
                prop_assert_eq!(ip.header_bytes(), reference.slice().len());
                prop_assert_eq!((ip.src(), ip.dst()), (reference.source(), reference.destination()));
                prop_assert_eq!((ip.dscp(), ip.ecn()), (reference.dcp().value(), reference.ecn().value()));
                prop_assert_eq!(ip.protocol(), reference.protocol().0);
                prop_assert_eq!(ip.is_fragment(), reference.is_fragmenting_payload());
                prop_assert_eq!(ip.payload(), expected.payload().payload);
            }
            NetSlice::Ipv6(expected) => {
                prop_assert_eq!(header.ethertype, ethernet::IPV6);
                let ip = ipv6::Packet::parse(packet).unwrap();
                let reference = expected.header();
                prop_assert_eq!((*ip.src(), *ip.dst()), (reference.source(), reference.destination()));
                prop_assert_eq!(ip.traffic_class(), reference.traffic_class());
                prop_assert_eq!((ip.dscp(), ip.ecn()), (reference.dscp().value(), reference.ecn().value()));
                prop_assert_eq!(ip.next_header(), reference.next_header().0);
                prop_assert_eq!(ip.payload().len(), usize::from(reference.payload_length()));
                let transport = ip.transport();
                if sample.is_fragment() {
                    prop_assert_eq!(transport, None);
                } else {
                    let transport = transport.unwrap();
                    prop_assert_eq!(transport.protocol, expected.payload().ip_number.0);
                    prop_assert_eq!(transport.bytes, expected.payload().payload);
                }
            }
            other => prop_assert!(false, "not IP: {:?}", other),
        }
    }

    /// The finished checksums that etherparse writes stay. With the pseudo header's sum in the
    /// field instead, as Linux leaves it, the result is exactly etherparse's checksum. A fragment
    /// is never changed.
    #[test]
    fn open_checksums_are_finished_and_others_stay(sample in sample()) {
        let finished = sample.bytes();
        let header = Header::parse(&finished).unwrap();
        let (at, pseudo) = transport_field(&finished, sample.tcp);

        let mut frame = finished.clone();
        let did = finish(&mut frame, &header);
        prop_assert_eq!(&frame, &finished);
        let looks_open = finished[at..at + 2] == pseudo.to_be_bytes();
        prop_assert_eq!(did, looks_open && !sample.is_fragment());

        frame[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        let open = frame.clone();
        prop_assert_eq!(finish(&mut frame, &header), !sample.is_fragment());
        prop_assert_eq!(frame, if sample.is_fragment() { open } else { finished });
    }

    #[test]
    fn the_sum_is_rfc_1071s(bytes in vec(any::<u8>(), 0..300), number: u16) {
        let mut with_number = number.to_be_bytes().to_vec();
        with_number.extend(&bytes);
        let sum = ones_complement::Sum::default().number(number).bytes(&bytes).fold();
        prop_assert_eq!(sum, naive_sum(&with_number));
    }

    /// Frames of random bytes: the tags are found as etherparse finds them, nothing panics, and a
    /// checksum that is not open stays. The type is forced to one that is understood, or nearly all
    /// frames would be of an unknown type.
    #[test]
    fn random_bytes_do_not_panic(
        mut bytes in vec(any::<u8>(), 0..120),
        kind in prop::sample::select(vec![0x0800u16, 0x86dd, 0x8100, 0x88a8, 0x8808]),
        first in prop::sample::select(vec![0x45u8, 0x46, 0x60, 0x00, 0x01]),
        second in prop::sample::select(vec![0u8, 6, 17, 43, 44, 60]),
    ) {
        for (at, value) in [(12, (kind >> 8) as u8), (13, kind as u8), (14, first), (16, 0), (18, 0)] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        for at in [20, 23] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = second;
            }
        }
        let _ = pause::decode(&bytes);
        let _ = ipv4::Packet::parse(&bytes);
        let _ = ipv6::Packet::parse(&bytes).map(|ip| ip.transport().is_some());
        match Header::parse(&bytes) {
            Err(error) => {
                prop_assert_eq!(error, Error::Truncated);
                prop_assert!(bytes.len() < 22);
            }
            Ok(header) => {
                let (reference, rest) = Ethernet2Header::from_slice(&bytes).unwrap();
                let mut ethertype = reference.ether_type.0;
                if header.outer.is_some() {
                    ethertype = SingleVlanHeader::from_slice(rest).unwrap().0.ether_type.0;
                }
                if header.inner.is_none() {
                    prop_assert_eq!(header.ethertype, ethertype);
                }
                let packet = &bytes[header.payload_offset..];
                if ipv4::Packet::parse(packet).is_ok() {
                    prop_assert!(Ipv4HeaderSlice::from_slice(packet).is_ok());
                }
                finish(&mut bytes, &header);
            }
        }
    }

    #[test]
    fn pfc_frames_read_back_as_they_were_written(enable: u8, quanta: [u16; 8], src: [u8; 6], padded: bool) {
        let pfc = pause::Pfc { enable, quanta };
        let mut frame = [0; pause::FRAME_BYTES];
        pfc.encode(MacAddr(src), &mut frame);
        let end = if padded { frame.len() } else { 34 };
        prop_assert_eq!(pause::decode(&frame[..end]), Ok(pause::Control::Pfc(pfc)));
        let header = Header::parse(&frame).unwrap();
        prop_assert_eq!((header.dst, header.src), (MacAddr::PAUSE, MacAddr(src)));
        prop_assert_eq!(header.ethertype, ethernet::MAC_CONTROL);
    }
}

/// UDP's checksum 0 is sent as 0xffff, since 0 means "none"; and "none" stays none.
#[test]
fn a_udp_checksum_of_zero_is_sent_as_all_ones_and_none_stays_none() {
    let sample = Sample {
        dst: [2; 6],
        src: [4; 6],
        tags: vec![],
        ip: Ip::V4(Ipv4Header::new(0, 64, IpNumber::UDP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap()),
        tcp: false,
        payload: vec![0, 0],
        padding: 0,
    };
    let mut frame = sample.bytes();
    let header = Header::parse(&frame).unwrap();
    let (at, pseudo) = transport_field(&frame, false);
    // Choose the two bytes of payload so that everything sums up to 0xffff.
    frame[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
    let sum = naive_sum(&frame[at - 6..]);
    frame[at + 2..at + 4].copy_from_slice(&(!sum).to_be_bytes());
    assert!(finish(&mut frame, &header));
    assert_eq!(frame[at..at + 2], [0xff, 0xff]);

    frame[at..at + 2].copy_from_slice(&[0, 0]);
    assert!(!finish(&mut frame, &header));
    assert_eq!(frame[at..at + 2], [0, 0]);
}

/// A datagram whose own length contradicts the packet's, and a packet whose destination is not
/// final, are left as they are.
#[test]
fn doubtful_packets_are_left_alone() {
    let v4 = Ip::V4(Ipv4Header::new(0, 64, IpNumber::UDP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap());
    let routing = Ipv6RawExtHeader::new_raw(IpNumber(0), &[4, 0, 0, 0, 0, 0]).unwrap();
    let extensions = Ipv6Extensions {
        routing: Some(Ipv6RoutingExtensions { routing, final_destination_options: None }),
        ..Default::default()
    };
    let v6 = Ip::V6(
        Ipv6Header { source: [1; 16], destination: [2; 16], ..Default::default() },
        Box::new(extensions),
    );
    for (ip, what, at, value) in [(v4, "UDP length", 39, 9), (v6, "segments left", 14 + 40 + 3, 1)] {
        let sample = Sample {
            dst: [2; 6],
            src: [4; 6],
            tags: vec![],
            ip,
            tcp: false,
            payload: vec![7; 4],
            padding: 0,
        };
        let mut frame = sample.bytes();
        let header = Header::parse(&frame).unwrap();
        let (field, pseudo) = transport_field(&frame, false);
        frame[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
        let mut changed = frame.clone();
        changed[at] = value;
        let before = changed.clone();
        assert!(!finish(&mut changed, &header), "{what}");
        assert_eq!(changed, before, "{what}");
        assert!(finish(&mut frame, &header), "{what}: the frame was not even open");
    }
}

/// (version and header length, total length) of 40 bytes → what is read.
#[test]
fn ipv4_lengths_that_contradict_each_other_are_refused() {
    for (first, total, payload_bytes) in [
        (0x45, 40, Ok(20)),
        (0x45, 20, Ok(0)),
        (0x45, 19, Err(Error::BadLength)),
        (0x44, 40, Err(Error::BadLength)),
        (0x46, 23, Err(Error::BadLength)),
        (0x46, 24, Ok(0)),
        (0x45, 41, Err(Error::Truncated)),
        (0x55, 40, Err(Error::WrongType)),
    ] {
        let mut bytes = [0; 40];
        (bytes[0], bytes[3]) = (first, total);
        let read = ipv4::Packet::parse(&bytes).map(|packet| packet.payload().len());
        assert_eq!(read, payload_bytes, "{first:02x}, {total} bytes");
    }
}

/// Of several routing headers each may have segments left: (segments left of each) → routed.
#[test]
fn any_routing_header_may_have_segments_left() {
    for (segments, routed) in [([0, 0], false), ([1, 0], true), ([0, 1], true), ([1, 1], true)] {
        let mut bytes = vec![0; 40];
        bytes[0] = 0x60;
        (bytes[5], bytes[6]) = (16, 43);
        for (next, segments_left) in [43, 17].into_iter().zip(segments) {
            bytes.extend([next, 0, 0, segments_left, 0, 0, 0, 0]);
        }
        let packet = ipv6::Packet::parse(&bytes).unwrap();
        let transport = ipv6::Transport { protocol: 17, bytes: &[], routed };
        assert_eq!(packet.transport(), Some(transport), "{segments:?}");
    }
}

#[test]
fn udp_headers_byte_by_byte() {
    let mut headers = [0xff; ipv4::UDP_HEADERS_BYTES];
    ipv4::write_udp(&mut headers, 0x0123, 0x6a, [[10, 0, 0, 1], [10, 0, 0, 2]], [0xc001, 4791]);
    let expected = [
        [0x45, 0x6a, 0x01, 0x23, 0, 0, 0x40, 0, 64, 17, 0x25, 0x5e, 10, 0].as_slice(),
        &[0, 1, 10, 0, 0, 2, 0xc0, 0x01, 0x12, 0xb7, 0x01, 0x0f, 0, 0],
    ];
    assert_eq!(headers[..], expected.concat());
    let header = Ipv4HeaderSlice::from_slice(&headers).unwrap().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
}

#[test]
fn rocev2_source_ports_of_flows() {
    let ports = [0, 1, 0x3fff, 0x4000, 0xffff_fffe].map(ipv4::rocev2_source_port);
    assert_eq!(ports, [0xc000, 0xc001, 0xffff, 0xc000, 0xfffe]);
}

/// An Ethernet frame of an IP header with this octet of DSCP and ECN. Everything around is ones.
fn frame_with_octet(version: u8, octet: u8) -> Vec<u8> {
    let mut frame = [&[2; 12][..], &ethernet::IPV4.to_be_bytes()].concat();
    if version == 4 {
        let mut header = Ipv4Header::new(0, 255, IpNumber::UDP, [255; 4], [255; 4]).unwrap();
        header.dscp = IpDscp::try_new(octet >> 2).unwrap();
        header.ecn = IpEcn::try_new(octet & 3).unwrap();
        header.header_checksum = header.calc_header_checksum();
        frame.extend(header.to_bytes());
    } else {
        frame[12..14].copy_from_slice(&ethernet::IPV6.to_be_bytes());
        frame.extend([0x60 | octet >> 4, octet << 4 | 0xf]);
        frame.extend([0xff; 38]);
    }
    frame
}

#[test]
fn every_octet_of_dscp_and_ecn() {
    use ip::Ecn;
    for (version, octet) in
        [4, 6].into_iter().flat_map(|version| (0..=255).map(move |octet| (version, octet)))
    {
        let mut frame = frame_with_octet(version, octet);
        let header = Header::parse(&frame).unwrap();
        let field = ip::DsField::find(&frame, &header).unwrap();
        let ecn = octet & 3;
        assert_eq!((ip::dscp(&frame, &header), ip::ecn(&frame, &header)), (Some(octet >> 2), Some(ecn)));
        let expected = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(ecn)];
        assert_eq!((field.octet(&frame), field.ecn(&frame)), (octet, expected));
        assert_eq!(field.ecn(&frame).is_markable(), ecn == 1 || ecn == 2, "{ecn}");
        assert!(ip::set_ce(&mut frame, &header));
        assert_eq!(frame, frame_with_octet(version, octet | 3), "IPv{version}, {octet:#04x}");
    }
}

/// Bytes of the frame that a change of the field needs.
#[test]
fn a_truncated_field_is_not_changed() {
    for (version, needed) in [(4, 14 + 20), (6, 14 + 2)] {
        let frame = frame_with_octet(version, 1);
        let header = Header::parse(&frame).unwrap();
        let field = ip::DsField::find(&frame, &header).unwrap();
        for len in 14..=frame.len() {
            let mut short = frame[..len].to_vec();
            assert_eq!(field.is_complete(len), len >= needed, "IPv{version}, {len}");
            assert_eq!(field.set_ce(&mut short), len >= needed, "IPv{version}, {len}");
            assert_eq!(short != frame[..len], len >= needed, "IPv{version}, {len}");
        }
    }
}

/// An offset has seven bits.
#[test]
fn a_field_is_found_within_the_first_127_bytes() {
    for (at, is_found) in [(127, true), (128, false), (200, false)] {
        for (ethertype, first) in [(ethernet::IPV4, 0x45), (ethernet::IPV6, 0x60)] {
            let mut frame = [0; 256];
            frame[usize::from(at)] = first;
            assert_eq!(ip::DsField::find_at(&frame, ethertype, at).is_some(), is_found, "{at}");
        }
    }
}

/// The checksum 3, and a DSCP that adds 4: the update carries twice.
#[test]
fn a_checksum_that_is_updated_carries_twice() {
    let mut header = Ipv4Header::new(0, 64, IpNumber::UDP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
    header.identification = header.calc_header_checksum() - 3;
    header.header_checksum = header.calc_header_checksum();
    assert_eq!(header.header_checksum, 3);
    let mut frame = [&[2; 12][..], &ethernet::IPV4.to_be_bytes(), &header.to_bytes()].concat();
    let parsed = Header::parse(&frame).unwrap();
    assert!(ip::set_dscp(&mut frame, &parsed, 1));
    header.dscp = IpDscp::try_new(1).unwrap();
    header.header_checksum = header.calc_header_checksum();
    assert_eq!(frame[14..], header.to_bytes()[..]);
}

/// (protocol, bytes of its segment) → whether an open checksum of zeros is finished there.
#[test]
fn transport_headers_that_are_cut_off_are_left_alone() {
    for (protocol, bytes, is_finished) in
        [(6, 17, false), (6, 19, false), (17, 7, false), (132, 11, false), (132, 12, true)]
    {
        let header = Ipv4Header::new(bytes, 64, IpNumber(protocol), [0; 4], [0; 4]).unwrap();
        let segment = vec![0; usize::from(bytes)];
        let mut frame = [&[2; 12][..], &ethernet::IPV4.to_be_bytes(), &header.to_bytes(), &segment].concat();
        let parsed = Header::parse(&frame).unwrap();
        assert_eq!(finish(&mut frame, &parsed), is_finished, "{bytes} bytes of {protocol}");
    }
}
