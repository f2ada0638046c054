//! A port without a kernel, for tests. Frames come from and go to a [`Wire`], which can inject
//! faults: refuse room, send a part, withhold or reorder completions, lose frames the way `sendto`
//! does, go down.
//!
//! The bytes of a sent frame are copied to the wire when the port next sees the memory, that is, in
//! `receive` or `close`. Until then the frame does not complete. So a frame that a loop sends in
//! one iteration is on the wire in the next.

use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::rc::Rc;

use switch::{FrameId, FrameMemory, HeapMemory, Instant, KernelCounters, RxDesc, TxDesc};

use crate::port::{Port, PortFault};

/// The loop's end of a wire in memory.
#[derive(Debug)]
pub struct LoopbackPort<M = HeapMemory> {
    shared: Rc<RefCell<Shared>>,
    closed: bool,
    memory: PhantomData<fn(&mut M)>,
}

/// The test's end of a wire in memory.
#[derive(Debug, Clone)]
pub struct Wire {
    shared: Rc<RefCell<Shared>>,
}

#[derive(Debug)]
struct Shared {
    /// Frames injected and not yet received.
    incoming: VecDeque<Vec<u8>>,
    /// Frames in the TX ring.
    ring: VecDeque<TxDesc>,
    /// Frames sent whose bytes are not yet copied.
    leaving: VecDeque<TxDesc>,
    /// Frames completed and not yet returned.
    completed: VecDeque<FrameId>,
    /// Frames lost and not yet returned.
    lost: Vec<FrameId>,
    /// Frames on the wire.
    sent: Vec<Vec<u8>>,
    room: usize,
    hold_completions: bool,
    reverse_completions: bool,
    blocked: bool,
    /// The most frames that a kick sends.
    kick_frames: usize,
    lose: u32,
    up: bool,
    fault: Option<PortFault>,
    min_posted: u32,
    /// Frames that the "kernel" dropped and that are not yet reported.
    kernel_drops: u64,
    /// Frames completed twice and not yet reported.
    stray: u64,
    counters: KernelCounters,
    /// State of the rings if another "thread" closes and opens the port.
    ring_state: Option<RingState>,
    /// Where transmissions are noted.
    calls: Option<TxLog>,
    /// The number of this port in `calls`.
    number: usize,
}

/// Where the rings of a port are that another thread closes and opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RingState {
    /// Attached to the port.
    Attached,
    /// Detached, to be closed.
    Detached,
    /// Opened again, to be taken.
    Reopened,
}

/// The order in which a test's ports were given frames to transmit.
#[derive(Debug, Clone, Default)]
pub struct TxLog(Rc<RefCell<Vec<(usize, bool)>>>);

impl TxLog {
    /// Returns the ports, by the numbers given to [`Wire::log_transmissions`], and whether each
    /// transmission was a single frame of 60 bytes.
    pub fn taken(&self) -> Vec<(usize, bool)> {
        self.0.borrow().clone()
    }
}

impl Shared {
    fn outstanding(&self) -> usize {
        self.ring.len() + self.leaving.len() + self.completed.len() + self.lost.len()
    }

    /// Copies sent frames to the wire.
    fn copy_leaving(&mut self, memory: &impl FrameMemory) {
        while let Some(TxDesc { frame, len, .. }) = self.leaving.pop_front() {
            self.sent.push(memory.bytes(&frame, len.into()).to_vec());
            self.completed.push_back(frame);
        }
    }
}

impl<M> LoopbackPort<M> {
    /// Creates a port and its wire, with room for 2048 frames to transmit.
    pub fn new() -> (Self, Wire) {
        let shared = Rc::new(RefCell::new(Shared {
            incoming: VecDeque::new(),
            ring: VecDeque::new(),
            leaving: VecDeque::new(),
            completed: VecDeque::new(),
            lost: Vec::new(),
            sent: Vec::new(),
            room: 2048,
            hold_completions: false,
            reverse_completions: false,
            blocked: false,
            kick_frames: usize::MAX,
            lose: 0,
            up: true,
            fault: None,
            min_posted: 0,
            kernel_drops: 0,
            stray: 0,
            counters: KernelCounters::default(),
            ring_state: None,
            calls: None,
            number: 0,
        }));
        (Self { shared: Rc::clone(&shared), closed: false, memory: PhantomData }, Wire { shared })
    }

