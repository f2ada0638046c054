//! `sluice show queues`: what waits on its way out, and what stopped it.

use control::v1::{Port, Queue, Snapshot};
use serde::Serialize;

use super::text::{self, earlier, elapsed_ns, frames, grouped, volume, volume_unit};

/// What the API says for a queue without a limit.
const NO_LIMIT: u32 = u32::MAX;

/// For people: what the queues that ever had something to do hold, then what they counted.
pub fn table(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let elapsed_ns = elapsed_ns(now, before);
    let mut cells = text::table(
        &[
            "Port",
            "Queue",
            "State",
            "Pool",
            "Waiting\nframes",
            "Held\ncells",
            "\npeak",
            "Guaranteed\ncells",
            "Limit\ncells",
            "Usage\nviolations",
        ],
        3,
    );
    let sent_volume = format!("Sent\n{}", volume_unit(elapsed_ns));
    let mut counts = text::table(
        &["Port", "Queue", "Sent\nframes", &sent_volume, "Dropped\nframes", "Pauses", "Paused\nms"],
        2,
    );
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
            cells.add_row([
                port.name.clone(),
                number.to_string(),
                state(port, queue).to_owned(),
                queue.pool.to_string(),
                grouped(queue.waiting_frames),
                grouped(level.cells.into()),
                grouped(level.peak_read_cells.into()),
                grouped(queue.guaranteed_cells.into()),
                limit(queue).map_or("–".to_owned(), |cells| grouped(cells.into())),
                grouped(queue.violations),
            ]);
            counts.add_row([
                port.name.clone(),
                number.to_string(),
                frames(queue.transmitted),
                volume(queue.transmitted, before, elapsed_ns),
                frames(queue.dropped),
                grouped(queue.pauses),
                grouped(queue.paused_ns / 1_000_000),
            ]);
        }
    }
    let tables = || format!("{}\n\n{}", cells.trim_fmt(), counts.trim_fmt());
    let mut text = if cells.is_empty() { "No queue has seen a frame yet.".to_owned() } else { tables() };
    if !cells.is_empty() && silent > 0 {
        text += &format!("\n\n{silent} queues have seen no frame.");
    }
    if let Some(held) = held(now) {
        text += &format!("\n\n{held}");
    }
    text
}

/// Which ports are held, whether or not their queues hold anything.
fn held(snapshot: &Snapshot) -> Option<String> {
    let names: Vec<&str> =
        snapshot.ports.iter().filter(|port| port.held).map(|port| port.name.as_str()).collect();
    let (ports, are) = if names.len() == 1 { ("Port", "is") } else { ("Ports", "are") };
    let names = (!names.is_empty()).then(|| names.join(", "))?;
    Some(format!("{ports} {names} {are} held; `sluice port release NAME` lets the frames go."))
}

fn state(port: &Port, queue: &Queue) -> &'static str {
    match (port.held, queue.paused) {
        (true, _) => "held",
        (false, true) => "paused",
        (false, false) => "open",
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
    let rows = |port: &Port| -> Vec<QueueJson> {
        port.queues.iter().enumerate().map(|(number, queue)| QueueJson::of(port, number, queue)).collect()
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
    held: bool,
    paused: bool,
    pauses: u64,
    paused_ns: u64,
    pool: u32,
    held_cells: u32,
    held_peak_read_cells: u32,
    held_peak_clear_cells: u32,
    held_peak_cells: u32,
    guaranteed_cells: u32,
    threshold_cells: Option<u32>,
    is_dynamic: bool,
    violations: u64,
    waiting_frames: u64,
    transmitted_frames: u64,
    transmitted_bytes: u64,
    dropped_frames: u64,
    dropped_bytes: u64,
}

impl QueueJson {
    fn of(port: &Port, number: usize, queue: &Queue) -> Self {
        let level = queue.level.unwrap_or_default();
        let (transmitted, dropped) =
            (queue.transmitted.unwrap_or_default(), queue.dropped.unwrap_or_default());
        Self {
            port: port.name.clone(),
            queue: number,
            held: port.held,
            paused: queue.paused,
            pauses: queue.pauses,
            paused_ns: queue.paused_ns,
            pool: queue.pool,
            held_cells: level.cells,
            held_peak_read_cells: level.peak_read_cells,
            held_peak_clear_cells: level.peak_clear_cells,
            held_peak_cells: level.peak_cells,
            guaranteed_cells: queue.guaranteed_cells,
            threshold_cells: limit(queue),
            is_dynamic: queue.is_dynamic,
            violations: queue.violations,
            waiting_frames: queue.waiting_frames,
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
    fn ports_that_are_held_are_seen() {
        let mut snapshot = sample::snapshot();
        snapshot.ports[1].held = true;
        snapshot.ports[2].held = true;
        let text = table(&snapshot, None);
        assert!(text.contains("uplink   3      held "), "{text}");
        let ends = "Ports uplink, spare are held; `sluice port release NAME` lets the frames go.";
        assert!(text.ends_with(ends), "{text}");
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
