//! How long a loop stalls on this machine: as reported by the running daemon, or measured by a loop
//! that spins.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use crate::socket::Daemon;

/// How long a loop spins by default.
pub const SPIN: Duration = Duration::from_secs(2);

/// The longest delay of a loop, and its source.
pub struct Stall {
    /// The delay in nanoseconds.
    pub ns: u64,
    /// Source of the figure.
    pub source: Source,
}

/// Source of the figure for the delay of a loop.
pub enum Source {
    /// The daemon on this socket.
    Daemon(PathBuf),
    /// A loop that spun here for this time.
    Spin(Duration),
    /// An option of the command line.
    Option,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Daemon(socket) => write!(f, "the longest of the daemon on {}", socket.display()),
            Source::Spin(duration) => {
                let seconds = duration.as_secs_f64();
                write!(f, "the longest of a loop that spun here for {seconds} s; no daemon was queried")
            }
            Source::Option => f.write_str("from --stall-us"),
        }
    }
}

impl Stall {
    /// Asks the daemon that is named, or else the one that runs one of these files; `None` if none
    /// is named, and none that answers runs one.
    pub fn known(daemon: &Daemon, files: &[PathBuf]) -> Result<Option<Self>> {
        if daemon.is_named() {
            return query(daemon).map(Some);
        }
        let runs_one = |info: &control::v1::Info| {
            let its_file = Path::new(&info.config).canonicalize();
            its_file
                .is_ok_and(|its| files.iter().any(|file| file.canonicalize().is_ok_and(|file| file == its)))
        };
        let info = daemon.talk(async |client| Ok(client.info().await?));
        Ok(if info.is_ok_and(|info| runs_one(&info)) { query(daemon).ok() } else { None })
    }

    /// Asks the daemon, or, if none is named and none answers, spins for `spin`.
    pub fn measure(daemon: &Daemon, spin: Duration) -> Result<Self> {
        match query(daemon) {
            Ok(stall) => Ok(stall),
            // A named socket means that daemon, rather than any loop.
            Err(error) if daemon.is_named() => Err(error),
            Err(error) => {
                eprintln!("sluice: measuring here for {} s: {error:#}", spin.as_secs_f64());
                Ok(Self { ns: xdp::longest_gap(spin).as_nanos() as u64, source: Source::Spin(spin) })
            }
        }
    }
}

/// Parses the time to spin on the command line.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=60.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write 0.1 to 60 seconds".to_owned())
}

fn query(daemon: &Daemon) -> Result<Stall> {
    let snapshot = daemon.talk(async |client| Ok(client.snapshot().await?))?;
    Ok(Stall { ns: snapshot.loop_worst_stall_ns, source: Source::Daemon(daemon.socket()?) })
}
