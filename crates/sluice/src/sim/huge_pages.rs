//! Huge pages. The state of a simulated network is thousands of ports of 5 kB and the frames that
//! they hold, and every frame touches a different part of it. With pages of 4 kB a tenth of the
//! time, and at 64 switches a sixth, is spent on page-table walks (docs/performance.md).
//!
//! The C library uses huge pages if `GLIBC_TUNABLES` requests it when a program starts (glibc 2.35;
//! glibc manual, "Memory Allocation Tunables"), so the program restarts itself once. Another C
//! library, or a kernel without transparent huge pages, ignores it.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

const TUNABLE: &str = "glibc.malloc.hugetlb";

/// Restarts this program with huge pages, unless the program or its user has already set that. A
/// failure is ignored: the program is then slower, and still correct.
pub fn reexec_with_huge_pages() {
    let before = env::var("GLIBC_TUNABLES").unwrap_or_default();
    let (Some(tunables), Ok(program)) = (with_huge_pages(before), env::current_exe()) else { return };
    let mut arguments = env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    let _ = again.args(arguments).env("GLIBC_TUNABLES", tunables).exec();
}

/// Returns tunables that also request huge pages; `None` if the present ones set them.
fn with_huge_pages(tunables: String) -> Option<String> {
    match tunables {
        text if text.contains(TUNABLE) => None,
        none if none.is_empty() => Some(format!("{TUNABLE}=1")),
        others => Some(format!("{others}:{TUNABLE}=1")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn user_settings_stay() {
        let requested = |before: &str| super::with_huge_pages(before.to_owned());
        assert_eq!(requested("").as_deref(), Some("glibc.malloc.hugetlb=1"));
        assert_eq!(requested("glibc.cpu.x=1").as_deref(), Some("glibc.cpu.x=1:glibc.malloc.hugetlb=1"));
        assert_eq!((requested("glibc.malloc.hugetlb=0"), requested("glibc.malloc.hugetlb=1")), (None, None));
    }
}
