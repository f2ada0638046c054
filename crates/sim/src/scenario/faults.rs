//! `[[route]]` and `[[fault]]`: static entries, and changes of the network.

use std::collections::HashSet;

use config::read::toml_document::{Diagnostics, Setting, TableReader};
use switch::Nanos;

use super::links::Links;
use super::network::Network;
use super::nodes::{Nodes, mask};
use super::parse::{MAX_TIME_NS, before_the_end, time};
use super::tables::{entries, required};
use super::types::{Fault, FaultKind, LinkEnd, Route};

/// The most routes of a file.
const MAX_ROUTES: usize = 16_384;
/// The most faults of a file.
const MAX_FAULTS: usize = 4096;

/// Reads the static entries.
pub(super) fn read_routes(file: &mut TableReader, network: Network, report: &mut Diagnostics) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    let mut known = HashSet::new();
    for section in entries(file, "route", MAX_ROUTES, report) {
        let location = section.location.clone();
        let Some(route) = read_route(section, network, report) else { continue };
        if !known.insert((route.switch, route.host)) {
            let (switch, host) = (network.nodes.name(route.switch), network.nodes.name(route.host));
            report.add(&location, format!("{switch} has a route to {host} already"), "leave one of them out");
        }
        routes.push(route);
    }
    routes
}

fn read_route(mut section: TableReader, network: Network, report: &mut Diagnostics) -> Option<Route> {
    let Network { nodes, links, devices } = network;
    let location = section.location.clone();
    let switch = section.string_like("switch", "leaf1", report);
    let switch = required(switch, &section, "switch", "switch = \"leaf1\"", report);
    let to = section.string_like("to", "h1", report);
    let to = required(to, &section, "to", "to = \"h1\"", report);
    let port = section.string_like("port", "p1", report);
    let port = required(port, &section, "port", "port = \"p1\"", report);
    section.finish(report);

    let switch = switch.and_then(|name| nodes.switch(name.value, &name.location, report));
    let host = to.and_then(|name| nodes.host(name.value, &name.location, report));
    let (switch, port) = switch.zip(port)?;
    let end = nodes.port(switch, port.value, &port.location, devices, report)?;
    let host = host?;
    let name = nodes.end_name(end, devices);
    let Some(link) = links.at(end) else {
        report.add(&port.location, format!("{name} has no link"), "take a port that a [[link]] joins");
        return None;
    };
    let [a, b] = links.list[link].ends;
    let LinkEnd { node: peer, .. } = if a == end { b } else { a };
    if nodes.is_host(peer) && peer != host {
        let what = format!("{name} leads to {} only", nodes.name(peer));
        report.add(&location, what, format!("take a port on a way to {}", nodes.name(host)));
    }
    Some(Route { switch, host, port: end.port })
}

/// Reads the faults, in the order of time.
pub(super) fn read_faults(
    file: &mut TableReader,
    duration_ns: Nanos,
    network: Network,
    report: &mut Diagnostics,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    for section in entries(file, "fault", MAX_FAULTS, report) {
        let location = section.location.clone();
        if let Some(fault) = read_fault(section, duration_ns, network, report) {
            faults.push(Setting { value: fault, location });
        }
    }
    faults.sort_by_key(|fault| fault.value.at_ns);
    links_change(&faults, network.links, report);
    faults.into_iter().map(|fault| fault.value).collect()
}

const KINDS: [&str; 4] = ["link-down", "link-up", "storm", "route"];

fn read_fault(
    mut section: TableReader,
    duration_ns: Nanos,
    network: Network,
    report: &mut Diagnostics,
) -> Option<Fault> {
    let Network { nodes, links, devices } = network;
    let at = section.item("at").and_then(|item| time(item, 0..=MAX_TIME_NS, report));
    let at = required(at, &section, "at", "at = \"2ms\"", report);
    if let Some(at) = &at {
        before_the_end(at, duration_ns, report);
    }
    section.at_most_one(&KINDS, report);
    let down = section.string_like("link-down", "leaf1.p1", report);
    let down =
        down.and_then(|end| Some(FaultKind::LinkDown { link: links.find(&end, nodes, devices, report)? }));
    let up = section.string_like("link-up", "leaf1.p1", report);
    let up = up.and_then(|end| Some(FaultKind::LinkUp { link: links.find(&end, nodes, devices, report)? }));
    let storm = read_storm(&mut section, nodes, report);
    let route = section.section("route", report).and_then(|route| read_route(route, network, report));
    if !KINDS.iter().any(|kind| section.has(kind)) {
        let cure = "write link-down = \"leaf1.p1\", link-up, storm or route";
        report.add(&section.location, "nothing happens", cure);
    }
    section.finish(report);
    let kind = down.or(up).or(storm).or(route.map(FaultKind::Route))?;
    Some(Fault { at_ns: at?.value, kind })
}

fn read_storm(section: &mut TableReader, nodes: &Nodes, report: &mut Diagnostics) -> Option<FaultKind> {
    let host = section.string_like("storm", "h3", report);
    let priorities = section.numbers_in("priorities", 0..=7, report);
    let duration = section.item("for").and_then(|item| time(item, 1..=MAX_TIME_NS, report));
    if !section.has("storm") {
        for setting in ["priorities", "for"] {
            let Some(location) = section.location_of(setting) else { continue };
            report.add(&location, "has no effect without a storm", "write storm = \"h3\", or leave it out");
        }
        return None;
    }
    let priorities = required(priorities, section, "priorities", "priorities = [3]", report);
    let duration = required(duration, section, "for", "for = \"5ms\"", report);
    if let Some(Setting { value, location }) = &priorities
        && value.is_empty()
    {
        report.add(location, "no priority is paused", "name one, as in [3]");
    }
    let host = host.and_then(|name| nodes.host(name.value, &name.location, report))?;
    Some(FaultKind::Storm { host, priorities: mask(&priorities?.value), duration_ns: duration?.value })
}

/// Checks that a cable is cut only while it is whole, and repaired only while it is cut.
fn links_change(faults: &[Setting<Fault>], links: &Links, report: &mut Diagnostics) {
    let mut cut = HashSet::new();
    for fault in faults {
        let (link, changes, state) = match fault.value.kind {
            FaultKind::LinkDown { link } => (link, cut.insert(link), "down"),
            FaultKind::LinkUp { link } => (link, cut.remove(&link), "up"),
            FaultKind::Storm { .. } | FaultKind::Route(_) => continue,
        };
        if !changes {
            let what = format!("{} is {state} already at that time", links.list[link].name);
            report.add(&fault.location, what, "leave it out, or change the time");
        }
    }
}
