//! How long headroom lasts: the time in which a peer that has not been paused fills it.
//!
//! Rule: the bytes that a group's headroom holds in frames of the worst length
//! ([`worst_case_cells`]), at the port's speed. A software loop that stalls for longer may lose
//! frames of the group, however short the cable is. If a port has no speed, the speed of its link
//! applies, otherwise the one that thresholds assume. Source: docs/behavior.md, "Headroom needed".

use std::fmt;
use wire::bitset::Set8;

use switch::SwitchSettings;
use switch::buffer::cell::CellSize;
use switch::buffer::headroom::worst_case_cells;
use switch::settings::{ASSUMED_SPEED_BPS, GroupSettings, PortSettings};

use crate::read::parse::spell_speed;

/// The no-drop priorities of a port with the same headroom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headroom {
    /// The port's name.
    pub port: String,
    /// The priorities with this headroom.
    pub priorities: Vec<usize>,
    /// Headroom cells of each.
    pub cells: u32,
    /// Speed of the port in bit/s.
    pub speed_bps: u64,
    /// How long the headroom lasts.
    pub duration_ns: u64,
}

/// As `port a, priority 3: 100 headroom cells last 51.2 µs at 1G`.
impl fmt::Display for Headroom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, priorities, cells, speed_bps, duration_ns: lasts_ns } = self;
        let noun = if priorities.len() == 1 { "priority" } else { "priorities" };
        let list: Vec<String> = priorities.iter().map(usize::to_string).collect();
        let (list, speed) = (list.join(", "), spell_speed(*speed_bps));
        let each = if priorities.len() == 1 { "" } else { " each" };
        let time = spell_time(*lasts_ns);
        write!(f, "port {port}, {noun} {list}: {cells} headroom cells{each} last {time} at {speed}")
    }
}

/// Returns the headroom of all no-drop priorities, port by port.
pub fn headrooms(settings: &SwitchSettings) -> Vec<Headroom> {
    let cell = CellSize::new(settings.buffer.cell_bytes);
    settings.ports.iter().flat_map(|port| of_port(port, cell)).collect()
}

fn of_port(port: &PortSettings, cell: CellSize) -> Vec<Headroom> {
    let mut all: Vec<Headroom> = Vec::new();
    let paused = if port.pfc.tx { port.pfc.no_drop } else { 0 };
    for priority in Set8::from_bits(paused) {
        let GroupSettings { headroom_cells: cells, .. } = port.groups[priority];
        if let Some(same) = all.iter_mut().find(|headroom| headroom.cells == cells) {
            same.priorities.push(priority);
            continue;
        }
        let speed_bps = port.speed_bps.or(port.link_speed_bps).unwrap_or(ASSUMED_SPEED_BPS);
        let bits = 8 * u128::from(worst_case_bytes(cells, cell));
        let lasts_ns = u64::try_from(bits * 1_000_000_000 / u128::from(speed_bps)).unwrap_or(u64::MAX);
        let port = port.name.clone();
        all.push(Headroom { port, priorities: vec![priority], cells, speed_bps, duration_ns: lasts_ns });
    }
    all
}

/// Returns the most bytes that take no more than `cells` in the worst case.
fn worst_case_bytes(cells: u32, cell: CellSize) -> u64 {
    let (mut least, mut most) = (0, u64::from(cells) * u64::from(cell.bytes()));
    while least < most {
        let middle = (least + most).div_ceil(2);
        match worst_case_cells(middle, cell) <= u64::from(cells) {
            true => least = middle,
            false => most = middle - 1,
        }
    }
    least
}

/// Formats a time with a suitable unit, to a tenth: 51.2 µs.
pub fn spell_time(ns: u64) -> String {
    let (unit_ns, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1e3, "µs"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{:.1} {unit}", ns as f64 / unit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 frames of 64 bytes at 1G last 51.2 µs; at four times the speed, a quarter of it.
    /// Priorities with the same headroom are reported together; lossy ones and ports that send no
    /// PFC are left out.
    #[test]
    fn by_port_and_priority() {
        let text = "[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3, 4, 5]\n[port-defaults.pfc.priority.5]\n\
            headroom_cells = 1000\n[port.a]\ninterface = \"a\"\nspeed = \"1G\"\n[port.b]\ninterface = \"b\"\nspeed = \
            \"100G\"\n[port.c]\ninterface = \"c\"\n[port.d]\ninterface = \"d\"\npfc.tx = false\n[port.e]\n\
            interface = \"e\"\npfc.mode = \"off\"\n";
        let config = crate::config::parse("x.toml", text).unwrap();
        let lines: Vec<String> = headrooms(&config.switch).iter().map(Headroom::to_string).collect();
        let expected = [
            "port a, priorities 3, 4: 100 headroom cells each last 51.2 µs at 1G",
            "port a, priority 5: 1000 headroom cells last 512.0 µs at 1G",
            "port b, priorities 3, 4: 491 headroom cells each last 2.5 µs at 100G",
            "port b, priority 5: 1000 headroom cells last 5.1 µs at 100G",
            "port c, priorities 3, 4: 100 headroom cells each last 5.1 µs at 10G",
            "port c, priority 5: 1000 headroom cells last 51.2 µs at 10G",
        ];
        assert_eq!(lines, expected);
    }

    /// The size that the headroom formula requires is sufficient, and one byte more is not.
    #[test]
    fn bytes_are_the_inverse_of_cells() {
        for cell_bytes in [64, 80, 127, 208, 254, 256, 9216] {
            let cell = CellSize::new(cell_bytes);
            for cells in [0, 1, 2, 3, 99, 100, 12_345] {
                let bytes = worst_case_bytes(cells, cell);
                assert!(worst_case_cells(bytes, cell) <= u64::from(cells), "{cells} cells of {cell_bytes}");
                assert!(
                    worst_case_cells(bytes + 1, cell) > u64::from(cells),
                    "{cells} cells of {cell_bytes}"
                );
            }
        }
    }
}
