//! rtnetlink: interfaces and their qdiscs, creation and removal of the root qdisc.

use std::fs::File;
use std::os::fd::AsRawFd;

use futures::{StreamExt, TryStreamExt};
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use rtnetlink::packet_route::nsid::{NsidAttribute, NsidMessage};
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use tokio::runtime::Runtime;

use crate::clsact;
use crate::error::Error;
use crate::settings::KIND;

/// A netlink connection in the network namespace of the thread that opened it.
pub struct RtNetlink {
    runtime: Runtime,
    handle: rtnetlink::Handle,
}

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

impl RtNetlink {
    /// Opens a connection.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn connect() -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::system("a netlink socket", error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (connection, handle, _) =
            runtime.block_on(async { rtnetlink::new_connection() }).map_err(failed)?;
        runtime.spawn(connection);
        Ok(Self { runtime, handle })
    }

    /// Returns all interfaces.
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn all(&self) -> Result<Vec<Interface>, Error> {
        let links = self.runtime.block_on(self.handle.link().get().execute().try_collect::<Vec<_>>());
        let links = links.map_err(|error| Error::system("listing interfaces", error))?;
        let interface = |link: LinkMessage| {
            let (mut name, mut peer, mut peer_namespace, mut is_virtual) = (None, None, None, false);
            let (index, is_up, mut mac) = (link.header.index, is_up(&link), [0; 6]);
            for attribute in link.attributes {
                match attribute {
                    LinkAttribute::IfName(text) => name = Some(text),
                    LinkAttribute::Link(index) => peer = Some(index),
                    LinkAttribute::LinkNetNsId(id) => peer_namespace = Some(id),
                    LinkAttribute::Address(address) => mac = address.try_into().unwrap_or_default(),
                    LinkAttribute::ParentDevBusName(bus) => is_virtual |= bus == "virtio",
                    LinkAttribute::LinkInfo(infos) => {
                        is_virtual |= infos.iter().any(|info| matches!(info, LinkInfo::Kind(_)));
                    }
                    _ => {}
                }
            }
            Some(Interface { name: name?, index, peer, peer_namespace, is_virtual, is_up, mac })
        };
        Ok(links.into_iter().filter_map(interface).collect())
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
        let mut message = NsidMessage::default();
        message.attributes.push(NsidAttribute::Fd(namespace.as_raw_fd() as u32));
        let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetNsId(message));
        request.header.flags = NLM_F_REQUEST;
        let mut handle = self.handle.clone();
        let answer = self
            .runtime
            .block_on(async { handle.request(request)?.next().await.ok_or(rtnetlink::Error::RequestFailed) });
        match answer.map(|answer| answer.payload) {
            Ok(NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewNsId(NsidMessage {
                attributes,
                ..
            }))) => {
                let id = |attribute: &NsidAttribute| match attribute {
                    NsidAttribute::Id(id) if *id >= 0 => Some(*id),
                    _ => None,
                };
                Ok(attributes.iter().find_map(id))
            }
            Ok(NetlinkPayload::Error(error)) => {
                Err(Error::system("asking for a namespace's id", error.to_io()))
            }
            Ok(_) => Ok(None),
            Err(error) => Err(Error::system("asking for a namespace's id", error)),
        }
    }

    pub(crate) fn qdiscs(&self, index: u32) -> Result<Qdiscs, Error> {
        let request = self.handle.qdisc().get().index(index as i32).execute();
        let all = self.runtime.block_on(request.try_collect::<Vec<TcMessage>>());
        let all = all.map_err(|error| Error::system("listing qdiscs", error))?;
        let mut qdiscs = Qdiscs { root: RootQdisc::Default, has_clsact: false, free_number: FIRST_NUMBER };
        let here: Vec<&TcMessage> = all.iter().filter(|qdisc| qdisc.header.index == index as i32).collect();
        while here.iter().any(|qdisc| qdisc.header.handle.major == qdiscs.free_number) {
            qdiscs.free_number += 1;
        }
        for qdisc in here {
            let kind = kind(qdisc);
            match qdisc.header.parent {
                TcHandle::ROOT if kind == KIND => qdiscs.root = RootQdisc::Ours,
                // A default qdisc has no number.
                TcHandle::ROOT if qdisc.header.handle.major != 0 => {
                    qdiscs.root = RootQdisc::Foreign(kind.to_owned());
                }
                _ if kind == "clsact" || kind == "ingress" => qdiscs.has_clsact = true,
                _ => {}
            }
        }
        Ok(qdiscs)
    }

    /// Counts the programs and filters of others in clsact, in both directions.
    pub(crate) fn others(&self, index: u32) -> Result<usize, Error> {
        let mut count = 0;
        let at = || self.handle.traffic_filter(index as i32).get();
        for (request, is_ingress) in [(at().ingress(), true), (at().egress(), false)] {
            let found = self.runtime.block_on(request.execute().try_collect::<Vec<TcMessage>>());
            let found = found.map_err(|error| Error::system("listing filters", error))?;
            count += found.iter().filter(|filter| !(is_ingress && clsact::is_ours(filter))).count();
        }
        Ok(count)
    }

    /// Replaces the root qdisc, of any kind, by one of our kind, which must be registered. `number`
    /// must be one that no qdisc of the interface has: otherwise the kernel would change a qdisc of
    /// the same kind, which our kind does not support.
    pub(crate) fn set_root(&self, index: u32, number: u16) -> Result<(), Error> {
        let mut message = TcMessage::with_index(index as i32);
        message.header.parent = TcHandle::ROOT;
        message.header.handle = TcHandle { major: number, minor: 0 };
        message.attributes.push(TcAttribute::Kind(KIND.to_owned()));
        let mut request = NetlinkMessage::from(RouteNetlinkMessage::NewQueueDiscipline(message));
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        let mut handle = self.handle.clone();
        self.runtime.block_on(async {
            let answers = handle.request(request);
            let mut answers = answers.map_err(|error| Error::system("adding the qdisc", error))?;
            while let Some(answer) = answers.next().await {
                if let NetlinkPayload::Error(error) = answer.payload
                    && error.code.is_some()
                {
                    return Err(match error.to_io().raw_os_error() {
                        Some(EPERM) => Error::NotPermitted { action: "adding the qdisc".to_owned() },
                        _ => Error::system("adding the qdisc", error.to_io()),
                    });
                }
            }
            Ok(())
        })
    }

    /// Removes the root qdisc; the kernel restores its default.
    pub(crate) fn remove_root(&self, index: u32) -> Result<(), Error> {
        let mut request = self.handle.qdisc().del(index as i32);
        request.message_mut().header.parent = TcHandle::ROOT;
        self.runtime.block_on(request.execute()).map_err(|error| match &error {
            rtnetlink::Error::NetlinkError(message) if message.to_io().raw_os_error() == Some(EPERM) => {
                Error::NotPermitted { action: "removing the qdisc".to_owned() }
            }
            _ => Error::system("removing the qdisc", error),
        })
    }
}

/// Returns true if an interface is up and has a carrier.
pub(crate) fn is_up(link: &LinkMessage) -> bool {
    link.header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp)
}

const EPERM: i32 = nix::Error::EPERM as i32;

fn kind(qdisc: &TcMessage) -> &str {
    let kinds = qdisc.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Kind(kind) => Some(kind.as_str()),
        _ => None,
    });
    kinds.unwrap_or_default()
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
