//! The Internet checksum, and completion of the checksums that a Linux sender left open.
//!
//! Source: docs/behavior.md, "Checksums and tags"; RFC 1071 (sum), RFC 9293 3.1 and RFC 768 (TCP,
//! UDP), RFC 8200 8.1 (over IPv6), RFC 9260 6.8 and appendix A (SCTP), RFC 2784 2.2 (GRE); for the
//! open ones the kernel's `include/linux/skbuff.h`, CHECKSUM_PARTIAL, and its
//! `Documentation/networking/checksum-offloads.rst`, "LCO".
//!
//! A local TCP or UDP sender leaves the checksum to the device: the field holds only the folded sum
//! of the pseudo header, not complemented. Over a veth no device ever finishes it, and XDP loses
//! the flag that it is open. So a field that equals that sum is taken for open. Where a finished
//! checksum happens to equal it, nothing is lost: field and pseudo header are then the same number,
//! so the same checksum results. SCTP and GRE have no pseudo header, so an open field is 0, and the
//! same holds.
//!
//! A sender leaves at most one checksum of a frame open. If that one is inside a tunnel, the outer
//! checksums were computed as if it were finished, and are right once it is. So the innermost one
//! is finished first. SCTP's CRC is a different sum, so inside a tunnel with a checksum of its own
//! the kernel never leaves it open.

use crate::ip::{DsField, Version};
use crate::ipv4::UDP;
use crate::ones_complement::Sum;
use crate::tunnel::{GRE, Gre, inner_packet};
use crate::{ipv4, ipv6};

const TCP: u8 = 6;
const SCTP: u8 = 132;
/// Bytes of the SCTP common header.
const SCTP_HEADER_BYTES: usize = 12;

/// Maximum depth of nested packets that are parsed; real frames have one or two.
pub const MAX_NESTED: usize = 4;

/// Finishes the checksum of a frame over IPv4 or IPv6 if its sender left it open. Returns true if
/// it did.
///
/// Handles TCP, UDP, SCTP and GRE, also inside IP in IP, GRE, VXLAN and GENEVE. Fragments, packets
/// whose lengths contradict each other, other protocols, and packets deeper than [`MAX_NESTED`] are
/// left as they are. Padding behind the IP packet does not count. `field` is where the frame's IP
/// packet was found.
#[inline]
pub fn complete_transport(frame: &mut [u8], field: DsField) -> bool {
    complete_packet(frame, (field.version(), field.packet_at()), &PseudoHeader { checksum: false, depth: 0 })
}

/// What encloses a packet.
struct PseudoHeader {
    /// True if an outer checksum covers the packet.
    checksum: bool,
    /// Number of enclosing packets.
    depth: usize,
}

/// Finishes the open checksum in the packet of this version at this offset, the innermost first.
#[inline]
fn complete_packet(frame: &mut [u8], (version, at): (Version, usize), around: &PseudoHeader) -> bool {
    let Some(transport) = find_transport(frame, version, at) else { return false };
    let (start, end) = (transport.start, transport.end);
    let Some(segment) = frame.get(start..end) else { return false };
    let finished_inside = match inner_packet(transport.protocol, segment) {
        Some(packet) if around.depth < MAX_NESTED => {
            let checksum = around.checksum || has_checksum(transport.protocol, segment);
            let around = PseudoHeader { checksum, depth: around.depth + 1 };
            complete_nested(frame, (packet.version, start + packet.at), end, &around)
        }
        _ => false,
    };
    complete_segment(frame, &transport, around.checksum) | finished_inside
}

/// Finishes the open checksum in a packet inside another, which ends at `end`. A separate function,
/// to keep it off the path of an ordinary frame.
#[cold]
fn complete_nested(frame: &mut [u8], packet: (Version, usize), end: usize, around: &PseudoHeader) -> bool {
    frame.get_mut(..end).is_some_and(|frame| complete_packet(frame, packet, around))
}

/// Returns true if the tunnel header of this protocol has a checksum over the whole inner packet.
fn has_checksum(protocol: u8, segment: &[u8]) -> bool {
    match protocol {
        UDP => segment.get(6..8).is_some_and(|field| field != [0, 0]),
        GRE => Gre::read(segment).is_some_and(|gre| gre.has_checksum),
        _ => false,
    }
}

