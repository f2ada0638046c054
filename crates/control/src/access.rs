//! Roles: which client may do what.
//!
//! Rule: who may connect to the control socket, by its owner, group and mode, may read. Only root,
//! the user of the daemon and the owner of the socket may change anything. The kernel reports who a
//! client is (SO_PEERCRED), as it was when it connected. Source: docs/control-api.md, "Roles".

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tonic::Status;
use tracing::warn;

use crate::printable::printable;

/// The version of the API that client and server speak. It grows when a client of the version
/// before could misunderstand an answer; what is added to the proto file does not change it.
pub const API_VERSION: u32 = 1;

/// Metadata of each call: the version that the client speaks. A client without it is served.
pub(crate) const VERSION_KEY: &str = "sluice-api-version";

/// Longest name of a client that is kept.
const MAX_NAME_CHARS: usize = 64;
/// Shortest interval between two lines of the log about refused clients.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It may read.
    Reader,
    /// It may also change the switch.
    Admin,
}

impl Role {
    /// Returns the name of the role in the API.
    pub fn name(self) -> &'static str {
        match self {
            Role::Reader => "reader",
            Role::Admin => "admin",
        }
    }
}

/// A client, as the kernel reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its user; `None` if the kernel did not report it.
    pub uid: Option<u32>,
    /// Its process, in the PID namespace of the daemon.
    pub pid: Option<i32>,
    /// Name of its process, without control characters; empty if unknown.
    pub command: String,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.uid {
            Some(uid) => write!(f, "uid {uid}")?,
            None => f.write_str("unknown user")?,
        }
        match self.pid {
            Some(pid) if self.command.is_empty() => write!(f, ", pid {pid}"),
            Some(pid) => write!(f, ", pid {pid} ({})", self.command),
            None => Ok(()),
        }
    }
}

impl Peer {
    /// Returns the client of a call.
    pub(crate) fn of<T>(request: &tonic::Request<T>) -> Self {
        request.extensions().get::<Peer>().cloned().unwrap_or_default()
    }

    /// Returns the client at the other end of a connection.
    pub(crate) fn of_stream(stream: &tokio::net::UnixStream) -> Self {
        let Ok(credentials) = stream.peer_cred() else { return Self::default() };
        let pid = credentials.pid().filter(|&pid| pid > 0);
        let command = pid.and_then(|pid| std::fs::read(format!("/proc/{pid}/comm")).ok());
        let command =
            command.map(|name| clean(String::from_utf8_lossy(&name).trim_end())).unwrap_or_default();
        Self { uid: Some(credentials.uid()), pid, command }
    }
}

/// Returns a name from a client as it may be logged and sent back.
pub(crate) fn clean(name: &str) -> String {
    printable(name, MAX_NAME_CHARS)
}

/// The users who may change the switch.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// Users besides root.
    admins: Vec<u32>,
    /// Refused calls that the log does not have, and when it had the last one.
    unlogged: Mutex<(u64, Option<Instant>)>,
}

impl Access {
    pub(crate) fn new(admins: &[u32]) -> Self {
        Self { admins: admins.to_vec(), unlogged: Mutex::default() }
    }

    /// Returns the role of a client.
    pub(crate) fn role(&self, peer: &Peer) -> Role {
        match peer.uid {
            Some(uid) if uid == 0 || self.admins.contains(&uid) => Role::Admin,
            _ => Role::Reader,
        }
    }

    /// Refuses a call that changes something, and logs it, unless its client may make it. `what` is
    /// what the call does, as "hold a port". Returns the client.
    pub(crate) fn must_be_admin<T>(&self, request: &tonic::Request<T>, what: &str) -> Result<Peer, Status> {
        let peer = Peer::of(request);
        if self.role(&peer) == Role::Admin {
            return Ok(peer);
        }
        self.log_refusal(&peer, what, Instant::now());
        let who = peer.uid.map_or("an unknown user".to_owned(), |uid| format!("uid {uid}"));
        let others: String =
            self.admins.iter().filter(|&&uid| uid != 0).map(|uid| format!(" or uid {uid}")).collect();
        Err(Status::permission_denied(format!(
            "permission denied: to {what} takes root{others}, and you are {who}, who may only read (try `sudo`)"
        )))
    }

    fn log_refusal(&self, peer: &Peer, what: &str, now: Instant) {
        let mut unlogged = self.unlogged.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (count, last) = &mut *unlogged;
        if last.is_some_and(|last| now.saturating_duration_since(last) < LOG_INTERVAL) {
            *count += 1;
            return;
        }
        let others = std::mem::take(count);
        *last = Some(now);
        warn!(target: "sluiced::control", client = %peer, others, "permission denied: {what}");
    }
}

/// Refuses a call of a client that speaks another version of the API.
pub(crate) fn check_version(request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
    match request.metadata().get(VERSION_KEY).map(|version| version.to_str().unwrap_or_default()) {
        Some(version) if version != API_VERSION.to_string() => Err(Status::failed_precondition(format!(
            "the client speaks version {} of the control API, sluiced {} speaks version {API_VERSION}: use the sluice that \
             came with this sluiced",
            clean(version),
            env!("CARGO_PKG_VERSION")
        ))),
        _ => Ok(request),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cleaned() {
        assert_eq!(clean("uplink"), "uplink");
        assert_eq!(clean("a\nWARN \x1b[31mb"), "a\u{fffd}WARN \u{fffd}[31mb");
        assert_eq!(clean("a\u{202e}b"), "a\u{fffd}b");
        assert_eq!(clean(&"x".repeat(999)).chars().count(), MAX_NAME_CHARS + 1);
    }

    #[test]
    fn only_root_and_the_named_users_may_change() {
        let access = Access::new(&[0, 998]);
        let role = |uid| access.role(&Peer { uid, ..Peer::default() });
        assert_eq!([0, 998].map(|uid| role(Some(uid))), [Role::Admin; 2]);
        assert_eq!([Some(1000), Some(u32::MAX), None].map(role), [Role::Reader; 3]);
        let refused = access.must_be_admin(&tonic::Request::new(()), "reload").unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        let expected = "permission denied: to reload takes root or uid 998, and you are an unknown user, who may only read (try `sudo`)";
        assert_eq!(refused.message(), expected);
    }

    #[test]
    fn refusals_are_logged_once_a_second() {
        let access = Access::new(&[]);
        let start = Instant::now();
        // How many calls the log does not have, after each of them.
        let unlogged = [0, 1, 999, 1000, 1001].map(|ms| {
            access.log_refusal(&Peer::default(), "reload", start + Duration::from_millis(ms));
            access.unlogged.lock().unwrap().0
        });
        assert_eq!(unlogged, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn another_version_is_refused_in_a_line() {
        let with = |version: &str| {
            let mut request = tonic::Request::new(());
            request.metadata_mut().insert(VERSION_KEY, version.parse().unwrap());
            check_version(request).map(drop).map_err(|status| status.message().to_owned())
        };
        assert!(with("1").is_ok() && check_version(tonic::Request::new(())).is_ok());
        let refused = with("2").unwrap_err();
        assert!(refused.starts_with("the client speaks version 2 of the control API, sluiced "), "{refused}");
        assert_eq!(refused.lines().count(), 1);
    }
}
