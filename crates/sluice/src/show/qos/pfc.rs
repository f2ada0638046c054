//! `sluice show pfc`: pauses sent to peers, and pauses received from them.

use control::v1::{PfcCount, Port, Priority, Snapshot, Storm};

use crate::show::format::{self, Grid, earlier, elapsed_ns, grouped, per_second, tenths};

/// Formats who paused whom, then the PFC frames: by priority, by reason. With an earlier snapshot
/// all are of the time since, and frames are per second.
pub fn table(snapshot: &Snapshot, before: Option<&Snapshot>) -> String {
    let off = "PFC is off on all ports; `sluice pfc on` turns it on.\n\n";
    let off = if snapshot.pfc_enabled { "" } else { off };
    let tables = [
        Some(pauses(snapshot, before).with(&frames_by_priority(snapshot, before))),
        Some(frames_by_reason(snapshot, before)),
        link_pauses(snapshot),
        watchdogs(snapshot),
    ];
    off.to_owned() + &tables.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

/// A priority of a port that is no-drop, or that had PFC.
struct Row<'a> {
    port: &'a Port,
    priority: usize,
    /// Itself, and as it was in the earlier snapshot.
    now: PriorityCounts,
    before: PriorityCounts,
}

/// What a port counts of a priority.
#[derive(Default, PartialEq)]
struct PriorityCounts {
    /// Pauses that we asked for, and how long they lasted.
    xoff_episodes: u64,
    xoff_ns: u64,
    /// Pauses that the peer asked for.
    pauses: u64,
    paused_ns: u64,
    /// XOFF sent, XON sent, XOFF received, XON received.
    frames: [u64; 4],
}

impl PriorityCounts {
    fn of(port: &Port, priority: usize) -> Self {
        let group = port.groups.get(priority).copied().unwrap_or_default();
        let paused = port.priorities.get(priority).copied().unwrap_or_default();
        let (sent, received) = (count(&port.pfc_sent), count(&port.pfc_received));
        let frames = [&sent.xoff_frames, &sent.xon_frames, &received.xoff_frames, &received.xon_frames];
        Self {
            xoff_episodes: group.xoff_episodes,
            xoff_ns: group.xoff_ns,
            pauses: paused.pauses,
            paused_ns: paused.paused_ns,
            frames: frames.map(|counts| counts.get(priority).copied().unwrap_or(0)),
        }
    }
}

/// Lists the priorities that are no-drop or ever had PFC.
fn rows<'a>(snapshot: &'a Snapshot, before: Option<&Snapshot>) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for port in &snapshot.ports {
        let earlier = earlier(before, &port.name);
        for priority in 0..port.groups.len() {
            let now = PriorityCounts::of(port, priority);
            if port.groups[priority].no_drop || now != PriorityCounts::default() {
                let before = earlier.map(|port| PriorityCounts::of(port, priority)).unwrap_or_default();
                rows.push(Row { port, priority, now, before });
            }
        }
    }
    rows
}

/// Formats the mode of each port, and for each priority how often and how long we paused the peer,
/// and the peer us.
fn pauses(snapshot: &Snapshot, before: Option<&Snapshot>) -> Grid {
    let headings = [
        "Port",
        "Mode",
        "PFC",
        "Priority",
        "State",
        "We paused\nit, times",
        "for\ns",
        "of the\ntime %",
        "It paused\nus, times",
        "for\ns",
        "of the\ntime %",
    ];
    let elapsed = elapsed_ns(snapshot, before);
    let elapsed = if elapsed == 0 { snapshot.at_ns } else { elapsed };
    let rows = rows(snapshot, before);
    let mut table = format::table(&headings, 5);
    for port in &snapshot.ports {
        let is_on = port.groups.iter().any(|group| group.no_drop);
        let head =
            [port.name.clone(), capitalized(&port.pfc_mode), if is_on { "On" } else { "Off" }.to_owned()];
        let of_port: Vec<_> = rows.iter().filter(|row| row.port.name == port.name).collect();
        if of_port.is_empty() {
            table.add_row(head.iter().cloned().chain(std::iter::repeat_n("–".to_owned(), 8)));
        }
        for Row { priority, now, before, .. } in of_port {
            let spent = |now: u64, before: u64| {
                let ns = now.saturating_sub(before);
                [format!("{:.3}", ns as f64 / 1e9), tenths(ns as f64 * 100.0 / elapsed.max(1) as f64)]
            };
            let (we, it) = (spent(now.xoff_ns, before.xoff_ns), spent(now.paused_ns, before.paused_ns));
            let words = [priority.to_string(), state(port, *priority).to_owned()];
            let sent = [grouped(now.xoff_episodes.saturating_sub(before.xoff_episodes))];
            let received = [grouped(now.pauses.saturating_sub(before.pauses))];
            table.add_row(head.iter().cloned().chain(words).chain(sent).chain(we).chain(received).chain(it));
        }
    }
    table
}

