//! The egress half of a port: queues, scheduler, rate, and the pauses that it honours.
//!
//! Rule: a frame leaves when the line is free, its queue is picked among those that hold frames and are not paused, and
//! the bytes with the kernel are below their bound (a pause cannot call back what the kernel has).
//! Source: docs/law.md, "Frames with the kernel"; the way BQL bounds a driver.

use crate::frame::FrameId;
use crate::held::{Charge, Held};
use crate::pause::Pauses;
use crate::pool::Pools;
use crate::queue::{Limits, Queue};
use crate::rewrite;
use crate::schedule::Scheduler;
use crate::settings::{PRIORITIES, PortSettings, Rate, RewriteSettings};
use crate::shaper::Shaper;
use crate::time::Instant;
use crate::wred::Random;

/// What the settings of the whole switch say of a port's egress half.
#[derive(Debug, Clone, Copy)]
pub struct Given {
    /// What each queue may hold.
    pub limits: [Limits; PRIORITIES],
    /// Share of that above which use is a violation.
    pub usage_percent: u8,
    /// The queues, as masks, that frames of each priority are in.
    pub queues_of_priorities: [u8; PRIORITIES],
}

/// Queues that keep a rate together.
#[derive(Debug)]
struct Shaped {
    /// Bit q: queue q.
    queues: u8,
    shaper: Shaper,
}

/// A frame that may leave now.
#[derive(Debug)]
pub struct Dequeued {
    /// The frame.
    pub frame: FrameId,
    /// What is charged for it.
    pub charge: Charge,
    /// It is to be marked, if its sender understands marks.
    pub mark: bool,
}

/// The egress half of a port. What the way of a frame touches comes first, so that it is in few cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Egress {
    /// Bit q: queue q holds frames that wait.
    backlogged: u8,
    /// Nothing but PFC leaves.
    held: bool,
    rewrites: bool,
    in_flight_bytes: u32,
    in_flight_limit_bytes: u32,
    in_flight_peak_bytes: u32,
    /// The line.
    shaper: Shaper,
    /// Groups and queues with a rate of their own.
    shaped: Vec<Shaped>,
    scheduler: Scheduler,
    /// What the neighbour has paused.
    pub pauses: Pauses,
    /// The queues.
    pub queues: [Queue; PRIORITIES],
    /// For WRED: the same on every run of the same port number.
    pub random: Random,
    /// What a pause of each priority stops, as masks of queues.
    queues_of_priorities: [u8; PRIORITIES],
    rewrite: RewriteSettings,
}

impl Egress {
    /// The egress half of a port; `seed` decides its random numbers.
    pub fn new(settings: &PortSettings, given: &Given, seed: u64) -> Self {
        Self {
            queues: given.limits.map(|limits| Queue::new(limits, given.usage_percent)),
            pauses: Pauses::new(honoured(settings), settings.pause_speed_bps()),
            scheduler: Scheduler::new(&settings.schedule, settings.overhead_bytes),
            shaper: Shaper::new(line(settings), settings.overhead_bytes),
            shaped: shaped(settings),
            random: Random::new(seed),
            backlogged: 0,
            queues_of_priorities: stopped_by_pauses(settings, given),
            rewrites: settings.rewrite != RewriteSettings::default(),
            rewrite: settings.rewrite,
            held: false,
            in_flight_bytes: 0,
            in_flight_limit_bytes: settings.in_flight_bytes,
            in_flight_peak_bytes: 0,
        }
    }

    /// Other settings. The queues' cells are charged anew: each was withdrawn before. What waits goes on waiting; the
    /// scheduler begins a new round.
    pub(crate) fn reconfigure(
        &mut self,
        settings: &PortSettings,
        given: &Given,
        pools: &mut Pools,
        now: Instant,
    ) {
        for (queue, limits) in self.queues.iter_mut().zip(given.limits) {
            queue.reconfigure(limits, given.usage_percent, pools);
        }
        self.pauses.reconfigure(honoured(settings), settings.pause_speed_bps(), now);
        self.queues_of_priorities = stopped_by_pauses(settings, given);
        self.rewrites = settings.rewrite != RewriteSettings::default();
        self.rewrite = settings.rewrite;
        self.scheduler = Scheduler::new(&settings.schedule, settings.overhead_bytes);
        self.shaper.set_rate(line(settings), settings.overhead_bytes);
        self.shaped = shaped(settings);
        self.in_flight_limit_bytes = settings.in_flight_bytes;
    }

    /// Holds transmission, or lets it go on: nothing but PFC leaves a held port. For tests.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Transmission is held.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// What frames that leave are marked with; `None`: they leave as they came.
    #[inline]
    pub fn rewrite(&self) -> Option<&RewriteSettings> {
        self.rewrites.then_some(&self.rewrite)
    }

    /// Puts a frame that fits at the end of its queue.
    #[inline]
    pub fn enqueue(&mut self, frame: FrameId, charge: Charge, held: &mut Held, pools: &mut Pools) {
        let queue = &mut self.queues[usize::from(charge.queue)];
        queue.charge(u32::from(charge.cells), pools);
        held.push(&mut queue.waiting, frame, charge);
        self.backlogged |= 1 << charge.queue;
    }

