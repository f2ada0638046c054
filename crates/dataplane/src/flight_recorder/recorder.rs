//! The flight recorder: records all inputs of a loop's switch, so that the same switch can be
//! replayed through them ([`crate::flight_recorder::replay`]).
//!
//! A recording is one or more segments. A segment has the state of the switch at the start of an
//! iteration, which is its checkpoint, and the entries that follow from there, in the order in
//! which the switch was called: a tag, a port number where there is one, then the entry's numbers,
//! little-endian. For a received frame, the entry has its number in the frame memory, its length
//! and its first [`header_bytes`] (or [`CONTROL_BYTES`]), which is all that the switch ever reads.
//! For transmitted frames, it has numbers and lengths, which the replay compares.
//!
//! Rule: the loop never waits and never allocates for its recorder. It fills chunks that the daemon
//! supplies through a [`ChunkPool`]. The tables of the switch are copied in slices over many
//! iterations, while entries follow, so state and entries have chunks of their own. When the pool
//! has no empty chunk, the segment ends, and the next one starts when a chunk is available again.
//! Nothing is recorded in the gap, and nothing else is affected. A new segment starts every second,
//! once the state of the one before is complete, so that the oldest can be discarded.
//! Source: `docs/monitoring/recorder.md`.

use std::sync::Arc;

use bytes::BufMut;
use crossbeam::queue::ArrayQueue;
use switch::monitor::counters::{PfcCount, RefusedFrames};
use switch::pfc::rx_backlog::XON_FRAMES;
use switch::settings::Trust;
use switch::{
    CopiedSlots, Event, FrameId, FrameMemory, Instant, Nanos, RxFrame, Switch, SwitchSettings, TxDesc,
    WatermarkReset,
};
use wire::bitset::Set8;
use wire::ethernet::MAC_CONTROL;
use wire::mac::MacAddr;
use wire::tunnel::LONGEST_VXLAN_HEADERS_BYTES;

use crate::batch_ops::LOOK_AHEAD;

/// The version of recordings that the recorder writes and a replay reads. Raise it with each change
/// of the entries or of the switch's state: a recording belongs to one version.
pub const VERSION: u32 = 15;
/// How the title line of a recording begins; its version follows.
pub(crate) const TITLE: &str = "sluice recording ";
/// Recorded bytes of a frame: the Ethernet header, two tags, and the two bytes of an IP packet that
/// hold its DSCP and ECN.
pub const HEADER_BYTES: usize = 24;
/// Recorded bytes of a MAC control frame: all of PFC except its padding.
pub const CONTROL_BYTES: usize = 34;
/// Recorded bytes of a frame received on a port that trusts the tag inside a tunnel.
pub const TUNNEL_HEADER_BYTES: usize = LONGEST_VXLAN_HEADERS_BYTES;
/// The capacity of a chunk, 1 MiB.
pub const CHUNK_BYTES: usize = 1 << 20;
/// The duration of a segment.
const SEGMENT_NS: Nanos = 1_000_000_000;
/// The size limit of an entry other than checkpoints and settings: the transmission of a full
/// iteration.
const MAX_ENTRY_BYTES: usize = 16 * 1024;

/// Work of an iteration for a checkpoint, in empty slots that are visited: some microseconds.
const SLICE_WORK: u32 = 1024;

