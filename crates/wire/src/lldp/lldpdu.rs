//! An LLDPDU as a whole: the mandatory TLVs in their order, then the optional ones.
//!
//! Source: IEEE 802.1AB-2016 8.2 (LLDPDU format) and 9.2.7.7 (validation).
//!
//! An LLDPDU is refused as a whole if its mandatory TLVs are not the first three, if any of them
//! comes again, if a TLV extends beyond the frame, or if a TLV of the basic set is malformed or
//! repeated. Only management addresses may be repeated. Reserved types are ignored and counted.

use super::basic::{Capabilities, ManagementAddress, decode_text, encode_text};
use super::error::LldpError;
use super::identifier::{ChassisId, PortId};
use super::organization::OrgTlv;
use super::tlv::{self, Tlv, Tlvs, push};
use crate::ethernet::{self, HEADER_BYTES};
use crate::{Error, MacAddr};

/// The longest LLDPDU that is written: the payload of an Ethernet frame.
pub const MAX_BYTES: usize = 1500;
/// The shortest Ethernet frame, without FCS.
const MIN_FRAME_BYTES: usize = 60;
/// Bytes of the End TLV.
const END_BYTES: usize = 2;

/// Contents of an LLDPDU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lldpdu {
    /// Identifier of the sender.
    pub chassis: ChassisId,
    /// Identifier of the port that it was sent from.
    pub port: PortId,
    /// Seconds for which the receiver keeps it; 0 withdraws it at once.
    pub ttl_s: u16,
    /// What the port is for.
    pub port_description: Option<String>,
    /// Usually the host name.
    pub system_name: Option<String>,
    /// Hardware and software of the system.
    pub system_description: Option<String>,
    /// Functions of the system.
    pub capabilities: Option<Capabilities>,
    /// Addresses at which the system is managed.
    pub management: Vec<ManagementAddress>,
    /// Organizationally specific TLVs, in their order.
    pub organization: Vec<OrgTlv>,
    /// Number of TLVs of reserved types.
    pub reserved_tlvs: u16,
}

/// A written frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The frame, padded to the shortest length of Ethernet.
    pub frame: Vec<u8>,
    /// Number of optional TLVs that did not fit.
    pub omitted_tlvs: u16,
}

impl Lldpdu {
    /// Makes an LLDPDU of the mandatory TLVs.
    pub fn new(chassis: ChassisId, port: PortId, ttl_s: u16) -> Self {
        Self {
            chassis,
            port,
            ttl_s,
            port_description: None,
            system_name: None,
            system_description: None,
            capabilities: None,
            management: Vec::new(),
            organization: Vec::new(),
            reserved_tlvs: 0,
        }
    }

    /// Writes the whole frame. Optional TLVs that do not fit are omitted; organizationally specific
    /// ones come before text, which is worth less.
    pub fn encode(&self, src: MacAddr) -> Encoded {
        let mut frame = vec![0; HEADER_BYTES];
        ethernet::write_header(&mut frame, MacAddr::NEAREST_BRIDGE, src, None, ethernet::LLDP);
        push(&mut frame, tlv::CHASSIS_ID, &[&[self.chassis.subtype], &self.chassis.id[..]].concat());
        push(&mut frame, tlv::PORT_ID, &[&[self.port.subtype], &self.port.id[..]].concat());
        push(&mut frame, tlv::TTL, &self.ttl_s.to_be_bytes());
        let mut omitted_tlvs = 0;
        for (kind, value) in self.optional() {
            if frame.len() + 2 + value.len() + END_BYTES <= HEADER_BYTES + MAX_BYTES
                && value.len() <= tlv::MAX_VALUE_BYTES
            {
                push(&mut frame, kind, &value);
            } else {
                omitted_tlvs += 1;
            }
        }
        push(&mut frame, tlv::END, &[]);
        frame.resize(frame.len().max(MIN_FRAME_BYTES), 0);
        Encoded { frame, omitted_tlvs }
    }

