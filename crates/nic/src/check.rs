//! Checks whether this kernel supports the qdisc: first its features, then a trial that attaches,
//! reads and detaches an interface in a new network namespace.

use crate::attach::{Replace, attach, detach};
use crate::error::Error;
use crate::kernel_support::{Finding, bad, btf, good, kernel, qdiscs, release};
use crate::netns;
use crate::settings::Settings;
use crate::status::status;

/// Result of all checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The kernel's release.
    pub release: String,
    /// Findings in the order of the checks; no check runs after the first one that failed.
    pub findings: Vec<Finding>,
}

impl Check {
    /// Returns true if `sluice nic attach` will work.
    pub fn is_good(&self) -> bool {
        self.findings.iter().all(|finding| finding.is_good)
    }
}

/// Runs all checks.
pub fn check() -> Check {
    let mut findings = Vec::new();
    for finding in [kernel(), btf(), qdiscs()] {
        let is_good = finding.is_good;
        findings.push(finding);
        if !is_good {
            return Check { release: release(), findings };
        }
    }
    findings.push(trial());
    Check { release: release(), findings }
}

/// Attaches PFC to the loopback interface of a new namespace.
fn trial() -> Finding {
    let tried = netns::fresh(|| {
        attach("lo", &Settings::new(1_000_000_000), Replace::No)?;
        let seen = status("lo")?;
        if !seen.has_qdisc {
            return Err(Error::Load("the qdisc was added and is not there".to_owned()));
        }
        detach("lo").map(drop)
    });
    match tried {
        Ok(()) => good("a trial: attached in a network namespace of its own, and detached again"),
        Err(error @ Error::NotPermitted { .. }) => {
            bad(error.to_string(), "Run this as root, outside any container")
        }
        Err(error) => bad(format!("a trial did not work: {error}"), "RUST_LOG=libbpf=debug logs the details"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_support::of_release;

    #[test]
    fn an_old_kernel_is_reported_with_the_remedy() {
        for (release, is_good) in
            [("6.1.0-50-amd64", false), ("6.15.9", false), ("6.16.0", true), ("7.3.4+deb13-amd64", true)]
        {
            let finding = of_release(release);
            assert_eq!(finding.is_good, is_good, "{release}");
            assert_eq!(finding.cure.contains("trixie-backports"), !is_good, "{release}");
        }
    }

    /// On any kernel the result is complete: no check runs after the first finding that is not
    /// good, and that finding has a cure.
    #[test]
    fn a_check_ends_with_what_is_missing() {
        let check = check();
        let (last, before) = check.findings.split_last().expect("something was looked at");
        assert!(before.iter().all(|finding| finding.is_good), "{check:#?}");
        assert_eq!(last.is_good, last.cure.is_empty(), "{check:#?}");
        assert_eq!(check.is_good(), last.is_good && check.findings.len() == 4, "{check:#?}");
    }
}
