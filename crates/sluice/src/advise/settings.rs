//! The configurations of a scenario, the settings that the search changes in them, and the lines
//! that a user writes.

use std::fmt::{Display, Formatter};

use anyhow::{Result, anyhow};
use config::Config;
use schemars::JsonSchema;
use serde::Serialize;
use sim::Scenario;
use sim::scenario::NodeKind;
use switch::SwitchSettings;
use switch::settings::{BufferSettings, Threshold, WredSettings};
use toml_edit::Key;
use wire::bitset::Set8;

use crate::sim::overrides::Override;

/// Lines of configuration.
#[derive(Serialize, JsonSchema)]
pub struct FileLines {
    /// The configuration, as the scenario names it.
    pub file: String,
    /// Tables and settings; none if the file is best as it is.
    pub lines: Vec<String>,
}

/// One configuration that switches of the scenario have.
pub struct Device {
    /// Its path, as the scenario has it.
    pub file: String,
    /// The settings of its switches: one, or one for each kind of switches of a generated network.
    kinds: Vec<SwitchSettings>,
    /// True if the file has no ports of its own, so that no setting of one port can be written.
    lacks_ports: bool,
    /// The tables that mark.
    marking: Vec<Marking>,
}

/// A queue of a WRED table, or a queue profile, that marks.
#[derive(Debug, PartialEq)]
struct Marking {
    table: String,
    /// Names of its limits.
    low: &'static str,
    high: &'static str,
    /// True if the file does not have it: then it is written as a whole.
    is_built_in: bool,
}

/// A choice of thresholds; `None` leaves what the file has.
#[derive(Clone, Copy, Default, PartialEq)]
pub struct Choice {
    /// What the headroom of groups, and its pool, is multiplied by.
    pub headroom_factor: Option<u32>,
    /// XOFF is the shared area divided by this.
    pub xoff_divisor: Option<u32>,
    /// Marks begin at XOFF divided by this.
    pub ecn_divisor: Option<u32>,
}

impl Display for Choice {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        let headroom = self.headroom_factor.map(|factor| format!("headroom × {factor}"));
        let xoff = self.xoff_divisor.map(|divisor| format!("XOFF = shared / {divisor}"));
        let ecn = self.ecn_divisor.map(|divisor| format!("ECN from XOFF / {divisor}"));
        let parts: Vec<String> = [headroom, xoff, ecn].into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

/// Reads what there is to search in a scenario; `text_of` returns the text of a configuration.
///
/// # Errors
/// A switch has no configuration file, or nothing is no-drop.
pub fn devices(scenario: &Scenario, text_of: impl Fn(&str) -> Result<String>) -> Result<Vec<Device>> {
    let mut devices: Vec<Device> = Vec::new();
    for node in &scenario.nodes {
        let NodeKind::Switch(switch) = &node.kind else { continue };
        if switch.file.is_empty() {
            return Err(anyhow!("{} has no configuration: write `config` into [network]", node.name));
        }
        if let Some(device) = devices.iter_mut().find(|device| device.file == switch.file) {
            if !device.kinds.contains(&switch.settings) {
                device.kinds.push(switch.settings.clone());
            }
            continue;
        }
        // All kinds mark by the same tables: those of the file.
        let text = format!("{}\n{}", text_of(&switch.file)?, switch.added_ports);
        let config = config::parse(&switch.file, &text)?;
        let (file, lacks_ports) = (switch.file.clone(), !switch.added_ports.is_empty());
        let kinds = vec![switch.settings.clone()];
        devices.push(Device { file, kinds, lacks_ports, marking: marking(&config) });
    }
    if devices.iter().all(|device| device.no_drop() == 0) {
        return Err(anyhow!("no priority is no-drop: there are no thresholds of PFC to search"));
    }
    Ok(devices)
}

/// Returns the tables by which queues of ports mark, each once.
fn marking(config: &Config) -> Vec<Marking> {
    let mut found = Vec::new();
    for (number, port) in config.switch.ports.iter().enumerate() {
        for (queue, settings) in port.queues.iter().enumerate() {
            let Some(wred) = settings.wred.filter(|wred| wred.ecn) else { continue };
            let marking = marking_of(config, number, queue, wred);
            found.extend(marking.filter(|marking| !found.contains(marking)));
        }
    }
    found
}

/// Returns the table that a queue of a port has its marks from: the one it binds that says so.
fn marking_of(config: &Config, port: usize, queue: usize, wred: WredSettings) -> Option<Marking> {
    let bindings = config.profiles.bindings.get(port)?;
    let named = |name: &String| config.profiles.queue.iter().find(|profile| profile.name == *name);
    if let Some(profile) = bindings.queue[queue].as_ref().and_then(named)
        && profile.wred == Some(wred)
    {
        return Some(Marking {
            table: format!("queue-profile.{}", Key::new(&profile.name)),
            low: "min_threshold_cells",
            high: "max_threshold_cells",
            is_built_in: profile.is_built_in,
        });
    }
    let table = format!("wred.{}.queue.{queue}", Key::new(bindings.wred.as_ref()?));
    Some(Marking { table, low: "low_cells", high: "high_cells", is_built_in: false })
}

/// Returns how far a group fills its pool until it is in XOFF, if it is the only one there.
fn reached_alone(xoff: Threshold, pool_cells: u32) -> u32 {
    let (mut least, mut most) = (0, pool_cells);
    while least < most {
        let cells = most - (most - least) / 2;
        match xoff.cells(pool_cells - cells) >= cells {
            true => least = cells,
            false => most = cells - 1,
        }
    }
    least
}

/// A setting: its table, its name and its value.
type TableSetting = (String, String, String);

impl Device {
    /// True if a queue marks.
    pub fn marks(&self) -> bool {
        !self.marking.is_empty()
    }

