//! `[telemetry]`: sensor groups, collectors and subscriptions.
//!
//! Rule: a subscription binds sensor groups to destination groups. A group of periodic paths needs
//! an interval, a group of event paths takes none; either error is refused, as nothing would be
//! reported. Source: docs/monitoring/telemetry.md; docs/references.md, "H3C reference" (configuring
//! the device as a gRPC client).

use std::collections::BTreeMap;

use crate::read::diagnostics::{Diagnostics, SettingSpan};
use crate::read::parse::{is_host, named_tables, resolve_name};
use crate::read::suggest::{did_you_mean, quoted};
use crate::read::table_reader::{Item, Setting, TableReader};
use crate::spec::KeySpec::Name;
use crate::spec::{TableSpec, ValueSpec, list, map, number, table, text};
use crate::tables::sensor_path::SensorPath;
use crate::tables::tls::{self, TLS, Tls};

/// Default port of a collector: that of the example in the vendor specifications.
const PORT: u16 = 50050;
/// Maximum number of destination groups, of sensor groups and of subscriptions.
const MAX: usize = 32;
/// HTTP/2 path of `Dialout` on most collectors.
const SERVICE: &str = "/grpc_dialout.GRPCDialout/Dialout";
/// How to write a collector.
const COLLECTOR_CURE: &str = "write an address and a port, as in \"192.168.2.1:50050\", \"[fd00::1]:50050\" or \
                              \"collector.example:50050\"; the port may be left out";

pub(crate) const TELEMETRY: TableSpec = &[
    map("sensor-group", Name, &ValueSpec::Table(SENSOR_GROUP))
        .about("Sensor paths that are reported together: periodic ones, or event paths."),
    map("destination-group", Name, &ValueSpec::Table(DESTINATION_GROUP))
        .about("Collectors that get the same reports."),
    map("subscription", Name, &ValueSpec::Table(SUBSCRIPTION)).about("Which groups are reported to which."),
];

const SENSOR_GROUP: TableSpec = &[list("paths", &ValueSpec::Text("buffermonitor/bufferusages"))
    .required("Sensor paths; `sluice telemetry paths` lists them.")];

const DESTINATION_GROUP: TableSpec = &[
    list("collectors", &ValueSpec::Text("192.168.2.1:50050"))
        .required("Addresses or host names, and TCP ports; the default port is 50050."),
    text("vpn_instance", "management")
        .otherwise("the daemon's own", "A network namespace of `ip netns` that reaches them."),
    text("service", SERVICE)
        .value("\"/grpc_dialout.GRPCDialout/Dialout\"", "HTTP/2 path of the collectors' service."),
    table("tls", TLS).about("Encryption; all of it is optional. Files are beside this one."),
    number("backlog_messages", 1, 1_000_000).value("1000", "Backlog of each collector in messages."),
    number("backlog_kib", 64, 1 << 20).value("16384", "Backlog of each collector."),
    number("message_kib", 1, 65_536).value("4096", "Longer messages are sent in chunks."),
];

const SUBSCRIPTION: TableSpec = &[
    list("sensors", &ValueSpec::Table(SENSOR)).required("The sensor groups that are reported."),
    list("destinations", &ValueSpec::Text("collector1"))
        .required("The destination groups that they are reported to."),
];

const SENSOR: TableSpec = &[
    number("interval_s", 1, 86_400).about("Sampling interval of periodic paths."),
    number("interval_ms", 100, 86_400_000).about("The same in ms."),
    text("group", "usage").required("Name of the sensor group."),
];

/// Telemetry settings: subscriptions and their collectors. Empty by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Telemetry {
    /// The collectors of all groups, group by group.
    pub destinations: Vec<Destination>,
    /// The subscriptions and their sensor groups.
    pub subscriptions: Vec<Subscription>,
}

/// One collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Name of its destination group.
    pub group: String,
    /// IP address or host name.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The network namespace from which it is reached; `None` for the daemon's own.
    pub vpn_instance: Option<String>,
    /// HTTP/2 path of the service.
    pub service: String,
    /// Encryption of the connection; `None` for plain text.
    pub tls: Option<Tls>,
    /// Maximum number of messages in its backlog.
    pub backlog_messages: usize,
    /// Maximum bytes of its backlog.
    pub backlog_bytes: usize,
    /// Maximum bytes of a message that it accepts; longer ones are sent in chunks.
    pub message_bytes: usize,
}

