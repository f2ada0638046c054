//! The four kinds of networks, with what theory says of their sizes.
//!
//! - leaf–spine: each leaf has `uplinks` cables to each spine.
//! - fat tree of k-port switches: k pods of k/2 edge and k/2 aggregation switches, (k/2)² core
//!   switches, k³/4 hosts, 5k²/4 switches in all. Source: M. Al-Fares, A. Loukissas and A. Vahdat,
//!   "A scalable, commodity data center network architecture" (SIGCOMM 2008).
//! - rail: in each pod, GPU r of every server is on rail switch r of the pod, and every rail switch
//!   is on every spine. Source: NVIDIA, DGX SuperPOD reference architecture, "rail-optimized".
//! - dragonfly: groups of a routers with p hosts and h global cables each; a router has a cable to
//!   every other of its group, and there are a·h + 1 groups with a cable between any two. Source:
//!   J. Kim et al., "Technology-driven, highly-scalable dragonfly topology" (ISCA 2008).

use super::plan::{Cable, Plan, Role};

/// Hosts `h1`…, `leafL.hN`, `leafL.upN`, `spineS.pN`. Uplink N goes to spine (N − 1) mod spines
/// + 1.
pub(super) fn leaf_spine(leaves: usize, spines: usize, hosts_per_leaf: usize, uplinks: usize) -> Plan {
    let mut plan = Plan::default();
    let leaf_ports = vec![("h", hosts_per_leaf, Cable::Host), ("up", spines * uplinks, Cable::Fabric)];
    plan.roles.push(Role { name: "leaf", ports: leaf_ports });
    plan.roles.push(Role { name: "spine", ports: vec![("p", leaves * uplinks, Cable::Fabric)] });
    plan.add_switches(0, "leaf", leaves);
    plan.add_switches(1, "spine", spines);
    for leaf in 1..=leaves {
        for port in 1..=hosts_per_leaf {
            let host = format!("h{}", (leaf - 1) * hosts_per_leaf + port);
            plan.join(host.clone(), format!("leaf{leaf}.h{port}"));
            plan.hosts.push(host);
        }
        for (uplink, spine) in (0..uplinks).flat_map(|uplink| (1..=spines).map(move |spine| (uplink, spine)))
        {
            let up = uplink * spines + spine;
            plan.join(format!("leaf{leaf}.up{up}"), format!("spine{spine}.p{}", uplink * leaves + leaf));
        }
    }
    plan
}

/// Hosts `h1`…, `edgeE.hN` and `.upN`, `aggA.downN` and `.upN`, `coreC.pN`, N a pod there.
pub(super) fn fat_tree(k: usize) -> Plan {
    let half = k / 2;
    let mut plan = Plan::default();
    let lower = |first| vec![first, ("up", half, Cable::Fabric)];
    plan.roles.push(Role { name: "edge", ports: lower(("h", half, Cable::Host)) });
    plan.roles.push(Role { name: "agg", ports: lower(("down", half, Cable::Fabric)) });
    plan.roles.push(Role { name: "core", ports: vec![("p", k, Cable::Fabric)] });
    plan.add_switches(0, "edge", k * half);
    plan.add_switches(1, "agg", k * half);
    plan.add_switches(2, "core", half * half);
    for pod in 0..k {
        for inside in 1..=half {
            let number = pod * half + inside;
            for port in 1..=half {
                let host = format!("h{}", (number - 1) * half + port);
                plan.join(host.clone(), format!("edge{number}.h{port}"));
                plan.hosts.push(host);
                let agg = pod * half + port;
                plan.join(format!("edge{number}.up{port}"), format!("agg{agg}.down{inside}"));
                let core = (inside - 1) * half + port;
                plan.join(format!("agg{number}.up{port}"), format!("core{core}.p{}", pod + 1));
            }
        }
    }
    plan
}

/// Hosts `gpuS-R` of server S and rail R, switches `railP-R` of pod P with ports `gN`, N a server
/// of the pod, and `upN`, and `spineS.pN`.
pub(super) fn rail(pods: usize, servers: usize, rails: usize, spines: usize) -> Plan {
    let mut plan = Plan::default();
    let ports = vec![("g", servers, Cable::Host), ("up", spines, Cable::Fabric)];
    plan.roles.push(Role { name: "rail", ports });
    plan.roles.push(Role { name: "spine", ports: vec![("p", pods * rails, Cable::Fabric)] });
    let rails_of = |pod| (1..=rails).map(move |rail| (pod, rail));
    for (pod, rail) in (1..=pods).flat_map(rails_of) {
        plan.switches.push((format!("rail{pod}-{rail}"), 0));
    }
    plan.add_switches(1, "spine", spines);
    for (pod, rail) in (1..=pods).flat_map(rails_of) {
        for spine in 1..=spines {
            let port = (pod - 1) * rails + rail;
            plan.join(format!("rail{pod}-{rail}.up{spine}"), format!("spine{spine}.p{port}"));
        }
    }
    for (pod, server) in (1..=pods).flat_map(|pod| (1..=servers).map(move |server| (pod, server))) {
        for rail in 1..=rails {
            let host = format!("gpu{}-{rail}", (pod - 1) * servers + server);
            plan.join(host.clone(), format!("rail{pod}-{rail}.g{server}"));
            plan.hosts.push(host);
        }
    }
    plan
}

