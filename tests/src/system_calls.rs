//! The system calls of a thread, counted by the kernel's tracepoint `raw_syscalls:sys_enter` in an
//! instance of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, spawn};

use anyhow::{Context, Result, anyhow, ensure};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::Pid;

const TRACEFS: &str = "/sys/kernel/tracing";
/// Trace buffer of each core: a hundred thousand calls.
const BUFFER_KIB: &str = "16384";

/// The arguments of getsockopt(2) behind its descriptor, in the trace: level SOL_XDP, name
/// XDP_STATISTICS.
const XDP_STATISTICS: &str = ", 11b, 7, ";

/// The calls that a thread has made.
#[derive(Debug, Default)]
pub struct CallCounts {
    /// Calls by number.
    pub by_number: BTreeMap<i64, u64>,
    /// Of getsockopt(2), those that read the statistics of an AF_XDP socket, by its descriptor.
    pub of_statistics: BTreeMap<String, u64>,
}

/// The calls of a thread that is being traced.
pub struct SystemCalls {
    ends: Sender<()>,
    tracer: JoinHandle<Result<CallCounts>>,
}

impl SystemCalls {
    /// True if this kernel can trace at all.
    pub fn can_be_traced() -> Result<bool> {
        Ok(fs::read_to_string("/proc/filesystems")?.contains("tracefs"))
    }

    /// Starts to count the calls of a thread.
    ///
    /// # Errors
    /// The kernel has no tracefs, or no tracepoints of system calls.
    pub fn of_thread(thread: Pid) -> Result<Self> {
        let ((ends, until), (begins, begun)) = (channel(), channel());
        let tracer = spawn(move || trace(thread, &begins, &until));
        if begun.recv().is_err() {
            let result = tracer.join().map_err(|_| anyhow!("the tracing thread panicked"))?;
            return Err(result.err().context("the tracing thread ended")?);
        }
        Ok(Self { ends, tracer })
    }

    /// Ends the count and returns it.
    pub fn end(self) -> Result<CallCounts> {
        drop(self.ends);
        self.tracer.join().map_err(|_| anyhow!("the tracing thread panicked"))?
    }
}

/// An instance of the trace buffer, removed on drop.
struct Instance(PathBuf);

impl Instance {
    fn new(thread: Pid) -> Result<Self> {
        // The file system is mounted for this thread alone, and so is never left behind.
        unshare(CloneFlags::CLONE_NEWNS).context("a mount namespace")?;
        let private = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
        match mount(Some("tracefs"), TRACEFS, Some("tracefs"), MsFlags::empty(), None::<&str>) {
            Ok(()) | Err(Errno::EBUSY) => {} // busy: it is mounted already
            Err(error) => return Err(error).context("this kernel has no tracefs"),
        }
        let instance = Self(Path::new(TRACEFS).join(format!("instances/sluice-{thread}")));
        fs::create_dir(&instance.0).context("an instance of the trace buffer")?;
        Ok(instance)
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.0.join(file);
        fs::write(&path, value).with_context(|| format!("{value} to {}", path.display()))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0); // an empty one of the kernel's, removed as a whole
    }
}

fn trace(thread: Pid, begins: &Sender<()>, until: &Receiver<()>) -> Result<CallCounts> {
    let instance = Instance::new(thread)?;
    instance.write("buffer_size_kb", BUFFER_KIB)?;
    instance.write("set_event_pid", &thread.to_string())?;
    instance.write("events/raw_syscalls/sys_enter/enable", "1")?;
    begins.send(())?;
    let _ = until.recv(); // ends when the sender is dropped
    instance.write("tracing_on", "0")?;
    count(&fs::read_to_string(instance.0.join("trace"))?)
}

/// Counts lines such as `poll-0-42 [001] ..... 17.123456: sys_enter: NR 44 (3, 0, …)`.
fn count(trace: &str) -> Result<CallCounts> {
    let written = trace.lines().find_map(|line| line.split_once("entries-in-buffer/entries-written:"));
    let (kept, of) = written
        .and_then(|(_, counts)| counts.split_whitespace().next()?.split_once('/'))
        .context("the trace has no header")?;
    ensure!(kept == of, "the trace buffer was too small: {kept} of {of} calls were kept");
    let mut calls = CallCounts::default();
    for line in trace.lines() {
        let Some((_, call)) = line.split_once("sys_enter: NR ") else { continue };
        let (number, arguments) = call.split_once(' ').context("arguments follow")?;
        *calls.by_number.entry(number.parse()?).or_default() += 1;
        if let Some((socket, _)) = arguments.split_once(XDP_STATISTICS) {
            *calls.of_statistics.entry(socket.trim_start_matches('(').to_owned()).or_default() += 1;
        }
    }
    Ok(calls)
}
