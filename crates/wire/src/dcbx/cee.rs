//! DCBX of CEE (revision 1.01).
//!
//! Source: DCB Capability Exchange Protocol Base Specification, revision 1.01.
//!
//! ```text
//! TLV type 127, OUI 00-1B-21, subtype 2; sub-TLVs with their lengths, header not counted
//! 1 control, 10
//! 2 priority groups, 17:     feature header | group of each priority (8 nibbles)
//!                            | percent of each group (8 bytes) | number of traffic classes
//! 3 PFC, 6:                  feature header | enable bitmap | number of traffic classes
//! 4 application, 4 + 6n:     feature header | n × { protocol (2 bytes) | 000000 selector (2 bits)
//!                            | 0x1B | 0x21 | priority bitmap }
//! ```

use super::error::{DcbxError, DcbxTlv, fill, from_nibbles, nibbles};
use super::sub_tlv::{self, CONTROL, Control, FeatureHeader, OUI_INTEL, PFC, PRIORITY_GROUPS};
use crate::lldp::OrgTlv;

/// Subtype of the TLV.
pub const SUBTYPE: u8 = 2;
/// Group of priorities with strict priority and without a share.
pub const STRICT_GROUP: u8 = 15;
/// The most applications that a TLV has room for beside the other sub-TLVs.
pub const MAX_APPLICATIONS: usize = 75;
const APPLICATION: u8 = 4;

/// Contents of the TLV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cee {
    /// Sequence numbers.
    pub control: Control,
    /// Priority groups.
    pub groups: Option<(FeatureHeader, PriorityGroups)>,
    /// Priority-based flow control.
    pub pfc: Option<(FeatureHeader, Pfc)>,
    /// Priorities of applications.
    pub applications: Option<(FeatureHeader, Vec<Application>)>,
}

/// Priority groups and their shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityGroups {
    /// Group of each priority: 0–7 or [`STRICT_GROUP`].
    pub group_of_priority: [u8; 8],
    /// Share of each group in percent; they add up to 100.
    pub percent: [u8; 8],
    /// Number of traffic classes that the sender supports.
    pub classes: u8,
}

/// PFC configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pfc {
    /// Priorities with PFC.
    pub enabled: u8,
    /// Number of traffic classes that may have PFC at once.
    pub classes: u8,
}

/// Priorities of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Application {
    /// Ethertype or port.
    pub protocol: u16,
    /// Kind of `protocol`: 0 is an ethertype, 1 a port of TCP or UDP.
    pub selector: u8,
    /// Upper bits of the first byte of the organization that defines `protocol`; 0.
    pub oui_high: u8,
    /// The other two bytes of the organization; 0x1B, 0x21.
    pub oui_low: [u8; 2],
    /// Mask of its priorities: bit 0 is priority 0.
    pub priorities: u8,
}

impl Application {
    /// Returns the priorities of an ethertype or, with true, of a port.
    pub fn new(protocol: u16, is_port: bool, priorities: u8) -> Self {
        let [oui_high, low @ ..] = OUI_INTEL;
        Self { protocol, selector: is_port.into(), oui_high, oui_low: low, priorities }
    }
}

impl Cee {
    /// Reads the TLV of an LLDPDU; `None` if there is none of this version.
    pub fn decode(tlvs: &[OrgTlv]) -> Result<Option<Self>, DcbxError> {
        let Some(tlv) = sub_tlv::find(tlvs, SUBTYPE, DcbxTlv::Cee)? else { return Ok(None) };
        let (mut control, mut groups, mut pfc, mut applications) = (None, None, None, None);
        for sub_tlv in sub_tlv::sub_tlvs(&tlv.value) {
            let sub_tlv = sub_tlv?;
            let value = sub_tlv.value;
            match sub_tlv.kind {
                CONTROL => fill(&mut control, DcbxTlv::Control, Control::decode(value)?)?,
                PRIORITY_GROUPS => {
                    fill(&mut groups, DcbxTlv::PriorityGroups, PriorityGroups::decode(value)?)?
                }
                PFC => fill(&mut pfc, DcbxTlv::Pfc, decode_pfc(value)?)?,
                APPLICATION => fill(&mut applications, DcbxTlv::Application, decode_applications(value)?)?,
                _ => {}
            }
        }
        let control = control.ok_or(DcbxError::ControlMissing)?;
        Ok(Some(Self { control, groups, pfc, applications }))
    }

