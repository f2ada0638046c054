//! A part of docs/references.md, "Conformance list", on a running daemon, on real veths, with
//! margin 0: frames come from a kernel that sends exactly the requested frames and honors no pause,
//! and "tx off" is `sluice port hold`.

use std::net::UdpSocket;

use anyhow::{Context, Result};
use testbed::{Daemon, Endpoint, Namespace, Snapshot, Testbed, drops, idle, port};
use tests::{Capture, frames, sluice};
use wire::ethernet::{EXPERIMENTAL, Tag, write_header};
use wire::mac::MacAddr;
use wire::pause::{self, Pfc};
use xdp::PacketSocket;

/// Bytes of a frame without FCS, and the cells of 256 bytes that it takes.
const FRAME_BYTES: usize = 300;
const CELLS: u32 = 2;
const HEADERS: usize = 14 + 20 + 8;
/// The priority of untagged frames from the sender.
const P: usize = 5;

/// Reserved, XOFF, headroom, and the lossy queue's maximum, in frames of the test.
const RESERVED: u32 = 8;
const XOFF: u32 = 40;
const HEADROOM: u32 = 20;

/// A sender whose kernel sends nothing by itself, and two receivers that are silent.
struct Bench {
    bed: Testbed,
    daemon: Daemon,
    sender: Endpoint,
    socket: UdpSocket,
    /// Addresses of the receivers.
    to: [String; 2],
}

impl Bench {
    fn new(no_drop: &str, classify: &str) -> Result<Self> {
        let bed = Testbed::new()?;
        let switch = bed.switch("switch")?;
        let sender = bed.sluice_host(&switch, "sender")?;
        let receivers = [bed.sluice_host(&switch, "first")?, bed.sluice_host(&switch, "second")?];
        let daemon = bed.daemon(&switch, &config(no_drop, classify))?;
        sender.namespace.ip(&format!("addr add {}/24 dev {}", sender.ipv4(), Endpoint::INTERFACE))?;
        for receiver in &receivers {
            let (ip, mac, dev) = (receiver.ipv4(), receiver.mac(), Endpoint::INTERFACE);
            sender.namespace.ip(&format!("neigh replace {ip} lladdr {mac} dev {dev} nud permanent"))?;
            introduce(&receiver.namespace, receiver, &sender, &daemon)?;
        }
        let socket = sender.namespace.enter(|| UdpSocket::bind((sender.ipv4().as_str(), 0)))??;
        let to = receivers.map(|receiver| receiver.ipv4());
        let bench = Self { bed, daemon, sender, socket, to };
        bench.daemon.until("the switch is at rest", |now| idle(now).then_some(()))?;
        Ok(bench)
    }

    /// Sends `count` frames to receiver 0 or 1; the switch has them all when this returns.
    fn send(&self, count: u32, receiver: usize) -> Result<Snapshot> {
        let before = received(&self.daemon.snapshot()?)?;
        let mut now = None;
        for sent in 1..=count {
            self.socket.send_to(&vec![0x5a; FRAME_BYTES - HEADERS], (self.to[receiver].as_str(), 4000))?;
            if sent % 64 == 0 || sent == count {
                // At most as many at once as the kernel's ring of 256 holds.
                let wanted = before + u64::from(sent);
                now = Some(self.daemon.until("the frames have come in", |now| {
                    (received(now).ok()? >= wanted).then(|| now.clone())
                })?);
            }
        }
        now.context("at least one frame")
    }

    fn hold(&self, port: &str, held: bool) -> Result<()> {
        sluice(&self.daemon, &["port", if held { "hold" } else { "release" }, port]).map(drop)
    }
}

