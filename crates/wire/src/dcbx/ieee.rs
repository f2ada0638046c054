//! DCBX of IEEE 802.1Qaz: a TLV for each feature.
//!
//! Source: IEEE 802.1Q-2022 annex D.2.8 (ETS configuration), D.2.9 (ETS recommendation), D.2.10
//! (PFC), D.2.11 (application priority), D.2.7 (congestion notification).
//!
//! ```text
//! TLV type 127, OUI 00-80-C2; lengths with OUI and subtype
//! 08 congestion notification, 6: CNPV bitmap | ready bitmap
//! 09 ETS configuration, 25:      W | CBS | 000 | max TC (3 bits) | tables
//! 0A ETS recommendation, 25:     reserved | tables
//!    tables: traffic class of each priority (8 nibbles) | percent of each class (8 bytes)
//!            | algorithm of each class (8 bytes)
//! 0B PFC, 6:                     W | MBC | 00 | capability (4 bits) | enable bitmap
//! 0C application, 5 + 3n:        reserved | n × { priority (3 bits) | 00 | selector (3 bits)
//!                                | protocol (2 bytes) }
//! ```
//! A bit of a bitmap is the priority of its number.

use super::error::{DcbxError, DcbxTlv, fill, from_nibbles, nibbles};
use crate::lldp::OrgTlv;
use crate::lldp::organization::OUI_802_1;
use serde::{Deserialize, Serialize};

const CONGESTION_NOTIFICATION: u8 = 0x08;
const ETS_CONFIGURATION: u8 = 0x09;
const ETS_RECOMMENDATION: u8 = 0x0a;
const PFC: u8 = 0x0b;
const APPLICATION: u8 = 0x0c;

const WILLING: u8 = 0x80;
/// Credit-based shaper of an ETS TLV; MACsec bypass capability of a PFC TLV.
const SECOND_BIT: u8 = 0x40;
/// The most applications that a TLV of 511 bytes has room for.
pub const MAX_APPLICATIONS: usize = 168;

/// Transmission selection algorithms of a traffic class (IEEE 802.1Q-2022 table 8-6).
pub mod algorithm {
    /// Strict priority.
    pub const STRICT: u8 = 0;
    /// Credit-based shaper.
    pub const CREDIT_BASED: u8 = 1;
    /// Enhanced transmission selection.
    pub const ETS: u8 = 2;
    /// Vendor-specific.
    pub const VENDOR: u8 = 255;
}

/// The DCBX TLVs of an LLDPDU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ieee {
    /// ETS configuration in operation.
    pub ets_configuration: Option<EtsConfiguration>,
    /// ETS configuration that is recommended to the peer.
    pub ets_recommendation: Option<EtsTable>,
    /// PFC configuration.
    pub pfc: Option<PfcConfiguration>,
    /// Priorities of applications.
    pub applications: Option<Vec<Application>>,
    /// Congestion notification, which Sluice does not use.
    pub congestion: Option<CongestionNotification>,
}

/// Traffic classes and their shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EtsTable {
    /// Traffic class of each priority, 0–7.
    pub class_of_priority: [u8; 8],
    /// Share of each traffic class in percent; those of class [`algorithm::ETS`] add up to 100.
    pub percent: [u8; 8],
    /// Transmission selection algorithm of each traffic class.
    pub algorithms: [u8; 8],
}

/// The ETS configuration TLV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EtsConfiguration {
    /// True if the sender adopts a recommendation.
    pub willing: bool,
    /// True if the sender supports the credit-based shaper.
    pub credit_based: bool,
    /// Number of traffic classes that the sender supports, 1–8.
    pub max_classes: u8,
    /// Configuration in operation.
    pub table: EtsTable,
}

/// The PFC configuration TLV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PfcConfiguration {
    /// True if the sender adopts the peer's configuration.
    pub willing: bool,
    /// True if the sender can bypass MACsec for PFC.
    pub macsec_bypass: bool,
    /// Number of traffic classes that may have PFC at once, 0–8.
    pub capability: u8,
    /// Priorities with PFC.
    pub enabled: u8,
}

