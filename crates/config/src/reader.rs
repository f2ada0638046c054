//! Reading a TOML file with the place of everything in it, so that every mistake can be shown where it is. The configuration
//! is read by it, and the simulator's scenarios are.
//!
//! A reader takes each setting of a [`Section`] by its name, notes in [`Report`] what is wrong, and goes on, so that one run
//! finds all mistakes; [`Section::finish`] notes what nobody took.

use toml::de::DeTable;

use crate::mistakes::Mistakes;
pub use crate::mistakes::{Place, Report};
pub use crate::section::{Item, Section, Setting};
pub use crate::values::{NAME_CURE, is_name, parse_units, speed};
pub use crate::words::{did_you_mean, quoted};

/// Longest file that is read; a real one has a hundredth of that.
const MAX_FILE_BYTES: usize = 1 << 20;

/// What `read` makes of a file, of which it gets the outermost table. `file_name` only serves to name the file in mistakes.
///
/// # Errors
/// All mistakes that `read` found. Where the text is not TOML at all, `read` is not called.
pub fn read_file<T>(
    file_name: &str,
    text: &str,
    read: impl FnOnce(Section, &mut Report) -> T,
) -> Result<T, Mistakes> {
    let mut report = Report::default();
    let file = Place { setting: String::new(), span: 0..0 };
    if text.len() > MAX_FILE_BYTES {
        report.add(
            &file,
            format!("{} bytes are too many", text.len()),
            format!("{MAX_FILE_BYTES} are the most"),
        );
        return Err(Mistakes::new(file_name, "", report));
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        report.add_syntax(error, text);
    }
    if !report.is_empty() {
        return Err(Mistakes::new(file_name, text, report));
    }
    let read = read(Section::new(document.get_ref(), file), &mut report);
    if report.is_empty() { Ok(read) } else { Err(Mistakes::new(file_name, text, report)) }
}
