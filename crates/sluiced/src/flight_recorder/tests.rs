use dataplane::ChunkKind;

use super::*;

const SETTINGS: RecorderSettings =
    RecorderSettings { always: false, freeze_on_loss: true, memory_bytes: 64 << 20 };
const ALWAYS: RecorderSettings = RecorderSettings { always: true, ..SETTINGS };

/// The daemon's side of a poll loop that answers at once, and writes a chunk between two commands.
struct Lab {
    recording: FlightRecorder,
    start: Instant,
    recorder: bool,
    chunks: u8,
}

impl Lab {
    fn new(settings: RecorderSettings) -> Self {
        Self {
            recording: FlightRecorder::new(settings, 2),
            start: Instant::now(),
            recorder: false,
            chunks: 0,
        }
    }

    fn ms(&self, at_ms: u64) -> Instant {
        self.start + Duration::from_millis(at_ms)
    }

    fn enable(&mut self, at_ms: u64, duration_ms: u64) -> oneshot::Receiver<Result<Recorded, CommandError>> {
        let (answer, answered) = oneshot::channel();
        self.recording.request(Duration::from_millis(duration_ms), &Peer::default(), answer, self.ms(at_ms));
        answered
    }

    fn acknowledge(&mut self, number: u64) -> bool {
        let (answer, mut answered) = oneshot::channel();
        let by = Peer { uid: Some(1000), ..Peer::default() };
        self.recording.acknowledge(number, &by, answer);
        answered.try_recv().unwrap().is_ok()
    }

    /// Returns the command that the poll loop gets at that time: record, or not.
    fn at(&mut self, at_ms: u64) -> Option<bool> {
        let command = self.recording.poll(self.ms(at_ms))?;
        let LoopCommand::Record(recorder) = command else { panic!("{command:?}") };
        let had_one = std::mem::replace(&mut self.recorder, recorder.is_some());
        assert!(had_one || self.recorder, "a loop that does not record is not ended");
        if let RecorderState::On(pool) | RecorderState::Ending { ended: pool, .. } = &self.recording.state {
            self.chunks += 1;
            let (segment, bytes) = (self.chunks.into(), vec![self.chunks; 10]);
            pool.push_full(Chunk { segment, kind: ChunkKind::LastState, bytes }).unwrap();
        }
        self.recording.on_loop_reply(self.ms(at_ms));
        Some(self.recorder)
    }

    fn lose(&mut self, at_ms: u64) {
        self.recording.on_loss(EventKind::NoDropLost, self.ms(at_ms));
    }

    fn events(&mut self) -> Vec<&'static str> {
        self.recording.take_events().iter().map(|event| event.kind.name()).collect()
    }
}

/// Returns the numbers of the chunks in a recording, which begins with its title.
fn chunks(recorded: &Recorded) -> Vec<u8> {
    recorded.pieces.iter().skip(1).map(|piece| piece[5]).collect()
}

#[test]
fn a_request_is_recorded_for_its_time() {
    let mut lab = Lab::new(SETTINGS);
    assert_eq!(lab.at(0), None);
    let mut answered = lab.enable(10, 100);
    let refused = lab.enable(20, 100).try_recv().unwrap().unwrap_err();
    assert!(refused.message.contains("another client"), "{refused}");
    // Its time begins when the loop records.
    assert_eq!((lab.at(20), lab.at(119), lab.at(120)), (Some(true), None, Some(false)));
    let recorded = answered.try_recv().unwrap().unwrap();
    assert_eq!((chunks(&recorded), recorded.number), (vec![1, 2], None));
    assert_eq!(lab.at(130), None);
}

#[test]
fn a_client_that_goes_away_ends_its_recording() {
    let mut lab = Lab::new(SETTINGS);
    let answered = lab.enable(0, 10_000);
    assert_eq!(lab.at(1), Some(true));
    drop(answered);
    assert_eq!((lab.at(2), lab.at(3)), (Some(false), None));
}

/// What is recorded all the time is kept once a client asks for it, until the client has stored it.
#[test]
fn a_client_that_fails_to_store_a_recording_gets_it_again() {
    let refused = Lab::new(SETTINGS).enable(0, 0).try_recv().unwrap().unwrap_err();
    assert!(refused.message.starts_with("nothing is kept"), "{refused}");
    let mut lab = Lab::new(ALWAYS);
    assert_eq!(lab.at(0), Some(true));
    let mut answered = lab.enable(5, 0);
    assert_eq!((lab.at(6), lab.at(7)), (Some(true), None), "and then it goes on");
    let first = answered.try_recv().unwrap().unwrap();
    assert_eq!((chunks(&first), first.number), (vec![1, 2], Some(1)));
    let again = lab.enable(8, 0).try_recv().unwrap().unwrap();
    assert_eq!(again, first);
    assert!(lab.acknowledge(1) && !lab.acknowledge(1));
    let events = lab.recording.take_events();
    let [fetched] = &events[..] else { panic!("one event") };
    assert_eq!(fetched.kind.name(), "recording_fetched");
    assert_eq!(fetched.values, [("recording", 1), ("uid", 1000)]);
    assert!(lab.enable(9, 0).try_recv().is_err(), "what was recorded since is yet to come");
}

