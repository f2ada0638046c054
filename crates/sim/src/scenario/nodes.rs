//! `[switch.NAME]` and `[host.NAME]`, and references to nodes and ports elsewhere in the file.

use std::collections::{BTreeMap, HashMap};

use config::read::toml_document::{
    Diagnostics, Item, Setting, SettingSpan, TableReader, did_you_mean, quoted, quoted_list,
};
use config::{Config, ConfigErrors};
use switch::Nanos;
use switch::settings::VLANS;

use super::dcqcn::DcqcnTable;
use super::generate::{Generated, RoleConfig};
use super::name_ranges::Names;
use super::parse::{Load, MAX_NODES, MAX_SWITCHES, MAX_TIME_NS, text, time};
use super::types::{
    Bond, FlowHash, HASH_FIELDS, HashFields, HostNode, LinkEnd, Multipath, Node, NodeKind, SwitchNode,
};

/// The most ports of a host.
const MAX_HOST_PORTS: u8 = 8;
/// The most known names among which a suggestion is searched, and which are listed.
const MAX_LISTED: usize = 256;

/// ECMP with the default hash.
pub(super) const FLOW: Multipath = Multipath::Flow(FlowHash { fields: HashFields::DEFAULT, seed: None });

/// Values of `multipath`.
const MULTIPATHS: [(&str, Multipath); 4] = [
    ("receiver", Multipath::Receiver),
    ("flow", FLOW),
    ("spray", Multipath::Spray),
    ("adaptive", Multipath::Adaptive),
];

/// The nodes as far as the file could be read.
#[derive(Default)]
pub(super) struct Nodes {
    list: Vec<NodeTable>,
    by_name: HashMap<String, usize>,
    /// The names of the tables, including ranges.
    tables: Vec<String>,
    switches: usize,
    /// True if a table was rejected, so that an unknown name may be valid.
    refused: bool,
    /// Tables of hosts that have parameters of DCQCN: the span of these, and the nodes.
    dcqcn: Vec<(SettingSpan, Vec<usize>, DcqcnTable)>,
}

/// The table of a node, or of several nodes if it has a range.
struct NodeTable {
    name: String,
    location: SettingSpan,
    kind: TableKind,
    /// True for a node of a generated network that has no table of its own.
    is_generated: bool,
}

#[derive(Clone, Copy)]
enum TableKind {
    /// A switch and the index of its configuration in [`Devices`], if that is valid.
    Switch {
        device: Option<usize>,
        turn_ns: Nanos,
        /// `None`: that of the network.
        multipath: Option<Multipath>,
    },
    Host(HostNode),
}

/// A configuration that switches have.
struct Device {
    config: Config,
    /// Its path, as the scenario has it; empty if the network has it by default.
    file: String,
    /// The tables of ports that a generated network adds to the file.
    added_ports: String,
}

/// Configuration files, each read once.
#[derive(Default)]
pub(super) struct Devices {
    list: Vec<Device>,
    /// By path: the index in `list`, or the reason why it cannot be read, or `None` if it is
    /// invalid.
    by_path: BTreeMap<String, Result<usize, Option<String>>>,
    pub(super) mistakes: Vec<ConfigErrors>,
}

impl Devices {
    /// Returns the configuration at a path, reading it at the first call; `None` if it is invalid.
    fn get(&mut self, path: &Setting<&str>, load: Load, report: &mut Diagnostics) -> Option<usize> {
        if !self.by_path.contains_key(path.value) {
            let device = self.read(path.value, load);
            self.by_path.insert(path.value.to_owned(), device);
        }
        match self.by_path.get(path.value)? {
            Ok(device) => Some(*device),
            Err(Some(why)) => {
                let what = format!("{} cannot be read: {why}", quoted(path.value));
                report.add(
                    &path.location,
                    what,
                    "write the path of a configuration file, as seen from this file",
                );
                None
            }
            Err(None) => None,
        }
    }

    /// Reads the configurations of a generated network. Returns the index of each, `None` if it is
    /// invalid.
    fn generated(&mut self, network: &Generated, report: &mut Diagnostics) -> Vec<Option<usize>> {
        let mut devices = Vec::new();
        for (number, RoleConfig { name, file, base, added_ports, location }) in
            network.configs.iter().enumerate()
        {
            let text = format!("{base}{added_ports}");
            let (file, added_ports) = (file.clone(), added_ports.clone());
            let device = self.parse(name, &text).ok().map(|config| self.add(config, file, added_ports));
            let ports = device.map_or(0, |device| self.list[device].config.switch.ports.len());
            if device.is_some() && ports != network.port_count(number) {
                let what = "this configuration has ports, and those of the network are added to it";
                report.add(location, what, "leave its ports out");
            }
            devices.push(device);
        }
        devices
    }

