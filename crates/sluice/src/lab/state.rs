//! What a lab has made, in a file: so that it can be removed by a later command, also if the one
//! that built it was killed.
//!
//! Rule: a name is written before what has it is made, and only names that nothing had before are.
//! A process is identified by its id and its start time.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use testbed::{Namespace, eventually};

use crate::exit::misuse;

/// Folder of the labs; each has a folder of its name.
pub const FOLDER: &str = "/run/sluice/lab";

/// A lab.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    /// Name of the lab.
    pub name: String,
    /// The scenario, with its whole path.
    pub file: PathBuf,
    /// Process that builds the lab, or runs its traffic.
    pub owner: Process,
    /// In the order of the scenario.
    pub switches: Vec<Switch>,
    /// In the order of the scenario, which numbers their addresses.
    pub hosts: Vec<Host>,
}

/// A switch of a lab.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Switch {
    /// Its name in the scenario.
    pub name: String,
    /// Its network namespace.
    pub namespace: String,
    /// Control socket of its daemon.
    pub socket: PathBuf,
    /// Log of its daemon.
    pub log: PathBuf,
    /// Its daemon, once that was started.
    pub daemon: Option<Process>,
}

/// A host of a lab.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Host {
    /// Its name in the scenario.
    pub name: String,
    /// Its network namespace, with one interface: `eth0`.
    pub namespace: String,
    /// Its hardware address.
    pub mac: String,
    /// Its IPv4 address.
    pub ipv4: String,
}

/// A process that may have ended, and whose id another one may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// When it started, in clock ticks after the boot.
    started: u64,
}

impl Process {
    /// Returns the process with this id.
    pub fn of(pid: u32) -> Self {
        Self { pid: pid as i32, started: start_time(pid as i32).unwrap_or(0) }
    }

    /// True if it runs.
    pub fn is_running(self) -> bool {
        self.pid > 0 && start_time(self.pid) == Some(self.started)
    }

    /// Ends it: first cleanly.
    fn end(self) {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            if self.is_running() && kill(Pid::from_raw(self.pid), signal).is_ok() {
                let ended = eventually("a process has ended", || Ok((!self.is_running()).then_some(())));
                drop(ended);
            }
        }
    }
}

/// Returns when a process started; `None` if it has ended.
fn start_time(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18)?.parse().ok())?
}

impl State {
    /// Returns the folder of a lab.
    pub fn folder(name: &str) -> PathBuf {
        Path::new(FOLDER).join(name)
    }

    /// Writes the file, as a whole.
    pub fn save(&self) -> Result<()> {
        let folder = Self::folder(&self.name);
        let (new, file) = (folder.join("state.new"), folder.join("state.json"));
        fs::write(&new, serde_json::to_string_pretty(self)?)
            .and_then(|()| fs::rename(&new, &file))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Reads the file of a lab.
    pub fn load(name: &str) -> Result<Self> {
        let file = Self::folder(name).join("state.json");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{}: not written by this sluice", file.display()))
    }

    /// Returns the names of all labs.
    pub fn names() -> Vec<String> {
        let folders = fs::read_dir(FOLDER).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            folders.map(|folder| folder.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Returns the lab of this name, or the only one.
    pub fn find(name: Option<&str>) -> Result<Self> {
        let names = Self::names();
        match (name, names.as_slice()) {
            (Some(name), _) if names.iter().any(|it| it == name) => Self::load(name),
            (Some(name), []) => {
                misuse(format!("there is no lab {name}: none is up; `sluice lab up FILE` builds one"))
            }
            (Some(name), _) => misuse(format!("there is no lab {name}: these are up: {}", names.join(", "))),
            (None, [only]) => Self::load(only),
            (None, []) => misuse("no lab is up; `sluice lab up FILE` builds one"),
            (None, _) => misuse(format!("which lab? Name one of these: {}", names.join(", "))),
        }
    }

    /// Returns all network namespaces.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        let switches = self.switches.iter().map(|switch| &switch.namespace);
        switches.chain(self.hosts.iter().map(|host| &host.namespace)).map(String::as_str)
    }

    /// Removes everything. Continues after an error, and returns the first.
    pub fn remove(&self) -> Result<()> {
        for daemon in self.switches.iter().filter_map(|switch| switch.daemon) {
            daemon.end();
        }
        let mut first = Ok(());
        for name in self.namespaces() {
            let namespace = Namespace::existing(name);
            if namespace.is_there() {
                first = first.and(namespace.end_processes().and_then(|()| namespace.remove()));
            }
        }
        let folder = Self::folder(&self.name);
        first.and(fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_more_than_its_id() {
        let own = Process::of(std::process::id());
        assert!(own.is_running());
        assert!(!Process { started: own.started + 1, ..own }.is_running(), "another one with its id");
        assert!(!Process::default().is_running());
    }
}
