//! `sluice show pfc`: who is told to stop, and who tells us.

use control::v1::{PfcCount, Port, Snapshot};
use serde::Serialize;

use super::text::{self, grouped};

/// For people: the frames of each port, then the priorities that are no-drop or ever saw PFC.
pub fn table(snapshot: &Snapshot) -> String {
    let headings =
        ["Port", "PFC sent\nframes", "PFC received\nframes", "Malformed\nframes", "PAUSE received\nframes"];
    let mut ports = text::table(&headings, 1);
    for port in &snapshot.ports {
        ports.add_row([
            port.name.clone(),
            grouped(count(&port.pfc_sent).frames),
            grouped(count(&port.pfc_received).frames),
            grouped(port.pfc_malformed),
            grouped(port.pause_received),
        ]);
    }
    let off = "PFC is off on all ports; `sluice pfc on` turns it on.\n\n";
    let off = if snapshot.pfc_enabled { "" } else { off };
    format!("{off}{}\n\n{}", ports.trim_fmt(), priorities(snapshot))
}

fn priorities(snapshot: &Snapshot) -> String {
    let headings = [
        "Port",
        "Priority",
        "State",
        "XOFF\nepisodes",
        "XOFF sent\nframes",
        "XON sent\nframes",
        "XOFF received\nframes",
        "XON received\nframes",
    ];
    let mut table = text::table(&headings, 3);
    for row in snapshot.ports.iter().flat_map(rows) {
        let saw_pfc = row.xoff_episodes
            + row.sent_xoff_frames
            + row.sent_xon_frames
            + row.received_xoff_frames
            + row.received_xon_frames;
        if !row.no_drop && saw_pfc == 0 {
            continue;
        }
        table.add_row([
            row.port.to_owned(),
            row.priority.to_string(),
            match (row.no_drop, row.xoff) {
                (true, true) => "XOFF",
                (true, false) => "no-drop",
                (false, _) => "lossy",
            }
            .to_owned(),
            grouped(row.xoff_episodes),
            grouped(row.sent_xoff_frames),
            grouped(row.sent_xon_frames),
            grouped(row.received_xoff_frames),
            grouped(row.received_xon_frames),
        ]);
    }
    if table.is_empty() {
        "No priority is no-drop, and no PFC was seen.".to_owned()
    } else {
        table.trim_fmt()
    }
}

/// For programs: every priority.
pub fn json(snapshot: &Snapshot) -> impl Serialize {
    Pfc {
        at_ns: snapshot.at_ns,
        pfc_enabled: snapshot.pfc_enabled,
        ports: snapshot.ports.iter().map(PortJson::of).collect(),
    }
}

#[derive(Serialize)]
struct Pfc {
    at_ns: u64,
    pfc_enabled: bool,
    ports: Vec<PortJson>,
}

#[derive(Serialize)]
struct PortJson {
    port: String,
    received_frames: u64,
    sent_frames: u64,
    malformed_frames: u64,
    pause_received_frames: u64,
    priorities: Vec<PriorityJson>,
}

#[derive(Serialize)]
struct PriorityJson {
    #[serde(skip)]
    port: String,
    priority: usize,
    no_drop: bool,
    xoff: bool,
    xoff_episodes: u64,
    sent_xoff_frames: u64,
    sent_xon_frames: u64,
    received_xoff_frames: u64,
    received_xon_frames: u64,
}

impl PortJson {
    fn of(port: &Port) -> Self {
        Self {
            port: port.name.clone(),
            received_frames: count(&port.pfc_received).frames,
            sent_frames: count(&port.pfc_sent).frames,
            malformed_frames: port.pfc_malformed,
            pause_received_frames: port.pause_received,
            priorities: rows(port),
        }
    }
}

fn rows(port: &Port) -> Vec<PriorityJson> {
    let (sent, received) = (count(&port.pfc_sent), count(&port.pfc_received));
    let of = |counts: &[u64], priority: usize| counts.get(priority).copied().unwrap_or(0);
    let row = |(priority, group): (usize, &control::v1::Group)| PriorityJson {
        port: port.name.clone(),
        priority,
        no_drop: group.no_drop,
        xoff: group.xoff,
        xoff_episodes: group.xoff_episodes,
        sent_xoff_frames: of(&sent.xoff, priority),
        sent_xon_frames: of(&sent.xon, priority),
        received_xoff_frames: of(&received.xoff, priority),
        received_xon_frames: of(&received.xon, priority),
    };
    port.groups.iter().enumerate().map(row).collect()
}

fn count(count: &Option<PfcCount>) -> PfcCount {
    count.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn table_of_ports_and_priorities() {
        insta::assert_snapshot!(table(&sample::snapshot()));
    }

    #[test]
    fn pfc_that_is_off_is_seen() {
        let off = Snapshot { pfc_enabled: false, ..sample::snapshot() };
        let text = table(&off);
        assert!(text.starts_with("PFC is off on all ports; `sluice pfc on` turns it on.\n\nPort"), "{text}");
    }

    #[test]
    fn json_of_a_port() {
        let value = serde_json::to_value(json(&sample::snapshot())).unwrap();
        let port = &value["ports"][0];
        assert_eq!(port["priorities"].as_array().unwrap().len(), 8);
        insta::assert_snapshot!(
            serde_json::to_string_pretty(&serde_json::json!({
                "at_ns": value["at_ns"],
                "pfc_enabled": value["pfc_enabled"],
                "sent_frames": port["sent_frames"],
                "received_frames": port["received_frames"],
                "malformed_frames": port["malformed_frames"],
                "pause_received_frames": port["pause_received_frames"],
                "priority 3": port["priorities"][3],
            }))
            .unwrap()
        );
    }
}
