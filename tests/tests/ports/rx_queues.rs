//! Ports of several RX queues, on veths of four: flows arrive on all of them and leave by the
//! first, and no flow loses or reorders a frame (docs/kernel/af-xdp.md, "Several queues").

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testbed::{Daemon, Endpoint, Namespace, Testbed, conservation, eventually, idle, lost_by_kernels, port};
use tests::{
    AMPLE_HEADROOM_CELLS, Bpf, PeriodicStops, bpf_object, group_config, loop_thread, port_config, run,
    sluice, switch_config,
};

const QUEUES: u64 = 4;
const FLOWS: usize = 32;
/// Datagrams of each flow in flight at once: together fewer than a veth's ring of 256 holds, even
/// if all use one queue.
const WINDOW: u32 = 6;

/// Two plain hosts on cables of four queues, and their switch.
fn bed_of_four() -> Result<(Testbed, Namespace, [Endpoint; 2])> {
    let bed = Testbed::new()?;
    bed.set_queues(QUEUES as u32);
    let switch = bed.switch("switch")?;
    let hosts = [bed.linux_host(&switch, "sender")?, bed.linux_host(&switch, "receiver")?];
    Ok((bed, switch, hosts))
}

fn config_of(hosts: &[Endpoint]) -> String {
    let ports: String = hosts.iter().map(|host| port_config(&host.name, "1G")).collect();
    switch_config("on") + &ports
}

/// Flows between two hosts, each with its own UDP ports and a number in each datagram.
struct Flows {
    sending: Vec<UdpSocket>,
    receiving: Vec<UdpSocket>,
    next: u32,
}

impl Flows {
    fn new(from: &Endpoint, to: &Endpoint) -> Result<Self> {
        let bind = |at: &Endpoint, port: usize| -> Result<UdpSocket> {
            let address = (at.ipv4(), port as u16);
            Ok(at.namespace.enter(move || UdpSocket::bind((address.0.as_str(), address.1)))??)
        };
        let mut flows = Self { sending: Vec::new(), receiving: Vec::new(), next: 0 };
        for number in 0..FLOWS {
            let (sending, receiving) = (bind(from, 5000 + number)?, bind(to, 6000 + number)?);
            sending.connect(receiving.local_addr()?)?;
            receiving.set_read_timeout(Some(Duration::from_secs(20)))?;
            flows.sending.push(sending);
            flows.receiving.push(receiving);
        }
        Ok(flows)
    }

    /// Sends `WINDOW` datagrams of each flow, alternating, and receives them all, in order.
    fn round(&mut self) -> Result<()> {
        let numbers = self.next..self.next + WINDOW;
        for number in numbers.clone() {
            for socket in &self.sending {
                socket.send(&number.to_be_bytes())?;
            }
        }
        for (flow, socket) in self.receiving.iter().enumerate() {
            for number in numbers.clone() {
                let mut bytes = [0; 4];
                socket.recv(&mut bytes).with_context(|| format!("flow {flow}, datagram {number}"))?;
                ensure!(u32::from_be_bytes(bytes) == number, "flow {flow}: {bytes:?} in place of {number}");
            }
        }
        self.next = numbers.end;
        Ok(())
    }
}

/// Returns how many frames an XDP program has seen on each RX queue of an interface.
fn frames_by_queue(at: &Namespace, interface: &str) -> Result<Vec<u64>> {
    let statistics = at.run(&format!("ethtool -S {interface}"))?;
    let of_queue = |queue: u64| {
        let name = format!("rx_queue_{queue}_xdp_packets:");
        let line = statistics
            .lines()
            .find_map(|line| line.trim().strip_prefix(&name))
            .context(statistics.clone())?;
        Ok(line.trim().parse()?)
    };
    (0..QUEUES).map(of_queue).collect()
}

fn queues_shown(daemon: &Daemon, name: &str) -> Result<String> {
    let verbose = sluice(daemon, &["show", "ports", "--verbose"])?;
    let paragraph = verbose
        .split("\n\n")
        .find(|text| text.starts_with(&format!("Port {name} ")))
        .context(name.to_owned())?;
    let line = paragraph.lines().find_map(|line| line.trim().strip_prefix("Queues"));
    Ok(line.context(verbose.clone())?.trim().to_owned())
}

