//! `[network]`: a network that is generated from its kind and sizes.
//!
//! Rule: switches and hosts get names by their kind and number, as [`topology`] says, and come
//! before those that the file lists. All switches have the configuration `config`, or those of a
//! role have that of their role. It has no ports of its own; the ports are added with the speed and
//! the length of their cables.

mod plan;
mod topology;

use std::fmt::Write;

use config::CABLE_M;
use config::read::toml_document::{Diagnostics, Item, Setting, SettingSpan, TableReader, quoted, speed};
use config::spell_speed;
use toml::de::DeValue;

use self::plan::{Cable, Plan, Role};
use super::parse::{Load, MAX_NODES, MAX_SWITCHES, text};

/// Configuration of the switches unless the file names one: priority 3 is no-drop.
const DEFAULT_CONFIG: &str = "\
[port-defaults]
trust = \"dot1p\"
[port-defaults.pfc]
mode = \"on\"
no_drop = [3]
";
/// Speed of all cables unless the file has one.
const SPEED_BPS: u64 = 100_000_000_000;
/// The most ports of a switch.
const MAX_PORTS: usize = 64;

/// A generated network.
pub(super) struct Generated {
    plan: Plan,
    pub(super) location: SettingSpan,
    /// By role.
    pub(super) configs: Vec<RoleConfig>,
}

/// The configuration of a role.
pub(super) struct RoleConfig {
    /// Its name in diagnostics.
    pub(super) name: String,
    /// Path of the configuration; empty if the file has none.
    pub(super) file: String,
    /// Text of the configuration without ports.
    pub(super) base: String,
    /// The tables of ports that are added.
    pub(super) added_ports: String,
    /// Where the file names it.
    pub(super) location: SettingSpan,
}

impl Generated {
    /// The switches: the name, and the index of its configuration.
    pub(super) fn switches(&self) -> &[(String, usize)] {
        &self.plan.switches
    }

    /// The number of ports of the switches with this configuration.
    pub(super) fn port_count(&self, config: usize) -> usize {
        self.plan.roles[config].port_count()
    }

    /// The names of the hosts.
    pub(super) fn hosts(&self) -> &[String] {
        &self.plan.hosts
    }

