//! A port whose peer is a virtio driver: a guest, or a process with a virtio front end.
//!
//! Rule: a frame is copied out of the guest's memory before anything of it is read, and copied into
//! it when it is sent; a sent frame completes at once. Where a port has a queue pair for each
//! priority, the number of the queue is the priority, in both directions. XOFF of a priority is a
//! queue that is not read ([`pauses`]), so the guest's own queues hold what is paused, down to the
//! socket. A port that has opened again, or has other settings, reads nothing in its first
//! iteration, in which the switch advertises the XOFF that is in force. A guest that posts no
//! buffers in a queue blocks only the switch's queue of that number ([`Port::blocked_queues`]).
//! Source: docs/vhost-user.md; Virtual I/O Device 1.2, 5.1 "Network Device".

#[expect(clippy::indexing_slicing, reason = "by ring, 0 to 15")]
mod calls;
#[expect(clippy::indexing_slicing, reason = "by pair, 0 to 7")]
pub(crate) mod device;
mod exchange;
pub(crate) mod handover;
#[expect(clippy::indexing_slicing, reason = "by priority, 0 to 7")]
mod pauses;
mod rx;
pub(crate) mod signals;
mod tx;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dataplane::{Port, PortFault};
use switch::buffer::cell::CellSize;
use switch::settings;
use switch::{FrameId, FrameMemory, Instant, KernelCounters, RefusedFrames, RxDesc, TxDesc};
use wire::bitset::Set8;

use crate::port::device::{Device, MAX_PAIRS, rx_ring, tx_ring};
use crate::port::handover::Handover;
use crate::port::pauses::Pauses;
use crate::ring::Queue;
use crate::ring::fault::{FaultCounts, RingFault};

/// Frames that may wait for one queue of the guest: more than an iteration sends.
const STAGED: usize = 512;
/// Posted buffers below which a queue of the guest counts as full, or half of the most that were
/// ever posted in it, or a quarter of its size, if that is fewer.
const FEW_BUFFERS: u16 = 16;

/// What a loop has to know of a port on a vhost-user socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortSettings {
    /// Speed that pause times refer to.
    pub speed_bps: u64,
    /// The guest understands PFC frames, so they are sent to it. Its queues are always read.
    pub sends_pfc: bool,
    /// Number of queue pairs: 1, or 8 where the number of a queue is the priority.
    pub queue_pairs: usize,
    /// Bytes of the switch's cells, in which the batch of a queue is counted.
    pub cell_bytes: u32,
    /// The most cells that are read of a queue in an iteration, unless a single frame has more.
    pub batch_cells: u32,
}

/// A port of a loop on a guest's rings.
#[derive(Debug)]
pub struct VirtioPort<M> {
    handover: Arc<Handover>,
    settings: PortSettings,
    cell: CellSize,
    device: Option<Box<Device>>,
    is_open: bool,
    pauses: Pauses,
    now: Instant,
    /// The switch has yet to advertise the pauses that are in force.
    awaits_pauses: bool,
    /// The queue that is read first.
    first_pair: usize,
    /// Frames that were sent, until the loop takes them.
    completed: Vec<FrameId>,
    /// Frames that no guest could be given.
    lost: Vec<FrameId>,
    /// Frames for which the guest has no buffers left, by queue pair.
    staged: [VecDeque<TxDesc>; MAX_PAIRS],
    /// Queues of the switch that the guest has no room for.
    blocked: Set8,
    /// Frames that fit into every queue of the guest that is not blocked.
    room: usize,
    /// Buffers that the longest frame so far took, by queue pair.
    buffers_of_a_frame: [u16; MAX_PAIRS],
    /// The most buffers that the guest had posted so far, by queue pair.
    most_posted: [u16; MAX_PAIRS],
    faults: FaultCounts,
    /// Frames of the guest that were not accepted, until the loop takes their number.
    refused: Option<RefusedFrames>,
    memory: PhantomData<fn(&mut M)>,
}

impl<M> VirtioPort<M> {
    /// Makes the loop's end of a port. It is closed until [`Port::reopen`].
    pub(crate) fn new(handover: Arc<Handover>, settings: PortSettings) -> Self {
        Self {
            handover,
            device: None,
            is_open: false,
            pauses: Pauses::new(settings.speed_bps),
            cell: CellSize::new(settings.cell_bytes),
            settings,
            now: Instant::default(),
            awaits_pauses: false,
            first_pair: 0,
            completed: Vec::with_capacity(2 * STAGED),
            lost: Vec::with_capacity(STAGED),
            staged: std::array::from_fn(|_| VecDeque::with_capacity(STAGED)),
            blocked: Set8::EMPTY,
            room: 0,
            buffers_of_a_frame: [1; MAX_PAIRS],
            most_posted: [0; MAX_PAIRS],
            faults: FaultCounts::default(),
            refused: None,
            memory: PhantomData,
        }
    }

    /// Returns what the guest did wrong so far.
    pub fn faults(&self) -> &FaultCounts {
        &self.faults
    }

    /// Returns the priorities whose queues are not read now, of those that have a queue.
    pub fn paused(&self) -> Set8 {
        (0..MAX_PAIRS).filter(|&pair| self.is_paused(pair)).fold(Set8::EMPTY, |set, p| set.with(Set8::of(p)))
    }

    /// True if each priority has a queue of its own.
    #[inline]
    fn is_by_priority(&self) -> bool {
        self.settings.queue_pairs > 1
    }

    /// True if a queue of the guest is not read.
    #[inline]
    fn is_paused(&self, pair: usize) -> bool {
        if self.is_by_priority() { self.pauses.is_paused(pair) } else { self.pauses.is_any_paused() }
    }

