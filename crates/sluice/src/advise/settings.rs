//! The configurations of a scenario, the settings that the search changes in them, and the lines
//! that a user writes.

use std::fmt::{Display, Formatter};

use anyhow::{Result, anyhow};
use sim::Scenario;
use sim::scenario::NodeKind;
use switch::settings::Threshold;
use wire::bitset::Set8;

use super::FileLines;
use crate::sim::overrides::Override;

/// One configuration that switches of the scenario have.
pub struct Device {
    /// Its path, as the scenario has it.
    pub file: String,
    /// No-drop priorities of its ports.
    no_drop: u8,
    /// Cells outside the headroom pool.
    shared_cells: u32,
    /// The headroom pool, and the headroom of a group.
    pool_cells: u32,
    group_cells: u32,
    /// The tables that mark, by their names and queues.
    marking: Vec<(String, String)>,
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
        if devices.iter().any(|device| device.file == switch.file) {
            continue;
        }
        let buffer = &switch.settings.buffer;
        let ports = &switch.settings.ports;
        let no_drop = ports.iter().fold(0, |mask, port| mask | port.pfc.no_drop);
        let groups = ports.iter().flat_map(|port| {
            Set8::from_bits(port.pfc.no_drop).into_iter().map(|p| port.groups[p].headroom_cells)
        });
        devices.push(Device {
            file: switch.file.clone(),
            no_drop,
            shared_cells: buffer.total_cells.saturating_sub(buffer.headroom_cells),
            pool_cells: buffer.headroom_cells,
            group_cells: groups.max().unwrap_or(0),
            marking: marking(&text_of(&switch.file)?),
        });
    }
    if devices.iter().all(|device| device.no_drop == 0) {
        return Err(anyhow!("no priority is no-drop: there are no thresholds of PFC to search"));
    }
    Ok(devices)
}

/// Returns the tables of a configuration that mark: name and queue.
fn marking(text: &str) -> Vec<(String, String)> {
    let Ok(document) = text.parse::<toml_edit::DocumentMut>() else { return Vec::new() };
    let Some(tables) = document.get("wred").and_then(|item| item.as_table_like()) else { return Vec::new() };
    let mut found = Vec::new();
    for (name, table) in tables.iter() {
        let queues = table.get("queue").and_then(|item| item.as_table_like());
        for (queue, settings) in queues.into_iter().flat_map(|queues| queues.iter()) {
            if settings.get("ecn").and_then(|item| item.as_bool()) == Some(true) {
                found.push((name.to_owned(), queue.to_owned()));
            }
        }
    }
    found
}

impl Device {
    /// True if a queue marks.
    pub fn marks(&self) -> bool {
        !self.marking.is_empty()
    }

    fn xoff_cells(&self, divisor: u32) -> u32 {
        (self.shared_cells / divisor).max(1)
    }

    /// Returns the settings of a choice: table, setting and value.
    fn settings(&self, choice: Choice) -> Vec<(String, String, String)> {
        let mut settings = Vec::new();
        if let Some(factor) = choice.headroom_factor {
            let pool = (self.pool_cells.saturating_mul(factor)).to_string();
            settings.push(("buffer".to_owned(), "headroom_cells".to_owned(), pool));
        }
        for priority in Set8::from_bits(self.no_drop) {
            let table = format!("port-defaults.pfc.priority.{priority}");
            if let Some(factor) = choice.headroom_factor {
                let cells = self.group_cells.saturating_mul(factor).to_string();
                settings.push((table.clone(), "headroom_cells".to_owned(), cells));
            }
            if let Some(divisor) = choice.xoff_divisor {
                let xoff = format!("{{ static_cells = {} }}", self.xoff_cells(divisor));
                settings.push((table, "xoff".to_owned(), xoff));
            }
        }
        if let (Some(xoff), Some(ecn)) = (choice.xoff_divisor, choice.ecn_divisor) {
            let (low, high) =
                ((self.xoff_cells(xoff) / ecn).max(1), (4 * self.xoff_cells(xoff) / ecn).max(1));
            for (name, queue) in &self.marking {
                let table = format!("wred.{name}.queue.{queue}.green");
                settings.push((table.clone(), "low_cells".to_owned(), low.to_string()));
                settings.push((table, "high_cells".to_owned(), high.to_string()));
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
            for port in &switch.settings.ports {
                for priority in Set8::from_bits(port.pfc.no_drop) {
                    let group = &port.groups[priority];
                    let xoff = choice.xoff_divisor.map(|divisor| Threshold::Static(self.xoff_cells(divisor)));
                    let headroom =
                        choice.headroom_factor.map(|factor| self.group_cells.saturating_mul(factor));
                    if xoff.is_some_and(|xoff| group.xoff != xoff)
                        || headroom.is_some_and(|cells| group.headroom_cells != cells)
                    {
                        return Err(format!(
                            "{}: port {} has thresholds of priority {priority} of its own: move them to [port-defaults]",
                            self.file, port.name
                        ));
                    }
                }
            }
        }
        Ok(())
    }
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

    #[test]
    fn a_choice_becomes_lines() {
        let device = Device {
            file: "leaf.toml".to_owned(),
            no_drop: 1 << 3,
            shared_cells: 64_000,
            pool_cells: 1000,
            group_cells: 400,
            marking: marking("[wred.a.queue.3]\necn = true\n[wred.b.queue.2]\necn = false\n"),
        };
        assert!(device.marks());
        let choice = Choice { headroom_factor: Some(2), xoff_divisor: Some(16), ecn_divisor: Some(8) };
        let expected = [
            "[buffer]",
            "headroom_cells = 2000",
            "[port-defaults.pfc.priority.3]",
            "headroom_cells = 800",
            "xoff = { static_cells = 4000 }",
            "[wred.a.queue.3.green]",
            "low_cells = 500",
            "high_cells = 2000",
        ];
        assert_eq!(device.lines(choice).lines, expected);
        assert_eq!(choice.to_string(), "headroom × 2, XOFF = shared / 16, ECN from XOFF / 8");
        assert_eq!(
            device.options(choice)[2],
            "leaf.toml:port-defaults.pfc.priority.3.xoff={ static_cells = 4000 }"
        );
        assert_eq!(overrides(&device.options(choice)).unwrap().len(), 5);
        assert!(device.lines(Choice::default()).lines.is_empty());
    }
}
