//! What is wrong with a file, or not as it should be: every mistake and warning with its place, what it is, and the cure.

use std::fmt;
use std::ops::Range;

use miette::{Diagnostic, LabeledSpan, NamedSource, Severity, SourceCode};

use crate::words::quoted;

/// Where a setting stands: its full name and its bytes in the file.
#[derive(Debug, Clone)]
pub struct Place {
    /// Full name, as `port.server1.speed`; empty for the file.
    pub setting: String,
    /// Bytes of the file.
    pub span: Range<usize>,
}

/// The mistakes, or warnings, that reading a file has come upon so far, in the order of reading.
#[derive(Debug, Default)]
pub struct Report(Vec<(Place, String, Option<String>)>);

impl Report {
    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes a mistake at `place`: what is wrong, and how to put it right.
    pub fn add(&mut self, place: &Place, what: impl Into<String>, cure: impl Into<String>) {
        self.0.push((place.clone(), what.into(), Some(cure.into())));
    }

    /// Notes what the TOML parser said of `text`. It knows no setting and no cure, but for what is written twice.
    pub(crate) fn add_syntax(&mut self, error: &toml::de::Error, text: &str) {
        let place = Place { setting: String::new(), span: error.span().unwrap_or(0..0) };
        let key = text.get(place.span.clone()).filter(|_| error.message() == "duplicate key");
        let (what, cure) = match key {
            Some(key) => {
                let what = format!("{} is here twice", quoted(key.trim_matches(['"', '\''])));
                (what, Some("give each port and table its own name, and each setting one value".to_owned()))
            }
            None => (format!("not TOML: {}", error.message().replace('\n', ", ")), None),
        };
        self.0.push((place, what, cure));
    }
}

/// One mistake or warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Bytes of the file that are meant.
    pub span: Range<usize>,
    /// The setting's full name, as `port.server1.speed`; empty where the file is not TOML.
    pub setting: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub cure: Option<String>,
}

impl fmt::Display for Mistake {
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

/// All mistakes of a file, or all warnings about one that is right, in the order of the file. As text one line each:
/// `FILE:LINE:COLUMN: SETTING: what is wrong; the cure`. `miette` draws them with the lines of the file, as errors or as
/// warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct Mistakes {
    severity: Severity,
    source: NamedSource<String>,
    list: Vec<Mistake>,
}

impl Mistakes {
    pub(crate) fn new(file_name: &str, text: &str, report: Report) -> Self {
        Self::of_severity(Severity::Error, file_name, text, report)
    }

    /// What was found is no reason to refuse the file.
    pub(crate) fn warnings(file_name: &str, text: &str, report: Report) -> Self {
        // A file that nothing is said of need not be kept.
        let text = if report.is_empty() { "" } else { text };
        Self::of_severity(Severity::Warning, file_name, text, report)
    }

    fn of_severity(severity: Severity, file_name: &str, text: &str, report: Report) -> Self {
        // Found once: a hostile file may have a mistake on each of its lines.
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines: Vec<usize> = std::iter::once(0).chain(breaks).collect();
        let locate = |(place, what, cure)| locate(text, &lines, place, what, cure);
        let mut list: Vec<Mistake> = report.0.into_iter().map(locate).collect();
        list.sort_by(|a, b| (a.span.start, &a.setting, &a.what).cmp(&(b.span.start, &b.setting, &b.what)));
        // A mistake in [port-defaults] is found once for each port.
        list.dedup();
        let source = NamedSource::new(file_name, text.to_owned());
        Self { severity, source, list }
    }

    /// Each of them. There is at least one mistake; there may be no warning.
    pub fn list(&self) -> &[Mistake] {
        &self.list
    }
}

/// `lines`: where each line of the text begins.
fn locate(text: &str, lines: &[usize], place: Place, what: String, cure: Option<String>) -> Mistake {
    let mut start = place.span.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let line = lines.partition_point(|line| *line <= start);
    Mistake {
        line,
        column: text[lines[line - 1]..start].chars().count() + 1,
        span: start..place.span.end.clamp(start, text.len()),
        setting: place.setting,
        what,
        cure,
    }
}

impl fmt::Display for Mistakes {
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

impl std::error::Error for Mistakes {}

impl Diagnostic for Mistakes {
    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.list.iter().map(|mistake| {
            LabeledSpan::new(Some(mistake.what.clone()), mistake.span.start, mistake.span.len())
        })))
    }
}
