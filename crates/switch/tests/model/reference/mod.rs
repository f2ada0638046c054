//! The reference model: docs/behavior.md written down as plainly as possible.
//!
//! It is independent of the switch because it was written from the sentences of docs/behavior.md
//! and of the vendor specifications, which its comments quote, and not from the code. A rule that
//! changes is changed in docs/behavior.md first, and from there in both. The model shares with the
//! switch the settings, with their tables of percentages (which `vendor_tables.rs` compares with
//! the specifications), and no decisions: that both once let a queue use cells that its pool did
//! not have (row 18 of the vendors' table) was an error in docs/behavior.md, which both followed.
//! It keeps no running totals except where the behavior depends on the order of events (outside and
//! in headroom, XOFF, WRED's average); everything else is summed at each query over the list of
//! held frames. Averages are floating point here and fixed point in the switch.

use switch::settings::{
    Alpha, EcnMarkPoint, GroupSettings, Guaranteed, PRIORITIES, PfcWdAction, SwitchSettings, Threshold,
    WredSettings,
};
use switch::{DropReason, Instant};

/// Ports of the switch.
pub const PORTS: usize = 4;
/// Time of 1000 bytes at 10 Gbit/s: ports without a speed count as that fast.
const FRAME_NS: u64 = 800;

/// A received frame.
#[derive(Debug, Clone, Copy)]
pub struct ArrivingFrame {
    pub sequence: u64,
    pub port: usize,
    pub priority: usize,
    pub cells: u32,
    /// True if the destination is a group address.
    pub multicast: bool,
}

