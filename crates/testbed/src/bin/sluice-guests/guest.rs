//! A guest: QEMU with an unmodified Debian kernel, and its console, which takes its commands.
//!
//! Rule: the init process runs each line that it is sent, and says how it ended (`xtask`,
//! vm/guests.rs). A guest has two NICs, one whose rings the switch serves and one whose frames its
//! host passes to a veth. KVM is not used: the rig has to work in a virtual machine, too.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testbed::{Namespace, Process};

/// The longest that a guest may take for a line. Its CPU is emulated, and may share a core.
const PATIENCE: Duration = Duration::from_secs(240);
/// How its init process says that a line has ended.
const ENDED: &str = "guest: exit ";

/// What a guest boots.
#[derive(Debug, Clone)]
pub struct Image {
    pub kernel: PathBuf,
    pub initrd: PathBuf,
}

/// A running guest, which ends when this is dropped.
pub struct Guest {
    pub name: &'static str,
    /// The last part of its addresses.
    pub number: u8,
    process: Process,
    /// Lines sent so far.
    sent: usize,
    interrupted: Arc<AtomicBool>,
}

impl Guest {
    /// Starts a guest at the socket of a port, and at a tap of the namespace.
    pub fn start(
        at: &Namespace,
        image: &Image,
        (name, number): (&'static str, u8),
        (socket, tap): (&Path, &str),
        interrupted: Arc<AtomicBool>,
    ) -> Result<Self> {
        let mut command = at.command("qemu-system-x86_64");
        command.args(["-machine", "q35,memory-backend=ram", "-accel", "tcg", "-cpu", "max", "-smp", "1"]);
        command.args(["-m", "384", "-object", "memory-backend-memfd,id=ram,size=384M,share=on"]);
        command.args([
            "-display",
            "none",
            "-serial",
            "stdio",
            "-monitor",
            "none",
            "-no-reboot",
            "-nic",
            "none",
        ]);
        command.arg("-chardev").arg(format!("socket,id=port,path={},reconnect=1", socket.display()));
        command.args(["-netdev", "vhost-user,id=guest,chardev=port,queues=8"]);
        // QEMU 7.2 crashes without KVM unless `vectors=0`.
        let device =
            format!("virtio-net-pci,netdev=guest,mq=on,vectors=0,rx_queue_size=1024,mac={}", mac(0, number));
        command.args(["-device", &device, "-netdev"]);
        command.arg(format!("tap,id=tap,ifname={tap},script=no,downscript=no"));
        command.args(["-device", &format!("virtio-net-pci,netdev=tap,vectors=0,mac={}", mac(1, number))]);
        command.arg("-kernel").arg(&image.kernel).arg("-initrd").arg(&image.initrd);
        let calm = "no_timer_check tsc=reliable nowatchdog mitigations=off";
        command.args(["-append", &format!("console=ttyS0 quiet loglevel=3 panic=-1 {calm}")]);
        let process = Process::start(name, &mut command)?;
        Ok(Self { name, number, process, sent: 0, interrupted })
    }

    /// Waits until it has booted.
    pub fn until_ready(&mut self) -> Result<()> {
        self.until("it boots", |lines| lines.iter().any(|line| line.contains("guest: ready")).then_some(()))
    }

    /// Has it run a line of the shell, without waiting for its end.
    pub fn begin(&mut self, line: &str) -> Result<()> {
        self.sent += 1;
        self.process.send_line(line)
    }

    /// Waits for the end of the line that was sent last. Returns its output, and whether it
    /// succeeded.
    pub fn end(&mut self) -> Result<(String, bool)> {
        let nth = self.sent;
        self.until("a line ends", |lines| {
            let ends: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].starts_with(ENDED)).collect();
            let last = *ends.get(nth - 1)?;
            let first = if nth > 1 { ends[nth - 2] + 1 } else { 0 };
            Some((lines[first..last].join("\n"), lines[last] == format!("{ENDED}0")))
        })
    }

    /// Has it run a line of the shell to its end. Returns its output, or an error with it.
    pub fn run(&mut self, line: &str) -> Result<String> {
        self.begin(line)?;
        let (output, is_good) = self.end()?;
        ensure!(is_good, "guest {}: `{line}` failed\n{output}", self.name);
        Ok(output)
    }

    /// Waits until a line of the shell succeeds. An error if it has not after some minutes.
    pub fn until_succeeds(&mut self, line: &str) -> Result<()> {
        let wait = format!("for i in $(busybox seq 600); do {line} && break; busybox usleep 100000; done");
        self.run(&format!("{wait}; {line}")).map(drop)
    }

    /// Has it run a line that prints a number.
    pub fn number_of(&mut self, line: &str) -> Result<u64> {
        let output = self.run(line)?;
        let word = output.split_whitespace().last();
        word.and_then(|word| word.parse().ok()).with_context(|| format!("`{line}` printed: {output}"))
    }

    fn until<T>(&mut self, what: &str, mut find: impl FnMut(&[String]) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let lines = self.process.stdout();
            let lines: Vec<String> = lines.iter().map(|line| line.trim_end().to_owned()).collect();
            if let Some(found) = find(&lines) {
                return Ok(found);
            }
            let (is_running, name) = (self.process.is_running()?, self.name);
            ensure!(is_running, "guest {name} ended while waiting: {what}\n{}", self.process.log());
            ensure!(!self.interrupted.load(Ordering::Relaxed), "interrupted; everything is removed again");
            if Instant::now() >= deadline {
                bail!("guest {name} did not do this within {PATIENCE:?}: {what}\n{}", self.process.log());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Returns the address of a guest's NIC: 0 on its vhost-user port, 1 on its veth.
pub fn mac(nic: u8, number: u8) -> String {
    format!("02:00:00:00:0{nic}:{number:02x}")
}

/// Returns the IPv4 address of a guest's NIC.
pub fn ipv4(nic: u8, number: u8) -> String {
    format!("10.9.{nic}.{number}")
}
