//! Built-in profiles, which a file can bind without defining them: the default profiles of an
//! Inspur switch. A profile of the same name in the file replaces the built-in one.
//! Source: docs/references.md, "Inspur white paper" (6: `show qos queue-profile`, `show qos
//! buffer-profile`).

use switch::settings::{Alpha, Guaranteed, Threshold, WredProfile, WredSettings};

use crate::read::diagnostics::SettingSpan;
use crate::read::table_reader::Setting;
use crate::tables::port::thresholds::{GroupTable, QueueTable};

/// Names of the profiles of priorities.
pub(crate) const INGRESS: [&str; 2] = ["ingress_lossless_profile", "ingress_lossy_profile"];
/// Names of the profiles of queues.
pub(crate) const EGRESS: [&str; 2] = ["egress_lossless_profile", "egress_lossy_profile"];
/// Name of the queue profile.
pub(crate) const QUEUE: &str = "AZURE_LOSSLESS";

/// Returns the priority profile of this name, as if it were written at `location`.
pub(crate) fn ingress(name: &str, cell_bytes: u32, location: &SettingSpan) -> Option<GroupTable> {
    let (bytes, xoff) = match name {
        "ingress_lossless_profile" => {
            ([2048, 196_608, 15_872, 3584], Threshold::Static(cells(19_456, cell_bytes)))
        }
        "ingress_lossy_profile" => ([0; 4], Threshold::Dynamic(Alpha::from_exponent(3)?)),
        _ => return None,
    };
    let [reserved, headroom, xon, offset] = bytes.map(|bytes| Some(at(location, cells(bytes, cell_bytes))));
    Some(GroupTable {
        reserved_cells: reserved,
        headroom_cells: headroom,
        resume_cells: xon,
        xon_offset_cells: offset,
        xoff: Some(at(location, xoff)),
        ..GroupTable::default()
    })
}

/// Returns the queue profile of this name, as if it were written at `location`.
pub(crate) fn egress(name: &str, cell_bytes: u32, location: &SettingSpan) -> Option<QueueTable> {
    let shared = match name {
        "egress_lossless_profile" => Threshold::Static(cells(32_058_368, cell_bytes)),
        "egress_lossy_profile" => Threshold::Dynamic(Alpha::from_exponent(1)?),
        _ => return None,
    };
    Some(QueueTable {
        guaranteed: Some(at(location, Guaranteed::Cells(0))),
        shared: Some(at(location, shared)),
        ..QueueTable::default()
    })
}

/// Returns [`QUEUE`]: the same ECN settings for all colors.
pub(crate) fn azure_lossless(cell_bytes: u32) -> WredSettings {
    let curve = WredProfile {
        low_cells: cells(104_000, cell_bytes),
        high_cells: cells(312_000, cell_bytes),
        probability_percent: 100,
    };
    WredSettings { exponent: 0, ecn: true, curves: [curve; 3], ..WredSettings::default() }
}

/// Converts bytes to cells, rounded up.
fn cells(bytes: u32, cell_bytes: u32) -> u32 {
    bytes.div_ceil(cell_bytes)
}

fn at<T>(location: &SettingSpan, value: T) -> Setting<T> {
    Setting { value, location: location.clone() }
}
