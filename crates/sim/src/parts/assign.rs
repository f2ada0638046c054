//! Which node belongs to which part.
//!
//! Rule: what must be in one part is a group: a switch with its hosts, and groups whose hosts act
//! on each other without delay. Groups are given to the part with the least load, the largest
//! first. The load of a group is the number of link directions that end in it.

use std::collections::BTreeMap;

use crate::scenario::{NodeKind, Pattern, Scenario, Start};

/// Returns the part of each node, and the number of parts, at most `most`.
pub(super) fn parts(scenario: &Scenario, most: usize) -> (Vec<usize>, usize) {
    let mut groups = Groups((0..scenario.nodes.len()).collect());
    join_hosts_and_switches(scenario, &mut groups);
    join_what_has_no_delay(scenario, &mut groups);
    let mut loads: BTreeMap<usize, usize> = BTreeMap::new();
    for node in 0..scenario.nodes.len() {
        loads.entry(groups.of(node)).or_default();
    }
    for end in scenario.links.iter().flat_map(|link| link.ends) {
        *loads.entry(groups.of(end.node)).or_default() += 1;
    }
    let count = most.min(loads.len()).max(1);
    let mut by_load: Vec<(usize, usize)> = loads.into_iter().map(|(group, load)| (load, group)).collect();
    by_load.sort_unstable_by_key(|(load, group)| (std::cmp::Reverse(*load), *group));
    let mut of_group: BTreeMap<usize, usize> = BTreeMap::new();
    let mut total = vec![0; count];
    for (load, group) in by_load {
        let least = (0..count).min_by_key(|part| total[*part]).unwrap_or(0);
        total[least] += load.max(1);
        of_group.insert(group, least);
    }
    ((0..scenario.nodes.len()).map(|node| of_group[&groups.of(node)]).collect(), count)
}

/// Groups of nodes: each node names one of its group, the first one itself.
struct Groups(Vec<usize>);

impl Groups {
    fn of(&self, mut node: usize) -> usize {
        while self.0[node] != node {
            node = self.0[node];
        }
        node
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a.max(b)] = a.min(b);
    }

    fn join_all(&mut self, nodes: impl Iterator<Item = usize>) {
        let mut first = None;
        for node in nodes {
            self.join(*first.get_or_insert(node), node);
        }
    }
}

/// Joins each host with the switch at its first port.
fn join_hosts_and_switches(scenario: &Scenario, groups: &mut Groups) {
    for link in &scenario.links {
        for [end, peer] in [link.ends, [link.ends[1], link.ends[0]]] {
            if matches!(scenario.nodes[end.node].kind, NodeKind::Host(_)) && end.port == 0 {
                groups.join(end.node, peer.node);
            }
        }
    }
}

/// Joins the ranks of each collective, and the senders that wait for traffic with its receivers.
fn join_what_has_no_delay(scenario: &Scenario, groups: &mut Groups) {
    for traffic in &scenario.traffic {
        let ends = traffic.flows.iter().flat_map(|&(from, to)| [from, to]);
        if matches!(traffic.pattern, Pattern::Collective { .. }) {
            groups.join_all(ends);
        }
        if let Start::After(others) = &traffic.start {
            let before = others.iter().flat_map(|&other| &scenario.traffic[other].flows).map(|&(_, to)| to);
            groups.join_all(before.chain(traffic.flows.iter().map(|&(from, _)| from)));
        }
    }
}
