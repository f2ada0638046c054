//! Real applications into one port that is too slow for them: with `sluice nic` nothing is lost,
//! without it many frames are.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use testbed::{Endpoint, Process, Snapshot, binary, drops, eventually, port};

use crate::lab::{
    Full, LONG, Lab, NO_DROP_TOS, SENDER_SPEED, Sent, UNBROKEN, attach, broken, count_arrivals, dropped, nic,
    priorities, send, show,
};

/// Results of an incast of datagrams.
#[derive(Debug)]
struct Incast {
    sent: [Sent; 2],
    arrived: u64,
    dropped: u64,
    broken: [(&'static str, u64); 3],
}

impl Incast {
    fn frames(&self) -> u64 {
        self.sent[0].frames + self.sent[1].frames
    }
}

/// Both senders send for ten seconds, as fast as their sockets accept.
fn incast(lab: &Lab, to: &str, tos: u8, full: [Full; 2], is_attached: bool) -> Result<Incast> {
    let senders = &lab.senders; // the bed belongs to one thread
    let (sent, arrived) = count_arrivals(&lab.receiver, |arrived| {
        let sent = both(|number| send(&senders[number], to, tos, full[number], LONG, Duration::ZERO))?;
        lab.at_rest(is_attached)?;
        settled(arrived)?;
        Ok(sent)
    })?;
    let snapshot = lab.at_rest(is_attached)?;
    let incast = Incast { sent, arrived, dropped: dropped(&snapshot)?, broken: broken(&snapshot) };
    println!("    {incast:?}");
    Ok(incast)
}

/// Runs `one` for both senders in parallel.
fn both<T: Send>(one: impl Fn(usize) -> Result<T> + Sync) -> Result<[T; 2]> {
    std::thread::scope(|scope| {
        let second = scope.spawn(|| one(1));
        let first = one(0)?;
        let second = second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok([first, second])
    })
}

/// Waits until a receiver has read everything from its socket.
fn settled(arrived: &AtomicU64) -> Result<()> {
    let mut last = u64::MAX;
    let settled = || {
        std::thread::sleep(Duration::from_millis(300));
        let now = arrived.load(Ordering::Relaxed);
        Ok((std::mem::replace(&mut last, now) == now).then_some(()))
    };
    eventually("everything has arrived", settled)
}

/// Checks a run without losses: every datagram that a socket accepted has arrived, no qdisc dropped
/// anything, the headroom was never exhausted, and pauses slowed the senders down.
fn lossless(lab: &Lab, incast: &Incast) -> Result<()> {
    ensure!(incast.frames() > 1000, "the incast is too small to show anything: {incast:?}");
    assert_eq!(incast.arrived, incast.frames(), "every datagram arrives: {incast:?}");
    assert_eq!(incast.dropped, 0, "{incast:?}");
    assert_eq!(incast.broken, UNBROKEN);
    for sender in &lab.senders {
        let shown = show(&sender.namespace)?;
        assert_eq!(priorities(&shown, "dropped_frames"), [0; 8], "{shown:#}");
        assert!(
            priorities(&shown, "xoff_frames")[3] > 0 && priorities(&shown, "paused_ns")[3] > 0,
            "{shown:#}"
        );
    }
    Ok(())
}

#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn datagrams_of_sockets_that_block_and_of_sockets_that_do_not() -> Result<()> {
    let lab = Lab::new("dscp")?;
    lab.attach("--trust dscp --no-drop 3")?;
    let to = lab.receiver.ipv4();
    let incast = incast(&lab, &to, NO_DROP_TOS, [Full::Block, Full::Again], true)?;
    lossless(&lab, &incast)?;
    assert!(incast.sent[1].full > 0, "the socket that does not block had to wait: {incast:?}");
    lab.daemon.stop()?;
    Ok(())
}

/// The switch itself provides the settings that a host needs.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn the_switch_provides_speed_and_priorities() -> Result<()> {
    let lab = Lab::new("dscp")?;
    let socket = lab.daemon.socket().display().to_string();
    for sender in &lab.senders {
        let output = attach(&sender.namespace, &format!("--switch {socket} --trust dscp"))?;
        let expected =
            format!("eth0 in {} honors PFC for 3 at 100M (trust dscp).\n", sender.namespace.name());
        assert_eq!(output, expected);
    }
    let none = nic(&format!("attach lo --switch {socket}")).unwrap_err().to_string();
    assert!(none.contains("lo is not the other end of any port of the switch"), "{none}");
    lab.daemon.stop()?;
    Ok(())
}

