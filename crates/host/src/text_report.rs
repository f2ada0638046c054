//! A host's report as text: a line of progress, and tables at the end.

use crate::report::{DcbxReport, FlowReceived, FlowSent, HostReport};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

/// Formats the changes between two reports, in one line.
pub fn progress(before: &HostReport, now: &HostReport) -> String {
    let span_ns = now.elapsed_ns.saturating_sub(before.elapsed_ns);
    let sent = |report: &HostReport| sum(&report.sent, |flow| flow.sent_bytes);
    let received = |report: &HostReport| sum(&report.received, |flow| flow.received_bytes);
    let paused_ns: u64 = now.pauses.iter().map(|pause| pause.paused_ns).sum();
    let mut line = format!("{:>6.1} s", seconds(now.elapsed_ns));
    if !now.sent.is_empty() {
        let rate = megabits(sent(now) - sent(before), span_ns);
        line += &format!("  sent {rate:>8.1} Mbit/s");
        line += &format!("  paused {:.3} s", seconds(paused_ns));
    }
    if !now.received.is_empty() {
        let rate = megabits(received(now).saturating_sub(received(before)), span_ns);
        line += &format!("  received {rate:>8.1} Mbit/s");
        line += &format!("  lost {}", sum(&now.received, |flow| flow.lost_frames));
    }
    if now.sent.is_empty() && now.received.is_empty() {
        line += "  nothing received yet";
    }
    line
}

/// Formats the whole report, as tables.
pub fn report(report: &HostReport) -> String {
    let mut text = format!("{} {}, {:.3} s\n", report.interface, report.mac, seconds(report.elapsed_ns));
    if !report.sent.is_empty() {
        text += &sent(&report.sent, report.elapsed_ns);
    }
    if !report.received.is_empty() {
        text += &received(&report.received);
    }
    text += &report.dcbx.as_ref().map_or(String::new(), dcbx);
    text += &pauses(report);
    let missed = sum(&report.received, |flow| flow.missed_before_ready_frames);
    for (count, what) in [
        (missed, "frames of flows that had begun before this host was ready are not counted as lost"),
        (
            report.kernel_lost,
            "frames were lost by the kernel on this host's side: the figures above miss them",
        ),
        (report.corrupted_unattributed, "corrupted frames belong to no known flow"),
        (report.flows_refused, "frames belong to more flows than a host distinguishes"),
        (report.other_received, "frames that arrived were for others, or of another type"),
    ] {
        if count > 0 {
            text += &format!("{count} {what}\n");
        }
    }
    text
}

fn dcbx(dcbx: &DcbxReport) -> String {
    let own = if dcbx.willing { "willing" } else { "unwilling" };
    format!(
        "DCBX {} ({own}): PFC {}, {}; no-drop here {}, at the peer {}, in force {}\n",
        dcbx.version,
        dcbx.state,
        dcbx.reason,
        priorities(&dcbx.local_no_drop),
        dcbx.peer_no_drop.as_deref().map_or_else(|| "unknown".to_owned(), priorities),
        priorities(&dcbx.no_drop),
    )
}

fn priorities(list: &[u8]) -> String {
    let list: Vec<String> = list.iter().map(u8::to_string).collect();
    if list.is_empty() { "none".to_owned() } else { list.join(",") }
}

fn sent(flows: &[FlowSent], elapsed_ns: u64) -> String {
    // The reaction of flows to marks, if any flow reacts.
    let reacts = flows.iter().any(|flow| flow.reaction_bps > 0);
    let mut header = vec!["sent", "to", "priority", "offered", "sent", "Mbit/s"];
    header.extend(reacts.then_some(["CNPs", "Mbit/s now", "lowest"]).into_iter().flatten());
    let mut table = table(&header);
    for flow in flows {
        let mut row = vec![
            format!("flow {}", flow.flow),
            flow.to.clone(),
            flow.priority.to_string(),
            flow.offered_frames.to_string(),
            flow.sent_frames.to_string(),
            format!("{:.1}", megabits(flow.sent_bytes, elapsed_ns)),
        ];
        if flow.reaction_bps > 0 {
            row.extend([
                flow.cnps_received.to_string(),
                format!("{:.1}", flow.reaction_bps as f64 / 1e6),
                format!("{:.1}", flow.reaction_lowest_bps as f64 / 1e6),
            ]);
        } else if reacts {
            row.extend(["–"; 3].map(str::to_owned));
        }
        table.add_row(row);
    }
    lines(table)
}

