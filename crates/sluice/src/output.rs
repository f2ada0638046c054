//! What commands print on standard output: text for people, JSON for programs.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

/// Prints a text, which may have several lines.
///
/// # Errors
/// Nobody reads it any more.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", text.trim_end())?;
    out.flush()?;
    Ok(())
}

/// A value as JSON, on many lines or on one.
pub fn json(value: &impl Serialize, pretty: bool) -> Result<String> {
    Ok(if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }?)
}