impl Destination {
    /// Returns address and port in the usual notation.
    pub fn address(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

/// Sensors bound to destinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Name of the subscription in the file.
    pub name: String,
    /// The sensor groups that are reported.
    pub sensors: Vec<Sensor>,
    /// Indices of the destinations in [`Telemetry::destinations`].
    pub destinations: Vec<usize>,
}

/// A sensor group in a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sensor {
    /// Name of the group.
    pub group: String,
    /// Sensor paths of the group.
    pub paths: Vec<SensorPath>,
    /// Sampling interval in ms; `None` for event paths.
    pub interval_ms: Option<u64>,
}

/// A destination group: where it is defined, and the indices of its collectors in the list of all.
#[derive(Clone)]
struct Group {
    location: SettingSpan,
    destinations: Vec<usize>,
}

/// The sensor paths of a sensor group.
type Paths = Vec<SensorPath>;

/// A sensor group and where it is defined.
#[derive(Debug, Clone)]
struct SensorGroup {
    location: SettingSpan,
    paths: Paths,
}

/// A path that reports an alarm, and where the file names it.
pub(crate) type AlarmPath = Setting<SensorPath>;

/// What may have no effect in `[telemetry]`.
#[derive(Debug, Default)]
pub(crate) struct UnusedItems {
    /// Paths that report alarms.
    alarms: Vec<AlarmPath>,
    /// Groups that no subscription binds: what they are.
    groups: Vec<Setting<String>>,
}

impl Telemetry {
    /// Reads `[telemetry]`.
    pub(crate) fn read(file: &mut TableReader, idle: &mut UnusedItems, report: &mut Diagnostics) -> Self {
        let Some(mut section) = file.section("telemetry", report) else { return Self::default() };
        let sensors = read_sensor_groups(&mut section, &mut idle.alarms, report);
        let mut telemetry = Self::default();
        let groups = telemetry.read_destination_groups(&mut section, report);
        if let Some(mut subscriptions) = section.section("subscription", report) {
            let found = at_most(named_tables(&mut subscriptions, report), "subscription", report);
            for (name, subscription) in found {
                telemetry.subscriptions.push(read_subscription(
                    name,
                    subscription,
                    &sensors,
                    &groups,
                    report,
                ));
            }
        }
        section.finish(report);
        let bound = |name: &str| {
            let mut sensors = telemetry.subscriptions.iter().flat_map(|subscription| &subscription.sensors);
            sensors.any(|sensor| sensor.group == name)
        };
        let unbound = sensors.iter().filter(|(name, _)| !bound(name));
        idle.groups.extend(unbound.map(|(name, group)| Setting {
            value: format!("sensor group {name}"),
            location: group.location.clone(),
        }));
        let reports_to = |group: &Group| {
            let mut subscriptions = telemetry.subscriptions.iter();
            subscriptions.any(|to| group.destinations.iter().any(|number| to.destinations.contains(number)))
        };
        let unbound = groups.iter().filter(|(_, group)| !reports_to(group));
        idle.groups.extend(unbound.map(|(name, group)| Setting {
            value: format!("destination group {name}"),
            location: group.location.clone(),
        }));
        telemetry
    }

    fn read_destination_groups(
        &mut self,
        section: &mut TableReader,
        report: &mut Diagnostics,
    ) -> BTreeMap<String, Group> {
        let Some(mut groups) = section.section("destination-group", report) else { return BTreeMap::new() };
        let mut known = BTreeMap::new();
        for (name, group) in at_most(named_tables(&mut groups, report), "destination group", report) {
            let (first, location) = (self.destinations.len(), group.location.clone());
            self.destinations.extend(read_destination_group(&name, group, report));
            known.insert(name, Group { location, destinations: (first..self.destinations.len()).collect() });
        }
        known
    }
}

/// Returns the first ones up to the maximum; reports an error if there are more.
fn at_most<'d>(
    mut found: Vec<(String, TableReader<'d>)>,
    what: &str,
    report: &mut Diagnostics,
) -> Vec<(String, TableReader<'d>)> {
    if let Some((_, first)) = found.get(MAX) {
        report.add(&first.location, format!("one {what} too many"), format!("there can be {MAX}"));
    }
    found.truncate(MAX);
    found
}

