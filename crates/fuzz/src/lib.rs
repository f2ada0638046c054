//! Hostile input: the targets of fuzzing, their corpora, and what both ways to run them need.
//!
//! ```text
//! cargo xtask fuzz TARGET ─▶ bin/libfuzzer (feature `libfuzzer`): guided by coverage ─┐
//! cargo test -p fuzz ──────▶ tests/replay: the corpus, and mutations of a seed ───────┴─▶ targets
//! ```
//! A target is a plain function of the bytes of an input. Source: docs/reliability.md, "Fuzzing".

pub mod corpus;
pub mod input;
#[path = "../../dataplane/tests/lab/loopback_port.rs"]
mod loopback_port;
pub mod mutate;
pub mod targets;

pub use targets::{TARGETS, Target};

/// Returns the target of this name.
///
/// # Errors
/// There is none; the message names those that there are.
pub fn target(name: &str) -> Result<Target, String> {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let found = TARGETS.into_iter().find(|target| target.name == name);
    found.ok_or_else(|| format!("there is no target \"{name}\"; the targets are {}", names.join(", ")))
}
