//! `cargo xtask dist`: the Debian package. It is made by `dpkg-deb` from a folder of files, so that
//! nothing has to be installed to build it.

mod boot;
mod check;
mod image;
mod licenses;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::Args;

use crate::packages;
use crate::run::{cargo, check, log, output, programs, repo_root};

/// What to build.
#[derive(Args)]
pub struct Dist {
    /// Install the package on a clean Debian root and forward frames there: a minute, as root.
    #[arg(long)]
    check: bool,
    /// Package the programs of the debug build, which is there sooner. For tests.
    #[arg(long)]
    debug: bool,
    /// The Debian suite of the clean root.
    #[arg(long, default_value = "bookworm", requires = "check")]
    suite: String,
}

/// Builds the package, and checks it if asked to.
pub fn run(dist: &Dist) -> Result<()> {
    packages::set_up()?;
    let profile = if dist.debug { "debug" } else { "release" };
    log(&format!("building ({profile})"));
    let mut build = cargo();
    // The whole workspace has the features that tests are built with; a part of it is built again.
    match dist.debug {
        true => build.args(["build", "--workspace", "--bins"]),
        false => build.args(["build", "--release", "--bins", "--package", "sluiced", "--package", "sluice"]),
    };
    check(&mut build)?;
    let package = package(&programs(profile))?;
    log(&format!("{} ({} kB)", package.display(), fs::metadata(&package)?.len() / 1000));
    if dist.check {
        check::run(&package, &dist.suite)?;
    }
    Ok(())
}

/// Makes the package of these programs in target/dist.
fn package(programs: &Path) -> Result<PathBuf> {
    let dist = repo_root().join("target/dist");
    let root = dist.join("root");
    let _ = fs::remove_dir_all(&dist); // of an earlier run
    fs::create_dir_all(&root)?;
    stage(&root, programs).context("the files of the package")?;
    let version = env!("CARGO_PKG_VERSION");
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    let control = control(&root, version, architecture.trim())?;
    write(&root.join("DEBIAN/control"), &control, 0o644)?;
    for (name, script) in SCRIPTS {
        write(&root.join("DEBIAN").join(name), script, 0o755)?;
    }
    write(&root.join("DEBIAN/md5sums"), &sums(&root)?, 0o644)?;
    let package = dist.join(format!("sluice_{version}_{}.deb", architecture.trim()));
    let mut build = Command::new("dpkg-deb");
    check(
        build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&root).arg(&package).stdout(Stdio::null()),
    )?;
    fs::remove_dir_all(&root)?;
    Ok(package)
}

/// Puts all files where they belong.
fn stage(root: &Path, programs: &Path) -> Result<()> {
    let sluice = programs.join("sluice");
    for (name, path) in [("sluiced", "usr/sbin/sluiced"), ("sluice", "usr/bin/sluice")] {
        let to = root.join(path);
        fs::create_dir_all(to.parent().context("a folder")?)?;
        check(Command::new("strip").args(["--strip-unneeded", "-o"]).arg(&to).arg(programs.join(name)))?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755))?;
    }
    let packaging = repo_root().join("packaging");
    for (file, path) in [
        ("sluiced.service", "usr/lib/systemd/system/sluiced.service"),
        ("sysusers.conf", "usr/lib/sysusers.d/sluice.conf"),
        ("tmpfiles.conf", "usr/lib/tmpfiles.d/sluice.conf"),
    ] {
        write(&root.join(path), &fs::read_to_string(packaging.join(file))?, 0o644)?;
    }
    fs::create_dir_all(root.join("etc/sluice"))?;
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/sluice"),
        ("zsh", "usr/share/zsh/vendor-completions/_sluice"),
        ("fish", "usr/share/fish/vendor_completions.d/sluice.fish"),
    ] {
        write(&root.join(path), &output(Command::new(&sluice).args(["completions", shell]))?, 0o644)?;
    }
    let manuals = root.join("usr/share/man/man1");
    fs::create_dir_all(&manuals)?;
    check(Command::new(&sluice).arg("manuals").arg(&manuals))?;
    let manual = output(Command::new(programs.join("sluiced")).arg("--manual"))?;
    write(&root.join("usr/share/man/man8/sluiced.8"), &manual, 0o644)?;

    let doc = root.join("usr/share/doc/sluice");
    let config = repo_root().join("config");
    for entry in fs::read_dir(&config)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let name = path.file_name().context("a name")?;
            write(&doc.join("examples").join(name), &fs::read_to_string(&path)?, 0o644)?;
        }
    }
    let proto = fs::read_to_string(repo_root().join("proto/sluice/v1/control.proto"))?;
    write(&doc.join("control.proto"), &proto, 0o644)?;
    write(&doc.join("copyright"), licenses::COPYRIGHT, 0o644)?;
    write(&doc.join("third-party.txt"), &licenses::third_party()?, 0o644)?;
    let version = env!("CARGO_PKG_VERSION");
    let changes = format!(
        "sluice ({version}) unstable; urgency=low\n\n  * Built from source; `git log` has the changes.\n\n -- {MAINTAINER}  Thu, 01 Jan 1970 00:00:00 +0000\n"
    );
    write(&doc.join("changelog"), &changes, 0o644)?;
    let mut gzip = Command::new("gzip");
    gzip.arg("-9nr")
        .arg(root.join("usr/share/man"))
        .args(["third-party.txt", "changelog"].map(|name| doc.join(name)));
    check(&mut gzip)
}

