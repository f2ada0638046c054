//! The crates that Sluice is built of: their licenses, sources and versions.
//!
//! Rule: every license has a branch that is allowed; every crate comes from crates.io, with its
//! checksum; no crate is banned; a crate in several versions is listed with the reason. Licenses
//! are those of the crates that this machine builds with all features, sources and versions those
//! of `Cargo.lock`.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use super::license::{Expression, is_allowed};
use super::rules::{Finding, Rule};
use crate::lock_file::{Package, packages};
use crate::run::{cargo, output, repo_root};

/// The one source of crates.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates that must not come in, and why.
const BANNED: [(&str, &str); 5] = [
    ("async-std", "the daemon's runtime is Tokio"),
    ("aws-lc-sys", "rustls has ring; a second cryptography would only be more to build"),
    ("native-tls", "TLS is rustls, so that no C library parses what the network sends"),
    ("openssl-sys", "TLS is rustls, so that no C library parses what the network sends"),
    ("serde_yaml", "it is no longer maintained; tests read YAML with serde_yaml_ng"),
];

/// Crates in several versions: who needs the older ones.
const DUPLICATES: [(&str, &str); 22] = [
    ("base64", "tonic and jsonschema have 0.22"),
    ("bit-set", "fancy-regex, of jsonschema, has 0.8"),
    ("bit-vec", "bit-set 0.8, and yasna, of rcgen"),
    ("bitflags", "vmm-sys-util has 1"),
    ("embedded-io", "postcard names two versions"),
    ("foldhash", "hashbrown 0.15"),
    ("getrandom", "ring has 0.2, ahash 0.3"),
    ("hashbrown", "petgraph, of prost-build, has 0.15"),
    ("itertools", "bindgen has 0.13"),
    ("logos", "protox-parse has 0.15"),
    ("logos-codegen", "protox-parse has logos 0.15"),
    ("logos-derive", "protox-parse has logos 0.15"),
    ("nix", "libbpf-sys has 0.30"),
    ("num-bigint", "num, of jsonschema, and der-parser, of rcgen, have 0.4"),
    ("r-efi", "getrandom 0.3, on another system"),
    ("shlex", "bindgen has 1"),
    ("syn", "macros change to 3 one by one; pcap-file's has 1"),
    ("synstructure", "asn1-rs-derive, of rcgen, has 0.13"),
    ("thiserror", "pcap-file has 1"),
    ("thiserror-impl", "pcap-file has thiserror 1"),
    ("unicode-width", "miette has 0.1"),
    ("windows-sys", "ring has 0.52, on another system"),
];

/// Checks all dependencies.
pub fn check(findings: &mut Vec<Finding>) -> Result<()> {
    let text = fs::read_to_string(repo_root().join("Cargo.lock")).context("Cargo.lock")?;
    check_packages(&packages(&text), findings);
    // One line a crate: its name, version and license.
    let mut tree = cargo();
    tree.args(["tree", "--workspace", "--all-features", "--edges", "normal,build,dev", "--prefix", "none"]);
    tree.args(["--locked", "--format", "{p}|{l}"]);
    check_licenses(&output(&mut tree)?, findings);
    Ok(())
}

fn finding(line: usize, message: String) -> Finding {
    Finding::new("Cargo.lock", line, Rule::Dependency, message)
}

/// Checks the sources of packages, and how many versions of each there are.
fn check_packages(packages: &[Package], findings: &mut Vec<Finding>) {
    let mut versions: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(package);
        let Package { name, line, .. } = package;
        if let Some(source) = package.source.as_deref()
            && (source != REGISTRY || !package.has_checksum)
        {
            findings.push(finding(*line, format!("{name} comes from {source}: crates.io is the one source")));
        }
        if let Some((_, why)) = BANNED.iter().find(|(banned, _)| banned == name) {
            findings.push(finding(*line, format!("{name} is banned: {why}")));
        }
    }
    for (name, packages) in &versions {
        if packages.len() > 1 && !DUPLICATES.iter().any(|(listed, _)| listed == name) {
            let message = format!("{name} is there in {} versions: list it with the reason", packages.len());
            findings.push(finding(packages[1].line, message));
        }
    }
    for (name, _) in DUPLICATES {
        if versions.get(name).is_none_or(|packages| packages.len() < 2) {
            findings.push(finding(1, format!("{name} has one version now: remove it from the list")));
        }
    }
}

/// Checks the licenses in lines of name, version and license.
fn check_licenses(tree: &str, findings: &mut Vec<Finding>) {
    let crates = tree.lines().filter(|line| !line.ends_with(" (*)"));
    let mut crates = crates.filter_map(|line| line.split_once('|')).peekable();
    if crates.peek().is_none() {
        findings.push(finding(1, "`cargo tree` names no crate: no license was checked".to_owned()));
    }
    for (package, license) in crates {
        if !Expression::parse(license).is_some_and(|license| license.holds(&is_allowed)) {
            let message = format!("{package} has the license \"{license}\", which is not allowed");
            findings.push(finding(1, message));
        }
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    fn messages(of: impl FnOnce(&mut Vec<Finding>)) -> Vec<String> {
        let mut findings = Vec::new();
        of(&mut findings);
        findings.iter().map(Finding::to_string).collect()
    }

    fn package(name: &str, line: usize, source: Option<&str>) -> Package {
        let (name, version) = (name.to_owned(), "1.0.0".to_owned());
        Package { name, version, line, source: source.map(str::to_owned), has_checksum: source.is_some() }
    }

    #[test]
    fn other_sources_bans_and_unlisted_duplicates_are_found() {
        let mut all: Vec<Package> = DUPLICATES
            .iter()
            .flat_map(|(name, _)| [package(name, 1, Some(REGISTRY)), package(name, 2, Some(REGISTRY))])
            .collect();
        assert_eq!(messages(|findings| check_packages(&all, findings)), [""; 0]);
        all.remove(0);
        all.push(package("ours", 10, None));
        all.push(package("forked", 20, Some("git+https://example.org/forked")));
        all.push(package("native-tls", 30, Some(REGISTRY)));
        all.extend([package("twice", 40, Some(REGISTRY)), package("twice", 50, Some(REGISTRY))]);
        let found = messages(|findings| check_packages(&all, findings));
        let expected = [
            "Cargo.lock:20: forked comes from git+https://example.org/forked: crates.io is the one source (dependency)",
            "Cargo.lock:30: native-tls is banned: TLS is rustls, so that no C library parses what the network sends (dependency)",
            "Cargo.lock:50: twice is there in 2 versions: list it with the reason (dependency)",
            "Cargo.lock:1: base64 has one version now: remove it from the list (dependency)",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn licenses_that_are_not_allowed_are_found() {
        let tree = "a v1|MIT OR GPL-3.0\n\nb v1|GPL-3.0\nb v1|GPL-3.0 (*)\nc v1|\n";
        let found = messages(|findings| check_licenses(tree, findings));
        let expected = [
            "Cargo.lock:1: b v1 has the license \"GPL-3.0\", which is not allowed (dependency)",
            "Cargo.lock:1: c v1 has the license \"\", which is not allowed (dependency)",
        ];
        assert_eq!(found, expected);
        let nothing = messages(|findings| check_licenses("\n", findings));
        let expected = ["Cargo.lock:1: `cargo tree` names no crate: no license was checked (dependency)"];
        assert_eq!(nothing, expected);
    }
}
