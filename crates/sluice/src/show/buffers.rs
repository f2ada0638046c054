//! `sluice show buffers`: who holds the memory: pools, and the priority groups that draw on them.

use control::v1::{Group, Level, Port, Snapshot};
use serde::Serialize;

use super::text::{self, frames, grouped, tenths};

/// The pools by name, with level and size.
fn pools(snapshot: &Snapshot) -> [(&'static str, Level, u32); 3] {
    let level = |level: Option<Level>| level.unwrap_or_default();
    [
        ("shared_ingress", level(snapshot.shared_ingress), snapshot.shared_size_cells),
        ("shared_egress", level(snapshot.shared_egress), snapshot.shared_size_cells),
        ("headroom", level(snapshot.headroom), snapshot.headroom_size_cells),
    ]
}

/// For people: the pools, the groups that ever had something, and the state of the loop's memory.
pub fn table(snapshot: &Snapshot) -> String {
    let mut pools = text::table(&["Pool", "Used\ncells", "Used\n%", "Peak\ncells", "Size\ncells"], 1);
    for (name, level, size_cells) in self::pools(snapshot) {
        let percent =
            if size_cells == 0 { 0.0 } else { f64::from(level.cells) * 100.0 / f64::from(size_cells) };
        pools.add_row([
            name.replace('_', ", "),
            grouped(level.cells.into()),
            tenths(percent),
            grouped(level.peak_cells.into()),
            grouped(size_cells.into()),
        ]);
    }
    format!(
        "{}\nA cell has {} bytes. Of {} frames of memory {} are free and {} are with the kernel.\n\n{}",
        pools.trim_fmt(),
        snapshot.cell_bytes,
        grouped(snapshot.memory_frames),
        grouped(snapshot.memory_free),
        grouped(snapshot.memory_in_rings),
        groups(snapshot)
    )
}

fn groups(snapshot: &Snapshot) -> String {
    let headings = [
        "Port",
        "Priority",
        "State",
        "Reserved\ncells",
        "Shared\ncells",
        "Shared\npeak",
        "Limit\ncells",
        "Headroom\ncells",
        "Headroom\npeak",
        "Received\nframes",
        "Dropped\nframes",
    ];
    let mut table = text::table(&headings, 3);
    let mut silent = 0;
    for port in &snapshot.ports {
        for (priority, group) in port.groups.iter().enumerate() {
            if !group.no_drop && group.received.unwrap_or_default().frames == 0 {
                silent += 1;
                continue;
            }
            let (shared, headroom) = (group.shared.unwrap_or_default(), group.headroom.unwrap_or_default());
            table.add_row([
                port.name.clone(),
                priority.to_string(),
                state(group).to_owned(),
                grouped(group.reserved_cells.into()),
                grouped(shared.cells.into()),
                grouped(shared.peak_cells.into()),
                grouped(group.threshold_cells.into()),
                grouped(headroom.cells.into()),
                grouped(headroom.peak_cells.into()),
                frames(group.received),
                frames(group.dropped),
            ]);
        }
    }
    match (table.is_empty(), silent) {
        (true, _) => "No priority group has seen a frame yet.".to_owned(),
        (false, 0) => table.trim_fmt(),
        (false, _) => format!("{}\n\n{silent} lossy groups have seen no frame.", table.trim_fmt()),
    }
}

fn state(group: &Group) -> &'static str {
    match (group.no_drop, group.xoff) {
        (true, true) => "XOFF",
        (true, false) => "no-drop",
        (false, _) => "lossy",
    }
}

/// For programs: all pools and every group.
pub fn json(snapshot: &Snapshot) -> impl Serialize {
    let rows = |port: &Port| -> Vec<GroupJson> {
        port.groups
            .iter()
            .enumerate()
            .map(|(priority, group)| GroupJson::of(&port.name, priority, group))
            .collect()
    };
    Buffers {
        at_ns: snapshot.at_ns,
        cell_bytes: snapshot.cell_bytes,
        pools: pools(snapshot)
            .map(|(pool, level, size_cells)| PoolJson {
                pool,
                used_cells: level.cells,
                used_peak_cells: level.peak_cells,
                size_cells,
            })
            .into(),
        groups: snapshot.ports.iter().flat_map(rows).collect(),
    }
}

#[derive(Serialize)]
struct Buffers {
    at_ns: u64,
    cell_bytes: u32,
    pools: Vec<PoolJson>,
    groups: Vec<GroupJson>,
}

#[derive(Serialize)]
struct PoolJson {
    pool: &'static str,
    used_cells: u32,
    used_peak_cells: u32,
    size_cells: u32,
}

#[derive(Serialize)]
struct GroupJson {
    port: String,
    priority: usize,
    no_drop: bool,
    xoff: bool,
    xoff_episodes: u64,
    reserved_cells: u32,
    shared_cells: u32,
    shared_peak_cells: u32,
    headroom_cells: u32,
    headroom_peak_cells: u32,
    threshold_cells: u32,
    received_frames: u64,
    received_bytes: u64,
    dropped_frames: u64,
    dropped_bytes: u64,
}

impl GroupJson {
    fn of(port: &str, priority: usize, group: &Group) -> Self {
        let (shared, headroom) = (group.shared.unwrap_or_default(), group.headroom.unwrap_or_default());
        let (received, dropped) = (group.received.unwrap_or_default(), group.dropped.unwrap_or_default());
        Self {
            port: port.to_owned(),
            priority,
            no_drop: group.no_drop,
            xoff: group.xoff,
            xoff_episodes: group.xoff_episodes,
            reserved_cells: group.reserved_cells,
            shared_cells: shared.cells,
            shared_peak_cells: shared.peak_cells,
            headroom_cells: headroom.cells,
            headroom_peak_cells: headroom.peak_cells,
            threshold_cells: group.threshold_cells,
            received_frames: received.frames,
            received_bytes: received.bytes,
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
    fn table_of_pools_and_groups() {
        insta::assert_snapshot!(table(&sample::snapshot()));
    }

    #[test]
    fn json_of_pools_and_a_group() {
        let mut value = serde_json::to_value(json(&sample::snapshot())).unwrap();
        let groups = value["groups"].as_array_mut().unwrap();
        assert_eq!(groups.len(), 24, "all groups of three ports");
        *groups = vec![groups[3].clone()];
        insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
    }
}
