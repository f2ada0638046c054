//! External faults: crashes, errors in the configuration, interfaces in an unexpected state. They
//! give a clear error, a non-zero exit status, and nothing left behind; and a fault of one port
//! does not affect the others.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use control::server::MAX_CLIENTS;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use testbed::{Daemon, Endpoint, Host, Namespace, Testbed, conservation, eventually, idle, port};
use tests::{
    AMPLE_HEADROOM_CELLS, Bpf, CpuLoad, Incast, bpf_object, flow, frames, group_config, pause, port_config,
    run, sluice, switch_config,
};
use xdp::Scheduling;

const SECOND: Duration = Duration::from_secs(1);

/// A switch with ports `a` and `b`.
fn two_ports() -> String {
    switch_config("on") + &port_config("a", "1G") + &port_config("b", "1G")
}

/// Runs a second of traffic from `a` to `b` through the daemon; nothing may be lost.
fn traffic(bed: &Testbed, daemon: &Daemon, a: &Endpoint, b: &Endpoint) -> Result<()> {
    let flows = [flow(&b.mac(), 3, "50M")];
    let receiver = bed.host(b, &[], &[])?;
    let sender = bed.host(a, &flows, &["--no-drop", "3", "--duration", "1s"])?;
    // Entries that the switch learned in an earlier run do as well: nothing is flooded either way
    // once both hosts have announced themselves.
    daemon.until_announced(2)?;
    let run = run(&[daemon], vec![sender], vec![receiver], SECOND)?;
    let total = run.total(3);
    assert!(total.sent > 0);
    assert_eq!(total.sent, total.received, "{total:?}");
    Ok(())
}

/// Returns whether an interface has an XDP program, which the daemon could leave behind.
fn has_xdp(namespace: &Namespace, interface: &str) -> Result<bool> {
    Ok(namespace.ip(&format!("-d link show dev {interface}"))?.contains("xdp"))
}

/// Starts a daemon that must fail, and checks that it reports all of `words` and leaves nothing: no
/// XDP program on any interface, no queueing discipline, no socket.
fn refuses(bed: &Testbed, switch: &Namespace, config: &str, words: &[&str]) -> Result<()> {
    refuses_limited(bed, switch, &[], config, words)
}

/// Does the same with a daemon that is started with `--strict`.
fn refuses_strictly(bed: &Testbed, switch: &Namespace, config: &str, words: &[&str]) -> Result<()> {
    refuses_limited(bed, switch, &["sh", "-c", "exec \"$@\" --strict", "sh"], config, words)
}

/// Does the same with a program (and its arguments) that starts the daemon under a limit.
fn refuses_limited(
    bed: &Testbed,
    switch: &Namespace,
    limit: &[&str],
    config: &str,
    words: &[&str],
) -> Result<()> {
    let before = switch.run("tc qdisc show")?;
    let links_before = links(switch)?;
    let daemon = Daemon::launch(switch, bed.dir(), limit, config)?;
    let socket = daemon.socket().to_path_buf();
    let output = daemon.failure()?;
    println!("{output}\n");
    for word in words {
        assert!(output.contains(word), "says `{word}`:\n{output}");
    }
    assert!(!output.contains("panicked"), "{output}");
    assert!(!socket.exists(), "no socket is left");
    assert_eq!(switch.run("tc qdisc show")?, before, "no queueing discipline is left");
    eventually("links are as before", || Ok((links(switch)? == links_before).then_some(())))?;
    Ok(())
}

/// Returns names of the interfaces, and whether each has an XDP program.
fn links(namespace: &Namespace) -> Result<Vec<(String, bool)>> {
    let text = namespace.ip("-o -d link show")?;
    Ok(text
        .lines()
        .map(|line| (line.split(": ").nth(1).unwrap_or_default().to_string(), line.contains("xdp")))
        .collect())
}

#[test]
fn kill_9_and_restart_need_no_cleaning() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    for _ in 0..3 {
        let daemon = bed.daemon(&switch, &two_ports())?;
        traffic(&bed, &daemon, &a, &b)?;
        assert!(has_xdp(&switch, "a")?, "the test would see a program");
        daemon.kill9()?;
        eventually("the program goes with the process", || Ok((!has_xdp(&switch, "a")?).then_some(())))?;
    }
    let daemon = bed.daemon(&switch, &two_ports())?;
    traffic(&bed, &daemon, &a, &b)?;
    daemon.stop()?;
    assert!(!has_xdp(&switch, "a")?);
    Ok(())
}

