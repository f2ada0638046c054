//! What a loop asks of the kernel: it sends, and it sleeps (and wakes its guard for PFC on ports
//! beyond 10G, which have none here); and how often a daemon wakes that has nothing to do.
//! (`stalls` has that no epoll set holds a port's socket, which would cost a callback for each
//! frame.)

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::libc::{
    SYS_getsockopt, SYS_openat, SYS_ppoll, SYS_pread64, SYS_read, SYS_sched_setattr, SYS_sendto, SYS_write,
};
use testbed::{Daemon, Snapshot, Testbed, eventually, port};
use tests::{
    CallCounts, Incast, SystemCalls, flow, frames, loop_thread, port_config, stop_hosts, switch_config,
};

const DURATION: Duration = Duration::from_secs(3);
/// Of the three ports, one each.
const RX_SOCKETS: u64 = 3;
/// One to send and one to receive, of each of the three ports.
const SOCKETS: usize = 6;
/// The loop looks up its share of the core, and whether its interfaces are there, at most this
/// often.
const LOOK_NS: u64 = 10_000_000;

/// Returns the calls of sendto that the switch has counted.
fn kicks(daemon: &Daemon) -> Result<u64> {
    let now = daemon.snapshot()?;
    let kicks = |name| Ok(port(&now, name)?.kernel.as_ref().context("the kernel counts")?.tx_kicks);
    ["a", "b", "c"].map(kicks).into_iter().sum()
}

/// Each call of sendto is one that its port counts, and all other calls belong to a sleep, a
/// snapshot, or what a loop looks up each 10 ms.
#[test]
fn an_awake_loop_only_sends() -> Result<()> {
    if !SystemCalls::can_be_traced()? {
        eprintln!("SKIPPED: this kernel has no tracefs");
        return Ok(());
    }
    let incast = Incast::new()?;
    let mut daemon = incast.daemon("")?;
    let (before, thread, began) = (kicks(&daemon)?, loop_thread(&mut daemon)?, Instant::now());
    let counting = SystemCalls::of_thread(thread)?;
    incast.run(&daemon, DURATION)?.switch_lost_nothing(3)?;
    let kicks = kicks(&daemon)? - before;
    let calls = counting.end()?;
    // The count can begin and end amid one of them.
    let looks = began.elapsed().as_nanos() as u64 / LOOK_NS + 1;
    println!("{kicks} kicks counted, at most {looks} looks; calls: {calls:?}");

    let CallCounts { by_number: mut calls, of_statistics } = calls;
    let [sends, sleeps] = [SYS_sendto, SYS_ppoll].map(|call| calls.remove(&call).unwrap_or_default());
    ensure!(sends == kicks && sends > 10_000, "{sends} calls of sendto, {kicks} counted");
    // How long the thread waited for its core, from a file that is opened once, and the weight that
    // follows from that.
    ensure!(calls.remove(&SYS_openat).unwrap_or_default() <= 1, "files are opened");
    for call in [SYS_pread64, SYS_sched_setattr] {
        let made = calls.remove(&call).unwrap_or_default();
        ensure!(made <= looks, "{made} calls of number {call}, {looks} looks");
    }
    // Wakeups.
    for call in [SYS_read, SYS_write] {
        let made = calls.remove(&call).unwrap_or_default();
        ensure!(made <= sleeps + 1, "{made} calls of number {call}, {sleeps} sleeps");
    }
    // A snapshot has the kernel's statistics of each socket, and they are read for nothing else.
    // The count can begin and end amid a snapshot.
    let (reads, least, most) =
        (of_statistics.values().sum::<u64>(), of_statistics.values().min(), of_statistics.values().max());
    let each_alike = least.zip(most).is_some_and(|(least, most)| most - least <= 2);
    ensure!(of_statistics.len() == SOCKETS && each_alike, "reads by socket: {of_statistics:?}");
    // Whether its interface is there is asked of each socket that receives.
    let others = calls.remove(&SYS_getsockopt).unwrap_or_default() - reads;
    ensure!(others <= RX_SOCKETS * looks, "{others} other calls of getsockopt, {looks} looks");
    ensure!(calls.is_empty(), "other calls by number: {calls:?}");
    Ok(())
}

/// Returns how often the threads of a process have gone to sleep: name and number of each.
fn sleeps(pid: u32) -> Result<BTreeMap<OsString, (String, u64)>> {
    let mut of_threads = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?;
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue }; // it has ended
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(str::trim).with_context(|| format!("no {name} in {status}"))
        };
        let sleeps = value("voluntary_ctxt_switches")?.parse()?;
        of_threads.insert(task.file_name(), (value("Name")?.to_owned(), sleeps));
    }
    Ok(of_threads)
}

