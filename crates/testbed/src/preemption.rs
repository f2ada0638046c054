//! A loop that is preempted, independent of the load of the machine: a debugger stops its thread,
//! and no other thread of the daemon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::daemon::Daemon;
use crate::wait::eventually;

/// Returns the thread of a daemon's loop, which sets its name when it first runs.
pub fn loop_thread(daemon: &mut Daemon) -> Result<Pid> {
    thread_named(daemon, "poll-")
}

/// Returns the thread of a daemon whose name has this prefix.
pub fn thread_named(daemon: &mut Daemon, name: &str) -> Result<Pid> {
    let tasks = format!("/proc/{}/task", daemon.process().pid());
    eventually(&format!("a thread called {name}…"), || {
        for task in std::fs::read_dir(&tasks)? {
            let task = task?;
            if std::fs::read_to_string(task.path().join("comm"))?.starts_with(name) {
                return Ok(Some(Pid::from_raw(task.file_name().to_string_lossy().parse()?)));
            }
        }
        Ok(None)
    })
}

/// Stops a thread for a while.
pub fn stop_thread(thread: Pid, duration: Duration) -> Result<()> {
    ptrace::seize(thread, ptrace::Options::empty()).context("seizing the loop")?;
    ptrace::interrupt(thread)?;
    waitpid(thread, Some(WaitPidFlag::__WALL))?;
    sleep(duration);
    ptrace::detach(thread, None)?;
    Ok(())
}

/// Stops a thread repeatedly, until drop or the end of its time.
#[derive(Debug)]
pub struct PeriodicStops {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<u32>>>,
}

impl PeriodicStops {
    /// Stops `thread` for `stop` of each `period`, for no longer than `longest` in all.
    pub fn new(thread: Pid, stop: Duration, period: Duration, longest: Duration) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let reported = Arc::clone(&ends);
        let work = move || {
            let end = Instant::now() + longest;
            let mut stops = 0;
            while !reported.load(Relaxed) && Instant::now() + stop < end {
                stop_thread(thread, stop)?;
                stops += 1;
                sleep(period.saturating_sub(stop));
            }
            Ok(stops)
        };
        Self { ends, thread: Some(spawn(work)) }
    }

    /// Ends the stops and returns how often the thread was stopped.
    pub fn end(mut self) -> Result<u32> {
        self.ends.store(true, Relaxed);
        self.thread.take().context("it ends once")?.join().expect("no panic")
    }
}

impl Drop for PeriodicStops {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
