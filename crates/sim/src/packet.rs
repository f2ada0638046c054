//! Frames in the simulated network: headers and a length. Frames of hosts look like RoCEv2, so that
//! captures are readable: Ethernet, a priority tag, IPv4 with ECN, UDP to port 4791, and the base
//! transport header, with the flow as queue pair and the frame's number as packet sequence number.
//!
//! ```text
//! 0          14    18         38    46                          58               62
//! +----------+-----+----------+-----+---------------------------+----------------+
//! | Ethernet | tag | IPv4     | UDP | BTH: opcode … QP … PSN    | data: number   |
//! |          |     |          |     |                           | ÷ 2^24         |
//! |          |     |          |     |                           | ACK: AETH      |
//! +----------+-----+----------+-----+---------------------------+----------------+
//!
//! AETH   58: syndrome, 0x1f ACK, 0x60 NAK (PSN sequence error)
//!        59: number of the acknowledged frame, where the MSN is otherwise
//! BTH    50: bit 6 (BECN) if that frame was marked
//!        54: repetition, in the reserved bits: how often the frame was sent before, modulo 128; an
//!            acknowledgment repeats it
//!        55: PSN, of an acknowledgment the expected number
//! ```
//! Hosts send tagged frames, with a priority alone or with their VLAN. Switches with VLANs remove
//! the tag where a port's frames are untagged; what follows is 4 bytes earlier then.
//!
//! Source: InfiniBand Architecture Specification volume 1, 9.2 (BTH), 9.3.5 and 9.7.5.2 (AETH), and
//! annex A17 (RoCEv2, FECN and BECN, CNP opcode 0x81).

pub(crate) mod frame_store;

use wire::ethernet::{self, IPV4, TAG_BYTES, Tag, VLAN, write_header};
use wire::ipv4::{self, ROCEV2_PORT, UDP_HEADERS_BYTES, rocev2_source_port};
use wire::mac::MacAddr;

/// Bytes of a frame that are stored.
pub(crate) const CARRIED_BYTES: usize = 62;
/// Length of a CNP without FCS: headers, BTH and 16 reserved bytes, ICRC.
pub(crate) const CNP_BYTES: u16 = 78;
/// Length of an acknowledgment without FCS: headers, BTH, AETH, ICRC.
pub(crate) const ACK_BYTES: u16 = 66;
/// CNPs are sent at this 802.1p priority.
pub(crate) const CNP_PRIORITY: u8 = 6;

/// Offsets in a tagged frame.
const IP: usize = 18;
const BTH: usize = IP + UDP_HEADERS_BYTES;
const HIGH: usize = BTH + 12;
const SEND_ONLY: u8 = 0x04;
const ACK: u8 = 0x11;
const CNP: u8 = 0x81;
const ECT1: u8 = 0b01;
const CE: u8 = 0b11;

/// A frame: its length and stored bytes, in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Packet {
    /// Length without FCS.
    pub(crate) len: u16,
    pub(crate) bytes: [u8; CARRIED_BYTES],
}

/// Meaning of a frame to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Frame `number` of a flow, sent again `repetition` times before, modulo 128.
    Data { flow: usize, number: u64, repetition: u8, marked: bool },
    /// The flow's sender must slow down.
    Cnp { flow: usize },
    /// The flow's receiver acknowledges a frame.
    Ack { flow: usize, ack: AckContent },
}

/// What an acknowledgment reports: numbers by their lower 24 bits, as packet sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AckContent {
    /// The number that the receiver expects next.
    pub(crate) expected: u32,
    /// The frame that is acknowledged.
    pub(crate) number: u32,
    /// Which of its repetitions has arrived.
    pub(crate) repetition: u8,
    /// True if that frame was marked.
    pub(crate) marked: bool,
    /// True if it was discarded, because it is not the expected one.
    pub(crate) is_nak: bool,
}

/// Numbers of frames as packet sequence numbers.
const PSN_MASK: u32 = 0x00ff_ffff;
/// Repetitions in the reserved bits of a BTH, above the packet sequence number.
const REPETITION_MASK: u32 = 0x7f00_0000;
/// The bit of a BTH that tells a sender of marks, beside the queue pair.
const BECN: u8 = 1 << 6;
/// Syndromes of an acknowledgment: one without end-to-end credits, and a PSN sequence error.
const SYNDROME_ACK: u8 = 0x1f;
const SYNDROME_NAK: u8 = 0x60;

