//! What counters were when a user cleared them: `sluice clear counters`, as SONiC's `sonic-clear
//! counters`.
//!
//! Rule: the switch goes on counting, and so do telemetry, metrics and all other users. The
//! snapshot of that moment is kept in a file of the user, one for each daemon, and `sluice show`
//! subtracts it, except with --absolute. It is for one run of the daemon only, which is known by
//! its boot and its start on CLOCK_MONOTONIC: the clock of the day may be set meanwhile.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use control::Client;
use control::v1::{Info, Snapshot};
use nix::time::{ClockId, clock_gettime};

/// Counters of a daemon at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// Which run of the daemon: a process number may come again.
    start: DaemonStart,
    snapshot: Snapshot,
}

/// When a daemon started.
#[derive(Debug, Clone, Copy, PartialEq)]
struct DaemonStart {
    /// The kernel's identity of the boot, a UUID; zeros where it has none.
    boot: [u8; 36],
    /// Seconds of CLOCK_MONOTONIC.
    monotonic_s: u64,
}

/// How far two readings of the same start may be apart.
const SAME_START_S: u64 = 2;
/// The file of the kernel with the identity of the boot: random(4).
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

impl DaemonStart {
    /// Returns that of the daemon which says this of itself.
    fn of(info: &Info) -> Self {
        let boot = std::fs::read(BOOT).ok().and_then(|id| id.first_chunk().copied()).unwrap_or([0; 36]);
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
        Self { boot, monotonic_s: now.saturating_sub(Duration::from_nanos(info.uptime_ns)).as_secs() }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.boot == other.boot && self.monotonic_s.abs_diff(other.monotonic_s) <= SAME_START_S
    }

    fn to_bytes(self) -> Vec<u8> {
        [&self.boot[..], &self.monotonic_s.to_le_bytes()].concat()
    }

    /// Returns it with the bytes that follow.
    fn take(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (boot, rest) = bytes.split_first_chunk()?;
        let (monotonic_s, rest) = rest.split_first_chunk()?;
        Some((Self { boot: *boot, monotonic_s: u64::from_le_bytes(*monotonic_s) }, rest))
    }
}

impl Baseline {
    /// Takes the counters of now.
    pub async fn take(client: &mut Client) -> Result<Self> {
        let start = DaemonStart::of(&client.info().await?);
        Ok(Self { start, snapshot: client.snapshot().await? })
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
        let mut bytes = self.start.to_bytes();
        bytes.extend(self.snapshot.to_bytes());
        // Another command of this user may be reading it.
        let new = file.with_extension("new");
        std::fs::write(&new, bytes)
            .and_then(|()| std::fs::rename(&new, &file))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Returns the counters that this user has cleared of the daemon on `socket`, which says this
    /// of itself; `None` if none are.
    pub fn load(socket: &Path, info: &Info) -> Option<Self> {
        let bytes = std::fs::read(file_of(socket).ok()?).ok()?;
        let (start, rest) = DaemonStart::take(&bytes)?;
        let snapshot = Snapshot::from_bytes(rest)?;
        start.is_same(&DaemonStart::of(info)).then_some(Self { start, snapshot })
    }

    /// True if this user has cleared counters of the daemon on `socket`, or of one before it.
    pub fn is_there(socket: &Path) -> bool {
        file_of(socket).is_ok_and(|file| file.exists())
    }

    /// Removes the file of this user; the counters count from the start of the daemon again.
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
    /// After ports were removed, those that are there count from the start: one of them may have
    /// come again, and its losses would be hidden.
    pub fn relative(&self, mut now: Snapshot) -> Snapshot {
        let removed = |of: &Snapshot| of.removed_ports.as_ref().map_or(0, |removed| removed.ports);
        if now.at_ns < self.snapshot.at_ns {
            return now;
        }
        if removed(&now) == removed(&self.snapshot) {
            now.subtract(&self.snapshot);
        } else {
            now.subtract(&Snapshot { ports: Vec::new(), ..self.snapshot.clone() });
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
    fn a_run_of_the_daemon_is_known_by_its_boot_and_its_start() {
        let uptime = |seconds: u64| Info { uptime_ns: seconds * 1_000_000_000, ..Info::default() };
        let start = DaemonStart::of(&uptime(0));
        assert!(start.boot != [0; 36] && start.is_same(&DaemonStart::of(&uptime(0))));
        assert!(!start.is_same(&DaemonStart { monotonic_s: start.monotonic_s + 3, ..start }), "restarted");
        assert!(!start.is_same(&DaemonStart { boot: [b'0'; 36], ..start }), "another boot");
        let bytes = [start.to_bytes(), vec![7]].concat();
        assert_eq!(DaemonStart::take(&bytes), Some((start, &[7][..])));
        assert_eq!(DaemonStart::take(&bytes[..43]), None);
    }

    #[test]
    fn counters_are_relative_and_levels_are_not() {
        let start = DaemonStart { boot: [0; 36], monotonic_s: 1 };
        let baseline = Baseline { start, snapshot: sample::snapshot() };
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
        let mut without_a_port = sample::later();
        without_a_port.removed_ports.as_mut().unwrap().ports += 1;
        assert_eq!(received(&baseline.relative(without_a_port)), 1_200_000, "a port may have come again");
    }
}
