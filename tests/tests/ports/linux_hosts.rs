//! Ordinary Linux hosts on the switch: everything that works on any other bridge works here, with
//! no `ethtool` anywhere. A kernel leaves checksums and tags to the "hardware" of its veth; both
//! must be correct where the frames arrive.

use std::net::UdpSocket;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testbed::{Daemon, Endpoint, Namespace, Process, Snapshot, Testbed, drops, eventually, idle, port};
use tests::{Bpf, Checksums, bpf_object, frames};

/// Creates a switch with two plain hosts, no speed and no PFC: the smallest bridge.
fn two_hosts(bed: &Testbed) -> Result<(Namespace, Endpoint, Endpoint, Daemon)> {
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.linux_host(&switch, "a")?, bed.linux_host(&switch, "b")?);
    let daemon = bed.daemon(&switch, "[port.a]\ninterface = \"a\"\n\n[port.b]\ninterface = \"b\"\n")?;
    Ok((switch, a, b, daemon))
}

/// Checks the switch after plain hosts have exchanged frames: every frame is accounted for, and
/// none was dropped for any reason except those of a bridge.
fn nothing_lost(daemon: &Daemon) -> Result<Snapshot> {
    let snapshot = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
    testbed::conservation(&snapshot, &[])?;
    for reason in ["malformed", "bad_source", "ingress_lossy", "ingress_no_drop", "tail_drop", "no_copy"] {
        assert_eq!(drops(&snapshot, reason), 0, "{reason}: {snapshot:#?}");
    }
    assert!(snapshot.ports.iter().all(|port| port.kernel_lost_frames == 0), "{snapshot:#?}");
    Ok(snapshot)
}

#[test]
fn ping_resolves_addresses_and_answers_over_ipv4_and_ipv6() -> Result<()> {
    let bed = Testbed::new()?;
    let (_, a, b, daemon) = two_hosts(&bed)?;
    for (address, peers) in [(b.ipv4(), "-4 neigh show"), (b.ipv6(), "-6 neigh show")] {
        // Every size: the smallest, one that fills a frame, one that IP must fragment.
        for bytes in ["0", "56", "1400", "4000"] {
            let output = a.namespace.run(&format!("ping -c 3 -i 0.05 -W 5 -s {bytes} {address}"))?;
            assert!(output.contains("3 received"), "{output}");
        }
        let table = a.namespace.ip(peers)?;
        let entry = table.lines().find(|line| line.starts_with(&address)).context("no peer")?;
        assert!(entry.contains(&b.mac()), "found by ARP or peer discovery: {entry}");
    }
    nothing_lost(&daemon)?;
    daemon.stop()?;
    Ok(())
}

#[test]
fn a_dhcp_client_gets_its_address() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (server, client) =
        (bed.linux_host(&switch, "server")?, bed.linux_host_without_addresses(&switch, "client")?);
    let daemon = bed.daemon(
        &switch,
        "[port.server]\ninterface = \"server\"\n\n[port.client]\ninterface = \"client\"\n",
    )?;
    let (dir, eth) = (bed.dir(), Endpoint::INTERFACE);
    let (leases, config, script) = (dir.join("leases"), dir.join("udhcpd.conf"), dir.join("udhcpc.sh"));
    std::fs::write(&leases, "")?;
    std::fs::write(
        &config,
        format!(
            "interface {eth}\nstart 10.0.0.77\nend 10.0.0.77\noption subnet 255.255.255.0\nmax_leases 1\n\
             lease_file {}\npidfile {}\n",
            leases.display(),
            dir.join("udhcpd.pid").display()
        ),
    )?;
    std::fs::write(&script, "#!/bin/sh\n[ \"$1\" != bound ] || ip addr add $ip/$mask dev $interface\n")?;
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;

    let mut udhcpd = server.namespace.command("busybox");
    let mut udhcpd = Process::start("udhcpd", udhcpd.args(["udhcpd", "-f"]).arg(&config))?;
    let run = format!("busybox udhcpc -i {eth} -n -q -f -t 20 -T 1 -s {}", script.display());
    let output = client.namespace.run(&run).with_context(|| udhcpd.log())?;
    let addresses = client.namespace.ip(&format!("-4 addr show dev {eth}"))?;
    assert!(addresses.contains("10.0.0.77/24"), "{output}\n{addresses}\n{}", udhcpd.log());
    assert!(udhcpd.is_running()?);
    nothing_lost(&daemon)?;
    daemon.stop()?;
    Ok(())
}

