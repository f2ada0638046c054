//! The flight recorder: writes down all that a loop gives its switch, so that the same switch can
//! be taken through it again ([`crate::flight_recorder::replay`]).
//!
//! A recording is one or more segments. A segment begins with a checkpoint, the whole state of the
//! switch at the beginning of a turn, and goes on with entries in the order in which the switch was
//! called: a tag, a port number where there is one, then the entry's numbers, little-endian. Of a
//! frame that came in it keeps the number of its memory, its length and its first [`header_bytes`]
//! (or [`CONTROL_BYTES`]), which is all that the switch ever reads; of frames that left, numbers
//! and lengths, which the replay compares.
//!
//! Rule: the loop never waits and never allocates for its recorder. It fills chunks that the daemon
//! hands it by a [`ChunkPool`]; if there is none left, the segment breaks off, and the next one begins
//! when there is one again. Nothing is recorded of the gap and nothing else suffers. Every second a
//! new segment begins, so that the oldest can be forgotten. Source: `docs/recorder.md`.

use std::sync::Arc;

use bytes::BufMut;
use crossbeam::queue::ArrayQueue;
use switch::monitor::counters::PfcCount;
use switch::pfc::rx_backlog::XON_FRAMES;
use switch::settings::Trust;
use switch::{
    Event, FrameId, FrameMemory, Instant, Nanos, RxFrame, Switch, SwitchSettings, TxDesc, WatermarkReset,
};
use wire::bitset::Set8;
use wire::ethernet::MAC_CONTROL;
use wire::mac::MacAddr;
use wire::tunnel::LONGEST_VXLAN_HEADERS_BYTES;

use crate::frame_batch::LOOK_AHEAD;

/// Bytes of a frame that are kept: the Ethernet header, two tags, and the two bytes of an IP packet
/// that its DSCP and ECN are in.
pub const HEADER_BYTES: usize = 24;
/// The same of a MAC control frame: all of PFC but its padding.
pub const CONTROL_BYTES: usize = 34;
/// The same of a frame that comes in where the tag inside a tunnel counts.
pub const TUNNEL_HEADER_BYTES: usize = LONGEST_VXLAN_HEADERS_BYTES;
/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = 1 << 20;
/// A new segment begins after so long.
const SEGMENT_NS: Nanos = 1_000_000_000;
/// Bytes of the longest entry but checkpoints and settings: a full turn's transmission.
const MAX_ENTRY_BYTES: usize = 16 * 1024;

/// What an entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EntryKind {
    /// Length u32, then (time, data is forwarded, continues the segment before, switch).
    Checkpoint = 1,
    /// Time u64.
    Turn,
    /// Port, count u16, frame numbers u32.
    Completed,
    /// Port, free frames of the memory u32, count u16, then for each frame its number u32, length
    /// u16, header.
    Received,
    /// Port, frames u32 that wait in its RX rings.
    Waiting,
    /// Port, frames u64 that the kernel dropped.
    KernelDropped,
    /// What is due at this time of the turn.
    Tick,
    /// Port, free frames u32, count u16, frame number u32 and length u16 of the PFC frame.
    Pfc,
    /// Port, free frames u32, room u16, count u16, frame numbers u32 and lengths u16.
    Sent,
    /// Port, count u16, frame numbers u32, which the kernel lost.
    KernelLost,
    /// Port, frames u64 that the guard sent, those that paused each priority 8 × u64, time u64 of
    /// the last.
    Guard,
    /// Somebody asked when something is due, at the time u64.
    Deadline,
    /// Somebody asked for a snapshot, at the time u64.
    Snapshot,
    /// 0: read, 1: cleared.
    Watermarks,
    /// Port, 1: on hold, 0: released.
    Hold,
    /// Length u32, settings.
    Apply,
    /// Port, time u64.
    PortDown,
    /// Port, time u64, frame number u32.
    Unsent,
    /// Data is no longer taken in, and peers are stopped for good.
    Stop,
    /// Port, time u64.
    Flush,
    /// Length u32, (time, event).
    Event,
    /// Port, frames u64 that the kernel gave back and did not have.
    Stray,
    /// Port, time u64.
    RecoverStorms,
    /// Port, time u64, priorities u8.
    LiftStormLimit,
    /// Port, time u64, address of its interface (6 bytes).
    PortUp,
}

impl EntryKind {
    const ALL: [EntryKind; 25] = [
        EntryKind::Checkpoint,
        EntryKind::Turn,
        EntryKind::Completed,
        EntryKind::Received,
        EntryKind::Waiting,
        EntryKind::KernelDropped,
        EntryKind::Tick,
        EntryKind::Pfc,
        EntryKind::Sent,
        EntryKind::KernelLost,
        EntryKind::Guard,
        EntryKind::Deadline,
        EntryKind::Snapshot,
        EntryKind::Watermarks,
        EntryKind::Hold,
        EntryKind::Apply,
        EntryKind::PortDown,
        EntryKind::Unsent,
        EntryKind::Stop,
        EntryKind::Flush,
        EntryKind::Event,
        EntryKind::Stray,
        EntryKind::RecoverStorms,
        EntryKind::LiftStormLimit,
        EntryKind::PortUp,
    ];