/// Hosts `h1`…, switches `routerG-R` of group G with ports `hN`, `localN` and `globalN`.
pub(super) fn dragonfly(routers: usize, hosts: usize, globals: usize) -> Plan {
    let groups = routers * globals + 1;
    let mut plan = Plan::default();
    let mut ports = vec![("h", hosts, Cable::Host), ("local", routers - 1, Cable::Fabric)];
    ports.push(("global", globals, Cable::Global));
    plan.roles.push(Role { name: "router", ports });
    let name = |group: usize, router: usize| format!("router{}-{}", group + 1, router + 1);
    let all = || (0..groups).flat_map(|group| (0..routers).map(move |router| (group, router)));
    plan.switches.extend(all().map(|(group, router)| (name(group, router), 0)));
    for (group, router) in all() {
        for port in 1..=hosts {
            let host = format!("h{}", (group * routers + router) * hosts + port);
            plan.join(host.clone(), format!("{}.h{port}", name(group, router)));
            plan.hosts.push(host);
        }
        for other in router + 1..routers {
            // A router numbers its local ports by the others of its group, itself left out.
            let (a, b) = (name(group, router), name(group, other));
            plan.join(format!("{a}.local{other}"), format!("{b}.local{}", router + 1));
        }
        for global in 0..globals {
            // Cable j of a group goes to the group j + 1 further on, whose cable back is the
            // (a·h − j)th.
            let cable = router * globals + global;
            let (peer, back) = ((group + cable + 1) % groups, routers * globals - 1 - cable);
            if group < peer {
                let (a, b) = (name(group, router), name(peer, back / globals));
                plan.join(format!("{a}.global{}", global + 1), format!("{b}.global{}", back % globals + 1));
            }
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Counts hosts, switches and cables, and checks that each port of each switch has one cable.
    fn count(plan: &Plan) -> [usize; 3] {
        let ends: Vec<&String> = plan.links.iter().flatten().collect();
        assert_eq!(ends.iter().collect::<HashSet<_>>().len(), ends.len(), "a port has one cable");
        let ports: usize = plan.switches.iter().map(|(_, role)| plan.roles[*role].port_count()).sum();
        assert_eq!(ends.len(), ports + plan.hosts.len(), "each port has a cable");
        for (switch, role) in &plan.switches {
            for &(prefix, number, _) in &plan.roles[*role].ports {
                for port in 1..=number {
                    let end = format!("{switch}.{prefix}{port}");
                    assert!(ends.contains(&&end), "{end}");
                }
            }
        }
        [plan.hosts.len(), plan.switches.len(), plan.links.len()]
    }

    #[test]
    fn sizes_are_those_of_theory() {
        for k in [2, 4, 6, 8] {
            let cables = 3 * k * k * k / 4; // k³/4 at each of three levels
            assert_eq!(count(&fat_tree(k)), [k * k * k / 4, 5 * k * k / 4, cables]);
        }
        assert_eq!(count(&leaf_spine(4, 2, 16, 1)), [64, 6, 64 + 8]);
        assert_eq!(count(&leaf_spine(3, 2, 4, 2)), [12, 5, 12 + 12]);
        assert_eq!(count(&rail(2, 4, 8, 4)), [64, 16 + 4, 64 + 64]);
        for (a, p, h) in [(2, 1, 1), (4, 2, 2), (5, 1, 2)] {
            let groups = a * h + 1;
            let local = groups * a * (a - 1) / 2;
            let global = groups * (groups - 1) / 2;
            let hosts = groups * a * p;
            assert_eq!(count(&dragonfly(a, p, h)), [hosts, groups * a, hosts + local + global]);
        }
    }

    /// A cable between any two groups of a dragonfly.
    #[test]
    fn every_group_of_a_dragonfly_reaches_every_other() {
        let group = |end: &str| end.split_once('-').map(|(router, _)| router.to_owned());
        let plan = dragonfly(4, 2, 2);
        let global = plan.links.iter().filter(|ends| ends[0].contains("global"));
        let pairs: HashSet<_> = global.map(|[a, b]| (group(a), group(b))).collect();
        assert_eq!(pairs.len(), 9 * 8 / 2);
    }
}
