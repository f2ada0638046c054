//! Guests on ports of a switch: QEMU with an unmodified Debian kernel, sockets and soft-RoCE into a
//! slow port, over vhost-user and over veths. `cargo xtask guests` makes what they boot.

mod guest;
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

fn run(arguments: &Arguments) -> Result<bool> {
    testbed::require_root()?;
    let interrupted = testbed::watch_signals()?;
    let image = Image { kernel: arguments.kernel.clone(), initrd: arguments.initrd.clone() };
    println!("▶ three guests boot: a and b send to one behind a port of {}", arguments.speed);
    let mut network = Network::new(&image, &arguments.speed, &interrupted)?;
    println!("▶ sockets of priorities 3 and 5");
    let mut findings = shown(sockets::run(&mut network, arguments.datagrams)?);
    println!("▶ soft-RoCE");
    findings.extend(shown(roce::run(&mut network, arguments.messages)?));
    println!("▶ the daemon is restarted");
    findings.extend(shown(vec![restart::run(&mut network)?]));
    drop(network);
    println!("{}", verdict::sum(&findings));
    Ok(verdict::is_good(&findings))
}

/// Prints findings as they are made.
fn shown(findings: Vec<Finding>) -> Vec<Finding> {
    findings.iter().for_each(|finding| println!("{}", finding.line()));
    findings
}