    /// The tag that is written down as this number.
    pub(crate) fn of(number: u8) -> Option<EntryKind> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// Chunks on their way from a loop to whoever keeps them, and back when they have been emptied.
#[derive(Debug)]
pub struct ChunkPool {
    full: ArrayQueue<Chunk>,
    empty: ArrayQueue<Vec<u8>>,
}

/// A piece of a recording.
#[derive(Debug)]
pub struct Chunk {
    /// A segment begins with it.
    pub begins: bool,
    /// The entries; an entry may not go beyond its chunk.
    pub bytes: Vec<u8>,
}

impl ChunkPool {
    /// A reel with `chunks` empty chunks, whose memory is there already.
    pub fn new(chunks: usize) -> Arc<Self> {
        let reel = Self { full: ArrayQueue::new(chunks), empty: ArrayQueue::new(chunks) };
        for _ in 0..chunks {
            // Written to once, so that the loop meets no page that is not there.
            reel.give_back(vec![1; CHUNK_BYTES]);
        }
        Arc::new(reel)
    }

    /// Hands a full chunk over; gives it back if there are too many already.
    pub fn put(&self, chunk: Chunk) -> Result<(), Chunk> {
        self.full.push(chunk)
    }

    /// The next full chunk.
    pub fn take(&self) -> Option<Chunk> {
        self.full.pop()
    }

    /// Gives the memory of a chunk back.
    pub fn give_back(&self, mut bytes: Vec<u8>) {
        bytes.clear();
        let _ = self.empty.push(bytes); // there never are more than places
    }
}

/// A loop's recorder.
#[derive(Debug)]
pub struct Recorder {
    reel: Arc<ChunkPool>,
    /// What is being filled; none in a gap.
    chunk: Option<Chunk>,
    segment_ends: Instant,
    /// By port: frames that waited in the RX rings when that was last written down.
    waiting: Vec<u32>,
}

impl Recorder {
    /// A recorder of a loop with so many ports, which begins with the next turn.
    pub fn new(reel: Arc<ChunkPool>, ports: usize) -> Self {
        Self { reel, chunk: None, segment_ends: Instant::default(), waiting: vec![u32::MAX; ports] }
    }

    /// A turn begins: the only place where a segment does.
    pub fn turn(&mut self, now: Instant, forwards: bool, switch: &Switch) {
        if self.chunk.is_none() || now >= self.segment_ends {
            self.checkpoint(now, forwards, switch);
            self.segment_ends = now + SEGMENT_NS;
        }
        self.entry(EntryKind::Turn, |out| out.put_u64_le(now.0));
    }

    /// The recording ends here, with a last checkpoint.
    pub fn end(&mut self, now: Instant, forwards: bool, switch: &Switch) {
        if self.chunk.is_some() {
            self.checkpoint(now, forwards, switch);
        }
        self.pass_on();
    }

    #[cold]
    fn checkpoint(&mut self, now: Instant, forwards: bool, switch: &Switch) {
        let continues = self.chunk.is_some();
        self.pass_on();
        self.chunk = self.reel.empty.pop().map(|bytes| Chunk { begins: true, bytes });
        self.waiting.fill(u32::MAX);
        let state = (now, forwards, continues, switch);
        let written = self
            .chunk
            .as_mut()
            .is_none_or(|chunk| put_value(&mut chunk.bytes, EntryKind::Checkpoint, &state));
        debug_assert!(written, "a state of the switch can be written down");
    }

    /// Hands over what is there of a chunk.
    fn pass_on(&mut self) {
        if let Some(chunk) = self.chunk.take()
            && let Err(chunk) = self.reel.put(chunk)
        {
            self.reel.give_back(chunk.bytes);
        }
    }

    /// Room for an entry; none in a gap.
    #[inline]
    fn out(&mut self) -> Option<&mut Vec<u8>> {
        let chunk = self.chunk.as_ref()?;
        if chunk.bytes.capacity() - chunk.bytes.len() < MAX_ENTRY_BYTES {
            self.next_chunk();
        }
        self.chunk.as_mut().map(|chunk| &mut chunk.bytes)
    }

    #[cold]
    fn next_chunk(&mut self) {
        self.pass_on();
        self.chunk = self.reel.empty.pop().map(|bytes| Chunk { begins: false, bytes });
    }

