//! `sluice show buffers`: use of the memory: pools, the priority groups that draw on them at
//! ingress, the queues at egress.
//!
//! The columns are those of H3C's "display buffer usage interface" (H3C RDMA technical reference,
//! tables 2 and 3): of each group and queue Total (what it may hold now, without headroom), Used,
//! Used %, Free, UsedPeak (between two executions), Threshold %, Violations; of a group Shared,
//! XoffThres, IsDynamic, and of its headroom the same. Nothing is more than the pool has. The pools
//! are those of Inspur's "show qos buffer-pool" (Inspur ECN and PFC white paper, 6-5), with their
//! size and xoff, and what no-drop queues took beyond them (docs/behavior.md, "Areas and pools").

use control::v1::{Group, Level, Pool, Queue, Snapshot};

use crate::show::format::{self, Unit, frames, grouped, percent};
use crate::show::json;
use crate::show::select::is_shown;

/// Formats the pools and the loop's memory, then the groups and the queues that were ever used.
pub fn table(snapshot: &Snapshot, unit: Unit) -> String {
    format!(
        "{}\nA cell has {} bytes; peaks are the most since they were last read. Of {} frames of memory\n{} are free and {} \
         are with the kernel.\n\n{}\n\n{}",
        pools(snapshot, unit),
        snapshot.cell_bytes,
        grouped(snapshot.memory_frames),
        grouped(snapshot.memory_free_frames),
        grouped(snapshot.memory_in_rings_frames),
        ingress(snapshot, unit),
        egress(snapshot, unit),
    )
}

/// Returns size and use of an allowance, and by how much use may grow: within the total, and within
/// the `free` cells beside it.
fn use_of(used: u64, peak: u64, total: u64, free: u64, unit: Unit) -> [String; 5] {
    let free = total.saturating_sub(used).min(free);
    [unit.of(total), unit.of(used), percent(used, total), unit.of(free), unit.of(peak)]
}

fn free_cells(pool: Option<&Pool>) -> u64 {
    pool.map_or(0, |pool| pool.size_cells.saturating_sub(pool.level.unwrap_or_default().cells)).into()
}

fn service_pool(pools: &[Pool], number: u32) -> Option<&Pool> {
    pools.get(number as usize)
}

/// The headings of [`use_of`].
fn headings(first: &[&str], total: &str, unit: Unit, more: &[&str]) -> Vec<String> {
    let with_unit = |name: &str| format!("{name}\n{}", unit.name);
    let of_use =
        [with_unit(total), with_unit("Used"), "Used\n%".to_owned(), with_unit("Free"), with_unit("Peak")];
    let plain = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    [plain(first), of_use.into(), plain(more)].concat()
}

fn table_of(headings: &[String], words: usize) -> format::Grid {
    format::table(&headings.iter().map(String::as_str).collect::<Vec<_>>(), words)
}

fn pools(snapshot: &Snapshot, unit: Unit) -> String {
    let of_cells = |name: &str| format!("{name}\n{}", unit.name);
    let more = [of_cells("XOFF at"), "Beyond\nframes".to_owned(), of_cells("Beyond")];
    let mut table = table_of(&headings(&["Pool"], "Size", unit, &more.each_ref().map(String::as_str)), 1);
    for (name, &Pool { level, size_cells, excess_frames, excess_cells, pause_threshold_cells }) in
        json::pools(snapshot)
    {
        let level = level.unwrap_or_default();
        if size_cells == 0 && level.cells == 0 {
            continue;
        }
        let [used, peak, size] = [level.cells, level.peak_read_cells, size_cells].map(u64::from);
        let cells = use_of(used, peak, size, size, unit);
        let more = [
            pause_threshold_cells.map_or("–".to_owned(), |cells| unit.of(cells)),
            grouped(excess_frames),
            unit.of(excess_cells),
        ];
        table.add_row([name.replace('_', " ")].into_iter().chain(cells).chain(more));
    }
    table.trim_fmt()
}

