//! Zero-copy ports (docs/kernel/af-xdp.md, "Zero-copy"), on the emulated NICs of QEMU, for
//! machines without suitable ones: `cargo xtask vm --cables 3 --test zero_copy` for virtio's, with
//! `--nic igb` for Intel's 82576.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testbed::{Daemon, Endpoint, Host, Testbed, conservation, drops, idle, port};
use tests::{
    AMPLE_HEADROOM_CELLS, PeriodicStops, TrafficRun, flow, group_config, loop_thread, mbps, port_config, run,
    slow_port_config, sluice, switch_config,
};

const SLOW_MBPS: u64 = 200;

/// Parameters of an incast.
#[derive(Debug, Clone, Copy)]
struct Setup {
    /// Which hosts are on NICs; the others are on veths.
    senders: bool,
    receiver: bool,
    /// RX queues of the ports.
    queues: u32,
    /// Head of the configuration.
    dataplane: &'static str,
    /// The loop is repeatedly stopped for this long.
    stop: Duration,
}

/// All hosts on NICs of one queue.
const ON_NICS: Setup =
    Setup { senders: true, receiver: true, queues: 1, dataplane: "", stop: Duration::ZERO };

/// Without the PFC test frame at startup, which the switch does not count, switch and kernel have
/// sent the same number.
const COPIES: &str = "[dataplane]\nzero_copy = \"off\"\npfc_test = \"off\"\n";

fn host(bed: &Testbed, switch: &testbed::Namespace, name: &str, on_nic: bool) -> Result<Endpoint> {
    if on_nic { bed.nic_host(switch, name) } else { bed.sluice_host(switch, name) }
}

/// Starts two waiting hosts of 100 Mbit/s that the switch knows: one that sends these flows for
/// `seconds` seconds, and one that receives.
fn pair(
    bed: &Testbed,
    daemon: &Daemon,
    [from, to]: [&Endpoint; 2],
    flows: &[String],
    seconds: u64,
) -> Result<(Vec<Host>, Vec<Host>)> {
    let link = ["--speed", "100M", "--no-drop", "3"];
    let duration = format!("{seconds}s");
    let sending = vec![bed.host(from, flows, &[&link[..], &["--duration", &duration]].concat())?];
    let receiving = vec![bed.host(to, &[], &link)?];
    daemon.until_announced(2)?;
    Ok((sending, receiving))
}

/// Returns whether a port is zero-copy, and so has its own memory.
fn is_zero_copy(daemon: &Daemon, name: &str) -> Result<bool> {
    let link = port(&daemon.snapshot()?, name)?.link.clone().context("a link")?;
    ensure!(link.zero_copy == link.own_memory, "{link:?}");
    Ok(link.zero_copy)
}

/// Results of an incast.
struct Incast {
    run: TrafficRun,
    /// Whether the ports of the two senders and of the receiver were zero-copy.
    zero_copy: [bool; 3],
    /// Frames received from the first sender, by RX queue, as igb counts them.
    by_queue: Vec<u64>,
}

