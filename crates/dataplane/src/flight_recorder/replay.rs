//! Replays a recording ([`crate::flight_recorder::recorder`]): the same calls with the same
//! arguments in the same order, so that the switch reaches the same state, to the cell and the
//! nanosecond.
//!
//! Rule: a replay verifies everything. It compares each frame that the switch sends with the
//! recorded one, each event with the reported one, and at each checkpoint every field of its
//! snapshot with the snapshot of the recorded switch. The first difference ends the replay: either
//! this is another version of the switch, or the switch depended on an input that the recorder does
//! not record. Source: `docs/recorder.md`.

use bytes::Buf;
use switch::monitor::counters::PfcCount;
use switch::{Event, Instant, Snapshot, Switch, SwitchSettings, WatermarkReset};
use wire::bitset::Set8;
use wire::mac::MacAddr;

use crate::flight_recorder::error::Error;
use crate::flight_recorder::recorder::{EntryKind, TITLE, VERSION};

use crate::flight_recorder::player::Player;

/// The progress of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Iterations of the loop.
    pub turns: u64,
    /// Frames received on all ports.
    pub received_frames: u64,
    /// Frames passed to the ports for transmission, PFC included.
    pub sent_frames: u64,
    /// Checkpoints at which all fields were equal.
    pub checkpoints: u64,
    /// Gaps: the recorder had no chunk and left out entries.
    pub gaps: u64,
    /// Time of the first checkpoint.
    pub from: Instant,
    /// Time of the last iteration or checkpoint.
    pub to: Instant,
}

/// A replay of a recording.
#[derive(Debug)]
pub struct Replay<'a> {
    rest: &'a [u8],
    now: Instant,
    forwards: bool,
    player: Option<Player>,
    /// Events that the replayed switch has reported and that have not yet followed in the
    /// recording.
    events: std::collections::VecDeque<(Instant, Event)>,
    /// The last snapshot that the daemon requested.
    requested: Option<Snapshot>,
    totals: Totals,
}

impl<'a> Replay<'a> {
    /// Creates a replay of a title line and the chunks that follow it.
    ///
    /// # Errors
    /// It has no title, or that of another version.
    pub fn new(recording: &'a [u8]) -> Result<Self, Error> {
        Ok(Self {
            rest: after_title(recording)?,
            now: Instant::default(),
            forwards: true,
            player: None,
            events: Default::default(),
            requested: None,
            totals: Totals::default(),
        })
    }

