//! An egress queue: the cells that its frames hold, and when it is full.
//!
//! Rule: a frame of n cells is taken if max(0, u + n − guaranteed) is no more than the queue's shared maximum (static,
//! or alpha × the free cells of its pool); otherwise it is dropped at the tail. A queue without maximum takes all that
//! ingress let in. Cells count until the frame has left: frames with the kernel are still in the queue.
//! Source: design §3, "Egress queue"; seeds/h3c-rdma-technical-reference.txt, "Fixed area and shared area".

use crate::counters::Count;
use crate::held::List;
use crate::pool::Pools;
use crate::settings::{DropLevel, Threshold, WredSettings};
use crate::usage::Usage;
use crate::watermark::{Level, Mark, Peak, Watermarks};
use crate::wred::{self, Ecn, Random, Verdict, Wred};

/// What a queue may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Limits {
    /// Most shared cells; `None`: no limit.
    pub maximum: Option<Threshold>,
    /// Cells that are its own.
    pub guaranteed_cells: u32,
    /// Service pool of its shared cells.
    pub pool: u8,
    /// Early drops and marks; `None`: tail drop only.
    pub wred: Option<WredSettings>,
    /// It carries no-drop priorities.
    pub no_drop: bool,
}

/// One egress queue. What the way of a frame touches comes first.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Queue {
    /// Frames that wait, in order.
    pub waiting: List,
    used_cells: u32,
    /// Of the cells in use those of frames that wait; the others are with the kernel.
    waiting_cells: u32,
    peak: Peak,
    wred: Option<Box<Wred>>,
    usage: Usage,
    limits: Limits,
    transmitted: Count,
    dropped: Count,
    marked: Count,
    wred_dropped: [Count; 3],
    watermarks: Watermarks,
}

impl Queue {
    /// An empty queue; above `usage_percent` of what it may hold is a violation.
    pub fn new(limits: Limits, usage_percent: u8) -> Self {
        Self {
            waiting: List::default(),
            wred: limits.wred.map(|settings| Box::new(Wred::new(settings, limits.no_drop))),
            limits,
            used_cells: 0,
            waiting_cells: 0,
            peak: Peak::default(),
            usage: Usage::new(usage_percent),
            transmitted: Count::default(),
            dropped: Count::default(),
            marked: Count::default(),
            wred_dropped: [Count::default(); 3],
            watermarks: Watermarks::default(),
        }
    }

    /// What it may hold.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The most shared cells as it stands; `u32::MAX`: no limit.
    #[inline]
    pub fn threshold_cells(&self, pools: &Pools) -> u32 {
        match self.limits.maximum {
            None => u32::MAX,
            Some(threshold) => threshold.cells(pools.egress[usize::from(self.limits.pool & 3)].free_cells()),
        }
    }

    /// A frame of `cells` fits.
    #[inline]
    pub fn has_room(&self, cells: u32, pools: &Pools) -> bool {
        let after = (self.used_cells + cells).saturating_sub(self.limits.guaranteed_cells);
        after <= self.threshold_cells(pools)
    }

    /// Charges a frame that fits.
    #[inline]
    pub fn charge(&mut self, cells: u32, pools: &mut Pools) {
        let before = self.shared_cells();
        self.used_cells += cells;
        self.waiting_cells += cells;
        self.peak.lift(self.used_cells);
        pools.egress[usize::from(self.limits.pool & 3)].take(self.shared_cells() - before);
        self.note_usage(pools);
    }

    /// What WRED makes of a frame that fits; `ecn` reads its ECN field.
    #[inline]
    pub fn judge(
        &mut self,
        cells: u32,
        drop_level: DropLevel,
        random: &mut Random,
        ecn: impl FnOnce() -> Ecn,
    ) -> Verdict {
        match &mut self.wred {
            None => Verdict::Pass,
            Some(wred) => wred.at_enqueue(self.waiting_cells + cells, drop_level, random, ecn),
        }
    }

    /// A frame of `cells` was handed out to be sent. True: it is to be marked, if its sender understands marks.
    #[inline]
    pub fn hand_out(&mut self, cells: u32, drop_level: DropLevel, random: &mut Random) -> bool {
        let before = self.waiting_cells;
        self.waiting_cells -= cells;
        self.wred.as_mut().is_some_and(|wred| wred.at_dequeue(before, drop_level, random))
    }

    /// A frame of `cells` has left the switch.
    #[inline]
    pub fn release(&mut self, cells: u32, pools: &mut Pools) {
        debug_assert!(cells <= self.used_cells, "released more cells than were charged");
        let before = self.shared_cells();
        self.used_cells -= cells;
        pools.egress[usize::from(self.limits.pool & 3)].give(before - self.shared_cells());
        if self.usage.is_above() {
            self.note_usage(pools);
        }
    }

