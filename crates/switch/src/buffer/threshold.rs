//! A threshold on shared cells, compiled for evaluation per frame.
//!
//! Rule: a static threshold is a number of cells. A dynamic one is alpha × the free cells of the
//! pool, rounded down, where alpha is a power of two from 1/128 to 8. Both are base + ratio × free
//! / 128: no branch, and one multiplication. Source: docs/behavior.md, "Thresholds".

use crate::settings::Threshold;
use serde::{Deserialize, Serialize};

/// A threshold in the form that the frame path uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CompiledThreshold {
    base_cells: u32,
    ratio_of_128: u32,
}

impl CompiledThreshold {
    /// No limit.
    pub(crate) const NONE: CompiledThreshold = CompiledThreshold { base_cells: u32::MAX, ratio_of_128: 0 };

    pub(crate) fn compile(threshold: Threshold) -> Self {
        match threshold {
            Threshold::Static(cells) => Self { base_cells: cells, ratio_of_128: 0 },
            Threshold::Dynamic(alpha) => Self { base_cells: 0, ratio_of_128: alpha.of(128) },
        }
    }

    /// Returns the limit in cells, in a pool with `free_cells` free.
    #[inline]
    pub(crate) fn cells(self, free_cells: u32) -> u32 {
        let dynamic = (u64::from(free_cells) * u64::from(self.ratio_of_128)) >> 7;
        (u64::from(self.base_cells) + dynamic).min(u32::MAX.into()) as u32
    }

    /// Returns the cells that are 100 % of use, in a pool of `size_cells` with `free_cells` free:
    /// the limit, or the pool where a static limit is beyond it.
    #[inline]
    pub(crate) fn full_use_cells(self, free_cells: u32, size_cells: u32) -> u32 {
        let cells = self.cells(free_cells);
        if self.ratio_of_128 == 0 { cells.min(size_cells) } else { cells }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Alpha;

    /// `Threshold::cells` is the reference; this is its fast form.
    #[test]
    fn the_cells_equal_the_setting() {
        let alphas = (-7..=3).map(|exponent| Alpha::from_exponent(exponent).expect("an alpha"));
        let dynamic = alphas.map(Threshold::Dynamic);
        let fixed = [0, 1, 12_288, u32::MAX].map(Threshold::Static);
        for threshold in dynamic.chain(fixed) {
            for free in (0..2000).chain([131_071, 1 << 24, u32::MAX / 8, u32::MAX / 8 + 1, u32::MAX]) {
                assert_eq!(
                    CompiledThreshold::compile(threshold).cells(free),
                    threshold.cells(free),
                    "{threshold:?} of {free}"
                );
            }
        }
        assert_eq!(CompiledThreshold::NONE.cells(5), u32::MAX);
        let full_use = |threshold| CompiledThreshold::compile(threshold).full_use_cells(60, 100);
        let eight_times = Threshold::Dynamic(Alpha::MAX);
        assert_eq!(
            [Threshold::Static(99), Threshold::Static(101), eight_times].map(full_use),
            [99, 100, 480]
        );
        assert_eq!(CompiledThreshold::NONE.full_use_cells(60, 100), 100);
    }
}
