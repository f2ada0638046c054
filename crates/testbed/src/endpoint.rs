//! A host of a testbed: its namespace, addresses and interface.

use anyhow::Result;

use crate::netns::Namespace;

/// A host's namespace, with its only interface [`Endpoint::INTERFACE`], and the port that it is
/// plugged into.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Network namespace of the host.
    pub namespace: Namespace,
    /// Name of the host, and of the switch's end of its cable.
    pub name: String,
    /// Number in the testbed, from 1: the last part of its addresses.
    pub number: u8,
}

impl Endpoint {
    pub(crate) fn set_addresses(&self) -> Result<()> {
        self.namespace.ip(&format!("addr add {}/24 brd + dev {}", self.ipv4(), Endpoint::INTERFACE))?;
        self.namespace.ip(&format!("addr add {}/64 dev {} nodad", self.ipv6(), Endpoint::INTERFACE)).map(drop)
    }

    /// The host's end of its cable.
    pub const INTERFACE: &str = "eth0";

    /// Returns the MAC address.
    pub fn mac(&self) -> String {
        format!("02:00:00:00:00:{:02x}", self.number)
    }

    /// Returns the IPv4 address of a plain host, in 10.0.0.0/24.
    pub fn ipv4(&self) -> String {
        format!("10.0.0.{}", self.number)
    }

    /// Returns the IPv6 address of a plain host, in fd00::/64.
    pub fn ipv6(&self) -> String {
        format!("fd00::{:x}", self.number)
    }
}
