//! `sluice show buffers`: who holds the memory: pools, and the priority groups that draw on them.

use control::v1::{Group, Level, Pool, Port, Snapshot};
use serde::Serialize;

use super::text::{self, frames, grouped, tenths};

/// All pools by name.
fn pools(snapshot: &Snapshot) -> Vec<(String, Pool)> {
    let numbered = |side: &'static str, pools: &[Pool]| -> Vec<(String, Pool)> {
        pools.iter().enumerate().map(|(number, pool)| (format!("{side}_{number}"), *pool)).collect()
    };
    let mut pools = numbered("ingress", &snapshot.ingress_pools);
    pools.extend(numbered("egress", &snapshot.egress_pools));
    pools.push(("headroom".to_owned(), snapshot.headroom.unwrap_or_default()));
    pools
}

/// For people: the pools, the groups that ever had something, and the state of the loop's memory.
pub fn table(snapshot: &Snapshot) -> String {
    let mut pools = text::table(&["Pool", "Used\ncells", "Used\n%", "Peak\ncells", "Size\ncells"], 1);
    for (name, Pool { level, size_cells }) in self::pools(snapshot) {
        let level = level.unwrap_or_default();
        if size_cells == 0 && level.cells == 0 {
            continue;
        }
        let percent =
            if size_cells == 0 { 100.0 } else { f64::from(level.cells) * 100.0 / f64::from(size_cells) };
        pools.add_row([
            name.replace('_', " "),
            grouped(level.cells.into()),
            tenths(percent),
            grouped(level.peak_read_cells.into()),
            grouped(size_cells.into()),
        ]);
    }
    format!(
        "{}\nA cell has {} bytes; peaks are the most since they were last read. Of {} frames of memory\n{} are free and {} \
         are with the kernel.\n\n{}",
        pools.trim_fmt(),
        snapshot.cell_bytes,
        grouped(snapshot.memory_frames),
        grouped(snapshot.memory_free),
        grouped(snapshot.memory_in_rings),
        groups(snapshot)
    )
}

/// What the groups hold, then what they counted.
fn groups(snapshot: &Snapshot) -> String {
    let of_port = |port: &Port| {
        let name = port.name.clone();
        port.groups.clone().into_iter().enumerate().map(move |(n, group)| (name.clone(), n, group))
    };
    let all: Vec<(String, usize, Group)> = snapshot.ports.iter().flat_map(of_port).collect();
    let silent = |group: &Group| !group.no_drop && group.received.unwrap_or_default().frames == 0;
    let (silent, used): (Vec<_>, Vec<_>) = all.into_iter().partition(|(.., group)| silent(group));
    if used.is_empty() {
        return "No priority group has seen a frame yet.".to_owned();
    }
    let mut text = format!("{}\n\n{}", cells(&used), counts(&used));
    if !silent.is_empty() {
        text += &format!("\n\n{} lossy groups have seen no frame.", silent.len());
    }
    text
}

fn cells(groups: &[(String, usize, Group)]) -> String {
    let headings = [
        "Port",
        "Prio-\nrity",
        "Pool",
        "Reserved\ncells",
        "\nof",
        "Shared\ncells",
        "\npeak",
        "\nlimit",
        "Headroom\ncells",
        "\npeak",
        "\nof",
        "Total\ncells",
        "\npeak",
    ];
    let mut table = text::table(&headings, 2);
    for (port, priority, group) in groups {
        let [shared, headroom, total] = levels(group);
        let cells = [
            group.pool,
            group.reserved_cells,
            group.reserved_size_cells,
            shared.cells,
            shared.peak_read_cells,
            group.threshold_cells,
            headroom.cells,
            headroom.peak_read_cells,
            group.headroom_size_cells,
            total.cells,
            total.peak_read_cells,
        ];
        let cells = cells.map(|cells| grouped(cells.into()));
        table.add_row([port.clone(), priority.to_string()].into_iter().chain(cells));
    }
    table.trim_fmt()
}

