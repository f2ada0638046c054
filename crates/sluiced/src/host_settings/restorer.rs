//! The restorer: a process of this program that waits for the daemon to end, and then restores what
//! the daemon did not.
//!
//! The daemon holds the only writing end of a pipe, which the kernel closes when it ends, however
//! that is. The restorer is in a session of its own and blocks all signals that can be blocked: a
//! service manager may signal all processes of a service when its first one has ended.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use nix::sys::signal::SigSet;

use crate::capabilities::{OF_RESTORER, keep_only};
use crate::host_settings::record::{Record, restore_of};

/// The first argument of the process. It is not for users, so the help does not mention it.
const NAME: &str = "restore";
/// This program, also if its file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";

/// The process, as the daemon sees it.
#[derive(Debug)]
pub struct Restorer {
    child: Child,
    pipe: ChildStdin,
}

impl Restorer {
    /// Starts the process.
    pub fn start(record: &Record) -> Result<Self> {
        let (file, owner) = record.file_and_owner();
        let mut command = Command::new(PROGRAM);
        command.arg(NAME).arg(file).arg(owner).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().context("starting the restorer")?;
        let pipe = child.stdin.take().context("a pipe to the restorer")?;
        Ok(Self { child, pipe })
    }

    /// Ends the process, and waits for its end.
    pub fn end(self) {
        let Self { mut child, pipe } = self;
        drop(pipe);
        let _ = child.wait();
    }
}

/// Runs the process if the command line asks for it.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let arguments: Vec<OsString> = arguments.skip(1).collect();
    let [name, file, owner] = &arguments[..] else { return None };
    (name == NAME).then(|| wait_and_restore(Path::new(file), &owner.to_string_lossy()))
}

fn wait_and_restore(file: &Path, owner: &str) -> ExitCode {
    let _ = keep_only(&OF_RESTORER.into_iter().collect());
    let _ = nix::unistd::setsid();
    let _ = SigSet::all().thread_block();
    let mut byte = [0];
    // Nobody writes anything: a reading ends when the daemon does.
    while io::stdin().read(&mut byte).is_ok_and(|bytes| bytes > 0) {}
    match restore_of(file, owner) {
        Ok(restored) => {
            for (interface, restored) in restored {
                match restored {
                    Ok(()) => {
                        eprintln!("sluiced: the daemon was killed; settings of {interface} are restored")
                    }
                    Err(error) => {
                        eprintln!("sluiced: the daemon was killed; settings of {interface} stay: {error}")
                    }
                }
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("sluiced: the daemon was killed; {}: {error}", file.display());
            ExitCode::FAILURE
        }
    }
}
