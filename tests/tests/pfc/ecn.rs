//! Congestion signaled before frames drop: ECN and WRED on real veths, with packets of a real
//! kernel (docs/behavior.md, "WRED and ECN").

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{Context, Result};
use control::v1::{ByDropLevel, Count};
use host::report::Latency;
use nix::sys::socket::{setsockopt, sockopt::Ipv4Tos};
use serde_json::Value;
use testbed::{
    ANNOUNCEMENT_QUEUE, Daemon, Endpoint, Process, Snapshot, Testbed, conservation, drops, idle, port,
};
use tests::{Capture, Total, TrafficRun, frames, pause, port_config, run, slow_port_config, sluice};

/// Bytes of a datagram whose frame is 300 bytes, and the cells of 256 bytes that it takes.
const PAYLOAD: usize = 300 - 14 - 20 - 8;
const CELLS: u64 = 2;

/// Returns WRED's drops of frames without an assigned drop level.
fn green(wred: Option<ByDropLevel>) -> Option<Count> {
    wred?.green
}

/// A frame of every ECN field through a queue with one sharp limit: ECT above it is marked and
/// never dropped, CE stays CE, Not-ECT above it drops on a lossy queue. Checksums verify at the
/// receiver.
#[test]
fn udp_is_marked_or_dropped_by_its_ecn_bits() -> Result<()> {
    const LIMIT_FRAMES: u64 = 10;
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (sender, receiver) = (bed.sluice_host(&switch, "sender")?, bed.sluice_host(&switch, "receiver")?);
    let limit = format!("low_cells = {0}, high_cells = {0}, probability_percent = 100", LIMIT_FRAMES * CELLS);
    let daemon = bed.daemon(
        &switch,
        &format!(
            "[wred.sharp.queue.2]\nweighting_exponent = 0\necn = true\ngreen = {{ {limit} }}\n\
             [port.sender]\ninterface = \"sender\"\n\
             [port.receiver]\ninterface = \"receiver\"\nwred = \"sharp\"\n"
        ),
    )?;
    let dev = Endpoint::INTERFACE;
    sender.namespace.ip(&format!("addr add {}/24 dev {dev}", sender.ipv4()))?;
    let peer = format!("{} lladdr {} dev {dev} nud permanent", receiver.ipv4(), receiver.mac());
    sender.namespace.ip(&format!("neigh replace {peer}"))?;
    let capture = Capture::start(&bed, &receiver, "udp")?;
    let socket = sender.namespace.enter(|| UdpSocket::bind((sender.ipv4().as_str(), 0)))??;
    let send = |ecn: i32, count: u64| -> Result<Snapshot> {
        setsockopt(&socket, Ipv4Tos, &ecn)?;
        let before = frames(port(&daemon.snapshot()?, "sender")?.received);
        for _ in 0..count {
            socket.send_to(&[0x5a; PAYLOAD], (receiver.ipv4().as_str(), 4000))?;
        }
        daemon.until("the frames have come in", |now| {
            (frames(port(now, "sender").ok()?.received) >= before + count).then(|| now.clone())
        })
    };
    let queue = |now: &Snapshot| Ok::<_, anyhow::Error>(port(now, "receiver")?.queues[2]);

    sluice(&daemon, &["port", "hold", "receiver"])?;
    let now = send(0b10, LIMIT_FRAMES)?;
    assert_eq!(frames(queue(&now)?.marked), 0, "up to the limit nothing is marked");
    let now = send(0b10, 40)?;
    assert_eq!(frames(queue(&now)?.marked), 40, "ECT(0)");
    let now = send(0b01, 5)?;
    assert_eq!(frames(queue(&now)?.marked), 45, "ECT(1)");
    let now = send(0b11, 3)?;
    assert_eq!(frames(queue(&now)?.marked), 45, "CE is marked already");
    assert_eq!([drops(&now, "wred"), drops(&now, "tail_drop")], [0, 0], "nothing that understands ECN drops");
    let now = send(0b00, 7)?;
    assert_eq!((drops(&now, "wred"), frames(green(queue(&now)?.wred_dropped))), (7, 7), "Not-ECT drops");
    sluice(&daemon, &["port", "release", "receiver"])?;

    let fields = ["ip.dsfield.ecn", "ip.checksum.status", "udp.checksum.status"];
    let arrived = capture.wait_for("udp.dstport == 4000", &fields, 58)?;
    let count = |ecn: &str| arrived.iter().filter(|fields| fields[0] == ecn).count();
    assert_eq!((arrived.len(), count("2"), count("1"), count("3")), (58, 10, 0, 48));
    for fields in &arrived {
        assert_eq!(fields[1..], ["1".to_owned(), "1".to_owned()], "checksums are good");
    }

    let shown: Value =
        serde_json::from_str(&sluice(&daemon, &["show", "congestion", "--json", "--rates=0.1"])?)?;
    let queues = shown["queues"].as_array().context("queues")?;
    let queue = queues.iter().find(|queue| queue["port"] == "receiver" && queue["queue"] == 2);
    let queue = queue.context("the receiver's queue 2")?;
    assert_eq!(
        (&queue["transmitted"]["frames"], &queue["marked"]["frames"]),
        (&58.into(), &45.into()),
        "{queue}"
    );
    assert_eq!(
        (&queue["wred_dropped"]["green"]["frames"], &queue["transmitted_pps"]),
        (&7.into(), &0.into()),
        "{queue}"
    );
    let table = sluice(&daemon, &["show", "congestion", "--port", "receiver"])?;
    assert!(table.contains("marked") && table.contains("receiver  2"), "{table}");
    daemon.stop().map(drop)
}

