//! Routes of frames: the port by which each switch sends to each host.
//!
//! Rule: frames take a shortest path by number of links. Where a shortest path starts at several
//! ports of a switch, the host's number (its index among the nodes) selects one of them, modulo, so
//! that traffic to different hosts spreads and traffic to one host keeps its order. A switch that
//! chooses by frame ([`multipath`]) has all of these ports. A host with several ports is
//! reached by the nearest of them; if they are on the same switch, by the first. Hosts forward
//! nothing.

pub(crate) mod ideal_path;
pub(crate) mod multipath;
pub(crate) mod vlans;

use std::collections::{BTreeMap, VecDeque};

use switch::Nanos;

use crate::packet::ACK_BYTES;
use crate::scenario::types::{Link, LinkEnd, Node, NodeKind, Route};
use crate::time::{Picos, instant, of_bytes, of_ns};

/// The entries of all switches.
#[derive(Debug, Clone)]
pub struct Routes {
    /// By node and port: the other end, and the link.
    peers: Vec<Vec<Option<(LinkEnd, usize)>>>,
    /// Nodes that are switches; `hosts` are the nodes that are hosts.
    switches: Vec<usize>,
    hosts: Vec<usize>,
    /// By node: its index in `switches` or `hosts`.
    number: Vec<usize>,
    /// By switch and then by host: the port.
    ports: Vec<Option<u8>>,
    /// By switch and then by host: all ports at which a shortest path starts, as a mask.
    choices: Vec<u64>,
}

/// Returns the round-trip time through empty queues in ns: of a frame over these links, by their
/// numbers, and of its acknowledgment back.
pub(crate) fn base_rtt_ns(links: &[Link], path: &[usize], frame_bytes: u16) -> Nanos {
    let of_frame = |link: &Link, len: u16| -> Picos {
        of_bytes(u64::from(len) + u64::from(link.overhead_bytes), link.speed_bps) + of_ns(link.propagation_ns)
    };
    let of_link = |&link: &usize| of_frame(&links[link], frame_bytes) + of_frame(&links[link], ACK_BYTES);
    instant(path.iter().map(of_link).sum()).0.max(1)
}

impl Routes {
    /// Computes the shortest paths over all links.
    pub fn shortest(nodes: &[Node], links: &[Link]) -> Self {
        Self::shortest_over(nodes, links, |_| true)
    }

    /// Computes the shortest paths over the links, by number, that `is_up` selects.
    pub fn shortest_over(nodes: &[Node], links: &[Link], is_up: impl Fn(usize) -> bool) -> Self {
        let is_switch = |node: &usize| matches!(nodes[*node].kind, NodeKind::Switch(_));
        let (switches, hosts): (Vec<usize>, Vec<usize>) = (0..nodes.len()).partition(is_switch);
        let mut number = vec![0; nodes.len()];
        for list in [&switches, &hosts] {
            list.iter().enumerate().for_each(|(index, node)| number[*node] = index);
        }
        let (ports, choices) =
            (vec![None; switches.len() * hosts.len()], vec![0; switches.len() * hosts.len()]);
        let peers = peers(nodes, links, is_up);
        let mut routes = Self { peers, switches, hosts, number, ports, choices };
        let doors = routes.edge_switches();
        for (switches, hosts) in &doors {
            routes.fill_toward(switches, hosts);
        }
        routes
    }

    /// Groups the hosts by the set of switches that they have links to.
    fn edge_switches(&self) -> BTreeMap<Vec<usize>, Vec<usize>> {
        let mut doors: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for &host in &self.hosts {
            let ends = self.peers[host].iter().flatten().map(|(end, _)| end.node);
            let mut switches: Vec<usize> = ends.filter(|node| self.is_switch(*node)).collect();
            switches.sort_unstable();
            switches.dedup();
            if !switches.is_empty() {
                doors.entry(switches).or_default().push(host);
            }
        }
        doors
    }

    fn is_switch(&self, node: usize) -> bool {
        self.switches.get(self.number[node]) == Some(&node)
    }

