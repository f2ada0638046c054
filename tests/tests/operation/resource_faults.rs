//! Resources that run out around a running daemon: disks, file descriptors, and the file of its
//! control socket; and memory, of which it needs little after its start. No-drop traffic goes on
//! without a loss meanwhile, and what was refused is output. Source: docs/reliability.md, "Faults
//! on veths".

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use control::BlockingClient;
use nix::sys::signal::Signal;
use testbed::{Daemon, binary, drops, eventually, port};
use tests::{Incast, TrafficRun, events, frames, port_config, sluice};

/// Checks that no-drop frames were sent, and that neither the switch nor its kernel lost one.
fn lossless(run: &TrafficRun) -> Result<()> {
    let total = run.total(3);
    ensure!(total.sent > 1000, "{total:?}");
    ensure!(drops(&run.snapshot, "ingress_no_drop") == 0, "{:#?}", run.snapshot);
    run.switch_lost_nothing(3)
}

/// Starts the daemon of an incast, with everything in its log, under a program with arguments.
fn launch(incast: &Incast, under: &[&str]) -> Result<Daemon> {
    let daemon = Daemon::launch(&incast.switch, incast.bed.dir(), under, &incast.config(""))?;
    eventually("the API answers", || Ok(daemon.snapshot().ok()))?;
    Ok(daemon)
}

/// Standard error is a file on a filesystem of 64 KiB, which is full after a moment.
#[test]
fn a_log_on_a_full_disk_costs_lines_and_no_frames() -> Result<()> {
    let incast = Incast::new()?;
    let disk = incast.bed.dir().join("disk");
    fs::create_dir(&disk)?;
    // The filesystem is in a mount namespace of the daemon, and goes with it.
    let disk = disk.display();
    let script =
        format!("mount -t tmpfs -o size=64k none {disk} && RUST_LOG=trace exec \"$@\" 2>>{disk}/log");
    let under = ["unshare", "--mount", "--propagation", "private", "sh", "-c", &script, "sh"];
    let mut daemon = launch(&incast, &under)?;
    let log = PathBuf::from(format!("/proc/{}/root{disk}/log", daemon.process().pid()));
    let (lost, run) = incast.run_while(&daemon, || {
        let lost = daemon.until("the disk is full", |now| {
            (now.log_lines_lost > 0 && frames(port(now, "c").ok()?.transmitted) > 1000)
                .then_some(now.log_lines_lost)
        })?;
        ensure!(fs::metadata(&log)?.len() <= 64 << 10, "{:?}", fs::metadata(&log)?);
        // There is room again.
        File::options().write(true).open(&log)?.set_len(0)?;
        eventually("the log says what it lacks", || {
            daemon.snapshot()?;
            let mut text = String::new();
            File::open(&log)?.read_to_string(&mut text)?;
            Ok(text.contains("lines lost because standard error did not take them: ").then_some(()))
        })?;
        Ok(lost)
    })?;
    println!("{lost} lines were lost when the disk was full");
    lossless(&run)?;
    daemon.stop().map(drop)
}

/// A capture of everything into a filesystem of 4 MiB: the command fails with the name of the file
/// and the reason, leaves nothing, and the next client can capture.
#[test]
fn a_capture_on_a_full_disk_ends_and_frees_its_slot() -> Result<()> {
    let incast = Incast::new()?;
    let daemon = incast.daemon("")?;
    let disk = incast.bed.dir().join("disk");
    fs::create_dir(&disk)?;
    let script = "mount -t tmpfs -o size=4m none \"$0\" && { \"$1\" capture --write \"$0/a.pcapng\" --socket \"$2\"; \
                  code=$?; ls -A \"$0\"; exit $code; }";
    let ((), run) = incast.run_while(&daemon, || {
        for _ in 0..2 {
            let mut command = Command::new("unshare");
            command.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(&disk);
            let failed = command.arg(binary("sluice")?).arg(daemon.socket()).output()?;
            let output = String::from_utf8_lossy(&failed.stderr);
            let file = disk.join("a.pcapng").display().to_string();
            ensure!(!failed.status.success() && failed.stdout.is_empty(), "{failed:?}");
            ensure!(output.contains("No space left on device") && output.contains(&file), "{output}");
        }
        Ok(())
    })?;
    lossless(&run)?;
    daemon.stop().map(drop)
}