/// Results of a run of TCP over a congested port.
#[derive(Debug)]
struct Tcp {
    bps: f64,
    retransmits: u64,
    /// Segments that the receiver reported to the sender as marked.
    delivered_ce: u64,
    marked: u64,
    wred_dropped: u64,
    tail_dropped: u64,
}

/// Linux TCP for four seconds into a port of 50 Mbit/s whose queue has WRED with ECN; both hosts
/// request ECN, or neither does.
fn tcp(ecn: bool) -> Result<Tcp> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.linux_host(&switch, "a")?, bed.linux_host(&switch, "b")?);
    let daemon = bed.daemon(
        &switch,
        "[buffer]\ntotal_cells = 32768\nheadroom_cells = 1024\n\
         [wred.early.queue.2]\nweighting_exponent = 4\necn = true\n\
         green = { low_cells = 60, high_cells = 600, probability_percent = 20 }\n\
         [port.a]\ninterface = \"a\"\n\
         [port.b]\ninterface = \"b\"\nspeed = \"50M\"\nburst_bytes = 312500\nwred = \"early\"\n",
    )?;
    for station in [&a, &b] {
        station.namespace.sysctl("net/ipv4/tcp_ecn", if ecn { "1" } else { "0" })?;
        // One segment per frame, as a switch sees a host on a real link.
        station.namespace.run(&format!("ip link set {} gso_max_segs 1", Endpoint::INTERFACE))?;
    }
    let mut server = b.namespace.command("iperf3");
    let mut server = Process::start("iperf3", server.args(["-s", "-1", "--forceflush"]))?;
    server.wait_for("a server that listens", |line| line.contains("listening").then_some(()))?;
    let output = a.namespace.run(&format!("iperf3 -c {} -t 4 -J", b.ipv4()))?;
    let end = &serde_json::from_str::<Value>(&output)?["end"];
    let now = at_rest(&daemon)?;
    let queue = port(&now, "b")?.queues[2];
    let tcp = Tcp {
        bps: end["sum_received"]["bits_per_second"].as_f64().context("iperf3 tells its rate")?,
        retransmits: end["sum_sent"]["retransmits"].as_u64().context("iperf3 tells retransmits")?,
        delivered_ce: counter(&a, "TcpExtTCPDeliveredCE")?,
        marked: frames(queue.marked),
        wred_dropped: frames(green(queue.wred_dropped)),
        tail_dropped: frames(queue.dropped),
    };
    println!("ECN {ecn}: {tcp:?}");
    conservation(&now, &[])?;
    daemon.stop()?;
    Ok(tcp)
}

fn at_rest(daemon: &Daemon) -> Result<Snapshot> {
    daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))
}

/// Returns a counter of a host's kernel.
fn counter(station: &Endpoint, name: &str) -> Result<u64> {
    let output = station.namespace.run(&format!("nstat -azs {name}"))?;
    let line = output.lines().find(|line| line.starts_with(name)).with_context(|| output.clone())?;
    Ok(line.split_whitespace().nth(1).context("a value")?.parse()?)
}

