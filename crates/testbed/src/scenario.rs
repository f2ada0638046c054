//! What real interfaces make of a scenario: the flows and options of each host, and what they
//! cannot do. Used by `sluice lab` and the demo.
//!
//! Rule: a scenario that `sluice sim` runs in virtual time runs in a lab as it is, unless it has
//! what real interfaces cannot do; that is refused by name. Speeds are those that the switches'
//! ports and the hosts emulate; cables have no length.

use std::fmt;

use config::spell_speed;
use sim::Scenario;
use sim::scenario::{
    DcqcnSettings, HostNode, LinkEnd, Metric, Node, NodeKind, Pattern, Scope, Start, SwitchNode,
};

/// Highest number of hosts: their addresses end in it.
const MAX_HOSTS: usize = 250;
/// Longest name of a network interface.
const MAX_INTERFACE_BYTES: usize = 15;

/// A flow of one traffic, from one host to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Index of the traffic.
    pub traffic: usize,
    /// Node of the sender.
    pub from: usize,
    /// Node of the receiver.
    pub to: usize,
}

/// Why a lab cannot run a scenario.
#[derive(Debug, PartialEq, Eq)]
pub struct Unfit {
    /// What it has, by its name in the file.
    what: String,
    cure: &'static str,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.cure)
    }
}

fn unfit<T>(what: String, cure: &'static str) -> Result<T, Unfit> {
    Err(Unfit { what, cure })
}

/// Checks that a lab can run the scenario.
///
/// # Errors
/// The first thing that it cannot do.
pub fn check(scenario: &Scenario) -> Result<(), Unfit> {
    const SIMULATE: &str = "only `sluice sim` does that: remove it, or write another file for the lab";
    const RENAME: &str = "rename it";
    for Node { name, kind } in &scenario.nodes {
        match kind {
            NodeKind::Host(host) if host.ports > 1 => {
                return unfit(format!("host {name} has {} ports", host.ports), "a host of a lab has one");
            }
            NodeKind::Switch(switch) => {
                if let Some(long) = switch.interfaces.iter().find(|name| name.len() > MAX_INTERFACE_BYTES) {
                    let what = format!(
                        "{}: interface {long} has more than {MAX_INTERFACE_BYTES} bytes",
                        switch.file
                    );
                    return unfit(what, RENAME);
                }
            }
            NodeKind::Host(_) => {}
        }
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
            return unfit(format!("node {name:?} has no name for a namespace"), RENAME);
        }
    }
    if hosts(scenario).count() > MAX_HOSTS {
        return unfit(format!("there are more than {MAX_HOSTS} hosts"), "a lab is one machine");
    }
    if has_loop(scenario) {
        let what = "the links form a loop, and switches of a lab learn addresses and flood".to_owned();
        return unfit(what, "leave a link out, or run it with `sluice sim`");
    }
    if scenario.warmup_ns > 0 {
        return unfit("it has a warmup".to_owned(), SIMULATE);
    }
    if !scenario.routes.is_empty() {
        return unfit("it has routes".to_owned(), SIMULATE);
    }
    if !scenario.faults.is_empty() {
        return unfit("it has faults".to_owned(), SIMULATE);
    }
    for traffic in &scenario.traffic {
        let kind = match traffic.pattern {
            Pattern::Constant => None,
            Pattern::Finite { .. } => Some("a message"),
            Pattern::OnOff { .. } => Some("on/off"),
            Pattern::Poisson { .. } => Some("Poisson"),
            Pattern::Incast { .. } => Some("incast"),
            Pattern::Collective { .. } => Some("a collective"),
            Pattern::Trace => Some("a trace"),
        };
        if let Some(kind) = kind {
            return unfit(
                format!("traffic {} is {kind}; hosts of a lab send at constant rates", traffic.name),
                SIMULATE,
            );
        }
        let has_own = traffic.dcqcn.is_some_and(|settings| settings != DcqcnSettings::PAPER);
        if has_own || !traffic.host_dcqcn.is_empty() {
            let what = format!("traffic {} has parameters of DCQCN, and hosts have their own", traffic.name);
            return unfit(what, SIMULATE);
        }
        if traffic.acks.is_some() {
            let what = format!("frames of traffic {} are acknowledged; hosts of a lab do not", traffic.name);
            return unfit(what, SIMULATE);
        }
        if matches!(traffic.start, Start::After(_)) {
            return unfit(format!("traffic {} starts after another", traffic.name), SIMULATE);
        }
    }
    for expectation in &scenario.expectations {
        let is_virtual = matches!(
            expectation.metric,
            Metric::Completed | Metric::SlowestCompletionNs | Metric::StuckNs | Metric::InNetwork
        );
        if is_virtual {
            let what = format!(
                "line {}: {} is measured in virtual time",
                expectation.line,
                expectation.metric.name()
            );
            return unfit(what, SIMULATE);
        }
    }
    Ok(())
}

