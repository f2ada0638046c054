//! The daemon's side of the loop's recorder: starts and ends it, bounds the size of the recording,
//! and returns the recording to the client that requested it.
//!
//! A recording is made in two cases: a client requests the next seconds, or `[recorder]` in the
//! file records the loop all the time and keeps the most recent part. A loss then freezes that part
//! a moment later, so that it is still available for examination. Beyond the bound, the oldest
//! seconds are discarded. Source: `docs/recorder.md`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::RecorderSettings;
use control::{CommandError, ErrorKind};
use dataplane::{Chunk, ChunkPool, LoopCommand, Recorder};
use tokio::sync::oneshot;
use tracing::warn;

/// Chunks in transit from the poll loop to this thread: a fifth of a second at full rate.
const CHUNKS: usize = 32;
/// How long recording continues after a loss.
const AFTERMATH: Duration = Duration::from_millis(500);

/// A recording, in pieces.
pub type Pieces = Vec<Vec<u8>>;
/// The channel to the client that requested a recording.
pub type Answer = oneshot::Sender<Result<Pieces, CommandError>>;

/// A client that waits for a recording.
#[derive(Debug)]
struct RecordRequest {
    /// End of the requested time.
    until: Instant,
    answer: Answer,
}

/// State of the loop's recorder.
#[derive(Debug)]
enum State {
    /// The recorder is off.
    Off,
    /// The poll loop records.
    On(Arc<ChunkPool>),
    /// The poll loop has been ordered to end the recording.
    Ending(Arc<ChunkPool>),
    /// The recording is kept unchanged because of a loss.
    Frozen,
}

/// The daemon's recording.
#[derive(Debug)]
pub struct Recording {
    settings: RecorderSettings,
    ports: usize,
    state: State,
    /// Complete segments, the oldest first; the last may still be incomplete.
    kept: VecDeque<Chunk>,
    kept_bytes: usize,
    request: Option<RecordRequest>,
    /// When to freeze the recording, after a loss.
    freeze_at: Option<Instant>,
}

impl Recording {
    /// Creates the recording of a loop with `ports` ports.
    pub fn new(settings: RecorderSettings, ports: usize) -> Self {
        Self {
            settings,
            ports,
            state: State::Off,
            kept: VecDeque::new(),
            kept_bytes: 0,
            request: None,
            freeze_at: None,
        }
    }

    /// Handles the request for a recording of the next `duration`, or of what is kept if `duration`
    /// is 0.
    pub fn enable(&mut self, duration: Duration, answer: Answer, now: Instant) {
        if let Some(refusal) = self.refusal(duration) {
            let _ = answer.send(Err(refusal)); // a client that has disconnected needs none
        } else {
            self.request = Some(RecordRequest { until: now + duration, answer });
        }
    }

    fn refusal(&self, duration: Duration) -> Option<CommandError> {
        let message = if self.request.is_some() {
            "another client is recording: try again when that has ended"
        } else if duration.is_zero() && !self.settings.always {
            "nothing is kept: give a duration, or have the loop recorded all the time with [recorder] always = true"
        } else if !duration.is_zero() && matches!(self.state, State::Frozen) {
            "a loss froze what was recorded: fetch it first with `sluice record --last FILE`"
        } else {
            return None;
        };
        Some(CommandError { reason: ErrorKind::Precondition, message: message.to_owned() })
    }

    /// Keeps the recording of what led to a loss, if that is configured.
    pub fn note_loss(&mut self, now: Instant) {
        if self.settings.always && self.settings.freeze_on_loss && self.request.is_none() {
            self.freeze_at.get_or_insert(now + AFTERMATH);
        }
    }

    /// Takes what the poll loop has recorded. Returns the command to send to it, if any.
    pub fn proceed(&mut self, now: Instant) -> Option<LoopCommand> {
        self.collect();
        if self.request.as_ref().is_some_and(|request| request.answer.is_closed()) {
            self.request = None;
        }
        let is_wanted = self.request.is_some() || self.settings.always;
        let ends = match &self.request {
            Some(request) => request.until <= now,
            None => !is_wanted || self.freeze_at.is_some_and(|at| at <= now),
        };
        match std::mem::replace(&mut self.state, State::Off) {
            State::Off if is_wanted => {
                let reel = ChunkPool::new(CHUNKS);
                self.state = State::On(Arc::clone(&reel));
                return Some(LoopCommand::Record(Some(Box::new(Recorder::new(reel, self.ports)))));
            }
            State::On(reel) if ends => {
                self.state = State::Ending(reel);
                return Some(LoopCommand::Record(None));
            }
            State::Frozen if self.request.is_some() => self.hand_out(),
            state => self.state = state,
        }
        None
    }

    /// Handles the end of the recording in the poll loop; all of it is in the chunk pool.
    pub fn ended(&mut self) {
        self.collect();
        if !matches!(self.state, State::Ending(_)) {
            return; // it reported before that it had none
        }
        self.state = State::Off;
        if self.request.is_some() {
            self.hand_out();
        } else if self.freeze_at.take().is_some() {
            self.state = State::Frozen;
            warn!(
                mib = self.kept_bytes >> 20,
                "something was lost: what was recorded is frozen; fetch it with `sluice record --last FILE`"
            );
        } else {
            self.forget_all();
        }
    }

    fn hand_out(&mut self) {
        let pieces = self.kept.drain(..).map(|chunk| chunk.bytes).collect();
        self.forget_all();
        if let Some(request) = self.request.take() {
            let _ = request.answer.send(Ok(pieces)); // a client that has disconnected needs none
        }
    }

