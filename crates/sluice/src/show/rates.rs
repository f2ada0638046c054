//! `sluice show rates`: frames and bits a second of each port in both directions, its use of the
//! line, drops and PFC a second, and how much of it is broadcast and multicast.

use control::v1::{Count, Port, Snapshot};

use super::format::tenths;
use super::format::{self, earlier, elapsed_ns, grouped, per_second, rate, utilization_percent, volume};

/// Formats what happened between two snapshots; without the earlier one, since the start.
pub fn table(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let start = Snapshot::default();
    let before = before.unwrap_or(&start);
    let elapsed = elapsed_ns(now, Some(before));
    let headings = [
        "Port",
        "Received\nframes/s",
        "Received\nMbit/s",
        "Used\n%",
        "Sent\nframes/s",
        "Sent\nMbit/s",
        "Used\n%",
        "Dropped\nframes/s",
        "PFC in\nframes/s",
        "PFC out\nframes/s",
    ];
    let mut table = format::table(&headings, 1);
    for port in &now.ports {
        let none = Port::default();
        let earlier = earlier(Some(before), &port.name).unwrap_or(&none);
        let pfc = |of: fn(&Port) -> u64| grouped(per_second(of(port), of(earlier), elapsed).unwrap_or(0));
        let dropped = per_second(port.dropped_frames(), earlier.dropped_frames(), elapsed).unwrap_or(0);
        let used = |of: fn(&Port) -> Option<Count>| {
            utilization_percent(port, Some(earlier), elapsed, of).map_or("–".to_owned(), tenths)
        };
        table.add_row([
            port.name.clone(),
            rate(port.received, earlier.received, elapsed),
            volume(port.received, earlier.received, elapsed),
            used(|port| port.received),
            rate(port.transmitted, earlier.transmitted, elapsed),
            volume(port.transmitted, earlier.transmitted, elapsed),
            used(|port| port.transmitted),
            grouped(dropped),
            pfc(|port| port.pfc_received.as_ref().map_or(0, |count| count.frames)),
            pfc(|port| port.pfc_sent.as_ref().map_or(0, |count| count.frames)),
        ]);
    }
    let seconds = format!("{:.1}", elapsed as f64 / 1e9);
    format!(
        "Averages of {seconds} s; Mbit/s without FCS, Used with all that frames take of the line.\n\n{}{}",
        table.trim_fmt(),
        to_groups(now, before, elapsed)
    )
}

/// Formats broadcast and multicast frames a second of the ports that had any; empty without.
fn to_groups(now: &Snapshot, before: &Snapshot, elapsed_ns: u64) -> String {
    let headings =
        ["Port", "Broadcast\nreceived/s", "Multicast\nreceived/s", "Broadcast\nsent/s", "Multicast\nsent/s"];
    let mut table = format::table(&headings, 1);
    let none = Port::default();
    for port in &now.ports {
        let earlier = earlier(Some(before), &port.name).unwrap_or(&none);
        let counts: [fn(&Port) -> u64; 4] = [
            |port| port.received_broadcast_frames,
            |port| port.received_multicast_frames,
            |port| port.transmitted_broadcast_frames,
            |port| port.transmitted_multicast_frames,
        ];
        // Less than one a second is a row as well.
        if counts.iter().any(|of| of(port) > of(earlier)) {
            let rates = counts.map(|of| per_second(of(port), of(earlier), elapsed_ns).unwrap_or(0));
            table.add_row(std::iter::once(port.name.clone()).chain(rates.map(grouped)));
        }
    }
    if table.is_empty() { String::new() } else { format!("\n\n{}", table.trim_fmt()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

    #[test]
    fn table_of_two_seconds() {
        insta::assert_snapshot!(table(&sample::later(), Some(&sample::snapshot())));
    }

    #[test]
    fn without_an_earlier_snapshot_since_the_start() {
        let text = table(&sample::snapshot(), None);
        assert!(text.starts_with("Averages of 10.0 s"), "{text}");
    }

    #[test]
    fn a_port_with_less_than_one_broadcast_frame_a_second_has_a_row() {
        let at = |at_ns, received_broadcast_frames| {
            let port = Port { name: "quiet".into(), received_broadcast_frames, ..Port::default() };
            Snapshot { at_ns, ports: vec![port], ..Snapshot::default() }
        };
        let groups = |frames| to_groups(&at(10_000_000_000, frames), &at(0, 7), 10_000_000_000);
        assert!(groups(8).contains("quiet"), "{}", groups(8));
        assert_eq!(groups(7), "");
    }
}