/// Sets the duration. Traffic that lasts to the end lasts to the new one.
pub fn with_duration(mut scenario: Scenario, duration_ns: u64) -> Scenario {
    let end_ns = scenario.duration_ns;
    let lasting = scenario.traffic.iter_mut().filter(|traffic| traffic.stop_ns >= end_ns);
    lasting.for_each(|traffic| traffic.stop_ns = duration_ns);
    scenario.duration_ns = duration_ns;
    scenario
}

/// Returns true if there are two paths between two nodes.
fn has_loop(scenario: &Scenario) -> bool {
    let mut group: Vec<usize> = (0..scenario.nodes.len()).collect();
    for link in &scenario.links {
        let [a, b] = link.ends.map(|end| group[end.node]);
        if a == b {
            return true;
        }
        group.iter_mut().filter(|of| **of == b).for_each(|of| *of = a);
    }
    false
}

/// Returns the hosts with their nodes.
pub fn hosts(scenario: &Scenario) -> impl Iterator<Item = (usize, &Node, &HostNode)> {
    scenario.nodes.iter().enumerate().filter_map(|(number, node)| match &node.kind {
        NodeKind::Host(host) => Some((number, node, host)),
        NodeKind::Switch(_) => None,
    })
}

/// Returns the switches with their nodes.
pub fn switches(scenario: &Scenario) -> impl Iterator<Item = (usize, &Node, &SwitchNode)> {
    scenario.nodes.iter().enumerate().filter_map(|(number, node)| match &node.kind {
        NodeKind::Switch(switch) => Some((number, node, &**switch)),
        NodeKind::Host(_) => None,
    })
}

/// Returns the link of a host, with the other end of it.
pub fn link_of(scenario: &Scenario, host: usize) -> Option<(&sim::scenario::Link, LinkEnd)> {
    scenario.links.iter().find_map(|link| match link.ends {
        [a, b] if a.node == host => Some((link, b)),
        [a, b] if b.node == host => Some((link, a)),
        _ => None,
    })
}

/// Returns the name of the port at an end of a link, and of its switch; `None` for a host.
pub fn port_of(scenario: &Scenario, end: LinkEnd) -> Option<(&str, &str)> {
    let node = &scenario.nodes[end.node];
    match &node.kind {
        NodeKind::Switch(switch) => Some((&node.name, &switch.settings.ports[end.port].name)),
        NodeKind::Host(_) => None,
    }
}

/// Returns all flows, those of a host in the order in which it sends them.
pub fn flows(scenario: &Scenario) -> Vec<Flow> {
    let of = |(traffic, it): (usize, &sim::scenario::Traffic)| {
        it.flows.iter().map(move |&(from, to)| Flow { traffic, from, to }).collect::<Vec<_>>()
    };
    scenario.traffic.iter().enumerate().flat_map(of).collect()
}

