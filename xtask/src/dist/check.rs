//! Checks the package: it is installed on a clean Debian root, its files are where they belong, and
//! the daemon in it forwards frames as the user and with the capabilities of its unit: first as
//! `setpriv` gives the daemon what the unit would, then under systemd, which `systemd-nspawn` boots
//! in that root, with the unit itself ([`crate::dist::boot`]); and in a container
//! ([`crate::dist::image`]).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::boot;
use super::image::{Image, config, unit_setting};
use crate::run::{check, log, output, require_root};

/// Files that the package must have installed.
const FILES: [&str; 11] = [
    "usr/sbin/sluiced",
    "usr/bin/sluice",
    "usr/lib/systemd/system/sluiced.service",
    "usr/lib/sysusers.d/sluice.conf",
    "usr/lib/tmpfiles.d/sluice.conf",
    "usr/share/man/man1/sluice.1.gz",
    "usr/share/man/man8/sluiced.8.gz",
    "usr/share/bash-completion/completions/sluice",
    "usr/share/doc/sluice/copyright",
    "usr/share/doc/sluice/third-party.txt.gz",
    "usr/share/doc/sluice/examples/first.toml",
];

/// How long something may take that takes a moment.
const PATIENCE: Duration = Duration::from_secs(30);

/// The clean root and the namespaces; removed on drop.
struct CleanRoot {
    folder: PathBuf,
    /// `dist` and the process, which begin the names of the namespaces.
    prefix: String,
    daemon: Option<Child>,
}

