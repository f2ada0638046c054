//! Malformed and hostile text: nothing panics, and every error has a position inside the file.

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
group.0 = { queues = [0, 1, 2, 3, 4, 5, 6], bandwidth_percent = 100, scheduling = 'sp', rate = 1000000, burst_bytes = 1 }
group.15.queues = [7]
[port.spare.dscp_to_queue]
46 = 5
\"8-15\" = 1
"
);

fn examine(text: &str) {
    let message = match config::parse("file.toml", text) {
        Ok(config) => config.warnings,
        Err(mistakes) => {
            assert!(!mistakes.list().is_empty());
            mistakes
        }
    };
    for mistake in message.list() {
        assert!(text.get(mistake.span.clone()).is_some(), "{mistake:?}");
        assert!(mistake.line >= 1 && mistake.line <= text.matches('\n').count() + 1, "{mistake:?}");
        assert!(mistake.column >= 1 && mistake.column <= text.chars().count() + 1, "{mistake:?}");
    }
    assert_eq!(message.to_string().lines().count(), message.list().len(), "{message}");
    let mut picture = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
        .render_report(&mut picture, &message)
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

    /// Text made of TOML's own tokens gets farther than random letters do.
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

    /// A valid file with a few pieces cut out, doubled or overwritten.
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

/// Nesting does not overflow the stack, and a huge file is refused unread.
#[test]
fn deep_and_large() {
    examine(&format!("a = {}", "[".repeat(100_000)));
    examine(&"a.".repeat(100_000));
    examine(&"{a=".repeat(100_000));
    let mistakes = config::parse("file.toml", &"#".repeat(2 << 20)).unwrap_err();
    assert_eq!(mistakes.to_string(), "file.toml:1:1: the file has 2 MiB; 1 MiB is the most");
}

/// However many errors a file has, on a line each or all on one, a hundred are reported and drawn,
/// with a note that there are more.
#[test]
fn many_mistakes_are_reported_in_a_hundred_lines() {
    let joined = |count: usize, of: &dyn Fn(usize) -> String, between: &str| {
        (0..count).map(of).collect::<Vec<_>>().join(between)
    };
    let key = |n: usize| format!("key{n} = 1");
    let port = "[port.a]\ninterface = \"veth0\"\n";
    for text in [
        format!("{port}{}", joined(50_000, &key, "\n")),
        format!("{port}pfc = {{ {} }}", joined(50_000, &key, ", ")),
        format!("{port}queue_profile = {{ {} }}", joined(50_000, &|n| format!("p{n} = [0]"), ", ")),
        format!("{port}dot1p_to_queue = [{}]", joined(200_000, &|_| "9".to_owned(), ",")),
        joined(30_000, &|n| format!("[port.p{n}]\nx = 1"), "\n"),
        joined(30_000, &|n| format!("[queue-profile.p{n}]"), "\n"),
        joined(200_000, &|_| "a=1".to_owned(), "\n"),
        joined(200_000, &|_| "]".to_owned(), "\n"),
    ] {
        assert!(text.len() <= 1 << 20, "{} bytes", text.len());
        let mistakes = config::parse("file.toml", &text).unwrap_err();
        let message = mistakes.to_string();
        assert!(mistakes.list().len() <= 101 && message.len() < 100_000, "{} bytes", message.len());
        if mistakes.list().len() == 101 {
            assert!(message.ends_with(": there are more from here on; see to these 100 first"), "{message}");
        }
        let mut picture = String::new();
        GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
            .render_report(&mut picture, &mistakes)
            .unwrap();
        assert!(picture.len() < 500_000, "{} bytes are drawn", picture.len());
    }
}
