//! Lists of tables in the file, required settings, and rules with parameters.

use config::read::toml_document::{Diagnostics, TableReader};
use toml::de::DeValue;

/// Returns the value of a required setting, or reports that it is missing; `example` shows its
/// form.
pub(super) fn required<T>(
    value: Option<T>,
    section: &TableReader,
    name: &str,
    example: &str,
    report: &mut Diagnostics,
) -> Option<T> {
    if value.is_none() && !section.has(name) {
        report.add(&section.location, format!("no {name}"), format!("write {example}"));
    }
    value
}

/// Reads a list of tables, which may have at most `most` entries.
pub(super) fn entries<'d>(
    file: &mut TableReader<'d>,
    name: &'static str,
    most: usize,
    report: &mut Diagnostics,
) -> Vec<TableReader<'d>> {
    let cure = format!("write a table, as in [[{name}]]");
    let Some(list) = file.list_of_sections(name, &cure, report) else { return Vec::new() };
    let mut sections = list.value;
    if let Some(section) = sections.get(most) {
        let what = format!("this is the first of {} too many", sections.len() - most);
        report.add(&section.location, what, format!("a scenario has at most {most} [[{name}]]"));
        sections.truncate(most);
    }
    sections
}

/// Reads a rule that is true for its default parameters, or a table of some others, which `read`
/// takes. `None` if it is false or not there.
pub(super) fn read_rule<T>(
    section: &mut TableReader,
    name: &'static str,
    example: &str,
    default: T,
    report: &mut Diagnostics,
    read: impl FnOnce(&mut T, &mut TableReader, &mut Diagnostics),
) -> Option<T> {
    let location = section.location_of(name)?;
    let item = section.item(name)?;
    if let DeValue::Boolean(is_on) = item.value() {
        return is_on.then_some(default);
    }
    let cure = format!("write true, false, or a table as in {{ {example} }}");
    let mut table = item.section(location, &cure, report)?;
    let mut settings = default;
    read(&mut settings, &mut table, report);
    table.finish(report);
    Some(settings)
}