/// Formats the cells of the groups, their limits, and the headroom of no-drop groups.
fn ingress(snapshot: &Snapshot, unit: Unit) -> String {
    let mut groups = Vec::new();
    for port in &snapshot.ports {
        groups.extend(port.groups.iter().enumerate().map(|(priority, group)| (&port.name, priority, group)));
    }
    groups.retain(|(.., group)| is_shown(group));
    let all = groups.len();
    groups.retain(|(.., group)| group.no_drop || group.received.unwrap_or_default().frames > 0);
    if groups.is_empty() {
        return "No priority group has seen a frame yet.".to_owned();
    }
    let first = ["Ingress\nport", "Prio-\nrity", "Pool"];
    let mut used = table_of(&headings(&first, "Total", unit, &["Threshold\n%", "Violations"]), 2);
    let of_cells = |name: &str| format!("{name}\n{}", unit.name);
    let limits = ["Reserved", "Shared", "XOFF at"].map(of_cells);
    let mut states = format::table(
        &[
            "Ingress\nport",
            "Prio-\nrity",
            "State",
            "XOFF\nis",
            &limits[0],
            &limits[1],
            &limits[2],
            "XOFF\nepisodes",
            "Received\nframes",
            "Dropped\nframes",
        ],
        4,
    );
    let mut headroom = table_of(&headings(&first[..2], "Headroom", unit, &["Violations"]), 2);
    for (port, priority, group) in &groups {
        let of = [(*port).clone(), priority.to_string()];
        let rest = [group.usage_percent.to_string(), grouped(group.violations)];
        let pool = service_pool(&snapshot.ingress_pools, group.pool);
        used.add_row(
            of.clone()
                .into_iter()
                .chain([group.pool.to_string()])
                .chain(group_use(group, pool, unit))
                .chain(rest),
        );
        states.add_row(of.clone().into_iter().chain([
            state(group).to_owned(),
            kind(group.is_dynamic).to_owned(),
            unit.of(group.reserved_size_cells),
            unit.of(group.shared.unwrap_or_default().cells),
            unit.of(threshold_cells(group, pool)),
            grouped(group.xoff_episodes),
            frames(group.received),
            frames(group.dropped),
        ]));
        if group.headroom_size_cells > 0 {
            let Level { cells, peak_read_cells, .. } = group.headroom.unwrap_or_default();
            let [used, peak, size] = [cells, peak_read_cells, group.headroom_size_cells].map(u64::from);
            let cells = use_of(used, peak, size, free_cells(snapshot.headroom.as_ref()), unit);
            headroom.add_row(of.into_iter().chain(cells).chain([grouped(group.headroom_violations)]));
        }
    }
    let mut text = format!("{}\n\n{}", used.trim_fmt(), states.trim_fmt());
    if !headroom.is_empty() {
        text += &format!("\n\n{}", headroom.trim_fmt());
    }
    if all > groups.len() {
        text += &format!("\n\n{} lossy groups have seen no frame.", all - groups.len());
    }
    text
}

/// Returns Total, Used, … of a group outside its headroom. Its reservation is used first and
/// released last, so it was full whenever shared cells were in use.
fn group_use(group: &Group, pool: Option<&Pool>, unit: Unit) -> [String; 5] {
    let [shared, total] = [group.shared, group.total].map(Option::unwrap_or_default);
    let reserved = u64::from(group.reserved_size_cells);
    let peak = match u64::from(shared.peak_read_cells) {
        0 => reserved.min(total.peak_read_cells.into()),
        shared_peak => reserved + shared_peak,
    };
    let used = u64::from(group.reserved_cells) + u64::from(shared.cells);
    let free = reserved.saturating_sub(group.reserved_cells.into()) + free_cells(pool);
    use_of(used, peak, reserved + threshold_cells(group, pool), free, unit)
}

/// The threshold of a group, at most its pool: a dynamic one of eight times the free cells says
/// that the group may take all.
fn threshold_cells(group: &Group, pool: Option<&Pool>) -> u64 {
    let size = pool.map_or(u32::MAX, |pool| pool.size_cells);
    group.threshold_cells.min(size).into()
}

fn state(group: &Group) -> &'static str {
    match (group.no_drop, group.xoff) {
        (true, true) => "XOFF",
        (true, false) => "no-drop",
        (false, _) => "lossy",
    }
}

