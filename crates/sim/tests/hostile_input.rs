//! Arbitrary text: no panic, limited time and memory, and every mistake is inside its file.

mod common;
mod example;

use config::ConfigErrors;
use proptest::prelude::*;
use sim::scenario::parse;

fn inside(mistakes: &ConfigErrors, text: &str) {
    assert!(!mistakes.list().is_empty());
    let lines = text.matches('\n').count() + 1;
    for mistake in mistakes.list() {
        assert!(text.get(mistake.span.clone()).is_some(), "{mistake:?}");
        assert!(mistake.line >= 1 && mistake.line <= lines, "{mistake:?}");
    }
    assert_eq!(mistakes.to_string().lines().count(), mistakes.list().len(), "{mistakes}");
}

/// Returns the number of mistakes.
fn examine(text: &str) -> usize {
    let mut loaded = Vec::new();
    let mut load = |path: &str| {
        let text = common::load(path)?;
        loaded.push(text.clone());
        Ok(text)
    };
    let Err(all) = parse("file.toml", text, &mut load) else { return 0 };
    assert!(!all.is_empty());
    for mistakes in &all {
        match mistakes.to_string().starts_with("wrong.toml:") {
            true => {
                loaded.iter().filter(|text| text.contains("sped")).for_each(|text| inside(mistakes, text))
            }
            false => inside(mistakes, text),
        }
    }
    all.iter().map(|mistakes| mistakes.list().len()).sum()
}

proptest! {
    #[test]
    fn any_text(text in any::<String>()) {
        examine(&text);
    }

    /// Text made of pieces of the file format gets further than letters do.
    #[test]
    fn any_toml(pieces in prop::collection::vec(prop::sample::select(vec![
        "[", "]", "[[", "]]", "{", "}", "=", ".", ",", "\n", "\"", "#", "1", "-", "99999999999999999999", "0x", "1.5", "inf",
        "true", "é", "\0", "[switch.a]\n", "[host.h1]\n", "[host.\"h[1-9]\"]\n", "[[link]]\n", "[[traffic]]\n", "[[route]]\n",
        "[[fault]]\n", "[[expect]]\n", "config=\"leaf.toml\"\n", "config=\"wrong.toml\"\n", "config=\"\"\n",
        "ends=[\"h1\",\"a.h1\"]\n", "ends=[\"h[1-9]\",\"h[2-10]\"]\n", "speed=\"1G\"\n", "duration=\"1ms\"\n",
        "name=\"x\"\n", "from=\"h1\"\n", "to=[\"h2\"]\n", "to=\"h2\"\n", "pattern=\"incast\"\n", "bytes=1\n",
        "every=\"1ns\"\n", "after=\"x\"\n", "start=\"5s\"\n", "at=\"1us\"\n", "storm=\"h1\"\n", "priorities=[]\n",
        "lost=0\n", "port=\"a.up\"\n", "traffic=\"x\"\n", "at_least",
    ]), 0..60)) {
        examine(&pieces.concat());
    }

    /// The example with a few pieces cut out, duplicated or overwritten.
    #[test]
    fn mutated(edits in prop::collection::vec((any::<prop::sample::Index>(), 0..30usize, ".{0,6}"), 1..6)) {
        let mut text = example::example();
        for (at, len, new) in edits {
            let boundary = |mut at: usize| { while !text.is_char_boundary(at) { at -= 1; } at };
            let start = boundary(at.index(text.len() + 1));
            let end = boundary((start + len).min(text.len()));
            text.replace_range(start..end, &new);
        }
        examine(&text);
    }

    /// The example with lines exchanged, duplicated and removed: mostly still TOML.
    #[test]
    fn shuffled(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3u8), 1..5)) {
        let text = example::example();
        let mut lines: Vec<&str> = text.lines().collect();
        for (at, other, how) in edits {
            let (at, other) = (at.index(lines.len()), other.index(lines.len()));
            match how {
                0 => lines.swap(at, other),
                1 => lines.insert(at, lines[other]),
                _ => drop(lines.remove(at)),
            }
        }
        examine(&lines.join("\n"));
    }
}

const NETWORK: &str = "duration = \"1000s\"\n[switch.a]\nconfig = \"leaf.toml\"\n[host.\"h[1-4095]\"]\n";

/// A short file that expands to many names, and a long one of small entries: both are rejected at
/// once, with few mistakes.
#[test]
fn ranges_and_lists_are_bounded() {
    for (lines, mistakes) in [
        ("[host.\"[0-99999][0-99999][0-99999]\"]\n".to_owned(), 2),
        ("[host.\"g[1-4095]\"]\n".to_owned(), 2),
        ("[switch.\"s[1-16384]\"]\nconfig = \"leaf.toml\"\n".to_owned(), 2),
        ("[[link]]\nends = [\"h[1-16384]\", \"a.h[1-16384]\"]\n".repeat(20_000), 20_000),
        ("[[traffic]]\nname = \"all\"\nfrom = \"h[1-4095]\"\nto = \"h[1-4095]\"\n".to_owned(), 1),
        ("[[traffic]]\nfrom = \"h[1-4095]\"\nto = \"h[1-4095]\"\n".repeat(5000), 2 * 1024 + 1),
        (
            format!("[[traffic]]\nname = \"x\"\nto = \"h1\"\nfrom = [{}]\n", "\"h[1-4095]\",".repeat(50_000)),
            1,
        ),
        ("[[fault]]\n".repeat(50_000), 2 * 4096 + 2),
        ("[[expect]]\n".repeat(50_000), 4096 + 2),
        ("[[route]]\n".repeat(50_000), 3 * 16_384 + 2),
    ] {
        let found = examine(&format!("{NETWORK}{lines}"));
        assert!(found >= 1 && found <= mistakes, "{found} mistakes, {mistakes} expected: {}", &lines[..40]);
    }
}

/// 257 permutations of 4095 hosts have more flows than a scenario may have; the last is refused.
#[test]
fn permutations_count_as_flows() {
    let traffic = |number: usize| {
        format!(
            "[[traffic]]\nname = \"t{number}\"\nfrom = \"h[1-4095]\"\nto = \"h[1-4095]\"\npairs = \"permutation\"\n"
        )
    };
    let network = "duration = \"1ms\"\n[host.\"h[1-4095]\"]\n";
    let text = network.to_owned() + &(0..257).map(traffic).collect::<String>();
    let all = parse("file.toml", &text, &mut common::load).expect_err("too many");
    assert!(all.iter().any(|mistakes| mistakes.to_string().contains("4095 more flows are too many")));
}

/// A circle of references, as long as a file may have.
#[test]
fn a_long_circle() {
    let traffic = |number: usize| {
        let next = (number + 1) % 1024;
        format!(
            "[[traffic]]\nname = \"t{number}\"\nafter = \"t{next}\"\nfrom = \"h1\"\nto = \"h2\"\nbytes = 1\n"
        )
    };
    let text = NETWORK.to_owned() + &(0..1024).map(traffic).collect::<String>();
    assert_eq!(examine(&text), 1);
}
