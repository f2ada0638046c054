//! Versions, and the ranges of them that advisories name: `>= 1.2.3, < 2.0.0`, `^0.5.4`, `= 1.0.0`.
//! Source: semver.org 2.0.0, clause 11; the Cargo book, "Specifying dependencies".

use std::cmp::Ordering;

use anyhow::{Context, Result, bail};

/// A version. A pre-release is before its release, in the order of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    pre_release: String,
}

impl Version {
    /// Reads a version; what it does not name is 0. `None` if a number is none.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.split('+').next()?;
        let (numbers, pre_release) = text.split_once('-').unwrap_or((text, ""));
        let mut read = [0; 3];
        let parts: Vec<&str> = numbers.split('.').collect();
        for (number, part) in read.iter_mut().zip(&parts) {
            *number = part.parse().ok()?;
        }
        (parts.len() <= 3).then(|| Self { numbers: read, pre_release: pre_release.to_owned() })
    }

    /// Returns the first version that is not compatible with this one.
    fn next_incompatible(&self) -> Self {
        let numbers = match self.numbers {
            [0, 0, patch] => [0, 0, patch + 1],
            [0, minor, _] => [0, minor + 1, 0],
            [major, ..] => [major + 1, 0, 0],
        };
        Self { numbers, pre_release: String::new() }
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let is_release = |version: &Self| version.pre_release.is_empty();
        let by_release = is_release(self).cmp(&is_release(other));
        let by_text = || self.pre_release.cmp(&other.pre_release);
        self.numbers.cmp(&other.numbers).then(by_release).then_with(by_text)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// True if a version is in a range, whose parts are separated by commas.
pub fn matches(range: &str, version: &Version) -> Result<bool> {
    let mut is_in = true;
    for part in range.split(',').map(str::trim) {
        let end = part.find(|c: char| c.is_ascii_digit()).context("a range without a number")?;
        let (operator, number) = (part[..end].trim(), part[end..].trim());
        let bound = Version::parse(number).with_context(|| format!("the version {number}"))?;
        is_in &= match operator {
            ">=" => *version >= bound,
            ">" => *version > bound,
            "<=" => *version <= bound,
            "<" => *version < bound,
            "=" => *version == bound,
            "^" | "" => *version >= bound && *version < bound.next_incompatible(),
            "~" => *version >= bound && version.numbers[..2] == bound.numbers[..2],
            other => bail!("the operator {other}"),
        };
    }
    Ok(is_in)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn ranges_hold_their_versions() {
        for (range, inside, outside) in [
            (">= 1.2.3", "1.2.3", "1.2.2"),
            (">1.2", "1.2.1", "1.2.0"),
            (">= 1.0, < 2.0.0", "1.9.9", "2.0.0"),
            ("^0.5.4", "0.5.9", "0.6.0"),
            ("^1.2", "1.9.0", "2.0.0"),
            ("0.0.3", "0.0.3", "0.0.4"),
            ("~1.2.3", "1.2.9", "1.3.0"),
            ("= 1.0.0", "1.0.0", "1.0.1"),
            ("< 1.0.0", "1.0.0-alpha.1", "1.0.0"),
            (">= 1.0.0", "1.0.0+build", "1.0.0-rc.1"),
        ] {
            for (version, expected) in [(inside, true), (outside, false)] {
                assert_eq!(
                    matches(range, &Version::parse(version).unwrap()).unwrap(),
                    expected,
                    "{range} {version}"
                );
            }
        }
        assert!(matches("newer", &Version::parse("1.0.0").unwrap()).is_err());
        assert!(Version::parse("1.x").is_none() && Version::parse("1.2.3.4").is_none());
    }
}
