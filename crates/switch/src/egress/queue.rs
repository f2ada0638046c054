//! An egress queue: the cells that its frames hold, and when it is full.
//!
//! Rule: a frame of n cells is admitted on two conditions: max(0, u + n − guaranteed) is no more
//! than the queue's shared maximum (static, or alpha × the free cells of its pool), and the pool
//! has free what the frame adds to the shared cells. Otherwise the frame is tail-dropped. A no-drop
//! queue ignores how much is free, and has no maximum unless one is set: a frame that ingress
//! admitted is never dropped for want of cells in the pool, and use beyond the pool is counted
//! there. Cells count until the frame has left: frames with the kernel are still in the queue.
//! Source: docs/behavior.md, "Egress queues"; docs/references.md, "H3C reference" (Fixed area and
//! shared area).

use crate::buffer::pool::{Pool, Pools};
use crate::buffer::threshold::CompiledThreshold;
use crate::egress::frame_queue::FrameList;
use crate::egress::wred::{Wred, WredAction};
use crate::monitor::alarm::{DropAlarm, UsageAlarm};
use crate::monitor::counters::{FrameCount, QueueSnapshot};
use crate::monitor::usage_violation::UsageViolations;
use crate::monitor::watermark::{Peak, WatermarkReset, Watermarks};
use crate::settings::{DropLevel, Threshold, WredSettings};
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};
use wire::ip::Ecn;
use wire::random::Random;

/// Buffer limits, WRED and class of one egress queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueLimits {
    /// Maximum of shared cells; `None` if unlimited.
    pub maximum: Option<Threshold>,
    /// Cells guaranteed to the queue.
    pub guaranteed_cells: u32,
    /// Service pool of its shared cells.
    pub pool: u8,
    /// Early drops and marks; `None` for tail drop only.
    pub wred: Option<WredSettings>,
    /// True if the queue carries no-drop priorities.
    pub no_drop: bool,
    /// Time that the port's link takes for a typical frame: see [`crate::egress::wred`].
    pub frame_ns: Nanos,
}

/// One egress queue. Fields of the frame path, while there are guaranteed cells, share one cache
/// line.
#[derive(Debug, Serialize, Deserialize)]
#[repr(C, align(64))]
pub struct Queue {
    /// Queued frames, in order. Flooded frames with a separate map are elsewhere (see
    /// [`crate::fifo_set`]).
    pub waiting: FrameList,
    used_cells: u32,
    /// Use up to which all cells are guaranteed and the usage threshold is not near, so that no
    /// pool has to be checked.
    fast_path_cells: u32,
    /// Cells of queued frames. The other cells in use are with the kernel.
    waiting_cells: u32,
    peak: Peak,
    wred: Option<Box<Wred>>,
    transmitted: FrameCount,
    cold: Box<ColdState>,
}

/// State that few frames touch, or only frames that need shared cells.
#[derive(Debug, Serialize, Deserialize)]
struct ColdState {
    guaranteed_cells: u32,
    maximum: CompiledThreshold,
    usage: UsageViolations,
    alarm: UsageAlarm,
    drop_alarm: DropAlarm,
    /// Service pool of the shared cells.
    pool: u8,
    limits: QueueLimits,
    /// True while the watchdog drops every frame: to known addresses, flooded.
    dropping: [bool; 2],
    storm_dropped: FrameCount,
    kernel_lost: FrameCount,
    dropped: FrameCount,
    marked: FrameCount,
    wred_dropped: [FrameCount; 3],
    watermarks: Watermarks,
}

impl Queue {
    /// Makes an empty queue. Use above `usage_percent` of its limit is a usage violation.
    pub fn new(limits: QueueLimits, usage_percent: u8) -> Self {
        let usage = UsageViolations::new(usage_percent);
        Self {
            waiting: FrameList::default(),
            wred: limits.wred.map(|settings| Box::new(Wred::new(settings, limits.no_drop, limits.frame_ns))),
            used_cells: 0,
            fast_path_cells: usage.alarm_floor(limits.guaranteed_cells),
            waiting_cells: 0,
            peak: Peak::default(),
            transmitted: FrameCount::default(),
            cold: Box::new(ColdState {
                guaranteed_cells: limits.guaranteed_cells,
                maximum: limits.maximum.map_or(CompiledThreshold::NONE, CompiledThreshold::compile),
                pool: limits.pool & 3,
                limits,
                usage,
                dropping: [false; 2],
                storm_dropped: FrameCount::default(),
                kernel_lost: FrameCount::default(),
                alarm: UsageAlarm::default(),
                drop_alarm: DropAlarm::default(),
                dropped: FrameCount::default(),
                marked: FrameCount::default(),
                wred_dropped: [FrameCount::default(); 3],
                watermarks: Watermarks::default(),
            }),
        }
    }

