//! What counters were when a user cleared them: `sluice clear counters`, as SONiC's `sonic-clear
//! counters`.
//!
//! Rule: the switch goes on counting, and so do telemetry, metrics and all other users. The
//! snapshot of that moment is kept in a file of the user, one for each daemon, and `sluice show`
//! subtracts it, except with --absolute. It is for one run of the daemon only.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use control::Client;
use control::v1::Snapshot;

/// Counters of a daemon at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// The process of the daemon.
    pid: u32,
    snapshot: Snapshot,
}

impl Baseline {
    /// Takes the counters of now.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub async fn take(client: &mut Client) -> Result<Self> {
        Ok(Self { pid: client.info().await?.pid, snapshot: client.snapshot().await? })
    }

    /// Writes them to the file of this user for the daemon on `socket`.
    ///
    /// # Errors
    /// There is no place for the file, or it cannot be written.
    pub fn save(&self, socket: &Path) -> Result<()> {
        let file = file_of(socket)?;
        let folder = file.parent().unwrap_or(Path::new("/"));
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("cannot make {}, where cleared counters are kept", folder.display()))?;
        let mut bytes = self.pid.to_le_bytes().to_vec();
        bytes.extend(self.snapshot.to_bytes());
        std::fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Returns the counters that this user has cleared of the daemon on `socket`, which is process
    /// `pid`; `None` if none are.
    pub fn load(socket: &Path, pid: u32) -> Option<Self> {
        let bytes = std::fs::read(file_of(socket).ok()?).ok()?;
        let (its_pid, rest) = bytes.split_first_chunk()?;
        let snapshot = Snapshot::from_bytes(rest)?;
        (u32::from_le_bytes(*its_pid) == pid).then_some(Self { pid, snapshot })
    }

    /// True if this user has cleared counters of the daemon on `socket`, or of one before it.
    pub fn is_there(socket: &Path) -> bool {
        file_of(socket).is_ok_and(|file| file.exists())
    }

    /// Removes the file of this user; the counters count from the start of the daemon again.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn forget(socket: &Path) -> Result<()> {
        let file = file_of(socket)?;
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.with_context(|| format!("cannot remove {}", file.display())),
        }
    }

    /// When they were cleared, as `at_ns` of a snapshot.
    pub fn at_ns(&self) -> u64 {
        self.snapshot.at_ns
    }

    /// Returns the counters of `now` since they were cleared; a snapshot of another start as it is.
    pub fn relative(&self, mut now: Snapshot) -> Snapshot {
        if now.at_ns >= self.snapshot.at_ns {
            now.subtract(&self.snapshot);
        }
        now
    }
}

/// Returns the file of this user for the daemon on `socket`.
fn file_of(socket: &Path) -> Result<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let state = folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")));
    let state = state.context("neither HOME nor XDG_STATE_HOME says where cleared counters are kept")?;
    let socket = std::path::absolute(socket).unwrap_or_else(|_| socket.to_path_buf());
    let name = socket.display().to_string().replace('%', "%25").replace('/', "%");
    Ok(state.join("sluice").join(format!("{name}.counters")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

    #[test]
    fn counters_are_relative_and_levels_are_not() {
        let baseline = Baseline { pid: 1, snapshot: sample::snapshot() };
        let (now, absolute) = (baseline.relative(sample::later()), sample::later());
        let received = |snapshot: &Snapshot| snapshot.ports[0].received.unwrap().frames;
        assert_eq!((received(&now), received(&absolute)), (200_000, 1_200_000));
        assert!(now.ports[0].drops.values().all(|drops| drops.frames == 0));
        assert_eq!(now.ports[0].pfc_sent.as_ref().unwrap().xoff_frames, [0; 8]);
        assert_eq!(now.loop_turns_by_time[..4], [499_999, 0, 0, 1]);
        assert_eq!(now.ports[1].queues[2].level, absolute.ports[1].queues[2].level);
        assert_eq!(now.ports[1].queues[2].waiting_frames, 106);
        assert_eq!(now.ports[1].storms, absolute.ports[1].storms);
        assert_eq!((now.at_ns, now.ports[0].speed_bps), (absolute.at_ns, 25_000_000_000));
        let restarted = Snapshot { at_ns: 5, ..sample::snapshot() };
        assert_eq!(baseline.relative(restarted.clone()), restarted);
    }
}
