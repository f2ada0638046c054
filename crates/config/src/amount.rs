//! Amounts of buffer, which the file gives in cells or in bytes, and thresholds.

use switch::settings::{Alpha, Threshold};

use crate::MAX_CELLS;
use crate::mistakes::Found;
use crate::section::{Placed, Section};

/// What becomes of bytes that fill no whole cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// They take a cell: what is needed.
    Up,
    /// They are left over: what there is.
    Down,
}

/// A setting that is called `cells` when it counts cells, and `bytes` when it counts bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    pub(crate) cells: &'static str,
    pub(crate) bytes: &'static str,
    pub(crate) least_cells: u32,
    pub(crate) rounding: Rounding,
}

impl Amount {
    /// What a port or a profile needs: from 0, and bytes are rounded up.
    pub(crate) const fn needed(cells: &'static str, bytes: &'static str) -> Self {
        Self { cells, bytes, least_cells: 0, rounding: Rounding::Up }
    }

    /// Takes the setting, in cells of `cell_bytes`.
    pub(crate) fn read(
        self,
        section: &mut Section,
        cell_bytes: u32,
        found: &mut Found,
    ) -> Option<Placed<u32>> {
        section.at_most_one(&[self.cells, self.bytes], found);
        self.read_either(section, cell_bytes, found)
    }

    fn read_either(self, section: &mut Section, cell_bytes: u32, found: &mut Found) -> Option<Placed<u32>> {
        let cell = u64::from(cell_bytes);
        let least_bytes = match self.rounding {
            Rounding::Up => u64::from(self.least_cells.min(1)),
            Rounding::Down => u64::from(self.least_cells) * cell,
        };
        let cells = section.number(self.cells, self.least_cells..=MAX_CELLS, found);
        let bytes = section.number(self.bytes, least_bytes..=u64::from(MAX_CELLS) * cell, found);
        cells.or_else(|| {
            let Placed { value, place } = bytes?;
            let cells = match self.rounding {
                Rounding::Up => value.div_ceil(cell),
                Rounding::Down => value / cell,
            };
            // The range above ends where cells do.
            Some(Placed { value: cells as u32, place })
        })
    }
}

/// 0 cells would stop everything for good.
const STATIC: Amount =
    Amount { cells: "static_cells", bytes: "static_bytes", least_cells: 1, rounding: Rounding::Up };

/// Takes a threshold: a table of one setting, which says how it is meant.
pub(crate) fn threshold(
    section: &mut Section,
    name: &'static str,
    cell_bytes: u32,
    found: &mut Found,
) -> Option<Placed<Threshold>> {
    const CURE: &str =
        "write one of static_cells, static_bytes, dynamic_percent, dynamic_th, as in { static_cells = 512 }";
    let item = section.item(name)?;
    let mut table = item.section(section.place_of(name)?, CURE, found)?;
    table.at_most_one(&["static_cells", "static_bytes", "dynamic_percent", "dynamic_th"], found);
    let cells = STATIC.read_either(&mut table, cell_bytes, found);
    let percent = table.number("dynamic_percent", 0..=100, found);
    let exponent = table.number("dynamic_th", -7..=3, found);
    if table.is_empty() {
        found.add(&table.place, "no threshold", CURE);
    }
    table.finish(&[], found);
    cells.map(as_static).or(percent.map(as_dynamic)).or_else(|| {
        let Placed { value, place } = exponent?;
        Alpha::from_exponent(value).map(|alpha| Placed { value: Threshold::Dynamic(alpha), place })
    })
}

/// A threshold of so many cells.
pub(crate) fn as_static(cells: Placed<u32>) -> Placed<Threshold> {
    Placed { value: Threshold::Static(cells.value), place: cells.place }
}

/// A threshold that moves with the free cells, by percent.
pub(crate) fn as_dynamic(percent: Placed<u8>) -> Placed<Threshold> {
    Placed { value: Threshold::Dynamic(Alpha::from_percent(percent.value)), place: percent.place }
}