    #[inline]
    fn entry(&mut self, tag: EntryKind, fields: impl FnOnce(&mut Vec<u8>)) {
        if let Some(out) = self.out() {
            out.put_u8(tag as u8);
            fields(out);
        }
    }

    fn of_port(&mut self, tag: EntryKind, port: usize, fields: impl FnOnce(&mut Vec<u8>)) {
        self.entry(tag, |out| {
            out.put_u8(port as u8);
            fields(out);
        });
    }

    pub(crate) fn completed(&mut self, port: usize, frames: &[FrameId]) {
        self.numbers(EntryKind::Completed, port, frames);
    }

    #[cold]
    pub(crate) fn kernel_lost(&mut self, port: usize, frames: &[FrameId]) {
        self.numbers(EntryKind::KernelLost, port, frames);
    }

    fn numbers(&mut self, tag: EntryKind, port: usize, frames: &[FrameId]) {
        // A port may complete two rings' worth at once.
        for frames in frames.chunks(MAX_ENTRY_BYTES / 8) {
            self.of_port(tag, port, |out| {
                out.put_u16_le(frames.len() as u16);
                let places = more(out, 4 * frames.len()).chunks_exact_mut(4);
                for (place, frame) in places.zip(frames) {
                    place.copy_from_slice(&(frame.index() as u32).to_le_bytes());
                }
            });
        }
    }

    #[inline(never)] // nothing of it in the way of a loop that is not recorded
    pub(crate) fn received<M: FrameMemory>(
        &mut self,
        port: usize,
        header_bytes: usize,
        arrivals: &[RxFrame],
        memory: &M,
    ) {
        self.of_port(EntryKind::Received, port, |out| {
            out.put_u32_le(memory.free_frames() as u32);
            out.put_u16_le(arrivals.len() as u16);
            for (place, RxFrame { frame, charge, .. }) in arrivals.iter().enumerate() {
                if let Some(ahead) = arrivals.get(place + LOOK_AHEAD) {
                    memory.prefetch(&ahead.frame);
                }
                put_header(out, header_bytes, frame, charge.len, memory.bytes(frame, charge.len.into()));
            }
        });
    }

    #[inline]
    pub(crate) fn waiting(&mut self, port: usize, frames: u32) {
        // The same small number again changes nothing; of large ones each is looked at together with what
        // was taken.
        if self.waiting[port] != frames || frames > XON_FRAMES {
            self.waiting[port] = frames;
            self.of_port(EntryKind::Waiting, port, |out| out.put_u32_le(frames));
        }
    }

    pub(crate) fn stray(&mut self, port: usize, frames: u64) {
        self.of_port(EntryKind::Stray, port, |out| out.put_u64_le(frames));
    }

    pub(crate) fn kernel_dropped(&mut self, port: usize, frames: u64) {
        self.of_port(EntryKind::KernelDropped, port, |out| out.put_u64_le(frames));
    }

    #[inline]
    pub(crate) fn tick(&mut self) {
        self.entry(EntryKind::Tick, |_| {});
    }

    pub(crate) fn pfc(&mut self, port: usize, free_frames: usize, frames: &[TxDesc]) {
        self.of_port(EntryKind::Pfc, port, |out| {
            out.put_u32_le(free_frames as u32);
            put_outgoing(out, frames);
        });
    }

    #[inline]
    pub(crate) fn sent(&mut self, port: usize, free_frames: usize, room: usize, frames: &[TxDesc]) {
        self.of_port(EntryKind::Sent, port, |out| {
            out.put_u32_le(free_frames as u32);
            out.put_u16_le(room as u16);
            put_outgoing(out, frames);
        });
    }

    pub(crate) fn guard(&mut self, port: usize, frames: &PfcCount, at: Instant) {
        self.of_port(EntryKind::Guard, port, |out| {
            out.put_u64_le(frames.frames);
            frames.xoff_frames.iter().for_each(|&of_priority| out.put_u64_le(of_priority));
            out.put_u64_le(at.0);
        });
    }

    pub(crate) fn deadline(&mut self, now: Instant) {
        self.entry(EntryKind::Deadline, |out| out.put_u64_le(now.0));
    }

    pub(crate) fn snapshot(&mut self, now: Instant) {
        self.entry(EntryKind::Snapshot, |out| out.put_u64_le(now.0));
    }

    pub(crate) fn watermarks(&mut self, mark: WatermarkReset) {
        self.entry(EntryKind::Watermarks, |out| out.put_u8(u8::from(mark == WatermarkReset::Clear)));
    }

    pub(crate) fn hold(&mut self, port: usize, on_hold: bool) {
        self.of_port(EntryKind::Hold, port, |out| out.put_u8(on_hold.into()));
    }

    pub(crate) fn apply(&mut self, settings: &SwitchSettings, now: Instant) {
        self.value(EntryKind::Apply, &(now, settings));
    }

