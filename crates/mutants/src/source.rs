//! A source file with all its mutants in it: insertions only, so that each mutant is an alternative
//! beside the original.

use std::collections::BTreeSet;
use std::ops::Range;

/// One change of behavior.
#[derive(Debug, Clone)]
pub struct Mutant {
    /// File, line, column, and what is changed: the name by which it is known from run to run.
    pub name: String,
}

/// Text that is inserted at an offset of the original.
struct Insertion {
    at: usize,
    /// Text that closes stands before text that opens, and the innermost closes first.
    order: isize,
    text: String,
    /// Without any of these it is left out.
    mutants: Vec<usize>,
    /// Parts of the text that belong to one mutant each.
    parts: Vec<(Range<usize>, usize)>,
}

/// What one source file becomes.
pub struct Source {
    text: String,
    insertions: Vec<Insertion>,
    /// Original ranges with the mutants that wrap them.
    wrapped: Vec<(Range<usize>, Vec<usize>)>,
}

/// The written file, and which of its bytes belong to which mutants.
pub struct Written {
    /// The whole file.
    pub text: String,
    /// Ranges of `text` with the mutants in which an error there is.
    pub owners: Vec<(Range<usize>, Vec<usize>)>,
}

impl Source {
    /// A file without mutants yet.
    pub fn new(text: String) -> Self {
        Source { text, insertions: Vec::new(), wrapped: Vec::new() }
    }

    /// The original text of a range.
    pub fn original(&self, range: Range<usize>) -> &str {
        &self.text[range]
    }

    /// Puts alternatives before an expression: `(if active(n) { .. } else { original })`.
    pub fn wrap(&mut self, range: Range<usize>, alternatives: &[(usize, String)]) {
        let mut text = "(".to_owned();
        let mut parts = Vec::new();
        for (mutant, alternative) in alternatives {
            text.push_str(&format!("if {} {{ ", active(*mutant)));
            let start = text.len();
            text.push_str(alternative);
            parts.push((start..text.len(), *mutant));
            text.push_str(" } else ");
        }
        text.push_str("{ (");
        self.surround(range, text, parts, ") })", alternatives.iter().map(|(mutant, _)| *mutant).collect());
    }

    /// Puts text around a range, in the name of `mutants`.
    pub fn surround(
        &mut self,
        range: Range<usize>,
        open: String,
        parts: Vec<(Range<usize>, usize)>,
        close: &str,
        mutants: Vec<usize>,
    ) {
        let order = self.insertions.len() as isize + 1;
        let opening = Insertion { at: range.start, order, text: open, mutants: mutants.clone(), parts };
        let text = close.to_owned();
        let closing =
            Insertion { at: range.end, order: -order, text, mutants: mutants.clone(), parts: Vec::new() };
        self.insertions.extend([opening, closing]);
        self.wrapped.push((range, mutants));
    }

    /// Inserts text that belongs to one mutant.
    pub fn insert(&mut self, at: usize, text: String, mutant: usize) {
        let order = self.insertions.len() as isize + 1;
        let parts = vec![(0..text.len(), mutant)];
        self.insertions.push(Insertion { at, order, text, mutants: vec![mutant], parts });
    }

    /// The file with its mutants; the condition of a dropped one is `false`.
    pub fn write(&self, dropped: &BTreeSet<usize>) -> Written {
        let mut insertions: Vec<&Insertion> = self.insertions.iter().collect();
        insertions.sort_by_key(|insertion| (insertion.at, insertion.order));
        let mut written = Written { text: String::new(), owners: Vec::new() };
        let mut copied = 0;
        // Where an original offset begins and ends in the written text.
        let mut moved: Vec<(usize, usize, usize)> = Vec::new();
        for insertion in insertions {
            written.text.push_str(&self.text[copied..insertion.at]);
            copied = insertion.at;
            let begin = written.text.len();
            if !insertion.mutants.iter().all(|mutant| dropped.contains(mutant)) {
                push(&mut written, insertion, dropped);
            }
            moved.push((insertion.at, begin, written.text.len()));
        }
        written.text.push_str(&self.text[copied..]);
        for (range, mutants) in &self.wrapped {
            let begin = moved.iter().find(|(at, ..)| *at == range.start).map_or(0, |found| found.1);
            let end = moved.iter().rev().find(|(at, ..)| *at == range.end).map_or(begin, |found| found.2);
            written.owners.push((begin..end, mutants.clone()));
        }
        written
    }
}

fn push(written: &mut Written, insertion: &Insertion, dropped: &BTreeSet<usize>) {
    let mut copied = 0;
    for (part, mutant) in &insertion.parts {
        written.text.push_str(&insertion.text[copied..part.start]);
        copied = part.end;
        let begin = written.text.len();
        if !dropped.contains(mutant) {
            written.text.push_str(&insertion.text[part.clone()]);
        } else {
            written.text.push_str("loop {}");
        }
        written.owners.push((begin..written.text.len(), vec![*mutant]));
    }
    written.text.push_str(&insertion.text[copied..]);
}

/// The condition under which a mutant replaces the original.
pub fn active(mutant: usize) -> String {
    format!("crate::mutants_runtime::active({mutant})")
}
