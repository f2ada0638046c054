//! Tables of a run as CSV or Parquet: a row for each flow, message, latency, link direction, or
//! priority group.

use std::path::Path;

use anyhow::{Context, Result};
use sim::Results;
use sim::results::{
    FlowOutcome, GroupOutcome, LatencyOutcome, LengthBin, LinkOutcome, MessageSpan, PortOutcome,
    QueueLengthOutcome, SwitchOutcome,
};

use crate::output::DataTable;

/// Creates a table's file before the run, so that one that cannot be written is reported at once.
pub fn create(file: &Path) -> Result<()> {
    std::fs::write(file, "").with_context(|| format!("cannot write {}", file.display()))
}

/// Writes what a run has of each flow.
///
/// # Errors
/// The file cannot be written.
pub fn write_flows(outcome: &Results, file: &Path) -> Result<()> {
    flows(outcome, &outcome.flows.iter().enumerate().collect::<Vec<_>>()).write(file)
}

/// Writes the messages that began after the warm-up: those that arrived, in the order of their
/// arrival, and those that did not. Returns how many are missing of those that arrived and of those
/// that did not, as only the first million or so of each are kept.
///
/// # Errors
/// The file cannot be written.
pub fn write_messages(outcome: &Results, file: &Path) -> Result<[u64; 2]> {
    messages(outcome, &message_rows(outcome)).write(file)?;
    let measured = outcome.traffic.iter().filter_map(|traffic| traffic.completion);
    let all: u64 = measured.map(|completion| completion.messages).sum();
    let series = &outcome.series;
    Ok([all - series.completions.len() as u64, series.unfinished_count - series.unfinished.len() as u64])
}

/// Writes the latency of each traffic, and of each traffic in each switch, by the port where it
/// leaves.
///
/// # Errors
/// The file cannot be written.
pub fn write_latency(outcome: &Results, file: &Path) -> Result<()> {
    let of_traffic =
        outcome.traffic.iter().filter_map(|traffic| Some((&*traffic.name, "", traffic.latency?)));
    let of_hops = outcome.hops.iter().map(|hop| (&*hop.traffic, &*hop.port, hop.latency));
    let rows: Vec<(&str, &str, LatencyOutcome)> = of_traffic.chain(of_hops).collect();
    let table = DataTable::new(&rows)
        .text("traffic", |row| row.0)
        .text("hop", |row| row.1)
        .integers("frames", |row| row.2.frames)
        .integers("min_ns", |row| row.2.min_ns)
        .integers("mean_ns", |row| row.2.mean_ns)
        .integers("p50_ns", |row| row.2.p50_ns)
        .integers("p90_ns", |row| row.2.p90_ns)
        .integers("p99_ns", |row| row.2.p99_ns)
        .integers("p999_ns", |row| row.2.p999_ns)
        .integers("max_ns", |row| row.2.max_ns);
    table.write(file)
}

/// Writes the utilization of each direction of each link.
///
/// # Errors
/// The file cannot be written.
pub fn write_links(outcome: &Results, file: &Path) -> Result<()> {
    let rows: Vec<(&LinkOutcome, usize)> =
        outcome.links.iter().flat_map(|link| [(link, 0), (link, 1)]).collect();
    let table = DataTable::new(&rows)
        .text("link", |(link, _)| &*link.name)
        .integers("from_end", |(_, end)| *end as u64)
        .floats("busy_percent", 4, |(link, end)| link.busy_percent[*end])
        .integers("cut_frames", |(link, _)| link.cut_frames);
    table.write(file)
}

/// Writes the lengths of the queues that held cells: a row for each bin, with the least length in
/// it and the time.
///
/// # Errors
/// The file cannot be written.
pub fn write_queues(outcome: &Results, file: &Path) -> Result<()> {
    queues(&length_bins(outcome)).write(file)
}

fn length_bins(outcome: &Results) -> Vec<(&QueueLengthOutcome, LengthBin)> {
    outcome.queue_lengths.iter().flat_map(|queue| queue.bins.iter().map(move |bin| (queue, *bin))).collect()
}

