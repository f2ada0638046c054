//! A checked view of an IPv4 packet (RFC 791; DSCP and ECN: RFC 2474, RFC 3168).

use crate::Error;
use crate::ones_complement::Sum;

/// Bytes of a header without options.
pub const HEADER_BYTES: usize = 20;
/// The protocol number of UDP.
pub const UDP: u8 = 17;
/// Bytes of an IPv4 header without options and a UDP header (RFC 768).
pub const UDP_HEADERS_BYTES: usize = HEADER_BYTES + 8;
/// The UDP port of RoCEv2 (InfiniBand Architecture Specification, annex A17).
pub const ROCEV2_PORT: u16 = 4791;

/// Returns the UDP source port of a flow's RoCEv2 packets, from 49152 on. Each flow keeps its own,
/// so that devices that spread flows over paths or queues by port can distinguish them. Source:
/// InfiniBand Architecture Specification volume 1, annex A17.
pub fn rocev2_source_port(flow: u32) -> u16 {
    0xc000 | flow as u16 & 0x3fff
}

/// Time to live of the packets that are written here.
const TTL: u8 = 64;

/// Writes the IPv4 and UDP headers of a packet of `length` bytes, headers included. The
/// don't-fragment flag is set, the IPv4 header checksum is valid, and the UDP checksum is 0: none.
///
/// # Panics
/// If `length` is less than the length of the headers.
pub fn write_udp(
    headers: &mut [u8; UDP_HEADERS_BYTES],
    length: u16,
    traffic_class: u8,
    [src, dst]: [[u8; 4]; 2],
    [from_port, to_port]: [u16; 2],
) {
    assert!(usize::from(length) >= UDP_HEADERS_BYTES, "{length} bytes do not hold the headers");
    let udp_length = length - HEADER_BYTES as u16;
    headers.fill(0);
    headers[0..2].copy_from_slice(&[0x45, traffic_class]);
    headers[2..4].copy_from_slice(&length.to_be_bytes());
    headers[6] = 0x40; // don't fragment
    headers[8..10].copy_from_slice(&[TTL, UDP]);
    headers[12..16].copy_from_slice(&src);
    headers[16..20].copy_from_slice(&dst);
    let checksum = !Sum::default().bytes(&headers[..HEADER_BYTES]).fold();
    headers[10..12].copy_from_slice(&checksum.to_be_bytes());
    headers[20..22].copy_from_slice(&from_port.to_be_bytes());
    headers[22..24].copy_from_slice(&to_port.to_be_bytes());
    headers[24..26].copy_from_slice(&udp_length.to_be_bytes());
}

/// An IPv4 packet whose lengths have been checked, but not its header checksum.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    fixed: &'a [u8; HEADER_BYTES],
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet at the start of `bytes`; bytes after its total length (Ethernet padding) are
    /// left out.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let fixed: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(Error::Truncated)?;
        if fixed[0] >> 4 != 4 {
            return Err(Error::WrongType);
        }
        let header_bytes = usize::from(fixed[0] & 0x0f) * 4;
        let total_bytes = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if header_bytes < HEADER_BYTES || total_bytes < header_bytes {
            return Err(Error::BadLength);
        }
        let payload = bytes.get(header_bytes..total_bytes).ok_or(Error::Truncated)?;
        Ok(Self { fixed, payload })
    }

    /// Returns the length of the header in bytes, options included.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        usize::from(self.fixed[0] & 0x0f) * 4
    }

    /// Returns the differentiated services code point, 0–63.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.fixed[1] >> 2
    }

    /// Returns the ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.fixed[1] & 3
    }

    /// Returns true for every fragment of a larger packet, the first one included.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        // More-fragments flag or a non-zero offset; the don't-fragment flag does not count.
        u16::from_be_bytes([self.fixed[6], self.fixed[7]]) & 0x3fff != 0
    }

    /// Returns the protocol of the payload.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.fixed[9]
    }

    /// Returns the source address.
    #[inline]
    pub fn src(&self) -> [u8; 4] {
        [self.fixed[12], self.fixed[13], self.fixed[14], self.fixed[15]]
    }

    /// Returns the destination address.
    #[inline]
    pub fn dst(&self) -> [u8; 4] {
        [self.fixed[16], self.fixed[17], self.fixed[18], self.fixed[19]]
    }

    /// Returns the payload, up to the packet's total length.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
