//! `sluice show drops`: a summary of drops, of all ports and of each, by side and reason.
//!
//! It is H3C's "display packet-drop" (H3C RDMA technical reference, table 10): dropped for want of
//! buffer at input and at output, dropped by WRED, marked with ECN; with the totals forwarded and
//! dropped outbound of "display qos queue-statistics interface outbound" (table 4). A frame counts
//! on the input side of the port that it came in by, or on the output side of the port that it was
//! to leave by (docs/behavior.md, "Drops").

use control::v1::{Count, Port, Snapshot};
use schemars::JsonSchema;
use serde::Serialize;
use switch::DropReason;
use switch::monitor::counters::kernel::RX_LOSSES;
use switch::monitor::counters::{DropSide, DropSum};

use super::format::{self, grouped, volume};

/// Totals of all ports together, or of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Summary {
    /// Frames received and never queued.
    input_dropped: Count,
    /// Input drops because the buffer was full.
    input_buffer_dropped: Count,
    /// Frames transmitted.
    transmitted: Count,
    /// Frames dropped at output.
    output_dropped: Count,
    /// Output drops because the queue, or its pool, was full.
    output_buffer_dropped: Count,
    /// Output drops by WRED.
    wred_dropped: Count,
    /// Frames marked as having met congestion.
    marked: Count,
    /// Frames that the kernel lost before or after the switch had them.
    kernel_lost_frames: u64,
}

/// Drops of a port, on one side, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DropRow<'a> {
    port: &'a str,
    side: &'static str,
    reason: String,
    frames: u64,
    /// Bytes dropped; `None` for drops on receipt in the kernel, which does not report lengths.
    bytes: Option<u64>,
}

const INPUT: &str = "input";
const OUTPUT: &str = "output";

fn of_port(port: &Port) -> Summary {
    let of = |side, sum| port.dropped_where(|reason| (reason.side(), reason.sum()) == (side, sum));
    Summary {
        input_dropped: port.input_dropped.unwrap_or_default(),
        input_buffer_dropped: of(DropSide::Input, DropSum::NoBuffer),
        transmitted: port.transmitted.unwrap_or_default(),
        output_dropped: port.output_dropped.unwrap_or_default(),
        output_buffer_dropped: of(DropSide::Output, DropSum::NoBuffer),
        wred_dropped: of(DropSide::Output, DropSum::Wred),
        marked: port.queues.iter().filter_map(|queue| queue.marked).sum(),
        kernel_lost_frames: port.kernel_lost_frames + port.kernel_counters().rx_lost_frames(),
    }
}

/// Summarizes all ports.
pub fn summary(snapshot: &Snapshot) -> Summary {
    snapshot.ports.iter().map(of_port).fold(Summary::default(), |sum, port| Summary {
        input_dropped: sum.input_dropped + port.input_dropped,
        input_buffer_dropped: sum.input_buffer_dropped + port.input_buffer_dropped,
        transmitted: sum.transmitted + port.transmitted,
        output_dropped: sum.output_dropped + port.output_dropped,
        output_buffer_dropped: sum.output_buffer_dropped + port.output_buffer_dropped,
        wred_dropped: sum.wred_dropped + port.wred_dropped,
        marked: sum.marked + port.marked,
        kernel_lost_frames: sum.kernel_lost_frames + port.kernel_lost_frames,
    })
}

fn minus(a: Count, b: Count) -> Count {
    Count { frames: a.frames.saturating_sub(b.frames), bytes: a.bytes.saturating_sub(b.bytes) }
}

/// Returns every port, side and reason, including those without drops.
pub fn rows(snapshot: &Snapshot) -> Vec<DropRow<'_>> {
    snapshot.ports.iter().flat_map(rows_of).collect()
}

fn rows_of(port: &Port) -> Vec<DropRow<'_>> {
    let row = |side, reason: &str, count: Count| DropRow {
        port: &port.name,
        side,
        reason: reason.to_owned(),
        frames: count.frames,
        bytes: Some(count.bytes),
    };
    // Two reasons are counted on both sides. Of `watchdog`, the queues' own drops are at output. Of
    // `port_down`, what remains of the output side is of queued frames; the rest was received while
    // the switch shut down.
    let of_queues: Count = port.queues.iter().filter_map(|queue| queue.storm_dropped).sum();
    let others = port.dropped_where(|reason| reason.side() == DropSide::Output) + of_queues;
    let of_queued = minus(port.output_dropped.unwrap_or_default(), others);
    let mut rows = Vec::new();
    for reason in DropReason::ALL {
        let (name, count) = (reason.name(), port.dropped(reason));
        match reason.side() {
            DropSide::Both => {
                let output = if reason == DropReason::Watchdog { of_queues } else { of_queued };
                rows.push(row(INPUT, name, minus(count, output)));
                rows.push(row(OUTPUT, name, output));
            }
            DropSide::Output => rows.push(row(OUTPUT, name, count)),
            DropSide::Input => rows.push(row(INPUT, name, count)),
        }
    }
    let kernel = port.kernel_counters();
    let received = RX_LOSSES.map(|loss| (INPUT, format!("kernel_{}", loss.name), (loss.frames)(&kernel)));
    let pfc = (OUTPUT, "kernel_lost_pfc".to_owned(), port.kernel_lost_pfc_frames);
    for (side, reason, frames) in received.into_iter().chain([pfc]) {
        rows.push(DropRow { port: &port.name, side, reason, frames, bytes: None });
    }
    rows.push(row(OUTPUT, "kernel_lost", port.queues.iter().filter_map(|queue| queue.kernel_lost).sum()));
    rows
}