fn config(no_drop: &str, classify: &str) -> String {
    let cells = |frames: u32| frames * CELLS;
    format!(
        "[switch]\nname = \"under-test\"\n\
         [port-defaults]\nport_priority = {P}\n{classify}\n\
         [port-defaults.pfc]\nmode = \"on\"\nno_drop = {no_drop}\n\
         [port-defaults.pfc.priority.{P}]\nreserved_cells = {}\nxoff = {{ static_cells = {} }}\n\
         xon_offset_cells = {}\nheadroom_cells = {}\n\
         [port-defaults.buffer.egress.queue.6]\nguaranteed_percent = 0\nshared_cells = {}\n\
         [port.sender]\ninterface = \"sender\"\n[port.first]\ninterface = \"first\"\n\
         [port.second]\ninterface = \"second\"\n",
        cells(RESERVED),
        cells(XOFF),
        cells(XOFF - 10), // XON at 10 frames of shared cells
        cells(HEADROOM),
        cells(XOFF),
    )
}

/// Sends a frame from a receiver, so that the switch learns its port also where the kernel does not
/// tell its address.
fn introduce(namespace: &Namespace, receiver: &Endpoint, sender: &Endpoint, daemon: &Daemon) -> Result<()> {
    let received = |now: &Snapshot| now.ports.iter().map(|port| frames(port.received)).sum::<u64>();
    let before = received(&daemon.snapshot()?);
    let dev = Endpoint::INTERFACE;
    namespace.ip(&format!("addr add {}/24 dev {dev}", receiver.ipv4()))?;
    namespace.ip(&format!(
        "neigh replace {} lladdr {} dev {dev} nud permanent",
        sender.ipv4(),
        sender.mac()
    ))?;
    let socket = namespace.enter(|| UdpSocket::bind((receiver.ipv4().as_str(), 0)))??;
    socket.send_to(&[0; 20], (sender.ipv4().as_str(), 4000))?;
    daemon.until("the switch knows the receiver", |now| (received(now) > before).then_some(()))?;
    // It has no address from here on, so it sends no responses.
    namespace.ip(&format!("addr flush dev {dev}")).map(drop)
}

fn received(snapshot: &Snapshot) -> Result<u64> {
    Ok(frames(port(snapshot, "sender")?.received))
}

fn xoff_sent(snapshot: &Snapshot) -> Result<u64> {
    Ok(port(snapshot, "sender")?.pfc_sent.clone().unwrap_or_default().xoff_frames[P])
}

/// Returns the drops for lack of room, at ingress and egress.
fn lost(snapshot: &Snapshot) -> [u64; 3] {
    ["ingress_no_drop", "ingress_lossy", "tail_drop"].map(|reason| drops(snapshot, reason))
}

