//! `sluice show pfc`: pauses sent to peers, and pauses received from them.

use control::v1::{PfcCount, Priority, Snapshot, Storm};

use crate::show::format::{self, grouped};

/// Formats the frames of each port, then the priorities that are no-drop or ever had PFC.
pub fn table(snapshot: &Snapshot) -> String {
    let headings = [
        "Port",
        "PFC sent\nframes",
        "of guard\nframes",
        "PFC received\nframes",
        "Malformed\nframes",
        "PAUSE sent\nframes",
        "PAUSE received\nframes",
        "Link\npauses",
        "Paused\nms",
    ];
    let mut ports = format::table(&headings, 1);
    for port in &snapshot.ports {
        ports.add_row([
            port.name.clone(),
            grouped(count(&port.pfc_sent).frames),
            grouped(port.pfc_guard_frames),
            grouped(count(&port.pfc_received).frames),
            grouped(port.pfc_malformed_frames),
            grouped(port.pause_sent_frames),
            grouped(port.pause_received_frames),
            if port.link_paused {
                format!("{} (now)", grouped(port.link_pauses))
            } else {
                grouped(port.link_pauses)
            },
            grouped(port.link_paused_ns / 1_000_000),
        ]);
    }
    let off = "PFC is off on all ports; `sluice pfc on` turns it on.\n\n";
    let off = if snapshot.pfc_enabled { "" } else { off };
    let storms = watchdogs(snapshot).map(|table| format!("\n\n{table}")).unwrap_or_default();
    let (reasons, priorities) = (reasons(snapshot), priorities(snapshot));
    format!("{off}{}\n\n{reasons}\n\n{priorities}{storms}", ports.trim_fmt())
}

/// Formats the mode of PFC as configured and as it is (in mode `auto`, as negotiated), and the PFC
/// frames sent by each port, by the reason for which they were sent.
fn reasons(snapshot: &Snapshot) -> String {
    let headings = ["Port", "Mode", "PFC", "PFC sent\nfor changes", "refreshes", "repeats", "by the guard"];
    let mut table = format::table(&headings, 3);
    for port in &snapshot.ports {
        table.add_row([
            port.name.clone(),
            capitalized(&port.pfc_mode),
            if port.groups.iter().any(|group| group.no_drop) { "On" } else { "Off" }.to_owned(),
            grouped(port.pfc_change_frames),
            grouped(port.pfc_refresh_frames),
            grouped(port.pfc_repeat_frames),
            grouped(port.pfc_guard_frames),
        ]);
    }
    table.trim_fmt()
}

/// Returns a word with a capital.
fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
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
    let mut table = format::table(&headings, 3);
    for port in &snapshot.ports {
        let (sent, received) = (count(&port.pfc_sent), count(&port.pfc_received));
        for (priority, group) in port.groups.iter().enumerate() {
            let of = |counts: &[u64]| counts.get(priority).copied().unwrap_or(0);
            let frames = [&sent.xoff_frames, &sent.xon_frames, &received.xoff_frames, &received.xon_frames];
            let frames = frames.map(|counts| of(counts));
            if !group.no_drop && group.xoff_episodes == 0 && frames == [0; 4] {
                continue;
            }
            let state = match (group.no_drop, group.xoff) {
                (_, true) => "XOFF",
                (true, false) => "no-drop",
                (false, false) => "lossy",
            };
            let words = [port.name.clone(), priority.to_string(), state.to_owned()];
            let numbers = [group.xoff_episodes].into_iter().chain(frames).map(grouped);
            table.add_row(words.into_iter().chain(numbers));
        }
    }
    if table.is_empty() {
        "No priority is no-drop, and no PFC was seen.".to_owned()
    } else {
        table.trim_fmt()
    }
}

