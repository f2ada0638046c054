//! Requirements on the network as a whole, which are checked once all of its parts are valid.

use std::collections::BTreeSet;

use config::read::toml_document::{Diagnostics, Setting, SettingSpan};
use switch::Nanos;

use super::network::Network;
use super::nodes::Nodes;
use super::parse::spell_time;
use super::traffic::{PathLimits, TrafficTable};
use super::types::{Bond, Fault, FaultKind, HostNode, Link, LinkEnd, Multipath, Node, NodeKind, Route};
use crate::routes::vlans::{VlanMistake, Vlans};
use crate::routes::{Routes, base_rtt_ns};

/// Checks that each switch, and each port of a host, has a link.
pub(super) fn all_linked(network: Network, report: &mut Diagnostics) {
    let Network { nodes, links, .. } = network;
    let mut linked = vec![0; nodes.len()];
    links.list.iter().flat_map(|link| link.ends).for_each(|end| linked[end.node] += 1);
    // One mistake for all nodes of a table: by its span, the first node and the number of nodes.
    let mut missing: Vec<(&SettingSpan, usize, usize)> = Vec::new();
    for node in (0..nodes.len()).filter(|node| linked[*node] < nodes.least_links(*node)) {
        let location = nodes.location(node);
        match missing.last_mut() {
            Some((last, _, count)) if last.span == location.span => *count += 1,
            _ => missing.push((location, node, 1)),
        }
    }
    for (location, first, count) in missing {
        let name = nodes.name(first);
        let what = match count {
            1 if linked[first] > 0 => {
                format!("{name} has {} ports, and {} of them a link", nodes.least_links(first), linked[first])
            }
            1 => format!("no link reaches {name}"),
            _ => format!("no link reaches {name} and {} more", count - 1),
        };
        report.add(location, what, "join it to another node with a [[link]], or leave it out");
    }
}

/// Checks that each link joins two separate parts. Learning floods, and in a loop the flooding
/// never ends.
pub(super) fn no_loop(links: &[Link], nodes: usize, location: &SettingSpan, report: &mut Diagnostics) {
    // By node: another node of the same part, or the node itself if it is the representative.
    let mut another: Vec<usize> = (0..nodes).collect();
    for link in links {
        let [a, b] = link.ends.map(|end| component(&mut another, end.node));
        if a == b {
            let what = format!("{} closes a loop, in which flooded frames circle indefinitely", link.name);
            report.add(location, what, "write forwarding = \"shortest-path\", or leave the link out");
            return;
        }
        another[a] = b;
    }
}

/// Rejects settings of paths, of which a network that learns has one only.
pub(super) fn no_paths(
    nodes: &Nodes,
    multipath: Option<&Setting<Multipath>>,
    convergence: Option<&Setting<Nanos>>,
    report: &mut Diagnostics,
) {
    let network = [multipath.map(|set| &set.location), convergence.map(|set| &set.location)];
    let switches =
        (0..nodes.len()).filter(|node| nodes.has_multipath(*node)).map(|node| nodes.location(node));
    for location in network.into_iter().flatten().chain(switches) {
        let what = "multipath and convergence have no effect with forwarding = \"learn\"";
        report.add(location, what, "leave it out, or write forwarding = \"shortest-path\"");
    }
}

/// Rejects a time of convergence without a cable that is cut.
pub(super) fn has_cut(faults: &[Fault], convergence: Option<&Setting<Nanos>>, report: &mut Diagnostics) {
    let cuts = faults.iter().any(|fault| matches!(fault.kind, FaultKind::LinkDown { .. }));
    if let (Some(convergence), false) = (convergence, cuts) {
        let cure = "write a [[fault]] with link-down, or leave it out";
        report.add(&convergence.location, "has no effect while no cable is cut", cure);
    }
}

/// Returns the representative of a node's part. The chain is halved on the way.
fn component(another: &mut [usize], mut node: usize) -> usize {
    while another[node] != node {
        another[node] = another[another[node]];
        node = another[node];
    }
    node
}

/// True for a host that sends over all its ports.
fn is_balanced(node: &Node) -> bool {
    matches!(node.kind, NodeKind::Host(HostNode { bond: Bond::BalanceXor, .. }))
}

/// Rejects a host that sends over links of different speeds: its flows are paced for one speed.
pub(super) fn bonds((nodes, tables): (&[Node], &[SettingSpan]), links: &[Link], report: &mut Diagnostics) {
    for (host, node) in nodes.iter().enumerate().filter(|(_, node)| is_balanced(node)) {
        let is_own = |link: &&Link| link.ends.iter().any(|end| end.node == host);
        let speeds: BTreeSet<u64> = links.iter().filter(is_own).map(|link| link.speed_bps).collect();
        if speeds.len() > 1 {
            let what = format!("{} sends over links of different speeds", node.name);
            report.add(&tables[host], what, "give them one speed, or leave bond out");
        }
    }
}

/// Checks that each flow has a path on which its frames fit. Returns the combined paths by traffic.
pub(super) fn path_limits(
    traffics: &[TrafficTable],
    nodes: &[Node],
    links: &[Link],
    routes: &Routes,
    report: &mut Diagnostics,
) -> Vec<PathLimits> {
    traffics.iter().map(|traffic| path_limit(traffic, nodes, links, routes, report)).collect()
}

