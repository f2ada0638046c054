//! Reports of the event paths: an event of the journal as the JSON that collectors expect.
//!
//! Rule: an alarm of use (`use_alarm`) is an overrun, one of drops (`drop_alarm`) a drop;
//! `sluice/events` has every event. Source: docs/monitoring/telemetry.md, "Paths";
//! docs/monitoring/events.md.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::SensorPath;
use control::v1::Event;
use serde::Serialize;

use crate::dial_out::message::member;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PortQueOverrun<'e> {
    if_index: usize,
    if_name: &'e str,
    que_index: u64,
    /// 1 ingress, 2 egress, 3 headroom.
    alarm_type: u64,
    /// Most cells since the last alarm.
    current_value: u64,
    /// Most cells since the last alarm, in percent of the limit.
    current_ratio: u64,
    /// The alarm's threshold in percent.
    threshold: u64,
    overrun_counters: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PortQueDrop<'e> {
    if_index: usize,
    if_name: &'e str,
    que_index: u64,
    alarm_type: u64,
    drop_counters: u64,
    drop_bytes: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Reported<'e> {
    number: u64,
    at_ns: u64,
    kind: &'e str,
    severity: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    if_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    if_name: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<u32>,
    values: &'e BTreeMap<String, u64>,
    message: &'e str,
}

/// Returns the report of `event` on `path`; `None` if the path does not report it.
pub fn report(path: SensorPath, event: &Event) -> Option<Arc<str>> {
    let if_name = event.port.as_deref();
    let if_index = event.port_number.map(|number| number as usize);
    let value = |name: &str| event.values.get(name).copied().unwrap_or(0);
    // An egress alarm names a queue, the others a priority. An alarm of a pool is of no port, and
    // so on none of these paths.
    let que_index = event.queue.or(event.priority).map_or(0, u64::from);
    match path {
        SensorPath::PortQueOverrunEvent if event.kind == "use_alarm" && if_index.is_some() => {
            let row = PortQueOverrun {
                if_index: if_index.unwrap_or(0),
                if_name: if_name.unwrap_or_default(),
                que_index,
                alarm_type: value("alarm_type"),
                current_value: value("cells"),
                current_ratio: value("cells") * 100 / value("allowed_cells").max(1),
                threshold: value("percent"),
                overrun_counters: value("crossings"),
            };
            Some(member("BufferMonitor", "PortQueOverrunEvent", "PortQueOverrun", &[row]))
        }
        SensorPath::PortQueDropEvent if event.kind == "drop_alarm" => {
            let row = PortQueDrop {
                if_index: if_index.unwrap_or(0),
                if_name: if_name.unwrap_or_default(),
                que_index,
                alarm_type: value("alarm_type"),
                drop_counters: value("frames"),
                drop_bytes: value("bytes"),
            };
            Some(member("BufferMonitor", "PortQueDropEvent", "PortQueDrop", &[row]))
        }
        SensorPath::Events => {
            let row = Reported {
                number: event.number,
                at_ns: event.at_ns,
                kind: &event.kind,
                severity: &event.severity,
                if_index,
                if_name,
                priority: event.priority,
                queue: event.queue,
                values: &event.values,
                message: &event.message,
            };
            Some(member("Sluice", "Events", "Event", &[row]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example_reports::{drop_alarm, use_alarm};

    /// The kinds are made up here as the alarms will report them.
    #[test]
    fn alarms_and_other_events() {
        let down = Event {
            kind: "port_down".to_owned(),
            severity: "warning".to_owned(),
            port: Some("server2".to_owned()),
            port_number: Some(2),
            ..Event::default()
        };
        let mut queue = use_alarm();
        queue.priority = None;
        queue.queue = Some(5);
        queue.values.insert("alarm_type".to_owned(), 2);
        let mut reported = String::new();
        let pool = Event { port: None, port_number: None, priority: None, ..use_alarm() };
        for event in [use_alarm(), queue, pool, drop_alarm(), down] {
            for path in SensorPath::ALL {
                if let Some(member) = report(path, &event) {
                    reported += &format!("{} {}: {member}\n", event.kind, path.name());
                }
            }
        }
        insta::assert_snapshot!(reported);
    }
}
