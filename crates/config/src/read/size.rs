//! Sizes of buffer parts, which the file gives in cells or in bytes, and thresholds.

use std::ops::RangeInclusive;

use switch::settings::{Alpha, Threshold};

use crate::read::diagnostics::Diagnostics;
use crate::read::table_reader::{Setting, TableReader};

/// Valid sizes of a cell.
pub const CELL_BYTES: RangeInclusive<u32> = 64..=9216;
/// Maximum cells of a buffer, or of a part of it. Each cell may need a frame of memory, and that
/// would be 64 GiB.
pub const MAX_CELLS: u32 = 1 << 24;

/// How bytes that fill no whole cell are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Up, for what is needed.
    Up,
    /// Down, for what is available.
    Down,
}

/// A setting with two names: `cells` when it counts cells, and `bytes` when it counts bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeSetting {
    pub(crate) cells: &'static str,
    pub(crate) bytes: &'static str,
    pub(crate) min_cells: u32,
    pub(crate) rounding: Rounding,
}

impl SizeSetting {
    /// Returns a setting of what a port or a profile needs: from 0, with bytes rounded up.
    pub(crate) const fn needed(cells: &'static str, bytes: &'static str) -> Self {
        Self { cells, bytes, min_cells: 0, rounding: Rounding::Up }
    }

    /// Reads the setting, in cells of `cell_bytes`.
    pub(crate) fn read(
        self,
        section: &mut TableReader,
        cell_bytes: u32,
        report: &mut Diagnostics,
    ) -> Option<Setting<u32>> {
        section.at_most_one(&[self.cells, self.bytes], report);
        self.read_either(section, cell_bytes, report)
    }

    fn read_either(
        self,
        section: &mut TableReader,
        cell_bytes: u32,
        report: &mut Diagnostics,
    ) -> Option<Setting<u32>> {
        let cell = u64::from(cell_bytes);
        let least_bytes = match self.rounding {
            Rounding::Up => u64::from(self.min_cells.min(1)),
            Rounding::Down => u64::from(self.min_cells) * cell,
        };
        let cells = section.number(self.cells, self.min_cells..=MAX_CELLS, report);
        let bytes = section.number(self.bytes, least_bytes..=u64::from(MAX_CELLS) * cell, report);
        cells.or_else(|| {
            let Setting { value, location } = bytes?;
            let cells = match self.rounding {
                Rounding::Up => value.div_ceil(cell),
                Rounding::Down => value / cell,
            };
            // The range above ends at the maximum of cells.
            Some(Setting { value: cells as u32, location })
        })
    }
}

/// With 0 cells nothing would ever pass.
const STATIC: SizeSetting =
    SizeSetting { cells: "static_cells", bytes: "static_bytes", min_cells: 1, rounding: Rounding::Up };

/// Reads a threshold: a table of one setting, whose name states its kind.
pub(crate) fn threshold(
    section: &mut TableReader,
    name: &'static str,
    cell_bytes: u32,
    report: &mut Diagnostics,
) -> Option<Setting<Threshold>> {
    const CURE: &str =
        "write one of static_cells, static_bytes, dynamic_percent, dynamic_th, as in { static_cells = 512 }";
    let item = section.item(name)?;
    let mut table = item.section(section.location_of(name)?, CURE, report)?;
    table.at_most_one(&["static_cells", "static_bytes", "dynamic_percent", "dynamic_th"], report);
    let cells = STATIC.read_either(&mut table, cell_bytes, report);
    let percent = table.number("dynamic_percent", 0..=100, report);
    let exponent = table.number("dynamic_th", -7..=3, report);
    if table.is_empty() {
        report.add(&table.location, "no threshold", CURE);
    }
    table.finish(&[], report);
    cells.map(as_static).or(percent.map(as_dynamic)).or_else(|| {
        let Setting { value, location } = exponent?;
        Alpha::from_exponent(value).map(|alpha| Setting { value: Threshold::Dynamic(alpha), location })
    })
}

/// Returns a static threshold of `cells`.
pub(crate) fn as_static(cells: Setting<u32>) -> Setting<Threshold> {
    Setting { value: Threshold::Static(cells.value), location: cells.location }
}

/// Returns a dynamic threshold, by percent.
pub(crate) fn as_dynamic(percent: Setting<u8>) -> Setting<Threshold> {
    Setting { value: Threshold::Dynamic(Alpha::from_percent(percent.value)), location: percent.location }
}