/// Warns of groups that nothing is reported of or to, and of paths that report alarms which are all
/// off.
pub(crate) fn warn_unused(idle: &UnusedItems, overrun: bool, drops: bool, warnings: &mut Diagnostics) {
    for Setting { value, location } in &idle.groups {
        let cure = "name it in a subscription, or leave it out";
        warnings.add(location, format!("no subscription uses {value}"), cure);
    }
    for Setting { value, location } in &idle.alarms {
        let overrun_path = *value == SensorPath::PortQueOverrunEvent;
        let is_on = if overrun_path { overrun } else { drops };
        if !is_on {
            let what = format!("no events for {}: the alarm that it reports is off", value.name());
            warnings.add(
                location,
                what,
                if overrun_path {
                    "write ingress, egress or headroom = { enabled = true } in [alarm], or leave the path out"
                } else {
                    "write drop = { enabled = true } in [alarm], or leave the path out"
                },
            );
        }
    }
}

fn read_sensor_groups(
    section: &mut TableReader,
    alarms: &mut Vec<AlarmPath>,
    report: &mut Diagnostics,
) -> BTreeMap<String, SensorGroup> {
    let Some(mut groups) = section.section("sensor-group", report) else { return BTreeMap::new() };
    let mut known = BTreeMap::new();
    for (name, mut group) in at_most(named_tables(&mut groups, report), "sensor group", report) {
        let cure = "write a list of sensor paths, as in paths = [\"buffermonitor/bufferusages\"]; `sluice telemetry paths` \
                    lists them";
        let mut paths = Vec::new();
        match strings(&mut group, "paths", cure, report) {
            Some(list) if list.value.is_empty() => report.add(&list.location, "no sensor path", cure),
            Some(list) => {
                list.value.into_iter().for_each(|name| read_path(name, &mut paths, alarms, report));
            }
            None if !group.has("paths") => report.add(&group.location, "no sensor path", cure),
            None => {}
        }
        reject_mixed_group(&group.location, &paths, report);
        let location = group.location.clone();
        group.finish(report);
        known.insert(name, SensorGroup { location, paths });
    }
    known
}

fn read_path(name: Setting<&str>, paths: &mut Paths, alarms: &mut Vec<AlarmPath>, report: &mut Diagnostics) {
    match SensorPath::named(name.value) {
        Some(path) if paths.contains(&path) => {
            report.add(
                &name.location,
                format!("{} is here twice", quoted(name.value)),
                "leave one of them out",
            );
        }
        Some(path) => {
            paths.push(path);
            if matches!(path, SensorPath::PortQueOverrunEvent | SensorPath::PortQueDropEvent) {
                alarms.push(Setting { value: path, location: name.location });
            }
        }
        None => report.add_lazily(&name.location, || {
            let names = SensorPath::ALL.map(SensorPath::name);
            let cure = did_you_mean(name.value, &names)
                .unwrap_or_else(|| "`sluice telemetry paths` lists all".to_owned());
            (format!("there is no sensor path {}", quoted(name.value)), cure)
        }),
    }
}

/// Reports a group that mixes both kinds: an interval is for all of its paths, or for none.
fn reject_mixed_group(location: &SettingSpan, paths: &[SensorPath], report: &mut Diagnostics) {
    let of = |event| paths.iter().find(|path| path.is_event() == event);
    if let (Some(event), Some(periodic)) = (of(true), of(false)) {
        let what = format!("{} is an event path and {} is periodic", event.name(), periodic.name());
        report.add(
            location,
            what,
            "give each kind a sensor group of its own: only periodic paths have an interval",
        );
    }
}

