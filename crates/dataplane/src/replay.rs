//! Takes a switch through a recording ([`crate::recorder`]): the same calls with the same arguments in the same order, so that it
//! comes to the same state, to the cell and the nanosecond.
//!
//! Rule: a replay believes nothing. What the switch sends is compared with what was sent, frame by frame; its events with those that were
//! told; and at each checkpoint every field of its snapshot with that of the switch in the checkpoint. The first difference ends
//! it: either this is another version of the switch, or the switch went by something that the recorder does not know of.
//! Source: `docs/recorder.md`.

use bytes::{Buf, TryGetError};
use switch::{
    Event, FrameId, HeapMemory, Instant, Mark, Memory, Outgoing, Received, Snapshot, Switch, SwitchSettings,
    chunks_of,
};

use wire::mac::MacAddr;
use wire::set::Set8;

use crate::recorder::{CONTROL_BYTES, TUNNEL_HEADER_BYTES, Tag, header_bytes, is_control};

/// Bytes of a frame that the replay has room for: what the switch reads of one, and a PFC frame that it writes.
const FRAME_BYTES: usize = 128;
const _: () = assert!(FRAME_BYTES >= TUNNEL_HEADER_BYTES && FRAME_BYTES >= CONTROL_BYTES);

/// Why a replay ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The recording has an end in the middle of an entry, or says what no recorder writes.
    Malformed(String),
    /// The switch did something else than what was recorded.
    Differs(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Malformed(what) => write!(f, "the recording is damaged: {what}"),
            Error::Differs(what) => write!(f, "the replay differs from the recording: {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<TryGetError> for Error {
    fn from(_: TryGetError) -> Self {
        Error::Malformed("it ends in the middle of an entry".into())
    }
}

/// What a replay has come through so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Turns of the loop.
    pub turns: u64,
    /// Frames that came in.
    pub received_frames: u64,
    /// Frames that were given to the ports, PFC included.
    pub sent_frames: u64,
    /// Checkpoints at which all was equal.
    pub checkpoints: u64,
    /// Times that the recorder had to leave something out.
    pub gaps: u64,
    /// Time of the first checkpoint.
    pub from: Instant,
    /// Time of the last turn or checkpoint.
    pub to: Instant,
}

/// A replay of a recording.
#[derive(Debug)]
pub struct Replay<'a> {
    rest: &'a [u8],
    now: Instant,
    forwards: bool,
    stage: Option<Stage>,
    /// What the switch told and the recording has not yet.
    events: std::collections::VecDeque<(Instant, Event)>,
    /// What the switch said when the daemon last asked.
    asked: Option<Snapshot>,
    totals: Totals,
}

/// The switch and the memory that its frames lie in.
#[derive(Debug)]
struct Stage {
    switch: Switch,
    memory: StageMemory,
    /// By the number that a frame had in the recording: the one that it has here.
    names: Vec<u32>,
    outgoing: Vec<Outgoing>,
}

/// Memory in which as many frames are free as were free in the recording, so that it runs out where that did. A long one counts
/// as the pieces that it lay in.
#[derive(Debug)]
struct StageMemory {
    heap: HeapMemory,
    free_frames: usize,
    /// Bytes of a piece in the recording.
    chunk_bytes: usize,
    /// By frame: the pieces that it lies in beyond the first.
    more: Vec<u8>,
}

impl StageMemory {
    /// Takes frame `frame`, of `len` bytes, whose pieces are not counted as free any more.
    fn set_len(&mut self, frame: &FrameId, len: usize) {
        if let Some(more) = self.more.get_mut(frame.index()) {
            *more = (chunks_of(len, self.chunk_bytes) - 1) as u8;
        }
    }
}

impl Memory for StageMemory {
    fn alloc(&mut self) -> Option<FrameId> {
        self.alloc_for(1)
    }

    fn alloc_for(&mut self, len: usize) -> Option<FrameId> {
        self.free_frames = self.free_frames.checked_sub(chunks_of(len, self.chunk_bytes))?;
        let frame = self.heap.alloc()?;
        self.set_len(&frame, len);
        Some(frame)
    }

    fn make_room(&mut self, frame: &FrameId, len: usize) -> bool {
        let Some(more) = self.more.get(frame.index()) else { return true };
        let needed = chunks_of(len, self.chunk_bytes).saturating_sub(1 + usize::from(*more));
        let Some(left) = self.free_frames.checked_sub(needed) else { return false };
        self.free_frames = left;
        self.more[frame.index()] += needed as u8;
        true
    }

    fn free(&mut self, frame: FrameId) {
        let more = self.more.get_mut(frame.index()).map_or(0, std::mem::take);
        self.free_frames += 1 + usize::from(more);
        self.heap.free(frame);
    }