/// Formats the events of the watchdogs, if any priority has one or had a storm.
fn watchdogs(snapshot: &Snapshot) -> Option<String> {
    let headings = [
        "Port",
        "Priority\n(cos)",
        "Watchdog",
        "Storms\nrestored",
        "TX ok\ndrop",
        "RX ok\ndrop",
        "Last TX\nok/drop",
        "Last RX\nok/drop",
    ];
    let mut table = format::table(&headings, 3);
    for (port, number, priority) in all_priorities(snapshot) {
        if !priority.watched && priority.storms == 0 {
            continue;
        }
        let status = match priority {
            Priority { limit_reached: true, .. } => "PFC is off",
            Priority { recovery_pending: true, .. } => "stormed: recover",
            Priority { stormed: true, .. } => "stormed",
            Priority { watched: true, .. } => "operational",
            _ => "off",
        };
        let (all, last) =
            (priority.storm_traffic.unwrap_or_default(), priority.last_storm_traffic.unwrap_or_default());
        let pair = |a: u64, b: u64| format!("{}/{}", grouped(a), grouped(b));
        table.add_row([
            port.to_owned(),
            format!("{number} ({})", priority.local_precedence),
            status.to_owned(),
            pair(priority.storms, priority.storms_restored),
            pair(all.tx_frames, all.tx_dropped_frames),
            pair(all.rx_frames, all.rx_dropped_frames),
            pair(last.tx_frames, last.tx_dropped_frames),
            pair(last.rx_frames, last.rx_dropped_frames),
        ]);
    }
    (!table.is_empty()).then(|| table.trim_fmt())
}

fn all_priorities(snapshot: &Snapshot) -> impl Iterator<Item = (&str, usize, &Priority)> {
    snapshot.ports.iter().flat_map(|port| {
        let priorities = port.priorities.iter().enumerate();
        priorities.map(|(number, priority)| (port.name.as_str(), number, priority))
    })
}

/// Formats how often and for how long priorities were paused, the rates of PFC, and the last
/// storms.
pub fn history(snapshot: &Snapshot) -> String {
    let headings = [
        "Port",
        "Priority",
        "Now",
        "Pauses\nbegun",
        "Pauses\nended",
        "Paused\nns",
        "PFC received\nper second",
        "PFC sent\nper second",
    ];
    let mut pauses = format::table(&headings, 3);
    for (port, number, priority) in all_priorities(snapshot) {
        let numbers = [
            priority.pauses,
            priority.pauses - u64::from(priority.paused && priority.pauses > 0),
            priority.paused_ns,
            priority.received_pps,
            priority.sent_pps,
        ];
        if numbers == [0; 5] {
            continue;
        }
        let now = if priority.paused { "paused" } else { "sends" };
        let words = [port.to_owned(), number.to_string(), now.to_owned()];
        pauses.add_row(words.into_iter().chain(numbers.map(grouped)));
    }
    let pauses = if pauses.is_empty() { "No priority was paused.".to_owned() } else { pauses.trim_fmt() };
    format!("{pauses}\n\n{}", storms(snapshot))
}

fn storms(snapshot: &Snapshot) -> String {
    let headings = [
        "Port",
        "Priority",
        "Action",
        "Found at\ns",
        "Stuck for\nms",
        "Lasted\nms",
        "TX\nok/drop",
        "RX\nok/drop",
    ];
    let mut table = format::table(&headings, 3);
    for port in &snapshot.ports {
        for storm in &port.storms {
            let traffic = storm.traffic.unwrap_or_default();
            let ms = |ns: u64| format!("{}.{:06}", grouped(ns / 1_000_000), ns % 1_000_000);
            let action = match storm {
                Storm { limit_reached: true, .. } => "PFC off",
                Storm { drops: true, .. } => "drop",
                _ => "forward",
            };
            table.add_row([
                port.name.clone(),
                storm.priority.to_string(),
                action.to_owned(),
                format!("{:.6}", storm.began_ns as f64 / 1e9),
                ms(storm.stuck_ns),
                storm.ended_ns.map_or("goes on".to_owned(), |ended| ms(ended.saturating_sub(storm.began_ns))),
                format!("{}/{}", grouped(traffic.tx_frames), grouped(traffic.tx_dropped_frames)),
                format!("{}/{}", grouped(traffic.rx_frames), grouped(traffic.rx_dropped_frames)),
            ]);
        }
    }
    if table.is_empty() { "There was no storm.".to_owned() } else { table.trim_fmt() }
}

fn count(count: &Option<PfcCount>) -> PfcCount {
    count.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

    #[test]
    fn table_of_ports_and_priorities() {
        insta::assert_snapshot!(table(&sample::snapshot()));
    }

    #[test]
    fn pauses_and_storms() {
        insta::assert_snapshot!(history(&sample::snapshot()));
    }

    #[test]
    fn pfc_that_is_off_is_seen() {
        let off = Snapshot { pfc_enabled: false, ..sample::snapshot() };
        let text = table(&off);
        assert!(text.starts_with("PFC is off on all ports; `sluice pfc on` turns it on.\n\nPort"), "{text}");
    }
}
