//! The messages of dial-out.
//!
//! Rule: `jsonData` is one object, `Notification`, with a time in ms, the message's number in its
//! destination's session, and the report of the path. A message longer than the collector accepts
//! is sent in chunks: the same path, `nodeId` from 0 on. Source: docs/monitoring/telemetry.md,
//! "Messages".

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::dialout::{ChunkInfo, DeviceInfo, DialoutMsg};

/// Maximum bytes of a message beside `jsonData`, so that the whole stays within a collector's
/// limit.
const REST_BYTES: usize = 1024;

/// Identity of the switch in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Name of the switch.
    pub name: String,
    /// Version of the daemon.
    pub version: String,
}

impl Device {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            producer_name: "Sluice".to_owned(),
            device_name: self.name.clone(),
            device_model: format!("Sluice {}", self.version),
            device_ip_addr: None,
            event_type: None,
            device_serial_number: None,
        }
    }
}

/// Position of a message in a collector's session.
#[derive(Debug, Clone, Copy)]
pub struct SequenceLabel<'s> {
    /// Name of the numbering: a new one for each collector, and whenever the daemon starts.
    pub session: &'s str,
    /// Number from 1; `None` for a report about numbers, which has none.
    pub number: Option<u64>,
}

/// The report of a path at one time. It is the same for all destinations, so a clone is another
/// handle on the same text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The sensor path.
    pub path: &'static str,
    /// Time in ms since 1970.
    pub unix_ms: u64,
    /// A member of the JSON object, with its name.
    pub member: Arc<str>,
    /// True for a report of something that happens once: it is dropped only when no sample is left
    /// to drop.
    pub is_event: bool,
}

impl Payload {
    /// Returns the bytes that it occupies in a backlog.
    pub fn bytes(&self) -> usize {
        self.member.len() + REST_BYTES / 4
    }

    /// Returns the payload as `jsonData`.
    fn json(&self, SequenceLabel { session, number }: SequenceLabel) -> String {
        let number = number.map_or(String::new(), |number| format!("\"Number\":\"{number}\","));
        let Self { unix_ms, member, .. } = self;
        format!(
            "{{\"Notification\":{{\"Timestamp\":\"{unix_ms}\",\"Session\":\"{session}\",{number}{member}}}}}"
        )
    }

    /// Returns the payload as a message, in chunks of at most `message_bytes`.
    pub fn messages(&self, device: &Device, label: SequenceLabel, message_bytes: usize) -> Vec<DialoutMsg> {
        let json = self.json(label);
        let message = |json_data: String, chunk_msg| DialoutMsg {
            device_msg: device.info(),
            sensor_path: self.path.to_owned(),
            json_data,
            chunk_msg,
        };
        let limit = message_bytes.saturating_sub(REST_BYTES).max(4);
        if json.len() <= limit {
            return vec![message(json, None)];
        }
        let pieces = pieces(&json, limit);
        let chunk = |node| ChunkInfo {
            total_size: i64::try_from(json.len()).unwrap_or(i64::MAX),
            total_fragments: pieces.len() as u64,
            node_id: node,
        };
        (0..).zip(&pieces).map(|(node, piece)| message((*piece).to_owned(), Some(chunk(node)))).collect()
    }
}

/// Splits a text into pieces of at most `limit` bytes, which is room for at least one character; no
/// character is split.
fn pieces(mut text: &str, limit: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    while text.len() > limit {
        let mut end = limit;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, rest) = text.split_at(end);
        pieces.push(piece);
        text = rest;
    }
    pieces.push(text);
    pieces
}

/// Returns the current time in ms since 1970.
pub fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Returns rows as a member: `"ROOT":{"CONTAINER":{"ROW":[…]}}`.
pub fn member(root: &str, container: &str, row: &str, rows: &[impl Serialize]) -> Arc<str> {
    let rows = serde_json::to_string(rows).expect("plain structs become JSON");
    format!("\"{root}\":{{\"{container}\":{{\"{row}\":{rows}}}}}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(member: &str) -> Payload {
        Payload { path: "sluice/events", unix_ms: 12, member: member.into(), is_event: true }
    }

    fn label(number: u64) -> SequenceLabel<'static> {
        SequenceLabel { session: "5.0", number: Some(number) }
    }

    fn device() -> Device {
        Device { name: "lab".to_owned(), version: "0.1.0".to_owned() }
    }

    #[test]
    fn a_message_has_source_time_and_content() {
        let [message] = &payload("\"a\":1").messages(&device(), label(7), 4 << 20)[..] else {
            panic!("one message")
        };
        assert_eq!(
            message.json_data,
            r#"{"Notification":{"Timestamp":"12","Session":"5.0","Number":"7","a":1}}"#
        );
        assert_eq!((message.sensor_path.as_str(), &message.chunk_msg), ("sluice/events", &None));
        let DeviceInfo { producer_name, device_name, device_model, .. } = &message.device_msg;
        let device = [producer_name, device_name, device_model];
        assert_eq!(device, ["Sluice", "lab", "Sluice 0.1.0"]);
    }

    #[test]
    fn long_messages_go_in_chunks_that_make_the_whole_again() {
        let long = payload(&format!("\"text\":\"{}\"", "é".repeat(3000)));
        let whole = long.json(label(1));
        let chunks = long.messages(&device(), label(1), 2048);
        assert_eq!(chunks.len(), whole.len().div_ceil(1023), "é takes 2 bytes, and none is cut apart");
        let put_together: String = chunks.iter().map(|chunk| chunk.json_data.as_str()).collect();
        assert_eq!(put_together, whole);
        for (index, chunk) in (0..).zip(&chunks) {
            assert!(prost::Message::encoded_len(chunk) <= 2048 && chunk.sensor_path == "sluice/events");
            let info = chunk.chunk_msg.as_ref().unwrap();
            let seen = (info.total_size as usize, info.total_fragments as usize, info.node_id);
            assert_eq!(seen, (whole.len(), chunks.len(), index));
        }
    }
}
