//! What was found, line by line.

/// One line of the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub good: bool,
    pub text: String,
}

impl Finding {
    pub fn line(&self) -> String {
        format!("  {} {}", if self.good { "✔" } else { "✘" }, self.text)
    }
}

/// Returns the last line of the verdict.
pub fn sum(findings: &[Finding]) -> String {
    match findings.iter().filter(|finding| !finding.good).count() {
        0 => "All is as it must be.".to_owned(),
        bad => format!("{bad} of {} findings are not as they must be.", findings.len()),
    }
}

/// True if everything is as it must be.
pub fn is_good(findings: &[Finding]) -> bool {
    !findings.is_empty() && findings.iter().all(|finding| finding.good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_finding_is_a_bad_verdict() {
        let finding = |good| Finding { good, text: "frames".to_owned() };
        assert!(is_good(&[finding(true)]) && !is_good(&[]));
        let both = [finding(true), finding(false)];
        assert!(!is_good(&both));
        assert_eq!(both.map(|it| it.line()), ["  ✔ frames", "  ✘ frames"]);
        assert_eq!(sum(&[finding(true), finding(false)]), "1 of 2 findings are not as they must be.");
    }
}
