//! The rules, and the findings in one file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use super::rust_tokens::{Token, tokens};
use super::words::{find_avoided, find_avoided_in_name, needs_context, words_of_name, words_of_prose};

/// Endings of the files that are read.
pub const ENDINGS: [&str; 8] = [".rs", ".c", ".h", ".html", ".md", ".toml", ".proto", ".sh"];
/// The longest comment line.
const MAX_COLUMNS: usize = 100;
/// The most files in a folder of sources or tests.
const MAX_FILES: usize = 15;
/// Words that continue a sentence, or the item above.
const CONTINUING: [&str; 6] = ["And", "But", "Ditto", "Likewise", "Nor", "Or"];
/// Words of a doc comment that add nothing to a name.
const EMPTY_WORDS: [&str; 14] =
    ["a", "all", "an", "get", "gets", "is", "its", "of", "return", "returns", "set", "sets", "the", "this"];
/// Words before the name of an item.
const KEYWORDS: [&str; 14] = [
    "async", "const", "crate", "enum", "extern", "fn", "mod", "mut", "static", "struct", "trait", "type",
    "union", "unsafe",
];

/// What is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Comment lines in Rust sources are at most 100 columns wide.
    Width,
    /// A doc comment does not continue the item above.
    Fragment,
    /// No avoided words in comments and Markdown.
    Word,
    /// No avoided words in identifiers and file names.
    Name,
    /// A type has a name with its context.
    Type,
    /// No folder with more than 15 files in sources and tests.
    Folder,
    /// The doc comment of a public item does not merely repeat its name.
    Repeat,
    /// Dependencies have allowed licenses, one source, and no unlisted second version.
    Dependency,
}

impl Rule {
    /// The name of the rule in a finding.
    pub fn name(self) -> &'static str {
        match self {
            Self::Width => "width",
            Self::Fragment => "fragment",
            Self::Word => "word",
            Self::Name => "name",
            Self::Type => "type",
            Self::Folder => "folder",
            Self::Repeat => "repeat",
            Self::Dependency => "dependency",
        }
    }
}

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub path: String,
    pub line: usize,
    pub rule: Rule,
    message: String,
}

impl Finding {
    pub fn new(path: &str, line: usize, rule: Rule, message: String) -> Self {
        Self { path: path.to_owned(), line, rule, message }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}: {} ({})", self.path, self.line, self.message, self.rule.name())
    }
}

/// Checks the number of files in the folders of sources and tests, and the names of all folders.
pub fn check_folders(paths: &[impl AsRef<str>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut files: BTreeMap<String, usize> = BTreeMap::new();
    let mut folders = BTreeSet::new();
    for path in paths
        .iter()
        .map(AsRef::as_ref)
        .filter(|path: &&str| ENDINGS.iter().any(|ending| path.ends_with(ending)))
    {
        let parents = Path::new(path).ancestors().skip(1).map(|folder| folder.to_string_lossy().into_owned());
        let parents: Vec<String> = parents.filter(|folder| !folder.is_empty()).collect();
        if let Some(folder) = parents.first() {
            *files.entry(folder.clone()).or_default() += 1;
        }
        folders.extend(parents);
    }
    for folder in folders {
        let name = folder.rsplit('/').next().unwrap_or_default();
        check_name(&folder, 1, name, &mut findings);
        let is_source = folder.split("/").any(|part| matches!(part, "src" | "tests"));
        let count = files.get(&folder).copied().unwrap_or(0);
        if is_source && count > MAX_FILES {
            let message = format!("{count} files in a folder, at most {MAX_FILES}");
            findings.push(Finding::new(&folder, 1, Rule::Folder, message));
        }
    }
    findings
}

/// Checks the name and the text of a file.
pub fn check_file(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let file_name = path.rsplit('/').next().unwrap_or_default();
    check_name(path, 1, file_name.split('.').next().unwrap_or_default(), findings);
    match file_name.rsplit('.').next() {
        Some("rs" | "c" | "h") => check_code(path, text, findings),
        Some("html") => check_page(path, text, findings),
        Some("md") => check_prose(path, &numbered(text), findings),
        Some("proto") => check_comments(path, text, "//", findings),
        Some("toml" | "sh") => check_comments(path, text, "#", findings),
        _ => {}
    }
}

/// The lines of a text with their numbers.
fn numbered(text: &str) -> Vec<(usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line)).collect()
}