/// The tag of an entry: which call of the switch it records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EntryKind {
    /// Of the state: length u32, switch without the slots of its tables.
    Checkpoint = 1,
    /// Time u64.
    Iteration,
    /// Port, count u16, frame numbers u32.
    Completed,
    /// Port, free frames of the memory u32, count u16; then the number u32, length u16 and header
    /// of each frame, and its priority u8 where frames come with one.
    Received,
    /// Port, frames u32 in its RX backlog.
    RxBacklog,
    /// Port, frames u64 that the kernel dropped.
    KernelDropped,
    /// Expired timers were run, at the time of the iteration.
    Tick,
    /// Port, free frames u32, count u16, frame number u32 and length u16 of the PFC frame.
    Pfc,
    /// Port, free frames u32, room u16, count u16, frame numbers u32 and lengths u16.
    Sent,
    /// Port, count u16, frame numbers u32, which the kernel lost.
    KernelLost,
    /// Port, frames u64 that the guard sent, those that paused each priority 8 × u64, time u64 of
    /// the last one.
    Guard,
    /// A query for the next timer, at the time u64.
    Deadline,
    /// A snapshot was requested, at the time u64.
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
    AbortTx,
    /// Forwarding stops: data is no longer accepted, and peers are paused until the end.
    Stop,
    /// Port, time u64.
    Flush,
    /// Length u32, (time, event).
    Event,
    /// Port, frames u64 that the kernel completed without owning them.
    Stray,
    /// Port, time u64.
    RecoverStorms,
    /// Port, time u64, priorities u8.
    LiftStormLimit,
    /// Port, time u64, address of its interface (6 bytes).
    PortUp,
    /// Time u64 at which the batch of received frames that follows had been taken.
    Batch,
    /// Of the state: length u32, slots of the tables.
    Slots,
    /// Of the state: it is complete.
    StateEnd,
    /// A segment begins at time u64; 1: data is forwarded; 1: it continues the segment before.
    Segment,
    /// Port, time u64, address of its peer's interface (6 bytes).
    PeerAddress,
    /// Port u16 and VLAN u16 whose learned addresses were forgotten; 0xffff for any.
    FlushFdb,
    /// Port whose peer is sent XON, as the port is about to go down.
    ReleasePeer,
    /// Port, time u64, queues u8 that its peer has no room for.
    BlockQueues,
    /// Port, frames that it did not accept: of each priority 8 × u32, of unknown ones u32.
    Refused,
}

/// Any port or VLAN, in an entry of [`EntryKind::FlushFdb`].
pub(crate) const ANY: u16 = u16::MAX;

impl EntryKind {
    const ALL: &[EntryKind] = &[
        EntryKind::Checkpoint,
        EntryKind::Iteration,
        EntryKind::Completed,
        EntryKind::Received,
        EntryKind::RxBacklog,
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
        EntryKind::AbortTx,
        EntryKind::Stop,
        EntryKind::Flush,
        EntryKind::Event,
        EntryKind::Stray,
        EntryKind::RecoverStorms,
        EntryKind::LiftStormLimit,
        EntryKind::PortUp,
        EntryKind::Batch,
        EntryKind::Slots,
        EntryKind::StateEnd,
        EntryKind::Segment,
        EntryKind::PeerAddress,
        EntryKind::FlushFdb,
        EntryKind::ReleasePeer,
        EntryKind::BlockQueues,
        EntryKind::Refused,
    ];

    /// Returns the kind that is encoded as this number.
    pub(crate) fn of(number: u8) -> Option<EntryKind> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// Chunks on their way from a loop to the thread that stores them, and back once emptied.
#[derive(Debug)]
pub struct ChunkPool {
    full: ArrayQueue<Chunk>,
    empty: ArrayQueue<Vec<u8>>,
}

/// A piece of a segment, of [`CHUNK_BYTES`] or a little more. An entry never crosses its end.
#[derive(Debug)]
pub struct Chunk {
    /// Number of the segment, which differs from that of the segment before.
    pub segment: u32,
    /// What is in it.
    pub kind: ChunkKind,
    /// The content.
    pub bytes: Vec<u8>,
}

/// What a chunk contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkKind {
    /// State of the switch when the segment began.
    State,
    /// The last of that state: a replay can start with this segment.
    LastState,
    /// What happened since.
    Entries,
}

impl ChunkPool {
    /// Creates a pool of `chunks` empty chunks, whose memory is already allocated.
    pub fn new(chunks: usize) -> Arc<Self> {
        let chunk_pool = Self { full: ArrayQueue::new(chunks), empty: ArrayQueue::new(chunks) };
        for _ in 0..chunks {
            // Written once, so that the loop takes no page fault.
            chunk_pool.recycle(vec![1; CHUNK_BYTES]);
        }
        Arc::new(chunk_pool)
    }

    /// Hands over a full chunk. Returns it if the queue of full chunks is full.
    pub fn push_full(&self, chunk: Chunk) -> Result<(), Chunk> {
        self.full.push(chunk)
    }

