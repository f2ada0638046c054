//! A pool of cells that many compete for: the service pools of the shared area as ingress sees them and as egress sees
//! them, and headroom.
//!
//! Rule: what is taken and not given back is in use; free = size − used, never below zero. Ingress and headroom never
//! take more than is free. Egress may: a no-drop queue without limit also holds the cells that ingress charged to
//! reserved and headroom; then nothing is free. So may a pool that was made smaller while it was in use, until enough
//! has left.
//! Where an alarm watches a pool, use above its alarm threshold is noted.
//! Source: docs/law.md, "Areas and pools"; docs/sources.md, "H3C reference" (Fixed area and shared area).

use crate::alarm::Watch;
use crate::counters::PoolSnapshot;
use crate::settings::{BufferSettings, POOLS};
use crate::watermark::{Level, Mark, Peak, Watermarks};
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
            ingress: settings.pool_cells(settings.ingress_pool_percent).map(Pool::new),
            egress: settings.pool_cells(settings.egress_pool_percent).map(Pool::new),
            headroom: Pool::new(settings.headroom_cells),
        }
    }

    /// Gives the pools other sizes; what is in use stays in use.
    pub(crate) fn resize(&mut self, settings: &BufferSettings) {
        let sizes = settings.pool_cells(settings.ingress_pool_percent);
        self.ingress.iter_mut().zip(sizes).for_each(|(pool, cells)| pool.size_cells = cells);
        let sizes = settings.pool_cells(settings.egress_pool_percent);
        self.egress.iter_mut().zip(sizes).for_each(|(pool, cells)| pool.size_cells = cells);
        self.headroom.size_cells = settings.headroom_cells;
    }

    /// One watermark of every pool begins anew.
    pub(crate) fn mark(&mut self, mark: Mark) {
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
    peak: Peak,
    watermarks: Watermarks,
    alarm: Watch,
}

impl Pool {
    /// A pool of so many cells, none in use.
    pub fn new(size_cells: u32) -> Self {
        Self {
            size_cells,
            used_cells: 0,
            unnoted_cells: u32::MAX,
            peak: Peak::default(),
            watermarks: Watermarks::default(),
            alarm: Watch::default(),
        }
    }

    /// Its size, cells in use, and the most there were.
    pub fn snapshot(&self) -> PoolSnapshot {
        PoolSnapshot { level: self.level(), size_cells: self.size_cells }
    }

    /// Cells in use, and the most there were.
    pub fn level(&self) -> Level {
        self.watermarks.level(self.used_cells, self.peak)
    }

    /// Cells that nobody uses.
    #[inline]
    pub fn free_cells(&self) -> u32 {
        self.size_cells.saturating_sub(self.used_cells)
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
        self.alarm.note(self.used_cells, self.size_cells);
        self.unnoted_cells = self.alarm.unnoted_cells(self.size_cells);
    }

    /// Another alarm threshold in percent of the pool; 0: none.
    pub(crate) fn set_alarm(&mut self, percent: u8) {
        self.alarm.set_percent(percent);
        self.unnoted_cells = self.alarm.unnoted_cells(self.size_cells);
    }

    /// Its alarm.
    pub(crate) fn alarm(&mut self) -> &mut Watch {
        &mut self.alarm
    }
}