    pub(crate) fn recover_storms(&mut self, port: usize, now: Instant) {
        self.of_port(EntryKind::RecoverStorms, port, |out| out.put_u64_le(now.0));
    }

    pub(crate) fn lift_storm_limit(&mut self, port: usize, priorities: Set8, now: Instant) {
        self.of_port(EntryKind::LiftStormLimit, port, |out| {
            out.put_u64_le(now.0);
            out.put_u8(priorities.bits());
        });
    }

    pub(crate) fn port_up(&mut self, port: usize, mac: MacAddr, now: Instant) {
        self.of_port(EntryKind::PortUp, port, |out| {
            out.put_u64_le(now.0);
            out.extend_from_slice(&mac.0);
        });
    }

    pub(crate) fn port_down(&mut self, port: usize, now: Instant) {
        self.waiting[port] = u32::MAX; // the switch takes it for 0
        self.of_port(EntryKind::PortDown, port, |out| out.put_u64_le(now.0));
    }

    pub(crate) fn unsent(&mut self, port: usize, frame: &FrameId, now: Instant) {
        self.of_port(EntryKind::Unsent, port, |out| {
            out.put_u64_le(now.0);
            out.put_u32_le(frame.index() as u32);
        });
    }

    pub(crate) fn stop(&mut self) {
        self.entry(EntryKind::Stop, |_| {});
    }

    pub(crate) fn flush(&mut self, port: usize, now: Instant) {
        self.of_port(EntryKind::Flush, port, |out| out.put_u64_le(now.0));
    }

    pub(crate) fn event(&mut self, at: Instant, event: Event) {
        self.value(EntryKind::Event, &(at, event));
    }

    /// What is rare and has a form of its own.
    #[cold]
    fn value(&mut self, tag: EntryKind, value: &impl serde::Serialize) {
        if let Some(out) = self.out() {
            let written = put_value(out, tag, value);
            debug_assert!(written, "settings and events can be written down");
        }
    }
}

/// Bytes that are kept of a frame that comes in on a port of the switch.
#[inline]
pub(crate) fn header_bytes(switch: &Switch, port: usize) -> usize {
    match switch.settings().ports[port].classify.trust {
        Trust::TunnelDot1p => TUNNEL_HEADER_BYTES,
        _ => HEADER_BYTES,
    }
}

/// It is a MAC control frame, of which more is kept.
#[inline]
pub(crate) fn is_control(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&MAC_CONTROL.to_be_bytes())
}

/// So many bytes more at the end, to be written.
#[inline]
fn more(out: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    let start = out.len();
    out.resize(start + bytes, 0);
    &mut out[start..]
}

#[inline]
fn put_header(out: &mut Vec<u8>, header_bytes: usize, frame: &FrameId, len: u16, bytes: &[u8]) {
    let is_control = is_control(bytes);
    if let (HEADER_BYTES, false, Some(header)) =
        (header_bytes, is_control, bytes.first_chunk::<HEADER_BYTES>())
    {
        // Of a length that the compiler knows: a few moves, no call.
        let mut entry = [0; 6 + HEADER_BYTES];
        entry[6..].copy_from_slice(header);
        put_name(&mut entry, frame, len);
        out.extend_from_slice(&entry);
    } else {
        let kept = if is_control { header_bytes.max(CONTROL_BYTES) } else { header_bytes };
        let header = &bytes[..bytes.len().min(kept)];
        let entry = more(out, 6 + header.len());
        entry[6..].copy_from_slice(header);
        put_name(entry, frame, len);
    }
}

/// A frame's number and length.
#[inline]
fn put_name(entry: &mut [u8], frame: &FrameId, len: u16) {
    entry[..4].copy_from_slice(&(frame.index() as u32).to_le_bytes());
    entry[4..6].copy_from_slice(&len.to_le_bytes());
}

fn put_outgoing(out: &mut Vec<u8>, frames: &[TxDesc]) {
    out.put_u16_le(frames.len() as u16);
    for (entry, TxDesc { frame, len, .. }) in more(out, 6 * frames.len()).chunks_exact_mut(6).zip(frames) {
        put_name(entry, frame, *len);
    }
}

/// Appends a tag, a length and that many bytes of a value. False, and nothing is appended, if it
/// cannot be written.
fn put_value(out: &mut Vec<u8>, tag: EntryKind, value: &impl serde::Serialize) -> bool {
    let start = out.len();
    out.put_u8(tag as u8);
    out.put_u32_le(0);
    let begin = out.len();
    match postcard::to_io(value, &mut *out) {
        Ok(_) => {
            let len = (out.len() - begin) as u32;
            out[start + 1..begin].copy_from_slice(&len.to_le_bytes());
            true
        }
        Err(_) => {
            out.truncate(start);
            false
        }
    }
}