/// Two senders of a no-drop priority and of best effort into a port that is too slow for them, for
/// 4 s. Ports on NICs of several queues get the no-drop frames in four flows from each sender,
/// which differ in their UDP ports.
fn incast(Setup { senders, receiver, queues, dataplane, stop }: Setup) -> Result<Incast> {
    const SECONDS: u64 = 4;
    let bed = Testbed::new()?;
    if queues > 1 {
        bed.set_queues(queues);
    }
    let switch = bed.switch("switch")?;
    let senders = [host(&bed, &switch, "sender1", senders)?, host(&bed, &switch, "sender2", senders)?];
    let receiver = host(&bed, &switch, "receiver", receiver)?;
    let [fast, offered, part, slow] = [2000, 240, 60, SLOW_MBPS].map(|rate| format!("{}M", mbps(rate)));
    let mut config =
        dataplane.to_owned() + &switch_config("on") + &slow_port_config("receiver", mbps(SLOW_MBPS));
    for sender in &senders {
        config += &(port_config(&sender.name, &fast) + &group_config(&sender.name, AMPLE_HEADROOM_CELLS));
    }
    let mut daemon = bed.daemon(&switch, &config)?;
    let thread = loop_thread(&mut daemon)?;
    let to = receiver.mac();
    let mut flows = vec![flow(&to, 0, &offered)];
    if queues > 1 {
        flows.extend((0..4).map(|_| flow(&to, 3, &part) + ",ecn=ect0"));
    } else {
        flows.push(flow(&to, 3, &offered));
    }
    let lasts = format!("{SECONDS}s");
    let arguments = ["--speed", &fast, "--no-drop", "3", "--duration", &lasts];
    let sending = senders.iter().map(|at| bed.host(at, &flows, &arguments)).collect::<Result<_>>()?;
    let receiving = bed.host(&receiver, &[], &["--speed", &slow, "--no-drop", "3"])?;
    daemon.until_announced(3)?;
    let mut zero_copy = [false; 3];
    for (name, is) in ["sender1", "sender2", "receiver"].into_iter().zip(&mut zero_copy) {
        *is = is_zero_copy(&daemon, name)?;
    }
    println!("{}", sluice(&daemon, &["show", "ports", "--verbose"])?);
    let stops = (stop > Duration::ZERO)
        .then(|| PeriodicStops::new(thread, stop, 4 * stop, Duration::from_secs(SECONDS - 2)));
    let run = run(&[&daemon], sending, vec![receiving], Duration::from_secs(SECONDS))?;
    if let Some(stops) = stops {
        ensure!(stops.end()? > 1, "the loop was stopped several times");
    }
    conservation(&run.snapshot, &run.hosts())?;
    let by_queue = frames_by_queue(&switch.run("ethtool -S sender1").unwrap_or_default());
    let log = daemon.stop()?;
    ensure!(!log.contains("frames are missing"), "{log}");
    Ok(Incast { run, zero_copy, by_queue })
}

/// Parses `rx_queue_0_packets: 7` of igb's statistics.
fn frames_by_queue(statistics: &str) -> Vec<u64> {
    let frames = |line: &str| {
        let (queue, frames) = line.trim().strip_prefix("rx_queue_")?.split_once("_packets: ")?;
        queue.parse::<u32>().ok()?;
        frames.parse().ok()
    };
    statistics.lines().filter_map(frames).collect()
}

fn check(run: &TrafficRun) -> Result<()> {
    let (no_drop, best_effort) = (run.total(3), run.total(0));
    println!("{no_drop:?}; {best_effort:?}; carried {:.1} Mbit/s", run.carried_bps("receiver")? / 1e6);
    for port in &run.snapshot.ports {
        println!("{}: {:?}, sent {:?}", port.name, port.kernel, port.transmitted);
    }
    run.switch_lost_nothing(3)?;
    for total in [&no_drop, &best_effort] {
        assert_eq!((total.reordered, total.corrupted, total.duplicated), (0, 0, 0), "{total:?}");
    }
    let counted = drops(&run.snapshot, "ingress_lossy") + drops(&run.snapshot, "tail_drop");
    ensure!(best_effort.dropped == counted, "{counted}");
    let sent = port(&run.snapshot, "sender1")?.pfc_sent.clone().unwrap_or_default();
    ensure!(sent.xoff_frames[3] > 0, "{sent:?}");
    Ok(())
}

#[test]
#[ignore = "for cargo xtask vm --cables 3 --test zero_copy"]
fn an_incast_on_nics_loses_nothing() -> Result<()> {
    let Incast { run, zero_copy, .. } = incast(ON_NICS)?;
    assert_eq!(zero_copy, [true; 3]);
    check(&run)
}

/// Each RX queue of a NIC has its own socket. Frames received on all queues are not lost, and each
/// flow keeps its order.
#[test]
#[ignore = "for cargo xtask vm --cables 3 --nic igb --test zero_copy"]
fn several_queues_of_a_nic_lose_nothing() -> Result<()> {
    for dataplane in ["", COPIES] {
        let Incast { run, zero_copy, by_queue } = incast(Setup { queues: 4, dataplane, ..ON_NICS })?;
        assert_eq!(zero_copy, [dataplane.is_empty(); 3]);
        println!("came in by queue: {by_queue:?}");
        let used = by_queue.iter().filter(|&&frames| frames > 100).count();
        ensure!(by_queue.len() == 4 && used > 1, "all flows share one queue: {by_queue:?}");
        check(&run)?;
    }
    Ok(())
}

