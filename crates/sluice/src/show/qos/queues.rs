//! `sluice show queues`: frames that wait for transmission, and why.

use control::v1::{Port, Queue, Snapshot};

use super::buffers::kind;
use crate::show::format::{self, Unit, earlier, elapsed_ns, frames, grouped, volume, volume_unit};

/// Formats the cells of the queues that ever had frames, then their counters.
pub fn table(now: &Snapshot, before: Option<&Snapshot>, unit: Unit) -> String {
    let elapsed_ns = elapsed_ns(now, before);
    let of_cells = |name: &str| format!("{name}\n{}", unit.name);
    let sizes = ["Held", "Guaranteed", "Limit"].map(of_cells);
    let mut cells = format::table(
        &[
            "Port",
            "Queue",
            "State",
            "Limit\nis",
            "Pool",
            "Waiting\nframes",
            &sizes[0],
            "Peak since\ncleared",
            &sizes[1],
            &sizes[2],
        ],
        4,
    );
    let sent_volume = format!("Sent\n{}", volume_unit(elapsed_ns));
    let mut counts = format::table(
        &[
            "Port",
            "Queue",
            "Sent\nframes",
            &sent_volume,
            "Dropped\nframes",
            "Lost by\nkernel",
            "Pauses",
            "Paused\nms",
        ],
        2,
    );
    let mut silent = 0;
    for port in &now.ports {
        let earlier = earlier(before, &port.name);
        for (number, queue) in port.queues.iter().enumerate() {
            if !was_used(queue) {
                silent += usize::from(*queue != Queue::default()); // not one that was not asked for
                continue;
            }
            let level = queue.level.unwrap_or_default();
            let before = earlier.and_then(|port| port.queues.get(number)?.transmitted);
            cells.add_row([
                port.name.clone(),
                number.to_string(),
                state(port, queue).to_owned(),
                queue.threshold_cells.map_or("–", |_| kind(queue.is_dynamic)).to_owned(),
                queue.pool.to_string(),
                grouped(queue.waiting_frames),
                unit.of(level.cells),
                unit.of(level.peak_clear_cells),
                unit.of(queue.guaranteed_cells),
                queue.threshold_cells.map_or("–".to_owned(), |cells| unit.of(cells)),
            ]);
            counts.add_row([
                port.name.clone(),
                number.to_string(),
                frames(queue.transmitted),
                volume(queue.transmitted, before, elapsed_ns),
                frames(queue.dropped),
                frames(queue.kernel_lost),
                grouped(queue.pauses),
                grouped(queue.paused_ns / 1_000_000),
            ]);
        }
    }
    let has_queues = !cells.is_empty();
    let mut text = if has_queues { cells.with(&counts) } else { "No queue has seen a frame yet.".to_owned() };
    if has_queues && silent > 0 {
        text += &format!("\n\n{silent} queues have seen no frame.");
    }
    if let Some(held) = held(now) {
        text += &format!("\n\n{held}");
    }
    text
}

/// Lists the held ports, whether or not their queues hold frames.
fn held(snapshot: &Snapshot) -> Option<String> {
    let names: Vec<&str> =
        snapshot.ports.iter().filter(|port| port.held).map(|port| port.name.as_str()).collect();
    let (ports, are) = if names.len() == 1 { ("Port", "is") } else { ("Ports", "are") };
    let names = (!names.is_empty()).then(|| names.join(", "))?;
    Some(format!("{ports} {names} {are} held; `sluice port release NAME` lets the frames go."))
}

fn state(port: &Port, queue: &Queue) -> &'static str {
    let flooded_differ = queue.flooded_paused != queue.paused;
    match (port.held, queue.paused) {
        (true, _) => "held",
        (false, true) if flooded_differ && queue.flooded_frames > 0 => "unicast\npaused",
        (false, true) => "paused",
        (false, false) if flooded_differ => "flooded\npaused",
        (false, false) if queue.no_room => "no room\nat peer",
        (false, false) => "open",
    }
}

fn was_used(queue: &Queue) -> bool {
    queue.level.unwrap_or_default().peak_cells > 0
        || queue.transmitted.unwrap_or_default().frames > 0
        || queue.dropped.unwrap_or_default().frames > 0
        || queue.kernel_lost.unwrap_or_default().frames > 0
        || queue.pauses > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

    /// A guest that has posted no buffers.
    #[test]
    fn a_queue_without_room_at_the_peer() {
        let full = Queue { no_room: true, ..Queue::default() };
        assert_eq!(state(&Port::default(), &full), "no room\nat peer");
        assert_eq!(state(&Port::default(), &Queue { paused: true, flooded_paused: true, ..full }), "paused");
    }

    #[test]
    fn table_of_totals() {
        insta::assert_snapshot!(table(&sample::snapshot(), None, Unit::CELLS));
    }

    #[test]
    fn table_of_rates() {
        insta::assert_snapshot!(table(&sample::later(), Some(&sample::snapshot()), Unit::CELLS));
    }

    #[test]
    fn ports_that_are_held_are_seen() {
        let mut snapshot = sample::snapshot();
        snapshot.ports[1].held = true;
        snapshot.ports[2].held = true;
        let text = table(&snapshot, None, Unit::CELLS);
        assert!(text.contains("uplink   3      held "), "{text}");
        let ends = "Ports uplink, spare are held; `sluice port release NAME` lets the frames go.";
        assert!(text.ends_with(ends), "{text}");
    }

    #[test]
    fn table_of_nothing() {
        assert_eq!(table(&Snapshot::default(), None, Unit::CELLS), "No queue has seen a frame yet.");
    }
}
