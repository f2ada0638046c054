//! The copy of the repository that holds the mutants, and its build.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::finder::Found;
use crate::source::Written;

/// Lints that would end a build because of a mutant.
const LINTS: &str = "#![allow(warnings, arithmetic_overflow, unconditional_panic, overflowing_literals)]";

/// A copy of the repository in which one crate is mutated.
pub struct Tree {
    root: PathBuf,
    target: PathBuf,
    package: String,
}

impl Tree {
    /// Copies all files that Git knows, where they changed, and deletes those that it has not.
    pub fn copy(repository: &Path, package: &str, found: &Found) -> Result<Self> {
        let target = repository.join("target");
        let root = target.join("mutants/tree").join(package);
        let mut list = Command::new("git");
        list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let files = String::from_utf8(list.current_dir(repository).output()?.stdout)?;
        let files: BTreeSet<&str> =
            files.split_terminator('\0').filter(|file| repository.join(file).is_file()).collect();
        delete_others(&root, &root, &files)?;
        for file in files {
            // The mutated files are written with their mutants.
            let in_crate = Path::new(file).strip_prefix(format!("crates/{package}"));
            let is_mutated = in_crate.is_ok_and(|file| found.files.iter().any(|(path, _)| path == file));
            if !is_mutated {
                write_changed(&root.join(file), &fs::read(repository.join(file))?)?;
            }
        }
        Ok(Tree { root, target, package: package.to_owned() })
    }

    /// The folder of the mutated crate.
    pub fn folder(&self) -> PathBuf {
        self.root.join("crates").join(&self.package)
    }

    /// Builds the mutated library, without the mutants that the run leaves out, and drops further
    /// ones until it builds. Returns all that are not in it.
    pub fn build_library(&self, found: &Found, mut dropped: BTreeSet<usize>) -> Result<BTreeSet<usize>> {
        loop {
            let files = self.write(found, &dropped)?;
            // With the features that dependencies have for tests, so that they are built once.
            let output = self.cargo(&["test", "--no-run", "--lib"])?;
            let with_errors = mutants_with_errors(&output, &format!("crates/{}", self.package), &files);
            if output.iter().all(|message| message["message"]["level"] != "error") {
                return Ok(dropped);
            }
            let before = dropped.len();
            dropped.extend(with_errors);
            eprintln!("{} mutants do not build", dropped.len());
            if dropped.len() == before {
                let errors = output.iter().filter_map(|message| message["message"]["rendered"].as_str());
                bail!("no mutant is to blame:\n{}", errors.collect::<String>());
            }
        }
    }

    fn write(&self, found: &Found, dropped: &BTreeSet<usize>) -> Result<Vec<(PathBuf, Written)>> {
        let mut files = Vec::new();
        for (path, source) in &found.files {
            let mut written = source.write(dropped);
            if path == Path::new("src/lib.rs") {
                written.shift(LINTS);
                written.text.push_str("\n#[allow(missing_docs)]\npub mod mutants_runtime;\n");
            }
            write_changed(&self.folder().join(path), written.text.as_bytes())?;
            files.push((path.clone(), written));
        }
        write_changed(&self.folder().join("src/mutants_runtime.rs"), include_bytes!("runtime.rs"))?;
        Ok(files)
    }

    /// Builds the unit tests and these test targets, or all if none is named. Returns their
    /// programs.
    pub fn build_tests(&self, targets: &[String]) -> Result<Vec<PathBuf>> {
        let mut arguments = vec!["test", "--no-run", "--lib"];
        if targets.is_empty() {
            arguments.push("--tests");
        }
        arguments.extend(targets.iter().flat_map(|target| ["--test", target.as_str()]));
        let messages = self.cargo(&arguments)?;
        if messages.iter().any(|message| message["message"]["level"] == "error") {
            bail!("the tests do not build: run `cargo test -p {} --no-run`", self.package);
        }
        let tests = messages.iter().filter(|message| message["profile"]["test"] == true);
        let programs = tests.filter_map(|message| message["executable"].as_str());
        Ok(programs.map(PathBuf::from).collect())
    }

    fn cargo(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let mut command = Command::new("cargo");
        command.args(arguments).args(["--offline", "--message-format=json", "-p", &self.package]);
        // Thousands of alternatives take long to optimize, and most tests are short.
        let profile = format!("profile.dev.package.{}", self.package);
        command.args(["--config", &format!("{profile}.opt-level=1")]);
        command.args(["--config", &format!("{profile}.debug=false")]);
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        let output = command.stderr(Stdio::inherit()).output().context("cargo")?;
        let lines = String::from_utf8(output.stdout)?;
        let messages: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if !output.status.success() && messages.iter().all(|message| message["message"]["level"] != "error") {
            bail!("Cargo built nothing: a package may be missing (`cargo fetch`)");
        }
        Ok(messages)
    }
}

impl Written {
    /// Puts text before the file.
    fn shift(&mut self, text: &str) {
        self.text.insert_str(0, text);
        for (range, _) in &mut self.owners {
            *range = range.start + text.len()..range.end + text.len();
        }
    }

    /// The mutants of the smallest range around an error.
    fn owners_of(&self, start: usize, end: usize) -> &[usize] {
        let around = self.owners.iter().filter(|(range, _)| range.start <= start && end <= range.end);
        around.min_by_key(|(range, _)| range.len()).map_or(&[], |(_, mutants)| mutants)
    }
}

/// The mutants in which the compiler's errors stand.
fn mutants_with_errors(messages: &[Value], folder: &str, files: &[(PathBuf, Written)]) -> BTreeSet<usize> {
    let mut with_errors = BTreeSet::new();
    for message in messages.iter().filter(|message| message["message"]["level"] == "error") {
        for span in message["message"]["spans"].as_array().into_iter().flatten() {
            let name = span["file_name"].as_str().unwrap_or_default();
            let file = files.iter().find(|(path, _)| Path::new(folder).join(path) == Path::new(name));
            let offset = |key: &str| span[key].as_u64().unwrap_or(0) as usize;
            if let (Some((_, written)), Some(true)) = (file, span["is_primary"].as_bool()) {
                with_errors.extend(written.owners_of(offset("byte_start"), offset("byte_end")));
            }
        }
    }
    with_errors
}

/// Deletes the files below a folder that are not in the list, relative to `root`.
fn delete_others(root: &Path, folder: &Path, files: &BTreeSet<&str>) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            delete_others(root, &path, files)?;
        } else if !path.strip_prefix(root)?.to_str().is_some_and(|file| files.contains(file)) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Writes a file unless it is the same, so that Cargo builds no more than it must.
fn write_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes).with_context(|| path.display().to_string())
}
