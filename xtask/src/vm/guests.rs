//! `cargo xtask guests`: an unmodified Debian kernel for guests of a switch, with the tools that
//! they call, and the program that boots them.
//!
//! The guests run nothing of this project. Their init process reads command lines from the console,
//! which is how `sluice-guests` (crates/testbed) has them do their part.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::image::Programs;
use super::{image, kernel};
use crate::packages;
use crate::run::{cargo, check, log, programs, require_root};

/// Guests in QEMU on ports of a switch.
#[derive(Args)]
pub struct Guests {
    /// The Debian suite whose kernel they boot.
    #[arg(long, default_value = "bookworm")]
    suite: String,
    /// Options of `sluice-guests`, such as `--datagrams 2000`.
    #[arg(last = true)]
    options: Vec<String>,
}

/// What the init process does: it runs each line of the console, and says how that ended. Its shell
/// would prefer its own `ip`, `tc` and `ping`, which have fewer options.
const SERVE: &str = r#"busybox stty -echo
ip() { /bin/ip "$@"; }; tc() { /bin/tc "$@"; }; ping() { /bin/ping "$@"; }
echo 16777216 > /proc/sys/net/core/rmem_default
echo "guest: ready"
while read -r line; do
    eval "$line"
    echo "guest: exit $?"
done"#;

/// Builds, packs, boots, and returns once the verdict is there.
pub fn run(guests: &Guests) -> Result<()> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("the guests boot Debian's amd64 kernel, and this machine is {}", std::env::consts::ARCH);
    }
    packages::set_up_guests()?;
    require_root("the rig (the initramfs has device nodes)")?;
    let kernel = kernel::fetch(&guests.suite)?;
    let image = image::pack(&kernel, "guest", &Programs::of_guest(), SERVE)?;
    log("building (the first time takes a few minutes)");
    let packages = ["--package", "sluiced", "--package", "testbed"];
    check(cargo().args(["build", "--profile", "demo", "--bins"]).args(packages))?;
    let mut command = Command::new(programs("demo").join("sluice-guests"));
    command.arg("--kernel").arg(&kernel.vmlinuz).arg("--initrd").arg(&image).args(&guests.options);
    // It replaces this process, so that it gets Ctrl-C and the prompt returns after its cleanup.
    Err(command.exec()).context("cannot run the guests")
}
