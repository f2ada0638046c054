//! Clients of the API by the thousand, that stall, or that send garbage, and a collector that
//! accepts a connection and never reads: no-drop traffic loses nothing meanwhile, and operators
//! get their answers (docs/reliability.md, "Faults on veths").

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use config::SensorPath;
use nix::sys::signal::Signal;
use serde_json::Value;
use testbed::{Daemon, Namespace, Process, binary, drops, eventually};
use tests::{Incast, TrafficRun, sluice};

/// Clients of each kind.
const CLIENTS: usize = 1000;
/// Bounds of the backlog for a collector.
const BACKLOG_MESSAGES: u64 = 200;
const BACKLOG_KIB: u64 = 512;
/// The preface of HTTP/2, and an empty SETTINGS frame.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

fn lossless(run: &TrafficRun) -> Result<()> {
    ensure!(run.total(3).sent > 1000 && drops(&run.snapshot, "ingress_no_drop") == 0, "{:?}", run.total(3));
    run.switch_lost_nothing(3)
}

/// What a client sends, by its number: nothing, the beginning of HTTP/2, frames of no meaning after
/// it, or noise.
fn garbage(number: usize, random: &mut fastrand::Rng) -> Vec<u8> {
    let mut noise = |bytes: usize| (0..bytes).map(|_| random.u8(..)).collect::<Vec<u8>>();
    match number % 4 {
        0 => Vec::new(),
        1 => HTTP2.to_vec(),
        2 => [HTTP2.to_vec(), noise(400)].concat(),
        _ => noise(2000),
    }
}

#[test]
fn a_thousand_clients_and_their_garbage_cost_no_frame() -> Result<()> {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let incast = Incast::new()?;
    let daemon = incast.daemon("")?;
    let (slowest, run) = incast.run_while(&daemon, || {
        let mut slowest = Duration::ZERO;
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            // With a full backlog of the socket this waits until the daemon takes a client.
            let mut client = UnixStream::connect(daemon.socket())?;
            client.set_nonblocking(true)?;
            let _ = client.write(&garbage(number, &mut random)); // it may be hung up already
            clients.push(client);
            if number % 200 == 199 {
                let start = Instant::now();
                sluice(&daemon, &["show", "ports"])?;
                slowest = slowest.max(start.elapsed());
                clients.drain(..clients.len() / 2);
            }
        }
        Ok(slowest)
    })?;
    println!("an operator among {CLIENTS} clients waited for {slowest:.1?} at most");
    lossless(&run)?;
    daemon.stop().map(drop)
}

/// Starts a client, waits until it has said `awaited`, and stops it: it takes nothing any more.
fn stalled(daemon: &Daemon, arguments: &[&str], awaited: &str) -> Result<Process> {
    let mut command = Command::new(binary("sluice")?);
    let mut client = Process::start("client", command.args(arguments).arg("--socket").arg(daemon.socket()))?;
    client.wait_for(awaited, |line| line.contains(awaited).then_some(()))?;
    client.suspend()?;
    Ok(client)
}

/// A capture of everything and readers of events, all stopped while they are sent data.
#[test]
fn clients_that_stall_cost_no_frame() -> Result<()> {
    let incast = Incast::new()?;
    let daemon = incast.daemon("\n[recorder]\nalways = true\n")?;
    let file = incast.bed.dir().join("stalled.pcapng").display().to_string();
    let ((), run) = incast.run_while(&daemon, || {
        sluice(&daemon, &["port", "hold", "b"])?;
        let mut clients = vec![stalled(&daemon, &["capture", "--write", &file], "capturing")?];
        for _ in 0..4 {
            clients.push(stalled(&daemon, &["events", "--follow"], "held")?);
        }
        // More events than a stalled reader's socket takes.
        for _ in 0..200 {
            sluice(&daemon, &["port", "release", "b"])?;
            sluice(&daemon, &["port", "hold", "b"])?;
        }
        sluice(&daemon, &["port", "release", "b"])?;
        for client in &mut clients {
            ensure!(client.is_running()?, "{}", client.log());
            client.signal(Signal::SIGKILL)?;
        }
        Ok(())
    })?;
    lossless(&run)?;
    daemon.stop().map(drop)
}

