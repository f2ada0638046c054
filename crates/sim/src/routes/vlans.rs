//! VLANs of hosts, and whether paths carry them.
//!
//! Rule: a host sends frames with a tag that has a priority only, or its own VLAN. The port of its
//! switch assigns such a frame to a VLAN, and the host is in that VLAN wherever its frames go:
//! nothing routes between VLANs, and a link that connects ports of different VLANs is refused. A
//! switch without VLANs does not change tags. The rules of ports are those of the switch itself
//! ([`switch::forwarding::vlan`]).

use std::collections::BTreeSet;

use switch::VlanAction;
use switch::forwarding::vlan::VlanTable;
use wire::bitset::Set64;

use super::Routes;
use crate::packet::vid_in;
use crate::scenario::types::{HostNode, Link, LinkEnd, Node, NodeKind};

/// The VLANs of a network.
#[derive(Debug)]
pub(crate) struct Vlans {
    /// By node: the VLAN of a host; 0 if it has none.
    of_host: Vec<u16>,
    /// By node: the VLANs of a switch's ports; `None` if they have none.
    tables: Vec<Option<Box<VlanTable>>>,
}

/// The VLANs of the hosts, as switches know them.
#[derive(Debug)]
pub(crate) struct HostVlans {
    /// By node: the VLAN of a host; 0 if it has none.
    of_host: Vec<u16>,
    /// By node: true for a switch whose ports have VLANs.
    has_vlans: Vec<bool>,
}

impl HostVlans {
    /// Returns the VLAN in which a switch knows the address of a host; 0 if it has no VLANs.
    pub(crate) fn vid_at(&self, switch: usize, host: usize) -> u16 {
        if self.has_vlans[switch] { self.of_host[host] } else { 0 }
    }

    /// Returns the VLANs in which a switch knows addresses: those of all hosts, or 0.
    pub(crate) fn vids_at(&self, switch: usize) -> Vec<u16> {
        if !self.has_vlans[switch] {
            return vec![0];
        }
        let all: BTreeSet<u16> = self.of_host.iter().copied().filter(|vid| *vid != 0).collect();
        all.into_iter().collect()
    }
}

/// Why a switch does not accept a host's frames, or a frame does not arrive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VlanMistake {
    /// Where it goes wrong: a port of a switch.
    pub(crate) at: LinkEnd,
    pub(crate) what: String,
    pub(crate) cure: String,
}

impl Vlans {
    /// Reads the VLANs of a network. A host that a port does not accept has VLAN 0.
    pub(crate) fn new(nodes: &[Node], links: &[Link]) -> Self {
        let table = |node: &Node| match &node.kind {
            NodeKind::Switch(switch) => VlanTable::from_settings(&switch.settings.ports),
            NodeKind::Host(_) => None,
        };
        let mut vlans = Self { of_host: vec![0; nodes.len()], tables: nodes.iter().map(table).collect() };
        for (host, settings, port) in attachments(nodes, links) {
            let sent = settings.sent_vid();
            let vid = match &vlans.tables[port.node] {
                Some(table) => table.vid_of_frame(port.port, Some(sent)).unwrap_or(0),
                None => sent,
            };
            vlans.of_host[host] = vid;
        }
        vlans
    }

    /// True if ports of a switch have VLANs.
    pub(crate) fn are_of_ports(&self) -> bool {
        self.tables.iter().any(Option::is_some)
    }

    /// Leaves what a run needs: a table of ports takes 32 KiB.
    pub(crate) fn of_hosts(self) -> HostVlans {
        let has_vlans = self.tables.iter().map(Option::is_some).collect();
        HostVlans { of_host: self.of_host, has_vlans }
    }

    /// Returns the hosts whose frames their switch does not accept, or sends back otherwise than
    /// the host accepts them.
    pub(crate) fn mistakes_of_hosts(&self, nodes: &[Node], links: &[Link]) -> Vec<(usize, VlanMistake)> {
        let mut mistakes = Vec::new();
        for (host, settings, port) in attachments(nodes, links) {
            let Some(table) = &self.tables[port.node] else { continue };
            let sent = settings.sent_vid();
            let accepted = table.vid_of_frame(port.port, Some(sent));
            let answers =
                accepted.map(|vid| tag_after(table.action_at(port.port, vid, Some(sent)), Some(sent)));
            let (what, cure) = match (accepted, answers) {
                (Some(vid), _) if vid != self.of_host[host] => {
                    (format!("is in another VLAN than its first port, {vid}"), "give its ports one VLAN")
                }
                (Some(_), Some(answer)) if vid_in(settings.vlan, answer) => continue,
                (Some(_), _) => (
                    format!("accepts frames of VLAN {sent}, and sends them untagged"),
                    "leave vlan out at the host, or give the port another native VLAN",
                ),
                (None, _) if sent == 0 => (
                    "accepts frames of VLANs only".to_owned(),
                    "write vlan = … at the host, or give the port a native VLAN",
                ),
                (None, _) => (
                    format!("does not accept frames of VLAN {sent}"),
                    "allow that VLAN at the port, or leave vlan out at the host",
                ),
            };
            mistakes.push((host, VlanMistake { at: port, what, cure: cure.to_owned() }));
        }
        mistakes
    }

