//! Exit codes: one rule for all commands.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done; the answer is yes |
//! | 1 | failed; the answer is no |
//! | 2 | the command line is wrong; `check`, `sim`, `sweep`, `advise`, `lab`: a file is |
//! | 3 | no daemon listens |

use std::fmt;

use anyhow::{Error, Result};
use control::ClientError;

/// The rule, at the end of `sluice --help`.
pub const HELP: &str = "\
Exit codes: 0 done, 1 failed or the answer is no, 2 the command line is wrong (check, sim, sweep, advise, lab: a file is), 3 no daemon listens.";

/// What is wrong with a command line, beyond what its parser finds.
#[derive(Debug)]
struct Misuse(String);

/// No daemon is there to talk to.
#[derive(Debug)]
struct NoDaemon(String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

impl fmt::Display for NoDaemon {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoDaemon {}

/// Refuses the command line.
pub fn misuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Misuse(message.into()).into())
}

/// Reports that no daemon was found.
pub fn no_daemon<T>(message: impl Into<String>) -> Result<T> {
    Err(NoDaemon(message.into()).into())
}

/// Returns the exit code for an error.
pub fn code(error: &Error) -> u8 {
    let is_absent = |error: &(dyn std::error::Error + 'static)| {
        error.is::<NoDaemon>() || error.downcast_ref().is_some_and(ClientError::is_no_daemon)
    };
    if error.chain().any(|cause| cause.is::<Misuse>()) {
        2
    } else if error.chain().any(is_absent) {
        3
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use std::path::PathBuf;

    #[test]
    fn each_kind_of_error_has_its_code() {
        let socket = || PathBuf::from("/nowhere/x.sock");
        for (error, expected) in [
            (misuse::<()>("--watch takes 0.05 to 3600 seconds, not 0"), 2),
            (no_daemon("no daemon found"), 3),
            (Err(ClientError::NoSocket(socket()).into()), 3),
            (Err(ClientError::Stale(socket())).context("asking the daemon"), 3),
            (Err(ClientError::Permission(socket()).into()), 1),
            (Err(ClientError::Ended(socket()).into()), 1),
            (Err(Error::msg("the disk is full")), 1),
        ] {
            let error = error.unwrap_err();
            assert_eq!(code(&error), expected, "{error:#}");
        }
    }
}
