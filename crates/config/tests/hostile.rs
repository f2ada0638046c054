//! Text that nobody would write: nothing panics, and what is refused is refused with a place inside the file.

use miette::{GraphicalReportHandler, GraphicalTheme};
use proptest::prelude::*;

const GOOD: &str = concat!(
    include_str!("../../../config/incast.toml"),
    "
[port.receiver.schedule]
queue.5 = { group = \"sp\" }
queue.1 = { group = \"wrr\", weight = 200 }
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
        "rewrite", "shared", "static_bytes",
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
