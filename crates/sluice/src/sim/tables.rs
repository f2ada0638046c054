//! Tables of a run as CSV (RFC 4180): a row for each flow, message, latency, link direction, or
//! priority group.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use sim::Results;
use sim::results::{LatencyOutcome, LengthBin, QueueLengthOutcome};

/// Names of the columns of `--flows`.
const FLOWS: &str = "flow,traffic,priority,from,to,sent_frames,received_frames,lost_frames,\
reordered_frames,marked_frames,cnps,throughput_bps,begun_ns,last_arrival_ns,message_bytes,ideal_ns";
/// Further column of `--flows`, if frames of any traffic are acknowledged.
const RETRANSMITTED: &str = ",retransmitted_frames";
/// Names of the columns of `--messages`.
const MESSAGES: &str = "traffic,flow,message,from,to,bytes,start_ns,end_ns,completion_ns,ideal_ns,slowdown";

/// Names of the columns of `--latency`.
const LATENCY: &str = "traffic,hop,frames,min_ns,mean_ns,p50_ns,p90_ns,p99_ns,p999_ns,max_ns";
/// Names of the columns of `--links`.
const LINKS: &str = "link,from_end,busy_percent,cut_frames";
/// Names of the columns of `--groups`.
const GROUPS: &str = "port,peer,priority,received_frames,dropped_frames,xoff_episodes,xoff_ns,shared_peak_cells,headroom_peak_cells";

/// Names of the columns of `--queues`.
const QUEUES: &str = "port,queue,mean_cells,least_cells,ns";

/// Creates a table's file before the run, so that one that cannot be written is reported at once.
pub fn create(file: &Path) -> Result<()> {
    write(file, "")
}

pub fn write_flows(outcome: &Results, file: &Path) -> Result<()> {
    write(file, &flows(outcome))
}

/// Writes the messages that began after the warm-up and arrived, in the order of their arrival.
/// Returns how many are missing, as only the first million or so are kept.
pub fn write_messages(outcome: &Results, file: &Path) -> Result<u64> {
    write(file, &messages(outcome))?;
    let measured = outcome.traffic.iter().filter_map(|traffic| traffic.completion);
    let all: u64 = measured.map(|completion| completion.messages).sum();
    Ok(all - outcome.series.completions.len() as u64)
}

/// Writes the latency of each traffic, and of each traffic in each switch, by the port where it
/// leaves.
///
/// # Errors
/// The file cannot be written.
pub fn write_latency(outcome: &Results, file: &Path) -> Result<()> {
    let mut text = format!("{LATENCY}\n");
    let of_traffic = outcome.traffic.iter().filter_map(|traffic| Some((&traffic.name, "", traffic.latency?)));
    let of_hops = outcome.hops.iter().map(|hop| (&hop.traffic, &*hop.port, hop.latency));
    for (traffic, hop, latency) in of_traffic.chain(of_hops) {
        let LatencyOutcome { frames, min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns } = latency;
        let _ = writeln!(
            text,
            "{traffic},{hop},{frames},{min_ns},{mean_ns},{p50_ns},{p90_ns},{p99_ns},{p999_ns},{max_ns}"
        );
    }
    write(file, &text)
}

/// Writes the utilization of each direction of each link.
///
/// # Errors
/// The file cannot be written.
pub fn write_links(outcome: &Results, file: &Path) -> Result<()> {
    let mut text = format!("{LINKS}\n");
    for link in &outcome.links {
        for (end, busy) in link.busy_percent.iter().enumerate() {
            let _ = writeln!(text, "{},{end},{busy:.4},{}", link.name, link.cut_frames);
        }
    }
    write(file, &text)
}

/// Writes the lengths of the queues that held cells: a row for each bin, with the least length in
/// it and the time.
///
/// # Errors
/// The file cannot be written.
pub fn write_queues(outcome: &Results, file: &Path) -> Result<()> {
    write(file, &queues(outcome))
}

fn queues(outcome: &Results) -> String {
    let mut text = format!("{QUEUES}\n");
    for QueueLengthOutcome { port, queue, mean_cells, bins } in &outcome.queue_lengths {
        for LengthBin { least_cells, ns } in bins {
            let _ = writeln!(text, "{port},{queue},{mean_cells:.3},{least_cells},{ns}");
        }
    }
    text
}

