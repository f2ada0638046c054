//! Errors and warnings about a file: each with its position, what is wrong, and the cure.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use miette::{Diagnostic, LabeledSpan, NamedSource, Severity, SourceCode};
use toml::de::DeTable;

use crate::read::suggest::quoted;

/// The position of a setting: its full name and its bytes in the file.
#[derive(Debug, Clone)]
pub struct SettingSpan {
    /// Full name, as `port.server1.speed`; empty for the file.
    pub setting: String,
    /// Bytes of the file.
    pub span: Range<usize>,
}

/// Maximum number of errors of a file that are reported, the first in the file: users correct them
/// and check again, and a hostile file may have one on each of its lines.
pub(crate) const MAX: usize = 100;

/// The errors, or warnings, found so far while reading a file. Only the first ones in the file are
/// kept, each once.
#[derive(Debug, Default)]
pub struct Diagnostics {
    /// In the order of the file; at most one more than are reported.
    notes: BTreeSet<Finding>,
    count: usize,
}

/// An error without its line. An error in `[port-defaults]` is noted once for each port.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    start: usize,
    setting: String,
    what: String,
    end: usize,
    cure: Option<String>,
}

impl Diagnostics {
    /// Returns true if no error has been found so far.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns how often something was noted so far, repetitions included. A part of the file is
    /// valid if this number is the same before it is read and after.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Notes an error at `location`: what is wrong, and how to correct it.
    pub fn add(&mut self, location: &SettingSpan, what: impl Into<String>, cure: impl Into<String>) {
        self.add_lazily(location, || (what.into(), cure.into()));
    }

    /// As [`add`](Self::add), for explanations that are expensive to format: `explain` is only
    /// called for errors that will be reported.
    pub fn add_lazily(&mut self, location: &SettingSpan, explain: impl FnOnce() -> (String, String)) {
        self.push(location, || {
            let (what, cure) = explain();
            (what, Some(cure))
        });
    }

    /// Notes an error of the TOML parser in `text`. The parser knows no setting, and a cure only
    /// for a duplicate key.
    pub(crate) fn add_syntax(&mut self, error: &toml::de::Error, text: &str) {
        let location = SettingSpan { setting: String::new(), span: error.span().unwrap_or(0..0) };
        let key = text.get(location.span.clone()).filter(|_| error.message() == "duplicate key");
        self.push(&location, || match key {
            Some(key) => {
                let what = format!("{} is here twice", quoted(key.trim_matches(['"', '\''])));
                (what, Some("give each port and table its own name, and each setting one value".to_owned()))
            }
            None => (format!("not TOML: {}", error.message().replace('\n', ", ")), None),
        });
    }

    fn push(&mut self, location: &SettingSpan, explain: impl FnOnce() -> (String, Option<String>)) {
        self.count += 1;
        let is_full = self.notes.len() > MAX;
        if is_full && self.notes.last().is_some_and(|last| location.span.start > last.start) {
            return;
        }
        let (what, cure) = explain();
        let (start, end, setting) = (location.span.start, location.span.end, location.setting.clone());
        self.notes.insert(Finding { start, setting, what, end, cure });
        if self.notes.len() > MAX + 1 {
            self.notes.pop_last();
        }
    }
}

/// Longest line that is drawn, in bytes: it is drawn for each error on it.
const MAX_LINE_BYTES: usize = 1000;

/// One error or warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The bytes of the file that it concerns.
    pub span: Range<usize>,
    /// Full name of the setting, as `port.server1.speed`; empty where the file is not TOML.
    pub setting: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub cure: Option<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.setting.is_empty() {
            write!(f, "{}: ", self.setting)?;
        }
        f.write_str(&self.what)?;
        match &self.cure {
            Some(cure) => write!(f, "; {cure}"),
            None => Ok(()),
        }
    }
}

/// The errors of a file, or the warnings about a valid one, in the order of the file. If there are
/// more than 100, the first ones and a note that there are more. As text one line each:
/// `FILE:LINE:COLUMN: SETTING: what is wrong; the cure`. `miette` draws them with the lines of the
/// file, as errors or as warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigErrors {
    severity: Severity,
    source: NamedSource<String>,
    list: Vec<ConfigError>,
    /// True if the lines with errors are short enough to be drawn.
    is_drawn: bool,
}

impl ConfigErrors {
    pub(crate) fn new(file_name: &str, text: &str, report: Diagnostics) -> Self {
        Self::of_severity(Severity::Error, file_name, text, report)
    }

    /// Returns warnings, which are no reason to refuse the file.
    pub fn warnings(file_name: &str, text: &str, report: Diagnostics) -> Self {
        // Without warnings the file's text need not be kept.
        let text = if report.is_empty() { "" } else { text };
        Self::of_severity(Severity::Warning, file_name, text, report)
    }

    /// Returns an error about a setting that only the machine can judge, as a user that does not
    /// exist. `setting` is its full name of plain keys, as `control.group`.
    pub fn of_setting(file_name: &str, text: &str, setting: &str, what: String, cure: String) -> Self {
        let mut report = Diagnostics::default();
        let span = span_of(text, setting).unwrap_or(0..0);
        report.add(&SettingSpan { setting: setting.to_owned(), span }, what, cure);
        Self::of_severity(Severity::Error, file_name, text, report)
    }

