//! The collector of the demo: `sluice collector` beside the daemon, and what it has received at the
//! end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use host::units::grouped;
use serde_json::Value;
use testbed::{Namespace, Process, binary, eventually};

use crate::text::Style;

/// What the daemon reports to the collector, every second and on events.
pub const CONFIG: &str = r#"
[alarm]
headroom = { enabled = true, percent = 1 }
drop     = { enabled = true }

[telemetry.sensor-group.numbers]
paths = ["buffermonitor/bufferusages", "buffermonitor/headroomusages", "buffermonitor/pfcstatistics", "buffermonitor/egressdrops"]

[telemetry.sensor-group.events]
paths = ["sluice/events"]

[telemetry.destination-group.demo]
collectors = ["127.0.0.1:50050"]

[telemetry.subscription.demo]
sensors      = [{ group = "numbers", interval_s = 1 }, { group = "events" }]
destinations = ["demo"]
"#;

/// The running collector.
#[derive(Debug)]
pub struct Collector {
    process: Process,
    file: PathBuf,
}

/// Messages received by the collector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Received {
    /// Number of messages received.
    pub messages: u64,
    /// Number of messages before the last one that did not arrive.
    pub missing: u64,
    /// Number of messages per path.
    pub paths: BTreeMap<String, u64>,
    /// Last messages of some paths, one line each.
    pub last: Vec<String>,
}

impl Collector {
    /// Starts the collector in the daemon's namespace.
    pub fn start(namespace: &Namespace, folder: &Path) -> Result<Self> {
        let file = folder.join("collected.json");
        let mut command = namespace.command(binary("sluice")?);
        command.args(["collector", "--listen", "127.0.0.1:50050", "--format", "none", "--output"]).arg(&file);
        let mut process = Process::start("sluice collector", &mut command)?;
        process.wait_for("it listens", |line| line.contains("collecting on").then_some(()))?;
        Ok(Self { process, file })
    }

    /// Returns what the collector has, once it has received a sample taken after `unix_ms`.
    pub fn received(&self, unix_ms: u64) -> Result<Received> {
        eventually("the collector has a sample of the end", || {
            let text = std::fs::read_to_string(&self.file).unwrap_or_default();
            let messages: Vec<Value> =
                text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            let is_late = |message: &&Value| {
                let taken =
                    message["data"]["Notification"]["Timestamp"].as_str().and_then(|ms| ms.parse().ok());
                message["path"] == "buffermonitor/egressdrops" && taken.is_some_and(|ms: u64| ms >= unix_ms)
            };
            Ok(messages.iter().any(|message| is_late(&message)).then(|| summary(&messages)))
        })
        .with_context(|| self.process.log())
    }
}

fn summary(messages: &[Value]) -> Received {
    let mut received = Received { messages: messages.len() as u64, ..Received::default() };
    for message in messages {
        *received.paths.entry(message["path"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    let numbers = || messages.iter().filter_map(|message| message["number"].as_u64());
    received.missing = numbers().max().unwrap_or(0) - numbers().count() as u64;
    let last = |path: &str| {
        let message = messages.iter().rev().find(|message| message["path"] == path);
        message.map_or(Value::Null, |message| message["data"]["Notification"].clone())
    };
    let (pfc, headroom, drops) = (
        last("buffermonitor/pfcstatistics"),
        last("buffermonitor/headroomusages"),
        last("buffermonitor/egressdrops"),
    );
    for row in rows(&pfc["BufferMonitor"]["PFCStatistics"]["PFCStatistic"], &["PfcSend"], 3) {
        received.last.push(format!("pfcstatistics   {row} PFC frames sent for priority 3"));
    }
    for row in rows(
        &headroom["BufferMonitor"]["HeadroomUsages"]["HeadroomUsage"],
        &["HeadroomPeak", "HeadroomTotal"],
        3,
    ) {
        received.last.push(format!("headroomusages  {row} headroom cells of priority 3 at the most"));
    }
    for row in rows(&drops["BufferMonitor"]["EgressDrops"]["EgressDrop"], &["UnicastDroppedPkts"], 2) {
        received.last.push(format!("egressdrops     {row} frames dropped from queue 2"));
    }
    let events = messages.iter().filter(|message| message["path"] == "sluice/events");
    for event in
        events.rev().take(2).map(|message| &message["data"]["Notification"]["Sluice"]["Events"]["Event"][0])
    {
        received.last.push(format!("events          {}", event["Message"].as_str().unwrap_or_default()));
    }
    received
}

/// Returns the numbers of some keys at an index, "a of b", for each port where the first of them is
/// not zero.
fn rows(rows: &Value, keys: &[&str], index: usize) -> Vec<String> {
    let at = |row: &Value, key: &str| -> u64 {
        let list = row[key].as_str().and_then(|text| serde_json::from_str::<Vec<u64>>(text).ok());
        list.and_then(|list| list.get(index).copied()).unwrap_or(0)
    };
    let used = rows.as_array().into_iter().flatten().filter(|row| at(row, keys[0]) > 0);
    used.map(|row| {
        let numbers: Vec<_> = keys.iter().map(|key| grouped(at(row, key))).collect();
        format!("{:9}{}", row["IfName"].as_str().unwrap_or_default(), numbers.join(" of "))
    })
    .collect()
}

/// Formats the messages for people.
pub fn text(style: Style, received: &Received) -> String {
    let gaps = match received.missing {
        0 => "none missing".to_owned(),
        missing => style.red(&format!("{} missing", grouped(missing))),
    };
    let paths: Vec<_> = received
        .paths
        .iter()
        .map(|(path, messages)| format!("{messages} {}", path.rsplit('/').next().unwrap_or(path)))
        .collect();
    let mut text = format!(
        "{}\n  {} messages over gRPC, {gaps}: {}\n",
        style.bold("What a collector received"),
        grouped(received.messages),
        paths.join(", ")
    );
    for line in &received.last {
        text.push_str(&format!("  {}\n", style.dim(line)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(number: u64, path: &str, inside: Value) -> Value {
        json!({ "number": number, "path": path, "data": { "Notification": inside } })
    }

    #[test]
    fn the_end_of_the_demo_is_short() {
        let row =
            |name: &str, sent: u64| json!({ "IfName": name, "PfcSend": format!("[0,0,0,{sent},0,0,0,0]") });
        let pfc = json!({ "BufferMonitor": { "PFCStatistics": { "PFCStatistic": [row("a", 1234), row("b", 0)] } } });
        let event = json!({ "Sluice": { "Events": { "Event": [{ "Message": "port a is up" }] } } });
        let messages = [
            message(1, "buffermonitor/pfcstatistics", json!({})),
            message(2, "sluice/events", event),
            message(4, "buffermonitor/pfcstatistics", pfc),
        ];
        let expected = "What a collector received\n  3 messages over gRPC, 1 missing: 2 pfcstatistics, 1 events\n  \
                        pfcstatistics   a        1,234 PFC frames sent for priority 3\n  events          port a is up\n";
        assert_eq!(text(Style::new(false), &summary(&messages)), expected);
    }
}
