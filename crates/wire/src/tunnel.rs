//! Finds the inner packet of a tunnel packet.
//!
//! Source: RFC 2003, 2473 and 4213 (IP in IP), RFC 2784 and 2890 (GRE), RFC 7348 (VXLAN),
//! draft-ietf-nvo3-vxlan-gpe, RFC 8926 (GENEVE); the ports are IANA's and the defaults of Linux.
//!
//! ```text
//! IP in IP:   IP | IP …
//! GRE:        IP | GRE | IP … or Ethernet …
//! VXLAN-GPE:  IP | UDP | VXLAN-GPE | IP … or Ethernet …
//! GENEVE:     IP | UDP | GENEVE | IP … or Ethernet …
//! VXLAN:      IP | UDP | VXLAN | Ethernet …
//! ```

use crate::ethernet::{Fields, Header, IPV4, IPV6, NO_TAG};
use crate::ip::Version;
use crate::ipv4::UDP;

/// The protocol number of IPv4 in IP.
pub const IPV4_IN_IP: u8 = 4;
/// The protocol number of IPv6 in IP.
pub const IPV6_IN_IP: u8 = 41;
/// The protocol number of GRE.
pub const GRE: u8 = 47;

/// UDP port of VXLAN.
pub const VXLAN_PORT: u16 = 4789;
/// UDP port that Linux uses for VXLAN by default, from the time before IANA assigned one.
pub const VXLAN_LINUX_PORT: u16 = 8472;
/// UDP port of VXLAN-GPE.
pub const VXLAN_GPE_PORT: u16 = 4790;
/// UDP port of GENEVE.
pub const GENEVE_PORT: u16 = 6081;

/// Ethernet in GRE and GENEVE (transparent Ethernet bridging).
const ETHERNET: u16 = 0x6558;
const UDP_HEADER_BYTES: usize = 8;
const VXLAN_HEADER_BYTES: usize = 8;
/// Bytes from a frame's destination address to the end of the first tag of the inner frame in its
/// VXLAN packet: two tags, IPv4 with options (60; IPv6 has 40), UDP, VXLAN, a header with two tags.
pub const LONGEST_VXLAN_HEADERS_BYTES: usize = 22 + 60 + UDP_HEADER_BYTES + VXLAN_HEADER_BYTES + 22;

/// An IP packet inside another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerPacket {
    /// IP version, as the header before the packet states it.
    pub version: Version,
    /// Offset of the packet, in bytes from the outer packet's payload.
    pub at: usize,
}

/// Returns the packet inside the `payload` of an IP packet that carries `protocol`.
///
/// `None` if the payload is no tunnel, if the inner packet is not IP, or if it must not be parsed
/// (VXLAN's remote checksum offload, where the receiver finishes the inner checksum).
#[inline]
pub fn inner_packet(protocol: u8, payload: &[u8]) -> Option<InnerPacket> {
    match protocol {
        UDP => {
            let port = u16_at(payload, 2)?;
            let is_tunnel = matches!(port, VXLAN_PORT | VXLAN_LINUX_PORT | VXLAN_GPE_PORT | GENEVE_PORT);
            if is_tunnel { inner_of_udp(port, payload) } else { None }
        }
        IPV4_IN_IP => Some(InnerPacket { version: Version::V4, at: 0 }),
        IPV6_IN_IP => Some(InnerPacket { version: Version::V6, at: 0 }),
        GRE => inner_of_gre(payload),
        _ => None,
    }
}