fn queues<'r>(
    rows: &'r [(&QueueLengthOutcome, LengthBin)],
) -> DataTable<'r, (&'r QueueLengthOutcome, LengthBin)> {
    DataTable::new(rows)
        .text("port", |(queue, _)| &*queue.port)
        .integers("queue", |(queue, _)| u64::from(queue.queue))
        .floats("mean_cells", 3, |(queue, _)| queue.mean_cells)
        .integers("least_cells", |(_, bin)| u64::from(bin.least_cells))
        .integers("ns", |(_, bin)| bin.ns)
}

/// Writes the priority groups that received frames, with their time in XOFF.
///
/// # Errors
/// The file cannot be written.
pub fn write_groups(outcome: &Results, file: &Path) -> Result<()> {
    let ports =
        outcome.switches.iter().flat_map(|switch| switch.ports.iter().map(move |port| (switch, port)));
    let rows: Vec<(&SwitchOutcome, &PortOutcome, &GroupOutcome)> =
        ports.flat_map(|(switch, port)| port.groups.iter().map(move |group| (switch, port, group))).collect();
    let table = DataTable::new(&rows)
        .text("port", |(switch, port, _)| format!("{}.{}", switch.name, port.counts.name))
        .text("peer", |(_, port, _)| &*port.peer)
        .integers("priority", |(.., group)| u64::from(group.priority))
        .integers("received_frames", |(.., group)| group.counts.received.frames)
        .integers("dropped_frames", |(.., group)| group.counts.dropped.frames)
        .integers("xoff_episodes", |(.., group)| group.counts.xoff_episodes)
        .integers("xoff_ns", |(.., group)| group.counts.xoff_ns)
        .integers("shared_peak_cells", |(.., group)| u64::from(group.counts.shared.peak_cells))
        .integers("headroom_peak_cells", |(.., group)| u64::from(group.counts.headroom.peak_cells));
    table.write(file)
}

/// A flow with its number.
type NumberedFlow<'r> = (usize, &'r FlowOutcome);

fn flows<'r>(outcome: &'r Results, rows: &'r [NumberedFlow<'r>]) -> DataTable<'r, NumberedFlow<'r>> {
    let table = DataTable::new(rows)
        .integers("flow", |(number, _)| *number as u64)
        .text("traffic", |(_, flow)| &*outcome.traffic[flow.traffic].name)
        .integers("priority", |(_, flow)| u64::from(outcome.traffic[flow.traffic].priority))
        .text("from", |(_, flow)| &*flow.from)
        .text("to", |(_, flow)| &*flow.to)
        .integers("sent_frames", |(_, flow)| flow.sent_frames)
        .integers("received_frames", |(_, flow)| flow.received_frames)
        .integers("lost_frames", |(_, flow)| flow.lost_frames)
        .integers("reordered_frames", |(_, flow)| flow.reordered_frames)
        .integers("marked_frames", |(_, flow)| flow.marked_frames)
        .integers("cnps", |(_, flow)| flow.cnps)
        .floats("throughput_bps", 0, |(_, flow)| flow.throughput_bps)
        .integers("begun_ns", |(_, flow)| flow.begun_ns)
        .integers("last_arrival_ns", |(_, flow)| flow.last_arrival_ns)
        .integers("message_bytes", |(_, flow)| flow.message_bytes)
        .floats("ideal_ns", 1, |(_, flow)| flow.ideal_ns)
        .floats("slowdown", 4, |(_, flow)| flow.slowdown)
        .integers("received_bytes", |(_, flow)| flow.received_bytes);
    if is_acked(outcome) {
        table.integers("retransmitted_frames", |(_, flow)| flow.retransmitted_frames)
    } else {
        table
    }
}

/// A message, and true if it arrived completely.
type MessageRow<'r> = (&'r MessageSpan, bool);

fn message_rows(outcome: &Results) -> Vec<MessageRow<'_>> {
    let completed = outcome.series.completions.iter().map(|message| (message, true));
    completed.chain(outcome.series.unfinished.iter().map(|message| (message, false))).collect()
}

