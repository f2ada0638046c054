//! The daemon's side of a capture: starts and ends it in the poll loop, and passes the frames to
//! the client that requested it.
//!
//! Rule: there is one capture at a time. It ends when its client disconnects, when a bound is
//! reached, and when the daemon stops. A client that takes no frames makes the loop run out of
//! buffers, which is counted. A capture that has ended waits for such a client for
//! [`PATIENCE`] only. Source: docs/monitoring/capture.md.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{CommandError, ErrorKind, v1};
use dataplane::{
    Capture, CaptureFilter, CaptureRing, FrameDirection, FrameHeader, FrameVerdict, LoopCommand,
};
use switch::LONGEST_BYTES;
use tokio::sync::mpsc;
use tracing::warn;
use wire::bitset::{Set8, Set64};

use crate::control_loop::commands::slot_of;
use crate::control_loop::running_config::RunningConfig;

/// Batches that wait for the client.
const BATCHES: usize = 64;
/// How long a capture that has ended waits for a client that takes no frames.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a frame that are kept if the client does not say.
const SNAP_BYTES: u32 = 128;

/// The captures of the daemon: one at most.
#[derive(Debug, Default)]
pub struct Captures {
    session: Option<Session>,
}

/// A capture, and its client.
#[derive(Debug)]
struct Session {
    ring: Arc<CaptureRing>,
    out: mpsc::Sender<v1::CaptureBatch>,
    /// Room for the batch that reports frames which the client did not take.
    last: Option<mpsc::OwnedPermit<v1::CaptureBatch>>,
    /// When a capture that has ended is given up; `None` while it runs.
    give_up_at: Option<Instant>,
    until: Option<Instant>,
    /// Start of the loop's clock, in nanoseconds since 1970.
    unix_start_ns: u64,
    /// The ports, and the number of missed frames, that the client knows.
    ports: Vec<v1::CapturePort>,
    missed: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The loop is to get this.
    Requested(Box<Capture>),
    /// The loop will have it in a moment.
    Starting,
    /// The loop captures. The client learns of it by the first batch.
    On,
    /// The loop has been ordered to end it.
    Ending,
    /// The loop has ended it; the client has not got all frames.
    Ended,
}

impl Captures {
    /// Starts a capture for a client. Returns the channel for its frames.
    pub fn request(
        &mut self,
        wanted: &v1::CaptureRequest,
        running: &RunningConfig,
        unix_start_ns: u64,
    ) -> Result<mpsc::Receiver<v1::CaptureBatch>, CommandError> {
        if self.session.is_some() {
            let message = "another client is capturing: try again when that has ended".to_owned();
            return Err(CommandError { reason: ErrorKind::Precondition, message });
        }
        let filter = filter(wanted, running)?;
        let (out, batches) = mpsc::channel(BATCHES + 1);
        let ring = CaptureRing::new();
        let capture = Box::new(Capture::new(Arc::clone(&ring), filter));
        let duration = Duration::from_millis(wanted.duration_ms.into());
        self.session = Some(Session {
            ring,
            last: out.clone().try_reserve_owned().ok(),
            out,
            give_up_at: None,
            until: (!duration.is_zero()).then(|| Instant::now() + duration),
            unix_start_ns,
            ports: Vec::new(),
            missed: 0,
            state: State::Requested(capture),
        });
        Ok(batches)
    }

    /// True while a capture runs.
    pub fn is_busy(&self) -> bool {
        self.session.is_some()
    }

    /// Passes frames to the client. Returns the command to send to the poll loop, if any.
    pub fn poll(&mut self, now: Instant, running: &RunningConfig) -> Option<LoopCommand> {
        let session = self.session.as_mut()?;
        let begins = matches!(session.state, State::Requested(_) | State::Starting);
        let has_all = !begins && session.deliver(|| ports(running));
        let is_over = session.out.is_closed()
            || session.ring.is_complete()
            || session.until.is_some_and(|until| until <= now);
        match std::mem::replace(&mut session.state, State::Ending) {
            State::Requested(capture) => {
                session.state = State::Starting;
                Some(LoopCommand::Capture(Some(capture)))
            }
            State::On if is_over => Some(LoopCommand::Capture(None)),
            State::Ended if has_all || session.out.is_closed() => {
                self.session = None;
                None
            }
            State::Ended if *session.give_up_at.get_or_insert(now + PATIENCE) <= now => {
                session.give_up();
                self.session = None;
                None
            }
            state => {
                session.state = state;
                None
            }
        }
    }

