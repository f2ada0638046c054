//! Sizes of buffer parts, which the file gives in cells or in bytes, and thresholds.

use switch::settings::{Alpha, Threshold};

use crate::read::diagnostics::Diagnostics;
use crate::read::table_reader::{Setting, TableReader};
use crate::spec::{MAX_CELLS, Rounding, TableSpec, ValueSpec, bytes_of_cells, needed, number};

/// Reads a size in cells of `cell_bytes`: the file has its name with `_cells` or `_bytes`.
pub(crate) fn size(
    section: &mut TableReader,
    name: &str,
    cell_bytes: u32,
    report: &mut Diagnostics,
) -> Option<Setting<u32>> {
    section.at_most_one(&[&format!("{name}_cells"), &format!("{name}_bytes")], report);
    either_size(section, name, cell_bytes, report)
}

fn either_size(
    section: &mut TableReader,
    name: &str,
    cell_bytes: u32,
    report: &mut Diagnostics,
) -> Option<Setting<u32>> {
    let [cells, bytes] = ["cells", "bytes"].map(|unit| format!("{name}_{unit}"));
    let ValueSpec::Size { min_cells, rounding } = *section.spec_of(&cells) else {
        panic!("{name} is no size")
    };
    let cells = section.number_in(&cells, min_cells..=MAX_CELLS, report);
    let (first, last) = bytes_of_cells(min_cells, rounding, cell_bytes, cell_bytes);
    let bytes = section.number_in(&bytes, first..=last, report);
    cells.or_else(|| {
        let Setting { value, location } = bytes?;
        let (bytes, cell) = (value as u64, u64::from(cell_bytes));
        let cells = match rounding {
            Rounding::Up => bytes.div_ceil(cell),
            Rounding::Down => bytes / cell,
        };
        // The range above ends at the maximum of cells.
        Some(Setting { value: cells as u32, location })
    })
}

/// A threshold: one of these. With a static one of 0 cells nothing would ever pass.
pub(crate) const THRESHOLD: TableSpec = &[
    needed("static", 1).about("Threshold in cells, whatever is free."),
    number("dynamic_percent", 0, 100)
        .about("Alpha by percent: the threshold is alpha × the free cells of the pool."),
    number("dynamic_th", -7, 3).about("Alpha as a power of two: 2^n × the free cells of the pool."),
];

/// Reads a threshold: a table of one setting, whose name states its kind.
pub(crate) fn threshold(
    section: &mut TableReader,
    name: &str,
    cell_bytes: u32,
    report: &mut Diagnostics,
) -> Option<Setting<Threshold>> {
    const CURE: &str =
        "write one of static_cells, static_bytes, dynamic_percent, dynamic_th, as in { static_cells = 512 }";
    let item = section.item(name)?;
    let mut table = item.section(section.location_of(name)?, CURE, report)?;
    table.at_most_one(&["static_cells", "static_bytes", "dynamic_percent", "dynamic_th"], report);
    let cells = either_size(&mut table, "static", cell_bytes, report);
    let percent = table.number("dynamic_percent", report);
    let exponent = table.number("dynamic_th", report);
    if table.is_empty() {
        report.add(&table.location, "no threshold", CURE);
    }
    table.finish(report);
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
