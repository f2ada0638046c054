//! DCBX of CIN (Cisco, Intel, Nuova; revision 1.00).
//!
//! Source: docs/references.md, "Huawei DCB" (table 10-14); the layouts as lldpad sends them.
//!
//! ```text
//! TLV type 127, OUI 00-1B-21, subtype 1; sub-TLVs with their lengths, header not counted
//! 1 control, 10
//! 2 priority groups, 28:     feature header | percent of each bandwidth group (8 bytes)
//!                            | 8 × { group (3 bits) | strict (2 bits) | 000 | percent of the group }
//! 3 PFC, 5:                  feature header | enable bitmap
//! 4 BCN:                     ignored
//! 5 application, 5:          feature header, subtype 0 is FCoE | priority bitmap
//! 6 logical link, 5:         feature header, subtype 0 is FCoE | bit 7: up
//! ```
//! Application and logical link may occur once for each subtype.

use super::cee::{STRICT_GROUP, check_shares};
use super::error::{DcbxError, DcbxTlv, fill};
use super::sub_tlv::{self, CONTROL, Control, FeatureHeader, OUI_INTEL, PFC, PRIORITY_GROUPS};
use crate::lldp::OrgTlv;

/// Subtype of the TLV.
pub const SUBTYPE: u8 = 1;
/// Subtype of the application and the logical link of FCoE.
pub const FCOE: u8 = 0;
const APPLICATION: u8 = 5;
const LOGICAL_LINK: u8 = 6;
const LINK_UP: u8 = 0x80;

/// Contents of the TLV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cin {
    /// Sequence numbers.
    pub control: Control,
    /// Priority groups.
    pub groups: Option<(FeatureHeader, PriorityGroups)>,
    /// Priorities with PFC.
    pub pfc: Option<(FeatureHeader, u8)>,
    /// Priorities of applications, each of another subtype.
    pub applications: Vec<(FeatureHeader, u8)>,
    /// State of logical links, each of another subtype: true if up.
    pub links: Vec<(FeatureHeader, bool)>,
}

/// Priority groups and their shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityGroups {
    /// Share of each group in percent; they add up to 100.
    pub percent: [u8; 8],
    /// Group of each priority.
    pub priorities: [Member; 8],
}

/// A priority inside its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Number of the group, 0–7.
    pub group: u8,
    /// Strict priority: 0 for none, 1 inside the group, 2 on the link.
    pub strict: u8,
    /// Share of the group in percent.
    pub percent_of_group: u8,
}

impl Member {
    /// Strict priority on the link.
    pub const LINK_STRICT: u8 = 2;
}

impl Cin {
    /// Reads the TLV of an LLDPDU; `None` if there is none of this version.
    pub fn decode(tlvs: &[OrgTlv]) -> Result<Option<Self>, DcbxError> {
        let Some(tlv) = sub_tlv::find(tlvs, SUBTYPE, DcbxTlv::Cin)? else { return Ok(None) };
        let (mut control, mut groups, mut pfc) = (None, None, None);
        let (mut applications, mut links) = (Vec::new(), Vec::new());
        for sub_tlv in sub_tlv::sub_tlvs(&tlv.value) {
            let sub_tlv = sub_tlv?;
            let value = sub_tlv.value;
            match sub_tlv.kind {
                CONTROL => fill(&mut control, DcbxTlv::Control, Control::decode(value)?)?,
                PRIORITY_GROUPS => {
                    fill(&mut groups, DcbxTlv::PriorityGroups, PriorityGroups::decode(value)?)?
                }
                PFC => fill(&mut pfc, DcbxTlv::Pfc, decode_byte(DcbxTlv::Pfc, value)?)?,
                APPLICATION => add_of_subtype(&mut applications, DcbxTlv::Application, value)?,
                LOGICAL_LINK => add_of_subtype(&mut links, DcbxTlv::LogicalLink, value)?,
                _ => {}
            }
        }
        let control = control.ok_or(DcbxError::ControlMissing)?;
        let links = links.into_iter().map(|(header, byte)| (header, byte & LINK_UP != 0)).collect();
        Ok(Some(Self { control, groups, pfc, applications, links }))
    }

    /// Returns the TLV.
    pub fn encode(&self) -> OrgTlv {
        let mut parts = vec![(CONTROL, self.control.encode())];
        parts.extend(self.groups.map(|(header, it)| (PRIORITY_GROUPS, header.encode(&it.encode()))));
        parts.extend(self.pfc.map(|(header, enabled)| (PFC, header.encode(&[enabled]))));
        parts.extend(self.applications.iter().map(|(header, it)| (APPLICATION, header.encode(&[*it]))));
        parts.extend(
            self.links
                .iter()
                .map(|(header, is_up)| (LOGICAL_LINK, header.encode(&[if *is_up { LINK_UP } else { 0 }]))),
        );
        OrgTlv { oui: OUI_INTEL, subtype: SUBTYPE, value: sub_tlv::join(parts) }
    }
}

impl PriorityGroups {
    fn decode(value: &[u8]) -> Result<(FeatureHeader, Self), DcbxError> {
        let (header, bytes) = FeatureHeader::split::<24>(DcbxTlv::PriorityGroups, value)?;
        let [a, b, c, d, e, f, g, h, members @ ..] = bytes;
        let percent = [a, b, c, d, e, f, g, h];
        #[expect(clippy::indexing_slicing, reason = "sixteen bytes, two for each of eight")]
        let member = |at: usize| Member {
            group: members[2 * at] >> 5,
            strict: members[2 * at] >> 3 & 3,
            percent_of_group: members[2 * at + 1],
        };
        let groups = Self { percent, priorities: core::array::from_fn(member) };
        check_shares(&groups.group_of_priority(), &percent)?;
        Ok((header, groups))
    }

    fn encode(&self) -> Vec<u8> {
        let members = self.priorities.iter();
        let members = members.flat_map(|it| [it.group << 5 | (it.strict & 3) << 3, it.percent_of_group]);
        self.percent.into_iter().chain(members).collect()
    }

    /// Returns the group of each priority; [`STRICT_GROUP`] for strict priority on the link.
    pub fn group_of_priority(&self) -> [u8; 8] {
        let is_strict = |member: Member| member.strict == Member::LINK_STRICT;
        self.priorities.map(|member| if is_strict(member) { STRICT_GROUP } else { member.group })
    }
}

fn decode_byte(tlv: DcbxTlv, value: &[u8]) -> Result<(FeatureHeader, u8), DcbxError> {
    let (header, [byte]) = FeatureHeader::split::<1>(tlv, value)?;
    Ok((header, byte))
}

/// Adds a sub-TLV that may occur once for each subtype.
fn add_of_subtype(list: &mut Vec<(FeatureHeader, u8)>, tlv: DcbxTlv, value: &[u8]) -> Result<(), DcbxError> {
    let (header, byte) = decode_byte(tlv, value)?;
    if list.iter().any(|(other, _)| other.subtype == header.subtype) {
        return Err(DcbxError::Repeated(tlv));
    }
    list.push((header, byte));
    Ok(())
}