/// The same file again, and so the same control socket, which the killed daemon could not remove.
#[test]
fn a_socket_that_a_killed_daemon_left_is_taken_over() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let daemon = bed.daemon(&switch, &two_ports())?;
    let (config, socket) = (daemon.config().to_path_buf(), daemon.socket().to_path_buf());
    daemon.kill9()?;
    assert!(socket.exists(), "a killed daemon leaves its socket");
    let daemon = Daemon::on_file(&switch, &config, &socket)?.ready()?;
    traffic(&bed, &daemon, &a, &b)?;
    // While one daemon runs, a second one is refused and does no harm.
    let second = Daemon::on_file(&switch, &config, &socket)?;
    let output = second.failure()?;
    assert!(!output.contains("panicked"), "{output}");
    traffic(&bed, &daemon, &a, &b)?;
    daemon.stop()?;
    assert!(!socket.exists(), "a clean stop removes it");
    Ok(())
}

#[test]
fn a_strict_start_refuses_a_missing_interface() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    bed.sluice_host(&switch, "a")?;
    refuses_strictly(&bed, &switch, &two_ports(), &["interface", "b"])?;
    // The existing one came first and had been opened.
    assert!(!has_xdp(&switch, "a")?);
    Ok(())
}

#[test]
fn a_strict_start_refuses_an_interface_that_is_down() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    bed.sluice_host(&switch, "a")?;
    bed.sluice_host(&switch, "b")?;
    switch.ip("link set dev b down")?;
    refuses_strictly(&bed, &switch, &two_ports(), &["interface", "b", "down"])
}

#[test]
fn an_interface_with_an_xdp_program_is_refused_and_keeps_it() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    bed.sluice_host(&switch, "a")?;
    bed.sluice_host(&switch, "b")?;
    let object = bpf_object(&bed, Bpf::XdpPass)?;
    switch.ip(&format!("link set dev b xdpdrv obj {} sec xdp", object.display()))?;
    refuses(&bed, &switch, &two_ports(), &["b", "XDP program"])?;
    assert!(has_xdp(&switch, "b")?, "the other's program is still there");
    Ok(())
}

#[test]
fn too_little_memory_is_refused() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    bed.sluice_host(&switch, "a")?;
    bed.sluice_host(&switch, "b")?;
    // A memory of some gigabytes in a process that may lock that much.
    let config = two_ports() + "\n[buffer]\ntotal_cells = 2000000\n";
    let config = config.replacen("[buffer]\nheadroom_cells = 32768\n", "", 1);
    refuses_limited(&bed, &switch, &["prlimit", "--as=1073741824"], &config, &["memory"])?;
    // The same memory works in a process without limit.
    bed.daemon(&switch, &config)?.stop()?;
    Ok(())
}

#[test]
fn a_bad_file_is_refused_with_the_line_of_the_mistake() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    bed.sluice_host(&switch, "a")?;
    bed.sluice_host(&switch, "b")?;
    for (from, to, words) in [
        // An unknown name: its location, and the suggestion.
        ("speed = \"1G\"", "sped = \"1G\"", vec!["sped", "speed"]),
        // A value of the wrong type.
        ("no_drop = [3]", "no_drop = [9]", vec!["no_drop", "9"]),
        // Not TOML at all.
        ("[port.a]", "[port.a", Vec::new()),
    ] {
        let config = two_ports().replacen(from, to, 1);
        // The testbed adds a line that turns LLDP off.
        let line = config.lines().position(|line| line.starts_with(to)).context("the mistake")? + 2;
        let location = format!(".toml:{line}:");
        refuses(&bed, &switch, &config, &[&[location.as_str()], &words[..]].concat())?;
    }
    let mut nothing = switch.command(testbed::binary("sluiced")?);
    let output = nothing.args(["--config", "/nonexistent/sluice.toml"]).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("/nonexistent/sluice.toml"), "{stderr}");
    Ok(())
}