/// Checks that the ports of switches accept what their hosts send, and that frames leave by all
/// ports on their way, and back: with the first routes, and with those after each fault.
pub(super) fn vlans(
    (nodes, tables): (&[Node], &[SettingSpan]),
    links: &[Link],
    traffics: &[TrafficTable],
    routes: &[(Nanos, Routes)],
    report: &mut Diagnostics,
) {
    let vlans = Vlans::new(nodes, links);
    let has_vlan = |node: &Node| matches!(node.kind, NodeKind::Host(HostNode { vlan: Some(_), .. }));
    if !vlans.are_of_ports() && !nodes.iter().any(has_vlan) {
        return;
    }
    let port = |end: LinkEnd| match &nodes[end.node].kind {
        NodeKind::Switch(switch) => {
            format!("{}.{}", nodes[end.node].name, switch.settings.ports[end.port].name)
        }
        NodeKind::Host(_) => nodes[end.node].name.clone(),
    };
    let mistakes = vlans.mistakes_of_hosts(nodes, links);
    for (host, VlanMistake { at, what, cure }) in &mistakes {
        report.add(&tables[*host], format!("{} of {} {what}", port(*at), nodes[*host].name), cure);
    }
    if !mistakes.is_empty() {
        return;
    }
    for traffic in traffics {
        let ways = || traffic.flows.iter().flat_map(|&(from, to)| [(from, to), (to, from)]);
        let find = |(at_ns, routes): &(Nanos, Routes)| {
            ways().find_map(|way| Some((*at_ns, way, vlans.mistake_between(nodes, routes, way)?)))
        };
        if let Some((at_ns, (from, to), VlanMistake { at, what, cure })) = routes.iter().find_map(find) {
            let [from, to] = [from, to].map(|host| &nodes[host].name);
            let when = if at_ns == 0 { String::new() } else { format!(" at {}", spell_time(at_ns)) };
            let what = format!("of the frames from {from} to {to}{when}: {} {what}", port(at));
            report.add(traffic.location(), what, cure);
        }
    }
}

/// Returns the routes at the beginning, and when faults change them: a cut cable or a repaired one
/// after the time of convergence, if there is one, and a new static entry at once.
pub(super) fn routes_in_time(
    first: &Routes,
    (nodes, links): (&[Node], &[Link]),
    (static_routes, faults): (&[Route], &[Fault]),
    convergence_ns: Option<Nanos>,
) -> Vec<(Nanos, Routes)> {
    let mut all = vec![(0, first.clone())];
    let mut set: Vec<Route> = static_routes.to_vec();
    let mut is_up = vec![true; links.len()];
    for fault in faults {
        let (at_ns, changed) = match (fault.kind, convergence_ns) {
            (FaultKind::LinkDown { link } | FaultKind::LinkUp { link }, Some(after_ns)) => {
                is_up[link] = matches!(fault.kind, FaultKind::LinkUp { .. });
                (fault.at_ns + after_ns, true)
            }
            (FaultKind::Route(route), _) => {
                set.push(route);
                (fault.at_ns, true)
            }
            _ => (0, false),
        };
        if changed {
            let mut routes = Routes::shortest_over(nodes, links, |link| is_up[link]);
            set.iter().for_each(|route| routes.set(*route));
            all.push((at_ns, routes));
        }
    }
    all
}

fn path_limit(
    traffic: &TrafficTable,
    nodes: &[Node],
    links: &[Link],
    routes: &Routes,
    report: &mut Diagnostics,
) -> PathLimits {
    let mut all = PathLimits { mtu_bytes: u16::MAX, line_bps: 0 };
    let (mut narrowest, mut paths) = (None, Vec::new());
    for (from, to) in &traffic.flows {
        let senders = if is_balanced(&nodes[*from]) { usize::MAX } else { 1 };
        let of_ports: Option<Vec<Vec<usize>>> = routes.paths(*from, *to).take(senders).collect();
        let Some(of_ports) = of_ports.filter(|paths| !paths.is_empty()) else {
            let what = format!("there is no way from {} to {}", nodes[*from].name, nodes[*to].name);
            report.add(traffic.location(), what, "join them by links, or leave one of them out");
            return all;
        };
        for path in &of_ports {
            if let Some(first) = path.first() {
                all.line_bps = all.line_bps.max(links[*first].speed_bps);
            }
            for &link in path {
                if links[link].mtu_bytes < all.mtu_bytes {
                    all.mtu_bytes = links[link].mtu_bytes;
                    narrowest = Some(&links[link].name);
                }
            }
        }
        paths.extend(of_ports);
    }
    let frame_bytes = traffic.longest_frame(all.mtu_bytes);
    let longest_ns = paths.iter().map(|path| base_rtt_ns(links, path, frame_bytes)).max();
    traffic.rejects_rtt_below(longest_ns.unwrap_or(0), report);
    if let (Some((bytes, location)), Some(link)) = (traffic.set_frame_bytes(), narrowest)
        && bytes > all.mtu_bytes
    {
        let what = format!("{bytes} bytes are more than the MTU of {link}, {}", all.mtu_bytes);
        report.add(location, what, "send shorter frames, or raise the link's mtu");
    }
    all
}
