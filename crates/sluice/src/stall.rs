//! How long a loop stands still on this machine: as the daemon that runs here has seen it, or
//! measured by a loop that spins.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::socket::Daemon;

/// How long a loop spins unless somebody says for how long.
pub const SPIN: Duration = Duration::from_secs(2);

/// The longest time for which a loop was held up, and who says so.
pub struct Stall {
    /// Nanoseconds.
    pub ns: u64,
    /// Who says so.
    pub source: Source,
}

/// Who says how long a loop was held up.
pub enum Source {
    /// The daemon on this socket.
    Daemon(PathBuf),
    /// A loop that spun here for so long.
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
                write!(f, "the longest of a loop that spun here for {seconds} s; no daemon was asked")
            }
            Source::Option => f.write_str("as --stall-us says"),
        }
    }
}

impl Stall {
    /// Asks the daemon; `None` where none is named and none answers.
    ///
    /// # Errors
    /// The daemon that is named does not answer.
    pub fn known(daemon: &Daemon) -> Result<Option<Self>> {
        match ask(daemon) {
            Err(error) if daemon.is_named() => Err(error),
            answer => Ok(answer.ok()),
        }
    }

    /// Asks the daemon, or, where none is named and none answers, spins for `spin`.
    ///
    /// # Errors
    /// The daemon that is named does not answer.
    pub fn measure(daemon: &Daemon, spin: Duration) -> Result<Self> {
        match ask(daemon) {
            Ok(stall) => Ok(stall),
            // Who names a socket means that daemon, not just any loop.
            Err(error) if daemon.is_named() => Err(error),
            Err(error) => {
                eprintln!("sluice: measuring here for {} s: {error:#}", spin.as_secs_f64());
                Ok(Self { ns: xdp::longest_gap(spin).as_nanos() as u64, source: Source::Spin(spin) })
            }
        }
    }
}

/// How long to spin, of the command line.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=60.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write 0.1 to 60 seconds".to_owned())
}

fn ask(daemon: &Daemon) -> Result<Stall> {
    let snapshot = daemon.talk(async |client| Ok(client.snapshot().await?))?;
    Ok(Stall { ns: snapshot.loop_worst_stall_ns, source: Source::Daemon(daemon.socket()?) })
}
