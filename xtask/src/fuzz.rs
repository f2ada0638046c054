//! `cargo xtask fuzz`: a target of `crates/fuzz` under libFuzzer, guided by coverage.
//!
//! It builds the target with the coverage instrumentation of LLVM, which stable Rust passes through
//! (`-Cpasses=sancov-module`), in a folder of its own below `target`. Needs a C++ compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::run::{cargo, check, log, output, programs, repo_root};

/// The instrumentation that libFuzzer reads: edges, with their addresses, and compared values.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
/// An input that takes longer counts as a hang, in seconds.
const TIMEOUT_S: u32 = 20;
/// An input that takes more memory fails, in MiB.
const MEMORY_MIB: u32 = 2048;

/// Which target, and for how long.
#[derive(Args)]
pub struct Fuzz {
    /// A target of crates/fuzz, as `switch`.
    target: String,
    /// How long.
    #[arg(long, default_value_t = 180)]
    seconds: u32,
    /// Replace the committed corpus by the shortest inputs that cover what was found.
    #[arg(long)]
    update_corpus: bool,
}

/// Builds and runs a target.
pub fn run(fuzz: &Fuzz) -> Result<()> {
    let folder = programs("fuzz");
    let name = &fuzz.target;
    let inputs = folder.join("inputs").join(name);
    convert_corpus("unpack", name, &inputs)?;
    let program = build(&folder)?;
    log(&format!("{name}, {} s", fuzz.seconds));
    // Only what this run finds is reported.
    let found = folder.join("found").join(name);
    let _ = fs::remove_dir_all(&found);
    fs::create_dir_all(&found)?;
    let mut corpus = corpus_tool();
    let max_bytes = output(corpus.args(["max-bytes", name]))?;
    let mut command = Command::new(&program);
    command.env("SLUICE_FUZZ_TARGET", name).arg(&inputs).args([
        format!("-max_total_time={}", fuzz.seconds),
        format!("-timeout={TIMEOUT_S}"),
        format!("-rss_limit_mb={MEMORY_MIB}"),
        format!("-artifact_prefix={}/", found.display()),
        format!("-max_len={}", max_bytes.trim()),
        "-print_final_stats=1".to_owned(),
    ]);
    if check(&mut command).is_err() {
        bail!("{}", report(&found, name)?);
    }
    if fuzz.update_corpus {
        let least = folder.join("least").join(name);
        let _ = fs::remove_dir_all(&least);
        fs::create_dir_all(&least)?;
        let mut merge = Command::new(&program);
        merge.env("SLUICE_FUZZ_TARGET", name).arg("-set_cover_merge=1").arg(&least).arg(&inputs);
        check(&mut merge)?;
        convert_corpus("pack", name, &least)?;
    }
    Ok(())
}

/// Builds the program of all targets.
fn build(folder: &Path) -> Result<PathBuf> {
    log("building with instrumentation (the first time takes some minutes)");
    let host = output(Command::new("rustc").args(["--print", "host-tuple"]))?;
    let host = host.trim();
    let mut build = cargo();
    build.args(["build", "--package", "fuzz", "--bin", "libfuzzer", "--features", "libfuzzer"]);
    // A target of its own keeps the flags away from build scripts.
    build.args(["--target", host]).arg("--target-dir").arg(folder).env("RUSTFLAGS", RUSTFLAGS);
    check(&mut build)?;
    Ok(folder.join(host).join("debug/libfuzzer"))
}

/// Moves the committed corpus to a folder of inputs, or back.
fn convert_corpus(what: &str, target: &str, folder: &Path) -> Result<()> {
    check(corpus_tool().args([what, target]).arg(folder))
}

/// The program that knows targets and their corpora.
fn corpus_tool() -> Command {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "fuzz", "--bin", "corpus", "--"]);
    command
}

/// Returns what to do with the input that failed last. Slow ones, which libFuzzer also keeps, did
/// not fail.
fn report(found: &Path, target: &str) -> Result<String> {
    let mut newest = None;
    for entry in fs::read_dir(found)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with("slow-unit-") {
            newest = newest.max(Some((entry.metadata()?.modified()?, entry.path())));
        }
    }
    let (_, path) = newest.context("libFuzzer ended without an input that failed")?;
    let input: String = fs::read(&path)?.iter().map(|byte| format!("{byte:02x}")).collect();
    let file = repo_root().join("crates/fuzz/corpus").join(format!("{target}.regressions.hex"));
    let (path, file) = (path.display(), file.display());
    Ok(format!("an input failed: {path}. Add it to {file}, and see why with `cargo test -p fuzz`:\n{input}"))
}
