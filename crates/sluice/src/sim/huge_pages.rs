//! Huge pages. What a simulated network remembers is thousands of ports of 5 kB and the frames that
//! they hold, and every frame touches some of it somewhere else: with pages of 4 kB a tenth of the
//! time, and at 64 switches a sixth, goes into finding pages (docs/performance.md).
//!
//! The C library asks for huge pages if `GLIBC_TUNABLES` says so when a program starts (glibc 2.35;
//! glibc manual, "Memory Allocation Tunables"), so the program starts itself once more. Another C
//! library, or a kernel without transparent huge pages, takes no notice.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

const TUNABLE: &str = "glibc.malloc.hugetlb";

/// Starts this program again with huge pages, unless it, or its user, has seen to that already.
/// Does nothing if that fails: the program is slower then, and right.
pub fn start_again() {
    let before = env::var("GLIBC_TUNABLES").unwrap_or_default();
    let (Some(tunables), Ok(program)) = (with_huge_pages(before), env::current_exe()) else { return };
    let mut arguments = env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    let _ = again.args(arguments).env("GLIBC_TUNABLES", tunables).exec();
}

/// Tunables that ask for huge pages too; `None` if those there are say something of them.
fn with_huge_pages(tunables: String) -> Option<String> {
    match tunables {
        said if said.contains(TUNABLE) => None,
        none if none.is_empty() => Some(format!("{TUNABLE}=1")),
        others => Some(format!("{others}:{TUNABLE}=1")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_the_user_says_stays() {
        let asked = |before: &str| super::with_huge_pages(before.to_owned());
        assert_eq!(asked("").as_deref(), Some("glibc.malloc.hugetlb=1"));
        assert_eq!(asked("glibc.cpu.x=1").as_deref(), Some("glibc.cpu.x=1:glibc.malloc.hugetlb=1"));
        assert_eq!((asked("glibc.malloc.hugetlb=0"), asked("glibc.malloc.hugetlb=1")), (None, None));
    }
}
