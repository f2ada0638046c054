//! The container image: `packaging/Containerfile` is built from the package on a clean Debian, and
//! its daemon forwards frames in a container with the capabilities of the unit, and no other.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::run::{check, log, output, repo_root};

/// A switch whose socket belongs to its user: the container has no CAP_CHOWN.
const CONFIG: &str = "[switch]\nname = \"image\"\n[port.p1]\ninterface = \"p1\"\n[port.p2]\ninterface = \"p2\"\n\
                      [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n";

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
        let script = "tar --directory \"$0\" --one-file-system --create . | podman import --quiet - \"$1\"";
        let mut import = Command::new("sh");
        import.args(["-ec", script]).arg(root).arg(image.tag("base")).stdout(Stdio::null());
        check(&mut import)?;
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

        let config = std::env::temp_dir().join(format!("{}.toml", self.name));
        fs::write(&config, CONFIG)?;
        let outcome = self.run(&config, unit, switch, a, to, patience);
        fs::remove_file(&config)?;
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
        let capabilities = capabilities(unit)?;
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
            ensure!(Instant::now() < end, "the daemon is not ready:\n{}", self.log()?);
            std::thread::sleep(Duration::from_millis(50));
        }
        output(Command::new("ip").args(["netns", "exec", a, "ping", "-c", "3", "-W", "5", to]))?;
        let version = output(&mut podman(&["exec", &self.name, "sluice", "show", "version"]))?;
        ensure!(version.contains("read and change"), "{version}");
        output(&mut podman(&["stop", "--time", "20", &self.name]))?;
        let code = output(&mut podman(&["inspect", "--format", "{{.State.ExitCode}}", &self.name]))?;
        let log = self.log()?;
        ensure!(code.trim() == "0", "the daemon exited with {}:\n{log}", code.trim());
        ensure!(log.contains("every frame is accounted for") && !log.contains("ERROR"), "{log}");
        Ok(())
    }

    /// Returns what the daemon has logged.
    fn log(&self) -> Result<String> {
        let output = podman(&["logs", &self.name]).output()?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout))
    }
}

/// Returns the capabilities of a unit as podman takes them.
fn capabilities(unit: &str) -> Result<String> {
    let names = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    Ok(names.context("the unit bounds capabilities")?.replace("CAP_", "").replace(' ', ","))
}
