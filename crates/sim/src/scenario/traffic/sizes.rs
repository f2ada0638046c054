//! Sizes of messages by a cumulative distribution, from a file or of a published workload.
//!
//! Rule: a line of a file is a size in bytes and the share of messages, in percent, that are at
//! most as long; sizes and shares increase, up to 100. Between two points sizes are spread evenly.
//! `#` begins a comment.

use config::read::toml_document::{Diagnostics, Setting, quoted};

use super::super::parse::Load;

/// Flows of a web search. Source: M. Alizadeh et al., "Data center TCP (DCTCP)" (SIGCOMM 2010),
/// figure 4, in the points that later studies use.
const WEB_SEARCH: &str = "0 0\n10000 15\n20000 20\n30000 30\n50000 40\n80000 53\n200000 60\n1000000 70\n\
                          2000000 80\n5000000 90\n10000000 97\n30000000 100\n";
/// Flows of Hadoop servers. Source: A. Roy et al., "Inside the social network's (datacenter)
/// network" (SIGCOMM 2015), figure 6, in the points that later studies use.
const HADOOP: &str = "0 0\n100 1\n200 2\n300 5\n350 15\n400 20\n500 30\n600 40\n700 50\n1000 60\n2000 67\n\
                      7000 70\n30000 72\n50000 82\n80000 87\n120000 90\n300000 95\n1000000 97.5\n\
                      2000000 99\n10000000 100\n";
/// Messages of a distributed storage system in production at Alibaba in 2019. Source: Y. Li et al.,
/// "HPCC: High precision congestion control" (SIGCOMM 2019), the distribution "AliStorage2019" of
/// the simulator that was published with the paper.
const STORAGE: &str = "0 0\n4000 22.93\n8000 69.21\n16000 80.61\n32000 90.47\n64000 93.53\n\
                       128000 96.77\n256000 97.53\n2000000 100\n";
/// Workloads by name.
const WORKLOADS: [(&str, &str); 3] = [("web-search", WEB_SEARCH), ("hadoop", HADOOP), ("storage", STORAGE)];
/// The largest size, and the most points.
const MAX_BYTES: u64 = 1_000_000_000_000;
const MAX_POINTS: usize = 100_000;

/// A distribution of sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeTable {
    /// Sizes, and the shares of messages that are at most as long, from 0 to 1.
    points: Vec<(f64, f64)>,
}

impl SizeTable {
    /// Returns the mean size.
    pub fn mean_bytes(&self) -> u64 {
        let (first, share) = self.points[0];
        let pairs =
            self.points.windows(2).map(|pair| (pair[1].1 - pair[0].1) * (pair[0].0 + pair[1].0) / 2.0);
        (first * share + pairs.sum::<f64>()).round().max(1.0) as u64
    }

    /// Returns the size below which a share of the messages is, from 0 (excluded) to 1.
    pub fn quantile(&self, share: f64) -> u64 {
        let above = self.points.partition_point(|point| point.1 < share).min(self.points.len() - 1);
        let (size, upto) = self.points[above];
        let bytes = match above.checked_sub(1).map(|below| self.points[below]) {
            Some((from, below)) if upto > below => from + (size - from) * (share - below) / (upto - below),
            _ => size,
        };
        bytes.round().max(1.0) as u64
    }

    /// Parses the lines of a file.
    ///
    /// # Errors
    /// What is wrong, with its line.
    fn parse(text: &str) -> Result<Self, String> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let fields: Vec<&str> = line.split([' ', '\t', ',']).filter(|field| !field.is_empty()).collect();
            let parsed = match fields[..] {
                [size, share] => size.parse::<f64>().ok().zip(share.parse::<f64>().ok()),
                _ => None,
            };
            let Some((size, percent)) = parsed else {
                return Err(format!("line {number} is no size and percentage"));
            };
            let (last_size, last_share) = points.last().copied().unwrap_or((0.0, 0.0));
            let fits = (0.0..=MAX_BYTES as f64).contains(&size) && (0.0..=100.0).contains(&percent);
            if !fits || size < last_size || percent / 100.0 < last_share {
                return Err(format!("line {number} goes back, or is out of range"));
            }
            points.push((size, percent / 100.0));
        }
        match points.last() {
            Some((_, 1.0)) if points.len() <= MAX_POINTS => Ok(Self { points }),
            Some((_, 1.0)) => Err(format!("there are more than {MAX_POINTS} lines")),
            _ => Err("the last line does not have 100 percent".to_owned()),
        }
    }
}

/// Reads `sizes`: the name of a workload, or the path of a file.
pub(super) fn read(path: &Setting<&str>, load: Load, report: &mut Diagnostics) -> Option<SizeTable> {
    let own = WORKLOADS.iter().find(|(name, _)| *name == path.value).map(|(_, text)| (*text).to_owned());
    let text = own.map_or_else(|| load(path.value), Ok);
    let table = match text {
        Ok(text) => SizeTable::parse(&text),
        Err(why) => Err(format!("it cannot be read: {why}")),
    };
    match table {
        Ok(table) => Some(table),
        Err(why) => {
            let names: Vec<String> = WORKLOADS.iter().map(|(name, _)| quoted(name)).collect();
            let cure =
                format!("write {}, or the path of a file with lines of bytes and percent", names.join(", "));
            report.add(&path.location, format!("{}: {why}", quoted(path.value)), cure);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_means() {
        let table = SizeTable::parse("# bytes percent\n1000 50\n3000, 100\n").expect("a table");
        assert_eq!([0.25, 0.5, 0.75, 1.0].map(|share| table.quantile(share)), [1000, 1000, 2000, 3000]);
        assert_eq!(table.mean_bytes(), 1500);
        let mean = |text| SizeTable::parse(text).expect("a table").mean_bytes();
        // Of the papers' workloads as other simulators have them: 1.7 MB and 120 kB.
        assert_eq!((mean(WEB_SEARCH), mean(HADOOP)), (1_711_250, 120_421));
        // By hand: 22.93 % · 2000 + 46.28 % · 6000 + … + 2.47 % · 1,128,000.
        assert_eq!(mean(STORAGE), 40_870);
        let storage = SizeTable::parse(STORAGE).expect("a table");
        assert_eq!(
            [0.2293, 0.6921, 0.9753, 1.0].map(|share| storage.quantile(share)),
            [4000, 8000, 256_000, 2_000_000]
        );
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, what) in [
            ("", "the last line does not have 100 percent"),
            ("10 50\n", "the last line does not have 100 percent"),
            ("10 50\nten 100\n", "line 2 is no size and percentage"),
            ("10 50\n5 100\n", "line 2 goes back, or is out of range"),
            ("10 150\n", "line 1 goes back, or is out of range"),
        ] {
            assert_eq!(SizeTable::parse(text), Err(what.to_owned()), "{text:?}");
        }
    }
}
