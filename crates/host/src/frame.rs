//! Format of the frames that hosts send each other: ethertype 0x88B5 (IEEE 802 local experimental),
//! optionally behind an 802.1Q tag; or the same in an IPv4/UDP packet to port 4791 (RoCEv2's), so
//! that switches can mark it (ECN). Its addresses are 10.x.y.z with the last three bytes of the MAC
//! addresses; its UDP checksum is 0 (none), as RoCEv2 allows.
//!
//! ```text
//!   0  4  magic "SLUH"          16  8  sequence number
//!   4  1  kind                  24  8  send time, ns of CLOCK_MONOTONIC
//!   5  3  age of the flow       32  8  check
//!   8  4  flow                  40  …  pattern, another for each frame
//!  12  4  run of the sender
//! ```
//!
//! All numbers are big-endian. The age is the time from the flow's start to the send time, in ms,
//! and at most 2²⁴ − 1: it shows a receiver whether a flow is older than itself. The send time is
//! comparable between all processes of a machine. The check covers both addresses and all of the
//! above except the check itself. It does not cover the tag and the IP header, which a switch may
//! rewrite. The check is a multiply-rotate hash defined here. Each step is a bijection, so a change
//! within one 8-byte word is always detected, and any other change except for a fraction of 2⁻⁶⁴.

use switch::Instant;
use wire::MacAddr;
use wire::ethernet::{EXPERIMENTAL, Header, IPV4, Tag, write_header};
use wire::ipv4::{self, ROCEV2_PORT, UDP, UDP_HEADERS_BYTES, rocev2_source_port};

/// Longest frame, without FCS, including its tag: that of an interface with an MTU of 9216.
pub const MAX_BYTES: u16 = 9234;
/// Shortest frame, without FCS; it holds the tag and all fields.
pub const MIN_BYTES: u16 = 64;

/// Shortest frame that is an IP packet, without FCS.
pub const MIN_IP_BYTES: u16 = 100;

const MAGIC: [u8; 4] = *b"SLUH";
/// Bytes before the check.
const FIELDS: usize = 32;
/// Bytes before the pattern.
const PATTERN: usize = 40;

/// Purpose of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Announces the host's address to the switch and other hosts.
    Announce = 1,
    /// A frame of a flow.
    Data = 2,
    /// Congestion notification packet: a frame of the receiver's flow and run arrived marked.
    Cnp = 3,
}

/// The fields of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Purpose of the frame.
    pub kind: FrameKind,
    /// Number of the flow at its sender.
    pub flow: u32,
    /// Distinguishes runs of the same sender.
    pub run: u32,
    /// Position in the flow, from 0.
    pub sequence: u64,
    /// Send time.
    pub sent_at: Instant,
    /// Time from the start of the flow to the send time, in ms, rounded down; 0 without a flow.
    pub age_ms: u32,
}

/// The largest age that a frame carries.
const MAX_AGE_MS: u32 = (1 << 24) - 1;

/// Result of parsing a frame with our ethertype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseResult {
    /// The check is correct.
    Whole(Content),
    /// The check is wrong, so no field can be trusted. The frame claims to belong to this flow and
    /// run.
    Corrupted {
        /// As [`Content::flow`].
        flow: u32,
        /// As [`Content::run`].
        run: u32,
    },
}

/// Fills all of `frame`, which is at least `MIN_BYTES` long (`MIN_IP_BYTES` as an IP packet). `ecn`
/// is its ECN field as an IPv4 packet.
pub fn write(
    frame: &mut [u8],
    dst: MacAddr,
    src: MacAddr,
    tag: Option<Tag>,
    ecn: Option<u8>,
    content: &Content,
) {
    let ethertype = if ecn.is_some() { IPV4 } else { EXPERIMENTAL };
    let mut body_offset = write_header(frame, dst, src, tag, ethertype);
    if let Some(ecn) = ecn {
        write_packet(&mut frame[body_offset..], dst, src, ecn, content.flow);
        body_offset += UDP_HEADERS_BYTES;
    }
    let body = &mut frame[body_offset..];
    body[0..4].copy_from_slice(&MAGIC);
    body[4..8].copy_from_slice(&content.age_ms.min(MAX_AGE_MS).to_be_bytes());
    body[4] = content.kind as u8;
    body[8..12].copy_from_slice(&content.flow.to_be_bytes());
    body[12..16].copy_from_slice(&content.run.to_be_bytes());
    body[16..24].copy_from_slice(&content.sequence.to_be_bytes());
    body[24..32].copy_from_slice(&content.sent_at.0.to_be_bytes());
    fill_pattern(&mut body[PATTERN..], content.sequence ^ u64::from(content.flow) << 40);
    let check = check(dst, src, &body[..FIELDS], &body[PATTERN..]);
    body[FIELDS..PATTERN].copy_from_slice(&check.to_be_bytes());
}