    /// Handles the reply of the poll loop: it captures, or it has ended a capture, all of whose
    /// frames are in the ring.
    pub fn on_loop_reply(&mut self, has_ended: bool) {
        if let Some(Session { state, .. }) = &mut self.session {
            *state = match std::mem::replace(state, State::Ended) {
                State::Starting if !has_ended => State::On,
                State::Ending if has_ended => State::Ended,
                other => other,
            };
        }
    }

    /// Ends the stream to the client, as the daemon stops.
    pub fn stop(&mut self) {
        self.session = None;
    }
}

impl Session {
    /// Sends what the client has room for. True if it has got everything.
    fn deliver(&mut self, ports: impl FnOnce() -> Vec<v1::CapturePort>) -> bool {
        let mut present = Some(ports());
        while let Ok(permit) = self.out.try_reserve() {
            let buffer = self.ring.pop_full();
            let missed_frames = self.ring.missed();
            let ports = present.take().filter(|ports| *ports != self.ports);
            if buffer.is_none() && missed_frames == self.missed && ports.is_none() {
                return true;
            }
            self.missed = missed_frames;
            if let Some(ports) = &ports {
                self.ports.clone_from(ports);
            }
            let frames = buffer.as_deref().map(|buffer| frames(buffer, self.unix_start_ns));
            if let Some(buffer) = buffer {
                self.ring.recycle(buffer);
            }
            permit.send(v1::CaptureBatch {
                ports: ports.unwrap_or_default(),
                frames: frames.unwrap_or_default(),
                missed_frames,
            });
        }
        false
    }

    /// Reports the frames that the client has not taken as missed.
    fn give_up(&mut self) {
        let mut missed_frames = self.ring.missed();
        while let Some(buffer) = self.ring.pop_full() {
            missed_frames += count(&buffer);
        }
        warn!(missed_frames, "a capture has ended whose client takes no frames: it gets no more");
        if let Some(last) = self.last.take() {
            drop(last.send(v1::CaptureBatch { missed_frames, ..v1::CaptureBatch::default() }));
        }
    }
}

/// Returns the number of frames in a buffer.
fn count(mut buffer: &[u8]) -> u64 {
    let mut frames = 0;
    while FrameHeader::take(&mut buffer).is_some() {
        frames += 1;
    }
    frames
}

/// Returns the frames of a buffer.
fn frames(mut buffer: &[u8], unix_start_ns: u64) -> Vec<v1::CapturedFrame> {
    let mut frames = Vec::new();
    while let Some((header, bytes)) = FrameHeader::take(&mut buffer) {
        frames.push(v1::CapturedFrame {
            unix_ns: unix_start_ns.saturating_add(header.at.0),
            port: header.port.into(),
            out: header.direction == FrameDirection::Out,
            verdict: header.verdict.name().to_owned(),
            priority: header.priority.map(u32::from),
            reason: header.drop.map_or(String::new(), |(reason, _)| reason.name().to_owned()),
            drop_port: header.drop.map(|(_, port)| port.into()),
            length_bytes: header.len.into(),
            bytes: bytes.to_vec(),
        });
    }
    frames
}

/// Returns the ports by their slots, which frames name them by.
fn ports(running: &RunningConfig) -> Vec<v1::CapturePort> {
    let slots = running.slots();
    let port = |&slot: &usize| {
        let name = slots.name(slot).unwrap_or_default().to_owned();
        let settings = running.config().switch.ports.iter().find(|port| port.name == name);
        v1::CapturePort {
            number: slot as u32,
            name,
            interface: slots.interface(slot).unwrap_or_default().to_owned(),
            speed_bps: settings.and_then(|port| port.speed_bps).unwrap_or(0),
        }
    };
    slots.in_config_order().iter().map(port).collect()
}