    /// No-drop priorities of any port.
    fn no_drop(&self) -> u8 {
        self.ports().fold(0, |mask, port| mask | port.pfc.no_drop)
    }

    /// The ports of all kinds of switches.
    fn ports(&self) -> impl Iterator<Item = &switch::PortSettings> {
        self.kinds.iter().flat_map(|settings| &settings.ports)
    }

    /// Returns the headroom pool of a choice: that of the kind which has most, since the file has
    /// one.
    fn pool_cells(&self, choice: Choice) -> u32 {
        let most = self.kinds.iter().map(|settings| settings.buffer.headroom_cells).max();
        multiplied(most.unwrap_or(0), choice)
    }

    /// Returns the buffer of a kind with the headroom of a choice.
    fn buffer(&self, settings: &SwitchSettings, choice: Choice) -> BufferSettings {
        match choice.headroom_factor {
            Some(_) => BufferSettings { headroom_cells: self.pool_cells(choice), ..settings.buffer },
            None => settings.buffer,
        }
    }

    /// Returns XOFF of a choice; if it is that of the file, the least that a group reaches alone.
    fn xoff_cells(&self, choice: Choice) -> u32 {
        let cells = |settings: &SwitchSettings| {
            let buffer = self.buffer(settings, choice);
            if let Some(divisor) = choice.xoff_divisor {
                return buffer.shared_cells() / divisor;
            }
            let pools = buffer.ingress_pools();
            let groups = settings.ports.iter().flat_map(|port| {
                Set8::from_bits(port.pfc.no_drop).into_iter().map(|priority| port.groups[priority])
            });
            let reached = groups.map(|group| reached_alone(group.xoff, pools[usize::from(group.pool & 3)]));
            reached.min().unwrap_or(1)
        };
        self.kinds.iter().map(cells).min().unwrap_or(1).max(1)
    }

    /// Returns the settings of a choice.
    fn settings(&self, choice: Choice) -> Vec<TableSetting> {
        let mut settings = Vec::new();
        if choice.headroom_factor.is_some() {
            let pool = self.pool_cells(choice).to_string();
            settings.push(("buffer".to_owned(), "headroom_cells".to_owned(), pool));
        }
        for priority in Set8::from_bits(self.no_drop()) {
            if choice.headroom_factor.is_some() {
                settings.extend(self.headroom(priority, choice));
            }
            if choice.xoff_divisor.is_some() {
                let table = format!("port-defaults.pfc.priority.{priority}");
                let xoff = format!("{{ static_cells = {} }}", self.xoff_cells(choice));
                settings.push((table, "xoff".to_owned(), xoff));
            }
        }
        settings.extend(self.limits(choice));
        settings
    }

    /// Returns the headroom of a priority: once for all ports, or of each port if they differ. A
    /// file without ports has that of the port with most.
    fn headroom(&self, priority: usize, choice: Choice) -> Vec<TableSetting> {
        let is_no_drop = |port: &&switch::PortSettings| port.pfc.no_drop & (1 << priority) != 0;
        let ports = self.ports().filter(is_no_drop);
        let of_ports: Vec<(&str, u32)> =
            ports.map(|port| (port.name.as_str(), self.headroom_cells(port, priority, choice))).collect();
        let of_table = |table: String, cells: u32| {
            (format!("{table}.pfc.priority.{priority}"), "headroom_cells".to_owned(), cells.to_string())
        };
        if of_ports.windows(2).all(|pair| pair[0].1 == pair[1].1) {
            let first = of_ports.first();
            return first
                .map(|(_, cells)| of_table("port-defaults".to_owned(), *cells))
                .into_iter()
                .collect();
        }
        let own = of_ports.into_iter();
        own.map(|(name, cells)| of_table(format!("port.{}", Key::new(name)), cells)).collect()
    }

