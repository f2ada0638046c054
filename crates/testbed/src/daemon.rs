//! `sluiced` under test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use control::frames;
use control::v1::{PfcCount, Port};
use nix::sys::signal::Signal;

use crate::invariants::{lost_on_receipt, pauses_sent};
use crate::netns::Namespace;
use crate::process::Process;
use crate::wait::eventually;
use control::v1::Snapshot;

/// Number of daemons started by this process, for unique file names.
static DAEMONS: AtomicU32 = AtomicU32::new(0);

/// A real switch has a machine to itself. Here the daemon shares its cores with its hosts and other
/// processes, and a loop that waits for one of them stalls in a way that no test intended.
const NICENESS: &str = "-20";

/// Environment variables for `[dataplane]` settings of all daemons whose configurations lack them:
/// the cores, such as `0,1`, to run any test on several cores; and `zero_copy`, such as `emulate`,
/// to run any test with port-owned memory.
const CORES: &str = "SLUICE_TEST_CORES";
const ZERO_COPY: &str = "SLUICE_TEST_ZERO_COPY";

/// Returns the configuration with this line in `[table]`, unless it has such a line.
fn with_line(config: &str, table: &str, name: &str, value: Option<String>) -> String {
    let is_named = config.lines().any(|line| line.trim_start().starts_with(&format!("{name} = ")));
    let Some(value) = value.filter(|_| !is_named) else { return config.to_owned() };
    let heading = format!("[{table}]\n");
    let lines = format!("{heading}{name} = {value}\n");
    match config.contains(&heading) {
        true => config.replacen(&heading, &lines, 1),
        false => format!("{config}\n\n{lines}"),
    }
}

/// Returns the configuration with the settings from the environment. LLDP is off unless the
/// configuration mentions it, so that only frames of the test are on the cables.
fn with_environment(config: &str) -> String {
    let cores = std::env::var(CORES).ok().map(|cores| format!("[{cores}]"));
    let zero_copy = std::env::var(ZERO_COPY).ok().map(|word| format!("\"{word}\""));
    let config = with_line(config, "dataplane", "cores", cores);
    let config = with_line(&config, "dataplane", "zero_copy", zero_copy);
    with_line(&config, "port-defaults", "lldp", Some("\"off\"".to_owned()))
}

/// A running daemon, killed on drop.
#[derive(Debug)]
pub struct Daemon {
    process: Process,
    namespace: Namespace,
    /// Kernel counters of each interface at the start of the daemon.
    before: BTreeMap<String, Packets>,
    socket: PathBuf,
    config: PathBuf,
}

/// Returns the path of a program of this project, in `SLUICE_BIN_DIR` if that is set, or else
/// beside this program, among the examples, in the `sbin` beside its folder, where a package has
/// the daemon, or in `PATH`.
pub fn binary(name: &str) -> Result<PathBuf> {
    let dirs = match std::env::var_os("SLUICE_BIN_DIR") {
        Some(dir) => vec![PathBuf::from(dir)],
        None => {
            let here = std::env::current_exe()?;
            let dir = here.parent().context("a program lies in a directory")?;
            let dir = if dir.ends_with("deps") { dir.join("..") } else { dir.to_path_buf() };
            let mut dirs = vec![dir.clone(), dir.join("examples"), dir.join("../sbin")];
            dirs.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
            dirs
        }
    };
    first_with(&dirs, name)
}

/// Returns the program in the first of the folders that has it.
fn first_with(dirs: &[PathBuf], name: &str) -> Result<PathBuf> {
    let found = dirs.iter().map(|dir| dir.join(name)).find(|path| path.is_file());
    found.with_context(|| {
        let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        format!(
            "there is no {name} in {}: install it, or build it with `cargo build --workspace`",
            dirs.join(", ")
        )
    })
}

impl Daemon {
    /// Writes a configuration with its own control socket, and starts a daemon with it, which may
    /// not be ready yet. `under` is a wrapper program with its arguments, or empty.
    pub fn launch(namespace: &Namespace, dir: &Path, under: &[&str], config: &str) -> Result<Self> {
        let number = DAEMONS.fetch_add(1, Ordering::Relaxed);
        let config = with_environment(config);
        let socket = dir.join(format!("{number}.sock"));
        let file = dir.join(format!("{number}.toml"));
        std::fs::write(
            &file,
            format!("{config}\n\n[control]\nsocket = {:?}\n", socket.display().to_string()),
        )?;
        Self::start(namespace, under, &file, &socket)
    }