impl Drop for CleanRoot {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for node in ["sw", "a", "b"] {
            let _ = Command::new("ip").args(["netns", "del", &format!("{}-{node}", self.prefix)]).output();
        }
        for folder in ["proc", "sys"] {
            let _ = Command::new("umount").arg(self.folder.join(folder)).output(); // it may not be mounted
        }
        if self.folder.join("proc/self").exists() || self.folder.join("sys/kernel").exists() {
            eprintln!(
                "{}: /proc or /sys is still mounted there; unmount and remove it",
                self.folder.display()
            );
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

/// Checks a package.
pub fn run(package: &Path, suite: &str) -> Result<()> {
    require_root("checking the package")?;
    lint(package)?;
    let prefix = format!("dist{}", std::process::id());
    let folder = std::env::temp_dir().join(&prefix);
    let mut root = CleanRoot { folder, prefix, daemon: None };
    let image = root.install(package, suite)?;
    for file in FILES {
        ensure!(root.folder.join(file).exists(), "{file} is not installed");
    }
    log("the files are where they belong");
    root.forward()?;
    log("the installed daemon forwards frames as its unit's user, with its unit's capabilities");
    if let Some(image) = image {
        let [switch, a] = ["sw", "a"].map(|node| format!("{}-{node}", root.prefix));
        image.forward(package, &root.unit()?, &switch, &a, "10.99.0.2", PATIENCE)?;
        log("the container image is built, and its daemon forwards frames with the unit's capabilities");
    }
    boot::run(&root.folder, PATIENCE)?;
    log("systemd runs the unit: readiness, reload, watchdog, stop");
    Ok(())
}

/// Runs `lintian`, where it is installed: errors fail.
fn lint(package: &Path) -> Result<()> {
    let lintian = Command::new("lintian").args(["--fail-on", "error", "--allow-root"]).arg(package).output();
    let Ok(found) = lintian else {
        log("lintian is not installed: the package is not linted");
        return Ok(());
    };
    print!("{}", String::from_utf8_lossy(&found.stdout));
    ensure!(found.status.success(), "lintian finds errors");
    Ok(())
}

impl CleanRoot {
    /// Installs the package on a new Debian, which is the base of the container image as well.
    fn install(&self, package: &Path, suite: &str) -> Result<Option<Image>> {
        log(&format!("a clean Debian root ({suite})"));
        let made = Command::new("mmdebstrap")
            .args(["--quiet", "--variant=minbase", suite])
            .arg(&self.folder)
            .status();
        ensure!(
            made.is_ok_and(|status| status.success()),
            "no clean root: it takes mmdebstrap, and a mirror of Debian"
        );
        let image = Image::base(&self.prefix, &self.folder)?;
        for (kind, folder) in [("proc", "proc"), ("sysfs", "sys")] {
            check(Command::new("mount").args(["-t", kind, kind]).arg(self.folder.join(folder)))?;
        }
        fs::copy(package, self.folder.join("tmp/sluice.deb"))?;
        log("installing");
        let script = "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends \
                      /tmp/sluice.deb >/dev/null && getent passwd sluice && getent group sluice && \
                      install -d -m 0755 -o sluice -g sluice /run/sluice"; // RuntimeDirectory=
        let mut install = self.inside(&["sh", "-ec", script]);
        check(install.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C").stdout(Stdio::null()))?;
        Ok(image)
    }

    /// Returns a command in the clean root.
    fn inside(&self, words: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command.arg(&self.folder).args(words);
        command
    }

    /// Returns the installed unit.
    fn unit(&self) -> Result<String> {
        Ok(fs::read_to_string(self.folder.join("usr/lib/systemd/system/sluiced.service"))?)
    }

    /// Forwards frames between two hosts, through the installed daemon.
    fn forward(&mut self) -> Result<()> {
        let [switch, a, b] = ["sw", "a", "b"].map(|node| format!("{}-{node}", self.prefix));
        let ip = |arguments: String| output(Command::new("ip").args(arguments.split_whitespace())).map(drop);
        for namespace in [&switch, &a, &b] {
            ip(format!("netns add {namespace}"))?;
        }
        for (port, host, number) in [("p1", &a, 1), ("p2", &b, 2)] {
            ip(format!("link add {port} netns {switch} type veth peer name eth0 netns {host}"))?;
            ip(format!("-n {switch} link set {port} up"))?;
            ip(format!("-n {host} link set eth0 up"))?;
            ip(format!("-n {host} addr add 10.99.0.{number}/24 dev eth0"))?;
        }
        let config = config("dist", "[control]\ngroup = \"sluice\"\n");
        fs::write(self.folder.join("etc/sluice/sluice.toml"), config)?;
        let words = daemon_as_unit(&self.unit()?, &self.folder)?;
        let log_file = self.folder.join("tmp/sluiced.log");
        let out = fs::File::create(&log_file)?;
        let mut daemon = Command::new("ip");
        daemon.args(["netns", "exec", &switch]).args(&words).stdin(Stdio::null());
        self.daemon = Some(daemon.stdout(out.try_clone()?).stderr(out).spawn()?);
        let ready =
            self.until(|| fs::read_to_string(&log_file).is_ok_and(|log| log.contains("sluiced is ready")));
        ensure!(ready, "the daemon is not ready:\n{}", fs::read_to_string(&log_file)?);
        output(Command::new("ip").args(["netns", "exec", &a, "ping", "-c", "3", "-W", "5", "10.99.0.2"]))?;

        let version = output(&mut self.inside(&["sluice", "show", "version"]))?;
        ensure!(version.contains("read and change"), "{version}");
        let nobody = ["setpriv", "--reuid", "65534", "--regid", "sluice", "--clear-groups", "--"];
        let version = output(&mut self.inside(&[&nobody[..], &["sluice", "show", "version"]].concat()))?;
        ensure!(version.contains("you may read\n"), "a member of the group: {version}");
        let reload = self.inside(&[&nobody[..], &["sluice", "reload"]].concat()).output()?;
        let refused = String::from_utf8_lossy(&reload.stderr);
        ensure!(reload.status.code() == Some(1) && refused.contains("permission denied"), "{refused}");

        let daemon = self.daemon.as_mut().context("it runs")?;
        check(Command::new("kill").arg(daemon.id().to_string()))?;
        let status = daemon.wait()?;
        ensure!(status.success(), "{status}:\n{}", fs::read_to_string(&log_file)?);
        self.daemon = None;
        let lines = fs::read_to_string(&log_file)?;
        ensure!(lines.contains("every frame is accounted for") && !lines.contains("ERROR"), "{lines}");
        Ok(())
    }

    fn until(&mut self, condition: impl Fn() -> bool) -> bool {
        let end = Instant::now() + PATIENCE;
        while !condition() {
            let ended = self.daemon.as_mut().is_some_and(|daemon| !matches!(daemon.try_wait(), Ok(None)));
            if ended || Instant::now() >= end {
                return condition();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    }
}

/// Returns the command line that runs the daemon of a unit as the unit has it: user, group,
/// capabilities.
fn daemon_as_unit(unit: &str, root: &Path) -> Result<Vec<String>> {
    let setting = |name| unit_setting(unit, name);
    if setting("AmbientCapabilities")? != setting("CapabilityBoundingSet")? {
        bail!("the unit gives the daemon other capabilities than it bounds it to");
    }
    let capabilities: Vec<String> = setting("AmbientCapabilities")?
        .split_whitespace()
        .map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    let capabilities = format!("-all,{}", capabilities.join(","));
    let mut words = vec!["chroot".to_owned(), root.display().to_string(), "setpriv".to_owned()];
    for (option, value) in [
        ("--reuid", setting("User")?),
        ("--regid", setting("Group")?),
        ("--inh-caps", &capabilities),
        ("--ambient-caps", &capabilities),
        ("--bounding-set", &capabilities),
    ] {
        words.extend([option.to_owned(), value.to_owned()]);
    }
    words.extend(["--clear-groups", "--no-new-privs", "--"].map(str::to_owned));
    words.extend(setting("ExecStart")?.split_whitespace().map(str::to_owned));
    Ok(words)
}