    /// Takes the next full chunk.
    pub fn pop_full(&self) -> Option<Chunk> {
        self.full.pop()
    }

    /// Returns the memory of a chunk to the pool.
    pub fn recycle(&self, mut bytes: Vec<u8>) {
        bytes.clear();
        let _ = self.empty.push(bytes); // never more chunks than capacity
    }
}

/// The recorder of one loop.
#[derive(Debug)]
pub struct Recorder {
    pool: Arc<ChunkPool>,
    /// Number of the present segment.
    segment: u32,
    /// The chunk of entries that is being filled; `None` in a gap.
    chunk: Option<Vec<u8>>,
    /// The chunk of state that is being filled, while the state is copied.
    state: Option<Vec<u8>>,
    /// A slice of the state; empty between two iterations.
    slots: CopiedSlots,
    slice_work: u32,
    segment_ends: Instant,
    /// By port: the RX backlog that was last recorded.
    waiting: Vec<u32>,
}

impl Recorder {
    /// Creates a recorder for a loop with `ports` ports. Recording starts with the next iteration.
    pub fn new(chunk_pool: Arc<ChunkPool>, ports: usize) -> Self {
        Self {
            pool: chunk_pool,
            segment: 0,
            chunk: None,
            state: None,
            slots: CopiedSlots::with_capacity(SLICE_WORK as usize),
            slice_work: SLICE_WORK,
            segment_ends: Instant::default(),
            waiting: vec![u32::MAX; ports],
        }
    }

    /// Sets how much of the state is copied per iteration, in empty slots that are visited.
    pub fn with_slice_work(self, slice_work: u32) -> Self {
        Self { slice_work, ..self }
    }

    /// Records the start of an iteration, the only point where a segment starts.
    pub fn begin_iteration(&mut self, now: Instant, forwards: bool, switch: &mut Switch) {
        if self.is_copying() {
            self.copy_slice(switch);
        } else if self.chunk.is_none() || now >= self.segment_ends {
            self.begin_segment(now, forwards, switch);
            if self.is_copying() {
                switch.begin_checkpoint();
            }
            self.segment_ends = now + SEGMENT_NS;
        }
        self.entry(EntryKind::Iteration, |out| out.put_u64_le(now.0));
    }

    /// True while the state of the present segment is being copied. The loop stays awake then, and
    /// does not end the recording.
    pub fn is_copying(&self) -> bool {
        self.state.is_some() && self.chunk.is_some()
    }

    /// Ends the recording with the small part of a last checkpoint.
    pub fn end(&mut self, now: Instant, forwards: bool, switch: &mut Switch) {
        while self.is_copying() {
            self.copy_slice(switch);
        }
        if self.chunk.is_some() {
            self.begin_segment(now, forwards, switch);
        }
        self.flush_state(ChunkKind::State);
        self.flush_entries();
        switch.end_checkpoint();
    }

    #[cold]
    fn begin_segment(&mut self, now: Instant, forwards: bool, switch: &Switch) {
        let continues = self.chunk.is_some();
        self.flush_entries();
        self.flush_state(ChunkKind::State);
        self.segment = self.segment.wrapping_add(1);
        self.waiting.fill(u32::MAX);
        if self.pool.empty.len() < 2 {
            return; // one would be filled again and again, with nothing to follow
        }
        self.state = self.pool.empty.pop();
        let Some(state) = &mut self.state else { return };
        let written = put_value(state, EntryKind::Checkpoint, switch);
        debug_assert!(written, "a state of the switch can be written down");
        self.chunk = self.pool.empty.pop();
        self.entry(EntryKind::Segment, |out| {
            out.put_u64_le(now.0);
            out.put_u8(forwards.into());
            out.put_u8(continues.into());
        });
    }