    fn add(&mut self, config: Config, file: String, added_ports: String) -> usize {
        self.list.push(Device { config, file, added_ports });
        self.list.len() - 1
    }

    fn read(&mut self, path: &str, load: Load) -> Result<usize, Option<String>> {
        let text = load(path).map_err(Some)?;
        let config = self.parse(path, &text)?;
        Ok(self.add(config, path.to_owned(), String::new()))
    }

    fn parse(&mut self, path: &str, text: &str) -> Result<Config, Option<String>> {
        let mut config = config::parse(path, text).map_err(|mistakes| {
            self.mistakes.push(mistakes);
            None
        })?;
        if !config.pfc_enabled {
            config.switch = config.switch.without_pfc();
        }
        Ok(config)
    }
}

impl Nodes {
    /// Reads the tables of all nodes: switches first, then hosts, each in the order of the file.
    /// Beside a generated network, `paths` is what its switches have without `multipath`.
    pub(super) fn read(
        file: &mut TableReader,
        (generated, paths): (Option<&Generated>, Multipath),
        devices: &mut Devices,
        load: Load,
        report: &mut Diagnostics,
    ) -> Self {
        let mut nodes = Self { refused: generated.is_none() && file.has("network"), ..Self::default() };
        if let Some(network) = generated {
            nodes.add_switches(network, devices, report);
        }
        if let Some(mut switches) = file.section("switch", report) {
            for (name, section) in switches.sections(report) {
                let location = section.location.clone();
                let most = MAX_SWITCHES - nodes.switches;
                let Some(names) = nodes.names(name, &location, (MAX_SWITCHES, most), report) else {
                    continue;
                };
                let of_network: Vec<usize> = names.iter().filter_map(|name| nodes.generated(&name)).collect();
                if of_network.len() == names.len() {
                    nodes.refine_switches(&of_network, section, paths, report);
                    continue;
                }
                if !of_network.is_empty() {
                    nodes.report_other(&names, &location, report);
                    continue;
                }
                nodes.switches += names.len();
                let kind = read_switch(section, paths, devices, load, report);
                nodes.add(&names, &location, kind, report);
            }
        }
        if let Some(network) = generated {
            let kind = TableKind::Host(HostNode::DEFAULT);
            network.hosts().iter().for_each(|name| {
                nodes.add_generated(name, &network.location, kind, report);
            });
        }
        if let Some(mut hosts) = file.section("host", report) {
            for (name, mut section) in hosts.sections(report) {
                let location = section.location.clone();
                let most = MAX_NODES - nodes.list.len();
                let Some(names) = nodes.names(name, &location, (MAX_NODES, most), report) else {
                    continue;
                };
                let dcqcn = section.location_of("dcqcn").zip(DcqcnTable::of_host(&mut section, report));
                let kind = read_host(section, report);
                let added = nodes.add(&names, &location, kind, report);
                if let Some((location, parameters)) = dcqcn {
                    nodes.dcqcn.push((location, added, parameters));
                }
            }
        }
        if !file.has("host") && !file.has("network") {
            report.add(
                &file.location,
                "no host",
                "write [host.NAME] for each, or [host.\"h[1-64]\"] for several",
            );
        }
        nodes
    }

    /// Returns the names of a table: at most `all`, and at most `new` of nodes that are not there
    /// yet.
    fn names(
        &mut self,
        name: &str,
        location: &SettingSpan,
        (all, new): (usize, usize),
        report: &mut Diagnostics,
    ) -> Option<Names> {
        let is_new = |name: &String| !self.by_name.contains_key(name);
        let names = table_names(name, all).and_then(|names| match names.iter().filter(is_new).count() {
            count if count > new => Err(too_many(count)),
            _ => Ok(names),
        });
        match names {
            Ok(names) => {
                self.tables.push(name.to_owned());
                Some(names)
            }
            Err((what, cure)) => {
                self.refused = true;
                report.add(location, what, cure);
                None
            }
        }
    }

    /// Adds the switches of a generated network.
    fn add_switches(&mut self, network: &Generated, devices: &mut Devices, report: &mut Diagnostics) {
        let configs = devices.generated(network, report);
        for (name, config) in network.switches() {
            let kind = TableKind::Switch { device: configs[*config], turn_ns: 0, multipath: None };
            self.add_generated(name, &network.location, kind, report);
        }
        self.switches = network.switches().len();
    }