/// With ECN a real TCP is marked, gets the echo, slows down and loses nothing; without it, the same
/// queue drops.
#[test]
fn tcp_with_ecn_loses_nothing_and_without_it_does() -> Result<()> {
    let with = tcp(true)?;
    // Pure acknowledgements are never ECT (RFC 3168 6.1.4), so a few of the other connection may
    // drop; no data segment does.
    assert_eq!((with.retransmits, with.tail_dropped), (0, 0), "{with:?}");
    assert!(with.wred_dropped * 50 < with.marked, "{with:?}");
    assert!(with.marked > 0 && with.delivered_ce > 0, "the sender learned of the marks: {with:?}");
    let without = tcp(false)?;
    assert_eq!((without.marked, without.delivered_ce), (0, 0), "{without:?}");
    assert!(without.wred_dropped > 0 && without.retransmits > 0, "{without:?}");
    // Marks do not reduce goodput: both fill the port.
    assert!(with.bps > 45e6 && without.bps > 30e6, "{with:?} {without:?}");
    Ok(())
}

/// Results of an incast on a no-drop priority.
#[derive(Debug)]
struct Incast {
    run: TrafficRun,
    /// Rate on the receiver's line while both senders sent: average and median.
    carried_bps: f64,
    typical_bps: f64,
    /// Fraction of the snapshots in which its queue was not empty.
    busy: f64,
    /// Times that a sender was paused, both senders together, and the XOFF frames for that, without
    /// those of the guard, which are unrelated to congestion.
    xoff_episodes: u64,
    xoff_frames: u64,
    marked: u64,
    /// Median and 99th percentile of the latency from sender to receiver, in ms, of the worse flow.
    latency_ms: [f64; 2],
}

/// Two senders of 600 Mbit/s on priority 3, no-drop, into a port of 500 Mbit/s, for ten seconds.
/// With `ecn` the port marks and the hosts react; without it, there is PFC alone.
///
/// The thresholds are for a machine so busy that any program may stall for tens of milliseconds:
/// 8192 cells are 33 ms of the receiver's line, and the headroom takes what one sender sends in 80
/// ms.
fn incast(ecn: bool) -> Result<Incast> {
    const TEN_SECONDS: Duration = Duration::from_secs(10);
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let senders = [bed.sluice_host(&switch, "sender1")?, bed.sluice_host(&switch, "sender2")?];
    let receiver = bed.sluice_host(&switch, "receiver")?;
    let mut config = format!(
        "[buffer]\nheadroom_cells = 49152\n\n[port-defaults]\nport_priority = {ANNOUNCEMENT_QUEUE}\n\n\
         [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n"
    );
    for sender in &senders {
        config += &port_config(&sender.name, "2G");
        config += &format!(
            "\n[port.{}.pfc.priority.3]\nxoff = {{ static_cells = 32768 }}\nxon_offset_cells = 2048\n\
             headroom_cells = 24576\n",
            sender.name
        );
    }
    config += &slow_port_config("receiver", 500);
    if ecn {
        config += "wred = \"early\"\n\n[wred.early.queue.3]\necn = true\nmark = \"dequeue\"\n\
                   weighting_exponent = 0\n\
                   green = { low_cells = 8192, high_cells = 24576, probability_percent = 1 }\n";
    }
    let daemon = bed.daemon(&switch, &config)?;
    let reacts = if ecn { &["--react-to-ecn"][..] } else { &[] };
    let flows = [format!("to={},priority=3,size=1500,rate=600M,ecn=ect0", receiver.mac())];
    let arguments = [&["--speed", "2G", "--no-drop", "3", "--duration", "10s"], reacts].concat();
    let sending = senders.iter().map(|at| bed.host(at, &flows, &arguments)).collect::<Result<_>>()?;
    let arguments = [&["--speed", "500M", "--no-drop", "3"], reacts].concat();
    let receiving = bed.host(&receiver, &[], &arguments)?;
    daemon.until_announced(3)?;
    let run = run(&[&daemon], sending, vec![receiving], TEN_SECONDS)?;
    conservation(&run.snapshot, &run.hosts())?;
    daemon.stop()?;

    let (mut xoff_episodes, mut xoff_frames) = (0, 0);
    for sender in &senders {
        let port = port(&run.snapshot, &sender.name)?;
        xoff_episodes += port.groups[3].xoff_episodes;
        xoff_frames += port.pfc_sent.as_ref().map_or(0, |pfc| pfc.xoff_frames[3]) - port.pfc_guard_frames;
    }
    let worst = |of: fn(&Latency) -> u64| {
        let flows = run.report("receiver")?.received.iter();
        Ok::<_, anyhow::Error>(flows.map(|flow| of(&flow.latency_ns)).max().unwrap_or(0) as f64 / 1e6)
    };
    Ok(Incast {
        carried_bps: run.carried_bps("receiver")?,
        typical_bps: run.typical_bps("receiver")?,
        busy: run.busy_part("receiver", 3)?,
        xoff_episodes,
        xoff_frames,
        marked: frames(port(&run.snapshot, "receiver")?.queues[3].marked),
        latency_ms: [worst(|latency| latency.p50)?, worst(|latency| latency.p99)?],
        run,
    })
}

