//! The options of `cargo xtask vm`.

use clap::{Args, ValueEnum};

/// What to run, and where.
#[derive(Args)]
pub struct Vm {
    /// Only tests whose name contains this.
    pub filter: Option<String>,
    /// The Debian suite whose newest kernel is booted: trixie-backports, sid; trixie has 6.12,
    /// bookworm 6.1.
    #[arg(long, default_value = "trixie-backports")]
    pub suite: String,
    /// Test programs, once or several times: files of tests/tests, or of the `tests` of a crate,
    /// without their endings. `nic`, the default, and `zero_copy`, with `--cables 3`, are made
    /// for the machine that is booted; of others all tests are run that are not ignored.
    #[arg(long, default_value = "nic")]
    pub test: Vec<String>,
    /// Virtual CPUs.
    #[arg(long, default_value_t = 1)]
    pub cpus: u32,
    /// Memory in MiB.
    #[arg(long, default_value_t = 3072)]
    pub memory: u32,
    /// Virtual time: an instruction takes 2 to this power of nanoseconds, and waiting takes none.
    /// So nothing in there depends on what else this machine does. With -3 the CPU is about as
    /// fast as a real one.
    #[arg(long, value_name = "POWER", default_value_t = 2, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i8).range(-4..=10))]
    pub shift: i8,
    /// The time of this machine instead, and all CPUs at once.
    #[arg(long)]
    pub real_time: bool,
    /// Number of pairs of NICs, each with a cable between the two: the nth has the addresses
    /// 52:54:00:00:00:0n, for a port of a switch, and 02:00:00:00:00:0n, for a host.
    #[arg(long, value_name = "PAIRS", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u8).range(..=8))]
    pub cables: u8,
    /// What the NICs of ports are; those of hosts are virtio's.
    #[arg(long, value_name = "MODEL", default_value = "virtio")]
    pub nic: Nic,
    /// Give up after this number of seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub patience: u64,
    /// Run this command line inside instead of a test program.
    #[arg(long)]
    pub run: Option<String>,
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
    pub fn device(self) -> &'static str {
        match self {
            Nic::Virtio => "virtio-net-pci,rx_queue_size=1024,disable-legacy=on,iommu_platform=on",
            Nic::Igb => "igb",
        }
    }
}