fn inner_of_udp(port: u16, payload: &[u8]) -> Option<InnerPacket> {
    let header: &[u8; 8] = payload.get(UDP_HEADER_BYTES..)?.first_chunk()?;
    let at = UDP_HEADER_BYTES + header.len();
    match port {
        GENEVE_PORT => {
            let options_bytes = usize::from(header[0] & 0x3f) * 4;
            let is_version_0 = header[0] >> 6 == 0;
            is_version_0.then(|| payload_type(payload, u16_at(header, 2)?, at + options_bytes)).flatten()
        }
        // Flags I (a VNI is present) and P (a next-protocol field is present).
        VXLAN_GPE_PORT if header[0] & 0x0c == 0x0c => match header[3] {
            1 => Some(InnerPacket { version: Version::V4, at }),
            2 => Some(InnerPacket { version: Version::V6, at }),
            3 => payload_type(payload, ETHERNET, at),
            _ => None,
        },
        VXLAN_GPE_PORT => None,
        // Flag I, and no flag of remote checksum offload (draft-herbert-vxlan-rco).
        _ => (header[0] & 0x08 != 0 && header[1] & 0x20 == 0)
            .then(|| payload_type(payload, ETHERNET, at))
            .flatten(),
    }
}

fn inner_of_gre(payload: &[u8]) -> Option<InnerPacket> {
    let gre = Gre::read(payload)?;
    payload_type(payload, gre.carried, gre.header_bytes)
}

/// Returns PCP · 2 + DEI of the first tag of the frame inside a VXLAN packet; `packet` is the outer
/// IP packet. `None` if the inner frame has no tag, if the headers before it are cut off, or if the
/// packet is a fragment. IPv6 extension headers are not parsed.
pub fn vxlan_inner_tag(packet: &[u8], version: Version) -> Option<u8> {
    let datagram = match version {
        Version::V4 => {
            let header_bytes = usize::from(packet.first()? & 0x0f) * 4;
            let is_complete = u16_at(packet, 6)? & 0x3fff == 0;
            let is_udp = *packet.get(9)? == UDP && header_bytes >= 20;
            (is_complete && is_udp).then(|| packet.get(header_bytes..))??
        }
        Version::V6 => (*packet.get(6)? == UDP).then(|| packet.get(crate::ipv6::HEADER_BYTES..))??,
    };
    let is_vxlan = matches!(u16_at(datagram, 2)?, VXLAN_PORT | VXLAN_LINUX_PORT);
    let header = datagram.get(UDP_HEADER_BYTES..)?;
    let has_vni = header.first()? & 0x08 != 0;
    let frame = header.get(VXLAN_HEADER_BYTES..).filter(|_| is_vxlan && has_vni)?;
    Some(Fields::read(frame).ok()?.pcp_and_dei).filter(|&tag| tag != NO_TAG)
}

/// The header of a GRE packet of version 0 without routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gre {
    /// True if bytes 4 and 5 hold a checksum.
    pub has_checksum: bool,
    /// Ethertype of the payload.
    carried: u16,
    header_bytes: usize,
}

impl Gre {
    /// Reads the header of a GRE packet; `None` for PPTP (version 1), source routing, and a
    /// truncated header.
    pub fn read(packet: &[u8]) -> Option<Gre> {
        let (flags, carried) = (u16_at(packet, 0)?, u16_at(packet, 2)?);
        // R, and the version.
        if flags & 0x4007 != 0 {
            return None;
        }
        let has_checksum = flags & 0x8000 != 0;
        let optional = [has_checksum, flags & 0x2000 != 0, flags & 0x1000 != 0]; // checksum, key, sequence number
        let header_bytes = 4 + 4 * optional.iter().filter(|&&is_there| is_there).count();
        (packet.len() >= header_bytes).then_some(Gre { has_checksum, carried, header_bytes })
    }
}

/// Returns the IP packet in `payload`, where the payload of type `ethertype` begins at `at`.
fn payload_type(payload: &[u8], ethertype: u16, at: usize) -> Option<InnerPacket> {
    match ethertype {
        IPV4 => Some(InnerPacket { version: Version::V4, at }),
        IPV6 => Some(InnerPacket { version: Version::V6, at }),
        ETHERNET => {
            let header = Header::parse(payload.get(at..)?).ok()?;
            let at = at + header.payload_offset;
            match header.ethertype {
                IPV4 => Some(InnerPacket { version: Version::V4, at }),
                IPV6 => Some(InnerPacket { version: Version::V6, at }),
                _ => None,
            }
        }
        _ => None,
    }
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|two| u16::from_be_bytes(*two))
}
