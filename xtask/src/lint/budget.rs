//! The number of findings that are still allowed, by rule and folder.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, bail};

use super::rules::Rule;

const HEADER: &str = "\
# Findings of `cargo xtask lint` that are still allowed, by rule and by crate or folder; none where
# there is no entry. `cargo xtask lint --list` prints them, `cargo xtask lint --update` lowers the
# numbers after a cleanup. Numbers are not raised, except after a merge (`--allow-increase`).
";

type Counts = BTreeMap<(Rule, String), usize>;

/// The allowed number of findings for each rule and folder; zero where there is no entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Budget(Counts);

/// A count that is not what the budget says.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    pub rule: Rule,
    pub folder: String,
    pub allowed: usize,
    pub found: usize,
}

impl Budget {
    /// Parses the budget file: a table for each rule, `"folder" = number` for each entry.
    pub fn parse(text: &str) -> Result<Self> {
        let mut counts = Counts::new();
        let mut rule = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = || format!("line {}: {line}", number + 1);
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                rule = Some(Rule::from_name(name).with_context(wrong)?);
                continue;
            }
            let (folder, count) = line.split_once('=').with_context(wrong)?;
            let folder = folder.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            let key = (rule.with_context(wrong)?, folder.with_context(wrong)?.to_owned());
            if counts.insert(key, count.trim().parse().with_context(wrong)?).is_some() {
                bail!("{}: the second entry of this folder", wrong());
            }
        }
        Ok(Self(counts))
    }

    /// The counts that are above or below their budgets.
    pub fn compare(&self, counts: &Counts) -> Vec<Difference> {
        let mut keys: Vec<_> = self.0.keys().chain(counts.keys()).collect();
        keys.sort();
        keys.dedup();
        let number = |all: &Counts, key: &(Rule, String)| all.get(key).copied().unwrap_or(0);
        let difference = |key: &(Rule, String)| {
            let (allowed, found) = (number(&self.0, key), number(counts, key));
            (allowed != found).then(|| Difference { rule: key.0, folder: key.1.clone(), allowed, found })
        };
        keys.into_iter().filter_map(difference).collect()
    }

    /// Takes over the counts that are lower, and those that are higher if that is allowed.
    pub fn update(&mut self, counts: &Counts, allow_increase: bool) {
        for difference in self.compare(counts) {
            if !difference.is_above() || allow_increase {
                self.0.insert((difference.rule, difference.folder), difference.found);
            }
        }
        self.0.retain(|_, count| *count > 0);
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(HEADER)?;
        let mut last = None;
        for ((rule, folder), count) in &self.0 {
            if last != Some(rule) {
                write!(f, "\n[{}]\n", rule.name())?;
                last = Some(rule);
            }
            writeln!(f, "\"{folder}\" = {count}")?;
        }
        Ok(())
    }
}

impl Difference {
    /// True if there are more findings than allowed, false if there are fewer.
    pub fn is_above(&self) -> bool {
        self.found > self.allowed
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { rule, folder, allowed, found } = self;
        write!(f, "{} in {folder}: {found} findings, {allowed} allowed", rule.name())?;
        if !self.is_above() {
            write!(f, "; lower the budget to {found} (cargo xtask lint --update)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    fn counts(all: &[(Rule, &str, usize)]) -> Counts {
        all.iter().map(|(rule, folder, count)| ((*rule, (*folder).to_owned()), *count)).collect()
    }

    #[test]
    fn a_budget_is_read_as_it_was_written() {
        let budget =
            Budget(counts(&[(Rule::Width, ".", 3), (Rule::Width, "docs", 1), (Rule::Word, "docs", 2)]));
        let text = budget.to_string();
        assert!(text.ends_with("\n[width]\n\".\" = 3\n\"docs\" = 1\n\n[word]\n\"docs\" = 2\n"), "{text}");
        assert_eq!(Budget::parse(&text).unwrap(), budget);
    }

    #[test]
    fn a_malformed_budget_is_refused_with_its_line() {
        for (text, line) in [
            ("[nothing]\n", 1),
            ("\"docs\" = 1\n", 1),
            ("[width]\ndocs = 1\n", 2),
            ("[width]\n\"docs\" = many\n", 2),
            ("[width]\n\"docs\" = 1\n\"docs\" = 1\n", 3),
        ] {
            let error = format!("{:#}", Budget::parse(text).unwrap_err());
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
        }
    }

    #[test]
    fn counts_above_and_below_the_budget_are_both_reported() {
        let budget = Budget(counts(&[(Rule::Width, "a", 3), (Rule::Width, "b", 3), (Rule::Width, "c", 3)]));
        let found = counts(&[(Rule::Width, "a", 4), (Rule::Width, "b", 3), (Rule::Word, "d", 1)]);
        let texts: Vec<String> = budget.compare(&found).iter().map(ToString::to_string).collect();
        let lower = "width in c: 0 findings, 3 allowed; lower the budget to 0 (cargo xtask lint --update)";
        assert_eq!(texts, ["width in a: 4 findings, 3 allowed", lower, "word in d: 1 findings, 0 allowed"]);
    }

    #[test]
    fn an_update_only_lowers_unless_increases_are_allowed() {
        let found = counts(&[(Rule::Width, "a", 4), (Rule::Width, "b", 1)]);
        let before =
            || Budget(counts(&[(Rule::Width, "a", 3), (Rule::Width, "b", 3), (Rule::Width, "c", 3)]));
        let mut budget = before();
        budget.update(&found, false);
        assert_eq!(budget, Budget(counts(&[(Rule::Width, "a", 3), (Rule::Width, "b", 1)])));
        let mut budget = before();
        budget.update(&found, true);
        assert_eq!(budget, Budget(found));
    }
}
