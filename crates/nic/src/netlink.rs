//! rtnetlink: interfaces and their qdiscs, creation and removal of the root qdisc.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::libc;
use xdp::netlink::{
    Link, RouteSocket, TC_H_ROOT, TCA_KIND, attributes, push_attribute, text, traffic_control, u32_at,
};

use crate::error::Error;
use crate::settings::KIND;

/// A netlink connection in the network namespace of the thread that opened it.
pub struct RtNetlink(pub(crate) RouteSocket);

/// A Linux network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Interface name.
    pub name: String,
    /// Interface index in its namespace.
    pub index: u32,
    /// Interface index of the other end of a veth, in the namespace of that end.
    pub peer: Option<u32>,
    /// The id of that namespace in this one ([`RtNetlink::namespace_id`]). `None` if it is this
    /// one.
    pub peer_namespace: Option<i32>,
    /// True if the interface is no NIC: its kernel sees the PFC frames.
    pub is_virtual: bool,
    /// True if the interface is up and has a carrier.
    pub is_up: bool,
    /// MAC address; zero if it has none of six bytes.
    pub mac: [u8; 6],
}

/// The root qdisc of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootQdisc {
    /// The kernel's default.
    Default,
    /// A qdisc of our kind.
    Ours,
    /// A qdisc of this kind that an administrator configured.
    Foreign(String),
}

/// Traffic control of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Qdiscs {
    pub(crate) root: RootQdisc,
    /// True if the interface has clsact, which can hold programs at ingress.
    pub(crate) has_clsact: bool,
    /// A number (the major half of a handle) that no qdisc of the interface has.
    pub(crate) free_number: u16,
}

/// First number that is tried for our qdisc.
const FIRST_NUMBER: u16 = 0x5c1c;

// linux/net_namespace.h
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;

/// Bytes of `struct tcmsg` (linux/rtnetlink.h).
const TCMSG_BYTES: usize = 20;

/// A qdisc, a class or a filter: a `struct tcmsg` and its attributes.
pub(crate) struct TcObject(Vec<u8>);

impl TcObject {
    fn word(&self, at: usize) -> u32 {
        u32_at(&self.0, at).unwrap_or(0)
    }

    pub(crate) fn handle(&self) -> u32 {
        self.word(8)
    }

    pub(crate) fn parent(&self) -> u32 {
        self.word(12)
    }

    pub(crate) fn info(&self) -> u32 {
        self.word(16)
    }

    pub(crate) fn attributes(&self) -> impl Iterator<Item = (u16, &[u8])> {
        attributes(&self.0[TCMSG_BYTES..])
    }

    fn kind(&self) -> String {
        self.attributes().find(|(kind, _)| *kind == TCA_KIND).map(|(_, kind)| text(kind)).unwrap_or_default()
    }
}

/// Returns the objects that a request for all of a kind finds at an interface, below `parent`.
pub(crate) fn tc_objects(
    route: &RouteSocket,
    request: u16,
    index: u32,
    parent: u32,
) -> io::Result<Vec<TcObject>> {
    let all = route.dump(request, &traffic_control(index as i32, 0, parent, 0))?.into_iter().map(TcObject);
    Ok(all.filter(|object| object.0.len() >= TCMSG_BYTES && object.word(4) == index).collect())
}

fn interface(link: Link) -> Interface {
    Interface {
        index: link.index as u32,
        peer: link.peer.map(|(index, _)| index as u32),
        peer_namespace: link.peer.and_then(|(_, namespace)| namespace),
        is_virtual: !link.kind.is_empty() || link.bus == "virtio",
        is_up: link.has_carrier,
        mac: link.mac.map_or([0; 6], |mac| mac.0),
        name: link.name,
    }
}