/// With sixteen ports and no frames the loop wakes as often as its guard, ten times a second, and
/// all threads together some nine times as often.
#[test]
fn an_idle_daemon_sleeps() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let mut config = "[switch]\nname = \"idle\"\n[port-defaults]\nspeed = \"1G\"\n\
                      pfc = { mode = \"on\", no_drop = [3] }\n"
        .to_owned();
    for n in 0..16 {
        let name = format!("p{n}");
        bed.sluice_host(&switch, &name)?;
        config += &format!("[port.{name}]\ninterface = \"{name}\"\n");
    }
    let mut daemon = bed.daemon(&switch, &config)?;
    let pid = daemon.process().pid();
    let before = sleeps(pid)?;
    // Sleeps since then of the threads that have this name, or of all.
    let since = |now: &BTreeMap<OsString, (String, u64)>, name: &str| -> u64 {
        let threads = now.iter().filter(|(_, (its_name, _))| its_name.starts_with(name));
        threads.map(|(id, (_, sleeps))| sleeps - before.get(id).map_or(0, |(_, before)| *before)).sum()
    };
    let now = eventually("the loop has slept fifty times", || {
        let now = sleeps(pid)?;
        Ok((since(&now, "poll-0") >= 50).then_some(now))
    })?;
    let [of_loop, of_guard, all] = ["poll-0", "guard-0", ""].map(|name| since(&now, name));
    println!("{all} sleeps, of the loop {of_loop}, of its guard {of_guard}");
    ensure!(of_loop <= 2 * of_guard + 10, "the loop sleeps {of_loop} times, its guard {of_guard}");
    ensure!(all <= 15 * of_loop, "all threads sleep {all} times, the loop {of_loop}");
    Ok(())
}

/// A pause at 40 Gbit/s would have to be refreshed each 280 µs. While nothing is paused the guard
/// checks each millisecond at most, though the loop is awake. On a busy machine the guard itself
/// may pause a peer: then it checks more often for 6 ms.
#[test]
fn a_guard_of_fast_ports_wakes_each_millisecond() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (sender, receiver) = (bed.sluice_host(&switch, "sender")?, bed.sluice_host(&switch, "receiver")?);
    let config =
        switch_config("on") + &port_config(&sender.name, "40G") + &port_config(&receiver.name, "40G");
    let mut daemon = bed.daemon(&switch, &config)?;
    let flows = [flow(&receiver.mac(), 0, "200M")];
    let mut sending = bed.host(&sender, &flows, &["--duration", "4s"])?;
    let receiving = bed.host(&receiver, &[], &[])?;
    daemon.until_announced(2)?;
    let before = daemon.snapshot()?;
    sending.start_sending()?;
    daemon.until("frames pass", |now| {
        (frames(port(now, &receiver.name).ok()?.transmitted) > 1000).then_some(())
    })?;
    let pid = daemon.process().pid();
    let pauses = |now: &Snapshot| -> u64 {
        now.ports.iter().filter_map(|port| Some(port.pfc_sent.as_ref()?.frames)).sum()
    };
    let (paused_before, from, began) = (pauses(&daemon.snapshot()?), sleeps(pid)?, Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    let (to, elapsed_ms) = (sleeps(pid)?, began.elapsed().as_millis() as u64);
    let paused = pauses(&daemon.snapshot()?) - paused_before;
    stop_hosts(&[&daemon], &before, vec![sending], vec![receiving])?;
    let of = |name: &str| -> Vec<u64> {
        let threads = to.iter().filter(|(_, (its_name, _))| its_name.starts_with(name));
        threads.map(|(id, (_, sleeps))| sleeps - from.get(id).map_or(0, |(_, before)| *before)).collect()
    };
    let (guards, of_loop) = (of("guard-"), of("poll-0").into_iter().sum::<u64>());
    println!(
        "in {elapsed_ms} ms with {paused} PFC frames the guards sleep {guards:?} times, the loop {of_loop}"
    );
    if of_loop > elapsed_ms {
        eprintln!("SKIPPED: on this machine the loop sleeps, and its guard wakes for frames");
        return Ok(());
    }
    // A guard that finds the loop asleep wakes again for the next frame. A pause from before
    // counts.
    let most = elapsed_ms + of_loop + 50 + paused * 25;
    ensure!(guards.len() == 2 && guards.iter().all(|sleeps| *sleeps > 0), "guards: {guards:?}");
    ensure!(guards.iter().all(|sleeps| *sleeps <= most), "{guards:?} sleeps of guards, more than {most}");
    Ok(())
}
