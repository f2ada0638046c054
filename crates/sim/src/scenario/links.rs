//! `[[link]]`: cables, and the settings of their ports' configurations.

use std::collections::HashMap;

use config::read::toml_document::{Diagnostics, Setting, SettingSpan, TableReader, speed};
use config::{CABLE_M, MTU_BYTES, spell_speed};
use switch::Nanos;
use switch::buffer::headroom::RESPONSE_BYTES;
use switch::settings::WIRE_OVERHEAD_BYTES;

use super::generate::Generated;
use super::name_ranges::{MAX_NAMES, Names};
use super::nodes::{Devices, Nodes};
use super::parse::{decimal, text, time};
use super::tables::{entries, required};
use super::types::{Link, LinkEnd};

/// Nanoseconds that a bit takes per meter of fiber or copper.
pub const DELAY_NS_PER_M: f64 = 5.0;
/// The longest frame if no length is configured.
const LONGEST_BYTES: u16 = 9216;
/// Speed of a link whose speed could not be read.
const DEFAULT_SPEED_BPS: u64 = 1_000_000_000;
/// The slowest response to a PFC frame.
const MAX_RESPONSE_NS: Nanos = 1_000_000_000;

/// The links as far as the file could be read.
#[derive(Default)]
pub(super) struct Links {
    pub(super) list: Vec<Link>,
    /// By link: the span of its length, if it is set.
    pub(super) cables: Vec<Option<SettingSpan>>,
    by_end: HashMap<LinkEnd, usize>,
}

/// The settings of a `[[link]]` except its ends. Invalid settings have been reported, and missing
/// ones are replaced by defaults.
struct LinkTable {
    speed_bps: Option<Setting<u64>>,
    cable_m: Option<Setting<u32>>,
    delay_ns_per_m: f64,
    mtu_bytes: Option<u16>,
    response_ns: Option<Nanos>,
    overhead_bytes: u16,
    /// True if a mistake was reported while the table was read.
    is_wrong: bool,
}

impl Links {
    /// Reads all links.
    pub(super) fn read(
        file: &mut TableReader,
        generated: Option<&Generated>,
        nodes: &Nodes,
        devices: &Devices,
        report: &mut Diagnostics,
    ) -> Self {
        let mut links = Self::default();
        if let Some(network) = generated {
            links.add_generated(network, nodes, devices, report);
        }
        for section in entries(file, "link", MAX_NAMES, report) {
            links.read_entry(section, nodes, devices, report);
        }
        links
    }

    fn read_entry(
        &mut self,
        mut section: TableReader,
        nodes: &Nodes,
        devices: &Devices,
        report: &mut Diagnostics,
    ) {
        let ends = read_ends(&mut section, report);
        let table = LinkTable::read(&mut section, report);
        section.finish(report);
        let Some(ends) = ends else { return };
        let [a, b] = &ends.value;
        if a.value.len() != b.value.len() {
            let what = format!("{} and {} names cannot be joined one to one", a.value.len(), b.value.len());
            report.add(&ends.location, what, "give both ends ranges of the same length");
            return;
        }
        // One mistake is enough for all links of an entry.
        for number in 0..a.value.len() {
            let names = [a.value.name(number), b.value.name(number)];
            let locations = [&a.location, &b.location, &ends.location];
            if self.join(&names, locations, &table, nodes, devices, report).is_none() {
                return;
            }
        }
    }

    /// Adds the cables of a generated network, whose ports have their speeds and lengths.
    fn add_generated(
        &mut self,
        network: &Generated,
        nodes: &Nodes,
        devices: &Devices,
        report: &mut Diagnostics,
    ) {
        let table = LinkTable {
            speed_bps: None,
            cable_m: None,
            delay_ns_per_m: DELAY_NS_PER_M,
            mtu_bytes: None,
            response_ns: None,
            overhead_bytes: WIRE_OVERHEAD_BYTES,
            is_wrong: false,
        };
        // Without a valid configuration there are no ports.
        if network.switches().iter().all(|(name, _)| nodes.has_device(name, devices)) {
            let locations = [&network.location; 3];
            let ends = network.links().iter();
            ends.map_while(|names| self.join(names, locations, &table, nodes, devices, report))
                .for_each(drop);
        }
    }