    fn of_severity(severity: Severity, file_name: &str, text: &str, report: Diagnostics) -> Self {
        // Computed once, not for each error.
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines: Vec<usize> = std::iter::once(0).chain(breaks).collect();
        let mut list: Vec<ConfigError> =
            report.notes.into_iter().map(|note| note.into_error(text, &lines)).collect();
        if let Some(first_unreported) = list.get_mut(MAX) {
            first_unreported.setting = String::new();
            first_unreported.what = "there are more from here on".to_owned();
            first_unreported.cure = Some(format!("see to these {MAX} first"));
        }
        let source = NamedSource::new(file_name, text.to_owned());
        let ends = lines[1..].iter().copied().chain([text.len()]);
        let is_long: Vec<bool> =
            lines.iter().zip(ends).map(|(start, end)| end - start > MAX_LINE_BYTES).collect();
        let is_drawn = list.iter().all(|mistake| !is_long[mistake.line - 1]);
        Self { severity, source, list, is_drawn }
    }

    /// Returns the list. There is at least one error; there may be no warning.
    pub fn list(&self) -> &[ConfigError] {
        &self.list
    }
}

/// Returns the bytes of a setting's value.
fn span_of(text: &str, setting: &str) -> Option<Range<usize>> {
    let document = DeTable::parse(text).ok()?;
    let (tables, name) = setting.rsplit_once('.').unwrap_or(("", setting));
    let mut table = document.get_ref();
    for key in tables.split('.').filter(|key| !key.is_empty()) {
        table = table.get(key)?.get_ref().as_table()?;
    }
    Some(table.get(name)?.span())
}

impl Finding {
    /// Converts a note to an error; `lines` has the start of each line of the text.
    fn into_error(self, text: &str, lines: &[usize]) -> ConfigError {
        let mut start = self.start.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let line = lines.partition_point(|line| *line <= start);
        ConfigError {
            line,
            column: text[lines[line - 1]..start].chars().count() + 1,
            span: start..self.end.clamp(start, text.len()),
            setting: self.setting,
            what: self.what,
            cure: self.cure,
        }
    }
}

/// No warnings, about no file.
impl Default for ConfigErrors {
    fn default() -> Self {
        Self::warnings("", "", Diagnostics::default())
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mistake) in self.list.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{}:{}:{}: {mistake}", self.source.name(), mistake.line, mistake.column)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Lets `miette` draw errors without breaking lines, which it also does at the hyphens of names.
/// For the start of a program.
pub fn draw_errors_unwrapped() {
    let handler = || miette::MietteHandlerOpts::new().wrap_lines(false).build();
    // It fails if the program has set a hook itself, which then holds.
    let _ = miette::set_hook(Box::new(move |_| Box::new(handler())));
}

impl Diagnostic for ConfigErrors {
    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        // Underlined only: the text is in the list above, with the line.
        let label = |mistake: &ConfigError| LabeledSpan::new(None, mistake.span.start, mistake.span.len());
        self.is_drawn.then(|| Box::new(self.list.iter().map(label)) as Box<dyn Iterator<Item = LabeledSpan>>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors of a long file. Miri interprets each of them for a millisecond.
    const MANY: usize = if cfg!(miri) { 1_000 } else { 50_000 };

    /// However many errors a file has, each reported error is explained once, no others are
    /// explained, and the reported ones are the first of the file.
    #[test]
    fn of_many_mistakes_the_first_are_explained() {
        for backwards in [false, true] {
            let mut report = Diagnostics::default();
            let mut explained = 0;
            for number in 0..MANY {
                let start = if backwards { MANY - number } else { number };
                let location = SettingSpan { setting: "a".to_owned(), span: start..start + 1 };
                for _ in 0..2 {
                    report.add_lazily(&location, || {
                        explained += 1;
                        ("wrong".to_owned(), format!("cure {start}"))
                    });
                }
            }
            assert_eq!((report.count(), report.notes.len()), (2 * MANY, MAX + 1));
            let starts = report.notes.iter().map(|note| note.start);
            let first = usize::from(backwards);
            assert!(starts.eq(first..first + MAX + 1));
            // Each of the first ones once more, since the same error may be noted in other words.
            assert!(backwards || explained == 2 * (MAX + 1), "{explained} were explained");
        }
    }

    #[test]
    fn the_last_line_counts_the_rest() {
        let message = |lines: usize| {
            let mut report = Diagnostics::default();
            for start in 0..lines {
                let location = SettingSpan { setting: format!("a{start}"), span: 2 * start..2 * start + 1 };
                report.add(&location, "wrong", "mend it");
            }
            let mistakes = ConfigErrors::new("x.toml", &"a\n".repeat(lines), report);
            (mistakes.list().len(), mistakes.to_string().lines().last().unwrap().to_owned())
        };
        assert_eq!(message(MAX), (100, "x.toml:100:1: a99: wrong; mend it".to_owned()));
        let more = "x.toml:101:1: there are more from here on; see to these 100 first".to_owned();
        assert_eq!(message(MAX + 1), (101, more.clone()));
        assert_eq!(message(MANY), (101, more));
    }
}