    /// Copies the next slice of the state.
    #[inline(never)]
    fn copy_slice(&mut self, switch: &mut Switch) {
        let goes_on = switch.copy_slots(self.slice_work, &mut self.slots);
        if self.state.as_ref().is_some_and(|state| !has_room(state)) {
            self.flush_state(ChunkKind::State);
            self.state = self.pool.empty.pop();
        }
        let Some(state) = &mut self.state else {
            switch.end_checkpoint(); // without a chunk, no replay can start with this segment
            return;
        };
        if self.slots.count() > 0 {
            let written = put_value(state, EntryKind::Slots, &self.slots);
            debug_assert!(written, "slots can be written down");
        }
        if !goes_on {
            state.put_u8(EntryKind::StateEnd as u8);
            self.flush_state(ChunkKind::LastState);
        }
    }

    /// Hands over the chunk of entries, full or not.
    fn flush_entries(&mut self) {
        if let Some(bytes) = self.chunk.take() {
            self.put(ChunkKind::Entries, bytes);
        }
    }

    /// Hands over the chunk of state, full or not.
    fn flush_state(&mut self, kind: ChunkKind) {
        if let Some(bytes) = self.state.take() {
            self.put(kind, bytes);
        }
    }

    fn put(&mut self, kind: ChunkKind, bytes: Vec<u8>) {
        if let Err(chunk) = self.pool.push_full(Chunk { segment: self.segment, kind, bytes }) {
            self.pool.recycle(chunk.bytes);
        }
    }

    /// Returns the buffer for an entry; `None` in a gap.
    #[inline]
    fn out(&mut self) -> Option<&mut Vec<u8>> {
        let chunk = self.chunk.as_ref()?;
        if !has_room(chunk) {
            self.next_chunk();
        }
        self.chunk.as_mut()
    }

