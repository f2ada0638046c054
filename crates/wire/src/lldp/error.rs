//! Reasons for which an LLDPDU or a TLV is refused.

use crate::Error;
use core::fmt;

/// Reason for which an LLDPDU, or a TLV inside it, is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LldpError {
    /// The Ethernet header is missing or cut off.
    NoHeader,
    /// The frame has another ethertype, or a tag.
    WrongType,
    /// The destination is not the nearest bridge.
    WrongDestination,
    /// A TLV extends beyond the end of the frame.
    Truncated {
        /// Type of the TLV; 0 if even its header is cut off.
        kind: u8,
    },
    /// The chassis ID, port ID and TTL TLVs do not come first, in this order.
    Order {
        /// Type that was expected.
        expected: u8,
        /// Type that was found; 0 at the end.
        found: u8,
    },
    /// A TLV that may occur once occurs again.
    Repeated {
        /// Type of the TLV.
        kind: u8,
    },
    /// The information string has a length that its type does not allow.
    Length {
        /// Type of the TLV.
        kind: u8,
        /// Length of the information string, in bytes.
        len: u16,
    },
    /// The length does not fit the subtype of an organizationally specific TLV.
    OrgLength {
        /// Organizationally unique identifier.
        oui: [u8; 3],
        /// Subtype of the TLV.
        subtype: u8,
        /// Length of what follows the subtype, in bytes.
        len: u16,
    },
}

/// Returns the name of a TLV type.
pub fn tlv_name(kind: u8) -> &'static str {
    match kind {
        0 => "End",
        1 => "Chassis ID",
        2 => "Port ID",
        3 => "TTL",
        4 => "Port Description",
        5 => "System Name",
        6 => "System Description",
        7 => "System Capabilities",
        8 => "Management Address",
        127 => "organizationally specific",
        _ => "reserved",
    }
}

impl fmt::Display for LldpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoHeader => f.write_str("no Ethernet header"),
            Self::WrongType => f.write_str("not an untagged LLDP frame"),
            Self::WrongDestination => f.write_str("not to the nearest bridge"),
            Self::Truncated { kind: 0 } => f.write_str("a TLV header is cut off"),
            Self::Truncated { kind } => write!(f, "the {} TLV is cut off", tlv_name(kind)),
            Self::Order { expected, found } => {
                write!(f, "the {} TLV is where {} must be", tlv_name(found), tlv_name(expected))
            }
            Self::Repeated { kind } => write!(f, "a second {} TLV", tlv_name(kind)),
            Self::Length { kind, len } => write!(f, "the {} TLV has length {len}", tlv_name(kind)),
            Self::OrgLength { oui: [a, b, c], subtype, len } => {
                write!(f, "TLV {a:02x}-{b:02x}-{c:02x}/{subtype} has length {}", len + 4)
            }
        }
    }
}

impl core::error::Error for LldpError {}

impl From<Error> for LldpError {
    fn from(error: Error) -> Self {
        match error {
            Error::WrongDestination => Self::WrongDestination,
            Error::WrongType => Self::WrongType,
            Error::Truncated | Error::BadLength => Self::NoHeader,
        }
    }
}