    fn add_generated(
        &mut self,
        name: &str,
        location: &SettingSpan,
        kind: TableKind,
        report: &mut Diagnostics,
    ) {
        if let Some(node) = self.add_one(name.to_owned(), location, kind, report) {
            self.list[node].is_generated = true;
        }
    }

    /// Finds a node of a generated network that has no table of its own yet.
    fn generated(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied().filter(|node| self.list[*node].is_generated)
    }

    /// Reports the first switch of a table that is not of the generated network, as others are.
    fn report_other(&mut self, names: &Names, location: &SettingSpan, report: &mut Diagnostics) {
        let Some(name) = names.iter().find(|name| self.generated(name).is_none()) else { return };
        self.refused = true;
        match self.by_name.get(&name) {
            Some(node) => {
                let what = format!("{name} is in {} already", self.list[*node].location.setting);
                report.add(location, what, "give each switch one table");
            }
            None => {
                let cure = "write the names of its switches only, or give the others a table of their own";
                report.add(location, format!("the network has no switch {name}"), cure);
            }
        }
    }

    /// Reads the table of switches of a generated network, which has their configuration.
    fn refine_switches(
        &mut self,
        switches: &[usize],
        mut section: TableReader,
        of_network: Multipath,
        report: &mut Diagnostics,
    ) {
        if let Some(location) = section.location_of("config") {
            let cure = "write it into [network], or config = { ROLE = \"…\" } there for switches of a role";
            report.add(&location, "the network has the configuration of its switches", cure);
            section.item("config");
        }
        let turn = section.item("turn").and_then(|item| time(item, 0..=MAX_TIME_NS, report));
        let own_multipath = read_multipath(&mut section, of_network, report).map(|choice| choice.value);
        let location = section.location.clone();
        section.finish(report);
        for &node in switches {
            let table = &mut self.list[node];
            if let TableKind::Switch { turn_ns, multipath, .. } = &mut table.kind {
                (*turn_ns, *multipath) = (turn.as_ref().map_or(0, |turn| turn.value), own_multipath);
            }
            (table.location, table.is_generated) = (location.clone(), false);
        }
    }

    /// Adds the nodes of a table. Returns them.
    fn add(
        &mut self,
        names: &Names,
        location: &SettingSpan,
        kind: TableKind,
        report: &mut Diagnostics,
    ) -> Vec<usize> {
        names.iter().map_while(|name| self.add_one(name, location, kind, report)).collect()
    }

    /// Adds a node, or gives a host of a generated network its own settings. `None` if there is
    /// another of this name.
    fn add_one(
        &mut self,
        name: String,
        location: &SettingSpan,
        kind: TableKind,
        report: &mut Diagnostics,
    ) -> Option<usize> {
        let Some(first) = self.by_name.get(&name).copied() else {
            self.by_name.insert(name.clone(), self.list.len());
            self.list.push(NodeTable { name, location: location.clone(), kind, is_generated: false });
            return Some(self.list.len() - 1);
        };
        let table = &mut self.list[first];
        match kind {
            TableKind::Host(host) if table.is_generated && matches!(table.kind, TableKind::Host(_)) => {
                if host.ports > 1 {
                    let what = format!("{name} is a host of the network, which gives it one port");
                    report.add(location, what, "leave ports out");
                }
                (table.location, table.kind, table.is_generated) = (location.clone(), kind, false);
                Some(first)
            }
            _ => {
                let what = format!("{name} is in {} already", table.location.setting);
                report.add(location, what, "give each switch and host a name of its own");
                None
            }
        }
    }

    /// The parameters of DCQCN of a host, if its table has some.
    pub(super) fn dcqcn(&self, node: usize) -> Option<DcqcnTable> {
        let table = self.dcqcn.iter().find(|(_, nodes, _)| nodes.contains(&node))?;
        Some(table.2)
    }

    /// Rejects parameters of DCQCN of hosts, none of which uses them.
    pub(super) fn reject_unused_dcqcn(&self, uses: impl Fn(usize) -> bool, report: &mut Diagnostics) {
        if !report.is_empty() {
            return; // a traffic that could not be read may use them
        }
        for (location, nodes, _) in &self.dcqcn {
            if !nodes.iter().copied().any(&uses) {
                let cure = "write dcqcn = true into a [[traffic]] from there, or leave it out";
                report.add(location, "has no effect: no traffic with dcqcn is sent from there", cure);
            }
        }
    }

