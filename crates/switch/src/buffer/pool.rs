//! A pool of cells that many compete for: the service pools of the shared area as ingress sees them
//! and as egress sees them, and headroom.
//!
//! Rule: what is taken and not given back is in use; free = size − used, never below zero. Ingress
//! and headroom never take more than is free, nor does a lossy queue. A no-drop queue may: it also
//! holds the cells that ingress charged to reserved and headroom. Then nothing is free, and what is
//! beyond the pool is counted. A pool that was made smaller while it was in use is over its size
//! until enough has left; that is not counted. An ingress pool may have a pause threshold: once
//! so many of its cells are in use, all its no-drop groups that hold some of them are in XOFF (see
//! `group`). Where an alarm watches a pool, use from its alarm threshold on is noted.
//! Source: docs/behavior.md, "Areas and pools"; docs/references.md, "H3C reference" (Fixed area and
//! shared area).

use crate::monitor::alarm::UsageAlarm;
use crate::monitor::counters::PoolSnapshot;
use crate::monitor::watermark::{Occupancy, Peak, WatermarkReset, Watermarks};
use crate::settings::{BufferSettings, POOLS};
use serde::{Deserialize, Serialize};

/// The areas that ports compete for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pools {
    /// Service pools of the shared area, as priority groups are charged.
    pub ingress: [Pool; POOLS],
    /// … and as queues are.
    pub egress: [Pool; POOLS],
    /// Headroom, which is one pool.
    pub headroom: Pool,
}

impl Pools {
    /// Empty pools of these sizes.
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

    /// Gives the pools other sizes; what is in use stays in use.
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

    /// One watermark of every pool begins again.
    pub(crate) fn mark(&mut self, mark: WatermarkReset) {
        let pools = self.ingress.iter_mut().chain(&mut self.egress).chain([&mut self.headroom]);
        pools.for_each(|pool| pool.watermarks.mark(mark, pool.used_cells, &mut pool.peak));
    }
}

/// One pool.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pool {
    size_cells: u32,
    used_cells: u32,
    /// Above this use there is something to note for an alarm.
    unnoted_cells: u32,
    /// Use from which on its no-drop groups are in XOFF; `u32::MAX`: none is.
    pause_cells: u32,
    peak: Peak,
    /// Frames that took cells beyond the size, and those cells.
    excess_frames: u64,
    excess_cells: u64,
    watermarks: Watermarks,
    alarm: UsageAlarm,
}

impl Pool {
    /// A pool of so many cells, none in use.
    pub fn new(size_cells: u32) -> Self {
        Self {
            size_cells,
            used_cells: 0,
            unnoted_cells: u32::MAX,
            pause_cells: u32::MAX,
            peak: Peak::default(),
            excess_frames: 0,
            excess_cells: 0,
            watermarks: Watermarks::default(),
            alarm: UsageAlarm::default(),
        }
    }

    /// Its size, cells in use, the most there were, and what was taken beyond it.
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
        self.unnoted_cells = self.alarm.alarm_floor(cells);
    }

    /// All its cells.
    pub fn size_cells(&self) -> u32 {
        self.size_cells
    }

    /// Cells in use, and the most there were.
    pub fn level(&self) -> Occupancy {
        self.watermarks.level(self.used_cells, self.peak)
    }

    /// Cells that nobody uses.
    #[inline]
    pub fn free_cells(&self) -> u32 {
        self.size_cells.saturating_sub(self.used_cells)
    }

    /// Use has reached the pause threshold: groups with shared cells here are in XOFF.
    #[inline]
    pub fn wants_pause(&self) -> bool {
        self.used_cells >= self.pause_cells
    }

    /// Use is so many cells below the pause threshold, or more.
    #[inline]
    pub fn has_come_down_by(&self, cells: u32) -> bool {
        self.used_cells.saturating_add(cells) <= self.pause_cells
    }

    /// Takes cells; the caller has looked at `free_cells` where that matters.
    #[inline]
    pub fn take(&mut self, cells: u32) {
        self.used_cells += cells;
        self.peak.lift(self.used_cells);
        if self.used_cells > self.unnoted_cells {
            self.note_use();
        }
    }

    /// Takes cells for a frame that is not refused whatever is free, and counts those beyond the
    /// pool's size.
    #[inline]
    pub fn charge_unchecked(&mut self, cells: u32) {
        let excess = cells.saturating_sub(self.free_cells());
        self.take(cells);
        if excess > 0 {
            self.excess_frames += 1;
            self.excess_cells += u64::from(excess);
        }
    }

    /// Gives cells back.
    #[inline]
    pub fn give(&mut self, cells: u32) {
        debug_assert!(cells <= self.used_cells, "gave back {cells} of {} cells", self.used_cells);
        self.used_cells -= cells;
        if self.alarm.is_above() {
            self.note_use();
        }
    }

    #[cold]
    fn note_use(&mut self) {
        self.alarm.update(self.used_cells, self.size_cells);
        self.unnoted_cells = self.alarm.alarm_floor(self.size_cells);
    }

    /// Another alarm threshold in percent of the pool; 0: none.
    pub(crate) fn set_alarm(&mut self, percent: u8) {
        self.alarm.set_percent(percent);
        self.unnoted_cells = self.alarm.alarm_floor(self.size_cells);
    }

    /// Its alarm.
    pub(crate) fn alarm(&mut self) -> &mut UsageAlarm {
        &mut self.alarm
    }
}