impl AckContent {
    /// Builds the acknowledgment of a repetition of frame `number` by a receiver that expects
    /// `expected`.
    pub(crate) fn new(expected: u64, (number, repetition): (u64, u8), marked: bool, is_nak: bool) -> Self {
        let [expected, number] = [expected, number].map(|number| number as u32 & PSN_MASK);
        Self { expected, number, repetition, marked, is_nak }
    }
}

/// Returns the number nearest to `near` that has these lower 24 bits.
pub(crate) fn nearest_number(low: u32, near: u64) -> u64 {
    const NUMBERS: u64 = PSN_MASK as u64 + 1;
    let number = (near & !(NUMBERS - 1)) | u64::from(low);
    match number {
        _ if number + NUMBERS / 2 < near => number + NUMBERS,
        _ if number > near + NUMBERS / 2 => number.saturating_sub(NUMBERS),
        _ => number,
    }
}

/// Returns the MAC address of the host of node `node`.
pub(crate) fn host_mac(node: usize) -> MacAddr {
    let [_, _, _, _, _, a, b, c] = (node as u64).to_be_bytes();
    MacAddr([2, 0, 0, a, b, c])
}

/// Returns the destination address of a frame.
#[inline]
pub(crate) fn destination(bytes: &[u8; CARRIED_BYTES]) -> MacAddr {
    let [a, b, c, d, e, f, ..] = *bytes;
    MacAddr([a, b, c, d, e, f])
}

/// Returns the node of the host to which a frame is addressed, if it is addressed to one.
#[inline]
pub(crate) fn host_number(bytes: &[u8; CARRIED_BYTES]) -> Option<usize> {
    let [2, 0, 0, a, b, c, ..] = *bytes else { return None };
    Some(u32::from_be_bytes([0, a, b, c]) as usize)
}

/// Returns by how much offsets are less than those in a tagged frame.
#[inline]
pub(crate) fn missing_tag_bytes(bytes: &[u8; CARRIED_BYTES]) -> usize {
    if bytes[12..14] == VLAN.to_be_bytes() { 0 } else { TAG_BYTES }
}

/// Returns the VID of a frame's tag, 0 of one that has a priority only; `None` without tag.
#[inline]
pub(crate) fn vid_of(bytes: &[u8; CARRIED_BYTES]) -> Option<u16> {
    let tci = u16::from_be_bytes([bytes[14], bytes[15]]);
    (missing_tag_bytes(bytes) == 0).then_some(tci & 0x0fff)
}

/// True if a host of this VLAN accepts frames with a tag of this VID; one that has none accepts
/// frames without VLAN.
#[inline]
pub(crate) fn vid_in(vlan: Option<u16>, tag: Option<u16>) -> bool {
    if vlan.is_some() { tag == vlan } else { tag.unwrap_or(0) == 0 }
}

/// Returns the node of the host that has the IPv4 destination address of a frame.
#[inline]
pub(crate) fn destination_node(bytes: &[u8; CARRIED_BYTES]) -> usize {
    let at = IP - missing_tag_bytes(bytes);
    let [a, b, c] = [bytes[at + 17], bytes[at + 18], bytes[at + 19]];
    (u32::from_be_bytes([0, a, b, c]) as usize).wrapping_sub(1)
}

/// Returns the destination queue pair of a frame, the number of its flow.
#[inline]
pub(crate) fn queue_pair(bytes: &[u8; CARRIED_BYTES]) -> u32 {
    let at = BTH - missing_tag_bytes(bytes);
    u32::from_be_bytes([0, bytes[at + 5], bytes[at + 6], bytes[at + 7]])
}

/// Returns the MAC address of a switch port.
pub(crate) fn port_mac(node: usize, port: usize) -> MacAddr {
    let [_, _, _, _, _, _, a, b] = (node as u64).to_be_bytes();
    MacAddr([2, 1, 0, a, b, port as u8])
}

/// Properties of a flow's frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketHeaders {
    pub(crate) flow: usize,
    /// Sender and receiver, as nodes.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// VIDs of the tags that sender and receiver send, 0 without a VLAN.
    pub(crate) vids: [u16; 2],
    pub(crate) priority: u8,
    pub(crate) dscp: u8,
    /// Value of the ECN field.
    pub(crate) ecn: u8,
    /// Length without FCS.
    pub(crate) len: u16,
}

impl PacketHeaders {
    /// Returns those of frames from the receiver to the sender.
    fn back(&self) -> Self {
        let [sender, receiver] = self.vids;
        Self { from: self.to, to: self.from, vids: [receiver, sender], ..*self }
    }
}