    #[inline]
    fn note_usage(&mut self, pools: &Pools) {
        let allowed = self.limits.guaranteed_cells.saturating_add(self.threshold_cells(pools));
        self.usage.note(self.used_cells, allowed);
    }

    /// Other limits are coming: gives the shared cells back until `reconfigure` takes them again.
    pub(crate) fn withdraw(&self, pools: &mut Pools) {
        pools.egress[usize::from(self.limits.pool & 3)].give(self.shared_cells());
    }

    /// Other limits; what the queue holds stays, even if it is more.
    pub(crate) fn reconfigure(&mut self, limits: Limits, usage_percent: u8, pools: &mut Pools) {
        self.limits = limits;
        self.wred = match (self.wred.take(), limits.wred) {
            (_, None) => None,
            (None, Some(settings)) => Some(Box::new(Wred::new(settings, limits.no_drop))),
            (Some(wred), Some(settings)) => Some(Box::new(wred.reconfigured(settings, limits.no_drop))),
        };
        self.usage.set_percent(usage_percent);
        pools.egress[usize::from(limits.pool & 3)].take(self.shared_cells());
    }

    /// A frame left the port.
    #[inline]
    pub fn count_transmitted(&mut self, len: u16) {
        self.transmitted.add(len);
    }

    /// A frame found the queue full.
    #[inline]
    pub fn count_drop(&mut self, len: u16) {
        self.dropped.add(len);
    }

    /// WRED dropped a frame of this drop level.
    #[inline]
    pub fn count_wred_drop(&mut self, len: u16, drop_level: DropLevel) {
        self.wred_dropped[drop_level as usize].add(len);
    }

    /// Marks a frame as having met congestion, if its sender understands that and it is not marked yet.
    pub fn mark(&mut self, frame: &mut [u8]) {
        if wred::mark(frame) {
            self.marked.add(frame.len() as u16);
        }
    }

    /// Frames that were marked, and those that WRED dropped by drop level.
    pub fn early(&self) -> (Count, [Count; 3]) {
        (self.marked, self.wred_dropped)
    }

    /// The average length that WRED goes by, in cells; `None`: no WRED.
    pub fn average_cells(&self) -> Option<u32> {
        self.wred.as_ref().map(|wred| wred.average_cells())
    }

    /// Cells held, and the most there were.
    pub fn level(&self) -> Level {
        self.watermarks.level(self.used_cells, self.peak)
    }

    /// One watermark begins anew.
    pub(crate) fn mark_watermark(&mut self, mark: Mark) {
        self.watermarks.mark(mark, self.used_cells, &mut self.peak);
    }

    /// Frames that left, and frames dropped because the queue was full.
    pub fn counts(&self) -> (Count, Count) {
        (self.transmitted, self.dropped)
    }

    /// Its usage threshold, in percent of what it may hold.
    pub fn usage_percent(&self) -> u8 {
        self.usage.percent()
    }

    /// Times that its use rose above the usage threshold.
    pub fn violations(&self) -> u64 {
        self.usage.violations()
    }

    #[inline]
    fn shared_cells(&self) -> u32 {
        self.used_cells.saturating_sub(self.limits.guaranteed_cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Alpha, BufferSettings};

    #[test]
    fn takes_exactly_what_guaranteed_and_shared_allow() {
        let settings = BufferSettings {
            total_cells: 1000,
            fixed_cells: 0,
            headroom_cells: 0,
            egress_pool_percent: [50, 50, 0, 0],
            ..BufferSettings::default()
        };
        for (maximum, cells) in [
            (Some(Threshold::Static(30)), 40),
            (Some(Threshold::Static(0)), 10),
            (Some(Threshold::Dynamic(Alpha::from_percent(20))), 10 + 100), // α/(1+α) = 1/5 of the pool's 500
        ] {
            let mut pools = Pools::new(&settings);
            let limits = Limits { pool: 1, guaranteed_cells: 10, maximum, wred: None, no_drop: false };
            let mut queue = Queue::new(limits, 90);
            while queue.has_room(1, &pools) {
                queue.charge(1, &mut pools);
            }
            assert_eq!((queue.level().cells, queue.violations()), (cells, 1), "{maximum:?}");
            assert_eq!((pools.egress[0].level().cells, pools.egress[1].level().cells), (0, cells - 10));
            queue.release(cells, &mut pools);
            assert_eq!(pools.egress[1].level().cells, 0);
        }
        let unlimited = Limits { pool: 0, guaranteed_cells: 0, maximum: None, wred: None, no_drop: true };
        let unlimited = Queue::new(unlimited, 90);
        assert!(
            unlimited.has_room(1_000_000, &Pools::new(&settings)),
            "without maximum there is always room"
        );
    }
}
