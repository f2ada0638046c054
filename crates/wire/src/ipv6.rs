//! A checked view of an IPv6 packet and the way through its extension headers (RFC 8200).

use crate::Error;

/// Bytes of the fixed header.
pub const HEADER_BYTES: usize = 40;
/// Maximum number of extension headers that are parsed; real packets have one or two.
pub const MAX_EXTENSIONS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// An IPv6 packet whose length has been checked.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Version to hop limit.
    first: &'a [u8; 8],
    src: &'a [u8; 16],
    dst: &'a [u8; 16],
    payload: &'a [u8],
}

/// The transport protocol behind the extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transport<'a> {
    /// Number of the transport protocol.
    pub protocol: u8,
    /// Transport header and data, up to the end of the packet.
    pub bytes: &'a [u8],
    /// True if a routing header has segments left: the packet's destination is not yet the final
    /// one.
    pub routed: bool,
}

impl<'a> Packet<'a> {
    /// Reads a packet at the start of `bytes`; bytes after its payload length (Ethernet padding)
    /// are left out.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (first, rest) = bytes.split_first_chunk::<8>().ok_or(Error::Truncated)?;
        let (src, rest) = rest.split_first_chunk::<16>().ok_or(Error::Truncated)?;
        let (dst, rest) = rest.split_first_chunk::<16>().ok_or(Error::Truncated)?;
        if first[0] >> 4 != 6 {
            return Err(Error::WrongType);
        }
        let payload_bytes = usize::from(u16::from_be_bytes([first[4], first[5]]));
        let payload = rest.get(..payload_bytes).ok_or(Error::Truncated)?;
        Ok(Self { first, src, dst, payload })
    }

    /// Returns the traffic class: DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        self.first[0] << 4 | self.first[1] >> 4
    }

    /// Returns the differentiated services code point, 0–63.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Returns the ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Returns the type of the header after the fixed one: an extension header or the transport
    /// protocol.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.first[6]
    }

    /// Returns the source address.
    #[inline]
    pub fn src(&self) -> &'a [u8; 16] {
        self.src
    }

    /// Returns the destination address as it is in the header.
    #[inline]
    pub fn dst(&self) -> &'a [u8; 16] {
        self.dst
    }

    /// Returns the payload: everything after the fixed header, up to the end of the packet.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns the transport header, after hop-by-hop, routing and destination options. `None` for
    /// fragments, for headers that do not fit in the packet, and past [`MAX_EXTENSIONS`]. Any other
    /// protocol (also AH and ESP) is returned as the transport protocol.
    #[inline]
    pub fn transport(&self) -> Option<Transport<'a>> {
        let mut transport = Transport { protocol: self.next_header(), bytes: self.payload, routed: false };
        for _ in 0..=MAX_EXTENSIONS {
            match transport.protocol {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => transport.skip_extension()?,
                FRAGMENT => return None,
                _ => return Some(transport),
            }
        }
        None
    }
}

impl Transport<'_> {
    fn skip_extension(&mut self) -> Option<()> {
        let &[next, len, _kind, segments_left] = self.bytes.first_chunk()?;
        self.routed |= self.protocol == ROUTING && segments_left != 0;
        self.bytes = self.bytes.get((usize::from(len) + 1) * 8..)?;
        self.protocol = next;
        Some(())
    }
}