    fn shared(&self) -> RefMut<'_, Shared> {
        self.shared.borrow_mut()
    }
}

impl Wire {
    /// The error number of an interface that does not exist.
    pub const ENODEV: i32 = 19;

    fn shared(&self) -> RefMut<'_, Shared> {
        self.shared.borrow_mut()
    }

    /// Lets a frame arrive. It waits until the port receives it.
    pub fn inject(&self, bytes: impl Into<Vec<u8>>) {
        self.shared().incoming.push_back(bytes.into());
    }

    /// Returns the number of frames injected and not yet received.
    pub fn waiting(&self) -> usize {
        self.shared().incoming.len()
    }

    /// Takes the frames sent since the last call, in order.
    pub fn take_sent(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.shared().sent)
    }

    /// Returns the minimum number of posted chunks that the loop last set; 0 if it set none.
    pub fn min_posted(&self) -> u32 {
        self.shared().min_posted
    }

    /// Limits the outstanding frames to `frames`.
    pub fn set_transmit_room(&self, frames: usize) {
        self.shared().room = frames;
    }

    /// Withholds completions while true.
    pub fn hold_completions(&self, hold: bool) {
        self.shared().hold_completions = hold;
    }

    /// While true, completions come in the opposite order.
    pub fn reverse_completions(&self, reverse: bool) {
        self.shared().reverse_completions = reverse;
    }

    /// Limits the frames that a kick sends; the rest stays in the TX ring, as after EAGAIN.
    pub fn limit_kicks(&self, frames: usize) {
        self.shared().kick_frames = frames;
    }

    /// While true, every kick fails with EAGAIN and frames stay in the TX ring.
    pub fn block(&self, block: bool) {
        self.shared().blocked = block;
    }

    /// Loses the next `frames` frames the way EBUSY does.
    pub fn lose(&self, frames: u32) {
        self.shared().lose = frames;
    }

    /// Records in `calls`, from now on, what this port is given to transmit, as port `number`.
    pub fn log_transmissions(&self, calls: &TxLog, number: usize) {
        let mut shared = self.shared();
        (shared.calls, shared.number) = (Some(calls.clone()), number);
    }

    /// Lets the kernel drop `frames` arriving frames for lack of posted chunks.
    pub fn drop_for_lack_of_chunks(&self, frames: u64) {
        let mut shared = self.shared();
        shared.kernel_drops += frames;
        shared.counters.rx_fill_ring_empty_frames += frames;
    }

    /// Lets the kernel complete `frames` frames a second time. A token exists once, so the port can
    /// only report that.
    pub fn complete_twice(&self, frames: u64) {
        let mut shared = self.shared();
        shared.stray += frames;
        shared.counters.tx_stray_frames += frames;
    }

    /// Leaves closing and opening of the port's rings to the test.
    pub fn close_externally(&self) {
        self.shared().ring_state = Some(RingState::Attached);
    }

    /// True if the port has detached its rings.
    pub fn is_detached(&self) -> bool {
        self.shared().ring_state == Some(RingState::Detached)
    }

    /// Opens the rings again, on an interface that is up.
    pub fn open_again(&self) {
        self.shared().ring_state = Some(RingState::Reopened);
    }

    /// Removes the interface.
    pub fn go_down(&self) {
        let mut shared = self.shared();
        shared.up = false;
        shared.fault = Some(PortFault::Down(Self::ENODEV));
    }
}

impl<M: FrameMemory> Port for LoopbackPort<M> {
    type Memory = M;

    fn receive(&mut self, memory: &mut M, _now: Instant, max: usize, out: &mut Vec<RxDesc>) {
        let mut shared = self.shared();
        shared.copy_leaving(memory);
        for _ in 0..max {
            if shared.incoming.is_empty() {
                return;
            }
            let Some(frame) = memory.alloc() else { return };
            let bytes = shared.incoming.pop_front().expect("not empty");
            let room = memory.bytes_mut(&frame, bytes.len());
            if room.len() < bytes.len() {
                shared.counters.rx_dropped_frames += 1;
                memory.free(frame);
                continue;
            }
            room.copy_from_slice(&bytes);
            out.push(RxDesc::new(frame, bytes.len() as u16));
        }
    }

