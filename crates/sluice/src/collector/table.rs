//! A message as tables.
//!
//! Values per priority or queue arrive as a string that holds a list of eight, which becomes
//! columns. Lists of zeros are omitted.

use ::telemetry::collector::Received;
use control::{MOST_NAME, printable};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::output;

/// Most characters of a text that is shown.
const MOST_TEXT: usize = 4096;

/// Formats a line with time, switch and sensor, and the rows below it.
pub fn text(
    message: &Received,
    number: Option<u64>,
    data: &Value,
    now: Timestamp,
    zone: &TimeZone,
) -> String {
    let time = now.to_zoned(zone.clone()).strftime("%F %T%.3f");
    let number = number.map_or(String::new(), |number| format!(" #{number}"));
    let peer = message.peer.map_or(String::new(), |peer| format!(" ({peer})"));
    let name = |text: &str| printable(text, MOST_NAME);
    let head = format!("{time} {}{peer} {}{number}", name(&message.device.device_name), name(&message.path));
    let Some(rows) = rows(data) else { return format!("{head}\n{}\n", printable(&message.json, MOST_TEXT)) };
    let has_eights = rows.iter().any(|row| row.values().any(|value| eight(value).is_some()));
    let body = if has_eights { eights(&rows) } else { plain(&rows) };
    format!("{head}\n{body}\n ")
}

/// Returns the first list of objects below `value`.
fn rows(value: &Value) -> Option<Vec<&Map<String, Value>>> {
    match value {
        Value::Array(list) => list.iter().map(Value::as_object).collect(),
        Value::Object(map) => map.values().find_map(rows),
        _ => None,
    }
}

/// Parses the numbers of a list in a string.
fn eight(value: &Value) -> Option<Vec<u64>> {
    serde_json::from_str(value.as_str().filter(|text| text.starts_with('['))?).ok()
}

/// Formats rows whose values are per priority or queue: a line for each value.
fn eights(rows: &[&Map<String, Value>]) -> String {
    let mut table = output::table(&["Port", "", "all", "0", "1", "2", "3", "4", "5", "6", "7"], 2);
    for row in rows {
        let port = spell(row.get("IfName").unwrap_or(&Value::Null));
        for (name, value) in row.iter().filter(|(name, _)| !["IfName", "IfIndex"].contains(&name.as_str())) {
            let numbers = match eight(value) {
                Some(numbers) if numbers.iter().all(|&number| number == 0) => continue,
                None if *value == 0 => continue,
                Some(numbers) => {
                    [String::new()].into_iter().chain(numbers.into_iter().map(output::grouped)).collect()
                }
                None => vec![spell(value)],
            };
            table.add_row([port.clone(), printable(name, MOST_NAME)].into_iter().chain(numbers));
        }
    }
    if table.is_empty() { "all zero".to_owned() } else { table.trim_fmt() }
}

/// Formats rows of plain values: a line for each row.
fn plain(rows: &[&Map<String, Value>]) -> String {
    let Some(first) = rows.first() else { return "nothing".to_owned() };
    let names: Vec<&str> = first.keys().map(String::as_str).filter(|name| *name != "IfIndex").collect();
    let headings: Vec<String> = names.iter().map(|name| printable(name, MOST_NAME)).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = output::table(&headings, names.len());
    for row in rows {
        table.add_row(names.iter().map(|name| spell(row.get(*name).unwrap_or(&Value::Null))));
    }
    table.trim_fmt()
}

fn spell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => printable(text, MOST_TEXT),
        Value::Number(number) => number.as_u64().map_or_else(|| number.to_string(), output::grouped),
        other => printable(&other.to_string(), MOST_TEXT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::telemetry::dialout::DeviceInfo;
    use config::SensorPath;

    #[test]
    fn messages_of_each_shape() {
        let mut table = String::new();
        for path in [
            SensorPath::IngressDrops,
            SensorPath::PfcSpeeds,
            SensorPath::XpeUsages,
            SensorPath::PortQueOverrunEvent,
            SensorPath::Events,
        ] {
            let json = ::telemetry::example(path);
            let device = DeviceInfo { device_name: "lab".to_owned(), ..DeviceInfo::default() };
            let message = Received { peer: None, device, path: path.name().to_owned(), json: json.clone() };
            let data = serde_json::from_str(&json).unwrap();
            let now = Timestamp::from_millisecond(1_800_000_000_123).unwrap();
            table += &text(&message, Some(7), &data, now, &TimeZone::UTC);
            table += "\n";
        }
        insta::assert_snapshot!(table);
    }

    /// A switch whose names and values hold a terminal's commands.
    #[test]
    fn nothing_from_the_wire_commands_the_terminal() {
        let evil = "\u{1b}]0;x\u{7}\u{9b}2J";
        let device = DeviceInfo { device_name: evil.to_owned(), ..DeviceInfo::default() };
        let row = |name: &str| format!("{{\"x\": [{{\"IfName\": {0:?}, {name:?}: {0:?}}}]}}", "\\u001b[31m");
        for json in [
            evil.to_owned(),
            row("plain").replace("\\\\", "\\"),
            format!("{{\"x\":[{{\"{}\":1}}]}}", "\\u001bk"),
        ] {
            let message =
                Received { peer: None, device: device.clone(), path: evil.to_owned(), json: json.clone() };
            let data = serde_json::from_str(&json).unwrap_or(Value::String(json));
            let message = text(&message, None, &data, Timestamp::UNIX_EPOCH, &TimeZone::UTC);
            assert!(!message.chars().any(|c| c.is_control() && c != '\n'), "{message:?}");
        }
    }

    #[test]
    fn what_is_no_table_is_shown_as_it_is() {
        let message = Received {
            peer: Some("127.0.0.1:9".parse().unwrap()),
            device: DeviceInfo::default(),
            path: "x".to_owned(),
            json: "not json".to_owned(),
        };
        let data = Value::String(message.json.clone());
        let message = text(&message, None, &data, Timestamp::UNIX_EPOCH, &TimeZone::UTC);
        assert_eq!(message, "1970-01-01 00:00:00.000  (127.0.0.1:9) x\nnot json\n");
    }
}
