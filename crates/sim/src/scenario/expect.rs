//! `[[expect]]`: required results of a run.

use std::collections::HashMap;

use config::read::toml_document::{Diagnostics, Item, Setting, SettingSpan, TableReader, quoted};
use toml::de::DeValue;

use super::network::Network;
use super::nodes::meant;
use super::parse::{MAX_TIME_NS, throughput, time};
use super::tables::entries;
use super::traffic::TrafficTable;
use super::types::{Expectation, Metric, Scope};

/// The most `[[expect]]` of a file.
const MAX_ENTRIES: usize = 4096;
/// The largest expected number: the largest that a float represents exactly.
const MAX_NUMBER: u64 = 1 << 53;

/// Unit of the values of a metric.
#[derive(Clone, Copy)]
enum Unit {
    Number,
    Time,
    Throughput,
}

const METRICS: [(&str, Metric, Unit); 17] = [
    ("lost", Metric::Lost, Unit::Number),
    ("no_drop_lost", Metric::NoDropLost, Unit::Number),
    ("sent", Metric::Sent, Unit::Number),
    ("received", Metric::Received, Unit::Number),
    ("reordered", Metric::Reordered, Unit::Number),
    ("marked", Metric::Marked, Unit::Number),
    ("throughput", Metric::Throughput, Unit::Throughput),
    ("completed", Metric::Completed, Unit::Number),
    ("slowest_completion", Metric::SlowestCompletionNs, Unit::Time),
    ("xoff_episodes", Metric::XoffEpisodes, Unit::Number),
    ("pauses", Metric::Pauses, Unit::Number),
    ("headroom_peak_cells", Metric::HeadroomPeakCells, Unit::Number),
    ("storms", Metric::Storms, Unit::Number),
    ("storms_restored", Metric::StormsRestored, Unit::Number),
    ("storm_dropped", Metric::StormDropped, Unit::Number),
    ("stuck", Metric::StuckNs, Unit::Time),
    ("in_network", Metric::InNetwork, Unit::Number),
];

impl Metric {
    /// True if the metric is measured for a scope. Messages, order and arrival times are known of
    /// traffic only; pauses and headroom belong to ports and their priorities.
    pub fn is_for(self, scope: Scope) -> bool {
        let traffic = matches!(scope, Scope::All | Scope::Traffic(_) | Scope::Priority(_));
        match self {
            Metric::Lost | Metric::NoDropLost | Metric::Sent | Metric::Received | Metric::Marked => true,
            Metric::Reordered
            | Metric::Throughput
            | Metric::Completed
            | Metric::SlowestCompletionNs
            | Metric::StuckNs => traffic,
            Metric::XoffEpisodes
            | Metric::Pauses
            | Metric::Storms
            | Metric::StormsRestored
            | Metric::StormDropped
            | Metric::HeadroomPeakCells => !matches!(scope, Scope::Traffic(_)),
            Metric::InNetwork => !matches!(scope, Scope::Port(_)),
        }
    }

    /// True if the metric describes traffic at any scope, rather than the effect of flow control.
    fn is_of_traffic(self) -> bool {
        !matches!(
            self,
            Metric::XoffEpisodes
                | Metric::Pauses
                | Metric::Storms
                | Metric::StormsRestored
                | Metric::StormDropped
                | Metric::HeadroomPeakCells
        )
    }
}

/// Reads all expectations, in the order of the file. `line_of` returns the line of a span.
pub(super) fn read(
    file: &mut TableReader,
    traffics: &[TrafficTable],
    network: Network,
    line_of: &dyn Fn(&SettingSpan) -> usize,
    report: &mut Diagnostics,
) -> Vec<Expectation> {
    let numbers: HashMap<&str, usize> =
        traffics.iter().enumerate().map(|(number, traffic)| (traffic.name.as_str(), number)).collect();
    let mut expectations = Vec::new();
    for mut section in entries(file, "expect", MAX_ENTRIES, report) {
        let scope = read_scope(&mut section, traffics, &numbers, network, report);
        let mut metrics = 0;
        for (name, metric, unit) in METRICS {
            let name_location = section.location_of(name);
            let (Some(item), Some(location)) = (section.item(name), name_location) else { continue };
            metrics += 1;
            let bounds = read_bounds(item, unit, report);
            if let Some(scope) = scope {
                check(name, metric, scope, &location, traffics, report);
            }
            let Some((scope, (at_least, at_most))) = scope.zip(bounds) else { continue };
            let line = line_of(&location);
            expectations.push((location.span.start, Expectation { line, scope, metric, at_least, at_most }));
        }
        if metrics == 0 {
            report.add(&section.location, "nothing is expected", "write a metric, as in lost = 0");
        }
        section.finish(report);
    }
    expectations.sort_by_key(|(start, _)| *start);
    expectations.into_iter().map(|(_, expectation)| expectation).collect()
}

fn read_scope(
    section: &mut TableReader,
    traffics: &[TrafficTable],
    numbers: &HashMap<&str, usize>,
    network: Network,
    report: &mut Diagnostics,
) -> Option<Scope> {
    const SCOPES: [&str; 4] = ["traffic", "priority", "switch", "port"];
    section.at_most_one(&SCOPES, report);
    let traffic = section.string_like("traffic", "rdma", report);
    let traffic = traffic.and_then(|name| find_traffic(&name, traffics, numbers, report));
    let priority = section.number_in("priority", 0..=7, report).map(|priority| priority.value);
    let switch = section.string_like("switch", "leaf1", report);
    let switch = switch.and_then(|name| network.nodes.switch(name.value, &name.location, report));
    let port =
        section.string_like("port", "leaf1.p1", report).and_then(|name| find_port(&name, network, report));
    if !SCOPES.iter().any(|scope| section.has(scope)) {
        return Some(Scope::All);
    }
    let scope = traffic.map(Scope::Traffic).or(priority.map(Scope::Priority));
    scope.or(switch.map(Scope::Switch)).or(port)
}

