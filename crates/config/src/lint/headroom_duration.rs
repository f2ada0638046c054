//! For how long headroom lasts: the time in which a peer that has not been told to stop fills it.
//!
//! Rule: the bytes that a group's headroom holds in frames of the worst length
//! ([`worst_case_cells`]), at the port's speed. A loop in software that stands still for longer may
//! lose frames of the group, however short the cable is. Where a port has no speed, that of its
//! link counts, or else that which thresholds assume. Source: docs/behavior.md, "Headroom needed".

use std::fmt;

use switch::SwitchSettings;
use switch::buffer::cell::CellSize;
use switch::buffer::headroom::worst_case_cells;
use switch::settings::{ASSUMED_SPEED_BPS, GroupSettings, PRIORITIES, PortSettings};

use crate::read::parse::spell_speed;

/// The headroom of a port's no-drop priorities that have equally much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headroom {
    /// The port's name.
    pub port: String,
    /// The priorities.
    pub priorities: Vec<usize>,
    /// Cells of each.
    pub cells: u32,
    /// Bit/s of the port.
    pub speed_bps: u64,
    /// For how long they last.
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

/// The headroom of all no-drop priorities, port by port.
pub fn headrooms(settings: &SwitchSettings) -> Vec<Headroom> {
    let cell = CellSize::new(settings.buffer.cell_bytes);
    settings.ports.iter().flat_map(|port| of_port(port, cell)).collect()
}

fn of_port(port: &PortSettings, cell: CellSize) -> Vec<Headroom> {
    let mut all: Vec<Headroom> = Vec::new();
    for priority in (0..PRIORITIES).filter(|priority| port.pfc.tx && port.pfc.no_drop & 1 << priority != 0) {
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

/// The most bytes that take no more than so many cells in the worst case.
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

/// A time with the unit that suits it, to a tenth: 51.2 µs.
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

    /// 100 frames of 64 bytes at 1G: 51.2 µs; four times as fast, a quarter of it. Priorities with
    /// equally much are told together, lossy ones and ports that send no PFC are not.
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

    /// What the headroom formula finds to be enough is so, and one byte more is not.
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
