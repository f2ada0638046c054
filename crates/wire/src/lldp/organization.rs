//! Organizationally specific TLVs, and those of 802.1 and 802.3 that switches send.
//!
//! Source: IEEE 802.1AB-2016 8.6; IEEE 802.1Q-2022 annex D.2.1 (port VLAN); IEEE 802.1AX-2020 annex
//! F (link aggregation); IEEE 802.3-2022 79.3.3 (link aggregation, deprecated) and 79.3.4 (maximum
//! frame size).
//!
//! ```text
//! 127 | length | OUI (3 bytes) | subtype | …
//! 00-80-C2, 1: port VLAN ID (2 bytes)
//! 00-80-C2, 7 and 00-12-0F, 3: status (bit 0 capable, bit 1 enabled) | aggregated port ID (4 bytes)
//! 00-12-0F, 4: maximum frame size (2 bytes)
//! ```

use super::error::LldpError;
use super::tlv;

/// OUI of IEEE 802.1.
pub const OUI_802_1: [u8; 3] = [0x00, 0x80, 0xc2];
/// OUI of IEEE 802.3.
pub const OUI_802_3: [u8; 3] = [0x00, 0x12, 0x0f];

const PORT_VLAN: u8 = 1;
const LINK_AGGREGATION: u8 = 7;
const LINK_AGGREGATION_802_3: u8 = 3;
const MAX_FRAME_SIZE: u8 = 4;
/// Bytes of OUI and subtype.
const PREFIX_BYTES: usize = 4;

/// An organizationally specific TLV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrgTlv {
    /// Organizationally unique identifier.
    pub oui: [u8; 3],
    /// Subtype, assigned by the organization.
    pub subtype: u8,
    /// What follows the subtype; at most 507 bytes.
    pub value: Vec<u8>,
}

/// Contents of a TLV of 802.1 or 802.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standard {
    /// VLAN of untagged frames; 0 if the port has none.
    PortVlan(u16),
    /// Longest frame that the port receives, with tags and FCS.
    MaxFrameSize(u16),
    /// Whether the port can be, and is, part of an aggregated link.
    LinkAggregation {
        /// Bit 0: capable; bit 1: enabled.
        status: u8,
        /// Number of the aggregated port; 0 if there is none.
        port: u32,
    },
}

impl Standard {
    /// Status of a port without link aggregation.
    pub const NO_LINK_AGGREGATION: Self = Self::LinkAggregation { status: 0, port: 0 };

    /// Encodes the contents; link aggregation as 802.1 has it.
    pub fn to_tlv(self) -> OrgTlv {
        let (oui, subtype, value) = match self {
            Self::PortVlan(vid) => (OUI_802_1, PORT_VLAN, vid.to_be_bytes().to_vec()),
            Self::MaxFrameSize(bytes) => (OUI_802_3, MAX_FRAME_SIZE, bytes.to_be_bytes().to_vec()),
            Self::LinkAggregation { status, port } => {
                (OUI_802_1, LINK_AGGREGATION, [&[status], &port.to_be_bytes()[..]].concat())
            }
        };
        OrgTlv { oui, subtype, value }
    }
}

impl OrgTlv {
    pub(super) fn decode(value: &[u8]) -> Result<Self, LldpError> {
        match value {
            [a, b, c, subtype, value @ ..] => {
                Ok(Self { oui: [*a, *b, *c], subtype: *subtype, value: value.to_vec() })
            }
            short => Err(LldpError::Length { kind: tlv::ORGANIZATION, len: short.len() as u16 }),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(PREFIX_BYTES + self.value.len());
        value.extend(self.oui);
        value.push(self.subtype);
        value.extend(&self.value);
        value
    }

    /// Reads the contents of a TLV of 802.1 or 802.3; `None` for all others.
    pub fn standard(&self) -> Option<Result<Standard, LldpError>> {
        let wrong =
            LldpError::OrgLength { oui: self.oui, subtype: self.subtype, len: self.value.len() as u16 };
        let two = || <[u8; 2]>::try_from(&self.value[..]).map(u16::from_be_bytes).map_err(|_| wrong);
        Some(match (self.oui, self.subtype) {
            (OUI_802_1, PORT_VLAN) => two().map(Standard::PortVlan),
            (OUI_802_3, MAX_FRAME_SIZE) => two().map(Standard::MaxFrameSize),
            (OUI_802_1, LINK_AGGREGATION) | (OUI_802_3, LINK_AGGREGATION_802_3) => match self.value[..] {
                [status, a, b, c, d] => {
                    Ok(Standard::LinkAggregation { status, port: u32::from_be_bytes([a, b, c, d]) })
                }
                _ => Err(wrong),
            },
            _ => return None,
        })
    }
}
