//! Optional TLVs of the basic set: capabilities, management addresses, text.
//!
//! Source: IEEE 802.1AB-2016 8.5.5–8.5.9.

use super::error::LldpError;
use super::text::{address_text, text};
use super::tlv;
use core::fmt;
use core::net::IpAddr;

/// The longest text of a basic TLV, in bytes.
pub const MAX_TEXT_BYTES: usize = 255;

/// Reads the text of a basic TLV.
pub(super) fn decode_text(kind: u8, value: &[u8]) -> Result<String, LldpError> {
    if value.len() > MAX_TEXT_BYTES {
        return Err(LldpError::Length { kind, len: value.len() as u16 });
    }
    Ok(text(value))
}

/// Returns the bytes of a text, as many whole characters as fit.
#[expect(clippy::indexing_slicing, reason = "the end is at most the length")]
pub(super) fn encode_text(text: &str) -> &[u8] {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text.as_bytes()[..end]
}

/// Functions of a system, as bits of table 8-4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Functions that the system has.
    pub system: u16,
    /// Functions that are in use.
    pub enabled: u16,
}

impl Capabilities {
    /// Bit of a bridge.
    pub const BRIDGE: u16 = 1 << 2;
    /// Bit of a station that has no other function.
    pub const STATION: u16 = 1 << 7;
    /// Names of the bits, in the words of `lldpctl`.
    const NAMES: [&str; 11] = [
        "Other", "Repeater", "Bridge", "Wlan", "Router", "Tel", "Docsis", "Station", "C-VLAN", "S-VLAN",
        "TPMR",
    ];

    pub(super) fn decode(value: &[u8]) -> Result<Self, LldpError> {
        match *value {
            [a, b, c, d] => {
                Ok(Self { system: u16::from_be_bytes([a, b]), enabled: u16::from_be_bytes([c, d]) })
            }
            _ => Err(LldpError::Length { kind: tlv::SYSTEM_CAPABILITIES, len: value.len() as u16 }),
        }
    }

    pub(super) fn encode(self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.system.to_be_bytes(), self.enabled.to_be_bytes());
        [a, b, c, d]
    }

    /// Returns the name of each function that the system has, with true if it is enabled.
    pub fn names(self) -> impl Iterator<Item = (&'static str, bool)> {
        let bits = Self::NAMES.into_iter().enumerate().filter(move |(bit, _)| self.system >> bit & 1 != 0);
        bits.map(move |(bit, name)| (name, self.enabled >> bit & 1 != 0))
    }
}

/// Address at which a system is managed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagementAddress {
    /// Address family of the IANA's list: 1 is IPv4, 2 is IPv6, 6 is a MAC address.
    pub family: u8,
    /// Between 1 and 31 bytes.
    pub address: Vec<u8>,
    /// Kind of interface number: 1 is unknown, 2 an ifIndex, 3 a system port number.
    pub interface_subtype: u8,
    /// Number of the interface.
    pub interface: u32,
    /// Object identifier, at most 128 bytes; usually empty.
    pub oid: Vec<u8>,
}

impl ManagementAddress {
    pub(super) fn decode(value: &[u8]) -> Result<Self, LldpError> {
        Self::split(value).ok_or(LldpError::Length { kind: tlv::MANAGEMENT_ADDRESS, len: value.len() as u16 })
    }

    fn split(value: &[u8]) -> Option<Self> {
        let (&len, rest) = value.split_first()?;
        let (address, rest) = rest.split_at_checked(len.into())?;
        let (&family, address) =
            address.split_first().filter(|(_, address)| (1..=31).contains(&address.len()))?;
        let ([interface_subtype, a, b, c, d, oid_len], oid) = rest.split_first_chunk::<6>()?;
        (oid.len() == usize::from(*oid_len) && oid.len() <= 128).then(|| Self {
            family,
            address: address.to_vec(),
            interface_subtype: *interface_subtype,
            interface: u32::from_be_bytes([*a, *b, *c, *d]),
            oid: oid.to_vec(),
        })
    }

    #[expect(clippy::indexing_slicing, reason = "both ends are at most the lengths")]
    pub(super) fn encode(&self) -> Vec<u8> {
        let (address, oid) =
            (&self.address[..self.address.len().min(31)], &self.oid[..self.oid.len().min(128)]);
        let mut value = vec![address.len() as u8 + 1, self.family];
        value.extend(address);
        value.push(self.interface_subtype);
        value.extend(self.interface.to_be_bytes());
        value.push(oid.len() as u8);
        value.extend(oid);
        value
    }
}

impl From<IpAddr> for ManagementAddress {
    /// Makes an address without an interface.
    fn from(address: IpAddr) -> Self {
        let (family, address) = match address {
            IpAddr::V4(address) => (1, address.octets().to_vec()),
            IpAddr::V6(address) => (2, address.octets().to_vec()),
        };
        Self { family, address, interface_subtype: 1, interface: 0, oid: Vec::new() }
    }
}

impl fmt::Display for ManagementAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&address_text(self.family, &self.address))
    }
}
