//! Guests on ports of a switch: QEMU with an unmodified Debian kernel, sockets and soft-RoCE into a
//! slow port, over vhost-user and over veths. `cargo xtask guests` makes what they boot.

mod guest;
mod losses;
mod network;
mod restart;
mod roce;
mod sockets;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use guest::Image;
use network::Network;
use verdict::Finding;

/// Shows that guests which know nothing of PFC lose nothing on vhost-user ports.
#[derive(Parser)]
struct Arguments {
    /// The kernel that the guests boot.
    #[arg(long)]
    kernel: PathBuf,
    /// Their initial file system.
    #[arg(long)]
    initrd: PathBuf,
    /// Datagrams of 1000 bytes of priority 3 that each of two guests sends. The receiver's socket
    /// buffer holds the default number, even if its program reads none.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u64).range(sockets::LEAST_DATAGRAMS..=100_000))]
    datagrams: u64,
    /// RDMA messages of 4 KiB that each of two guests sends on each of four queue pairs.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(i64::from(roce::LEAST_MESSAGES)..=100_000))]
    messages: u32,
    /// RDMA's timer on vhost-user ports: a packet without an answer is sent again after 4.096 µs, 2
    /// to this power of times. 0 is never, so that only what was lost or reordered is sent again.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=31))]
    rdma_timer: u8,
    /// Speed of the slow port. Nothing is held back if it exceeds what the guests can send.
    #[arg(long, default_value = "10M")]
    speed: String,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What is shown. SPEED stands for the speed of the slow port.
const INTRODUCTION: &str = "
Three virtual machines with Debian's own kernel, and a switch whose port to `slow` carries SPEED:

    a ──┐
        ├── sluiced ── SPEED ── slow
    b ──┘

The guests know nothing of PFC. When `slow` cannot keep up, the switch stops reading one queue of each sender,
and the sender's own sockets wait: nothing is lost. ✔ is as it must be, ✘ is not, · depends on this machine.
";

fn run(arguments: &Arguments) -> Result<bool> {
    testbed::require_root()?;
    let interrupted = testbed::watch_signals()?;
    let image = Image { kernel: arguments.kernel.clone(), initrd: arguments.initrd.clone() };
    println!("{}", INTRODUCTION.replace("SPEED", &arguments.speed));
    println!("▶ the guests boot, which takes a minute or more without KVM");
    let mut network = Network::new(&image, &arguments.speed, &interrupted)?;
    println!("▶ sockets: a and b send {} datagrams each to slow, as fast as they can", arguments.datagrams);
    let mut findings = shown(sockets::run(&mut network, arguments.datagrams)?);
    println!("▶ soft-RoCE incast: a and b write to the memory of slow at once");
    findings.extend(shown(roce::run(&mut network, arguments.messages, arguments.rdma_timer)?));
    println!("▶ the switch is stopped and started again under its guests, and then one of the guests");
    findings.extend(shown(restart::run(&mut network)?));
    drop(network);
    println!("{}", verdict::sum(&findings));
    Ok(verdict::is_good(&findings))
}

/// Prints findings as they are made.
fn shown(findings: Vec<Finding>) -> Vec<Finding> {
    findings.iter().for_each(|finding| println!("{}", finding.line()));
    findings
}
