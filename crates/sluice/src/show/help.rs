//! Description of the JSON in `sluice show --help`: the fields of the messages with the comments of
//! the proto file.

use std::fmt::Write;

use control::field_docs;

/// The most characters of a line: clap would break longer ones at 100.
const WIDTH: usize = 99;
/// Column where comments begin.
const INDENT: usize = 30;

const BEGINNING: &str = "\
Counters count since the daemon started, or since you cleared them (`sluice clear counters`;
--absolute shows all of them); lengths are without FCS. A table leaves out what is all
zero, JSON never does.

Peaks are the most there ever was, to the cell: since the last read, since `sluice clear
watermarks`, and since the start. `show buffers` has the first and begins it again, of every port,
queue and pool; `show queues` has the second. No other view touches them.

The JSON of every view begins with the numbers of the whole switch; then come the lists that the
view is about: ports, drops and pfc have ports[]; queues, congestion and buffers have queues[];
buffers and pfc have groups[]; pfc has priorities[] and storms[]; buffers has pools[]; counters has
all of them. Names have their unit last and are the same in all views:
";

/// The end of `sluice show -h`.
pub const SHORT: &str = "\
  sluice show pfc                          who pauses whom, how often, how long
  sluice show pfc --style sonic            frames by port and PFC0 to PFC7
  sluice show queues --port a --rates=5
  sluice show buffers --priority 3 --json --watch

`sluice show --help` describes each view and the fields of its JSON.";

const END: &str = "\
drops also has drop_summary, over all ports, and drops[]: frames and bytes by port, side (input:
the port that they came in by; output: that they were to leave by) and reason. The summary has
input_dropped, of which input_buffer_dropped found no room; transmitted; output_dropped, of which
output_buffer_dropped (tail drops) and wred_dropped; marked (ECN); kernel_lost_frames.

A threshold is the limit of shared cells as it stands; a dynamic one moves with the free cells of
its pool: its percentage is no share of the pool, but picks alpha. A no-drop queue has no threshold
(null) unless the file gives it one: what ingress let in stays, and what is beyond the queue's pool
counts there as excess. Violations count how often use rose above the usage threshold.

Once a switch is idle, over all its ports: received + flood copies = transmitted + drops + lost by
the kernel.";

/// A heading and the message whose fields follow.
const SECTIONS: [(&str, &str); 15] = [
    ("The switch", "Snapshot"),
    ("ports[]", "Port"),
    ("A link", "Link"),
    ("cautions[]", "Caution"),
    ("queues[]", "Queue"),
    ("groups[]", "Group"),
    ("priorities[]", "Priority"),
    ("storms[]", "Storm"),
    ("pools[]", "Pool"),
    ("A count", "Count"),
    ("A level", "Level"),
    ("PFC frames", "PfcCount"),
    ("What passes in a storm", "StormTraffic"),
    ("kernel", "Kernel"),
    ("lldp", "Lldp"),
];

/// Returns the fields that rows have in addition to those of the message.
fn added(message: &str) -> &'static [(&'static str, &'static str)] {
    match message {
        "Port" => &[
            (
                "utilization_percent",
                "Of its line by what it sends, with --watch or --rates, if it has a speed.",
            ),
            ("received_utilization_percent", "The same by what it receives."),
            ("received_pps, received_bps", "Frames and bits of frames a second, with --watch or --rates."),
            ("transmitted_pps, transmitted_bps", "The same of what it sends."),
            (
                "received_broadcast_pps, received_multicast_pps",
                "Of these, frames a second to the broadcast address, to other group addresses.",
            ),
            ("transmitted_broadcast_pps, transmitted_multicast_pps", "The same of what it sends."),
        ],
        "Queue" => &[
            ("port, queue", "Whose it is, and its number."),
            ("held", "The port's transmission is held."),
            ("transmitted_pps", "Frames a second, with --watch or --rates."),
            ("transmitted_bps", "Bits a second of these frames' bytes, with --watch or --rates."),
        ],
        "Snapshot" => &[(
            "cleared_at_ns",
            "When this user cleared the counters (`sluice clear counters`), as at_ns; else absent.",
        )],
        "Group" | "Priority" => &[("port, priority", "Whose it is.")],
        "Storm" => &[("port", "Where it was.")],
        "Pool" => &[("name", "ingress_0 to ingress_3, egress_0 to egress_3, headroom.")],
        _ => &[],
    }
}

/// Returns the whole description.
pub fn text() -> String {
    let mut out = String::from(BEGINNING);
    for (heading, message) in SECTIONS {
        let _ = write!(out, "\n{heading}\n");
        for (name, comment) in added(message) {
            entry(&mut out, name, comment);
        }
        for field in field_docs::of(message) {
            let kind = match field.of {
                // Lists with rows of their own.
                "Port" | "Group" | "Queue" | "Pool" | "Priority" | "Storm" => continue,
                "Count" => " (count)",
                "Level" => " (level)",
                "PfcCount" => " (PFC frames)",
                "StormTraffic" => " (what passes)",
                "Link" => " (link)",
                "Caution" => "[]",
                "ByDropLevel" => " (counts)",
                "DropsEntry" => ".REASON (count)",
                _ => "",
            };
            let levels = if field.of == "ByDropLevel" { " By drop level: green, yellow, red." } else { "" };
            let comment =
                if field.of == "DropsEntry" { reasons(field.comment) } else { field.comment.to_owned() };
            entry(&mut out, &format!("{}{kind}", field.name), &format!("{comment}{levels}"));
        }
    }
    out + "\n" + END
}

/// Adds the drop reasons that a comment does not name to its list of them.
fn reasons(comment: &str) -> String {
    let names = switch::DropReason::ALL.map(|reason| reason.name());
    let missing: String =
        names.iter().filter(|name| !comment.contains(*name)).map(|name| format!(", {name}")).collect();
    format!("{}{missing}.", comment.trim_end_matches('.'))
}

/// Formats one name with its description, wrapped.
fn entry(out: &mut String, name: &str, comment: &str) {
    let mut line = format!("  {name:<width$}", width = INDENT - 3);
    for word in comment.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{}", line.trim_end());
            line = " ".repeat(INDENT - 1);
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::super::json::Document;
    use super::super::view::View;
    use super::*;
    use crate::show_fixture as sample;

    /// The names in JSON are an interface, so a removed or changed name must be noticed.
    #[test]
    fn every_field_of_the_json_is_named() {
        fn names(value: &serde_json::Value, found: &mut Vec<String>) {
            match value {
                serde_json::Value::Object(map) => {
                    for (name, value) in map {
                        found.push(name.clone());
                        names(value, found);
                    }
                }
                serde_json::Value::Array(values) => values.iter().for_each(|value| names(value, found)),
                _ => {}
            }
        }
        let text = text();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "wrapped lines are hard to read");
        let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let (before, now) = (sample::snapshot(), sample::later());
        let json = serde_json::to_value(Document::of(View::Counters, &now, Some(&before))).unwrap();
        let mut found: Vec<String> = switch::DropReason::ALL.map(|reason| reason.name().to_owned()).into();
        names(&json, &mut found);
        for name in found {
            assert!(words.contains(&name.as_str()), "{name} is not in the help");
        }
    }

    #[test]
    fn the_help_as_printed() {
        insta::assert_snapshot!(text());
    }
}
