//! The thread that writes the log.
//!
//! Rule: a thread that logs never waits. Lines are queued in a bounded queue for a thread that only
//! writes them. A line is lost and counted if the queue is full or the line cannot be written. Once
//! lines can be written again, one line reports how many were lost. At the end, queued lines have
//! [`FLUSH_PATIENCE`] to be written. Source: docs/architecture.md, "Logs".
//!
//! `tracing-appender` has such a thread, but prints to standard output at the end if its queue is
//! full, which may be the same full pipe, and does not report what it lost.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use caps::CapsHashSet;
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use tracing::warn;
use tracing_subscriber::fmt::MakeWriter;

use super::rate_limit::{Limits, TARGET};
use crate::capabilities::keep_only;

/// Capacity of the queue, in lines.
const MAX_LINES: usize = 4096;
/// The most bytes of a line; longer lines are truncated.
const MAX_LINE_BYTES: usize = 4096;
/// Interval at which the thread checks for reports that are due.
const PACE: Duration = Duration::from_secs(1);
/// Delay before a retry, where the descriptor is non-blocking.
const RETRY: Duration = Duration::from_millis(10);
/// The most time that the end may take.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// A message to the thread.
enum Message {
    Line(Vec<u8>),
    /// Writes all earlier lines, then answers.
    Flush(Sender<()>),
    /// Keeps the thread off this core.
    LeaveCore(usize),
}

/// The sending side of the queue to the thread.
#[derive(Clone)]
pub struct Writer {
    queue: Sender<Message>,
    lost: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the thread, which writes to `out` and reports the lines that `limits` suppressed.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(out: impl Write + Send + 'static, limits: Arc<Limits>) -> io::Result<Self> {
        let (queue, queued) = bounded(MAX_LINES);
        let lost = Arc::new(AtomicU64::new(0));
        let work = Work { out, queued, lost: lost.clone(), reported: 0, next_report: Instant::now(), limits };
        thread::Builder::new().name("log".to_owned()).spawn(|| work.run())?;
        Ok(Self { queue, lost })
    }

