//! What was found, line by line.

/// One line of the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// None for a figure that decides nothing, as it depends on the speed of the machine.
    pub good: Option<bool>,
    pub text: String,
}

impl Finding {
    pub fn line(&self) -> String {
        let mark = match self.good {
            Some(true) => "✔",
            Some(false) => "✘",
            None => "·",
        };
        format!("  {mark} {}", self.text)
    }
}

/// Returns the last line of the verdict.
pub fn sum(findings: &[Finding]) -> String {
    let decided: Vec<bool> = findings.iter().filter_map(|finding| finding.good).collect();
    match decided.iter().filter(|good| !*good).count() {
        0 => "All is as it must be.".to_owned(),
        bad => format!("{bad} of {} findings are not as they must be.", decided.len()),
    }
}

/// True if something was decided, and nothing was bad.
pub fn is_good(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.good.is_some())
        && findings.iter().all(|finding| finding.good != Some(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_finding_is_a_bad_verdict() {
        let finding = |good| Finding { good, text: "frames".to_owned() };
        let (good, bad, figure) = (finding(Some(true)), finding(Some(false)), finding(None));
        assert!(is_good(&[good.clone(), figure.clone()]));
        assert!(!is_good(&[]) && !is_good(std::slice::from_ref(&figure)));
        let all = [good, bad, figure];
        assert!(!is_good(&all));
        assert_eq!(sum(&all), "1 of 2 findings are not as they must be.");
        assert_eq!(all.map(|it| it.line()), ["  ✔ frames", "  ✘ frames", "  · frames"]);
    }
}
