//! The daemon's side of the loop's recorder: starts and ends it, bounds the size of the recording,
//! and returns the recording to the client that requested it.
//!
//! A recording is made in two cases: a client requests the next seconds, or `[recorder]` in the
//! file records the loop all the time and keeps the most recent part. A loss then freezes that part
//! a moment later: it is kept ([`incidents`]) while the loop records on. Beyond the bound, the
//! oldest seconds are discarded. Source: `docs/monitoring/recorder.md`.

mod incidents;

use std::sync::Arc;
use std::time::{Duration, Instant};

use config::RecorderSettings;
use control::server::Recorded;
use control::{CommandError, CommandResult, ErrorKind, Peer, RecordingCounts};
use dataplane::{Chunk, ChunkPool, LoopCommand, Recorder, Segments};
use switch::{EventKind, EventRecord};
use tokio::sync::oneshot;
use tracing::info;

use crate::flight_recorder::incidents::{Incident, Incidents};

/// Chunks in transit from the poll loop to this thread: a fifth of a second at full rate.
const CHUNKS: usize = 32;
/// How long recording continues after a loss.
const AFTERMATH: Duration = Duration::from_millis(500);
/// A loss that follows another within this time belongs to the same incident.
const QUIET: Duration = Duration::from_secs(5);

/// The channel to the client that requested a recording.
pub type RecordingReply = oneshot::Sender<Result<Recorded, CommandError>>;

/// A client that waits for a recording.
#[derive(Debug)]
struct RecordRequest {
    duration: Duration,
    /// End of the requested time; `None` until the loop records.
    until: Option<Instant>,
    /// The client wants what has been recorded so far, which is kept until it has stored it.
    is_kept: bool,
    answer: RecordingReply,
}

/// A loss whose recording is frozen a moment later.
#[derive(Debug)]
struct Loss {
    freeze_at: Instant,
    kind: EventKind,
}

/// State of the loop's recorder.
#[derive(Debug)]
enum RecorderState {
    /// The recorder is off.
    Off,
    /// The poll loop records.
    On(Arc<ChunkPool>),
    /// The poll loop has been ordered to end a recording, and perhaps to begin the next.
    Ending { ended: Arc<ChunkPool>, next: Option<Arc<ChunkPool>> },
}

/// The daemon's recording.
#[derive(Debug)]
pub struct FlightRecorder {
    settings: RecorderSettings,
    ports: usize,
    state: RecorderState,
    /// Commands that the poll loop has not answered.
    unanswered: usize,
    /// The most recent part of the present recording.
    current: Segments,
    incidents: Incidents,
    request: Option<RecordRequest>,
    /// The loss that is to be kept.
    loss: Option<Loss>,
    last_loss: Option<Instant>,
    events: Vec<EventRecord>,
}

