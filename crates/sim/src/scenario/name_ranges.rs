//! Names with ranges, which stand for several names: `leaf[1-16]` is leaf1 … leaf16. Of several
//! ranges, the first changes slowest.

use config::read::toml_document::{NAME_CURE, is_name, quoted};

/// The most names that one may stand for: the ports of all possible switches.
pub(super) const MAX_NAMES: usize = 16_384;
/// The largest number of a range.
const MAX_NUMBER: u32 = 99_999;

/// A name as in the file. It is expanded only on request.
pub(super) struct Names {
    ranges: Vec<Range>,
    /// The text after the last range.
    tail: String,
    len: usize,
}

struct Range {
    /// The text before the range.
    before: String,
    first: u32,
    len: usize,
}

impl Names {
    /// Parses a name.
    ///
    /// # Errors
    /// The problem and its remedy.
    pub(super) fn parse(text: &str) -> Result<Self, (String, String)> {
        let mut names = Self { ranges: Vec::new(), tail: String::new(), len: 1 };
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('[') {
            let (range, after) = after.split_once(']').ok_or_else(|| no_range(text))?;
            let (first, last) = range.split_once('-').ok_or_else(|| no_range(text))?;
            let (first, last) = number(first).zip(number(last)).ok_or_else(|| no_range(text))?;
            if first > last {
                let cure = format!("write [{last}-{first}]");
                return Err((format!("the range {first}-{last} ends before it begins"), cure));
            }
            let len = (last - first) as usize + 1;
            names.len = names.len.saturating_mul(len);
            names.ranges.push(Range { before: before.to_owned(), first, len });
            rest = after;
        }
        names.tail = rest.to_owned();
        if names.len > MAX_NAMES {
            let cure = format!("one name can stand for {MAX_NAMES} at most");
            return Err((format!("{} stands for too many names", quoted(text)), cure));
        }
        // A node's name, or a node's and a port's. The last is the longest.
        let longest = names.name(names.len - 1);
        let (node, port) = longest.split_once('.').unwrap_or((&longest, "p"));
        if is_name(node) && is_name(port) {
            Ok(names)
        } else {
            Err((format!("{} is no name", quoted(text)), NAME_CURE.to_owned()))
        }
    }

    /// The number of names.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn name(&self, number: usize) -> String {
        let mut below = self.len;
        let mut name = String::new();
        for range in &self.ranges {
            below /= range.len;
            name += &range.before;
            name += &(range.first as usize + number / below % range.len).to_string();
        }
        name + &self.tail
    }

    /// Iterates over all names.
    pub(super) fn iter(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.len).map(|number| self.name(number))
    }
}

fn no_range(text: &str) -> (String, String) {
    let what = format!("{} has no proper range", quoted(text));
    (what, format!("write one as in \"h[1-64]\", with numbers up to {MAX_NUMBER}"))
}

/// Parses a number in canonical spelling.
fn number(text: &str) -> Option<u32> {
    let number = text.parse().ok().filter(|number: &u32| *number <= MAX_NUMBER)?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    #[cfg_attr(miri, ignore = "a snapshot is a file")]
    fn ranges() {
        let mut table = String::new();
        for text in [
            "h1",
            "h[1-4]",
            "leaf[1-2].h[9-11]",
            "[0-1][0-1][0-1]",
            "a.b.c[3-3]x",
            "h[4-1]",
            "h[1-4",
            "h1-4]",
            "h[1]",
            "h[]",
            "h[-]",
            "h[01-02]",
            "h[+1-2]",
            "h[1-100000]",
            "h[1-99999]",
            "a[1-128].p[1-128]",
            "a[1-129].p[1-128]",
            "[1-9999][1-9999][1-9999][1-9999][1-9999][1-9999][1-9999]",
            "h[[1-2]]",
            "",
            ".",
            "a.",
            ".b",
            "two words",
            "ä",
        ] {
            let input = match Names::parse(text) {
                Ok(names) if names.len() > 20 => {
                    format!("{} … {}", names.name(0), names.name(names.len() - 1))
                }
                Ok(names) => names.iter().collect::<Vec<_>>().join(" "),
                Err((what, cure)) => format!("{what}; {cure}"),
            };
            table += &format!("{text:?}: {input}\n");
        }
        insta::assert_snapshot!(table);
    }
}
