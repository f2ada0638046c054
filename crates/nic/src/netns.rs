//! Entering another network namespace, by a name known to `ip netns` or by a process in it.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use nix::sys::socket::{getsockopt, sockopt};
use xdp::{NAMED_NAMESPACES, OWN_NAMESPACE, in_namespace, in_new_namespace};

use crate::error::Error;

/// Calls `inside` in the namespace of this name or PID, on a new thread; without a name, on the
/// calling thread.
///
/// # Errors
/// There is no such namespace, or entering it is not permitted.
pub fn enter<T: Send>(
    name: Option<&str>,
    inside: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let Some(name) = name else { return inside() };
    let bad = |cause: String| Error::Namespace { name: name.to_owned(), cause };
    let path = path(name).ok_or_else(|| bad("that is no name".to_owned()))?;
    let file = File::open(&path).map_err(|error| bad(format!("{}: {error}", path.display())))?;
    in_namespace(file, inside).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => {
            Error::NotPermitted { action: format!("entering the namespace `{name}`") }
        }
        _ => bad(error.to_string()),
    })?
}

/// Opens the namespace of the calling thread.
///
/// # Errors
/// /proc is not mounted.
pub fn current() -> Result<File, Error> {
    File::open(OWN_NAMESPACE).map_err(|error| Error::system("opening the network namespace", error))
}

/// Returns the process that listens on a Unix socket, for [`enter`].
///
/// # Errors
/// No process listens on it.
pub fn listener(socket: &std::path::Path) -> Result<String, Error> {
    let failed = |cause: String| Error::system(format!("asking who listens on {}", socket.display()), cause);
    let stream = UnixStream::connect(socket).map_err(|error| failed(error.to_string()))?;
    let peer = getsockopt(&stream, sockopt::PeerCredentials).map_err(|errno| failed(errno.to_string()))?;
    Ok(peer.pid().to_string())
}

/// Calls `inside` in a new namespace, which is removed with its interfaces afterwards.
pub(crate) fn fresh<T: Send>(inside: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    in_new_namespace(inside).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Error::NotPermitted { action: "a new network namespace".to_owned() },
        _ => Error::system("a new network namespace", error),
    })?
}

/// Returns the file of a namespace. A number is a PID, unless a namespace has it as its name.
fn path(name: &str) -> Option<PathBuf> {
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        return None;
    }
    let named = PathBuf::from(NAMED_NAMESPACES).join(name);
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    Some(if is_number && !named.exists() { format!("/proc/{name}/ns/net").into() } else { named })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_process_and_a_path_is_no_name() {
        assert_eq!(path("lab"), Some("/run/netns/lab".into()));
        assert_eq!(path("4242"), Some("/proc/4242/ns/net".into()));
        for name in ["", ".", "..", "../lab", "/run/netns/lab"] {
            assert_eq!(path(name), None, "{name}");
        }
    }

    #[test]
    fn a_namespace_that_is_not_there_is_named() {
        let message = enter(Some("no-such-namespace"), || Ok(())).unwrap_err().to_string();
        assert!(
            message.starts_with("no network namespace `no-such-namespace`: /run/netns/no-such"),
            "{message}"
        );
    }
}
