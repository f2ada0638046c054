//! A pool of cells that many compete for: the shared area as ingress sees it, as egress sees it, and headroom.
//!
//! Rule: what is taken and not given back is in use; free = size − used, never below zero. Ingress and headroom never
//! take more than is free. Egress may: a no-drop queue without limit also holds the cells that ingress charged to
//! reserved and headroom; then nothing is free.
//! Source: design §3, "Service pools".

use crate::counters::Level;

/// The areas that ports compete for.
#[derive(Debug)]
pub(crate) struct Pools {
    pub(crate) ingress: Pool,
    pub(crate) egress: Pool,
    pub(crate) headroom: Pool,
}

/// One pool.
#[derive(Debug)]
pub struct Pool {
    size_cells: u32,
    used: Level,
}

impl Pool {
    /// A pool of so many cells, none in use.
    pub fn new(size_cells: u32) -> Self {
        Self { size_cells, used: Level::default() }
    }

    /// All its cells.
    pub fn size_cells(&self) -> u32 {
        self.size_cells
    }

    /// Cells in use, and the most there were.
    pub fn level(&self) -> Level {
        self.used
    }

    /// Cells that nobody uses.
    #[inline]
    pub fn free_cells(&self) -> u32 {
        self.size_cells.saturating_sub(self.used.cells)
    }

    /// Takes cells; the caller has looked at `free_cells` where that matters.
    #[inline]
    pub fn take(&mut self, cells: u32) {
        self.used.set(self.used.cells + cells);
    }

    /// Gives cells back.
    #[inline]
    pub fn give(&mut self, cells: u32) {
        debug_assert!(cells <= self.used.cells, "gave back {cells} of {} cells", self.used.cells);
        self.used.cells -= cells;
    }
}