    /// Starts a daemon on an existing configuration file that names this control socket. The daemon
    /// may not be ready yet.
    pub fn on_file(namespace: &Namespace, config: &Path, socket: &Path) -> Result<Self> {
        Self::start(namespace, &[], config, socket)
    }

    fn start(namespace: &Namespace, under: &[&str], config: &Path, socket: &Path) -> Result<Self> {
        let mut command = namespace.command("nice");
        command.args(["-n", NICENESS]).args(under).arg(binary("sluiced")?);
        command.arg("--config").arg(config).env("NO_COLOR", "1");
        let before = packets(namespace)?;
        let process = Process::start("sluiced", &mut command)?;
        let namespace = namespace.clone();
        Ok(Self { process, namespace, before, socket: socket.to_path_buf(), config: config.to_path_buf() })
    }

    /// Waits until the daemon forwards.
    pub fn ready(mut self) -> Result<Self> {
        self.process
            .wait_for("`sluiced is ready`", |line| line.contains("sluiced is ready").then_some(()))?;
        Ok(self)
    }

    /// Returns the path of the control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the path of the configuration file.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// Returns the process, for its output and signals.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Takes a snapshot of the whole switch.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let snapshot =
            control::BlockingClient::connect(&self.socket).and_then(|mut client| client.snapshot());
        snapshot.with_context(|| format!("no snapshot from the daemon\n{}", self.process.log()))
    }

    /// Polls snapshots until `check` returns a value.
    pub fn until<T>(&self, what: &str, mut check: impl FnMut(&Snapshot) -> Option<T>) -> Result<T> {
        let mut last = None;
        let found = eventually(what, || {
            let snapshot = self.snapshot()?;
            let found = check(&snapshot);
            last = Some(snapshot);
            Ok(found)
        });
        found.with_context(|| format!("{last:#?}\n{}", self.process.log()))
    }

    /// Waits until this many frames have been received, on as many ports as can be: a test host
    /// announces itself once, when it can receive; several may be behind another switch. That the
    /// switch knows an address does not show it, as the kernel may have named it.
    ///
    /// # Errors
    /// As [`until`](Self::until).
    pub fn until_announced(&self, hosts: u64) -> Result<()> {
        self.until("every host has announced itself", |now| {
            let received = now.ports.iter().map(|port| frames(port.received));
            let ports = received.clone().filter(|&frames| frames > 0).count() as u64;
            let is_enough = ports >= hosts.min(now.ports.len() as u64) && received.sum::<u64>() >= hosts;
            is_enough.then_some(())
        })
    }

    /// Waits until, on every port that is up, the kernel's frame counts equal the switch's, since
    /// the last XON may still be in flight. Valid only if nothing arrived before the daemon was
    /// ready, and nothing arrives now.
    pub fn kernel_agrees(&self) -> Result<()> {
        let mut disagreement = None;
        let agreed = eventually("switch and kernel agree", || match self.compare(&self.snapshot()?)? {
            None => Ok(Some(())),
            some => {
                disagreement = some;
                Ok(None)
            }
        });
        agreed.with_context(|| disagreement.unwrap_or_default())
    }

    /// Returns the first difference between the kernel's counts and the switch's.
    fn compare(&self, snapshot: &Snapshot) -> Result<Option<String>> {
        let now = packets(&self.namespace)?;
        for port in snapshot.ports.iter().filter(|port| port.up) {
            let of = |packets: &BTreeMap<String, Packets>| packets.get(&port.interface).copied();
            let before = of(&self.before).context("the interface was there at the start")?;
            let after = of(&now).context("the interface is there")?;
            let counted = counted(port);
            let mut seen = Packets {
                received: after.received.wrapping_sub(before.received),
                sent: after.sent.wrapping_sub(before.sent),
            };
            // Drivers count zero-copy frames differently: virtio does not count those that it
            // sends, igb counts all from zero once such sockets exist.
            if let Some(link) = port.link.as_ref().filter(|link| link.zero_copy) {
                seen.sent = counted.sent;
                if link.driver == "igb" {
                    seen.received = counted.received;
                }
            }
            if seen != counted {
                let what = format!("{}: the kernel saw {seen:?}, the switch {counted:?}", port.name);
                return Ok(Some(what));
            }
        }
        Ok(None)
    }

    /// Stops the daemon cleanly with SIGTERM and returns its output, including the totals. Fails if
    /// the exit status is not 0.
    pub fn stop(mut self) -> Result<String> {
        self.process.signal(Signal::SIGTERM)?;
        let status = self.process.wait(Duration::ZERO)?;
        if !status.success() {
            bail!("sluiced stopped with {status}\n{}", self.process.log());
        }
        Ok(self.process.log())
    }

    /// Kills the daemon with SIGKILL, as in a crash.
    pub fn kill9(mut self) -> Result<()> {
        self.process.signal(Signal::SIGKILL)?;
        self.process.wait(Duration::ZERO).map(drop)
    }

    /// Waits for a daemon that must fail and returns its output. Fails if it exits with status 0.
    pub fn failure(mut self) -> Result<String> {
        let status = self.process.wait(Duration::ZERO)?;
        ensure!(
            status.code().is_some_and(|code| code != 0),
            "sluiced ended with {status}\n{}",
            self.process.log()
        );
        Ok(self.process.log())
    }
}

