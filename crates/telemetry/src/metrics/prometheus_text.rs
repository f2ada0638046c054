//! Prometheus's text format 0.0.4, which older readers request, converted from the OpenMetrics
//! format.
//!
//! Rule: for our metrics the two differ in two ways. The older format names a counter with its
//! `_total`, and it has neither units nor an end mark. Source: docs/references.md, "Standards"
//! (OpenMetrics).

use std::collections::BTreeSet;
use std::fmt::Write;

/// Converts `openmetrics` to the older format.
pub fn prometheus(openmetrics: &str) -> String {
    let of_counter = |line: &str| line.strip_prefix("# TYPE ")?.strip_suffix(" counter").map(str::to_owned);
    let counters: BTreeSet<String> = openmetrics.lines().filter_map(of_counter).collect();
    let mut text = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what), Some(name), Some(rest)) if counters.contains(name) => {
                writeln!(text, "# {what} {name}_total {rest}")
            }
            _ => writeln!(text, "{line}"),
        }
        .expect("a string takes all");
    }
    text
}
