//! `cargo xtask lint`: checks comments, prose and names for what rustfmt and clippy do not see.
//!
//! The tree is being cleaned up gradually. `xtask/lint-budget.toml` holds how many findings each
//! rule still allows in each crate or folder; a count above its budget fails, and so does one
//! below, until the budget is lowered.

mod budget;
mod rules;
mod rust_tokens;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::run::top;
use budget::Budget;
use rules::{Finding, Rule};

const BUDGET_FILE: &str = "xtask/lint-budget.toml";
/// Findings shown for one rule and folder above budget.
const SHOWN: usize = 20;
/// Endings of the files that are read.
const ENDINGS: [&str; 5] = [".rs", ".md", ".toml", ".proto", ".sh"];

/// Arguments of `cargo xtask lint`.
#[derive(Args)]
pub struct Lint {
    /// Print all findings, those within the budget too.
    #[arg(long)]
    list: bool,
    /// Rewrite the budget file with the present counts, where they are lower.
    #[arg(long, conflicts_with = "list")]
    update: bool,
    /// With --update: raise budgets as well.
    #[arg(long, requires = "update")]
    allow_increase: bool,
}

/// Runs the lint over all tracked files.
pub fn run(arguments: &Lint) -> Result<()> {
    let findings = find_all()?;
    if arguments.list {
        findings.iter().for_each(|finding| println!("{finding}"));
        return Ok(());
    }
    let path = top().join(BUDGET_FILE);
    let text = if path.exists() { fs::read_to_string(&path).context(BUDGET_FILE)? } else { String::new() };
    let mut budget = Budget::parse(&text).context(BUDGET_FILE)?;
    let counts = count(&findings);
    if arguments.update {
        budget.update(&counts, arguments.allow_increase);
        fs::write(&path, budget.to_string()).context(BUDGET_FILE)?;
    }
    let differences = budget.compare(&counts);
    for difference in &differences {
        println!("{difference}");
        if difference.is_above() {
            print_some(&findings, difference.rule, &difference.folder);
        }
    }
    if !differences.is_empty() {
        bail!("counts that differ from {BUDGET_FILE}: {}", differences.len());
    }
    Ok(())
}

/// Prints the first findings of a rule in a folder.
fn print_some(findings: &[Finding], rule: Rule, folder: &str) {
    let of_folder = |finding: &&Finding| finding.rule == rule && folder_of(&finding.path) == folder;
    findings.iter().filter(of_folder).take(SHOWN).for_each(|finding| println!("    {finding}"));
    if findings.iter().filter(of_folder).count() > SHOWN {
        println!("    … and more: cargo xtask lint --list");
    }
}

/// Counts findings by rule and folder.
fn count(findings: &[Finding]) -> BTreeMap<(Rule, String), usize> {
    let mut counts = BTreeMap::new();
    for finding in findings {
        *counts.entry((finding.rule, folder_of(&finding.path))).or_default() += 1;
    }
    counts
}

/// The crate or top-level folder of a path, `.` for a file at the top.
fn folder_of(path: &str) -> String {
    let mut parts = path.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("crates"), Some(name), Some(_)) => format!("crates/{name}"),
        (Some(folder), Some(_), _) => folder.to_owned(),
        _ => ".".to_owned(),
    }
}

/// The paths of all tracked files. A file that was removed but not yet committed is left out.
fn tracked_files() -> Result<Vec<String>> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(top()).output();
    let output = output.context("cannot run git")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let listed = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let paths = listed.split_terminator('\0').filter(|path| top().join(path).is_file());
    Ok(paths.map(str::to_owned).collect())
}

/// All findings in tracked files, by path and line.
fn find_all() -> Result<Vec<Finding>> {
    let paths = tracked_files()?;
    let mut findings = rules::check_folders(&paths);
    for path in paths.iter().filter(|path| ENDINGS.iter().any(|ending| path.ends_with(ending))) {
        let text = fs::read_to_string(top().join(path)).with_context(|| path.clone())?;
        rules::check_file(path, &text, &mut findings);
    }
    findings.sort();
    Ok(findings)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn findings_are_counted_by_crate_or_folder() {
        assert_eq!(folder_of("crates/switch/src/pfc/tx.rs"), "crates/switch");
        assert_eq!(folder_of("tests/tests/a.rs"), "tests");
        assert_eq!(folder_of("README.md"), ".");
        let finding = |path: &str, line| Finding::new(path, line, Rule::Width, String::new());
        let counts =
            count(&[finding("docs/behavior.md", 1), finding("docs/glossary.md", 1), finding("README.md", 1)]);
        assert_eq!(counts[&(Rule::Width, "docs".to_owned())], 2);
        assert_eq!(counts[&(Rule::Width, ".".to_owned())], 1);
    }

    #[test]
    fn tracked_files_are_listed_from_the_top() {
        let paths = tracked_files().unwrap();
        for path in ["README.md", "Cargo.toml", "xtask/src/main.rs"] {
            assert!(paths.iter().any(|other| other == path), "{path}");
        }
        assert!(!paths.iter().any(|path| path.starts_with("target/")));
    }

    #[test]
    fn the_sources_of_this_lint_have_no_findings() {
        let findings = find_all().unwrap();
        let own: Vec<String> = findings
            .iter()
            .filter(|finding| finding.path.starts_with("xtask/src/lint/"))
            .map(ToString::to_string)
            .collect();
        assert_eq!(own, [""; 0]);
    }
}