    /// The number of nodes.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn name(&self, node: usize) -> &str {
        &self.list[node].name
    }

    /// The span of a node's table.
    pub(super) fn location(&self, node: usize) -> &SettingSpan {
        &self.list[node].location
    }

    pub(super) fn is_host(&self, node: usize) -> bool {
        matches!(self.list[node].kind, TableKind::Host(_))
    }

    /// The fewest links of a node: one for each port of a host, one for a switch.
    pub(super) fn least_links(&self, node: usize) -> usize {
        match self.list[node].kind {
            TableKind::Host(host) => host.ports.into(),
            TableKind::Switch { .. } => 1,
        }
    }

    /// True if the table of a switch chooses among paths.
    pub(super) fn has_multipath(&self, node: usize) -> bool {
        matches!(self.list[node].kind, TableKind::Switch { multipath: Some(_), .. })
    }

    /// The name of an end: `h1`, or `leaf1.p3`.
    pub(super) fn end_name(&self, end: LinkEnd, devices: &Devices) -> String {
        let name = self.name(end.node);
        match (self.device(end.node, devices), self.list[end.node].kind) {
            (Some(device), _) => format!("{name}.{}", device.switch.ports[end.port].name),
            (None, TableKind::Host(host)) => host.end_name(name, end.port),
            (None, TableKind::Switch { .. }) => name.to_owned(),
        }
    }

    /// The configuration of a switch, if it is valid.
    pub(super) fn device<'n>(&self, node: usize, devices: &'n Devices) -> Option<&'n Config> {
        match self.list[node].kind {
            TableKind::Switch { device, .. } => devices.list.get(device?).map(|device| &device.config),
            TableKind::Host(_) => None,
        }
    }

    /// The name of an end that is a port which its switch's configuration takes down.
    pub(super) fn admin_down_port(&self, end: LinkEnd, devices: &Devices) -> Option<String> {
        let is_up = self.device(end.node, devices)?.admin_up.get(end.port)?;
        (!is_up).then(|| self.end_name(end, devices))
    }

    /// True if there is a switch of this name with a valid configuration.
    pub(super) fn has_device(&self, name: &str, devices: &Devices) -> bool {
        self.by_name.get(name).is_some_and(|node| self.device(*node, devices).is_some())
    }

    /// Finds the node of this name.
    fn find(&self, name: &str, location: &SettingSpan, report: &mut Diagnostics) -> Option<usize> {
        let node = self.by_name.get(name).copied();
        if node.is_none() && !self.refused {
            report.add_lazily(location, || {
                let names: Vec<&str> = self.list.iter().map(|node| node.name.as_str()).collect();
                let tables: Vec<&str> = self.tables.iter().map(String::as_str).collect();
                let cure = meant(name, &names, &tables, "define it as [switch.NAME] or [host.NAME]");
                (format!("there is no node {}", quoted(name)), cure)
            });
        }
        node
    }

    /// Finds the host of this name.
    pub(super) fn host(&self, name: &str, location: &SettingSpan, report: &mut Diagnostics) -> Option<usize> {
        let node = self.find(name, location, report)?;
        if !self.is_host(node) {
            report.add(location, format!("{name} is a switch"), "write the name of a host");
            return None;
        }
        Some(node)
    }

    /// Finds the switch of this name.
    pub(super) fn switch(
        &self,
        name: &str,
        location: &SettingSpan,
        report: &mut Diagnostics,
    ) -> Option<usize> {
        let node = self.find(name, location, report)?;
        if self.is_host(node) {
            report.add(location, format!("{name} is a host"), "write the name of a switch");
            return None;
        }
        Some(node)
    }

    /// Finds the port of this name, of a switch.
    pub(super) fn port(
        &self,
        switch: usize,
        name: &str,
        location: &SettingSpan,
        devices: &Devices,
        report: &mut Diagnostics,
    ) -> Option<LinkEnd> {
        // Mistakes in its configuration have been reported.
        let ports = &self.device(switch, devices)?.switch.ports;
        let port = ports.iter().position(|port| port.name == name);
        if port.is_none() {
            let what = format!("{} has no port {}", self.name(switch), quoted(name));
            let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
            report.add(location, what, meant(name, &names, &names, ""));
        }
        Some(LinkEnd { node: switch, port: port? })
    }

    /// Finds the end of a link: `HOST`, `HOST.NUMBER` where a host has several ports, or
    /// `SWITCH.PORT`.
    pub(super) fn end(
        &self,
        name: &str,
        location: &SettingSpan,
        devices: &Devices,
        report: &mut Diagnostics,
    ) -> Option<LinkEnd> {
        let (node_name, port) = name.split_once('.').map_or((name, None), |(node, port)| (node, Some(port)));
        let node = self.find(node_name, location, report)?;
        match (port, self.list[node].kind) {
            (port, TableKind::Host(host)) => {
                let port = host_port(&host, node_name, port, location, report)?;
                Some(LinkEnd { node, port })
            }
            (Some(port), _) => self.port(node, port, location, devices, report),
            (None, _) => {
                let what = format!("{node_name} is a switch with several ports");
                report.add(location, what, format!("write \"{node_name}.PORT\""));
                None
            }
        }
    }

    /// Builds the nodes, whose configurations must be valid. Switches without a choice of paths of
    /// their own have that of the network.
    pub(super) fn build(&self, devices: &Devices, of_network: Multipath) -> Vec<Node> {
        let kind = |kind| match kind {
            TableKind::Host(host) => Some(NodeKind::Host(host)),
            TableKind::Switch { device, turn_ns, multipath } => {
                let Device { config, file, added_ports } = devices.list.get(device?)?;
                let (file, added_ports) = (file.clone(), added_ports.clone());
                let multipath = multipath.unwrap_or(of_network);
                let node = SwitchNode::new(config.clone(), turn_ns);
                Some(NodeKind::Switch(Box::new(SwitchNode { file, added_ports, multipath, ..node })))
            }
        };
        let node = |node: &NodeTable| Some(Node { name: node.name.clone(), kind: kind(node.kind)? });
        self.list.iter().filter_map(node).collect()
    }
}

