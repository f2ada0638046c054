//! Cells: a frame of L bytes (without FCS) takes ceil(L / cell) cells, at least one.
//!
//! Source: docs/behavior.md, "Cells"; docs/references.md, "H3C reference" (Cell resources, of 208
//! bytes: a 128-byte frame takes one, a 300-byte frame two).

use serde::{Deserialize, Serialize};

/// The size of a cell, with a precomputed reciprocal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct CellSize {
    bytes: u32,
    /// ceil(2^32 / bytes): multiplication by it and a shift by 32 divide every length up to 65535
    /// exactly.
    reciprocal: u64,
}

impl CellSize {
    /// Makes cells of `bytes` bytes each, 1 to 65535.
    pub fn new(bytes: u32) -> Self {
        assert!((1..=65_535).contains(&bytes), "a cell has 1 to 65535 bytes, not {bytes}");
        Self { bytes, reciprocal: (1_u64 << 32).div_ceil(u64::from(bytes)) }
    }

    /// Returns the bytes of one cell.
    pub fn bytes(self) -> u32 {
        self.bytes
    }

    /// Returns the cells of a frame of `len` bytes.
    #[inline]
    pub fn of(self, len: u16) -> u32 {
        let last = u64::from(len.max(1) - 1);
        ((last * self.reciprocal) >> 32) as u32 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_the_vendor_specifications() {
        let cell = CellSize::new(208);
        assert_eq!((cell.of(128), cell.of(300)), (1, 2));
    }

    /// The reciprocal is exact for every length and the cells of real chips (and odd ones).
    #[test]
    fn exact_for_every_length() {
        for bytes in [1, 3, 64, 80, 208, 254, 256, 9216, 65_535] {
            let cell = CellSize::new(bytes);
            for len in (1..=u16::MAX).step_by(if cfg!(miri) { 999 } else { 1 }) {
                assert_eq!(cell.of(len), u32::from(len).div_ceil(bytes), "{len} bytes in cells of {bytes}");
            }
        }
        assert_eq!(CellSize::new(256).of(0), 1);
    }
}