    #[cold]
    fn next_chunk(&mut self) {
        self.flush_entries();
        self.chunk = self.pool.empty.pop();
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

    pub(crate) fn batch(&mut self, taken_at: Instant) {
        self.entry(EntryKind::Batch, |out| out.put_u64_le(taken_at.0));
    }

    pub(crate) fn completed(&mut self, port: usize, frames: &[FrameId]) {
        self.numbers(EntryKind::Completed, port, frames);
    }

    #[cold]
    pub(crate) fn kernel_lost(&mut self, port: usize, frames: &[FrameId]) {
        self.numbers(EntryKind::KernelLost, port, frames);
    }

    fn numbers(&mut self, tag: EntryKind, port: usize, frames: &[FrameId]) {
        // A port may complete two rings of frames at once.
        for frames in frames.chunks(MAX_ENTRY_BYTES / 8) {
            self.of_port(tag, port, |out| {
                out.put_u16_le(frames.len() as u16);
                let fields = extend_by(out, 4 * frames.len()).chunks_exact_mut(4);
                for (field, frame) in fields.zip(frames) {
                    field.copy_from_slice(&(frame.index() as u32).to_le_bytes());
                }
            });
        }
    }

    #[inline(never)] // keeps a loop that does not record small
    pub(crate) fn received<M: FrameMemory>(
        &mut self,
        port: usize,
        (header_bytes, with_priority): (usize, bool),
        arrivals: &[RxFrame],
        memory: &M,
    ) {
        self.of_port(EntryKind::Received, port, |out| {
            out.put_u32_le(memory.free_frames() as u32);
            out.put_u16_le(arrivals.len() as u16);
            for (index, RxFrame { frame, meta: charge, .. }) in arrivals.iter().enumerate() {
                if let Some(ahead) = arrivals.get(index + LOOK_AHEAD) {
                    memory.prefetch(&ahead.frame);
                }
                put_header(out, header_bytes, frame, charge.len, memory.bytes(frame, charge.len.into()));
                if with_priority {
                    out.put_u8(charge.class.priority);
                }
            }
        });
    }

    #[inline]
    pub(crate) fn waiting(&mut self, port: usize, frames: u32) {
        // A small number that has not changed has no effect. A large one does, as each is evaluated
        // together with the use of the buffer.
        if self.waiting[port] != frames || frames > XON_FRAMES {
            self.waiting[port] = frames;
            self.of_port(EntryKind::RxBacklog, port, |out| out.put_u32_le(frames));
        }
    }

    pub(crate) fn refused(&mut self, port: usize, refused: &RefusedFrames) {
        self.of_port(EntryKind::Refused, port, |out| {
            refused.by_priority.iter().for_each(|&frames| out.put_u32_le(frames));
            out.put_u32_le(refused.others);
        });
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

    pub(crate) fn guard_pfc(&mut self, port: usize, frames: &PfcCount, at: Instant) {
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

    pub(crate) fn block_queues(&mut self, port: usize, queues: Set8, now: Instant) {
        self.of_port(EntryKind::BlockQueues, port, |out| {
            out.put_u64_le(now.0);
            out.put_u8(queues.bits());
        });
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

    pub(crate) fn flush_fdb(&mut self, port: Option<usize>, vid: Option<u16>) {
        self.entry(EntryKind::FlushFdb, |out| {
            out.put_u16_le(port.map_or(ANY, |port| port as u16));
            out.put_u16_le(vid.unwrap_or(ANY));
        });
    }

    pub(crate) fn peer_address(&mut self, port: usize, mac: MacAddr, now: Instant) {
        self.of_port(EntryKind::PeerAddress, port, |out| {
            out.put_u64_le(now.0);
            out.extend_from_slice(&mac.0);
        });
    }

    pub(crate) fn port_down(&mut self, port: usize, now: Instant) {
        self.waiting[port] = u32::MAX; // the switch takes the backlog to be 0
        self.of_port(EntryKind::PortDown, port, |out| out.put_u64_le(now.0));
    }

    pub(crate) fn release_peer(&mut self, port: usize) {
        self.of_port(EntryKind::ReleasePeer, port, |_| {});
    }

    pub(crate) fn abort_tx(&mut self, port: usize, frame: &FrameId, now: Instant) {
        self.of_port(EntryKind::AbortTx, port, |out| {
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

    /// Records a rare entry that has an encoding of its own.
    #[cold]
    fn value(&mut self, tag: EntryKind, value: &impl serde::Serialize) {
        if let Some(out) = self.out() {
            let written = put_value(out, tag, value);
            debug_assert!(written, "settings and events can be written down");
        }
    }
}

/// True if a chunk has room for any entry.
#[inline]
fn has_room(chunk: &Vec<u8>) -> bool {
    chunk.capacity() - chunk.len() >= MAX_ENTRY_BYTES
}

/// Returns the title line, with which every recording begins.
pub fn title() -> String {
    format!("{TITLE}{VERSION}\n")
}

/// Returns how many bytes of a frame received on this port are recorded.
#[inline]
pub(crate) fn header_bytes(switch: &Switch, port: usize) -> usize {
    match switch.settings().ports[port].classify.trust {
        Trust::TunnelDot1p => TUNNEL_HEADER_BYTES,
        _ => HEADER_BYTES,
    }
}

/// True for a MAC control frame, of which more bytes are recorded.
#[inline]
pub(crate) fn is_control(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&MAC_CONTROL.to_be_bytes())
}

/// Appends `bytes` bytes to `out` and returns them to be written.
#[inline]
fn extend_by(out: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
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
        // The length is a compile-time constant: a few moves instead of a call.
        let mut entry = [0; 6 + HEADER_BYTES];
        entry[6..].copy_from_slice(header);
        put_name(&mut entry, frame, len);
        out.extend_from_slice(&entry);
    } else {
        let kept = if is_control { header_bytes.max(CONTROL_BYTES) } else { header_bytes };
        let header = &bytes[..bytes.len().min(kept)];
        let entry = extend_by(out, 6 + header.len());
        entry[6..].copy_from_slice(header);
        put_name(entry, frame, len);
    }
}

/// Writes a frame's number and length.
#[inline]
fn put_name(entry: &mut [u8], frame: &FrameId, len: u16) {
    entry[..4].copy_from_slice(&(frame.index() as u32).to_le_bytes());
    entry[4..6].copy_from_slice(&len.to_le_bytes());
}

fn put_outgoing(out: &mut Vec<u8>, frames: &[TxDesc]) {
    out.put_u16_le(frames.len() as u16);
    for (entry, TxDesc { frame, len, .. }) in extend_by(out, 6 * frames.len()).chunks_exact_mut(6).zip(frames)
    {
        put_name(entry, frame, *len);
    }
}

/// Appends a tag, a length and a serialized value of that length. Returns false and appends nothing
/// if the value cannot be serialized.
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
