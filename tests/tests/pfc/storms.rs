//! Storms and deadlocks on real veths: which ones the watchdog detects and ends, and which traffic
//! it leaves alone (docs/watchdog.md). Its times are exact in virtual time
//! (crates/switch/src/pfc/watchdog/tests.rs, crates/sim/tests/example_scenarios.rs); here the
//! daemon uses it.

use std::net::UdpSocket;

use anyhow::{Context, Result, ensure};
use control::v1::Priority;
use testbed::{Daemon, Endpoint, Namespace, Snapshot, Testbed, drops, eventually, idle, port};
use tests::{AMPLE_HEADROOM_CELLS, datagrams, flow, frames, port_config, sluice};
use wire::pause::{FRAME_BYTES, Pfc};
use xdp::PacketSocket;

/// Devices of figures 13 and 19 (docs/references.md, "H3C reference"): each sends to the next.
const RING: [&str; 4] = ["device-c", "device-a", "device-d", "device-b"];
/// Frames of 300 bytes, two cells of 256 each.
const PAYLOAD_BYTES: usize = 300 - 14 - 20 - 8;
/// More frames than the ring holds below XOFF, and fewer than the headroom of one group.
const FRAMES: u64 = 600;

/// Four daemons in a ring, with a host at device C that sends to a host at device D.
struct Ring {
    daemons: Vec<Daemon>,
    socket: UdpSocket,
    receiver: String,
    /// The testbed, which keeps everything alive.
    _bed: Testbed,
}

impl Ring {
    fn new() -> Result<Self> {
        let bed = Testbed::new()?;
        let switches = RING.iter().map(|name| bed.switch(name)).collect::<Result<Vec<Namespace>>>()?;
        let sender = bed.sluice_host(&switches[0], "server1")?;
        let receiver = bed.sluice_host(&switches[2], "server2")?;
        for (number, switch) in switches.iter().enumerate() {
            bed.cable((switch, "port1"), (&switches[(number + 1) % RING.len()], "port2"))?;
        }
        let mut daemons = Vec::new();
        for (name, switch) in RING.iter().zip(&switches) {
            let (server, to) = match *name {
                "device-c" => ("\n[port.server1]\ninterface = \"server1\"\n", "port1"),
                "device-d" => ("\n[port.server2]\ninterface = \"server2\"\n", "server2"),
                _ => ("", "port1"),
            };
            let config = ring_config(name) + server;
            daemons.push(bed.daemon(switch, &route(&config, &receiver.mac(), to))?);
        }
        let socket = datagrams(&sender, &receiver)?;
        Ok(Self { daemons, socket, receiver: receiver.mac(), _bed: bed })
    }

    fn send(&self, count: u64) -> Result<()> {
        let sent = (0..count).try_for_each(|_| self.socket.send(&[0x5a; PAYLOAD_BYTES]).map(drop));
        sent.context("the sender")
    }

    /// Sets the port by which device D sends to the receiver.
    fn set_route(&self, to: &str) -> Result<()> {
        let daemon = &self.daemons[2];
        let text = std::fs::read_to_string(daemon.config())?;
        std::fs::write(daemon.config(), route(&text, &self.receiver, to))?;
        sluice(daemon, &["reload"]).map(drop)
    }

    fn snapshots(&self) -> Result<Vec<Snapshot>> {
        self.daemons.iter().map(Daemon::snapshot).collect()
    }

    /// Waits until each device has paused the previous one for a third of a second without a frame
    /// between them.
    fn until_deadlock(&self) -> Result<()> {
        let state = |now: &Snapshot| -> Result<(bool, u64, u64)> {
            let (out, back) = (port(now, "port1")?, port(now, "port2")?);
            let queue = &out.queues[3];
            Ok((queue.paused && back.groups[3].xoff, frames(out.transmitted), queue.paused_ns))
        };
        let mut since: Vec<(bool, u64, u64)> = Vec::new();
        eventually("a deadlock", || {
            let now = self.snapshots()?.iter().map(state).collect::<Result<Vec<_>>>()?;
            let same = since.len() == now.len()
                && since.iter().zip(&now).all(|(then, now)| now.0 && then.1 == now.1);
            if !same {
                since = now;
                return Ok(None);
            }
            let longer = since.iter().zip(&now).all(|(then, now)| now.2 - then.2 > 333_000_000);
            Ok(longer.then_some(()))
        })
    }
}