    /// Returns the headroom of a port's priority with a choice.
    fn headroom_cells(&self, port: &switch::PortSettings, priority: usize, choice: Choice) -> u32 {
        let own = port.groups[priority].headroom_cells;
        let most = self.ports().filter(|port| port.pfc.no_drop & (1 << priority) != 0);
        let most = most.map(|port| port.groups[priority].headroom_cells).max().unwrap_or(own);
        let is_shared = self.lacks_ports && choice.headroom_factor.is_some();
        multiplied(if is_shared { most } else { own }, choice)
    }

    /// Returns the limits of marks.
    fn limits(&self, choice: Choice) -> Vec<TableSetting> {
        let Some(divisor) = choice.ecn_divisor else { return Vec::new() };
        let xoff_cells = self.xoff_cells(choice);
        let low = (xoff_cells / divisor).max(1);
        let high = (u64::from(xoff_cells) * 4 / u64::from(divisor)).max(1);
        let mut settings = Vec::new();
        for Marking { table, low: low_name, high: high_name, is_built_in } in &self.marking {
            if *is_built_in {
                settings.push((table.clone(), "action".to_owned(), "\"ecn\"".to_owned()));
            }
            let colors = if *is_built_in { &["green", "yellow", "red"][..] } else { &["green"] };
            for color in colors {
                let table = format!("{table}.{color}");
                settings.push((table.clone(), (*low_name).to_owned(), low.to_string()));
                settings.push((table, (*high_name).to_owned(), high.to_string()));
            }
        }
        settings
    }

    /// Returns the choice as options of `sluice sim`.
    pub fn options(&self, choice: Choice) -> Vec<String> {
        let settings = self.settings(choice).into_iter();
        settings.map(|(table, name, value)| format!("{}:{table}.{name}={value}", self.file)).collect()
    }

    /// Returns the choice as lines of the file.
    pub fn lines(&self, choice: Choice) -> FileLines {
        let (mut lines, mut last) = (Vec::new(), String::new());
        for (table, name, value) in self.settings(choice) {
            if table != last {
                lines.push(format!("[{table}]"));
            }
            lines.push(format!("{name} = {value}"));
            last = table;
        }
        FileLines { file: self.file.clone(), lines }
    }

