//! The example in the documentation of the file format.

/// Extracts the example from the documentation.
pub fn example() -> String {
    let source = include_str!("../../src/scenario/file.rs");
    let (_, rest) = source.split_once("//! ```toml\n").expect("the example begins");
    let (example, _) = rest.split_once("//! ```\n").expect("the example ends");
    let line =
        |line: &str| line.strip_prefix("//!").map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned());
    example.lines().filter_map(line).collect::<Vec<_>>().join("\n") + "\n"
}