fn read_destination_group(name: &str, mut group: TableReader, report: &mut Diagnostics) -> Vec<Destination> {
    let location = group.location.clone();
    let collectors = strings(&mut group, "collectors", COLLECTOR_CURE, report);
    let vpn_instance = group.string("vpn_instance", report).and_then(|name| {
        let legal = crate::read::parse::is_name(name.value) && name.value != "." && name.value != "..";
        if !legal {
            let what = format!("{} cannot be a network namespace", quoted(name.value));
            report.add(&name.location, what, "write a name that `ip netns list` shows");
        }
        legal.then(|| name.value.to_owned())
    });
    let service = group.string("service", report).and_then(|service| {
        let well = is_service(service.value);
        if !well {
            let what = format!("{} is no path of a gRPC method", quoted(service.value));
            report.add(
                &service.location,
                what,
                format!("write /PACKAGE.SERVICE/METHOD, as in \"{SERVICE}\""),
            );
        }
        well.then(|| service.value.to_owned())
    });
    let tls = tls::read(&mut group, report);
    let messages = group.number::<usize>("backlog_messages", report);
    let kib = group.number::<usize>("backlog_kib", report);
    let longest = group.number::<usize>("message_kib", report);
    group.finish(report);
    let Some(collectors) = collectors else {
        if report.is_empty() {
            report.add(&location, "no collector", COLLECTOR_CURE);
        }
        return Vec::new();
    };
    if collectors.value.is_empty() {
        report.add(&collectors.location, "no collector", COLLECTOR_CURE);
    }
    if let Some(first) = collectors.value.get(MAX) {
        let cure = format!("a group can have {MAX}: put the others into another destination group");
        report.add(&first.location, "one collector too many", cure);
    }
    let mut destinations: Vec<Destination> = Vec::new();
    for collector in collectors.value.into_iter().take(MAX) {
        let Some((host, port)) = host_and_port(collector.value) else {
            let what = format!("{} is no collector", quoted(collector.value));
            report.add(&collector.location, what, COLLECTOR_CURE);
            continue;
        };
        if destinations.iter().any(|other| (other.host.as_str(), other.port) == (host, port)) {
            let what = format!("{} is here twice", quoted(collector.value));
            report.add(&collector.location, what, "leave one of them out");
            continue;
        }
        destinations.push(Destination {
            group: name.to_owned(),
            host: host.to_owned(),
            port,
            vpn_instance: vpn_instance.clone(),
            service: service.clone().unwrap_or_else(|| SERVICE.to_owned()),
            tls: tls.clone(),
            backlog_messages: messages.as_ref().map_or(1000, |messages| messages.value),
            backlog_bytes: kib.as_ref().map_or(16 << 20, |kib| kib.value << 10),
            message_bytes: longest.as_ref().map_or(4 << 20, |kib| kib.value << 10),
        });
    }
    destinations
}

fn is_service(path: &str) -> bool {
    let legal = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte))
    };
    let parts = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    path.len() <= 200 && parts.is_some_and(|(service, method)| legal(service) && legal(method))
}

/// Splits `text` into host and port: an address, an IPv6 address in brackets, or a name, and an
/// optional port.
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let port = |text: &str| match text.strip_prefix(':') {
        None => text.is_empty().then_some(PORT),
        Some(digits) => crate::read::parse::digits(digits)
            .filter(|_| !digits.is_empty())
            .and_then(|port| u16::try_from(port).ok())
            .filter(|&port| port > 0),
    };
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        return Some((host, port(rest)?));
    }
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Some((text, PORT));
    }
    let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
    is_host(host).then_some((host, port(rest)?))
}

fn read_subscription(
    name: String,
    mut section: TableReader,
    groups: &BTreeMap<String, SensorGroup>,
    destinations: &BTreeMap<String, Group>,
    report: &mut Diagnostics,
) -> Subscription {
    let location = section.location.clone();
    let cure = "write a list of sensor groups, as in sensors = [{ group = \"usage\", interval_s = 10 }, { group = \"alarms\" }]";
    let before = report.count();
    let listed = section.list_of_sections("sensors", cure, report);
    let nothing = report.count() == before && listed.as_ref().is_some_and(|listed| listed.value.is_empty());
    if nothing || !section.has("sensors") {
        report.add(&location, "no sensor group", cure);
    }
    let sensors = listed.map_or(Vec::new(), |listed| listed.value);
    let sensors = sensors.into_iter().filter_map(|sensor| read_sensor(sensor, groups, report)).collect();

    let cure = "write a list of destination groups, as in destinations = [\"collector1\"]";
    let listed = strings(&mut section, "destinations", cure, report);
    let nothing = listed.as_ref().is_some_and(|listed| listed.value.is_empty());
    if nothing || !section.has("destinations") {
        report.add(&location, "no destination group", cure);
    }
    let mut to = Vec::new();
    for group in listed.map_or(Vec::new(), |listed| listed.value) {
        let example = "[telemetry.destination-group.NAME]";
        if let Some(found) = resolve_name(destinations, &group, "destination group", (example, &[]), report) {
            to.extend(found.destinations);
        }
    }
    to.sort_unstable();
    to.dedup();
    section.finish(report);
    Subscription { name, sensors, destinations: to }
}