/// Priority of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Application {
    /// What `protocol` is (table D-9): see [`Selector`].
    pub selector: Selector,
    /// Ethertype, port or DSCP.
    pub protocol: u16,
    /// Priority, 0–7.
    pub priority: u8,
}

/// Kind of an application's protocol identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Selector {
    /// Ethertype, or the default priority with 0.
    Ethertype,
    /// Port of TCP or SCTP.
    TcpPort,
    /// Port of UDP or DCCP.
    UdpPort,
    /// Port of any of them.
    Port,
    /// DSCP.
    Dscp,
    /// A selector, 0–7, that the standard reserves.
    Reserved(u8),
}

impl Selector {
    fn decode(bits: u8) -> Self {
        match bits & 7 {
            1 => Self::Ethertype,
            2 => Self::TcpPort,
            3 => Self::UdpPort,
            4 => Self::Port,
            5 => Self::Dscp,
            other => Self::Reserved(other),
        }
    }

    fn encode(self) -> u8 {
        match self {
            Self::Ethertype => 1,
            Self::TcpPort => 2,
            Self::UdpPort => 3,
            Self::Port => 4,
            Self::Dscp => 5,
            Self::Reserved(bits) => bits & 7,
        }
    }
}

/// The congestion notification TLV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CongestionNotification {
    /// Congestion notification priorities.
    pub priorities: u8,
    /// Priorities that are ready.
    pub ready: u8,
}

impl Ieee {
    /// Reads the TLVs of an LLDPDU; `None` if there is none of this version.
    pub fn decode(tlvs: &[OrgTlv]) -> Result<Option<Self>, DcbxError> {
        let mut ieee = Self::default();
        for tlv in tlvs.iter().filter(|tlv| tlv.oui == OUI_802_1) {
            ieee.add(tlv)?;
        }
        Ok((ieee != Self::default()).then_some(ieee))
    }

    fn add(&mut self, tlv: &OrgTlv) -> Result<(), DcbxError> {
        let value = &tlv.value[..];
        match tlv.subtype {
            ETS_CONFIGURATION => {
                let name = DcbxTlv::EtsConfiguration;
                let (first, table) = decode_ets(name, value)?;
                let configuration = EtsConfiguration {
                    willing: first & WILLING != 0,
                    credit_based: first & SECOND_BIT != 0,
                    max_classes: if first & 7 == 0 { 8 } else { first & 7 },
                    table,
                };
                fill(&mut self.ets_configuration, name, configuration)
            }
            ETS_RECOMMENDATION => {
                let name = DcbxTlv::EtsRecommendation;
                fill(&mut self.ets_recommendation, name, decode_ets(name, value)?.1)
            }
            PFC => {
                let [first, enabled] = exact(DcbxTlv::Pfc, value)?;
                let configuration = PfcConfiguration {
                    willing: first & WILLING != 0,
                    macsec_bypass: first & SECOND_BIT != 0,
                    capability: first & 15,
                    enabled,
                };
                fill(&mut self.pfc, DcbxTlv::Pfc, configuration)
            }
            APPLICATION => fill(&mut self.applications, DcbxTlv::Application, decode_applications(value)?),
            CONGESTION_NOTIFICATION => {
                let name = DcbxTlv::CongestionNotification;
                let [priorities, ready] = exact(name, value)?;
                fill(&mut self.congestion, name, CongestionNotification { priorities, ready })
            }
            _ => Ok(()),
        }
    }