impl RtNetlink {
    /// Opens a connection.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn connect() -> Result<Self, Error> {
        RouteSocket::open().map(Self).map_err(|error| Error::system("a netlink socket", error))
    }

    /// Returns all interfaces.
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn all(&self) -> Result<Vec<Interface>, Error> {
        let links = self.0.links().map_err(|error| Error::system("listing interfaces", error))?;
        Ok(links.into_iter().map(interface).collect())
    }

    /// Returns the interface of this name.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn find(&self, device: &str) -> Result<Interface, Error> {
        let all = self.all()?;
        if let Some(found) = all.iter().find(|interface| interface.name == device) {
            return Ok(found.clone());
        }
        let others = all.into_iter().map(|interface| interface.name).filter(|name| name != "lo").collect();
        Err(Error::NoInterface { device: device.to_owned(), others })
    }

    /// Returns the id that a network namespace has in this one. `None` if it has none: then no
    /// interface here has its other end there.
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn namespace_id(&self, namespace: &File) -> Result<Option<i32>, Error> {
        let mut body = vec![libc::AF_UNSPEC as u8, 0, 0, 0];
        push_attribute(&mut body, NETNSA_FD, &namespace.as_raw_fd().to_ne_bytes());
        let answer = self.0.request(libc::RTM_GETNSID, 0, &body);
        let answer = answer.map_err(|error| Error::system("asking for a namespace's id", error))?;
        let mut found = attributes(answer.get(4..).unwrap_or_default());
        let id = found.find(|(kind, _)| *kind == NETNSA_NSID).and_then(|(_, id)| u32_at(id, 0));
        Ok(id.map(|id| id as i32).filter(|id| *id >= 0))
    }

    pub(crate) fn qdiscs(&self, index: u32) -> Result<Qdiscs, Error> {
        let here = tc_objects(&self.0, libc::RTM_GETQDISC, index, 0);
        let here = here.map_err(|error| Error::system("listing qdiscs", error))?;
        let mut qdiscs = Qdiscs { root: RootQdisc::Default, has_clsact: false, free_number: FIRST_NUMBER };
        while here.iter().any(|qdisc| qdisc.handle() >> 16 == u32::from(qdiscs.free_number)) {
            qdiscs.free_number += 1;
        }
        for qdisc in here {
            let kind = qdisc.kind();
            match qdisc.parent() {
                TC_H_ROOT if kind == KIND => qdiscs.root = RootQdisc::Ours,
                // A default qdisc has no number.
                TC_H_ROOT if qdisc.handle() >> 16 != 0 => qdiscs.root = RootQdisc::Foreign(kind),
                _ if kind == "clsact" || kind == "ingress" => qdiscs.has_clsact = true,
                _ => {}
            }
        }
        Ok(qdiscs)
    }

    /// Replaces the root qdisc, of any kind, by one of our kind, which must be registered. `number`
    /// must be one that no qdisc of the interface has: otherwise the kernel would change a qdisc of
    /// the same kind, which our kind does not support.
    pub(crate) fn set_root(&self, index: u32, number: u16) -> Result<(), Error> {
        let mut body = traffic_control(index as i32, u32::from(number) << 16, TC_H_ROOT, 0);
        push_attribute(&mut body, TCA_KIND, &[KIND.as_bytes(), &[0]].concat());
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let added = self.0.request(libc::RTM_NEWQDISC, flags, &body);
        added.map(drop).map_err(|error| refused("adding the qdisc", error))
    }

    /// Removes the root qdisc; the kernel restores its default.
    pub(crate) fn remove_root(&self, index: u32) -> Result<(), Error> {
        self.0.remove_qdisc(index as i32).map_err(|error| refused("removing the qdisc", error))
    }
}

fn refused(action: &str, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::NotPermitted { action: action.to_owned() },
        _ => Error::system(action, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns;
    use std::process::Command;

    fn ip(arguments: &str) -> bool {
        Command::new("ip").args(arguments.split(' ')).status().is_ok_and(|status| status.success())
    }

    /// Interfaces of the same index in several namespaces differ in the ids of the namespaces.
    #[test]
    fn the_other_end_of_a_veth_is_in_a_namespace_with_an_id() {
        let name = format!("sluice-nic-{}", std::process::id());
        assert!(ip(&format!("netns add {name}")), "needs root");
        let found = netns::fresh(|| {
            ip(&format!("link add name va type veth peer name vb netns {name}"));
            let links = RtNetlink::connect()?;
            let there = File::open(format!("/run/netns/{name}")).expect("it was just made");
            Ok((links.find("va")?, links.namespace_id(&there)?, links.namespace_id(&netns::current()?)?))
        });
        ip(&format!("netns del {name}"));
        let (end, there, here) = found.unwrap();
        assert!(end.is_virtual && there.is_some(), "{end:?}, {there:?}");
        assert_eq!((end.peer_namespace, here == there), (there, false));
    }
}
