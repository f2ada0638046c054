//! The loop is stopped in the middle of an incast, and nothing is lost (docs/behavior.md, "A loop
//! that stalls"). Peers that count quanta at other speeds than the switch assumes are paused
//! anyway ("PFC sent"). A switch that stops honors its peers until the end ("Shutdown").

use std::collections::HashSet;
use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use testbed::{Host, Snapshot, Testbed, conservation, drops, eventually, port};
use tests::{
    AMPLE_HEADROOM_CELLS, Capture, flow, frames, group_config, loop_thread, port_config, run,
    slow_port_config, sluice, stop_hosts, stop_thread, switch_config,
};

/// Stops of 50, 500 and 2000 ms, under an incast of two senders of 300 Mbit/s into 300 Mbit/s.
#[test]
fn a_loop_that_is_stopped_loses_nothing() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let senders = [bed.sluice_host(&switch, "sender1")?, bed.sluice_host(&switch, "sender2")?];
    let receiver = bed.sluice_host(&switch, "receiver")?;
    let mut config = switch_config("on") + &slow_port_config("receiver", 300);
    for sender in &senders {
        config += &(port_config(&sender.name, "1G") + &group_config(&sender.name, AMPLE_HEADROOM_CELLS));
    }
    let mut daemon = bed.daemon(&switch, &config)?;
    let thread = loop_thread(&mut daemon)?;
    let flows = [flow(&receiver.mac(), 3, "300M")];
    let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", "8s"];
    let mut sending =
        senders.iter().map(|at| bed.host(at, &flows, &arguments)).collect::<Result<Vec<_>>>()?;
    let receiving = bed.host(&receiver, &[], &["--speed", "300M", "--no-drop", "3"])?;
    daemon.until_announced(3)?;
    let capture = Capture::start_on(&bed, &switch, "sender1", "ether proto 0x8808")?;

    let before = daemon.snapshot()?;
    sending.iter_mut().try_for_each(Host::start_sending)?;
    let mut stops = Vec::new();
    for stop in [50, 500, 2000].map(Duration::from_millis) {
        daemon.until("a sender is paused", |now| {
            now.ports.iter().any(|port| port.groups[3].xoff).then_some(())
        })?;
        let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        stop_thread(thread, stop)?;
        stops.push((stop, at));
    }
    for sender in &mut sending {
        eventually("all is sent", || Ok(sender.has_sent_all()?.then_some(())))?;
    }
    let run = stop_hosts(&[&daemon], &before, sending, vec![receiving])?;
    run.switch_lost_nothing(3)?;
    conservation(&run.snapshot, &run.hosts())?;
    ensure!(run.snapshot.loop_worst_stall_ns >= 2_000_000_000, "{}", run.snapshot.loop_worst_stall_ns);
    let reported = capture.read("macc.opcode == 0x0101", &["frame.time_epoch"])?;
    let times: Vec<f64> = reported.iter().filter_map(|row| row.first()?.parse().ok()).collect();
    for (stop, at) in stops {
        let first = times.iter().find(|&&time| time > at).context("a PFC frame after the stop")?;
        println!("stopped for {stop:?}: the first PFC frame after {:.2} ms", (first - at) * 1e3);
    }
    Ok(())
}

/// The whole process is stopped for less than a sleep of its loop lasts, and a frame that came
/// meanwhile ends the sleep: neither the loop nor the guard ran, and yet the stall is known.
#[test]
fn a_process_that_was_stopped_while_its_loop_slept_knows_it() -> Result<()> {
    const STOP: Duration = Duration::from_millis(60);
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let host = bed.linux_host(&switch, "host")?;
    let mut daemon = bed.daemon(&switch, &(switch_config("on") + &port_config("host", "1G")))?;
    host.namespace.ip("neigh replace 10.0.0.99 lladdr 02:00:00:00:00:99 dev eth0")?;
    let socket = host.namespace.enter(|| UdpSocket::bind((host.ipv4(), 0)))??;
    let received = |now: &Snapshot| port(now, "host").map(|port| frames(port.received)).unwrap_or_default();
    let before = received(&daemon.snapshot()?);

    daemon.process().suspend()?;
    socket.send_to(&[0; 100], "10.0.0.99:4000")?;
    std::thread::sleep(STOP);
    daemon.process().signal(Signal::SIGCONT)?;
    daemon.until("the frame is received", |now| (received(now) > before).then_some(()))?;
    let stall_ns = daemon.snapshot()?.loop_worst_stall_ns;
    println!("stopped for {STOP:?}: the worst stall is {:.2} ms", stall_ns as f64 / 1e6);
    ensure!(stall_ns >= STOP.as_nanos() as u64, "the stall of {STOP:?} is unknown: {stall_ns} ns");
    Ok(())
}

