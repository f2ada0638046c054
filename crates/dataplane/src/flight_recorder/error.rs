//! Why a replay ends early.

use bytes::TryGetError;

use crate::flight_recorder::recorder::VERSION;

/// Why a replay ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The bytes are no recording.
    NotARecording,
    /// The recording has another version, which is named here.
    Version(String),
    /// The recording ends in the middle of an entry, or contains what no recorder writes.
    Malformed(String),
    /// The switch did something other than what was recorded.
    Differs(String),
    /// The switch panicked, with this message: the recording has found a fault of the switch, or
    /// it is forged.
    Panicked(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::NotARecording => write!(f, "this is no recording: make one with `sluice record FILE`"),
            Error::Version(recorded) => write!(
                f,
                "the recording has version {recorded}, and this sluice replays version {VERSION}: replay it \
                 with the sluice that made it, or record again"
            ),
            Error::Malformed(what) => write!(f, "the recording is damaged: {what}"),
            Error::Differs(what) => write!(f, "the replay differs from the recording: {what}"),
            Error::Panicked(message) => write!(f, "the switch panicked in this replay: {message}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<TryGetError> for Error {
    fn from(_: TryGetError) -> Self {
        Error::Malformed("it ends in the middle of an entry".into())
    }
}