    /// Both ends of each cable, as in `[[link]]`.
    pub(super) fn links(&self) -> &[[String; 2]] {
        &self.plan.links
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NetworkKind {
    LeafSpine,
    FatTree,
    Rail,
    Dragonfly,
}

const KINDS: [(&str, NetworkKind); 4] = [
    ("leaf-spine", NetworkKind::LeafSpine),
    ("fat-tree", NetworkKind::FatTree),
    ("rail", NetworkKind::Rail),
    ("dragonfly", NetworkKind::Dragonfly),
];

/// A size: its name, an example, its default, and the kinds that have it.
type Size = (&'static str, usize, Option<usize>, &'static [NetworkKind]);

const SIZES: [Size; 11] = [
    ("leaves", 4, None, &[NetworkKind::LeafSpine]),
    ("spines", 2, None, &[NetworkKind::LeafSpine, NetworkKind::Rail]),
    ("hosts_per_leaf", 16, None, &[NetworkKind::LeafSpine]),
    ("uplinks", 1, Some(1), &[NetworkKind::LeafSpine]),
    ("k", 4, None, &[NetworkKind::FatTree]),
    ("pods", 2, None, &[NetworkKind::Rail]),
    ("servers_per_pod", 4, None, &[NetworkKind::Rail]),
    ("rails", 8, None, &[NetworkKind::Rail]),
    ("routers_per_group", 4, None, &[NetworkKind::Dragonfly]),
    ("hosts_per_router", 2, None, &[NetworkKind::Dragonfly]),
    ("global_links_per_router", 2, None, &[NetworkKind::Dragonfly]),
];

/// Speed and length of the cables of a kind.
struct CableTable {
    speed_bps: u64,
    cable_m: u32,
}

/// Reads the table; `None` if there is none, or it is wrong.
pub(super) fn read(file: &mut TableReader, load: Load, report: &mut Diagnostics) -> Option<Generated> {
    let mut section = file.section("network", report)?;
    let location = section.location.clone();
    let mistakes = report.count();
    let kind = section.choice("kind", &KINDS, report);
    if !section.has("kind") {
        report.add(
            &location,
            "no kind",
            "write kind = \"leaf-spine\", \"fat-tree\", \"rail\" or \"dragonfly\"",
        );
    }
    let sizes = SIZES.map(|(name, ..)| section.number_in(name, 1..=4096, report));
    let host = read_cable(&mut section, "host", SPEED_BPS, report);
    let fabric = read_cable(&mut section, "fabric", host.speed_bps, report);
    let is_dragonfly = kind.as_ref().is_none_or(|kind| kind.value == NetworkKind::Dragonfly);
    let global = read_cable(&mut section, "global", fabric.speed_bps, report);
    for setting in ["global_speed", "global_cable_m"] {
        if let (Some(location), false) = (section.location_of(setting), is_dragonfly) {
            report.add(&location, "has no effect without kind = \"dragonfly\"", "leave it out");
        }
    }
    let item = section.item("config");
    let kind = kind?.value;
    let sizes = check_sizes(kind, &sizes, &section, report);
    section.finish(report);
    if report.count() > mistakes {
        return None;
    }
    let plan = plan_of(kind, &sizes, &location, report)?;
    let paths = config_paths(item, &plan.roles, report);
    let mut configs = Vec::new();
    for (role, path) in plan.roles.iter().zip(paths) {
        let base = read_base(path.as_ref(), load, report)?;
        let (file, location) = match path {
            Some(path) => (path.value.to_owned(), path.location),
            None => (String::new(), location.clone()),
        };
        let name = format!("{} ({})", if file.is_empty() { "[network]" } else { &file }, role.name);
        let added_ports = port_tables(role, &host, &fabric, &global);
        configs.push(RoleConfig { name, file, base, added_ports, location });
    }
    (report.count() == mistakes).then_some(Generated { plan, location, configs })
}

/// Reads the paths of the configurations, by role: one for all, or a table with some of the roles.
fn config_paths<'d>(
    item: Option<Item<'d>>,
    roles: &[Role],
    report: &mut Diagnostics,
) -> Vec<Option<Setting<&'d str>>> {
    const CURE: &str = "write config = \"…\", the path of a daemon's configuration without ports";
    let none = || roles.iter().map(|_| None).collect();
    let Some(item) = item else { return none() };
    if !matches!(item.value(), DeValue::Table(_)) {
        let Some(path) = text(item, CURE, report) else { return none() };
        return roles.iter().map(|_| Some(path.clone())).collect();
    }
    let location = item.location.clone();
    let Some(mut table) = item.section(location, CURE, report) else { return none() };
    let paths = roles.iter().map(|role| table.item(role.name).and_then(|item| text(item, CURE, report)));
    let paths = paths.collect();
    table.finish(report);
    paths
}

/// Checks that the sizes of the kind are present, and no others. Returns them by name.
fn check_sizes(
    kind: NetworkKind,
    sizes: &[Option<Setting<usize>>; SIZES.len()],
    section: &TableReader,
    report: &mut Diagnostics,
) -> Vec<(&'static str, usize)> {
    let kind_name = KINDS.iter().find(|(_, other)| *other == kind).map_or("", |(name, _)| name);
    let mut found = Vec::new();
    for ((name, example, default, kinds), size) in SIZES.iter().zip(sizes) {
        match (section.location_of(name), kinds.contains(&kind)) {
            (Some(location), false) => {
                report.add(&location, format!("has no effect with kind = \"{kind_name}\""), "leave it out");
            }
            (None, true) if default.is_none() => {
                let what = format!("the kind \"{kind_name}\" needs {name}");
                report.add(&section.location, what, format!("write {name} = {example}"));
            }
            _ => {}
        }
        let number = size.as_ref().map(|size| size.value).or(*default).unwrap_or(1);
        if let (Some(size), "k", true) = (size, *name, number % 2 == 1) {
            report.add(
                &size.location,
                "a fat tree has switches with an even number of ports",
                "write 4, 6, 8 …",
            );
        }
        found.push((*name, number));
    }
    found
}