/// A running port's interface is deleted amid traffic to and from it: that port goes down with an
/// event, its held frames are counted, and the others continue without a loss.
#[test]
fn deleting_an_interface_takes_only_its_port_down() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let doomed = bed.sluice_host(&switch, "doomed")?;
    let config = two_ports() + &port_config("doomed", "20M");
    let mut daemon = bed.daemon(&switch, &config)?;
    let receiver = bed.host(&b, &[], &[])?;
    let lost_receiver = bed.host(&doomed, &[], &[])?;
    let flows = [flow(&b.mac(), 3, "50M"), flow(&doomed.mac(), 0, "50M")];
    let mut sender = bed.host(&a, &flows, &["--no-drop", "3", "--duration", "4s"])?;
    daemon.until_announced(3)?;
    sender.start_sending()?;
    daemon.until("frames wait for the doomed port", |now| {
        port(now, "doomed").is_ok_and(|port| port.queues[2].waiting_frames > 100).then_some(())
    })?;

    switch.ip("link del dev doomed")?;
    daemon.until("the port is down", |now| port(now, "doomed").is_ok_and(|port| !port.up).then_some(()))?;
    let output = daemon.process().wait_for("an event", |line| {
        (line.contains("doomed") && line.contains("down")).then(|| line.to_string())
    })?;
    println!("{output}");
    let at_death = daemon.snapshot()?;

    eventually("all is sent", || Ok(sender.has_sent_all()?.then_some(())))?;
    daemon.until("the switch is at rest", |now| idle(now).then_some(()))?;
    drop(lost_receiver); // its interface is gone
    let received = receiver.stop()?;
    let after = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
    let sent = sender.stop()?;
    let arrived = received.received.iter().find(|flow| flow.flow == 0).context("the flow to b")?;
    assert_eq!(arrived.received_frames, sent.sent[0].sent_frames, "a to b lost nothing");
    assert!(frames(port(&after, "b")?.transmitted) > frames(port(&at_death, "b")?.transmitted), "it went on");
    assert!(testbed::drops(&after, "port_down") > 100, "what the port held is counted");
    conservation(&after, &[("a", &sent), ("b", &received)])?;
    assert!(port(&after, "a")?.up && port(&after, "b")?.up);
    traffic(&bed, &daemon, &a, &b)?;
    daemon.stop()?;
    Ok(())
}

/// With silent hosts, no thread of the daemon has a reason to run often: in 500 ms each is
/// scheduled at most fifty times.
#[test]
fn an_idle_daemon_sleeps() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    for name in ["a", "b"] {
        bed.sluice_host(&switch, name)?;
    }
    let mut daemon = bed.daemon(&switch, &two_ports())?;
    let pid = daemon.process().pid();
    eventually("every thread sleeps", || {
        let before = times_run(pid)?;
        std::thread::sleep(Duration::from_millis(500));
        let after = times_run(pid)?;
        let most = after.iter().map(|(thread, times)| times - before.get(thread).unwrap_or(&0)).max();
        println!("the busiest thread ran {most:?} times");
        Ok(most.is_some_and(|most| most <= 50).then_some(()))
    })?;
    daemon.stop()?;
    Ok(())
}

/// Returns how often each thread of a process was scheduled (the third word of its `schedstat`).
fn times_run(process: impl std::fmt::Display) -> Result<HashMap<PathBuf, u64>> {
    let mut times = HashMap::new();
    for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let path = task?.path();
        let words = std::fs::read_to_string(path.join("schedstat"))?;
        times.insert(path, words.split_whitespace().nth(2).context("three words")?.parse()?);
    }
    Ok(times)
}

/// SIGTERM amid an incast: forwarding stops, the queues drain, no XON is sent for frames that would
/// not be forwarded (the pause ends by itself), totals are reported, and every frame is accounted
/// for.
#[test]
fn a_clean_stop_drains_and_leaves_its_hosts_paused() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let config = switch_config("on")
        + &port_config("a", "1G")
        + &group_config("a", AMPLE_HEADROOM_CELLS)
        + &port_config("b", "100M");
    let daemon = bed.daemon(&switch, &config)?;
    let receiver = bed.host(&b, &[], &["--speed", "100M", "--no-drop", "3"])?;
    let flows = [flow(&b.mac(), 3, "300M")];
    let mut sender = bed.host(&a, &flows, &["--speed", "1G", "--no-drop", "3", "--duration", "3s"])?;
    daemon.until_announced(2)?;
    sender.start_sending()?;
    daemon.until("the host is paused", |now| {
        port(now, "a").is_ok_and(|port| port.groups[3].xoff).then_some(())
    })?;
    let output = daemon.stop()?;
    println!("{output}");
    assert!(output.contains("received") && output.contains("transmitted"), "totals are printed:\n{output}");
    eventually("all is sent", || Ok(sender.has_sent_all()?.then_some(())))?;
    let sent = sender.stop()?;
    let reported = pause(&sent, 3);
    assert!(
        reported.xoff > 0 && reported.sent_while_paused == 0,
        "the host was paused, and honored it: {sent:?}"
    );
    let received = receiver.stop()?;
    let arrived = received.received.first().context("the flow")?;
    // The frames in the switch left it: no gap in the sequence, and more frames than fit into an
    // interface's rings.
    assert_eq!((arrived.lost_frames, arrived.corrupted_frames), (0, 0), "{arrived:?}");
    assert!(!has_xdp(&switch, "a")?);
    Ok(())
}

