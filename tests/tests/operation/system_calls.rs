//! What a loop asks of the kernel: it sends, and it sleeps; and while it is awake nothing else
//! makes the kernel work for each frame.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::libc::{SYS_getsockopt, SYS_ppoll, SYS_pread64, SYS_read, SYS_sched_setattr, SYS_sendto, SYS_write};
use testbed::{Daemon, port};
use tests::{Incast, SystemCalls, loop_thread};

const DURATION: Duration = Duration::from_secs(3);
/// One to send and one to receive, of each of the three ports.
const SOCKETS: u64 = 6;

/// Returns the calls of sendto that the switch has counted.
fn kicks(daemon: &Daemon) -> Result<u64> {
    let now = daemon.snapshot()?;
    let kicks = |name| Ok(port(&now, name)?.kernel.as_ref().context("the kernel counts")?.tx_kicks);
    ["a", "b", "c"].map(kicks).into_iter().sum()
}

/// Each call of sendto is one that its port counts, and all other calls belong to a sleep or a
/// snapshot: a loop that does neither makes none.
#[test]
fn an_awake_loop_only_sends() -> Result<()> {
    if !SystemCalls::can_be_traced()? {
        eprintln!("SKIPPED: this kernel has no tracefs");
        return Ok(());
    }
    let incast = Incast::new()?;
    let mut daemon = incast.daemon("")?;
    let (before, thread) = (kicks(&daemon)?, loop_thread(&mut daemon)?);
    let counting = SystemCalls::of_thread(thread)?;
    let run = incast.run(&daemon, DURATION)?;
    run.switch_lost_nothing(3)?;
    let kicks = kicks(&daemon)? - before;
    let mut calls = counting.end()?;
    println!("{kicks} kicks counted; calls by number: {calls:?}");
    let [sends, sleeps] = [SYS_sendto, SYS_ppoll].map(|call| calls.remove(&call).unwrap_or_default());
    ensure!(sends == kicks && sends > 10_000, "{sends} calls of sendto, {kicks} counted");
    // Around a sleep: the scheduling, how long the thread waited for its core, and wakeups.
    for call in [SYS_sched_setattr, SYS_pread64, SYS_read, SYS_write] {
        let made = calls.remove(&call).unwrap_or_default();
        ensure!(made <= 2 * (sleeps + 1), "{made} calls of number {call}, {sleeps} sleeps");
    }
    // A snapshot has the kernel's statistics of each socket, and they are read for nothing else.
    let statistics = calls.remove(&SYS_getsockopt).unwrap_or_default();
    ensure!(statistics % SOCKETS == 0, "{statistics} reads of the statistics of {SOCKETS} sockets");
    ensure!(calls.is_empty(), "other calls by number: {calls:?}");
    Ok(())
}

/// Returns the inodes of a process's sockets, by descriptor.
fn sockets(process: &Path) -> Result<BTreeMap<u64, u64>> {
    let mut sockets = BTreeMap::new();
    for entry in fs::read_dir(process.join("fd"))? {
        let entry = entry?;
        let Ok(target) = fs::read_link(entry.path()) else { continue }; // closed meanwhile
        let target = target.to_string_lossy().into_owned();
        if let Some(inode) = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
            sockets.insert(entry.file_name().to_string_lossy().parse()?, inode.parse()?);
        }
    }
    Ok(sockets)
}

/// Returns the descriptors that are in epoll sets of a process.
fn epoll_targets(process: &Path) -> Result<BTreeSet<u64>> {
    let mut targets = BTreeSet::new();
    for entry in fs::read_dir(process.join("fdinfo"))? {
        let Ok(info) = fs::read_to_string(entry?.path()) else { continue }; // closed meanwhile
        let numbers = info.lines().filter_map(|line| line.strip_prefix("tfd:")?.split_whitespace().next());
        targets.extend(numbers.filter_map(|number| number.parse::<u64>().ok()));
    }
    Ok(targets)
}

/// An entry in the wait queue of a port's socket costs a callback for each frame that is received
/// or completed. No epoll set has one.
#[test]
fn no_epoll_set_has_the_socket_of_a_port() -> Result<()> {
    let incast = Incast::new()?;
    let mut daemon = incast.daemon("")?;
    let process = PathBuf::from(format!("/proc/{}", daemon.process().pid()));
    // The kernel lists sockets of every family that the daemon uses but AF_XDP.
    let mut listed = String::new();
    for family in ["unix", "netlink", "packet", "tcp", "tcp6", "udp", "udp6"] {
        listed += &fs::read_to_string(process.join("net").join(family)).unwrap_or_default();
    }
    let listed: BTreeSet<&str> = listed.split_whitespace().collect();
    let mut of_ports = sockets(&process)?;
    of_ports.retain(|_, inode| !listed.contains(inode.to_string().as_str()));
    let targets = epoll_targets(&process)?;
    println!("sockets of ports, by descriptor: {of_ports:?}; in epoll sets: {targets:?}");
    ensure!(of_ports.len() >= 3 && !targets.is_empty(), "{of_ports:?}, {targets:?}");
    let watched: Vec<_> = of_ports.keys().filter(|fd| targets.contains(fd)).collect();
    ensure!(watched.is_empty(), "descriptors {watched:?} are in an epoll set");
    Ok(())
}
