//! What clients can tell a running daemon to do, and why it may say no.

use std::fmt;
use std::time::Duration;

use tonic::{Code, Status};

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// The watermark since the last clear begins again.
    ClearWatermarks,
    /// Hold a port's transmission, or let it go on; for tests.
    HoldPort {
        /// Name of the port.
        port: String,
        /// Hold it.
        held: bool,
    },
    /// PFC off on all ports, or on again as configured.
    SetPfc {
        /// On.
        enabled: bool,
    },
    /// End the storms of a port that wait for that.
    RecoverStorms {
        /// Name of the port.
        port: String,
    },
    /// Turn PFC on again where there were too many storms.
    LiftStormLimit {
        /// Name of the port.
        port: String,
        /// Only this priority.
        priority: Option<u8>,
    },
    /// Read the configuration file again and apply it.
    Reload,
}

impl Command {
    /// How long the daemon may take to carry it out. A turn of the loop does for most; a reload
    /// opens interfaces, and the driver of a NIC takes its time.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(if *self == Command::Reload { 30 } else { 2 })
    }
}

/// What became of an order: the changes that are worth a line, or why nothing was done.
pub type Outcome = Result<Vec<String>, CommandError>;

/// Why an order was not carried out; nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandError {
    /// What kind of reason.
    pub reason: ErrorKind,
    /// What is wrong and the cure, in whole lines.
    pub message: String,
}

/// Kinds of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// What is meant is not there.
    NotFound,
    /// What was said, in the request or the file, is wrong.
    Invalid,
    /// It cannot be done as things stand.
    Precondition,
}

impl ErrorKind {
    /// The code of the API.
    fn code(self) -> Code {
        match self {
            ErrorKind::NotFound => Code::NotFound,
            ErrorKind::Invalid => Code::InvalidArgument,
            ErrorKind::Precondition => Code::FailedPrecondition,
        }
    }

    /// True if a daemon that could be reached said no, with a message made for people.
    pub(crate) fn explains(code: Code) -> bool {
        [ErrorKind::NotFound, ErrorKind::Invalid, ErrorKind::Precondition]
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

/// Longest message: it travels in a header, where each byte may become three, and clients take 16
/// KiB of headers.
const MAX_MESSAGE_BYTES: usize = 4096;

/// As many whole lines as fit, and how many do not.
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
    fn a_long_message_keeps_whole_lines_and_says_how_many_are_missing() {
        let line = "x".repeat(99);
        let message = vec![line.as_str(); 50].join("\n");
        let short = shortened(&message);
        assert_eq!(short.lines().count(), 41, "{short}");
        assert!(short.ends_with("x\n… and 10 more"), "{short}");
        assert_eq!(shortened("a\nb"), "a\nb");
        // One endless line of characters of three bytes each.
        assert!(shortened(&"…".repeat(5000)).len() < MAX_MESSAGE_BYTES + 32);
    }
}
