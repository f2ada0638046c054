//! `sluice show counters`: every non-zero counter, by its name in JSON, like the list of `ethtool
//! -S` for an interface. Counters that no other view has a column for are here.

use std::collections::BTreeMap;

use control::v1::Snapshot;
use serde_json::Value;

use super::format::{self, elapsed_ns, grouped, per_second};
use super::json::Document;
use super::view::View;

/// Numbers that are settings, or that identify the object of other numbers; they are omitted.
const SETTINGS: [&str; 21] = [
    "pvid",
    "mtu_bytes",
    "link",
    "classification",
    "cell_bytes",
    "memory_frames",
    "speed_bps",
    "overhead_bytes",
    "port",
    "queue",
    "priority",
    "local_precedence",
    "pool",
    "guaranteed_cells",
    "reserved_size_cells",
    "headroom_size_cells",
    "threshold_cells",
    "allowed_cells",
    "pause_threshold_cells",
    "usage_percent",
    "size_cells",
];

/// Formats object, name and number, and with an earlier snapshot the growth per second.
pub fn table(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let elapsed_ns = elapsed_ns(now, before);
    let headings = ["Of", "Counter", "Value", "Growth\nper second"];
    let mut table = format::table(if before.is_none() { &headings[..3] } else { &headings }, 2);
    let earlier: BTreeMap<_, _> = before.map(numbers).unwrap_or_default().into_iter().collect();
    for (key, number) in numbers(now) {
        let growth = per_second(number, earlier.get(&key).copied().unwrap_or(0), elapsed_ns);
        if number == 0 {
            continue;
        }
        let (of, name) = key;
        table.add_row([of, name, grouped(number)].into_iter().chain(growth.map(grouped)));
    }
    table.trim_fmt()
}

/// Returns all numbers, by their object and name.
fn numbers(snapshot: &Snapshot) -> Vec<((String, String), u64)> {
    let document = Document::of(View::Counters, snapshot, None);
    let Ok(Value::Object(mut document)) = serde_json::to_value(document) else { return Vec::new() };
    let mut found = Vec::new();
    document.remove("storms"); // a history, not counters
    let rows = ["ports", "queues", "groups", "priorities", "pools"].map(|list| (list, document.remove(list)));
    collect("switch", "", &Value::Object(document), &mut found);
    for (list, rows) in rows {
        let Some(Value::Array(rows)) = rows else { continue };
        rows.iter().for_each(|row| collect(&whose(list, row), "", row, &mut found));
    }
    found
}

/// Returns the object of the numbers in a row of a list.
fn whose(list: &str, row: &Value) -> String {
    let text = |field: &str| row[field].as_str().unwrap_or_default();
    match list {
        "queues" => format!("{} queue {}", text("port"), row["queue"]),
        "groups" | "priorities" => format!("{} priority {}", text("port"), row["priority"]),
        "pools" => format!("pool {}", text("name").replace('_', " ")),
        _ => text("name").to_owned(),
    }
}

/// Adds the numbers in `value`, whose name begins with `name`.
fn collect(of: &str, name: &str, value: &Value, found: &mut Vec<((String, String), u64)>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields.iter().filter(|(field, _)| !SETTINGS.contains(&field.as_str())) {
                let dot = if name.is_empty() { "" } else { "." };
                collect(of, &format!("{name}{dot}{field}"), value, found);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                collect(of, &format!("{name}[{index}]"), value, found);
            }
        }
        value => {
            found.extend(value.as_u64().map(|number| ((of.to_owned(), name.to_owned()), number)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;
    use control::field_docs::Numbers;

    /// Checks the numbers of a row: in its JSON, in this view, and by name in the help.
    fn check_row<T: Numbers>(of: &T, json: &Value, whose: &str, text: &str, help: &str) {
        for path in T::NUMBERS.iter().map(|number| number.path).filter(|path| !is_row(T::MESSAGE, path)) {
            let number = of.number(path).unwrap_or_else(|| panic!("no number {} {path}", T::MESSAGE));
            let found = path.split('.').fold(json, |value, field| &value[field]);
            let is_same = found.as_u64() == Some(number) || found.as_bool() == Some(number != 0);
            assert!(is_same, "{} {path} is {number} in the message and {found} in JSON", T::MESSAGE);
            let field = path.rsplit('.').next().unwrap_or(path);
            assert!(help.contains(&format!("\n  {field}")), "{field} is not in the help");
            let is_counter = found.is_u64() && !path.split('.').any(|part| SETTINGS.contains(&part));
            let row = |line: &&str| {
                let rest = line.strip_prefix(whose).map(str::trim_start);
                let rest = rest.and_then(|rest| rest.strip_prefix(path)).map(str::trim);
                rest == Some(&grouped(number))
            };
            let is_shown = text.lines().filter(row).count();
            assert_eq!(is_shown, usize::from(is_counter), "{} {path} in `sluice show counters`", T::MESSAGE);
        }
    }

    /// Parts of the switch that have rows of their own, or are in no JSON.
    fn is_row(message: &str, path: &str) -> bool {
        message == "Snapshot" && (path.starts_with("headroom.") || path.starts_with("removed_ports."))
    }

    /// Every number of the proto file is in JSON, in the help and in this view, by the same name:
    /// what is a setting is in the first two only.
    #[test]
    fn every_number_is_in_json_help_and_this_view() {
        let mut now = Snapshot::numbered(&mut 1_000_000);
        now.ports.truncate(1);
        let (text, help) = (table(&now, None), super::super::help::text());
        let json = serde_json::to_value(Document::of(View::Counters, &now, None)).unwrap();
        let port = &now.ports[0];
        let name = &port.name;
        check_row(&now, &json, "switch", &text, &help);
        check_row(port, &json["ports"][0], name, &text, &help);
        check_row(&port.groups[1], &json["groups"][1], &format!("{name} priority 1"), &text, &help);
        check_row(&port.priorities[0], &json["priorities"][0], &format!("{name} priority 0"), &text, &help);
        check_row(&port.queues[1], &json["queues"][1], &format!("{name} queue 1"), &text, &help);
        check_row(&now.ingress_pools[1], &json["pools"][1], "pool ingress 1", &text, &help);
    }

    #[test]
    fn table_of_totals() {
        insta::assert_snapshot!(table(&sample::snapshot(), None));
    }

    #[test]
    fn with_two_samples_each_number_has_its_increase() {
        let text = table(&sample::later(), Some(&sample::snapshot()));
        let line = text.lines().find(|line| line.starts_with("server1 ") && line.contains("received.frames"));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        assert_eq!(words, ["server1", "received.frames", "1,200,000", "100,000"]);
    }
}
