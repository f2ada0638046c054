//! The stored bytes of all frames in a network. Each frame is stored once; links and switches hold
//! its number and hand it on.
//!
//! Rule: a frame is stored when its sender starts to send it. It is freed where it ends: at a host,
//! where it is dropped or honored (PFC), with a cut cable, or where it goes to another part of the
//! network.

use switch::{FrameId, FrameMemory};

use crate::packet::CARRIED_BYTES;

/// The stored bytes of one frame, in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct StoredBytes([u8; CARRIED_BYTES]);

/// The frames of a network. The number freed last is reused first, since it is still in the cache.
#[derive(Debug, Default)]
pub(crate) struct FrameStore {
    frames: Vec<StoredBytes>,
    free: Vec<u32>,
    is_refused: bool,
}

impl FrameStore {
    /// Stores a frame. Returns its number; `None` if the system has no more memory, and the run
    /// must end.
    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8; CARRIED_BYTES]) -> Option<u32> {
        match self.free.pop() {
            Some(number) => {
                self.frames[number as usize].0 = *bytes;
                Some(number)
            }
            None => self.put_last(bytes),
        }
    }

    #[cold]
    fn put_last(&mut self, bytes: &[u8; CARRIED_BYTES]) -> Option<u32> {
        // Each frame has an entry among the free ones, so that freeing needs no memory.
        let needed = self.frames.len() + 1;
        if self.frames.try_reserve(1).is_err() || self.free.try_reserve(needed).is_err() {
            self.is_refused = true;
            return None;
        }
        self.frames.push(StoredBytes(*bytes));
        Some((self.frames.len() - 1) as u32)
    }

    /// The stored bytes of a frame.
    #[inline]
    pub(crate) fn bytes(&self, number: u32) -> &[u8; CARRIED_BYTES] {
        &self.frames[number as usize].0
    }

    /// The stored bytes of a frame, writable.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, number: u32) -> &mut [u8; CARRIED_BYTES] {
        &mut self.frames[number as usize].0
    }

    /// Frees the number of a frame.
    #[inline]
    pub(crate) fn free(&mut self, number: u32) {
        self.free.push(number);
    }

    /// The number of frames that are stored.
    pub(crate) fn stored(&self) -> usize {
        self.frames.len() - self.free.len()
    }

    /// True if the system had no memory for a frame. The results since then are invalid.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Makes a store for which the system had no memory.
    #[cfg(test)]
    pub(crate) fn without_memory() -> Box<Self> {
        Box::new(Self { is_refused: true, ..Self::default() })
    }

    /// Takes over from the store of another part whether the system had no memory.
    pub(crate) fn absorb_refusal(&mut self, other: &FrameStore) {
        self.is_refused |= other.is_refused;
    }
}

/// The number of no frame.
const NO_FRAME: u32 = u32::MAX;

/// The frame memory of one switch: the numbers of the frames that it holds. A frame of memory is in
/// use until its transmission ends; its bytes are the link's from the start of the transmission on.
#[derive(Debug)]
pub(crate) struct SwitchMemory {
    /// The frames of the network, while the switch uses its memory ([`SwitchMemory::with`]).
    store: Box<FrameStore>,
    /// By frame of memory: its number in the network, or [`NO_FRAME`].
    numbers: Vec<u32>,
    free: Vec<u32>,
    frames: usize,
}

impl SwitchMemory {
    /// Makes a memory of `frames` frames, all free.
    pub(crate) fn new(frames: usize) -> Self {
        Self { store: Box::default(), numbers: Vec::new(), free: Vec::new(), frames }
    }

    /// Calls `work` with the memory of a switch in the network of these frames.
    #[inline]
    pub(crate) fn with<R>(&mut self, store: &mut Box<FrameStore>, work: impl FnOnce(&mut Self) -> R) -> R {
        std::mem::swap(&mut self.store, store);
        let result = work(self);
        std::mem::swap(&mut self.store, store);
        result
    }

    /// The number of its frames that the network's store holds.
    pub(crate) fn stored(&self) -> usize {
        self.numbers.iter().filter(|number| **number != NO_FRAME).count()
    }

    /// Takes over a frame of the network; `None` if all frames of memory are in use.
    #[inline]
    pub(crate) fn take(&mut self, number: u32) -> Option<FrameId> {
        if let Some(frame) = self.free.pop() {
            self.numbers[frame as usize] = number;
            return Some(FrameId::new(frame));
        }
        if self.numbers.len() == self.frames {
            return None;
        }
        self.numbers.push(number);
        Some(FrameId::new((self.numbers.len() - 1) as u32))
    }

