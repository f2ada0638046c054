//! A port without a kernel, for tests. Frames come from and go to a [`Wire`], which can inject
//! faults: refuse room, send a part, withhold or reorder completions, lose frames the way `sendto`
//! does, go down.
//!
//! The bytes of a sent frame are copied to the wire when the port next sees the memory, that is, in
//! `receive` or `close`. Until then the frame does not complete. So a frame that a loop sends in
//! one iteration is on the wire in the next.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::rc::Rc;

use dataplane::{Port, PortFault};
use switch::{FrameId, FrameMemory, HeapMemory, Instant, KernelCounters, RefusedFrames, RxDesc, TxDesc};
use wire::bitset::Set8;

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
    /// Frames that were in rings when these were closed.
    closed: Vec<Vec<u8>>,
    /// Frames that still arrive while no chunk is posted, and those that have.
    starved: u32,
    unposted: Vec<Vec<u8>>,
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
    /// Queues that the peer has no room for.
    full_queues: Set8,
    /// The most frames that a kick sends.
    kick_frames: usize,
    lose: u32,
    up: bool,
    fault: Option<PortFault>,
    min_posted: u32,
    /// Frames that the "kernel" dropped and that are not yet reported.
    kernel_drops: u64,
    /// Frames that the port did not accept and that are not yet reported.
    refused: Option<RefusedFrames>,
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
            closed: Vec::new(),
            starved: 0,
            unposted: Vec::new(),
            ring: VecDeque::new(),
            leaving: VecDeque::new(),
            completed: VecDeque::new(),
            lost: Vec::new(),
            sent: Vec::new(),
            room: 2048,
            hold_completions: false,
            reverse_completions: false,
            blocked: false,
            full_queues: Set8::EMPTY,
            kick_frames: usize::MAX,
            lose: 0,
            up: true,
            fault: None,
            min_posted: 0,
            kernel_drops: 0,
            refused: None,
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
        let mut shared = self.shared();
        if shared.starved == 0 {
            return shared.incoming.push_back(bytes.into());
        }
        shared.starved -= 1;
        shared.kernel_drops += 1;
        shared.counters.rx_fill_ring_empty_frames += 1;
        shared.unposted.push(bytes.into());
    }

    /// Starves the fill ring: the kernel drops the next `frames` arriving frames.
    pub fn starve(&self, frames: u32) {
        self.shared().starved = frames;
    }

    /// Takes the frames that the kernel dropped as the fill ring was starved.
    pub fn take_unposted(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.shared().unposted)
    }

    /// Returns the number of frames injected and not yet received.
    pub fn waiting(&self) -> usize {
        self.shared().incoming.len()
    }

    /// Takes the frames sent since the last call, in order.
    pub fn take_sent(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.shared().sent)
    }

    /// The number of frames that the port was given and that have not been taken from the wire.
    pub fn sent_frames(&self) -> usize {
        let shared = self.shared();
        shared.ring.len() + shared.leaving.len() + shared.sent.len()
    }

    /// Takes the frames that were in rings when these were closed.
    pub fn take_closed(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.shared().closed)
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

    /// Sets the queues that the peer has no room for.
    pub fn fill_queues(&self, queues: Set8) {
        self.shared().full_queues = queues;
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

    /// Lets the port accept none of these arriving frames.
    pub fn refuse(&self, refused: RefusedFrames) {
        self.shared().refused = Some(refused);
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

    /// True unless the interface is down or the port is closed.
    pub fn is_up(&self) -> bool {
        self.shared().up
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

    fn take_refused(&mut self) -> Option<RefusedFrames> {
        self.shared().refused.take()
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

    fn blocked_queues(&self) -> Set8 {
        self.shared().full_queues
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
        let Shared { incoming, closed, counters, .. } = &mut *shared;
        counters.rx_closed_frames += incoming.len() as u64;
        closed.extend(incoming.drain(..));
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

    fn reset_counters(&mut self) -> KernelCounters {
        std::mem::take(&mut self.shared().counters)
    }

    fn kernel_counters(&self) -> KernelCounters {
        self.shared().counters
    }
}