fn state(port: &Port, priority: usize) -> &'static str {
    let group = port.groups.get(priority).copied().unwrap_or_default();
    let is_paused = port.priorities.get(priority).is_some_and(|priority| priority.paused);
    match (group.xoff, is_paused, group.no_drop) {
        (true, true, _) => "XOFF, paused",
        (true, false, _) => "XOFF",
        (false, true, _) => "paused",
        (false, false, true) => "no-drop",
        (false, false, false) => "lossy",
    }
}

/// Formats a count since the start, or its growth per second since the earlier snapshot.
fn total_or_rate(now: u64, before: u64, elapsed_ns: u64) -> String {
    grouped(per_second(now, before, elapsed_ns).unwrap_or(now))
}

/// Formats the XOFF and XON of each priority, and the PFC frames of the last second.
fn frames_by_priority(snapshot: &Snapshot, before: Option<&Snapshot>) -> Grid {
    let elapsed = elapsed_ns(snapshot, before);
    let unit = if elapsed == 0 { "frames" } else { "per second" };
    let headings =
        ["XOFF sent", "XON sent", "XOFF received", "XON received"].map(|of| format!("{of}\n{unit}"));
    let headings: Vec<&str> = ["Port", "Priority"]
        .into_iter()
        .chain(headings.iter().map(String::as_str))
        .chain(["PFC sent in\nlast second", "PFC received\nin last second"])
        .collect();
    let mut table = format::table(&headings, 2);
    for Row { port, priority, now, before } in rows(snapshot, before) {
        let rates = port.priorities.get(priority).map_or([0; 2], |of| [of.sent_pps, of.received_pps]);
        let frames = now.frames.iter().zip(before.frames);
        let frames = frames.map(|(&now, before)| total_or_rate(now, before, elapsed));
        let words = [port.name.clone(), priority.to_string()];
        table.add_row(words.into_iter().chain(frames).chain(rates.map(grouped)));
    }
    table
}

/// Formats the PFC frames of each port, those sent by the reason for which they were sent.
fn frames_by_reason(snapshot: &Snapshot, before: Option<&Snapshot>) -> String {
    let elapsed = elapsed_ns(snapshot, before);
    let unit = if elapsed == 0 { "frames" } else { "per second" };
    let (sent, received) = (format!("PFC sent\n{unit}"), format!("PFC received\n{unit}"));
    let headings =
        ["Port", &sent, "for\nchanges", "refreshes", "repeats", "by the\nguard", &received, "malformed"];
    let mut table = format::table(&headings, 1);
    let of_port = |port: &Port| {
        [
            count(&port.pfc_sent).frames,
            port.pfc_change_frames,
            port.pfc_refresh_frames,
            port.pfc_repeat_frames,
            port.pfc_guard_frames,
            count(&port.pfc_received).frames,
            port.pfc_malformed_frames,
        ]
    };
    for port in &snapshot.ports {
        let before = earlier(before, &port.name).map_or([0; 7], of_port);
        let frames = of_port(port).into_iter().zip(before);
        let frames = frames.map(|(now, before)| total_or_rate(now, before, elapsed));
        table.add_row(std::iter::once(port.name.clone()).chain(frames));
    }
    table.trim_fmt()
}