/// Flows spread over all queues of their ingress port; each keeps its order, none loses a frame,
/// and all leave by one queue. The same after the interface was deleted and made again.
#[test]
fn flows_on_all_queues_lose_nothing_and_keep_their_order() -> Result<()> {
    let (bed, switch, hosts) = bed_of_four()?;
    let [sender, receiver] = &hosts;
    let pass = bpf_object(&bed, Bpf::XdpPass)?;
    // With this program the kernel also counts frames to the host by queue.
    let attach = format!("link set dev {} xdpdrv obj {} sec xdp", Endpoint::INTERFACE, pass.display());
    receiver.namespace.ip(&attach)?;
    let daemon = bed.daemon(&switch, &config_of(&hosts))?;
    for host in &hosts {
        assert_eq!(queues_shown(&daemon, &host.name)?, "4 to receive, 4 to send");
    }
    for again in [false, true] {
        if again {
            switch.ip("link del sender")?;
            daemon.until("the port is down", |now| (!port(now, "sender").ok()?.up).then_some(()))?;
            bed.reconnect(sender, &switch)?;
            daemon.until("the port is up", |now| port(now, "sender").ok()?.up.then_some(()))?;
        }
        eventually("the sender reaches the receiver", || {
            Ok(sender.namespace.run(&format!("ping -c 1 -W 1 {}", receiver.ipv4())).ok())
        })?;
        let of_guard = || -> Result<u64> { Ok(port(&daemon.snapshot()?, "receiver")?.pfc_guard_frames) };
        let of_guard_before = of_guard()?;
        let before = frames_by_queue(&receiver.namespace, Endpoint::INTERFACE)?;
        let mut flows = Flows::new(sender, receiver)?;
        (0..50).try_for_each(|_| flows.round())?;
        let came = frames_by_queue(&switch, "sender")?;
        let left = frames_by_queue(&receiver.namespace, Endpoint::INTERFACE)?;
        println!("came in by queue: {came:?}; left: {before:?} → {left:?}");
        ensure!(came.iter().filter(|&&frames| frames > 0).count() > 1, "the flows share one queue: {came:?}");
        ensure!(came.iter().sum::<u64>() >= u64::from(flows.next) * FLOWS as u64, "{came:?}");
        ensure!(left[0] - before[0] >= u64::from(flows.next) * FLOWS as u64, "{before:?}, {left:?}");
        // PFC frames of the guard, if the loop stalled meanwhile, leave by any queue that the
        // kernel picks.
        let by_others = left[1..].iter().sum::<u64>() - before[1..].iter().sum::<u64>();
        let of_guard = of_guard()? - of_guard_before;
        println!("by other queues: {by_others}, the guard's: {of_guard}");
        ensure!(
            by_others <= of_guard,
            "{by_others} left by other queues than the first, {of_guard} are the guard's"
        );
    }
    let at_rest = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
    conservation(&at_rest, &[])?;
    assert_eq!(lost_by_kernels(&at_rest, []), 0);
    daemon.stop()?;
    Ok(())
}

/// The loop is stopped for 50 ms repeatedly while a host that sends 64-byte frames of a no-drop
/// priority fills one of four queues. The other three have room, but that does not help, so the
/// host is paused; nothing is lost.
#[test]
fn one_full_queue_of_four_pauses_the_peer() -> Result<()> {
    const SECONDS: u64 = 6;
    let bed = Testbed::new()?;
    bed.set_queues(QUEUES as u32);
    let switch = bed.switch("switch")?;
    let hosts = [bed.sluice_host(&switch, "sender")?, bed.sluice_host(&switch, "receiver")?];
    let groups = hosts.each_ref().map(|host| group_config(&host.name, AMPLE_HEADROOM_CELLS)).concat();
    let mut daemon = bed.daemon(&switch, &(config_of(&hosts) + &groups))?;
    let thread = loop_thread(&mut daemon)?;
    let flow = format!("to={},priority=3,size=64,rate=1G", hosts[1].mac());
    let lasts = format!("{SECONDS}s");
    let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", &lasts];
    let sending = vec![bed.host(&hosts[0], &[flow], &arguments)?];
    let receiving = vec![bed.host(&hosts[1], &[], &["--speed", "1G", "--no-drop", "3"])?];
    daemon.until_announced(2)?;
    let (stop, period) = (Duration::from_millis(50), Duration::from_millis(400));
    let stops = PeriodicStops::new(thread, stop, period, Duration::from_secs(SECONDS - 2));
    let run = run(&[&daemon], sending, receiving, Duration::from_secs(SECONDS))?;
    let (total, stops) = (run.total(3), stops.end()?);
    let came = frames_by_queue(&switch, "sender")?;
    println!("{total:?}, {stops} stops; came in by queue: {came:?}");
    ensure!(stops > 1, "{stops} stops");
    assert_eq!(came[1..], [0; 3], "a host that sends by AF_XDP has one queue");
    run.switch_lost_nothing(3)?;
    let sent = port(&run.snapshot, "sender")?.pfc_sent.clone().unwrap_or_default();
    ensure!(sent.xoff_frames[3] > 0, "the peer was paused: {sent:?}");
    conservation(&run.snapshot, &run.hosts())?;
    daemon.stop()?;
    Ok(())
}