impl Packet {
    /// Builds frame 0 of a flow.
    pub(crate) fn data(headers: &PacketHeaders) -> Self {
        Self::new(headers, SEND_ONLY)
    }

    /// Builds a CNP from the flow's receiver to its sender. Its ECN field is 01, so that no switch
    /// drops it early (docs/references.md, "Inspur white paper", figures 3-5 and 3-7).
    pub(crate) fn cnp(headers: &PacketHeaders) -> Self {
        let (priority, dscp) = (CNP_PRIORITY, CNP_PRIORITY * 8);
        Self::new(&PacketHeaders { priority, dscp, ecn: ECT1, len: CNP_BYTES, ..headers.back() }, CNP)
    }

    /// Builds an acknowledgment from the flow's receiver to its sender, with an ECN field as that
    /// of a CNP.
    pub(crate) fn ack(headers: &PacketHeaders, (priority, dscp): (u8, u8), ack: AckContent) -> Self {
        let headers = PacketHeaders { priority, dscp, ecn: ECT1, len: ACK_BYTES, ..headers.back() };
        let mut packet = Self::new(&headers, ACK);
        let expected = u32::from(ack.repetition) << 24 | ack.expected;
        packet.bytes[BTH + 8..BTH + 12].copy_from_slice(&expected.to_be_bytes());
        packet.bytes[BTH + 4] = if ack.marked { BECN } else { 0 };
        packet.bytes[HIGH..].copy_from_slice(&ack.number.to_be_bytes());
        packet.bytes[HIGH] = if ack.is_nak { SYNDROME_NAK } else { SYNDROME_ACK };
        packet
    }

    fn new(headers: &PacketHeaders, opcode: u8) -> Self {
        let mut bytes = [0; CARRIED_BYTES];
        let tag = Tag { vid: headers.vids[0], ..Tag::priority(headers.priority) };
        write_header(&mut bytes, host_mac(headers.to), host_mac(headers.from), Some(tag), IPV4);
        let addresses = [headers.from, headers.to].map(|node| {
            let [_, a, b, c] = (node as u32 + 1).to_be_bytes();
            [10, a, b, c]
        });
        let ports = [rocev2_source_port(headers.flow as u32), ROCEV2_PORT];
        let ip_and_udp = bytes[IP..].first_chunk_mut().expect("they are carried");
        ipv4::write_udp(
            ip_and_udp,
            headers.len - IP as u16,
            headers.dscp << 2 | headers.ecn,
            addresses,
            ports,
        );
        bytes[BTH] = opcode;
        bytes[BTH + 2..BTH + 4].copy_from_slice(&[0xff, 0xff]); // default partition
        bytes[BTH + 4..BTH + 8].copy_from_slice(&(headers.flow as u32).to_be_bytes());
        Self { len: headers.len, bytes }
    }

    /// Sets the number of a flow's frame, and how often it was sent before.
    #[inline]
    pub(crate) fn set_number(&mut self, number: u64, repetitions: u32) {
        let word = repetitions << 24 & REPETITION_MASK | number as u32 & PSN_MASK;
        self.bytes[BTH + 8..BTH + 12].copy_from_slice(&word.to_be_bytes());
        self.bytes[HIGH..].copy_from_slice(&((number >> 24) as u32).to_be_bytes());
    }
}

/// True if a frame of these bytes is PFC.
#[inline]
pub(crate) fn is_control(bytes: &[u8; CARRIED_BYTES]) -> bool {
    bytes[12..14] == ethernet::MAC_CONTROL.to_be_bytes()
}

