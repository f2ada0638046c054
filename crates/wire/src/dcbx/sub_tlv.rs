//! Sub-TLVs of CEE and CIN: their header, the control sub-TLV, the header of a feature.
//!
//! Source: Intel's and Cisco's DCB Capability Exchange Protocol Base Specification, revision 1.01,
//! and its predecessor, revision 1.00.
//!
//! ```text
//! TLV type 127, OUI 00-1B-21, subtype 1 (CIN) or 2 (CEE)
//! sub-TLV:  type (7 bits) | length of what follows (9 bits) | …
//! control:  oper version | max version | SeqNo (4 bytes) | AckNo (4 bytes)
//! feature:  oper version | max version | enable, willing, error, 00000 | subtype | …
//! ```

use super::error::{DcbxError, DcbxTlv};
use crate::lldp::OrgTlv;
use crate::lldp::tlv::{Tlv, push};
use serde::{Deserialize, Serialize};

/// OUI of the TLVs of CEE and CIN.
pub const OUI_INTEL: [u8; 3] = [0x00, 0x1b, 0x21];

const ENABLE: u8 = 0x80;
const WILLING: u8 = 0x40;
const ERROR: u8 = 0x20;
/// Type of the control sub-TLV in both versions.
pub(super) const CONTROL: u8 = 1;
/// Type of the sub-TLV of priority groups in both versions.
pub(super) const PRIORITY_GROUPS: u8 = 2;
/// Type of the PFC sub-TLV in both versions.
pub(super) const PFC: u8 = 3;
/// Bytes of the header of a feature.
const FEATURE_BYTES: usize = 4;

/// The control sub-TLV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Control {
    /// Version in operation.
    pub oper_version: u8,
    /// Highest version that the sender supports.
    pub max_version: u8,
    /// Number of the sender's last change.
    pub seq: u32,
    /// Number of the receiver's last change that the sender has seen.
    pub ack: u32,
}

impl Control {
    pub(super) fn decode(value: &[u8]) -> Result<Self, DcbxError> {
        match *value {
            [oper_version, max_version, a, b, c, d, e, f, g, h] => Ok(Self {
                oper_version,
                max_version,
                seq: u32::from_be_bytes([a, b, c, d]),
                ack: u32::from_be_bytes([e, f, g, h]),
            }),
            _ => Err(DcbxError::Length { tlv: DcbxTlv::Control, len: value.len() as u16 }),
        }
    }

    pub(super) fn encode(self) -> Vec<u8> {
        let versions = [self.oper_version, self.max_version];
        [&versions[..], &self.seq.to_be_bytes(), &self.ack.to_be_bytes()].concat()
    }
}

/// What every feature begins with: versions and flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeatureHeader {
    /// Version in operation.
    pub oper_version: u8,
    /// Highest version that the sender supports.
    pub max_version: u8,
    /// True if the sender has the feature enabled.
    pub enabled: bool,
    /// True if the sender adopts the peer's configuration.
    pub willing: bool,
    /// True if the sender has found an error.
    pub error: bool,
    /// Subtype of the feature.
    pub subtype: u8,
}

impl FeatureHeader {
    /// Separates the header from what follows, which has `len` bytes.
    pub(super) fn split<const N: usize>(tlv: DcbxTlv, value: &[u8]) -> Result<(Self, [u8; N]), DcbxError> {
        let (header, rest) = Self::split_any(tlv, value)?;
        let rest = rest.try_into().map_err(|_| DcbxError::Length { tlv, len: value.len() as u16 })?;
        Ok((header, rest))
    }

    /// Separates the header from what follows, of any length.
    pub(super) fn split_any(tlv: DcbxTlv, value: &[u8]) -> Result<(Self, &[u8]), DcbxError> {
        let wrong = DcbxError::Length { tlv, len: value.len() as u16 };
        let (&[oper_version, max_version, flags, subtype], rest) =
            value.split_first_chunk::<FEATURE_BYTES>().ok_or(wrong)?;
        let (enabled, willing, error) = (flags & ENABLE != 0, flags & WILLING != 0, flags & ERROR != 0);
        Ok((Self { oper_version, max_version, enabled, willing, error, subtype }, rest))
    }

    pub(super) fn encode(self, rest: &[u8]) -> Vec<u8> {
        let flags = u8::from(self.enabled) << 7 | u8::from(self.willing) << 6 | u8::from(self.error) << 5;
        [&[self.oper_version, self.max_version, flags, self.subtype], rest].concat()
    }
}

/// Finds the TLV of a version, of which an LLDPDU has at most one.
pub(super) fn find(tlvs: &[OrgTlv], subtype: u8, name: DcbxTlv) -> Result<Option<&OrgTlv>, DcbxError> {
    let mut found = tlvs.iter().filter(|tlv| tlv.oui == OUI_INTEL && tlv.subtype == subtype);
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(DcbxError::Repeated(name)),
        (tlv, None) => Ok(tlv),
    }
}

/// Iterates over sub-TLVs. Their header is that of a TLV, but type 0 does not end them.
pub(super) fn sub_tlvs(bytes: &[u8]) -> impl Iterator<Item = Result<Tlv<'_>, DcbxError>> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let taken = split(rest).ok_or(DcbxError::Truncated);
        rest = taken.as_ref().map_or(&[], |(_, after)| after);
        Some(taken.map(|(sub_tlv, _)| sub_tlv))
    })
}

/// Separates the first sub-TLV from the rest; `None` if it is cut off.
fn split(bytes: &[u8]) -> Option<(Tlv<'_>, &[u8])> {
    let (header, after) = bytes.split_first_chunk::<2>()?;
    let header = u16::from_be_bytes(*header);
    let (value, after) = after.split_at_checked(usize::from(header & 0x1ff))?;
    Some((Tlv { kind: (header >> 9) as u8, value }, after))
}

/// Joins sub-TLVs to the value of a TLV.
pub(super) fn join(parts: impl IntoIterator<Item = (u8, Vec<u8>)>) -> Vec<u8> {
    let mut value = Vec::new();
    for (kind, part) in parts {
        push(&mut value, kind, &part);
    }
    value
}
