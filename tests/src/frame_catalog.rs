//! Frames of every kind that a switch must forward byte for byte, as etherparse writes them: tags,
//! options, extension headers, fragments, tunnels, non-IP, and every length at a boundary.

use etherparse::{
    IpFragOffset, IpHeaders, IpNumber, Ipv4Header, Ipv6Extensions, Ipv6FragmentHeader, Ipv6Header,
    Ipv6RawExtHeader, PacketBuilder,
};

const SERVICE_TAG: u16 = 0x88a8;
const TAG: u16 = 0x8100;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Local experimental ethertype: IEEE Std 802.
const EXPERIMENT: u16 = 0x88b5;
/// Bytes of the addresses and the ethertype.
const HEADER_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
const ADDRESSES: ([u8; 4], [u8; 4]) = ([192, 0, 2, 1], [192, 0, 2, 2]);

/// A frame and its name in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Name of the frame.
    pub name: String,
    /// Whole frame, without FCS.
    pub bytes: Vec<u8>,
}

/// Tags in front of the ethertype: TPID and TCI.
type Tags = &'static [(u16, u16)];

const TAGS: [(&str, Tags); 6] = [
    ("untagged", &[]),
    ("C-tag", &[(TAG, 0x6005)]),
    ("priority tag", &[(TAG, 0xa000)]),
    ("S-tag", &[(SERVICE_TAG, 0x7064)]),
    ("S-tag and C-tag", &[(SERVICE_TAG, 0x2064), (TAG, 0x4005)]),
    ("two C-tags", &[(TAG, 0x3064), (TAG, 0x9005)]),
];

/// Returns lengths of untagged frames, up to those of an interface with this MTU: the shortest,
/// those around powers of two and around the size of one chunk, the longest.
pub fn lengths(mtu: usize) -> Vec<usize> {
    let longest = mtu + HEADER_BYTES;
    let mut lengths = vec![60, 61, 64, 127, 128, 255, 256, 257, 511, 513, 1023, 1024, 1500, 1514, 1518];
    for piece in [1792, 3840] {
        lengths.extend((1..=5).flat_map(|n| [n * piece - 4, n * piece - 1, n * piece, n * piece + 1]));
    }
    lengths.extend([longest - 8, longest - 4, longest - 1, longest]);
    lengths.retain(|&length| length <= longest);
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// Returns frames from one address to another, all different, that an interface with this MTU
/// sends.
pub fn catalog(from: [u8; 6], to: [u8; 6], mtu: usize) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (tags, with) in TAGS {
        for length in lengths(mtu) {
            // A packet socket sends one C-tag beyond the MTU (`packet_extra_vlan_len_allowed`), and
            // no other tag.
            let beyond = TAG_BYTES * usize::from(with.first().is_some_and(|(tpid, _)| *tpid == TAG));
            let header_bytes = HEADER_BYTES + TAG_BYTES * with.len();
            let payload = pattern(samples.len(), (length + beyond).max(60) - header_bytes);
            let name = format!("{tags}, {} bytes", header_bytes + payload.len());
            samples.push(Sample { name, bytes: frame(from, to, with, EXPERIMENT, &payload) });
        }
        for (kind, ethertype, packet) in packets(samples.len()) {
            let mut bytes = frame(from, to, with, ethertype, &packet);
            bytes.resize(bytes.len().max(60), 0);
            samples.push(Sample { name: format!("{tags}, {kind}"), bytes });
        }
    }
    samples
}