fn ring_config(name: &str) -> String {
    let mut config = format!(
        "[switch]\nname = \"{name}\"\n[buffer]\nheadroom_cells = 16384\n[port-defaults]\nport_priority = 3\n\
         [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n\
         [port-defaults.pfc.priority.3]\nxoff = {{ static_cells = 40 }}\nxon_offset_cells = 8\nheadroom_cells = 4096\n"
    );
    for port in ["port1", "port2"] {
        config += &port_config(port, "10M");
    }
    config
}

/// Returns the configuration with the receiver behind this port only.
fn route(config: &str, receiver: &str, to: &str) -> String {
    let entry = format!("static_addresses = [\"{receiver}\"]\n");
    let (header, without) = (format!("[port.{to}]\n"), config.replace(&entry, ""));
    without.replace(&header, &format!("{header}{entry}"))
}

/// The example of figure 19 on a ring of daemons. Without detection the deadlock outlives the loop
/// that caused it. With 50 ms of detection and 700 ms of recovery all frames stuck in it arrive,
/// and the log has the vendor's messages in the documented order.
#[test]
fn detection_ends_a_deadlock_of_four_daemons() -> Result<()> {
    let ring = Ring::new()?;
    let arrived = |count| {
        ring.daemons[2].until("the frames have arrived", |now| {
            (frames(port(now, "server2").ok()?.transmitted) == count).then_some(())
        })
    };
    ring.send(50)?;
    arrived(50)?;
    ring.set_route("port1")?; // the link between device D and server 2 has failed
    ring.send(FRAMES)?;
    ring.until_deadlock()?;
    ring.set_route("server2")?; // it is mended
    ring.until_deadlock()?;
    ensure!(frames(port(&ring.daemons[2].snapshot()?, "server2")?.transmitted) == 50);

    for daemon in &ring.daemons {
        let mut text = std::fs::read_to_string(daemon.config())?;
        text += "\n[pfc.watchdog]\nprecision = \"high\"\naction = \"forward\"\n\
                 priority.3 = { interval = 5, restore_delay = 6, limit = { period_s = 1, count = 10 } }\n";
        std::fs::write(daemon.config(), text)?;
        ensure!(sluice(daemon, &["reload"])?.contains("port.port1: watchdog of priority 3"));
    }
    arrived(50 + FRAMES)?;
    let mut storms = 0;
    for (name, daemon) in RING.iter().zip(&ring.daemons) {
        let now = daemon.until("every storm is over", |now| {
            let priority = &port(now, "port1").ok()?.priorities[3];
            (idle(now) && priority.storms == priority.storms_restored).then(|| now.clone())
        })?;
        storms += port(&now, "port1")?.priorities[3].storms;
        for at in &now.ports {
            let lost = at.drops.values().map(|count| count.frames).sum::<u64>();
            ensure!(lost == 0 && at.kernel_lost_frames == 0, "{name}.{}: {at:?}", at.name);
            ensure!(!at.groups[3].xoff, "{name}.{} is in XOFF", at.name);
        }
    }
    ensure!(storms >= 1, "nobody found a storm");
    for daemon in ring.daemons {
        let found = port(&daemon.snapshot()?, "port1")?.priorities[3].storms;
        let log = daemon.stop()?;
        let reported: Vec<&str> = log
            .lines()
            .filter_map(|line| line.split_once("PFC Deadlock Recovery Event ").map(|(_, rest)| rest))
            .filter_map(|rest| rest.split_once(".Port is port1.").map(|(what, _)| what))
            .collect();
        ensure!(reported == ["Begin", "End"].repeat(found as usize), "{reported:?}\n{log}");
    }
    Ok(())
}

fn priority(snapshot: &Snapshot, name: &str, number: usize) -> Result<Priority> {
    port(snapshot, name)?.priorities.get(number).copied().context("eight priorities")
}

