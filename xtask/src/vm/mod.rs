//! `cargo xtask vm`: boots another kernel in QEMU and runs tests inside, where this machine's
//! kernel lacks a feature (BPF qdiscs, for one), or to test an older kernel. Works without KVM too:
//! TCG is enough, only slower.
//!
//! ```text
//! kernel.rs   Debian's newest kernel of a suite ─▶ target/vm/SUITE/
//! image.rs    programs, their libraries, modules, a test program ─▶ initramfs
//! boot.rs     QEMU, its console, the verdict
//! guests.rs   the same image without programs of ours: guests of a switch that runs outside
//! ```

mod boot;
mod guests;
mod image;
mod kernel;
mod options;

use anyhow::{Result, bail};

use crate::packages;
use crate::run::{log, require_root};
pub use guests::{Guests, run as run_guests};
pub use options::{Nic, Vm};

/// Boots, tests, and returns the verdict.
pub fn run(vm: &Vm) -> Result<()> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("the rig boots Debian's amd64 kernels, and this machine is {}", std::env::consts::ARCH);
    }
    packages::set_up_tests()?;
    packages::set_up_vm()?;
    boot::check_version(vm.nic)?;
    require_root("the rig (the initramfs has device nodes)")?;
    let kernel = kernel::fetch(&vm.suite)?;
    log(&format!("Linux {}", kernel.release));
    let programs = image::build_programs(&vm.test)?;
    let image = image::pack(&kernel, "image", &programs, &command(vm))?;
    boot::boot(vm, &kernel, &image)
}

/// Returns the command that runs inside.
fn command(vm: &Vm) -> String {
    if let Some(line) = &vm.run {
        return line.clone();
    }
    let filter = vm.filter.as_deref().unwrap_or_default();
    let mut lines = "failed=0\n".to_owned();
    for test in &vm.test {
        let which = match (test.as_str(), vm.nic) {
            ("zero_copy", Nic::Virtio) => "--ignored --skip several_queues",
            ("zero_copy", Nic::Igb) => "--ignored --skip what_the_driver", // it keeps its MTU where XDP runs
            // Its bounds are for a CPU that takes a nanosecond for an instruction, or less.
            ("nic", _) if vm.shift > 0 || vm.real_time => "--ignored --skip latency_of_xoff",
            ("nic", _) => "--ignored",
            _ => "",
        };
        lines += &format!("for program in /tests/{test}.*; do\n");
        lines += &format!("$program --test-threads=1 --nocapture {which} {filter} || failed=1\ndone\n");
    }
    lines + "[ $failed = 0 ]"
}

#[cfg(test)]
mod unit {
    use clap::Args;

    use super::*;

    /// Parses a command line of vm.
    pub(super) fn parse(line: &str) -> Vm {
        use clap::FromArgMatches;
        let command = Vm::augment_args(clap::Command::new("vm"));
        let matches = command.try_get_matches_from(line.split(' ')).expect("it is a command line");
        Vm::from_arg_matches(&matches).expect("it is one of vm")
    }

    #[test]
    fn latency_is_tested_where_an_instruction_takes_a_nanosecond_at_most() {
        let is_skipped = |line| command(&parse(line)).contains("--skip latency_of_xoff");
        assert!(is_skipped("vm") && is_skipped("vm --shift 0 --real-time"));
        assert!(!is_skipped("vm --shift 0 latency") && !is_skipped("vm --shift -3"));
    }
}