/// With DCBX nothing is no-drop until both ends agree, and nothing is lost from then on. The end of
/// the command withdraws it.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn dcbx_makes_hosts_lossless_as_long_as_it_runs() -> Result<()> {
    let lab = Lab::negotiating("dscp")?;
    let mut commands = Vec::new();
    for sender in &lab.senders {
        let line = format!(
            "nic attach eth0 --netns {} --speed {SENDER_SPEED} --trust dscp --no-drop 5 --dcbx",
            sender.namespace.name()
        );
        let mut command = Process::start("nic", Command::new(binary("sluice")?).args(line.split(' ')))?;
        command.wait_for("nothing is agreed at first", |line| {
            line.contains("eth0 honors no pause (IEEE: no peer with DCBX).").then_some(())
        })?;
        command.wait_for("the agreement", |line| {
            line.contains("eth0 honors pauses of 3 (IEEE: taken over from the peer).").then_some(())
        })?;
        assert_eq!(show(&sender.namespace)?["no_drop"], json!([3]));
        commands.push(command);
    }
    let no_drop = |now: &Snapshot, is_so: bool| {
        lab.senders.iter().all(|it| port(now, &it.name).is_ok_and(|port| port.groups[3].no_drop == is_so))
    };
    lab.daemon.until("the switch has it", |now| no_drop(now, true).then_some(()))?;
    let to = lab.receiver.ipv4();
    let incast = incast(&lab, &to, NO_DROP_TOS, [Full::Block, Full::Again], true)?;
    lossless(&lab, &incast)?;
    for (command, signal) in commands.iter_mut().zip([Signal::SIGINT, Signal::SIGTERM]) {
        command.signal(signal)?;
        ensure!(command.wait(Duration::ZERO)?.success(), "{}", command.log());
        ensure!(command.log().contains("has withdrawn from DCBX and honors no pause"), "{}", command.log());
    }
    lab.daemon.until("nothing is no-drop any more", |now| no_drop(now, false).then_some(()))?;
    for sender in &lab.senders {
        let shown = show(&sender.namespace)?;
        assert_eq!((&shown["obeys"], &shown["no_drop"]), (&json!(true), &json!([])));
    }
    lab.daemon.stop()?;
    Ok(())
}

/// Somebody takes the qdisc off while the command runs: it says so, and withdraws.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn dcbx_ends_with_the_qdisc() -> Result<()> {
    let lab = Lab::negotiating("dscp")?;
    let netns = lab.senders[0].namespace.name().to_owned();
    let line = format!("nic attach eth0 --netns {netns} --speed {SENDER_SPEED} --trust dscp --dcbx --json");
    let mut command = Process::start("nic", Command::new(binary("sluice")?).args(line.split(' ')))?;
    command.wait_for("the agreement", |line| {
        let value: Value = serde_json::from_str(line).ok()?;
        (value["no_drop"] == json!([3]) && value["state"] == "agreed").then_some(())
    })?;
    nic(&format!("detach eth0 --netns {netns}"))?;
    ensure!(command.wait(Duration::ZERO)?.code() == Some(1), "{}", command.log());
    ensure!(command.log().contains("eth0 has lost what `sluice nic attach` put there"), "{}", command.log());
    let name = &lab.senders[0].name;
    lab.daemon.until("the agreement is gone", |now| {
        port(now, name).is_ok_and(|port| !port.groups[3].no_drop).then_some(())
    })?;
    lab.daemon.stop()?;
    Ok(())
}

#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn without_it_datagrams_are_lost() -> Result<()> {
    let lab = Lab::new("dscp")?;
    let to = lab.receiver.ipv4();
    let incast = incast(&lab, &to, NO_DROP_TOS, [Full::Block, Full::Again], false)?;
    assert!(incast.arrived < incast.frames() && incast.dropped > 0, "{incast:?}");
    lab.daemon.stop()?;
    Ok(())
}

/// Best effort beside it, below its share: it loses nothing to the other priority's pauses.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn other_priorities_go_on() -> Result<()> {
    let lab = Lab::new("dscp")?;
    lab.attach("--trust dscp --no-drop 3")?;
    let to = lab.receiver.ipv4();
    let senders = &lab.senders;
    let (sent, arrived) = count_arrivals(&lab.receiver, |arrived| {
        let sent = both(|number| {
            std::thread::scope(|scope| {
                let beside = scope
                    .spawn(|| send(&senders[number], &to, 0, Full::Block, LONG, Duration::from_millis(20)));
                let no_drop = send(&senders[number], &to, NO_DROP_TOS, Full::Block, LONG, Duration::ZERO)?;
                Ok((no_drop, beside.join().expect("a sender")?))
            })
        })?;
        lab.at_rest(true)?;
        settled(arrived)?;
        Ok(sent)
    })?;
    let snapshot = lab.at_rest(true)?;
    println!("    {sent:?}, {arrived} arrived");
    let all: u64 = sent.iter().map(|(no_drop, beside)| no_drop.frames + beside.frames).sum();
    assert_eq!(arrived, all);
    assert_eq!((dropped(&snapshot)?, drops(&snapshot, "tail_drop")), (0, 0));
    for sender in &lab.senders {
        let shown = show(&sender.namespace)?;
        assert!(priorities(&shown, "sent_frames")[0] > 20, "{shown:#}");
        assert_eq!(priorities(&shown, "dropped_frames"), [0; 8], "{shown:#}");
    }
    lab.daemon.stop()?;
    Ok(())
}

