//! `sluice show queues`: what waits on its way out, and what stopped it.

use control::v1::{Queue, Snapshot};
use serde::Serialize;

use super::text::{self, earlier, elapsed_ns, frames, grouped, volume, volume_unit};

/// What the API says for a queue without a limit.
const NO_LIMIT: u32 = u32::MAX;

/// For people: the queues that ever had something to do.
pub fn table(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let elapsed_ns = elapsed_ns(now, before);
    let headings = [
        "Port",
        "Queue",
        "State",
        "Waiting\nframes",
        "Held\ncells",
        "Peak\ncells",
        "Limit\ncells",
        "Sent\nframes",
        &format!("Sent\n{}", volume_unit(elapsed_ns)),
        "Dropped\nframes",
        "Pauses",
        "Paused\nms",
    ];
    let mut table = text::table(&headings, 3);
    let mut silent = 0;
    for port in &now.ports {
        let earlier = earlier(before, &port.name);
        for (number, queue) in port.queues.iter().enumerate() {
            if !was_used(queue) {
                silent += 1;
                continue;
            }
            let level = queue.level.unwrap_or_default();
            let before = earlier.and_then(|port| port.queues.get(number)?.transmitted);
            table.add_row([
                port.name.clone(),
                number.to_string(),
                if queue.paused { "paused" } else { "open" }.to_owned(),
                grouped(queue.waiting_frames),
                grouped(level.cells.into()),
                grouped(level.peak_cells.into()),
                limit(queue).map_or("–".to_owned(), |cells| grouped(cells.into())),
                frames(queue.transmitted),
                volume(queue.transmitted, before, elapsed_ns),
                frames(queue.dropped),
                grouped(queue.pauses),
                grouped(queue.paused_ns / 1_000_000),
            ]);
        }
    }
    match (table.is_empty(), silent) {
        (true, _) => "No queue has seen a frame yet.".to_owned(),
        (false, 0) => table.trim_fmt(),
        (false, _) => format!("{}\n\n{silent} queues have seen no frame.", table.trim_fmt()),
    }
}

fn was_used(queue: &Queue) -> bool {
    queue.level.unwrap_or_default().peak_cells > 0
        || queue.transmitted.unwrap_or_default().frames > 0
        || queue.dropped.unwrap_or_default().frames > 0
        || queue.pauses > 0
}

fn limit(queue: &Queue) -> Option<u32> {
    (queue.threshold_cells != NO_LIMIT).then_some(queue.threshold_cells)
}

/// For programs: every queue.
pub fn json(snapshot: &Snapshot) -> impl Serialize {
    let rows = |port: &control::v1::Port| -> Vec<QueueJson> {
        port.queues
            .iter()
            .enumerate()
            .map(|(number, queue)| QueueJson::of(&port.name, number, queue))
            .collect()
    };
    Queues {
        at_ns: snapshot.at_ns,
        cell_bytes: snapshot.cell_bytes,
        queues: snapshot.ports.iter().flat_map(rows).collect(),
    }
}

#[derive(Serialize)]
struct Queues {
    at_ns: u64,
    cell_bytes: u32,
    queues: Vec<QueueJson>,
}

#[derive(Serialize)]
struct QueueJson {
    port: String,
    queue: usize,
    paused: bool,
    pauses: u64,
    paused_ns: u64,
    held_cells: u32,
    held_peak_cells: u32,
    waiting_frames: u64,
    threshold_cells: Option<u32>,
    transmitted_frames: u64,
    transmitted_bytes: u64,
    dropped_frames: u64,
    dropped_bytes: u64,
}

impl QueueJson {
    fn of(port: &str, number: usize, queue: &Queue) -> Self {
        let level = queue.level.unwrap_or_default();
        let (transmitted, dropped) =
            (queue.transmitted.unwrap_or_default(), queue.dropped.unwrap_or_default());
        Self {
            port: port.to_owned(),
            queue: number,
            paused: queue.paused,
            pauses: queue.pauses,
            paused_ns: queue.paused_ns,
            held_cells: level.cells,
            held_peak_cells: level.peak_cells,
            waiting_frames: queue.waiting_frames,
            threshold_cells: limit(queue),
            transmitted_frames: transmitted.frames,
            transmitted_bytes: transmitted.bytes,
            dropped_frames: dropped.frames,
            dropped_bytes: dropped.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn table_of_totals() {
        insta::assert_snapshot!(table(&sample::snapshot(), None));
    }

    #[test]
    fn table_of_rates() {
        insta::assert_snapshot!(table(&sample::later(), Some(&sample::snapshot())));
    }

    #[test]
    fn table_of_nothing() {
        assert_eq!(table(&Snapshot::default(), None), "No queue has seen a frame yet.");
    }

    #[test]
    fn json_of_a_queue() {
        let value = serde_json::to_value(json(&sample::snapshot())).unwrap();
        assert_eq!(value["queues"].as_array().unwrap().len(), 24, "all queues of three ports");
        insta::assert_snapshot!(serde_json::to_string_pretty(&value["queues"][11]).unwrap());
    }

    #[test]
    fn no_limit_is_null() {
        let value = serde_json::to_value(json(&sample::snapshot())).unwrap();
        assert!(value["queues"][11]["threshold_cells"].is_null());
        assert_eq!(value["queues"][10]["threshold_cells"], 640);
    }
}