fn read_sensor(
    mut sensor: TableReader,
    groups: &BTreeMap<String, SensorGroup>,
    report: &mut Diagnostics,
) -> Option<Sensor> {
    let location = sensor.location.clone();
    sensor.at_most_one(&["interval_s", "interval_ms"], report);
    let seconds = sensor.number::<u64>("interval_s", report);
    let millis = sensor.number("interval_ms", report);
    let stated = sensor.location_of("interval_s").or_else(|| sensor.location_of("interval_ms"));
    let group = sensor.string("group", report);
    if !sensor.has("group") {
        report.add(&location, "no sensor group", "write group = \"…\", the name of a sensor group");
    }
    sensor.finish(report);
    let group = group?;
    let found = resolve_name(groups, &group, "sensor group", ("[telemetry.sensor-group.NAME]", &[]), report)?;
    let paths = found.paths;
    let interval_ms =
        millis.map(|millis| millis.value).or_else(|| seconds.map(|seconds| seconds.value * 1000));
    let first = paths.first()?;
    match (first.is_event(), &stated) {
        (true, Some(stated)) => {
            let what = format!("{} is an event path: it reports when something happens", first.name());
            report.add(stated, what, "leave the interval out");
        }
        (false, None) => {
            let what = format!("{} is periodic and would never be sampled without an interval", first.name());
            report.add(&group.location, what, "write an interval beside the group, as in interval_s = 10");
        }
        _ => {}
    }
    Some(Sensor { group: group.value.to_owned(), paths, interval_ms })
}

/// Reads a list of strings.
fn strings<'d>(
    section: &mut TableReader<'d>,
    name: &'static str,
    cure: &str,
    report: &mut Diagnostics,
) -> Option<Setting<Vec<Setting<&'d str>>>> {
    let item = section.item(name)?;
    let Some(elements) = item.list() else { return item.wrong_type(cure, report) };
    let of = |element: Item<'d>| match element.value() {
        toml::de::DeValue::String(text) => Some(Setting { value: text.as_ref(), location: element.location }),
        _ => element.wrong_type(cure, report),
    };
    let value = elements.into_iter().map(of).collect::<Option<Vec<_>>>()?;
    Some(Setting { value, location: item.location })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_addresses_or_names_with_or_without_a_port() {
        for (text, expected) in [
            ("192.168.2.1:50050", Some(("192.168.2.1", 50050))),
            ("192.168.2.1", Some(("192.168.2.1", 50050))),
            ("[fd00::1]:57400", Some(("fd00::1", 57400))),
            ("[fd00::1]", Some(("fd00::1", 50050))),
            ("fd00::1", Some(("fd00::1", 50050))),
            ("collector.example:1", Some(("collector.example", 1))),
            ("localhost", Some(("localhost", 50050))),
            ("192.168.2.256:1", None),
            ("192.168.2:1", None),
            ("host:0", None),
            ("host:65536", None),
            ("host:", None),
            ("host:+1", None),
            ("host:1:2", None),
            ("[fd00::1]x", None),
            ("[host]:1", None),
            ("http://host", None),
            ("a b", None),
            ("-a", None),
            ("a..b", None),
            ("", None),
        ] {
            assert_eq!(host_and_port(text), expected, "{text}");
        }
    }

    #[test]
    fn services_are_paths_of_methods() {
        for (path, well) in [
            (SERVICE, true),
            ("/grpc_dialout.gRPCDialout/Dialout", true),
            ("grpc_dialout.GRPCDialout/Dialout", false),
            ("/a/b/c", false),
            ("/a/", false),
            ("//b", false),
            ("/a b/c", false),
        ] {
            assert_eq!(is_service(path), well, "{path}");
        }
    }
}