/// A receiver that sends PFC for one priority as fast as it can. That priority of its port is
/// dropped during the storm and works again after it, with a reload in between. Its other no-drop
/// priority, and both on another port, lose nothing and get all their bandwidth.
#[test]
fn a_storm_harms_nothing_else_and_the_queue_works_again() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let [sender, stormy, other] = ["sender", "stormy", "other"].map(|name| bed.sluice_host(&switch, name));
    let (sender, stormy, other) = (sender?, stormy?, other?);
    let mut config = "[switch]\nname = \"under-test\"\n[buffer]\nheadroom_cells = 40960\n\
        [port-defaults]\nport_priority = 7\n[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3, 5]\n\
        [pfc.watchdog]\nprecision = \"high\"\naction = \"drop\"\npriority.3 = { interval = 5, pause_recover = true }\n"
        .to_owned();
    for name in ["sender", "stormy", "other"] {
        config += &port_config(name, "1G");
    }
    for number in [3, 5] {
        // What the sender sends until the storm is detected fits below XOFF: its other flow is not
        // paused with it.
        config += &format!(
            "[port.sender.pfc.priority.{number}]\nxoff = {{ static_cells = 16384 }}\nxon_offset_cells = 2048\n\
             headroom_cells = {AMPLE_HEADROOM_CELLS}\n"
        );
    }
    let daemon = bed.daemon(&switch, &config)?;
    let flows = [(&stormy, 3), (&stormy, 5), (&other, 3), (&other, 5)]
        .map(|(to, priority)| flow(&to.mac(), priority, "20M"));
    let common = ["--speed", "1G", "--no-drop", "3,5"];
    let with = |more: &[&'static str]| [&common[..], more].concat();
    let mut sending = bed.host(&sender, &flows, &with(&["--duration", "10s"]))?;
    let storm = ["--storm", "3", "--duration", "4s", "--wait", "--linger", "600s"];
    let mut storming = bed.host(&stormy, &[], &with(&storm))?;
    let receiving = bed.host(&other, &[], &with(&[]))?;
    daemon.until_announced(3)?;
    sending.start_sending()?;
    storming.start_sending()?;
    daemon.until("a storm", |now| priority(now, "stormy", 3).ok()?.stormed.then_some(()))?;
    let text = std::fs::read_to_string(daemon.config())?;
    std::fs::write(daemon.config(), text.replace("static_cells = 16384", "static_cells = 16000"))?;
    ensure!(sluice(&daemon, &["reload"])?.contains("port.sender: PFC thresholds of priority 3"));
    ensure!(priority(&daemon.snapshot()?, "stormy", 3)?.stormed, "a reload ends no storm");
    let restored = daemon.until("its end", |now| {
        let priority = priority(now, "stormy", 3).ok()?;
        (priority.storms > 0 && !priority.stormed && !priority.paused).then(|| now.clone())
    })?;
    let sent_then = frames(port(&restored, "stormy")?.queues[3].transmitted);
    daemon.until("the queue works again", |now| {
        (frames(port(now, "stormy").ok()?.queues[3].transmitted) > sent_then + 100).then_some(())
    })?;
    eventually("all is sent", || Ok(sending.has_sent_all()?.then_some(())))?;
    let last = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
    let (storming, receiving, sending) = (storming.stop()?, receiving.stop()?, sending.stop()?);

    let dropped = drops(&last, "watchdog");
    ensure!(storming.pfc_sent > 0 && dropped > 0, "{} PFC frames, {dropped} dropped", storming.pfc_sent);
    let received = |report: &host::report::HostReport, priority: u8| -> u64 {
        let flows = report.received.iter().filter(|flow| flow.priority == priority);
        flows.map(|flow| flow.received_frames).sum()
    };
    let lost = testbed::lost_by_kernels(&last, [&storming, &receiving, &sending]);
    for (sent, got) in sending.sent.iter().zip([
        received(&storming, 3) + dropped,
        received(&storming, 5),
        received(&receiving, 3),
        received(&receiving, 5),
    ]) {
        ensure!(sent.sent_frames.abs_diff(got) <= lost, "{got} of {sent:?}, {lost} lost by kernels");
        ensure!(sent.sent_frames * 100 > sent.offered_frames * 95, "as fast as it was to: {sent:?}");
    }
    ensure!(last.ports.iter().all(|port| port.name == "stormy" || port.priorities[3].storms == 0));
    daemon.stop()?;
    Ok(())
}