    fn bytes(&self, frame: &FrameId, len: usize) -> &[u8] {
        self.heap.bytes(frame, len)
    }

    fn bytes_mut(&mut self, frame: &FrameId, len: usize) -> &mut [u8] {
        self.heap.bytes_mut(frame, len)
    }

    fn copy(&mut self, from: &FrameId, to: &FrameId, len: usize) {
        self.heap.copy(from, to, len);
    }

    fn max_len(&self) -> usize {
        self.heap.max_len()
    }

    fn free_frames(&self) -> usize {
        self.free_frames
    }
}

impl<'a> Replay<'a> {
    /// A replay of these chunks, one after the other.
    pub fn new(recording: &'a [u8]) -> Self {
        Self {
            rest: recording,
            now: Instant::default(),
            forwards: true,
            stage: None,
            events: Default::default(),
            asked: None,
            totals: Totals::default(),
        }
    }

    /// Goes on to the end of the recording, or to the first turn at or after `until`. `told` is given each event.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run_until(&mut self, until: Instant, told: &mut impl FnMut(Instant, Event)) -> Result<(), Error> {
        while self.now < until && !self.rest.is_empty() {
            self.step(told)?;
        }
        Ok(())
    }

    /// What the replay has come through.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// All that the switch counts, at the time of the turn that was replayed last. Nothing before the first checkpoint.
    pub fn snapshot(&mut self) -> Option<Snapshot> {
        let stage = self.stage.as_mut()?;
        let mut snapshot = Snapshot::default();
        stage.switch.snapshot(self.now, &mut snapshot);
        Some(snapshot)
    }

    /// The last snapshot that the daemon asked for, and so what an operator was shown then (but for what the loop adds of its own).
    pub fn asked(&self) -> Option<&Snapshot> {
        self.asked.as_ref()
    }

    /// One entry.
    fn step(&mut self, told: &mut impl FnMut(Instant, Event)) -> Result<(), Error> {
        let tag = self.rest.try_get_u8()?;
        let tag = Tag::of(tag).ok_or_else(|| Error::Malformed(format!("an entry of kind {tag}")))?;
        match tag {
            Tag::Checkpoint => self.checkpoint(),
            Tag::Event => {
                let (at, event) = self.value()?;
                self.compare_event(at, event)?;
                told(at, event);
                Ok(())
            }
            Tag::Turn => self.turn(),
            Tag::Apply => {
                let (now, settings): (Instant, SwitchSettings) = self.value()?;
                self.stage()?.switch.apply(&settings, now);
                Ok(())
            }
            Tag::Stop => {
                self.forwards = false;
                self.stage()?.switch.stop();
                Ok(())
            }
            Tag::Tick => {
                let now = self.now;
                let stage = self.stage()?;
                stage.switch.tick(now, &mut stage.memory);
                Ok(())
            }
            Tag::Watermarks => {
                let mark = if self.rest.try_get_u8()? == 0 { Mark::Read } else { Mark::Clear };
                self.stage()?.switch.mark_watermarks(mark);
                Ok(())
            }
            Tag::Deadline => {
                let now = Instant(self.rest.try_get_u64_le()?);
                self.stage()?.switch.next_deadline(now);
                Ok(())
            }
            Tag::Snapshot => {
                let now = Instant(self.rest.try_get_u64_le()?);
                let mut snapshot = Snapshot::default();
                self.stage()?.switch.snapshot(now, &mut snapshot);
                self.asked = Some(snapshot);
                Ok(())
            }
            _ => self.of_port(tag),
        }
    }

    /// An entry of one port.
    fn of_port(&mut self, tag: Tag) -> Result<(), Error> {
        let port = usize::from(self.rest.try_get_u8()?);
        let now = self.now;
        let rest = &mut self.rest;
        let stage = self.stage.as_mut().ok_or_else(no_checkpoint)?;
        let Stage { switch, memory, .. } = stage;
        if port >= switch.settings().ports.len() {
            return Err(Error::Malformed(format!("port number {port}")));
        }
        match tag {
            Tag::Completed => stage.complete(port, now, rest),
            Tag::Received => {
                let frames = stage.receive(port, now, self.forwards, rest)?;
                self.totals.received_frames += frames;
                Ok(())
            }
            Tag::Waiting => {
                switch.observe_rx_rings(port, rest.try_get_u32_le()?, now);
                Ok(())
            }
            Tag::KernelDropped => {
                switch.kernel_dropped(port, rest.try_get_u64_le()?, now);
                Ok(())
            }
            Tag::Stray => {
                switch.stray_frames(port, rest.try_get_u64_le()?, now);
                Ok(())
            }
            Tag::Pfc => {
                memory.free_frames = rest.try_get_u32_le()? as usize;
                switch.transmit_pfc(port, now, memory, &mut stage.outgoing);
                self.totals.sent_frames += stage.compare_sent(port, now, rest)?;
                Ok(())
            }
            Tag::Sent => {
                memory.free_frames = rest.try_get_u32_le()? as usize;
                let room = rest.try_get_u16_le()?.into();
                switch.transmit(port, room, now, memory, &mut stage.outgoing);
                self.totals.sent_frames += stage.compare_sent(port, now, rest)?;
                Ok(())
            }
            Tag::KernelLost => {
                switch.kernel_lost(port, rest.try_get_u32_le()?);
                Ok(())
            }
            Tag::Guard => {
                let (frames, at) = (rest.try_get_u64_le()?, Instant(rest.try_get_u64_le()?));
                switch.told_by_guard(port, frames, at);
                Ok(())
            }
            Tag::Hold => {
                switch.hold(port, rest.try_get_u8()? != 0);
                Ok(())
            }
            Tag::RecoverStorms => {
                switch.recover_storms(port, Instant(rest.try_get_u64_le()?), memory);
                Ok(())
            }
            Tag::LiftStormLimit => {
                let (now, bits) = (Instant(rest.try_get_u64_le()?), rest.try_get_u8()?);
                switch.lift_storm_limit(port, Set8::from_bits(bits), now, memory);
                Ok(())
            }
            Tag::PortDown => {
                switch.port_down(port, Instant(rest.try_get_u64_le()?), memory);
                Ok(())
            }
            Tag::PortUp => {
                let now = Instant(rest.try_get_u64_le()?);
                let mut mac = MacAddr::default();
                rest.try_copy_to_slice(&mut mac.0)?;
                switch.port_up(port, Some(mac), now);
                Ok(())
            }
            Tag::Unsent => {
                let (now, frame) = (Instant(rest.try_get_u64_le()?), rest.try_get_u32_le()?);
                let frame = stage.frame(frame)?;
                stage.switch.unsent(port, frame, now, &mut stage.memory);
                Ok(())
            }
            Tag::Flush => {
                switch.flush(port, Instant(rest.try_get_u64_le()?), memory);
                Ok(())
            }
            tag => unreachable!("{tag:?} has no port"),
        }
    }

    fn stage(&mut self) -> Result<&mut Stage, Error> {
        self.stage.as_mut().ok_or_else(no_checkpoint)
    }

    fn turn(&mut self) -> Result<(), Error> {
        self.now = Instant(self.rest.try_get_u64_le()?);
        let switch = &mut self.stage.as_mut().ok_or_else(no_checkpoint)?.switch;
        self.events.extend(switch.drain_events());
        switch.begin_turn(self.now);
        self.totals.turns += 1;
        self.totals.to = self.now;
        Ok(())
    }

    /// The switch as it was then: compared with the one that has come so far, if there is one, and taken in its place.
    fn checkpoint(&mut self) -> Result<(), Error> {
        let (now, forwards, continues, mut switch): (Instant, bool, bool, Switch) = self.value()?;
        let mut recorded = Snapshot::default();
        switch.snapshot(now, &mut recorded);
        if let (Some(stage), true) = (&mut self.stage, continues) {
            let mut replayed = Snapshot::default();
            stage.switch.snapshot(now, &mut replayed);
            if let Some(difference) = difference(&recorded, &replayed) {
                return Err(Error::Differs(format!("at {} ns, {difference}", now.0)));
            }
            self.totals.checkpoints += 1;
        } else if self.stage.is_some() {
            self.totals.gaps += 1;
            self.events.clear();
        } else {
            self.totals.from = now;
        }
        (self.now, self.forwards, self.totals.to) = (now, forwards, now);
        self.stage = Some(Stage::of(switch));
        Ok(())
    }

    fn compare_event(&mut self, at: Instant, event: Event) -> Result<(), Error> {
        if let Some(stage) = &mut self.stage {
            self.events.extend(stage.switch.drain_events());
        }
        match self.events.pop_front() {
            Some(replayed) if replayed == (at, event) => Ok(()),
            replayed => Err(Error::Differs(format!("{event:?} at {} ns was {replayed:?}", at.0))),
        }
    }

    /// A value with its length before it.
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

