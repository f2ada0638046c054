//! `sluice show congestion`: what each queue forwarded, marked and dropped, and why.

use control::v1::{Count, Port, Queue, Snapshot};
use serde::Serialize;

use super::text::{self, earlier, elapsed_ns, frames, grouped, rate, volume, volume_unit};

/// For people: the queues that ever had something to do. With a snapshot from before, rates instead of MB.
pub fn table(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let elapsed_ns = elapsed_ns(now, before);
    let sent_frames = if elapsed_ns == 0 { "Sent\nframes" } else { "Sent\nframes/s" };
    let mut table = text::table(
        &[
            "Port",
            "Queue",
            "Waiting\nframes",
            "Average\ncells",
            sent_frames,
            &format!("Sent\n{}", volume_unit(elapsed_ns)),
            "ECN\nmarked",
            "Tail\ndropped",
            "WRED dropped\ngreen",
            "\nyellow",
            "\nred",
        ],
        2,
    );
    for port in &now.ports {
        let earlier = earlier(before, &port.name);
        for (number, queue) in port.queues.iter().enumerate().filter(|(_, queue)| was_used(queue)) {
            let before = earlier.and_then(|port| port.queues.get(number)?.transmitted);
            table.add_row([
                port.name.clone(),
                number.to_string(),
                grouped(queue.waiting_frames),
                grouped(queue.average_cells.into()),
                rate(queue.transmitted, before, elapsed_ns),
                volume(queue.transmitted, before, elapsed_ns),
                frames(queue.marked),
                frames(queue.dropped),
                frames(queue.wred_green),
                frames(queue.wred_yellow),
                frames(queue.wred_red),
            ]);
        }
    }
    if table.is_empty() { "No queue has seen a frame yet.".to_owned() } else { table.trim_fmt() }
}

fn was_used(queue: &Queue) -> bool {
    let counts = [queue.transmitted, queue.dropped, queue.wred_green, queue.wred_yellow, queue.wred_red];
    queue.waiting_frames > 0 || counts.iter().any(|count| count.unwrap_or_default().frames > 0)
}

/// For programs: every queue; with a snapshot from before, rates too.
pub fn json(now: &Snapshot, before: Option<&Snapshot>) -> impl Serialize {
    let elapsed_ns = elapsed_ns(now, before);
    let rows = |port: &Port| -> Vec<QueueJson> {
        let earlier = earlier(before, &port.name);
        let row = |(number, queue): (usize, &Queue)| {
            let before = earlier.and_then(|port| port.queues.get(number)?.transmitted);
            QueueJson::of(port, number, queue, before, elapsed_ns)
        };
        port.queues.iter().enumerate().map(row).collect()
    };
    Queues { at_ns: now.at_ns, cell_bytes: now.cell_bytes, queues: now.ports.iter().flat_map(rows).collect() }
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
    waiting_frames: u64,
    average_cells: u32,
    forwarded_frames: u64,
    forwarded_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    forwarded_pps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forwarded_bps: Option<u64>,
    marked_frames: u64,
    marked_bytes: u64,
    tail_dropped_frames: u64,
    tail_dropped_bytes: u64,
    wred_dropped: [WredJson; 3],
}

#[derive(Serialize)]
struct WredJson {
    level: &'static str,
    frames: u64,
    bytes: u64,
}

impl QueueJson {
    fn of(port: &Port, number: usize, queue: &Queue, before: Option<Count>, elapsed_ns: u64) -> Self {
        let [sent, marked, dropped] =
            [queue.transmitted, queue.marked, queue.dropped].map(Option::unwrap_or_default);
        let before = before.unwrap_or_default();
        let per_second = |now: u64, before: u64| {
            let more = u128::from(now.saturating_sub(before)) * 1_000_000_000;
            (elapsed_ns > 0).then(|| (more / u128::from(elapsed_ns.max(1))) as u64)
        };
        let wred = [("green", queue.wred_green), ("yellow", queue.wred_yellow), ("red", queue.wred_red)];
        Self {
            port: port.name.clone(),
            queue: number,
            waiting_frames: queue.waiting_frames,
            average_cells: queue.average_cells,
            forwarded_frames: sent.frames,
            forwarded_bytes: sent.bytes,
            forwarded_pps: per_second(sent.frames, before.frames),
            forwarded_bps: per_second(8 * sent.bytes, 8 * before.bytes),
            marked_frames: marked.frames,
            marked_bytes: marked.bytes,
            tail_dropped_frames: dropped.frames,
            tail_dropped_bytes: dropped.bytes,
            wred_dropped: wred.map(|(level, count)| {
                let Count { frames, bytes } = count.unwrap_or_default();
                WredJson { level, frames, bytes }
            }),
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
        let value = serde_json::to_value(json(&sample::snapshot(), None)).unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&value["queues"][10]).unwrap());
        let value = serde_json::to_value(json(&sample::later(), Some(&sample::snapshot()))).unwrap();
        assert_eq!(value["queues"][11]["forwarded_pps"], (297_500 - 247_917) / 2);
        assert_eq!(value["queues"][11]["forwarded_bps"], (450_000_000_u64 - 375_000_000) * 8 / 2);
    }
}
