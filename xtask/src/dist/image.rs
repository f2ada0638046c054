//! The container image: `packaging/Containerfile` is built from the package on a clean Debian, and
//! its daemon forwards frames in a container with the capabilities of the unit, and no other.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::run::{check, log, output, repo_root};

/// The images and the container of a check; removed on drop.
pub struct Image {
    /// Name of the container, and of both images up to a suffix.
    name: String,
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = podman(&["rm", "--force", &self.name]).output();
        let _ = podman(&["rmi", "--force", &self.tag("image"), &self.tag("base")]).output();
    }
}

fn podman(words: &[&str]) -> Command {
    let mut podman = Command::new("podman");
    podman.args(words).stdin(Stdio::null());
    podman
}

impl Image {
    /// Makes the base image of a clean root; `None` without podman.
    pub fn base(name: &str, root: &Path) -> Result<Option<Self>> {
        if podman(&["--version"]).output().is_err() {
            log("podman is not installed: the image is not built");
            return Ok(None);
        }
        let image = Self { name: name.to_owned() };
        let mut tar = Command::new("tar");
        tar.arg("--directory").arg(root).args(["--one-file-system", "--create", "."]);
        let mut tar = tar.stdout(Stdio::piped()).spawn().context("cannot run tar")?;
        let mut import = podman(&["import", "--quiet", "-", &image.tag("base")]);
        let imported = check(import.stdin(tar.stdout.take().context("a pipe")?).stdout(Stdio::null()));
        drop(import); // its end of the pipe: tar ends if podman did
        let archived = tar.wait()?;
        imported?;
        ensure!(archived.success(), "tar of {} failed ({archived})", root.display());
        Ok(Some(image))
    }

    fn tag(&self, what: &str) -> String {
        format!("localhost/{}-{what}", self.name)
    }

    /// Builds the image, and runs it on ports `p1` and `p2` of namespace `switch`, behind which
    /// host `a` reaches `to`.
    pub fn forward(
        &self,
        package: &Path,
        unit: &str,
        switch: &str,
        a: &str,
        to: &str,
        patience: Duration,
    ) -> Result<()> {
        log("building the container image");
        let folder = package.parent().context("a folder")?;
        let recipe = repo_root().join("packaging/Containerfile");
        let base = format!("BASE={}", self.tag("base"));
        let mut build = podman(&["build", "--quiet", "--isolation=chroot", "--network=host", "--pull=never"]);
        build.args(["--build-arg", &base, "--tag", &self.tag("image"), "--file"]).arg(recipe).arg(folder);
        check(build.stdout(Stdio::null()))?;

        let file = std::env::temp_dir().join(format!("{}.toml", self.name));
        fs::write(&file, config("image", ""))?; // the socket is its user's: there is no CAP_CHOWN
        let outcome = self.run(&file, unit, switch, a, to, patience);
        fs::remove_file(&file)?;
        outcome
    }

    fn run(
        &self,
        config: &Path,
        unit: &str,
        switch: &str,
        a: &str,
        to: &str,
        patience: Duration,
    ) -> Result<()> {
        let capabilities = unit_setting(unit, "CapabilityBoundingSet")?.replace("CAP_", "").replace(' ', ",");
        let mut run = podman(&["run", "--detach", "--pull=never", "--name", &self.name, "--cap-drop=all"]);
        run.arg(format!("--cap-add={capabilities}")).arg(format!("--network=ns:/run/netns/{switch}"));
        run.arg("--volume").arg(format!("{}:/etc/sluice/sluice.toml:ro", config.display()));
        // By default podman raises these, which it may not where it is in a container itself.
        run.args(["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"]);
        // Older profiles refuse bpf(2) without CAP_SYS_ADMIN: docs/service.md, "A container image".
        run.args(["--security-opt", "seccomp=unconfined"]);
        output(run.arg(self.tag("image")))?;
        let end = Instant::now() + patience;
        while !self.log()?.contains("sluiced is ready") {
            let is_late = Instant::now() >= end;
            ensure!(
                !is_late && self.inspect("{{.State.Running}}")? == "true",
                "the daemon is not ready:\n{}",
                self.log()?
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        output(Command::new("ip").args(["netns", "exec", a, "ping", "-c", "3", "-W", "5", to]))?;
        let version = output(&mut podman(&["exec", &self.name, "sluice", "show", "version"]))?;
        ensure!(version.contains("read and change"), "{version}");
        output(&mut podman(&["stop", "--time", "20", &self.name]))?;
        let code = self.inspect("{{.State.ExitCode}}")?;
        let log = self.log()?;
        ensure!(code == "0", "the daemon exited with {code}:\n{log}");
        ensure!(log.contains("every frame is accounted for") && !log.contains("ERROR"), "{log}");
        Ok(())
    }

    /// Returns a property of the container.
    fn inspect(&self, format: &str) -> Result<String> {
        let text = output(&mut podman(&["inspect", "--format", format, &self.name]))?;
        Ok(text.trim().to_owned())
    }

    /// Returns what the daemon has logged.
    fn log(&self) -> Result<String> {
        let output = podman(&["logs", &self.name]).output()?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout))
    }
}

/// Returns the file of a switch of two ports, with further tables in the middle.
pub fn config(name: &str, tables: &str) -> String {
    format!(
        "[switch]\nname = \"{name}\"\n{tables}[port.p1]\ninterface = \"p1\"\n[port.p2]\ninterface = \"p2\"\n\
         [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n"
    )
}

/// Returns the value of a setting of a unit.
pub fn unit_setting<'u>(unit: &'u str, name: &str) -> Result<&'u str> {
    let line = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.with_context(|| format!("the unit has no {name}"))
}
