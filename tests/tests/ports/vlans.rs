//! VLANs of ordinary Linux hosts: two switches with a trunk between them, hosts on access ports of
//! both, and one that is itself on a trunk. Hosts in one VLAN use TCP, with no `ethtool` anywhere
//! and with tags added and removed by the switches; hosts in the other VLAN receive none of it.

use std::io::ErrorKind;
use std::net::UdpSocket;

use anyhow::{Context, Result};
use testbed::{Daemon, Endpoint, PATIENCE, Testbed, conservation, idle, port};
use tests::{Capture, Checksums, fetch};
use wire::ethernet::{EXPERIMENTAL, Tag, VLAN, push_tag, write_header};
use wire::mac::MacAddr;
use xdp::PacketSocket;

const FIRST: &str = "
[port-defaults]
port_priority = 5

[port.a]
interface = \"a\"
vlan      = { mode = \"access\", pvid = 10 }

[port.b]
interface = \"b\"
vlan      = { mode = \"access\", pvid = 20 }

[port.d]
interface = \"d\"
vlan      = { mode = \"trunk\", pvid = 20, allowed = \"20\" }

[port.t]
interface = \"t\"
vlan      = { mode = \"trunk\" }

[port.uplink]
interface = \"uplink\"
vlan      = { mode = \"trunk\", allowed = \"10,20\" }
";

const SECOND: &str = "
[port.c]
interface = \"c\"
vlan      = { mode = \"access\", pvid = 10 }

[port.e]
interface = \"e\"
vlan      = { mode = \"access\", pvid = 20 }

[port.downlink]
interface = \"downlink\"
vlan      = { mode = \"trunk\", allowed = \"10,20\" }
";

const BROADCASTS: usize = 20;
const UDP_PORT: u16 = 9999;

fn vlan_filtered(daemon: &Daemon, name: &str) -> Result<u64> {
    Ok(port(&daemon.snapshot()?, name)?.drops["vlan_filtered"].frames)
}

#[test]
fn hosts_talk_inside_their_vlans_and_not_beyond() -> Result<()> {
    let bed = Testbed::new()?;
    let (first_at, second_at) = (bed.switch("first")?, bed.switch("second")?);
    let host = |switch, name, address: &str| -> Result<Endpoint> {
        let host = bed.linux_host_without_addresses(switch, name)?;
        host.namespace.ip(&format!("addr add {address}/24 brd + dev {}", Endpoint::INTERFACE))?;
        Ok(host)
    };
    let a = host(&first_at, "a", "10.0.10.1")?;
    let b = host(&first_at, "b", "10.0.20.2")?;
    let c = host(&second_at, "c", "10.0.10.3")?;
    let d = host(&first_at, "d", "10.0.20.4")?;
    let e = host(&second_at, "e", "10.0.20.5")?;
    let t = bed.linux_host_without_addresses(&first_at, "t")?;
    bed.cable((&first_at, "uplink"), (&second_at, "downlink"))?;
    let first = bed.daemon(&first_at, FIRST)?;
    let second = bed.daemon(&second_at, SECOND)?;
    let trunk = Capture::start(&bed, &t, "inbound")?;

    for (from, to, address) in [
        (&a, &c, "10.0.10.3"), // untagged in, tagged on the way, untagged out
        (&c, &a, "10.0.10.1"),
        (&b, &e, "10.0.20.5"),
        (&e, &d, "10.0.20.4"), // the trunk's own VLAN leaves untagged
        (&d, &b, "10.0.20.2"), // untagged at both ends, without a tag between
    ] {
        fetch(from, to, address.parse()?).with_context(|| format!("{} from {address}", from.name))?;
    }

    broadcasts_stay_in_their_vlan(&a, &c, &[&b, &d, &e])?;
    for daemon in [&first, &second] {
        daemon.until("the switch is at rest", |now| idle(now).then_some(()))?;
    }
    assert!(port(&first.snapshot()?, "a")?.received_broadcast_frames >= BROADCASTS as u64);
    for host in [&a, &b, &c, &d, &e] {
        assert_eq!(Checksums::of(&host.namespace)?.bad, 0, "bad checksums at {}", host.name);
    }
    for (daemon, ports) in [(&first, &["a", "b", "d", "uplink"][..]), (&second, &["c", "e", "downlink"])] {
        for name in ports {
            assert_eq!(vlan_filtered(daemon, name)?, 0, "{name}");
        }
    }
    // On a trunk all frames are tagged, with the priority of their ingress port.
    let tags = trunk.wait_for("udp.dstport == 9999", &["vlan.id", "vlan.priority"], BROADCASTS)?;
    assert_eq!(tags, vec![["10", "5"]; BROADCASTS]);
    let tags = trunk.read("arp.src.proto_ipv4 == 10.0.20.2", &["vlan.id", "vlan.priority"])?;
    assert!(!tags.is_empty() && tags.iter().all(|tag| *tag == ["20", "5"]), "{tags:?}");
    assert!(trunk.read("not vlan", &["frame.protocols"])?.is_empty());

    a_vlan_that_a_port_has_not_is_refused(&first, &d)?;
    for daemon in [first, second] {
        let snapshot = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
        conservation(&snapshot, &[])?;
        daemon.stop()?;
    }
    Ok(())
}

/// Checks that broadcasts of `from` reach `near` once, and no host in `others`.
fn broadcasts_stay_in_their_vlan(from: &Endpoint, near: &Endpoint, others: &[&Endpoint]) -> Result<()> {
    let listen = |host: &Endpoint| -> Result<UdpSocket> {
        Ok(host.namespace.enter(|| UdpSocket::bind(("0.0.0.0", UDP_PORT)))??)
    };
    let receives = listen(near)?;
    let deaf = others.iter().map(|host| listen(host)).collect::<Result<Vec<_>>>()?;
    from.namespace.enter(|| -> Result<()> {
        let socket = UdpSocket::bind(("10.0.10.1", 0))?;
        socket.set_broadcast(true)?;
        for number in 0..BROADCASTS {
            socket.send_to(&[number as u8; 100], ("255.255.255.255", UDP_PORT))?;
        }
        Ok(())
    })??;
    receives.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = [0; 200];
    for number in 0..BROADCASTS {
        let len =
            receives.recv(&mut bytes).with_context(|| format!("{} hears number {number}", near.name))?;
        assert_eq!(bytes[..len], [number as u8; 100]);
    }
    for (ear, host) in deaf.iter().zip(others) {
        ear.set_nonblocking(true)?;
        let received = ear.recv(&mut bytes).map_err(|error| error.kind());
        assert_eq!(received, Err(ErrorKind::WouldBlock), "{} hears what is in another VLAN", host.name);
    }
    Ok(())
}

/// Frames that `host`, on the trunk port with its name, tags with a VLAN that the port does not
/// have are dropped and counted.
fn a_vlan_that_a_port_has_not_is_refused(daemon: &Daemon, host: &Endpoint) -> Result<()> {
    let mut frame = [0; 104];
    write_header(&mut frame, MacAddr::BROADCAST, host.mac().parse()?, None, EXPERIMENTAL);
    push_tag(&mut frame, Tag { tpid: VLAN, pcp: 0, dei: false, vid: 10 });
    let socket = host.namespace.enter(|| PacketSocket::open(Endpoint::INTERFACE))??;
    (0..BROADCASTS).try_for_each(|_| socket.send(&frame))?;
    daemon.until("frames of another VLAN are counted", |now| {
        let refused = port(now, &host.name).ok()?.drops["vlan_filtered"].frames;
        (refused == BROADCASTS as u64).then_some(())
    })
}