    fn forget_all(&mut self) {
        self.kept.clear();
        self.kept_bytes = 0;
    }

    /// Takes full chunks from the poll loop, returns their memory to it, and discards what exceeds
    /// the bound.
    fn collect(&mut self) {
        let (State::On(reel) | State::Ending(reel)) = &self.state else { return };
        while let Some(Chunk { begins, bytes }) = reel.take() {
            // A replay has to begin with a checkpoint.
            if begins || !self.kept.is_empty() {
                self.kept_bytes += bytes.len();
                self.kept.push_back(Chunk { begins, bytes: bytes.as_slice().to_vec() });
            }
            reel.give_back(bytes);
            while self.kept_bytes > self.settings.memory_bytes
                || self.kept.front().is_some_and(|oldest| !oldest.begins)
            {
                let Some(oldest) = self.kept.pop_front() else { break };
                self.kept_bytes -= oldest.bytes.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: RecorderSettings =
        RecorderSettings { always: false, freeze_on_loss: true, memory_bytes: 64 << 20 };

    /// The daemon's side of a poll loop that answers at once.
    struct Lab {
        recording: Recording,
        start: Instant,
        recorder: bool,
    }

    impl Lab {
        fn new(settings: RecorderSettings) -> Self {
            Self { recording: Recording::new(settings, 2), start: Instant::now(), recorder: false }
        }

        fn enable(
            &mut self,
            at_ms: u64,
            duration_ms: u64,
        ) -> oneshot::Receiver<Result<Pieces, CommandError>> {
            let (answer, answered) = oneshot::channel();
            let now = self.start + Duration::from_millis(at_ms);
            self.recording.enable(Duration::from_millis(duration_ms), answer, now);
            answered
        }

        /// Returns the command that the poll loop gets at that time.
        fn at(&mut self, at_ms: u64) -> Option<bool> {
            let reported = self.recording.proceed(self.start + Duration::from_millis(at_ms));
            match reported {
                Some(LoopCommand::Record(recorder)) => {
                    let had_one = std::mem::replace(&mut self.recorder, recorder.is_some());
                    assert_ne!(had_one, self.recorder, "a loop has one recorder or none");
                    self.recording.ended();
                    Some(self.recorder)
                }
                None => None,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_request_is_recorded_for_its_time() {
        let mut lab = Lab::new(SETTINGS);
        assert_eq!(lab.at(0), None);
        let mut answered = lab.enable(10, 100);
        let refused = lab.enable(20, 100).try_recv().unwrap().unwrap_err();
        assert!(refused.message.contains("another client"), "{refused}");
        assert_eq!((lab.at(20), lab.at(100), lab.at(110)), (Some(true), None, Some(false)));
        assert_eq!(answered.try_recv().unwrap().unwrap(), Pieces::new());
        assert_eq!(lab.at(120), None);
    }

    #[test]
    fn a_client_that_goes_away_ends_its_recording() {
        let mut lab = Lab::new(SETTINGS);
        let answered = lab.enable(0, 10_000);
        assert_eq!(lab.at(1), Some(true));
        drop(answered);
        assert_eq!((lab.at(2), lab.at(3)), (Some(false), None));
    }

    #[test]
    fn what_is_kept_can_be_had_only_where_something_is() {
        let refused = Lab::new(SETTINGS).enable(0, 0).try_recv().unwrap().unwrap_err();
        assert!(refused.message.starts_with("nothing is kept"), "{refused}");
        let mut lab = Lab::new(RecorderSettings { always: true, ..SETTINGS });
        assert_eq!(lab.at(0), Some(true));
        let mut answered = lab.enable(5, 0);
        assert_eq!((lab.at(6), lab.at(7)), (Some(false), Some(true)), "and then it goes on");
        assert!(answered.try_recv().unwrap().is_ok());
    }

    #[test]
    fn a_loss_freezes_what_is_kept_until_somebody_fetches_it() {
        let mut lab = Lab::new(RecorderSettings { always: true, ..SETTINGS });
        assert_eq!(lab.at(0), Some(true));
        lab.recording.note_loss(lab.start + Duration::from_millis(100));
        lab.recording.note_loss(lab.start + Duration::from_millis(400)); // a second loss
        assert_eq!((lab.at(599), lab.at(600), lab.at(5000)), (None, Some(false), None));
        let refused = lab.enable(5000, 1000).try_recv().unwrap().unwrap_err();
        assert!(refused.message.contains("--last"), "{refused}");
        let mut answered = lab.enable(6000, 0);
        assert_eq!((lab.at(6001), lab.at(6002)), (None, Some(true)));
        assert!(answered.try_recv().unwrap().is_ok());
    }

    /// Segments consist of two chunks of 10 MiB each, of which 64 MiB are kept.
    #[test]
    fn the_oldest_segments_are_forgotten_whole() {
        let mut recording = Recording::new(SETTINGS, 2);
        let reel = ChunkPool::new(2);
        recording.state = State::On(Arc::clone(&reel));
        for number in 0..15_u8 {
            let chunk = Chunk { begins: number % 2 == 1, bytes: vec![number; 10 << 20] };
            reel.put(chunk).unwrap();
            recording.collect();
        }
        let kept: Vec<_> = recording.kept.iter().map(|chunk| chunk.bytes[0]).collect();
        assert_eq!((kept, recording.kept_bytes), (vec![9, 10, 11, 12, 13, 14], 60 << 20));
    }
}