    fn set_min_posted(&mut self, frames: u32) {
        self.shared().min_posted = frames;
    }

    fn rx_waiting(&self) -> u32 {
        self.shared().incoming.len() as u32
    }

    fn take_kernel_drops(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.shared().kernel_drops))
    }

    fn take_stray(&mut self) -> u64 {
        std::mem::take(&mut self.shared().stray)
    }

    fn pop_fault(&mut self) -> Option<PortFault> {
        self.shared().fault.take()
    }

    fn transmit_room(&self) -> usize {
        let shared = self.shared();
        if shared.up { shared.room.saturating_sub(shared.outstanding()) } else { 0 }
    }

    fn transmit(&mut self, _memory: &mut Self::Memory, frames: &mut Vec<TxDesc>) {
        debug_assert!(frames.len() <= self.transmit_room());
        let mut shared = self.shared();
        if let Some(calls) = &shared.calls {
            let is_pfc = matches!(frames[..], [TxDesc { len: 60, .. }]);
            calls.0.borrow_mut().push((shared.number, is_pfc));
        }
        shared.ring.extend(frames.drain(..));
    }

    fn kick(&mut self) {
        let mut shared = self.shared();
        if shared.ring.is_empty() {
            return;
        }
        shared.counters.tx_kicks += 1;
        if !shared.up {
            shared.counters.tx_down += 1;
            return;
        }
        if shared.blocked {
            shared.counters.tx_again += 1;
            return;
        }
        let lost = shared.lose.min(shared.ring.len() as u32);
        for _ in 0..lost {
            let frame = shared.ring.pop_front().expect("counted").frame;
            shared.lost.push(frame);
        }
        shared.lose -= lost;
        shared.counters.tx_busy += u64::from(lost);
        shared.counters.tx_kicks += u64::from(lost);
        let Shared { ring, leaving, counters, kick_frames, .. } = &mut *shared;
        counters.tx_again += u64::from(ring.len() > *kick_frames);
        leaving.extend(ring.drain(..ring.len().min(*kick_frames)));
    }

    fn complete(&mut self, out: &mut Vec<FrameId>) {
        let mut shared = self.shared();
        if !shared.hold_completions {
            let from = out.len();
            out.extend(shared.completed.drain(..));
            if shared.reverse_completions {
                out[from..].reverse();
            }
        }
    }

    fn take_lost(&mut self, out: &mut Vec<FrameId>) {
        let mut shared = self.shared();
        if !shared.hold_completions {
            out.append(&mut shared.lost);
        }
    }

    fn outstanding(&self) -> usize {
        self.shared().outstanding()
    }

    fn is_up(&self) -> bool {
        self.shared().up && !self.closed
    }

    fn detach(&mut self) -> bool {
        let mut shared = self.shared();
        let is_kept = shared.ring_state.is_some();
        if is_kept {
            (shared.ring_state, shared.up) = (Some(RingState::Detached), false);
        }
        is_kept
    }

    fn reclaim(&mut self, memory: &mut M, unsent: &mut Vec<FrameId>) -> bool {
        self.close(memory, unsent);
        let mut shared = self.shared();
        shared.counters.rx_closed_frames += shared.incoming.len() as u64;
        shared.incoming.clear();
        true
    }

    fn reopen(&mut self, _memory: &mut M) -> Option<bool> {
        let mut shared = self.shared();
        let is_ready = shared.ring_state == Some(RingState::Reopened);
        if is_ready {
            (shared.ring_state, shared.up) = (Some(RingState::Attached), true);
        }
        drop(shared);
        self.closed &= !is_ready;
        Some(is_ready)
    }

    fn close(&mut self, memory: &mut M, unsent: &mut Vec<FrameId>) -> bool {
        self.closed = true;
        let mut shared = self.shared();
        shared.copy_leaving(memory);
        shared.up = false;
        let Shared { ring, completed, lost, .. } = &mut *shared;
        unsent.extend(completed.drain(..).chain(lost.drain(..)));
        unsent.extend(ring.drain(..).map(|outgoing| outgoing.frame));
        true
    }

    fn kernel_counters(&self) -> KernelCounters {
        self.shared().counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(0);

    fn receive(port: &mut LoopbackPort, memory: &mut HeapMemory, max: usize) -> Vec<RxDesc> {
        let mut out = Vec::new();
        port.receive(memory, NOW, max, &mut out);
        out
    }

    fn outgoing(received: Vec<RxDesc>) -> Vec<TxDesc> {
        received.into_iter().map(|RxDesc { frame, len, .. }| TxDesc::new(frame, len)).collect()
    }

    fn completed(port: &mut LoopbackPort) -> usize {
        let mut out = Vec::new();
        port.complete(&mut out);
        out.len()
    }

    #[test]
    fn frames_go_through_unchanged_and_in_order() {
        let mut memory = HeapMemory::new(4, 100);
        let (mut port, wire) = LoopbackPort::new();
        wire.inject([1; 60]);
        wire.inject([2; 100]);
        wire.inject([3; 101]); // too long for this memory
        let mut frames = outgoing(receive(&mut port, &mut memory, 8));
        assert_eq!((frames.len(), port.kernel_counters().rx_dropped_frames, memory.free_frames()), (2, 1, 2));
        port.transmit(&mut memory, &mut frames);
        port.kick();
        assert_eq!((completed(&mut port), port.outstanding()), (0, 2));
        assert!(receive(&mut port, &mut memory, 8).is_empty());
        assert_eq!(wire.take_sent(), [vec![1; 60], vec![2; 100]]);
        assert_eq!((completed(&mut port), port.outstanding()), (2, 0));
    }

    #[test]
    fn takes_no_more_than_memory_and_max_allow() {
        let mut memory = HeapMemory::new(3, 100);
        let (mut port, wire) = LoopbackPort::new();
        (0..5).for_each(|_| wire.inject([0; 60]));
        assert_eq!(receive(&mut port, &mut memory, 2).len(), 2);
        assert_eq!((receive(&mut port, &mut memory, 2).len(), wire.waiting()), (1, 2));
    }

    #[test]
    fn injects_faults() {
        let mut memory = HeapMemory::new(4, 100);
        let (mut port, wire) = LoopbackPort::new();
        (0..4).for_each(|i| wire.inject([i; 60]));
        let mut frames = outgoing(receive(&mut port, &mut memory, 4));
        wire.set_transmit_room(5);
        assert_eq!(port.transmit_room(), 5);
        port.transmit(&mut memory, &mut frames);
        assert_eq!(port.transmit_room(), 1);

        wire.block(true);
        port.kick();
        assert_eq!(port.kernel_counters().tx_again, 1);
        wire.block(false);
        wire.lose(1);
        wire.hold_completions(true);
        port.kick();
        assert_eq!(port.kernel_counters().tx_busy, 1);
        receive(&mut port, &mut memory, 4);
        assert_eq!((completed(&mut port), port.outstanding()), (0, 4));
        wire.hold_completions(false);
        let mut lost = Vec::new();
        assert_eq!(completed(&mut port), 3);
        port.take_lost(&mut lost);
        assert_eq!((lost.len(), port.outstanding()), (1, 0));
        assert_eq!(wire.take_sent(), [[1; 60], [2; 60], [3; 60]]);

        wire.go_down();
        assert_eq!((port.is_up(), port.transmit_room()), (false, 0));
    }

    #[test]
    fn close_gives_every_frame_back() {
        let mut memory = HeapMemory::new(4, 100);
        let (mut port, wire) = LoopbackPort::new();
        (0..3).for_each(|i| wire.inject([i; 60]));
        let mut frames = outgoing(receive(&mut port, &mut memory, 4));
        let mut later = frames.split_off(2);
        port.transmit(&mut memory, &mut frames);
        port.kick();
        port.transmit(&mut memory, &mut later);
        let mut unsent = Vec::new();
        port.close(&mut memory, &mut unsent);
        assert_eq!((unsent.len(), port.frames_held(), port.is_up()), (3, 0, false));
        assert_eq!(wire.take_sent(), [[0; 60], [1; 60]], "what was kicked has left");
    }
}
