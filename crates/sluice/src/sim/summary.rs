//! Results of a run as text: traffic, the locations of drops and pauses, and the expectations.

use std::fmt::Write as _;
use std::time::Duration;

use sim::Results;
use sim::results::{DcbxOutcome, ExpectationOutcome, TrafficOutcome};

use super::format::{in_words, rate, time};
use super::hotspots;
use super::truncate::{SHORT_CHARS, fitted, short};
use crate::output::{grouped, table};

/// The most ends of links without an agreement that are listed.
const MAX_ENDS: usize = 10;

/// Formats the whole summary of a run that took `wall` of real time.
pub fn text(outcome: &Results, wall: Duration) -> String {
    let sections = [
        head(outcome, wall),
        window(outcome),
        traffic(&outcome.traffic),
        messages(&outcome.traffic),
        hotspots::ports(outcome),
        hotspots::hosts(outcome),
        hotspots::links(outcome),
        negotiations(&outcome.dcbx),
        expectations(outcome),
    ];
    let message: Vec<&str> =
        sections.iter().map(|section| section.trim_end()).filter(|s| !s.is_empty()).collect();
    message.join("\n\n")
}

fn head(outcome: &Results, wall: Duration) -> String {
    let seconds = wall.as_secs_f64().max(1e-9);
    format!(
        "{}\n{} of virtual time in {}: {} frame-hops, {} a second; seed {}",
        outcome.title,
        time(outcome.duration_ns),
        time(wall.as_nanos() as u64),
        in_words(outcome.frame_hops as f64),
        in_words(outcome.frame_hops as f64 / seconds),
        outcome.seed
    )
}

/// Describes from when the tables count, if there is a warm-up.
fn window(outcome: &Results) -> String {
    match outcome.warmup_ns {
        0 => String::new(),
        ns => format!(
            "From {} on: bit/s, fairness, completion times, busy links, XOFF, pauses. All else: whole run.",
            time(ns)
        ),
    }
}

/// Formats the frames of each traffic.
fn traffic(traffic: &[TrafficOutcome]) -> String {
    if traffic.is_empty() {
        return "No traffic.".to_owned();
    }
    let headings = [
        "Traffic",
        "Prio-\nrity",
        "Flows",
        "Sent\nframes",
        "Received",
        "Lost",
        "In net-\nwork",
        "Marked\n(ECN)",
        "Arrived\nbit/s",
        "Fair-\nness",
    ];
    let mut text = fitted(|name_chars| {
        let mut table = table(&headings, 1);
        for traffic in traffic {
            table.add_row([
                short(&traffic.name, name_chars),
                traffic.priority.to_string(),
                grouped(traffic.flows),
                grouped(traffic.sent_frames),
                grouped(traffic.received_frames),
                grouped(traffic.lost_frames),
                grouped(traffic.in_network_frames),
                grouped(traffic.marked_frames),
                rate(traffic.throughput_bps).trim_end_matches("bit/s").to_owned(),
                traffic.fairness.map_or("–".to_owned(), |index| format!("{index:.3}")),
            ]);
        }
        table.trim_fmt()
    });
    for TrafficOutcome { name, reordered_frames, cnps, retransmitted_frames, .. } in traffic {
        let name = short(name, SHORT_CHARS);
        if *reordered_frames > 0 {
            text += &format!("\n{name}: {} frames came out of order", grouped(*reordered_frames));
        }
        if *cnps > 0 {
            text += &format!("\n{name}: {} CNPs slowed senders down", grouped(*cnps));
        }
        if let Some(frames) = retransmitted_frames.filter(|frames| *frames > 0) {
            text += &format!("\n{name}: {} frames were sent again", grouped(frames));
        }
    }
    text
}

/// Formats the completion times of the traffic that has messages.
fn messages(traffic: &[TrafficOutcome]) -> String {
    let headings = [
        "Messages of",
        "To send",
        "Arrived\nwhole",
        "Fastest",
        "Mean",
        "50 %\nwithin",
        "99 %\nwithin",
        "Slowest",
    ];
    let mut table = table(&headings, 1);
    for traffic in traffic.iter().filter(|traffic| traffic.messages > 0) {
        let times = traffic
            .completion
            .map(|times| [times.min_ns, times.mean_ns, times.p50_ns, times.p99_ns, times.max_ns].map(time));
        let name = short(&traffic.name, SHORT_CHARS);
        let mut row = vec![name, grouped(traffic.messages), grouped(traffic.completed)];
        row.extend(times.unwrap_or_else(|| ["–"; 5].map(str::to_owned)));
        table.add_row(row);
    }
    if table.is_empty() { String::new() } else { table.trim_fmt() }
}

/// Formats how many ends of links agreed on PFC, and those that did not.
fn negotiations(ends: &[DcbxOutcome]) -> String {
    let agreed = ends.iter().filter(|end| end.state == "agreed").count();
    let Some(last) = ends.iter().map(|end| end.settled_ns).max() else { return String::new() };
    let mut text =
        format!("DCBX: {agreed} of {} ends agreed on PFC, the last change at {}", ends.len(), time(last));
    for end in ends.iter().filter(|end| end.state != "agreed").take(MAX_ENDS) {
        let _ = write!(text, "\n{}: {} ({})", short(&end.port, SHORT_CHARS), end.state, end.reason);
    }
    text
}

/// Formats each expectation with the measured value, then the verdict.
fn expectations(outcome: &Results) -> String {
    let mut out = String::new();
    for expectation in &outcome.expectations {
        let ExpectationOutcome { line, expected, metric, measured, holds } = expectation;
        let sign = if *holds { '✔' } else { '✘' };
        let _ = writeln!(out, "{sign} line {line}: {expected}, measured {}", metric.spell(*measured));
    }
    for imbalance in &outcome.imbalances {
        let _ = writeln!(out, "✘ fault of the simulator: {imbalance}");
    }
    let all = outcome.expectations.len();
    let missed = outcome.expectations.iter().filter(|expectation| !expectation.holds).count();
    out += &match (all, missed) {
        (0, _) => "No expectations: add [[expect]] to have a run judged.".to_owned(),
        (1, 0) => "The expectation holds.".to_owned(),
        (_, 0) => format!("All {all} expectations hold."),
        (_, missed) => format!("{missed} of {all} expectations failed."),
    };
    out
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn of_an_incast() {
        insta::assert_snapshot!(text(&sample::incast(), Duration::from_millis(3_214)));
    }

    #[test]
    fn of_a_run_without_anything() {
        insta::assert_snapshot!(text(&sample::nothing(), Duration::from_micros(120)));
    }

    #[test]
    fn of_a_large_fabric_in_trouble() {
        insta::assert_snapshot!(text(&sample::fabric(), Duration::from_secs(80)));
    }

    #[test]
    fn a_warm_up_is_in_the_summary() {
        let outcome = Results { warmup_ns: 1_500_000, ..sample::incast() };
        let text = text(&outcome, Duration::from_secs(1));
        let line = text.lines().nth(3).unwrap_or_default();
        assert!(line.starts_with("From 1.5 ms on: bit/s, "), "{line}");
        assert!(line.chars().count() <= 100, "{line}");
    }

    /// A terminal of 100 columns shows every line completely, including long names and large
    /// numbers.
    #[test]
    fn lines_fit_in_100_columns() {
        for outcome in [sample::incast(), sample::nothing(), sample::fabric()] {
            for line in text(&outcome, Duration::from_secs(1)).lines() {
                assert!(line.chars().count() <= 100, "{line}");
            }
        }
    }
}