/// Hosts on links of 25G, 40G and 100G, and one without a known speed, on ports without a speed:
/// 65535 quanta end sooner for them than for the switch. 400 Mbit/s into 200 Mbit/s.
#[test]
fn hosts_of_any_speed_honor_ports_without_speed() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let speeds = [None, Some("25G"), Some("40G"), Some("100G")];
    let receiver = bed.sluice_host(&switch, "receiver")?;
    let mut config = switch_config("on") + &slow_port_config("receiver", 200);
    let mut sending = Vec::new();
    let mut stations = Vec::new();
    for number in 0..speeds.len() {
        let sender = bed.sluice_host(&switch, &format!("sender{number}"))?;
        config += &format!("\n[port.{0}]\ninterface = \"{0}\"\n", sender.name);
        config += &group_config(&sender.name, 8192);
        stations.push(sender);
    }
    let daemon = bed.daemon(&switch, &config)?;
    let flows = [flow(&receiver.mac(), 3, "100M")];
    for (sender, speed) in stations.iter().zip(speeds) {
        let mut arguments = vec!["--no-drop", "3", "--duration", "4s"];
        arguments.extend(speed.iter().flat_map(|speed| ["--speed", speed]));
        sending.push(bed.host(sender, &flows, &arguments)?);
    }
    let receiving = bed.host(&receiver, &[], &["--speed", "200M", "--no-drop", "3"])?;
    daemon.until_announced(5)?;
    let run = run(&[&daemon], sending, vec![receiving], Duration::from_secs(4))?;
    run.switch_lost_nothing(3)?;
    for sender in &stations {
        let sent = port(&run.snapshot, &sender.name)?.pfc_sent.clone().unwrap_or_default();
        ensure!(sent.xoff_frames[3] > 0, "{}: {sent:?}", sender.name);
    }
    Ok(())
}

/// Two switches in series, where only the second switch pauses, because its port to the receiver is
/// held. The first is stopped while its queue is full of frames that the second does not accept.
#[test]
fn a_switch_that_ends_does_not_send_into_a_pause() -> Result<()> {
    let bed = Testbed::new()?;
    let (first_at, second_at) = (bed.switch("first")?, bed.switch("second")?);
    let sender = bed.sluice_host(&first_at, "sender")?;
    let receiver = bed.sluice_host(&second_at, "receiver")?;
    bed.cable((&first_at, "uplink"), (&second_at, "downlink"))?;
    let first_config = switch_config("on")
        + &port_config("uplink", "1G")
        + &port_config("sender", "1G")
        + &group_config("sender", AMPLE_HEADROOM_CELLS);
    let second_config = switch_config("on")
        + &port_config("receiver", "1G")
        + &port_config("downlink", "1G")
        // Room for 10 ms at full rate: far less than the time that the first switch drains for.
        + &group_config("downlink", 5000);
    let first = bed.daemon(&first_at, &first_config)?;
    let second = bed.daemon(&second_at, &second_config)?;
    let flows = [flow(&receiver.mac(), 3, "300M")];
    let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", "4s"];
    let mut sending = bed.host(&sender, &flows, &arguments)?;
    let receiving = bed.host(&receiver, &[], &["--speed", "1G", "--no-drop", "3"])?;
    for daemon in [&first, &second] {
        daemon.until_announced(2)?;
    }
    sluice(&second, &["port", "hold", "receiver"])?;
    sending.start_sending()?;
    first.until("the first switch is paused, and pauses its host", |now| {
        let is_paused = port(now, "uplink").is_ok_and(|port| port.queues[3].paused);
        (is_paused && port(now, "sender").is_ok_and(|port| port.groups[3].xoff)).then_some(())
    })?;
    let output = first.stop()?;
    println!("{output}");
    let after = second.snapshot()?;
    let kernel = port(&after, "downlink")?.kernel.unwrap_or_default();
    assert_eq!(drops(&after, "ingress_no_drop"), 0, "{after:#?}");
    assert_eq!((kernel.rx_fill_ring_empty_frames, kernel.rx_ring_full_frames), (0, 0));
    assert!(port(&after, "downlink")?.groups[3].xoff, "it was full to the end");
    sluice(&second, &["port", "release", "receiver"])?;
    second.until("what it held has left", |now| testbed::idle(now).then_some(()))?;
    drop((sending, receiving));
    Ok(())
}

/// An entry in the wait queue of an AF_XDP socket runs a callback for each frame, and entries of
/// epoll sets stay while the loop is awake. No epoll set of the daemon has such a socket.
#[test]
fn no_epoll_set_has_a_socket_of_a_port() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let hosts = [bed.sluice_host(&switch, "one")?, bed.sluice_host(&switch, "two")?];
    let ports: String = hosts.iter().map(|host| port_config(&host.name, "1G")).collect();
    let mut daemon = bed.daemon(&switch, &(switch_config("on") + &ports))?;
    let process = PathBuf::from(format!("/proc/{}", daemon.process().pid()));

    let mut of_other_kinds = String::new();
    for kind in ["unix", "netlink", "packet", "tcp", "tcp6", "udp", "udp6"] {
        of_other_kinds += &fs::read_to_string(process.join("net").join(kind))?;
    }
    let others: HashSet<&str> = of_other_kinds.split_whitespace().collect();
    // File kinds that the kernel lists nowhere else: AF_XDP.
    let is_of_port = |fd: &str| {
        let link = fs::read_link(process.join("fd").join(fd)).unwrap_or_default();
        let inode = link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']'));
        inode.is_some_and(|inode| !others.contains(inode))
    };
    let mut fds = Vec::new();
    for entry in fs::read_dir(process.join("fd"))? {
        fds.push(entry?.file_name().into_string().expect("a number"));
    }
    ensure!(fds.iter().filter(|fd| is_of_port(fd)).count() >= hosts.len(), "no AF_XDP sockets: {fds:?}");
    for fd in &fds {
        let info = fs::read_to_string(process.join("fdinfo").join(fd)).unwrap_or_default();
        let targets = info.lines().filter_map(|line| line.strip_prefix("tfd:")?.split_whitespace().next());
        let held: Vec<&str> = targets.filter(|target| is_of_port(target)).collect();
        ensure!(held.is_empty(), "the epoll set {fd} has the AF_XDP sockets {held:?}");
    }
    Ok(())
}
