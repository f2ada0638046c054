//! Checks `docs/conformance.md` against the tree: each row of the vendors' tables is there once,
//! the counts match the rows, and every file, item and test that a row names exists. Whether a row
//! is implemented is for people to judge; this test checks that its evidence has not moved.
//!
//! A row is a line of a table, `| number | what is asked | state | where | test | remark |`. Where
//! and test are lists of `` `path::name` `` or `` `path` ``; a path begins at the top of the
//! repository or in `crates/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Rows are numbered from 1.
const ROWS: usize = 370;
/// States of rows that name an implementation.
const THERE: [&str; 3] = ["built", "partly", "differs on purpose"];
/// States of rows that name none.
const NOT_THERE: [&str; 2] = ["not built", "not applicable"];
/// A cell that names nothing.
const NOTHING: &str = "–";
/// The text in place of a test.
const UNTESTED: &str = "no test of its own";

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository")
}

/// Returns the cells of a table row, or `None` for another line.
fn cells(line: &str) -> Option<Vec<String>> {
    let inside = line.strip_prefix('|')?.trim_end().strip_suffix('|')?.replace("\\|", "\0");
    Some(inside.split('|').map(|cell| cell.trim().replace('\0', "|")).collect())
}

/// A row of the vendors' tables.
struct Row {
    number: usize,
    state: String,
    locations: String,
    tests: String,
}

/// Returns the rows, and the counts in the page's introduction, by name.
fn read(document: &str) -> (Vec<Row>, BTreeMap<String, usize>) {
    let (mut rows, mut counts) = (Vec::new(), BTreeMap::new());
    for cells in document.lines().filter_map(cells) {
        match &cells[..] {
            [name, count] => {
                counts.extend(count.parse().ok().map(|count| (name.clone(), count)));
            }
            [number, _, state, locations, tests, _] => rows.extend(number.parse().ok().map(|number| Row {
                number,
                state: state.clone(),
                locations: locations.clone(),
                tests: tests.clone(),
            })),
            _ => {}
        }
    }
    (rows, counts)
}

/// Returns what a cell names: paths, and names inside them.
fn named(cell: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let between = cell.split('`').skip(1).step_by(2);
    between.map(|name| name.split_once("::").map_or((name, None), |(path, name)| (path, Some(name))))
}

fn file(path: &str) -> Option<PathBuf> {
    [top().join(path), top().join("crates").join(path)].into_iter().find(|path| path.is_file())
}

/// Returns the word after `keyword`, wherever that is in a line.
fn defined<'l>(line: &'l str, keyword: &str) -> Option<&'l str> {
    let (before, after) = line.split_once(keyword)?;
    let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (before.is_empty() || before.ends_with([' ', '('])).then_some(name)
}

/// Returns the items that a Rust file defines.
fn items(text: &str) -> BTreeSet<&str> {
    let keywords = ["fn ", "struct ", "enum ", "trait ", "type ", "const ", "static "];
    let code = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
    code.flat_map(|line| keywords.into_iter().filter_map(|keyword| defined(line, keyword))).collect()
}

/// Returns the tests of a Rust file that `cargo test` runs: those that are not ignored.
fn tests(text: &str) -> BTreeSet<&str> {
    let (mut is_test, mut is_ignored) = (false, false);
    let mut tests = BTreeSet::new();
    for line in text.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        is_ignored |= line.starts_with("#[ignore");
        if let Some(name) = defined(line, "fn ") {
            if is_test && !is_ignored {
                tests.insert(name);
            }
            (is_test, is_ignored) = (false, false);
        }
    }
    tests
}

/// Returns the errors in the names of a cell, which must not be empty; names are looked up in the
/// result of `of_file`.
fn wrong_names(cell: &str, of_file: fn(&str) -> BTreeSet<&str>) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    if named(cell).next().is_none() {
        wrong.push(format!("nothing is named in \"{cell}\""));
    }
    for (path, name) in named(cell) {
        let Some(file) = file(path) else {
            wrong.push(format!("there is no file {path}"));
            continue;
        };
        let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        if let Some(name) = name.filter(|name| !of_file(&text).contains(name)) {
            wrong.push(format!("{path} has no {name}"));
        }
    }
    Ok(wrong)
}

/// Returns the errors in a row's evidence.
fn wrong_evidence(row: &Row) -> Result<Vec<String>> {
    if NOT_THERE.contains(&row.state.as_str()) {
        let names_nothing = row.locations == NOTHING && row.tests == NOTHING;
        return Ok((!names_nothing)
            .then(|| format!("{}, but something is named", row.state))
            .into_iter()
            .collect());
    }
    if !THERE.contains(&row.state.as_str()) {
        return Ok(vec![format!("\"{}\" is no state", row.state)]);
    }
    let mut wrong = wrong_names(&row.locations, items)?;
    if row.tests != UNTESTED {
        wrong.extend(wrong_names(&row.tests, tests)?);
        let without_name = named(&row.tests).filter(|(_, name)| name.is_none());
        wrong.extend(without_name.map(|(path, _)| format!("{path} is no test: write {path}::NAME")));
    }
    Ok(wrong)
}

