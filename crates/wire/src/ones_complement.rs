//! The Internet checksum's arithmetic (RFC 1071).

/// A running one's complement sum.
///
/// The sum is the same in either byte order, except that the result is byte-swapped (RFC 1071 2.B).
/// So words are added in memory order and swapped once at the end. 64 bits have room for the sum of
/// 16 GiB, so nothing carries on the way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes. Only the last piece may have an odd length.
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (blocks, rest) = bytes.as_chunks::<32>();
        // Half-words cannot overflow the four lanes, so the compiler can vectorize the loop.
        let mut lanes = [0u64; 4];
        for block in blocks {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
                let word = u64::from_ne_bytes(*word);
                *lane += (word >> 32) + (word & 0xffff_ffff);
            }
        }
        let mut sum = self.0 + lanes[0] + lanes[1] + lanes[2] + lanes[3];
        let (words, rest) = rest.as_chunks::<4>();
        for word in words {
            sum += u64::from(u32::from_ne_bytes(*word));
        }
        sum += match *rest {
            [a, b, c] => u64::from(u32::from_ne_bytes([a, b, c, 0])),
            [a, b] => u64::from(u32::from_ne_bytes([a, b, 0, 0])),
            [a] => u64::from(u32::from_ne_bytes([a, 0, 0, 0])),
            _ => 0,
        };
        Sum(sum)
    }

    /// Adds a 16-bit number.
    #[inline]
    pub fn number(self, number: u16) -> Self {
        Sum(self.0 + u64::from(number.to_be()))
    }

    /// Returns the sum folded to 16 bits, not complemented.
    #[inline]
    pub fn fold(self) -> u16 {
        let sum = (self.0 >> 32) + (self.0 & 0xffff_ffff); // at most 33 bits
        let sum = (sum >> 16) + (sum & 0xffff); // at most 18 bits
        let sum = (sum >> 16) + (sum & 0xffff); // at most 17 bits
        let sum = (sum >> 16) + (sum & 0xffff);
        u16::from_be(sum as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of 16 GiB: only here is something left to carry in the last step.
    #[test]
    fn the_longest_sum_carries_four_times() {
        assert_eq!(Sum(0xffff_ffff_0001_0000).fold(), u16::from_be(1));
    }
}