/// The guard pauses the peers of NICs, too, with its own frames; nothing is lost.
#[test]
#[ignore = "for cargo xtask vm --cables 3 --test zero_copy"]
fn a_loop_that_is_stopped_loses_nothing_on_nics() -> Result<()> {
    let Incast { run, zero_copy, .. } = incast(Setup { stop: Duration::from_millis(300), ..ON_NICS })?;
    assert_eq!(zero_copy, [true; 3]);
    let by_guard = |name| -> Result<u64> { Ok(port(&run.snapshot, name)?.pfc_guard_frames) };
    let frames = [by_guard("sender1")?, by_guard("sender2")?];
    println!("PFC frames of the guard: {frames:?}");
    ensure!(frames.iter().all(|&frames| frames > 0), "{frames:?}");
    check(&run)
}

/// Frames go from zero-copy ports to copy-mode ports, and back.
#[test]
#[ignore = "for cargo xtask vm --cables 3 --test zero_copy"]
fn both_modes_are_ports_of_one_switch() -> Result<()> {
    for (senders, receiver) in [(true, false), (false, true)] {
        let Incast { run, zero_copy, .. } = incast(Setup { senders, receiver, ..ON_NICS })?;
        assert_eq!(zero_copy, [senders, senders, receiver]);
        check(&run)?;
    }
    Ok(())
}

#[test]
#[ignore = "for cargo xtask vm --cables 3 --test zero_copy"]
fn the_file_may_require_copy_mode() -> Result<()> {
    let Incast { run, zero_copy, .. } = incast(Setup { dataplane: COPIES, ..ON_NICS })?;
    assert_eq!(zero_copy, [false; 3]);
    check(&run)
}

/// A zero-copy port is removed and added, and its interface set down and up, while another pair of
/// hosts sends: at the end all frames of the memory are accounted for.
#[test]
#[ignore = "for cargo xtask vm --cables 3 --test zero_copy"]
fn zero_copy_ports_come_and_go() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let hosts = [bed.nic_host(&switch, "a")?, bed.nic_host(&switch, "b")?, bed.nic_host(&switch, "c")?];
    let ports = hosts.each_ref().map(|at| port_config(&at.name, "100M"));
    let daemon = bed.daemon(&switch, &(switch_config("on") + &ports.concat()))?;
    let text = std::fs::read_to_string(daemon.config())?;
    let flows = [format!("to={},priority=3,size=500,rate=4M", hosts[1].mac())];
    let (sending, receiving) = pair(&bed, &daemon, [&hosts[0], &hosts[1]], &flows, 6)?;
    let run = std::thread::scope(|scope| {
        let churn = scope.spawn(|| -> Result<()> {
            for round in 0..3 {
                std::fs::write(daemon.config(), text.replace(&ports[2], ""))?;
                let started = std::time::Instant::now();
                sluice(&daemon, &["reload"])?;
                let removed = started.elapsed();
                std::fs::write(daemon.config(), &text)?;
                sluice(&daemon, &["reload"])?;
                println!("removed after {removed:?}, added after {:?}", started.elapsed() - removed);
                daemon.until("the port is up", |now| port(now, "c").ok()?.up.then_some(()))?;
                ensure!(is_zero_copy(&daemon, "c")?, "round {round}");
            }
            Ok(())
        });
        let run = run(&[&daemon], sending, receiving, Duration::from_secs(6));
        churn.join().expect("it does not panic")?;
        run
    })?;
    run.switch_lost_nothing(3)?;
    let at_rest = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
    conservation(&at_rest, &[])?;
    let log = daemon.stop()?;
    ensure!(!log.contains("frames are missing"), "{log}");
    Ok(())
}

