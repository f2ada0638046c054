//! What a lab has made, in a file: so that it can be removed by a later command, also if the one
//! that built it was killed.
//!
//! Rule: a name is written before what has it is made, and only names that nothing had before are.
//! A process is identified by its id and its start time.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use testbed::{Namespace, eventually};

use crate::exit::misuse;

/// Folder of the labs; each has a folder of its name. Not below the folder of control sockets,
/// which is another user's.
const FOLDER: &str = "/run/sluice-lab";

/// A lab.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// Fails unless only root, or the user of this program, can have written what is in this folder: it
/// names processes to end, and files to remove.
fn must_be_own(folder: &Path) -> Result<()> {
    let meta = fs::symlink_metadata(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let is_own = meta.uid() == 0 || meta.uid() == geteuid().as_raw();
    ensure!(
        meta.is_dir() && is_own && meta.mode() & 0o022 == 0,
        "{}: it must be a folder, no symbolic link, that belongs to root, and that only root can write: remove it",
        folder.display()
    );
    Ok(())
}

/// Returns the names of the folders in the folder of the labs, which may be missing.
fn folders(labs: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(labs) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(error).with_context(|| format!("{}: labs belong to root", labs.display()));
        }
        entries => entries.with_context(|| format!("cannot read {}", labs.display()))?,
    };
    must_be_own(labs)?;
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<String> =
        folders.map(|folder| folder.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Reads the file of a lab in the folder of the labs. A lab whose builder was killed before it
/// wrote one is empty. The name is that of the folder, whatever the file says.
fn load_from(labs: &Path, name: &str) -> Result<State> {
    let file = labs.join(name).join("state.json");
    let name = name.to_owned();
    let text = match fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(State { name, ..State::default() }),
        text => text.with_context(|| format!("cannot read {}", file.display()))?,
    };
    let state: State = serde_json::from_str(&text)
        .with_context(|| format!("{}: not written by this sluice", file.display()))?;
    Ok(State { name, ..state })
}

impl State {
    /// Makes the folder of the labs.
    pub fn make_folder() -> Result<()> {
        match fs::DirBuilder::new().mode(0o700).create(FOLDER) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => must_be_own(Path::new(FOLDER)),
            made => made.with_context(|| format!("cannot make {FOLDER}, the folder of the labs")),
        }
    }

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
        load_from(Path::new(FOLDER), name)
    }

    /// Returns the names of all labs.
    pub fn names() -> Result<Vec<String>> {
        folders(Path::new(FOLDER))
    }

    /// Returns the lab of this name, or the only one.
    pub fn find(name: Option<&str>) -> Result<Self> {
        let names = Self::names()?;
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

    /// Removes everything. Continues after an error, and returns the first; the folder, which says
    /// what there is, then stays.
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
        first?;
        let folder = Self::folder(&self.name);
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
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

    #[test]
    fn labs_are_read_from_a_folder_that_only_root_can_write() {
        let parent = tempfile::tempdir().unwrap();
        let labs = parent.path().join("labs");
        assert!(folders(&labs).unwrap().is_empty(), "none was ever built");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(labs.join("b")).unwrap();
        fs::create_dir(labs.join("a")).unwrap();
        std::os::unix::fs::symlink("/", labs.join("elsewhere")).unwrap();
        assert_eq!(folders(&labs).unwrap(), ["a", "b"]);

        let link = parent.path().join("link");
        std::os::unix::fs::symlink(&labs, &link).unwrap();
        let error = folders(&link).unwrap_err().to_string();
        assert!(error.contains("it must be a folder, no symbolic link"), "{error}");
        if geteuid().is_root() {
            std::os::unix::fs::chown(&labs, Some(65534), None).unwrap();
            let error = folders(&labs).unwrap_err().to_string();
            assert!(error.contains("that belongs to root"), "{error}");
        }
    }

    #[test]
    fn a_lab_has_the_name_of_its_folder() {
        let labs = tempfile::tempdir().unwrap();
        fs::create_dir(labs.path().join("x")).unwrap();
        let empty = load_from(labs.path(), "x").unwrap();
        assert_eq!((&*empty.name, empty.switches.len()), ("x", 0), "its builder was killed early");

        let state = State { name: "../../etc".to_owned(), file: "f.toml".into(), ..State::default() };
        fs::write(labs.path().join("x/state.json"), serde_json::to_string(&state).unwrap()).unwrap();
        let read = load_from(labs.path(), "x").unwrap();
        assert_eq!((&*read.name, read.file), ("x", state.file));
    }
}