/// PFC thresholds, headroom, watermarks, XON: each step is checked one frame before and one frame
/// after.
#[test]
fn thresholds_of_a_no_drop_group() -> Result<()> {
    let bench = Bench::new("[5]", "")?;
    let capture = Capture::start(&bench.bed, &bench.sender, "ether proto 0x8808")?;
    bench.hold("first", true)?;
    bench.hold("second", true)?;

    let to_xoff = RESERVED + XOFF;
    let now = bench.send(to_xoff - 11, 0)?;
    assert_eq!((xoff_sent(&now)?, lost(&now)), (0, [0; 3]));
    let now = bench.send(10, 1)?;
    assert_eq!((xoff_sent(&now)?, lost(&now)), (0, [0; 3]), "one frame short of XOFF");
    let group = port(&now, "sender")?.groups[P];
    let shared = group.shared.context("a level")?;
    assert_eq!((group.reserved_cells, shared.cells), (RESERVED * CELLS, (XOFF - 1) * CELLS));

    let now = bench.send(1, 1)?;
    bench.daemon.until("XOFF is sent", |now| (xoff_sent(now).ok()? > 0).then_some(()))?;
    assert_eq!(lost(&now), [0; 3]);
    let now = bench.send(HEADROOM, 0)?;
    assert_eq!(lost(&now), [0; 3], "headroom takes what still comes");
    let before = xoff_sent(&now)?;
    bench.daemon.until("XOFF is refreshed", |now| (xoff_sent(now).ok()? > before + 2).then_some(()))?;
    let now = bench.send(1, 0)?;
    assert_eq!(lost(&now), [1, 0, 0], "one more: one ingress drop");
    let group = port(&now, "sender")?.groups[P];
    let (shared, headroom, total) = (
        group.shared.context("a level")?,
        group.headroom.context("a level")?,
        group.total.context("a level")?,
    );
    assert_eq!((shared.peak_cells, headroom.peak_cells), (XOFF * CELLS, HEADROOM * CELLS));
    assert_eq!(total.peak_cells, (RESERVED + XOFF + HEADROOM) * CELLS);
    assert_eq!(frames(group.dropped), 1);

    // 11 frames leave, which is not enough; then all others do.
    bench.hold("second", false)?;
    let now = bench.daemon.until("11 frames have left", |now| {
        (frames(port(now, "second").ok()?.transmitted) >= 11).then(|| now.clone())
    })?;
    let xon = |now: &Snapshot| {
        Ok::<_, anyhow::Error>(port(now, "sender")?.pfc_sent.clone().unwrap_or_default().xon_frames[P])
    };
    assert_eq!(xon(&now)?, 0);
    let before = xoff_sent(&now)?;
    bench.daemon.until("XOFF is refreshed", |now| (xoff_sent(now).ok()? > before + 2).then_some(()))?;
    bench.hold("first", false)?;
    let now = bench.daemon.until("XON", |now| (xon(now).ok()? > 1 && idle(now)).then(|| now.clone()))?;
    assert_eq!((xon(&now)?, lost(&now)), (2, [1, 0, 0]), "XON is repeated once");
    assert_eq!(port(&now, "sender")?.groups[P].xoff_episodes, 1);

    // On the wire: XOFFs of this priority alone, then XON and its repetition at the end.
    let reported = capture.wait_for(
        "macc",
        &["macc.cbfc.enbv", "macc.cbfc.pause_time.c5"],
        xoff_sent(&now)? as usize + 2,
    )?;
    let times: Vec<&str> = reported.iter().map(|fields| fields[1].as_str()).collect();
    assert!(reported.iter().all(|fields| fields[0] == "0x0020"), "{reported:?}");
    let (before, last) = times.split_last_chunk::<2>().context("PFC frames")?;
    assert!(before.iter().all(|time| *time == "65535") && *last == ["0", "0"], "{times:?}");
    bench.daemon.stop().map(drop)
}

/// Lossy queue: full to its limit, no drop and no PFC; one more frame is one egress drop, no
/// ingress drop and no PFC.
#[test]
fn drop_point_of_a_lossy_queue() -> Result<()> {
    // The policy of these ports: untagged frames have priority 6 and are lossy.
    let bench = Bench::new("[5]", "dot1p_to_queue = [2, 0, 1, 3, 4, 5, 6, 7]")?;
    let text = std::fs::read_to_string(bench.daemon.config())?;
    std::fs::write(bench.daemon.config(), text.replace("port_priority = 5", "port_priority = 6"))?;
    sluice(&bench.daemon, &["reload"])?;
    bench.hold("first", true)?;
    let now = bench.send(XOFF, 0)?;
    assert_eq!(lost(&now), [0; 3]);
    let now = bench.send(1, 0)?;
    assert_eq!(lost(&now), [0, 0, 1], "one more: one egress drop");
    let queue = port(&now, "first")?.queues[6];
    assert_eq!(frames(queue.dropped), 1);
    assert_eq!(queue.level.context("a level")?.cells, XOFF * CELLS);
    assert_eq!(port(&now, "sender")?.pfc_sent.clone().unwrap_or_default().frames, 0, "no PFC");
    bench.hold("first", false)?;
    bench.daemon.until("the queue is empty", |now| idle(now).then_some(()))?;
    bench.daemon.stop().map(drop)
}

