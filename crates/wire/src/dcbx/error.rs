//! Reasons for which DCBX TLVs are refused.

use core::fmt;

/// A TLV or sub-TLV of DCBX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DcbxTlv {
    /// Congestion notification (IEEE).
    CongestionNotification,
    /// ETS configuration (IEEE).
    EtsConfiguration,
    /// ETS recommendation (IEEE).
    EtsRecommendation,
    /// Priority-based flow control.
    Pfc,
    /// Application priority.
    Application,
    /// The TLV of CEE that holds the sub-TLVs.
    Cee,
    /// The TLV of CIN that holds the sub-TLVs.
    Cin,
    /// Sequence numbers (CEE, CIN).
    Control,
    /// Priority groups (CEE, CIN).
    PriorityGroups,
    /// State of a logical link (CIN).
    LogicalLink,
    /// A sub-TLV of another type.
    Other,
}

impl fmt::Display for DcbxTlv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CongestionNotification => "Congestion Notification",
            Self::EtsConfiguration => "ETS Configuration",
            Self::EtsRecommendation => "ETS Recommendation",
            Self::Pfc => "PFC",
            Self::Application => "Application Priority",
            Self::Cee => "CEE",
            Self::Cin => "CIN",
            Self::Control => "Control",
            Self::PriorityGroups => "Priority Groups",
            Self::LogicalLink => "Logical Link",
            Self::Other => "unknown",
        })
    }
}

/// Reason for which the DCBX TLVs of an LLDPDU are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DcbxError {
    /// A sub-TLV extends beyond the end of its TLV.
    Truncated,
    /// The length does not fit the TLV.
    Length {
        /// Which TLV.
        tlv: DcbxTlv,
        /// Length as in its header, in bytes.
        len: u16,
    },
    /// A TLV that may occur once occurs again.
    Repeated(DcbxTlv),
    /// CEE or CIN without a control sub-TLV.
    ControlMissing,
    /// A priority is in a group or traffic class that does not exist.
    Group {
        /// Which TLV.
        tlv: DcbxTlv,
        /// Number of the group.
        group: u8,
    },
    /// The shares of the bandwidth do not add up to 100 %.
    Shares {
        /// Which TLV.
        tlv: DcbxTlv,
        /// Their sum.
        percent: u16,
    },
}

impl fmt::Display for DcbxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("a sub-TLV is cut off"),
            Self::Length { tlv, len } => write!(f, "the {tlv} TLV has length {len}"),
            Self::Repeated(tlv) => write!(f, "a second {tlv} TLV"),
            Self::ControlMissing => f.write_str("no Control sub-TLV"),
            Self::Group { tlv, group } => write!(f, "the {tlv} TLV has a priority in group {group}"),
            Self::Shares { tlv, percent } => write!(f, "the shares of the {tlv} TLV add up to {percent} %"),
        }
    }
}

impl core::error::Error for DcbxError {}

/// Sets what a TLV brings, which must not have been there.
pub(super) fn fill<T>(field: &mut Option<T>, tlv: DcbxTlv, value: T) -> Result<(), DcbxError> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(DcbxError::Repeated(tlv)),
    }
}

/// Returns the nibbles of a table of priorities; that of priority 0 is the high one of the first
/// byte.
pub(super) fn nibbles([a, b, c, d]: [u8; 4]) -> [u8; 8] {
    [a >> 4, a & 15, b >> 4, b & 15, c >> 4, c & 15, d >> 4, d & 15]
}

/// Returns the bytes of a table of priorities.
pub(super) fn from_nibbles(of_priority: [u8; 8]) -> [u8; 4] {
    let [a, b, c, d, e, f, g, h] = of_priority.map(|nibble| nibble & 15);
    [a << 4 | b, c << 4 | d, e << 4 | f, g << 4 | h]
}