/// Returns all errors in the document, one per line.
fn wrong(document: &str) -> Result<Vec<String>> {
    let (rows, counts) = read(document);
    let mut wrong = Vec::new();
    for number in 1..=ROWS {
        let times = rows.iter().filter(|row| row.number == number).count();
        if times != 1 {
            wrong.push(format!("row {number} occurs {times} times"));
        }
    }
    for row in &rows {
        if !(1..=ROWS).contains(&row.number) {
            wrong.push(format!("row {}: the documents have {ROWS}", row.number));
        }
        wrong.extend(wrong_evidence(row)?.into_iter().map(|what| format!("row {}: {what}", row.number)));
    }
    let of = |is: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count();
    let states = [THERE.as_slice(), &NOT_THERE].concat();
    let mut expected: BTreeMap<_, _> =
        states.into_iter().map(|state| (state.to_owned(), of(&|row| row.state == state))).collect();
    expected.insert(UNTESTED.to_owned(), of(&|row| row.tests == UNTESTED));
    if counts != expected {
        wrong.push(format!("the head counts {counts:?}, the rows are {expected:?}"));
    }
    Ok(wrong)
}

#[test]
fn every_row_is_there_once_with_evidence_that_exists() -> Result<()> {
    let document = fs::read_to_string(top().join("docs/conformance.md"))?;
    let wrong = wrong(&document)?;
    assert!(wrong.is_empty(), "docs/conformance.md:\n{}", wrong.join("\n"));
    Ok(())
}

/// Each kind of error is found: checked with a table that has every one of them.
#[test]
fn mistakes_are_found() -> Result<()> {
    let this = "xtask/tests/conformance.rs";
    let row = |number: usize, state: &str, locations: &str, tests: &str| {
        format!("| {number} | a \\| b | {state} | {locations} | {tests} | |\n")
    };
    let good = row(
        1,
        "built",
        &format!("`{this}::wrong`, `config/ecn.toml`"),
        &format!("`{this}::mistakes_are_found`"),
    );
    let rows: String = (3..=ROWS).map(|number| row(number, "not built", NOTHING, NOTHING)).collect();
    let head = "| rows | |\n|---|---|\n| built | 2 |\n| partly | 0 |\n| differs on purpose | 0 |\n| not built | 368 |\n\
                | not applicable | 0 |\n| no test of its own | 1 |\n";
    let with = |second: &str| wrong(&format!("{head}{good}{second}{rows}"));
    let second = |locations: &str, tests: &str| with(&row(2, "built", locations, tests));
    let location = format!("`{this}::ROWS`");
    assert_eq!(second(&location, UNTESTED)?, [""; 0]);
    assert_eq!(second("`config/nothing.toml`", UNTESTED)?, ["row 2: there is no file config/nothing.toml"]);
    assert_eq!(second(&format!("`{this}::nobody`"), UNTESTED)?, [format!("row 2: {this} has no nobody")]);
    assert_eq!(second(NOTHING, UNTESTED)?, ["row 2: nothing is named in \"–\""]);
    for (tests, what) in [
        (format!("`{this}::wrong`"), format!("{this} has no wrong")),
        (
            "`tests/tests/nic/attach_detach.rs::killed_half_way`".to_owned(),
            "tests/tests/nic/attach_detach.rs has no killed_half_way".to_owned(),
        ),
        (format!("`{this}`"), format!("{this} is no test: write {this}::NAME")),
    ] {
        assert!(second(&location, &tests)?.contains(&format!("row 2: {what}")), "{tests}");
    }
    assert_eq!(with("")?[0], "row 2 occurs 0 times");
    assert_eq!(with(&good)?[..2], ["row 1 occurs 2 times", "row 2 occurs 0 times"]);
    assert!(
        with(&row(2, "perhaps", &location, UNTESTED))?.contains(&"row 2: \"perhaps\" is no state".to_owned())
    );
    let named = with(&row(2, "not built", &location, NOTHING))?;
    assert!(named.contains(&"row 2: not built, but something is named".to_owned()));
    let miscounted = wrong(&format!("{head}{good}{}{rows}", row(2, "partly", &location, UNTESTED)))?;
    assert!(miscounted[0].starts_with("the head counts "), "{miscounted:?}");
    Ok(())
}