    /// Continues to the end of the recording, or to the first iteration at or after `until`. Calls
    /// `told` with each event.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run_until(
        &mut self,
        until: Instant,
        reported: &mut impl FnMut(Instant, Event),
    ) -> Result<(), Error> {
        while self.now < until && !self.rest.is_empty() {
            self.step(reported)?;
        }
        Ok(())
    }

    /// Returns the progress so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Takes a snapshot of the switch at the time of the last replayed iteration. Returns `None`
    /// before the first checkpoint.
    pub fn snapshot(&mut self) -> Option<Snapshot> {
        let player = self.player.as_mut()?;
        let mut snapshot = Snapshot::default();
        player.switch.snapshot(self.now, &mut snapshot);
        Some(snapshot)
    }

    /// Returns the last snapshot that the daemon requested, which is what an operator was shown
    /// then, except for the values that the loop adds.
    pub fn requested(&self) -> Option<&Snapshot> {
        self.requested.as_ref()
    }

    /// Replays one entry.
    fn step(&mut self, reported: &mut impl FnMut(Instant, Event)) -> Result<(), Error> {
        let tag = self.rest.try_get_u8()?;
        let tag = EntryKind::of(tag).ok_or_else(|| Error::Malformed(format!("an entry of kind {tag}")))?;
        match tag {
            EntryKind::Checkpoint => self.checkpoint(),
            EntryKind::Event => {
                let (at, event) = self.value()?;
                self.compare_event(at, event)?;
                reported(at, event);
                Ok(())
            }
            EntryKind::Turn => self.turn(),
            EntryKind::Apply => {
                let (now, settings): (Instant, SwitchSettings) = self.value()?;
                self.player()?.switch.apply(&settings, now);
                Ok(())
            }
            EntryKind::Stop => {
                self.forwards = false;
                self.player()?.switch.stop();
                Ok(())
            }
            EntryKind::Tick => {
                let now = self.now;
                let player = self.player()?;
                player.switch.tick(now, &mut player.memory);
                Ok(())
            }
            EntryKind::Watermarks => {
                let mark =
                    if self.rest.try_get_u8()? == 0 { WatermarkReset::Read } else { WatermarkReset::Clear };
                self.player()?.switch.mark_watermarks(mark);
                Ok(())
            }
            EntryKind::Batch => {
                let taken_at = Instant(self.rest.try_get_u64_le()?);
                self.player()?.switch.begin_batch(taken_at);
                Ok(())
            }
            EntryKind::Deadline => {
                let now = Instant(self.rest.try_get_u64_le()?);
                self.player()?.switch.next_deadline(now);
                Ok(())
            }
            EntryKind::Snapshot => {
                let now = Instant(self.rest.try_get_u64_le()?);
                let mut snapshot = Snapshot::default();
                self.player()?.switch.snapshot(now, &mut snapshot);
                self.requested = Some(snapshot);
                Ok(())
            }
            _ => self.of_port(tag),
        }
    }

    /// Replays an entry of one port.
    fn of_port(&mut self, tag: EntryKind) -> Result<(), Error> {
        let port = usize::from(self.rest.try_get_u8()?);
        let now = self.now;
        let rest = &mut self.rest;
        let player = self.player.as_mut().ok_or_else(no_checkpoint)?;
        let Player { switch, memory, .. } = player;
        if port >= switch.settings().ports.len() {
            return Err(Error::Malformed(format!("port number {port}")));
        }
        match tag {
            EntryKind::Completed => player.complete(port, now, rest),
            EntryKind::Received => {
                let frames = player.receive(port, now, self.forwards, rest)?;
                self.totals.received_frames += frames;
                Ok(())
            }
            EntryKind::Waiting => {
                switch.observe_rx_backlog(port, rest.try_get_u32_le()?, now);
                Ok(())
            }
            EntryKind::KernelDropped => {
                switch.kernel_dropped(port, rest.try_get_u64_le()?, now);
                Ok(())
            }
            EntryKind::Stray => {
                switch.stray_frames(port, rest.try_get_u64_le()?, now);
                Ok(())
            }
            EntryKind::Pfc => {
                memory.free_frames = rest.try_get_u32_le()? as usize;
                switch.transmit_pfc(port, now, memory, &mut player.outgoing);
                self.totals.sent_frames += player.compare_sent(port, now, rest)?;
                Ok(())
            }
            EntryKind::Sent => {
                memory.free_frames = rest.try_get_u32_le()? as usize;
                let room = rest.try_get_u16_le()?.into();
                switch.transmit(port, room, now, memory, &mut player.outgoing);
                self.totals.sent_frames += player.compare_sent(port, now, rest)?;
                Ok(())
            }
            EntryKind::KernelLost => player.kernel_lost(port, now, rest),
            EntryKind::Guard => {
                let mut frames = PfcCount { frames: rest.try_get_u64_le()?, ..PfcCount::default() };
                for of_priority in &mut frames.xoff_frames {
                    *of_priority = rest.try_get_u64_le()?;
                }
                switch.record_guard_pfc(port, &frames, Instant(rest.try_get_u64_le()?));
                Ok(())
            }
            EntryKind::Hold => {
                switch.hold(port, rest.try_get_u8()? != 0);
                Ok(())
            }
            EntryKind::RecoverStorms => {
                switch.recover_storms(port, Instant(rest.try_get_u64_le()?), memory);
                Ok(())
            }
            EntryKind::LiftStormLimit => {
                let (now, bits) = (Instant(rest.try_get_u64_le()?), rest.try_get_u8()?);
                switch.lift_storm_limit(port, Set8::from_bits(bits), now, memory);
                Ok(())
            }
            EntryKind::PortDown => {
                switch.port_down(port, Instant(rest.try_get_u64_le()?), memory);
                Ok(())
            }
            EntryKind::PortUp => {
                let now = Instant(rest.try_get_u64_le()?);
                let mut mac = MacAddr::default();
                rest.try_copy_to_slice(&mut mac.0)?;
                switch.port_up(port, Some(mac), now);
                Ok(())
            }
            EntryKind::Unsent => {
                let (now, frame) = (Instant(rest.try_get_u64_le()?), rest.try_get_u32_le()?);
                let frame = player.frame(frame)?;
                player.switch.unsent(port, frame, now, &mut player.memory);
                Ok(())
            }
            EntryKind::Flush => {
                switch.flush(port, Instant(rest.try_get_u64_le()?), memory);
                Ok(())
            }
            tag => unreachable!("{tag:?} has no port"),
        }
    }

    fn player(&mut self) -> Result<&mut Player, Error> {
        self.player.as_mut().ok_or_else(no_checkpoint)
    }

    fn turn(&mut self) -> Result<(), Error> {
        self.now = Instant(self.rest.try_get_u64_le()?);
        let switch = &mut self.player.as_mut().ok_or_else(no_checkpoint)?.switch;
        self.events.extend(switch.drain_events());
        switch.begin_turn(self.now);
        self.totals.turns += 1;
        self.totals.to = self.now;
        Ok(())
    }

    /// Reads the switch of a checkpoint, compares it with the replayed one if there is one, and
    /// continues with it.
    fn checkpoint(&mut self) -> Result<(), Error> {
        let (now, forwards, continues, mut switch): (Instant, bool, bool, Switch) = self.value()?;
        let mut recorded = Snapshot::default();
        switch.snapshot(now, &mut recorded);
        if let (Some(player), true) = (&mut self.player, continues) {
            let mut replayed = Snapshot::default();
            player.switch.snapshot(now, &mut replayed);
            if let Some(difference) = difference(&recorded, &replayed) {
                return Err(Error::Differs(format!("at {} ns, {difference}", now.0)));
            }
            self.totals.checkpoints += 1;
        } else if self.player.is_some() {
            self.totals.gaps += 1;
            self.events.clear();
        } else {
            self.totals.from = now;
        }
        (self.now, self.forwards, self.totals.to) = (now, forwards, now);
        self.player = Some(Player::of(switch));
        Ok(())
    }

    fn compare_event(&mut self, at: Instant, event: Event) -> Result<(), Error> {
        if let Some(player) = &mut self.player {
            self.events.extend(player.switch.drain_events());
        }
        match self.events.pop_front() {
            Some(replayed) if replayed == (at, event) => Ok(()),
            replayed => Err(Error::Differs(format!("{event:?} at {} ns was {replayed:?}", at.0))),
        }
    }

    /// Reads a value that is preceded by its length.
    fn value<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, Error> {
        let len = self.rest.try_get_u32_le()? as usize;
        let (bytes, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or_else(|| Error::Malformed("it ends in the middle of an entry".into()))?;
        self.rest = rest;
        postcard::from_bytes(bytes)
            .map_err(|error| Error::Malformed(format!("{error} (was it recorded by another version?)")))
    }
}

