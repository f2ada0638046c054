//! `sluice nic check`: reports whether this kernel supports it, and what is missing if not.

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use crate::output;

/// Check whether interfaces of this machine can honor PFC, and what is missing if not.
#[derive(Args)]
#[command(after_long_help = "\
What the kernel is made of is looked at first; then an interface in a network namespace that is made
for it is attached, looked at and detached. The exit code is 0 if all of it works.

JSON: release, works, findings[]: what, good, cure (null: none is needed).")]
pub struct Check {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(&self) -> Result<()> {
        let check = nic::check();
        if self.json {
            output::print(&json(&check)?)?;
        } else {
            output::print(&text(&check))?;
        }
        if !check.is_good() {
            bail!("this machine cannot make an interface honor PFC");
        }
        Ok(())
    }
}

fn text(check: &nic::Check) -> String {
    let mut out = String::new();
    for finding in &check.findings {
        out += &format!("{} {}\n", if finding.is_good { "✔" } else { "✘" }, finding.what);
        if !finding.is_good {
            out += &format!("  {}.\n", finding.cure.trim_end_matches('.'));
        }
    }
    out
}

fn json(check: &nic::Check) -> Result<String> {
    let findings = check.findings.iter().map(|finding| {
        let cure = (!finding.is_good).then_some(&finding.cure);
        json!({ "what": finding.what, "good": finding.is_good, "cure": cure })
    });
    let findings: Vec<_> = findings.collect();
    output::json(&json!({ "release": check.release, "works": check.is_good(), "findings": findings }), true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic::Finding;

    #[test]
    fn a_cure_stands_below_what_is_missing() {
        let finding =
            |what: &str, is_good, cure: &str| Finding { what: what.into(), is_good, cure: cure.into() };
        let check = nic::Check {
            release: "6.18.0".into(),
            findings: vec![finding("Linux 6.18.0", true, ""), finding("no qdiscs", false, "Boot another")],
        };
        assert_eq!(text(&check), "✔ Linux 6.18.0\n✘ no qdiscs\n  Boot another.\n");
        let value: serde_json::Value = serde_json::from_str(&json(&check).unwrap()).unwrap();
        assert_eq!(value["works"], false);
        assert_eq!(value["findings"][1]["cure"], "Boot another");
        assert_eq!(value["findings"][0]["cure"], serde_json::Value::Null);
    }
}
