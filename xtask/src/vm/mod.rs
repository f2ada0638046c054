//! `cargo xtask vm`: boots another kernel in QEMU and runs tests inside, where this machine's
//! kernel lacks a feature (BPF qdiscs, for one), or to test an older kernel. Works without KVM too:
//! TCG is enough, only slower.
//!
//! ```text
//! kernel.rs   Debian's newest kernel of a suite ─▶ target/vm/SUITE/
//! image.rs    programs, their libraries, modules, a test program ─▶ initramfs
//! boot.rs     QEMU, its console, the verdict
//! ```

mod boot;
mod image;
mod kernel;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::packages;
use crate::run::{log, repo_root, require_root};

/// What to run, and where.
#[derive(Args)]
pub struct Vm {
    /// Only tests whose name contains this.
    filter: Option<String>,
    /// The Debian suite whose newest kernel is booted: trixie-backports, sid; trixie has 6.12,
    /// bookworm 6.1.
    #[arg(long, default_value = "trixie-backports")]
    suite: String,
    /// Test programs, once or several times: files of tests/tests, or of the `tests` of a crate,
    /// without their endings. `nic`, the default, and `zero_copy`, with `--cables 3`, are made
    /// for the machine that is booted; of others all tests are run that are not ignored.
    #[arg(long, default_value = "nic")]
    test: Vec<String>,
    /// Virtual CPUs.
    #[arg(long, default_value_t = 1)]
    cpus: u32,
    /// Memory in MiB.
    #[arg(long, default_value_t = 3072)]
    memory: u32,
    /// Virtual time: an instruction takes 2 to this power of nanoseconds, and waiting takes none.
    /// So nothing in there depends on what else this machine does. With -3 the CPU is about as
    /// fast as a real one.
    #[arg(long, value_name = "POWER", default_value_t = 2, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i8).range(-4..=10))]
    shift: i8,
    /// The time of this machine instead, and all CPUs at once.
    #[arg(long)]
    real_time: bool,
    /// Number of pairs of NICs, each with a cable between the two: the nth has the addresses
    /// 52:54:00:00:00:0n, for a port of a switch, and 02:00:00:00:00:0n, for a host.
    #[arg(long, value_name = "PAIRS", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u8).range(..=8))]
    cables: u8,
    /// What the NICs of ports are; those of hosts are virtio's.
    #[arg(long, value_name = "MODEL", default_value = "virtio")]
    nic: Nic,
    /// Give up after this number of seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    patience: u64,
    /// Run this command line inside instead of a test program.
    #[arg(long)]
    run: Option<String>,
}

/// A network device of QEMU's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Nic {
    /// One queue.
    Virtio,
    /// Intel's 82576, which has up to eight queues and hashes flows to them. Since QEMU 8.
    Igb,
}

impl Nic {
    /// Returns QEMU's name of the device. virtio's driver lets a device use memory of its choice
    /// only if the device advertises a possible IOMMU.
    fn device(self) -> &'static str {
        match self {
            Nic::Virtio => "virtio-net-pci,rx_queue_size=1024,disable-legacy=on,iommu_platform=on",
            Nic::Igb => "igb",
        }
    }
}

/// Returns the folder of kernels and images.
fn place() -> PathBuf {
    repo_root().join("target/vm")
}

/// Boots, tests, and returns the verdict.
pub fn run(vm: &Vm) -> Result<()> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("the rig boots Debian's amd64 kernels, and this machine is {}", std::env::consts::ARCH);
    }
    packages::set_up()?;
    packages::set_up_vm()?;
    boot::check_version(vm.nic)?;
    require_root("the rig (the initramfs has device nodes)")?;
    let kernel = kernel::fetch(&vm.suite)?;
    log(&format!("Linux {}", kernel.release));
    let programs = image::build_programs(&vm.test)?;
    let image = image::pack(&kernel, &programs, &command(vm))?;
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
