//! The egress half of a port: queues, scheduler, rate, and the pauses that it honours.
//!
//! Rule: a frame leaves when the line is free, its queue is picked among those that hold frames and are not paused, and
//! the bytes with the kernel are below their bound (a pause cannot call back what the kernel has).
//! Source: design §2, §4 ("bounded per port"), the way BQL bounds a driver.

use crate::frame::FrameId;
use crate::held::{Charge, Held};
use crate::pause::Pauses;
use crate::pool::Pool;
use crate::queue::Queue;
use crate::schedule::Scheduler;
use crate::settings::{Alpha, PRIORITIES, PortSettings, Xoff};
use crate::shaper::{BURST_NS, Shaper};
use crate::time::Instant;

/// The egress half of a port.
#[derive(Debug)]
pub struct Egress {
    /// The queues.
    pub queues: [Queue; PRIORITIES],
    /// What the neighbour has paused.
    pub pauses: Pauses,
    scheduler: Scheduler,
    shaper: Shaper,
    /// Bit q: queue q holds frames that wait.
    backlogged: u8,
    /// priority → queue, as masks of queues by priority.
    queue_of_priority: [u8; PRIORITIES],
    in_flight_bytes: u32,
    in_flight_limit_bytes: u32,
    in_flight_peak_bytes: u32,
}

impl Egress {
    /// The egress half of a port. `guaranteed_cells` is what each queue has of the fixed area; `no_drop_queues` has
    /// bit q where some port's no-drop priority uses queue q.
    pub fn new(settings: &PortSettings, guaranteed_cells: [u32; PRIORITIES], no_drop_queues: u8) -> Self {
        let honoured = if settings.pfc.rx { settings.pfc.no_drop } else { 0 };
        let queues = std::array::from_fn(|q| {
            let default = Xoff::Dynamic(Alpha::from_percent(20));
            let maximum = settings.queues[q].shared.or((no_drop_queues & (1 << q) == 0).then_some(default));
            Queue::new(guaranteed_cells[q], maximum)
        });
        Self {
            queues,
            pauses: Pauses::new(honoured, settings.pause_speed_bps()),
            scheduler: Scheduler::new(&settings.queues),
            shaper: Shaper::new(settings.speed_bps, BURST_NS),
            backlogged: 0,
            queue_of_priority: settings.dot1p_to_queue.map(|queue| 1 << (queue & 7)),
            in_flight_bytes: 0,
            in_flight_limit_bytes: settings.in_flight_bytes,
            in_flight_peak_bytes: 0,
        }
    }

    /// Puts a frame that fits at the end of its queue.
    #[inline]
    pub fn enqueue(&mut self, frame: FrameId, charge: Charge, held: &mut Held, pool: &mut Pool) {
        let queue = &mut self.queues[usize::from(charge.queue)];
        queue.charge(u32::from(charge.cells), pool);
        held.push(&mut queue.waiting, frame, charge);
        self.backlogged |= 1 << charge.queue;
    }

    /// Takes the next frame that may leave now.
    #[inline]
    pub fn dequeue(&mut self, held: &mut Held, now: Instant) -> Option<(FrameId, Charge)> {
        if self.in_flight_bytes >= self.in_flight_limit_bytes || !self.shaper.is_free(now) {
            return None;
        }
        let ready = self.backlogged & !self.paused_queues(now);
        let (queues, held_ref) = (&self.queues, &*held);
        let q = self.scheduler.pick(ready, |q| held_ref.front_len(&queues[q].waiting))?;
        let (frame, charge) = held.pop(&mut self.queues[q].waiting)?;
        let empty = self.queues[q].waiting.is_empty();
        self.scheduler.sent(q, charge.len, empty);
        if empty {
            self.backlogged &= !(1 << q);
        }
        self.shaper.take(charge.len, now);
        self.in_flight_bytes += u32::from(charge.len);
        self.in_flight_peak_bytes = self.in_flight_peak_bytes.max(self.in_flight_bytes);
        Some((frame, charge))
    }

    /// Takes a frame out of a queue without sending it, as when the port goes down.
    pub fn flush_one(&mut self, held: &mut Held) -> Option<(FrameId, Charge)> {
        let q = self.backlogged.trailing_zeros() as usize;
        let (frame, charge) = held.pop(&mut self.queues.get_mut(q)?.waiting)?;
        if self.queues[q].waiting.is_empty() {
            self.backlogged &= !(1 << q);
            self.scheduler.emptied(q);
        }
        Some((frame, charge))
    }

    /// A frame that `dequeue` gave out is no longer with the kernel.
    #[inline]
    pub fn landed(&mut self, len: u16) {
        self.in_flight_bytes -= u32::from(len);
    }

    /// Frames wait in some queue.
    #[inline]
    pub fn is_backlogged(&self) -> bool {
        self.backlogged != 0
    }

    /// The most bytes that were with the kernel at once.
    pub fn in_flight_peak_bytes(&self) -> u32 {
        self.in_flight_peak_bytes
    }

    /// Queues whose priority is paused.
    #[inline]
    pub fn paused_queues(&mut self, now: Instant) -> u8 {
        let mut priorities = self.pauses.paused(now);
        let mut queues = 0;
        while priorities != 0 {
            queues |= self.queue_of_priority[priorities.trailing_zeros() as usize];
            priorities &= priorities - 1;
        }
        queues
    }

    /// Whether priority `p` uses queue `q` here.
    pub fn uses_queue(&self, p: usize, q: usize) -> bool {
        self.queue_of_priority[p] == 1 << q
    }

    /// When `dequeue` may give something though nothing happens before: the line is free or a pause ends. [`None`]:
    /// nothing waits.
    pub fn next_deadline(&mut self, now: Instant) -> Option<Instant> {
        if self.backlogged == 0 {
            return None;
        }
        let free_at = self.shaper.free_at().max(now);
        let all_paused = self.backlogged & !self.paused_queues(now) == 0;
        Some(if all_paused { free_at.max(self.pauses.next_end()) } else { free_at })
    }
}