/// Describes whether a threshold changes with the free cells of its pool.
pub fn kind(is_dynamic: bool) -> &'static str {
    if is_dynamic { "dynamic" } else { "static" }
}

/// Formats the cells of the queues.
fn egress(snapshot: &Snapshot, unit: Unit) -> String {
    let first = ["Egress\nport", "Queue", "Pool"];
    let mut table = table_of(&headings(&first, "Total", unit, &["Threshold\n%", "Violations"]), 2);
    for port in &snapshot.ports {
        for (number, queue) in port.queues.iter().enumerate() {
            if queue.level.unwrap_or_default().peak_cells > 0 {
                let of = [port.name.clone(), number.to_string(), queue.pool.to_string()];
                let rest = [queue.usage_percent.to_string(), grouped(queue.violations)];
                let pool = service_pool(&snapshot.egress_pools, queue.pool);
                table.add_row(of.into_iter().chain(queue_use(queue, pool, unit)).chain(rest));
            }
        }
    }
    if table.is_empty() { "No queue has held a frame yet.".to_owned() } else { table.trim_fmt() }
}

/// Returns Total, Used, … of a queue; without a limit, the total is its pool plus its guarantee.
fn queue_use(queue: &Queue, pool: Option<&Pool>, unit: Unit) -> [String; 5] {
    let Level { cells, peak_read_cells, .. } = queue.level.unwrap_or_default();
    let (used, peak) = (u64::from(cells), u64::from(peak_read_cells));
    let guaranteed = u64::from(queue.guaranteed_cells);
    let free = guaranteed.saturating_sub(used) + free_cells(pool);
    use_of(used, peak, queue.allowed_cells.into(), free, unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

    /// Rows 49 to 66 and 69, 70 of the displays in the vendor specifications, in cells.
    #[test]
    fn table_of_pools_groups_and_queues() {
        insta::assert_snapshot!(table(&sample::snapshot(), Unit::CELLS));
    }

    /// The same in bytes, as in H3C's brief form (table 2) and Inspur's pools.
    #[test]
    fn table_in_bytes() {
        insta::assert_snapshot!(table(&sample::snapshot(), Unit::bytes(256)));
    }

    #[test]
    fn table_of_nothing() {
        let text = table(&Snapshot::default(), Unit::CELLS);
        assert!(text.contains("No priority group has seen a frame yet."), "{text}");
        assert!(text.ends_with("No queue has held a frame yet."), "{text}");
    }

    /// A threshold of eight times the free cells exceeds the cells that exist.
    #[test]
    fn no_more_is_free_than_the_pool_has() {
        let level = |cells| Some(Level { cells, ..Level::default() });
        let pool = Pool { level: level(60), size_cells: 100, ..Pool::default() };
        let group = Group {
            reserved_size_cells: 8,
            reserved_cells: 8,
            shared: level(10),
            threshold_cells: 320,
            ..Group::default()
        };
        assert_eq!(group_use(&group, Some(&pool), Unit::CELLS)[..4], ["108", "18", "16.7", "40"]);
        let queue = Queue { guaranteed_cells: 8, level: level(3), allowed_cells: 328, ..Queue::default() };
        assert_eq!(queue_use(&queue, Some(&pool), Unit::CELLS)[..4], ["328", "3", "0.9", "45"]);
    }

    /// Reserved cells are used first, so a group that used no shared cells had at most its
    /// reservation. Headroom is not part of Total.
    #[test]
    fn the_peak_of_a_group_is_without_its_headroom() {
        let peak = |peak_read_cells| Some(Level { peak_read_cells, ..Level::default() });
        for (shared, total, expected) in [(0, 0, "0"), (0, 5, "5"), (0, 30, "8"), (100, 130, "108")] {
            let group = Group {
                reserved_size_cells: 8,
                shared: peak(shared),
                total: peak(total),
                ..Group::default()
            };
            assert_eq!(group_use(&group, None, Unit::CELLS)[4], expected, "{shared} shared, {total} in all");
        }
    }
}
