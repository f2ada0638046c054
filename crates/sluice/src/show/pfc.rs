//! `sluice show pfc`: who is told to stop, and who tells us.

use control::v1::{PfcCount, Snapshot};

use super::text::{self, grouped};

/// For people: the frames of each port, then the priorities that are no-drop or ever saw PFC.
pub fn table(snapshot: &Snapshot) -> String {
    let headings = [
        "Port",
        "PFC sent\nframes",
        "PFC received\nframes",
        "Malformed\nframes",
        "PAUSE sent\nframes",
        "PAUSE received\nframes",
        "Link pauses",
        "Link paused\nms",
    ];
    let mut ports = text::table(&headings, 1);
    for port in &snapshot.ports {
        ports.add_row([
            port.name.clone(),
            grouped(count(&port.pfc_sent).frames),
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
}