/// Writes the IPv4 and UDP headers at the start of `packet`, whose lengths cover all of it.
fn write_packet(packet: &mut [u8], dst: MacAddr, src: MacAddr, ecn: u8, flow: u32) {
    let length = packet.len() as u16;
    let headers = packet.first_chunk_mut().expect("MIN_IP_BYTES hold them");
    let addresses = [src, dst].map(|MacAddr([_, _, _, a, b, c])| [10, a, b, c]);
    ipv4::write_udp(headers, length, ecn & 3, addresses, [rocev2_source_port(flow), ROCEV2_PORT]);
}

/// True if a frame with this header has our format: our ethertype, or an IPv4/UDP packet to our
/// port that begins with our magic (a real RoCEv2 packet does not).
pub fn is_ours(frame: &[u8], header: &Header) -> bool {
    let packet = || frame.get(header.payload_offset..)?.split_first_chunk::<UDP_HEADERS_BYTES>();
    header.ethertype == EXPERIMENTAL
        || header.ethertype == IPV4
            && packet().is_some_and(|(headers, body)| {
                headers[0] == 0x45
                    && headers[9] == UDP
                    && headers[22..24] == ROCEV2_PORT.to_be_bytes()
                    && body.starts_with(&MAGIC)
            })
}

/// Parses a frame for which `is_ours` holds and whose header is `header`.
pub fn read(frame: &[u8], header: &Header) -> ParseResult {
    let headers = if header.ethertype == IPV4 { UDP_HEADERS_BYTES } else { 0 };
    let body = frame.get(header.payload_offset + headers..).unwrap_or_default();
    let Some((fields, rest)) = body.split_first_chunk::<PATTERN>() else {
        return ParseResult::Corrupted { flow: 0, run: 0 };
    };
    let flow = u32::from_be_bytes(field(fields, 8));
    let run = u32::from_be_bytes(field(fields, 12));
    let expected = check(header.dst, header.src, &fields[..FIELDS], rest);
    let kind = match fields[4] {
        1 => FrameKind::Announce,
        2 => FrameKind::Data,
        3 => FrameKind::Cnp,
        _ => return ParseResult::Corrupted { flow, run },
    };
    if fields[0..4] != MAGIC || u64::from_be_bytes(field(fields, FIELDS)) != expected {
        return ParseResult::Corrupted { flow, run };
    }
    let sequence = u64::from_be_bytes(field(fields, 16));
    let sent_at = Instant(u64::from_be_bytes(field(fields, 24)));
    let age_ms = u32::from_be_bytes([0, fields[5], fields[6], fields[7]]);
    ParseResult::Whole(Content { kind, flow, run, sequence, sent_at, age_ms })
}

/// Returns the `N` bytes at `offset`, which is within the fields.
fn field<const N: usize>(fields: &[u8; PATTERN], offset: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&fields[offset..offset + N]);
    bytes
}

/// An odd number with well-spread bits (2⁶⁴ / golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fills a pattern of words that differ from each other and from frame to frame, so that misplaced
/// pieces are detected.
fn fill_pattern(bytes: &mut [u8], seed: u64) {
    let mut word = seed.wrapping_mul(SPREAD);
    let mut chunks = bytes.chunks_exact_mut(8);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(SPREAD);
    }
    let rest = chunks.into_remainder();
    rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]);
}

fn check(dst: MacAddr, src: MacAddr, fields: &[u8], pattern: &[u8]) -> u64 {
    let mut addresses = [0; 32];
    addresses[0..6].copy_from_slice(&dst.0);
    addresses[6..12].copy_from_slice(&src.0);
    addresses[16..24].copy_from_slice(&(pattern.len() as u64).to_le_bytes());
    // Four lanes, so that the multiplications overlap.
    let mut lanes = [1, 2, 3, 4];
    mix(&mut lanes, &addresses);
    mix(&mut lanes, fields);
    mix(&mut lanes, pattern);
    lanes.into_iter().fold(0, |sum: u64, lane| (sum ^ lane).wrapping_mul(SPREAD).rotate_left(29))
}

