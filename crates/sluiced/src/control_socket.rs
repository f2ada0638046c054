//! The control socket: its permissions and its ownership.
//!
//! Rule: the mode is 0660 before any client can connect. A file left by a daemon that was killed is
//! replaced. A socket that a daemon listens on, and a file that is not a socket, are not touched.
//! The file is removed when the daemon ends.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::sys::socket::{bind as bind_to, listen, socket};

/// Owner and group may connect to the daemon.
const MODE: u32 = 0o660;
/// Mode of the directories created for the socket.
pub const DIRECTORY_MODE: u32 = 0o755;

/// The file of a listening socket. Dropping it removes the file, unless another file has replaced
/// it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Fails if a daemon listens on `path`, or if the file there must not be removed. Changes nothing.
pub fn must_be_free(path: &Path) -> Result<()> {
    let file = match fs::symlink_metadata(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("control socket {}", path.display())),
    };
    if !file.file_type().is_socket() {
        bail!(
            "control socket {}: there is a file that is no socket; remove it, or choose another path",
            path.display()
        );
    }
    match UnixStream::connect(path) {
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => Ok(()),
        Ok(_) => bail!(
            "control socket {}: another sluiced runs with this socket; stop it, or set control.socket to another path",
            path.display()
        ),
        Err(error) => Err(error).with_context(|| format!("control socket {}", path.display())),
    }
}

/// Listens on `path`.
pub fn bind(path: &Path) -> Result<(UnixListener, SocketFile)> {
    let context = || format!("control socket {}", path.display());
    if let Some(directory) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(DIRECTORY_MODE).create(directory).with_context(context)?;
    }
    must_be_free(path)?;
    if let Err(error) = fs::remove_file(path)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(error).with_context(context);
    }
    let address = UnixAddr::new(path).with_context(context)?;
    let unheard =
        socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).with_context(context)?;
    bind_to(unheard.as_raw_fd(), &address).with_context(context)?;
    let inode = fs::symlink_metadata(path).with_context(context)?.ino();
    let file = SocketFile { path: path.to_path_buf(), inode };
    // No client can connect before `listen`.
    fs::set_permissions(path, fs::Permissions::from_mode(MODE)).with_context(context)?;
    listen(&unheard, Backlog::new(128)?).with_context(context)?;
    let listener = UnixListener::from(unheard);
    Ok((listener, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_socket_is_for_owner_and_group_and_goes_away_with_its_guard() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/sluice/a.sock");
        let (_listener, guard) = bind(&path).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o660, 0o755));
        assert!(UnixStream::connect(&path).is_ok());
        drop(guard);
        assert!(!path.exists());
    }

    #[test]
    fn a_live_socket_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let (_listener, _guard) = bind(&path).unwrap();
        for refusal in [must_be_free(&path).unwrap_err(), bind(&path).unwrap_err()] {
            assert!(refusal.to_string().contains("another sluiced runs with this socket"), "{refusal:#}");
        }
        assert!(UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn a_socket_left_behind_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists() && UnixStream::connect(&path).is_err(), "dead, but there");
        must_be_free(&path).unwrap();
        let (_listener, _guard) = bind(&path).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        assert_eq!(mode(&path), 0o660);
    }

    #[test]
    fn a_file_that_is_no_socket_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        fs::write(&path, "data").unwrap();
        let refusal = bind(&path).unwrap_err().to_string();
        assert!(refusal.contains("there is a file that is no socket"), "{refusal}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
    }

    /// The socket of a later daemon is not removed.
    #[test]
    fn a_socket_of_somebody_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let (listener, guard) = bind(&path).unwrap();
        // So that its inode is not reused.
        fs::hard_link(&path, folder.path().join("first")).unwrap();
        drop(listener);
        let (_next, _its_guard) = bind(&path).unwrap();
        drop(guard);
        assert!(UnixStream::connect(&path).is_ok());
    }
}
