//! `cargo xtask lint`: checks comments, prose and names for what rustfmt and clippy do not see, and
//! the dependencies.

mod dependencies;
mod license;
mod rules;
mod rust_tokens;
mod words;

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run::repo_root;
use rules::{ENDINGS, Finding};

/// Runs the lint over all tracked files, and fails if it finds anything.
pub fn run() -> Result<()> {
    let findings = find_all()?;
    findings.iter().for_each(|finding| println!("{finding}"));
    match findings.len() {
        0 => Ok(()),
        count => bail!("{count} findings"),
    }
}

/// The paths of all tracked files. A file that was removed but not yet committed is left out.
fn tracked_files() -> Result<Vec<String>> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(repo_root()).output();
    let output = output.context("cannot run git")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let listed = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let paths = listed.split_terminator('\0').filter(|path| repo_root().join(path).is_file());
    Ok(paths.map(str::to_owned).collect())
}

/// All findings in tracked files, by path and line.
fn find_all() -> Result<Vec<Finding>> {
    let paths = tracked_files()?;
    let mut findings = rules::check_folders(&paths);
    for path in paths.iter().filter(|path| ENDINGS.iter().any(|ending| path.ends_with(ending))) {
        let text = fs::read_to_string(repo_root().join(path)).with_context(|| path.clone())?;
        rules::check_file(path, &text, &mut findings);
    }
    dependencies::check(&mut findings)?;
    findings.sort();
    Ok(findings)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn tracked_files_are_listed_from_the_top() {
        let paths = tracked_files().unwrap();
        for path in ["README.md", "Cargo.toml", "xtask/src/main.rs"] {
            assert!(paths.iter().any(|other| other == path), "{path}");
        }
        assert!(!paths.iter().any(|path| path.starts_with("target/")));
    }

    #[test]
    fn the_tree_has_no_findings() {
        let findings: Vec<String> = find_all().unwrap().iter().map(Finding::to_string).collect();
        assert_eq!(findings, [""; 0]);
    }
}