    /// Adds a link between two ends, by name; the locations are theirs and that of both together.
    fn join(
        &mut self,
        names: &[String; 2],
        locations: [&SettingSpan; 3],
        table: &LinkTable,
        nodes: &Nodes,
        devices: &Devices,
        report: &mut Diagnostics,
    ) -> Option<()> {
        let [of_first, of_second, of_both] = locations;
        let first = nodes.end(&names[0], of_first, devices, report);
        let second = nodes.end(&names[1], of_second, devices, report);
        let (first, second) = first.zip(second)?;
        if first.node == second.node {
            let what = format!("{} would be joined to itself", nodes.name(first.node));
            report.add(of_both, what, "join it to another node");
            return None;
        }
        for (end, location) in [(first, of_first), (second, of_second)] {
            if let Some(port) = nodes.admin_down_port(end, devices) {
                let what =
                    format!("port {port} is down, by admin = \"down\" in the configuration of its switch");
                report.add(location, what, "take another port, or take it up in that file");
                return None;
            }
        }
        let is_free =
            self.is_free(first, of_first, nodes, report) && self.is_free(second, of_second, nodes, report);
        if !is_free {
            return None;
        }
        let ends = Setting { value: [first, second], location: of_both.clone() };
        let cable = table.cable_location(&ends, nodes, devices);
        let link = table.link(names.join("–"), ends, nodes, devices, report)?;
        self.cables.push(cable);
        self.by_end.insert(first, self.list.len());
        self.by_end.insert(second, self.list.len());
        self.list.push(link);
        Some(())
    }

    fn is_free(&self, end: LinkEnd, location: &SettingSpan, nodes: &Nodes, report: &mut Diagnostics) -> bool {
        let Some(link) = self.at(end) else { return true };
        let (who, cure) = match nodes.is_host(end.node) {
            true => {
                ("host", "a host has one link for each of its ports; add another host, or give it more ports")
            }
            false => ("port", "a port has one link; take another port"),
        };
        let link = &self.list[link].name;
        report.add(location, format!("the {who} has a link already: {link}"), cure);
        false
    }

    /// The link of a port.
    pub(super) fn at(&self, end: LinkEnd) -> Option<usize> {
        self.by_end.get(&end).copied()
    }

    /// Returns the link that one of its ends identifies.
    pub(super) fn find(
        &self,
        name: &Setting<&str>,
        nodes: &Nodes,
        devices: &Devices,
        report: &mut Diagnostics,
    ) -> Option<usize> {
        let end = nodes.end(name.value, &name.location, devices, report)?;
        let link = self.at(end);
        if link.is_none() {
            report.add(&name.location, format!("no link is at {}", name.value), "name an end of a [[link]]");
        }
        link
    }
}

fn read_ends(section: &mut TableReader, report: &mut Diagnostics) -> Option<Setting<[Setting<Names>; 2]>> {
    const CURE: &str = "write two ends, each HOST or SWITCH.PORT, as in [\"h1\", \"leaf1.p1\"]";
    let item = section.item("ends");
    let item = required(item, section, "ends", "ends = [\"h1\", \"leaf1.p1\"]", report)?;
    let Some(items) = item.list() else { return item.wrong_type(CURE, report) };
    if items.len() != 2 {
        report.add(&item.location, format!("found a list of {}", items.len()), CURE);
        return None;
    }
    let mut ends = items.into_iter().map(|item| {
        let name = text(item, CURE, report)?;
        match Names::parse(name.value) {
            Ok(value) => Some(Setting { value, location: name.location }),
            Err((what, cure)) => {
                report.add(&name.location, what, cure);
                None
            }
        }
    });
    let (first, second) = (ends.next()?, ends.next()?);
    Some(Setting { value: [first?, second?], location: item.location })
}

impl LinkTable {
    fn read(section: &mut TableReader, report: &mut Diagnostics) -> Self {
        let mistakes = report.count();
        let speed_bps = section.item("speed").and_then(|item| speed(item, report));
        let cable_m = section.number_in("cable_m", CABLE_M, report);
        let delay = section.item("delay_ns_per_m").and_then(|item| decimal(item, 0.0..=1000.0, report));
        let mut table = Self {
            speed_bps,
            cable_m,
            is_wrong: false,
            delay_ns_per_m: delay.map_or(DELAY_NS_PER_M, |delay| delay.value),
            mtu_bytes: section.number_in("mtu", mtu_range(), report).map(|mtu| mtu.value),
            response_ns: section
                .item("response")
                .and_then(|item| time(item, 0..=MAX_RESPONSE_NS, report))
                .map(|response| response.value),
            overhead_bytes: match section.boolean("wire_overhead", report) {
                Some(Setting { value: false, .. }) => 0,
                _ => WIRE_OVERHEAD_BYTES,
            },
        };
        table.is_wrong = report.count() > mistakes;
        table
    }

    /// Returns the span of the cable's length: here, or in a port's configuration.
    fn cable_location(
        &self,
        ends: &Setting<[LinkEnd; 2]>,
        nodes: &Nodes,
        devices: &Devices,
    ) -> Option<SettingSpan> {
        match &self.cable_m {
            Some(cable_m) => Some(cable_m.location.clone()),
            None => ends
                .value
                .iter()
                .find_map(|end| cable_of_port(*end, nodes, devices))
                .map(|_| ends.location.clone()),
        }
    }

