//! What a port changes in the host's settings of its interface, so that it can be restored, also
//! by another process.
//!
//! Rule: a veth gets a queueing discipline, because one without loses frames when its peer's ring
//! is full. The interface of a switch's port has no IPv6, unless somebody gave it an address: the
//! host's own stack would send neighbor discovery and group reports past the switch, during a pause
//! too. Source: docs/kernel/af-xdp.md, "Where frames vanish"; docs/behavior.md, "The host's own
//! stack".

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::str::FromStr;

use crate::interface::addresses::{Address, add_address, addresses, has_ipv6, set_ipv6};
use crate::interface::netlink::{Link, RouteSocket};

/// The limit of the qdisc on a veth. It holds frames of the interface's own stack; AF_XDP bypasses
/// it.
const PFIFO_FRAMES: u32 = 1000;

/// The changes of one interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// Name of the interface.
    pub interface: String,
    /// Interface index.
    pub index: i32,
    /// The interface had no queueing, and has a pfifo.
    pub pfifo: bool,
    /// The interface had IPv6 with these link-local addresses, and has none.
    pub ipv6: Option<Vec<Address>>,
}

impl HostSettings {
    /// Returns what a switch's port has to change on this interface. Nothing is changed yet.
    ///
    /// # Errors
    /// There is no such interface, or the kernel does not answer.
    pub fn of_port(interface: &str) -> io::Result<Self> {
        let route = RouteSocket::open()?;
        let mut settings = Self::of_link(&route.link(interface)?);
        if has_ipv6(interface) {
            let addresses = addresses(&route, settings.index)?;
            let is_own = |address: &Address| address.ip.is_ipv6() && !address.is_link_local();
            if !addresses.iter().any(is_own) {
                settings.ipv6 = Some(addresses.into_iter().filter(Address::is_link_local).collect());
            }
        }
        Ok(settings)
    }

    /// Returns what any port has to change on this interface.
    pub(crate) fn of_link(link: &Link) -> Self {
        // A qdisc that is removed from an interface that is down leaves none until it is up.
        let pfifo = link.kind == "veth" && link.up && link.qdisc == "noqueue";
        Self { interface: link.name.clone(), index: link.index, pfifo, ipv6: None }
    }

    /// True if there is nothing to change.
    pub fn is_empty(&self) -> bool {
        !self.pfifo && self.ipv6.is_none()
    }

    /// Adds what was changed earlier on the same interface.
    pub fn merge(&mut self, earlier: Self) {
        self.pfifo |= earlier.pfifo;
        self.ipv6 = earlier.ipv6.or(self.ipv6.take());
    }

    /// Changes the settings.
    ///
    /// # Errors
    /// The kernel rejects one; the other is changed.
    pub fn change(&self) -> io::Result<()> {
        let ipv6 = self.ipv6.as_ref().map_or(Ok(()), |_| set_ipv6(&self.interface, false));
        if self.pfifo {
            RouteSocket::open()?.set_pfifo(self.index, PFIFO_FRAMES)?;
        }
        ipv6
    }

    /// Restores the settings, unless the interface is gone or somebody else has changed them since.
    ///
    /// # Errors
    /// The kernel rejects one; the other is restored.
    pub fn restore(&self) -> io::Result<()> {
        let route = RouteSocket::open()?;
        // The interface may have another name by now.
        let link = match route.link_of_index(self.index) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(()),
            link => link?,
        };
        let qdisc = if self.pfifo && link.qdisc == "pfifo" {
            route.remove_qdisc(self.index).or_else(ignore_missing)
        } else {
            Ok(())
        };
        if let Some(link_local) = self.ipv6.as_ref().filter(|_| !has_ipv6(&link.name)) {
            set_ipv6(&link.name, true)?;
            let present = addresses(&route, self.index)?;
            for address in link_local.iter().filter(|address| !present.contains(address)) {
                if let IpAddr::V6(ip) = address.ip {
                    add_address(&route, self.index, (ip, address.prefix))?;
                }
            }
        }
        qdisc
    }
}

/// The interface, or the qdisc, is gone already.
fn ignore_missing(error: io::Error) -> io::Result<()> {
    match error.raw_os_error() {
        Some(libc::ENODEV | libc::ENOENT) => Ok(()),
        _ => Err(error),
    }
}

/// A line of text without its end: index, name, and what was changed.
impl fmt::Display for HostSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.index, self.interface)?;
        if self.pfifo {
            write!(f, " pfifo")?;
        }
        if let Some(link_local) = &self.ipv6 {
            write!(f, " ipv6")?;
            link_local.iter().try_for_each(|address| write!(f, " {address}"))?;
        }
        Ok(())
    }
}

impl FromStr for HostSettings {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let mut words = line.split_ascii_whitespace();
        let index = words.next().and_then(|word| word.parse().ok()).ok_or(())?;
        let interface = words.next().ok_or(())?.to_owned();
        let mut settings = Self { interface, index, pfifo: false, ipv6: None };
        for word in words {
            match word {
                "pfifo" => settings.pfifo = true,
                "ipv6" => settings.ipv6 = Some(Vec::new()),
                address => settings.ipv6.as_mut().ok_or(())?.push(address.parse()?),
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_lists_what_was_changed() {
        for line in ["7 eth0", "7 eth0 pfifo", "7 eth0 ipv6", "7 eth0.20 pfifo ipv6 fe80::1/64 fe80::2/64"] {
            assert_eq!(line.parse::<HostSettings>().unwrap().to_string(), line);
        }
        for line in ["", "7", "x eth0", "7 eth0 fe80::1/64", "7 eth0 fq", "7 eth0 ipv6 fe80::1"] {
            assert_eq!(line.parse::<HostSettings>(), Err(()), "{line}");
        }
        assert!("7 eth0".parse::<HostSettings>().unwrap().is_empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "netlink sockets")]
    fn an_interface_that_is_gone_needs_nothing() {
        let gone =
            HostSettings { index: i32::MAX, pfifo: true, ipv6: Some(Vec::new()), ..Default::default() };
        assert!(gone.restore().is_ok());
        assert!(HostSettings::of_port("no-such-link").is_err());
    }
}