/// Without the file nobody reaches the daemon, and it forwards; SIGHUP still reloads, a client that
/// was connected still asks, and SIGTERM ends it cleanly.
#[test]
fn a_daemon_whose_control_socket_was_removed_goes_on() -> Result<()> {
    let incast = Incast::new()?;
    let mut daemon = incast.daemon("")?;
    let mut connected = BlockingClient::connect(daemon.socket())?;
    connected.snapshot()?;
    let ((), run) = incast.run_while(&daemon, || {
        let hidden = daemon.socket().with_extension("hidden");
        fs::rename(daemon.socket(), &hidden)?;
        let output = sluice(&daemon, &["show", "ports"]).expect_err("there is no socket").to_string();
        ensure!(output.contains("no daemon"), "{output}");
        let text = fs::read_to_string(daemon.config())?;
        fs::write(daemon.config(), text.replace("static_cells = 4096", "static_cells = 4000"))?;
        let pid = nix::unistd::Pid::from_raw(daemon_pid(&hidden)?);
        nix::sys::signal::kill(pid, Signal::SIGHUP)?;
        eventually("the reload", || {
            let events = connected.events(0)?;
            Ok(events.iter().any(|event| event.kind == "reloaded").then_some(()))
        })?;
        let sent = |client: &mut BlockingClient| -> Result<u64> {
            Ok(frames(port(&client.snapshot()?, "c")?.transmitted))
        };
        let before = sent(&mut connected)?;
        eventually("frames flow", || Ok((sent(&mut connected)? > before + 1000).then_some(())))?;
        Ok(fs::rename(&hidden, daemon.socket())?)
    })?;
    lossless(&run)?;
    fs::remove_file(daemon.socket())?;
    daemon.process().signal(Signal::SIGTERM)?;
    ensure!(daemon.process().wait(Duration::ZERO)?.success(), "{}", daemon.process().log());
    Ok(())
}

/// Returns the process of the daemon on a socket.
fn daemon_pid(socket: &std::path::Path) -> Result<i32> {
    Ok(BlockingClient::connect(socket)?.info()?.pid as i32)
}

/// A few more descriptors than the daemon has at its start, and clients that take them all: the
/// switch forwards, a client that was connected before is answered, its reload that needs
/// descriptors is refused as a whole, and once the others are gone everything works.
#[test]
fn a_daemon_without_file_descriptors_goes_on() -> Result<()> {
    // Fewer than the backlog of the socket, so that none waits to be connected.
    const CLIENTS: usize = 100;
    // Fewer than two for each client that the API admits: descriptors run out before slots.
    const SPARE: usize = 40;
    let incast = Incast::new()?;
    incast.bed.sluice_host(&incast.switch, "d")?;
    let mut daemon = incast.daemon("\n[dataplane]\nspare_ports = 1\n")?;
    let mut operator = BlockingClient::connect(daemon.socket())?;
    operator.snapshot()?;
    let pid = daemon.process().pid();
    let open = || Ok::<_, std::io::Error>(fs::read_dir(format!("/proc/{pid}/fd"))?.count());
    let most = open()? + SPARE;
    limit(pid, &format!("--nofile={most}"))?;
    let text = fs::read_to_string(daemon.config())?;
    let (seconds, run) = incast.run_while(&daemon, || {
        let clients: Vec<UnixStream> =
            (0..CLIENTS).filter_map(|_| UnixStream::connect(daemon.socket()).ok()).collect();
        ensure!(clients.len() == CLIENTS, "{} clients", clients.len());
        // An accepted client takes two; one that gets but one is turned away, and the next comes.
        eventually("no descriptors are left", || Ok((open()? + 1 >= most).then_some(())))?;
        fs::write(daemon.config(), text.clone() + &port_config("d", "1G"))?;
        let refused = operator.execute(control::Command::Reload).expect_err("no descriptors").to_string();
        println!("{refused}");
        ensure!(refused.contains("Too many open files"), "{refused}");
        let ports = operator.snapshot()?.ports.len();
        ensure!(ports == 3, "nothing was changed: {ports} ports");
        drop(clients);
        let start = Instant::now();
        let added = eventually("the reload", || Ok(sluice(&daemon, &["reload"]).ok()))?;
        ensure!(added == "port.d: added\n", "{added}");
        Ok(start.elapsed().as_secs_f64())
    })?;
    println!("the API answered {seconds:.1} s after the clients had gone");
    lossless(&run)?;
    daemon.stop().map(drop)
}