impl Incast {
    /// Prints the results in the format of docs/performance.md.
    fn print(&self, what: &str) {
        let [p50, p99] = self.latency_ms;
        println!(
            "{what}: carried {:.1} Mbit/s on average, {:.1} typically, queue filled {:.0} % of the time, {} XOFF episodes \
             ({} frames), {} marked, latency p50 {p50:.1} ms, p99 {p99:.1} ms",
            self.carried_bps / 1e6,
            self.typical_bps / 1e6,
            self.busy * 100.0,
            self.xoff_episodes,
            self.xoff_frames,
            self.marked,
        );
    }
}

/// ECN acts before PFC: with hosts that slow down on marks, the switch hardly ever pauses them, and
/// the slow port carries as much. Nothing is lost either way.
#[test]
fn hosts_that_react_to_marks_are_hardly_ever_paused() -> Result<()> {
    let pfc = incast(false)?;
    pfc.print("PFC alone");
    let ecn = incast(true)?;
    ecn.print("ECN and PFC");
    for incast in [&pfc, &ecn] {
        let total = incast.run.total(3);
        assert_eq!(total, Total { sent: total.sent, received: total.sent, ..Total::default() });
        for (port, report) in &incast.run.reports {
            assert_eq!(pause(report, 3).sent_while_paused, 0, "{port} honors pauses");
        }
    }
    assert!(pfc.xoff_episodes >= 100, "without pauses there is nothing to save: {}", pfc.xoff_episodes);
    assert!(ecn.xoff_episodes * 10 <= pfc.xoff_episodes, "{} of {}", ecn.xoff_episodes, pfc.xoff_episodes);
    assert!(ecn.xoff_frames * 10 <= pfc.xoff_frames, "{} of {}", ecn.xoff_frames, pfc.xoff_frames);
    // Equal goodput: the line always had a frame to send, as with PFC alone, and its median rate is
    // the same. The average also includes times when the machine did not run the switch.
    let (with, without) = (ecn.typical_bps, pfc.typical_bps);
    assert!((without * 0.95..without * 1.05).contains(&with), "{with} bit/s with ECN, {without} without");
    assert!(ecn.busy >= 0.95 && pfc.busy >= 0.95, "{} with ECN, {} without", ecn.busy, pfc.busy);

    assert_eq!((pfc.marked, pfc.run.report("receiver")?.cnps_sent), (0, 0));
    let receiver = ecn.run.report("receiver")?;
    let arrived: u64 = receiver.received.iter().map(|flow| flow.received_ce_frames).sum();
    assert_eq!(arrived, ecn.marked, "marks that the switch made and the receiver saw");
    let reported =
        ["sender1", "sender2"].map(|name| ecn.run.report(name).map_or(0, |report| report.cnps_received));
    assert!(reported.iter().all(|&cnps| cnps > 0), "{reported:?}");
    assert_eq!(reported.iter().sum::<u64>(), receiver.cnps_sent, "CNPs");
    for sender in ["sender1", "sender2"] {
        let flow = &ecn.run.report(sender)?.sent[0];
        assert!(flow.reaction_lowest_bps < 500_000_000 && flow.cnps_received > 0, "{flow:?}");
    }
    Ok(())
}