    /// Returns where the frames of one host to another are filtered on one of their paths.
    pub(crate) fn mistake_between(
        &self,
        nodes: &[Node],
        routes: &Routes,
        (from, to): (usize, usize),
    ) -> Option<VlanMistake> {
        let NodeKind::Host(sender) = &nodes[from].kind else { return None };
        let NodeKind::Host(receiver) = &nodes[to].kind else { return None };
        let sent = Some(sender.sent_vid());
        let mut visited = BTreeSet::new();
        let mut arrivals = Vec::new();
        for (end, _) in routes.peers[from].iter().flatten() {
            if routes.is_switch(end.node) {
                arrivals.push((*end, sent));
            } else if end.node == to && !vid_in(receiver.vlan, sent) {
                return Some(not_accepted(LinkEnd { node: from, port: 0 }, sent));
            }
        }
        while let Some((end, tag)) = arrivals.pop() {
            if visited.insert((end.node, end.port, tag)) {
                match self.forward((end, tag), routes, (to, receiver)) {
                    Ok(next) => arrivals.extend(next),
                    Err(mistake) => return Some(mistake),
                }
            }
        }
        None
    }

    /// Forwards a frame with this tag that arrives at a port of a switch, by all ports at which its
    /// paths begin. Returns where it arrives next, of switches, and with which tag.
    fn forward(
        &self,
        (end, tag): (LinkEnd, Option<u16>),
        routes: &Routes,
        (to, receiver): (usize, &HostNode),
    ) -> Result<Vec<(LinkEnd, Option<u16>)>, VlanMistake> {
        let mistake = |at, what, cure: &str| Err(VlanMistake { at, what, cure: cure.to_owned() });
        let table = self.tables[end.node].as_deref();
        let vid = table.map(|table| table.vid_of_frame(end.port, tag));
        match vid {
            Some(None) => {
                return mistake(end, format!("does not accept {}", spell(tag)), "allow that VLAN there");
            }
            Some(Some(vid)) if vid != self.of_host[to] => {
                let what = format!("puts them into VLAN {vid}, and the receiver is in {}", self.of_host[to]);
                return mistake(end, what, "give the ports on their way one VLAN");
            }
            _ => {}
        }
        let mut next = Vec::new();
        for port in Set64::from_bits(routes.choices(end.node, to)) {
            let leaves_by = LinkEnd { node: end.node, port };
            let mut leaves_with = tag;
            if let (Some(table), Some(vid)) = (table, vid.flatten()) {
                if !table.members(vid).contains(port) {
                    let what = format!("is not a member of VLAN {vid}");
                    return mistake(leaves_by, what, "allow that VLAN there");
                }
                leaves_with = tag_after(table.action_at(port, vid, tag), tag);
            }
            let Some((peer, _)) = routes.peers[end.node][port] else { continue };
            if routes.is_switch(peer.node) {
                next.push((peer, leaves_with));
            } else if peer.node == to && !vid_in(receiver.vlan, leaves_with) {
                return Err(not_accepted(leaves_by, leaves_with));
            }
        }
        Ok(next)
    }
}

/// Describes frames that a host does not accept, sent by `at`.
fn not_accepted(at: LinkEnd, tag: Option<u16>) -> VlanMistake {
    let what = format!("sends {}, which the receiver does not accept", spell(tag));
    VlanMistake { at, what, cure: "give both hosts one VLAN".to_owned() }
}

/// The links of hosts to switches: each host with its settings and the port of its switch.
fn attachments<'n>(
    nodes: &'n [Node],
    links: &'n [Link],
) -> impl Iterator<Item = (usize, &'n HostNode, LinkEnd)> {
    let ends = links.iter().flat_map(|link| [link.ends, [link.ends[1], link.ends[0]]]);
    let mut attachments: Vec<_> = ends
        .filter_map(|[end, port]| match (&nodes[end.node].kind, &nodes[port.node].kind) {
            (NodeKind::Host(host), NodeKind::Switch(_)) => Some((end.node, end.port, host, port)),
            _ => None,
        })
        .collect();
    // Of several ports of a host, the first decides on its VLAN.
    attachments.sort_by_key(|(node, port, ..)| (*node, std::cmp::Reverse(*port)));
    attachments.into_iter().map(|(node, _, host, port)| (node, host, port))
}

/// Returns the tag, by its VID, of a frame after an action.
fn tag_after(action: VlanAction, tag: Option<u16>) -> Option<u16> {
    match action {
        VlanAction::Keep => tag,
        VlanAction::SetVid(vid) | VlanAction::Push(vid) => Some(vid),
        VlanAction::Pop => None,
    }
}

fn spell(tag: Option<u16>) -> String {
    match tag.filter(|vid| *vid != 0) {
        Some(vid) => format!("frames of VLAN {vid}"),
        None => "untagged frames".to_owned(),
    }
}