    /// Returns the TLVs, those of absent features left out. Applications beyond
    /// [`MAX_APPLICATIONS`] are left out, too.
    pub fn encode(&self) -> Vec<OrgTlv> {
        let tlv = |subtype, value| OrgTlv { oui: OUI_802_1, subtype, value };
        let mut tlvs = Vec::new();
        tlvs.extend(self.ets_configuration.map(|it| {
            let first = u8::from(it.willing) << 7 | u8::from(it.credit_based) << 6 | it.max_classes & 7;
            tlv(ETS_CONFIGURATION, encode_ets(first, &it.table))
        }));
        tlvs.extend(self.ets_recommendation.map(|table| tlv(ETS_RECOMMENDATION, encode_ets(0, &table))));
        tlvs.extend(self.pfc.map(|it| {
            let first = u8::from(it.willing) << 7 | u8::from(it.macsec_bypass) << 6 | it.capability & 15;
            tlv(PFC, vec![first, it.enabled])
        }));
        tlvs.extend(self.applications.as_ref().map(|list| tlv(APPLICATION, encode_applications(list))));
        tlvs.extend(self.congestion.map(|it| tlv(CONGESTION_NOTIFICATION, vec![it.priorities, it.ready])));
        tlvs
    }
}

/// Reads a value of a fixed length.
fn exact<const N: usize>(tlv: DcbxTlv, value: &[u8]) -> Result<[u8; N], DcbxError> {
    value.try_into().map_err(|_| wrong_length(tlv, value))
}

/// Lengths in errors are those of the TLV header, with OUI and subtype.
fn wrong_length(tlv: DcbxTlv, value: &[u8]) -> DcbxError {
    DcbxError::Length { tlv, len: value.len() as u16 + 4 }
}

/// Reads the first byte and the tables of an ETS TLV.
fn decode_ets(tlv: DcbxTlv, value: &[u8]) -> Result<(u8, EtsTable), DcbxError> {
    let [first, a, b, c, d, tables @ ..] = exact::<21>(tlv, value)?;
    let class_of_priority = nibbles([a, b, c, d]);
    if let Some(&group) = class_of_priority.iter().find(|class| **class > 7) {
        return Err(DcbxError::Group { tlv, group });
    }
    let (mut percent, mut algorithms) = ([0; 8], [0; 8]);
    percent.copy_from_slice(&tables[..8]);
    algorithms.copy_from_slice(&tables[8..]);
    let table = EtsTable { class_of_priority, percent, algorithms };
    match table.ets_percent() {
        Some(percent) if percent != 100 => Err(DcbxError::Shares { tlv, percent }),
        _ => Ok((first, table)),
    }
}

fn encode_ets(first: u8, table: &EtsTable) -> Vec<u8> {
    let classes = from_nibbles(table.class_of_priority);
    [&[first][..], &classes, &table.percent, &table.algorithms].concat()
}

impl EtsTable {
    /// Returns the sum of the shares of traffic classes with ETS; `None` if there is no such class.
    fn ets_percent(&self) -> Option<u16> {
        let of_ets = || self.percent.iter().zip(self.algorithms).filter(|(_, it)| *it == algorithm::ETS);
        of_ets().next()?;
        Some(of_ets().map(|(percent, _)| u16::from(*percent)).sum())
    }
}

fn decode_applications(value: &[u8]) -> Result<Vec<Application>, DcbxError> {
    let wrong = wrong_length(DcbxTlv::Application, value);
    let (_, entries) = value.split_first().ok_or(wrong)?;
    if entries.len() % 3 != 0 {
        return Err(wrong);
    }
    let decode = |entry: &[u8]| match *entry {
        [first, high, low] => Some(Application {
            selector: Selector::decode(first),
            protocol: u16::from_be_bytes([high, low]),
            priority: first >> 5,
        }),
        _ => None,
    };
    Ok(entries.chunks_exact(3).filter_map(decode).collect())
}

fn encode_applications(list: &[Application]) -> Vec<u8> {
    let mut value = vec![0];
    for application in list.iter().take(MAX_APPLICATIONS) {
        value.push(application.priority << 5 | application.selector.encode());
        value.extend(application.protocol.to_be_bytes());
    }
    value
}