fn check_prose(path: &str, lines: &[(usize, &str)], findings: &mut Vec<Finding>) {
    for found in find_avoided(&words_of_prose(lines)) {
        let message = format!("\"{}\": write {}", found.found, found.instead);
        findings.push(Finding::new(path, found.line, Rule::Word, message));
    }
}

fn check_name(path: &str, line: usize, name: &str, findings: &mut Vec<Finding>) {
    let words: Vec<_> = words_of_name(name).into_iter().map(|word| (line, word)).collect();
    for found in find_avoided_in_name(&words) {
        let message = format!("\"{}\" in the name {name}: write {}", found.found, found.instead);
        findings.push(Finding::new(path, line, Rule::Name, message));
    }
}

/// Checks the comments of a language whose comments begin with a mark, at the beginning of a line
/// or after a space. Lines of code between two comments separate them.
fn check_comments(path: &str, text: &str, mark: &str, findings: &mut Vec<Finding>) {
    let lines: Vec<_> =
        numbered(text).into_iter().map(|(at, line)| (at, comment(line, mark).unwrap_or(""))).collect();
    check_prose(path, &lines, findings);
}

/// The text of the comment on a line, if there is one. A mark between quotes begins none.
fn comment<'l>(line: &'l str, mark: &str) -> Option<&'l str> {
    line.match_indices(mark).map(|(at, _)| line.split_at(at)).find_map(|(before, rest)| {
        let is_quoted = ['"', '\''].iter().any(|quote| before.matches(*quote).count() % 2 == 1);
        let is_apart = before.is_empty() || before.ends_with(char::is_whitespace);
        (is_apart && !is_quoted).then(|| rest.trim_start_matches(['#', '/', '!']))
    })
}

/// Checks a page: its text, its style and its script are read alike, as prose and as names.
fn check_page(path: &str, text: &str, findings: &mut Vec<Finding>) {
    check_prose(path, &numbered(text), findings);
    let mut seen = BTreeSet::new();
    for (number, line) in numbered(text) {
        let names = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        names.filter(|name| seen.insert(*name)).for_each(|name| check_name(path, number, name, findings));
    }
}

/// Checks a source in Rust or C.
fn check_code(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let lines: Vec<&str> = text.lines().collect();
    let tokens = tokens(text);
    check_identifiers(path, &tokens, findings);
    check_types(path, &tokens, findings);
    let comments = comment_lines(&tokens);
    let is_alone = |number: usize, comment: &str| lines[number - 1].trim_start() == comment.trim_start();
    let mut in_example = false;
    for &(number, comment) in &comments {
        // A line of an example (a fenced block) is as long as the line that it shows.
        in_example ^= comment.trim_start_matches(['/', '!', ' ']).starts_with("```");
        let columns = lines[number - 1].chars().count();
        let can_break = comment.trim_start_matches(['/', '!', '*', ' ']).contains(' ');
        if columns > MAX_COLUMNS && can_break && !in_example && is_alone(number, comment) {
            let message = format!("a comment of {columns} columns, at most {MAX_COLUMNS}");
            findings.push(Finding::new(path, number, Rule::Width, message));
        }
    }
    let continues = |(first, above): &(usize, &str), (second, below): &(usize, &str)| {
        let are_alone = is_alone(*first, above) && is_alone(*second, below);
        *second == first + 1 && kind(above) == kind(below) && are_alone
    };
    for block in comments.chunk_by(continues) {
        let lines: Vec<_> = block.iter().map(|(number, line)| (*number, without_marks(line))).collect();
        check_prose(path, &lines, findings);
        if kind(block[0].1) == "///" {
            check_fragment(path, lines[0], findings);
        }
    }
    check_repetitions(path, &tokens, findings);
    check_strings(path, &tokens, findings);
}