/// Accepts connections and never reads, until it has none for as long as the test runs.
fn mute_collector(namespace: &Namespace) -> Result<(u16, JoinHandle<()>)> {
    let listener = namespace.enter(|| TcpListener::bind("127.0.0.1:0"))??;
    let port = listener.local_addr()?.port();
    let accept = move || {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            let mut byte = [0];
            // A byte that the test itself sends ends it; a daemon begins with the preface.
            if stream.read(&mut byte).is_ok_and(|bytes| bytes == 1) && byte == *b"." {
                return;
            }
            held.push(stream);
        }
    };
    Ok((port, spawn(accept)))
}

fn telemetry_config(port: u16) -> String {
    let periodic = SensorPath::ALL.into_iter().filter(|path| !path.is_event());
    let paths: Vec<String> = periodic.map(|path| format!("{:?}", path.name())).collect();
    format!(
        "\n[telemetry.sensor-group.numbers]\npaths = [{}]\n\
         [telemetry.sensor-group.events]\npaths = [\"sluice/events\"]\n\
         [telemetry.destination-group.mute]\ncollectors = [\"127.0.0.1:{port}\"]\n\
         backlog_messages = {BACKLOG_MESSAGES}\nbacklog_kib = {BACKLOG_KIB}\n\
         [telemetry.subscription.all]\n\
         sensors = [{{ group = \"numbers\", interval_ms = 100 }}, {{ group = \"events\" }}]\n\
         destinations = [\"mute\"]\n",
        paths.join(", ")
    )
}

/// Returns the messages that were dropped, and the messages and the bytes that wait.
fn backlog(daemon: &Daemon) -> Result<[u64; 3]> {
    let shown: Value = serde_json::from_str(&sluice(daemon, &["show", "telemetry", "--json"])?)?;
    let number =
        |name: &str| shown["destinations"][0][name].as_u64().with_context(|| format!("{name} of {shown:#}"));
    Ok([number("dropped")?, number("backlog")?, number("backlog_bytes")?])
}

/// The backlog for it is bounded: what it does not take is dropped and counted.
#[test]
fn a_collector_that_never_reads_costs_no_frame() -> Result<()> {
    let incast = Incast::new()?;
    let (port, collector) = mute_collector(&incast.switch)?;
    let daemon = incast.daemon(&telemetry_config(port))?;
    let before_kib = resident_kib(&daemon)?;
    let ([dropped, messages, bytes], run) = incast.run_while(&daemon, || {
        eventually("messages are dropped", || {
            let now @ [dropped, messages, bytes] = backlog(&daemon)?;
            ensure!(messages <= BACKLOG_MESSAGES, "{messages} messages wait");
            ensure!(bytes <= BACKLOG_KIB << 10, "{bytes} bytes wait");
            Ok((dropped > 100).then_some(now))
        })
    })?;
    ensure!(messages > 0 && bytes > 0, "what fits into the backlog waits");
    println!("{dropped} messages were dropped, {messages} of {bytes} bytes waited");
    let after_kib = resident_kib(&daemon)?;
    println!("resident memory {before_kib} KiB, then {after_kib} KiB");
    lossless(&run)?;
    daemon.stop()?;
    let end = incast.switch.enter(|| std::net::TcpStream::connect(("127.0.0.1", port)))?;
    end?.write_all(b".")?;
    collector.join().expect("it ends");
    Ok(())
}

/// Returns the resident memory of a daemon that is not its locked buffer.
fn resident_kib(daemon: &Daemon) -> Result<u64> {
    let pid = control::BlockingClient::connect(daemon.socket())?.info()?.pid;
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("RssAnon")?;
    Ok(line.split_whitespace().next().context("a number")?.parse()?)
}
