//! The time series of a run as one table: a row for each point of each series, and for each pause.
//! The column `kind` names the value.

use std::path::Path;

use anyhow::Result;
use sim::Results;
use sim::results::OccupancyOf;

use crate::output::DataTable;

/// A point of a series, or a pause from its start on.
#[derive(Debug, Clone, Copy)]
struct SeriesRow<'r> {
    time_ns: u64,
    kind: &'static str,
    /// Empty for traffic, as the others are where they do not apply.
    port: &'r str,
    priority: Option<u8>,
    queue: Option<u8>,
    traffic: &'r str,
    value: f64,
}

/// Writes all series. Returns how many pauses are missing, as only the first million or so are
/// kept.
///
/// # Errors
/// The file cannot be written.
pub fn write(outcome: &Results, file: &Path) -> Result<u64> {
    table(&rows(outcome, &port_names(outcome))).write(file)?;
    Ok(outcome.series.pause_count.iter().sum::<u64>() - outcome.series.pauses.len() as u64)
}

/// The names of the ports of the no-drop groups.
fn port_names(outcome: &Results) -> Vec<String> {
    outcome.series.groups.iter().map(|group| format!("{}.{}", group.switch, group.port)).collect()
}

fn rows<'r>(outcome: &'r Results, port_names: &'r [String]) -> Vec<SeriesRow<'r>> {
    let series = &outcome.series;
    let mut rows = Vec::new();
    let nothing =
        SeriesRow { time_ns: 0, kind: "", port: "", priority: None, queue: None, traffic: "", value: 0.0 };
    let mut add = |of: SeriesRow<'r>, values: &mut dyn Iterator<Item = f64>| {
        rows.extend(series.at_ns.iter().zip(values).map(|(&time_ns, value)| SeriesRow {
            time_ns,
            value,
            ..of
        }));
    };
    for (group, port) in series.groups.iter().zip(port_names) {
        for (kind, cells) in [
            ("shared_cells", &group.shared_cells),
            ("headroom_cells", &group.headroom_cells),
            ("xoff_cells", &group.xoff_cells),
            ("xon_cells", &group.xon_cells),
        ] {
            let of = SeriesRow { kind, port, priority: Some(group.priority), ..nothing };
            add(of, &mut cells.iter().map(|&cells| f64::from(cells)));
        }
    }
    for occupancy in &series.occupancy {
        let of = SeriesRow { port: &occupancy.port, ..nothing };
        let of = match occupancy.of {
            OccupancyOf::Group(priority) => SeriesRow { kind: "group_cells", priority: Some(priority), ..of },
            OccupancyOf::Queue(queue) => SeriesRow { kind: "queue_cells", queue: Some(queue), ..of },
        };
        add(of, &mut occupancy.peak_cells.iter().map(|&cells| f64::from(cells)));
    }
    for (traffic, bps) in outcome.traffic.iter().zip(&series.traffic_bps) {
        let of = SeriesRow {
            kind: "throughput_bps",
            priority: Some(traffic.priority),
            traffic: &traffic.name,
            ..nothing
        };
        add(of, &mut bps.iter().copied());
    }
    rows.extend(series.pauses.iter().map(|pause| SeriesRow {
        time_ns: pause.from_ns,
        kind: "pause_ns",
        port: &pause.port,
        priority: Some(pause.priority),
        value: pause.to_ns.saturating_sub(pause.from_ns) as f64,
        ..nothing
    }));
    rows
}

fn table<'r>(rows: &'r [SeriesRow<'r>]) -> DataTable<'r, SeriesRow<'r>> {
    DataTable::new(rows)
        .integers("time_ns", |row| row.time_ns)
        .text("kind", |row| row.kind)
        .text("port", |row| row.port)
        .integers("priority", |row| row.priority.map(u64::from))
        .integers("queue", |row| row.queue.map(u64::from))
        .text("traffic", |row| row.traffic)
        .floats("value", None, |row| row.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::results::OccupancySeries;

    #[test]
    fn each_point_and_pause_has_a_row() {
        let mut outcome = crate::sim::sample::incast();
        let points = outcome.series.at_ns.len();
        let of = OccupancyOf::Queue(3);
        let peak_cells = (0..points as u32).collect();
        outcome.series.occupancy = vec![OccupancySeries { port: "leaf1.p1".to_owned(), of, peak_cells }];
        let names = port_names(&outcome);
        let csv = table(&rows(&outcome, &names)).csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 1 + (3 * 4 + 1 + 2) * points + outcome.series.pauses.len());
        let pick = [0, 21, 1 + 2 * points, 1 + 12 * points, 1 + 13 * points, lines.len() - 1];
        insta::assert_snapshot!(pick.map(|line| lines[line]).join("\n"));
    }
}
