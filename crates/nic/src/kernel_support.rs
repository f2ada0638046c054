//! Kernel requirements of BPF qdiscs: the release, BTF, and the program type.

use libbpf_rs::btf::{Btf, types};

/// First Linux release with BPF qdiscs.
const FIRST: (u32, u32) = (6, 16);

/// The kernel's BTF.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was checked.
    pub what: String,
    /// True if the requirement is met.
    pub is_good: bool,
    /// What to do about it if not.
    pub cure: String,
}

/// Returns the first kernel requirement that is not met.
pub(crate) fn missing() -> Option<Finding> {
    [kernel, btf, qdiscs].into_iter().map(|look| look()).find(|finding| !finding.is_good)
}

pub(crate) fn good(what: impl Into<String>) -> Finding {
    Finding { what: what.into(), is_good: true, cure: String::new() }
}

pub(crate) fn bad(what: impl Into<String>, cure: impl Into<String>) -> Finding {
    Finding { what: what.into(), is_good: false, cure: cure.into() }
}

const OTHER_KERNEL: &str = "Debian's kernels of trixie-backports and sid can do it (docs/kernel/versions.md lists those that were tried)";

pub(crate) fn kernel() -> Finding {
    let release = release();
    of_release(&release)
}

pub(crate) fn of_release(release: &str) -> Finding {
    let (major, minor) = FIRST;
    match parse(release) {
        Some(version) if version < FIRST => bad(
            format!("Linux {release} is too old: BPF qdiscs came with {major}.{minor}"),
            format!("Boot a newer kernel: {OTHER_KERNEL}"),
        ),
        _ => good(format!("Linux {release}")),
    }
}

pub(crate) fn btf() -> Finding {
    if std::path::Path::new(BTF).exists() {
        return good("type information (BTF)");
    }
    bad(
        format!("no type information: there is no {BTF}"),
        format!("Boot a kernel built with CONFIG_DEBUG_INFO_BTF: {OTHER_KERNEL}"),
    )
}

pub(crate) fn qdiscs() -> Finding {
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

pub(crate) fn release() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

fn parse(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