const MAINTAINER: &str = "Sluice maintainers <maintainers@users.noreply.example>";

/// Returns the description of the package, with what its programs need of Debian.
fn control(root: &Path, version: &str, architecture: &str) -> Result<String> {
    let needed = shared_libraries(root)?;
    let kilobytes = size(&root.join("usr"))? / 1024;
    Ok(format!(
        "Package: sluice\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {kilobytes}\nDepends: {needed}\nRecommends: iproute2\n\
         Section: net\nPriority: optional\nHomepage: https://sluice.example/\n\
         Description: lossless Ethernet switch in software\n \
         Sluice does in a Linux process, on AF_XDP, what the memory management unit of\n \
         a data-center switch does: it accounts for every frame in cells, sends and\n \
         honors priority flow control (802.1Qbb), marks ECN, and schedules eight\n \
         queues a port.\n .\n \
         This package has the daemon sluiced with its systemd unit, and the command\n sluice.\n"
    ))
}

/// Returns the packages of the shared libraries that the programs need.
fn shared_libraries(root: &Path) -> Result<String> {
    // It only runs beside a file `debian/control`.
    let folder = root.parent().context("a folder")?.join("shlibdeps");
    write(&folder.join("debian/control"), "Source: sluice\n\nPackage: sluice\nArchitecture: any\n", 0o644)?;
    let mut command = Command::new("dpkg-shlibdeps");
    command
        .current_dir(&folder)
        .arg("-O")
        .arg(root.join("usr/sbin/sluiced"))
        .arg(root.join("usr/bin/sluice"));
    let found = output(&mut command).context("dpkg-shlibdeps (package dpkg-dev)")?;
    fs::remove_dir_all(&folder)?;
    let needed = found.trim().strip_prefix("shlibs:Depends=").map(str::to_owned);
    needed.with_context(|| format!("dpkg-shlibdeps printed {found:?}"))
}

/// What runs on installation and removal: as debhelper would write it.
const SCRIPTS: [(&str, &str); 3] = [
    (
        "postinst",
        r#"#!/bin/sh
set -e
if [ "$1" = configure ]; then
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers sluice.conf
    elif ! getent passwd sluice >/dev/null; then
        useradd --system --user-group --home-dir /run/sluice --no-create-home --shell /usr/sbin/nologin sluice
    fi
    if command -v systemd-tmpfiles >/dev/null; then
        systemd-tmpfiles --create sluice.conf || true
    fi
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload || true
        if [ -n "$2" ]; then
            systemctl try-restart sluiced.service || true
        fi
    fi
fi
"#,
    ),
    (
        "prerm",
        r#"#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl --no-reload disable --now sluiced.service || true
fi
"#,
    ),
    (
        "postrm",
        r#"#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
"#,
    ),
];

/// Returns the sums of all files outside of `DEBIAN`.
fn sums(root: &Path) -> Result<String> {
    let script = "find usr etc -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    output(Command::new("sh").args(["-ec", script]).current_dir(root))
}

fn size(folder: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let file = entry.metadata()?;
        total += if file.is_dir() { size(&entry.path())? } else { file.len() };
    }
    Ok(total)
}

fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    fs::create_dir_all(path.parent().context("a folder")?)?;
    fs::write(path, text).with_context(|| path.display().to_string())?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}