/// A packet's transport header and data.
struct Transport {
    protocol: u8,
    /// Offset in the frame.
    start: usize,
    end: usize,
    /// Sum of the pseudo header, except protocol and length. `None` if it is not known, since the
    /// packet's destination is not the final one.
    addresses: Option<Sum>,
}

#[inline]
fn find_transport(frame: &[u8], version: Version, at: usize) -> Option<Transport> {
    let packet = frame.get(at..)?;
    match version {
        Version::V4 => {
            let ip = ipv4::Packet::parse(packet).ok().filter(|ip| !ip.is_fragment())?;
            let addresses = Some(Sum::default().bytes(&ip.src()).bytes(&ip.dst()));
            let start = at + ip.header_bytes();
            Some(Transport { protocol: ip.protocol(), start, end: start + ip.payload().len(), addresses })
        }
        Version::V6 => {
            let ip = ipv6::Packet::parse(packet).ok()?;
            let transport = ip.transport()?;
            // While a routing header has segments left, the checksum is for another destination
            // than the header's.
            let addresses = (!transport.routed).then(|| Sum::default().bytes(ip.src()).bytes(ip.dst()));
            let end = at + ipv6::HEADER_BYTES + ip.payload().len();
            let start = end - transport.bytes.len();
            Some(Transport { protocol: transport.protocol, start, end, addresses })
        }
    }
}

/// Finishes the checksum of this transport header if it is open.
#[inline]
#[expect(clippy::indexing_slicing, reason = "each arm checks the length first")]
fn complete_segment(frame: &mut [u8], transport: &Transport, is_covered: bool) -> bool {
    let Some(segment) = frame.get_mut(transport.start..transport.end) else { return false };
    match transport.protocol {
        TCP if segment.len() >= 20 => complete_open(segment, 16, transport),
        // The datagram's own length must agree.
        UDP if segment.len() >= 8 && segment[4..6] == (segment.len() as u16).to_be_bytes() => {
            complete_open(segment, 6, transport)
        }
        SCTP if !is_covered => complete_sctp(segment),
        GRE => complete_gre(segment),
        _ => false,
    }
}

/// Finishes the checksum at `field_at` of TCP or UDP if it is open.
#[inline]
#[expect(clippy::indexing_slicing, reason = "its caller has checked that the header is whole")]
fn complete_open(segment: &mut [u8], field_at: usize, transport: &Transport) -> bool {
    let Some(addresses) = transport.addresses else { return false };
    let pseudo = addresses.number(u16::from(transport.protocol)).number(segment.len() as u16).fold();
    if u16::from_be_bytes([segment[field_at], segment[field_at + 1]]) != pseudo {
        return false;
    }
    // The field holds the pseudo header's sum, so the sum over the unchanged segment covers
    // everything.
    let mut checksum = !Sum::default().bytes(segment).fold();
    if transport.protocol == UDP && checksum == 0 {
        checksum = 0xffff; // 0 would mean "no checksum" (RFC 768)
    }
    segment[field_at..field_at + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Finishes SCTP's CRC32c if it is open. It is written least significant byte first (RFC 9260,
/// appendix A).
#[cold]
#[expect(clippy::indexing_slicing, reason = "the length is checked first")]
fn complete_sctp(packet: &mut [u8]) -> bool {
    if packet.len() < SCTP_HEADER_BYTES || packet[8..12] != [0; 4] {
        return false;
    }
    let crc = crc32c::crc32c(packet);
    packet[8..12].copy_from_slice(&crc.to_le_bytes());
    true
}

/// Finishes the checksum of a GRE header, over the header and its payload, if it has one that is
/// open.
#[cold]
#[expect(clippy::indexing_slicing, reason = "a GRE header that says it has a checksum is read whole")]
fn complete_gre(packet: &mut [u8]) -> bool {
    let is_open = Gre::read(packet).is_some_and(|gre| gre.has_checksum) && packet[4..6] == [0; 2];
    if is_open {
        let checksum = !Sum::default().bytes(packet).fold();
        packet[4..6].copy_from_slice(&checksum.to_be_bytes());
    }
    is_open
}