fn no_checkpoint() -> Error {
    Error::Malformed("it does not begin with a checkpoint".into())
}

impl Stage {
    fn of(switch: Switch) -> Self {
        let frames = switch.memory_frames();
        let heap = HeapMemory::with_taken(frames, FRAME_BYTES, |index| switch.has_frame(index));
        let chunk_bytes = usize::from(switch.frame_room().chunk_bytes);
        let more = |frame| chunks_of(switch.frame_len(frame).into(), chunk_bytes) - 1;
        let more = (0..frames).map(|frame| more(frame) as u8).collect();
        let memory = StageMemory { free_frames: heap.free_frames(), heap, chunk_bytes, more };
        Self { switch, memory, names: (0..frames as u32).collect(), outgoing: Vec::new() }
    }

    /// The frame that has this number in the recording, and leaves where it was.
    fn frame(&self, recorded: u32) -> Result<FrameId, Error> {
        let name = self.names.get(recorded as usize);
        let name = name.copied().filter(|&name| self.switch.has_frame(name as usize));
        name.map(FrameId::new)
            .ok_or_else(|| Error::Differs(format!("frame {recorded} left twice, or never came")))
    }

    /// From now on the recording's frame is this one.
    fn name(&mut self, recorded: u32, frame: &FrameId) -> Result<(), Error> {
        let name = self.names.get_mut(recorded as usize);
        *name.ok_or_else(|| Error::Malformed(format!("frame number {recorded}")))? = frame.index() as u32;
        Ok(())
    }