/// Frame counts of an interface, of all kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packets {
    received: u64,
    sent: u64,
}

/// Returns the switch's counts of a port: data, pauses of both kinds, LLDP, and frames that the
/// kernel lost on receipt.
fn counted(port: &Port) -> Packets {
    let pfc = |count: &Option<PfcCount>| count.as_ref().map_or(0, |count| count.frames);
    let control = pfc(&port.pfc_received) + port.pfc_malformed_frames + port.pause_received_frames;
    let lldp_sent = port.lldp.as_ref().map_or(0, |lldp| lldp.sent_frames);
    Packets {
        received: frames(port.received) + control + port.lldp_received_frames + lost_on_receipt(port),
        sent: frames(port.transmitted) + pauses_sent(port) + lldp_sent,
    }
}

/// Returns the kernel's counts of every interface of a namespace.
fn packets(namespace: &Namespace) -> Result<BTreeMap<String, Packets>> {
    let links: serde_json::Value = serde_json::from_str(&namespace.ip("-s -j link show")?)?;
    let links = links.as_array().context("a list of interfaces")?;
    let of_link = |link: &serde_json::Value| {
        let name = link["ifname"].as_str()?.to_string();
        let packets = |direction: &str| link["stats64"][direction]["packets"].as_u64();
        Some((name, Packets { received: packets("rx")?, sent: packets("tx")? }))
    };
    links.iter().map(|link| of_link(link).context("name and counters of an interface")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_taken_from_the_first_folder_that_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let dirs = ["bin", "sbin"].map(|dir| folder.path().join(dir));
        dirs.iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
        let missing = first_with(&dirs, "sluiced").unwrap_err().to_string();
        let both = format!("no sluiced in {}, {}:", dirs[0].display(), dirs[1].display());
        assert!(missing.contains(&both), "{missing}");
        for dir in dirs.iter().rev() {
            std::fs::write(dir.join("sluiced"), "").unwrap();
            assert_eq!(first_with(&dirs, "sluiced").unwrap(), dir.join("sluiced"));
        }
    }

    #[test]
    fn any_configuration_takes_settings_of_the_environment() {
        for (config, value, expected) in [
            ("[port.a]\n", None, "[port.a]\n"),
            ("[port.a]\n", Some("[0,1]"), "[port.a]\n\n\n[dataplane]\ncores = [0,1]\n"),
            (
                "[dataplane]\noverload = \"drop\"\n",
                Some("[1]"),
                "[dataplane]\ncores = [1]\noverload = \"drop\"\n",
            ),
            ("[dataplane]\ncores = [0]\n", Some("[0,1]"), "[dataplane]\ncores = [0]\n"),
        ] {
            assert_eq!(with_line(config, "dataplane", "cores", value.map(str::to_owned)), expected);
        }
    }
}