/// Formats 802.3x PAUSE, if a port sent or received any.
fn link_pauses(snapshot: &Snapshot) -> Option<String> {
    let headings =
        ["Port", "PAUSE sent\nframes", "PAUSE received\nframes", "Link paused\ntimes", "for\ns", "Now"];
    let mut table = format::table(&headings, 1);
    for port in &snapshot.ports {
        if [port.pause_sent_frames, port.pause_received_frames, port.link_pauses] == [0; 3] {
            continue;
        }
        table.add_row([
            port.name.clone(),
            grouped(port.pause_sent_frames),
            grouped(port.pause_received_frames),
            grouped(port.link_pauses),
            format!("{:.3}", port.link_paused_ns as f64 / 1e9),
            if port.link_paused { "paused" } else { "sends" }.to_owned(),
        ]);
    }
    (!table.is_empty()).then(|| table.trim_fmt())
}

/// Returns a word with a capital.
fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
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
            port.name.clone(),
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

fn all_priorities(snapshot: &Snapshot) -> impl Iterator<Item = (&Port, usize, &Priority)> {
    snapshot.ports.iter().flat_map(|port| {
        let priorities = port.priorities.iter().enumerate();
        priorities.map(move |(number, priority)| (port, number, priority))
    })
}

/// Formats how often and for how long priorities were paused, in both directions, the rates of PFC,
/// and the last storms.
pub fn history(snapshot: &Snapshot) -> String {
    let headings = [
        "Port",
        "Priority",
        "Direction",
        "Now",
        "Pauses\nbegun",
        "Pauses\nended",
        "Paused\nns",
        "PFC\nper second",
    ];
    let mut pauses = format::table(&headings, 4);
    for (port, number, priority) in all_priorities(snapshot) {
        let group = port.groups.get(number).copied().unwrap_or_default();
        for (direction, now, [episodes, paused_ns, pps]) in [
            ("we paused it", group.xoff, [group.xoff_episodes, group.xoff_ns, priority.sent_pps]),
            ("it paused us", priority.paused, [priority.pauses, priority.paused_ns, priority.received_pps]),
        ] {
            if [episodes, paused_ns, pps] == [0; 3] {
                continue;
            }
            let numbers = [episodes, episodes.saturating_sub(u64::from(now)), paused_ns, pps];
            let now = if now { "paused" } else { "sends" };
            let words = [&port.name, &number.to_string(), direction, now].map(str::to_owned);
            pauses.add_row(words.into_iter().chain(numbers.map(grouped)));
        }
    }
    let pauses = if pauses.is_empty() {
        "No priority was paused, and none paused its peer.".to_owned()
    } else {
        pauses.trim_fmt()
    };
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
        insta::assert_snapshot!(table(&sample::snapshot(), None));
    }

    /// On 200 columns, pauses and frames of a priority are one row; on 80 the tables are split.
    #[test]
    fn tables_fit_the_terminal() {
        let now = sample::snapshot();
        let both = |width| pauses(&now, None).fitted_with(&frames_by_priority(&now, None), width, width);
        insta::assert_snapshot!(both(200));
        let narrow = both(80);
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert_eq!(narrow.matches("Port").count(), 4, "{narrow}");
    }

    /// Two seconds later: the peer was in XOFF for half of the time.
    #[test]
    fn table_of_rates() {
        let (before, mut now) = (sample::snapshot(), sample::later());
        let group = &mut now.ports[0].groups[3];
        (group.xoff_episodes, group.xoff_ns) = (group.xoff_episodes + 40, group.xoff_ns + 1_000_000_000);
        now.ports[0].pfc_sent.as_mut().unwrap().xoff_frames[3] += 80;
        now.ports[0].pfc_change_frames += 80;
        insta::assert_snapshot!(table(&now, Some(&before)));
    }

    #[test]
    fn pauses_and_storms() {
        insta::assert_snapshot!(history(&sample::snapshot()));
    }

    #[test]
    fn pfc_that_is_off_is_seen() {
        let off = Snapshot { pfc_enabled: false, ..sample::snapshot() };
        let text = table(&off, None);
        assert!(text.starts_with("PFC is off on all ports; `sluice pfc on` turns it on.\n\nPort"), "{text}");
    }
}
