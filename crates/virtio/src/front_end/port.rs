//! A port of a host whose peer is the switch itself: a virtio driver in place of an interface.
//!
//! Rule: where there are eight queue pairs, the number of a queue is the priority, in both
//! directions. A frame is copied to its queue at once, and completes when the device has read it:
//! what a paused queue holds has not left. A full queue blocks its priority and no other. Source:
//! docs/vhost-user.md, "Queues", "Backpressure".

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::RawFd;

use dataplane::Port;
use switch::{FrameId, FrameMemory, Instant, KernelCounters, RxDesc, TxDesc};
use wire::bitset::Set8;

use crate::front_end::FrontEnd;
use crate::ring::MAX_PAIRS;

/// A host's port on a vhost-user socket of the switch.
#[derive(Debug)]
pub struct FrontEndPort<M> {
    front_end: FrontEnd,
    queues: Vec<Queue>,
    /// The queue that is received from first.
    first_pair: usize,
    completed: Vec<FrameId>,
    /// The bytes of a received frame.
    buffer: Vec<u8>,
    counters: KernelCounters,
    is_closed: bool,
    memory: PhantomData<fn(&mut M)>,
}

/// A queue from which the host sends.
#[derive(Debug, Default)]
struct Queue {
    /// Frames that the device has not read, in order.
    unread: VecDeque<FrameId>,
    /// Frames that found no room.
    waiting: VecDeque<TxDesc>,
    /// Frames that it takes now.
    room: usize,
}

impl<M: FrameMemory> FrontEndPort<M> {
    /// Makes the port of a driver that has started its queues. A frame must fit into one buffer of
    /// the driver.
    pub fn new(mut front_end: FrontEnd) -> Self {
        front_end.set_interrupts(false);
        let queues = (0..front_end.queue_pairs()).map(|_| Queue::default()).collect();
        let mut port = Self {
            front_end,
            queues,
            first_pair: 0,
            completed: Vec::new(),
            buffer: Vec::new(),
            counters: KernelCounters::default(),
            is_closed: false,
            memory: PhantomData,
        };
        port.take_read();
        port
    }

    /// Returns the queue pair of a priority.
    #[inline]
    fn pair_of(&self, priority: usize) -> usize {
        if self.queues.len() > 1 { priority & 7 } else { 0 }
    }

    /// Completes the frames that the device has read.
    fn take_read(&mut self) {
        for (pair, queue) in self.queues.iter_mut().enumerate() {
            queue.room = self.front_end.send_room(pair);
            let in_ring = self.front_end.ring_size() - queue.room;
            let read = queue.unread.len().saturating_sub(in_ring);
            self.completed.extend(queue.unread.drain(..read));
        }
    }

    /// Copies frames to their queue, as far as that has room, and shows them to the device.
    fn fill_queue(&mut self, pair: usize, memory: &mut M) {
        let Self { front_end, queues, .. } = self;
        let queue = &mut queues[pair];
        while queue.room > 0
            && let Some(next) = queue.waiting.pop_front()
        {
            let mut is_sent = false;
            memory.whole(&next.frame, next.len.into(), |bytes| {
                is_sent = front_end.send(pair, bytes);
                false
            });
            if !is_sent {
                queue.waiting.push_front(next); // it takes more buffers than are free
                break;
            }
            queue.unread.push_back(next.frame);
            queue.room -= 1;
        }
        front_end.flush(pair);
    }
}

impl<M: FrameMemory> Port for FrontEndPort<M> {
    type Memory = M;

    fn receive(&mut self, memory: &mut M, _now: Instant, max: usize, out: &mut Vec<RxDesc>) {
        let most = out.len() + max;
        let (first, pairs) = (self.first_pair, self.queues.len());
        for pair in (0..pairs).map(|n| (first + n) % pairs) {
            while out.len() < most
                && memory.free_frames() > 0
                && self.front_end.receive(pair, &mut self.buffer)
            {
                let len = self.buffer.len();
                let Some(frame) = memory.alloc_for(len) else {
                    self.counters.rx_dropped_frames += 1;
                    continue;
                };
                memory.whole(&frame, len, |bytes| {
                    bytes.copy_from_slice(&self.buffer);
                    true
                });
                out.push(RxDesc::new(frame, len as u16));
            }
            self.front_end.repost(pair);
            self.fill_queue(pair, memory);
        }
        self.first_pair = (first + 1) % pairs;
    }

    fn transmit_room(&self) -> usize {
        let rooms = self.queues.iter().filter(|queue| queue.room > 0).map(|queue| queue.room);
        rooms.min().unwrap_or(0)
    }

    fn blocked_queues(&self) -> Set8 {
        (0..MAX_PAIRS).filter(|&priority| self.queues[self.pair_of(priority)].room == 0).collect()
    }

    /// A frame that finds no room, as an announcement may, waits for it.
    fn transmit(&mut self, memory: &mut M, frames: &mut Vec<TxDesc>) {
        for frame in frames.drain(..) {
            let pair = self.pair_of(frame.queue.into());
            self.queues[pair].waiting.push_back(frame);
        }
        (0..self.queues.len()).for_each(|pair| self.fill_queue(pair, memory));
    }

    fn complete(&mut self, out: &mut Vec<FrameId>) {
        self.take_read();
        out.append(&mut self.completed);
    }

    fn outstanding(&self) -> usize {
        let of_queues = self.queues.iter().map(|queue| queue.unread.len() + queue.waiting.len());
        self.completed.len() + of_queues.sum::<usize>()
    }

    fn is_up(&self) -> bool {
        !self.is_closed && self.front_end.is_connected()
    }

    fn prepare_sleep(&mut self) {
        self.front_end.set_interrupts(true);
    }

    fn cancel_sleep(&mut self) {
        self.front_end.set_interrupts(false);
    }

    fn has_pending(&self) -> bool {
        self.front_end.has_used()
    }

    fn close(&mut self, _memory: &mut M, unsent: &mut Vec<FrameId>) -> bool {
        self.is_closed = true;
        unsent.append(&mut self.completed);
        for queue in &mut self.queues {
            unsent.extend(queue.unread.drain(..).chain(queue.waiting.drain(..).map(|frame| frame.frame)));
        }
        true
    }

    fn kernel_counters(&self) -> KernelCounters {
        self.counters
    }

    fn poll_fds(&self, out: &mut Vec<RawFd>) {
        self.front_end.poll_fds(out);
        out.push(self.front_end.socket_fd());
    }
}
