//! Where snapshots and events come from: a daemon, or a recording that is replayed.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use control::client::{EventBatches, SnapshotStream};
use control::v1::{Event, Snapshot};
use control::{Client, ClientError};
use switch::Instant;
use tokio::time::{Interval, interval, sleep};

use crate::record::{self, FileReplay};

/// How long to wait before the next attempt to connect.
const RETRY: Duration = Duration::from_secs(1);

/// What came next.
pub enum Update {
    /// The switch as it is now.
    Snapshot(Box<Snapshot>),
    /// New events, the oldest first.
    Events(Vec<Event>),
    /// Why nothing comes at present; the next snapshot ends that.
    Interrupted(String),
}

/// A daemon or a recording.
pub enum Source {
    /// A running switch.
    Live(Box<DaemonSource>),
    Recording(Box<Recording>),
}

impl Source {
    /// Waits for what comes next. An abandoned wait loses nothing.
    pub async fn next(&mut self) -> Result<Update> {
        match self {
            Source::Live(live) => Ok(live.next().await),
            Source::Recording(recording) => recording.next().await,
        }
    }
}

/// A daemon, to which a lost connection is made again.
pub struct DaemonSource {
    socket: PathBuf,
    interval: Duration,
    streams: Option<(SnapshotStream, EventBatches)>,
    /// Process of the daemon, and the number of its last event.
    last_event: (u32, u64),
}

impl DaemonSource {
    /// Connects to a daemon. Returns its name as well.
    pub async fn connect(socket: &Path, interval: Duration) -> Result<(Self, String)> {
        let info = Client::connect(socket).await?.info().await?;
        let mut live = Self { socket: socket.to_path_buf(), interval, streams: None, last_event: (0, 0) };
        live.streams = Some(live.open().await?);
        Ok((live, info.name))
    }

    /// Opens the streams. Events of the same daemon go on after the last one.
    async fn open(&mut self) -> Result<(SnapshotStream, EventBatches), ClientError> {
        let mut client = Client::connect(&self.socket).await?;
        let pid = client.info().await?.pid;
        let since = if self.last_event.0 == pid { self.last_event.1 } else { 0 };
        self.last_event = (pid, since);
        Ok((client.watch(self.interval, false).await?, client.events(since, true).await?))
    }

    async fn next(&mut self) -> Update {
        let Some((snapshots, events)) = &mut self.streams else {
            sleep(RETRY).await;
            return match self.open().await {
                Ok(streams) => {
                    self.streams = Some(streams);
                    Update::Events(Vec::new())
                }
                Err(error) => Update::Interrupted(error.to_string()),
            };
        };
        let ended = tokio::select! {
            snapshot = snapshots.next() => match snapshot {
                Ok(Some(snapshot)) => return Update::Snapshot(Box::new(snapshot)),
                other => other.err(),
            },
            batch = events.next() => match batch {
                Ok(Some(batch)) => {
                    self.last_event.1 = batch.events.last().map_or(self.last_event.1, |last| last.number);
                    return Update::Events(batch.events);
                }
                other => other.err(),
            },
        };
        self.streams = None;
        Update::Interrupted(ended.map_or("the daemon has ended".to_owned(), |error| error.to_string()))
    }
}

/// A recording that is replayed at its own pace.
pub struct Recording {
    replay: FileReplay,
    name: String,
    next_at: Instant,
    step_ns: u64,
    ticks: Interval,
    /// Events of the last step.
    events: Vec<Event>,
    is_over: bool,
    /// The end has been reported.
    has_reported_end: bool,
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// The file cannot be read, or is none of this version.
    pub fn open(file: &Path, step: Duration) -> Result<Self> {
        let name = file.display().to_string();
        let mut replay = record::open(file)?;
        // The first entry is replayed, to have a start time to count from.
        replay.run_until(Instant(1), &mut |_, _| {})?;
        let next_at = replay.totals().from;
        let (step_ns, ticks) = (step.as_nanos() as u64, interval(step));
        Ok(Self {
            replay,
            name,
            next_at,
            step_ns,
            ticks,
            events: Vec::new(),
            is_over: false,
            has_reported_end: false,
        })
    }

    async fn next(&mut self) -> Result<Update> {
        if !self.events.is_empty() {
            return Ok(Update::Events(std::mem::take(&mut self.events)));
        }
        if self.is_over && std::mem::replace(&mut self.has_reported_end, true) {
            return pending().await;
        }
        if self.is_over {
            return Ok(Update::Interrupted("the recording ends here".to_owned()));
        }
        self.ticks.tick().await;
        let mut happened = Vec::new();
        self.replay.run_until(self.next_at, &mut |at, event| happened.push((at, event)))?;
        // What led to a loss is often at the end, in a last step that is shorter than the others.
        self.is_over = self.replay.totals().to < self.next_at;
        let Some(snapshot) = self.replay.snapshot() else {
            anyhow::bail!("{}: the recording is empty", self.name);
        };
        self.next_at = self.next_at + self.step_ns;
        let names = record::port_names(&snapshot);
        self.events = happened.into_iter().map(|(at, event)| record::event_of(at, event, &names)).collect();
        Ok(Update::Snapshot(Box::new(record::message_of(&snapshot))))
    }
}