/// Writes the priority groups that received frames, with their time in XOFF.
///
/// # Errors
/// The file cannot be written.
pub fn write_groups(outcome: &Results, file: &Path) -> Result<()> {
    let mut text = format!("{GROUPS}\n");
    for switch in &outcome.switches {
        for port in &switch.ports {
            for group in &port.groups {
                let counts = &group.counts;
                let _ = writeln!(
                    text,
                    "{}.{},{},{},{},{},{},{},{},{}",
                    switch.name,
                    port.counts.name,
                    port.peer,
                    group.priority,
                    counts.received.frames,
                    counts.dropped.frames,
                    counts.xoff_episodes,
                    counts.xoff_ns,
                    counts.shared.peak_cells,
                    counts.headroom.peak_cells,
                );
            }
        }
    }
    write(file, &text)
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Names of scenarios contain neither commas nor quotation marks.
fn flows(outcome: &Results) -> String {
    let is_acked = outcome.traffic.iter().any(|traffic| traffic.retransmitted_frames.is_some());
    let mut text = format!("{FLOWS}{}\n", if is_acked { RETRANSMITTED } else { "" });
    for (number, flow) in outcome.flows.iter().enumerate() {
        let traffic = &outcome.traffic[flow.traffic];
        let _ = write!(
            text,
            "{number},{},{},{},{},{},{},{},{},{},{},{:.0},{},{},{},{}",
            traffic.name,
            traffic.priority,
            flow.from,
            flow.to,
            flow.sent_frames,
            flow.received_frames,
            flow.lost_frames,
            flow.reordered_frames,
            flow.marked_frames,
            flow.cnps,
            flow.throughput_bps,
            or_empty(flow.begun_ns),
            or_empty(flow.last_arrival_ns),
            flow.message_bytes,
            or_empty(flow.ideal_ns.map(|ns| format!("{ns:.1}"))),
        );
        if is_acked {
            let _ = write!(text, ",{}", flow.retransmitted_frames);
        }
        text.push('\n');
    }
    text
}

fn messages(outcome: &Results) -> String {
    let mut text = format!("{MESSAGES}\n");
    for message in &outcome.series.completions {
        let flow = &outcome.flows[message.flow];
        let ideal_ns = Some(message.ideal_ns).filter(|ns| *ns > 0.0);
        let took_ns = message.to_ns.saturating_sub(message.from_ns);
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{took_ns},{},{}",
            outcome.traffic[message.traffic].name,
            message.flow,
            message.number,
            flow.from,
            flow.to,
            message.bytes,
            message.from_ns,
            message.to_ns,
            or_empty(ideal_ns.map(|ns| format!("{ns:.1}"))),
            or_empty(ideal_ns.map(|ns| format!("{:.4}", took_ns as f64 / ns))),
        );
    }
    text
}

fn or_empty(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::sample::SWITCH;
    use sim::{Scenario, Simulation};

    /// Two messages of three frames to one host: the second begins when the first has arrived, and
    /// a third traffic has no end.
    const SCENARIO: &str = "
duration = \"100us\"
[switch.s]
config = \"switch.toml\"
[host.\"h[1-3]\"]
[[link]]
ends = [\"h[1-3]\", \"s.p[1-3]\"]
cable_m = 10
[[traffic]]
name = \"one\"
from = \"h1\"
to = \"h2\"
frame_bytes = 1226
bytes = 3678
[[traffic]]
name = \"two\"
from = \"h3\"
to = \"h2\"
frame_bytes = 1226
bytes = 3678
after = \"one\"
[[traffic]]
name = \"endless\"
from = \"h2\"
to = [\"h1\", \"h3\"]
frame_bytes = 1226
rate = \"5G\"
";

    fn outcome() -> Results {
        let scenario: Scenario =
            sim::scenario::parse("test.toml", SCENARIO, &mut |_| Ok(SWITCH.to_owned())).unwrap();
        let mut simulation = Simulation::new(&scenario);
        simulation.run_until(scenario.duration_ns, &mut |_| {});
        simulation.finish()
    }

    /// 1250 bytes take 1 µs at 10 Gbit/s, 10 m take 50 ns: three frames over two links 4.1 µs.
    #[test]
    fn a_message_that_is_alone_takes_the_ideal_time() {
        insta::assert_snapshot!(messages(&outcome()));
    }

    #[test]
    fn queue_lengths_have_a_row_for_each_bin() {
        let lengths = queues(&crate::sim::sample::incast());
        let lines: Vec<&str> = lengths.lines().collect();
        assert_eq!((lines.len(), lines[0]), (6, QUEUES));
        assert_eq!(lines[5], "leaf1.p1,3,4.500,8,5000000");
    }

    /// A traffic whose frames are acknowledged adds a column.
    #[test]
    fn flows_have_their_retransmissions() {
        let scenario = format!("{SCENARIO}retransmission = \"selective\"\n");
        let scenario = sim::scenario::parse("test.toml", &scenario, &mut |_| Ok(SWITCH.to_owned())).unwrap();
        let mut simulation = Simulation::new(&scenario);
        simulation.run_until(scenario.duration_ns, &mut |_| {});
        let table = flows(&simulation.finish());
        assert!(table.lines().next().unwrap().ends_with(",ideal_ns,retransmitted_frames"), "{table}");
        assert!(table.lines().skip(1).all(|line| line.split(',').count() == 17), "{table}");
    }

    #[test]
    fn flows_have_a_row_each() {
        insta::assert_snapshot!(flows(&outcome()));
    }
}
