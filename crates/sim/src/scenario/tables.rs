//! Tables of the file that come in lists, and what a table must have.

use config::read::document::{Diagnostics, Section};

/// What must be there; `example` says how.
pub(super) fn required<T>(
    value: Option<T>,
    section: &Section,
    name: &str,
    example: &str,
    report: &mut Diagnostics,
) -> Option<T> {
    if value.is_none() && !section.has(name) {
        report.add(&section.place, format!("no {name}"), format!("write {example}"));
    }
    value
}

/// Takes a list of tables, of which there may be so many.
pub(super) fn entries<'d>(
    file: &mut Section<'d>,
    name: &'static str,
    most: usize,
    report: &mut Diagnostics,
) -> Vec<Section<'d>> {
    let cure = format!("write a table, as in [[{name}]]");
    let Some(list) = file.list_of_sections(name, &cure, report) else { return Vec::new() };
    let mut sections = list.value;
    if let Some(section) = sections.get(most) {
        let what = format!("this is the first of {} too many", sections.len() - most);
        report.add(&section.place, what, format!("a scenario has at most {most} [[{name}]]"));
        sections.truncate(most);
    }
    sections
}
