//! The environment of a replay: the switch of a checkpoint, and a frame memory that runs out when
//! the recorded one did.
//!
//! Rule: a frame's number in the replay differs from its recorded number. Frame bytes that are not
//! recorded are zero, as the switch does not read them. Source: docs/monitoring/recorder.md.

use bytes::{Buf, Bytes};
use switch::{FrameId, FrameMemory, HeapMemory, Instant, RxDesc, Switch, TxDesc, chunks_of};

use super::error::Error;
use super::offered::Offered;
use crate::flight_recorder::recorder::{CONTROL_BYTES, TUNNEL_HEADER_BYTES, header_bytes, is_control};

/// Bytes per frame that the replay stores: those that the switch reads, and a PFC frame that the
/// switch writes.
const FRAME_BYTES: usize = 128;
const _: () = assert!(FRAME_BYTES >= TUNNEL_HEADER_BYTES && FRAME_BYTES >= CONTROL_BYTES);

/// The switch and the memory of its frames.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) switch: Switch,
    pub(super) memory: PlayerMemory,
    /// The frame number of the replay, by the number in the recording.
    frame_map: Vec<u32>,
    pub(super) outgoing: Vec<TxDesc>,
}

/// A frame memory with as many free frames as the recorded one, so that it runs out when that did.
/// A long frame counts as the chunks that it occupied in the recording.
#[derive(Debug)]
pub(super) struct PlayerMemory {
    heap: HeapMemory,
    pub(super) free_frames: usize,
    /// Bytes of a chunk in the recording.
    chunk_bytes: usize,
    /// By frame: the chunks that it occupies beyond the first.
    extra_chunks: Vec<u8>,
}

impl PlayerMemory {
    /// Records how many chunks frame `frame` of `len` bytes occupies.
    fn set_len(&mut self, frame: &FrameId, len: usize) {
        if let Some(more) = self.extra_chunks.get_mut(frame.index()) {
            *more = (chunks_of(len, self.chunk_bytes) - 1) as u8;
        }
    }
}