    /// Takes the next frame that may leave now.
    #[inline]
    pub fn dequeue(&mut self, held: &mut Held, now: Instant) -> Option<Dequeued> {
        if self.in_flight_bytes >= self.in_flight_limit_bytes || !self.shaper.is_free(now) || self.held {
            return None;
        }
        let ready = self.backlogged & !self.paused_queues(now) & !self.over_rate(now);
        let (queues, held_ref) = (&self.queues, &*held);
        let q = self.scheduler.pick(ready, |q| held_ref.front_len(&queues[q].waiting))?;
        let (frame, charge) = held.pop(&mut self.queues[q].waiting)?;
        if self.queues[q].waiting.is_empty() {
            self.backlogged &= !(1 << q);
        }
        self.scheduler.sent(q, charge.len, self.backlogged);
        self.shaper.take(charge.len, now);
        for shaped in self.shaped.iter_mut().filter(|shaped| shaped.queues & 1 << q != 0) {
            shaped.shaper.take(charge.len, now);
        }
        let cells = u32::from(charge.cells);
        let mark = self.queues[q].hand_out(cells, charge.drop_level, &mut self.random);
        self.in_flight_bytes += u32::from(charge.len);
        self.in_flight_peak_bytes = self.in_flight_peak_bytes.max(self.in_flight_bytes);
        Some(Dequeued { frame, charge, mark })
    }

    /// Queues whose own rate, or that of their group, does not let them send now.
    #[inline]
    fn over_rate(&self, now: Instant) -> u8 {
        let held_back = self.shaped.iter().filter(|shaped| !shaped.shaper.is_free(now));
        held_back.fold(0, |mask, shaped| mask | shaped.queues)
    }

    /// Takes a frame out of a queue without sending it, as when the port goes down.
    pub fn flush_one(&mut self, held: &mut Held) -> Option<(FrameId, Charge)> {
        let q = self.backlogged.trailing_zeros() as usize;
        let (frame, charge) = held.pop(&mut self.queues.get_mut(q)?.waiting)?;
        self.queues[q].hand_out(u32::from(charge.cells), charge.drop_level, &mut self.random);
        if self.queues[q].waiting.is_empty() {
            self.backlogged &= !(1 << q);
            self.scheduler.emptied(q, self.backlogged);
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
            queues |= self.queues_of_priorities[priorities.trailing_zeros() as usize];
            priorities &= priorities - 1;
        }
        queues
    }

    /// Whether a pause of priority `p` stops queue `q` here.
    pub fn uses_queue(&self, p: usize, q: usize) -> bool {
        self.queues_of_priorities[p] & 1 << q != 0
    }

    /// When `dequeue` may give something though nothing happens before: the line and the rates of some queue are free, or a
    /// pause ends. [`None`]: nothing waits.
    pub fn next_deadline(&mut self, now: Instant) -> Option<Instant> {
        if self.backlogged == 0 || self.held {
            return None;
        }
        let unpaused = self.backlogged & !self.paused_queues(now);
        let free_at = |q: usize| {
            let rates = self.shaped.iter().filter(|shaped| shaped.queues & 1 << q != 0);
            rates.map(|shaped| shaped.shaper.free_at()).max().unwrap_or_default()
        };
        let queues = (0..PRIORITIES).filter(|q| unpaused & 1 << q != 0).map(free_at);
        let some_queue = queues.min().unwrap_or(Instant::NEVER).min(self.pauses.next_end());
        Some(some_queue.max(self.shaper.free_at()).max(now))
    }
}

/// The rate of the whole port.
fn line(settings: &PortSettings) -> Option<Rate> {
    let speed_bps = settings.speed_bps.filter(|_| settings.keeps_rate);
    speed_bps.map(|bps| Rate { bps, burst_bytes: settings.burst_bytes })
}

/// What has a rate of its own.
fn shaped(settings: &PortSettings) -> Vec<Shaped> {
    let groups = settings.schedule.groups.iter().map(|group| (group.queues, group.rate));
    let queues = settings.queues.iter().enumerate().map(|(q, queue)| (1 << q, queue.rate));
    let shaper = |rate| Shaper::new(Some(rate), settings.overhead_bytes);
    groups.chain(queues).filter_map(|(queues, rate)| Some(Shaped { queues, shaper: shaper(rate?) })).collect()
}

/// Priorities whose pauses are obeyed.
fn honoured(settings: &PortSettings) -> u8 {
    if settings.pfc.rx { settings.pfc.no_drop } else { 0 }
}

/// What a pause of each priority stops: the neighbour means the priorities that it sees.
fn stopped_by_pauses(settings: &PortSettings, given: &Given) -> [u8; PRIORITIES] {
    rewrite::queues_by_priority(&settings.rewrite).unwrap_or(given.queues_of_priorities)
}