#[inline]
fn mix(lanes: &mut [u64; 4], bytes: &[u8]) {
    let mut block = |block: &[u8; 32]| {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(SPREAD).rotate_left(29);
        }
    };
    let (blocks, rest) = bytes.as_chunks::<32>();
    for bytes in blocks {
        block(bytes);
    }
    if !rest.is_empty() {
        let mut padded = [0; 32];
        padded[..rest.len()].copy_from_slice(rest);
        block(&padded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ip;
    use wire::ones_complement::Sum;

    const DST: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
    const CONTENT: Content = Content {
        kind: FrameKind::Data,
        flow: 0x0102_0304,
        run: 0x0506_0708,
        sequence: 0x1112_1314_1516_1718,
        sent_at: Instant(0x2122_2324_2526_2728),
        age_ms: 0x31_3233,
    };

    fn frame(len: usize, tag: Option<Tag>) -> Vec<u8> {
        let mut frame = vec![0xee; len];
        write(&mut frame, DST, SRC, tag, None, &CONTENT);
        frame
    }

    fn read_back(frame: &[u8]) -> ParseResult {
        read(frame, &Header::parse(frame).unwrap())
    }

    #[test]
    fn written_frames_read_back_at_every_length() {
        for len in MIN_BYTES..=MAX_BYTES {
            for tag in [None, Some(Tag::priority(3))] {
                let frame = frame(usize::from(len), tag);
                assert_eq!(read_back(&frame), ParseResult::Whole(CONTENT), "{len} bytes, {tag:?}");
            }
        }
    }

    #[test]
    fn a_frame_byte_by_byte() {
        let frame = frame(64, Some(Tag::priority(3)));
        assert_eq!(frame[..18], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0x60, 0, 0x88, 0xb5]);
        assert_eq!(frame[18..34], *b"SLUH\x02123\x01\x02\x03\x04\x05\x06\x07\x08");
        assert_eq!(frame[34..42], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
        assert_eq!(frame[42..50], [0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28]);
    }

    #[test]
    fn any_flipped_bit_but_in_the_tag_is_found() {
        for len in [64, 65, 95, 96, 97, 333] {
            let good = frame(len, Some(Tag::priority(3)));
            for bit in (0..len * 8).filter(|bit| !(12 * 8..18 * 8).contains(bit)) {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(matches!(read_back(&bad), ParseResult::Corrupted { .. }), "bit {bit} of {len} bytes");
            }
        }
    }

    #[test]
    fn another_priority_or_no_tag_is_no_corruption() {
        let mut frame = frame(100, Some(Tag::priority(3)));
        frame[14] = 0xe0;
        assert_eq!(read_back(&frame), ParseResult::Whole(CONTENT));
        frame.drain(12..16);
        assert_eq!(read_back(&frame), ParseResult::Whole(CONTENT));
    }

    #[test]
    fn cut_off_zeroed_or_swapped_frames_are_found() {
        let good = frame(200, None);
        for len in 14..200 {
            assert!(matches!(read_back(&good[..len]), ParseResult::Corrupted { .. }), "{len} bytes");
        }
        let mut zeroed = good.clone();
        zeroed[14..].fill(0);
        assert!(matches!(read_back(&zeroed), ParseResult::Corrupted { .. }));
        let mut longer = good.clone();
        longer.push(0);
        assert!(matches!(read_back(&longer), ParseResult::Corrupted { .. }));
        let mut swapped = good.clone();
        swapped[64..128].rotate_left(32);
        assert!(matches!(read_back(&swapped), ParseResult::Corrupted { .. }));
    }

    fn packet(len: usize, tag: Option<Tag>, ecn: u8) -> Vec<u8> {
        let mut frame = vec![0xee; len];
        write(&mut frame, DST, SRC, tag, Some(ecn), &CONTENT);
        frame
    }

    /// Parses like a receiver; `None` if the frame does not have our format.
    fn received(frame: &[u8]) -> Option<ParseResult> {
        let header = Header::parse(frame).unwrap();
        is_ours(frame, &header).then(|| read(frame, &header))
    }

    /// One's complement sum of a correct IPv4 header, its checksum included (RFC 1071).
    fn header_sum(frame: &[u8], header: &Header) -> u16 {
        Sum::default().bytes(&frame[header.payload_offset..][..ipv4::HEADER_BYTES]).fold()
    }

    #[test]
    fn packets_read_back_at_every_length_and_ecn_field() {
        for len in MIN_IP_BYTES..=MAX_BYTES {
            for (ecn, tag) in [(0, None), (1, None), (2, Some(Tag::priority(3))), (3, Some(Tag::priority(7)))]
            {
                let frame = packet(usize::from(len), tag, ecn);
                assert_eq!(received(&frame), Some(ParseResult::Whole(CONTENT)), "{len} bytes, {tag:?}");
                let header = Header::parse(&frame).unwrap();
                assert_eq!((ip::ecn(&frame, &header), header_sum(&frame, &header)), (Some(ecn), 0xffff));
                let packet = ipv4::Packet::parse(&frame[header.payload_offset..]).unwrap();
                assert_eq!(packet.payload().len(), frame.len() - header.payload_offset - 20, "to the end");
            }
        }
    }

    #[test]
    fn a_packet_byte_by_byte() {
        let frame = packet(100, Some(Tag::priority(3)), 2);
        assert_eq!(frame[12..18], [0x81, 0, 0x60, 0, 8, 0]);
        assert_eq!(frame[18..28], [0x45, 2, 0, 82, 0, 0, 0x40, 0, 64, 17], "82 bytes, ECT(0), UDP");
        assert_eq!(frame[28..30], [0x26, 0x97], "calculated by hand");
        assert_eq!(frame[30..38], [10, 0, 0, 2, 10, 0, 0, 1]);
        assert_eq!(
            frame[38..46],
            [0xc3, 4, 0x12, 0xb7, 0, 62, 0, 0],
            "the flow's to 4791, 62 bytes, no checksum"
        );
        assert_eq!(frame[46..54], *b"SLUH\x02123");
    }

    #[test]
    fn a_marked_packet_is_otherwise_equal() {
        for ecn in 0..4 {
            let mut frame = packet(333, None, ecn);
            let header = Header::parse(&frame).unwrap();
            assert!(ip::set_ce(&mut frame, &header));
            assert_eq!((ip::ecn(&frame, &header), header_sum(&frame, &header)), (Some(3), 0xffff));
            assert_eq!(received(&frame), Some(ParseResult::Whole(CONTENT)));
        }
    }

    #[test]
    fn a_cnp_is_recognized() {
        let cnp = Content { kind: FrameKind::Cnp, sequence: 0, ..CONTENT };
        let mut frame = vec![0; usize::from(MIN_IP_BYTES)];
        write(&mut frame, DST, SRC, Some(Tag::priority(6)), Some(1), &cnp);
        assert_eq!(received(&frame), Some(ParseResult::Whole(cnp)));
    }

    /// Changes bytes after the headers of the packet, which switches and routers may rewrite.
    #[test]
    fn any_flipped_bit_of_a_packet_is_found() {
        let good = packet(100, None, 2);
        for bit in (14 + UDP_HEADERS_BYTES) * 8..100 * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(received(&bad), Some(ParseResult::Whole(_))), "bit {bit}");
        }
    }

    #[test]
    fn packets_of_others_are_not_ours() {
        let good = packet(100, None, 2);
        for (what, at, value) in [
            ("IPv6", 12, 0x86),
            ("options", 14, 0x46),
            ("TCP", 23, 6),
            ("another port", 37, 0xb8),
            ("a real RoCEv2 packet", 42, 0x81),
        ] {
            let mut other = good.clone();
            assert_ne!(other[at], value);
            other[at] = value;
            assert_eq!(received(&other), None, "{what}");
        }
        for len in 14..14 + UDP_HEADERS_BYTES + MAGIC.len() {
            assert_eq!(received(&good[..len]), None, "{len} bytes");
        }
        for len in 14 + UDP_HEADERS_BYTES + MAGIC.len()..100 {
            assert!(matches!(received(&good[..len]), Some(ParseResult::Corrupted { .. })), "{len} bytes");
        }
    }
}