impl FrameMemory for PlayerMemory {
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
        let Some(more) = self.extra_chunks.get(frame.index()) else { return true };
        let needed = chunks_of(len, self.chunk_bytes).saturating_sub(1 + usize::from(*more));
        let Some(left) = self.free_frames.checked_sub(needed) else { return false };
        self.free_frames = left;
        self.extra_chunks[frame.index()] += needed as u8;
        true
    }

    fn free(&mut self, frame: FrameId) {
        let more = self.extra_chunks.get_mut(frame.index()).map_or(0, std::mem::take);
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

impl Player {
    pub(super) fn of(switch: Switch) -> Self {
        let frames = switch.memory_frames();
        let heap = HeapMemory::with_allocated(frames, FRAME_BYTES, |index| switch.has_frame(index));
        let chunk_bytes = usize::from(switch.max_frame().chunk_bytes);
        let more = |frame| chunks_of(switch.frame_len(frame).into(), chunk_bytes) - 1;
        let more = (0..frames).map(|frame| more(frame) as u8).collect();
        let memory = PlayerMemory { free_frames: heap.free_frames(), heap, chunk_bytes, extra_chunks: more };
        Self { switch, memory, frame_map: (0..frames as u32).collect(), outgoing: Vec::new() }
    }

    /// Returns the frame that has this number in the recording; an error if the switch does not
    /// hold it.
    pub(super) fn frame(&self, recorded: u32) -> Result<FrameId, Error> {
        let name = self.frame_map.get(recorded as usize);
        let name = name.copied().filter(|&name| self.switch.has_frame(name as usize));
        name.map(FrameId::new)
            .ok_or_else(|| Error::Differs(format!("frame {recorded} left twice, or never came")))
    }

    /// Maps the recording's number to this frame.
    fn map_frame(&mut self, recorded: u32, frame: &FrameId) -> Result<(), Error> {
        let name = self.frame_map.get_mut(recorded as usize);
        *name.ok_or_else(|| Error::Malformed(format!("frame number {recorded}")))? = frame.index() as u32;
        Ok(())
    }

    pub(super) fn complete(&mut self, port: usize, now: Instant, rest: &mut Bytes) -> Result<(), Error> {
        for _ in 0..rest.try_get_u16_le()? {
            let frame = self.frame(rest.try_get_u32_le()?)?;
            self.switch.complete(port, frame, now, &mut self.memory);
        }
        Ok(())
    }

    pub(super) fn kernel_lost(&mut self, port: usize, now: Instant, rest: &mut Bytes) -> Result<(), Error> {
        for _ in 0..rest.try_get_u16_le()? {
            let frame = self.frame(rest.try_get_u32_le()?)?;
            self.switch.kernel_lost(port, frame, now, &mut self.memory);
        }
        Ok(())
    }

    pub(super) fn receive(
        &mut self,
        port: usize,
        now: Instant,
        forwards: bool,
        rest: &mut Bytes,
        mut offered: Option<&mut Offered>,
    ) -> Result<u64, Error> {
        let free_frames = rest.try_get_u32_le()? as usize;
        let frames = rest.try_get_u16_le()?;
        let mut arrivals = Vec::with_capacity(frames.into());
        for _ in 0..frames {
            let (recorded, len) = (rest.try_get_u32_le()?, rest.try_get_u16_le()?);
            let frame = self.memory.heap.alloc();
            let frame = frame.ok_or_else(|| Error::Differs("there is no memory for what came in".into()))?;
            self.map_frame(recorded, &frame)?;
            self.memory.set_len(&frame, len.into());
            let bytes = self.memory.heap.bytes_mut(&frame, len.into());
            bytes.fill(0);
            let header = bytes.len().min(header_bytes(&self.switch, port));
            rest.try_copy_to_slice(&mut bytes[..header])?;
            if is_control(bytes) {
                let control = bytes.len().min(CONTROL_BYTES).max(header);
                rest.try_copy_to_slice(&mut bytes[header..control])?;
            }
            let with_priority = self.switch.settings().ports[port].classify.queue_is_priority;
            let priority = if with_priority { Some(rest.try_get_u8()?) } else { None };
            let arrival = self.switch.parse(port, RxDesc { frame, len, priority }, bytes);
            if let (Some(offered), true) = (&mut offered, forwards) {
                offered.note(&self.switch, &arrival, bytes, now);
            }
            arrivals.push(arrival);
        }
        self.memory.free_frames = free_frames;
        if forwards {
            self.switch.receive_all(&mut arrivals, now, &mut self.memory);
        } else {
            self.switch.drain_control(&mut arrivals, now, &mut self.memory);
        }
        self.switch.take_punted(&mut self.memory, |_, _| ());
        Ok(frames.into())
    }

    /// Compares the frames that the switch has just sent with those in the recording.
    pub(super) fn compare_sent(&mut self, port: usize, now: Instant, rest: &mut Bytes) -> Result<u64, Error> {
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
            self.map_frame(recorded, &sent.frame)?;
        }
        Ok(outgoing.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switch::MaxFrame;
    use switch::settings::{BufferSettings, PortSettings, SwitchSettings};
    use wire::ethernet::{EXPERIMENTAL, write_header};
    use wire::mac::MacAddr;

    /// A long frame takes and returns as many chunks as in the recording, and memory runs short
    /// when it did then.
    #[test]
    fn a_long_frame_counts_as_its_pieces() {
        let heap = HeapMemory::new(8, FRAME_BYTES);
        let mut memory = PlayerMemory { heap, free_frames: 8, chunk_bytes: 1792, extra_chunks: vec![0; 8] };
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
        assert_eq!((memory.free_frames(), memory.max_len()), (8, FRAME_BYTES));
    }

    /// A replay begins with frames that the switch holds: their pieces are returned, too.
    #[test]
    fn a_long_frame_of_the_checkpoint_counts_as_its_pieces() {
        let mut settings = SwitchSettings {
            buffer: BufferSettings { total_cells: 256, fixed_cells: 0, ..BufferSettings::default() },
            usage_percent: 100,
            alarms: Default::default(),
            seed: 0,
            bridge: Default::default(),
            ports: ["p0", "p1"].map(|name| PortSettings::new(name, None)).into(),
        };
        settings.buffer.headroom_cells = 0;
        let (macs, now) = ([1, 2].map(|last| MacAddr([2, 0, 0, 0, 0, last])), Instant(1));
        let mut switch = Switch::new(&settings, &macs, 8);
        let mut memory = HeapMemory::new(8, 9216);
        let mut arrivals = Vec::new();
        for (port, len) in [(0, 100), (1, 5000)] {
            let frame = memory.alloc().expect("a frame");
            let bytes = memory.bytes_mut(&frame, len);
            let (dst, src) = (MacAddr([2, 0, 0, 0, 9, 1 - port]), MacAddr([2, 0, 0, 0, 9, port]));
            write_header(bytes, dst, src, None, EXPERIMENTAL);
            arrivals.push(switch.parse(port.into(), RxDesc::new(frame, len as u16), bytes));
        }
        switch.receive_all(&mut arrivals, now, &mut memory);
        assert_eq!([0, 1].map(|frame| switch.frame_len(frame)), [100, 5000], "both are held");
        switch.set_max_frame(MaxFrame { longest_bytes: 9216, chunk_bytes: 1792 });
        assert_eq!(Player::of(switch).memory.extra_chunks, [0, 2, 0, 0, 0, 0, 0, 0]);
    }
}