/// A frame that the switch holds, as the model represents it.
#[derive(Debug, Clone, Copy)]
struct HeldFrame {
    /// True if the frame was dequeued and is in flight.
    handed_out: bool,
    sequence: u64,
    port: usize,
    priority: usize,
    out: usize,
    queue: usize,
    /// True if it is in its queue's FIFO for flooded frames with their own map.
    flooded: bool,
    cells: u32,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct GroupModel {
    /// Cells outside headroom and in headroom, which depend on the order of arrivals and
    /// departures.
    pub used: u32,
    pub headroom: u32,
    pub xoff: bool,
    /// Cells of the largest refused frame, while there is no room for a frame of that size.
    starved_cells: u32,
    pub peak_shared: u32,
    pub peak_headroom: u32,
    above: bool,
    pub violations: u64,
    pub dropped: u64,
    pub storm_dropped: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct QueueModel {
    pub peak: u32,
    above: bool,
    pub violations: u64,
    pub dropped: u64,
    pub storm_dropped: u64,
    /// WRED's average, and the time from which it still has to decay.
    average: f64,
    idle_since: Instant,
}

pub struct Model {
    pub settings: SwitchSettings,
    held: Vec<HeldFrame>,
    pub groups: [[GroupModel; PRIORITIES]; PORTS],
    pub queues: [[QueueModel; PRIORITIES]; PORTS],
    pub drops: [[u64; 4]; PORTS],
    /// Storm state, taken from the switch: the model derives only the consequences.
    pub stormed: [[bool; PRIORITIES]; PORTS],
    /// Frames that took cells beyond each egress pool, and those cells.
    pub excess: [(u64, u64); 4],
}

/// Drop reasons that the model covers.
pub const REASONS: [DropReason; 4] =
    [DropReason::IngressLossy, DropReason::IngressNoDrop, DropReason::TailDrop, DropReason::Watchdog];

impl Model {
    pub fn new(settings: SwitchSettings) -> Self {
        let (groups, queues, excess) = Default::default();
        let (drops, stormed) = Default::default();
        Self { settings, held: Vec::new(), groups, queues, drops, excess, stormed }
    }

    pub fn group_settings(&self, port: usize, priority: usize) -> GroupSettings {
        self.settings.ports[port].groups[priority]
    }

    fn is_no_drop(&self, port: usize, priority: usize) -> bool {
        self.settings.ports[port].pfc.no_drop & 1 << priority != 0
    }

    pub fn shared(&self, port: usize, priority: usize) -> u32 {
        self.groups[port][priority].used.saturating_sub(self.group_settings(port, priority).reserved_cells)
    }

    /// "The shared area is divided by percent; a pool may have a size of its own instead; pool 0
    /// has what the others leave."
    fn pool_size(&self, percent: [u8; 4], sizes: [Option<u32>; 4], pool: usize) -> u32 {
        if let Some(cells) = sizes[pool] {
            return cells;
        }
        let area = self.settings.buffer.total_cells
            - self.settings.buffer.fixed_cells
            - self.settings.buffer.headroom_cells;
        let share = |pool: usize| area * u32::from(percent[pool]) / 100;
        if pool > 0 || percent[0] == 0 {
            return share(pool);
        }
        // The area by percentages, less the explicit sizes of other pools and the cells that have
        // an owner.
        let by_percent = (0..4).filter(|&pool| sizes[pool].is_none());
        let together = area * by_percent.clone().map(|pool| u32::from(percent[pool])).sum::<u32>() / 100;
        let others: u32 = by_percent.filter(|&pool| pool > 0).map(share).sum();
        let owned: u32 = sizes.iter().flatten().sum();
        (together - others).min(area.saturating_sub(others + owned))
    }

    fn ingress_size(&self, pool: u8) -> u32 {
        let buffer = &self.settings.buffer;
        self.pool_size(buffer.ingress_pool_percent, buffer.ingress_pool_cells, usize::from(pool))
    }

    fn egress_size(&self, pool: u8) -> u32 {
        let buffer = &self.settings.buffer;
        self.pool_size(buffer.egress_pool_percent, buffer.egress_pool_cells, usize::from(pool))
    }

    fn ingress_used(&self, pool: u8) -> u32 {
        let of = |(port, p)| if self.group_settings(port, p).pool == pool { self.shared(port, p) } else { 0 };
        everywhere().map(of).sum()
    }

    pub fn ingress_free(&self, pool: u8) -> u32 {
        self.ingress_size(pool).saturating_sub(self.ingress_used(pool))
    }

    pub fn headroom_free(&self) -> u32 {
        let used = everywhere().map(|(port, p)| self.groups[port][p].headroom).sum();
        self.settings.buffer.headroom_cells.saturating_sub(used)
    }

    pub fn threshold(&self, port: usize, priority: usize) -> u32 {
        let group = self.group_settings(port, priority);
        group.xoff.cells(self.ingress_free(group.pool))
    }

    pub fn queue_cells(&self, out: usize, queue: usize) -> u32 {
        self.held.iter().filter(|held| (held.out, held.queue) == (out, queue)).map(|held| held.cells).sum()
    }

    fn guaranteed(&self, out: usize, queue: usize) -> u32 {
        match self.settings.ports[out].queues[queue].guaranteed {
            Guaranteed::Cells(cells) => cells,
            Guaranteed::Percent(percent) => {
                let ports = self.settings.ports.iter().filter(|port| !port.name.is_empty()).count();
                self.settings.buffer.fixed_cells / ports.max(1) as u32 * u32::from(percent) / 100
            }
        }
    }

    pub fn egress_free(&self, pool: u8) -> u32 {
        let size = self.egress_size(pool);
        let of = |(out, q): (usize, usize)| match self.settings.ports[out].queues[q].pool == pool {
            true => self.queue_cells(out, q).saturating_sub(self.guaranteed(out, q)),
            false => 0,
        };
        size.saturating_sub(everywhere().map(of).sum())
    }

    /// "A queue number is no-drop if on any port a no-drop priority can be classified into it."
    fn carries_no_drop(&self, queue: usize) -> bool {
        everywhere().filter(|&(port, p)| self.is_no_drop(port, p)).any(|(port, p)| {
            let bridge = &self.settings.bridge;
            let maps = [bridge.unknown_unicast_to_queue, bridge.multicast_to_queue];
            let known = self.settings.ports[port].classify.dot1p_to_queue;
            maps.into_iter().flatten().chain([known]).any(|map| usize::from(map[p]) == queue)
        })
    }

    /// "A queue without maximum, or with a static one that is more than its pool, is allowed its
    /// pool", and what it is guaranteed.
    pub fn queue_allowed(&self, out: usize, queue: usize) -> u32 {
        let size = self.egress_size(self.settings.ports[out].queues[queue].pool);
        let is_dynamic = match self.settings.ports[out].queues[queue].shared {
            Some(threshold) => matches!(threshold, Threshold::Dynamic(_)),
            None => !self.carries_no_drop(queue),
        };
        let shared = match self.queue_threshold(out, queue) {
            Some(most) if is_dynamic => most,
            Some(most) => most.min(size),
            None => size,
        };
        self.guaranteed(out, queue) + shared
    }

    /// Returns the tail drop threshold of a queue, or `None` for no limit.
    pub fn queue_threshold(&self, out: usize, queue: usize) -> Option<u32> {
        let settings = self.settings.ports[out].queues[queue];
        let default = (!self.carries_no_drop(queue)).then_some(Threshold::Dynamic(Alpha::from_percent(20)));
        Some(settings.shared.or(default)?.cells(self.egress_free(settings.pool)))
    }

    /// Returns whether a watchdog drops this priority of a port: "its queue flushed, arrivals for
    /// it and from the matching group discarded".
    pub fn drops_storm(&self, port: usize, priority: usize) -> bool {
        let watchdog = self.settings.ports[port].watchdog[priority];
        self.stormed[port][priority] && watchdog.is_some_and(|watchdog| watchdog.action == PfcWdAction::Drop)
    }

    /// Returns whether the watchdog drops a FIFO, by the same rule as for pauses: "A pause stops
    /// the FIFOs that frames of its priority may be in".
    fn drops_fifo(&self, out: usize, queue: usize, flooded: bool) -> bool {
        let bridge = &self.settings.bridge;
        let ports = self.settings.ports.iter().filter(|port| !port.is_vacant());
        let maps: Vec<_> = match flooded {
            true => {
                [bridge.unknown_unicast_to_queue, bridge.multicast_to_queue].into_iter().flatten().collect()
            }
            false => ports.map(|port| port.classify.dot1p_to_queue).collect(),
        };
        let is_in = |p: usize| maps.iter().any(|map| usize::from(map[p]) == queue);
        (0..PRIORITIES).any(|p| self.drops_storm(out, p) && is_in(p))
    }

    /// Drops the frames in FIFOs that a watchdog drops, first frame first.
    pub fn flush_storms(&mut self, now: Instant) {
        let fifos = everywhere().flat_map(|(out, queue)| [(out, queue, false), (out, queue, true)]);
        let dropped = fifos.filter(|&(out, queue, flooded)| self.drops_fifo(out, queue, flooded));
        for fifo @ (out, queue, _) in dropped.collect::<Vec<_>>() {
            let waits = |held: &&HeldFrame| !held.handed_out && (held.out, held.queue, held.flooded) == fifo;
            for sequence in self.held.iter().filter(waits).map(|held| held.sequence).collect::<Vec<_>>() {
                self.hand_out(sequence, out, now);
                self.leave(sequence, out);
                self.drops[out][3] += 1;
                self.queues[out][queue].storm_dropped += 1;
            }
        }
    }

    /// Receives a frame for some egress ports. "It is charged once at ingress, … and each queue for
    /// its own copy."
    pub fn arrive(&mut self, arrival: ArrivingFrame, outs: &[usize], now: Instant) {
        let ArrivingFrame { port, priority, cells, .. } = arrival;
        if self.drops_storm(port, priority) {
            self.drops[port][3] += 1;
            self.groups[port][priority].storm_dropped += 1;
            return;
        }
        let settings = self.group_settings(port, priority);
        let group = self.groups[port][priority];
        let shared_after = (group.used + cells).saturating_sub(settings.reserved_cells);
        let more_shared = shared_after - self.shared(port, priority);
        let fits_shared = group.headroom == 0
            && shared_after <= self.threshold(port, priority)
            && more_shared <= self.ingress_free(settings.pool);
        let fits_headroom = self.is_no_drop(port, priority)
            && group.headroom + cells <= settings.headroom_cells
            && cells <= self.headroom_free();
        if !fits_shared && !fits_headroom {
            self.drops[port][usize::from(self.is_no_drop(port, priority))] += 1;
            self.groups[port][priority].dropped += 1;
            // "A refused no-drop frame puts its group in XOFF, too, whatever it holds, if it would
            // fit were all cells free."
            if self.is_no_drop(port, priority) && self.fits_when_empty(port, priority, cells) {
                let group = &mut self.groups[port][priority];
                (group.starved_cells, group.xoff) = (group.starved_cells.max(cells), true);
            }
            return;
        }
        let queued = outs.iter().filter(|&&out| self.queue_copy(arrival, out, now)).count();
        if queued == 0 {
            return;
        }
        let group = &mut self.groups[port][priority];
        if fits_shared {
            group.used += cells;
        } else {
            group.headroom += cells;
        }
        group.peak_headroom = group.peak_headroom.max(group.headroom);
        let shared = self.shared(port, priority);
        let group = &mut self.groups[port][priority];
        group.peak_shared = group.peak_shared.max(shared);
        if fits_shared {
            self.update_group(port, priority);
        }
        // "A group is looked at when a frame is charged to it", even if a storm then flushes that
        // frame.
        self.examine_group(port, priority);
    }

    /// Queues a copy of a frame at one egress port. Returns whether the queue admitted it.
    fn queue_copy(&mut self, arrival: ArrivingFrame, out: usize, now: Instant) -> bool {
        let ArrivingFrame { sequence, port, priority, cells, multicast } = arrival;
        let map_of_its_own = self.settings.bridge.multicast_to_queue.filter(|_| multicast);
        let flooded = map_of_its_own.is_some();
        let map = map_of_its_own.unwrap_or(self.settings.ports[port].classify.dot1p_to_queue);
        let queue = usize::from(map[priority]);
        if self.drops_fifo(out, queue, flooded) {
            self.drops[out][3] += 1;
            self.queues[out][queue].storm_dropped += 1;
            return false;
        }
        self.average_arrival(out, queue, cells, now);
        let queue_after = self.queue_cells(out, queue) + cells;
        let over = queue_after.saturating_sub(self.guaranteed(out, queue));
        let over_before = self.queue_cells(out, queue).saturating_sub(self.guaranteed(out, queue));
        let pool = self.settings.ports[out].queues[queue].pool;
        let (more, free) = (over - over_before, self.egress_free(pool));
        // "If the cells beyond the guaranteed ones are no more than the maximum, and its pool has
        // free what the frame adds to them. A no-drop queue does not ask what is free."
        let pool_is_full = more > free && !self.carries_no_drop(queue);
        if pool_is_full || self.queue_threshold(out, queue).is_some_and(|most| over > most) {
            self.drops[out][2] += 1;
            self.queues[out][queue].dropped += 1;
            return false;
        }
        if more > free {
            let (frames, cells) = &mut self.excess[usize::from(pool)];
            (*frames, *cells) = (*frames + 1, *cells + u64::from(more - free));
        }
        self.held.push(HeldFrame { handed_out: false, sequence, port, priority, out, queue, flooded, cells });
        self.queues[out][queue].peak = self.queues[out][queue].peak.max(queue_after);
        self.update_queue(out, queue);
        true
    }

    fn fits_when_empty(&self, port: usize, priority: usize, cells: u32) -> bool {
        let group = self.group_settings(port, priority);
        let size = self.ingress_size(group.pool);
        let shared = cells.saturating_sub(group.reserved_cells);
        let headroom = group.headroom_cells.min(self.settings.buffer.headroom_cells);
        (shared <= size && shared <= group.xoff.cells(size)) || cells <= headroom
    }

    /// "… until such a frame fits, and the headroom that the group may use is free."
    fn is_starved(&self, port: usize, priority: usize) -> bool {
        let (settings, group) = (self.group_settings(port, priority), self.groups[port][priority]);
        let cells = group.starved_cells;
        if cells == 0 || !self.is_no_drop(port, priority) || !self.fits_when_empty(port, priority, cells) {
            return false;
        }
        let shared_after = (group.used + cells).saturating_sub(settings.reserved_cells);
        let more_shared = shared_after - self.shared(port, priority);
        let free = self.ingress_free(settings.pool);
        let fits_shared =
            group.headroom == 0 && shared_after <= settings.xoff.cells(free) && more_shared <= free;
        let fits_headroom =
            group.headroom + cells <= settings.headroom_cells && cells <= self.headroom_free();
        let full_headroom = settings.headroom_cells.min(self.settings.buffer.headroom_cells);
        !((fits_shared || fits_headroom) && self.headroom_free() >= full_headroom)
    }

    /// Passes a frame to the kernel.
    pub fn hand_out(&mut self, sequence: u64, out: usize, now: Instant) {
        let frame = self.held.iter_mut().find(|held| (held.sequence, held.out) == (sequence, out));
        let frame = frame.expect("a frame that waits");
        frame.handed_out = true;
        let HeldFrame { queue, cells, .. } = *frame;
        let waiting = self.waiting_cells(out, queue);
        let Some(wred) = self.wred(out, queue) else { return };
        if waiting == 0 {
            self.queues[out][queue].idle_since = now;
        }
        if wred.mark_at == EcnMarkPoint::Dequeue && wred.ecn {
            self.average_in(out, queue, waiting + cells);
        }
    }

    fn wred(&self, out: usize, queue: usize) -> Option<WredSettings> {
        self.settings.ports[out].queues[queue].wred
    }

    fn waiting_cells(&self, out: usize, queue: usize) -> u32 {
        let waits = |held: &&HeldFrame| !held.handed_out && (held.out, held.queue) == (out, queue);
        self.held.iter().filter(waits).map(|held| held.cells).sum()
    }

    /// RED: avg ← (1 − w) · avg + w · q, with w = 2^-exponent.
    fn average_in(&mut self, out: usize, queue: usize, length: u32) {
        let weight = self.wred(out, queue).map_or(0.0, |wred| 0.5_f64.powi(wred.exponent.into()));
        let average = &mut self.queues[out][queue].average;
        *average = (1.0 - weight) * *average + weight * f64::from(length);
    }

    /// RED: an arrival at an empty queue first decays the average for the idle time: avg ← (1 −
    /// w)^m · avg. Every arrival is averaged, including one that the queue then refuses.
    fn average_arrival(&mut self, out: usize, queue: usize, cells: u32, now: Instant) {
        let waiting = self.waiting_cells(out, queue);
        if waiting == 0 {
            let frames = now.since(self.queues[out][queue].idle_since) / FRAME_NS;
            self.queues[out][queue].average = self.average(out, queue, now).unwrap_or(0.0);
            let idle_since = &mut self.queues[out][queue].idle_since;
            *idle_since = *idle_since + frames * FRAME_NS;
        }
        if self.wred(out, queue).is_some_and(|wred| wred.mark_at == EcnMarkPoint::Enqueue) {
            self.average_in(out, queue, waiting + cells);
        }
    }

    /// Returns the average that WRED uses, or `None` without WRED.
    pub fn average(&self, out: usize, queue: usize, now: Instant) -> Option<f64> {
        let weight = 0.5_f64.powi(self.wred(out, queue)?.exponent.into());
        let QueueModel { average, idle_since, .. } = self.queues[out][queue];
        let idle_frames =
            if self.waiting_cells(out, queue) == 0 { now.since(idle_since) / FRAME_NS } else { 0 };
        Some(average * (1.0 - weight).powf(idle_frames as f64))
    }

    /// Applies other settings.
    pub fn reconfigure(&mut self, settings: SwitchSettings) {
        self.settings = settings;
        for (port, n) in everywhere() {
            // A smaller reservation turns reserved cells into shared cells.
            let shared = self.shared(port, n);
            let peak = &mut self.groups[port][n].peak_shared;
            *peak = (*peak).max(shared);
            if self.wred(port, n).is_none() {
                self.queues[port][n].average = 0.0;
                self.queues[port][n].idle_since = Instant::default();
            }
        }
    }

    /// Takes a port down: "What waits for it is dropped", FIFO by FIFO, and then its unsent frames
    /// in flight, in that order.
    pub fn take_down(&mut self, port: usize, with_kernel: &[u64]) {
        let waits = |held: &&HeldFrame| held.out == port && !held.handed_out;
        let mut waiting: Vec<HeldFrame> = self.held.iter().filter(waits).copied().collect();
        waiting.sort_by_key(|held| (held.flooded, held.queue));
        let sequences = waiting.iter().map(|held| held.sequence).chain(with_kernel.iter().copied());
        for sequence in sequences.collect::<Vec<_>>() {
            self.leave(sequence, port);
        }
    }

    /// Adds another port in the slot: "it begins with counters, watermarks and averages of its
    /// own". Frames received on the previous port that are still held count as its use.
    pub fn reset(&mut self, port: usize) {
        for group in &mut self.groups[port] {
            let GroupModel { used, headroom, .. } = *group;
            *group = GroupModel { used, headroom, peak_headroom: headroom, ..GroupModel::default() };
        }
        self.queues[port] = Default::default();
        (self.drops[port], self.stormed[port]) = Default::default();
    }

    /// Completes a frame that has left. "The cells at ingress are released with its last copy."
    pub fn leave(&mut self, sequence: u64, out: usize) {
        let at = self.held.iter().position(|held| (held.sequence, held.out) == (sequence, out));
        let HeldFrame { port, priority, queue, cells, .. } =
            self.held.remove(at.expect("a frame that is held"));
        if self.held.iter().all(|held| held.sequence != sequence) {
            let group = &mut self.groups[port][priority];
            let from_headroom = cells.min(group.headroom);
            group.headroom -= from_headroom;
            group.used -= cells - from_headroom;
            if group.above {
                self.update_group(port, priority);
            }
        }
        if self.queues[out][queue].above {
            self.update_queue(out, queue);
        }
    }

    fn update_group(&mut self, port: usize, priority: usize) {
        let allowed = self.threshold(port, priority) + self.group_settings(port, priority).reserved_cells;
        let percent = u32::from(self.settings.usage_percent);
        let group = &mut self.groups[port][priority];
        let above = group.used * 100 > allowed * percent;
        group.violations += u64::from(above && !group.above);
        group.above = above;
    }

    fn update_queue(&mut self, out: usize, queue: usize) {
        let cells = self.queue_cells(out, queue);
        let above = cells * 100 > self.queue_allowed(out, queue) * u32::from(self.settings.usage_percent);
        let queue = &mut self.queues[out][queue];
        queue.violations += u64::from(above && !queue.above);
        queue.above = above;
    }

    /// Updates XOFF and XON of every group, as at the end of an iteration.
    pub fn examine(&mut self) {
        for (port, priority) in everywhere() {
            self.examine_group(port, priority);
        }
    }

    fn examine_group(&mut self, port: usize, priority: usize) {
        let (shared, threshold) = (self.shared(port, priority), self.threshold(port, priority));
        let settings = self.group_settings(port, priority);
        let no_drop = self.is_no_drop(port, priority);
        // A pool with a pause threshold pauses all its groups that hold shared cells.
        let pause = self.settings.buffer.pause_cells[usize::from(settings.pool)];
        let used = self.ingress_used(settings.pool);
        let pool_is_over = shared > 0 && pause.is_some_and(|pause| used >= pause);
        let pool_is_low = shared == 0 || pause.is_none_or(|pause| used + settings.xon_offset_cells <= pause);
        let starved = self.groups[port][priority].xoff && self.is_starved(port, priority);
        let group = &mut self.groups[port][priority];
        let over = group.headroom > 0 || (shared > 0 && shared >= threshold) || pool_is_over;
        let low = pool_is_low
            && shared <= settings.resume_cells.max(threshold.saturating_sub(settings.xon_offset_cells));
        group.xoff = no_drop && (over || (group.xoff && (!low || starved)));
        if !group.xoff {
            group.starved_cells = 0;
        }
    }
}

/// Returns every (port, priority), or (port, queue).
pub fn everywhere() -> impl Iterator<Item = (usize, usize)> {
    (0..PORTS).flat_map(|port| (0..PRIORITIES).map(move |n| (port, n)))
}