fn received(flows: &[FlowReceived]) -> String {
    let marked = flows.iter().any(|flow| flow.received_ce_frames > 0);
    let mut header =
        vec!["received", "from", "priority", "frames", "lost", "duplicated", "reordered", "corrupted"];
    header.extend(marked.then_some(["marked", "CNPs"]).into_iter().flatten());
    header.extend(["Mbit/s", "µs p50", "p99", "max"]);
    let mut table = table(&header);
    for flow in flows {
        let mut row = vec![
            format!("flow {}", flow.flow),
            flow.from.clone(),
            flow.priority.to_string(),
            flow.received_frames.to_string(),
            flow.lost_frames.to_string(),
            flow.duplicated_frames.to_string(),
            flow.reordered_frames.to_string(),
            flow.corrupted_frames.to_string(),
        ];
        if marked {
            row.extend([flow.received_ce_frames.to_string(), flow.cnps_sent.to_string()]);
        }
        row.extend([
            format!("{:.1}", flow.goodput_bps as f64 / 1e6),
            microseconds(flow.latency_ns.p50),
            microseconds(flow.latency_ns.p99),
            microseconds(flow.latency_ns.max),
        ]);
        table.add_row(row);
    }
    lines(table)
}

fn pauses(report: &HostReport) -> String {
    let mut table = table(&["pauses", "XOFF", "XON", "paused", "sent while paused", "late at most"]);
    for pause in report.pauses.iter().filter(|pause| pause.xoff + pause.xon > 0) {
        table.add_row(vec![
            format!("priority {}", pause.priority),
            pause.xoff.to_string(),
            pause.xon.to_string(),
            format!("{:.3} s", seconds(pause.paused_ns)),
            pause.sent_while_paused.to_string(),
            pause.late_frames_peak.to_string(),
        ]);
    }
    if table.row_count() == 0 { "no pauses received\n".into() } else { lines(table) }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn lines(table: Table) -> String {
    format!("{table}\n")
}

fn sum<T>(flows: &[T], count: impl Fn(&T) -> u64) -> u64 {
    flows.iter().map(count).sum()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn microseconds(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

fn megabits(bytes: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { bytes as f64 * 8e3 / ns as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Latency, Pause};

    fn sample() -> HostReport {
        HostReport {
            interface: "veth0".into(),
            mac: "02:00:00:00:00:01".into(),
            elapsed_ns: 2_000_000_000,
            sent: vec![FlowSent {
                flow: 0,
                to: "02:00:00:00:00:02".into(),
                priority: 3,
                offered_frames: 150_000,
                sent_frames: 140_000,
                sent_bytes: 140_000_000,
                ..FlowSent::default()
            }],
            received: vec![FlowReceived {
                from: "02:00:00:00:00:02".into(),
                flow: 1,
                priority: 5,
                received_frames: 9,
                received_bytes: 9_000,
                lost_frames: 1,
                duplicated_frames: 2,
                reordered_frames: 3,
                corrupted_frames: 4,
                goodput_bps: 12_300_000,
                latency_ns: Latency { p50: 10_500, p90: 0, p99: 20_000, p999: 0, max: 30_000 },
                ..FlowReceived::default()
            }],
            pauses: vec![Pause {
                priority: 3,
                xoff: 5,
                xon: 4,
                paused_ns: 1_234_567_890,
                ..Pause::default()
            }],
            kernel_lost: 7,
            ..HostReport::default()
        }
    }

    #[test]
    fn the_final_report_has_tables_of_what_was_sent_received_and_paused() {
        assert_eq!(
            report(&sample()),
            "\
veth0 02:00:00:00:00:01, 2.000 s
┌────────┬───────────────────┬──────────┬─────────┬────────┬────────┐
│ sent   ┆                to ┆ priority ┆ offered ┆   sent ┆ Mbit/s │
╞════════╪═══════════════════╪══════════╪═════════╪════════╪════════╡
│ flow 0 ┆ 02:00:00:00:00:02 ┆        3 ┆  150000 ┆ 140000 ┆  560.0 │
└────────┴───────────────────┴──────────┴─────────┴────────┴────────┘
┌──────────┬───────────────────┬──────────┬────────┬──────┬────────────┬───────────┬───────────┬────────┬────────┬──────┬──────┐
│ received ┆              from ┆ priority ┆ frames ┆ lost ┆ duplicated ┆ reordered ┆ corrupted ┆ Mbit/s ┆ µs p50 ┆  p99 ┆  max │
╞══════════╪═══════════════════╪══════════╪════════╪══════╪════════════╪═══════════╪═══════════╪════════╪════════╪══════╪══════╡
│ flow 1   ┆ 02:00:00:00:00:02 ┆        5 ┆      9 ┆    1 ┆          2 ┆         3 ┆         4 ┆   12.3 ┆   10.5 ┆ 20.0 ┆ 30.0 │
└──────────┴───────────────────┴──────────┴────────┴──────┴────────────┴───────────┴───────────┴────────┴────────┴──────┴──────┘
┌────────────┬──────┬─────┬─────────┬───────────────────┬──────────────┐
│ pauses     ┆ XOFF ┆ XON ┆  paused ┆ sent while paused ┆ late at most │
╞════════════╪══════╪═════╪═════════╪═══════════════════╪══════════════╡
│ priority 3 ┆    5 ┆   4 ┆ 1.235 s ┆                 0 ┆            0 │
└────────────┴──────┴─────┴─────────┴───────────────────┴──────────────┘
7 frames were lost by the kernel on this host's side: the figures above miss them
"
        );
    }

    #[test]
    fn what_was_missed_before_the_start_is_reported_apart() {
        let mut sample = sample();
        sample.received[0].missed_before_ready_frames = 897;
        let text = report(&sample);
        let line = "897 frames of flows that had begun before this host was ready are not counted as lost";
        assert!(text.lines().any(|shown| shown == line), "{text}");
    }

    #[test]
    fn marks_and_reactions_are_shown_where_there_are_any() {
        let mut sample = sample();
        let reacting = FlowSent {
            cnps_received: 25,
            reaction_bps: 251_000_000,
            reaction_lowest_bps: 120_500_000,
            ..sample.sent[0].clone()
        };
        sample.sent.push(FlowSent { flow: 1, ..reacting });
        sample.received[0].received_ce_frames = 12;
        sample.received[0].cnps_sent = 8;
        sample.pauses.clear();
        sample.kernel_lost = 0;
        assert_eq!(
            report(&sample),
            "\
veth0 02:00:00:00:00:01, 2.000 s
┌────────┬───────────────────┬──────────┬─────────┬────────┬────────┬──────┬────────────┬────────┐
│ sent   ┆                to ┆ priority ┆ offered ┆   sent ┆ Mbit/s ┆ CNPs ┆ Mbit/s now ┆ lowest │
╞════════╪═══════════════════╪══════════╪═════════╪════════╪════════╪══════╪════════════╪════════╡
│ flow 0 ┆ 02:00:00:00:00:02 ┆        3 ┆  150000 ┆ 140000 ┆  560.0 ┆    – ┆          – ┆      – │
│ flow 1 ┆ 02:00:00:00:00:02 ┆        3 ┆  150000 ┆ 140000 ┆  560.0 ┆   25 ┆      251.0 ┆  120.5 │
└────────┴───────────────────┴──────────┴─────────┴────────┴────────┴──────┴────────────┴────────┘
┌──────────┬───────────────────┬──────────┬────────┬──────┬────────────┬───────────┬───────────┬────────┬──────┬────────┬────────┬──────┬──────┐
│ received ┆              from ┆ priority ┆ frames ┆ lost ┆ duplicated ┆ reordered ┆ corrupted ┆ marked ┆ CNPs ┆ Mbit/s ┆ µs p50 ┆  p99 ┆  max │
╞══════════╪═══════════════════╪══════════╪════════╪══════╪════════════╪═══════════╪═══════════╪════════╪══════╪════════╪════════╪══════╪══════╡
│ flow 1   ┆ 02:00:00:00:00:02 ┆        5 ┆      9 ┆    1 ┆          2 ┆         3 ┆         4 ┆     12 ┆    8 ┆   12.3 ┆   10.5 ┆ 20.0 ┆ 30.0 │
└──────────┴───────────────────┴──────────┴────────┴──────┴────────────┴───────────┴───────────┴────────┴──────┴────────┴────────┴──────┴──────┘
no pauses received
"
        );
    }

    #[test]
    fn progress_is_one_line() {
        let before = HostReport {
            elapsed_ns: 1_000_000_000,
            sent: sample().sent,
            received: sample().received,
            ..HostReport::default()
        };
        let mut now = sample();
        now.sent[0].sent_bytes += 75_000_000;
        now.received[0].received_bytes += 1_000_000;
        assert_eq!(
            progress(&before, &now),
            "   2.0 s  sent    600.0 Mbit/s  paused 1.235 s  received      8.0 Mbit/s  lost 1"
        );
        assert_eq!(
            progress(&HostReport::default(), &HostReport { elapsed_ns: 5, ..HostReport::default() }),
            "   0.0 s  nothing received yet"
        );
    }
}
