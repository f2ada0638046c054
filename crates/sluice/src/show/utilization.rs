//! `sluice show utilization`: how much of everything that has a limit is in use: lines, buffer
//! pools, headroom, queues, memory.

use control::v1::{Count, Level, Port, Snapshot};

use super::format::{self, earlier, elapsed_ns, grouped, percent, tenths, utilization_percent};
use super::json;

/// Formats the lines between two snapshots (without the earlier one, since the start), then what is
/// in use now.
pub fn table(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let start = Snapshot::default();
    let before = before.unwrap_or(&start);
    format!("{}\n\n{}", lines(now, before), parts(now))
}

fn lines(now: &Snapshot, before: &Snapshot) -> String {
    let elapsed = elapsed_ns(now, Some(before));
    let mut table = format::table(&["Port", "Speed\nMbit/s", "Received\n%", "Sent\n%"], 1);
    for port in &now.ports {
        let none = Port::default();
        let earlier = earlier(Some(before), &port.name).unwrap_or(&none);
        let used = |of: fn(&Port) -> Option<Count>| {
            utilization_percent(port, Some(earlier), elapsed, of).map_or("–".to_owned(), tenths)
        };
        let speed = if port.speed_bps == 0 { "–".to_owned() } else { format::mbit(port.speed_bps) };
        table.add_row([port.name.clone(), speed, used(|port| port.received), used(|port| port.transmitted)]);
    }
    format!("Lines, in {:.1} s:\n{}", elapsed as f64 / 1e9, table.trim_fmt())
}

/// A part of the switch: its name, what is used of it now, at the most, and its size.
struct Use {
    of: String,
    used: u64,
    peak: Option<u64>,
    size: u64,
}

fn parts(now: &Snapshot) -> String {
    let mut table = format::table(&["Of", "Unit", "Used", "Size", "Used\n%", "Peak since\ncleared %"], 2);
    let mut add = |unit: &str, Use { of, used, peak, size }: Use| {
        table.add_row([
            of,
            unit.to_owned(),
            grouped(used),
            grouped(size),
            percent(used, size),
            peak.map_or("–".to_owned(), |peak| percent(peak, size)),
        ]);
    };
    let level = |of: String, level: Option<Level>, size: u32| {
        let Level { cells, peak_clear_cells, .. } = level.unwrap_or_default();
        Use { of, used: cells.into(), peak: Some(peak_clear_cells.into()), size: size.into() }
    };
    for (name, pool) in json::pools(now).into_iter().filter(|(_, pool)| pool.size_cells > 0) {
        let name = name.replace('_', " ");
        add("cells", level(format!("pool {name}"), pool.level, pool.size_cells));
    }
    for port in &now.ports {
        for (priority, group) in
            port.groups.iter().enumerate().filter(|(_, group)| group.headroom_size_cells > 0)
        {
            let of = format!("{} headroom {priority}", port.name);
            add("cells", level(of, group.headroom, group.headroom_size_cells));
        }
        let used = port.queues.iter().enumerate();
        for (queue, of) in used.filter(|(_, queue)| queue.level.unwrap_or_default().peak_cells > 0) {
            add("cells", level(format!("{} queue {queue}", port.name), of.level, of.allowed_cells));
        }
    }
    let used = now.memory_frames.saturating_sub(now.memory_free_frames);
    add("frames", Use { of: "memory".to_owned(), used, peak: None, size: now.memory_frames });
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

    #[test]
    fn lines_of_two_seconds_and_parts() {
        insta::assert_snapshot!(table(&sample::later(), Some(&sample::snapshot())));
    }
}