/// A killed host leaves a port that is up and a flow that ends; a new host on the same interface is
/// served.
#[test]
fn a_host_that_dies_harms_nobody() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let daemon = bed.daemon(&switch, &two_ports())?;
    let mut hosts: Vec<Host> = Vec::new();
    for station in [&a, &b] {
        hosts.push(bed.host(station, &[], &[])?);
    }
    for host in &mut hosts {
        host.process().signal(Signal::SIGKILL)?;
    }
    drop(hosts);
    traffic(&bed, &daemon, &a, &b)?;
    daemon.stop()?;
    Ok(())
}

/// Standard error is a full pipe without a reader, and the log has many lines: API and forwarding
/// continue, `sluice show` reports what the log lacks, and so does the log itself once it is read.
/// When full again, it does not delay the exit.
#[test]
fn a_log_that_nobody_reads_delays_nobody() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let path = bed.dir().join("stderr");
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
    // Open for both, so that neither side waits for the other.
    let mut pipe =
        File::options().read(true).write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&path)?;
    let bytes = fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(4096))?;
    pipe.write_all(&vec![b'\n'; bytes as usize])?;
    assert_eq!(pipe.write(b"\n").map_err(|error| error.kind()), Err(ErrorKind::WouldBlock), "it is full");

    let script = format!("RUST_LOG=trace exec \"$@\" 2>'{}'", path.display());
    let daemon = Daemon::launch(&switch, bed.dir(), &["sh", "-c", &script, "sh"], &two_ports())?;
    eventually("the API answers", || Ok(daemon.snapshot().ok()))?;
    traffic(&bed, &daemon, &a, &b)?;
    daemon.until("lines are lost", |now| (now.log_lines_lost > 0).then_some(()))?;
    let shown = sluice(&daemon, &["show", "ports"])?;
    println!("{shown}");
    assert!(shown.contains("Log lines lost, standard error did not take them: "), "{shown}");
    traffic(&bed, &daemon, &a, &b)?;

    let mut output = Vec::new();
    eventually("the log says what it lacks", || {
        match pipe.read_to_end(&mut output) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => drop(other?),
        }
        let text = String::from_utf8_lossy(&output);
        Ok((text.contains("sluiced is ready")
            && text.contains("lines lost because standard error did not take them: "))
        .then_some(()))
    })?;
    eventually("it is full again", || {
        daemon.snapshot()?;
        Ok((pipe.write(b"\n").is_err()).then_some(()))
    })?;
    daemon.stop()?;
    Ok(())
}

/// Amid an incast, and beside threads that take both cores, every order of an operator is carried
/// out within the time that its client waits.
#[test]
fn orders_are_carried_out_under_load_on_a_busy_machine() -> Result<()> {
    let incast = Incast::new()?;
    let daemon = incast.daemon("")?;
    let recording = incast.bed.dir().join("under-load.sluicerec");
    let record = ["record", "--duration", "200ms", &recording.display().to_string()].map(str::to_owned);
    incast.run_while(&daemon, || {
        let _load = CpuLoad::new(&[0, 1], Scheduling::Normal, SECOND, SECOND, 60 * SECOND);
        for _ in 0..2 {
            for order in ["show ports --json", "show fdb", "clear watermarks", "reload", "port hold c"] {
                sluice(&daemon, &order.split(' ').collect::<Vec<_>>())?;
            }
            sluice(&daemon, &record.each_ref().map(String::as_str))?;
            sluice(&daemon, &["port", "release", "c"])?;
        }
        Ok(())
    })?;
    daemon.stop()?;
    Ok(())
}

/// More silent clients than there are client slots, with at most an HTTP/2 preface: the operator
/// gets answers, and frames are forwarded.
#[test]
fn idle_clients_do_not_lock_operators_out() -> Result<()> {
    const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let daemon = bed.daemon(&switch, &two_ports())?;
    let mut mute = Vec::new();
    for number in 0..MAX_CLIENTS + 8 {
        let mut client = UnixStream::connect(daemon.socket())?;
        if number % 2 == 0 {
            client.write_all(HTTP2)?;
        }
        mute.push(client);
    }
    let shown = sluice(&daemon, &["show", "ports"])?;
    assert!(shown.contains("Addresses known"), "{shown}");
    traffic(&bed, &daemon, &a, &b)?;
    drop(mute);
    daemon.stop()?;
    Ok(())
}