/// The lines of all comments, as they stand in the source.
fn comment_lines<'t>(tokens: &[(usize, Token<'t>)]) -> Vec<(usize, &'t str)> {
    let comments = tokens.iter().filter_map(|(number, token)| match token {
        Token::Comment(comment) => Some((*number, *comment)),
        _ => None,
    });
    comments
        .flat_map(|(number, comment)| comment.lines().enumerate().map(move |(at, line)| (number + at, line)))
        .collect()
}

/// The mark that a comment line begins with; empty inside a block comment.
fn kind(comment: &str) -> &str {
    ["////", "///", "//!", "//"].into_iter().find(|mark| comment.starts_with(mark)).unwrap_or("")
}

fn without_marks(comment: &str) -> &str {
    comment.trim_start().trim_start_matches(['/', '*', '!'])
}

/// Checks the first line of a doc comment.
fn check_fragment(path: &str, (number, line): (usize, &str), findings: &mut Vec<Finding>) {
    let text = line.trim_start().trim_start_matches(['*', '_']);
    let first = text.split_whitespace().next().unwrap_or_default();
    let word = first.trim_end_matches(|c: char| !c.is_alphanumeric());
    let is_plain = word.chars().all(|c| c.is_lowercase() || matches!(c, '\'' | '’' | '-'));
    let begins_low = word.starts_with(char::is_lowercase) && is_plain;
    if begins_low || CONTINUING.contains(&word) || ["…", "..."].iter().any(|dots| text.starts_with(dots)) {
        let message = format!("a doc comment begins with \"{first}\": write a sentence of its own");
        findings.push(Finding::new(path, number, Rule::Fragment, message));
    }
}

/// Checks the identifiers of a source, each where it stands first.
fn check_identifiers(path: &str, tokens: &[(usize, Token)], findings: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    for (number, token) in tokens {
        if let Token::Word(name) = token
            && seen.insert(*name)
        {
            check_name(path, *number, name, findings);
        }
    }
}

/// Checks the names of the types that a source defines.
fn check_types(path: &str, tokens: &[(usize, Token)], findings: &mut Vec<Finding>) {
    for pair in tokens.windows(2) {
        if let [(_, Token::Word("struct" | "enum" | "trait" | "type" | "union")), (number, Token::Word(name))] =
            pair
            && needs_context(name)
        {
            let message = format!("the type {name}: a noun with its context");
            findings.push(Finding::new(path, *number, Rule::Type, message));
        }
    }
}

/// Checks the strings of a source: messages, log lines and help texts are prose that users read.
/// A string without a space is a name or a key, and stays as users know it. The lint's own files
/// are left out, since they list the words.
fn check_strings(path: &str, tokens: &[(usize, Token)], findings: &mut Vec<Finding>) {
    if path.starts_with("xtask/src/lint/") {
        return;
    }
    for (number, token) in tokens {
        if let Token::Literal(text) = token
            && text.contains('"')
            && text.contains(' ')
        {
            let lines = text.lines().enumerate().map(|(at, line)| (number + at, line.trim_end_matches('\\')));
            check_prose(path, &lines.collect::<Vec<_>>(), findings);
        }
    }
}

/// Checks the doc comments of a single line before public items.
fn check_repetitions(path: &str, tokens: &[(usize, Token)], findings: &mut Vec<Finding>) {
    let is_doc = |at: usize| matches!(tokens.get(at), Some((_, Token::Comment(text))) if kind(text) == "///");
    for (at, (number, token)) in tokens.iter().enumerate() {
        let Token::Comment(doc) = token else { continue };
        let is_single = !(is_doc(at + 1) || at > 0 && is_doc(at - 1));
        let name = public_name(&tokens[at + 1..]);
        if kind(doc) == "///" && is_single && name.is_some_and(|name| repeats(without_marks(doc), name)) {
            let message = "a doc comment repeats the name: say what the name does not".to_owned();
            findings.push(Finding::new(path, *number, Rule::Repeat, message));
        }
    }
}

