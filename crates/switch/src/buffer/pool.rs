//! A pool of cells that groups or queues compete for: the service pools of the shared area at
//! ingress and at egress, and headroom.
//!
//! Rule: cells that are charged and not released are in use; free = size − used, never below zero.
//! Ingress, headroom and lossy queues never take more than is free. A no-drop queue may, since it
//! also holds the cells that ingress charged to reserved and headroom. Then the pool has no free
//! cells, and use beyond its size is counted. A pool that was made smaller while in use is over its
//! size until enough frames have left; that is not counted. An ingress pool may have a pause
//! threshold: once its use reaches the threshold, all its no-drop groups that hold some of its
//! cells are in XOFF (see [`crate::ingress::priority_group`]). Where an alarm watches a pool, use
//! from its alarm threshold on is recorded. Source: docs/behavior.md, "Areas and pools";
//! docs/references.md, "H3C reference" (Fixed area and shared area).

use crate::monitor::alarm::UsageAlarm;
use crate::monitor::counters::PoolSnapshot;
use crate::monitor::watermark::{Occupancy, Peak, WatermarkReset, Watermarks};
use crate::settings::{BufferSettings, POOLS};
use serde::{Deserialize, Serialize};

/// Areas of the buffer that ports compete for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pools {
    /// Service pools of the shared area, as charged by priority groups.
    pub ingress: [Pool; POOLS],
    /// Service pools of the shared area, as charged by queues.
    pub egress: [Pool; POOLS],
    /// The headroom pool.
    pub headroom: Pool,
}

impl Pools {
    /// Makes empty pools of these sizes.
    pub fn new(settings: &BufferSettings) -> Self {
        Self {
            ingress: std::array::from_fn(|pool| Pool {
                pause_cells: settings.pause_cells[pool].unwrap_or(u32::MAX),
                ..Pool::new(settings.ingress_pools()[pool])
            }),
            egress: settings.egress_pools().map(Pool::new),
            headroom: Pool::new(settings.headroom_cells),
        }
    }

    /// Resizes the pools; cells in use stay in use.
    pub(crate) fn resize(&mut self, settings: &BufferSettings) {
        for ((pool, cells), pause) in
            self.ingress.iter_mut().zip(settings.ingress_pools()).zip(settings.pause_cells)
        {
            pool.resize(cells);
            pool.pause_cells = pause.unwrap_or(u32::MAX);
        }
        let sizes = settings.egress_pools();
        self.egress.iter_mut().zip(sizes).for_each(|(pool, cells)| pool.resize(cells));
        self.headroom.resize(settings.headroom_cells);
    }

    /// Resets one watermark of every pool.
    pub(crate) fn reset_watermarks(&mut self, mark: WatermarkReset) {
        let pools = self.ingress.iter_mut().chain(&mut self.egress).chain([&mut self.headroom]);
        pools.for_each(|pool| pool.watermarks.reset(mark, pool.used_cells, &mut pool.peak));
    }
}

/// One pool of cells, with its peak and alarm.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pool {
    size_cells: u32,
    used_cells: u32,
    /// Use above which an alarm must be updated.
    alarm_floor: u32,
    /// Pause threshold: use at which its no-drop groups are in XOFF; `u32::MAX` for none.
    pause_cells: u32,
    peak: Peak,
    /// Frames that took cells beyond the size, and the number of such cells.
    excess_frames: u64,
    excess_cells: u64,
    watermarks: Watermarks,
    alarm: UsageAlarm,
}

impl Pool {
    /// Makes an empty pool of `size_cells`.
    pub fn new(size_cells: u32) -> Self {
        Self {
            size_cells,
            used_cells: 0,
            alarm_floor: u32::MAX,
            pause_cells: u32::MAX,
            peak: Peak::default(),
            excess_frames: 0,
            excess_cells: 0,
            watermarks: Watermarks::default(),
            alarm: UsageAlarm::default(),
        }
    }

    /// Returns its size, cells in use, peaks, and what was taken beyond the size.
    pub fn snapshot(&self) -> PoolSnapshot {
        PoolSnapshot {
            level: self.level(),
            size_cells: self.size_cells,
            excess_frames: self.excess_frames,
            excess_cells: self.excess_cells,
            pause_threshold_cells: Some(self.pause_cells).filter(|&cells| cells != u32::MAX),
        }
    }

    fn resize(&mut self, cells: u32) {
        self.size_cells = cells;
        self.alarm_floor = self.alarm.alarm_floor(cells);
    }

    /// Returns the number of cells, free or not.
    pub fn size_cells(&self) -> u32 {
        self.size_cells
    }

    /// Returns the cells in use, and their peaks.
    pub fn level(&self) -> Occupancy {
        self.watermarks.level(self.used_cells, self.peak)
    }

    /// Returns how many more cells can be charged before the pool is full.
    #[inline]
    pub fn free_cells(&self) -> u32 {
        self.size_cells.saturating_sub(self.used_cells)
    }

    /// True if use has reached the pause threshold: groups with shared cells here are in XOFF.
    #[inline]
    pub fn above_pause_threshold(&self) -> bool {
        self.used_cells >= self.pause_cells
    }

    /// True if use is at least `cells` below the pause threshold.
    #[inline]
    pub fn below_pause_threshold_by(&self, cells: u32) -> bool {
        self.used_cells.saturating_add(cells) <= self.pause_cells
    }

    /// Charges cells; the caller has checked `free_cells` where that matters.
    #[inline]
    pub fn charge(&mut self, cells: u32) {
        self.used_cells += cells;
        self.peak.raise(self.used_cells);
        if self.used_cells > self.alarm_floor {
            self.update_usage();
        }
    }

    /// Charges cells of a frame that is admitted whatever is free, and counts cells beyond the
    /// pool's size.
    #[inline]
    pub fn charge_unchecked(&mut self, cells: u32) {
        let excess = cells.saturating_sub(self.free_cells());
        self.charge(cells);
        if excess > 0 {
            self.excess_frames += 1;
            self.excess_cells += u64::from(excess);
        }
    }

    /// Releases cells.
    #[inline]
    pub fn release(&mut self, cells: u32) {
        debug_assert!(cells <= self.used_cells, "gave back {cells} of {} cells", self.used_cells);
        self.used_cells -= cells;
        if self.alarm.is_above() {
            self.update_usage();
        }
    }

    #[cold]
    fn update_usage(&mut self) {
        self.alarm.update(self.used_cells, self.size_cells);
        self.alarm_floor = self.alarm.alarm_floor(self.size_cells);
    }

    /// Sets another alarm threshold in percent of the pool; 0 disables the alarm.
    pub(crate) fn set_alarm(&mut self, percent: u8) {
        self.alarm.set_percent(percent);
        self.alarm_floor = self.alarm.alarm_floor(self.size_cells);
    }

    /// Returns the alarm of the pool's use.
    pub(crate) fn alarm(&mut self) -> &mut UsageAlarm {
        &mut self.alarm
    }
}
