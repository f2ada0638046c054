//! Output of commands on standard output: text and tables, or JSON.

mod data_table;
#[cfg(test)]
#[path = "../../tests/fixtures/parquet_lines.rs"]
mod fixture;
mod table;

pub use host::units::grouped;
use std::io::{self, Write};

use anyhow::{Context, Result};
use serde::Serialize;

pub use data_table::{DataTable, TableFormat};
pub use table::Grid;

/// Prints a text, which may have several lines.
///
/// # Errors
/// The text cannot be written, or its reader has closed the pipe ([`is_broken_pipe`]).
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// True if the reader of standard output has closed it, as `| head` does.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Formats a value as JSON, on many lines or on one.
pub fn json(value: &impl Serialize, pretty: bool) -> Result<String> {
    Ok(if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }?)
}

/// Creates a table with these column headings. The first `words` columns are text, the others
/// right-aligned numbers.
pub fn table(headings: &[&str], words: usize) -> Grid {
    Grid::new(headings, words)
}

/// Formats a number of things, of which `one` and `more` are the words: 1 frame, 1,200 frames.
pub fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { more })
}

/// Formats `number` with one decimal and separators of thousands.
pub fn tenths(number: f64) -> String {
    let tenths = (number * 10.0).round() as u64;
    format!("{}.{}", grouped(tenths / 10), tenths % 10)
}
