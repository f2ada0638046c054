//! The demo also removes what dead testbeds left; `cargo xtask test` ends with that.

use std::process::Command;

#[test]
fn a_sweep_removes_the_namespaces_of_dead_beds_and_no_others() {
    let ip = |arguments: &[&str]| Command::new("ip").arg("netns").args(arguments).output().expect("ip runs");
    // No process has this id: it is above the kernel's limit.
    let (dead, other) = ("sl4194305-0-sweep", format!("sweep-test-{}", std::process::id()));
    for name in [dead, &other] {
        assert!(ip(&["add", name]).status.success(), "{name}");
    }
    let swept = Command::new(env!("CARGO_BIN_EXE_sluice-demo")).arg("--sweep").status().expect("it runs");
    let left = String::from_utf8(ip(&["list"]).stdout).expect("names in UTF-8");
    assert!(ip(&["del", &other]).status.success());
    assert!(swept.success());
    assert!(!left.contains(dead) && left.contains(&other), "{left}");
}
