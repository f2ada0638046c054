//! `sluice show buffers`: who holds the memory: pools, and the priority groups that draw on them.

use control::v1::{Group, Level, Pool, Port, Snapshot};

use super::json;
use super::text::{self, frames, grouped, tenths};

/// For people: the pools, the groups that ever had something, and the state of the loop's memory.
pub fn table(snapshot: &Snapshot) -> String {
    let mut pools = text::table(&["Pool", "Used\ncells", "Used\n%", "Peak\ncells", "Size\ncells"], 1);
    for (name, &Pool { level, size_cells }) in json::pools(snapshot) {
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
        grouped(snapshot.memory_free_frames),
        grouped(snapshot.memory_in_rings_frames),
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

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn table_of_pools_and_groups() {
        insta::assert_snapshot!(table(&sample::snapshot()));
    }
}
