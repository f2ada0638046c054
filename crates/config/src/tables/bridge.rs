//! `[bridge]`: the FDB, and the queues of flooded frames.

use switch::settings::{BridgeSettings, DownPortAction};

use crate::read::diagnostics::Diagnostics;
use crate::read::table_reader::{TableReader, set};
use crate::spec::{TableSpec, choice, eight, number, words};

/// Highest number of FDB entries.
const MAX_ENTRIES: i64 = 1 << 20;
const DOWN_PORT_ACTIONS: [(&str, DownPortAction); 2] =
    [("drop", DownPortAction::Drop), ("flood", DownPortAction::Flood)];

// The range of the standard for `aging_s` begins at 10 s (IEEE 802.1Q-2022 table 8-6); a lab may
// want shorter times.
pub(crate) const BRIDGE: TableSpec = &[
    number("max_entries", 1, MAX_ENTRIES).value("16384", "Entries of the FDB.").restart(),
    number("max_entries_per_port", 1, MAX_ENTRIES)
        .otherwise("half of `max_entries`", "Entries that are learned on one port."),
    number("aging_s", 1, 1_000_000).value("300", "After this time without a frame, an entry is removed."),
    eight("unknown_unicast_to_queue", 7, "priority")
        .otherwise("the queues of all other frames", "Queues of frames to unknown addresses."),
    eight("multicast_to_queue", 7, "priority")
        .otherwise("the queues of all other frames", "Queues of frames to group addresses."),
    choice("no_drop_to_down_port", || words(&DOWN_PORT_ACTIONS))
        .value("\"drop\"", "No-drop frames to an address that was learned on a port that is down."),
];

pub(crate) fn read(file: &mut TableReader, report: &mut Diagnostics) -> BridgeSettings {
    let mut bridge = BridgeSettings::default();
    let Some(mut section) = file.section("bridge", report) else { return bridge };
    if let Some(entries) = section.number("max_entries", report) {
        bridge.max_entries = entries.value;
        bridge.max_entries_per_port = BridgeSettings::default_port_quota(entries.value);
    }
    if let Some(entries) = section.number("max_entries_per_port", report) {
        bridge.max_entries_per_port = entries.value;
        if entries.value > bridge.max_entries {
            let what = format!("more than the {} entries of the whole table", bridge.max_entries);
            let cure = format!("write {} at most, or a larger max_entries", bridge.max_entries);
            report.add(&entries.location, what, cure);
        }
    }
    if let Some(aging_s) = section.number::<u64>("aging_s", report) {
        bridge.aging_ns = aging_s.value * 1_000_000_000;
    }
    let maps = ["unknown_unicast_to_queue", "multicast_to_queue"]
        .map(|name| section.eight_numbers(name, report).map(|map| map.value));
    set(&mut bridge.no_drop_to_down_port, section.choice("no_drop_to_down_port", &DOWN_PORT_ACTIONS, report));
    section.finish(report);
    [bridge.unknown_unicast_to_queue, bridge.multicast_to_queue] = maps;
    bridge
}
