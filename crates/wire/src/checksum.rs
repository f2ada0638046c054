//! The Internet checksum, and finishing the ones that a Linux sender left open.
//!
//! Source: docs/law.md, "Checksums and tags"; RFC 1071 (sum), RFC 9293 3.1 and RFC 768 (TCP, UDP), RFC 8200 8.1 (over
//! IPv6); for the open ones the kernel's `include/linux/skbuff.h`, CHECKSUM_PARTIAL.
//!
//! A local TCP or UDP sender leaves the checksum to the device: the field holds only the folded sum of the pseudo
//! header, not complemented. Over a veth no device ever finishes it, and XDP loses the flag that it is open. So a field
//! that equals that sum is taken for open. Where a finished checksum happens to equal it, nothing is lost: field and
//! pseudo header are then the same number, so the same checksum comes out again.

use crate::ip::{DsField, Version};
use crate::ipv4::UDP;
use crate::{ipv4, ipv6};

const TCP: u8 = 6;

/// A running one's complement sum.
///
/// The sum is the same in either byte order but for a swap of the result (RFC 1071 2.B), so words are added as they lie
/// in memory and swapped once at the end. 64 bits have room for the sum of 16 GiB, so nothing carries on the way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes. Only the last piece may have an odd length.
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (blocks, rest) = bytes.as_chunks::<32>();
        // Halves of words cannot overflow the four lanes, which lets the compiler use vectors.
        let mut lanes = [0u64; 4];
        for block in blocks {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
                let word = u64::from_ne_bytes(*word);
                *lane += (word >> 32) + (word & 0xffff_ffff);
            }
        }
        let mut sum = self.0 + lanes[0] + lanes[1] + lanes[2] + lanes[3];
        let (words, rest) = rest.as_chunks::<4>();
        for word in words {
            sum += u64::from(u32::from_ne_bytes(*word));
        }
        sum += match *rest {
            [a, b, c] => u64::from(u32::from_ne_bytes([a, b, c, 0])),
            [a, b] => u64::from(u32::from_ne_bytes([a, b, 0, 0])),
            [a] => u64::from(u32::from_ne_bytes([a, 0, 0, 0])),
            _ => 0,
        };
        Sum(sum)
    }

    /// Adds a 16-bit number.
    #[inline]
    pub fn number(self, number: u16) -> Self {
        Sum(self.0 + u64::from(number.to_be()))
    }

    /// The sum folded to 16 bits, not complemented.
    #[inline]
    pub fn fold(self) -> u16 {
        let sum = (self.0 >> 32) + (self.0 & 0xffff_ffff); // at most 33 bits
        let sum = (sum >> 16) + (sum & 0xffff); // at most 18 bits
        let sum = (sum >> 16) + (sum & 0xffff); // at most 17 bits
        let sum = (sum >> 16) + (sum & 0xffff);
        u16::from_be(sum as u16)
    }
}

/// Finishes the checksum of a TCP or UDP frame over IPv4 or IPv6 if its sender left it open, and says whether it did.
///
/// Left alone: fragments, lengths that contradict each other, other protocols, and what is inside tunnels. Padding
/// behind the IP packet does not count.
/// `field` is where the frame's IP packet was found.
pub fn finish_transport(frame: &mut [u8], field: DsField) -> bool {
    let Some(open) = find_open(frame, field) else { return false };
    let Some(segment) = frame.get_mut(open.segment) else { return false };
    // The field holds the pseudo header's sum, so the sum over the segment as it stands is the sum over everything.
    let mut checksum = !Sum::default().bytes(segment).fold();
    if open.is_udp && checksum == 0 {
        checksum = 0xffff; // 0 would mean "no checksum" (RFC 768)
    }
    let Some(field) = segment.get_mut(open.field_at..).and_then(|rest| rest.first_chunk_mut()) else {
        return false;
    };
    *field = checksum.to_be_bytes();
    true
}

/// A segment whose checksum is open.
struct Open {
    /// Its place in the frame.
    segment: core::ops::Range<usize>,
    /// The checksum's place in the segment.
    field_at: usize,
    is_udp: bool,
}

#[inline]
fn find_open(frame: &[u8], field: DsField) -> Option<Open> {
    let packet = frame.get(field.packet_at()..)?;
    let (protocol, segment, start, addresses) = match field.version() {
        Version::V4 => {
            let ip = ipv4::Packet::parse(packet).ok().filter(|ip| !ip.is_fragment())?;
            let addresses = Sum::default().bytes(&ip.src()).bytes(&ip.dst());
            (ip.protocol(), ip.payload(), ip.header_bytes(), addresses)
        }
        Version::V6 => {
            let ip = ipv6::Packet::parse(packet).ok()?;
            // While a routing header is being worked off, the checksum is for another destination than the header's.
            let transport = ip.transport().filter(|transport| !transport.routed)?;
            let start = ipv6::HEADER_BYTES + ip.payload().len() - transport.bytes.len();
            let addresses = Sum::default().bytes(ip.src()).bytes(ip.dst());
            (transport.protocol, transport.bytes, start, addresses)
        }
    };
    let field_at = match protocol {
        TCP if segment.len() >= 20 => 16,
        // The datagram's own length must say the same.
        UDP if segment.len() >= 8 && segment[4..6] == (segment.len() as u16).to_be_bytes() => 6,
        _ => return None,
    };
    let checksum = u16::from_be_bytes([segment[field_at], segment[field_at + 1]]);
    let pseudo = addresses.number(u16::from(protocol)).number(segment.len() as u16).fold();
    if checksum != pseudo {
        return None;
    }
    let start = field.packet_at() + start;
    Some(Open { segment: start..start + segment.len(), field_at, is_udp: protocol == UDP })
}
