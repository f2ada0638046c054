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

/// Why a host has no VLAN, or a frame does not arrive.
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
        for (host, settings, door) in doors(nodes, links) {
            let sent = settings.sent_vid();
            let vid = match &vlans.tables[door.node] {
                Some(table) => table.vid_of_frame(door.port, Some(sent)).unwrap_or(0),
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

    /// Returns the VLAN in which a switch knows the address of a host; 0 if it has no VLANs.
    pub(crate) fn at(&self, switch: usize, host: usize) -> u16 {
        if self.tables[switch].is_some() { self.of_host[host] } else { 0 }
    }

    /// Returns the VLANs in which a switch knows addresses: that of each host, or 0.
    pub(crate) fn known_at(&self, switch: usize) -> Vec<u16> {
        let all: BTreeSet<u16> = (0..self.of_host.len()).map(|host| self.at(switch, host)).collect();
        all.into_iter().filter(|vid| self.tables[switch].is_none() || *vid != 0).collect()
    }

    /// Returns the hosts whose frames their switch does not accept, or sends back otherwise than
    /// the host accepts them.
    pub(crate) fn mistakes_of_hosts(&self, nodes: &[Node], links: &[Link]) -> Vec<(usize, VlanMistake)> {
        let mut mistakes = Vec::new();
        for (host, settings, door) in doors(nodes, links) {
            let Some(table) = &self.tables[door.node] else { continue };
            let sent = settings.sent_vid();
            let accepted = table.vid_of_frame(door.port, Some(sent));
            let answers =
                accepted.map(|vid| tag_after(table.action_at(door.port, vid, Some(sent)), Some(sent)));
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
            mistakes.push((host, VlanMistake { at: door, what, cure: cure.to_owned() }));
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
                let what = format!("sends {}, which the receiver does not accept", spell(sent));
                let at = LinkEnd { node: from, port: 0 };
                return Some(VlanMistake { at, what, cure: "give both hosts one VLAN".to_owned() });
            }
        }
        while let Some((end, tag)) = arrivals.pop() {
            if !visited.insert((end.node, end.port, tag)) {
                continue;
            }
            let at = |end: LinkEnd, what: String, cure: &str| {
                Some(VlanMistake { at: end, what, cure: cure.into() })
            };
            let vid = match &self.tables[end.node] {
                None => None,
                Some(table) => match table.vid_of_frame(end.port, tag) {
                    None => {
                        return at(end, format!("does not accept {}", spell(tag)), "allow that VLAN there");
                    }
                    Some(vid) if vid != self.of_host[to] => {
                        let what =
                            format!("has them in VLAN {vid}, and the receiver is in {}", self.of_host[to]);
                        return at(end, what, "give the ports on their way one VLAN");
                    }
                    vid => vid,
                },
            };
            let ports = routes.choices(end.node, to);
            for port in (0..64).filter(|port| ports & 1 << port != 0) {
                let leaves_by = LinkEnd { node: end.node, port };
                let mut leaves_with = tag;
                if let (Some(table), Some(vid)) = (&self.tables[end.node], vid) {
                    if !table.members(vid).contains(port) {
                        return at(leaves_by, format!("has not VLAN {vid}"), "allow that VLAN there");
                    }
                    leaves_with = tag_after(table.action_at(port, vid, tag), tag);
                }
                let Some((next, _)) = routes.peers[end.node][port] else { continue };
                if routes.is_switch(next.node) {
                    arrivals.push((next, leaves_with));
                } else if next.node == to && !vid_in(receiver.vlan, leaves_with) {
                    let what = format!("sends {}, which the receiver does not accept", spell(leaves_with));
                    return at(leaves_by, what, "give both hosts one VLAN");
                }
            }
        }
        None
    }
}

/// The links of hosts: each host with its settings and the port of its switch.
fn doors<'n>(nodes: &'n [Node], links: &'n [Link]) -> impl Iterator<Item = (usize, &'n HostNode, LinkEnd)> {
    let ends = links.iter().flat_map(|link| [link.ends, [link.ends[1], link.ends[0]]]);
    let mut doors: Vec<_> = ends
        .filter_map(|[end, door]| match (&nodes[end.node].kind, &nodes[door.node].kind) {
            (NodeKind::Host(host), NodeKind::Switch(_)) => Some((end.node, end.port, host, door)),
            _ => None,
        })
        .collect();
    // Of several ports of a host, the first decides on its VLAN.
    doors.sort_by_key(|(node, port, ..)| (*node, std::cmp::Reverse(*port)));
    doors.into_iter().map(|(node, _, host, door)| (node, host, door))
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