    /// Takes or gives back rings, if the control thread has news.
    #[inline]
    fn exchange(&mut self)
    where
        M: FrameMemory,
    {
        if self.handover.has_news() {
            self.handover.exchange(&mut self.device);
            (self.buffers_of_a_frame, self.most_posted) = ([1; MAX_PAIRS], [0; MAX_PAIRS]);
            self.update_room();
        }
    }

    /// Counts a fault of the guest. Stops the ring if it cannot continue.
    #[cold]
    fn on_fault(faults: &mut FaultCounts, handover: &Handover, queue: &mut Queue, fault: RingFault) {
        faults.count(fault);
        handover.note_fault(fault);
        if fault.stops_ring() {
            queue.stop(fault);
        }
    }

    /// Counts a frame of the guest that is not accepted.
    #[cold]
    #[expect(clippy::indexing_slicing, reason = "by pair, 0 to 7")]
    fn refuse(&mut self, pair: usize) {
        let is_by_priority = self.is_by_priority();
        let refused = self.refused.get_or_insert_default();
        let counter = if is_by_priority { &mut refused.by_priority[pair] } else { &mut refused.others };
        *counter += 1;
    }

    /// Forgets frames that no guest will be given.
    fn drop_staged(&mut self, out: &mut Vec<FrameId>) {
        for staged in &mut self.staged {
            out.extend(staged.drain(..).map(|frame| frame.frame));
        }
    }
}

impl<M: FrameMemory> Port for VirtioPort<M> {
    type Memory = M;

    fn receive(&mut self, memory: &mut M, now: Instant, max: usize, out: &mut Vec<RxDesc>) {
        self.now = now;
        self.pauses.advance(now);
        self.exchange();
        if self.is_open && self.device.is_some() {
            self.send_staged(memory);
            if !std::mem::take(&mut self.awaits_pauses) {
                self.read_queues(memory, max, out);
            }
            self.update_room();
        }
    }

    /// The peer gets PFC in any case; see [`VirtioPort::transmit`].
    fn transmit_room(&self) -> usize {
        self.room + 1
    }

    fn apply_settings(&mut self, settings: &settings::PortSettings) {
        self.pauses.set_speed(settings.pause_speed_bps());
        self.settings.batch_cells = settings.guest_batch_cells(self.settings.sends_pfc);
        self.awaits_pauses = true;
    }

    fn transmit(&mut self, memory: &mut M, frames: &mut Vec<TxDesc>) {
        self.send_all(memory, frames);
    }

    fn blocked_queues(&self) -> Set8 {
        self.blocked
    }

    fn complete(&mut self, out: &mut Vec<FrameId>) {
        out.append(&mut self.completed);
    }

    fn take_lost(&mut self, out: &mut Vec<FrameId>) {
        out.append(&mut self.lost);
    }

    #[inline]
    fn take_refused(&mut self) -> Option<RefusedFrames> {
        self.refused.take()
    }

    fn outstanding(&self) -> usize {
        self.completed.len() + self.lost.len() + self.staged.iter().map(VecDeque::len).sum::<usize>()
    }

    /// A sent frame needs no system call.
    fn needs_kick(&self) -> bool {
        !self.completed.is_empty() || !self.lost.is_empty()
    }

    fn is_up(&self) -> bool {
        self.handover.is_linked.load(Ordering::Acquire)
    }

    fn prepare_sleep(&mut self) {
        let (paused, is_blocked) = (self.paused(), !self.blocked.is_empty());
        let Some(device) = &mut self.device else { return };
        for (number, queue) in device.rings.iter_mut().enumerate() {
            let Some(queue) = queue else { continue };
            let pair = number / 2;
            let is_awaited = if number == tx_ring(pair) { !paused.contains(pair) } else { is_blocked };
            if is_awaited {
                queue.arm();
            }
        }
    }

    fn cancel_sleep(&mut self) {
        self.handover.clear_events();
        if let Some(device) = &mut self.device {
            device.rings.iter_mut().flatten().for_each(|queue| queue.disarm());
        }
    }

    #[expect(clippy::indexing_slicing, reason = "by pair, 0 to 7")]
    fn has_pending(&self) -> bool {
        if self.handover.has_news() {
            return self.is_open;
        }
        let Some(device) = self.device.as_ref().filter(|_| self.is_open) else { return false };
        (0..MAX_PAIRS).any(|pair| {
            let sent = device.rings[tx_ring(pair)].as_ref().is_some_and(|queue| queue.has_news());
            let posted = device.rings[rx_ring(pair)].as_ref().is_some_and(|queue| queue.has_more_than_seen());
            sent && !self.is_paused(pair) || posted && !self.blocked.is_empty()
        })
    }

    fn pop_fault(&mut self) -> Option<PortFault> {
        None
    }

    fn reopen(&mut self, _memory: &mut M) -> Option<bool> {
        if !self.handover.is_linked.load(Ordering::Acquire) {
            return Some(false);
        }
        self.is_open = true;
        self.pauses.reset();
        self.awaits_pauses = true;
        self.handover.begin_serving();
        self.exchange();
        Some(true)
    }

    fn close(&mut self, _memory: &mut M, unsent: &mut Vec<FrameId>) -> bool {
        self.is_open = false;
        self.drop_staged(unsent);
        self.handover.end_serving(self.device.take());
        self.update_room();
        true
    }

    fn kernel_counters(&self) -> KernelCounters {
        KernelCounters::default()
    }

    fn poll_fds(&self, out: &mut Vec<RawFd>) {
        out.push(self.handover.poll_fd());
    }
}

impl<M> Drop for VirtioPort<M> {
    /// A thread may wait for the rings.
    fn drop(&mut self) {
        self.handover.end_serving(self.device.take());
    }
}