    /// Lines lost since the start.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Queues a line, or drops it if the queue is full; never blocks.
    pub fn put(&self, line: &[u8]) {
        let mut kept = line[..line.len().min(MAX_LINE_BYTES)].to_vec();
        if kept.len() < line.len() {
            kept.extend_from_slice(b" ...\n");
        }
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.queue.try_send(Message::Line(kept))
        {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Keeps the thread off a core, as soon as the queue is empty.
    pub fn leave_core(&self, core: usize) {
        // A thread that waits for its reader uses no core.
        let _ = self.queue.try_send(Message::LeaveCore(core));
    }

    /// Waits until all queued lines are written, for a limited time. False if that time has passed.
    pub fn flush(&self) -> bool {
        let end = Instant::now() + FLUSH_PATIENCE;
        let (done, is_done) = bounded(1);
        self.queue.send_deadline(Message::Flush(done), end).is_ok() && is_done.recv_deadline(end).is_ok()
    }
}

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The state of the thread.
struct Work<W> {
    out: W,
    queued: Receiver<Message>,
    lost: Arc<AtomicU64>,
    /// The part of the lost lines that the log has reported.
    reported: u64,
    next_report: Instant,
    limits: Arc<Limits>,
}

impl<W: Write> Work<W> {
    fn run(mut self) {
        // Started before the daemon gives up its own, it needs none.
        let _ = keep_only(&CapsHashSet::new());
        loop {
            match self.queued.recv_timeout(PACE) {
                Ok(Message::Line(line)) => self.write(&line),
                Ok(Message::Flush(done)) => {
                    self.report_failed(true);
                    self.write_queued();
                    let _ = done.send(()); // the thread that asked may have stopped waiting
                }
                Ok(Message::LeaveCore(core)) => drop(xdp::exclude_core(core)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.report_failed(false);
        }
    }

    /// Logs the lines lost or suppressed where that is due, or all of them. These lines pass
    /// through the queue like all others.
    fn report_failed(&mut self, all: bool) {
        let now = Instant::now();
        let lost = self.lost.load(Relaxed);
        // The report itself must not be lost.
        let has_room = self.queued.len() < MAX_LINES / 2;
        if lost > self.reported && has_room && (all || self.queued.is_empty() || now >= self.next_report) {
            warn!(target: TARGET, "lines lost because standard error did not take them: {}",
                lost - self.reported);
            self.reported = lost;
            self.next_report = now + PACE;
        }
        self.limits.remind(now, all);
    }

    fn write_queued(&mut self) {
        for _ in 0..self.queued.len() {
            match self.queued.try_recv() {
                Ok(Message::Line(line)) => self.write(&line),
                Ok(Message::Flush(done)) => drop(done.send(())),
                Ok(Message::LeaveCore(core)) => drop(xdp::exclude_core(core)),
                Err(_) => return,
            }
        }
    }

    /// Writes a line, for as long as that takes.
    fn write(&mut self, mut line: &[u8]) {
        while !line.is_empty() {
            match self.out.write(line) {
                Ok(bytes) if bytes > 0 => line = &line[bytes..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Another process that shares this descriptor has made it non-blocking.
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY),
                Ok(_) | Err(_) => {
                    self.lost.fetch_add(1, Relaxed);
                    return;
                }
            }
        }
        let _ = self.out.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, PipeReader, pipe};
    use tracing_subscriber::layer::SubscriberExt;

    /// Returns a writer on a full pipe that nobody reads, so that its thread blocks on the first
    /// line.
    fn on_a_full_pipe() -> (Writer, PipeReader) {
        let (read, mut write) = pipe().unwrap();
        nix::fcntl::fcntl(&write, nix::fcntl::FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
        write.write_all(&[b'\n'; 4096]).unwrap();
        (Writer::start(write, Arc::default()).unwrap(), read)
    }

    #[test]
    fn lines_arrive_in_order_and_flush_waits_for_them() {
        let (read, write) = pipe().unwrap();
        let writer = Writer::start(write, Arc::default()).unwrap();
        writer.put(b"one\n");
        writer.put(&[b'x'; MAX_LINE_BYTES + 1]);
        assert!(writer.flush());
        let mut lines = BufReader::new(read).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "one");
        assert_eq!(lines.next().unwrap().unwrap(), "x".repeat(MAX_LINE_BYTES) + " ...");
        assert_eq!(writer.lost(), 0);
    }

    /// Logs five lines more than the queue holds, besides the one that the thread may have taken
    /// from it.
    #[test]
    fn a_full_pipe_delays_nobody_and_what_was_lost_is_reported_when_it_is_read() {
        let (writer, read) = on_a_full_pipe();
        for n in 0..MAX_LINES + 6 {
            writer.put(format!("line {n}\n").as_bytes());
        }
        let lost = writer.lost();
        assert!((5..=6).contains(&lost), "{lost}");
        assert!(!writer.flush(), "it waits, but not indefinitely");

        // The pipe can be written again; the thread logs the losses like the rest of the program.
        let subscriber = tracing_subscriber::registry()
            .with(tracing_subscriber::fmt::layer().with_writer(writer.clone()).with_ansi(false));
        tracing::subscriber::set_global_default(subscriber).expect("no other test sets it");
        let mut lines = BufReader::new(read).lines().map(Result::unwrap);
        let last = format!("line {}", MAX_LINES + 5 - lost as usize);
        assert!(lines.any(|line| line == last), "the lines that were queued");
        let reported =
            format!("WARN sluiced::log: lines lost because standard error did not take them: {lost}");
        assert!(lines.any(|line| line.ends_with(&reported)), "and how many were not");
        assert_eq!(writer.lost(), lost);
    }

    #[test]
    fn a_pipe_whose_reader_is_gone_loses_lines_and_harms_nobody() {
        let (read, write) = pipe().unwrap();
        drop(read);
        let writer = Writer::start(write, Arc::default()).unwrap();
        writer.put(b"one\n");
        assert!(writer.flush());
        assert!(writer.lost() >= 1);
    }
}