    /// Returns the optional TLVs in the order in which they are written.
    fn optional(&self) -> Vec<(u8, Vec<u8>)> {
        let text =
            |kind, text: &Option<String>| text.as_deref().map(|text| (kind, encode_text(text).to_vec()));
        let mut tlvs: Vec<(u8, Vec<u8>)> = Vec::new();
        tlvs.extend(self.organization.iter().map(|tlv| (tlv::ORGANIZATION, tlv.encode())));
        tlvs.extend(self.capabilities.map(|it| (tlv::SYSTEM_CAPABILITIES, it.encode().to_vec())));
        tlvs.extend(self.management.iter().map(|it| (tlv::MANAGEMENT_ADDRESS, it.encode())));
        tlvs.extend(text(tlv::PORT_DESCRIPTION, &self.port_description));
        tlvs.extend(text(tlv::SYSTEM_NAME, &self.system_name));
        tlvs.extend(text(tlv::SYSTEM_DESCRIPTION, &self.system_description));
        tlvs
    }

    fn add(&mut self, Tlv { kind, value }: Tlv) -> Result<(), LldpError> {
        match kind {
            tlv::CHASSIS_ID | tlv::PORT_ID | tlv::TTL => return Err(LldpError::Repeated { kind }),
            tlv::PORT_DESCRIPTION => fill(&mut self.port_description, kind, decode_text(kind, value)?)?,
            tlv::SYSTEM_NAME => fill(&mut self.system_name, kind, decode_text(kind, value)?)?,
            tlv::SYSTEM_DESCRIPTION => fill(&mut self.system_description, kind, decode_text(kind, value)?)?,
            tlv::SYSTEM_CAPABILITIES => fill(&mut self.capabilities, kind, Capabilities::decode(value)?)?,
            tlv::MANAGEMENT_ADDRESS => self.management.push(ManagementAddress::decode(value)?),
            tlv::ORGANIZATION => self.organization.push(OrgTlv::decode(value)?),
            _ => self.reserved_tlvs = self.reserved_tlvs.saturating_add(1),
        }
        Ok(())
    }
}

/// Sets what a TLV brings, which must not have been there.
fn fill<T>(field: &mut Option<T>, kind: u8, value: T) -> Result<(), LldpError> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(LldpError::Repeated { kind }),
    }
}

/// Reads a frame, and returns the LLDPDU with the source address.
pub fn decode(frame: &[u8]) -> Result<(MacAddr, Lldpdu), LldpError> {
    let (header, body) = frame.split_first_chunk::<HEADER_BYTES>().ok_or(Error::Truncated)?;
    let [_, _, _, _, _, _, a, b, c, d, e, f, type_high, type_low] = *header;
    if u16::from_be_bytes([type_high, type_low]) != ethernet::LLDP {
        return Err(LldpError::WrongType);
    }
    if !header.starts_with(&MacAddr::NEAREST_BRIDGE.0) {
        return Err(LldpError::WrongDestination);
    }
    let mut tlvs = Tlvs::new(body);
    let chassis = ChassisId::decode(mandatory(&mut tlvs, tlv::CHASSIS_ID)?)?;
    let port = PortId::decode(mandatory(&mut tlvs, tlv::PORT_ID)?)?;
    let ttl_s = match *mandatory(&mut tlvs, tlv::TTL)? {
        // Later versions of the standard may append fields.
        [high, low, ..] => u16::from_be_bytes([high, low]),
        ref short => return Err(LldpError::Length { kind: tlv::TTL, len: short.len() as u16 }),
    };
    let mut lldpdu = Lldpdu::new(chassis, port, ttl_s);
    for tlv in tlvs {
        lldpdu.add(tlv?)?;
    }
    Ok((MacAddr([a, b, c, d, e, f]), lldpdu))
}

/// Takes the TLV that must come next.
fn mandatory<'a>(tlvs: &mut Tlvs<'a>, expected: u8) -> Result<&'a [u8], LldpError> {
    match tlvs.next().transpose()? {
        Some(Tlv { kind, value }) if kind == expected => Ok(value),
        other => Err(LldpError::Order { expected, found: other.map_or(tlv::END, |tlv| tlv.kind) }),
    }
}