/// Returns possible payloads of frames, each with its ethertype.
fn packets(number: usize) -> Vec<(&'static str, u16, Vec<u8>)> {
    let payload = pattern(number, 301);
    let v4 = |protocol| Ipv4Header::new(0, 64, protocol, ADDRESSES.0, ADDRESSES.1).expect("a short packet");
    let options = |protocol| {
        let mut header = v4(protocol);
        header.options = [1; 40][..].try_into().expect("ten words");
        header
    };
    let fragment = |protocol, more_fragments, offset| {
        let mut header = v4(protocol);
        header.more_fragments = more_fragments;
        header.fragment_offset = IpFragOffset::try_new(offset).expect("a small one");
        header
    };
    let plain = Ipv6Extensions::default();
    let extended = Ipv6Extensions {
        hop_by_hop_options: Some(padding(6)),
        destination_options: Some(padding(14)),
        ..Ipv6Extensions::default()
    };
    let fragmented = |more_fragments, offset| {
        let header = Ipv6FragmentHeader {
            next_header: IpNumber::UDP,
            fragment_offset: IpFragOffset::try_new(offset).expect("a small one"),
            more_fragments,
            identification: 7,
        };
        Ipv6Extensions { fragment: Some(header), ..Ipv6Extensions::default() }
    };
    let mut no_checksum = udp(over_v4(v4(IpNumber::UDP)), 4001, &payload);
    no_checksum[26..28].fill(0);
    let mut wrong_checksum = udp(over_v4(v4(IpNumber::UDP)), 4002, &payload);
    wrong_checksum[26] ^= 0x55;
    let mut padded = udp(over_v4(v4(IpNumber::UDP)), 4003, &payload[..9]);
    padded.extend([0xa5; 40]);
    let inner = frame([2, 0, 0, 0, 9, 1], [2, 0, 0, 0, 9, 2], &[(TAG, 0xe005)], IPV4, &no_checksum);
    let vxlan = [&[8, 0, 0, 0, 0, 0, 42, 0][..], &inner].concat();
    let gre = [&[0, 0, 8, 0][..], &no_checksum].concat();
    vec![
        ("UDP", IPV4, udp(over_v4(v4(IpNumber::UDP)), 4000, &payload)),
        ("UDP without checksum", IPV4, no_checksum),
        ("UDP with a wrong checksum", IPV4, wrong_checksum),
        ("UDP, and bytes behind the packet", IPV4, padded),
        ("UDP behind options", IPV4, udp(over_v4(options(IpNumber::UDP)), 4000, &payload)),
        ("TCP", IPV4, tcp(over_v4(v4(IpNumber::TCP)), &payload)),
        ("TCP behind options", IPV4, tcp(over_v4(options(IpNumber::TCP)), &payload)),
        ("the first fragment", IPV4, raw(over_v4(fragment(IpNumber::UDP, true, 0)), &payload[..296])),
        ("the last fragment", IPV4, raw(over_v4(fragment(IpNumber::UDP, false, 37)), &payload)),
        ("UDP over IPv6", IPV6, udp(over_v6(&plain), 4000, &payload)),
        ("TCP over IPv6", IPV6, tcp(over_v6(&plain), &payload)),
        ("UDP behind extension headers", IPV6, udp(over_v6(&extended), 4000, &payload)),
        ("TCP behind extension headers", IPV6, tcp(over_v6(&extended), &payload)),
        ("the first fragment of IPv6", IPV6, raw(over_v6(&fragmented(true, 0)), &payload[..296])),
        ("the last fragment of IPv6", IPV6, raw(over_v6(&fragmented(false, 37)), &payload)),
        ("VXLAN", IPV4, udp(over_v4(v4(IpNumber::UDP)), 4789, &vxlan)),
        ("GRE", IPV4, raw(over_v4(v4(IpNumber::GRE)), &gre)),
        ("SCTP", IPV4, raw(over_v4(v4(IpNumber::SCTP)), &payload)),
        ("a packet that is cut off", IPV4, udp(over_v4(v4(IpNumber::UDP)), 4000, &payload)[..60].to_vec()),
        ("LLC", 200, [&[0x42, 0x42, 3][..], &payload[..197]].concat()),
        ("loopback", 0x9000, payload),
    ]
}

fn frame(from: [u8; 6], to: [u8; 6], tags: Tags, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [to, from].concat();
    for (tpid, tci) in tags {
        bytes.extend([tpid.to_be_bytes(), tci.to_be_bytes()].concat());
    }
    bytes.extend(ethertype.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Returns bytes that begin with a number and continue so that a shifted or truncated piece shows.
fn pattern(number: usize, len: usize) -> Vec<u8> {
    let rest = (0..len).map(|at| (at ^ (at >> 8)) as u8);
    (number as u32).to_be_bytes().into_iter().chain(rest).take(len).collect()
}

/// Returns an IPv6 extension header with one option, PadN (RFC 8200, 4.2).
fn padding(len: usize) -> Ipv6RawExtHeader {
    let mut option = vec![0; len];
    (option[0], option[1]) = (1, (len - 2) as u8);
    Ipv6RawExtHeader::new_raw(IpNumber::UDP, &option).expect("units of eight")
}

fn over_v4(header: Ipv4Header) -> IpHeaders {
    IpHeaders::Ipv4(header, Default::default())
}

fn over_v6(extensions: &Ipv6Extensions) -> IpHeaders {
    let mut header = Ipv6Header { hop_limit: 64, ..Ipv6Header::default() };
    (header.source[0], header.source[15]) = (0xfd, 1);
    (header.destination[0], header.destination[15]) = (0xfd, 2);
    IpHeaders::Ipv6(header, extensions.clone())
}

fn udp(ip: IpHeaders, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    PacketBuilder::ip(ip).udp(port, port).write(&mut bytes, payload).expect("a vector takes all");
    bytes
}

fn tcp(ip: IpHeaders, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    PacketBuilder::ip(ip).tcp(1, 2, 3, 4).write(&mut bytes, payload).expect("a vector takes all");
    bytes
}

/// Returns a packet of a protocol that is not modeled here, or a fragment of one.
fn raw(ip: IpHeaders, payload: &[u8]) -> Vec<u8> {
    let protocol = match &ip {
        IpHeaders::Ipv4(header, _) => header.protocol,
        IpHeaders::Ipv6(..) => IpNumber::UDP,
    };
    let mut bytes = Vec::new();
    PacketBuilder::ip(ip).write(&mut bytes, protocol, payload).expect("a vector takes all");
    bytes
}