    fn complete(&mut self, port: usize, now: Instant, rest: &mut &[u8]) -> Result<(), Error> {
        for _ in 0..rest.try_get_u16_le()? {
            let frame = self.frame(rest.try_get_u32_le()?)?;
            self.switch.complete(port, frame, now, &mut self.memory);
        }
        Ok(())
    }

    fn receive(&mut self, port: usize, now: Instant, forwards: bool, rest: &mut &[u8]) -> Result<u64, Error> {
        let free_frames = rest.try_get_u32_le()? as usize;
        let frames = rest.try_get_u16_le()?;
        let mut arrivals = Vec::with_capacity(frames.into());
        for _ in 0..frames {
            let (recorded, len) = (rest.try_get_u32_le()?, rest.try_get_u16_le()?);
            let frame = self.memory.heap.alloc();
            let frame = frame.ok_or_else(|| Error::Differs("there is no memory for what came in".into()))?;
            self.name(recorded, &frame)?;
            self.memory.set_len(&frame, len.into());
            let bytes = self.memory.heap.bytes_mut(&frame, len.into());
            bytes.fill(0);
            let header = bytes.len().min(header_bytes(&self.switch, port));
            rest.try_copy_to_slice(&mut bytes[..header])?;
            if is_control(bytes) {
                let control = bytes.len().min(CONTROL_BYTES).max(header);
                rest.try_copy_to_slice(&mut bytes[header..control])?;
            }
            arrivals.push(self.switch.look(port, Received { frame, len }, bytes));
        }
        self.memory.free_frames = free_frames;
        if forwards {
            self.switch.receive_all(&mut arrivals, now, &mut self.memory);
        } else {
            self.switch.obey_only(&mut arrivals, now, &mut self.memory);
        }
        Ok(frames.into())
    }

    /// What the switch has just sent is what the recording says it sent.
    fn compare_sent(&mut self, port: usize, now: Instant, rest: &mut &[u8]) -> Result<u64, Error> {
        let recorded_frames = usize::from(rest.try_get_u16_le()?);
        let outgoing = std::mem::take(&mut self.outgoing);
        if outgoing.len() != recorded_frames {
            let what = format!("{} frames left port {port} where {recorded_frames} did", outgoing.len());
            return Err(Error::Differs(format!("at {} ns, {what}", now.0)));
        }
        for sent in &outgoing {
            let (recorded, len) = (rest.try_get_u32_le()?, rest.try_get_u16_le()?);
            if sent.len != len {
                let what = format!("a frame of {} bytes left port {port} where one of {len} did", sent.len);
                return Err(Error::Differs(format!("at {} ns, {what}", now.0)));
            }
            self.name(recorded, &sent.frame)?;
        }
        Ok(outgoing.len() as u64)
    }
}

/// How two snapshots differ: the first field that does, with both values. Nothing if they are equal.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A long frame takes and gives back what it took in the recording, and memory is short when that was.
    #[test]
    fn a_long_frame_counts_as_its_pieces() {
        let heap = HeapMemory::new(8, FRAME_BYTES);
        let mut memory = StageMemory { heap, free_frames: 8, chunk_bytes: 1792, more: vec![0; 8] };
        let short = memory.alloc_for(1792).unwrap();
        let long = memory.alloc_for(9018).unwrap();
        assert_eq!(memory.free_frames(), 1);
        assert!(memory.alloc_for(1793).is_none() && memory.free_frames() == 1);
        assert!(memory.make_room(&long, 9022) && memory.free_frames() == 1, "it has room");
        assert!(memory.make_room(&short, 1796) && memory.free_frames() == 0);
        assert!(!memory.make_room(&short, 1792 * 2 + 1));
        memory.free(long);
        assert_eq!(memory.free_frames(), 6);
        memory.free(short);
        assert_eq!(memory.free_frames(), 8);
    }
}
