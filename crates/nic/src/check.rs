//! Can this kernel do it? First what it is made of, then a trial: an interface in a network namespace that is made for it
//! is attached, looked at and detached.

use libbpf_rs::btf::{Btf, types};

use crate::attach::{attach, detach};
use crate::error::Error;
use crate::netns;
use crate::settings::Settings;
use crate::status::status;

/// Linux that first had BPF qdiscs.
const FIRST: (u32, u32) = (6, 16);

/// The kernel's BTF.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub what: String,
    /// It is as it must be.
    pub is_good: bool,
    /// What to do about it, if it is not.
    pub cure: String,
}

/// Everything that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The kernel's release.
    pub release: String,
    /// In the order in which they were looked at; after one that is not good nothing more was tried.
    pub findings: Vec<Finding>,
}

impl Check {
    /// `sluice nic attach` will work.
    pub fn is_good(&self) -> bool {
        self.findings.iter().all(|finding| finding.is_good)
    }
}

/// Looks at everything.
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

/// The first of the kernel's own properties that is not as it must be.
pub(crate) fn missing() -> Option<Finding> {
    [kernel, btf, qdiscs].into_iter().map(|look| look()).find(|finding| !finding.is_good)
}

fn good(what: impl Into<String>) -> Finding {
    Finding { what: what.into(), is_good: true, cure: String::new() }
}

fn bad(what: impl Into<String>, cure: impl Into<String>) -> Finding {
    Finding { what: what.into(), is_good: false, cure: cure.into() }
}

const OTHER_KERNEL: &str = "Debian's kernels of trixie-backports and sid can do it (docs/kernel-support.md lists those that were tried)";

fn kernel() -> Finding {
    let release = release();
    judge(&release)
}

fn judge(release: &str) -> Finding {
    let (major, minor) = FIRST;
    match parse(release) {
        Some(version) if version < FIRST => bad(
            format!("Linux {release} is too old: BPF qdiscs came with {major}.{minor}"),
            format!("Boot a newer kernel: {OTHER_KERNEL}"),
        ),
        _ => good(format!("Linux {release}")),
    }
}

fn btf() -> Finding {
    if std::path::Path::new(BTF).exists() {
        return good("type information (BTF)");
    }
    bad(
        format!("no type information: there is no {BTF}"),
        format!("Boot a kernel built with CONFIG_DEBUG_INFO_BTF: {OTHER_KERNEL}"),
    )
}

fn qdiscs() -> Finding {
    let Ok(btf) = Btf::from_vmlinux() else {
        return bad(format!("{BTF} cannot be read"), "Be root".to_owned());
    };
    if btf.type_by_name::<types::Struct<'_>>("bpf_struct_ops_Qdisc_ops").is_some() {
        return good("BPF qdiscs (CONFIG_NET_SCH_BPF)");
    }
    bad(
        "it was built without BPF qdiscs (CONFIG_NET_SCH_BPF)",
        format!("Boot a kernel that has them: {OTHER_KERNEL}"),
    )
}

/// Attaches to the loopback interface of a new namespace.
fn trial() -> Finding {
    let tried = netns::fresh(|| {
        attach("lo", &Settings::new(1_000_000_000), false)?;
        let seen = status("lo")?;
        if !seen.has_qdisc {
            return Err(Error::Load("the qdisc was added and is not there".to_owned()));
        }
        detach("lo")
    });
    match tried {
        Ok(()) => good("a trial: attached in a network namespace of its own, and taken off again"),
        Err(error @ Error::NotPermitted { .. }) => {
            bad(error.to_string(), "Run this as root, outside any container")
        }
        Err(error) => bad(format!("a trial did not work: {error}"), "RUST_LOG=libbpf=debug says more"),
    }
}

fn release() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

fn parse(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_is_told_so_and_what_to_do() {
        for (release, is_good) in
            [("6.1.0-50-amd64", false), ("6.15.9", false), ("6.16.0", true), ("7.3.4+deb13-amd64", true)]
        {
            let finding = judge(release);
            assert_eq!(finding.is_good, is_good, "{release}");
            assert_eq!(finding.cure.contains("trixie-backports"), !is_good, "{release}");
        }
    }

    /// Whatever this kernel is, the answer is whole: after the first finding that is not good nothing more is tried, and
    /// it comes with a cure.
    #[test]
    fn a_check_ends_with_what_is_missing() {
        let check = check();
        let (last, before) = check.findings.split_last().expect("something was looked at");
        assert!(before.iter().all(|finding| finding.is_good), "{check:#?}");
        assert_eq!(last.is_good, last.cure.is_empty(), "{check:#?}");
        assert_eq!(check.is_good(), last.is_good && check.findings.len() == 4, "{check:#?}");
    }
}
