//! Random numbers that are reproducible from their seed, for decisions of the switch and for tests.
//!
//! Source: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
//! OOPSLA 2014).

use serde::{Deserialize, Serialize};

/// A SplitMix64 generator.
#[derive(Debug, Serialize, Deserialize)]
pub struct Random(u64);

impl Random {
    /// Makes the generator of a seed.
    #[inline]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number of 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a number from 0 to 2^32 − 1.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        (self.bits() >> 32) as u32
    }

    /// Returns a number below `end`, by the remainder; 0 if `end` is 0.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end.max(1)
    }

    /// Returns an index of a list of this length, by the remainder.
    #[inline]
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns a number from 0, which is excluded, to 1.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (f64::from(self.draw()) + 1.0) / (1_u64 << 32) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the seed 1234567 in the authors' implementation.
    #[test]
    fn the_sequence_is_that_of_its_authors() {
        let mut random = Random::new(1_234_567);
        let numbers = [(); 3].map(|()| random.bits());
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    /// The same three numbers: their upper half, their remainders, and the first as a fraction.
    #[test]
    fn smaller_numbers_are_made_of_the_same_sequence() {
        let sequence = || Random::new(1_234_567);
        let (mut random, mut indices) = (sequence(), sequence());
        assert_eq!([(); 3].map(|()| random.draw()), [1_503_580_183, 745_795_716, 2_285_812_965]);
        assert_eq!([10, 1000, 0].map(|len| indices.index(len)), [7, 973, 0]);
        assert_eq!(sequence().below(1000), 317);
        assert_eq!(sequence().fraction(), 1_503_580_184.0 / 4_294_967_296.0);
    }
}