/// What a daemon needs, it has from its start on: clients of every kind of answer and reloads fit
/// into 64 MiB more address space, which is all that it may take.
#[test]
fn clients_and_reloads_take_less_than_64_mib() -> Result<()> {
    let incast = Incast::new()?;
    let mut daemon = incast.daemon("")?;
    let pid = daemon.process().pid();
    let (before_kib, limit_kib) = {
        let size = memory_kib(pid, "VmSize")?;
        (size, size + (64 << 10))
    };
    limit(pid, &format!("--as={}", limit_kib << 10))?;
    let text = fs::read_to_string(daemon.config())?;
    let (peak_kib, run) = incast.run_while(&daemon, || {
        for round in 0..10 {
            for order in
                ["show ports --json", "show buffers", "events --json", "show fdb", "clear watermarks"]
            {
                sluice(&daemon, &order.split(' ').collect::<Vec<_>>())?;
            }
            let cells = format!("static_cells = {}", 4000 + round);
            fs::write(daemon.config(), text.replace("static_cells = 4096", &cells))?;
            sluice(&daemon, &["reload"])?;
        }
        memory_kib(pid, "VmPeak")
    })?;
    println!("address space: {before_kib} KiB at the start, {peak_kib} KiB at most, limit {limit_kib} KiB");
    lossless(&run)?;
    ensure!(events(&daemon, "reloaded")?.len() == 10, "every reload is applied");
    daemon.stop().map(drop)
}

/// 16 MiB more memory, and no more: a reload is refused as a whole before it begins, with the
/// reason, and works once there is memory again. What runs needs none.
#[test]
fn a_reload_for_which_memory_is_refused_changes_nothing() -> Result<()> {
    let incast = Incast::new()?;
    incast.bed.sluice_host(&incast.switch, "d")?;
    let mut daemon = incast.daemon("\n[dataplane]\nspare_ports = 1\n")?;
    let mut operator = BlockingClient::connect(daemon.socket())?;
    operator.snapshot()?;
    let pid = daemon.process().pid();
    let text = fs::read_to_string(daemon.config())?;
    let (refused, run) = incast.run_while(&daemon, || {
        limit(pid, &format!("--as={}:unlimited", (memory_kib(pid, "VmSize")? << 10) + (16 << 20)))?;
        fs::write(daemon.config(), text.clone() + &port_config("d", "1G"))?;
        let refused = operator.execute(control::Command::Reload).expect_err("no memory").to_string();
        let ports = operator.snapshot()?.ports.len();
        ensure!(ports == 3, "nothing was changed: {ports} ports");
        let before = frames(port(&operator.snapshot()?, "c")?.transmitted);
        daemon.until("frames flow", |now| {
            (frames(port(now, "c").ok()?.transmitted) > before + 1000).then_some(())
        })?;
        limit(pid, "--as=unlimited")?;
        let added = sluice(&daemon, &["reload"])?;
        ensure!(added == "port.d: added\n", "{added}");
        Ok(refused)
    })?;
    println!("{refused}");
    ensure!(refused.contains("a reload may need 48 MiB of memory"), "{refused}");
    lossless(&run)?;
    daemon.stop().map(drop)
}

/// Sets a limit of a process, an option of prlimit(1).
fn limit(pid: u32, option: &str) -> Result<()> {
    let status = Command::new("prlimit").args([&format!("--pid={pid}"), option]).status()?;
    ensure!(status.success(), "prlimit {option}");
    Ok(())
}

/// Returns a line of a process's status, in KiB.
fn memory_kib(pid: u32, name: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(line.and_then(|line| line.split_whitespace().next()).context("a number")?.parse()?)
}
