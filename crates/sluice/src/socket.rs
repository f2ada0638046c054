//! Selection of the daemon: `--socket`, else `SLUICE_SOCKET`, else the only socket in
//! `/run/sluice`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use control::{Client, Command};

use crate::exit::{misuse, no_daemon};

/// Where daemons listen unless their configuration sets another path.
const DIRECTORY: &str = "/run/sluice";

/// The environment variable that replaces `--socket`.
const VARIABLE: &str = "SLUICE_SOCKET";

/// The daemon that a command talks to.
#[derive(Args)]
pub struct Daemon {
    /// The daemon's control socket [default: $SLUICE_SOCKET, or the only one in /run/sluice].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Daemon {
    /// True if the command line names the socket.
    pub fn is_named(&self) -> bool {
        self.socket.is_some()
    }

    /// Returns the path of the control socket.
    pub fn socket(&self) -> Result<PathBuf> {
        choose(self.socket.as_deref())
    }

    /// Connects, and runs `talk` with the connection.
    pub fn talk<T>(&self, talk: impl AsyncFnOnce(&mut Client) -> Result<T>) -> Result<T> {
        let socket = self.socket()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { talk(&mut Client::connect(&socket).await?).await })
    }

    /// Has a command executed. Returns the changes that are worth a line.
    pub fn order(&self, order: Command) -> Result<Vec<String>> {
        self.talk(async |client| Ok(client.execute(order).await?))
    }
}

/// Chooses the socket.
fn choose(given: Option<&Path>) -> Result<PathBuf> {
    match (given, std::env::var_os(VARIABLE)) {
        (Some(socket), _) => Ok(socket.to_path_buf()),
        (None, Some(socket)) if !socket.is_empty() => Ok(socket.into()),
        _ => the_only_one(Path::new(DIRECTORY)),
    }
}

/// Returns the only socket in `directory`, or an error that lists what is there.
fn the_only_one(directory: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut sockets: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "sock"))
        .collect();
    sockets.sort();
    match sockets.as_slice() {
        [socket] => Ok(socket.clone()),
        [] => no_daemon(format!(
            "no daemon found: there is no socket in {}; start one with `sluiced --config FILE`, or name its socket with \
             --socket or {VARIABLE}",
            directory.display()
        )),
        several => {
            let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
            misuse(format!("which daemon? Name one with --socket or {VARIABLE}: {}", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_only_socket_is_taken_and_others_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let none = the_only_one(folder.path()).unwrap_err().to_string();
        assert!(none.starts_with("no daemon found: there is no socket in "), "{none}");
        let missing = the_only_one(&folder.path().join("missing")).unwrap_err().to_string();
        assert!(missing.starts_with("no daemon found"), "{missing}");

        let first = folder.path().join("a.sock");
        let _listener = UnixListener::bind(&first).unwrap();
        std::fs::write(folder.path().join("a.log"), "not a socket").unwrap();
        assert_eq!(the_only_one(folder.path()).unwrap(), first);

        let second = folder.path().join("b.sock");
        let _other = UnixListener::bind(&second).unwrap();
        let several = the_only_one(folder.path()).unwrap_err().to_string();
        let both = format!("{}, {}", first.display(), second.display());
        assert!(several.starts_with("which daemon?") && several.ends_with(&both), "{several}");
    }

    #[test]
    fn the_option_wins() {
        assert_eq!(choose(Some(Path::new("/tmp/x.sock"))).unwrap(), PathBuf::from("/tmp/x.sock"));
    }
}
