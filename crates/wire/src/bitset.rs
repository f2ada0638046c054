//! Sets of small numbers as bit masks: priorities or queues of a port (0–7), ports of a switch
//! (0–63).

use core::fmt;
use serde::{Deserialize, Serialize};

/// A set of numbers from 0 to 7: 802.1p priorities, or queues of a port.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct Set8(u8);

impl Set8 {
    /// The set without numbers.
    pub const EMPTY: Set8 = Set8(0);
    /// All eight numbers.
    pub const ALL: Set8 = Set8(0xff);

    /// Returns the set of the numbers n whose bit n is set.
    #[inline]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns the bit mask: bit n is set if n is in the set.
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the set of one number.
    #[inline]
    pub const fn of(number: usize) -> Self {
        Self(1 << (number & 7))
    }

    /// Returns true if the number is in the set.
    #[inline]
    pub const fn contains(self, number: usize) -> bool {
        self.0 & 1 << (number & 7) != 0
    }

    /// Returns true if the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the size of the set.
    #[inline]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns the smallest number.
    #[inline]
    pub const fn first(self) -> Option<usize> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros() as usize) }
    }

    /// Returns the largest number.
    #[inline]
    pub const fn last(self) -> Option<usize> {
        if self.0 == 0 { None } else { Some(7 - self.0.leading_zeros() as usize) }
    }

    /// Adds a number, or removes it.
    #[inline]
    pub const fn set(&mut self, number: usize, member: bool) {
        self.0 = self.0 & !(1 << (number & 7)) | (member as u8) << (number & 7);
    }

    /// Returns the union.
    #[inline]
    pub const fn with(self, other: Set8) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the intersection.
    #[inline]
    pub const fn and(self, other: Set8) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the difference.
    #[inline]
    pub const fn without(self, other: Set8) -> Self {
        Self(self.0 & !other.0)
    }
}

/// A set of numbers from 0 to 63: ports of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct Set64(u64);

impl Set64 {
    /// The set without numbers.
    pub const EMPTY: Set64 = Set64(0);

    /// Returns the set of the numbers from 0 to `count` − 1.
    #[inline]
    pub const fn first_n(count: usize) -> Self {
        Self(if count >= 64 { u64::MAX } else { (1 << count) - 1 })
    }

    /// Makes a set from a bit mask: bit n is for number n.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the bit mask: bit n is set if n is in the set.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the set of one number.
    #[inline]
    pub const fn of(number: usize) -> Self {
        Self(1 << (number & 63))
    }

    /// Returns the largest number.
    #[inline]
    pub const fn last(self) -> Option<usize> {
        if self.0 == 0 { None } else { Some(63 - self.0.leading_zeros() as usize) }
    }

    /// Returns true if the number is in the set.
    #[inline]
    pub const fn contains(self, number: usize) -> bool {
        self.0 & 1 << (number & 63) != 0
    }

    /// Returns true if the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the size of the set.
    #[inline]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Adds a number, or removes it.
    #[inline]
    pub const fn set(&mut self, number: usize, member: bool) {
        let bit = 1 << (number & 63);
        self.0 = self.0 & !bit | if member { bit } else { 0 };
    }

    /// Returns the union.
    #[inline]
    pub const fn with(self, other: Set64) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the intersection.
    #[inline]
    pub const fn and(self, other: Set64) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the difference.
    #[inline]
    pub const fn without(self, other: Set64) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Iterator over the numbers of a set, the smallest first.
#[derive(Debug, Clone)]
pub struct Members(u64);

impl Iterator for Members {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let number = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(number)
    }
}

impl IntoIterator for Set8 {
    type Item = usize;
    type IntoIter = Members;

    #[inline]
    fn into_iter(self) -> Members {
        Members(self.0.into())
    }
}

impl IntoIterator for Set64 {
    type Item = usize;
    type IntoIter = Members;

    #[inline]
    fn into_iter(self) -> Members {
        Members(self.0)
    }
}

impl FromIterator<usize> for Set8 {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        numbers.into_iter().fold(Self::EMPTY, |set, number| set.with(Self::of(number)))
    }
}

impl FromIterator<usize> for Set64 {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        numbers.into_iter().fold(Self::EMPTY, |set, number| set.with(Self::of(number)))
    }
}

/// Writes the numbers as `3,4`; writes nothing for an empty set.
fn list(mut members: Members, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(first) = members.next() {
        write!(f, "{first}")?;
    }
    members.try_for_each(|number| write!(f, ",{number}"))
}

impl fmt::Display for Set8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(self.into_iter(), f)
    }
}

impl fmt::Display for Set64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(self.into_iter(), f)
    }
}

impl fmt::Debug for Set8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl fmt::Debug for Set64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_its_members() {
        for bits in (0..=u8::MAX).step_by(if cfg!(miri) { 15 } else { 1 }) {
            let set = Set8::from_bits(bits);
            let members: Vec<usize> = (0..8).filter(|&n| bits & 1 << n != 0).collect();
            assert_eq!(set.into_iter().collect::<Vec<_>>(), members);
            assert_eq!(members.iter().copied().collect::<Set8>(), set);
            assert_eq!((set.len(), set.is_empty()), (members.len(), members.is_empty()));
            assert_eq!((set.first(), set.last()), (members.first().copied(), members.last().copied()));
            let wide: Set64 = members.iter().copied().collect();
            assert_eq!(wide.to_string(), set.to_string());
            assert!((0..8).all(|n| set.contains(n) == members.contains(&n)));
        }
    }

    #[test]
    fn members_come_and_go() {
        let mut set = Set64::first_n(64);
        set.set(63, false);
        set.set(0, false);
        assert_eq!((set.len(), set.contains(63), set.contains(62)), (62, false, true));
        assert_eq!(Set64::first_n(3).without(Set64::of(1)).to_string(), "0,2");
        assert_eq!(Set64::first_n(3).and(Set64::of(1)).with(Set64::of(5)).to_string(), "1,5");
    }
}
