//! The header of a TLV: type and length.
//!
//! Source: IEEE 802.1AB-2016 8.4 (TLV format).

use super::error::LldpError;

/// Type of the TLV that ends an LLDPDU.
pub const END: u8 = 0;
/// Type of the chassis ID TLV.
pub const CHASSIS_ID: u8 = 1;
/// Type of the port ID TLV.
pub const PORT_ID: u8 = 2;
/// Type of the time to live TLV.
pub const TTL: u8 = 3;
/// Type of the port description TLV.
pub const PORT_DESCRIPTION: u8 = 4;
/// Type of the system name TLV.
pub const SYSTEM_NAME: u8 = 5;
/// Type of the system description TLV.
pub const SYSTEM_DESCRIPTION: u8 = 6;
/// Type of the system capabilities TLV.
pub const SYSTEM_CAPABILITIES: u8 = 7;
/// Type of the management address TLV.
pub const MANAGEMENT_ADDRESS: u8 = 8;
/// Type of organizationally specific TLVs.
pub const ORGANIZATION: u8 = 127;

/// The longest information string.
pub const MAX_VALUE_BYTES: usize = 511;

/// A TLV as it stands in the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Type, 0–127.
    pub kind: u8,
    /// Information string.
    pub value: &'a [u8],
}

/// Iterator over the TLVs of an LLDPDU, up to the End TLV or the end of the bytes. After an error
/// it ends.
#[derive(Debug, Clone)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
}

impl<'a> Tlvs<'a> {
    /// Makes an iterator over the bytes after the Ethernet header.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self) -> Result<Option<Tlv<'a>>, LldpError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (header, rest) = self.rest.split_first_chunk::<2>().ok_or(LldpError::Truncated { kind: 0 })?;
        let header = u16::from_be_bytes(*header);
        let (kind, len) = ((header >> 9) as u8, header & 0x1ff);
        if kind == END {
            return if len == 0 { Ok(None) } else { Err(LldpError::Length { kind, len }) };
        }
        let (value, rest) = rest.split_at_checked(len.into()).ok_or(LldpError::Truncated { kind })?;
        self.rest = rest;
        Ok(Some(Tlv { kind, value }))
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>, LldpError>;

    fn next(&mut self) -> Option<Self::Item> {
        let taken = self.take().transpose();
        if !matches!(taken, Some(Ok(_))) {
            self.rest = &[];
        }
        taken
    }
}

/// Appends a TLV. What exceeds [`MAX_VALUE_BYTES`] is cut off.
#[expect(clippy::indexing_slicing, reason = "the end is at most the length")]
pub fn push(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let value = &value[..value.len().min(MAX_VALUE_BYTES)];
    out.extend((u16::from(kind & 0x7f) << 9 | value.len() as u16).to_be_bytes());
    out.extend(value);
}