    #[inline]
    fn pool<'p>(&self, pools: &'p Pools) -> &'p Pool {
        &pools.egress[usize::from(self.cold.pool & 3)]
    }

    #[inline]
    fn pool_mut<'p>(&self, pools: &'p mut Pools) -> &'p mut Pool {
        &mut pools.egress[usize::from(self.cold.pool & 3)]
    }

    /// Returns the present maximum of shared cells; `u32::MAX` if unlimited.
    #[inline]
    pub fn threshold_cells(&self, pools: &Pools) -> u32 {
        self.cold.maximum.cells(self.pool(pools).free_cells())
    }

    /// The cells in use.
    #[inline]
    pub fn used_cells(&self) -> u32 {
        self.used_cells
    }

    /// True if a frame of `cells` fits.
    #[inline]
    pub fn admit(&self, cells: u32, flooded: bool, pools: &Pools) -> bool {
        self.fits_reserved(cells) || self.admit_to_pool(cells, flooded, pools)
    }

    /// True if a frame of `cells` fits the guaranteed cells, so that at most WRED has to be
    /// consulted.
    #[inline]
    pub fn fits_reserved(&self, cells: u32) -> bool {
        self.used_cells + cells <= self.fast_path_cells
    }

    /// Charges a frame that fits the guaranteed cells.
    #[inline]
    pub fn charge_reserved(&mut self, cells: u32) {
        self.waiting_cells += cells;
        self.used_cells += cells;
        self.peak.raise(self.used_cells);
    }

    #[inline]
    fn admit_to_pool(&self, cells: u32, flooded: bool, pools: &Pools) -> bool {
        let after = (self.used_cells + cells).saturating_sub(self.cold.guaranteed_cells);
        let free_cells = self.pool(pools).free_cells();
        let pool_has_room = self.cold.limits.no_drop || after - self.shared_cells() <= free_cells;
        pool_has_room && !self.is_dropping(flooded) && after <= self.cold.maximum.cells(free_cells)
    }

    /// Charges a frame that fits.
    #[inline]
    pub fn charge(&mut self, cells: u32, pools: &mut Pools) {
        self.charge_reserved(cells);
        if self.used_cells > self.fast_path_cells {
            self.charge_to_pool(cells, pools);
        }
    }

    /// Charges the shared part of `cells` to the pool.
    #[inline]
    fn charge_to_pool(&mut self, cells: u32, pools: &mut Pools) {
        let shared = self.shared_cells().min(cells);
        self.pool_mut(pools).charge_unchecked(shared);
        self.update_usage(self.used_cells, pools);
    }

    /// Applies WRED to a frame that fits.
    #[inline]
    pub fn wred_decide(
        &mut self,
        cells: u32,
        drop_level: DropLevel,
        ecn: Ecn,
        random: &mut Random,
        now: Instant,
    ) -> WredAction {
        match &mut self.wred {
            None => WredAction::Pass,
            Some(wred) => wred.at_enqueue((self.waiting_cells, cells), drop_level, ecn, random, now),
        }
    }

    /// True if WRED decides about the queue's frames.
    #[inline]
    pub fn has_wred(&self) -> bool {
        self.wred.is_some()
    }

    /// True if frames leave the queue unchecked: no WRED marks them then.
    pub fn leaves_unmarked(&self) -> bool {
        self.wred.as_ref().is_none_or(|wred| !wred.decides_at_dequeue())
    }

    /// Records that a frame of `cells` was handed out that no WRED checks now.
    #[inline]
    pub fn dequeue_unmarked(&mut self, cells: u32) {
        self.waiting_cells -= cells;
    }

    /// Records that the last frame of a FIFO has left. If no other waits, the queue is idle.
    pub fn on_last_frame(&mut self, now: Instant) {
        if self.waiting_cells == 0
            && let Some(wred) = &mut self.wred
        {
            wred.on_empty(now);
        }
    }

    /// Records that a frame of `cells` was handed out to be sent. Returns true if it must be
    /// marked, provided that it is ECT.
    #[inline]
    pub fn dequeue(&mut self, cells: u32, drop_level: DropLevel, random: &mut Random, now: Instant) -> bool {
        self.waiting_cells -= cells;
        let waiting = self.waiting_cells;
        self.wred.as_mut().is_some_and(|wred| wred.at_dequeue((waiting, cells), drop_level, random, now))
    }

    /// Releases a frame of `cells` that has left the switch.
    #[inline]
    pub fn release(&mut self, cells: u32, pools: &mut Pools) {
        debug_assert!(cells <= self.used_cells, "released more cells than were charged");
        if self.used_cells > self.fast_path_cells {
            self.release_to_pool(cells, pools);
        }
        self.used_cells -= cells;
    }

    /// Releases the shared part of `cells`, which are still in use, from the pool.
    #[inline]
    fn release_to_pool(&mut self, cells: u32, pools: &mut Pools) {
        let shared = self.shared_cells().min(cells);
        self.pool_mut(pools).release(shared);
        if self.cold.usage.is_above() || self.cold.alarm.is_above() {
            self.update_usage(self.used_cells - cells, pools);
        }
    }

    /// Returns the cells that are 100 % of the queue's use. For a queue without maximum, or with a
    /// static one beyond its pool, that is the pool.
    #[inline]
    fn allowed_cells(&self, pools: &Pools) -> u32 {
        let pool = self.pool(pools);
        let shared = self.cold.maximum.full_use_cells(pool.free_cells(), pool.size_cells());
        self.cold.guaranteed_cells.saturating_add(shared)
    }

    /// Records use that crosses the usage threshold, and all use while the alarm is armed.
    #[inline]
    fn update_usage(&mut self, used_cells: u32, pools: &Pools) {
        let allowed = self.allowed_cells(pools);
        if self.cold.usage.crosses(used_cells, allowed) || self.cold.alarm.is_armed() {
            self.record_usage(used_cells, allowed);
        }
    }

    #[cold]
    fn record_usage(&mut self, used_cells: u32, allowed: u32) {
        self.cold.usage.update(used_cells, allowed);
        self.cold.alarm.update(used_cells, allowed);
        self.update_fast_path_cells();
    }

    /// Computes `fast_path_cells` after an input of it has changed. While the watchdog drops, it is
    /// 0, so that every frame is checked.
    fn update_fast_path_cells(&mut self) {
        let ColdState { usage, alarm, guaranteed_cells, dropping, .. } = &*self.cold;
        let unnoted = usage.alarm_floor(*guaranteed_cells).min(alarm.alarm_floor(*guaranteed_cells));
        self.fast_path_cells = if dropping.contains(&true) { 0 } else { unnoted };
    }

    /// Starts or stops the watchdog's dropping of every frame, to known addresses and flooded.
    pub fn set_dropping(&mut self, dropping: [bool; 2]) {
        self.cold.dropping = dropping;
        self.update_fast_path_cells();
    }

    /// True while the watchdog drops every such frame.
    pub fn is_dropping(&self, flooded: bool) -> bool {
        self.cold.dropping[usize::from(flooded)]
    }

    /// Counts a frame that the watchdog dropped.
    pub fn count_storm_drop(&mut self, len: u16) {
        self.cold.storm_dropped.add(len);
    }

    /// Returns frames that left, and frames that the watchdog dropped.
    pub fn storm_traffic(&self) -> (u64, u64) {
        (self.transmitted.frames, self.cold.storm_dropped.frames)
    }

    /// Sets another alarm threshold, in percent of the queue's limit; 0 disables the alarm.
    pub(crate) fn set_alarm(&mut self, percent: u8) {
        self.cold.alarm.set_percent(percent);
        let dropped = self.all_dropped();
        self.cold.drop_alarm.reset(dropped);
        self.update_fast_path_cells();
    }

    /// Returns the alarms of the queue's use and of its drops, and the drop count.
    pub(crate) fn alarms(&mut self) -> (&mut UsageAlarm, &mut DropAlarm, FrameCount) {
        let dropped = self.all_dropped();
        let ColdState { alarm, drop_alarm, .. } = &mut *self.cold;
        (alarm, drop_alarm, dropped)
    }

    /// Returns frames dropped at the tail or by WRED.
    fn all_dropped(&self) -> FrameCount {
        self.cold.wred_dropped.iter().fold(self.cold.dropped, |sum, count| sum + *count)
    }

    /// Releases the shared cells before a change of limits; `reconfigure` charges them again.
    pub(crate) fn release_shared(&self, pools: &mut Pools) {
        self.pool_mut(pools).release(self.shared_cells());
    }

    /// Applies other limits. Cells of queued frames stay charged, even above the new limits.
    pub(crate) fn reconfigure(&mut self, limits: QueueLimits, usage_percent: u8, pools: &mut Pools) {
        self.cold.limits = limits;
        self.cold.guaranteed_cells = limits.guaranteed_cells;
        self.cold.maximum = limits.maximum.map_or(CompiledThreshold::NONE, CompiledThreshold::compile);
        self.cold.pool = limits.pool & 3;
        self.wred = match (self.wred.take(), limits.wred) {
            (_, None) => None,
            (None, Some(settings)) => Some(Box::new(Wred::new(settings, limits.no_drop, limits.frame_ns))),
            (Some(wred), Some(settings)) => {
                Some(Box::new(wred.reconfigured(settings, limits.no_drop, limits.frame_ns)))
            }
        };
        self.cold.usage.set_percent(usage_percent);
        self.update_fast_path_cells();
        pools.egress[usize::from(limits.pool & 3)].charge(self.shared_cells());
    }

    /// Counts a frame that left the port.
    #[inline]
    pub fn count_transmitted(&mut self, len: u16) {
        self.transmitted.add(len);
    }

    /// Returns the frames that have left, or that the kernel lost.
    pub(crate) fn completed_frames(&self) -> u64 {
        self.transmitted.frames + self.cold.kernel_lost.frames
    }

    /// Counts a frame that the kernel took and lost.
    pub(crate) fn count_kernel_lost(&mut self, len: u16) {
        self.cold.kernel_lost.add(len);
    }

    /// Counts a frame of `cells` that found the queue full. To WRED it is an arrival nonetheless.
    #[inline]
    pub fn count_drop(&mut self, len: u16, cells: u32, now: Instant) {
        self.cold.dropped.add(len);
        if let Some(wred) = &mut self.wred {
            wred.observe((self.waiting_cells, cells), now);
        }
    }

    /// Counts a frame of this drop level that WRED dropped.
    #[inline]
    pub fn count_wred_drop(&mut self, len: u16, drop_level: DropLevel) {
        self.cold.wred_dropped[drop_level as usize].add(len);
    }

    /// Counts a frame with an ECN mark.
    #[inline]
    pub fn count_mark(&mut self, len: u16) {
        self.cold.marked.add(len);
    }

    pub(crate) fn reset_watermark(&mut self, mark: WatermarkReset) {
        self.cold.watermarks.reset(mark, self.used_cells, &mut self.peak);
    }

    /// Returns the levels and counters of the queue, without the pauses, which the port records.
    pub(crate) fn snapshot(&self, pools: &Pools, now: Instant) -> QueueSnapshot {
        QueueSnapshot {
            pool: self.cold.limits.pool,
            level: self.cold.watermarks.level(self.used_cells, self.peak),
            guaranteed_cells: self.cold.guaranteed_cells,
            waiting_frames: u64::from(self.waiting.frames()),
            threshold_cells: Some(self.threshold_cells(pools)).filter(|&cells| cells != u32::MAX),
            is_dynamic: matches!(self.cold.limits.maximum, Some(Threshold::Dynamic(_))),
            allowed_cells: self.allowed_cells(pools),
            usage_percent: self.cold.usage.percent(),
            violations: self.cold.usage.violations(),
            transmitted: self.transmitted,
            dropped: self.cold.dropped,
            storm_dropped: self.cold.storm_dropped,
            kernel_lost: self.cold.kernel_lost,
            marked: self.cold.marked,
            wred_dropped: self.cold.wred_dropped,
            average_cells: self.wred.as_ref().map(|wred| wred.average_cells(self.waiting_cells, now)),
            ..QueueSnapshot::default()
        }
    }

    #[inline]
    fn shared_cells(&self) -> u32 {
        self.used_cells.saturating_sub(self.cold.guaranteed_cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_fields_fit_one_cache_line() {
        assert_eq!(size_of::<Queue>(), 64);
    }
    use crate::settings::{Alpha, BufferSettings};

    const NO_LIMITS: QueueLimits = QueueLimits {
        pool: 0,
        guaranteed_cells: 0,
        maximum: None,
        wred: None,
        no_drop: false,
        frame_ns: 800,
    };

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
            let limits = QueueLimits { pool: 1, guaranteed_cells: 10, maximum, ..NO_LIMITS };
            let mut queue = Queue::new(limits, 90);
            while queue.admit(1, false, &pools) {
                queue.charge(1, &mut pools);
            }
            let held = queue.snapshot(&pools, Instant(0));
            assert_eq!((held.level.cells, held.violations), (cells, 1), "{maximum:?}");
            assert_eq!((pools.egress[0].level().cells, pools.egress[1].level().cells), (0, cells - 10));
            queue.release(cells, &mut pools);
            assert_eq!(pools.egress[1].level().cells, 0);
        }
        let unlimited = Queue::new(QueueLimits { no_drop: true, ..NO_LIMITS }, 90);
        assert!(
            unlimited.admit(1_000_000, false, &Pools::new(&settings)),
            "without maximum there is always room"
        );
    }

    /// Makes a pool of 50 cells, in a buffer of 100.
    fn small_pool() -> Pools {
        Pools::new(&BufferSettings {
            total_cells: 100,
            fixed_cells: 0,
            headroom_cells: 0,
            egress_pool_percent: [50, 50, 0, 0],
            ..BufferSettings::default()
        })
    }

    /// Row 18 of the table of vendor specifications: a lossy queue uses only its own pool, whatever
    /// its maximum; a no-drop queue keeps what ingress admitted, and the pool counts what is beyond
    /// it.
    #[test]
    fn row_18_a_queue_uses_only_its_pool() {
        let lossy = QueueLimits {
            pool: 1,
            guaranteed_cells: 10,
            maximum: Some(Threshold::Static(1000)),
            ..NO_LIMITS
        };
        let alpha_8 = QueueLimits { maximum: Some(Threshold::Dynamic(Alpha::MAX)), ..lossy };
        for (limits, held) in [(lossy, 60), (alpha_8, 56)] {
            let (mut pools, mut queue) = (small_pool(), Queue::new(limits, 100));
            // Four cells a frame: with 46 of 50 taken, alpha 8 allows 32 and no longer 50.
            while queue.admit(4, false, &pools) {
                queue.charge(4, &mut pools);
            }
            let cells = queue.snapshot(&pools, Instant(0)).level.cells;
            assert_eq!(cells, held, "{limits:?}");
            assert_eq!((pools.egress[0].level().cells, pools.egress[1].level().cells), (0, cells - 10));
            assert_eq!((pools.egress[1].snapshot().excess_frames, pools.egress[0].free_cells()), (0, 50));
        }
        let (mut pools, mut queue) =
            (small_pool(), Queue::new(QueueLimits { no_drop: true, guaranteed_cells: 8, ..lossy }, 100));
        for _ in 0..20 {
            assert!(queue.admit(4, false, &pools), "what ingress let in");
            queue.charge(4, &mut pools);
        }
        // 72 of 80 cells are shared: 22 beyond the pool, by six frames, the first of which found
        // two free.
        let pool = pools.egress[1].snapshot();
        assert_eq!((pool.level.cells, pool.excess_frames, pool.excess_cells), (72, 6, 22));
        let other = Queue::new(QueueLimits { maximum: None, guaranteed_cells: 0, ..lossy }, 100);
        assert!(!other.admit(1, false, &pools), "nothing is free for a lossy queue");
    }

    /// Row 36: 100 % of a queue without maximum, or with one beyond its pool, is its pool and its
    /// guaranteed cells.
    #[test]
    fn row_36_a_queue_without_maximum_violates_when_its_pool_is_full() {
        let unlimited = QueueLimits { guaranteed_cells: 10, no_drop: true, ..NO_LIMITS };
        let beyond = QueueLimits { maximum: Some(Threshold::Static(u32::MAX)), ..unlimited };
        for (limits, percent, most) in [(unlimited, 100, 60), (unlimited, 70, 42), (beyond, 100, 60)] {
            let (mut pools, mut queue) = (small_pool(), Queue::new(limits, percent));
            for cells in 1..=80 {
                queue.charge(1, &mut pools);
                let held = queue.snapshot(&pools, Instant(0));
                assert_eq!((held.violations, held.allowed_cells), (u64::from(cells > most), 60), "{cells}");
            }
        }
    }
}