/// Mapping: packets of a DSCP move the counters of its group and queue by exactly their number, and
/// arrive as they were sent.
#[test]
fn mapping_of_dscp() -> Result<()> {
    let bench = Bench::new("[5]", "trust = \"dscp\"\ndscp_to_queue = { \"46\" = 7 }")?;
    let to = &bench.to[0];
    for (tos, priority, queue) in [(46 << 2, 5, 7), (26 << 2, 3, 3), (0, 0, 2)] {
        let before = bench.daemon.snapshot()?;
        // There are no responses: only the sent packets count.
        let _ = bench.sender.namespace.run(&format!("ping -c 3 -i 0.01 -W 1 -Q {tos} {to}"));
        let after = bench.daemon.until("3 frames have gone through", |now| {
            (received(now).ok()? >= received(&before).ok()? + 3 && idle(now)).then(|| now.clone())
        })?;
        let moved = |of: &dyn Fn(&Snapshot) -> Result<Vec<u64>>| {
            let (before, after) = (of(&before)?, of(&after)?);
            Ok::<Vec<u64>, anyhow::Error>(
                before.iter().zip(after).map(|(before, after)| after - before).collect(),
            )
        };
        let groups = |now: &Snapshot| {
            Ok(port(now, "sender")?.groups.iter().map(|group| frames(group.received)).collect())
        };
        let queues = |now: &Snapshot| {
            Ok(port(now, "first")?.queues.iter().map(|queue| frames(queue.transmitted)).collect())
        };
        let only = |n: usize| (0..8).map(|at| if at == n { 3 } else { 0 }).collect::<Vec<u64>>();
        assert_eq!(
            (moved(&groups)?, moved(&queues)?),
            (only(priority), only(queue)),
            "type of service {tos}"
        );
    }
    bench.daemon.stop().map(drop)
}

/// Row 280: a host that pauses priority 3 stops its multicast, which a map puts into the queue of
/// priority 2's unicast, and not that unicast.
#[test]
fn a_pause_of_multicast_stops_no_unicast_of_another_priority() -> Result<()> {
    const MULTICAST: MacAddr = MacAddr([1, 0, 0x5e, 0, 0, 1]);
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    // A slow quantum, so that a pause lasts until XON.
    let config = "[switch]\nname = \"under-test\"\n[bridge]\nmulticast_to_queue = [0, 1, 2, 1, 4, 5, 6, 7]\n\
        [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n[port.a]\ninterface = \"a\"\n[port.b]\ninterface = \"b\"\n\
        [port.b.pfc]\npause_speed = \"1M\"\n";
    let daemon = bed.daemon(&switch, config)?;
    let open = |station: &Endpoint| station.namespace.enter(|| PacketSocket::open(Endpoint::INTERFACE));
    let (from_a, from_b) = (open(&a)??, open(&b)??);
    let send = |socket: &PacketSocket, from: &Endpoint, to: MacAddr, priority: u8| -> Result<()> {
        let mut frame = [0; 64];
        write_header(&mut frame, to, from.mac().parse()?, Some(Tag::priority(priority)), EXPERIMENTAL);
        Ok(socket.send(&frame)?)
    };
    let send_line = |quanta: u16| -> Result<()> {
        let mut frame = [0; pause::FRAME_BYTES];
        Pfc { enable: 1 << 3, quanta: [quanta; 8] }.encode(b.mac().parse()?, &mut frame);
        Ok(from_b.send(&frame)?)
    };
    send(&from_b, &b, a.mac().parse()?, 0)?;
    send_line(u16::MAX)?;
    daemon.until("b is known, and has paused priority 3", |now| {
        let b = port(now, "b").ok()?;
        (frames(b.received) == 1 && b.priorities[3].paused && idle(now)).then_some(())
    })?;

    (0..3).try_for_each(|_| send(&from_a, &a, MULTICAST, 3))?;
    (0..5).try_for_each(|_| send(&from_a, &a, b.mac().parse()?, 2))?;
    let queue = |now: &Snapshot| Some(port(now, "b").ok()?.queues[1]);
    let waits = daemon.until("the unicast has left", |now| {
        queue(now).filter(|queue| frames(queue.transmitted) == 5 && queue.flooded_frames == 3)
    })?;
    assert_eq!((waits.paused, waits.flooded_paused, waits.waiting_frames), (false, true, 3));
    let shown = sluice(&daemon, &["show", "queues"])?;
    assert!(shown.contains("flooded"), "{shown}");

    send_line(0)?;
    daemon.until("the multicast has left, too", |now| {
        (frames(queue(now)?.transmitted) == 8 && idle(now)).then_some(())
    })?;
    daemon.stop().map(drop)
}