/// A VLAN interface on eth0: the tag is held out of band, and its priority applies.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn tagged_frames_with_and_without() -> Result<()> {
    for is_attached in [true, false] {
        let lab = Lab::new("dot1p")?;
        for station in lab.senders.iter().chain([&lab.receiver]) {
            station
                .namespace
                .ip("link add link eth0 name eth0.7 type vlan id 7 egress-qos-map 0:3 3:3 4:3")?;
            station.namespace.ip(&format!("addr add 10.7.0.{}/24 dev eth0.7", station.number))?;
            station.namespace.ip("link set eth0.7 up")?;
        }
        if is_attached {
            lab.attach("--trust dot1p --no-drop 3")?;
        }
        let to = format!("10.7.0.{}", lab.receiver.number);
        let incast = incast(&lab, &to, 0, [Full::Block; 2], is_attached)?;
        if is_attached {
            lossless(&lab, &incast)?;
        } else {
            assert!(incast.arrived < incast.frames() && incast.dropped > 0, "{incast:?}");
        }
        lab.daemon.stop()?;
    }
    Ok(())
}

/// `iperf3`, TCP and then UDP, from both senders at once. The receiver's responses are no-drop,
/// too.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn iperf3_over_tcp_and_udp() -> Result<()> {
    let lab = Lab::new("dscp")?;
    lab.attach("--trust dscp --no-drop 3")?;
    for (options, is_tcp) in [("-t 10", true), ("-t 10 -u -b 0 -l 1400", false)] {
        let mut servers = Vec::new();
        for number in 0..2 {
            let mut server = lab.receiver.namespace.command("iperf3");
            server.args(["-s", "-1", "--forceflush", "-p", &(5201 + number).to_string()]);
            let mut server = Process::start("iperf3", &mut server)?;
            server.wait_for("a server that listens", |line| line.contains("listening").then_some(()))?;
            servers.push(server);
        }
        let (senders, to) = (&lab.senders, lab.receiver.ipv4());
        let output = both(|number| {
            let port = 5201 + number;
            let line =
                format!("iperf3 -c {to} -p {port} {options} -S {NO_DROP_TOS} -J --connect-timeout 30000");
            senders[number].namespace.run(&line)
        })?;
        let snapshot = lab.at_rest(true)?;
        for output in output {
            let end = &serde_json::from_str::<Value>(&output)?["end"];
            let bytes = end["sum_received"]["bytes"].as_u64().or(end["sum"]["bytes"].as_u64());
            let bytes = bytes.context("iperf3 tells what it carried")?;
            println!(
                "    {}: {bytes} bytes, {} retransmits, {} of {} datagrams lost",
                if is_tcp { "TCP" } else { "UDP" },
                end["sum_sent"]["retransmits"],
                end["sum"]["lost_packets"],
                end["sum"]["packets"]
            );
            ensure!(bytes > 1_000_000, "{output}");
        }
        assert_eq!(dropped(&snapshot)?, 0);
        assert_eq!(broken(&snapshot), UNBROKEN);
        for sender in &lab.senders {
            assert_eq!(priorities(&show(&sender.namespace)?, "dropped_frames"), [0; 8], "{}", sender.name);
        }
    }
    lab.daemon.stop()?;
    Ok(())
}

/// A container behind a bridge of its host: the frames are forwarded, not sent by a socket of that
/// host, and the socket in the container waits anyway.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn through_a_bridge_of_the_host() -> Result<()> {
    let lab = Lab::new("dscp")?;
    lab.attach("--trust dscp --no-drop 3")?;
    let host = &lab.senders[0].namespace;
    host.ip("link add br0 type bridge")?;
    host.ip("link set eth0 master br0")?;
    host.ip("link set br0 up")?;
    let (inner, address) = (lab.bed.switch("container")?, "10.0.0.77");
    lab.bed.cable((&inner, Endpoint::INTERFACE), (host, "vc0"))?;
    host.ip("link set vc0 master br0")?;
    inner.ip(&format!("addr add {address}/24 dev eth0"))?;
    let container = Endpoint { namespace: inner, name: "container".into(), number: 77 };
    container.namespace.run(&format!("ping -c 1 -W 20 {}", lab.receiver.ipv4()))?;
    let to = lab.receiver.ipv4();
    let senders = [&container, &lab.senders[1]];
    let (sent, arrived) = count_arrivals(&lab.receiver, |arrived| {
        let sent = both(|number| send(senders[number], &to, NO_DROP_TOS, Full::Block, LONG, Duration::ZERO))?;
        lab.at_rest(true)?;
        settled(arrived)?;
        Ok(sent)
    })?;
    let snapshot = lab.at_rest(true)?;
    println!("    {sent:?}, {arrived} arrived");
    assert_eq!(arrived, sent[0].frames + sent[1].frames);
    assert_eq!(dropped(&snapshot)?, 0);
    lab.daemon.stop()?;
    Ok(())
}