/// Plans the network; `None` if it is too large.
fn plan_of(
    kind: NetworkKind,
    sizes: &[(&'static str, usize)],
    location: &SettingSpan,
    report: &mut Diagnostics,
) -> Option<Plan> {
    let size = |name: &str| sizes.iter().find(|(size, _)| *size == name).map_or(1, |(_, number)| *number);
    let mut fits = |switches, hosts, ports| check_size(switches, hosts, ports, location, report);
    match kind {
        NetworkKind::LeafSpine => {
            let [leaves, spines, hosts, uplinks] =
                ["leaves", "spines", "hosts_per_leaf", "uplinks"].map(size);
            fits(leaves + spines, leaves * hosts, (hosts + spines * uplinks).max(leaves * uplinks))?;
            Some(topology::leaf_spine(leaves, spines, hosts, uplinks))
        }
        NetworkKind::FatTree => {
            let k = size("k");
            fits(5 * k * k / 4, k * k * k / 4, k)?;
            Some(topology::fat_tree(k))
        }
        NetworkKind::Rail => {
            let [pods, servers, rails, spines] = ["pods", "servers_per_pod", "rails", "spines"].map(size);
            fits(pods * rails + spines, pods * servers * rails, (servers + spines).max(pods * rails))?;
            Some(topology::rail(pods, servers, rails, spines))
        }
        NetworkKind::Dragonfly => {
            let [a, p, h] = ["routers_per_group", "hosts_per_router", "global_links_per_router"].map(size);
            let routers = (a * h + 1) * a;
            fits(routers, routers * p, p + a - 1 + h)?;
            Some(topology::dragonfly(a, p, h))
        }
    }
}

/// Rejects a network that is too large.
fn check_size(
    switches: usize,
    hosts: usize,
    ports: usize,
    location: &SettingSpan,
    report: &mut Diagnostics,
) -> Option<()> {
    if switches > MAX_SWITCHES || hosts + switches > MAX_NODES {
        let what = format!("{switches} switches and {hosts} hosts are too many");
        let cure = format!("a scenario has at most {MAX_NODES} nodes, {MAX_SWITCHES} of them switches");
        report.add(location, what, cure);
        return None;
    }
    if ports > MAX_PORTS {
        let what = format!("a switch would have {ports} ports");
        report.add(location, what, format!("choose smaller sizes: a switch has at most {MAX_PORTS} ports"));
        return None;
    }
    Some(())
}

fn read_cable(section: &mut TableReader, kind: &str, speed_bps: u64, report: &mut Diagnostics) -> CableTable {
    let speed = section.item(&format!("{kind}_speed")).and_then(|item| speed(item, report));
    let cable_m = section.number_in(&format!("{kind}_cable_m"), CABLE_M, report);
    CableTable {
        speed_bps: speed.map_or(speed_bps, |speed| speed.value),
        cable_m: cable_m.map_or(0, |cable_m| cable_m.value),
    }
}

/// Returns the text of the configuration without ports; `None` if it cannot be read.
fn read_base(path: Option<&Setting<&str>>, load: Load, report: &mut Diagnostics) -> Option<String> {
    let Some(path) = path else { return Some(DEFAULT_CONFIG.to_owned()) };
    match load(path.value) {
        Ok(text) => Some(text + "\n"),
        Err(why) => {
            let what = format!("{} cannot be read: {why}", quoted(path.value));
            report.add(
                &path.location,
                what,
                "write the path of a configuration file, as seen from this file",
            );
            None
        }
    }
}

/// Writes the ports of a role as tables.
fn port_tables(role: &Role, host: &CableTable, fabric: &CableTable, global: &CableTable) -> String {
    let mut text = String::new();
    for &(prefix, count, cable) in &role.ports {
        let CableTable { speed_bps, cable_m } = match cable {
            Cable::Host => host,
            Cable::Fabric => fabric,
            Cable::Global => global,
        };
        let speed = spell_speed(*speed_bps);
        for port in 1..=count {
            let _ = writeln!(
                text,
                "[port.{prefix}{port}]\ninterface = \"{prefix}{port}\"\nspeed = \"{speed}\"\ncable_m = {cable_m}"
            );
        }
    }
    text
}
