//! Chassis ID and port ID, which together name a neighbor.
//!
//! Source: IEEE 802.1AB-2016 8.5.2 (chassis ID) and 8.5.3 (port ID).

use super::error::LldpError;
use super::text::{address_text, text};
use super::tlv;
use crate::MacAddr;
use core::fmt;

/// The longest identifier, without its subtype.
pub const MAX_BYTES: usize = 255;

/// Identifier of a system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChassisId {
    /// Kind of identifier (table 8-2): 4 is a MAC address, 7 a locally assigned text.
    pub subtype: u8,
    /// Between 1 and [`MAX_BYTES`] bytes.
    pub id: Vec<u8>,
}

/// Identifier of a port of a system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId {
    /// Kind of identifier (table 8-3): 3 is a MAC address, 5 an interface name.
    pub subtype: u8,
    /// Between 1 and [`MAX_BYTES`] bytes.
    pub id: Vec<u8>,
}

impl ChassisId {
    const MAC: u8 = 4;
    const NETWORK: u8 = 5;

    /// Returns a chassis that is named by a MAC address.
    pub fn mac(address: MacAddr) -> Self {
        Self { subtype: Self::MAC, id: address.0.to_vec() }
    }

    /// Returns the kind of identifier, in the words of `lldpctl`.
    pub fn type_name(&self) -> &'static str {
        match self.subtype {
            1 => "component",
            2 => "ifalias",
            3 => "port",
            Self::MAC => "mac",
            Self::NETWORK => "ip",
            6 => "ifname",
            7 => "local",
            _ => "unhandled",
        }
    }

    pub(super) fn decode(value: &[u8]) -> Result<Self, LldpError> {
        let (subtype, id) = split(tlv::CHASSIS_ID, value, Self::MAC)?;
        Ok(Self { subtype, id })
    }
}

impl PortId {
    const MAC: u8 = 3;
    const NETWORK: u8 = 4;
    const INTERFACE_NAME: u8 = 5;

    /// Returns a port that is named as its interface is.
    pub fn interface(name: &str) -> Self {
        Self { subtype: Self::INTERFACE_NAME, id: name.as_bytes().to_vec() }
    }

    /// Returns a port that is named by a MAC address.
    pub fn mac(address: MacAddr) -> Self {
        Self { subtype: Self::MAC, id: address.0.to_vec() }
    }

    /// Returns the kind of identifier, in the words of `lldpctl`.
    pub fn type_name(&self) -> &'static str {
        match self.subtype {
            1 => "ifalias",
            2 => "component",
            Self::MAC => "mac",
            Self::NETWORK => "ip",
            Self::INTERFACE_NAME => "ifname",
            6 => "circuit",
            7 => "local",
            _ => "unhandled",
        }
    }

    pub(super) fn decode(value: &[u8]) -> Result<Self, LldpError> {
        let (subtype, id) = split(tlv::PORT_ID, value, Self::MAC)?;
        Ok(Self { subtype, id })
    }
}

/// Separates the subtype from the identifier. A MAC address has six bytes.
fn split(kind: u8, value: &[u8], mac: u8) -> Result<(u8, Vec<u8>), LldpError> {
    let wrong = LldpError::Length { kind, len: value.len() as u16 };
    match value {
        [subtype, id @ ..] if *subtype == mac && id.len() != 6 => Err(wrong),
        [subtype, id @ ..] if (1..=MAX_BYTES).contains(&id.len()) => Ok((*subtype, id.to_vec())),
        _ => Err(wrong),
    }
}

/// Writes a MAC or network address as such, any other identifier as text.
fn write(f: &mut fmt::Formatter<'_>, id: &[u8], is_mac: bool, is_network: bool) -> fmt::Result {
    match id {
        [a, b, c, d, e, last] if is_mac => write!(f, "{}", MacAddr([*a, *b, *c, *d, *e, *last])),
        [family, address @ ..] if is_network => f.write_str(&address_text(*family, address)),
        _ => f.write_str(&text(id)),
    }
}

impl fmt::Display for ChassisId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, &self.id, self.subtype == Self::MAC, self.subtype == Self::NETWORK)
    }
}

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, &self.id, self.subtype == Self::MAC, self.subtype == Self::NETWORK)
    }
}