    /// Returns the TLV. Applications beyond [`MAX_APPLICATIONS`] are left out.
    pub fn encode(&self) -> OrgTlv {
        let mut parts = vec![(CONTROL, self.control.encode())];
        parts.extend(self.groups.map(|(header, it)| (PRIORITY_GROUPS, header.encode(&it.encode()))));
        parts.extend(self.pfc.map(|(header, it)| (PFC, header.encode(&[it.enabled, it.classes]))));
        parts.extend(self.applications.as_ref().map(|(header, list)| {
            let entries: Vec<u8> = list.iter().take(MAX_APPLICATIONS).flat_map(|it| it.encode()).collect();
            (APPLICATION, header.encode(&entries))
        }));
        OrgTlv { oui: OUI_INTEL, subtype: SUBTYPE, value: sub_tlv::join(parts) }
    }
}

impl PriorityGroups {
    fn decode(value: &[u8]) -> Result<(FeatureHeader, Self), DcbxError> {
        let tlv = DcbxTlv::PriorityGroups;
        let (header, [a, b, c, d, percent @ .., classes]) = FeatureHeader::split::<13>(tlv, value)?;
        let group_of_priority = nibbles([a, b, c, d]);
        if let Some(&group) = group_of_priority.iter().find(|group| (8..STRICT_GROUP).contains(*group)) {
            return Err(DcbxError::Group { tlv, group });
        }
        check_shares(&group_of_priority, &percent)?;
        Ok((header, Self { group_of_priority, percent, classes }))
    }

    fn encode(&self) -> Vec<u8> {
        [&from_nibbles(self.group_of_priority)[..], &self.percent, &[self.classes]].concat()
    }
}

/// Checks that shares add up to 100 %. Without any group that has a share they may be 0.
pub(super) fn check_shares(group_of_priority: &[u8; 8], percent: &[u8; 8]) -> Result<(), DcbxError> {
    let sum = percent.iter().map(|share| u16::from(*share)).sum();
    let has_none = sum == 0 && group_of_priority.iter().all(|group| *group == STRICT_GROUP);
    if sum == 100 || has_none {
        return Ok(());
    }
    Err(DcbxError::Shares { tlv: DcbxTlv::PriorityGroups, percent: sum })
}

fn decode_pfc(value: &[u8]) -> Result<(FeatureHeader, Pfc), DcbxError> {
    let (header, [enabled, classes]) = FeatureHeader::split::<2>(DcbxTlv::Pfc, value)?;
    Ok((header, Pfc { enabled, classes }))
}

fn decode_applications(value: &[u8]) -> Result<(FeatureHeader, Vec<Application>), DcbxError> {
    let tlv = DcbxTlv::Application;
    let (header, entries) = FeatureHeader::split_any(tlv, value)?;
    if entries.len() % 6 != 0 {
        return Err(DcbxError::Length { tlv, len: value.len() as u16 });
    }
    let decode = |entry: &[u8]| match *entry {
        [high, low, first, second, third, priorities] => Some(Application {
            protocol: u16::from_be_bytes([high, low]),
            selector: first & 3,
            oui_high: first & 0xfc,
            oui_low: [second, third],
            priorities,
        }),
        _ => None,
    };
    Ok((header, entries.chunks_exact(6).filter_map(decode).collect()))
}

impl Application {
    fn encode(&self) -> [u8; 6] {
        let [high, low] = self.protocol.to_be_bytes();
        let [second, third] = self.oui_low;
        [high, low, self.oui_high & 0xfc | self.selector & 3, second, third, self.priorities]
    }
}