/// Returns the filter that a client wants.
fn filter(wanted: &v1::CaptureRequest, running: &RunningConfig) -> Result<CaptureFilter, CommandError> {
    let ports = match wanted.ports.as_slice() {
        [] => Set64::first_n(64),
        names => names.iter().map(|name| slot_of(name, running)).collect::<Result<Set64, _>>()?,
    };
    let priorities = match wanted.priorities.as_slice() {
        [] => Set8::ALL,
        some => some.iter().map(|&priority| priority_of(priority)).collect::<Result<Set8, _>>()?,
    };
    let snap_bytes = if wanted.snap_bytes == 0 { SNAP_BYTES } else { wanted.snap_bytes };
    Ok(CaptureFilter {
        ports,
        directions: named(
            &wanted.directions,
            [("in", FrameDirection::In), ("out", FrameDirection::Out)],
            "direction",
        )?,
        priorities,
        verdicts: named(
            &wanted.verdicts,
            FrameVerdict::ALL.map(|verdict| (verdict.name(), verdict)),
            "verdict",
        )?,
        snap_bytes: snap_bytes.min(LONGEST_BYTES as u32) as u16,
        max_frames: if wanted.max_frames == 0 { u64::MAX } else { wanted.max_frames },
    })
}

fn priority_of(priority: u32) -> Result<usize, CommandError> {
    match priority {
        0..=7 => Ok(priority as usize),
        _ => Err(invalid(format!("priorities are 0 to 7, not {priority}"))),
    }
}

/// Returns the values of these names, or all values if no name is given.
fn named<T: Copy, const N: usize>(
    names: &[String],
    values: [(&str, T); N],
    what: &str,
) -> Result<Vec<T>, CommandError> {
    if names.is_empty() {
        return Ok(values.map(|(_, value)| value).to_vec());
    }
    let value = |name: &String| {
        let found = values.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let known = values.map(|(known, _)| known).join(", ");
            invalid(format!("there is no {what} `{name}`; there are {known}"))
        })
    };
    names.iter().map(value).collect()
}