    /// Hands a frame over to a link. Returns its number in the network. The frame of memory stays
    /// in use.
    #[inline]
    pub(crate) fn hand_over(&mut self, frame: &FrameId) -> u32 {
        std::mem::replace(&mut self.numbers[frame.index()], NO_FRAME)
    }

    /// Returns the number in the network of a frame that is held.
    #[inline]
    pub(crate) fn number(&self, frame: &FrameId) -> u32 {
        self.numbers[frame.index()]
    }

    /// Returns the stored bytes of a frame that is held.
    #[inline]
    pub(crate) fn carried(&self, frame: &FrameId) -> &[u8; CARRIED_BYTES] {
        self.store.bytes(self.number(frame))
    }

    /// Moves the frames that are held to another store.
    pub(crate) fn move_frames(&mut self, from: &FrameStore, to: &mut FrameStore) {
        for number in self.numbers.iter_mut().filter(|number| **number != NO_FRAME) {
            *number = to.put(from.bytes(*number)).unwrap_or(NO_FRAME);
        }
    }
}

impl FrameMemory for SwitchMemory {
    fn alloc(&mut self) -> Option<FrameId> {
        let number = self.store.put(&[0; CARRIED_BYTES])?;
        let frame = self.take(number);
        if frame.is_none() {
            self.store.free(number);
        }
        frame
    }

    #[inline]
    fn free(&mut self, frame: FrameId) {
        let number = self.hand_over(&frame);
        if number != NO_FRAME {
            self.store.free(number);
        }
        self.free.push(frame.index() as u32);
    }

    #[inline]
    fn bytes(&self, frame: &FrameId, len: usize) -> &[u8] {
        &self.carried(frame)[..len.min(CARRIED_BYTES)]
    }

    #[inline]
    fn bytes_mut(&mut self, frame: &FrameId, len: usize) -> &mut [u8] {
        let number = self.number(frame);
        &mut self.store.bytes_mut(number)[..len.min(CARRIED_BYTES)]
    }

    fn copy(&mut self, from: &FrameId, to: &FrameId, _len: usize) {
        let (from, to) = (self.number(from), self.number(to));
        *self.store.bytes_mut(to) = *self.store.bytes(from);
    }

    fn max_len(&self) -> usize {
        CARRIED_BYTES
    }

    fn free_frames(&self) -> usize {
        self.frames - (self.numbers.len() - self.free.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame that goes through a switch has the same number and bytes throughout. Its frame of
    /// memory is free when its transmission ends, not when it has gone.
    #[test]
    fn a_frame_keeps_its_number_through_a_switch() {
        let (mut store, mut memory) = (Box::<FrameStore>::default(), SwitchMemory::new(2));
        let number = store.put(&[7; CARRIED_BYTES]).expect("memory");
        memory.with(&mut store, |memory| {
            let frame = memory.take(number).expect("a free frame");
            memory.bytes_mut(&frame, 1)[0] = 9;
            assert_eq!((memory.hand_over(&frame), memory.free_frames()), (number, 1));
            memory.free(frame);
            assert_eq!(memory.free_frames(), 2);
        });
        assert_eq!((store.bytes(number)[..2].to_vec(), store.stored()), (vec![9, 7], 1));
        store.free(number);
        assert_eq!((store.put(&[1; CARRIED_BYTES]), store.stored()), (Some(number), 1));
    }

    /// A dropped frame and one that the switch made are freed with their bytes, and a memory that
    /// is used up takes nothing.
    #[test]
    fn frames_that_end_in_a_switch_are_freed() {
        let (mut store, mut memory) = (Box::<FrameStore>::default(), SwitchMemory::new(2));
        let dropped = store.put(&[7; CARRIED_BYTES]).expect("memory");
        memory.with(&mut store, |memory| {
            let received = memory.take(dropped).expect("a free frame");
            let made = memory.alloc().expect("a free frame");
            assert_eq!((memory.alloc(), memory.store.stored()), (None, 2));
            memory.copy(&received, &made, 60);
            assert_eq!(memory.bytes(&made, 100), [7; CARRIED_BYTES]);
            memory.free(received);
            memory.free(made);
        });
        assert_eq!((store.stored(), memory.free_frames()), (0, 2));
    }

    #[test]
    fn frames_that_are_held_move_to_another_store() {
        let [mut one, mut two] = [Box::<FrameStore>::default(), Box::default()];
        two.put(&[1; CARRIED_BYTES]).expect("memory");
        let number = one.put(&[7; CARRIED_BYTES]).expect("memory");
        let mut memory = SwitchMemory::new(1);
        let frame = memory.take(number).expect("a free frame");
        memory.move_frames(&one, &mut two);
        memory.with(&mut two, |memory| assert_eq!(memory.carried(&frame), &[7; CARRIED_BYTES]));
        assert_eq!(memory.number(&frame), 1);
    }
}