impl RecordRequest {
    fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl FlightRecorder {
    /// Creates the recording of a loop with `ports` ports.
    pub fn new(settings: RecorderSettings, ports: usize) -> Self {
        Self {
            settings,
            ports,
            state: RecorderState::Off,
            unanswered: 0,
            current: Segments::default(),
            incidents: Incidents::new(2 * settings.memory_bytes),
            request: None,
            loss: None,
            last_loss: None,
            events: Vec::new(),
        }
    }

    /// Applies other settings. A loss that is to be kept is still kept.
    pub fn apply(&mut self, settings: RecorderSettings) {
        self.settings = settings;
        self.incidents.set_most_bytes(2 * settings.memory_bytes);
    }

    /// Handles the request for a recording of the next `duration`, or of what is kept if `duration`
    /// is 0: the oldest recording of a loss, or else what has been recorded so far. `by` is the
    /// client, for the log.
    pub fn request(&mut self, duration: Duration, by: &Peer, answer: RecordingReply, now: Instant) {
        let is_kept = duration.is_zero();
        let outcome = match self.incidents.oldest() {
            Some(oldest) if is_kept => Ok(self.kept(oldest)),
            _ => match self.refusal(is_kept) {
                Some(refusal) => Err(refusal),
                None => {
                    if !is_kept {
                        info!(by = by.to_string(), "the loop is recorded for {duration:?} for a client");
                    }
                    self.request = Some(RecordRequest { duration, until: None, is_kept, answer });
                    self.begin_request(now);
                    return;
                }
            },
        };
        let _ = answer.send(outcome); // a client that has disconnected needs none
    }

    /// Starts the time of a request, if the loop records: it may have taken a while to begin.
    fn begin_request(&mut self, now: Instant) {
        if let (RecorderState::On(_), Some(request)) = (&self.state, &mut self.request) {
            request.until.get_or_insert(now + request.duration);
        }
    }

    /// Discards a kept recording, which the client `by` has stored.
    pub fn acknowledge(&mut self, number: u64, by: &Peer, answer: oneshot::Sender<CommandResult>) {
        let outcome = if self.incidents.discard(number) {
            let message = format!("recording {number} was fetched, and is no longer kept");
            info!(by = by.to_string(), "recording {number} is discarded");
            let event = EventRecord::new(EventKind::RecordingFetched, message).with("recording", number);
            self.events.push(match by.uid {
                Some(uid) => event.with("uid", uid.into()),
                None => event,
            });
            Ok(Vec::new())
        } else {
            let message = format!("there is no recording {number} that is kept: it was fetched before");
            Err(CommandError { reason: ErrorKind::NotFound, message })
        };
        let _ = answer.send(outcome); // a client that has disconnected needs none
    }

    fn refusal(&self, is_kept: bool) -> Option<CommandError> {
        let message = if self.request.is_some() {
            "another client is recording: try again when that has ended"
        } else if is_kept && !self.settings.always {
            "nothing is kept: give a duration, or have the loop recorded all the time with [recorder] always = true"
        } else {
            return None;
        };
        Some(CommandError { reason: ErrorKind::Precondition, message: message.to_owned() })
    }

    /// Keeps the recording of what led to a loss, if that is configured. `kind` is the loss's kind
    /// of event.
    pub fn on_loss(&mut self, kind: EventKind, now: Instant) {
        if !self.settings.always || !self.settings.freeze_on_loss {
            return;
        }
        let is_new = self.last_loss.is_none_or(|last| last + QUIET <= now);
        self.last_loss = Some(now);
        if is_new {
            self.loss.get_or_insert(Loss { freeze_at: now + AFTERMATH, kind });
        }
    }

    /// Takes what the poll loop has recorded. Returns the command to send to it, if any.
    pub fn poll(&mut self, now: Instant) -> Option<LoopCommand> {
        self.collect();
        if self.request.as_ref().is_some_and(|request| request.answer.is_closed()) {
            self.request = None;
        }
        let is_wanted = self.request.is_some() || self.loss.is_some() || self.settings.always;
        let ends = !is_wanted
            || self.request.as_ref().is_some_and(|request| request.is_over(now))
            || self.loss.as_ref().is_some_and(|loss| loss.freeze_at <= now);
        let command = match std::mem::replace(&mut self.state, RecorderState::Off) {
            RecorderState::Off if is_wanted => {
                let pool = ChunkPool::new(CHUNKS);
                let recorder = Recorder::new(Arc::clone(&pool), self.ports);
                self.state = RecorderState::On(pool);
                Some(LoopCommand::Record(Some(Box::new(recorder))))
            }
            RecorderState::On(ended) if ends => {
                let goes_on = self.request.as_ref().is_some_and(|request| !request.is_over(now));
                let next = (self.settings.always || goes_on).then(|| ChunkPool::new(CHUNKS));
                let recorder = next.as_ref().map(|pool| Recorder::new(Arc::clone(pool), self.ports));
                self.state = RecorderState::Ending { ended, next };
                Some(LoopCommand::Record(recorder.map(Box::new)))
            }
            state => {
                self.state = state;
                None
            }
        };
        self.unanswered += usize::from(command.is_some());
        command
    }

    /// Handles the answer of the poll loop: it records from now on, or not any more, and all of a
    /// recording that ended is in the chunk pool.
    pub fn on_loop_reply(&mut self, now: Instant) {
        self.collect();
        self.unanswered = self.unanswered.saturating_sub(1);
        if self.unanswered > 0 {
            return; // the answer to a command before the last
        }
        if let RecorderState::Ending { next, .. } = &mut self.state {
            self.state = next.take().map_or(RecorderState::Off, RecorderState::On);
            self.on_recording_end(now);
        }
        self.begin_request(now);
    }

    /// Keeps, or hands out, the recording that ended.
    fn on_recording_end(&mut self, now: Instant) {
        self.current.end();
        if let Some(loss) = self.loss.take_if(|loss| loss.freeze_at <= now) {
            self.freeze(&loss);
        }
        if let Some(request) = self.request.take_if(|request| request.is_over(now)) {
            self.deliver(request);
        }
        // Who records on has all of it, and a recording that ended is of no further use.
        if self.request.is_none() {
            self.current.clear();
        }
    }

    /// Keeps a copy of what was recorded.
    fn freeze(&mut self, loss: &Loss) {
        let kept = self.incidents.keep(self.current.clone());
        let event = if let Some(Incident { number, segments }) = kept {
            let (bytes, mib) = (segments.bytes() as u64, segments.bytes().div_ceil(1 << 20));
            let message = format!(
                "recording {number} is kept, of what led to {}: {mib} MiB; fetch it with `sluice record --last FILE`",
                loss.kind
            );
            let event = EventRecord::new(EventKind::RecordingFrozen, message);
            event.with("recording", *number).with("bytes", bytes)
        } else {
            let kept = self.incidents.counts().kept;
            let message = format!(
                "the recording of what led to {} is not kept, as {kept} others are: fetch them with \
                 `sluice record --last FILE`",
                loss.kind
            );
            let event = EventRecord::new(EventKind::RecordingNotKept, message);
            event.with("recordings_kept", kept)
        };
        self.events.push(event);
    }

    /// Returns what was recorded to a client.
    fn deliver(&mut self, request: RecordRequest) {
        let recorded = match self.incidents.oldest() {
            Some(oldest) if request.is_kept => self.kept(oldest), // a loss came first
            None if request.is_kept && self.current.bytes() > 0 => {
                let _ = self.incidents.keep(self.current.clone()); // it is the only one
                self.incidents.oldest().map(|kept| self.kept(kept)).unwrap_or_default()
            }
            _ => Recorded { pieces: self.current.recording(), ..Recorded::default() },
        };
        let _ = request.answer.send(Ok(recorded)); // a client that has disconnected needs none
    }

    fn kept(&self, incident: &Incident) -> Recorded {
        let further = self.incidents.counts().kept - 1;
        Recorded { pieces: incident.segments.recording(), number: Some(incident.number), further }
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<EventRecord> {
        std::mem::take(&mut self.events)
    }

    /// Returns the counters of kept recordings.
    pub fn counts(&self) -> RecordingCounts {
        self.incidents.counts()
    }

    /// Takes full chunks from the poll loop, returns their memory to it, and discards what exceeds
    /// the bound.
    fn collect(&mut self) {
        let (RecorderState::On(pool) | RecorderState::Ending { ended: pool, .. }) = &self.state else {
            return;
        };
        while let Some(chunk) = pool.pop_full() {
            self.current.push(&chunk);
            self.current.discard_beyond(self.settings.memory_bytes, 0);
            let Chunk { bytes, .. } = chunk;
            pool.recycle(bytes);
        }
    }
}

#[cfg(test)]
mod tests;