    /// Returns the link between two ports. Settings missing in the entry are taken from their
    /// configurations.
    fn link(
        &self,
        name: String,
        ends: Setting<[LinkEnd; 2]>,
        nodes: &Nodes,
        devices: &Devices,
        report: &mut Diagnostics,
    ) -> Option<Link> {
        let speed_bps = self.speed(&name, &ends, nodes, devices, report)?;
        let mtu = |end: LinkEnd| nodes.device(end.node, devices)?.links[end.port].mtu_bytes;
        let cable_m = match &self.cable_m {
            Some(cable_m) => cable_m.value,
            None if self.is_wrong => 0,
            None => {
                let cable = |end| cable_of_port(end, nodes, devices);
                common("cable_m", &ends, cable, nodes, devices, report)?.unwrap_or(0)
            }
        };
        let mtu_bytes = match self.mtu_bytes {
            Some(mtu_bytes) => mtu_bytes,
            None if self.is_wrong => LONGEST_BYTES,
            None => common("mtu", &ends, mtu, nodes, devices, report)?
                .and_then(|bytes| u16::try_from(bytes).ok())
                .unwrap_or(LONGEST_BYTES),
        };
        Some(Link {
            name,
            ends: ends.value,
            speed_bps,
            cable_m,
            propagation_ns: (f64::from(cable_m) * self.delay_ns_per_m).round() as Nanos,
            mtu_bytes,
            response_ns: self.response_ns.unwrap_or_else(|| response_ns(speed_bps)),
            overhead_bytes: self.overhead_bytes,
        })
    }

    fn speed(
        &self,
        name: &str,
        ends: &Setting<[LinkEnd; 2]>,
        nodes: &Nodes,
        devices: &Devices,
        report: &mut Diagnostics,
    ) -> Option<u64> {
        let of_port = |end: LinkEnd| nodes.device(end.node, devices)?.switch.ports[end.port].speed_bps;
        let Some(speed) = &self.speed_bps else {
            if self.is_wrong {
                return Some(DEFAULT_SPEED_BPS);
            }
            let speed = common("speed", ends, of_port, nodes, devices, report)?;
            if speed.is_none() {
                let what = format!("{name} has no speed");
                report.add(
                    &ends.location,
                    what,
                    "write speed = \"100G\", here or for the port in its configuration",
                );
            }
            return speed;
        };
        for end in ends.value {
            let Some(bps) = of_port(end).filter(|bps| *bps != speed.value) else { continue };
            let text = spell_speed(bps);
            let what = format!("{} has {text} in its configuration", nodes.end_name(end, devices));
            report.add(&speed.location, what, format!("write \"{text}\", or leave it out"));
            return None;
        }
        Some(speed.value)
    }
}

/// Returns the meters of cable in a port's configuration.
fn cable_of_port(end: LinkEnd, nodes: &Nodes, devices: &Devices) -> Option<u32> {
    nodes.device(end.node, devices)?.links[end.port].cable_m
}

/// Returns the setting that both ports' configurations agree on, or that only one has; `None` if
/// they contradict each other.
fn common<T: Copy + PartialEq + Into<u64>>(
    setting: &str,
    ends: &Setting<[LinkEnd; 2]>,
    of_port: impl Fn(LinkEnd) -> Option<T>,
    nodes: &Nodes,
    devices: &Devices,
    report: &mut Diagnostics,
) -> Option<Option<T>> {
    let [first, second] = ends.value;
    let values = [of_port(first), of_port(second)];
    if let [Some(a), Some(b)] = values
        && a != b
    {
        let text = |value: T| match setting {
            "speed" => spell_speed(value.into()),
            _ => value.into().to_string(),
        };
        let name = |end| nodes.end_name(end, devices);
        let (a, b) = (text(a), text(b));
        let what = format!("{} has {setting} {a}, {} has {b}", name(first), name(second));
        let cure = match setting {
            "speed" => "give both ports the same speed in their configurations".to_owned(),
            _ => format!("write {setting} here, or the same in both configurations"),
        };
        report.add(&ends.location, what, cure);
        return None;
    }
    Some(values[0].or(values[1]))
}

/// Returns the time in which a link carries the bytes that a peer still sends until it reacts
/// (docs/behavior.md, "Headroom needed"); rounded down to whole nanoseconds.
fn response_ns(speed_bps: u64) -> Nanos {
    RESPONSE_BYTES * 8 * 1_000_000_000 / speed_bps
}

fn mtu_range() -> std::ops::RangeInclusive<u16> {
    let bytes = |bytes: &u32| u16::try_from(*bytes).unwrap_or(u16::MAX);
    bytes(MTU_BYTES.start())..=bytes(MTU_BYTES.end())
}
