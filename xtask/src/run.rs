//! Running cargo and the programs that it built.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Prints a progress line.
pub fn log(what: &str) {
    println!("▶ {what}");
}

/// Returns the top of the source tree.
pub fn repo_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the tree")
}

/// Returns the cargo that runs this program.
pub fn cargo() -> Command {
    outside_package(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// Returns a program that runs at the top of the tree, without the variables about this package:
/// build scripts (of `ring`, for one) that depend on those variables would run again, and all that
/// depends on them would be rebuilt, at each change between `cargo` and `cargo xtask`.
pub fn outside_package(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command.current_dir(repo_root());
    command
}

/// Returns where a build of this profile (`debug` or `release`) puts the programs.
pub fn programs(profile: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target"));
    repo_root().join(target).join(profile)
}

/// Runs a command to its end; fails unless it succeeds.
pub fn check(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
        let arguments: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        bail!("`{name} {}` failed ({status})", arguments.join(" "));
    }
    Ok(())
}

/// Builds what the demo needs and runs it.
pub fn demo(seconds: u32, no_pfc: bool) -> Result<()> {
    log("building (the first time takes a few minutes)");
    let packages = ["--package", "sluiced", "--package", "sluice", "--package", "testbed"];
    check(cargo().args(["build", "--profile", "demo", "--bins"]).args(packages))?;
    let mut command = Command::new(programs("demo").join("sluice-demo"));
    command.args(["--seconds", &seconds.to_string()]);
    if no_pfc {
        command.arg("--no-pfc");
    }
    // The demo replaces this process, so that it gets Ctrl-C and the prompt returns after its
    // cleanup.
    Err(command.exec()).context("cannot run the demo")
}

/// Removes the namespaces of dead testbeds.
pub fn sweep() -> Result<()> {
    check(cargo().args(["run", "--quiet", "--package", "testbed", "--bin", "sluice-demo", "--", "--sweep"]))
}

/// Runs all benches of the workspace.
pub fn bench(filter: Option<&str>) -> Result<()> {
    log("cargo bench");
    check(cargo().args(["bench", "--workspace", "--exclude", "tests", "--benches", "--"]).args(filter))
}

/// Measures the daemon beside other forwarders.
pub fn bench_with_peers(options: &[String]) -> Result<()> {
    log("building (release)");
    let packages =
        ["--package", "sluiced", "--package", "sluice", "--package", "testbed", "--package", "xdp"];
    check(cargo().args(["build", "--release", "--bins", "--examples"]).args(packages))?;
    let mut command = Command::new(programs("release").join("sluice-bench"));
    if !options.iter().any(|option| option.starts_with("--out")) {
        command.arg("--out").arg(repo_root().join("docs"));
    }
    command.args(options);
    Err(command.exec()).context("cannot run the benchmark")
}

/// Soaks a daemon with its debug assertions.
pub fn soak(options: &[String]) -> Result<()> {
    log("building");
    let packages = ["--package", "sluiced", "--package", "sluice", "--package", "testbed"];
    check(cargo().args(["build", "--bins"]).args(packages))?;
    let mut command = Command::new(programs("debug").join("sluice-soak"));
    if !options.iter().any(|option| option.starts_with("--out")) {
        command.arg("--out").arg(repo_root().join("docs"));
    }
    command.args(options);
    // Replaced like the demo, for Ctrl-C.
    Err(command.exec()).context("cannot run the soak")
}

/// True for root.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Returns a clear error unless run by root.
pub fn require_root(what: &str) -> Result<()> {
    if !is_root() {
        bail!(
            "{what} needs root, to make network namespaces and to use AF_XDP. Run this again as root, keeping the\n\
             PATH to cargo:\n    sudo env PATH=\"$PATH\" cargo xtask …"
        );
    }
    Ok(())
}

/// Runs a command to its end. Returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    ensure!(!output.stdout.is_empty() || output.stderr.is_empty(), "{command:?} printed nothing");
    Ok(String::from_utf8(output.stdout)?)
}