/// Returns what follows the title line of a recording.
fn after_title(recording: &[u8]) -> Result<&[u8], Error> {
    let rest = recording.strip_prefix(TITLE.as_bytes()).ok_or(Error::NoRecording)?;
    let digits = rest.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
    let (version, rest) = rest.split_at(digits);
    let rest = rest.strip_prefix(b"\n").ok_or(Error::NoRecording)?;
    match String::from_utf8_lossy(version) {
        version if version.is_empty() => Err(Error::NoRecording),
        version if version == VERSION.to_string() => Ok(rest),
        version => Err(Error::Version(version.into_owned())),
    }
}

fn no_checkpoint() -> Error {
    Error::Malformed("it does not begin with a checkpoint".into())
}

/// Returns the first field in which two snapshots differ, with both values; `None` if they are
/// equal.
pub fn difference(recorded: &Snapshot, replayed: &Snapshot) -> Option<String> {
    if recorded == replayed {
        return None;
    }
    let (recorded, replayed) = (format!("{recorded:#?}"), format!("{replayed:#?}"));
    let mut path: Vec<&str> = Vec::new();
    for (line, other) in recorded.lines().zip(replayed.lines()) {
        let depth = line.len() - line.trim_start().len();
        path.truncate(depth / 4);
        path.push(line.trim().trim_end_matches(" {").trim_end_matches(" ["));
        if line != other {
            return Some(format!("{} in the recording, {} in the replay", path.join(" "), other.trim()));
        }
    }
    Some("the snapshots are not of the same length".into())
}
