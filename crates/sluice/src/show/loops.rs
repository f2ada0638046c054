//! `sluice show loop`: whether the poll loops keep up, and how long they stalled.

use control::v1::{Loop, Snapshot};

use super::format::{self, grouped, tenths};

/// Formats the iterations by their distance from the one before. With an earlier snapshot, shows
/// those since then.
pub fn table(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let turns = turns(now, before);
    let all: u64 = turns.iter().sum();
    let shown = turns.iter().rposition(|&turns| turns > 0).map_or(0, |last| last + 1);
    let first = turns.iter().position(|&turns| turns > 0).unwrap_or(0);
    let mut table = format::table(&["Turn began after", "Turns", "Share\n%", "As long or longer\n%"], 1);
    for (index, &number) in turns.iter().enumerate().take(shown).skip(first) {
        let longer: u64 = turns[index..].iter().sum();
        let percent = |turns: u64| format!("{:.4}", turns as f64 * 100.0 / all as f64);
        table.add_row([range(index, turns.len()), grouped(number), percent(number), percent(longer)]);
    }
    let since = if before.is_some() { "since the last look" } else { "since the start" };
    let summary = format!(
        "Iterations {since}, excluding sleep: {}. The longest stall since the start: {}.",
        grouped(all),
        time(now.loop_worst_stall_ns as f64 / 1e3)
    );
    let loops = loops(&now.loops).map(|table| format!("\n\n{table}")).unwrap_or_default();
    if shown == 0 { format!("{summary}{loops}") } else { format!("{}\n\n{summary}{loops}", table.trim_fmt()) }
}

/// Describes the share of several loops in that, since the start.
fn loops(loops: &[Loop]) -> Option<String> {
    let [_, _, ..] = loops else { return None };
    let mut table = format::table(&["Loop on core", "Turns", "Awake", "Longest stall"], 1);
    for Loop { core, turns, worst_stall_ns, awake_ns } in loops {
        let [awake, stall] = [awake_ns, worst_stall_ns].map(|nanos| time(*nanos as f64 / 1e3));
        table.add_row([core.to_string(), grouped(*turns), awake, stall]);
    }
    Some(table.trim_fmt())
}

/// Formats the loops by their core: the ports that each serves, its iterations, how much of the
/// time it was awake. With an earlier snapshot, of the time since.
pub fn cores(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let headings = ["Core", "Loop", "Ports", "Iterations", "Awake\n%", "Longest stall\nsince the start"];
    let mut table = format::table(&headings, 3);
    let start = Snapshot::default();
    let before = before.unwrap_or(&start);
    let elapsed_ns = now.at_ns.saturating_sub(before.at_ns).max(1);
    for (number, of) in now.loops.iter().enumerate() {
        let earlier = before.loops.iter().find(|loops| loops.core == of.core).copied().unwrap_or_default();
        let served =
            now.ports.iter().filter(|port| port.link.as_ref().is_some_and(|link| link.core == of.core));
        let served: Vec<&str> = served.map(|port| port.name.as_str()).collect();
        let awake_ns = of.awake_ns.saturating_sub(earlier.awake_ns);
        table.add_row([
            of.core.to_string(),
            if number == 0 { "switching" } else { "I/O" }.to_owned(),
            if served.is_empty() { "–".to_owned() } else { served.join(", ") },
            grouped(of.turns.saturating_sub(earlier.turns)),
            tenths(awake_ns as f64 * 100.0 / elapsed_ns as f64),
            time(of.worst_stall_ns as f64 / 1e3),
        ]);
    }
    if table.is_empty() { "No loop has reported yet.".to_owned() } else { table.trim_fmt() }
}

/// Returns the iterations by time, since the start or since the earlier snapshot.
fn turns(now: &Snapshot, before: Option<&Snapshot>) -> Vec<u64> {
    let earlier = |index| before.and_then(|before| before.loop_turns_by_time.get(index)).copied();
    let turns = now.loop_turns_by_time.iter().enumerate();
    turns.map(|(index, turns)| turns.saturating_sub(earlier(index).unwrap_or(0))).collect()
}

/// Returns the time range of bucket `index` out of `buckets`, according to
/// `switch::monitor::counters::iteration_time_class`.
fn range(index: usize, buckets: usize) -> String {
    let from = |index: usize| if index == 0 { 0.0 } else { (1_u64 << (index - 1)) as f64 };
    match index {
        0 => format!("less than {}", time(1.0)),
        _ if index + 1 == buckets => format!("{} and more", time(from(index))),
        _ => format!("{} to {}", time(from(index)), time(from(index + 1))),
    }
}

/// Formats microseconds with a suitable unit.
fn time(micros: f64) -> String {
    match micros {
        _ if micros >= 1e6 => format!("{} s", tenths(micros / 1e6)),
        _ if micros >= 1e3 => format!("{} ms", tenths(micros / 1e3)),
        _ => format!("{micros:.0} µs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

    #[test]
    fn table_of_totals() {
        insta::assert_snapshot!(table(&sample::snapshot(), None));
    }

    #[test]
    fn two_snapshots_show_the_difference() {
        insta::assert_snapshot!(table(&sample::later(), Some(&sample::snapshot())));
    }

    #[test]
    fn of_several_loops_each() {
        let of = |core, turns, worst_stall_ns| Loop { core, turns, worst_stall_ns, awake_ns: 4_500_000_000 };
        let loops = vec![of(2, 3_000_000, 21_000), of(0, 141_592, 317_000)];
        insta::assert_snapshot!(table(&Snapshot { loops, ..sample::snapshot() }, None));
    }

    #[test]
    fn cores_and_what_they_serve() {
        let of = |core, turns, worst_stall_ns| Loop { core, turns, worst_stall_ns, awake_ns: 4_500_000_000 };
        let mut now =
            Snapshot { loops: vec![of(2, 3_000_000, 21_000), of(0, 141_592, 317_000)], ..sample::snapshot() };
        now.ports[1].link.as_mut().unwrap().core = 2;
        insta::assert_snapshot!(cores(&now, None));
    }

    #[test]
    fn a_loop_that_has_not_turned_yet() {
        let text = table(&Snapshot::default(), None);
        assert_eq!(
            text,
            "Iterations since the start, excluding sleep: 0. The longest stall since the start: 0 µs."
        );
    }

    /// The headings match the counters of the loop.
    #[test]
    fn ranges_are_those_of_the_loop() {
        use switch::monitor::counters::{ITERATION_TIME_CLASSES, iteration_time_class};
        let ranges: Vec<(u64, &str)> = vec![
            (0, "less than 1 µs"),
            (999, "less than 1 µs"),
            (1_000, "1 µs to 2 µs"),
            (1_999, "1 µs to 2 µs"),
            (2_000, "2 µs to 4 µs"),
            (317_000, "256 µs to 512 µs"),
            (1_023_999, "512 µs to 1.0 ms"),
            (1_024_000, "1.0 ms to 2.0 ms"),
            (4_194_303_999, "2.1 s to 4.2 s"),
            (4_194_304_000, "4.2 s and more"),
            (u64::MAX, "4.2 s and more"),
        ];
        for (nanos, expected) in ranges {
            assert_eq!(range(iteration_time_class(nanos), ITERATION_TIME_CLASSES), expected, "{nanos} ns");
        }
    }
}
