//! Watermarks: the peaks of a level in cells since the last read, since the last clear, and since
//! the start.
//!
//! Rule: every change of a level lifts its peak, so no peak is ever missed. A reset (a read, or a
//! clear) restarts its own watermark at the present level and leaves the two others unchanged.
//! Source: docs/behavior.md, "Watermarks"; docs/references.md, "H3C reference" (display buffer
//! usage interface: UsedPeak and HeadroomPeak, between two executions of the command) and "SONiC"
//! (periodic, user and persistent watermarks).
//!
//! The frame path keeps one peak, the one since the last reset of any kind. A reset folds it into
//! the three watermarks.

use serde::{Deserialize, Serialize};

/// Peak in cells since the last reset of any kind.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Peak(u32);

impl Peak {
    /// Raises the peak to the present level of `cells`.
    #[inline]
    pub fn raise(&mut self, cells: u32) {
        self.0 = self.0.max(cells);
    }
}

/// Watermark that restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatermarkReset {
    /// The watermarks were read.
    Read,
    /// A user has cleared the watermarks.
    Clear,
}

/// A level and its watermarks, in cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Occupancy {
    /// Present level.
    pub cells: u32,
    /// Peak since the last read.
    pub peak_read_cells: u32,
    /// Peak since the last clear.
    pub peak_clear_cells: u32,
    /// Peak since the start.
    pub peak_cells: u32,
}

/// Watermarks up to the last reset.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Watermarks {
    read_cells: u32,
    clear_cells: u32,
    start_cells: u32,
}

impl Watermarks {
    /// Returns the level `cells` with its watermarks.
    pub fn level(&self, cells: u32, peak: Peak) -> Occupancy {
        Occupancy {
            cells,
            peak_read_cells: self.read_cells.max(peak.0),
            peak_clear_cells: self.clear_cells.max(peak.0),
            peak_cells: self.start_cells.max(peak.0),
        }
    }

    /// Restarts one watermark at the level `cells`.
    pub fn reset(&mut self, mark: WatermarkReset, cells: u32, peak: &mut Peak) {
        let level = self.level(cells, *peak);
        *peak = Peak(cells);
        let Occupancy { peak_read_cells, peak_clear_cells, peak_cells, .. } = level;
        *self = match mark {
            WatermarkReset::Read => {
                Self { read_cells: cells, clear_cells: peak_clear_cells, start_cells: peak_cells }
            }
            WatermarkReset::Clear => {
                Self { read_cells: peak_read_cells, clear_cells: cells, start_cells: peak_cells }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Step {
        To(u32),
        Reset(WatermarkReset),
    }

    /// An action, then the level and the three watermarks (read, clear, start) after it.
    #[test]
    fn each_watermark_begins_at_its_own_reset() {
        use Step::{Reset, To};
        let (mut marks, mut peak, mut cells) = (Watermarks::default(), Peak::default(), 0);
        for (n, (step, expected)) in [
            (To(7), (7, 7, 7, 7)),
            (To(2), (2, 7, 7, 7)),
            (Reset(super::WatermarkReset::Read), (2, 2, 7, 7)),
            (To(5), (5, 5, 7, 7)),
            (To(1), (1, 5, 7, 7)),
            (Reset(super::WatermarkReset::Clear), (1, 5, 1, 7)),
            (To(3), (3, 5, 3, 7)),
            (To(0), (0, 5, 3, 7)),
            (Reset(super::WatermarkReset::Read), (0, 0, 3, 7)),
            (To(9), (9, 9, 9, 9)),
            (Reset(super::WatermarkReset::Clear), (9, 9, 9, 9)),
            (To(0), (0, 9, 9, 9)),
            (Reset(super::WatermarkReset::Clear), (0, 9, 0, 9)),
            (Reset(super::WatermarkReset::Read), (0, 0, 0, 9)),
        ]
        .into_iter()
        .enumerate()
        {
            match step {
                To(level) => {
                    cells = level;
                    peak.raise(level);
                }
                Reset(mark) => marks.reset(mark, cells, &mut peak),
            }
            let level = marks.level(cells, peak);
            let seen = (level.cells, level.peak_read_cells, level.peak_clear_cells, level.peak_cells);
            assert_eq!(seen, expected, "step {n}");
        }
    }
}