/// A NIC may lose its carrier for seconds whenever a program or zero-copy sockets are attached or
/// detached, because it then restarts. A port whose interface was down and is up again opens once,
/// and carries frames.
#[test]
#[ignore = "for cargo xtask vm --cables 3 --test zero_copy"]
fn a_nic_that_was_down_comes_back_once() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let hosts = [bed.nic_host(&switch, "a")?, bed.nic_host(&switch, "b")?];
    let ports = hosts.each_ref().map(|at| port_config(&at.name, "100M"));
    let daemon = bed.daemon(&switch, &(switch_config("on") + &ports.concat()))?;
    daemon.until("both ports are up", |now| now.ports.iter().all(|port| port.up).then_some(()))?;
    for _ in 0..2 {
        switch.ip("link set dev b down")?;
        daemon.until("the port is down", |now| (!port(now, "b").ok()?.up).then_some(()))?;
        switch.ip("link set dev b up")?;
        daemon.until("the port is up", |now| port(now, "b").ok()?.up.then_some(()))?;
    }
    ensure!(is_zero_copy(&daemon, "b")?);
    let flows = [format!("to={},priority=3,size=500,rate=4M", hosts[1].mac())];
    let (sending, receiving) = pair(&bed, &daemon, [&hosts[0], &hosts[1]], &flows, 6)?;
    let run = run(&[&daemon], sending, receiving, Duration::from_secs(6))?;
    run.switch_lost_nothing(3)?;
    let log = daemon.stop()?;
    ensure!(log.matches("the interface b is back").count() == 2, "{log}");
    ensure!(!log.contains("frames are missing"), "{log}");
    Ok(())
}

/// A NIC may consume received PFC frames where its driver has not configured it to pass them on.
#[test]
#[ignore = "for cargo xtask vm --cables 3 --test zero_copy"]
fn pfc_of_a_peer_is_received_on_a_nic() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let peer = bed.nic_host(&switch, "a")?;
    let daemon = bed.daemon(&switch, &(switch_config("on") + &port_config("a", "100M")))?;
    let _storming = bed.host(&peer, &[], &["--storm", "3", "--duration", "2s"])?;
    daemon.until("PFC is received", |now| {
        let pauses_received = port(now, "a").ok()?.pfc_received.clone()?;
        (pauses_received.xoff_frames[3] > 0).then_some(())
    })?;
    ensure!(is_zero_copy(&daemon, "a")?);
    daemon.stop()?;
    Ok(())
}

/// The driver of virtio accepts frames of one chunk. If the MTU of a zero-copy port rises while the
/// port is open, the driver gets longer frames, too: they are not sent, and each is counted as
/// lost; shorter frames beside them arrive.
#[test]
#[ignore = "for cargo xtask vm --cables 3 --test zero_copy"]
fn what_the_driver_cannot_take_is_counted() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let receiver = bed.nic_host(&switch, "receiver")?;
    let sender = bed.sluice_host(&switch, "sender")?;
    for (at, interface) in [(&sender.namespace, Endpoint::INTERFACE), (&switch, "sender")] {
        at.ip(&format!("link set dev {interface} mtu 9000"))?;
    }
    let ports = port_config("receiver", "100M") + &port_config("sender", "100M") + "mtu = 9018\n";
    let daemon = bed.daemon(&switch, &(switch_config("on") + &ports))?;
    let flow = |priority, size| format!("to={},priority={priority},size={size},rate=4M", receiver.mac());
    let flows = [flow(3, 1000), flow(0, 5000)];
    let (sending, receiving) = pair(&bed, &daemon, [&sender, &receiver], &flows, 3)?;
    ensure!(is_zero_copy(&daemon, "receiver")?);
    switch.ip("link set dev receiver mtu 9000")?;
    daemon.until("the switch knows the MTU", |now| {
        (port(now, "receiver").ok()?.mtu_bytes == 9000).then_some(())
    })?;
    let run = run(&[&daemon], sending, receiving, Duration::from_secs(3))?;
    let (short, long) = (run.total(3), run.total(0));
    let lost = port(&run.snapshot, "receiver")?.kernel_lost_frames;
    println!("{short:?}; {long:?}; {lost} lost");
    ensure!(short.sent > 0 && short.received == short.sent, "{short:?}");
    ensure!(long.sent > 0 && long.received == 0 && lost == long.sent, "{long:?}, {lost}");
    conservation(&run.snapshot, &run.hosts())?;
    let log = daemon.stop()?;
    ensure!(!log.contains("frames are missing"), "{log}");
    Ok(())
}
