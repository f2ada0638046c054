//! QEMU: boots the image, shows its console, and finds the verdict in it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::kernel::Kernel;
use super::options::{Nic, Vm};
use crate::run::log;

const QEMU: &str = "qemu-system-x86_64";

/// The last line of the init process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct VmResult {
    status: i32,
    warnings: u32,
}

/// A QEMU process that is killed on drop.
struct Qemu(Child);

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended by itself
        let _ = self.0.wait();
    }
}

/// The first QEMU version that emulates Intel's 82576.
const IGB_SINCE: u32 = 8;

/// Checks that the installed QEMU supports a NIC model.
pub fn check_version(nic: Nic) -> Result<()> {
    if nic != Nic::Igb {
        return Ok(());
    }
    let output =
        Command::new(QEMU).arg("--version").output().with_context(|| format!("cannot run {QEMU}"))?;
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    if major_version(&output).is_some_and(|major| major < IGB_SINCE) {
        bail!(
            "--nic igb needs QEMU {IGB_SINCE}, and this is {}. Debian 12 has a newer one in its backports: \
             apt-get install --target-release bookworm-backports qemu-system-x86",
            output.lines().next().unwrap_or_default()
        );
    }
    Ok(())
}

/// Parses `QEMU emulator version 7.2.22 (Debian …)`.
fn major_version(output: &str) -> Option<u32> {
    output.split_once("version ")?.1.split('.').next()?.parse().ok()
}

/// Boots and prints the console. Fails unless the command succeeded and the kernel gave no warning.
pub fn boot(vm: &Vm, kernel: &Kernel, image: &Path) -> Result<()> {
    let mut command = Command::new(QEMU);
    command.args(["-machine", "q35", "-display", "none", "-serial", "stdio", "-no-reboot"]);
    command.args(["-monitor", "none", "-nic", "none", "-m", &vm.memory.to_string()]);
    command.args(["-cpu", "max", "-smp", &vm.cpus.to_string()]);
    command.args(cables(vm.cables, vm.nic));
    let time = if vm.real_time {
        command.args(["-accel", "tcg,thread=multi"]);
        "real time".to_owned()
    } else {
        command.args(["-accel", "tcg", "-icount", &format!("shift={},sleep=off", vm.shift.max(0))]);
        format!("virtual time, {} ns an instruction", 2f64.powi(vm.shift.into()))
    };
    command.arg("-kernel").arg(&kernel.vmlinuz).arg("-initrd").arg(image);
    // A machine that lacks CPU time while it boots misses timer interrupts, which must not stop the
    // boot.
    let calm = "no_timer_check tsc=reliable nowatchdog";
    let line = format!("console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off nokaslr {calm}{}", clock(vm));
    command.args(["-append", &line]);
    log(&format!("QEMU with {} CPUs, {} MiB, {time}", vm.cpus, vm.memory));
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut qemu = Qemu(child.with_context(|| format!("cannot run {QEMU}"))?);
    let console = qemu.0.stdout.take().expect("is piped");
    let verdict = listen(console, Duration::from_secs(vm.patience))?;
    if verdict.warnings > 0 {
        bail!("the kernel gave {} warnings (above)", verdict.warnings);
    }
    if verdict.status != 0 {
        bail!("the tests failed in there (status {})", verdict.status);
    }
    log("all is well in there");
    Ok(())
}

/// Returns pairs of NICs, each on its own hub, so that no frame leaves QEMU: one for a port, and a
/// virtio NIC for its host.
fn cables(pairs: u8, port: Nic) -> Vec<String> {
    let end = |pair: u8, end: &str, nic: Nic, address: &str| {
        let id = format!("{end}{pair}");
        let device = format!("{},netdev={id},mac={address}:00:00:{pair:02x}", nic.device());
        ["-netdev".to_owned(), format!("hubport,id={id},hubid={pair}"), "-device".to_owned(), device]
    };
    let both = |pair| [end(pair, "port", port, "52:54:00"), end(pair, "host", Nic::Virtio, "02:00:00")];
    (1..=pairs).flat_map(both).flatten().collect()
}

/// Returns options that make an instruction take less than a nanosecond. QEMU cannot count that
/// way, but its TSC counts virtual nanoseconds, and a kernel that is given a TSC of 8 GHz takes
/// eight of them for one. Its timers, which are not based on the TSC, then fire early, and it
/// rearms them.
fn clock(vm: &Vm) -> String {
    if vm.real_time || vm.shift >= 0 {
        return String::new();
    }
    format!(" tsc_early_khz={}", 1_000_000u32 << -vm.shift)
}

/// Prints the console until the verdict appears.
fn listen(console: impl std::io::Read + Send + 'static, patience: Duration) -> Result<VmResult> {
    let (lines, console_lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut console = BufReader::new(console);
        let mut line = Vec::new();
        while console.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if lines.send(text).is_err() {
                break;
            }
            line.clear();
        }
    });
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match console_lines.recv_timeout(left) {
            Ok(line) => {
                println!("{line}");
                if let Some(verdict) = parse(&line) {
                    return Ok(verdict);
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => bail!("no verdict within {} s", patience.as_secs()),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                bail!("the machine ended without a verdict: did the kernel panic (above)?")
            }
        }
    }
}

/// Parses `vm: exit 0 warnings 0`.
fn parse(line: &str) -> Option<VmResult> {
    let (_, rest) = line.split_once("vm: exit ")?;
    let (status, warnings) = rest.split_once(" warnings ")?;
    Some(VmResult { status: status.parse().ok()?, warnings: warnings.trim().parse().ok()? })
}

#[cfg(test)]
mod unit {
    use super::super::unit::parse as command;
    use super::*;

    #[test]
    fn instructions_of_less_than_a_nanosecond_are_the_kernels_matter() {
        assert_eq!(clock(&command("vm storm --shift -3")), " tsc_early_khz=8000000");
        assert_eq!(clock(&command("vm --shift 0")), "");
        assert_eq!(clock(&command("vm --shift -3 --real-time")), "");
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(major_version("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright"), Some(10));
        assert_eq!(major_version("qemu: not found"), None);
    }

    #[test]
    fn the_verdict_is_read() {
        assert_eq!(parse("vm: exit 101 warnings 3"), Some(VmResult { status: 101, warnings: 3 }));
        assert_eq!(parse("vm: 7.3.4 is up after 3.21 s"), None);
    }
}