fn invalid(message: String) -> CommandError {
    CommandError { reason: ErrorKind::Invalid, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn running() -> RunningConfig {
        let text = "[port.a]\ninterface = \"veth0\"\nspeed = \"1G\"\n[port.b]\ninterface = \"veth1\"\n";
        RunningConfig::new(config::parse("lab.toml", text).unwrap(), Path::new("/nowhere/lab.toml"))
    }

    #[test]
    fn a_request_becomes_a_filter_or_is_refused() {
        let running = running();
        let all = filter(&v1::CaptureRequest::default(), &running).unwrap();
        assert_eq!((all.directions.len(), all.verdicts.len(), all.priorities), (2, 5, Set8::ALL));
        assert_eq!((all.snap_bytes, all.max_frames), (128, u64::MAX));
        let wanted = v1::CaptureRequest {
            ports: vec!["b".into()],
            directions: vec!["out".into()],
            priorities: vec![3, 4],
            verdicts: vec!["dropped".into()],
            snap_bytes: 1 << 20,
            max_frames: 7,
            ..v1::CaptureRequest::default()
        };
        let some = filter(&wanted, &running).unwrap();
        assert_eq!(some.ports, Set64::of(1));
        assert_eq!(
            (some.directions, some.verdicts),
            (vec![FrameDirection::Out], vec![FrameVerdict::Dropped])
        );
        assert_eq!((some.priorities.bits(), some.max_frames), (0b11000, 7));
        assert_eq!(usize::from(some.snap_bytes), LONGEST_BYTES);

        let refused = |wanted| filter(&wanted, &running).unwrap_err().message;
        assert_eq!(
            refused(v1::CaptureRequest { ports: vec!["c".into()], ..Default::default() }),
            "there is no port `c`; the ports are a, b"
        );
        assert_eq!(
            refused(v1::CaptureRequest { directions: vec!["up".into()], ..Default::default() }),
            "there is no direction `up`; there are in, out"
        );
        assert_eq!(
            refused(v1::CaptureRequest { priorities: vec![8], ..Default::default() }),
            "priorities are 0 to 7, not 8"
        );
    }

    #[test]
    fn one_client_captures_at_a_time_until_it_is_gone() {
        let (running, now) = (running(), Instant::now());
        let mut captures = Captures::default();
        let mut batches = captures.request(&v1::CaptureRequest::default(), &running, 0).unwrap();
        let other = captures.request(&v1::CaptureRequest::default(), &running, 0).unwrap_err();
        assert_eq!(other.reason, ErrorKind::Precondition);
        assert!(matches!(captures.poll(now, &running), Some(LoopCommand::Capture(Some(_)))));
        assert!(captures.poll(now, &running).is_none() && batches.try_recv().is_err(), "it is not on yet");
        captures.on_loop_reply(false);
        assert!(captures.poll(now, &running).is_none());
        let ports = batches.try_recv().unwrap().ports;
        assert_eq!((ports[0].name.as_str(), ports[0].speed_bps), ("a", 1_000_000_000));
        assert_eq!((ports[1].number, ports[1].interface.as_str()), (1, "veth1"));
        assert!(captures.poll(now, &running).is_none() && batches.try_recv().is_err(), "nothing is new");

        drop(batches);
        assert!(matches!(captures.poll(now, &running), Some(LoopCommand::Capture(None))));
        assert!(captures.poll(now, &running).is_none() && captures.is_busy(), "the loop has not answered");
        captures.on_loop_reply(true);
        assert!(captures.poll(now, &running).is_none() && !captures.is_busy());
    }

    #[test]
    fn it_ends_after_its_time_and_the_stream_with_it() {
        let (running, now) = (running(), Instant::now());
        let mut captures = Captures::default();
        let wanted = v1::CaptureRequest { duration_ms: 5, ..v1::CaptureRequest::default() };
        let mut batches = captures.request(&wanted, &running, 0).unwrap();
        assert!(captures.poll(now, &running).is_some());
        captures.on_loop_reply(false);
        assert!(captures.poll(now, &running).is_none());
        let later = now + Duration::from_secs(1);
        assert!(matches!(captures.poll(later, &running), Some(LoopCommand::Capture(None))));
        captures.on_loop_reply(true);
        assert!(captures.poll(later, &running).is_none() && !captures.is_busy());
        assert_eq!(batches.try_recv().unwrap().ports.len(), 2);
        assert!(batches.try_recv().is_err() && batches.is_closed());
    }

    /// Others can capture then, and the client learns how many frames it did not get.
    #[test]
    fn a_capture_that_has_ended_does_not_wait_for_a_client_that_takes_no_frames() {
        let (running, now) = (running(), Instant::now());
        let mut captures = Captures::default();
        let wanted = v1::CaptureRequest { duration_ms: 5, ..v1::CaptureRequest::default() };
        let mut batches = captures.request(&wanted, &running, 0).unwrap();
        assert!(captures.poll(now, &running).is_some());
        captures.on_loop_reply(false);
        let out = &captures.session.as_ref().unwrap().out;
        while out.try_send(v1::CaptureBatch::default()).is_ok() {}
        let over = now + Duration::from_secs(1);
        assert!(matches!(captures.poll(over, &running), Some(LoopCommand::Capture(None))));
        captures.on_loop_reply(true);
        for later in [over, over + PATIENCE - Duration::from_millis(1)] {
            assert!(captures.poll(later, &running).is_none() && captures.is_busy(), "it waits");
        }
        assert!(captures.poll(over + PATIENCE, &running).is_none() && !captures.is_busy());
        assert!(captures.request(&wanted, &running, 0).is_ok());
        let mut left = 0;
        while batches.try_recv().is_ok() {
            left += 1;
        }
        assert!(left == BATCHES + 1 && batches.is_closed(), "{left}");
    }
}
