//! The differentiated services field of a frame's IPv4 or IPv6 packet, read and set in place.
//!
//! Source: RFC 2474 (DSCP), RFC 3168 (ECN, the two bits below it), RFC 1624 (incremental checksum).
//!
//! ```text
//! IPv4: version|IHL    DSCP|ECN …             IPv6: version (4) | DSCP (6) | ECN (2) | flow label (20)
//! ```

use crate::ethernet::{Header, IPV4, IPV6};
use crate::ipv4;

/// The DSCP of the packet in `frame`; `None` if it is neither IPv4 nor IPv6, or ends before its end.
#[inline]
pub fn dscp(frame: &[u8], header: &Header) -> Option<u8> {
    traffic_class(frame, header).map(|class| class >> 2)
}

/// Sets the DSCP of the packet in `frame` and corrects the checksum of an IPv4 header; ECN stays. False if there is no
/// such field.
pub fn set_dscp(frame: &mut [u8], header: &Header, dscp: u8) -> bool {
    match traffic_class(frame, header) {
        Some(class) => set_traffic_class(frame, header, (dscp & 0x3f) << 2 | class & 3),
        None => false,
    }
}

/// The ECN field of the packet in `frame`: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE; `None` as for [`dscp`].
#[inline]
pub fn ecn(frame: &[u8], header: &Header) -> Option<u8> {
    traffic_class(frame, header).map(|class| class & 3)
}

/// Sets the ECN field of the packet in `frame` to CE and corrects the checksum of an IPv4 header. False if there is no
/// such field.
pub fn set_ce(frame: &mut [u8], header: &Header) -> bool {
    match traffic_class(frame, header) {
        Some(class) => set_traffic_class(frame, header, class | 3),
        None => false,
    }
}

/// DSCP and ECN as the one octet that they share.
#[inline]
fn traffic_class(frame: &[u8], header: &Header) -> Option<u8> {
    let [first, second] = *frame.get(header.payload_offset..)?.first_chunk::<2>()?;
    match (header.ethertype, first >> 4) {
        (IPV4, 4) => Some(second),
        (IPV6, 6) => Some(first << 4 | second >> 4),
        _ => None,
    }
}

/// Sets that octet where `traffic_class` found one.
fn set_traffic_class(frame: &mut [u8], header: &Header, class: u8) -> bool {
    let Some(packet) = frame.get_mut(header.payload_offset..) else { return false };
    if header.ethertype == IPV6 {
        packet[0] = packet[0] & 0xf0 | class >> 4;
        packet[1] = packet[1] & 0x0f | class << 4;
        return true;
    }
    let Some(fixed) = packet.first_chunk_mut::<{ ipv4::HEADER_BYTES }>() else { return false };
    let before = u16::from_be_bytes([fixed[0], fixed[1]]);
    fixed[1] = class;
    let after = u16::from_be_bytes([fixed[0], class]);
    let checksum = u16::from_be_bytes([fixed[10], fixed[11]]);
    fixed[10..12].copy_from_slice(&corrected(checksum, before, after).to_be_bytes());
    true
}

/// A checksum after one of the words below it has changed: HC' = ~(~HC + ~m + m') (RFC 1624, equation 3).
fn corrected(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let sum = (sum >> 16) + (sum & 0xffff);
    !(((sum >> 16) + (sum & 0xffff)) as u16)
}
