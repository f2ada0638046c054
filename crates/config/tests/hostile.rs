//! Text that nobody would write: nothing panics, and what is refused is refused with a place inside the file.

use miette::{GraphicalReportHandler, GraphicalTheme};
use proptest::prelude::*;

const GOOD: &str = concat!(
    include_str!("../../../config/incast.toml"),
    "
wred = 'table'
queue_profile = { 'gentle' = [0, 1], drop = [] }
burst_bytes = 0x1000
[port.receiver.schedule]
mode = 'sp-wrr'
wrr = 'packet-count'
queue.5 = { group = \"sp\", rate = '0.1G', burst_bytes = 0 }
queue.1 = { group = \"wrr2\", weight = 200 }
[wred.table]
queue.3 = { ecn = true, drop_not_ect = true, mark = 'dequeue', weighting_exponent = 15 }
queue.7 = { green = { low_bytes = 1, high_cells = 1 }, red.probability_percent = 100 }
[queue-profile]
gentle = { action = 'ecn', green.min_threshold_bytes = 3 }
drop = { action = 'wred', yellow.max_threshold_cells = 0 }
[port.receiver.buffer.egress.queue.5]
guaranteed_percent = 15
shared_cells = 25
[control]
socket = '/tmp/x'
[bridge]
aging_s = 0x10
[buffer.ingress.profile.\"small\"]
reserved_bytes = 2048
shared = { dynamic_th = -2 }
xoff_bytes = 3584
[buffer.egress.pool]
1 = { shared_percent = 20 }
[port.receiver.buffer]
ingress.priority.4 = { profile = 'small', pool = 0 }
egress.queue.6.pool = 1
[port-defaults.rewrite]
dscp = [0, 1, 2, 3, 4, 5, 6, 63]
[[port.sender1.policy]]
dot1p = 5
local_precedence = 3
[port.spare]
interface = 'veth0'
trust = 'dscp'
wire_overhead = true
[port.spare.schedule]
mode = 'ets'
group.0 = { queues = [0, 1, 2, 3, 4, 5, 6], bandwidth_percent = 100, scheduling = 'sp', rate = 1, burst_bytes = 1 }
group.15.queues = [7]
[port.spare.dscp_to_queue]
46 = 5
\"8-15\" = 1
"
);

fn examine(text: &str) {
    let said = match config::parse("file.toml", text) {
        Ok(config) => config.warnings,
        Err(mistakes) => {
            assert!(!mistakes.list().is_empty());
            mistakes
        }
    };
    for mistake in said.list() {
        assert!(text.get(mistake.span.clone()).is_some(), "{mistake:?}");
        assert!(mistake.line >= 1 && mistake.line <= text.matches('\n').count() + 1, "{mistake:?}");
        assert!(mistake.column >= 1 && mistake.column <= text.chars().count() + 1, "{mistake:?}");
    }
    assert_eq!(said.to_string().lines().count(), said.list().len(), "{said}");
    let mut picture = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
        .render_report(&mut picture, &said)
        .unwrap();
}

#[test]
fn the_good_file_is_good() {
    config::parse("good.toml", GOOD).unwrap_or_else(|mistakes| panic!("{mistakes}"));
}

proptest! {
    #[test]
    fn any_text(text in any::<String>()) {
        examine(&text);
    }

    /// Text made of TOML's own pieces gets farther than letters do.
    #[test]
    fn any_toml(pieces in prop::collection::vec(prop::sample::select(vec![
        "[", "]", "{", "}", "=", ".", ",", "\n", "\"", "'", "#", "1", "-", "99999999999999999999", "0x", "1.5", "inf",
        "true", "é", "port", "a", "interface", "pfc", "priority", "3", "xoff", "buffer", "queue", "schedule", " ", "\r",
        "1979-05-27", "port-defaults", "speed", "\u{feff}", "\0",
        "\"\\n\"", "\"\\u0000\"", "ingress", "egress", "profile", "pool", "policy", "dot1p", "dscp_to_dot1p", "8-15", "trust",
        "rewrite", "shared", "static_bytes", "wred", "queue-profile", "queue_profile", "group", "queues", "mode", "\"ets\"",
        "bandwidth_percent", "rate", "\"1G\"", "green", "low_cells", "high_bytes", "action", "\"ecn\"", "wire_overhead",
    ]), 0..60)) {
        examine(&pieces.concat());
    }

    /// A good file with a few pieces cut out, doubled or overwritten.
    #[test]
    fn mutated_files(edits in prop::collection::vec((any::<prop::sample::Index>(), 0..30usize, ".{0,6}"), 1..6)) {
        let mut text = GOOD.to_owned();
        for (at, len, new) in edits {
            let boundary = |mut at: usize| { while !text.is_char_boundary(at) { at -= 1; } at };
            let start = boundary(at.index(text.len() + 1));
            let end = boundary((start + len).min(text.len()));
            text.replace_range(start..end, &new);
        }
        examine(&text);
    }
}

/// Nesting does not overflow the stack, and a monstrous file is refused unread.
#[test]
fn deep_and_large() {
    examine(&format!("a = {}", "[".repeat(100_000)));
    examine(&"a.".repeat(100_000));
    examine(&"{a=".repeat(100_000));
    let mistakes = config::parse("file.toml", &"#".repeat(2 << 20)).unwrap_err();
    assert_eq!(mistakes.to_string(), "file.toml:1:1: 2097152 bytes are too many; 1048576 are the most");
}