/// The name of the public item that tokens begin with, after its attributes.
fn public_name<'t>(tokens: &[(usize, Token<'t>)]) -> Option<&'t str> {
    let mut rest = tokens.iter().map(|(_, token)| *token).peekable();
    while rest.next_if_eq(&Token::Punctuation('#')).is_some() {
        let mut depth = 0;
        for token in rest.by_ref() {
            match token {
                Token::Punctuation('[') => depth += 1,
                Token::Punctuation(']') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    rest.next_if_eq(&Token::Word("pub"))?;
    if rest.next_if_eq(&Token::Punctuation('(')).is_some() {
        rest.find(|token| *token == Token::Punctuation(')'));
    }
    rest.find_map(|token| match token {
        Token::Word(word) if KEYWORDS.contains(&word) => None,
        Token::Literal(_) => None,
        Token::Word(word) => Some(Some(word)),
        _ => Some(None),
    })?
}

/// True if all words of a doc comment that are worth something are in the name.
fn repeats(doc: &str, name: &str) -> bool {
    let singular = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
    let in_name: Vec<String> = words_of_name(name).iter().map(|word| singular(word)).collect();
    let words = doc.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    let words: Vec<String> =
        words.filter(|word| !word.is_empty() && !EMPTY_WORDS.contains(&word.as_str())).collect();
    !words.is_empty() && words.iter().all(|word| in_name.contains(&singular(word)))
}

#[cfg(test)]
mod unit {
    use super::*;

    /// The findings of one rule as `line` and, of words and names, what was found.
    fn found(path: &str, text: &str, rule: Rule) -> Vec<(usize, String)> {
        let mut findings = Vec::new();
        check_file(path, text, &mut findings);
        let of_rule = findings.into_iter().filter(|finding| finding.rule == rule);
        of_rule.map(|finding| (finding.line, finding.message)).collect()
    }

    fn lines(path: &str, text: &str, rule: Rule) -> Vec<usize> {
        found(path, text, rule).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn findings_have_path_line_and_message() {
        let mut findings = Vec::new();
        check_file("docs/behavior.md", "\nIt was told.\n", &mut findings);
        let text = "docs/behavior.md:2: \"told\": write advertised, sent or reported (word)";
        assert_eq!(findings[0].to_string(), text);
    }

    #[test]
    fn wide_comments_are_found() {
        let comment = |columns: usize| format!("    /// a {}", "é ".repeat((columns - 10) / 2));
        assert_eq!(lines("a.rs", &comment(100), Rule::Width), []);
        assert_eq!(lines("a.rs", &format!("{}.", comment(100)), Rule::Width), [1]);
        for mark in ["//", "///", "//!"] {
            let text = format!("fn f() {{}}\n{mark} {}\n", "word ".repeat(25));
            assert_eq!(lines("a.rs", &text, Rule::Width), [2], "{mark}");
        }
        let block = format!("/* short\n{}\n*/", "word ".repeat(25));
        assert_eq!(lines("a.rs", &block, Rule::Width), [2]);
        let string = format!("let x = \"\n// {}\";", "word ".repeat(25));
        assert_eq!(lines("a.rs", &string, Rule::Width), []);
        let fence = format!("//! ```toml\n//! {wide}\n//! ```\n//! {wide}\n", wide = "word ".repeat(25));
        assert_eq!(lines("a.rs", &fence, Rule::Width), [4], "an example is as wide as it is");
        let link = format!("// https://example.org/{}", "x".repeat(100));
        assert_eq!(lines("a.rs", &link, Rule::Width), []);
    }

    #[test]
    fn fragments_are_found() {
        for text in [
            "/// and those of others.",
            "/// *as* above",
            "/// … or none.",
            "/// Or those.",
            "/// its peer's",
        ] {
            assert_eq!(lines("a.rs", text, Rule::Fragment), [1], "{text}");
        }
        for text in [
            "/// `x` and y.",
            "/// rx_ring of a port.",
            "/// gRPC.",
            "/// switch::Pool.",
            "/// A sentence that goes on\n/// below.",
            "// below",
            "//! below",
            "/// 3 bytes.",
            "/// (from, to) of a link.",
            "/// \"veth\" or \"tun\".",
            "/// Order matters.",
            "///",
        ] {
            assert_eq!(lines("a.rs", text, Rule::Fragment), [], "{text}");
        }
        let items = "/// One.\na: u8,\n/// as above\nb: u8,\n";
        assert_eq!(lines("a.rs", items, Rule::Fragment), [3]);
    }

    #[test]
    fn types_without_context_are_found() {
        for text in ["struct Kind;", "pub(crate) enum Outcome { A }", "trait Watch {}", "type Report = u8;"] {
            assert_eq!(lines("a.rs", text, Rule::Type), [1], "{text}");
        }
        for text in ["struct FrameKind;", "use a::Kind;", "enum A { Kind }", "// struct Kind;"] {
            assert_eq!(lines("a.rs", text, Rule::Type), [], "{text}");
        }
    }

    #[test]
    fn words_are_found_in_comments_and_prose() {
        for (path, text) in [
            ("a.rs", "let x; // told\n"),
            ("a.rs", "/// It runs for\n/// ever.\n"),
            ("a.rs", "/* told */"),
            ("a.rs", "let x = \"x was told\";"),
            ("a.md", "told"),
            ("a.toml", "x = \"# no\" # told\n"),
            ("a.toml", "# told\n"),
            ("a.sh", "# told"),
            ("a.c", "/* told */"),
            ("a.h", "int x; // told"),
            ("a.html", "<p>told</p>"),
            ("a.sh", "echo $# # told"),
            ("a.proto", "// told\n"),
            ("a.proto", "  bool x = 1; // told\n"),
        ] {
            assert_eq!(lines(path, text, Rule::Word), [1], "{path}: {text}");
        }
        for (path, text) in [
            ("a.rs", "let x = \"`told` // toldness\";"),
            ("a.rs", "// It runs for\nlet x = 1; // ever"),
            ("a.rs", "// `told`"),
            ("a.rs", "/// ```\n/// told();\n/// ```\n"),
            ("a.md", "`told`"),
            ("a.toml", "told = \"told # told\""),
            ("a.sh", "told=${x#told}"),
            ("a.proto", "bool told = 1;"),
        ] {
            assert_eq!(found(path, text, Rule::Word), [], "{path}: {text}");
        }
    }

    #[test]
    fn names_are_checked_once_a_file() {
        let text =
            "fn told_ns() {}\nstruct WasTold<'lent>;\nfn f() { told_ns(); held_up(); silent(\"told\") }";
        assert_eq!(lines("a.rs", text, Rule::Name), [1, 2, 2, 3]);
        assert_eq!(lines("src/vigil.rs", "", Rule::Name), [1]);
        assert_eq!(lines("a.md", "told", Rule::Name), []);
        let folders = check_folders(&["crates/x/src/neighbours/a.rs", "crates/x/src/neighbours/b.rs"]);
        assert_eq!(folders.len(), 1);
        assert_eq!(folders[0].rule, Rule::Name);
    }

    #[test]
    fn full_folders_are_found() {
        let paths = |folder: &str, count: usize| -> Vec<String> {
            (0..count).map(|number| format!("{folder}/f{number}.rs")).collect()
        };
        for (folder, count, expected) in [
            ("crates/x/src", 15, 0),
            ("crates/x/src", 16, 1),
            ("crates/x/src/a/b", 16, 1),
            ("crates/x/tests", 16, 1),
            ("tests/tests/a", 16, 1),
            ("docs", 16, 0),
        ] {
            let paths = paths(folder, count);
            let findings = check_folders(&paths);
            let folders = findings.iter().filter(|finding| finding.rule == Rule::Folder).count();
            assert_eq!(folders, expected, "{folder} with {count}");
        }
    }

    #[test]
    fn repeated_names_are_found() {
        for text in [
            "/// The queue limits.\npub struct QueueLimits;",
            "/// Returns the port.\n#[inline]\n#[must_use]\npub(crate) const fn port(&self) {}",
            "/// Frame counts\npub frame_count: u64,",
            "/// Abi.\npub unsafe extern \"C\" fn abi() {}",
        ] {
            assert_eq!(lines("a.rs", text, Rule::Repeat), [1], "{text}");
        }
        for text in [
            "/// Limits of one queue.\npub struct QueueLimits;",
            "/// The port.\nfn port() {}",
            "/// The port.\n/// As the peer sees it.\npub fn port() {}",
            "// The port.\npub fn port() {}",
        ] {
            assert_eq!(lines("a.rs", text, Rule::Repeat), [], "{text}");
        }
    }
}
