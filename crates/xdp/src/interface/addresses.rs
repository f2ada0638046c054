//! The IP addresses of an interface, and whether it has IPv6.
//!
//! Source: `rtnetlink(7)`, `linux/if_addr.h`; the kernel's `Documentation/networking/ip-sysctl.rst`
//! (`disable_ipv6`).

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use crate::interface::netlink::{RouteSocket, attributes, push_attribute, u32_at};

/// Bytes of a `struct ifaddrmsg`.
const IFADDR_BYTES: usize = 8;

/// An address, and the length of its prefix in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Length of the prefix in bits.
    pub prefix: u8,
}

impl Address {
    /// True for an IPv6 link-local address, which the kernel assigns by itself.
    pub(crate) fn is_link_local(&self) -> bool {
        matches!(self.ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

impl FromStr for Address {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (ip, prefix) = text.split_once('/').ok_or(())?;
        Ok(Self { ip: ip.parse().map_err(drop)?, prefix: prefix.parse().map_err(drop)? })
    }
}

/// Returns the addresses of interface `index`.
pub(crate) fn addresses(route: &RouteSocket, index: i32) -> io::Result<Vec<Address>> {
    let bodies = route.dump(libc::RTM_GETADDR, &[0; IFADDR_BYTES])?;
    let of_interface = bodies.iter().filter(|body| u32_at(body, 4) == Some(index as u32));
    Ok(of_interface.filter_map(|body| parse(body)).collect())
}

/// Adds an IPv6 address to interface `index`.
pub(crate) fn add_address(route: &RouteSocket, index: i32, (ip, prefix): (Ipv6Addr, u8)) -> io::Result<()> {
    let mut body = vec![libc::AF_INET6 as u8, prefix, 0, 0];
    body.extend_from_slice(&index.to_ne_bytes());
    push_attribute(&mut body, libc::IFA_LOCAL, &ip.octets());
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    route.request(libc::RTM_NEWADDR, flags, &body).map(drop)
}

/// Parses a `struct ifaddrmsg` with its attributes. Of a point-to-point address the local one is
/// meant.
fn parse(body: &[u8]) -> Option<Address> {
    let (family, prefix) = (i32::from(*body.first()?), *body.get(1)?);
    let attribute = |wanted| attributes(body.get(IFADDR_BYTES..)?).find(|(kind, _)| *kind == wanted);
    let (_, bytes) = attribute(libc::IFA_LOCAL).or_else(|| attribute(libc::IFA_ADDRESS))?;
    let ip = match family {
        libc::AF_INET => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        libc::AF_INET6 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some(Address { ip, prefix })
}

/// The file of the setting that turns IPv6 off on an interface of this thread's network namespace.
fn disable_ipv6(interface: &str) -> PathBuf {
    PathBuf::from(format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"))
}

pub(crate) fn has_ipv6(interface: &str) -> bool {
    fs::read_to_string(disable_ipv6(interface)).is_ok_and(|text| text.trim() == "0")
}

/// Turns IPv6 on or off on an interface. The kernel removes all IPv6 addresses of an interface
/// without IPv6, and assigns a link-local one when it has IPv6 again.
pub(crate) fn set_ipv6(interface: &str, on: bool) -> io::Result<()> {
    fs::write(disable_ipv6(interface), if on { "0" } else { "1" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "netlink sockets")]
    fn the_addresses_of_an_interface_are_read() {
        let mut body = vec![libc::AF_INET as u8, 24, 0, 0, 7, 0, 0, 0];
        push_attribute(&mut body, libc::IFA_ADDRESS, &[10, 0, 0, 2]);
        push_attribute(&mut body, libc::IFA_LOCAL, &[10, 0, 0, 1]);
        assert_eq!(parse(&body).unwrap().to_string(), "10.0.0.1/24");
        let text = "fe80::1/64";
        let address: Address = text.parse().unwrap();
        assert_eq!((address.to_string().as_str(), address.is_link_local()), (text, true));
        assert_eq!((parse(&body[..10]), "fe80::1".parse::<Address>()), (None, Err(())));
        assert!(addresses(&RouteSocket::open().unwrap(), -1).unwrap().is_empty());
    }
}