/// Formats all ports and each of them, then the drops that happened, by side and reason.
pub fn table(snapshot: &Snapshot) -> String {
    let headings = [
        "Port",
        "Input\ndropped",
        "of these\nno buffer",
        "Forwarded\nframes",
        "Output\ndropped",
        "of these\nno buffer",
        "of these\nWRED",
        "ECN\nmarked",
        "Kernel\nlost",
    ];
    let mut totals = format::table(&headings, 1);
    let mut add = |name: &str, sum: &Summary| {
        totals.add_row([
            name.to_owned(),
            grouped(sum.input_dropped.frames),
            grouped(sum.input_buffer_dropped.frames),
            grouped(sum.transmitted.frames),
            grouped(sum.output_dropped.frames),
            grouped(sum.output_buffer_dropped.frames),
            grouped(sum.wred_dropped.frames),
            grouped(sum.marked.frames),
            grouped(sum.kernel_lost_frames),
        ]);
    };
    if snapshot.ports.len() > 1 {
        add("(all)", &summary(snapshot));
    }
    snapshot.ports.iter().for_each(|port| add(&port.name, &of_port(port)));
    let mut reasons = format::table(&["Port", "Side", "Dropped because", "Frames", "MB"], 3);
    for row in rows(snapshot).iter().filter(|row| row.frames > 0) {
        let bytes = |bytes| volume(Some(Count { frames: 0, bytes }), None, 0);
        reasons.add_row([
            row.port.to_owned(),
            row.side.to_owned(),
            row.reason.replace('_', " "),
            grouped(row.frames),
            row.bytes.map_or("–".to_owned(), bytes),
        ]);
    }
    let reasons = if reasons.is_empty() { "No frame was dropped.".to_owned() } else { reasons.trim_fmt() };
    format!("{}\n\n{reasons}", totals.trim_fmt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

    /// Rows 74, 189 and 192 of the table of vendor specifications.
    #[test]
    fn table_of_totals() {
        insta::assert_snapshot!(table(&sample::snapshot()));
    }

    /// Rows 189 and 192: every drop is on one side, and the sides add up to the port's counter.
    #[test]
    fn sides_come_to_what_ports_count() {
        let mut snapshot = sample::snapshot();
        let port = &mut snapshot.ports[1];
        for (reason, frames) in [("port_down", 9), ("tail_drop", 20), ("wred", 4), ("ingress_no_drop", 1)] {
            port.drops.insert(reason.to_owned(), Count { frames, bytes: 100 * frames });
        }
        // Three of the nine arrived while the switch ended. The watchdog dropped eight, two of them
        // from a queue.
        port.drops.insert("watchdog".to_owned(), Count { frames: 8, bytes: 800 });
        port.queues[3].storm_dropped = Some(Count { frames: 2, bytes: 200 });
        port.input_dropped = Some(Count { frames: 10, bytes: 1000 });
        port.output_dropped = Some(Count { frames: 32, bytes: 3200 });
        let rows = rows_of(port);
        let found = |side, reason: &str| {
            rows.iter()
                .find(|row| row.side == side && row.reason == reason)
                .map(|row| (row.frames, row.bytes))
        };
        assert_eq!(found(INPUT, "port_down"), Some((3, Some(300))));
        assert_eq!(found(OUTPUT, "port_down"), Some((6, Some(600))));
        assert_eq!(found(INPUT, "watchdog"), Some((6, Some(600))));
        assert_eq!(found(OUTPUT, "watchdog"), Some((2, Some(200))));
        for (side, frames) in [(INPUT, 10), (OUTPUT, 32)] {
            let of_side = rows.iter().filter(|row| row.side == side && !row.reason.starts_with("kernel"));
            assert_eq!(of_side.map(|row| row.frames).sum::<u64>(), frames, "{side}");
        }
        let sum = of_port(port);
        assert_eq!((sum.input_buffer_dropped.frames, sum.output_buffer_dropped.frames), (1, 20));
        assert_eq!((sum.wred_dropped.frames, sum.marked.frames), (4, 1_212));
        assert_eq!(summary(&snapshot).output_dropped.frames, 32 + 399_412);
    }

    #[test]
    fn table_of_nothing() {
        assert!(table(&Snapshot::default()).ends_with("No frame was dropped."));
    }
}