    /// Adds the entries of all switches for `hosts`, which have links to all of the switches
    /// `last`.
    fn fill_toward(&mut self, last: &[usize], hosts: &[usize]) {
        let hops = self.hops_to(last);
        for switch in self.switches.clone() {
            let Some(distance) = hops[switch] else { continue };
            let nearer = |end: &LinkEnd| {
                self.is_switch(end.node) && hops[end.node].is_some_and(|hops| hops + 1 == distance)
            };
            let ends = self.peers[switch].iter().enumerate();
            let ways: Vec<usize> = ends
                .filter(|(_, end)| end.is_some_and(|(end, _)| nearer(&end)))
                .map(|(port, _)| port)
                .collect();
            for &host in hosts {
                let leads = |end: &Option<(LinkEnd, usize)>| end.is_some_and(|(end, _)| end.node == host);
                let own = || -> Vec<usize> {
                    let ends = self.peers[switch].iter().enumerate();
                    ends.filter(|(_, end)| leads(end)).map(|(port, _)| port).collect()
                };
                let own = if distance == 0 { own() } else { Vec::new() };
                let ways = if distance == 0 { &own } else { &ways };
                let port = if distance == 0 { ways.first() } else { Some(&ways[host % ways.len()]) };
                let Some(&port) = port else { continue };
                let mask = ways.iter().fold(0, |mask, port| mask | 1 << port);
                self.set(Route { switch, host, port });
                let entry = self.entry(switch, host);
                self.choices[entry] = mask;
            }
        }
    }

    /// Returns by node the number of links from a switch to the nearest of the switches `last`.
    /// `None` if there is no path, or the node is not a switch.
    fn hops_to(&self, last: &[usize]) -> Vec<Option<usize>> {
        let mut hops = vec![None; self.peers.len()];
        last.iter().for_each(|switch| hops[*switch] = Some(0));
        let mut reached: VecDeque<_> = last.iter().map(|switch| (*switch, 0)).collect();
        while let Some((node, distance)) = reached.pop_front() {
            for (end, _) in self.peers[node].iter().flatten() {
                if hops[end.node].is_none() && self.is_switch(end.node) {
                    hops[end.node] = Some(distance + 1);
                    reached.push_back((end.node, distance + 1));
                }
            }
        }
        hops
    }

    fn entry(&self, switch: usize, host: usize) -> usize {
        self.number[switch] * self.hosts.len() + self.number[host]
    }

    /// Replaces an entry.
    pub fn set(&mut self, route: Route) {
        let entry = self.entry(route.switch, route.host);
        // A switch has at most 64 ports.
        self.ports[entry] = u8::try_from(route.port).ok();
        self.choices[entry] = 1u64.checked_shl(route.port as u32).unwrap_or(0);
    }

    /// Returns the ports of a switch at which a shortest path to a host starts, as a mask.
    pub fn choices(&self, switch: usize, host: usize) -> u64 {
        self.choices[self.entry(switch, host)]
    }

    /// The nodes that are hosts.
    pub fn hosts(&self) -> &[usize] {
        &self.hosts
    }

    /// Lists all entries, by switch and then by host.
    pub fn list(&self) -> Vec<Route> {
        let pairs =
            self.switches.iter().flat_map(|&switch| self.hosts.iter().map(move |&host| (switch, host)));
        pairs
            .zip(&self.ports)
            .filter_map(|((switch, host), port)| Some(Route { switch, host, port: usize::from((*port)?) }))
            .collect()
    }

    /// Returns the links of the path from one host to another, in order, from the first port of the
    /// host. If entries form a loop, the path ends there after at least one round. `None` if the
    /// entries lead nowhere, or to another host.
    pub fn path(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        self.paths(from, to).next()?
    }

    /// Returns the path from each port of a host, as [`Routes::path`] does from the first.
    pub fn paths(&self, from: usize, to: usize) -> impl Iterator<Item = Option<Vec<usize>>> {
        self.peers[from].iter().flatten().map(move |first| self.path_over(*first, to))
    }

    fn path_over(&self, (mut end, mut link): (LinkEnd, usize), to: usize) -> Option<Vec<usize>> {
        let mut links = Vec::new();
        // A path that passes more links than there are switches is in a loop.
        while links.len() <= self.switches.len() {
            links.push(link);
            if end.node == to {
                return Some(links);
            }
            if !self.is_switch(end.node) {
                return None;
            }
            let port = self.ports[self.entry(end.node, to)]?;
            (end, link) = (*self.peers[end.node].get(usize::from(port))?)?;
        }
        Some(links)
    }
}

fn peers(
    nodes: &[Node],
    links: &[Link],
    is_up: impl Fn(usize) -> bool,
) -> Vec<Vec<Option<(LinkEnd, usize)>>> {
    let ports = |node: &Node| match &node.kind {
        NodeKind::Switch(switch) => switch.settings.ports.len(),
        NodeKind::Host(host) => usize::from(host.ports),
    };
    let mut peers: Vec<Vec<Option<(LinkEnd, usize)>>> =
        nodes.iter().map(|node| vec![None; ports(node)]).collect();
    for (number, link) in links.iter().enumerate().filter(|(number, _)| is_up(*number)) {
        let [a, b] = link.ends;
        peers[a.node][a.port] = Some((b, number));
        peers[b.node][b.port] = Some((a, number));
    }
    peers
}

#[cfg(test)]
mod tests;
