//! The differentiated services field of a frame's IPv4 or IPv6 packet, read and set in place.
//!
//! Source: RFC 2474 (DSCP), RFC 3168 (ECN, the two bits below it), RFC 1624 (incremental checksum).
//!
//! ```text
//! IPv4: version|IHL    DSCP|ECN …
//! IPv6: version (4) | DSCP (6) | ECN (2) | flow label (20)
//! ```

use crate::ethernet::{Header, IPV4, IPV6};
use crate::ipv4;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU8;

/// The ECN codepoint of a packet (RFC 3168 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Ecn {
    /// 00: the sender does not support ECN.
    #[default]
    NotEct,
    /// 01: the sender supports ECN.
    Ect1,
    /// 10: the sender supports ECN.
    Ect0,
    /// 11: congestion experienced.
    Ce,
}

impl Ecn {
    /// Returns the codepoint in the lower two bits of `field`.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "two bits, four codepoints")]
    pub fn of(field: u8) -> Self {
        [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(field & 3)]
    }

    /// Returns true if the packet may be marked: its sender supports ECN, and it is not marked yet.
    #[inline]
    pub fn is_markable(self) -> bool {
        matches!(self, Ecn::Ect0 | Ecn::Ect1)
    }
}

/// Where the differentiated services field of a frame is, so that the headers before it are parsed
/// only once. One byte, as is an `Option` of it: the offset of the packet from the destination
/// address, with the highest bit set for IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DsField(NonZeroU8);

/// Version of the Internet protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl DsField {
    const V6: u8 = 0x80;

    /// Returns the field of the packet in `frame`; `None` if that is neither IPv4 nor IPv6, or ends
    /// before the end of the field.
    #[inline]
    pub fn find(frame: &[u8], header: &Header) -> Option<Self> {
        Self::find_at(frame, header.ethertype, header.payload_offset as u8)
    }

    /// Returns the field, given type and offset of the payload, which is within the first 127
    /// bytes.
    #[inline]
    pub fn find_at(frame: &[u8], ethertype: u16, payload_offset: u8) -> Option<Self> {
        if ethertype != IPV4 && ethertype != IPV6 {
            return None;
        }
        let [first, _] = *frame.get(usize::from(payload_offset)..)?.first_chunk::<2>()?;
        let (bit, number) = if ethertype == IPV4 { (0, 4) } else { (Self::V6, 6) };
        if first >> 4 != number || payload_offset & Self::V6 != 0 {
            return None;
        }
        NonZeroU8::new(payload_offset | bit).map(Self)
    }

    /// Returns the IP version of the packet.
    #[inline]
    pub fn version(self) -> Version {
        if self.0.get() & Self::V6 == 0 { Version::V4 } else { Version::V6 }
    }

    /// Returns the offset of the packet, in bytes from the destination address.
    #[inline]
    pub fn packet_at(self) -> usize {
        usize::from(self.0.get() & !Self::V6)
    }

    /// Returns the field after the headers before it became `bytes` longer, or shorter, by a tag.
    pub fn shifted(self, bytes: i8) -> Self {
        NonZeroU8::new(self.0.get().wrapping_add_signed(bytes)).map_or(self, Self)
    }

    /// Returns true if everything that is written to change the field is in the first `len` bytes
    /// of the frame, including the checksum of an IPv4 header.
    #[inline]
    pub fn is_complete(self, len: usize) -> bool {
        let needed = match self.version() {
            Version::V4 => ipv4::HEADER_BYTES,
            Version::V6 => 2,
        };
        self.packet_at() + needed <= len
    }

    /// Returns DSCP and ECN as the one octet that they share; 0 if `frame` is not the frame that
    /// the field was found in.
    #[inline]
    pub fn octet(self, frame: &[u8]) -> u8 {
        match (frame.get(self.packet_at()..).and_then(|packet| packet.first_chunk::<2>()), self.version()) {
            (Some([_, second]), Version::V4) => *second,
            (Some([first, second]), Version::V6) => first << 4 | second >> 4,
            (None, _) => 0,
        }
    }

    /// Returns the differentiated services code point, 0–63.
    #[inline]
    pub fn dscp(self, frame: &[u8]) -> u8 {
        self.octet(frame) >> 2
    }

    /// Returns the ECN codepoint.
    #[inline]
    pub fn ecn(self, frame: &[u8]) -> Ecn {
        Ecn::of(self.octet(frame))
    }

    /// Sets the DSCP and corrects the checksum of an IPv4 header; ECN stays. False if the header is
    /// truncated.
    pub fn set_dscp(self, frame: &mut [u8], dscp: u8) -> bool {
        let octet = self.octet(frame);
        self.set_octet(frame, (dscp & 0x3f) << 2 | octet & 3)
    }

    /// Sets the ECN codepoint to CE and corrects the checksum of an IPv4 header. False if the
    /// header is truncated.
    pub fn set_ce(self, frame: &mut [u8]) -> bool {
        let octet = self.octet(frame);
        self.set_octet(frame, octet | 3)
    }

    fn set_octet(self, frame: &mut [u8], octet: u8) -> bool {
        let Some(packet) = frame.get_mut(self.packet_at()..) else { return false };
        if self.version() == Version::V6 {
            let Some([first, second]) = packet.first_chunk_mut::<2>() else { return false };
            *first = *first & 0xf0 | octet >> 4;
            *second = *second & 0x0f | octet << 4;
            return true;
        }
        let Some(fixed) = packet.first_chunk_mut::<{ ipv4::HEADER_BYTES }>() else { return false };
        let before = u16::from_be_bytes([fixed[0], fixed[1]]);
        fixed[1] = octet;
        let after = u16::from_be_bytes([fixed[0], octet]);
        let checksum = u16::from_be_bytes([fixed[10], fixed[11]]);
        fixed[10..12].copy_from_slice(&updated_checksum(checksum, before, after).to_be_bytes());
        true
    }
}

/// Returns the DSCP of the packet in `frame`; `None` if that is neither IPv4 nor IPv6, or ends
/// before the end of the field.
#[inline]
pub fn dscp(frame: &[u8], header: &Header) -> Option<u8> {
    Some(DsField::find(frame, header)?.dscp(frame))
}

/// Sets the DSCP of the packet in `frame` and corrects the checksum of an IPv4 header; ECN stays.
/// False if there is no such field.
pub fn set_dscp(frame: &mut [u8], header: &Header, dscp: u8) -> bool {
    DsField::find(frame, header).is_some_and(|field| field.set_dscp(frame, dscp))
}

/// Returns the ECN field of the packet in `frame`: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE; `None` as
/// for [`dscp`].
#[inline]
pub fn ecn(frame: &[u8], header: &Header) -> Option<u8> {
    Some(DsField::find(frame, header)?.octet(frame) & 3)
}

/// Sets the ECN field of the packet in `frame` to CE and corrects the checksum of an IPv4 header.
/// False if there is no such field.
pub fn set_ce(frame: &mut [u8], header: &Header) -> bool {
    DsField::find(frame, header).is_some_and(|field| field.set_ce(frame))
}

/// Returns the checksum after one of the words that it covers has changed: HC' = ~(~HC + ~m + m')
/// (RFC 1624, equation 3).
fn updated_checksum(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let sum = (sum >> 16) + (sum & 0xffff);
    !(((sum >> 16) + (sum & 0xffff)) as u16)
}