/// TCP for ten seconds with each IP version, as fast as it goes.
#[test]
fn iperf3_runs_over_ipv4_and_ipv6_without_a_bad_checksum() -> Result<()> {
    let bed = Testbed::new()?;
    let (_, a, b, daemon) = two_hosts(&bed)?;
    for address in [b.ipv4(), b.ipv6()] {
        let mut server = b.namespace.command("iperf3");
        let mut server = Process::start("iperf3", server.args(["-s", "-1", "--forceflush"]))?;
        server.wait_for("a server that listens", |line| line.contains("listening").then_some(()))?;
        let before = Checksums::of(&b.namespace)?;
        let output = a.namespace.run(&format!("iperf3 -c {address} -t 10 -J"))?;
        let after = Checksums::of(&b.namespace)?;
        let end = &serde_json::from_str::<Value>(&output)?["end"];
        let bps = end["sum_received"]["bits_per_second"].as_f64().context("iperf3 tells its rate")?;
        let seconds = end["sum_received"]["seconds"].as_f64().context("iperf3 tells its time")?;
        println!("{address}: {:.0} Mbit/s, {} retransmits", bps / 1e6, end["sum_sent"]["retransmits"]);
        assert!(seconds >= 9.9, "ran for {seconds} s");
        assert_eq!(after.bad - before.bad, 0, "bad checksums at the receiver");
        ensure!(after.segments > before.segments + 10_000, "{before:?} {after:?}");
        for station in [&a, &b] {
            assert_eq!(Checksums::of(&station.namespace)?.bad, 0, "bad checksums at {}", station.name);
        }
    }
    let snapshot = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
    testbed::conservation(&snapshot, &[])?;
    daemon.stop()?;
    Ok(())
}

/// UDP has its own checksums, and a partial one is completed like TCP's.
#[test]
fn udp_arrives_with_its_checksum_completed() -> Result<()> {
    let bed = Testbed::new()?;
    let (_, a, b, daemon) = two_hosts(&bed)?;
    for (from, to) in [(a.ipv4(), b.ipv4()), (a.ipv6(), b.ipv6())] {
        let receiver = b.namespace.enter(|| UdpSocket::bind((to.as_str(), 4000)))??;
        receiver.set_read_timeout(Some(testbed::PATIENCE))?;
        let sender = a.namespace.enter(|| UdpSocket::bind((from.as_str(), 0)))??;
        // Odd and even lengths, and the empty one: the checksum is over 16-bit words.
        for bytes in [0, 1, 2, 17, 18, 19, 1000, 1451, 1452] {
            let payload: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
            sender.send_to(&payload, (to.as_str(), 4000))?;
            let mut buffer = [0; 2000];
            let length = receiver.recv(&mut buffer).with_context(|| format!("{bytes} bytes to {to}"))?;
            assert_eq!(buffer[..length], payload, "{bytes} bytes to {to}");
        }
    }
    assert_eq!(Checksums::of(&b.namespace)?.bad, 0);
    nothing_lost(&daemon)?;
    daemon.stop()?;
    Ok(())
}