/// A reload turns the recorder on and off. What is kept stays, and so does a loss that has
/// happened.
#[test]
fn a_reload_begins_and_ends_what_is_recorded() {
    let mut lab = Lab::new(SETTINGS);
    assert_eq!(lab.at(0), None);
    lab.recording.apply(ALWAYS);
    assert_eq!((lab.at(1), lab.at(2)), (Some(true), None));
    lab.lose(10);
    lab.recording.apply(SETTINGS);
    assert_eq!((lab.at(509), lab.at(510), lab.at(511)), (None, Some(false), None));
    assert_eq!((lab.events(), lab.recording.counts().kept), (vec!["recording_frozen"], 1));
    lab.lose(20_000);
    assert_eq!(lab.at(21_000), None, "nothing is recorded, so nothing can be kept");
    lab.recording.apply(ALWAYS);
    assert_eq!(lab.at(21_001), Some(true));
    lab.lose(30_000);
    assert_eq!((lab.at(30_500), lab.recording.counts().kept), (Some(true), 2));
    lab.recording.apply(RecorderSettings { memory_bytes: 0, ..ALWAYS });
    assert_eq!(lab.recording.counts().kept, 2, "what is kept stays, although there is no room for it");
}

#[test]
fn a_loss_is_kept_until_it_is_acknowledged_and_so_is_the_next() {
    let mut lab = Lab::new(ALWAYS);
    assert_eq!(lab.at(0), Some(true));
    lab.lose(100);
    lab.lose(400); // the same incident
    assert_eq!((lab.at(599), lab.at(600), lab.at(5000)), (None, Some(true), None));
    lab.lose(5300); // still the same
    assert_eq!(lab.at(6000), None);
    lab.lose(10_300);
    assert_eq!((lab.at(10_799), lab.at(10_800)), (None, Some(true)));
    assert_eq!(lab.events(), ["recording_frozen", "recording_frozen"]);
    let counts = lab.recording.counts();
    assert_eq!((counts.kept, counts.kept_bytes, counts.frozen, counts.not_kept), (2, 45, 2, 0));

    for _ in 0..2 {
        let first = lab.enable(11_000, 0).try_recv().unwrap().unwrap();
        assert_eq!((chunks(&first), first.number, first.further), (vec![1, 2], Some(1), 1));
    }
    assert!(lab.acknowledge(1));
    let second = lab.enable(11_000, 0).try_recv().unwrap().unwrap();
    assert_eq!((chunks(&second), second.number, second.further), (vec![3], Some(2), 0));
    assert!(lab.acknowledge(2));
    assert_eq!(lab.recording.counts().kept, 0);
}

/// A loss while a client records: both have all of it.
#[test]
fn a_loss_during_a_request_is_kept_too() {
    let mut lab = Lab::new(ALWAYS);
    assert_eq!(lab.at(0), Some(true));
    let mut answered = lab.enable(10, 2000);
    lab.lose(100);
    assert_eq!((lab.at(600), lab.at(2010)), (Some(true), Some(true)));
    let recorded = answered.try_recv().unwrap().unwrap();
    assert_eq!((chunks(&recorded), recorded.number), (vec![1, 2, 3], None));
    let kept = lab.enable(3000, 0).try_recv().unwrap().unwrap();
    assert_eq!((chunks(&kept), kept.number), (vec![1, 2], Some(1)));
}

#[test]
fn a_loss_beyond_the_bounds_is_counted_and_reported() {
    let mut lab = Lab::new(ALWAYS);
    assert_eq!(lab.at(0), Some(true));
    for incident in 0..incidents::MAX_INCIDENTS as u64 + 1 {
        lab.lose(incident * 10_000);
        assert_eq!(lab.at(incident * 10_000 + 500), Some(true));
    }
    let events = lab.recording.take_events();
    assert_eq!(events.last().map(|event| event.kind), Some(EventKind::RecordingNotKept));
    let counts = lab.recording.counts();
    assert_eq!((counts.kept, counts.not_kept), (incidents::MAX_INCIDENTS as u64, 1));
}

#[test]
fn without_always_or_freeze_on_loss_nothing_is_kept() {
    for settings in [SETTINGS, RecorderSettings { freeze_on_loss: false, ..ALWAYS }] {
        let mut lab = Lab::new(settings);
        lab.at(0);
        lab.lose(100);
        assert_eq!((lab.at(700), lab.recording.counts().frozen), (None, 0));
    }
}

/// A loop that answers late: the requested time begins then, and an answer to an earlier command
/// ends nothing.
#[test]
fn a_request_lasts_its_time_from_when_the_loop_records() {
    let mut lab = Lab::new(SETTINGS);
    let mut answered = lab.enable(0, 100);
    assert!(lab.recording.poll(lab.ms(1)).is_some());
    assert!(lab.recording.poll(lab.ms(200)).is_none(), "it may not record yet");
    lab.recording.on_loop_reply(lab.ms(300));
    assert!(lab.recording.poll(lab.ms(399)).is_none());
    assert!(lab.recording.poll(lab.ms(400)).is_some());
    lab.recording.on_loop_reply(lab.ms(401));
    assert!(answered.try_recv().unwrap().is_ok());

    let other = lab.enable(501, 100);
    assert!(lab.recording.poll(lab.ms(502)).is_some());
    drop(other);
    assert!(lab.recording.poll(lab.ms(503)).is_some(), "nobody wants it any more");
    lab.recording.on_loop_reply(lab.ms(504)); // it records
    assert!(matches!(lab.recording.state, RecorderState::Ending { .. }));
    lab.recording.on_loop_reply(lab.ms(505));
    assert!(matches!(lab.recording.state, RecorderState::Off));
}