/// Returns the port of a host that the file calls `name`, or `name.port`.
fn host_port(
    host: &HostNode,
    name: &str,
    port: Option<&str>,
    location: &SettingSpan,
    report: &mut Diagnostics,
) -> Option<usize> {
    let ports = host.ports;
    let (what, cure) = match port {
        None if ports == 1 => return Some(0),
        None => (
            format!("{name} is a host with {ports} ports"),
            format!("write \"{name}.1\" to \"{name}.{ports}\""),
        ),
        Some(_) if ports == 1 => {
            (format!("{name} is a host and has one port, without a name"), format!("write \"{name}\""))
        }
        Some(port) => match port.parse().ok().filter(|number| (1..=usize::from(ports)).contains(number)) {
            Some(number) => return Some(number - 1),
            None => {
                let what = format!("{name} has no port {}", quoted(port));
                (what, format!("write \"{name}.1\" to \"{name}.{ports}\""))
            }
        },
    };
    report.add(location, what, cure);
    None
}

/// Returns the names that a table stands for, or the problem and its remedy.
fn table_names(name: &str, most: usize) -> Result<Names, (String, String)> {
    let names = Names::parse(name)?;
    if name.contains('.') {
        let cure = "leave it out: it stands before a port's name";
        return Err((format!("{} has a '.'", quoted(name)), cure.to_owned()));
    }
    if names.len() > most {
        return Err(too_many(names.len()));
    }
    Ok(names)
}

/// Returns the problem that a table adds too many nodes, and its remedy.
fn too_many(nodes: usize) -> (String, String) {
    let cure = format!("a scenario has at most {MAX_NODES} nodes, {MAX_SWITCHES} of them switches");
    (format!("{nodes} more nodes are too many"), cure)
}

fn read_switch(
    mut section: TableReader,
    of_network: Multipath,
    devices: &mut Devices,
    load: Load,
    report: &mut Diagnostics,
) -> TableKind {
    const CURE: &str = "write config = \"…\", the path of a daemon's configuration file";
    let item = section.item("config");
    if item.is_none() {
        report.add(&section.location, "no config", CURE);
    }
    let path = item.and_then(|item| text(item, CURE, report));
    let turn = section.item("turn").and_then(|item| time(item, 0..=MAX_TIME_NS, report));
    let multipath = read_multipath(&mut section, of_network, report).map(|choice| choice.value);
    section.finish(report);
    let device = path.and_then(|path| devices.get(&path, load, report));
    TableKind::Switch { device, turn_ns: turn.map_or(0, |turn| turn.value), multipath }
}