/// A storm that needs manual recovery: it is reported, and no other watchdog settings are accepted
/// until `sluice pfc recover`. Then storms that are restored automatically, until they reach the
/// limit and PFC is off, until `sluice pfc lift-limit`. One PFC frame pauses for half a minute
/// here, and equals the early-warning rate in a second.
#[test]
fn storms_are_ended_by_hand_and_too_many_turn_pfc_off() -> Result<()> {
    const BY_HAND: &str = "recovery = \"manual\"\npriority.3 = { interval = 1 }\n";
    const LIMITED: &str = "priority.3 = { interval = 1, limit = { period_s = 60, count = 3 } }\n";
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let config = format!(
        "[switch]\nname = \"under-test\"\n[port-defaults]\nport_priority = 3\n\
         [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n[port.a]\ninterface = \"a\"\n[port.b]\ninterface = \"b\"\n\
         [port.b.pfc]\npause_speed = \"1M\"\nearly-warning.priority.3.in_pps = 1\n\
         [pfc.watchdog]\nprecision = \"high\"\n{BY_HAND}"
    );
    let daemon = bed.daemon(&switch, &config)?;
    let reload_with = |watchdog: &str| -> Result<String> {
        let text = std::fs::read_to_string(daemon.config())?;
        std::fs::write(daemon.config(), text.replace(BY_HAND, watchdog))?;
        sluice(&daemon, &["reload"])
    };
    let socket = datagrams(&a, &b)?;
    let packets = b.namespace.enter(|| PacketSocket::open(Endpoint::INTERFACE))??;
    let pause = |quanta: u16| -> Result<()> {
        let mut frame = [0; FRAME_BYTES];
        Pfc { enable: 1 << 3, quanta: [quanta; 8] }.encode(b.mac().parse()?, &mut frame);
        Ok(packets.send(&frame)?)
    };

    pause(u16::MAX)?;
    daemon.until("it is paused", |now| priority(now, "b", 3).ok()?.paused.then_some(()))?;
    socket.send(&[0x5a; PAYLOAD_BYTES])?;
    daemon.until("a storm that waits for a hand", |now| {
        let of_b = priority(now, "b", 3).ok()?;
        (of_b.stormed && of_b.recovery_pending).then_some(())
    })?;
    let refused = reload_with(LIMITED).expect_err("not while a storm waits").to_string();
    ensure!(refused.contains("Please recover PFC deadlock.Port is b."), "{refused}");
    pause(0)?;
    daemon.until("the pause is over", |now| (!priority(now, "b", 3).ok()?.paused).then_some(()))?;
    sluice(&daemon, &["pfc", "recover", "b"])?;
    daemon.until("its end", |now| (!priority(now, "b", 3).ok()?.stormed).then_some(()))?;
    ensure!(reload_with(LIMITED)?.contains("port.b: watchdog of priority 3"));

    pause(u16::MAX)?;
    daemon.until("the limit", |now| {
        socket.send(&[0x5a; PAYLOAD_BYTES]).ok()?;
        priority(now, "b", 3).ok()?.limit_reached.then_some(())
    })?;
    ensure!(sluice(&daemon, &["show", "pfc"])?.contains("PFC is off"));
    sluice(&daemon, &["pfc", "lift-limit", "b", "3"])?;
    daemon.until("PFC again", |now| (!priority(now, "b", 3).ok()?.limit_reached).then_some(()))?;

    let kinds = || -> Result<Vec<String>> {
        let text = sluice(&daemon, &["events", "--json"])?;
        let kind = |line: &str| -> Result<String> {
            let event: serde_json::Value = serde_json::from_str(line)?;
            Ok(event["kind"].as_str().context("a kind")?.to_owned())
        };
        text.lines().map(kind).collect()
    };
    daemon.until("the early warning", |_| {
        (0..5).try_for_each(|_| pause(1)).ok()?;
        kinds().ok()?.iter().any(|kind| kind == "pfc_received_warning").then_some(())
    })?;
    let kinds = kinds()?;
    let of_storms = |kind: &&str| kind.starts_with("storm_") || *kind == "recovery_pending";
    let storms: Vec<&str> = kinds.iter().map(String::as_str).filter(of_storms).collect();
    let by_hand = ["storm_began", "recovery_pending", "storm_ended"];
    let limited = ["storm_began", "storm_ended"].repeat(3);
    ensure!(
        storms[..3] == by_hand && storms[3..9] == limited && storms[9] == "storm_limit_reached",
        "{kinds:?}"
    );
    daemon.stop()?;
    Ok(())
}
