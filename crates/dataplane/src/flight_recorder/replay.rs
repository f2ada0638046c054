//! Replays a recording ([`crate::flight_recorder::recorder`]): the same calls with the same
//! arguments in the same order, so that the switch reaches the same state, to the cell and the
//! nanosecond.
//!
//! Rule: a replay verifies everything. It compares each frame that the switch sends with the
//! recorded one, each event with the reported one, and at each checkpoint every field of its
//! snapshot with the snapshot of the recorded switch. The first difference ends the replay: either
//! this is another version of the switch, or the switch depended on an input that the recorder does
//! not record. A recording is read chunk by chunk, so a replay needs no more memory than the switch
//! and a chunk, whatever is in the recording. Source: `docs/monitoring/recorder.md`.

use std::any::Any;
use std::io::{ErrorKind, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::{Buf, Bytes};
use switch::monitor::counters::{PfcCount, RefusedFrames};
use switch::{CopiedSlots, Event, Instant, Snapshot, Switch, SwitchSettings, WatermarkReset};
use wire::bitset::Set8;
use wire::mac::MacAddr;

use crate::flight_recorder::error::Error;
use crate::flight_recorder::offered::Offered;
use crate::flight_recorder::player::Player;
use crate::flight_recorder::recorder::{ANY, EntryKind, TITLE, VERSION};
use crate::flight_recorder::segments::{ENTRIES, STATE};

/// The longest chunk that is read: a recorder's is a little longer than 1 MiB at most.
const MAX_CHUNK_BYTES: u32 = 16 << 20;
/// The most events that the replayed switch may be ahead of the recording.
const MAX_EVENTS_AHEAD: usize = 1 << 16;

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
pub struct Replay<R> {
    source: R,
    /// What is left of the present chunk of entries.
    remaining: Bytes,
    /// The state of the next segment, as far as it was read.
    loaded: Option<Loaded>,
    /// The state of the present segment is incomplete and there was none before: its entries are
    /// skipped.
    skips_segment: bool,
    /// The first state has been reached.
    has_begun: bool,
    now: Instant,
    forwards: bool,
    player: Option<Player>,
    /// Events that the replayed switch has reported and that have not yet followed in the
    /// recording.
    events: std::collections::VecDeque<(Instant, Event)>,
    /// The last snapshot that the daemon requested.
    requested: Option<Snapshot>,
    totals: Totals,
    /// What was offered, if it is collected.
    offered: Option<Offered>,
}

/// State of a switch, as it is read.
#[derive(Debug)]
struct Loaded {
    switch: Switch,
    is_complete: bool,
}

impl<R: Read> Replay<R> {
    /// Creates a replay of the recording that `source` returns.
    ///
    /// # Errors
    /// It is no recording, or has another version.
    pub fn new(mut source: R) -> Result<Self, Error> {
        read_title(&mut source)?;
        Ok(Self {
            source,
            remaining: Bytes::new(),
            loaded: None,
            skips_segment: false,
            has_begun: false,
            now: Instant::default(),
            forwards: true,
            player: None,
            events: Default::default(),
            requested: None,
            totals: Totals::default(),
            offered: None,
        })
    }

    /// Continues to the end of the recording, or to the first iteration at or after `until`. Calls
    /// `reported` with each event.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run_until(
        &mut self,
        until: Instant,
        reported: &mut impl FnMut(Instant, Event),
    ) -> Result<(), Error> {
        // A recording of a fault of the switch shows it again. A forged checkpoint may have the
        // same effect: it is the whole state of a switch, which relies on its parts to agree.
        let ended = catch_unwind(AssertUnwindSafe(|| self.run(until, reported)));
        ended.unwrap_or_else(|panic| {
            self.player = None;
            Err(Error::Panicked(panic_message(&*panic)))
        })
    }

    fn run(&mut self, until: Instant, reported: &mut impl FnMut(Instant, Event)) -> Result<(), Error> {
        while self.now < until && (!self.remaining.is_empty() || self.next_chunk()?) {
            self.step(reported)?;
        }
        Ok(())
    }

    /// Collects the pauses by peers from now on.
    pub fn collect_pauses(&mut self) {
        self.offered.get_or_insert_default();
    }

    /// Collects the frames and pauses that are offered from now on, at most
    /// [`MAX_OFFERED_FRAMES`](crate::flight_recorder::offered::MAX_OFFERED_FRAMES).
    pub fn collect_offered(&mut self) {
        self.offered.get_or_insert_default().begin_part();
    }

    /// Returns what was collected, and collects no more.
    pub fn take_offered(&mut self) -> Offered {
        self.offered.take().unwrap_or_default()
    }

    /// Returns the settings of the switch. Returns `None` before the first checkpoint.
    pub fn settings(&self) -> Option<&SwitchSettings> {
        self.player.as_ref().map(|player| player.switch.settings())
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
    pub fn last_requested_snapshot(&self) -> Option<&Snapshot> {
        self.requested.as_ref()
    }

    /// Reads the next chunk of entries, and the state before it. Returns false at the end of the
    /// recording.
    fn next_chunk(&mut self) -> Result<bool, Error> {
        loop {
            let Some((kind, chunk)) = read_chunk(&mut self.source)? else { return Ok(false) };
            match kind {
                STATE => self.load(chunk)?,
                ENTRIES if self.skips_segment && chunk.first() != Some(&(EntryKind::Segment as u8)) => {}
                ENTRIES => {
                    self.remaining = chunk;
                    return Ok(true);
                }
                other => return Err(Error::Malformed(format!("a chunk of kind {other}"))),
            }
        }
    }

    /// Reads a chunk of state.
    fn load(&mut self, mut chunk: Bytes) -> Result<(), Error> {
        while !chunk.is_empty() {
            let tag = entry_kind(&mut chunk)?;
            if tag == EntryKind::Checkpoint {
                let switch: Switch = value(&mut chunk)?;
                if switch.max_frame().chunk_bytes == 0 {
                    return Err(Error::Malformed("a frame memory with chunks of 0 bytes".into()));
                }
                self.loaded = Some(Loaded { switch, is_complete: false });
                continue;
            }
            let loaded = self.loaded.as_mut().ok_or_else(no_checkpoint)?;
            match tag {
                EntryKind::Slots => {
                    let slots: CopiedSlots = value(&mut chunk)?;
                    if !loaded.switch.restore_slots(&slots) {
                        return Err(Error::Malformed("a slot that no table has".into()));
                    }
                }
                EntryKind::StateEnd => loaded.is_complete = true,
                other => return Err(Error::Malformed(format!("{other:?} in the state of the switch"))),
            }
        }
        Ok(())
    }

    /// Replays one entry.
    fn step(&mut self, reported: &mut impl FnMut(Instant, Event)) -> Result<(), Error> {
        let tag = entry_kind(&mut self.remaining)?;
        match tag {
            EntryKind::Segment => self.begin_segment(),
            EntryKind::Checkpoint | EntryKind::Slots | EntryKind::StateEnd => {
                Err(Error::Malformed(format!("{tag:?} among entries")))
            }
            EntryKind::Event => {
                let (at, event) = value(&mut self.remaining)?;
                self.compare_event(at, event)?;
                reported(at, event);
                Ok(())
            }
            EntryKind::Iteration => self.turn(),
            EntryKind::Apply => {
                let (now, settings): (Instant, SwitchSettings) = value(&mut self.remaining)?;
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
                let mark = if self.remaining.try_get_u8()? == 0 {
                    WatermarkReset::Read
                } else {
                    WatermarkReset::Clear
                };
                self.player()?.switch.reset_watermarks(mark);
                Ok(())
            }
            EntryKind::FlushFdb => {
                let mut next =
                    || self.remaining.try_get_u16_le().map(|number| (number != ANY).then_some(number));
                let (port, vid) = (next()?, next()?);
                self.player()?.switch.flush_fdb(port.map(usize::from), vid);
                Ok(())
            }
            EntryKind::Batch => {
                let taken_at = Instant(self.remaining.try_get_u64_le()?);
                self.player()?.switch.begin_batch(taken_at);
                Ok(())
            }
            EntryKind::Deadline => {
                let now = Instant(self.remaining.try_get_u64_le()?);
                self.player()?.switch.next_deadline(now);
                Ok(())
            }
            EntryKind::Snapshot => {
                let now = Instant(self.remaining.try_get_u64_le()?);
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
        let port = usize::from(self.remaining.try_get_u8()?);
        let now = self.now;
        let rest = &mut self.remaining;
        let player = self.player.as_mut().ok_or_else(no_checkpoint)?;
        let Player { switch, memory, .. } = player;
        if port >= switch.settings().ports.len() {
            return Err(Error::Malformed(format!("port number {port}")));
        }
        match tag {
            EntryKind::Completed => player.complete(port, now, rest),
            EntryKind::Received => {
                let frames = player.receive(port, now, self.forwards, rest, self.offered.as_mut())?;
                self.totals.received_frames += frames;
                Ok(())
            }
            EntryKind::RxBacklog => {
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
                let on_hold = rest.try_get_u8()? != 0;
                switch.hold(port, on_hold);
                if let (true, Some(offered)) = (on_hold, &mut self.offered) {
                    offered.note_hold(port);
                }
                Ok(())
            }
            EntryKind::BlockQueues => {
                let now = Instant(rest.try_get_u64_le()?);
                switch.block_queues(port, Set8::from_bits(rest.try_get_u8()?), now);
                Ok(())
            }
            EntryKind::Refused => {
                let mut refused = RefusedFrames::default();
                for frames in &mut refused.by_priority {
                    *frames = rest.try_get_u32_le()?;
                }
                refused.others = rest.try_get_u32_le()?;
                switch.refused_frames(port, &refused);
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
            EntryKind::ReleasePeer => {
                switch.release_peer(port);
                Ok(())
            }
            EntryKind::PortDown => {
                switch.port_down(port, Instant(rest.try_get_u64_le()?), memory);
                Ok(())
            }
            tag @ (EntryKind::PortUp | EntryKind::PeerAddress) => {
                let now = Instant(rest.try_get_u64_le()?);
                let mut mac = MacAddr::default();
                rest.try_copy_to_slice(&mut mac.0)?;
                match tag {
                    EntryKind::PortUp => switch.port_up(port, Some(mac), now),
                    _ => switch.peer_address(port, mac, now),
                }
                Ok(())
            }
            EntryKind::AbortTx => {
                let (now, frame) = (Instant(rest.try_get_u64_le()?), rest.try_get_u32_le()?);
                let frame = player.frame(frame)?;
                player.switch.abort_tx(port, frame, now, &mut player.memory);
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
        self.now = Instant(self.remaining.try_get_u64_le()?);
        if let Some(offered) = &mut self.offered {
            offered.begin_iteration(self.now);
        }
        let switch = &mut self.player.as_mut().ok_or_else(no_checkpoint)?.switch;
        self.events.extend(switch.drain_events());
        if self.events.len() > MAX_EVENTS_AHEAD {
            return Err(Error::Differs(format!("{MAX_EVENTS_AHEAD} events are not in the recording")));
        }
        switch.begin_iteration(self.now);
        self.totals.turns += 1;
        self.totals.to = self.now;
        Ok(())
    }

    /// Compares the state with which a segment begins with the replayed one, if there is one, and
    /// continues with it.
    fn begin_segment(&mut self) -> Result<(), Error> {
        let now = Instant(self.remaining.try_get_u64_le()?);
        let forwards = self.remaining.try_get_u8()? != 0;
        let continues = self.remaining.try_get_u8()? != 0;
        let Loaded { mut switch, is_complete } = self.loaded.take().ok_or_else(no_checkpoint)?;
        if let (Some(player), true) = (&mut self.player, continues) {
            let (mut recorded, mut replayed) = (Snapshot::default(), Snapshot::default());
            switch.snapshot(now, &mut recorded);
            player.switch.snapshot(now, &mut replayed);
            if let Some(difference) = difference(&recorded, &replayed) {
                return Err(Error::Differs(format!("at {} ns, {difference}", now.0)));
            }
            self.totals.checkpoints += 1;
        } else {
            self.totals.gaps += u64::from(self.has_begun && !continues);
            self.player = None;
            self.events.clear();
        }
        if is_complete {
            self.player = Some(Player::of(switch));
        }
        self.skips_segment = self.player.is_none();
        if self.skips_segment {
            self.remaining.clear();
            return Ok(());
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.totals.from = now;
        }
        (self.now, self.forwards, self.totals.to) = (now, forwards, now);
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
}

/// Returns the message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref().copied()).unwrap_or("it has no message").to_owned()
}

/// Reads the tag of an entry.
fn entry_kind(rest: &mut Bytes) -> Result<EntryKind, Error> {
    let tag = rest.try_get_u8()?;
    EntryKind::of(tag).ok_or_else(|| Error::Malformed(format!("an entry of kind {tag}")))
}

/// Reads a value that is preceded by its length.
fn value<T: serde::de::DeserializeOwned>(rest: &mut Bytes) -> Result<T, Error> {
    let len = rest.try_get_u32_le()? as usize;
    if len > rest.len() {
        return Err(Error::Malformed("it ends in the middle of an entry".into()));
    }
    postcard::from_bytes(&rest.split_to(len)).map_err(|error| Error::Malformed(error.to_string()))
}

/// Reads the next chunk and its kind; `None` at the end of the recording.
fn read_chunk(source: &mut impl Read) -> Result<Option<(u8, Bytes)>, Error> {
    let mut kind = Vec::new();
    read_up_to(source, 1, &mut kind)?;
    let Some(&kind) = kind.first() else { return Ok(None) };
    let mut len = Vec::new();
    read_up_to(source, 4, &mut len)?;
    let len = (&len[..]).try_get_u32_le().map_err(|_| truncated())?;
    if len > MAX_CHUNK_BYTES {
        return Err(Error::Malformed(format!("a chunk of {len} bytes")));
    }
    let mut bytes = Vec::new();
    read_up_to(source, len, &mut bytes)?;
    if bytes.len() < len as usize { Err(truncated()) } else { Ok(Some((kind, bytes.into()))) }
}

/// Reads as many bytes, or what is left. Memory grows only with what is read.
fn read_up_to(source: &mut impl Read, bytes: u32, out: &mut Vec<u8>) -> Result<(), Error> {
    match source.take(bytes.into()).read_to_end(out) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(truncated()),
        Err(error) => Err(Error::Malformed(error.to_string())),
    }
}

fn truncated() -> Error {
    Error::Malformed("it ends in the middle of a chunk".into())
}

/// Reads the title line of a recording.
fn read_title(source: &mut impl Read) -> Result<(), Error> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') && line.len() < TITLE.len() + 11 {
        let before = line.len();
        // What cannot be read is no recording either: its beginning is not compressed.
        read_up_to(source, 1, &mut line).map_err(|_| Error::NotARecording)?;
        if line.len() == before {
            return Err(Error::NotARecording);
        }
    }
    let line = String::from_utf8(line).map_err(|_| Error::NotARecording)?;
    let version = line.strip_prefix(TITLE).and_then(|rest| rest.strip_suffix('\n'));
    match version {
        Some(version) if version == VERSION.to_string() => Ok(()),
        Some(version) if version.parse::<u32>().is_ok() => Err(Error::Version(version.to_owned())),
        _ => Err(Error::NotARecording),
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