fn counts(groups: &[(String, usize, Group)]) -> String {
    let headings = [
        "Port",
        "Prio-\nrity",
        "State",
        "XOFF\nepisodes",
        "Usage\nviolations",
        "Received\nframes",
        "Dropped\nframes",
    ];
    let mut table = text::table(&headings, 3);
    for (port, priority, group) in groups {
        table.add_row([
            port.clone(),
            priority.to_string(),
            state(group).to_owned(),
            grouped(group.xoff_episodes),
            grouped(group.violations),
            frames(group.received),
            frames(group.dropped),
        ]);
    }
    table.trim_fmt()
}

/// Shared, headroom and total.
fn levels(group: &Group) -> [Level; 3] {
    [group.shared, group.headroom, group.total].map(Option::unwrap_or_default)
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
        pools: pools(snapshot).into_iter().map(PoolJson::of).collect(),
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
    pool: String,
    used_cells: u32,
    used_peak_read_cells: u32,
    used_peak_clear_cells: u32,
    used_peak_cells: u32,
    size_cells: u32,
}

impl PoolJson {
    fn of((pool, Pool { level, size_cells }): (String, Pool)) -> Self {
        let Level { cells, peak_read_cells, peak_clear_cells, peak_cells } = level.unwrap_or_default();
        Self {
            pool,
            used_cells: cells,
            used_peak_read_cells: peak_read_cells,
            used_peak_clear_cells: peak_clear_cells,
            used_peak_cells: peak_cells,
            size_cells,
        }
    }
}

#[derive(Serialize)]
struct GroupJson {
    port: String,
    priority: usize,
    no_drop: bool,
    pool: u32,
    xoff: bool,
    xoff_episodes: u64,
    reserved_cells: u32,
    reserved_size_cells: u32,
    shared_cells: u32,
    shared_peak_read_cells: u32,
    shared_peak_clear_cells: u32,
    shared_peak_cells: u32,
    threshold_cells: u32,
    is_dynamic: bool,
    headroom_cells: u32,
    headroom_peak_read_cells: u32,
    headroom_peak_clear_cells: u32,
    headroom_peak_cells: u32,
    headroom_size_cells: u32,
    total_cells: u32,
    total_peak_read_cells: u32,
    total_peak_clear_cells: u32,
    total_peak_cells: u32,
    violations: u64,
    received_frames: u64,
    received_bytes: u64,
    dropped_frames: u64,
    dropped_bytes: u64,
}

impl GroupJson {
    fn of(port: &str, priority: usize, group: &Group) -> Self {
        let [shared, headroom, total] = levels(group);
        let (received, dropped) = (group.received.unwrap_or_default(), group.dropped.unwrap_or_default());
        Self {
            port: port.to_owned(),
            priority,
            no_drop: group.no_drop,
            pool: group.pool,
            xoff: group.xoff,
            xoff_episodes: group.xoff_episodes,
            reserved_cells: group.reserved_cells,
            reserved_size_cells: group.reserved_size_cells,
            shared_cells: shared.cells,
            shared_peak_read_cells: shared.peak_read_cells,
            shared_peak_clear_cells: shared.peak_clear_cells,
            shared_peak_cells: shared.peak_cells,
            threshold_cells: group.threshold_cells,
            is_dynamic: group.is_dynamic,
            headroom_cells: headroom.cells,
            headroom_peak_read_cells: headroom.peak_read_cells,
            headroom_peak_clear_cells: headroom.peak_clear_cells,
            headroom_peak_cells: headroom.peak_cells,
            headroom_size_cells: group.headroom_size_cells,
            total_cells: total.cells,
            total_peak_read_cells: total.peak_read_cells,
            total_peak_clear_cells: total.peak_clear_cells,
            total_peak_cells: total.peak_cells,
            violations: group.violations,
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