/// Parses the bytes of a host's frame.
#[inline]
pub(crate) fn content(bytes: &[u8; CARRIED_BYTES]) -> Content {
    let [ip, bth, high] = [IP, BTH, HIGH].map(|at| at - missing_tag_bytes(bytes));
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let flow = queue_pair(bytes) as usize;
    let repetition = bytes[bth + 8];
    if bytes[bth] == CNP {
        return Content::Cnp { flow };
    }
    if bytes[bth] == ACK {
        let (expected, number) = (word(bth + 8) & PSN_MASK, word(high) & PSN_MASK);
        let (marked, is_nak) = (bytes[bth + 4] & BECN != 0, bytes[high] == SYNDROME_NAK);
        return Content::Ack { flow, ack: AckContent { expected, number, repetition, marked, is_nak } };
    }
    let number = u64::from(word(bth + 8) & PSN_MASK) | u64::from(word(high)) << 24;
    Content::Data { flow, number, repetition, marked: bytes[ip + 1] & CE == CE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ones_complement::Sum;
    use wire::{ethernet::Header, ip};

    const LOOK: PacketHeaders = PacketHeaders {
        flow: 70_000,
        from: 3,
        to: 258,
        vids: [0, 0],
        priority: 5,
        dscp: 40,
        ecn: 2,
        len: 1024,
    };

    #[test]
    fn a_frame_is_parsed_as_it_was_built() {
        let mut packet = Packet::data(&LOOK);
        for number in [0, 1, 0x00ff_ffff, 0x0100_0000, 0x1234_5678_9abc] {
            packet.set_number(number, 0x1ff);
            let expected = Content::Data { flow: 70_000, number, repetition: 0x7f, marked: false };
            assert_eq!(content(&packet.bytes), expected);
        }
        let header = Header::parse(&packet.bytes).expect("a frame");
        assert_eq!((header.dst, header.src), (host_mac(258), host_mac(3)));
        assert_eq!(header.outer, Some(Tag::priority(5)));
        assert_eq!((ip::dscp(&packet.bytes, &header), ip::ecn(&packet.bytes, &header)), (Some(40), Some(2)));
        assert!(ip::set_ce(&mut packet.bytes, &header));
        assert!(matches!(content(&packet.bytes), Content::Data { marked: true, .. }));
        assert_eq!(
            Sum::default().bytes(&packet.bytes[IP..IP + ipv4::HEADER_BYTES]).fold(),
            0xffff,
            "the checksum is right still"
        );
        assert!(!is_control(&packet.bytes));
    }

    /// A switch has removed the tag.
    #[test]
    fn an_untagged_frame_is_parsed_as_a_tagged_one() {
        let mut packet = Packet::data(&PacketHeaders { vids: [20, 0], ..LOOK });
        packet.set_number(0x1234_5678_9abc, 3);
        let tagged = packet;
        ethernet::pop_tag(&mut packet.bytes);
        assert_eq!([tagged, packet].map(|packet| vid_of(&packet.bytes)), [Some(20), None]);
        assert_eq!([tagged, packet].map(|packet| content(&packet.bytes)), [content(&tagged.bytes); 2]);
        assert_eq!([tagged, packet].map(|packet| destination_node(&packet.bytes)), [258; 2]);
        let accepted =
            |packet: &Packet| [None, Some(20), Some(21)].map(|vlan| vid_in(vlan, vid_of(&packet.bytes)));
        assert_eq!(accepted(&tagged), [false, true, false]);
        assert_eq!(accepted(&packet), [true, false, false]);
        assert_eq!(accepted(&Packet::data(&LOOK)), [true, false, false], "a priority is no VLAN");
        let back = Packet::ack(
            &PacketHeaders { vids: [20, 0], ..LOOK },
            (6, 48),
            AckContent::new(1, (0, 0), false, false),
        );
        assert_eq!(vid_of(&back.bytes), Some(0), "the receiver has no VLAN");
    }

    #[test]
    fn an_acknowledgment_is_parsed_as_it_was_built() {
        for (marked, is_nak, syndrome) in
            [(false, false, 0x1f), (true, false, 0x1f), (false, true, 0x60), (true, true, 0x60)]
        {
            let ack = AckContent::new(0x1234_5678_9abc, (0x1234_5678_9abb, 0x7e), marked, is_nak);
            assert_eq!((ack.expected, ack.number), (0x78_9abc, 0x78_9abb));
            let packet = Packet::ack(&LOOK, (6, 48), ack);
            assert_eq!((content(&packet.bytes), packet.len), (Content::Ack { flow: 70_000, ack }, 66));
            assert_eq!((packet.bytes[58], packet.bytes[50]), (syndrome, if marked { 0x40 } else { 0 }));
            let header = Header::parse(&packet.bytes).expect("a frame");
            assert_eq!((destination(&packet.bytes), header.outer), (host_mac(3), Some(Tag::priority(6))));
        }
    }

    #[test]
    fn a_cnp_goes_the_other_way() {
        let cnp = Packet::cnp(&LOOK);
        let header = Header::parse(&cnp.bytes).expect("a frame");
        assert_eq!(
            (header.dst, header.src, destination(&cnp.bytes)),
            (host_mac(3), host_mac(258), host_mac(3))
        );
        assert_eq!((content(&cnp.bytes), cnp.len), (Content::Cnp { flow: 70_000 }, 78));
        assert_eq!(
            ip::ecn(&cnp.bytes, &header),
            Some(0b01),
            "row 309: figures 3-5 and 3-7 of the Inspur paper"
        );
    }
}