fn messages<'r>(outcome: &'r Results, rows: &'r [MessageRow<'r>]) -> DataTable<'r, MessageRow<'r>> {
    let table = DataTable::new(rows)
        .text("traffic", |(message, _)| &*outcome.traffic[message.traffic].name)
        .integers("flow", |(message, _)| message.flow as u64)
        .integers("message", |(message, _)| message.number)
        .text("from", |(message, _)| &*outcome.flows[message.flow].from)
        .text("to", |(message, _)| &*outcome.flows[message.flow].to)
        .integers("bytes", |(message, _)| message.bytes)
        .integers("start_ns", |(message, _)| message.from_ns)
        .integers("end_ns", |(message, is_complete)| is_complete.then_some(message.to_ns))
        .integers("completion_ns", |(message, is_complete)| is_complete.then(|| message.took_ns()))
        .floats("ideal_ns", 1, |(message, _)| Some(message.ideal_ns).filter(|ns| *ns > 0.0))
        .floats("slowdown", 4, |(message, is_complete)| message.slowdown().filter(|_| *is_complete));
    if is_acked(outcome) {
        table.integers("retransmitted_frames", |(message, _)| message.retransmitted_frames)
    } else {
        table
    }
}

/// True if frames of any traffic are acknowledged: then flows and messages have a column of
/// retransmissions.
fn is_acked(outcome: &Results) -> bool {
    outcome.traffic.iter().any(|traffic| traffic.retransmitted_frames.is_some())
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
        run(SCENARIO)
    }

    fn run(scenario: &str) -> Results {
        let scenario: Scenario =
            sim::scenario::parse("test.toml", scenario, &mut |_| Ok(SWITCH.to_owned())).unwrap();
        let mut simulation = Simulation::new(&scenario);
        simulation.run_until(scenario.duration_ns, &mut |_| {});
        simulation.finish()
    }

    fn messages_csv(outcome: &Results) -> String {
        messages(outcome, &message_rows(outcome)).csv()
    }

    fn flows_csv(outcome: &Results) -> String {
        flows(outcome, &outcome.flows.iter().enumerate().collect::<Vec<_>>()).csv()
    }

    /// 1250 bytes take 1 µs at 10 Gbit/s, 10 m take 50 ns: three frames over two links 4.1 µs.
    #[test]
    fn a_message_that_is_alone_takes_the_ideal_time() {
        insta::assert_snapshot!(messages_csv(&outcome()));
    }

    #[test]
    fn queue_lengths_have_a_row_for_each_bin() {
        let outcome = crate::sim::sample::incast();
        let lengths = queues(&length_bins(&outcome)).csv();
        let lines: Vec<&str> = lengths.lines().collect();
        assert_eq!((lines.len(), lines[0]), (6, "port,queue,mean_cells,least_cells,ns"));
        assert_eq!(lines[5], "leaf1.p1,3,4.500,8,5000000");
    }

    /// A traffic whose frames are acknowledged adds a column.
    #[test]
    fn flows_and_messages_have_their_retransmissions() {
        let scenario = format!("{SCENARIO}retransmission = \"selective\"\n");
        let outcome = run(&scenario);
        for (table, columns) in [(flows_csv(&outcome), 19), (messages_csv(&outcome), 12)] {
            assert!(table.lines().next().unwrap().ends_with(",retransmitted_frames"), "{table}");
            assert!(table.lines().skip(1).all(|line| line.split(',').count() == columns), "{table}");
        }
    }

    /// The first message arrives after 4.1 µs, the second not within 5 µs.
    #[test]
    fn an_unfinished_message_has_no_end() {
        let table = messages_csv(&run(&SCENARIO.replace("100us", "5us")));
        assert_eq!(table.lines().last(), Some("two,1,0,h3,h2,3678,4100,,,4100.0,"), "{table}");
        assert_eq!(table.lines().count(), 3);
    }

    #[test]
    fn flows_have_a_row_each() {
        insta::assert_snapshot!(flows_csv(&outcome()));
    }
}
