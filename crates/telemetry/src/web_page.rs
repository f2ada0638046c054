//! The live page: what a browser shows of a switch, and the data that the page requests twice a
//! second.
//!
//! Rule: one document without external resources, which its own policy forbids (CSP). The numbers
//! are those of `sluice show --json`, and the events those of `sluice events`. The page only reads;
//! it does not restart watermarks. Source: docs/monitoring/metrics.md, "The live page".

use control::{Journal, v1};
use serde::Serialize;

use crate::dial_out::message::Device;

/// The HTML of the page.
pub const DOCUMENT: &str = include_str!("page.html");
/// Content security policy of the page: its own style and script, and requests to its server.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Number of past events that are sent to a page that has just been opened.
const FIRST_EVENTS: u64 = 100;

/// The data that the page shows, as one JSON object.
#[derive(Debug, Serialize)]
struct PageData<'a> {
    name: &'a str,
    /// The snapshot without its lists.
    switch: &'a v1::Snapshot,
    ports: Vec<LivePort<'a>>,
    /// Number of the newest event.
    last_event: u64,
    events: Vec<v1::Event>,
}

#[derive(Debug, Serialize)]
struct LivePort<'a> {
    #[serde(flatten)]
    counts: &'a v1::Port,
    /// State by priority.
    priorities: &'a [v1::Priority],
    groups: &'a [v1::Group],
    queues: &'a [v1::Queue],
}

impl<'a> LivePort<'a> {
    fn of(port: &'a v1::Port) -> Self {
        Self { counts: port, priorities: &port.priorities, groups: &port.groups, queues: &port.queues }
    }
}

/// Returns the response to `GET /live` or `GET /live?since=N`: the events after number N, or the
/// last ones.
pub fn live(device: &Device, snapshot: &v1::Snapshot, journal: &Journal, query: Option<&str>) -> String {
    let since = query.and_then(|query| query.strip_prefix("since=")).and_then(|number| number.parse().ok());
    let last_event = journal.last();
    let since: u64 = since.unwrap_or(last_event.saturating_sub(FIRST_EVENTS));
    let events = journal.read(since.min(last_event)).events;
    let ports = snapshot.ports.iter().map(LivePort::of).collect();
    let live = PageData { name: &device.name, switch: snapshot, ports, last_event, events };
    serde_json::to_string(&live).expect("numbers and texts")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_page_receives_the_events_that_it_has_not_seen() {
        let journal = Journal::default();
        let device = Device { name: "lab".to_owned(), version: String::new() };
        let snapshot = v1::Snapshot { at_ns: 7, ..v1::Snapshot::default() };
        let request = |query| -> (String, Vec<u64>, u64) {
            let live: Value = serde_json::from_str(&live(&device, &snapshot, &journal, query)).expect("JSON");
            let numbers = live["events"].as_array().expect("a list").iter();
            let numbers = numbers.map(|event| event["number"].as_u64().expect("a number")).collect();
            (live["name"].to_string(), numbers, live["last_event"].as_u64().expect("a number"))
        };
        assert_eq!(request(None), ("\"lab\"".to_owned(), vec![], 0));
        (0..150).for_each(|_| journal.record(v1::Event::default()));
        assert_eq!(request(None).1, (51..=150).collect::<Vec<_>>());
        assert_eq!(request(Some("since=148")).1, [149, 150]);
        assert_eq!(request(Some("since=150")).1, [0; 0]);
        assert_eq!(request(Some("since=9000")).1, [0; 0], "of another start");
        assert_eq!(request(Some("since=x")).1.len(), 100);
    }

    /// The document loads nothing from elsewhere, and requests only what is served here.
    #[test]
    fn the_document_has_no_outside_resources() {
        for outside in ["http:", "https:", "src=", "@import", "url(", "<link", "//cdn"] {
            assert!(!DOCUMENT.contains(outside), "{outside}");
        }
        assert_eq!(DOCUMENT.matches("fetch(").count(), DOCUMENT.matches("fetch(\"/live\"").count());
    }
}
