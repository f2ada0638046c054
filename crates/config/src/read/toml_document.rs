//! Reads a TOML file with the position of every item, so that each error can be shown where it is.
//! The configuration and the simulator's scenarios are read by it.
//!
//! A reader takes each setting of a [`TableReader`] by its name, notes errors in [`Diagnostics`],
//! and continues, so that one run finds all errors; [`TableReader::finish`] reports the settings
//! that were not taken.

use toml::de::DeTable;

use crate::read::diagnostics::ConfigErrors;
pub use crate::read::diagnostics::{Diagnostics, SettingSpan};
pub use crate::read::parse::{NAME_CURE, is_name, parse_units, speed, spell_units};
pub use crate::read::suggest::{did_you_mean, quoted, quoted_list};
pub use crate::read::table_reader::{Item, Setting, TableReader};
use crate::spec::ValueSpec;

/// Maximum size of a file in bytes; a real file is about a hundred times smaller.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a file by `read`, which gets the outermost table, described by `spec`. `file_name` is only
/// used to name the file in errors.
///
/// # Errors
/// All errors that `read` found. If the text is not TOML, `read` is not called.
pub fn read_file<T>(
    file_name: &str,
    text: &str,
    spec: Option<&'static ValueSpec>,
    read: impl FnOnce(TableReader, &mut Diagnostics) -> T,
) -> Result<T, ConfigErrors> {
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(too_long(file_name, Some(text.len() as u64)));
    }
    let mut report = Diagnostics::default();
    let file = SettingSpan { setting: String::new(), span: 0..0 };
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        report.add_syntax(error, text);
    }
    if !report.is_empty() {
        return Err(ConfigErrors::new(file_name, text, report));
    }
    let read = read(TableReader::new(document.get_ref(), file, spec), &mut report);
    if report.is_empty() { Ok(read) } else { Err(ConfigErrors::new(file_name, text, report)) }
}

/// Returns the error of a file longer than [`MAX_FILE_BYTES`], which need not be read; `bytes` is
/// its size, if known.
pub fn too_long(file_name: &str, bytes: Option<u64>) -> ConfigErrors {
    let mut report = Diagnostics::default();
    let most = spell_mib(MAX_FILE_BYTES);
    let size = bytes.map_or_else(|| format!("more than {most}"), spell_mib);
    let file = SettingSpan { setting: String::new(), span: 0..0 };
    report.add(&file, format!("the file has {size}"), format!("{most} is the most"));
    ConfigErrors::new(file_name, "", report)
}

/// Formats a size in MiB, rounded up to a tenth.
fn spell_mib(bytes: u64) -> String {
    let tenths = u128::from(bytes).saturating_mul(10).div_ceil(1 << 20);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} MiB"),
        (whole, tenth) => format!("{whole}.{tenth} MiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "a file of a mebibyte, twice")]
    fn the_size_is_in_mib() {
        for (bytes, text) in [
            (Some(MAX_FILE_BYTES + 1), "x:1:1: the file has 1.1 MiB; 1 MiB is the most"),
            (Some(100 << 20), "x:1:1: the file has 100 MiB; 1 MiB is the most"),
            (None, "x:1:1: the file has more than 1 MiB; 1 MiB is the most"),
        ] {
            assert_eq!(too_long("x", bytes).to_string(), text);
        }
        let longest = "#".repeat(MAX_FILE_BYTES as usize);
        assert!(read_file("x", &longest, None, |_, _| ()).is_ok());
        let text = longest + "#";
        assert_eq!(
            read_file("x", &text, None, |_, _| ()).unwrap_err(),
            too_long("x", Some(MAX_FILE_BYTES + 1))
        );
    }
}
