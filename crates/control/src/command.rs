//! Commands that clients send to a running daemon, and the errors of a command that was refused.

use std::fmt;
use std::time::Duration;

use tonic::{Code, Status};

/// A command to the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Restart the watermark since the last clear.
    ClearWatermarks,
    /// Hold a port's transmission, or release it; for tests.
    HoldPort {
        /// Name of the port.
        port: String,
        /// True to hold, false to release.
        held: bool,
    },
    /// Take a port down, or up again, for an operator.
    SetPortAdmin {
        /// Name of the port.
        port: String,
        /// True for up, false for down.
        up: bool,
    },
    /// Disable PFC on all ports, or enable it again as configured.
    SetPfc {
        /// True to enable.
        enabled: bool,
    },
    /// End the storms of a port that wait for manual recovery.
    RecoverStorms {
        /// Name of the port.
        port: String,
    },
    /// Enable PFC again where too many storms disabled it.
    LiftStormLimit {
        /// Name of the port.
        port: String,
        /// Limits the command to this priority.
        priority: Option<u8>,
    },
    /// Forget learned addresses.
    FlushFdb {
        /// Limits the command to the addresses of this port.
        port: Option<String>,
        /// Limits the command to the addresses in this VLAN.
        vlan: Option<u16>,
    },
    /// Read the configuration file again and apply it.
    Reload,
}

impl Command {
    /// Returns what the command does, as in "to reload takes root".
    pub fn what(&self) -> &'static str {
        match self {
            Command::ClearWatermarks => "clear watermarks",
            Command::HoldPort { .. } => "hold or release a port",
            Command::SetPortAdmin { .. } => "take a port down or up",
            Command::SetPfc { .. } => "turn PFC on or off",
            Command::RecoverStorms { .. } => "recover from storms",
            Command::LiftStormLimit { .. } => "lift the limit of storms",
            Command::FlushFdb { .. } => "flush the FDB",
            Command::Reload => "reload",
        }
    }

    /// Returns the port that the command lets come up.
    pub fn raised_port(&self) -> Option<&str> {
        match self {
            Command::SetPortAdmin { port, up: true } => Some(port),
            _ => None,
        }
    }

    /// Returns how long the daemon may take. One iteration of the loop is enough for most commands;
    /// a reload, and a port that comes up, open interfaces, and a NIC driver is slow at that.
    pub(crate) fn patience(&self) -> Duration {
        let opens = matches!(self, Command::Reload | Command::SetPortAdmin { .. });
        Duration::from_secs(if opens { 30 } else { 2 })
    }
}

/// Result of a command: the changes that are worth a line, or why the command was refused.
pub type CommandResult = Result<Vec<String>, CommandError>;

/// Why a command was refused. A refused command changes nothing, except that a port which was let
/// up and could not be opened stays admin up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandError {
    /// Kind of the error.
    pub reason: ErrorKind,
    /// The error and its cure, in whole lines.
    pub message: String,
}

/// Returns the message for a port that a user named and that is not among the ports.
pub fn no_port<'n>(name: &str, ports: impl IntoIterator<Item = &'n str>) -> String {
    let ports: Vec<&str> = ports.into_iter().collect();
    format!("there is no port `{name}`; the ports are {}", ports.join(", "))
}

/// Kinds of command errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The port or priority of the command does not exist.
    NotFound,
    /// The request or the configuration file is invalid.
    Invalid,
    /// The present state does not allow the command.
    Precondition,
    /// The client may only read.
    Permission,
}

impl ErrorKind {
    /// Returns the status code of the API.
    fn code(self) -> Code {
        match self {
            ErrorKind::NotFound => Code::NotFound,
            ErrorKind::Invalid => Code::InvalidArgument,
            ErrorKind::Precondition => Code::FailedPrecondition,
            ErrorKind::Permission => Code::PermissionDenied,
        }
    }

    /// Returns true if a reachable daemon refused with a message meant for users.
    pub(crate) fn is_user_message(code: Code) -> bool {
        [ErrorKind::NotFound, ErrorKind::Invalid, ErrorKind::Precondition, ErrorKind::Permission]
            .iter()
            .any(|reason| reason.code() == code)
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<CommandError> for Status {
    fn from(refusal: CommandError) -> Self {
        Status::new(refusal.reason.code(), shortened(&refusal.message))
    }
}

/// Maximum length of a message. It is carried in a header, where each byte may become three, and
/// clients accept 16 KiB of headers.
const MAX_MESSAGE_BYTES: usize = 4096;

/// Returns as many whole lines as fit, and the number of lines left out.
fn shortened(message: &str) -> String {
    if message.len() <= MAX_MESSAGE_BYTES {
        return message.to_owned();
    }
    let mut end = MAX_MESSAGE_BYTES;
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    let end = message[..end].rfind('\n').unwrap_or(end);
    let left_out = message[end..].lines().filter(|line| !line.is_empty()).count();
    format!("{}\n… and {left_out} more", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_may_take_longer_than_a_nic_takes_to_open() {
        let seconds = |order: Command| order.patience().as_secs();
        assert_eq!((seconds(Command::Reload), seconds(Command::ClearWatermarks)), (30, 2));
    }

    #[test]
    fn a_long_message_keeps_whole_lines_and_counts_missing_ones() {
        let line = "x".repeat(99);
        let message = vec![line.as_str(); 50].join("\n");
        let short = shortened(&message);
        assert_eq!(short.lines().count(), 41, "{short}");
        assert!(short.ends_with("x\n… and 10 more"), "{short}");
        assert_eq!(shortened("a\nb"), "a\nb");
        // One very long line of characters of three bytes each.
        assert!(shortened(&"…".repeat(5000)).len() < MAX_MESSAGE_BYTES + 32);
    }
}
