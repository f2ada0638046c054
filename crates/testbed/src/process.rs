//! A process under test: its output is read as it arrives, waits have a deadline, and the process
//! does not outlive its parent.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait::{PATIENCE, eventually};

/// A running process and its output so far.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    output: Arc<OutputLog>,
    readers: Vec<JoinHandle<()>>,
}

/// Lines of both outputs, in the order of arrival.
#[derive(Debug, Default)]
struct OutputLog {
    lines: Mutex<Vec<OutputLine>>,
    more: Condvar,
}

#[derive(Debug, Clone)]
struct OutputLine {
    from_stdout: bool,
    text: String,
}

impl Process {
    /// Starts `command`, called `name` in messages, with piped input and outputs and in its own
    /// process group: Ctrl-C reaches only the parent, which then stops the process cleanly.
    pub fn start(name: &str, command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().with_context(|| format!("cannot start {name}: {command:?}"))?;
        let output = Arc::new(OutputLog::default());
        let stdout = child.stdout.take().expect("is piped");
        let stderr = child.stderr.take().expect("is piped");
        let readers =
            vec![read_lines(stdout, true, output.clone()), read_lines(stderr, false, output.clone())];
        Ok(Self { name: name.to_string(), child, output, readers })
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of either output in which `find` finds something. Earlier lines count too.
    pub fn wait_for<T>(&mut self, what: &str, mut find: impl FnMut(&str) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = 0;
        loop {
            let ended = self.child.try_wait()?;
            let mut lines = self.output.lines.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() == seen && ended.is_none() {
                (lines, _) = self
                    .output
                    .more
                    .wait_timeout(lines, Duration::from_millis(50))
                    .unwrap_or_else(PoisonError::into_inner);
            }
            while let Some(line) = lines.get(seen) {
                seen += 1;
                if let Some(found) = find(&line.text) {
                    return Ok(found);
                }
            }
            drop(lines);
            if let Some(status) = ended
                && self.all_read()
                && self.output.lines.lock().unwrap_or_else(PoisonError::into_inner).len() == seen
            {
                bail!("{} ended ({status}) before this: {what}\n{}", self.name, self.log());
            }
            if Instant::now() >= deadline {
                bail!("{} did not do this within {PATIENCE:?}: {what}\n{}", self.name, self.log());
            }
        }
    }

    /// Writes a line to the process's input.
    pub fn send_line(&mut self, line: &str) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("its input is closed")?;
        writeln!(stdin, "{line}").with_context(|| format!("{} does not listen\n{}", self.name, self.log()))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.child.id() as i32), signal)
            .with_context(|| format!("cannot signal {}", self.name))
    }

    /// Stops the process (SIGSTOP), and waits until all its threads are stopped: until then they
    /// run, however long ago the signal was sent.
    pub fn suspend(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)?;
        let tasks = format!("/proc/{}/task", self.child.id());
        eventually(&format!("all threads of {} are stopped", self.name), || {
            let states = fs::read_dir(&tasks)?.map(|task| fs::read_to_string(task?.path().join("stat")));
            let states = states.collect::<io::Result<Vec<_>>>()?;
            Ok(states.iter().all(|stat| stat.contains(") T ")).then_some(()))
        })
    }

    /// Waits for the exit and the remaining output, at most [`PATIENCE`] beyond `expected`.
    pub fn wait(&mut self, expected: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + expected;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            let child = &mut self.child;
            break eventually("the process ends", || Ok(child.try_wait()?))
                .with_context(|| format!("{} does not end\n{}", self.name, self.log()))?;
        };
        eventually("its output ends", || Ok(self.all_read().then_some(())))?;
        Ok(status)
    }

    /// True while the process runs.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Returns the lines of standard output so far.
    pub fn stdout(&self) -> Vec<String> {
        let lines = self.output.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|line| line.from_stdout).map(|line| line.text.clone()).collect()
    }

    /// Returns all output so far, for failure messages.
    pub fn log(&self) -> String {
        let lines = self.output.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<String> =
            lines.iter().map(|line| format!("  {} | {}", self.name, line.text)).collect();
        lines.join("\n")
    }

    fn all_read(&self) -> bool {
        self.readers.iter().all(JoinHandle::is_finished)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(from: impl Read + Send + 'static, from_stdout: bool, output: Arc<OutputLog>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for text in BufReader::new(from).lines() {
            let Ok(text) = text else { return };
            output
                .lines
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(OutputLine { from_stdout, text });
            output.more.notify_all();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        Process::start("sh", Command::new("sh").args(["-c", script])).expect("sh starts")
    }

    #[test]
    fn lines_are_found_whenever_they_come() {
        let mut process = shell("echo one; read line; echo got $line >&2; exit 3");
        process.wait_for("one", |line| (line == "one").then_some(())).expect("is said");
        process.send_line("two").expect("listens");
        process.wait_for("two", |line| (line == "got two").then_some(())).expect("is said");
        assert_eq!(process.wait(Duration::ZERO).expect("ends").code(), Some(3));
        assert_eq!(process.stdout(), ["one"]);
    }

    #[test]
    fn an_early_end_is_an_error_that_shows_the_log() {
        let mut process = shell("echo no such thing; exit 1");
        let error = process.wait_for("ready", |_| None::<()>).expect_err("never comes");
        let text = format!("{error:#}");
        assert!(text.contains("ended (exit status: 1)") && text.contains("sh | no such thing"), "{text}");
    }
}
