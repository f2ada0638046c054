//! `cargo xtask advisories DB`: the advisories of a checkout of the RustSec database that concern
//! the crates of `Cargo.lock`.
//!
//! An advisory is a file `crates/NAME/RUSTSEC-*.md` that begins with a TOML block: `[advisory]`
//! with its identifier and kind, `[versions]` with the versions that have the fix, or never had the
//! fault. Source: the README of the database.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use semver::{Version, VersionReq};

use crate::lock_file::{Package, packages};
use crate::run::repo_root;

/// Where the database is.
#[derive(Args)]
pub struct Advisories {
    /// A checkout of https://github.com/rustsec/advisory-db.
    database: PathBuf,
}

/// An advisory that concerns a package.
#[derive(Debug, PartialEq, Eq)]
struct Advisory {
    id: String,
    /// Name and version of the package.
    package: String,
    /// What it warns of beside vulnerabilities: `unmaintained`, `unsound`.
    informational: Option<String>,
    title: String,
}

impl fmt::Display for Advisory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.informational.as_deref().unwrap_or("vulnerability");
        write!(f, "{} ({kind}): {}: {}", self.id, self.package, self.title)
    }
}

/// Prints the advisories that concern a package. Fails if one of them is a vulnerability.
pub fn run(advisories: &Advisories) -> Result<()> {
    let text = fs::read_to_string(repo_root().join("Cargo.lock")).context("Cargo.lock")?;
    let packages: Vec<Package> =
        packages(&text).into_iter().filter(|package| package.source.is_some()).collect();
    let folder = advisories.database.join("crates");
    ensure!(folder.is_dir(), "{} is no checkout of the RustSec database", advisories.database.display());
    let mut found = Vec::new();
    for package in &packages {
        found.extend(advisories_of(package, &folder.join(&package.name))?);
    }
    found.iter().for_each(|advisory| println!("{advisory}"));
    println!("{} advisories for {} crates of Cargo.lock", found.len(), packages.len());
    let is_vulnerable = |advisory: &&Advisory| advisory.informational.is_none();
    match found.iter().filter(is_vulnerable).count() {
        0 => Ok(()),
        vulnerable => bail!("{vulnerable} vulnerabilities"),
    }
}

/// Returns the advisories in a folder that concern a package; none if there is no folder.
fn advisories_of(package: &Package, folder: &Path) -> Result<Vec<Advisory>> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return Ok(found) };
    for entry in entries {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        found.extend(concerns(package, &text).with_context(|| path.display().to_string())?);
    }
    Ok(found)
}

/// Returns the advisory in this text if it concerns a package.
fn concerns(package: &Package, text: &str) -> Result<Option<Advisory>> {
    let (block, rest) = text
        .strip_prefix("```toml\n")
        .and_then(|text| text.split_once("\n```"))
        .context("it does not begin with a TOML block")?;
    let field = |key: &str| string_of(block, key);
    let id = field("id").context("it has no id")?;
    let version = Version::parse(&package.version).context("the version of the package")?;
    let is_in = |key: &str| -> Result<bool> {
        let ranges =
            list_of(block, key).iter().map(|range| VersionReq::parse(range)).collect::<Result<Vec<_>, _>>();
        Ok(ranges.context("a range of versions")?.iter().any(|range| range.matches(&version)))
    };
    if field("withdrawn").is_some() || is_in("patched")? || is_in("unaffected")? {
        return Ok(None);
    }
    let title = rest.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default().to_owned();
    let package = format!("{} {}", package.name, package.version);
    Ok(Some(Advisory { id, package, informational: field("informational"), title }))
}

/// Returns the text of a key that has one, on a line of its own.
fn string_of(block: &str, key: &str) -> Option<String> {
    let value = block.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='))?;
    value.trim().trim_matches('"').to_owned().into()
}

/// Returns the texts of a key that has a list, which may take several lines.
fn list_of(block: &str, key: &str) -> Vec<String> {
    let begins = |at: &usize| {
        let before = block[..*at].ends_with('\n');
        before && block[*at + key.len()..].trim_start().starts_with('=')
    };
    let Some(start) = block.match_indices(key).map(|(at, _)| at).find(begins) else { return Vec::new() };
    let Some((list, _)) = block[start..].split_once('[').and_then(|(_, rest)| rest.split_once(']')) else {
        return Vec::new();
    };
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod unit {
    use super::*;

    const ADVISORY: &str = "```toml\n[advisory]\nid = \"RUSTSEC-2026-0001\"\npackage = \"a\"\n\n[versions]\n\
        patched = [\n  \">= 1.2.3\",\n  \"^1.1.9\",\n]\nunaffected = [\"< 1.0.0\"]\n```\n\n# It overflows\n\nText.\n";

    fn id(version: &str, text: &str) -> Option<String> {
        let (name, version) = ("a".to_owned(), version.to_owned());
        let package = Package { name, version, line: 1, source: None, has_checksum: true };
        concerns(&package, text).unwrap().map(|advisory| advisory.to_string())
    }

    #[test]
    fn versions_with_the_fault_are_found() {
        let expected = "RUSTSEC-2026-0001 (vulnerability): a 1.1.0: It overflows";
        assert_eq!(id("1.1.0", ADVISORY).as_deref(), Some(expected));
        assert_eq!([id("1.2.3", ADVISORY), id("1.1.9", ADVISORY), id("0.9.0", ADVISORY)], [None, None, None]);
    }

    #[test]
    fn what_is_withdrawn_is_left_out_and_other_kinds_are_named() {
        let withdrawn = ADVISORY.replace("package =", "withdrawn = \"2026-02-01\"\npackage =");
        assert_eq!(id("1.1.0", &withdrawn), None);
        let unmaintained = ADVISORY.replace("package =", "informational = \"unmaintained\"\npackage =");
        assert!(id("1.1.0", &unmaintained).unwrap().starts_with("RUSTSEC-2026-0001 (unmaintained): a 1.1.0"));
    }
}