/// Returns the option `--flow` of a flow; `mac` is the address of its receiver.
pub fn flow_argument(scenario: &Scenario, flow: &Flow, mac: &str) -> String {
    let traffic = &scenario.traffic[flow.traffic];
    let link = link_of(scenario, flow.from).map(|(link, _)| link);
    let overhead = link.map_or(0, |link| u64::from(link.overhead_bytes));
    let bytes = u64::from(traffic.frame_bytes);
    let rate = traffic.rate_bps.min(link.map_or(u64::MAX, |link| link.speed_bps));
    // The host's rate is that of frame bytes, the scenario's that of the wire.
    let rate = (u128::from(rate) * u128::from(bytes) / u128::from(bytes + overhead)).max(1) as u64;
    let start_ns = match traffic.start {
        Start::At(ns) => ns,
        Start::After(_) => 0,
    };
    let mut argument =
        format!("to={mac},priority={},size={bytes},rate={rate},start={start_ns}ns", traffic.priority);
    if traffic.stop_ns < scenario.duration_ns {
        let sending_ns = traffic.stop_ns.saturating_sub(start_ns);
        let frames = u128::from(rate) * u128::from(sending_ns) / (u128::from(bytes) * 8 * 1_000_000_000);
        argument += &format!(",count={}", frames.max(1));
    }
    if traffic.ecn {
        argument += ",ecn=ect0";
    }
    if let NodeKind::Host(HostNode { vlan: Some(vlan), .. }) = &scenario.nodes[flow.from].kind {
        argument += &format!(",vid={vlan}");
    }
    argument
}

/// Returns the other options of a host.
pub fn host_arguments(scenario: &Scenario, number: usize, host: &HostNode) -> Vec<String> {
    let mut arguments = vec!["--duration".to_owned(), format!("{}ns", scenario.duration_ns)];
    if let Some((link, end)) = link_of(scenario, number) {
        arguments.extend(["--speed".to_owned(), spell_speed(link.speed_bps)]);
        let pauses = match &scenario.nodes[end.node].kind {
            NodeKind::Switch(switch) => switch.settings.ports[end.port].flow_control != Default::default(),
            NodeKind::Host(_) => false,
        };
        if pauses && host.honors_pause && host.willing.is_none() {
            arguments.push("--flow-control".to_owned());
        }
    }
    let no_drop: Vec<String> =
        (0..8).filter(|p| host.no_drop & 1 << p != 0).map(|p: u8| p.to_string()).collect();
    match host.willing {
        _ if no_drop.is_empty() => arguments.push("--no-pfc".to_owned()),
        None => arguments.extend(["--no-drop".to_owned(), no_drop.join(",")]),
        Some(willing) => {
            let how = if willing { "willing" } else { "unwilling" };
            arguments.extend(["--no-drop", &no_drop.join(","), "--dcbx", how].map(str::to_owned));
        }
    }
    let reacts = |traffic: &sim::scenario::Traffic| {
        traffic.dcqcn.is_some() && traffic.flows.iter().any(|&(from, to)| from == number || to == number)
    };
    if scenario.traffic.iter().any(reacts) {
        arguments.push("--react-to-ecn".to_owned());
    }
    arguments
}