fn find_traffic(
    name: &Setting<&str>,
    traffics: &[TrafficTable],
    numbers: &HashMap<&str, usize>,
    report: &mut Diagnostics,
) -> Option<usize> {
    let number = numbers.get(name.value).filter(|_| !name.value.is_empty());
    if number.is_none() {
        let names: Vec<&str> = traffics.iter().map(|traffic| traffic.name.as_str()).collect();
        let what = format!("there is no traffic {}", quoted(name.value));
        report.add(
            &name.location,
            what,
            meant(name.value, &names, &names, "write a [[traffic]] of this name"),
        );
    }
    number.copied()
}

fn find_port(name: &Setting<&str>, network: Network, report: &mut Diagnostics) -> Option<Scope> {
    let Network { nodes, links, devices } = network;
    let end = nodes.end(name.value, &name.location, devices, report)?;
    if nodes.is_host(end.node) {
        let cure = "name a port of a switch, as in \"leaf1.p1\"";
        report.add(&name.location, format!("{} is a host", name.value), cure);
        return None;
    }
    if links.at(end).is_none() {
        report.add(
            &name.location,
            format!("{} has no link", name.value),
            "name a port that a [[link]] joins",
        );
        return None;
    }
    Some(Scope::Port(end))
}

/// Checks that the metric is measured for the scope, and that its value can vary.
fn check(
    name: &str,
    metric: Metric,
    scope: Scope,
    location: &SettingSpan,
    traffics: &[TrafficTable],
    report: &mut Diagnostics,
) {
    if !metric.is_for(scope) {
        let (what, cure) = match scope {
            Scope::Traffic(_) => ("of a traffic", "leave traffic out, or write priority, switch or port"),
            Scope::Switch(_) => ("of a switch", "leave switch out, or write traffic or priority"),
            Scope::Port(_) if metric == Metric::InNetwork => {
                ("of a port", "write switch, traffic or priority")
            }
            Scope::Port(_) => ("of a port", "leave port out, or write traffic or priority"),
            Scope::All | Scope::Priority(_) => return,
        };
        report.add(location, format!("{name} is not measured {what}"), cure);
        return;
    }
    let in_scope = |(number, traffic): &(usize, &TrafficTable)| match scope {
        Scope::Traffic(wanted) => *number == wanted,
        Scope::Priority(priority) => traffic.priority == priority,
        Scope::All | Scope::Switch(_) | Scope::Port(_) => true,
    };
    let mut traffics = traffics.iter().enumerate().filter(in_scope).peekable();
    if let Scope::Priority(priority) = scope
        && metric.is_of_traffic()
        && traffics.peek().is_none()
    {
        report.add(location, format!("no traffic has priority {priority}"), "name a priority that is sent");
        return;
    }
    let of_messages = matches!(metric, Metric::Completed | Metric::SlowestCompletionNs);
    if of_messages && !traffics.any(|(_, traffic)| traffic.has_messages()) {
        let cure = "expect it of traffic with the pattern \"finite\", \"poisson\" or \"incast\"";
        report.add(location, format!("{name} is of messages, and none are sent"), cure);
    }
}

/// Reads a value, or the least and the most.
fn read_bounds(item: Item, unit: Unit, report: &mut Diagnostics) -> Option<(Option<f64>, Option<f64>)> {
    if !matches!(item.value(), DeValue::Table(_)) {
        let value = read_value(item, unit, report)?.value;
        return Some((Some(value), Some(value)));
    }
    let location = item.location.clone();
    let cure = match unit {
        Unit::Number => "write { at_least = 1, at_most = 10 }, or one of them",
        Unit::Time => "write { at_least = \"1us\", at_most = \"10us\" }, or one of them",
        Unit::Throughput => "write { at_least = \"3.96G\", at_most = \"4G\" }, or one of them",
    };
    let mut section = item.section(location, cure, report)?;
    let at_least = section.item("at_least").map(|item| read_value(item, unit, report));
    let at_most = section.item("at_most").map(|item| read_value(item, unit, report));
    if at_least.is_none() && at_most.is_none() {
        report.add(&section.location, "neither at_least nor at_most", cure);
    }
    section.finish(report);
    // Settings that are present must be valid.
    let (at_least, at_most) =
        (at_least.map_or(Some(None), |it| it.map(Some))?, at_most.map_or(Some(None), |it| it.map(Some))?);
    if let (Some(least), Some(most)) = (&at_least, &at_most)
        && least.value > most.value
    {
        report.add(&least.location, "at_least is more than at_most", "exchange them");
    }
    Some((at_least.map(|it| it.value), at_most.map(|it| it.value)))
}

fn read_value(item: Item, unit: Unit, report: &mut Diagnostics) -> Option<Setting<f64>> {
    let value = match unit {
        Unit::Number => item.number_in(0..=MAX_NUMBER, report),
        Unit::Time => time(item, 0..=MAX_TIME_NS, report),
        Unit::Throughput => throughput(item, report),
    }?;
    Some(Setting { value: value.value as f64, location: value.location })
}