/// A host passes the VLAN tag of its frames out of band (as for a driver that inserts it). The tag
/// must be back in the frame before the switch reads the priority from it, and it must arrive.
#[test]
fn a_tag_held_out_of_band_is_put_back_and_counts() -> Result<()> {
    const DATAGRAMS: u64 = 20;
    let bed = Testbed::new()?;
    let (_, a, b, daemon) = two_hosts(&bed)?;
    let before = daemon.snapshot()?;
    let eth = Endpoint::INTERFACE;
    // B has no interface for VLAN 7 and sends no responses, so A needs a permanent neighbor entry.
    a.namespace.ip(&format!("neigh replace {} lladdr {} dev {eth}", b.ipv4(), b.mac()))?;
    let object = bpf_object(&bed, Bpf::VlanPush)?;
    a.namespace.run(&format!("tc qdisc add dev {eth} clsact"))?;
    let filter = format!("tc filter add dev {eth} egress bpf da obj {} sec classifier", object.display());
    a.namespace.run(&filter)?;

    let capture = tests::Capture::start(&bed, &b, "vlan 7")?;
    let sender = a.namespace.enter(|| UdpSocket::bind((a.ipv4().as_str(), 0)))??;
    for number in 0..DATAGRAMS {
        sender.send_to(format!("datagram {number:03}").as_bytes(), (b.ipv4().as_str(), 4000))?;
    }
    let arrived = capture.wait_for(
        "udp.dstport == 4000",
        &["vlan.priority", "vlan.id", "ip.src", "udp.checksum.status", "data.data"],
        DATAGRAMS as usize,
    )?;
    for (number, fields) in arrived.iter().enumerate() {
        let text: String =
            format!("datagram {number:03}").bytes().map(|byte| format!("{byte:02x}")).collect();
        // Checksum status 1: good.
        assert_eq!(*fields, ["5".to_string(), "7".into(), a.ipv4(), "1".into(), text], "datagram {number}");
    }
    let after = nothing_lost(&daemon)?;
    let port_facts = port(&after, "a")?;
    assert!(port_facts.vlan_tags_restored, "{port_facts:?}");
    let in_queues = |snapshot: &Snapshot| -> Result<Vec<u64>> {
        Ok(port(snapshot, "b")?.queues.iter().map(|queue| frames(queue.transmitted)).collect())
    };
    let in_groups = |snapshot: &Snapshot| -> Result<Vec<u64>> {
        Ok(port(snapshot, "a")?.groups.iter().map(|group| frames(group.received)).collect())
    };
    assert!(in_groups(&after)?[5] - in_groups(&before)?[5] >= DATAGRAMS, "received with priority 5");
    assert!(in_queues(&after)?[5] - in_queues(&before)?[5] >= DATAGRAMS, "sent from queue 5");
    for queue in [3, 4, 6, 7] {
        assert_eq!(in_queues(&after)?[queue], 0, "nothing went to queue {queue}");
    }
    daemon.stop()?;
    Ok(())
}

/// A frame to an unknown address is flooded to all other ports; a frame to a known address goes
/// only to its port.
#[test]
fn unknown_addresses_are_flooded_and_known_ones_are_not() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let stations =
        [bed.linux_host(&switch, "a")?, bed.linux_host(&switch, "b")?, bed.linux_host(&switch, "c")?];
    let config: String =
        stations.iter().map(|s| format!("[port.{0}]\ninterface = \"{0}\"\n\n", s.name)).collect();
    let daemon = bed.daemon(&switch, &config)?;
    let [a, b, c] = &stations;
    let capture = tests::Capture::start(&bed, c, "icmp")?;
    // A has a neighbor entry for 10.0.0.99 with an address that no port has sent from.
    a.namespace
        .ip(&format!("neigh replace 10.0.0.99 lladdr 02:00:00:00:00:99 dev {}", Endpoint::INTERFACE))?;
    a.namespace.run(&format!("ping -c 2 -i 0.05 -W 5 {}", b.ipv4()))?;
    let _ = a.namespace.run("ping -c 1 -W 1 10.0.0.99"); // nobody answers
    let seen = capture.wait_for("icmp.type == 8", &["eth.dst", "ip.dst"], 1)?;
    let flooded = vec!["02:00:00:00:00:99".to_string(), "10.0.0.99".to_string()];
    assert_eq!(seen, vec![flooded], "C saw the unknown one, and no ping between A and B");
    eventually("the switch is at rest", || Ok(idle(&daemon.snapshot()?).then_some(())))?;
    let snapshot = nothing_lost(&daemon)?;
    assert!(snapshot.flood_copies > 0);
    daemon.stop()?;
    Ok(())
}