/// True if an expectation is about a traffic.
pub fn is_in(scope: Scope, traffic: usize, priority: u8) -> bool {
    match scope {
        Scope::Traffic(wanted) => traffic == wanted,
        Scope::Priority(wanted) => priority == wanted,
        Scope::All | Scope::Switch(_) | Scope::Port(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str =
        "[port.p1]\ninterface = 'i1'\nspeed = '1G'\n[port.p2]\ninterface = 'i2'\nspeed = '200M'\n";
    const START: &str = "duration = '2s'\n[switch.s]\nconfig = 's.toml'\n[host.'h[1-2]']\n[[link]]\nends = ['h[1-2]', 's.p[1-2]']\n";
    const TRAFFIC: &str = "[[traffic]]\nname = 'x'\nfrom = 'h1'\nto = 'h2'\npriority = 3\n";

    fn scenario(more: &str) -> Scenario {
        let text = format!("{START}{TRAFFIC}{more}");
        sim::scenario::parse("x.toml", &text, &mut |_| Ok(SWITCH.to_owned()))
            .unwrap_or_else(|e| panic!("{e:?}"))
    }

    #[test]
    fn a_flow_has_the_rate_of_its_frames() {
        let scenario = scenario("rate = '400M'\nframe_bytes = 1000\nstart = '500ms'\nstop = '1s'\n");
        check(&scenario).unwrap();
        let flows = flows(&scenario);
        assert_eq!(flows, [Flow { traffic: 0, from: 1, to: 2 }]);
        let argument = flow_argument(&scenario, &flows[0], "02:00:00:00:00:02");
        // 1000 of 1024 bytes of each frame; half a second of them.
        let expected =
            "to=02:00:00:00:00:02,priority=3,size=1000,rate=390625000,start=500000000ns,count=24414";
        assert_eq!(argument, expected);
        let (number, _, host) = hosts(&scenario).nth(1).unwrap();
        let arguments = host_arguments(&scenario, number, host).join(" ");
        assert_eq!(arguments, "--duration 2000000000ns --speed 200M --no-drop 0,1,2,3,4,5,6,7");
        assert_eq!(port_of(&scenario, link_of(&scenario, 2).unwrap().1), Some(("s", "p2")));
    }

    /// Frames have the VLAN of their host.
    #[test]
    fn a_flow_has_the_vlan_of_its_host() {
        let vlan = START.replace("[host.'h[1-2]']", "[host.'h[1-2]']\nvlan = 20");
        let scenario =
            sim::scenario::parse("x.toml", &format!("{vlan}{TRAFFIC}"), &mut |_| Ok(SWITCH.to_owned()))
                .unwrap();
        let argument = flow_argument(&scenario, &flows(&scenario)[0], "02:00:00:00:00:02");
        assert!(argument.ends_with(",vid=20"), "{argument}");
    }

    #[test]
    fn what_only_a_simulation_does_is_refused_by_name() {
        for (more, expected) in [
            (
                "pattern = 'poisson'\nrate = '100M'\n",
                "traffic x is Poisson; hosts of a lab send at constant rates; only `sluice sim`",
            ),
            (
                "[[expect]]\nin_network = 0\n",
                "line 13: in_network is measured in virtual time; only `sluice sim`",
            ),
            (
                "dcqcn = { additive = '5M' }\n",
                "traffic x has parameters of DCQCN, and hosts have their own; only `sluice sim`",
            ),
            ("[[fault]]\nat = '1s'\nlink-down = 'h1'\n", "it has faults; only `sluice sim`"),
        ] {
            let refused = check(&scenario(more)).unwrap_err().to_string();
            assert!(refused.starts_with(expected), "{refused}");
        }
        let mut scenario = scenario("dcqcn = true\n");
        check(&scenario).unwrap();
        let without = scenario.clone();
        scenario.traffic[0].host_dcqcn = vec![(1, DcqcnSettings { gain: 0.5, ..DcqcnSettings::PAPER })];
        assert!(check(&scenario).unwrap_err().to_string().starts_with("traffic x has parameters of DCQCN"));
        let mut scenario = without;
        scenario.warmup_ns = 1;
        assert!(check(&scenario).unwrap_err().to_string().starts_with("it has a warmup; only `sluice sim`"));
    }

    #[test]
    fn a_loop_is_refused() {
        let text = "duration = '1s'\n[switch.'s[1-2]']\nconfig = 's.toml'\n[host.h]\n[host.g]\n[[link]]\nends = ['s1.p1', 's2.p1']\n\
                    [[link]]\nends = ['s1.p2', 's2.p2']\n[[link]]\nends = ['h', 's1.p3']\n[[link]]\nends = ['g', 's2.p3']\n[[traffic]]\nname = 'x'\nfrom = 'h'\nto = 'g'\n";
        let switch = format!("{SWITCH}[port.p3]\ninterface = 'i3'\nspeed = '1G'\n");
        let scenario = sim::scenario::parse("x.toml", text, &mut |_| Ok(switch.clone())).unwrap();
        let refused = check(&scenario).unwrap_err().to_string();
        assert!(refused.starts_with("the links form a loop"), "{refused}");
    }
}