/// Reads the choice among paths of the scenario or of a switch; `None` if the table has none.
/// `default` is what it has without: its hash, too, is refined.
pub(super) fn read_multipath(
    table: &mut TableReader,
    default: Multipath,
    report: &mut Diagnostics,
) -> Option<Setting<Multipath>> {
    let is_set = table.has("multipath");
    let choice = table.choice("multipath", &MULTIPATHS, report);
    let is_unknown = is_set && choice.is_none(); // is reported
    let fields = table.item("hash_fields").and_then(|item| read_hash_fields(item, report));
    let seed = table.number_in("hash_seed", 0..=i64::MAX as u64, report);
    let of_hash = fields.as_ref().map(|set| &set.location).or(seed.as_ref().map(|set| &set.location));
    let location = choice.as_ref().map(|set| &set.location).or(of_hash)?.clone();
    let value = match (choice.map_or(default, |choice| choice.value), default, of_hash) {
        (Multipath::Flow(own), default, _) => {
            let hash = if let Multipath::Flow(hash) = default { hash } else { own };
            let fields = fields.map_or(hash.fields, |set| set.value);
            Multipath::Flow(FlowHash { fields, seed: seed.map(|set| set.value).or(hash.seed) })
        }
        (other, _, Some(location)) if !is_unknown => {
            let cure = "leave it out, or write multipath = \"flow\" (not with forwarding = \"learn\")";
            report.add(location, "has no effect without a hash", cure);
            other
        }
        (other, ..) => other,
    };
    Some(Setting { value, location })
}

/// Reads the fields of a hash: at least one, and none twice.
fn read_hash_fields(item: Item, report: &mut Diagnostics) -> Option<Setting<HashFields>> {
    let cure = format!("write a list of {}", quoted_list(&HASH_FIELDS, ", "));
    let location = item.location.clone();
    let Some(list) = item.list() else { return item.wrong_type(&cure, report) };
    if list.is_empty() {
        report.add(&location, "no field", cure);
        return None;
    }
    let mut fields = 0;
    for element in list {
        let name = element.string_or(&cure, report)?;
        let Some(field) = HASH_FIELDS.iter().position(|field| *field == name.value) else {
            let cure = did_you_mean(name.value, &HASH_FIELDS).unwrap_or(cure);
            report.add(&name.location, format!("unknown field {}", quoted(name.value)), cure);
            return None;
        };
        if fields & 1 << field != 0 {
            report.add(&name.location, format!("{} twice", quoted(name.value)), "write it once");
        }
        fields |= 1 << field;
    }
    Some(Setting { value: HashFields(fields), location })
}

fn read_host(mut section: TableReader, report: &mut Diagnostics) -> TableKind {
    let no_drop = section.numbers_in("no_drop", 0..=7, report).map_or(0xff, |list| mask(&list.value));
    let honors_pause = section.boolean("obeys_pause", report).is_none_or(|honors| honors.value);
    let ways = [("willing", Some(true)), ("unwilling", Some(false)), ("off", None)];
    let willing = section.choice("dcbx", &ways, report).and_then(|way| way.value);
    let ports = section.number_in("ports", 1..=MAX_HOST_PORTS, report).map_or(1, |ports| ports.value);
    let bonds = [("active-backup", Bond::ActiveBackup), ("balance-xor", Bond::BalanceXor)];
    let bond = section.choice("bond", &bonds, report);
    if let (Some(bond), 1) = (&bond, ports) {
        report.add(&bond.location, "has no effect with one port", "write ports = 2, or leave it out");
    }
    let bond = bond.map_or(Bond::ActiveBackup, |bond| bond.value);
    let vlan = section.number_in("vlan", VLANS, report).map(|vlan| vlan.value);
    section.finish(report);
    TableKind::Host(HostNode { no_drop, willing, honors_pause, ports, bond, vlan })
}

/// Converts a list of priorities to a mask: bit p is set if priority p is in the list.
pub(super) fn mask(priorities: &[u8]) -> u8 {
    priorities.iter().fold(0, |mask, priority| mask | 1 << priority)
}

/// Returns the remedy for a name that is not among `names`: the likely intended one, or else a
/// short list of the known ones.
pub(super) fn meant(name: &str, names: &[&str], in_short: &[&str], none: &str) -> String {
    let known = if names.len() <= MAX_LISTED { names } else { in_short };
    if known.is_empty() || known.len() > MAX_LISTED {
        return none.to_owned();
    }
    did_you_mean(name, known).unwrap_or_else(|| format!("known: {}", in_short.join(", ")))
}