    /// Checks that a choice reaches every port: one with thresholds of its own would keep them.
    pub fn check(&self, scenario: &Scenario, choice: Choice) -> Result<(), String> {
        for node in &scenario.nodes {
            let NodeKind::Switch(switch) = &node.kind else { continue };
            if switch.file != self.file {
                continue;
            }
            let names = |settings: &SwitchSettings| {
                settings.ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>()
            };
            let of_node = names(&switch.settings);
            let Some(kind) = self.kinds.iter().find(|kind| names(kind) == of_node) else { continue };
            for (port, own) in switch.settings.ports.iter().zip(&kind.ports) {
                for priority in Set8::from_bits(port.pfc.no_drop) {
                    let group = &port.groups[priority];
                    let headroom_cells = self.headroom_cells(own, priority, choice);
                    let other_xoff = choice.xoff_divisor.is_some()
                        && group.xoff != Threshold::Static(self.xoff_cells(choice));
                    if other_xoff || group.headroom_cells != headroom_cells {
                        return Err(format!(
                            "{}: port {} has thresholds of priority {priority} of its own, or a profile: move \
                             them to [port-defaults.pfc.priority.{priority}]",
                            self.file, port.name
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns headroom with a choice.
fn multiplied(cells: u32, choice: Choice) -> u32 {
    cells.saturating_mul(choice.headroom_factor.unwrap_or(1))
}

/// Parses options of `sluice sim`.
pub fn overrides(options: &[String]) -> Result<Vec<Override>> {
    options
        .iter()
        .map(|option| option.parse().map_err(|error: String| anyhow!("{option}: {error}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ports whose priority 3 is no-drop. One third of the buffer is fixed.
    const CONFIG: &str = "
[buffer]
total_cells = 96000
fixed_cells = 31000
headroom_cells = 1000
[port-defaults]
wred = \"a\"
[port-defaults.pfc]
mode = \"on\"
no_drop = [3]
[port-defaults.pfc.priority.3]
headroom_cells = 400
xoff = { static_cells = 800 }
[wred.a.queue.3]
ecn = true
[wred.b.queue.2]
ecn = false
[port.p1]
interface = \"i1\"
[port.\"p.2\"]
interface = \"i2\"
";

    fn device(text: &str) -> Device {
        let config = config::parse("leaf.toml", text).unwrap();
        let marking = marking(&config);
        Device { file: "leaf.toml".to_owned(), kinds: vec![config.switch], lacks_ports: false, marking }
    }

    #[test]
    fn a_choice_becomes_lines() {
        let device = device(CONFIG);
        assert!(device.marks());
        let choice = Choice { headroom_factor: Some(2), xoff_divisor: Some(16), ecn_divisor: Some(8) };
        // The shared area is what fixed cells and the larger headroom leave: 63,000 cells.
        let expected = [
            "[buffer]",
            "headroom_cells = 2000",
            "[port-defaults.pfc.priority.3]",
            "headroom_cells = 800",
            "xoff = { static_cells = 3937 }",
            "[wred.a.queue.3.green]",
            "low_cells = 492",
            "high_cells = 1968",
        ];
        assert_eq!(device.lines(choice).lines, expected);
        assert_eq!(choice.to_string(), "headroom × 2, XOFF = shared / 16, ECN from XOFF / 8");
        assert_eq!(
            device.options(choice)[2],
            "leaf.toml:port-defaults.pfc.priority.3.xoff={ static_cells = 3937 }"
        );
        assert_eq!(overrides(&device.options(choice)).unwrap().len(), 5);
        assert!(device.lines(Choice::default()).lines.is_empty());
    }

    #[test]
    fn ports_that_differ_keep_their_own_headroom() {
        let device = device(&format!("{CONFIG}pfc = {{ priority.3.headroom_cells = 100 }}\n"));
        let choice = Choice { headroom_factor: Some(2), ..Choice::default() };
        let expected = [
            "[buffer]",
            "headroom_cells = 2000",
            "[port.p1.pfc.priority.3]",
            "headroom_cells = 800",
            "[port.\"p.2\".pfc.priority.3]",
            "headroom_cells = 200",
        ];
        assert_eq!(device.lines(choice).lines, expected);
    }

    /// A file without ports has one headroom, that of the port with most, and the pool of the kind
    /// with most; XOFF is a part of the least shared area.
    #[test]
    fn kinds_of_switches_have_one_file() {
        let own = format!("{CONFIG}pfc = {{ priority.3.headroom_cells = 100 }}\n");
        let [small, large] = [own.replace("1000", "600"), own].map(|text| device(&text));
        let kinds = [small.kinds, large.kinds].concat();
        let device = Device { kinds, lacks_ports: true, ..large };
        let choice = Choice { headroom_factor: Some(2), xoff_divisor: Some(16), ecn_divisor: None };
        let expected = [
            "[buffer]",
            "headroom_cells = 2000",
            "[port-defaults.pfc.priority.3]",
            "headroom_cells = 800",
            "xoff = { static_cells = 3937 }",
        ];
        assert_eq!(device.lines(choice).lines, expected);
        let choice = Choice { headroom_factor: None, ..choice };
        assert_eq!(device.lines(choice).lines[1], "xoff = { static_cells = 4000 }");
    }

    /// Without another XOFF, marks begin at a part of that of the file.
    #[test]
    fn queue_profiles_mark_too() {
        let choice = Choice { ecn_divisor: Some(8), ..Choice::default() };
        let bound = CONFIG.replace("wred = \"a\"", "queue_profile = { gentle = [3] }");
        let own = device(&format!("{bound}[queue-profile.gentle]\naction = \"ecn\"\n"));
        let expected =
            ["[queue-profile.gentle.green]", "min_threshold_cells = 100", "max_threshold_cells = 400"];
        assert_eq!(own.lines(choice).lines, expected);
        let built_in = device(&bound.replace("gentle", "AZURE_LOSSLESS"));
        let lines = built_in.lines(choice).lines;
        assert_eq!((lines.len(), lines[1].as_str()), (11, "action = \"ecn\""), "{lines:?}");
        assert!(!device(&bound.replace("queue_profile = { gentle = [3] }", "")).marks());
    }

    #[test]
    fn a_group_alone_reaches_a_part_of_its_pool() {
        let alpha = |exponent| switch::settings::Alpha::from_exponent(exponent).unwrap();
        for (xoff, expected) in [
            (Threshold::Static(800), 800),
            (Threshold::Static(80_000), 60_000),
            (Threshold::Dynamic(alpha(0)), 30_000),
            (Threshold::Dynamic(alpha(1)), 40_000),
        ] {
            assert_eq!(reached_alone(xoff, 60_000), expected, "{xoff:?}");
        }
    }
}
